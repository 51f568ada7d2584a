"""Hostile inputs, one a row: each gives one clear error or a menu that is right."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from untrained import builder, recorded, tool, untrained

from experiments.configs import tiny
from spm_jax import bundle
from spm_jax.builder import REQUEST, Item, MenuBuilder, render
from spm_jax.data.jsonl import parse_request, parse_tool, read_library, read_requests
from spm_jax.data.readers.toolbench import read_library as read_toolbench
from spm_jax.data.schema import DataError, Field, Library, Request, Tool
from spm_jax.device_library import index_library
from spm_jax.train.loop import train_and_evaluate, train_menus
from spm_jax.train.prepare import make_corpus

PAIR = Library((tool("red"), tool("blue")))
TOOL, REQ = {"family": "f", "name": "n"}, {"id": "r", "text": "t"}


# --- errors: (what is hostile, what is done with it, what the message says) ---


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "input.jsonl"
    path.write_bytes(content)
    return path


def _archive(folder: Path, *members: tuple[str, bytes]) -> Path:
    path = folder / "tools.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, BytesIO(content))
    return path


def _truncated_archive(folder: Path) -> Path:
    path = _archive(folder, ("a/b.json", json.dumps({"x": list(range(30_000))}).encode()))
    path.write_bytes(path.read_bytes()[:-40])
    return path


def _bundle(folder: Path, damage: Callable[[Path], None]) -> Path:
    where = folder / "menu"
    bundle.save(where, untrained(PAIR))
    damage(where)
    return where


def _flip(pattern: str) -> Callable[[Path], None]:
    def damage(where: Path) -> None:
        path = max(where.rglob(pattern), key=lambda file: file.stat().st_size)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(bytes(content))

    return damage


def _other_version(where: Path) -> None:
    path = where / "checkpoint.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99, "spm_jax": "9.9"}))


def _train(folder: Path, requests: list[Request], **changes) -> None:
    c = tiny.get_config()
    c.update_from_flattened_dict(changes)
    train_menus(c, index_library(PAIR, 64), requests, folder)


def _config(folder: Path, **changes) -> None:
    c = tiny.get_config()
    c.data.source, c.data.library, c.data.requests = "jsonl", str(folder / "l.jsonl"), str(folder / "r.jsonl")
    (folder / "l.jsonl").write_text('{"family": "f", "name": "red"}\n')
    (folder / "r.jsonl").write_text('{"id": "r", "text": "red"}\n')
    c.update_from_flattened_dict(changes)
    train_and_evaluate(c, folder / "work")


CALLS = [{"tools": [{"family": "f", "name": "green"}]}]
DEEP = b'{"id": "r", "text": "t", "state": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}"
ERRORS: list[tuple[str, Callable[[Path], object], str]] = [
    ("empty library", lambda _: Library(()), "holds no tool; at least one is needed"),
    ("empty file", lambda d: read_library(_file(d, b"")), "input.jsonl: library: holds no tool"),
    ("duplicate identity", lambda _: Library((tool("a"), tool("a"))), "f/a stands twice .*rename one"),
    ("unknown gold tool", lambda _: PAIR.gold(parse_request(REQ | {"calls": CALLS})), "gold tool f/green is not in"),
    (
        "training on an unknown tool",
        lambda _: make_corpus(index_library(PAIR, 8), [parse_request(REQ | {"calls": CALLS})], 1.0, []),
        "request 'r': gold tool f/green is not in the library of 2 tools",
    ),
    ("NUL in a tool name", lambda _: tool("a\0b"), "tool name in family 'f': contains a NUL"),
    ("NUL in a family", lambda _: tool("a", family="\0"), "tool family: contains a NUL"),
    ("NUL in an input name", lambda _: tool("a", ["x\0"]), "field name: contains a NUL"),
    ("lone surrogate in a name", lambda _: tool("\ud83d"), "lone surrogate, which no encoding can write; remove it"),
    ("lone surrogate in a request", lambda _: Request("r", "\udc00"), "request 'r': text: contains a lone surrogate"),
    ("a tool that is a list", lambda _: parse_tool([]), "tool: expected an object, got list"),
    ("a request that is a number", lambda _: parse_request(7), "request: expected an object, got int"),
    ("a huge number as a name", lambda _: parse_tool(TOOL | {"name": 10**5000}), "expected a string, got int"),
    ("a name that is null", lambda _: parse_tool(TOOL | {"name": None}), "tool name .*got NoneType"),
    ("inputs that are a string", lambda _: parse_tool(TOOL | {"inputs": "x"}), "inputs: expected a list, got str"),
    ("an unknown field", lambda _: parse_tool(TOOL | {"input": []}), "unknown field 'input'; known are family, name"),
    ("a key that is a number", lambda _: parse_tool({**TOOL, 1: 2}), "unknown field 1; known are"),
    ("outputs that are denied", lambda _: Tool("f", "n", outputs=(Field("x"),)), "has outputs but outputs_known"),
    ("a call of no tool", lambda _: parse_request(REQ | {"calls": [{"tools": []}]}), "call: names no tool"),
    ("NaN in state", lambda _: Request("r", "t", state={"a": float("nan")}), "request 'r': state: not JSON"),
    ("state that is a list", lambda _: parse_request(REQ | {"state": [1]}), "state: expected an object of key: value"),
    ("state with an empty key", lambda _: parse_request(REQ | {"state": {" ": 1}}), "state key: must not be empty"),
    ("JSON that is a list", lambda d: read_library(_file(d, b"[{}]")), "line 1: tool: expected an object"),
    ("JSON cut off", lambda d: read_requests(_file(d, b'{"id": "r",')), "input.jsonl, line 1: "),
    ("deeply nested JSON", lambda d: read_requests(_file(d, DEEP)), "input.jsonl, line 1: .*recursion"),
    ("not UTF-8", lambda d: read_library(_file(d, "é".encode("latin-1"))), "input.jsonl: not UTF-8"),
    ("a folder as a file", lambda d: read_library(d), "cannot be read .Is a directory"),
    ("a request id twice", lambda d: read_requests(_file(d, b'{"id": "r", "text": ""}\n' * 2)), "'r' stands twice"),
    ("truncated archive", lambda d: read_toolbench(_truncated_archive(d)), "truncated archive .*fetch it again"),
    (
        "an archive of escaping paths",
        lambda d: read_toolbench(_archive(d, ("../../evil.json", b"{}"), ("/etc/evil.json", b"{}"))),
        "holds no ToolBench tool",
    ),
    ("k = 0", lambda _: builder(PAIR).build(Request("r", "t"), 0), "k = 0: expected a whole number of at least 1"),
    ("k = -3", lambda _: builder(PAIR).explain(Request("r", "t"), -3), "k = -3: expected a whole number"),
    ("k that is a text", lambda _: builder(PAIR).build(Request("r", "t"), "3"), "k = '3': expected a whole number"),
    ("no bundle", lambda d: MenuBuilder.load(d / "none"), "none: not a checkpoint, .*no such folder"),
    ("a bundle that is a file", lambda d: MenuBuilder.load(_file(d, b"")), "input.jsonl: "),
    ("an empty folder as a bundle", lambda d: MenuBuilder.load(d), "not a checkpoint, .*an unfinished save"),
    ("another version", lambda d: MenuBuilder.load(_bundle(d, _other_version)), "format 99, written by spm_jax 9.9"),
    ("a bit of the arrays", lambda d: MenuBuilder.load(_bundle(d, _flip("ocdbt*/d/*"))), "damaged, .*has changed"),
    ("a bit of the library", lambda d: MenuBuilder.load(_bundle(d, _flip("library.jsonl"))), "library.jsonl has"),
    ("a bit of the marker", lambda d: MenuBuilder.load(_bundle(d, _flip("checkpoint.json"))), "checkpoint.json"),
    (
        "a bundle without its library",
        lambda d: MenuBuilder.load(_bundle(d, lambda where: next(where.rglob("library.jsonl")).unlink())),
        "library.jsonl is missing",
    ),
    ("no trajectories", lambda d: _train(d, [Request("r", "t")]), "no request has recorded calls"),
    ("no trajectories in a file", lambda d: _config(d), "no request has recorded calls .the field 'calls'"),
    (
        "one group",
        lambda d: _train(d, [recorded(PAIR, n, [0, 1], group="g") for n in range(3)]),
        "all 3 requests with recorded calls are of group 'g'; .*at least two groups",
    ),
    (
        "a request id twice in training",
        lambda d: _train(d, [recorded(PAIR, n // 2, [0, 1], group=f"{n}") for n in range(4)]),
        "request id 'r0' stands twice",
    ),
    (
        "no epochs",
        lambda d: _train(d, [recorded(PAIR, n, [0, 1]) for n in range(3)], **{"retriever.epochs": 0}),
        "epochs = 0, .*must be at least 1",
    ),
]


@pytest.mark.parametrize(("act", "message"), [pytest.param(*row[1:], id=row[0]) for row in ERRORS])
def test_a_hostile_input_gives_a_clear_error(act, message, tmp_path):
    with pytest.raises(DataError, match=message) as caught:
        act(tmp_path)
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)
    str(caught.value).encode()


# --- menus: (what is hostile, library, request, what must hold of the explained menu) ---


def names(items: tuple[Item, ...]) -> list[str]:
    return [item.tool.name for item in items]


def item(items: tuple[Item, ...], name: str) -> Item:
    return next(item for item in items if item.tool.name == name)


def none_runs(items: tuple[Item, ...]) -> bool:
    return not any(item.executable for item in items)


def waits_and_runs(library: Library, name: str, without: dict, complete: dict) -> Callable[[tuple[Item, ...]], bool]:
    """That the tool waits in a menu for the state ``without`` and runs in one for ``complete``."""

    def holds(_: tuple[Item, ...]) -> bool:
        menus = builder(library)
        for state, runs in ((without, False), (complete, True)):
            request = Request("r", "t", state=state)
            shown = menus.arrays(request)
            place = shown.tool.tolist().index([tool.name for tool in library].index(name))
            assert item(menus.explain(request), name).executable is runs is bool(shown.executable[place])
        return True

    return holds


def found_first(library: Library, name: str) -> Callable[[tuple[Item, ...]], bool]:
    """That the search of the library ranks the tool first, ahead of every network."""

    def holds(items: tuple[Item, ...]) -> bool:
        request = next(row[2] for row in MENUS if row[1] is library)
        return library[int(builder(library).arrays(request).frontier[0])].name == name

    return holds


CYCLE = Library((tool("a", ["apple"], ["pear"]), tool("b", ["pear"], ["apple"])))
NINE = [f"k{letter}" for letter in "abcdefghi"]
WIDE = Library((tool("wide", NINE), tool("other", ["ka"], [])))
FED = Library((tool("wide", NINE, ["x"]), tool("start", [], NINE[:8]), tool("rest", [], NINE[7:])))
MANY = Library((tool("source", [], [f"k{n}x" for n in range(40)]), tool("sink", ["k39x"], ["z"])))
SAME = Library(tuple(tool("same", family="!" * (n + 1), about="identical text") for n in range(40)))
CHINESE = Library((tool("查询天气", about="查询城市的天气预报"), tool("翻译文本"), tool("发送邮件"), tool("x")))
JAPANESE = Library((tool("荷物追跡"), tool("天気を調べる", about="今日の天気"), tool("ホテルを予約する"), tool("x")))
ARABIC = Library((tool("ترجمة النص"), tool("حجز فندق"), tool("حالة الطقس", about="توقعات الطقس اليوم"), tool("x")))
EMOJI = Library((tool("🚀"), tool("🎉", ["🔑"], ["📦"]), tool("🌧️", ["📦"])))
STATE = {"apple": {"deep": [[[None, {"x": "y" * 100_000}]]]}, "n": None, **{f"key{n}": n for n in range(500)}}

MENUS: list[tuple[str, Library, Request, Callable[[tuple[Item, ...]], bool]]] = [
    ("cyclic schemas", CYCLE, Request("r", "apple a b"), lambda m: len(m) == 2 and none_runs(m)),
    (
        "a cycle that is entered",
        CYCLE,
        Request("r", "a", state={"apple": 1}),
        lambda m: item(m, "a").executable and item(m, "b").executable == (names(m) == ["a", "b"]),
    ),
    (
        "a tool that feeds itself",
        Library((tool("loop", ["apple"], ["apple"]),)),
        Request("r", "apple"),
        lambda m: none_runs(m) and m[0].inputs[0].source is None,
    ),
    (
        "a description of 100,000 characters",
        Library((tool("a", about="word " * 20_000), tool("b"))),
        Request("r", "word"),
        lambda m: len(m) == 2,
    ),
    (
        "NUL in a description",
        Library((tool("a", about="x\0y"), tool("b"))),
        Request("r", "x\0y"),
        lambda m: len(m) == 2,
    ),
    ("no required inputs anywhere", PAIR, Request("r", "red"), lambda m: all(i.executable and not i.inputs for i in m)),
    (
        "inputs that nobody makes",
        Library((tool("a", ["apple"]), tool("b", ["pear"]))),
        Request("r", "a"),
        lambda m: none_runs(m) and all(i.source is None for one in m for i in one.inputs),
    ),
    ("empty request", PAIR, Request("r", ""), lambda m: len(m) == 2),
    ("white space alone", PAIR, Request("r", " \t\n\u3000"), lambda m: len(m) == 2),
    ("Chinese", CHINESE, Request("r", "我想知道明天北京的天气怎么样"), found_first(CHINESE, "查询天气")),
    ("Japanese", JAPANESE, Request("r", "明日の天気を教えて"), found_first(JAPANESE, "天気を調べる")),
    ("Arabic", ARABIC, Request("r", "ما هي حالة الطقس غدا"), found_first(ARABIC, "حالة الطقس")),
    (
        "emoji names",
        EMOJI,
        Request("r", "🚀🎉", state={"🔑": "x"}),
        lambda m: len(m) == 3 and item(m, "🎉").executable and item(m, "🎉").inputs[0].name == "🔑",
    ),
    ("k above the library's size", PAIR, Request("r", "red"), lambda m: sorted(names(m)) == ["blue", "red"]),
    ("one tool", Library((tool("only", ["x"]),)), Request("r", "y"), lambda m: names(m) == ["only"] and none_runs(m)),
    ("no word anywhere", Library((tool("!"), tool("?", family="-"))), Request("r", "???"), lambda m: len(m) == 2),
    (
        "identical tools",
        SAME,
        Request("r", "identical"),
        # The reranker may turn the first eight round, as it sees their rank; what it leaves keeps the library's order.
        lambda m: (
            {len(one.tool.family) for one in m} == set(range(1, 33))
            and [len(one.tool.family) for one in m[8:]] == sorted(len(one.tool.family) for one in m[8:])
        ),
    ),
    (
        "a ninth required input",
        WIDE,
        Request("r", "wide"),
        waits_and_runs(WIDE, "wide", dict.fromkeys(NINE[:8], 1), dict.fromkeys(NINE, 1)),
    ),
    (
        "nine required inputs, eighth and ninth from elsewhere",
        FED,
        Request("r", "wide", state={"zz": 1}),
        lambda m: item(m, "wide").executable == (names(m)[2] == "wide") and len(item(m, "wide").inputs) == 9,
    ),
    (
        "forty outputs, the last one needed",
        MANY,
        Request("r", "sink"),
        lambda m: item(m, "sink").executable == (names(m) == ["source", "sink"]),
    ),
    ("a request of 5,000 words", PAIR, Request("r", "red word " * 2_500), lambda m: len(m) == 2),
    ("100,000 different words", PAIR, Request("r", " ".join(map(str, range(100_000)))), lambda m: len(m) == 2),
    (
        "nested, huge and null state",
        Library((tool("a", ["apple"]), tool("b", ["n"]), tool("c", ["key499"]), tool("d", ["missing"]))),
        Request("r", "t", state=STATE),
        lambda m: [item(m, name).executable for name in "abcd"] == [True, True, True, False],
    ),
    (
        "state of 200 keys that tools need",
        Library(tuple(tool(f"t{n}", [f"key{n}x"]) for n in range(100))),
        Request("r", "t", state={f"key{n}x": n for n in range(100)}),
        lambda m: all(one.executable for one in m),
    ),
]


@pytest.mark.parametrize(("library", "request_", "holds"), [pytest.param(*row[1:], id=row[0]) for row in MENUS])
def test_a_hostile_input_gives_a_right_menu(library, request_, holds):
    menus = builder(library, seed=1)
    items = menus.explain(request_)
    assert len({one.tool for one in items}) == len(items) == min(32, len(library))
    assert holds(items)
    assert menus.explain(request_) == items and render(items).encode() and json.dumps([one.record() for one in items])
    made = {name for one in items for name in (i.source for i in one.inputs)} - {REQUEST, None}
    assert made <= {one.tool for one in items}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_files_of_other_editors_are_read(tmp_path, newline):
    second = json.dumps(TOOL | {"name": "m\u2028n\u0085"}, ensure_ascii=False)
    content = newline.join(["", json.dumps(TOOL), "  ", second, ""])
    library = read_library(_file(tmp_path, b"\xef\xbb\xbf" + content.encode()))
    assert [one.name for one in library] == ["n", "m\u2028n\u0085"]
