"""NESTFUL (arXiv 2409.03797), version 1: 300 chains whose arguments name the fields of earlier answers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from spm_jax.data.outputs import schema_fields
from spm_jax.data.readers.archive import Counts, count
from spm_jax.data.readers.described import arguments, fields, find_file, group_of, read_json, strings, text
from spm_jax.data.schema import Call, DataError, Library, Request, Source, Tool, ToolId, Trajectory

SETS = {
    "executable": "executable",
    "glaive": "non-executable-glaive",
    "sgd": "non-executable-sgd",
}  # family -> start of the file names
RESULT = "var_result"  # the entry that gathers the answer; no tool
INPUTS = ("path_parameters", "query_parameters", "arguments", "parameters")  # where the sets keep a tool's inputs
# $var1$, $var1.field$ and, once, var1.field$; "$100-$200" is text.
_REFERENCE = re.compile(r"\$?\b(var\d+)(?:\.([^$]*))?\$")


def _tools(records: Any, family: str, counts: Counts) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    for record in records if isinstance(records, list) else ():
        name = text(record.get("name")) if isinstance(record, Mapping) else ""
        if not name.strip():
            count(counts, "skipped/tools_malformed")
            continue
        inputs = {f.name: f for place in INPUTS for f in fields(record.get(place))}
        outputs = schema_fields({"properties": record.get("output_parameters")})
        service = name.partition(".")[0] if "." in name else ""
        tool = Tool(
            f"{family}/{service}" if service else family,
            name,
            text(record.get("description")),
            inputs=tuple(inputs.values()),
            outputs=outputs,
            outputs_known=bool(outputs),
            outputs_from="schema" if outputs else "",
        )
        if name in tools:
            count(counts, "skipped/tools_repeated" if tools[name] == tool else "skipped/tools_repeated_otherwise")
        tools.setdefault(name, tool)
    return tools


def _references(value: Any) -> list[tuple[str, str]]:
    """(label, field) of every ``$label.field$`` in a value, each once; the field as an output is named, without
    positions in lists: ``author[0].id`` is ``author.id``."""
    found = {pair for part in strings(value) for pair in _REFERENCE.findall(part)}
    return sorted((label, re.sub(r"\[[^\]]*\]", "", text(field)).strip()) for label, field in found)


def _output(tool: Tool, field: str) -> str:
    """The output of a tool that ``field`` means: itself, or the only nested one that ends so."""
    names = [output.name for output in tool.outputs]
    ends = [name for name in names if name.endswith(f".{field}")]
    return ends[0] if field not in names and len(ends) == 1 else field


def _calls(steps: Any, tools: Mapping[str, Tool], counts: Counts) -> tuple[Call, ...] | None:
    calls: list[Call] = []
    labels: dict[str, int] = {}
    for step in steps if isinstance(steps, list) else ():
        name = text(step.get("name")) if isinstance(step, Mapping) else ""
        if name == RESULT:
            continue
        if name not in tools:
            count(counts, "skipped/requests_with_unknown_tools")
            return None
        values = arguments(step.get("arguments"), counts)
        sources, literal = [], {}
        for argument, value in values.items():
            found = dict.fromkeys(_references(value))
            for label, field in found:
                if label in labels:
                    maker = tools[calls[labels[label]].tools[0].name]
                    sources.append(Source(argument, labels[label], _output(maker, field)))
            dangling = sum(label not in labels for label, _ in found)
            if dangling:
                count(counts, "references_to_no_earlier_call", dangling)
            if not found:
                literal[argument] = value
        label = text(step.get("label"))
        if label:
            labels[label] = len(calls)
        calls.append(Call((tools[name].id,), literal, sources=tuple(sources)))
    if not calls:
        count(counts, "skipped/requests_without_calls")
        return None
    count(counts, "sources", sum(len(call.sources) for call in calls))
    return tuple(calls)


def read(path: str | os.PathLike) -> tuple[Library, tuple[Request, ...], Counts]:
    """Library, requests and counts of the folder that holds the three sets. Raises DataError.

    A tool's family is its set and, for names such as ``Buses.FindBus``, the service; the domain is the set.
    """
    counts: Counts = {}
    tools: dict[ToolId, Tool] = {}
    requests: list[Request] = []
    for family, start in SETS.items():
        own = _tools(read_json(find_file(path, f"{start}-spec.json")), family, counts)
        tools.update({tool.id: tool for tool in own.values()})
        records = read_json(find_file(path, f"{start}-data.json"))
        for number, record in enumerate(records if isinstance(records, list) else ()):
            count(counts, "requests")
            record = record if isinstance(record, Mapping) else {}
            calls, query = _calls(record.get("output"), own, counts), text(record.get("input"))
            if calls is None:
                continue
            if not query.strip():
                count(counts, "skipped/requests_without_text")
                continue
            requests.append(Request(f"{family}/{number}", query, group_of(calls), family, {}, Trajectory(calls)))
    if not requests:
        raise DataError(f"{path}: holds no NESTFUL request")
    counts.update(tools=len(tools), read=len(requests), groups=len({request.group for request in requests}))
    return Library(tuple(tools.values())), tuple(requests), counts
