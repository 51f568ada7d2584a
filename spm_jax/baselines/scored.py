"""A menu constructor from a score per tool, and the top of a score vector with stable ties."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from spm_jax.data.schema import Request


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """int [min(k, N)]: the ids of the best ``scores`` [N], best first; equal scores in library order."""
    k = min(k, len(scores))
    if k <= 0:
        return np.zeros(0, np.int64)
    bar = np.partition(scores, len(scores) - k)[len(scores) - k]
    kept = np.nonzero(scores >= bar)[0]
    return kept[np.argsort(-scores[kept], kind="stable")][:k].astype(np.int64)


def filled(menu: Iterable[int], scores: np.ndarray, k: int) -> np.ndarray:
    """int [min(k, N)]: ``menu`` without repeats, then the best of the others by ``scores`` [N], cut at k."""
    whole = dict.fromkeys(menu)
    whole.update(dict.fromkeys(top(scores, k + len(whole)).tolist()))
    return np.fromiter(whole, np.int64)[:k]


@dataclass(frozen=True)
class Scored:
    """The MenuConstructor that sorts the library by ``score(request)`` [N]."""

    name: str
    score: Callable[[Request], np.ndarray]

    def build(self, request: Request, k: int) -> np.ndarray:
        """The ``min(k, N)`` best tools, best first; ties in library order."""
        return top(self.score(request), k)
