"""The written form of libraries and requests: JSON Lines, one object a line, easy to write by hand.

``library.jsonl``, a tool a line (only ``family`` and ``name`` are needed)::

    {"family": "shop", "name": "LookupOrder", "description": "Find an order.",
     "inputs":  [{"name": "order_number", "type": "string", "description": "", "required": true}],
     "outputs": [{"name": "customer_id"}], "outputs_known": true}

``requests.jsonl``, a request a line (only ``id`` and ``text`` are needed)::

    {"id": "r1", "text": "Send me the receipt of order 1234", "group": "receipt", "domain": "shop",
     "state": {"order_number": "1234"},
     "calls": [{"tools": [{"family": "shop", "name": "LookupOrder"}], "arguments": {"order_number": "1234"}}]}

``calls`` is the recorded trajectory, in order; the ``tools`` of one call are interchangeable listings of the same
tool. A request without ``calls`` can be served, not learned from. ``group`` names the call sequence: requests of one
group never stand on both sides of a split, and a request's training features never see its own group.

Two more fields, where they are known: ``"ordered": false`` of a request whose calls are a set, and ``"sources"`` of a
call, where its arguments came from: ``[{"argument": "customer", "call": 0, "output": "customer_id"}]``, the position
of an earlier call and (may be left out) the field of its answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spm_jax.data.schema import Call, DataError, Field, Library, Request, Source, Tool, ToolId, Trajectory


def dumps(record: Mapping[str, Any]) -> str:
    """One JSON line, deterministic; text outside ASCII is written as it is."""
    return json.dumps(record, ensure_ascii=False, separators=(", ", ": "))


def _field_record(f: Field) -> dict[str, Any]:
    return {"name": f.name, "type": f.type, "description": f.description, "required": f.required}


def tool_record(tool: Tool) -> dict[str, Any]:
    """The JSON object of one line of library.jsonl."""
    return {
        "family": tool.family,
        "name": tool.name,
        "description": tool.description,
        "family_description": tool.family_description,
        "inputs": [_field_record(f) for f in tool.inputs],
        "outputs": [_field_record(f) for f in tool.outputs],
        "outputs_known": tool.outputs_known,
        "outputs_from": tool.outputs_from,
    }


def request_record(request: Request) -> dict[str, Any]:
    """The JSON object of one line of requests.jsonl."""
    return {
        "id": request.id,
        "text": request.text,
        "group": request.group,
        "domain": request.domain,
        "state": dict(request.state),
        "calls": [_call_record(call) for call in request.trajectory.calls],
        **({} if request.trajectory.ordered else {"ordered": False}),
    }


def _call_record(call: Call) -> dict[str, Any]:
    record = {
        "tools": [{"family": t.family, "name": t.name} for t in call.tools],
        "arguments": dict(call.arguments),
        "succeeded": call.succeeded,
    }
    return {**record, "sources": [source._asdict() for source in call.sources]} if call.sources else record


def _known(record: Any, allowed: Sequence[str], needed: Sequence[str], what: str) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise DataError(f"{what}: expected an object, got {type(record).__name__}")
    for name in needed:
        if name not in record:
            raise DataError(f"{what}: field {name!r} is missing")
    for name in record:
        if name not in allowed:
            raise DataError(f"{what}: unknown field {name!r}; known are {', '.join(allowed)}")
    return record


def _list(record: Mapping[str, Any], name: str, what: str) -> list:
    value = record.get(name, [])
    if not isinstance(value, list):
        raise DataError(f"{what}: {name}: expected a list, got {type(value).__name__}")
    return value


def _parse_field(record: Any, what: str) -> Field:
    return Field(**_known(record, ("name", "type", "description", "required"), ("name",), what))


def parse_tool(record: Any) -> Tool:
    """A Tool from the JSON object of one line; DataError names the field that is wrong."""
    names = tuple(tool_record(Tool("f", "n")))
    record = dict(_known(record, names, ("family", "name"), "tool"))
    for side in ("inputs", "outputs"):
        record[side] = tuple(_parse_field(f, f"tool: {side}[{n}]") for n, f in enumerate(_list(record, side, "tool")))
    record.setdefault("outputs_known", bool(record["outputs"]))
    return Tool(**record)


def _parse_call(record: Any, what: str) -> Call:
    record = dict(_known(record, ("tools", "arguments", "succeeded", "sources"), ("tools",), what))
    record["sources"] = tuple(
        Source(**_known(source, Source._fields, ("argument", "call"), f"{what}: sources[{n}]"))
        for n, source in enumerate(_list(record, "sources", what))
    )
    identities = []
    for n, identity in enumerate(_list(record, "tools", what)):
        identity = _known(identity, ("family", "name"), ("family", "name"), f"{what}: tools[{n}]")
        identities.append(ToolId(identity["family"], identity["name"]))
    return Call(**{**record, "tools": tuple(identities)})


def parse_request(record: Any) -> Request:
    """A Request from the JSON object of one line; DataError names the field that is wrong."""
    names = (*request_record(Request("i", "t")), "ordered")
    record = dict(_known(record, names, ("id", "text"), "request"))
    calls = tuple(_parse_call(c, f"request: calls[{n}]") for n, c in enumerate(_list(record, "calls", "request")))
    record.pop("calls", None)
    trajectory = Trajectory(calls, record.pop("ordered", True))
    return Request(**record, trajectory=trajectory)


def fingerprint(library: Library) -> str:
    """SHA-256 of the written form: the same tools in the same order give the same fingerprint."""
    digest = hashlib.sha256()
    for tool in library:
        digest.update(dumps(tool_record(tool)).encode("utf-8"))
    return digest.hexdigest()


def _read_lines(path: str | os.PathLike, parse: Any) -> list:
    items = []
    try:
        with open(path, encoding="utf-8-sig") as lines:  # some editors write a byte order mark
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    items.append(parse(json.loads(line)))
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{path}, line {number}: {error}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return items


def write_atomic(path: str | os.PathLike, lines: Iterable[str]) -> None:
    """Write ``lines`` to ``path`` so that a crash leaves the old file or the new one, never half of one."""
    write_atomic_bytes(path, ((line + "\n").encode("utf-8") for line in lines))


def write_atomic_bytes(path: str | os.PathLike, parts: Iterable[bytes]) -> None:
    """Write ``parts``, one after the other, to ``path``; atomic as ``write_atomic``."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as out:
            out.writelines(parts)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_library(path: str | os.PathLike) -> Library:
    """Read library.jsonl. Raises DataError with file, line and field."""
    try:
        return Library(tuple(_read_lines(path, parse_tool)))
    except DataError as error:
        raise error if str(path) in str(error) else DataError(f"{path}: {error}") from None


def read_requests(path: str | os.PathLike) -> tuple[Request, ...]:
    """Read requests.jsonl. Raises DataError with file, line and field, also for an id that stands twice."""
    requests = tuple(_read_lines(path, parse_request))
    seen: set[str] = set()
    for request in requests:
        if request.id in seen:
            raise DataError(f"{path}: request id {request.id!r} stands twice")
        seen.add(request.id)
    return requests


def write_library(path: str | os.PathLike, library: Library) -> None:
    """Write library.jsonl; reading it back gives an equal Library."""
    write_atomic(path, (dumps(tool_record(tool)) for tool in library))


def write_requests(path: str | os.PathLike, requests: Iterable[Request]) -> None:
    """Write requests.jsonl; reading it back gives equal requests."""
    write_atomic(path, (dumps(request_record(request)) for request in requests))
