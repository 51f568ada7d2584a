"""The readers of NesTools, Seal-Tools, NESTFUL and RestBench: rules by hand, odd content, and the real corpora."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spm_jax.data import jsonl
from spm_jax.data.corpora import CORPORA, read_corpus
from spm_jax.data.readers import nestful, nestools, openapi, restbench, seal_tools
from spm_jax.data.schema import DataError, Source


def _write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(json.dumps(item) for item in value) if path.suffix == ".jsonl" else json.dumps(value)
    path.write_text(lines, "utf-8")
    return path


def _api(name: str, inputs: dict[str, bool], outputs: list[str], about: str = "") -> dict:
    return {
        "api_name": name,
        "api_description": about,
        "parameters": {key: {"type": "str", "description": f"the {key}"} for key in inputs},
        "required": [key for key, needed in inputs.items() if needed],
        "responses": {key: {"type": "str", "description": ""} for key in outputs},
    }


SCAN = _api("scan", {"isbn": True}, ["title", "shelf"])
OPEN = _api("open", {"place": True, "light": False}, ["message"])
NESTED = {
    "test_id": 7,
    "task": "Scan 978 and open its shelf",
    "field": "Library/Shelves",
    "api": [SCAN, OPEN],
    "call": [
        {"api_name": "scan", "parameters": {"isbn": "978"}, "responses": ["API_call_0", "API_call_1"]},
        {"api_name": "open", "parameters": {"place": "API_call_1", "light": "on"}, "responses": ["API_call_2"]},
    ],
}


def test_nestools_by_hand(tmp_path):
    other = {**NESTED, "test_id": 8, "api": [SCAN, {**OPEN, "api_description": "Another."}]}
    library, requests, counts = nestools.read(_write(tmp_path / "test_data.jsonl", [NESTED, other]))
    # scan recurs with the same definition, open with another: three tools.
    assert [tuple(tool.id) for tool in library] == [("nestools", "scan"), ("nestools", "open"), ("nestools 2", "open")]
    scan, open_ = library[0], library[1]
    assert [(f.name, f.required) for f in open_.inputs] == [("place", True), ("light", False)]
    assert [f.name for f in scan.outputs] == ["title", "shelf"] and scan.outputs_known
    first, second = (request.trajectory.calls for request in requests)
    assert first[1].sources == (Source("place", 0, "shelf"),) and dict(first[1].arguments) == {"light": "on"}
    assert second[1].tools == (library[2].id,) and requests[0].group != requests[1].group
    assert requests[0].domain == "Library" and counts["sources"] == 2 and counts["groups"] == 2
    jsonl.write_requests(tmp_path / "requests.jsonl", requests)
    assert jsonl.read_requests(tmp_path / "requests.jsonl") == requests


def test_the_field_of_a_nestools_request_says_nothing_of_its_tools(tmp_path):
    library, _, _ = nestools.read(_write(tmp_path / "test_data.jsonl", [NESTED]))
    assert not any("Shelves" in tool.family + tool.family_description + tool.description for tool in library)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"call": [{"api_name": "absent", "parameters": {}}]}, "requests_with_unknown_tools"),
        ({"call": []}, "requests_without_calls"),
        ({"call": None}, "requests_without_calls"),
        ({"api": [None, {"api_name": 3}]}, "tools_malformed"),
    ],
)
def test_odd_nestools_records_are_counted(tmp_path, change, named):
    _, requests, counts = nestools.read(_write(tmp_path / "test_data.jsonl", [{**NESTED, **change}, 5, NESTED]))
    assert len(requests) == 1 and counts["skipped"][named] >= 1 and counts["skipped"]["lines_not_objects"] == 1


def test_a_reference_to_a_later_call_is_counted_and_no_source(tmp_path):
    steps = [{**NESTED["call"][0], "parameters": {"isbn": "API_call_9"}}, NESTED["call"][1]]
    _, requests, counts = nestools.read(_write(tmp_path / "test_data.jsonl", [{**NESTED, "call": steps}]))
    assert counts["references_to_no_earlier_call"] == 1
    assert requests[0].trajectory.calls[0].sources == () and not requests[0].trajectory.calls[0].arguments


def test_references_among_other_values_are_sources(tmp_path):
    places = ["API_call_0", {"again": "see API_call_1, API_call_10"}, "shelf"]
    steps = [NESTED["call"][0], {**NESTED["call"][1], "parameters": {"place": places, "light": "API_call_"}}]
    _, requests, counts = nestools.read(_write(tmp_path / "test_data.jsonl", [{**NESTED, "call": steps}]))
    call = requests[0].trajectory.calls[1]
    assert call.sources == (Source("place", 0, "title"), Source("place", 0, "shelf"))
    assert dict(call.arguments) == {"light": "API_call_"} and counts["references_to_no_earlier_call"] == 1


def test_answers_that_do_not_fit_the_tool_name_no_field(tmp_path):
    steps = [{**NESTED["call"][0], "responses": ["API_call_0", "API_call_1", "API_call_2"]}, NESTED["call"][1]]
    steps[1] = {**steps[1], "parameters": {"place": "API_call_1", "light": ""}, "responses": [3, "", "API_call_1"]}
    _, requests, counts = nestools.read(_write(tmp_path / "test_data.jsonl", [{**NESTED, "call": steps}]))
    assert requests[0].trajectory.calls[1].sources == (Source("place", 0, ""),)
    assert counts["answers_unlike_the_tool"] == 2


def test_nestools_requests_that_stand_twice_or_say_nothing(tmp_path):
    records = [NESTED, NESTED, {**NESTED, "test_id": 8, "task": " "}, {**NESTED, "test_id": {}}]
    _, requests, counts = nestools.read(_write(tmp_path / "test_data.jsonl", records))
    assert [request.id for request in requests] == ["nestools/7", "nestools/3"]
    assert counts["skipped"] == {"requests_repeated": 1, "requests_without_text": 1}


def test_a_tool_called_again_stays_in_the_group(tmp_path):
    again = {**NESTED, "test_id": 8, "call": [NESTED["call"][0], *NESTED["call"]]}
    library, requests, counts = nestools.read(_write(tmp_path / "test_data.jsonl", [NESTED, again]))
    assert library.gold(requests[0]) == library.gold(requests[1]) and counts["groups"] == 1


def test_only_a_line_feed_ends_a_line(tmp_path):
    task = "Scan\u2028978\x85now"
    path = tmp_path / "test_data.jsonl"
    path.write_text("\ufeff" + json.dumps({**NESTED, "task": task}, ensure_ascii=False) + "\r\n", "utf-8", newline="")
    assert nestools.read(path)[1][0].text == task


def test_seal_tools_by_hand(tmp_path):
    tools = [{**SCAN, "field": "Books/Scanners"}, {**OPEN, "field": "Books/Rooms"}, {**SCAN, "field": "again"}, {}]
    _write(tmp_path / "tool.jsonl", tools)
    calling = [{**step, "api": step["api_name"]} for step in NESTED["call"]]
    record = {"id": "dev-1", "query": "Scan and open", "calling": calling}
    _write(tmp_path / "dev.jsonl", [record, record, {**record, "id": "dev-2", "calling": [{"api": "absent"}]}])
    library, requests, counts = seal_tools.read(tmp_path)
    assert [tuple(tool.id) for tool in library] == [("Books/Scanners", "scan"), ("Books/Rooms", "open")]
    assert len(requests) == 1 and requests[0].domain == "Books"
    assert requests[0].trajectory.calls[1].sources == (Source("place", 0, "shelf"),)
    assert counts["files"] == {"dev.jsonl": 3}
    skipped = counts["skipped"]
    assert (skipped["tools_repeated"], skipped["tools_malformed"], skipped["requests_repeated"]) == (1, 1, 1)


def _nestful(folder: Path, steps: list) -> Path:
    spec = [
        {"name": "Find", "description": "", "query_parameters": {"q": {"required": True}},
         "output_parameters": {"id": {}}},
        {"name": "Bus.Buy", "arguments": {"ids": {"required": True}, "seat": {"required": False}}},
    ]  # fmt: skip
    for start in nestful.SETS.values():
        _write(folder / f"{start}-spec.json", spec)
        _write(folder / f"{start}-data.json", [{"input": "Find and buy", "output": steps}])
    return folder


def test_nestful_by_hand(tmp_path):
    steps = [
        {"name": "Find", "arguments": {"q": "x"}, "label": "var1"},
        {"name": "Bus.Buy", "arguments": {"ids": ["$var1.id$", "$var9.id$"], "seat": 3}, "label": "var2"},
        {"name": "var_result", "arguments": {"all": "$var2$"}},
    ]
    library, requests, counts = nestful.read(_nestful(tmp_path, steps))
    assert [tool.family for tool in library] == [f for s in nestful.SETS for f in (s, f"{s}/Bus")]
    assert library[0].outputs_known and not library[1].outputs_known
    buy = requests[0].trajectory.calls[1]
    assert buy.sources == (Source("ids", 0, "id"),) and dict(buy.arguments) == {"seat": 3}
    assert [len(request.trajectory.calls) for request in requests] == [2, 2, 2] and counts["sources"] == 3


def test_nestful_nested_fields_and_text_around_references(tmp_path):
    folder = _nestful(tmp_path, [])
    shop = {"type": "Object", "properties": {"id": {"type": "string"}, "name": "string"}}
    outputs = {"shop": shop, "author": {"type": "array", "items": {"properties": {"id": {}}}}, "fare": {}}
    find = {"name": "Find", "path_parameters": {"q": {"required": True}}, "query_parameters": {"n": {}},
            "output_parameters": outputs}  # fmt: skip
    spec = [find, find, {**find, "description": "otherwise"}, {"name": "Say", "parameters": {"a": {}}}, {}, 3]
    values = ["to $var1.author[0].id$ and $var1.fare$", "var1.shop.name$", "$var1.name$", "$var1.id$", "$var1$",
              {"deep": [["$var1.fare$"]]}]  # fmt: skip
    steps = [{"name": "Find", "label": "var1"}, {"name": "Say", "arguments": {str(n): v for n, v in enumerate(values)}}]
    steps[1]["arguments"] |= {"price": "$100-$200", "cash": "$5$", "late": "$var7.id$"}
    _write(folder / "executable-spec.json", spec)
    _write(folder / "executable-data.json", [{"input": "q", "output": steps}, {"input": "", "output": steps}, None])
    for start in list(nestful.SETS.values())[1:]:
        _write(folder / f"{start}-data.json", [])
    library, requests, counts = nestful.read(folder)
    assert [f.name for f in library[0].inputs] == ["q", "n"] and library[0].inputs[0].required
    assert [f.name for f in library[0].outputs] == ["fare", "shop.id", "shop.name", "author.id"]
    say = requests[0].trajectory.calls[1]
    assert say.sources == (
        Source("0", 0, "author.id"), Source("0", 0, "fare"), Source("1", 0, "shop.name"),
        Source("2", 0, "shop.name"),  # the only output that ends so
        Source("3", 0, "id"),  # two do: what the corpus says
        Source("4", 0, ""), Source("5", 0, "fare"),
    )  # fmt: skip
    assert dict(say.arguments) == {"price": "$100-$200", "cash": "$5$"}
    assert counts["references_to_no_earlier_call"] == 2 and counts["skipped"] == {  # one in each reading of the steps
        "tools_malformed": 2, "tools_repeated": 1, "tools_repeated_otherwise": 1, "requests_without_text": 1,
        "requests_without_calls": 1,
    }  # fmt: skip


JUNK = (
    None,
    True,
    3,
    1e300,
    "",
    "x",
    "a\0b",
    "\ud800",
    "API_call_0",
    "$var1.a$",
    [],
    [[]],
    [None],
    {},
    {"": 1},
    {"x": {}},
)


def _damaged(value: object) -> Iterator[object]:
    """``value`` with each of its parts replaced by each junk."""
    yield from JUNK
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        for other in _damaged(part):
            copy = value.copy()
            copy[key] = other
            yield copy


def test_no_damage_of_a_record_is_a_traceback(tmp_path):
    """What cannot be read is skipped with a count; what is read can be written and read back."""
    seal = {"id": "dev-1", "query": "q", "calling": [{**step, "api": step["api_name"]} for step in NESTED["call"]]}
    tools = [{**SCAN, "field": "Books/Scanners"}, {**OPEN, "field": "Books/Rooms"}]
    find = {"name": "Find", "query_parameters": {"q": {"required": True}}, "output_parameters": {"id": {"type": "s"}}}
    steps = [{"name": "Find", "arguments": {"q": "x"}, "label": "var1"}, {"name": "Find", "arguments": {"q": "$var1$"}}]
    _write(tmp_path / "nestools" / "test_data.jsonl", [NESTED, *_damaged(NESTED)])
    _write(tmp_path / "seal_tools" / "tool.jsonl", [*tools, *_damaged(tools[0])])
    _write(tmp_path / "seal_tools" / "dev.jsonl", [seal, *_damaged(seal)])
    for start in nestful.SETS.values():
        _write(tmp_path / "nestful" / f"{start}-spec.json", [find, *_damaged(find)])
        record = {"input": "q", "output": steps}
        _write(tmp_path / "nestful" / f"{start}-data.json", [record, *_damaged(record)])
    for name in ("nestools", "seal_tools", "nestful"):
        library, requests, counts = read_corpus(name, tmp_path / name)
        left_out = sum(number for what, number in counts["skipped"].items() if "requests" in what)
        assert len(requests) == counts["requests"] - left_out > 1
        assert all(library.gold(request) for request in requests)
        jsonl.write_library(tmp_path / "library.jsonl", library)
        jsonl.write_requests(tmp_path / "requests.jsonl", requests)
        assert jsonl.read_library(tmp_path / "library.jsonl") == library
        assert jsonl.read_requests(tmp_path / "requests.jsonl") == requests


def test_nestful_skips_what_it_does_not_know(tmp_path):
    with pytest.raises(DataError, match="no NESTFUL request"):
        nestful.read(_nestful(tmp_path, [{"name": "Absent"}]))


DOCUMENT = {
    "openapi": "3.0.1",
    "info": {"title": "Shop"},
    "paths": {
        "/orders/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}, {"name": "lang", "in": "query"}],
            "get": {
                "summary": "One order",
                "description": "One order",
                "parameters": [{"name": "lang", "in": "query", "required": True, "schema": {"type": "string"}},
                               {"name": "trace", "in": "header"}],
                "responses": {"404": {"$ref": "#/components/responses/None"},
                              "200": {"$ref": "#/components/responses/Order"}},
            },
            "delete": {"responses": {"204": {"description": "gone"}}},
        },
        "/orders": {
            "post": {
                "requestBody": {"required": True, "content": {"application/json": {"schema": {
                    "type": "object", "required": ["customer"],
                    "properties": {"customer": {"type": "string"}, "note": {"type": "string"}}}}}},
                "responses": {"default": {"description": "unknown"}},
            },
            "get": "no operation",
        },
    },
    "components": {
        "parameters": {"Id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}},
        "responses": {"Order": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}},
        "schemas": {
            "Order": {"allOf": [{"$ref": "#/components/schemas/Base"},
                                {"properties": {"parent": {"$ref": "#/components/schemas/Order"}}}]},
            "Base": {"properties": {"number": {"type": "string"}}},
        },
    },
}  # fmt: skip


def test_openapi_by_hand():
    counts: dict = {}
    get, delete, post = openapi.tools_of(DOCUMENT, counts)
    assert (get.family, get.name, get.description) == ("Shop", "GET /orders/{id}", "One order")
    assert [(f.name, f.type, f.required) for f in get.inputs] == [("id", "integer", True), ("lang", "string", True)]
    assert "number" in [f.name for f in get.outputs] and get.outputs_known  # and the recursion has an end
    assert delete.outputs == () and delete.outputs_known  # 204: it is known that nothing comes back
    assert [(f.name, f.required) for f in post.inputs] == [("customer", True), ("note", False)]
    assert not post.outputs_known and counts == {"operations": 3, "skipped": {"operations_malformed": 1}}


@pytest.mark.parametrize("document", [None, [], {"openapi": "3.0.0"}, {"swagger": "2.0", "paths": {}}])
def test_what_is_no_openapi_document_is_said(document):
    with pytest.raises(DataError, match="openapi: 3.x"):
        openapi.tools_of(document, {})


def test_references_in_a_circle_end():
    circle = {"a": {"$ref": "#/components/parameters/b"}, "b": {"$ref": "#/components/parameters/a"}}
    paths = {"/x": {"get": {"parameters": [{"$ref": "#/components/parameters/a"}], "responses": {}}}}
    document = {"openapi": "3.1.0", "paths": paths, "components": {"parameters": circle}}
    (tool,) = openapi.tools_of(document, {})
    assert tool.inputs == () and tool.family == "api"


def test_restbench_by_hand(tmp_path):
    for api in restbench.APIS:
        _write(tmp_path / "specs" / f"{api}_oas.json", DOCUMENT)
        solutions = [["POST /orders", "GET  /orders/{order_id} "], ["GET /absent"], []]
        _write(tmp_path / "datasets" / f"{api}.json", [{"query": "q", "solution": steps} for steps in solutions])
    library, requests, counts = restbench.read(tmp_path)
    assert len(library) == 6 and {tool.family for tool in library} == {"tmdb", "spotify"}
    chain = [call.tools[0].name for call in requests[0].trajectory.calls]
    assert chain == ["POST /orders", "GET /orders/{id}"]  # the parameter's name does not matter
    assert counts["skipped"]["requests_with_unresolved_steps"] == 4 and len(requests) == 2


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_that_is_not_there_is_said(tmp_path, name):
    with pytest.raises(DataError, match=str(tmp_path)):
        read_corpus(name, tmp_path)


def test_an_unknown_corpus_is_said(tmp_path):
    with pytest.raises(DataError, match="known are nestools"):
        read_corpus("toolalpaca", tmp_path)


# requests read, groups, tools, sources, as data's README files state them or as counted apart from the readers.
REAL = {
    "nestools": (1000, 1000, 3034, 1747),
    "seal_tools": (2054, 2054, 4076, 103),
    "nestful": (290, 201, 133, 423),
    "restbench": (156, 126, 94, 0),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_corpora(shared_data, name):
    library, requests, counts = read_corpus(name, shared_data / name)
    sources = sum(len(call.sources) for request in requests for call in request.trajectory.calls)
    assert (len(requests), counts["groups"], len(library), sources) == REAL[name]
    assert counts.get("sources", 0) == sources
    for request in requests:
        assert library.gold(request)
    # Exact data flow names fields that the tools have; NESTFUL's own text is looser in 28 outputs and 20 arguments.
    odd = [0, 0]
    for request in requests:
        called = [library[library.index(call.tools[0])] for call in request.trajectory.calls]
        for call, taker in zip(request.trajectory.calls, called):
            for source in call.sources:
                odd[0] += source.output not in [field.name for field in called[source.call].outputs]
                odd[1] += source.argument not in [field.name for field in taker.inputs]
    assert odd == ([28, 20] if name == "nestful" else [0, 0])


def test_the_facts_of_the_readme_counted_apart(shared_data):
    """NesTools' and Seal-Tools' data flow, tools and names, counted from the files without the reader."""
    lines = (shared_data / "nestools" / "data" / "test_data.jsonl").read_text("utf-8").split("\n")
    records = [json.loads(line) for line in lines if line]
    listed = {json.dumps(api, sort_keys=True) for record in records for api in record["api"]}
    assert len(records) == 1000 and len(listed) == REAL["nestools"][2]
    assert len({api["api_name"] for record in records for api in record["api"]}) == 2799
    folder = shared_data / "seal_tools" / "Seal-Tools_Dataset"
    lines = [line for name in seal_tools.FILES for line in (folder / name).read_text("utf-8").split("\n")]
    seal = [json.loads(line) for line in lines if line]
    assert [len(seal), len((folder / "tool.jsonl").read_text("utf-8").strip().split("\n"))] == [2054, 4076]
    for corpus, calls in (("nestools", "call"), ("seal_tools", "calling")):
        flow = 0
        for record in records if corpus == "nestools" else seal:
            earlier: set[str] = set()
            for step in record[calls]:
                for value in step["parameters"].values():
                    flow += len(earlier & set(re.findall(r"API_call_[0-9]+", json.dumps(value))))
                earlier.update(step["responses"])
        assert flow == REAL[corpus][3], corpus
