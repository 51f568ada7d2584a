"""Soft flow: similar and proved aliases by hand and against oracles, in the index, and in explained menus."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import fields

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from untrained import builder, recorded, tool, untrained

from spm_jax import bundle, metrics
from spm_jax.builder import REQUEST, MenuBuilder, render
from spm_jax.data import aliases as module
from spm_jax.data.aliases import Aliases, add_proved, proved_pairs, similar_aliases, similar_pairs
from spm_jax.data.schema import Call, DataError, Field, Library, Request, Source, Tool, ToolId, Trajectory
from spm_jax.device_library import OUTPUTS, VISIBLE, index_library, with_aliases


def described(name: str, needs: dict[str, str], gives: dict[str, str]) -> Tool:
    """A tool with {field: description} on both sides."""
    inputs, outputs = (tuple(Field(n, "", text) for n, text in side.items()) for side in (needs, gives))
    return Tool("f", name, inputs=inputs, outputs=outputs, outputs_known=bool(outputs))


SCAN = described("scan", {"isbn": "the number on the cover"}, {"book_details": "detailed facts about the book"})
LOCATE = described("locate", {"book_info": "detailed facts about the book"}, {"shelf": "where it stands"})
BOOKS = Library((SCAN, LOCATE, tool("weather", ["city"], ["temperature"])))


# --- by similarity ---------------------------------------------------------------------------------------------------


def test_a_field_of_another_name_and_the_same_description_is_filled() -> None:
    assert similar_aliases(BOOKS) == Aliases({"book_detail": ("book_info",)})
    assert similar_aliases(BOOKS, threshold=1.0) == Aliases()
    turned = Library((tool("a", ["stone_river"]), tool("b", [], ["river_stone"]), tool("c", ["lemon"])))
    assert similar_pairs(turned, threshold=1.0) == {("river_stone", "stone_river"): 1.0}


def test_the_last_word_decides_where_nothing_is_described() -> None:
    flights = Library((tool("a", ["flight_from", "outbound_flight_code"]), tool("b", [], ["flight_code"])))
    assert set(similar_pairs(flights, 0.3)) == {("flight_code", "outbound_flight_code")}


def test_the_type_counts() -> None:
    def library(kind: str) -> Library:
        give = Tool("f", "give", outputs=(Field("score_total", kind),), outputs_known=True)
        return Library((give, Tool("f", "take", inputs=(Field("score", "integer"),)), tool("other", ["city", "year"])))

    pair = ("score_total", "score")
    assert similar_pairs(library("int"), 0.1)[pair] > similar_pairs(library("str"), 0.1)[pair]


def oracle(library: Library, threshold: float, most: int) -> dict[tuple[str, str], float]:
    """``similar_pairs`` by its docstring, pair by pair; of undescribed fields."""
    needs = {f.name for t in library for f in t.inputs}
    keys = sorted(needs | {f.name for t in library for f in t.outputs})
    holders = Counter(word for key in keys for word in set(key.split("_")))

    def vector(key: str) -> dict[str, float]:
        counts = Counter(key.split("_"))
        return {w: (1 + math.log(n)) * math.log((len(keys) + 1) / (holders[w] + 0.5)) for w, n in counts.items()}

    def cosine(a: dict[str, float], b: dict[str, float]) -> float:
        dot = sum(weight * b.get(word, 0.0) for word, weight in a.items())
        return round(dot / (math.hypot(*a.values()) * math.hypot(*b.values())), 9)

    alike = {}
    for key in keys:
        for need in needs - {key}:
            value = cosine(vector(key), vector(need))
            if value >= threshold and need.split("_")[-1] in key.split("_"):
                alike[key, need] = value

    def ranked(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return sorted(pairs, key=lambda pair: (-alike[pair], pair[1], pair[0]))[:most]

    best = [{p for key in keys for p in ranked([p for p in alike if p[side] == key])} for side in (0, 1)]
    return {pair: value for pair, value in alike.items() if pair in best[0] & best[1]}


# Words that canonical keys keep as they are.
NAMES = st.lists(st.sampled_from("river stone cloud tiger lemon".split()), min_size=1, max_size=3).map("_".join)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sets(NAMES, max_size=3), st.sets(NAMES, max_size=3)), min_size=1, max_size=8),
    st.sampled_from([0.2, 0.5, 0.8]),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_similar_pairs_are_the_oracle_in_any_order(sides: list, threshold: float, most: int, chance) -> None:
    tools = [tool(f"t{n}", sorted(needs), sorted(gives)) for n, (needs, gives) in enumerate(sides)]
    found = similar_pairs(Library(tuple(tools)), threshold, most)
    assert found == pytest.approx(oracle(Library(tuple(tools)), threshold, most), abs=2e-9)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    chance.shuffle(tools)
    shuffled = similar_pairs(Library(tuple(tools)), threshold, most)
    assert list(shuffled.items()) == list(found.items())  # bit-equal, and in the same order


def test_common_words_propose_nothing_but_count(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"user_{word}" for word in ("river", "stone", "cloud", "tiger")]
    library = Library((tool("a", ["old_river_user", "lemon_user"]), tool("b", [], names)))
    every = similar_pairs(library, 1e-4)
    monkeypatch.setattr(module, "COMMON", 3)  # only "user" stands in more keys
    rare = similar_pairs(library, 1e-4)
    assert rare == {("user_river", "old_river_user"): every["user_river", "old_river_user"]}
    assert {pair[1] for pair in every} == {"old_river_user", "lemon_user"}
    monkeypatch.setattr(module, "BLOCK", 1)
    assert similar_pairs(library, 1e-4) == rare


@pytest.mark.parametrize(("threshold", "most", "message"), [(0, 4, "threshold = 0"), (1.5, 4, "1.5"), (0.5, 0, "most")])
def test_bad_bounds_are_refused(threshold: float, most: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        similar_pairs(BOOKS, threshold, most)


@pytest.mark.parametrize(
    ("fills", "message"),
    [([], "an object"), ({"a": ["a"]}, "names itself"), ({"a": ["b", "b"]}, "twice"), ({"a": []}, "at least one"),
     ({"a": "b"}, "at least one"), ({"": ["b"]}, "at least one"), ({"a": [1]}, "at least one")],
)  # fmt: skip
def test_aliases_that_are_none_are_refused(fills, message: str) -> None:
    with pytest.raises(DataError, match=f"aliases: .*{message}"):
        Aliases(fills)


# --- by proof --------------------------------------------------------------------------------------------------------

SHOP = Library((
    tool("find", ["order_number"], ["customer_ref", "order.total_price"]),
    tool("bill", ["client_code", "amount"], ["invoice_link"]),
    tool("mail", ["attachment"]),
    tool("find", ["order_number"], ["buyer_email"], family="copy"),
))  # fmt: skip


def flow(number: int, *calls: tuple[tuple[int, ...], tuple[Source, ...]], group: str = "") -> Request:
    """A request of calls, each of interchangeable tools of SHOP and sources."""
    made = tuple(Call(tuple(SHOP[n].id for n in tools), sources=sources) for tools, sources in calls)
    return Request(f"r{number}", "text", group or f"g{number}", trajectory=Trajectory(made))


def test_proved_pairs_by_hand() -> None:
    one = flow(1, ((0,), ()), ((1,), (Source("client_code", 0, "customer_ref"),)))
    both = Source("client_code", 0, "customer_ref"), Source("amount", 0, "order.total_price")
    other = flow(2, ((0, 3), ()), ((1,), both))  # the other listing of find declares neither field
    single = flow(3, ((1,), ()), ((2,), (Source("attachment", 0),)))  # bill has one output only
    assert proved_pairs(SHOP, [one, other, single]) == {
        ("customer_ref", "client_code"): {"g1", "g2"},
        ("total_price", "bill_amount"): {"g2"},
        ("order_total_price", "bill_amount"): {"g2"},
        ("invoice_link", "attachment"): {"g3"},
    }


def test_what_proves_nothing() -> None:
    unknown = flow(1, ((0,), ()), ((1,), (Source("client_code", 0),)))  # one of two outputs
    undeclared = flow(2, ((0,), ()), ((1,), (Source("client_code", 0, "secret"),)))
    optional = flow(3, ((0,), ()), ((1,), (Source("colour", 0, "customer_ref"),)))
    assert proved_pairs(SHOP, [unknown, undeclared, optional, flow(4, ((0,), ()))]) == {}
    same = Library((tool("a", [], ["city"]), tool("b", ["city"])))
    calls = Call((same[0].id,)), Call((same[1].id,), sources=(Source("city", 0, "city"),))
    assert proved_pairs(same, [Request("r", "t", trajectory=Trajectory(calls))]) == {}
    with pytest.raises(DataError, match="f/nobody"):
        proved_pairs(same, [Request("r", "t", trajectory=Trajectory((Call((ToolId("f", "nobody"),)), Call(
            (same[1].id,), sources=(Source("city", 0, "city"),)))))])  # fmt: skip


def test_proved_come_first_and_more_groups_first() -> None:
    text = Aliases({"a": ("x", "y"), "b": ("x",)})
    proved = {("a", "z"): {"g1"}, ("a", "y"): {"g1", "g2"}, ("c", "x"): {"g2"}}
    assert add_proved(text, proved).fills == {"a": ("y", "z", "x"), "b": ("x",), "c": ("x",)}
    assert add_proved(text, proved, {"g1"}).fills == {"a": ("y", "x"), "b": ("x",), "c": ("x",)}
    assert add_proved(text, proved, {"g1", "g2"}) == text


SOURCES = st.tuples(st.sampled_from(["client_code", "amount"]), st.sampled_from(["customer_ref", "order.total_price"]))


@given(st.lists(st.tuples(SOURCES, st.sampled_from("pqr")), max_size=6), st.sampled_from("pqr"))
def test_without_its_group_nothing_of_a_request_is_left(proofs: list, group: str) -> None:
    """Out of fold: the aliases of a training request are those of the other groups' requests."""
    made = [
        flow(n, ((0,), ()), ((1,), (Source(argument, 0, output),)), group=own)
        for n, ((argument, output), own) in enumerate(proofs)
    ]
    text = similar_aliases(SHOP, 0.2)
    left = add_proved(text, proved_pairs(SHOP, [r for r in made if r.group != group]))
    assert add_proved(text, proved_pairs(SHOP, made), {group}) == left


# --- in the index ----------------------------------------------------------------------------------------------------


def names(indexed, row: np.ndarray) -> set[str]:
    return {indexed.keys[key] for key in row if key >= 0}


def assert_same_arrays(one, other) -> None:
    for f in fields(one.arrays):
        for a, b in zip(*(jax.tree.leaves(getattr(x.arrays, f.name)) for x in (one, other)), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f.name)


def test_the_index_outputs_what_is_filled_and_needs_what_it_needed() -> None:
    plain, soft = index_library(BOOKS, 16), index_library(BOOKS, 16, aliases=similar_aliases(BOOKS))
    assert soft.keys == plain.keys and not plain.aliases
    np.testing.assert_array_equal(soft.arrays.inputs, plain.arrays.inputs)
    assert names(plain, plain.arrays.outputs[0]) == {"book_detail"}
    assert names(soft, soft.arrays.outputs[0]) == {"book_detail", "book_info"}
    np.testing.assert_array_equal(soft.arrays.outputs[1:], plain.arrays.outputs[1:])
    key = soft.key_index["book_info"]
    start, length = (int(x[key]) for x in (soft.arrays.producers.start, soft.arrays.producers.length))
    assert soft.arrays.producers.tool[start : start + length].tolist() == [0]
    assert_same_arrays(with_aliases(plain, soft.aliases), soft)
    assert_same_arrays(with_aliases(soft, Aliases()), plain)
    assert with_aliases(plain, soft.aliases).aliases == soft.aliases


def test_a_request_holds_what_its_state_fills() -> None:
    soft = index_library(BOOKS, 16, aliases=similar_aliases(BOOKS))
    request = Request("r", "text", state={"book_details": "x"})
    assert names(soft, soft.request(request).visible) == {"book_detail", "book_info"}
    assert soft.visible(request) == {"book_detail"}  # F0 itself stays what it is
    assert names(soft, index_library(BOOKS, 16).request(request).visible) == {"book_detail"}


def test_more_than_the_slots_of_a_request_are_filled_as_far_as_they_go() -> None:
    inputs = [f"need{chr(97 + n // 26)}{chr(97 + n % 26)}x" for n in range(2 * VISIBLE)]
    library = Library((*(tool(f"t{n}", [name]) for n, name in enumerate(inputs)), tool("o", [], ["seed"])))
    soft = index_library(library, 16, aliases=Aliases({"seed": tuple(inputs)}))
    visible = soft.request(Request("r", "text", state={"seed": 1})).visible
    assert len(visible) == VISIBLE and "seed" in names(soft, visible) and (visible >= 0).all()


def test_own_outputs_that_are_needed_keep_their_slots() -> None:
    own = [f"own{chr(97 + n // 26)}{chr(97 + n % 26)}x" for n in range(OUTPUTS)]
    filled = [f"filled{chr(97 + n)}x" for n in range(8)]
    takers = (tool(f"t{n}", [name]) for n, name in enumerate((*own[:30], *filled)))
    library = Library((tool("maker", [], own), *takers))
    soft = index_library(library, 16, aliases=Aliases({own[0]: tuple(filled)}))
    assert names(soft, soft.arrays.outputs[0]) == {*own[:30], *filled[:2]}


def test_keys_that_no_tool_needs_change_nothing() -> None:
    odd = Aliases({"book_detail": ("temperature", "never_heard_of"), "nobody": ("isbn",)})
    assert_same_arrays(index_library(BOOKS, 16, aliases=odd), index_library(BOOKS, 16))


def test_metrics_stay_exact() -> None:
    assert metrics.build_schemas(BOOKS).outputs[0] == {"book_detail"}


# --- in explained menus ----------------------------------------------------------------------------------------------


def soft_builder(library: Library, aliases: Aliases, chain: list[int]) -> MenuBuilder:
    trained = untrained(library, [recorded(library, 0, chain)])
    return MenuBuilder(bundle.TrainedMenus(**{
        f.name: getattr(trained, f.name) for f in fields(trained) if f.name != "indexed"
    }, indexed=with_aliases(trained.indexed, aliases)))  # fmt: skip


def test_a_menu_says_which_field_fills_which(tmp_path) -> None:
    menus = soft_builder(BOOKS, similar_aliases(BOOKS), [0, 1])
    request = Request("r", "where is the book", state={"isbn": "1"})
    items = {item.tool.name: item for item in menus.explain(request)}
    order = [item.tool.name for item in menus.explain(request)]
    locate = items["locate"].inputs[0]
    assert (locate.name, locate.source, locate.field) == ("book_info", SCAN.id, "book_details")
    assert order.index("scan") < order.index("locate") and items["locate"].executable
    assert (items["scan"].inputs[0].source, items["scan"].inputs[0].field) == (REQUEST, "")
    assert "book_info <- scan: book_details" in render(list(items.values()))
    assert items["locate"].record()["inputs"][0]["field"] == "book_details"
    assert "field" not in items["scan"].record()["inputs"][0]
    bundle.save(tmp_path / "menu", menus.trained)
    again = MenuBuilder.load(tmp_path / "menu")
    assert again.trained.indexed.aliases == menus.trained.indexed.aliases
    assert again.explain(request) == menus.explain(request)


def test_without_aliases_the_same_menu_misses_the_field() -> None:
    items = {item.tool.name: item for item in builder(BOOKS).explain(Request("r", "book", state={"isbn": "1"}))}
    assert items["locate"].inputs[0].source is None and not items["locate"].executable


def test_a_field_of_the_same_key_is_named_before_one_that_fills_it() -> None:
    library = Library((tool("soft", [], ["town"]), tool("hard", [], ["city"]), tool("take", ["city"])))
    menus = soft_builder(library, Aliases({"town": ("city",)}), [0, 1, 2])
    told = {item.tool.name: item.inputs for item in menus.explain(Request("r", "text", state={"x": 1}))}
    above = [item.tool.name for item in menus.explain(Request("r", "text", state={"x": 1}))]
    assert above.index("hard") < above.index("take")
    assert told["take"][0].source == library[1].id and told["take"][0].field == ""


def test_state_fills_by_alias() -> None:
    menus = soft_builder(BOOKS, similar_aliases(BOOKS), [1])
    items = {item.tool.name: item for item in menus.explain(Request("r", "t", state={"book_details": "x"}))}
    locate = items["locate"]
    assert locate.executable and (locate.inputs[0].source, locate.inputs[0].field) == (REQUEST, "book_detail")


def test_shuffled_libraries_of_many_described_tools_give_the_same_aliases() -> None:
    chance = random.Random(0)
    words = "river stone cloud tiger lemon paper glass metal".split()
    tools = [
        described(f"t{n}", {chance.choice(words): " ".join(chance.choices(words, k=4))},
                  {f"{chance.choice(words)}_{chance.choice(words)}": " ".join(chance.choices(words, k=4))})
        for n in range(60)
    ]  # fmt: skip
    first = similar_aliases(Library(tuple(tools)), 0.4)
    chance.shuffle(tools)
    assert first and similar_aliases(Library(tuple(tools)), 0.4) == first
