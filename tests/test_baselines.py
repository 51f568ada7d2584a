"""Baselines on a library that a reader can check by eye, and their figures on real data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spm_jax import metrics
from spm_jax.baselines import BASELINES, available
from spm_jax.baselines.lexical import build_postings
from spm_jax.baselines.order_only import fit_order_only
from spm_jax.baselines.scored import top
from spm_jax.data.readers import toolbench, traject
from spm_jax.data.schema import Call, DataError, Field, Library, Request, Tool, ToolId, Trajectory
from spm_jax.data.splits import sequence_folds
from spm_jax.types import MenuConstructor

LIBRARY = Library(
    (
        Tool("shop", "LookupOrder", "Find an order.", inputs=(Field("order_number"),), outputs=(Field("customer_id"),),
             outputs_known=True),
        Tool("shop", "CreateReceipt", "Make the receipt of an order.", inputs=(Field("order_number"),),
             outputs=(Field("receipt_url"),), outputs_known=True),
        Tool("crm", "GetCustomerEmail", "Contact of a customer.", inputs=(Field("customer_id"),),
             outputs=(Field("email"),), outputs_known=True),
        Tool("mail", "SendEmailReceipt", "Send the receipt by mail.", inputs=(Field("receipt_url"), Field("email"))),
        Tool("weather", "Forecast", "Weather of a city.", inputs=(Field("city"),)),
        Tool("weather", "Sunrise", "When the sun rises."),
        Tool("mirror", "Forecast", "Weather of a city.", inputs=(Field("city"),)),
    )
)  # fmt: skip
LOOKUP, CREATE, CONTACT, SEND, FORECAST, SUNRISE, MIRROR = range(7)


def _request(number: int, text: str, *calls: int | tuple[int, ...]) -> Request:
    steps = [c if isinstance(c, tuple) else (c,) for c in calls]
    chain = Trajectory(tuple(Call(tuple(LIBRARY[t].id for t in step)) for step in steps))
    return Request(f"r{number}", text, trajectory=chain)


TRAIN = (
    _request(1, "post the bill of my purchase", LOOKUP, CREATE, CONTACT, SEND),
    _request(2, "post the bill to the buyer", LOOKUP, CONTACT, CREATE, SEND),
    _request(3, "will it rain", (FORECAST, MIRROR)),
)


def _menu(name: str, text: str, k: int = 7, train: tuple[Request, ...] = TRAIN, state: dict | None = None) -> list[int]:
    return BASELINES[name](LIBRARY, train).build(Request("q", text, state=state or {}), k).tolist()


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("text", ["send the receipt of order 12", "", "天气怎么样", "zzz qqq", "rain " * 2000])
@pytest.mark.parametrize("train", [TRAIN, ()], ids=["trained", "cold"])
def test_every_baseline_gives_distinct_tools_of_the_right_number_and_repeats_itself(
    name: str, text: str, train: tuple[Request, ...]
) -> None:
    if name not in available(LIBRARY):
        pytest.skip("needs the extra [minilm]")
    constructor = BASELINES[name](LIBRARY, train)
    assert isinstance(constructor, MenuConstructor) and constructor.name
    for k in (0, 1, 3, 7, 32):
        menu = constructor.build(Request("q", text), k)
        assert menu.dtype == np.int64 and menu.shape == (min(k, 7),)
        assert len(set(menu.tolist())) == len(menu) and set(menu.tolist()) <= set(range(7))
        again = BASELINES[name](LIBRARY, train).build(Request("q", text), k)
        assert menu.tolist() == again.tolist()


def test_the_registry_has_every_baseline_of_the_issue_under_its_own_name() -> None:
    names = [fit(LIBRARY, TRAIN).name for fit in available(LIBRARY).values()]
    assert len(names) == len(set(names)) >= 20


def test_random_differs_by_request_and_seed() -> None:
    fit = BASELINES["random"]
    menus = [fit(LIBRARY, (), s).build(Request(i, "t"), 7).tolist() for s in (0, 1) for i in "ab"]
    assert len({tuple(menu) for menu in menus}) == 4


def test_popularity_counts_calls_and_shares_them_among_listings() -> None:
    # twice each: 0..3; half a call each: both forecasts; then the unused one
    assert _menu("popularity", "anything") == [0, 1, 2, 3, FORECAST, MIRROR, SUNRISE]


def test_bm25_finds_words_and_bm25_with_training_requests_finds_what_only_requests_say() -> None:
    assert _menu("bm25", "weather in the city", 2) == [FORECAST, MIRROR]
    assert _menu("bm25", "the bill of my purchase", 2) == [0, 1]  # no tool says bill: library order
    assert set(_menu("extended_bm25", "a bill please", 4)) == {LOOKUP, CREATE, CONTACT, SEND}
    assert set(_menu("extended_bm25", "rain", 2)) == {FORECAST, MIRROR}


def test_siblings_lift_the_unused_tool_of_a_matching_family() -> None:
    assert _menu("extended_bm25", "rain")[2] == LOOKUP  # nothing says rain but the two forecasts
    assert _menu("sibling_bm25", "rain", 3) == [FORECAST, MIRROR, SUNRISE]


def test_lsa_finds_the_document_of_the_same_words() -> None:
    assert _menu("lsa", "when the sun rises", 1) == [SUNRISE]


def test_knn_takes_the_tools_of_the_nearest_training_request() -> None:
    assert set(_menu("knn", "bill of the purchase", 4)) == {LOOKUP, CREATE, CONTACT, SEND}
    assert set(_menu("knn", "rain", 2)) == {FORECAST, MIRROR}


def test_transition_walk_follows_the_recorded_path() -> None:
    # LookupOrder starts two of three paths. CreateReceipt and GetCustomerEmail each follow it once: the text decides.
    # Nothing unvisited follows SendEmailReceipt, so the walk starts again, at the other first call on record.
    assert _menu("transition_walk", "find an order and make the receipt", 4) == [LOOKUP, CREATE, SEND, FORECAST]
    assert _menu("transition_walk", "contact of the customer of an order", 4) == [LOOKUP, CONTACT, CREATE, SEND]
    # The first calls on record are LookupOrder and the first forecast listing; the second listing is never walked to.
    assert _menu("transition_walk", "weather of a city", 1) == [FORECAST]


def test_template_puts_producers_before_the_target() -> None:
    # SendEmailReceipt lacks email and receipt_url; GetCustomerEmail lacks customer_id, which LookupOrder gives.
    menu = _menu("template", "send mail", 4, state={"order_number": "12"})
    assert menu == [LOOKUP, CONTACT, CREATE, SEND]
    # Nothing is missing: the target stands first.
    assert _menu("template", "send mail", 1, state={"email": "a@b.c", "receipt_url": "u"}) == [SEND]


def test_template_ends_on_cyclic_schemas() -> None:
    a, b = Field("alpha_token"), Field("beta_token")
    loop = Library(
        (Tool("f", "one", "ring", inputs=(a,), outputs=(b,), outputs_known=True),
         Tool("f", "two", "ring", inputs=(b,), outputs=(a,), outputs_known=True))
    )  # fmt: skip
    assert sorted(BASELINES["template"](loop, ()).build(Request("q", "ring"), 5).tolist()) == [0, 1]


def test_order_only_keeps_bm25s_tools_and_uses_the_order_it_is_given() -> None:
    text = "send the receipt of an order to the customer"
    assert set(_menu("order_only", text, 4)) == set(_menu("bm25", text, 4))
    menu = _menu("order_only", text)
    assert menu.index(LOOKUP) < menu.index(CREATE) < menu.index(SEND)  # as all training paths have it
    backwards = fit_order_only(LIBRARY, TRAIN, order=lambda request, tools: tools[::-1])
    assert backwards.build(Request("q", text), 7).tolist() == _menu("bm25", text)[::-1]
    broken = fit_order_only(LIBRARY, TRAIN, order=lambda request, tools: tools[:1])
    with pytest.raises(DataError, match="no permutation"):
        broken.build(Request("q", text), 7)


def test_order_only_leaves_what_lies_beyond_32_in_bm25s_order() -> None:
    library = Library(tuple(Tool("f", f"tool{n}", "same words") for n in range(50)))
    backwards = fit_order_only(library, (), order=lambda request, tools: tools[::-1])
    assert backwards.build(Request("q", "words"), 40).tolist() == [*range(31, -1, -1), *range(32, 40)]


def test_gold_outside_the_library_is_named() -> None:
    stray = Request("bad", "t", trajectory=Trajectory((Call((ToolId("no", "where"),)),)))
    for name in ("popularity", "extended_bm25", "sibling_bm25", "knn", "transition_walk", "order_only"):
        with pytest.raises(DataError, match=r"request 'bad'.*no/where"):
            BASELINES[name](LIBRARY, (stray,)).build(Request("q", "t"), 3)


def test_bm25_is_the_lucene_formula() -> None:
    documents = [["a", "b", "b"], ["b"], ["c", "c", "c", "c", "a"]]
    scores = build_postings(documents).scores("b a b")
    mean = np.mean([len(d) for d in documents])
    for document, score in zip(documents, scores):
        expected = 0.0
        for word in ("b", "b"):  # "a" is a function word and not searched
            found = sum(word in d for d in documents)
            idf = np.log(1 + (3 - found + 0.5) / (found + 0.5))
            tf = document.count(word)
            expected += idf * tf / (tf + 1.5 * (1 - 0.75 + 0.75 * len(document) / mean))
        assert score == pytest.approx(expected, rel=1e-5)


def test_a_library_without_a_word_is_searched_without_an_error() -> None:
    assert build_postings([[], []]).scores("word").tolist() == [0, 0]


@given(hnp.arrays(np.float64, st.integers(1, 30), elements=st.sampled_from([0.0, 1.0, 2.0])), st.integers(0, 40))
def test_top_is_the_start_of_a_stable_sort(scores: np.ndarray, k: int) -> None:
    assert top(scores, k).tolist() == np.argsort(-scores, kind="stable")[:k].tolist()


def test_figures_on_traject_bench_over_the_whole_library(shared_data: Path) -> None:
    """evaluation.md's baselines on the first of the five folds; the five-fold means are 0.083, 0.636 and 0.658."""
    library, _ = toolbench.read_library(shared_data / "toolbench")
    requests, _ = traject.read_requests(shared_data / "traject_bench", library)
    assert (len(library), len(requests)) == (44_589, 950)
    test = sequence_folds(requests) == 0
    train = [request for request, held in zip(requests, test) if not held]
    for name, figure in (("bm25", 0.111), ("extended_bm25", 0.721), ("sibling_bm25", 0.711)):
        constructor = BASELINES[name](library, train)
        menus = [(constructor.build(r, 32), library.gold(r)) for r, held in zip(requests, test) if held]
        chains = [metrics.complete_chain(menu, gold, 32) for menu, gold in menus]
        assert np.mean(chains) == pytest.approx(figure, abs=0.02)
