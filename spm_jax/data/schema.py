"""The data model: Field, Tool, Library, Call, Trajectory, Request (method.md section 2).

Everything is frozen and validated when it is made; data/jsonl.py reads and writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple


class DataError(ValueError):
    """Input that cannot be used; the message names the file, the line and the field where they are known."""


class ToolId(NamedTuple):
    """What identifies a tool: two families may export the same name."""

    family: str
    name: str


def _shown(value: Any) -> str:
    """The start of ``value`` as Python writes it, whatever it is."""
    try:
        return f"{value!r:.60}"
    except Exception:  # an integer of more than 4,300 digits, a list that holds itself deep down, an odd class
        return f"a {type(value).__name__} that cannot be shown"


def _text(value: Any, where: str, *, empty: bool = True, nul: bool = True) -> str:
    """``value`` if it is a usable string, else a DataError that names ``where``."""
    if not isinstance(value, str):
        raise DataError(f"{where}: expected a string, got {type(value).__name__} ({_shown(value)})")
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
        written = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error})") from None
    return MappingProxyType(json.loads(_text(written, where)))


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
            raise DataError(f"'required' of field {self.name!r}: expected true or false, got {_shown(self.required)}")


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
            raise DataError(f"{where}: outputs_known: expected true or false, got {_shown(self.outputs_known)}")
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
                    f"library: tool {tool.family}/{tool.name} stands twice ({index[tool.id]} and {position}); "
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


class Source(NamedTuple):
    """Where the value of an argument came from: exact data flow, where a corpus records it."""

    argument: str  # an input of the call
    call: int  # position of an earlier call of the trajectory
    output: str = ""  # field of that call's answer; "" where it is not recorded


@dataclass(frozen=True, slots=True)
class Call:
    """One step of a trajectory; ``tools`` holds every interchangeable listing of the called tool."""

    tools: tuple[ToolId, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    succeeded: bool = True
    sources: tuple[Source, ...] = ()

    def __post_init__(self) -> None:
        tools = _tuple(self.tools, tuple, "call: tools")
        if not tools:
            raise DataError("call: names no tool")
        if any(len(identity) != 2 for identity in tools):
            raise DataError("call: tools: expected pairs of family and name")
        object.__setattr__(self, "tools", tuple(ToolId(*identity) for identity in tools))
        for identity in self.tools:
            _text(identity.family, "call: tool family", empty=False, nul=False)
            _text(identity.name, "call: tool name", empty=False, nul=False)
        object.__setattr__(self, "arguments", _mapping(self.arguments, "call: arguments"))
        if not isinstance(self.succeeded, bool):
            raise DataError(f"call: succeeded: expected true or false, got {_shown(self.succeeded)}")
        for source in _tuple(self.sources, Source, "call: sources"):
            _text(source.argument, "call: sources: argument", empty=False, nul=False)
            _text(source.output, "call: sources: output", nul=False)
            if type(source.call) is not int:
                raise DataError(f"call: sources: call: expected the position of a call, got {_shown(source.call)}")
        object.__setattr__(self, "sources", tuple(self.sources))


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The recorded calls of one request, in order; empty where nothing was recorded.

    Where only the set of tools is known, ``ordered`` is False: nothing is learned or measured of their order.
    """

    calls: tuple[Call, ...] = ()
    ordered: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "calls", _tuple(self.calls, Call, "trajectory"))
        if not isinstance(self.ordered, bool):
            raise DataError(f"trajectory: ordered: expected true or false, got {_shown(self.ordered)}")
        for number, call in enumerate(self.calls):
            for source in call.sources:
                if not 0 <= source.call < number:
                    raise DataError(
                        f"trajectory: calls[{number}]: source of {source.argument!r}: {source.call} is no earlier call"
                    )

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
