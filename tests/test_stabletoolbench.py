"""StableToolBench requests resolved onto a library: by hand, hostile, and the real 741."""

from __future__ import annotations

import json

import pytest
from real_library import real_library

from spm_jax.data.readers.stabletoolbench import read_requests
from spm_jax.data.schema import DataError, Library, Tool, ToolId

LIBRARY = Library((Tool("food/shop", "get_order"), Tool("data/shop", "get_order"), Tool("food/my_maps", "is_id")))


def api(category, tool, name):
    return {"category_name": category, "tool_name": tool, "api_name": name, "required_parameters": []}


def record(number, text, wanted, offered):
    return {"query_id": number, "query": text, "relevant APIs": wanted, "api_list": offered}


OFFERED = [api("Food", "Shop", "Get Order"), api("Data", "Shop", "Get Order"), api("Food", "My Maps", "ID")]


def write(folder, **files):
    for name, records in files.items():
        path = folder / "requests" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(records))
    return folder


def test_requests_by_hand(tmp_path):
    both = [["Shop", "Get Order"], ["My Maps", "ID"]]
    first = [
        record(7, "map my order", both, OFFERED),
        record(8, "map it", both[::-1], OFFERED),
        record(9, "order", [["Shop", "Get Order"]], OFFERED[:1]),
        record(10, "gone", [["Shop", "Gone"]], OFFERED),
        record(11, "not offered", [["Shop", "Get Order"]], []),
        record(12, "none", [], OFFERED),
        record(13, "odd", ["Shop"], OFFERED),
        record(14, None, both, OFFERED),
        3,
    ]
    again = [record(7, "map my order", both, OFFERED), {"query": "no number", **record(1, "", both[:1], OFFERED)}]
    requests, counts = read_requests(write(tmp_path, G1_tool=first, G2_category=again, other=[1]), LIBRARY)
    assert [request.id for request in requests] == ["G1_tool/7", "G1_tool/8", "G1_tool/9", "G2_category/1"]
    shop = (ToolId("food/shop", "get_order"), ToolId("data/shop", "get_order"))
    assert [call.tools for call in requests[0].trajectory.calls] == [shop, (ToolId("food/my_maps", "is_id"),)]
    assert requests[2].trajectory.calls[0].tools == shop[:1]  # only the category that was offered
    assert requests[0].group == requests[1].group and not requests[0].trajectory.ordered
    assert counts == {
        "files": 2, "requests": 11, "tools": 10, "tools_unresolved": 2, "resolved": 4, "groups": 2,
        "skipped": {
            "requests_with_unresolved_tools": 2, "requests_without_tools": 1, "requests_malformed": 3,
            "repeated_requests": 1,
        },
    }  # fmt: skip


def test_wrong_input(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_requests(tmp_path / "nothing", LIBRARY)
    with pytest.raises(DataError, match="holds no StableToolBench request"):
        read_requests(tmp_path, LIBRARY)


def test_real_requests(shared_data, pytestconfig):
    library, _ = real_library(shared_data, pytestconfig.cache.mkdir("spm_jax"))
    requests, counts = read_requests(shared_data / "toolbench", library)
    assert counts["requests"] == 765 and len(requests) == 741 == counts["resolved"]
    assert counts["skipped"] == {"requests_with_unresolved_tools": 23, "repeated_requests": 1}
    assert len({request.id for request in requests}) == 741
    assert not any(request.trajectory.ordered for request in requests)
    assert all(library.gold(request) for request in requests)
