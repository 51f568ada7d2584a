"""Latent semantic analysis against the full SVD of NumPy on a small library."""

from __future__ import annotations

import numpy as np
import pytest

from spm_jax.text.documents import content_words
from spm_jax.text.lsa import Lsa, fit_lsa, normalised

WORDS = ("rain", "sun", "wind", "snow", "bank", "money", "loan", "rate", "song", "album", "天气", "银行")


def texts(number: int = 40, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(2, 7))) for _ in range(number)]


def exact(lsa: Lsa, documents: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(TF-IDF [N, words], singular values, right singular vectors [words, r])."""
    counts = lsa.vocabulary.count([content_words(text) for text in documents])
    matrix = lsa.vocabulary.tfidf(counts).toarray().astype(np.float64)
    _, values, right = np.linalg.svd(matrix, full_matrices=False)
    return matrix, values, right.T


def test_the_projection_holds_the_singular_vectors():
    documents = texts()
    lsa = fit_lsa(documents, 6)
    _, values, right = exact(lsa, documents)
    assert np.diff(values[:7]).max() < -0.01  # apart, so that each vector is defined up to its sign
    cosines = np.abs(np.sum(lsa.projection * right[:, :6], axis=0))
    np.testing.assert_allclose(cosines, 1, atol=1e-4)
    largest = np.abs(lsa.projection).argmax(axis=0)
    assert (lsa.projection[largest, np.arange(6)] > 0).all()


def test_embeddings_are_the_projected_documents_of_length_1():
    documents = texts()
    lsa = fit_lsa(documents, 6)
    matrix, _, right = exact(lsa, documents)
    expected = matrix @ right[:, :6]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(lsa.document_embeddings @ lsa.document_embeddings.T, expected @ expected.T, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(lsa.document_embeddings, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(lsa.encode(documents), lsa.document_embeddings, atol=1e-6)


def test_fitting_is_deterministic():
    one, two = fit_lsa(texts(), 6, seed=3), fit_lsa(texts(), 6, seed=3)
    assert one.projection.tobytes() == two.projection.tobytes()
    assert one.document_embeddings.tobytes() == two.document_embeddings.tobytes()


def test_a_narrower_encoder_is_a_slice():
    wide, narrow = fit_lsa(texts(), 8), fit_lsa(texts(), 4)
    np.testing.assert_allclose(wide.projection[:, :4], narrow.projection, atol=1e-4)
    np.testing.assert_allclose(normalised(wide.document_embeddings[:, :4]), narrow.document_embeddings, atol=1e-3)


def test_the_seed_changes_nothing_that_matters():
    one, two = fit_lsa(texts(), 4, seed=0), fit_lsa(texts(), 4, seed=1)
    np.testing.assert_allclose(one.projection, two.projection, atol=1e-4)


def test_a_small_library_gives_zero_columns_at_the_end():
    lsa = fit_lsa(["rain sun", "bank"], 8)
    assert lsa.projection.shape == (3, 8) and lsa.document_embeddings.shape == (2, 8)
    assert not lsa.projection[:, 2:].any()
    np.testing.assert_allclose(np.linalg.norm(lsa.document_embeddings, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("documents", [["", "!"], ["the", "of"]])
def test_documents_without_words(documents):
    lsa = fit_lsa(documents, 4)
    assert lsa.document_embeddings.shape == (2, 4) and not lsa.document_embeddings.any()
    assert not lsa.encode(["rain"]).any()


def test_unknown_and_chinese_texts():
    lsa = fit_lsa(texts(), 8)
    encoded = lsa.encode(["unheard", "天气", "weather rain"])
    assert not encoded[0].any()
    np.testing.assert_allclose(np.linalg.norm(encoded[1:], axis=1), 1, atol=1e-6)
    both = [n for n, text in enumerate(texts()) if "天气" in text]
    neither = [n for n, text in enumerate(texts()) if "天" not in text]
    similar = lsa.document_embeddings @ encoded[1]
    assert similar[both].mean() > similar[neither].mean() + 0.3
