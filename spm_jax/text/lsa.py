"""Latent semantic analysis, the embedded text encoder: TF-IDF and a truncated SVD fitted on the library alone.

The SVD is the randomised one of Halko, Martinsson and Tropp (2011, algorithms 4.4 and 5.1), on NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spm_jax.text.documents import content_words
from spm_jax.text.vocabulary import Counts, Vocabulary, build_vocabulary

OVERSAMPLING = 16
ITERATIONS = 3


@dataclass(frozen=True)
class Lsa:
    """A fitted encoder. The first D columns are the best D-wide encoder, so a narrower one is a slice."""

    vocabulary: Vocabulary
    projection: np.ndarray  # float32 [words, width]
    document_embeddings: np.ndarray  # float32 [N, width], rows of length 1 (0 for a document without words)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [texts, width]: rows of length 1, or 0 where a text holds no known word."""
        counts = self.vocabulary.count([content_words(text) for text in texts])
        return normalised(_multiply(counts, self.vocabulary.tfidf(counts), self.projection))


def normalised(rows: np.ndarray) -> np.ndarray:
    """``rows`` [.., width] scaled to length 1; a row of zeros stays."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return (rows / np.maximum(length, 1e-9)).astype(np.float32)


def _multiply(counts: Counts, values: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """The sparse matrix of ``counts`` with ``values`` [P], times ``dense`` [words, width]."""
    out = np.zeros((len(counts.start) - 1, dense.shape[1]), np.float32)
    for first in range(0, len(out), 4096):  # in blocks: the gathered rows of all texts together would not fit
        last = min(first + 4096, len(out))
        begin, end = counts.start[first], counts.start[last]
        filled = np.flatnonzero(np.diff(counts.start[first : last + 1]))
        if len(filled):
            rows = dense[counts.word[begin:end]] * values[begin:end, None]
            out[first + filled] = np.add.reduceat(rows, counts.start[first:last][filled] - begin, axis=0)
    return out


def _transposed(counts: Counts, values: np.ndarray, words: int) -> tuple[Counts, np.ndarray]:
    order = np.argsort(counts.word, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(counts.word, minlength=words))])
    return Counts(start, counts.row[order], counts.count[order]), values[order]


def fit_lsa(documents: Sequence[str], width: int, seed: int = 0) -> Lsa:
    """Fit on the texts of a library's tools. Deterministic for a seed; a small library gives zero columns at the end."""
    words = [content_words(text) for text in documents]
    return fit_lsa_words(words, build_vocabulary(words), width, seed)


def fit_lsa_words(words: Sequence[Sequence[str]], vocabulary: Vocabulary, width: int, seed: int = 0) -> Lsa:
    """``fit_lsa`` on tokenised documents and their vocabulary."""
    counts = vocabulary.count(words)
    values = vocabulary.tfidf(counts)
    turned, turned_values = _transposed(counts, values, len(vocabulary))
    rank = min(width + OVERSAMPLING, len(words), len(vocabulary))
    if rank == 0:
        empty = np.zeros((len(vocabulary), width), np.float32)
        return Lsa(vocabulary, empty, np.zeros((len(words), width), np.float32))
    sample = np.random.default_rng(seed).standard_normal((len(vocabulary), rank)).astype(np.float32)
    left = _multiply(counts, values, sample)
    for _ in range(ITERATIONS):
        left = np.linalg.qr(left)[0]
        right = np.linalg.qr(_multiply(turned, turned_values, left))[0]
        left = _multiply(counts, values, right)
    _, singular, rotation = np.linalg.svd(left, full_matrices=False)
    kept = min(width, int(np.sum(singular > 1e-5 * singular[0])))
    projection = np.zeros((len(vocabulary), width), np.float32)
    projection[:, :kept] = right @ rotation[:kept].T
    # The sign of a singular vector is free: make its largest weight positive, so that every machine agrees.
    largest = projection[np.abs(projection).argmax(axis=0), np.arange(width)]
    projection *= np.where(largest < 0, -1.0, 1.0).astype(np.float32)
    return Lsa(vocabulary, projection, normalised(_multiply(counts, values, projection)))
