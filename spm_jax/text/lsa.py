"""Latent semantic analysis, the embedded text encoder: TF-IDF and a truncated SVD fitted on the library alone.

The SVD is the randomised one of Halko, Martinsson and Tropp (2011, algorithms 4.4 and 5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spm_jax.text.documents import content_words
from spm_jax.text.vocabulary import Vocabulary, build_vocabulary

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
        return normalised(self.vocabulary.tfidf(counts) @ self.projection)


def normalised(rows: np.ndarray) -> np.ndarray:
    """``rows`` [.., width] scaled to length 1; a row of zeros stays."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return (rows / np.maximum(length, 1e-9)).astype(np.float32)


def _principal(tall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values [r], falling, and right singular vectors [r, r] of ``tall`` [n, r], by way of its Gram matrix."""
    tall = tall.astype(np.float64)
    values, vectors = np.linalg.eigh(tall.T @ tall)
    return np.sqrt(np.maximum(values[::-1], 0)), vectors[:, ::-1]


def _orthonormal(tall: np.ndarray) -> np.ndarray:
    """float32 [n, r]: an orthonormal basis of the columns of ``tall``; directions without weight become 0."""
    singular, rotation = _principal(tall)
    scale = np.where(singular > 1e-6 * singular[0], 1 / np.maximum(singular, 1e-30), 0)
    return (tall @ (rotation * scale).astype(np.float32)).astype(np.float32)


def fit_lsa(documents: Sequence[str], width: int, seed: int = 0) -> Lsa:
    """Fit on the texts of a library's tools. Deterministic for a seed; a small library gives zero columns last."""
    words = [content_words(text) for text in documents]
    return fit_lsa_words(words, build_vocabulary(words), width, seed)


def fit_lsa_words(words: Sequence[Sequence[str]], vocabulary: Vocabulary, width: int, seed: int = 0) -> Lsa:
    """``fit_lsa`` on tokenised documents and their vocabulary."""
    tfidf = vocabulary.tfidf(vocabulary.count(words))
    rank = min(width + OVERSAMPLING, *tfidf.shape)
    projection = np.zeros((len(vocabulary), width), np.float32)
    if rank:
        left = tfidf @ np.random.default_rng(seed).standard_normal((len(vocabulary), rank)).astype(np.float32)
        turned = tfidf.T.tocsr()
        for _ in range(ITERATIONS):
            right = _orthonormal(turned @ _orthonormal(left))
            left = tfidf @ right
        singular, rotation = _principal(left)
        kept = min(width, int(np.sum(singular > 1e-4 * singular[0])))
        projection[:, :kept] = right @ rotation[:, :kept]
        # The sign of a singular vector is free: make its largest weight positive, so that every machine agrees.
        largest = projection[np.abs(projection).argmax(axis=0), np.arange(width)]
        projection *= np.where(largest < 0, -1.0, 1.0).astype(np.float32)
    return Lsa(vocabulary, projection, normalised(tfidf @ projection))
