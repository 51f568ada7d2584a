"""Path memory and path statistics as device arrays: M and "similarity to the training requests that used the tool".

The similarity is kernel ridge regression of "request calls tool" on the TF-IDF cosine of request texts. Its dual
weights are folded into one weight per word and tool, so that a request reads its memory with one gather. Measured on
inner folds of TRAJECT-Bench it ranks the used tools better than the largest similarity does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve

from spm_jax.data.paths import Gold, PathStatistics, path_statistics
from spm_jax.device_library import bucket
from spm_jax.text.documents import content_words
from spm_jax.text.vocabulary import Vocabulary
from spm_jax.types import Memory

NEIGHBOURS = 32
PADDING = np.iinfo(np.int32).max


class MemoryBuilder:
    """Builds the Memory of any subset of R training requests, all in the same shapes: one trace serves every subset.

    The shapes are buckets, so one trace also serves other training data and libraries of the same buckets.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        texts: Sequence[str],
        golds: Sequence[Gold],
        groups: Sequence[str],
        tools: np.ndarray,
        size: int,
        ridge: float,
    ) -> None:
        """``tools`` int [U] are the used tools, ``size`` is the padded N, ``ridge`` the penalty (above 0)."""
        self.golds, self.groups, self.tools, self.ridge = list(golds), list(groups), tools, ridge
        tfidf = vocabulary.tfidf(vocabulary.count([content_words(text) for text in texts]))
        used = np.unique(tfidf.indices)
        self.word_row = np.full(bucket(len(vocabulary)), -1, np.int32)
        self.word_row[used] = np.arange(len(used))
        self.tfidf = tfidf[:, used]  # [R, words in use]
        self.slot = np.full(size, -1, np.int32)
        self.slot[tools] = np.arange(len(tools))
        self.calls = np.zeros((len(texts), bucket(len(tools))), np.float32)  # [R, U]
        for request, gold in enumerate(golds):
            for alternatives in gold:
                self.calls[request, self.slot[list(alternatives)]] = 1
        self.pairs = len(path_statistics(self.golds, self.groups, tools).before)

    def build(self, excluded: frozenset[str] = frozenset(), *, recall: bool = True) -> Memory:
        """The Memory of the requests whose group is not ``excluded``; without path memory where ``recall`` is false."""
        kept = np.array([group not in excluded for group in self.groups], bool)
        rows = np.flatnonzero(kept)
        statistics = path_statistics([self.golds[r] for r in rows], [self.groups[r] for r in rows], self.tools)
        return self._arrays(statistics, self._recall(rows if recall else rows[:0]))

    def _recall(self, rows: np.ndarray) -> np.ndarray:
        words = self.tfidf.shape[1]
        weights = np.zeros((bucket(words), self.calls.shape[1]), np.float32)
        if len(rows) and words:
            tfidf = self.tfidf[rows]
            gram = (tfidf @ tfidf.T).toarray().astype(np.float64)
            gram[np.diag_indices_from(gram)] += self.ridge
            dual = solve(gram, self.calls[rows].astype(np.float64), assume_a="pos", overwrite_a=True)
            weights[:words] = tfidf.T @ dual.astype(np.float32)
        return weights

    def _arrays(self, m: PathStatistics, recall: np.ndarray) -> Memory:
        slots = self.calls.shape[1]
        if slots**2 > PADDING:
            raise ValueError(f"room for {slots} used tools: pairs of more than 46,340 do not fit in 32 bits")
        pair = np.full(bucket(self.pairs), PADDING, np.int32)
        pair[: len(m.before)] = m.before * slots + m.after
        neighbour, weight = _neighbours(m, slots)
        return Memory(
            slot=self.slot,
            calls=_padded(m.calls, slots),
            groups=_padded(m.groups, slots),
            first=_padded(m.first, slots),
            pair=pair,
            precedes=_padded(m.precedes, len(pair)),
            follows=_padded(m.follows, len(pair)),
            neighbour=neighbour,
            neighbour_weight=weight,
            word_row=self.word_row,
            recall=recall,
        )


def _padded(values: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros(size, np.float32)
    out[: len(values)] = values
    return out


def _neighbours(m: PathStatistics, slots: int) -> tuple[np.ndarray, np.ndarray]:
    """The 32 tools that share most groups with each used tool (ties by slot), and the share of its groups [U, 32].

    The divisor is the number of groups + 0.5: a tool seen once says less of its neighbours than one seen often.
    """
    neighbour = np.full((slots, NEIGHBOURS), -1, np.int32)
    weight = np.zeros((slots, NEIGHBOURS), np.float32)
    order = np.lexsort((m.after, -m.together, m.before))
    before = m.before[order]
    rank = np.arange(len(order)) - np.searchsorted(before, before)
    kept = rank < NEIGHBOURS
    before, rank, order = before[kept], rank[kept], order[kept]
    neighbour[before, rank] = m.after[order]
    weight[before, rank] = m.together[order] / (m.groups[before] + 0.5)
    return neighbour, weight
