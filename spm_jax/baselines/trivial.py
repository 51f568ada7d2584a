"""Two floors: no knowledge at all, and which tools training requests used."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from spm_jax.baselines.scored import Scored
from spm_jax.data.schema import Library, Request


def fit_random(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """Tools in an order drawn uniformly for each request; the draw depends on the seed, the request's id and text."""

    def score(request: Request) -> np.ndarray:
        digest = hashlib.sha256(f"{seed}\n{request.id}\n{request.text}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little")).random(len(library))

    return Scored("Random", score)


def fit_popularity(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """Tools by the number of training requests that called them, the same menu for every request.

    Interchangeable listings share one call equally, so that two listings of one tool do not count twice.
    """
    counts = np.zeros(len(library))
    for request in train_requests:
        for tools in library.gold(request):
            counts[list(tools)] += 1 / len(tools)
    return Scored("Popularity", lambda request: counts)
