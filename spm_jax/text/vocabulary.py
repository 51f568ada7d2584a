"""Words as integers: the vocabulary of a library, and texts as sparse rows of word counts.

It is fitted on the library alone, never on requests: nothing of a training request can reach another through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from spm_jax.text.documents import content_words


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

    def count(self, texts: Iterable[Sequence[str]]) -> csr_array:
        """float32 [texts, words]: how often each word stands in each tokenised text; other words are dropped."""
        start, words, counts = [0], [], []
        for text in texts:
            found = Counter(self.index[word] for word in text if word in self.index)
            for word in sorted(found):
                words.append(word)
                counts.append(found[word])
            start.append(len(words))
        arrays = np.array(counts, np.float32), np.array(words, np.int32), np.array(start, np.int32)
        return csr_array(arrays, shape=(len(start) - 1, len(self)))

    def tfidf(self, counts: csr_array) -> csr_array:
        """(1 + log count) idf, each text scaled to length 1 (a text without known words stays 0)."""
        weight = (1 + np.log(counts.data)) * self.idf[counts.indices]
        row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        length = np.sqrt(np.bincount(row, weights=weight**2, minlength=counts.shape[0]))
        values = (weight / np.maximum(length, 1e-9)[row]).astype(np.float32)
        return csr_array((values, counts.indices, counts.indptr), shape=counts.shape)


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
    found = Counter(vocabulary.index[word] for word in content_words(text) if word in vocabulary.index)
    kept = sorted(sorted(found, key=lambda word: (-vocabulary.idf[word], word))[:width])
    ids = np.full(width, -1, np.int32)
    number = np.zeros(width, np.float32)
    ids[: len(kept)] = kept
    number[: len(kept)] = [found[word] for word in kept]
    return ids, number
