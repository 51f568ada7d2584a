"""RestBench (arXiv 2306.06624): requests over the TMDB and Spotify web APIs with ordered solutions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from spm_jax.data.readers import openapi
from spm_jax.data.readers.archive import Counts, count
from spm_jax.data.readers.described import find_file, group_of, read_json, text
from spm_jax.data.schema import Call, DataError, Library, Request, Tool, ToolId, Trajectory

APIS = ("tmdb", "spotify")


def _shape(name: str) -> str:
    """An operation's name with every path parameter alike: solutions name some otherwise than the document."""
    return re.sub(r"\{[^}]*\}", "{}", " ".join(name.split()))


def read(path: str | os.PathLike) -> tuple[Library, tuple[Request, ...], Counts]:
    """Library, requests and counts of the folder with ``specs`` and ``datasets``. Raises DataError.

    Both APIs are in one library, each a family; the domain of a request is its API.
    """
    counts: Counts = {}
    tools: list[Tool] = []
    requests: list[Request] = []
    for api in APIS:
        own = openapi.tools_of(read_json(find_file(path, f"{api}_oas.json")), counts, api)
        named: dict[str, list[ToolId]] = {}
        for tool in own:
            named.setdefault(_shape(tool.name), []).append(tool.id)
        tools += own
        records = read_json(find_file(path, f"{api}.json"))
        for number, record in enumerate(records if isinstance(records, list) else ()):
            count(counts, "requests")
            steps = record.get("solution") if isinstance(record, Mapping) else None
            listed = [named.get(_shape(text(step))) for step in steps] if isinstance(steps, list) else []
            if not listed or None in listed:
                count(counts, "skipped/requests_with_unresolved_steps")
                continue
            calls = tuple(Call(tuple(found)) for found in listed if found)
            query = text(record.get("query"))
            requests.append(Request(f"{api}/{number}", query, group_of(calls), api, {}, Trajectory(calls)))
    if not requests:
        raise DataError(f"{path}: holds no RestBench request")
    counts.update(tools=len(tools), read=len(requests), groups=len({request.group for request in requests}))
    return Library(tuple(tools)), tuple(requests), counts
