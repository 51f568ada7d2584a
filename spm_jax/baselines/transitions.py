"""Transition walk: follow the transitions of training paths, in the manner of AutoTool."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spm_jax.baselines.lexical import Postings, library_postings
from spm_jax.baselines.memory import unit
from spm_jax.baselines.scored import filled
from spm_jax.data.schema import Library, Request

CONTEXT = 0.5  # alpha: weight of the request's text against the frequency of the transition
START = -1  # the node before the first call


@dataclass(frozen=True)
class TransitionWalk:
    """Walks the graph of training transitions; ``edges[i]`` counts which tools followed tool i."""

    documents: Postings
    edges: dict[int, Counter[int]]
    name: str = "Transition walk"

    def build(self, request: Request, k: int) -> np.ndarray:
        """int [min(k, N)]: greedy walk; where a node has no unvisited successor, the walk starts again from START."""
        text = unit(self.documents.scores(request.text).astype(np.float64))
        menu: dict[int, None] = {}
        current = START
        while len(menu) < k:
            following = self._next(current, text, menu)
            if following is None and current == START:
                break
            current = START if following is None else following
            if following is not None:
                menu[following] = None
        return filled(menu, text, k)

    def _next(self, current: int, text: np.ndarray, menu: dict[int, None]) -> int | None:
        counts = self.edges.get(current, Counter())
        most = max(counts.values(), default=1)
        scored = [
            (CONTEXT * text[tool] + (1 - CONTEXT) * count / most, -tool)
            for tool, count in counts.items()
            if tool not in menu
        ]
        return -max(scored)[1] if scored else None


def fit_transition_walk(library: Library, train_requests: Sequence[Request], seed: int = 0) -> TransitionWalk:
    """AutoTool's tool inertia graph (Jia and Li, AAAI 2026, arXiv 2511.14650) walked without an LLM.

    The next tool maximises (1 - alpha) frequency + alpha context, the paper's inertia potential, over the tools that
    followed the current one in training. Simplified: the context score is BM25 of the request against the tool (the
    paper compares the agent's thought); a window of one call; no parameter graph; edges are not updated from execution.
    The paper falls back to the LLM where the graph knows nothing: here the walk restarts at the first calls, and BM25
    fills what is left. A listing that is interchangeable with others is represented by the first one.
    """
    edges: dict[int, Counter[int]] = defaultdict(Counter)
    for request in train_requests:
        if not request.trajectory.ordered:
            continue
        path = [START, *(tools[0] for tools in library.gold(request))]
        for before, after in pairwise(path):
            edges[before][after] += 1
    return TransitionWalk(library_postings(library), dict(edges))
