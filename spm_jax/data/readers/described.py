"""What readers of small corpora share: JSON files, fields as ``{name: {type, description}}``, arguments, groups."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spm_jax.data.readers.archive import MAX_MEMBER, Counts, count
from spm_jax.data.schema import Call, DataError, Field, ToolId


def text(value: Any) -> str:
    """``value`` if it is a string (what no encoding can write replaced), else ""."""
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", " ") if isinstance(value, str) else ""


def find_file(path: str | os.PathLike, name: str) -> Path:
    """``path`` itself if it is a file, or the first file called ``name`` in or below it. Raises DataError."""
    path = Path(path)
    found = [path] if path.is_file() else sorted(path.rglob(name)) if path.is_dir() else []
    if not found:
        raise DataError(f"{path}: holds no {name}")
    if found[0].stat().st_size > MAX_MEMBER:
        raise DataError(f"{found[0]}: is larger than {MAX_MEMBER >> 20} MiB, which no file of this corpus is")
    return found[0]


def read_json(path: Path) -> Any:
    """The JSON value of a file. Raises DataError."""
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read as JSON ({error})") from None


def json_lines(path: Path, counts: Counts) -> Iterator[Mapping[str, Any]]:
    """The objects of a JSON Lines file; a line that is none is counted and left out. Raises DataError."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # not splitlines: JSON text may hold U+2028 and its like
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, Mapping):
            yield record
        elif line.strip():
            count(counts, "skipped/lines_not_objects")


def fields(described: Any, required: Collection[str] | None = None) -> tuple[Field, ...]:
    """Fields of ``{name: {"type", "description", "required"}}``; ``required`` overrules what each says of itself."""
    found = []
    for name, facts in described.items() if isinstance(described, Mapping) else ():
        facts = facts if isinstance(facts, Mapping) else {}
        needed = facts.get("required") is True if required is None else name in required
        if text(name).strip():
            found.append(Field(text(name), text(facts.get("type")), text(facts.get("description")), needed))
    return tuple(found)


def arguments(values: Any, counts: Counts) -> dict[str, Any]:
    """The arguments of a call that the data model can hold; others are counted and left out."""
    kept = {}
    for name, value in values.items() if isinstance(values, Mapping) else ():
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
            usable = bool(text(name).strip())
        except (ValueError, RecursionError):
            usable = False
        if usable:
            kept[text(name)] = value
        else:
            count(counts, "skipped/arguments_unusable")
    return kept


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, in no order that means anything."""
    waiting = [value]  # no recursion: a value may be nested as deep as the parser allows
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, (Mapping, list)):
            waiting += part.values() if isinstance(part, Mapping) else part


def group_of(calls: Sequence[Call]) -> str:
    """The group of a request: the tools of its gold chain in order, so that a call sequence is never split."""
    return " > ".join(dict.fromkeys("/".join(min(call.tools)) for call in calls))


def first_id(identity: ToolId, taken: Collection[ToolId]) -> ToolId:
    """``identity``, or the same in the first free numbered family: "files", "files 2", ..."""
    number, candidate = 1, identity
    while candidate in taken:
        number += 1
        candidate = ToolId(f"{identity.family} {number}", identity.name)
    return candidate
