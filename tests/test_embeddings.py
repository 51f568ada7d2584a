"""Embeddings kept on disk: by content, only what is new is made, damage is repaired; and the text that is embedded."""

from __future__ import annotations

import numpy as np
import pytest

from spm_jax.data.schema import Tool
from spm_jax.text import embeddings
from spm_jax.text.documents import short_document
from spm_jax.text.embeddings import encoded


class _Counting:
    """Encodes a text as its length and its first letter; remembers what it was asked."""

    name, fingerprint, width = "counting", "1", 2

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode(self, texts):
        self.asked.append(list(texts))
        rows = np.array([[len(text), ord(text[0])] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture()
def counting(monkeypatch) -> _Counting:
    monkeypatch.setattr(embeddings, "KEPT_FROM", 2)
    return _Counting()


def test_embeddings_are_kept_by_content(counting, tmp_path):
    first = encoded(counting, ["b", "aa", "b"], tmp_path)
    np.testing.assert_array_equal(first, counting.encode(["b", "aa", "b"]))
    assert counting.asked[0] == ["b", "aa"]  # each text once, in order
    counting.asked.clear()
    np.testing.assert_array_equal(encoded(counting, ["aa", "b"], tmp_path), first[[1, 0]])
    assert counting.asked == []
    more = encoded(counting, ["c\0b", "aa", "c", "b"], tmp_path)  # only what is new
    assert counting.asked == [["c\0b", "c"]] and len(list((tmp_path / "embeddings" / "1").iterdir())) == 2
    np.testing.assert_array_equal(more[[1, 3]], first[[1, 0]])
    np.testing.assert_array_equal(encoded(counting, ["c\0b", "aa", "c", "b"], tmp_path), more)
    assert len(counting.asked) == 1 and encoded(counting, [], tmp_path).shape == (0, 2)
    counting.fingerprint = "2"
    encoded(counting, ["b"], tmp_path)
    assert counting.asked[1:] == [["b"]]


def test_few_new_texts_are_not_kept(counting, tmp_path):
    for _ in range(2):
        encoded(counting, ["a"], tmp_path)
    assert counting.asked == [["a"], ["a"]] and not (tmp_path / "embeddings").exists()


def test_damaged_embeddings_are_made_again(counting, tmp_path):
    first = encoded(counting, ["a", "bb", "ccc"], tmp_path)
    (file,) = (tmp_path / "embeddings" / "1").iterdir()
    good = file.read_bytes()
    for bad in (b"", b"damaged", good[:-1], good[: len(good) // 2]):
        counting.asked.clear()
        file.write_bytes(bad)
        np.testing.assert_array_equal(encoded(counting, ["a", "bb", "ccc"], tmp_path), first)
        assert counting.asked == [["a", "bb", "ccc"]] and file.read_bytes() == good
    rows = np.load(file)
    rows["embedding"][1] = [np.nan, 1]
    np.save(file, rows)
    counting.asked.clear()
    np.testing.assert_array_equal(encoded(counting, ["a", "bb", "ccc"], tmp_path), first)
    assert counting.asked == [["bb"]]
    np.save(file, np.zeros(3))
    np.testing.assert_array_equal(encoded(counting, ["a", "bb", "ccc"], tmp_path), first)


def test_a_cache_that_cannot_be_written_stops_nothing(counting, tmp_path):
    (tmp_path / "embeddings").write_text("a file where the folder should be")
    assert encoded(counting, ["a", "bb"], tmp_path).shape == (2, 2)


def test_the_short_document_of_a_tool():
    assert short_document(Tool("shop/my_orders", "look_up", "Find it." + "x" * 400)) == (
        "my orders: look up. Find it." + "x" * 292
    )
