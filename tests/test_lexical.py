"""BM25 as flat arrays: by hand, against the oracle and against bm25s."""

from __future__ import annotations

from collections import Counter

import bm25s
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.text.lexical import K1, LONGEST, B, bm25_postings, gather_scores, make_postings, name_postings
from spm_jax.text.vocabulary import build_vocabulary
from spm_jax.types import Postings

gather = jax.jit(gather_scores, static_argnames="size")
documents = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6), min_size=1, max_size=8)


def scores(words: list[list[str]], query: list[str], longest: int = LONGEST) -> np.ndarray:
    """float32 [N]: the query's score of every document, a word weighed by the root of its count."""
    vocabulary = build_vocabulary(words)
    counts = Counter(word for word in query if word in vocabulary.index)
    ids, weight = np.full(16, -1, np.int32), np.zeros(16, np.float32)
    ids[: len(counts)] = [vocabulary.index[word] for word in counts]
    weight[: len(counts)] = np.sqrt(list(counts.values()))
    postings = bm25_postings(words, vocabulary, longest)
    if not len(postings.tool):
        postings = make_postings(*(np.zeros(1, kind) for kind in (np.int32, np.int32, np.float32)), 1, longest)
    return np.asarray(gather(postings, ids, weight, size=len(words)))


def entries(postings: Postings, word: int) -> list[tuple[int, float]]:
    part = slice(postings.start[word], postings.start[word] + postings.length[word])
    return list(zip(postings.tool[part].tolist(), postings.weight[part].tolist(), strict=True))


def test_bm25_by_hand():
    """Two documents of 1 and 3 words, mean 2; "a" stands in both, twice in the second."""
    words = [["a"], ["a", "a", "b"]]
    idf_a, idf_b = np.log(1 + 0.5 / 2.5), np.log(1 + 1.5 / 1.5)
    short, long = K1 * (1 - B + B / 2), K1 * (1 - B + B * 1.5)
    expected = [idf_a / (1 + short), idf_a * 2 / (2 + long) + idf_b / (1 + long)]
    np.testing.assert_allclose(scores(words, ["a", "b"]), expected, rtol=1e-6)


@given(documents, st.lists(st.sampled_from("abcdefgz"), max_size=6), st.sampled_from([1, 2, LONGEST]))
def test_scores_are_the_oracle(words, query, longest):
    expected = reference.bm25_scores(words, query, longest) if any(words) else np.zeros(len(words))
    np.testing.assert_allclose(scores(words, query, longest), expected, atol=1e-5)


def test_scores_are_those_of_bm25s():
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"w{n}" for n in range(30)])
    words = [list(rng.choice(vocabulary, rng.integers(1, 12))) for _ in range(40)]
    other = bm25s.BM25(method="lucene", k1=K1, b=B)
    other.index([[str(word) for word in document] for document in words], show_progress=False)
    for _ in range(10):
        query = [str(word) for word in rng.choice(vocabulary, 5, replace=False)]
        known = [word for word in query if any(word in document for document in words)]
        np.testing.assert_allclose(scores(words, query), other.get_scores(known), rtol=1e-5, atol=1e-6)


def test_postings_are_sorted_and_cut():
    word = np.array([1, 0, 1, 1, 1])
    tool = np.array([4, 2, 3, 1, 0])
    weight = np.array([1, 5, 2, 1, 0.5])
    whole = make_postings(word, tool, weight, 3, 10)
    assert entries(whole, 0) == [(2, 5.0)] and entries(whole, 2) == []
    assert entries(whole, 1) == [(3, 2.0), (1, 1.0), (4, 1.0), (0, 0.5)]  # falling, ties by tool id
    cut = make_postings(word, tool, weight, 3, 2)
    assert entries(cut, 1) == [(3, 2.0), (1, 1.0)] and len(cut.tool) == 3


def test_gather_adds_repeats_and_ignores_padding():
    postings = jax.tree.map(jnp.asarray, make_postings(np.array([0, 0, 1]), np.array([0, 2, 2]), np.ones(3), 2, 8))
    ids, weight = np.array([0, -1, 1, 0], np.int32), np.array([1, 100, 2, 0.5], np.float32)
    assert gather(postings, ids, weight, size=4).tolist() == [1.5, 0, 3.5, 0]
    assert gather(postings, np.full(4, -1, np.int32), weight, size=4).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("longest", [1, 4096])
def test_no_entries(longest):
    postings = make_postings(np.array([], int), np.array([], int), np.array([]), 0, longest)
    assert len(postings.tool) == 0 and len(postings.start) == 0


def test_postings_are_deterministic():
    words = [list("abca"), list("bcd"), list("a")]
    one, two = (bm25_postings(words, build_vocabulary(words)) for _ in range(2))
    assert [leaf.tobytes() for leaf in jax.tree.leaves(one)] == [leaf.tobytes() for leaf in jax.tree.leaves(two)]


def test_names_by_hand():
    names = [["get", "order"], ["order"], ["get", "refund", "refund"], [], ["get"]]
    vocabulary = build_vocabulary([*names, ["refund"], ["refund"]])
    idf = dict(zip(vocabulary.words, vocabulary.idf.tolist()))
    postings = name_postings(names, vocabulary)
    ids = np.array([vocabulary.index["order"], vocabulary.index["refund"], -1], np.int32)
    told = gather(postings, ids, np.ones(3, np.float32), size=5)
    order, refund = (idf[word] / (idf[word] + idf["get"]) for word in ("order", "refund"))
    np.testing.assert_allclose(told, [order, 1, refund, 0, 0], atol=1e-6)
    # "get" stands in three names: where two are the most, it says nothing, and what is left is the whole name.
    told = gather(name_postings(names, vocabulary, longest=2), ids, np.ones(3, np.float32), size=5)
    np.testing.assert_allclose(told, [1, 1, 1, 0, 0], atol=1e-6)
