"""A library that stays on disk: a tool is read when it is asked for, so that a million of them cost no memory."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from spm_jax.data.jsonl import parse_tool
from spm_jax.data.schema import DataError, Library, Tool, ToolId

KEPT = 1 << 16  # tools that stay parsed
CHUNK = 1 << 24  # bytes


def _line_starts(path: Path) -> np.ndarray:
    """int64 [lines + 1]: where every line begins, and where the last one ends."""
    ends, offset = [], 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            ends.append(np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + offset)
            offset += len(chunk)
    return np.concatenate([[0], *(end + 1 for end in ends)]).astype(np.int64)


class StoredLibrary(Library):
    """The library of a ``library.jsonl`` that ``write_library`` wrote; the file must not change while this is used.

    It is a Library in everything. What needs every tool (iteration, ``index``, ``in``) reads the whole file; ``index``
    keeps the identities from then on. Safe to use from several threads.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        """Raises DataError where the file cannot be read or holds no tool."""
        path = Path(path)
        try:
            start = _line_starts(path)
            file = open(path, "rb", buffering=0)  # noqa: SIM115, stays open as long as the library
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        for name, value in {"_path": path, "_start": start, "_file": file}.items():
            object.__setattr__(self, name, value)
        if len(start) < 2:
            raise DataError(f"{path}: library: holds no tool; at least one is needed")
        if os.fstat(file.fileno()).st_size != start[-1]:
            raise DataError(f"{path}, line {len(start)}: the file is cut off, no end of the line; write it again")
        object.__setattr__(self, "_tool", lru_cache(maxsize=KEPT)(self._read))

    def _read(self, position: int) -> Tool:
        start, end = self._start[position], self._start[position + 1]
        try:
            return parse_tool(json.loads(os.pread(self._file.fileno(), end - start, start).decode()))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{self._path}, line {position + 1}: {error}") from None

    def __len__(self) -> int:
        return len(self._start) - 1

    def __getitem__(self, position: int | slice) -> Tool | tuple[Tool, ...]:  # type: ignore[override]
        if isinstance(position, slice):
            return tuple(map(self._tool, range(*position.indices(len(self)))))
        position = operator.index(position)
        if not -len(self) <= position < len(self):
            raise IndexError(f"tool {position} of a library of {len(self)}")
        return self._tool(position % len(self))

    def __iter__(self) -> Iterator[Tool]:
        return map(self._read, range(len(self)))  # does not push out what is kept

    @property
    def tools(self) -> tuple[Tool, ...]:  # type: ignore[override]
        """Every tool, in memory."""
        return tuple(self)

    @cached_property
    def _index(self) -> Mapping[ToolId, int]:  # type: ignore[override]
        return {tool.id: position for position, tool in enumerate(self)}

    def __hash__(self) -> int:
        return hash((len(self), self[0].id, self[-1].id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Library) and len(self) == len(other) and all(a == b for a, b in zip(self, other))

    def __repr__(self) -> str:
        return f"StoredLibrary({str(self._path)!r}, {len(self)} tools)"
