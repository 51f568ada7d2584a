"""The ToolBench reader: standardisation, identity, hostile archives, cache, and the real library."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time

import pytest
from real_library import real_library

from spm_jax.data.jsonl import write_library
from spm_jax.data.readers.toolbench import live_cut, read_library, read_live, standardise, standardise_api
from spm_jax.data.schema import DataError, ToolId


def api(name, **more):
    return {"name": name, "description": f"about {name}", "required_parameters": [], "optional_parameters": [], **more}


def document(*apis, name="Shop API", description="sells"):
    return {"tool_name": name, "tool_description": description, "api_list": list(apis)}


def write_folder(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def write_archive(path, files, extra=()):
    with tarfile.open(path, "w:xz") as archive:
        for name, content in files.items():
            data = (content if isinstance(content, str) else json.dumps(content)).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in extra:
            archive.addfile(member)
    return path


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Get Order!!", "get_order"), ("__A--b__", "a_b"), ("1 Cent SMS", "get_1_cent_sms"), ("a^b", "a^b"),
     ("中文 名", "中文_名"),
     ("/", ""), ("", "")],
)  # fmt: skip
def test_standardise(name, expected):
    assert standardise(name) == expected


def test_standardise_api_reserved():
    assert [standardise_api(n) for n in ("From", "class", "ID", "and", "identity")] == [
        "is_from", "is_class", "is_id", "is_and", "identity",
    ]  # fmt: skip


def test_a_library_by_hand(tmp_path):
    parameter = {"name": "orderId", "type": "STRING", "description": "which", "default": ""}
    optional = {"name": "lang", "type": None}
    files = {
        "tools/Food/zeta.json": document(api("Last")),
        "tools/Food/My Shop.json": document(
            api("Get Order", required_parameters=[parameter], optional_parameters=[optional, {"type": "x"}]),
            api("get-order", description="a second listing"),
            api("/", body='{"city": "Rome"}'),
            api("id", schema={"type": "object", "properties": {"sku": {"type": "string"}}}),
        ),
    }
    folder = write_folder(tmp_path / "folder", files)
    archive = write_archive(tmp_path / "library.tar.xz", files)
    library, counts = read_library(folder, cache=False)
    assert library == read_library(archive, cache=False)[0]
    # Order: files by name, then position; the second get_order is a duplicate.
    assert [t.id for t in library] == [
        ToolId("food/my_shop", "get_order"), ToolId("food/my_shop", "_"), ToolId("food/my_shop", "is_id"),
        ToolId("food/zeta", "last"),
    ]  # fmt: skip
    order = library[0]
    assert order.description == "about Get Order"
    assert order.family_description == "Shop API: sells"
    assert [(f.name, f.type, f.required) for f in order.inputs] == [("orderId", "STRING", True), ("lang", "", False)]
    assert [(t.outputs_known, t.outputs_from) for t in library] == [
        (False, ""),
        (True, "body"),
        (True, "schema"),
        (False, ""),
    ]
    assert counts == {
        "library": {
            "files": 2, "tool_files": 2, "entries": 5,
            "skipped": {"duplicate_identity": 1, "parameters_without_name": 1},
        }
    }  # fmt: skip


def test_responses_and_live(tmp_path):
    tools = write_folder(tmp_path / "tools", {"Food/shop.json": document(api("get order"), api("list", body={"n": 1}))})
    answers = {
        "Food/shop_for_Food/get_order.json": {
            "{'id': 1}": {"error": "", "response": {"message": "You are not subscribed to this API."}},
            "{'id': 2}": {"error": "timeout", "response": {"never": 1}},
            "{'id': 3}": {"error": "", "response": "{'total': 3, 'email': 'x'}"},
        },
        "Food/shop_for_Food/list.json": {"{}": {"error": "", "response": {"other": 1}}},
        "Food/gone_for_Food/x.json": {},
        "holder.json": {},
    }
    responses = write_folder(tmp_path / "tool_response_cache", answers)
    live = tmp_path / "live.jsonl"
    live.write_text(
        '{"api": "get_order", "category": "Food", "tool": "shop"}\n{"api": "x", "category": "Food", "tool": "y"}\n'
    )
    library, counts = read_library(tools, responses, cache=False)
    assert [f.name for f in library[0].outputs] == ["total", "email"]
    assert [t.outputs_from for t in library] == ["responses", "body"]
    assert counts["responses"] == {
        "files": 4, "pairs": 4, "pairs_failed": 1, "tools_documented": 1,
        "skipped": {"not_in_library": 1, "files_without_category": 1},
    }  # fmt: skip
    cut, counts = read_library(tools, live=live, cache=False)
    assert [t.name for t in cut] == ["get_order"]
    assert counts["live"] == {"listed": 2, "present": 1}
    live.write_text('{"api": "nope", "category": "Food", "tool": "shop"}\n')
    with pytest.raises(DataError, match="none of the live APIs"):
        read_library(tools, live=live, cache=False)
    live.write_text('{"api": 3}\n')
    with pytest.raises(DataError, match=r"live.jsonl, line 1"):
        read_live(live)


# --- hostile input ---------------------------------------------------------------------------------------------------


def test_hostile_members_are_skipped_and_counted(tmp_path):
    link = tarfile.TarInfo("tools/Food/link.json")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard = tarfile.TarInfo("tools/Food/hard.json")
    hard.type, hard.linkname = tarfile.LNKTYPE, "tools/Food/good.json"
    files = {
        "../../x.json": document(api("escape")),
        "/absolute/Food/x.json": document(api("absolute")),
        "tools/Food/junk.json": "not json",
        "tools/Food/deep.json": "[" * 100_000,
        "tools/Food/list.json": [1, 2],
        "tools/Food/nolist.json": {"tool_name": "x"},
        "tools/Food/.json": document(api("nameless file")),
        "tools/Food/readme.txt": "hello",
        "tools/Food/good.json": document(
            api("long", description="x" * 100_000),
            api("sur", description="a\ud800b", required_parameters=[{"name": "a\0b"}, {"name": "\0"}, 3]),
            api("odd", required_parameters=None, optional_parameters={"a": 1}, schema=[1], body=7),
            {"description": "no name"},
            3,
        ),
    }
    library, counts = read_library(write_archive(tmp_path / "l.tar.xz", files, [link, hard]), cache=False)
    assert [t.name for t in library] == ["long", "sur", "odd"]
    assert len(library[0].description) == 100_000
    assert library[1].description == "a?b"
    assert [f.name for f in library[1].inputs] == ["ab"]
    assert counts["library"]["skipped"] == {
        "path_escapes": 2, "not_json": 2, "files_not_a_tool": 2, "files_without_name": 1, "entries_not_an_api": 2,
        "links_and_devices": 2, "parameters_without_name": 2,
    }  # fmt: skip
    assert counts["library"]["repaired"] == {"lone_surrogates": 1, "nul_in_name": 2}
    assert not (tmp_path.parent / "x.json").exists()


def test_links_of_a_folder_are_skipped(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(document(api("secret"))))
    folder = write_folder(tmp_path / "tools", {"Food/shop.json": document(api("a"))})
    os.symlink(secret, folder / "Food" / "link.json")
    library, counts = read_library(folder, cache=False)
    assert [t.name for t in library] == ["a"]
    assert counts["library"]["skipped"] == {"links_and_devices": 1}


def test_damaged_archives(tmp_path):
    whole = write_archive(
        tmp_path / "w.tar.xz", {f"tools/Food/s{n}.json": document(api(f"a{n * 7919}")) for n in range(500)}
    )
    data = whole.read_bytes()
    cut = tmp_path / "cut.tar.xz"
    for content in (data[: len(data) // 2], data[:-20], b"", b"\0" * 2000, data[:300] + b"\xff" * 50 + data[350:]):
        cut.write_bytes(content)
        with pytest.raises(DataError, match=r"cut\.tar\.xz"):
            read_library(cut, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*"))


def test_wrong_paths(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_library(tmp_path / "nothing", cache=False)
    (tmp_path / "a.zip").write_bytes(b"x")
    with pytest.raises(DataError, match="neither a folder nor an archive"):
        read_library(tmp_path / "a.zip", cache=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no ToolBench tool"):
        read_library(tmp_path / "empty", cache=False)


# --- cache -----------------------------------------------------------------------------------------------------------


def test_cache(tmp_path, monkeypatch):
    folder = write_folder(tmp_path / "tools", {"Food/shop.json": document(api("a", body={"x": 1, "y": "z"}))})
    cache = tmp_path / "cache"
    first = read_library(folder, cache=cache)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    assert read_library(folder, cache=cache) == first == read_library(folder, cache=False)
    half = gzip.compress(gzip.decompress(whole)[:-10])
    other = gzip.compress(gzip.decompress(whole).replace(b'"format":1', b'"format":0'))
    for damage in (b"", b"junk", whole[:-9], half, other, gzip.compress(b"[]\n"), gzip.compress(b'{"format":1}\n')):
        file.write_bytes(damage)
        assert read_library(folder, cache=cache) == first
        assert file.read_bytes() == whole  # written again, the same bytes
    (folder / "Food" / "shop.json").write_text(json.dumps(document(api("b"))))
    assert [t.name for t in read_library(folder, cache=cache)[0]] == ["b"]
    monkeypatch.setenv("SPM_CACHE", str(tmp_path / "by_environment"))
    read_library(folder)
    assert len(list((tmp_path / "by_environment").iterdir())) == 1
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert len(read_library(folder, cache=blocked)[0]) == 1  # no folder to write to: read all the same


# --- the real library ------------------------------------------------------------------------------------------------


def test_real_library(shared_data, pytestconfig):
    cache = pytestconfig.cache.mkdir("spm_jax")
    library, counts = real_library(shared_data, cache)
    assert len(library) == 44_589
    assert counts["library"]["tool_files"] == 10_598
    assert counts["library"]["entries"] == 47_096
    assert counts["responses"]["pairs"] == 131_586
    assert 0.61 < sum(bool(t.required) for t in library) / len(library) < 0.63
    assert 0.27 < sum(t.outputs_known for t in library) / len(library) < 0.33
    live = read_live(shared_data / "toolbench" / "live_apis.jsonl")
    assert (len(live), len(live_cut(library, live))) == (15_367, 13_299)


def test_real_library_twice_gives_the_same_bytes(shared_data, pytestconfig, tmp_path):
    cache = pytestconfig.cache.mkdir("spm_jax")
    library, _ = real_library(shared_data, cache)
    start = time.process_time()
    again, _ = read_library(shared_data / "toolbench", responses=shared_data / "toolbench", cache=cache)
    assert time.process_time() - start < 15  # measured 2.4 s
    write_library(tmp_path / "a.jsonl", library)
    write_library(tmp_path / "b.jsonl", again)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
