"""Tool2Vec (Moon et al. 2024, arXiv 2409.02141): a tool is the mean embedding of the requests that used it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spm_jax.baselines.dense import dense_space
from spm_jax.baselines.scored import Scored
from spm_jax.data.schema import Library, Request
from spm_jax.text.lsa import normalised


def request_vectors(
    library: Library, train_requests: Sequence[Request], vectors: np.ndarray, tools: np.ndarray
) -> np.ndarray:
    """float32 [N, E]: ``tools`` with the rows of used tools replaced by the mean of their requests' ``vectors``."""
    total, count = np.zeros_like(tools), np.zeros(len(tools), np.float32)
    for request, vector in zip(train_requests, vectors):
        for tool in {tool for listing in library.gold(request) for tool in listing}:
            total[tool] += vector
            count[tool] += 1
    used = (count > 0)[:, None]
    return np.where(used, normalised(total), tools)


def fit_tool2vec(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """Cosine of the request and the tool's mean training request; a tool without one keeps its document's vector.

    Simplified: the encoder is frozen, and the paper's second stage (a trained classifier over the best) is left out.
    """
    space = dense_space(library, seed)
    vectors = space.encode([r.text for r in train_requests]) if train_requests else np.zeros((0, space.tools.shape[1]))
    tools = request_vectors(library, train_requests, vectors, space.tools)
    return Scored(f"Tool2Vec ({space.name})", lambda request: tools @ space.encode([request.text])[0])
