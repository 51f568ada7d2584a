"""kNN over training requests: the tools that the most similar training requests called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spm_jax.baselines.lexical import build_postings, library_postings
from spm_jax.baselines.scored import Scored, top
from spm_jax.data.schema import Library, Request
from spm_jax.text.documents import content_words

NEIGHBOURS = 20


def unit(scores: np.ndarray) -> np.ndarray:
    """``scores`` [N] divided by their maximum, so that the best has 1; unchanged where nothing is above 0."""
    best = scores.max(initial=0.0)
    return scores / best if best > 0 else scores


def fit_knn(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """Tools by the summed similarity of the 20 nearest training requests that called them.

    The similarity is BM25 between request texts, relative to the nearest one. Among tools of equal support, and after
    the last supported one, plain BM25 decides (its part of the score is too small to overrule a neighbour). Simplified
    against retrieval of whole demonstrations: a neighbour's tools are taken without their order.
    """
    gold = [library.gold(request) for request in train_requests]
    documents = library_postings(library)
    postings = build_postings([content_words(request.text) for request in train_requests])

    def score(request: Request) -> np.ndarray:
        total = 1e-3 * unit(documents.scores(request.text).astype(np.float64))
        similarity = unit(postings.scores(request.text).astype(np.float64))
        for neighbour in top(similarity, NEIGHBOURS):
            for tools in gold[neighbour]:
                total[list(tools)] += similarity[neighbour]
        return total

    return Scored("kNN over training requests", score)
