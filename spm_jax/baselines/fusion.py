"""Lexical and dense retrieval together: reciprocal ranks, summed scores, maximal marginal relevance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spm_jax.baselines.dense import Space, dense_space
from spm_jax.baselines.lexical import Postings, library_postings
from spm_jax.baselines.scored import Scored, top
from spm_jax.data.schema import Library, Request

RANK_CONSTANT = 60  # of reciprocal ranks, the value of the paper
DEPTH = 1000  # ranks that are fused
RELEVANCE = 0.7  # lambda of maximal marginal relevance: relevance against novelty
POOL = 256  # tools that maximal marginal relevance chooses from


def ranked_above(scores: np.ndarray) -> np.ndarray:
    """float64 [N]: 1 / (60 + rank) for the best 1,000, ranks from 1; 0 for the others."""
    out = np.zeros(len(scores))
    best = top(scores, DEPTH)
    out[best] = 1 / (RANK_CONSTANT + 1 + np.arange(len(best)))
    return out


def fit_reciprocal_ranks(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """Reciprocal-rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009) of BM25 and dense ranks; no training data."""
    postings, space = library_postings(library), dense_space(library, seed)

    def score(request: Request) -> np.ndarray:
        return ranked_above(postings.scores(request.text)) + ranked_above(space.scores(request.text))

    return Scored(f"BM25 + {space.name}, reciprocal ranks", score)


def relevance(postings: Postings, space: Space, text: str) -> np.ndarray:
    """float64 [N]: BM25 over its maximum plus the cosine over its maximum."""
    lexical, dense = postings.scores(text).astype(np.float64), space.scores(text).astype(np.float64)
    return lexical / max(lexical.max(initial=0.0), 1e-9) + dense / max(dense.max(initial=0.0), 1e-9)


def fit_fused(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """BM25 and dense scores, each over its maximum, summed; no training data."""
    postings, space = library_postings(library), dense_space(library, seed)
    return Scored(f"BM25 + {space.name}", lambda request: relevance(postings, space, request.text))


@dataclass(frozen=True)
class MarginalRelevance:
    """Greedy: the tool with the best lambda * relevance - (1 - lambda) * its largest cosine to a picked tool."""

    postings: Postings
    space: Space
    name: str

    def build(self, request: Request, k: int) -> np.ndarray:
        """int [min(k, N)]."""
        scores = relevance(self.postings, self.space, request.text)
        ranked = top(scores, max(k, POOL))
        worth = RELEVANCE * scores[ranked] / 2
        closest = np.zeros(len(ranked))
        free = np.ones(len(ranked), bool)
        picked: list[int] = []
        for _ in range(min(k, len(ranked))):
            value = np.where(free, worth - (1 - RELEVANCE) * closest, -np.inf)
            best = int(np.argmax(value))
            picked.append(int(ranked[best]))
            free[best] = False
            closest = np.maximum(closest, self.space.tools[ranked] @ self.space.tools[ranked[best]])
        return np.array(picked, np.int64)


def fit_marginal_relevance(
    library: Library, train_requests: Sequence[Request], seed: int = 0
) -> MarginalRelevance:
    """Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998) over the fused scores; no training data."""
    space = dense_space(library, seed)
    return MarginalRelevance(library_postings(library), space, f"BM25 + {space.name}, marginal relevance")
