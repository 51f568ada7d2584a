"""Words as integers: idf and TF-IDF by hand, request words, and texts in scripts without spaces."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.data.schema import Field, Tool
from spm_jax.text.documents import content_words, tokenize, tool_document
from spm_jax.text.segments import SEGMENTS, clauses
from spm_jax.text.vocabulary import build_vocabulary, request_words

texts = st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), min_size=1, max_size=6)


def test_idf_by_hand():
    vocabulary = build_vocabulary([["b", "a", "a"], ["a"], ["c", "b"]])
    assert vocabulary.words == ("a", "b", "c") and len(vocabulary) == 3
    expected = [np.log(1 + 1.5 / 2.5), np.log(1 + 1.5 / 2.5), np.log(1 + 2.5 / 1.5)]
    np.testing.assert_allclose(vocabulary.idf, expected, rtol=1e-6)
    assert (build_vocabulary([["a"]] * 50).idf > 0).all()  # also for a word that all share


def test_counts_drop_unknown_words():
    vocabulary = build_vocabulary([["a", "b"]])
    counts = vocabulary.count([["b", "z", "b"], [], ["a"]])
    np.testing.assert_array_equal(counts.toarray(), [[0, 2], [0, 0], [1, 0]])


@given(texts)
def test_tfidf_is_the_oracle(words):
    vocabulary = build_vocabulary(words)
    rows = vocabulary.tfidf(vocabulary.count(words)).toarray()
    for row, text in zip(rows, words, strict=True):
        distinct = sorted(set(text))
        ids = [vocabulary.index[word] for word in distinct]
        expected = reference.tfidf(ids, [text.count(word) for word in distinct], vocabulary.idf)
        np.testing.assert_allclose(row, expected, atol=1e-6)
        assert np.linalg.norm(row) == pytest.approx(1 if text else 0, abs=1e-6)


def test_request_words_by_hand():
    vocabulary = build_vocabulary([["rain", "sun"], ["rain"], ["wind"]])
    found = request_words(vocabulary, "Rain in the wind, sun or sun after rain", 6)
    # Two clauses: rain, wind | sun, sun, rain. Rain has an entry in each, and half a share of every sum.
    assert found.ids.tolist() == [0, 0, 1, 2, -1, -1] and found.segment.tolist() == [0, 1, 1, 0, 0, 0]
    assert found.counts.tolist() == [2, 2, 2, 1, 0, 0] and found.share.tolist() == [0.5, 0.5, 1, 1, 0, 0]
    assert [array.dtype for array in found] == [np.int32, np.float32, np.float32, np.int32]
    empty = request_words(vocabulary, "", 2)
    assert empty.ids.tolist() == [-1, -1] and not empty.share.any()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("rain", ["rain"]),
        ("First find order 7. Then mail the receipt, and finally close it.",
         ["First find order 7.", "Then mail the receipt", "and close it."]),
        ("Weather at 40.5, -3.2 in v1.2 form", ["Weather at 40.5", "-3.2 in v1.2 form"]),
        ("查询北京天气。然后订酒店", ["查询北京天气。", "然后订酒店"]),
        (" ".join(f"step number{n}." for n in range(40)), None),
    ],
)  # fmt: skip
def test_clauses(text, expected):
    found = clauses(text)
    assert len(found) <= SEGMENTS and all(found)
    if expected is not None:
        assert found == expected
    assert content_words(" ".join(found)) == [w for w in content_words(text) if w not in ("finally", "next", "plus")]


def test_the_rarest_words_of_a_long_text_are_kept():
    vocabulary = build_vocabulary([["rain", "sun"], ["rain"], ["wind"]])
    assert request_words(vocabulary, "rain wind sun", 2)[0].tolist() == [1, 2]  # sun, wind; rain is in two documents
    assert request_words(vocabulary, "rain wind sun", 1)[0].tolist() == [1]  # a tie goes to the lower id


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getOrderID2, HTTPServer_name", ["get", "order", "id", "2", "http", "server", "name"]),
        ("天气", ["天", "气", "天气"]),
        ("東京tower", ["東", "京", "東京", "tower"]),
        ("ソウル", ["ソ", "ウ", "ル", "ソウ", "ウル"]),
        ("한국", ["한", "국", "한국"]),
        ("Größe ÉCOLE", ["größe", "école"]),
        ("", []),
        ("!?", []),
    ],
)
def test_tokens(text, words):
    assert tokenize(text) == words


def test_chinese_requests_find_chinese_tools():
    tools = (Tool("weather", "forecast", "查询城市天气"), Tool("bank", "transfer", "转账汇款"))
    words = [content_words(tool_document(tool)) for tool in tools]
    vocabulary = build_vocabulary(words)
    ids = request_words(vocabulary, "北京天气怎么样", 16)[0]
    found = {vocabulary.words[n] for n in ids if n >= 0}
    assert found == {"天", "气", "天气"}


@given(st.text())
def test_tokens_of_any_text_are_lower_case(text):
    words = tokenize(text)
    assert all(words) and tokenize(text) == words == [word.lower() for word in words]
    assert content_words(text) == [word for word in words if content_words(word)]


def test_the_document_of_a_tool():
    tool = Tool("shop", "LookupOrder", "Find an order.", "A shop.", (Field("order_number", "string", "The number."),))
    assert tool_document(tool) == "shop\nA shop.\nLookupOrder\nFind an order.\norder_number The number."
    assert tool_document(tool, inputs=False) == "shop\nA shop.\nLookupOrder\nFind an order."
