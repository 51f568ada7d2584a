"""ToolRerank (Zheng et al., LREC-COLING 2024, arXiv 2403.06551): adaptive truncation and hierarchy-aware reranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spm_jax.baselines.dense import Space, dense_space
from spm_jax.baselines.lexical import Postings, build_postings, extended_postings, family_numbers
from spm_jax.baselines.scored import top
from spm_jax.data.schema import Library, Request
from spm_jax.text.documents import content_words

DEPTH = 256  # of the retrieval that is truncated
SEEN, UNSEEN = 128, 64  # ranks that a tool may have: tools that training used are retrieved too eagerly, others not
ALIKE = 0.8  # cosine from which on two tools stand for the same need
NEAREST = 5  # training requests that say whether a request needs one family or several


@dataclass(frozen=True)
class ToolRerank:
    """Truncates by seen and unseen, then puts one family first, or the best of every group of similar tools."""

    postings: Postings
    requests: Postings
    space: Space
    family: np.ndarray  # int [N]
    seen: np.ndarray  # bool [N]
    several: np.ndarray  # bool [R]: the training request called more than one family
    name: str

    def build(self, request: Request, k: int) -> np.ndarray:
        """int [min(k, N)]."""
        scores = self.postings.scores(request.text)
        ranked = top(scores, max(k, DEPTH))
        rank = np.arange(len(ranked))
        kept = rank < np.where(self.seen[ranked], SEEN, UNSEEN)
        head, tail = ranked[kept], ranked[~kept]
        head = self._diverse(head) if self._needs_several(request) else self._concentrated(head)
        return np.concatenate([head, tail])[: min(k, len(scores))]

    def _needs_several(self, request: Request) -> bool:
        nearest = top(self.requests.scores(request.text), NEAREST) if len(self.several) else np.zeros(0, np.int64)
        return bool(len(nearest) == 0 or self.several[nearest].mean() > 0.5)

    def _concentrated(self, tools: np.ndarray) -> np.ndarray:
        """Families in the order of their best tool, each as a whole."""
        best: dict[int, int] = {}
        for tool in tools:
            best.setdefault(int(self.family[tool]), len(best))
        return tools[np.argsort([best[int(self.family[tool])] for tool in tools], kind="stable")]

    def _diverse(self, tools: np.ndarray) -> np.ndarray:
        """The best of every group of similar tools, then the second of each, and so on."""
        vectors = self.space.tools[tools]
        leader = np.zeros(len(tools), int)
        place = np.zeros(len(tools), int)
        leaders: list[int] = []
        for n in range(len(tools)):
            close = vectors[leaders] @ vectors[n] if leaders else np.zeros(0)
            if len(close) and close.max() >= ALIKE:
                leader[n] = leaders[int(close.argmax())]
                place[n] = np.sum(leader[:n] == leader[n])
            else:
                leader[n] = n
                leaders.append(n)
        return tools[np.argsort(place, kind="stable")]


def fit_toolrerank(library: Library, train_requests: Sequence[Request], seed: int = 0) -> ToolRerank:
    """Over BM25 with documents extended by training requests.

    Simplified: the paper scores with a trained bi-encoder and cross-encoder and classifies requests with a trained
    model; here extended BM25 scores, and the nearest training requests say whether one family is enough.
    """
    family = family_numbers(library)
    seen, several = np.zeros(len(library), bool), []
    for request in train_requests:
        tools = [tool for listing in library.gold(request) for tool in listing]
        seen[tools] = True
        several.append(len(set(family[tools].tolist())) > 1)
    space = dense_space(library, seed)
    return ToolRerank(
        extended_postings(library, train_requests),
        build_postings([content_words(request.text) for request in train_requests]),
        space,
        family,
        seen,
        np.array(several, bool),
        f"ToolRerank ({space.name})",
    )
