"""Metrics against hand arithmetic, brute force and properties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax import metrics
from spm_jax.data.schema import Call, DataError, Field, Library, Request, Source, Tool, ToolId, Trajectory
from spm_jax.metrics import Schemas

# Tools 0..5: 0 needs nothing, gives a; 1 needs a, gives b; 2 needs a, gives c; 3 needs b and c; 4 needs z; 5 nothing.
SCHEMAS = Schemas(
    inputs=tuple(map(frozenset, ("", "a", "a", "bc", "z", ""))),
    outputs=tuple(map(frozenset, ("a", "b", "c", "", "b", ""))),
)
GOLD = ((0,), (1,), (2,), (3,))
ALL = np.triu(np.ones((4, 4), bool), 1)
DIAMOND = ALL.copy()
DIAMOND[1, 2] = False  # 1 and 2 in either order


def test_recall_and_chain_by_hand() -> None:
    menu = [5, 3, 0, 1]
    assert metrics.tool_recall(menu, GOLD, 4) == 0.75
    assert metrics.tool_recall(menu, GOLD, 2) == 0.25
    assert metrics.complete_chain(menu, GOLD, 4) == 0
    assert metrics.complete_chain([*menu, 2], GOLD, 5) == 1
    assert metrics.complete_chain([*menu, 2], GOLD, 4) == 0


def test_interchangeable_listings_count_once_and_the_best_place_decides() -> None:
    gold = ((7, 9), (1, 4))
    assert metrics.gold_positions([4, 9, 7, 1], gold).tolist() == [1, 0]
    assert metrics.tool_recall([9, 7], gold, 2) == 0.5
    assert metrics.complete_chain([9, 4], gold, 2) == 1
    assert metrics.early_entry([0, 2, 9], gold) == 1
    assert metrics.first_action([9], gold) == 1
    assert metrics.next_tool([9, 7, 4], gold) == 1  # the other listing of the done tool is passed over
    assert metrics.ordered_prefix([4, 9, 1], gold) == 1  # 9 then 1; the early 4 does no harm


def test_entry_and_first_action_by_hand() -> None:
    assert metrics.early_entry([1, 2, 3, 4, 0], GOLD) == 1
    assert metrics.early_entry([1, 2, 3, 4, 5, 0], GOLD) == 0
    assert metrics.first_action([0, 3], GOLD) == 1
    assert metrics.first_action([3, 0], GOLD) == 0


def test_next_tool_by_hand() -> None:
    # after 0: first other is 5, wrong; after 0, 1: 5, wrong; after 0, 1, 2: 5, wrong
    assert metrics.next_tool([0, 5, 1, 2, 3], GOLD) == 0
    assert metrics.next_tool([0, 1, 2, 3], GOLD) == 1
    # after 0: 2, wrong; after 0, 1: 2, right; after 0, 1, 2: 3, right
    assert metrics.next_tool([0, 2, 1, 3], GOLD) == pytest.approx(2 / 3)
    assert metrics.next_tool([0], GOLD) == 0
    assert metrics.next_tool([0], GOLD[:1]) is None


def test_ordered_prefix_by_hand() -> None:
    assert metrics.ordered_prefix([0, 2, 1, 3], GOLD) == 0.5  # 0, 1; 2 stands before 1
    assert metrics.ordered_prefix([5, 0, 4, 1, 2, 3], GOLD) == 1
    assert metrics.ordered_prefix([1, 2, 3], GOLD) == 0
    assert metrics.ordered_prefix([0, 1, 2, 10, 11, 12, 13, 14, 3], GOLD) == 0.75  # 3 is in place nine
    long = tuple((n,) for n in range(10))
    assert metrics.ordered_prefix(list(range(10)), long) == 1  # min(T, 8)
    assert metrics.ordered_prefix([0, 1, 2, 3, 99], long) == 0.5


def test_chain_order_by_hand() -> None:
    assert metrics.chain_order([0, 1, 2, 3], GOLD, ALL) == 1
    assert metrics.chain_order([3, 2, 1, 0], GOLD, ALL) == -1
    assert metrics.chain_order([0, 2, 1, 3], GOLD, ALL) == pytest.approx(4 / 6)
    assert metrics.chain_order([0, 2, 1, 3], GOLD, DIAMOND) == 1
    assert metrics.chain_order([3, 9, 0], GOLD, ALL) == -1  # only the pair in the menu
    assert metrics.chain_order([3], GOLD, ALL) is None
    assert metrics.chain_order([0, 1, 2, 3], GOLD, np.zeros((4, 4), bool)) is None
    # listings overlap: g_1 and g_2 share place 0, g_3 follows both: (2 - 0) / sqrt(2 * 3)
    fixed = np.triu(np.ones((3, 3), bool), 1)
    assert metrics.chain_order([7, 8], ((7,), (7, 9), (8,)), fixed) == pytest.approx(2 / np.sqrt(6))


def test_chain_order_is_scipys_tau_b_when_every_pair_is_fixed() -> None:
    kendalltau = pytest.importorskip("scipy.stats").kendalltau
    for order in itertools.permutations(range(4)):
        places = metrics.gold_positions(order, GOLD)
        assert metrics.chain_order(order, GOLD, ALL) == pytest.approx(kendalltau(places, range(4)).statistic)


def test_executable_prefix_by_hand() -> None:
    assert metrics.executable_prefix([0, 1, 2, 3], SCHEMAS, ()) == 4 / 8
    assert metrics.executable_prefix([0, 1, 3, 2], SCHEMAS, ()) == 2 / 8  # 3 lacks c
    assert metrics.executable_prefix([1, 0], SCHEMAS, ()) == 0
    assert metrics.executable_prefix([1, 0], SCHEMAS, {"a"}) == 2 / 8
    assert metrics.executable_prefix([], SCHEMAS, ()) == 0
    free = Schemas((frozenset(),) * 12, (frozenset(),) * 12)
    assert metrics.executable_prefix(range(12), free, ()) == 1


def test_a_tool_with_unknown_outputs_produces_nothing() -> None:
    schemas = metrics.build_schemas(
        Library((Tool("f", "make", outputs_known=False), Tool("f", "use", inputs=(Field("order_token"),))))
    )
    assert schemas.outputs[0] == frozenset() and len(schemas.inputs[1]) == 1
    assert metrics.executable_prefix([0, 1], schemas, ()) == 1 / 8


def test_producer_violations_by_hand() -> None:
    none = np.zeros((4, 4), bool)
    # flow within the menu: 0->1, 0->2, 1->3, 2->3
    assert metrics.producer_violations([0, 1, 2, 3], GOLD, none, SCHEMAS) == 0
    assert metrics.producer_violations([3, 2, 1, 0], GOLD, none, SCHEMAS) == 1
    assert metrics.producer_violations([0, 1, 3, 2], GOLD, none, SCHEMAS) == 0.25
    assert metrics.producer_violations([4, 3, 5], GOLD, none, SCHEMAS) == 0  # 4 gives b, the only pair
    assert metrics.producer_violations([5, 0], GOLD, none, SCHEMAS) is None
    assert metrics.producer_violations([], GOLD, none, SCHEMAS) is None
    # gold fixes 0 before 3, which no schema says: pairs 0->1, 0->3, 1->3
    assert metrics.producer_violations([3, 0, 1], GOLD, ALL, SCHEMAS) == pytest.approx(2 / 3)


def test_tools_that_feed_each_other_count_only_where_gold_fixes_the_order() -> None:
    mutual = Schemas((frozenset("a"), frozenset("b")), (frozenset("b"), frozenset("a")))
    gold = ((0,), (1,))
    assert metrics.producer_violations([1, 0], gold, np.zeros((2, 2), bool), mutual) is None
    assert metrics.producer_violations([1, 0], gold, np.triu(np.ones((2, 2), bool), 1), mutual) == 1
    assert metrics.producer_violations([0, 1], gold, np.triu(np.ones((2, 2), bool), 1), mutual) == 0


def test_path_replay_by_hand() -> None:
    assert metrics.path_replay([0, 1, 2, 3], GOLD, ALL, SCHEMAS, ()) == 1
    assert metrics.path_replay([4, 0, 2, 1, 3], GOLD, DIAMOND, SCHEMAS, ()) == 1  # 4 cannot run and costs no call
    assert metrics.path_replay([0, 2, 1, 3], GOLD, ALL, SCHEMAS, ()) == 0  # 1 before 2 is fixed
    assert metrics.path_replay([0, 1, 3, 2], GOLD, DIAMOND, SCHEMAS, ()) == 0  # 3 is passed over while c is missing
    assert metrics.path_replay([0, 1, 2], GOLD, ALL, SCHEMAS, ()) == 0
    assert metrics.path_replay([], GOLD, ALL, SCHEMAS, ()) == 0
    free = Schemas((frozenset(),) * 12, (frozenset(),) * 12)
    one = np.zeros((1, 1), bool)
    assert metrics.path_replay([*range(1, 8), 0], ((0,),), one, free, ()) == 1
    assert metrics.path_replay([*range(1, 9), 0], ((0,),), one, free, ()) == 0  # the ninth call is not made
    nine = tuple((n,) for n in range(9))
    assert metrics.path_replay(range(9), nine, np.zeros((9, 9), bool), free, ()) == 0


def test_dependency_edges_by_hand() -> None:
    scores = np.array([[0, 5, 1], [9, 0, 2], [0, 4, 0.0]])
    assert metrics.dependency_edge_accuracy(scores, [((0,), 1)]) == 1  # 5 > 4
    assert metrics.dependency_edge_accuracy(scores, [((0,), 2)]) == 0  # 1 < 2
    assert metrics.dependency_edge_accuracy(scores, [((0,), 2), ((1,), 2)]) == 1  # two true producers are no rivals
    assert metrics.dependency_edge_accuracy(scores, [((0,), 1), ((0,), 2)]) == 0.5
    assert metrics.dependency_edge_accuracy(np.zeros((3, 3)), [((0,), 1)]) == 0  # a tie is a miss
    assert metrics.dependency_edge_accuracy(np.zeros((2, 2)), [((0,), 1)]) == 1  # no rival
    assert metrics.dependency_edge_accuracy(scores, [((0, 2), 1)]) == 1  # any listing may win
    assert metrics.dependency_edge_accuracy(scores, []) is None


def test_edges_of_candidates_by_hand() -> None:
    tools = [30, 10, 20]
    scores = np.array([[0, 5, 1], [9, 0, 2], [0, 4, 0.0]])  # as above; 30 looks most like a producer for 10
    assert metrics.edge_accuracy(scores, tools, [((30,), (10,))]) == 1
    assert metrics.edge_accuracy(scores, tools, [((30,), (20,))]) == 0  # 10 outranks it
    assert metrics.edge_accuracy(scores, tools, [((30,), (10,)), ((10,), (30,)), ((20,), (10,))]) == 1
    assert metrics.edge_accuracy(scores, tools, [((30,), (10,)), ((99,), (10,))]) == 0.5  # outside: a miss
    assert metrics.edge_accuracy(scores, tools, [((30,), (10,)), ((30,), (99,))]) == 0.5
    assert metrics.edge_accuracy(scores, tools, [((99,), (10,))]) == 0
    assert metrics.edge_accuracy(scores, tools, [((99, 30), (98, 10))]) == 1  # any listing may stand for its tool
    assert metrics.edge_accuracy(scores, tools, []) is None


def test_gold_edges_are_the_recorded_sources_once_each() -> None:
    library = Library(tuple(Tool("f", name) for name in "abc"))
    a, b, c = (tool.id for tool in library)
    calls = (
        Call((a, b)),
        Call((c,), sources=(Source("x", 0, "u"), Source("y", 0, "v"))),  # two arguments, one edge
        Call((c,), sources=(Source("x", 1),)),  # feeds itself
        Call((b,), sources=(Source("x", 1),)),
    )
    request = Request("r", "t", trajectory=Trajectory(calls))
    assert metrics.gold_edges(library, request) == (((0, 1), (2,)), ((2,), (1,)))
    assert metrics.gold_edges(library, Request("r", "t")) == ()
    with pytest.raises(DataError, match="f/d"):
        metrics.gold_edges(library, Request("r", "t", trajectory=Trajectory((Call((ToolId("f", "d"),)),))))


def test_a_chain_of_one_and_an_empty_chain() -> None:
    one = np.zeros((1, 1), bool)
    scores = metrics.score_menu([5], ((5,),), one, SCHEMAS, ())
    assert scores == {
        "complete_chain@32": 1, "tool_recall@32": 1, "early_entry@5": 1, "first_action": 1, "ordered_prefix": 1,
        "executable_prefix@8": 1 / 8, "path_replay": 1,
    }  # fmt: skip
    with pytest.raises(DataError, match="without recorded calls"):
        metrics.score_menu([5], (), np.zeros((0, 0), bool), SCHEMAS, ())
    for metric in (metrics.ordered_prefix, metrics.next_tool, metrics.first_action):
        assert metric([5], ()) is None


def test_score_menu_cuts_at_k_and_checks() -> None:
    scores = metrics.score_menu([0, 1, 2, 3], GOLD, ALL, SCHEMAS, (), k=2, frontier=[3, 2, 1, 0, 5])
    assert scores["tool_recall@2"] == 0.5 and scores["frontier_chain@5"] == 1
    parts = {"cold": np.array([0, 0, 1, 1], bool), "warm": np.array([1, 1, 0, 0], bool), "none": np.zeros(4, bool)}
    scores = metrics.score_menu([0, 1, 2], GOLD, ALL, SCHEMAS, (), parts=parts)
    assert scores["tool_recall_cold@32"] == 0.5 and scores["tool_recall_warm@32"] == 1
    assert "tool_recall_none@32" not in scores
    empty = metrics.score_menu([], GOLD, ALL, SCHEMAS, ())
    assert set(empty.values()) == {0.0} and "chain_order" not in empty
    with pytest.raises(DataError, match="twice"):
        metrics.score_menu([0, 0], GOLD, ALL, SCHEMAS, ())
    with pytest.raises(DataError, match="outside"):
        metrics.score_menu([6], GOLD, ALL, SCHEMAS, ())
    with pytest.raises(DataError, match="shape"):
        metrics.score_menu([0], GOLD, ALL[:2], SCHEMAS, ())


def test_of_a_set_nothing_is_said_of_order() -> None:
    chain = metrics.score_menu([3, 0, 1], GOLD, ALL, SCHEMAS, ())
    scores = metrics.score_menu([3, 0, 1], GOLD, ALL, SCHEMAS, (), ordered=False)
    assert set(chain) - set(scores) == {*metrics.OF_ORDER} and len(metrics.OF_ORDER) == 6
    assert scores["tool_recall@32"] == 0.75 and scores["complete_chain@32"] == 0
    # schema flow is 0->1, 1->3; that gold fixes 0 before 3 does not count
    assert chain["producer_violations"] == pytest.approx(2 / 3) and scores["producer_violations"] == 0.5


# --- properties ------------------------------------------------------------------------------------------------------

_keys = st.frozensets(st.sampled_from("abcd"), max_size=2)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[int], tuple[tuple[int, ...], ...], np.ndarray, Schemas]:
    size = 12
    schemas = Schemas(
        tuple(draw(st.lists(_keys, min_size=size, max_size=size))),
        tuple(draw(st.lists(_keys, min_size=size, max_size=size))),
    )
    menu = draw(st.permutations(range(size)))[: draw(st.integers(0, size))]
    pool = draw(st.permutations(range(size)))
    gold: list[tuple[int, ...]] = []
    for width in draw(st.lists(st.integers(1, 2), min_size=1, max_size=6)):
        gold.append(tuple(sorted(pool[:width])))
        pool = pool[width:]
    fixed = np.triu(np.array(draw(st.lists(st.booleans(), min_size=36, max_size=36))).reshape(6, 6), 1)
    return menu, tuple(gold), fixed[: len(gold), : len(gold)], schemas


@given(_cases())
def test_every_metric_stays_in_its_range(case: tuple) -> None:
    scores = metrics.score_menu(*case, visible={"a"}, k=8, frontier=case[0])
    assert all((-1 if name == "chain_order" else 0) <= value <= 1 for name, value in scores.items())


@given(_cases(), st.randoms(use_true_random=False))
def test_membership_metrics_ignore_the_order_of_the_menu(case: tuple, random: object) -> None:
    menu, gold, *_ = case
    shuffled = list(menu)
    random.shuffle(shuffled)
    assert metrics.tool_recall(menu, gold, 12) == metrics.tool_recall(shuffled, gold, 12)
    assert metrics.complete_chain(menu, gold, 12) == metrics.complete_chain(shuffled, gold, 12)


@given(_cases())
def test_reversing_the_menu_negates_chain_order_and_complements_violations(case: tuple) -> None:
    menu, _, _, schemas = case
    gold = tuple((tools[0],) for tools in case[1])
    order, back = (metrics.chain_order(m, gold, case[2]) for m in (menu, menu[::-1]))
    assert back == (None if order is None else pytest.approx(-order))
    share, rest = (metrics.producer_violations(m, gold, case[2], schemas) for m in (menu, menu[::-1]))
    assert rest == (None if share is None else pytest.approx(1 - share))


@given(_cases())
def test_ordered_prefix_against_every_choice_of_places(case: tuple) -> None:
    menu, gold, *_ = case
    best = 0
    for length in range(1, len(gold) + 1):
        places = [[p for p, tool in enumerate(menu[:8]) if tool in tools] for tools in gold[:length]]
        if any(all(a < b for a, b in itertools.pairwise(c)) for c in itertools.product(*places)):
            best = length
    assert metrics.ordered_prefix(menu, gold) == best / min(len(gold), 8)


@given(_cases())
def test_complete_chain_is_full_recall_and_recall_grows_with_k(case: tuple) -> None:
    menu, gold, *_ = case
    recalls = [metrics.tool_recall(menu, gold, k) for k in range(13)]
    assert recalls[0] == 0 and recalls == sorted(recalls)
    assert [metrics.complete_chain(menu, gold, k) for k in range(13)] == [float(r == 1) for r in recalls]


@given(_cases())
def test_a_menu_in_gold_order_is_right_in_every_order_metric(case: tuple) -> None:
    _, gold, fixed, _ = case
    menu = [tools[0] for tools in gold]
    assert metrics.ordered_prefix(menu, gold) == metrics.first_action(menu, gold) == 1
    assert metrics.next_tool(menu, gold) in (None, 1)
    assert metrics.chain_order(menu, gold, fixed) in (None, 1)
