"""Anything at all: random records, random requests, and one training on trajectories that no one would record."""

from __future__ import annotations

import shutil

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from untrained import builder, recorded, tool

from experiments.configs import tiny
from spm_jax.builder import MenuBuilder
from spm_jax.data.jsonl import parse_request, parse_tool
from spm_jax.data.schema import Call, DataError, Library, Request, ToolId, Trajectory
from spm_jax.device_library import index_library
from spm_jax.train.loop import train_menus


def hostile_requests(library: Library) -> list[Request]:
    """Two groups, one of a single request; 40 tools in a chain; a tool thrice; shared listings; no known word."""
    thrice = [Call((library[1].id,)), Call((library[1].id,)), Call((library[2].id,)), Call((library[1].id,))]
    listings = [Call((library[3].id, library[4].id)), Call((library[4].id, library[5].id)), Call((library[4].id,))]
    return [
        recorded(library, 0, range(40), "zzz", "alone"),
        Request("thrice", "qqq", "pair", trajectory=Trajectory(tuple(thrice))),
        Request("listings", "", "pair", trajectory=Trajectory(tuple(listings))),
        Request("none", "nothing was recorded", "other"),
    ]


def test_training_on_hostile_trajectories(tmp_path):
    library = Library(tuple(tool(f"t{n}", [f"k{n}x"], [f"k{n + 1}x"]) for n in range(45)))
    c = tiny.get_config()
    c.model.width, c.text.search_width, c.text.width = 16, 32, 16
    c.retriever.epochs = c.reranker.epochs = 1
    c.retriever.batch = c.reranker.batch = 4
    trained = train_menus(c, index_library(library, 32), hostile_requests(library), tmp_path)
    assert len(trained.requests) == 3 and trained.memory.groups.sum() == 40 + 5
    menus = MenuBuilder(trained)
    items = menus.explain(Request("r", "zzz", state={"k0x": 1}))
    assert len({one.tool for one in items}) == 32 and np.isfinite([one.score for one in items]).all()
    shutil.rmtree(tmp_path / "retriever")  # a bundle alone is enough
    assert MenuBuilder.load(tmp_path / "menu").explain(Request("r", "zzz", state={"k0x": 1})) == items


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just("\ud800")
    | st.builds(lambda: 10**4400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
fields = st.lists(
    st.fixed_dictionaries({"name": anything}, optional={"required": anything, "type": anything}), max_size=2
)
TOOL_FIELDS = ("description", "family_description", "outputs_known", "outputs_from")
tool_records = st.fixed_dictionaries(
    {"family": anything | st.text(), "name": anything | st.text()},
    optional={"inputs": fields | anything, "outputs": fields | anything, **dict.fromkeys(TOOL_FIELDS, anything)},
)
call_records = st.fixed_dictionaries({"tools": st.lists(tool_records) | anything}, optional={"arguments": anything})
request_records = st.fixed_dictionaries(
    {"id": st.text() | anything, "text": st.text() | anything},
    optional={"state": anything, "group": anything, "calls": st.lists(call_records, max_size=2) | anything},
)


@settings(max_examples=300)
@given(tool_records | request_records | anything)
def test_records_give_an_object_or_a_data_error(record):
    for parse in (parse_tool, parse_request):
        try:
            parse(record)
        except DataError as error:
            assert str(error)


FUZZED = Library(
    (
        tool("查询天气", about="查询城市的天气预报"),
        tool("翻译文本"),
        tool("🎉", ["🔑"], ["📦"]),
        tool("🌧️", ["📦"]),
        tool("a", ["apple"], ["pear"]),
        tool("b", ["pear"], ["apple"]),
        tool("source", [], [f"k{n}x" for n in range(40)]),
        tool("sink", ["k39x"], ["z"]),
        tool("red"),
    )
)
menus_of_fuzzed = builder(FUZZED, [recorded(FUZZED, 0, [0, 4, 5], "天气 apple"), recorded(FUZZED, 1, [6, 7])])
unicode = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


words = st.lists(st.sampled_from('天气 apple 🚀 pear red a@b.co "q" 12,5 \' .'.split())).map(" ".join)
states = st.dictionaries(unicode.filter(str.strip), st.none() | unicode, max_size=3)


@settings(max_examples=150)
@given(unicode | words, states, st.sampled_from([5, 99]))
def test_any_request_gets_a_menu(text, state, k):
    items = menus_of_fuzzed.explain(Request("r", text, state=state), k)
    assert len({one.tool for one in items}) == len(items) == min(k, len(FUZZED))
    assert all(0 <= one.score <= 1 for one in items)
    assert all(one.executable == all(i.source is not None for i in one.inputs) or not one.executable for one in items)
    assert isinstance(items[0].tool, ToolId)
