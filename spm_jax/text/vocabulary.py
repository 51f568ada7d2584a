"""Words as integers: the vocabulary of a library and the word counts of texts as one sparse array.

It is fitted on the library alone, never on requests, so that nothing of a training request can reach another through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spm_jax.text.documents import content_words


@dataclass(frozen=True)
class Counts:
    """Word counts of D texts in rows: text d holds words ``word[start[d]:start[d + 1]]``, each ``count`` times."""

    start: np.ndarray  # int64 [D + 1]
    word: np.ndarray  # int32 [P], ascending within a text
    count: np.ndarray  # float32 [P]

    @property
    def row(self) -> np.ndarray:
        """int32 [P]: the text of each entry."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    def sums(self, values: np.ndarray) -> np.ndarray:
        """float64 [D]: the sum of ``values`` [P] by text."""
        return np.bincount(self.row, weights=values, minlength=len(self.start) - 1)


@dataclass(frozen=True)
class Vocabulary:
    """The words of a library's documents with the inverse document frequency of each (BM25's, always above 0)."""

    words: tuple[str, ...]  # sorted
    idf: np.ndarray  # float32 [words]

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def count(self, texts: Iterable[Sequence[str]]) -> Counts:
        """Counts of tokenised ``texts``; words outside the vocabulary are dropped."""
        start, words, counts = [0], [], []
        for text in texts:
            found = Counter(self.index[word] for word in text if word in self.index)
            for word in sorted(found):
                words.append(word)
                counts.append(found[word])
            start.append(len(words))
        return Counts(np.array(start, np.int64), np.array(words, np.int32), np.array(counts, np.float32))

    def tfidf(self, counts: Counts) -> np.ndarray:
        """float32 [P]: (1 + log count) idf, each text scaled to length 1."""
        weight = (1 + np.log(counts.count)) * self.idf[counts.word]
        length = np.sqrt(counts.sums(weight**2))
        return (weight / np.maximum(length, 1e-9)[counts.row]).astype(np.float32)


def build_vocabulary(documents: Sequence[Sequence[str]]) -> Vocabulary:
    """The vocabulary of tokenised documents; idf = log(1 + (D - df + 0.5) / (df + 0.5))."""
    frequency: Counter[str] = Counter()
    for words in documents:
        frequency.update(set(words))
    words = tuple(sorted(frequency))
    df = np.array([frequency[word] for word in words], np.float64)
    return Vocabulary(words, np.log1p((len(documents) - df + 0.5) / (df + 0.5)).astype(np.float32))


def request_words(vocabulary: Vocabulary, text: str, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The words of a request as the program takes them: int32 [width] ids (-1 = none) and float32 [width] counts.

    Of a text with more distinct known words, the ``width`` rarest are kept (highest idf; ties by id).
    """
    counts = vocabulary.count([content_words(text)])
    kept = np.sort(np.lexsort((counts.word, -vocabulary.idf[counts.word]))[:width])
    ids = np.full(width, -1, np.int32)
    number = np.zeros(width, np.float32)
    ids[: len(kept)] = counts.word[kept]
    number[: len(kept)] = counts.count[kept]
    return ids, number
