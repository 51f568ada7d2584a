"""Words as integers: the vocabulary of a library, and texts as sparse rows of word counts.

It is fitted on the library alone, never on requests: nothing of a training request can reach another through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from spm_jax.text.documents import content_words
from spm_jax.text.segments import clauses


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


class RequestWords(NamedTuple):
    """The known words of a request, an entry for each clause that a word stands in; padding has id -1."""

    ids: np.ndarray  # int32 [W]
    counts: np.ndarray  # float32 [W]: times the word stands in the whole request
    share: np.ndarray  # float32 [W]: 1 over the number of its entries, so that a sum over entries counts a word once
    segment: np.ndarray  # int32 [W]: number of the clause


def request_words(vocabulary: Vocabulary, text: str, width: int) -> RequestWords:
    """The words of a request as the program takes them, W = ``width`` entries.

    Of a text with more, the rarest words are kept (highest idf; ties by id), each with all its entries that fit.
    """
    known = [[vocabulary.index[w] for w in content_words(clause) if w in vocabulary.index] for clause in clauses(text)]
    counts = Counter(word for clause in known for word in clause)
    entries = [(word, place) for place, clause in enumerate(known) for word in set(clause)]
    entries.sort(key=lambda entry: (-vocabulary.idf[entry[0]], entry))
    entries = sorted(entries[:width])
    times = Counter(word for word, _ in entries)
    ids, number = np.full(width, -1, np.int32), np.zeros(width, np.int32)
    out = RequestWords(ids, np.zeros(width, np.float32), np.zeros(width, np.float32), number)
    for place, (word, clause) in enumerate(entries):
        for array, value in zip(out, (word, counts[word], 1 / times[word], clause)):
            array[place] = value
    return out
