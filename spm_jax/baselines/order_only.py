"""Order-only: the tools are BM25's, only their order changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spm_jax.baselines.lexical import Postings, library_postings
from spm_jax.baselines.scored import top
from spm_jax.data.schema import DataError, Library, Request

MENU = 32  # tools that are put in order; what a longer menu holds beyond them keeps BM25's order

Order = Callable[[Request, np.ndarray], np.ndarray]  # (request, tool ids, best first) -> the same ids in a new order


@dataclass(frozen=True)
class OrderOnly:
    """BM25's first k tools, the first 32 of them in the order that ``order`` gives them."""

    documents: Postings
    order: Order
    name: str = "Order-only"

    def build(self, request: Request, k: int) -> np.ndarray:
        """int [min(k, N)]. Raises DataError if ``order`` returns other tools than it was given."""
        ranked = top(self.documents.scores(request.text), k)
        tools, rest = ranked[:MENU], ranked[MENU:]
        ordered = np.asarray(self.order(request, tools), np.int64)
        if sorted(ordered.tolist()) != sorted(tools.tolist()):
            raise DataError(f"order-only: the order of request {request.id!r} is no permutation of BM25's {len(tools)}")
        return np.concatenate([ordered, rest])


def precedence_order(library: Library, train_requests: Sequence[Request]) -> Order:
    """Sort by the mean path precedence rho_ij (method.md section 2) of a tool over the others; ties keep order."""
    before: Counter[tuple[int, int]] = Counter()
    for request in train_requests:
        gold = library.gold(request) if request.trajectory.ordered else ()
        for position, tools in enumerate(gold):
            before.update({(i, j) for later in gold[position + 1 :] for i in tools for j in later if i != j})

    def order(request: Request, tools: np.ndarray) -> np.ndarray:
        ids = tools.tolist()
        rho = [sum(np.log((before[i, j] + 1) / (before[j, i] + 1)) for j in ids if j != i) for i in ids]
        return tools[np.argsort(-np.asarray(rho, np.float64), kind="stable")]

    return order


def fit_order_only(
    library: Library, train_requests: Sequence[Request], seed: int = 0, order: Order | None = None
) -> OrderOnly:
    """BM25's menu reordered by ``order`` (for State-Path's own order, its reranker), by default by path precedence."""
    order = precedence_order(library, train_requests) if order is None else order
    return OrderOnly(library_postings(library), order)
