"""NesTools (arXiv 2410.11805): 1,000 requests with exact data flow between nested calls.

Each request brings its own tools. A definition that recurs is one tool; a name that recurs with another definition is
another tool, in a family of its own. The field of a request is not used: it would say which tools belong together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from spm_jax.data.readers.archive import Counts, count
from spm_jax.data.readers.described import (
    arguments,
    fields,
    find_file,
    first_id,
    group_of,
    json_lines,
    strings,
    text,
)
from spm_jax.data.schema import Call, DataError, Library, Request, Source, Tool, ToolId, Trajectory

FAMILY = "nestools"
FILE = "test_data.jsonl"
_REFERENCE = re.compile(r"\bAPI_call_\d+\b")  # API_call_k is the k-th answer field of the calls so far


def _tool(record: Any, tools: dict[ToolId, Tool], known: dict[Tool, ToolId]) -> Tool | None:
    """The tool of a listing: one that was met before if its definition is the same."""
    if not isinstance(record, Mapping) or not text(record.get("api_name")).strip():
        return None
    required = record.get("required")
    tool = Tool(
        FAMILY,
        text(record["api_name"]),
        text(record.get("api_description")),
        inputs=fields(record.get("parameters"), required if isinstance(required, list) else ()),
        outputs=fields(record.get("responses"), ()),
        outputs_known=True,
        outputs_from="schema",
    )
    if tool not in known:
        identity = first_id(tool.id, tools)
        known[tool] = identity
        tools[identity] = Tool(**{**_parts(tool), "family": identity.family})
    return tools[known[tool]]


def _parts(tool: Tool) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in Tool.__dataclass_fields__}


def calls_of(steps: Any, own: Mapping[str, Tool], name: str, counts: Counts) -> tuple[Call, ...] | None:
    """The calls of a request, ``own`` its tools by name; None, counted, where one cannot be understood.

    "API_call_k" in a value, alone or among others, names the k-th answer field of the earlier calls; an argument with
    such a value has sources and no literal value. ``name``: the key that holds a tool's name.
    """
    calls: list[Call] = []
    given: dict[str, tuple[int, str]] = {}  # reference -> the call that made it, and the field
    for step in steps if isinstance(steps, list) else ():
        tool = own.get(text(step.get(name))) if isinstance(step, Mapping) else None
        if tool is None:
            count(counts, "skipped/requests_with_unknown_tools")
            return None
        values = arguments(step.get("parameters"), counts)
        found = {a: sorted({r for part in strings(v) for r in _REFERENCE.findall(part)}) for a, v in values.items()}
        sources = [Source(a, *given[r]) for a, named in found.items() for r in named if r in given]
        dangling = sum(r not in given for named in found.values() for r in named)
        if dangling:
            count(counts, "references_to_no_earlier_call", dangling)
        answers = step.get("responses")
        answers = [text(answer) for answer in answers] if isinstance(answers, list) else []
        aligned = len(answers) == len(tool.outputs)
        if not aligned:
            count(counts, "answers_unlike_the_tool")
        for place, answer in enumerate(answers):
            if _REFERENCE.fullmatch(answer):
                given.setdefault(answer, (len(calls), tool.outputs[place].name if aligned else ""))
        literal = {a: v for a, v in values.items() if not found[a]}
        calls.append(Call((tool.id,), literal, sources=tuple(sources)))
    if not calls:
        count(counts, "skipped/requests_without_calls")
        return None
    count(counts, "sources", sum(len(call.sources) for call in calls))
    return tuple(calls)


def read(path: str | os.PathLike) -> tuple[Library, tuple[Request, ...], Counts]:
    """Library, requests and counts of test_data.jsonl or a folder that holds it. Raises DataError."""
    counts: Counts = {}
    file = find_file(path, FILE)
    tools: dict[ToolId, Tool] = {}
    known: dict[Tool, ToolId] = {}
    requests: dict[str, Request] = {}
    for number, record in enumerate(json_lines(file, counts)):
        count(counts, "requests")
        listed = record.get("api")
        own = {}
        for entry in listed if isinstance(listed, list) else ():
            tool = _tool(entry, tools, known)
            if tool is None:
                count(counts, "skipped/tools_malformed")
            else:
                own[tool.name] = tool
        calls = calls_of(record.get("call"), own, "api_name", counts)
        task = text(record.get("task"))
        if calls is None:
            continue
        if not task.strip():
            count(counts, "skipped/requests_without_text")
            continue
        domain = text(record.get("field")).partition("/")[0]
        test = record.get("test_id", number)
        identity = f"{FAMILY}/{test if isinstance(test, int) else text(test) or number}"
        if identity in requests:
            count(counts, "skipped/requests_repeated")
            continue
        requests[identity] = Request(identity, task, group_of(calls), domain, {}, Trajectory(calls))
    if not requests:
        raise DataError(f"{file}: holds no NesTools request")
    groups = len({request.group for request in requests.values()})
    counts.update(tools=len(tools), read=len(requests), groups=groups)
    return Library(tuple(tools.values())), tuple(requests.values()), counts
