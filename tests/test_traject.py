"""TRAJECT-Bench requests resolved onto a library: by hand, hostile, and the real 950."""

from __future__ import annotations

import json

import pytest
from real_library import real_library, real_requests

from spm_jax.data.jsonl import read_requests as read_written
from spm_jax.data.jsonl import write_requests
from spm_jax.data.readers.traject import listings, read_parallel, read_requests
from spm_jax.data.schema import DataError, Library, Tool, ToolId


def shop_library():
    return Library(
        (
            Tool("food/shop", "get_order", family_description="Shop: The API: sells things"),
            Tool("data/shop", "get_order", family_description="Shop mirror: again"),
            Tool("food/other_file", "is_id", family_description="My Product: words: more words"),
        )
    )


def step(tool, api, parent, status="success", **arguments):
    return {
        "tool name": tool,
        "API name": api,
        "parent tool name": parent,
        "execution_status": status,
        "required parameters": [{"name": name, "value": value} for name, value in arguments.items()],
        "optional parameters": [],
    }


def write(folder, queries, tools=()):
    for name, content in (("sequential/Food/traj_query.json", queries), ("tools/Food_tool.json", list(tools))):
        path = folder / "public_data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return folder


def test_listings():
    found = listings(shop_library())
    # By file name in every category, and by product name, which may itself hold a colon.
    assert found["shop", "get_order"] == (ToolId("food/shop", "get_order"), ToolId("data/shop", "get_order"))
    assert found["shop_the_api", "get_order"] == (ToolId("food/shop", "get_order"),)
    assert found["my_product", "is_id"] == (ToolId("food/other_file", "is_id"),)


def test_requests_by_hand(tmp_path):
    first = {
        "query": "receipt of order 12",
        "sequence_name": "receipt",
        "tool list": [
            step("Shop: Get Order", "Get Order", "Shop", id=12, nan=float("nan"), sur="\ud800"),
            step("mine", "unknown", "unknown", "failed"),  # told by the tool record of its name
            step("Shop: get order", "unknown", "unknown"),  # told by the name itself
        ],
    }
    queries = [
        first,
        {"query": "x", "sequence_name": "s", "tool list": [step("Gone: a", "a", "Gone")]},
        {"query": "x", "sequence_name": "s", "tool list": []},
        {"query": None, "tool list": [3]},
        {"query": "y", "tool list": [3]},
        7,
    ]
    record = {"tool name": "mine", "parent tool name": "My Product", "API name": "ID"}
    requests, counts = read_requests(write(tmp_path, queries, [record, 3]), shop_library())
    (request,) = requests
    assert (request.id, request.group, request.domain, request.text) == (
        "Food/0",
        "Food/receipt",
        "Food",
        "receipt of order 12",
    )
    shop = (ToolId("food/shop", "get_order"), ToolId("data/shop", "get_order"))
    assert [call.tools for call in request.trajectory.calls] == [shop, (ToolId("food/other_file", "is_id"),), shop]
    assert [call.succeeded for call in request.trajectory.calls] == [True, False, True]
    assert dict(request.trajectory.calls[0].arguments) == {"id": 12}
    assert shop_library().gold(request) == ((0, 1), (2,))
    assert counts == {
        "files": 2, "requests": 6, "steps": 5, "steps_unresolved": 2, "resolved": 1,
        "resolved_and_succeeded": 0, "groups": 1,
        "skipped": {
            "requests_with_unresolved_steps": 2, "requests_without_steps": 1, "requests_malformed": 2,
            "arguments_unusable": 2,
        },
    }  # fmt: skip


def test_parallel_requests_are_sets_in_groups_of_the_same_tools(tmp_path):
    order, other = step("Shop: Get Order", "Get Order", "Shop", id=1), step("My Product: ID", "ID", "My Product")
    for part in (order, other):
        del part["execution_status"]
    files = {
        "simple": [{"query": "both", "tool list": [order, other]}, {"query": "one", "tool list": [order]}],
        "hard": [{"query": "the other way", "tool list": [other, order]}, {"query": "x", "tool list": [3]}],
    }
    for version, records in files.items():
        path = tmp_path / "public_data" / "parallel" / "Food" / f"{version}_ver.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(records))
    requests, counts = read_parallel(tmp_path, shop_library())
    assert [r.id for r in requests] == ["Food/hard_ver/0", "Food/simple_ver/0", "Food/simple_ver/1"]
    assert requests[0].group == requests[1].group != requests[2].group and requests[0].domain == "Food"
    assert not any(r.trajectory.ordered for r in requests) and all(r.trajectory.succeeded for r in requests)
    assert counts["groups"] == 2 and counts["skipped"] == {"requests_with_unresolved_steps": 1}
    with pytest.raises(DataError, match="parallel/<Domain>"):
        read_parallel(write(tmp_path / "sequential_only", [{"query": "x", "tool list": []}]), shop_library())


def test_wrong_input(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_requests(tmp_path / "nothing", shop_library())
    with pytest.raises(DataError, match="holds no TRAJECT-Bench request"):
        read_requests(tmp_path, shop_library())
    (tmp_path / "public_data.tar.xz").write_bytes(b"\xfd7zXZ\0junk")
    with pytest.raises(DataError, match="damaged or truncated"):
        read_requests(tmp_path, shop_library())
    with pytest.raises(DataError, match="holds no TRAJECT-Bench request"):
        read_requests(write(tmp_path / "odd", {"a": 1}) / "public_data" / "tools", shop_library())


def test_real_requests(shared_data, pytestconfig, tmp_path):
    cache = pytestconfig.cache.mkdir("spm_jax")
    library, _ = real_library(shared_data, cache)
    requests, counts = real_requests(shared_data, cache)
    assert len(requests) == counts["resolved"] == 950
    assert sum(request.trajectory.succeeded for request in requests) == 449
    assert counts["requests"] == 1_300
    assert counts["skipped"] == {"requests_with_unresolved_steps": 350}
    assert len({request.id for request in requests}) == 950
    assert len({request.domain for request in requests}) == 7
    assert all(request.group.startswith(request.domain + "/") for request in requests)
    chains = [library.gold(request) for request in requests]
    assert 5.7 < sum(map(len, chains)) / 950 < 5.9
    # 76 % of the gold tools have a required input in evaluation.md (nine domains); 37 % a documented output.
    gold = [library[tools[0]] for chain in chains for tools in chain]
    assert 0.70 < sum(bool(tool.required) for tool in gold) / len(gold) < 0.78
    documented = sum(tool.outputs_from in ("schema", "body") for tool in gold) / len(gold)
    assert 0.33 < documented < 0.40
    write_requests(tmp_path / "requests.jsonl", requests)
    assert read_written(tmp_path / "requests.jsonl") == requests


def test_real_parallel_requests(shared_data, pytestconfig):
    library, _ = real_library(shared_data, pytestconfig.cache.mkdir("spm_jax"))
    requests, counts = read_parallel(shared_data / "traject_bench", library)
    assert counts["requests"] == 2_800 and counts["skipped"] == {"requests_with_unresolved_steps": 513}
    assert len(requests) == len({request.id for request in requests}) == 2_287
    assert len({request.group for request in requests}) == counts["groups"] == 1_131
    for request in requests:
        assert not request.trajectory.ordered and library.gold(request)
