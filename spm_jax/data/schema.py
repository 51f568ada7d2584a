"""The data model: Field, Tool, Library, Call, Trajectory, Request (method.md section 2).

Everything is frozen and validated when it is made. The written form is JSON Lines, one object a line:

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
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple


class DataError(ValueError):
    """Input that cannot be used; the message names the file, the line and the field where they are known."""


class ToolId(NamedTuple):
    """What identifies a tool: two families may export the same name."""

    family: str
    name: str


def _text(value: Any, where: str, *, empty: bool = True, nul: bool = True) -> str:
    """``value`` if it is a usable string, else a DataError that names ``where``."""
    if not isinstance(value, str):
        raise DataError(f"{where}: expected a string, got {type(value).__name__} ({value!r:.60})")
    if not empty and not value.strip():
        raise DataError(f"{where}: must not be empty")
    if not nul and "\0" in value:
        raise DataError(f"{where}: contains a NUL character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{where}: contains a lone surrogate, which no encoding can write; remove it") from None
    return value


def _tuple(value: Any, kind: type, where: str) -> tuple:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise DataError(f"{where}: expected a list of {kind.__name__}, got {type(value).__name__}")
    items = tuple(value)
    for n, item in enumerate(items):
        if not isinstance(item, kind):
            raise DataError(f"{where}[{n}]: expected {kind.__name__}, got {type(item).__name__}")
    return items


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    """A read-only copy of a JSON object with string keys and JSON values."""
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: expected an object of key: value, got {type(value).__name__}")
    for key in value:
        _text(key, f"{where} key", empty=False)
    try:
        return MappingProxyType(json.loads(json.dumps(dict(value), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error})") from None


@dataclass(frozen=True, slots=True)
class Field:
    """One named input or output of a tool. ``required`` says something of inputs only."""

    name: str
    type: str = ""
    description: str = ""
    required: bool = True

    def __post_init__(self) -> None:
        _text(self.name, "field name", empty=False, nul=False)
        _text(self.type, f"type of field {self.name!r}")
        _text(self.description, f"description of field {self.name!r}")
        if not isinstance(self.required, bool):
            raise DataError(f"'required' of field {self.name!r}: expected true or false, got {self.required!r}")


@dataclass(frozen=True, slots=True)
class Tool:
    """One callable tool. ``outputs_known`` is False where nothing documents what the tool returns."""

    family: str
    name: str
    description: str = ""
    family_description: str = ""
    inputs: tuple[Field, ...] = ()
    outputs: tuple[Field, ...] = ()
    outputs_known: bool = False
    outputs_from: str = ""  # schema, body, responses, prose, or "" where unknown

    def __post_init__(self) -> None:
        _text(self.family, "tool family", empty=False, nul=False)
        _text(self.name, f"tool name in family {self.family!r}", empty=False, nul=False)
        where = f"tool {self.family}/{self.name}"
        for attribute in ("description", "family_description", "outputs_from"):
            _text(getattr(self, attribute), f"{where}: {attribute}")
        for attribute in ("inputs", "outputs"):
            object.__setattr__(self, attribute, _tuple(getattr(self, attribute), Field, f"{where}: {attribute}"))
        if not isinstance(self.outputs_known, bool):
            raise DataError(f"{where}: outputs_known: expected true or false, got {self.outputs_known!r}")
        if self.outputs and not self.outputs_known:
            raise DataError(f"{where}: has outputs but outputs_known is false")

    @property
    def id(self) -> ToolId:
        return ToolId(self.family, self.name)

    @property
    def required(self) -> tuple[Field, ...]:
        return tuple(f for f in self.inputs if f.required)


@dataclass(frozen=True)
class Library:
    """An ordered set of tools; the position of a tool is its integer id everywhere else in the package."""

    tools: tuple[Tool, ...]
    _index: Mapping[ToolId, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", _tuple(self.tools, Tool, "library"))
        if not self.tools:
            raise DataError("library: holds no tool; at least one is needed")
        index: dict[ToolId, int] = {}
        for position, tool in enumerate(self.tools):
            if tool.id in index:
                raise DataError(
                    f"library: tool {tool.family}/{tool.name} stands twice (positions {index[tool.id]} and {position}); "
                    "identity is (family, name): rename one or put it in another family"
                )
            index[tool.id] = position
        object.__setattr__(self, "_index", MappingProxyType(index))

    def __hash__(self) -> int:
        # Cheap, for caches: hashing every field of 44,589 tools takes a tenth of a second.
        return hash((len(self.tools), self.tools[0].id, self.tools[-1].id))

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __getitem__(self, position: int) -> Tool:
        return self.tools[position]

    def __contains__(self, identity: object) -> bool:
        return identity in self._index

    def index(self, identity: ToolId) -> int:
        """Integer id of a tool; DataError if the library does not hold it."""
        try:
            return self._index[identity]
        except KeyError:
            raise DataError(f"tool {identity[0]}/{identity[1]} is not in the library of {len(self)} tools") from None

    def gold(self, request: Request) -> tuple[tuple[int, ...], ...]:
        """The gold chain g_1..g_T of a request as sets of interchangeable tool ids, repeats removed (first kept).

        Raises DataError, naming the request, for a tool that the library does not hold.
        """
        chain: dict[tuple[int, ...], None] = {}
        for call in request.trajectory.calls:
            try:
                chain.setdefault(tuple(sorted({self.index(identity) for identity in call.tools})))
            except DataError as error:
                raise DataError(f"request {request.id!r}: gold {error}") from None
        return tuple(chain)

    def fingerprint(self) -> str:
        """SHA-256 of the written form: the same tools in the same order give the same fingerprint."""
        digest = hashlib.sha256()
        for tool in self.tools:
            digest.update(dumps(tool_record(tool)).encode("utf-8"))
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Call:
    """One step of a trajectory; ``tools`` holds every interchangeable listing of the called tool."""

    tools: tuple[ToolId, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    succeeded: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(ToolId(*t) for t in _tuple(self.tools, tuple, "call: tools")))
        if not self.tools:
            raise DataError("call: names no tool")
        for identity in self.tools:
            _text(identity.family, "call: tool family", empty=False, nul=False)
            _text(identity.name, "call: tool name", empty=False, nul=False)
        object.__setattr__(self, "arguments", _mapping(self.arguments, "call: arguments"))
        if not isinstance(self.succeeded, bool):
            raise DataError(f"call: succeeded: expected true or false, got {self.succeeded!r}")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The recorded calls of one request, in order; empty where nothing was recorded."""

    calls: tuple[Call, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "calls", _tuple(self.calls, Call, "trajectory"))

    @property
    def succeeded(self) -> bool:
        """Whether every step succeeded."""
        return all(call.succeeded for call in self.calls)


@dataclass(frozen=True, slots=True)
class Request:
    """A request: text, explicit visible state, and (for training and evaluation) its trajectory and group."""

    id: str
    text: str
    group: str = ""  # "" stands for the request's own id
    domain: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    trajectory: Trajectory = Trajectory()

    def __post_init__(self) -> None:
        _text(self.id, "request id", empty=False)
        for attribute in ("text", "group", "domain"):
            _text(getattr(self, attribute), f"request {self.id!r}: {attribute}")
        object.__setattr__(self, "group", self.group or self.id)
        object.__setattr__(self, "state", _mapping(self.state, f"request {self.id!r}: state"))
        if not isinstance(self.trajectory, Trajectory):
            raise DataError(f"request {self.id!r}: trajectory: expected a Trajectory")


# --- the written form ------------------------------------------------------------------------------------------------


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
        "calls": [
            {
                "tools": [{"family": t.family, "name": t.name} for t in call.tools],
                "arguments": dict(call.arguments),
                "succeeded": call.succeeded,
            }
            for call in request.trajectory.calls
        ],
    }


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
    record = dict(_known(record, ("tools", "arguments", "succeeded"), ("tools",), what))
    identities = []
    for n, identity in enumerate(_list(record, "tools", what)):
        identity = _known(identity, ("family", "name"), ("family", "name"), f"{what}: tools[{n}]")
        identities.append(ToolId(identity["family"], identity["name"]))
    return Call(**{**record, "tools": tuple(identities)})


def parse_request(record: Any) -> Request:
    """A Request from the JSON object of one line; DataError names the field that is wrong."""
    names = tuple(request_record(Request("i", "t")))
    record = dict(_known(record, names, ("id", "text"), "request"))
    calls = tuple(_parse_call(c, f"request: calls[{n}]") for n, c in enumerate(_list(record, "calls", "request")))
    record.pop("calls", None)
    return Request(**record, trajectory=Trajectory(calls))


def _read_lines(path: str | os.PathLike, parse: Any) -> list:
    items = []
    try:
        with open(path, encoding="utf-8") as lines:
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
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as out:
            out.writelines(line + "\n" for line in lines)
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
