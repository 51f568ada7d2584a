"""NesTools (arXiv 2410.11805): 1,000 requests with exact data flow between nested calls.

Each request brings its own tools. A definition that recurs is one tool; a name that recurs with another definition is
another tool, in a family of its own. The field of a request is not used: it would say which tools belong together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from spm_jax.data.readers.archive import Counts, count
from spm_jax.data.readers.described import arguments, fields, find_file, first_id, group_of, json_lines, text
from spm_jax.data.schema import Call, DataError, Library, Request, Source, Tool, ToolId, Trajectory

FAMILY = "nestools"
FILE = "test_data.jsonl"
REFERENCE = "API_call_"  # API_call_k is the k-th answer field of the calls so far


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

    A value "API_call_k" names the k-th answer field of the earlier calls. ``name``: the key that holds a tool's name.
    """
    calls: list[Call] = []
    given: dict[str, tuple[int, str]] = {}  # reference -> the call that made it, and the field
    for step in steps if isinstance(steps, list) else ():
        tool = own.get(text(step.get(name))) if isinstance(step, Mapping) else None
        if tool is None:
            count(counts, "skipped/requests_with_unknown_tools")
            return None
        values = arguments(step.get("parameters"), counts)
        sources = [Source(a, *given[v]) for a, v in values.items() if isinstance(v, str) and v in given]
        dangling = [v for v in values.values() if isinstance(v, str) and v.startswith(REFERENCE) and v not in given]
        if dangling:
            count(counts, "references_to_no_earlier_call", len(dangling))
        kept = {a: v for a, v in values.items() if not (isinstance(v, str) and v.startswith(REFERENCE))}
        answers = step.get("responses")
        for answer, field in zip(answers if isinstance(answers, list) else (), tool.outputs):
            given.setdefault(text(answer), (len(calls), field.name))
        calls.append(Call((tool.id,), kept, sources=tuple(sources)))
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
    requests = []
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
        if calls is None or not task:
            continue
        domain = text(record.get("field")).partition("/")[0]
        identity = f"{FAMILY}/{record.get('test_id', number)}"
        requests.append(Request(identity, task, group_of(calls), domain, {}, Trajectory(calls)))
    if not requests:
        raise DataError(f"{file}: holds no NesTools request")
    counts.update(tools=len(tools), read=len(requests), groups=len({request.group for request in requests}))
    return Library(tuple(tools.values())), tuple(requests), counts
