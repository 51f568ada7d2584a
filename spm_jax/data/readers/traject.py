"""TRAJECT-Bench requests, sequential and parallel, resolved onto the ToolBench library (data README, traject_bench).

A step resolves to every API of the library whose standardised API name equals the step's and whose standardised file
name or product name equals the step's standardised parent, in any category: several matches are interchangeable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spm_jax.data.readers.archive import Counts, count, find_source, json_files
from spm_jax.data.readers.toolbench import NAMELESS, standardise, standardise_api
from spm_jax.data.schema import Call, DataError, Library, Request, ToolId, Trajectory


def _product_names(family_description: str) -> Iterator[str]:
    """What may be the product name of ``"name: description"``: the text before each of the first colons."""
    name = family_description[:300]
    while ": " in name:
        name = name.rpartition(": ")[0]
        yield name


def listings(library: Library) -> dict[tuple[str, str], tuple[ToolId, ...]]:
    """(standardised parent, standardised API name) -> every tool that a step naming them means."""
    found: dict[tuple[str, str], dict[ToolId, None]] = {}
    for tool in library:
        parents = {standardise(tool.family.rpartition("/")[2])}
        parents.update(standardise(name) for name in _product_names(tool.family_description))
        for parent in parents - {""}:
            found.setdefault((parent, tool.name), {})[tool.id] = None
    return {names: tuple(identities) for names, identities in found.items()}


def _text(value: Any) -> str:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _called(step: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """Standardised (parent, API name) of a step. Where the step says "unknown" the tool record of its name tells, and
    where there is none the name itself, ``parent: API``."""
    name = _text(step.get("tool name"))
    record = records.get(name, {})
    names = []
    for label, part in (("parent tool name", name.rpartition(": ")[0]), ("API name", name.rpartition(": ")[2])):
        known = _text(step.get(label))
        names.append(known if known and known != "unknown" else _text(record.get(label)) or part)
    return standardise(names[0]), standardise_api(names[1]) or NAMELESS


def _arguments(step: Mapping[str, Any], counts: Counts) -> dict[str, Any]:
    """Recorded ``{name: value}`` of a step; what the data model cannot hold is counted and left out."""
    arguments = {}
    for side in ("required parameters", "optional parameters"):
        parameters = step.get(side)
        for parameter in parameters if isinstance(parameters, list) else ():
            name = _text(parameter.get("name")) if isinstance(parameter, Mapping) else ""
            try:
                json.dumps(parameter.get("value") if name else None, allow_nan=False, ensure_ascii=False).encode()
            except (ValueError, RecursionError):  # NaN, a lone surrogate, nesting without end
                name = ""
            if name.strip():
                arguments.setdefault(name, parameter.get("value"))
            else:
                count(counts, "skipped/arguments_unusable")
    return arguments


def _request(
    identity: str, domain: str, record: Any, tools: Mapping, records: Mapping[str, Mapping], counts: Counts
) -> Request | None:
    steps = record.get("tool list") if isinstance(record, Mapping) else None
    if not isinstance(steps, list) or not isinstance(record.get("query"), str):
        count(counts, "skipped/requests_malformed")
        return None
    if not steps:
        count(counts, "skipped/requests_without_steps")
        return None
    calls = []
    for step in steps:
        step = step if isinstance(step, Mapping) else {}
        listed = tools.get(_called(step, records))
        count(counts, "steps")
        if listed is None:
            count(counts, "steps_unresolved")
            continue
        calls.append(Call(listed, _arguments(step, counts), step.get("execution_status") == "success"))
    if len(calls) < len(steps):
        count(counts, "skipped/requests_with_unresolved_steps")
        return None
    sequence = _text(record.get("sequence_name"))
    group = f"{domain}/{sequence}" if sequence else ""
    return Request(identity, _text(record["query"]), group, domain, {}, Trajectory(tuple(calls)))


def _set_name(calls: Sequence[Call]) -> str:
    """The set of tools as one text, the same for every order."""
    return " + ".join(sorted({"/".join(call.tools[0]) for call in calls}))


def read_requests(path: str | os.PathLike, library: Library) -> tuple[tuple[Request, ...], Counts]:
    """The sequential requests of which every step is in ``library``, and counts of what was read and skipped.

    ``path``: public_data.tar.xz, its unpacked folder, or the folder that holds either. A request's id is
    ``domain/position in the file``, its group ``domain/sequence_name``; steps that failed when recorded are kept, with
    ``succeeded`` false. Raises DataError.
    """
    return _read(path, library, "sequential/<Domain>/traj_query.json")


def read_parallel(path: str | os.PathLike, library: Library) -> tuple[tuple[Request, ...], Counts]:
    """The parallel requests of which every tool is in ``library``, as sets without order, and counts.

    Their id is ``domain/simple_ver/position`` (or ``hard_ver``), and those of one domain that need the same set of
    tools are one group. What answered when recorded is not said: every call counts as succeeded. Otherwise ``read_requests``.
    """
    requests, counts = _read(path, library, "parallel/<Domain>/<version>_ver.json")
    sets = [
        replace(
            request,
            group=f"{request.domain}/{_set_name(request.trajectory.calls)}",
            trajectory=Trajectory(tuple(replace(c, succeeded=True) for c in request.trajectory.calls), ordered=False),
        )
        for request in requests
    ]
    counts["resolved_and_succeeded"] = len(sets)
    counts["groups"] = len({request.group for request in sets})
    return tuple(sets), counts


def _read(path: str | os.PathLike, library: Library, form: str) -> tuple[tuple[Request, ...], Counts]:
    """The requests of the files of one ``form``: ``kind/<Domain>/file``."""
    kind, _, file = form.split("/")
    pattern = file.replace("<version>", "[a-z]+").replace(".", r"\.")
    source = find_source(path, "public_data.tar.xz", "public_data")
    counts: Counts = {}
    queries: dict[tuple[str, str], list] = {}
    records: dict[str, Mapping[str, Any]] = {}
    for name, document in json_files(source, counts, rf"(^|/){kind}/[^/]+/{pattern}$|(^|/)tools/[^/]+_tool\.json"):
        items = document if isinstance(document, list) else []
        if not items:
            count(counts, "skipped/files_without_records")
        if not name.name.endswith("_tool.json"):
            version = "" if kind == "sequential" else f"{name.stem}/"
            queries[_text(name.parts[-2]), version] = items
            continue
        for item in items:
            if isinstance(item, Mapping) and isinstance(item.get("tool name"), str):
                records.setdefault(_text(item["tool name"]), item)
    if not queries:
        raise DataError(f"{source}: holds no TRAJECT-Bench request ({form})")
    tools = listings(library)
    requests = []
    for domain, version in sorted(queries):
        for position, record in enumerate(queries[domain, version]):
            count(counts, "requests")
            request = _request(f"{domain}/{version}{position}", domain, record, tools, records, counts)
            if request is not None:
                requests.append(request)
    counts["resolved"] = len(requests)
    counts["resolved_and_succeeded"] = sum(request.trajectory.succeeded for request in requests)
    counts["groups"] = len({request.group for request in requests})
    return tuple(requests), counts
