"""The data model and its written form: exact round trips, and one clear error for each kind of bad input."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.data.jsonl import (
    fingerprint,
    parse_request,
    parse_tool,
    read_library,
    read_requests,
    request_record,
    tool_record,
    write_atomic,
    write_library,
    write_requests,
)
from spm_jax.data.schema import Call, DataError, Field, Library, Request, Source, Tool, ToolId, Trajectory

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
name = text.filter(lambda s: s.strip() and "\0" not in s)
fields = st.builds(Field, name, text, text, st.booleans())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(name, json_values, max_size=3)
identities = st.builds(ToolId, name, name)


@st.composite
def tools(draw) -> Tool:
    outputs = tuple(draw(st.lists(fields, max_size=3)))
    known = bool(outputs) or draw(st.booleans())
    inputs = tuple(draw(st.lists(fields, max_size=3)))
    return Tool(draw(name), draw(name), draw(text), draw(text), inputs, outputs, known, draw(text))


libraries = st.lists(tools(), min_size=1, max_size=4, unique_by=lambda tool: tool.id).map(tuple).map(Library)
calls = st.builds(Call, st.lists(identities, min_size=1, max_size=3).map(tuple), objects, st.booleans())


@st.composite
def trajectories(draw) -> Trajectory:
    made: list[Call] = []
    for call in draw(st.lists(calls, max_size=3)):
        earlier = st.builds(Source, name, st.integers(0, max(0, len(made) - 1)), text.filter(lambda s: "\0" not in s))
        sources = tuple(draw(st.lists(earlier, max_size=2))) if made else ()
        made.append(Call(call.tools, call.arguments, call.succeeded, sources))
    return Trajectory(tuple(made), draw(st.booleans()))


requests = st.lists(
    st.builds(Request, text.filter(str.strip), text, text, text, objects, trajectories()),
    max_size=3,
    unique_by=lambda r: r.id,
)


@given(libraries)
def test_a_library_is_read_back_equal(library):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.jsonl"
        write_library(path, library)
        again = read_library(path)
        first = path.read_bytes()
        write_library(path, again)
        assert again == library and path.read_bytes() == first
    assert fingerprint(again) == fingerprint(library)


@given(requests)
def test_requests_are_read_back_equal(written):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.jsonl"
        write_requests(path, written)
        assert read_requests(path) == tuple(written)


@given(tools())
def test_records_are_parsed_to_equal_tools(tool):
    assert parse_tool(json.loads(json.dumps(tool_record(tool)))) == tool


@given(json_values)
def test_any_json_value_is_a_tool_and_a_request_or_one_clear_error(value):
    for parse in (parse_tool, parse_request):
        try:
            parse(value)
        except DataError as error:
            assert str(error)


def test_what_may_be_left_out():
    tool = parse_tool({"family": "shop", "name": "LookupOrder"})
    assert tool == Tool("shop", "LookupOrder") and not tool.outputs_known
    assert parse_tool({"family": "f", "name": "n", "outputs": [{"name": "x"}]}).outputs_known
    request = parse_request({"id": "r1", "text": "hello"})
    assert request == Request("r1", "hello") and request.group == "r1" and request.trajectory.calls == ()
    record = {"id": "r", "text": "", "calls": [{"tools": [{"family": "f", "name": "n"}]}]}
    assert parse_request(record).trajectory == Trajectory((Call((ToolId("f", "n"),)),))
    assert request_record(request)["group"] == "r1"


def test_sources_and_order_are_written_only_where_they_say_something():
    plain = {"tools": [{"family": "f", "name": "n"}], "arguments": {}, "succeeded": True}
    record = {"id": "r", "text": "", "group": "r", "domain": "", "state": {}, "calls": [plain, plain]}
    assert request_record(parse_request(record)) == record  # a fingerprint of older data stays what it was
    told = {**plain, "sources": [{"argument": "a", "call": 0, "output": "x"}, {"argument": "a", "call": 0}]}
    request = parse_request({**record, "calls": [plain, told], "ordered": False})
    assert request.trajectory.calls[1].sources == (Source("a", 0, "x"), Source("a", 0)) and Source("a", 0).output == ""
    assert not request.trajectory.ordered and request_record(request)["ordered"] is False
    assert parse_request(request_record(request)) == request


def test_required_inputs():
    tool = Tool("f", "n", inputs=(Field("a"), Field("b", required=False), Field("c")))
    assert [f.name for f in tool.required] == ["a", "c"]


TOOL = {"family": "f", "name": "n"}
REQUEST = {"id": "r", "text": "t"}
CALL = {"tools": [TOOL]}
SOURCE = {"argument": "a", "call": 0}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "tool: expected an object, got list"),
        ({"name": "n"}, "field 'family' is missing"),
        ({**TOOL, "inputz": []}, "unknown field 'inputz'; known are family, name"),
        ({**TOOL, "family": 3}, "tool family: expected a string, got int"),
        ({**TOOL, "name": "  "}, "tool name in family 'f': must not be empty"),
        ({**TOOL, "name": "a\0b"}, "tool name in family 'f': contains a NUL"),
        ({**TOOL, "description": "\ud800"}, "tool f/n: description: contains a lone surrogate"),
        ({**TOOL, "family_description": None}, "tool f/n: family_description: expected a string, got NoneType"),
        ({**TOOL, "inputs": {}}, "tool: inputs: expected a list, got dict"),
        ({**TOOL, "inputs": [{"name": "a"}, "b"]}, r"tool: inputs\[1\]: expected an object, got str"),
        ({**TOOL, "outputs": [{"type": "x"}]}, r"tool: outputs\[0\]: field 'name' is missing"),
        ({**TOOL, "inputs": [{"name": "a\0"}]}, "field name: contains a NUL"),
        ({**TOOL, "inputs": [{"name": "a", "required": 1}]}, "'required' of field 'a': expected true or false, got 1"),
        ({**TOOL, "inputs": [{"name": "a", "description": "\udfff"}]}, "description of field 'a': contains a lone"),
        ({**TOOL, "outputs_known": "yes"}, "tool f/n: outputs_known: expected true or false"),
        ({**TOOL, "outputs": [{"name": "a"}], "outputs_known": False}, "has outputs but outputs_known is false"),
    ],
)
def test_a_bad_tool_is_named(record, message, tmp_path):
    with pytest.raises(DataError, match=message):
        parse_tool(record)
    path = tmp_path / "library.jsonl"
    path.write_text(json.dumps(TOOL | {"name": "first"}) + "\n\n" + json.dumps(record), encoding="utf-8")
    with pytest.raises(DataError, match=rf"library\.jsonl, line 3: .*{message}"):
        read_library(path)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("x", "request: expected an object, got str"),
        ({"id": "r"}, "field 'text' is missing"),
        ({**REQUEST, "id": ""}, "request id: must not be empty"),
        ({**REQUEST, "text": None}, "request 'r': text: expected a string, got NoneType"),
        ({**REQUEST, "text": "\ud83d"}, "request 'r': text: contains a lone surrogate"),
        ({**REQUEST, "group": 1}, "request 'r': group: expected a string"),
        ({**REQUEST, "state": []}, "request 'r': state: expected an object"),
        ({**REQUEST, "state": {"a": ["\ud800"]}}, "request 'r': state: contains a lone surrogate"),
        ({**REQUEST, "state": {"": 1}}, "request 'r': state key: must not be empty"),
        ({**REQUEST, "calls": "no"}, "request: calls: expected a list, got str"),
        ({**REQUEST, "calls": [CALL, 3]}, r"request: calls\[1\]: expected an object, got int"),
        ({**REQUEST, "calls": [{}]}, r"request: calls\[0\]: field 'tools' is missing"),
        ({**REQUEST, "calls": [{"tools": []}]}, "call: names no tool"),
        ({**REQUEST, "calls": [{"tools": [{"family": "f"}]}]}, r"calls\[0\]: tools\[0\]: field 'name' is missing"),
        ({**REQUEST, "calls": [{"tools": [{**TOOL, "name": 4}]}]}, "call: tool name: expected a string, got int"),
        ({**REQUEST, "calls": [{**CALL, "arguments": 4}]}, "call: arguments: expected an object"),
        ({**REQUEST, "calls": [{**CALL, "arguments": {"a": {"\ud800": 1}}}]}, "call: arguments: contains a lone"),
        ({**REQUEST, "calls": [{**CALL, "succeeded": "y"}]}, "call: succeeded: expected true or false"),
        ({**REQUEST, "trajectory": []}, "unknown field 'trajectory'"),
        ({**REQUEST, "ordered": "no"}, "trajectory: ordered: expected true or false, got 'no'"),
        ({**REQUEST, "calls": [{**CALL, "sources": {}}]}, r"calls\[0\]: sources: expected a list, got dict"),
        ({**REQUEST, "calls": [{**CALL, "sources": [3]}]}, r"calls\[0\]: sources\[0\]: expected an object, got int"),
        ({**REQUEST, "calls": [{**CALL, "sources": [{"argument": "a"}]}]}, r"sources\[0\]: field 'call' is missing"),
        ({**REQUEST, "calls": [{**CALL, "sources": [{**SOURCE, "tool": 1}]}]}, "unknown field 'tool'"),
        ({**REQUEST, "calls": [{**CALL, "sources": [{**SOURCE, "argument": ""}]}]}, "argument: must not be empty"),
        ({**REQUEST, "calls": [{**CALL, "sources": [{**SOURCE, "output": 1}]}]}, "output: expected a string, got int"),
        ({**REQUEST, "calls": [{**CALL, "sources": [{**SOURCE, "call": True}]}]}, "the position of a call, got True"),
        ({**REQUEST, "calls": [{**CALL, "sources": [SOURCE]}]}, r"calls\[0\]: source of 'a': 0 is no earlier call"),
        ({**REQUEST, "calls": [CALL, {**CALL, "sources": [{**SOURCE, "call": -1}]}]}, "-1 is no earlier call"),
        ({**REQUEST, "calls": [CALL, {**CALL, "sources": [{**SOURCE, "call": 1}]}]}, "1 is no earlier call"),
    ],
)
def test_a_bad_request_is_named(record, message, tmp_path):
    with pytest.raises(DataError, match=message):
        parse_request(record)
    path = tmp_path / "requests.jsonl"
    path.write_text(json.dumps({"id": "first", "text": ""}) + "\n" + json.dumps(record), encoding="utf-8")
    with pytest.raises(DataError, match=rf"requests\.jsonl, line 2: .*{message}"):
        read_requests(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no tool; at least one is needed"),
        (b"\n \n", "holds no tool"),
        (b'{"family": "f", "name": "n"', "line 1: .*delimiter"),
        (b'{"family": "f", "name": "n"}\nnull', "line 2: tool: expected an object, got NoneType"),
        (b'{"family": "f", "name": "\xff"}', "not UTF-8"),
        (b'{"family": "f", "name": "n"}\n{"family": "f", "name": "n"}', "tool f/n stands twice .0 and 1."),
        (b"[" * 100_000, "line 1: "),
        (b'{"family": "f", "name": "n", "inputs": [{"name": NaN}]}', "line 1: .*field name: expected a string"),
    ],
)
def test_a_bad_file_is_named(content, message, tmp_path):
    path = tmp_path / "library.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_library(path)
    assert str(caught.value).startswith(str(path))


def test_a_request_that_stands_twice_and_a_file_that_does_not_exist(tmp_path):
    path = tmp_path / "requests.jsonl"
    path.write_text('{"id": "r", "text": ""}\n{"id": "r", "text": "other"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"requests\.jsonl.*request id 'r' stands twice"):
        read_requests(path)
    for read in (read_library, read_requests):
        with pytest.raises(DataError, match=r"none\.jsonl: cannot be read .No such file"):
            read(tmp_path / "none.jsonl")


def test_values_that_are_not_json():
    for value in (float("nan"), float("inf"), {1, 2}, object()):
        with pytest.raises(DataError, match="request 'r': state: not JSON"):
            Request("r", "t", state={"a": value})


def test_what_is_made_is_frozen_and_copied():
    state = {"a": [1]}
    request = Request("r", "t", state=state)
    state["a"].append(2)
    assert request.state == {"a": [1]}
    with pytest.raises(TypeError):
        request.state["b"] = 1
    with pytest.raises(AttributeError):
        request.text = "other"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tool("f", "n", inputs="abc"), "tool f/n: inputs: expected a list of Field, got str"),
        (lambda: Tool("f", "n", inputs=[{"name": "a"}]), r"tool f/n: inputs\[0\]: expected Field, got dict"),
        (lambda: Library(()), "library: holds no tool"),
        (lambda: Library([Tool("f", "n"), "x"]), r"library\[1\]: expected Tool, got str"),
        (lambda: Trajectory([3]), r"trajectory\[0\]: expected Call, got int"),
        (lambda: Request("r", "t", trajectory=[]), "request 'r': trajectory: expected a Trajectory"),
        (lambda: Call(()), "call: names no tool"),
        (lambda: Call((("f", "n", "x"),)), "call: tools: expected pairs of family and name"),
        (lambda: Call((("f", "n"),), sources=[("a", 0)]), r"call: sources\[0\]: expected Source, got tuple"),
    ],
)
def test_wrong_types_in_code(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_the_library_as_a_sequence():
    library = Library([Tool("a", "x"), Tool("b", "x")])
    assert len(library) == 2 and library[1].family == "b" and [tool.family for tool in library] == ["a", "b"]
    assert ToolId("a", "x") in library and ToolId("a", "y") not in library
    assert library.index(ToolId("b", "x")) == 1 and hash(library) == hash(Library(library.tools))
    with pytest.raises(DataError, match="tool a/y is not in the library of 2 tools"):
        library.index(ToolId("a", "y"))


def test_gold_by_hand():
    library = Library(tuple(Tool("f", name) for name in "xyz"))
    steps = ["zx", "y", "xz", "yy"]  # the third repeats the first, the fourth the second
    trajectory = Trajectory(tuple(Call(tuple(ToolId("f", name) for name in step)) for step in steps))
    assert library.gold(Request("r", "t", trajectory=trajectory)) == ((0, 2), (1,))
    assert trajectory.succeeded and not Trajectory((Call((ToolId("f", "x"),), succeeded=False),)).succeeded


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "folder" / "library.jsonl"
    write_atomic(path, ["old"])

    def lines():
        yield "new"
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_atomic(path, lines())
    assert path.read_text(encoding="utf-8") == "old\n" and [p.name for p in path.parent.iterdir()] == ["library.jsonl"]
