"""Seal-Tools (arXiv 2405.08355): 4,076 generated tools, requests of one or several calls, a few of them nested."""

from __future__ import annotations

import os

from spm_jax.data.readers.archive import Counts, count
from spm_jax.data.readers.described import fields, find_file, group_of, json_lines, text
from spm_jax.data.readers.nestools import calls_of
from spm_jax.data.schema import DataError, Library, Request, Tool, Trajectory

TOOLS = "tool.jsonl"
FILES = ("dev.jsonl", "test_in_domain.jsonl", "test_out_domain.jsonl")


def read(path: str | os.PathLike) -> tuple[Library, tuple[Request, ...], Counts]:
    """Library, requests and counts of the folder that holds tool.jsonl and the three request files. Raises DataError.

    A tool's family is its field; a request's domain is the field of its first tool.
    """
    counts: Counts = {}
    file = find_file(path, TOOLS)
    tools: dict[str, Tool] = {}
    for record in json_lines(file, counts):
        name = text(record.get("api_name"))
        if not name.strip():
            count(counts, "skipped/tools_malformed")
        elif name in tools:
            count(counts, "skipped/tools_repeated")
        else:
            required = record.get("required")
            tools[name] = Tool(
                text(record.get("field")).strip() or "unknown",
                name,
                text(record.get("api_description")),
                inputs=fields(record.get("parameters"), required if isinstance(required, list) else ()),
                outputs=fields(record.get("responses"), ()),
                outputs_known=True,
                outputs_from="schema",
            )
    requests: dict[str, Request] = {}
    for name in FILES:
        part = file.parent / name
        if not part.is_file():
            count(counts, f"skipped/{name}_absent")
            continue
        for record in json_lines(find_file(part, name), counts):
            count(counts, "requests")
            count(counts, f"files/{name}")
            calls = calls_of(record.get("calling"), tools, "api", counts)
            query, identity = text(record.get("query")), text(record.get("id"))
            if calls is None:
                continue
            if not query.strip() or not identity.strip():
                count(counts, "skipped/requests_without_text_or_id")
                continue
            if identity in requests:
                count(counts, "skipped/requests_repeated")
                continue
            domain = calls[0].tools[0].family.partition("/")[0]
            requests[identity] = Request(identity, query, group_of(calls), domain, {}, Trajectory(calls))
    if not requests:
        raise DataError(f"{file.parent}: holds no Seal-Tools request ({', '.join(FILES)})")
    groups = len({request.group for request in requests.values()})
    counts.update(tools=len(tools), read=len(requests), groups=groups)
    return Library(tuple(tools.values())), tuple(requests.values()), counts
