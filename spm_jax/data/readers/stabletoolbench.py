"""StableToolBench requests: the set of ToolBench APIs that each needs, without order (data README, toolbench/requests).

A record lists the APIs that were offered (``api_list``, with their categories) and which of them are relevant, by
display names (``relevant APIs``). Where a name stands for several listings, they are interchangeable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from spm_jax.data.readers.archive import Counts, count, find_source, json_files
from spm_jax.data.readers.toolbench import NAMELESS, standardise, standardise_api
from spm_jax.data.schema import Call, DataError, Library, Request, ToolId, Trajectory

_FILES = r"(^|/)G[123]_[a-z]+\.json$"


def _name(value: Any) -> tuple[str, str] | None:
    """The (product, API) of an entry of ``relevant APIs``."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value):
        return value[0], value[1]
    return None


def _listings(offered: Any, wanted: tuple[str, str], library: Library) -> tuple[ToolId, ...]:
    """The tools of the library that an offered API of these names is, in every category that offers it."""
    found: dict[ToolId, None] = {}
    for api in offered if isinstance(offered, list) else ():
        if not isinstance(api, Mapping) or (api.get("tool_name"), api.get("api_name")) != wanted:
            continue
        if isinstance(api.get("category_name"), str):
            family = f"{standardise(api['category_name'])}/{standardise(wanted[0])}"
            identity = ToolId(family, standardise_api(wanted[1]) or NAMELESS)
            if identity in library:
                found[identity] = None
    return tuple(found)


def _request(identity: str, domain: str, record: Any, library: Library, counts: Counts) -> Request | None:
    wanted = record.get("relevant APIs") if isinstance(record, Mapping) else None
    if not isinstance(wanted, list) or not isinstance(record.get("query"), str):
        count(counts, "skipped/requests_malformed")
        return None
    names = [_name(value) for value in wanted]
    if not names or None in names:
        count(counts, "skipped/requests_without_tools" if not names else "skipped/requests_malformed")
        return None
    calls: dict[tuple[ToolId, ...], None] = {}
    for name in names:
        count(counts, "tools")
        listed = _listings(record.get("api_list"), name, library)
        if not listed:
            count(counts, "tools_unresolved")
            count(counts, "skipped/requests_with_unresolved_tools")
            return None
        calls[listed] = None
    group = " + ".join(sorted("/".join(listed[0]) for listed in calls))
    text = record["query"].encode("utf-8", "replace").decode("utf-8")
    return Request(identity, text, group, domain, {}, Trajectory(tuple(map(Call, calls)), ordered=False))


def read_requests(path: str | os.PathLike, library: Library) -> tuple[tuple[Request, ...], Counts]:
    """The requests of which every relevant API is in ``library``, as sets without order, and counts.

    ``path``: the folder of G1_category.json and its like, or the one that holds it as ``requests``. A request's id is
    ``file/query_id`` (its position where there is none), its domain the file; requests for the same set are one group,
    whichever file they stand in, and the same request in another file is left out. Raises DataError.
    """
    source = find_source(path, "requests.tar.xz", "requests")
    counts: Counts = {}
    requests: dict[tuple[str, str], Request] = {}
    names: set[str] = set()
    files = 0
    for name, document in json_files(source, counts, _FILES):
        files += 1
        for position, record in enumerate(document if isinstance(document, list) else ()):
            count(counts, "requests")
            number = record.get("query_id", position) if isinstance(record, Mapping) else position
            request = _request(f"{name.stem}/{number}", name.stem, record, library, counts)
            if request is None:
                continue
            if (request.text, request.group) in requests or request.id in names:
                count(counts, "skipped/repeated_requests")
                continue
            requests[request.text, request.group] = request
            names.add(request.id)
    if not files:
        raise DataError(f"{source}: holds no StableToolBench request (G1_category.json and its like)")
    counts["resolved"] = len(requests)
    counts["groups"] = len({request.group for request in requests.values()})
    return tuple(requests.values()), counts
