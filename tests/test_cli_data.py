"""``spm data``: what it prints and writes, and its errors."""

from __future__ import annotations

import argparse
import json

import pytest

from spm_jax.cli import data
from spm_jax.data.jsonl import read_library, read_requests
from spm_jax.data.schema import DataError


def spm(*argv):
    parser = argparse.ArgumentParser(prog="spm")
    data.add_parser(parser.add_subparsers(dest="command", required=True))
    return data.run(parser.parse_args(["data", *map(str, argv)]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder laid out as shared/data/toolbench and traject_bench are, unpacked."""
    monkeypatch.setenv("SPM_CACHE", str(tmp_path / "cache"))
    apis = [
        {"name": "Get Order", "description": "", "required_parameters": [{"name": "id"}], "optional_parameters": []},
        {"name": "List", "description": "", "body": {"sku": 1}},
    ]
    step = {"tool name": "x", "API name": "Get Order", "parent tool name": "Shop", "execution_status": "success"}
    step["required parameters"] = [{"name": "id", "value": 1234}]
    files = {
        "tools/Food/shop.json": {"tool_name": "Shop", "tool_description": "sells", "api_list": apis},
        "tool_response_cache/Food/shop_for_Food/get_order.json": {"{}": {"error": "", "response": {"email": "x"}}},
        "live_apis.jsonl": {"api": "list", "category": "Food", "tool": "shop"},
        "public_data/sequential/Food/traj_query.json": [
            {"query": "order with id 1234", "sequence_name": "s", "tool list": [step]}
        ],
    }
    for name, content in files.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return tmp_path / "in"


def test_toolbench(folder, tmp_path, capsys):
    assert spm("toolbench", folder, "--responses", "--out", tmp_path / "a") == 0
    printed = capsys.readouterr().out
    library = read_library(tmp_path / "a" / "library.jsonl")
    assert [(t.name, t.outputs_from) for t in library] == [("get_order", "responses"), ("list", "body")]
    assert "with required inputs                   0.500" in printed
    assert "outputs known                          1.000" in printed
    assert "outputs known without responses        0.500" in printed
    assert "present                                1" in printed
    spm("toolbench", folder, "--responses", "--out", tmp_path / "b")
    for name in ("library.jsonl", "counts.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert json.loads((tmp_path / "a" / "counts.json").read_text())["library"]["tools"] == 2


def test_toolbench_live_cut_and_without_out(folder, tmp_path, capsys):
    spm("toolbench", folder / "tools", "--live", folder / "live_apis.jsonl", "--out", tmp_path / "live")
    assert [t.name for t in read_library(tmp_path / "live" / "library.jsonl")] == ["list"]
    spm("toolbench", folder, "--live")
    assert "wrote" not in capsys.readouterr().out.splitlines()[-1]


def test_traject(folder, tmp_path, capsys):
    spm("toolbench", folder, "--out", tmp_path / "lib")
    for library in (tmp_path / "lib", tmp_path / "lib" / "library.jsonl", folder):
        assert spm("traject", folder, "--library", library, "--out", tmp_path / "req") == 0
        (request,) = read_requests(tmp_path / "req" / "requests.jsonl")
        assert request.group == "Food/s"
    printed = capsys.readouterr().out
    assert "precision                              1.000" in printed
    assert "recall                                 1.000" in printed


def test_errors(folder, tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        spm("toolbench", tmp_path / "nothing")
    with pytest.raises(DataError, match=r"nothing\.jsonl: cannot be read as text \(No such file"):
        spm("toolbench", folder, "--live", tmp_path / "nothing.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file"):
        spm("toolbench", folder, "--out", tmp_path / "file")
    other = tmp_path / "other.jsonl"
    other.write_text('{"family": "a", "name": "b"}\n')
    with pytest.raises(DataError, match="no request has all its tools"):
        spm("traject", folder, "--library", other)


def test_help_teaches_an_example(capsys):
    with pytest.raises(SystemExit):
        spm("toolbench", "--help")
    assert "spm data toolbench shared/data/toolbench --responses --out library" in capsys.readouterr().out


def test_real_toolbench_command(shared_data, pytestconfig, tmp_path, capsys):
    cache = pytestconfig.cache.mkdir("spm_jax")
    assert spm("toolbench", shared_data / "toolbench", "--responses", "--cache", cache, "--out", tmp_path) == 0
    printed = capsys.readouterr().out
    assert "tools                                  44,589" in printed
    assert "present                                13,299" in printed
    assert len((tmp_path / "library.jsonl").read_bytes().splitlines()) == 44_589
