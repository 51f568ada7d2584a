"""A library that stays on disk does whatever the library in memory does."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.data.jsonl import dumps, fingerprint, read_library, tool_record, write_library
from spm_jax.data.schema import Call, DataError, Field, Library, Request, Tool, ToolId, Trajectory
from spm_jax.data.stored import StoredLibrary

ODD = "a b\n\r\u2028\u2029\x85\x0b\x1c\t\"\\天气é\U0001f600"  # what some call the end of a line, among others
texts = st.text(ODD, max_size=6)
names = st.text("ab\u2028\n天\U0001f600", min_size=1, max_size=4).filter(str.strip)
fields = st.lists(st.builds(Field, names, texts, texts, st.booleans()), max_size=2).map(tuple)


@st.composite
def libraries(draw: st.DrawFn) -> Library:
    """Libraries of up to five tools."""
    identities = draw(st.lists(st.tuples(names, names), min_size=1, max_size=5, unique=True))
    tools = []
    for family, name in identities:
        outputs = draw(fields)
        known = bool(outputs) or draw(st.booleans())
        tools.append(Tool(family, name, draw(texts), draw(texts), draw(fields), outputs, known, draw(texts)))
    return Library(tuple(tools))


def line(size: int) -> Library:
    return Library(tuple(Tool(f"f{n % 3}", f"do{n}", f"number {n}", inputs=(Field(f"k{n}"),)) for n in range(size)))


def stored(library: Library, folder: Path) -> StoredLibrary:
    write_library(folder / "library.jsonl", library)
    return StoredLibrary(folder / "library.jsonl")


def outcome(what: Any, *arguments: Any) -> Any:
    """What a call gives, or the class of what it raises."""
    try:
        return what(*arguments)
    except (IndexError, TypeError, DataError) as error:
        return type(error)


@given(libraries(), st.integers(-7, 7), st.slices(5))
def test_it_is_the_library_in_everything(library: Library, position: int, part: slice) -> None:
    with tempfile.TemporaryDirectory() as folder:
        disk = stored(library, Path(folder))
        assert isinstance(disk, Library) and len(disk) == len(library) and bool(disk)
        assert disk == library and library == disk and hash(disk) == hash(library)
        assert tuple(disk) == disk.tools == library.tools and list(reversed(disk)) == list(reversed(library))
        for key in (position, np.int32(position), part, True, 0.0, "0", None):
            assert outcome(disk.__getitem__, key) == outcome(library.__getitem__, key), key
        strangers = (ToolId("no", "such"), ("no", "such"), "no", 3)
        for identity in (*(tool.id for tool in library), *strangers):
            assert (identity in disk) == (identity in library)
        for identity in (*(tool.id for tool in library), *strangers[:2]):
            assert outcome(disk.index, identity) == outcome(library.index, identity)
        calls = tuple(Call((tool.id, library[0].id)) for tool in reversed(library))
        request = Request("r", "", trajectory=Trajectory(calls))
        assert disk.gold(request) == library.gold(request)
        assert fingerprint(disk) == fingerprint(library)
        shorter = Library(library.tools[:-1]) if len(library) > 1 else Library((Tool("another", "tool"),))
        assert disk != shorter and shorter != disk and disk != "library"
        write_library(Path(folder) / "again.jsonl", disk)
        assert read_library(Path(folder) / "again.jsonl") == library


def test_messages_are_those_of_the_library(tmp_path: Path) -> None:
    disk = stored(line(3), tmp_path)
    with pytest.raises(DataError, match="tool no/such is not in the library of 3 tools"):
        disk.index(ToolId("no", "such"))
    for position in (3, -4):
        with pytest.raises(IndexError, match=f"tool {position} of a library of 3"):
            disk[position]
    with pytest.raises(AttributeError):
        disk.tools = ()  # type: ignore[misc]
    assert "3 tools" in repr(disk)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b'{"family": "f"}', "'name' is missing"),
        (b'{"family": "f", "name": "n", "inputs": [{"nam": "x"}]}', "inputs"),
        (b"{", "Expecting property name"),
        (b"", "Expecting value"),
        (b"\xff\xfe\xfd", "decode"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_damaged_line_is_named_when_it_is_read(tmp_path: Path, damage: bytes, message: str) -> None:
    path = tmp_path / "library.jsonl"
    lines = [dumps(tool_record(tool)).encode() for tool in line(3)]
    lines[1] = damage
    path.write_bytes(b"\n".join(lines) + b"\n")
    disk = StoredLibrary(path)
    assert disk[0] == line(3)[0] and disk[2] == line(3)[2]
    for read in (lambda: disk[1], lambda: list(disk), lambda: disk.index(ToolId("f0", "do0"))):
        with pytest.raises(DataError, match=message) as error:
            read()
        assert str(error.value).startswith(f"{path}, line 2: ")


def test_a_file_that_is_no_library_is_named(tmp_path: Path) -> None:
    path = tmp_path / "library.jsonl"
    with pytest.raises(DataError, match=r"library\.jsonl: cannot be read"):
        StoredLibrary(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"library\.jsonl: library: holds no tool"):
        StoredLibrary(path)
    write_library(path, line(3))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"library\.jsonl, line 3: the file is cut off"):
        StoredLibrary(path)


def test_lines_are_found_across_the_pieces_that_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spm_jax.data.stored.CHUNK", 7)
    assert stored(line(9), tmp_path) == line(9)


def test_many_threads_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spm_jax.data.stored.KEPT", 5)  # so that most reads go to the disk
    library = line(50)
    disk = stored(library, tmp_path)

    def look(seed: int) -> bool:
        order = np.random.default_rng(seed).integers(-50, 50, 300)
        same = all(disk[n] == library[n] for n in order)
        return same and disk.index(library[seed].id) == seed and tuple(disk) == library.tools

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(look, range(16)))
