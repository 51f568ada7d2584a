"""Path memory and path statistics as device arrays: M and "similarity to the training requests that used the tool".

It is there twice: as BM25 on tool documents extended by those requests, the strongest simple baseline, and as kernel
ridge regression of "request calls tool" on the TF-IDF cosine of request texts. Both are one weight per word and tool,
so that a request reads its memory with one gather. On inner folds of TRAJECT-Bench the regression ranks the used tools
better than the largest similarity does, and the two together better than either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve
from scipy.sparse import csr_array

from spm_jax.data.paths import Gold, PathStatistics, path_statistics
from spm_jax.device_library import IndexedLibrary, bucket
from spm_jax.text.documents import content_words, tool_document
from spm_jax.text.lexical import K1, B
from spm_jax.types import Memory

NEIGHBOURS = 32


class MemoryBuilder:
    """Builds the Memory of any subset of R training requests, all in the same shapes: one trace serves every subset.

    The shapes are buckets, so one trace also serves other training data and libraries of the same buckets.
    """

    def __init__(
        self,
        indexed: IndexedLibrary,
        texts: Sequence[str],
        golds: Sequence[Gold],
        groups: Sequence[str],
        tools: np.ndarray,
        ridge: float,
        ordered: Sequence[bool] | None = None,
    ) -> None:
        """``tools`` int [U] are the used tools (every gold one), ``ridge`` is the penalty of path memory (above 0).

        ``ordered`` [R]: whether the order of a chain is known (None: of all). Without the signal "precedence" of
        ``indexed`` no order counts, without "memory" no text.
        """
        if "memory" in indexed.off:
            texts = [""] * len(texts)
        if "precedence" in indexed.off:
            ordered = [False] * len(texts)
        self.golds, self.groups, self.tools, self.ridge = list(golds), list(groups), tools, ridge
        self.ordered = [True] * len(self.golds) if ordered is None else list(ordered)
        vocabulary = indexed.vocabulary
        counts = vocabulary.count([content_words(text) for text in texts])
        # Documents to be extended leave the inputs out: what says how to call a tool would drown what requests say.
        texts_of_tools = [tool_document(indexed.library[int(tool)], inputs=False) for tool in tools]
        documents = vocabulary.count([content_words(text) for text in texts_of_tools])
        used = np.union1d(counts.indices, documents.indices)
        self.idf = vocabulary.idf[used]
        self.word_row = np.full(bucket(len(vocabulary)), -1, np.int32)
        self.word_row[used] = np.arange(len(used))
        self.tfidf = vocabulary.tfidf(counts)[:, used]  # [R, words in use]
        self.counts, self.documents = counts[:, used], documents[:, used]  # [R, words in use], [U, words in use]
        self.slot = np.full(len(indexed.arrays.valid), -1, np.int32)
        self.slot[tools] = np.arange(len(tools))
        self.calls = np.zeros((len(texts), bucket(len(tools))), np.float32)  # [R, U]
        for request, gold in enumerate(golds):
            for alternatives in gold:
                self.calls[request, self.slot[list(alternatives)]] = 1
        self.pairs = len(path_statistics(self.golds, self.groups, tools).before)

    def build(self, excluded: frozenset[str] = frozenset(), *, recall: bool = True) -> Memory:
        """The Memory of the requests whose group is not ``excluded``; no weights of words where ``recall`` is false."""
        kept = np.array([group not in excluded for group in self.groups], bool)
        rows = np.flatnonzero(kept)
        golds, groups, ordered = ([column[r] for r in rows] for column in (self.golds, self.groups, self.ordered))
        statistics = path_statistics(golds, groups, self.tools, ordered)
        rows = rows if recall else rows[:0]
        return self._arrays(statistics, self._recall(rows), self._extended(rows))

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

    def _extended(self, rows: np.ndarray) -> np.ndarray:
        """BM25 impacts [words, U] of the used tools' documents, each extended by the requests ``rows`` that call it."""
        words = self.tfidf.shape[1]
        weights = np.zeros((bucket(words), self.calls.shape[1]), np.float32)
        if len(rows) and words:
            calls = self.calls[rows, : len(self.tools)]
            count = (self.documents + csr_array(calls.T) @ self.counts[rows]).toarray()
            length = self.documents.sum(axis=1)[calls.any(axis=0)]  # of those that these requests call
            mean = max(float(length.mean()), 1.0) if len(length) else 1.0
            norm = K1 * (1 - B + B * count.sum(axis=1, keepdims=True) / mean)
            weights[:words, : len(self.tools)] = (self.idf * count / (count + norm)).T
        return weights

    def _arrays(self, m: PathStatistics, recall: np.ndarray, extended: np.ndarray) -> Memory:
        slots = self.calls.shape[1]
        room = bucket(self.pairs)
        length = np.bincount(m.before, minlength=slots)
        neighbour, weight = _neighbours(m, slots)
        return Memory(
            slot=self.slot,
            tool=_padded(self.tools, slots, -1),
            calls=_padded(m.in_order, slots),
            groups=_padded(m.groups, slots),
            first=_padded(m.first, slots),
            pair_start=(np.cumsum(length) - length).astype(np.int32),
            pair_length=length.astype(np.int32),
            pair=_padded(m.after, room, -1),
            precedes=_padded(m.precedes, room),
            follows=_padded(m.follows, room),
            neighbour=neighbour,
            neighbour_weight=weight,
            word_row=self.word_row,
            recall=recall,
            extended=extended,
        )


def _padded(values: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
    """``values`` as int32 or float32 [size], ``fill`` behind them."""
    kind = np.int32 if values.dtype.kind == "i" else np.float32
    return np.concatenate([values.astype(kind), np.full(size - len(values), fill, kind)])


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
