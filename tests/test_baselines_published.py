"""The published baselines on a library small enough to work each menu out by hand; vectors are set, not learned."""

from __future__ import annotations

import numpy as np
import pytest

from spm_jax.baselines import colt, dependency, fusion, tool2vec, toolrerank
from spm_jax.baselines.dense import Space
from spm_jax.baselines.scored import Scored
from spm_jax.data.schema import Call, Field, Library, Request, Tool, Trajectory


def _tool(family: str, name: str, about: str, needs: tuple[str, ...] = (), gives: tuple[str, ...] = ()) -> Tool:
    return Tool(family, name, about, "", tuple(map(Field, needs)), tuple(map(Field, gives)), bool(gives))


LIBRARY = Library(
    (
        _tool("shop", "lookup", "find purchase", ("order_number",), ("customer_ref", "receipt_ref")),
        _tool("crm", "contact", "buyer address", ("customer_ref",), ("email_address",)),
        _tool("mail", "send", "dispatch receipt letter", ("email_address", "receipt_ref")),
        _tool("weather", "forecast", "rain tomorrow"),
        _tool("weather", "radar", "rain picture"),
        _tool("weather", "archive", "rain history"),
    )
)
LOOKUP, CONTACT, SEND, FORECAST, RADAR, ARCHIVE = range(6)
AXES = np.eye(6, dtype=np.float32)


def _request(number: int, text: str, *tools: int) -> Request:
    calls = tuple(Call((LIBRARY[tool].id,)) for tool in tools)
    return Request(f"r{number}", text, group=f"g{number}", trajectory=Trajectory(calls))


TRAIN = (_request(1, "bill", LOOKUP, CONTACT, SEND), _request(2, "umbrella", FORECAST, RADAR))


@pytest.fixture
def space(monkeypatch) -> Space:
    """Tool t is axis t; a text is the sum of the axes of the tools whose number stands in it."""

    def encode(texts):
        rows = np.array([[float(text.count(str(tool))) for tool in range(6)] for text in texts], np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    made = Space("Toy", AXES, encode)
    for module in (fusion, tool2vec, colt, toolrerank):
        monkeypatch.setattr(module, "dense_space", lambda library, seed: made)
    return made


def test_reciprocal_ranks_add_up(space):
    fused = fusion.fit_reciprocal_ranks(LIBRARY, ())
    assert fused.name == "BM25 + Toy, reciprocal ranks"
    # BM25 of "rain": the three weather tools in library order (equal documents), then the others in library order.
    # Dense of "5": archive, then library order 0, 1, 2, 3, 4.
    scores = fused.score(Request("q", "rain 5"))
    lexical = {FORECAST: 1, RADAR: 2, ARCHIVE: 3, LOOKUP: 4, CONTACT: 5, SEND: 6}
    dense = {ARCHIVE: 1, LOOKUP: 2, CONTACT: 3, SEND: 4, FORECAST: 5, RADAR: 6}
    np.testing.assert_allclose(scores, [1 / (60 + lexical[t]) + 1 / (60 + dense[t]) for t in range(6)])


def test_fused_scores_are_each_over_its_maximum(space):
    scores = fusion.fit_fused(LIBRARY, ()).score(Request("q", "rain 5"))
    np.testing.assert_allclose(scores, [0, 0, 0, 1, 1, 2], atol=1e-6)


def test_marginal_relevance_prefers_what_is_new(monkeypatch):
    # forecast and radar are the same vector, the archive is another: with relevance equal, the archive comes second.
    vectors = AXES.copy()
    vectors[RADAR] = vectors[FORECAST]
    space = Space("Toy", vectors, lambda texts: np.ones((len(texts), 6), np.float32) / np.sqrt(6).astype(np.float32))
    monkeypatch.setattr(fusion, "dense_space", lambda library, seed: space)
    menu = fusion.fit_marginal_relevance(LIBRARY, ()).build(Request("q", "rain"), 6)
    assert menu[:2].tolist() == [FORECAST, ARCHIVE]


def test_tool2vec_is_the_mean_of_the_requests_that_used_the_tool(space):
    train = (_request(1, "0", SEND), _request(2, "1", SEND), _request(3, "1", CONTACT))
    fitted = tool2vec.fit_tool2vec(LIBRARY, train)
    scores = fitted.score(Request("q", "0"))
    # send: the mean of axes 0 and 1; contact: axis 1; the others keep their own documents.
    np.testing.assert_allclose(scores, [1, 0, np.sqrt(0.5), 0, 0, 0], atol=1e-6)


def test_colt_learns_which_tools_go_together(space):
    train = tuple(_request(n, "0 1", LOOKUP, CONTACT, SEND) for n in range(3)) + (_request(9, "3", FORECAST, RADAR),)
    fitted = colt.fit_colt(LIBRARY, train)
    menu = fitted.build(Request("q", "0"), 3).tolist()
    assert set(menu) == {LOOKUP, CONTACT, SEND}  # send is nowhere in the text: the scene brings it
    again = colt.fit_colt(LIBRARY, train)
    assert fitted.build(Request("q", "0"), 6).tolist() == again.build(Request("q", "0"), 6).tolist()


def test_colt_without_training_is_dense(space):
    assert colt.fit_colt(LIBRARY, ()).build(Request("q", "4"), 1).tolist() == [RADAR]


def test_toolrerank_spreads_over_groups_of_similar_tools_where_requests_need_several_families(monkeypatch):
    vectors = AXES.copy()
    vectors[RADAR] = vectors[FORECAST]
    space = Space("Toy", vectors, lambda texts: np.zeros((len(texts), 6), np.float32))
    monkeypatch.setattr(toolrerank, "dense_space", lambda library, seed: space)
    several = toolrerank.fit_toolrerank(LIBRARY, (_request(1, "rain bill", FORECAST, SEND),))
    menu = several.build(Request("q", "rain"), 6).tolist()
    assert menu.index(ARCHIVE) < max(menu.index(FORECAST), menu.index(RADAR))  # the twin waits for the others
    one = toolrerank.fit_toolrerank(LIBRARY, (_request(1, "rain", FORECAST, RADAR),))
    assert set(one.build(Request("q", "rain"), 3).tolist()) == {FORECAST, RADAR, ARCHIVE}  # its family as a whole


def test_iterative_retrieval_puts_producers_of_producers_first():
    menu = dependency.fit_iterative(LIBRARY, ()).build(Request("q", "dispatch buyer find"), 4).tolist()
    assert menu[:3] == [LOOKUP, CONTACT, SEND]
    # What is visible needs no producer.
    state = {"email_address": "a@b.c", "receipt_ref": "7"}
    menu = dependency.fit_iterative(LIBRARY, ()).build(Request("q", "dispatch letter", state=state), 1)
    assert menu.tolist() == [SEND]


def test_graph_fusion_walks_from_the_seed_to_what_it_depends_on():
    menu = dependency.fit_graph_fusion(LIBRARY, ()).build(Request("q", "dispatch letter"), 3).tolist()
    # send lacks email_address (contact makes it, and lacks customer_ref, which lookup makes) and receipt_ref.
    assert menu == [SEND, CONTACT, LOOKUP]


def test_look_ahead_starts_with_what_can_run():
    request = Request("q", "dispatch receipt letter buyer", state={"order_number": "7"})
    menu = dependency.fit_look_ahead(LIBRARY, ()).build(request, 3).tolist()
    assert menu == [LOOKUP, CONTACT, SEND]


def test_sorting_by_flow_moves_consumers_behind_and_leaves_the_rest():
    order = np.array([SEND, FORECAST, CONTACT, LOOKUP], float)
    inner = Scored("inner", lambda request: -np.array([list(order).index(t) if t in order else 9 for t in range(6)]))
    made = dependency.Sorted(inner, dependency.build_flow(LIBRARY).schemas, "inner, sorted by flow")
    assert inner.build(Request("q", ""), 4).tolist() == [SEND, FORECAST, CONTACT, LOOKUP]
    assert made.build(Request("q", ""), 4).tolist() == [FORECAST, LOOKUP, CONTACT, SEND]


def test_a_cycle_keeps_the_order_of_relevance():
    ring = Library((_tool("a", "one", "ring ring", ("beta_token",), ("alpha_token",)),
                    _tool("b", "two", "ring", ("alpha_token",), ("beta_token",))))  # fmt: skip
    assert dependency.fit_sorted(ring, ()).build(Request("q", "ring"), 2).tolist() == [0, 1]


def test_sorting_leaves_the_frontier_behind_the_menu_alone():
    ends = {0: (("b",), ()), 39: ((), ("b",))}
    library = Library(tuple(_tool("f", f"t{n}", "", *ends.get(n, ((), ()))) for n in range(40)))
    inner = Scored("inner", lambda request: -np.arange(40.0))
    made = dependency.Sorted(inner, dependency.build_flow(library).schemas, "sorted")
    assert made.build(Request("q", ""), 40).tolist() == list(range(40))  # the producer stands beyond the 32
