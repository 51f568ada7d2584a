"""The ToolBench library of RapidAPI tools, with its recorded responses and its live cut (data README, toolbench).

A file ``<Category>/<tool>.json`` documents one RapidAPI product and lists its APIs; each API becomes a Tool. Identity
is (standardised category / standardised file name, standardised API name), and the first entry of an identity is kept.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from spm_jax.data import cache as caching
from spm_jax.data import literals, outputs
from spm_jax.data.readers import archive
from spm_jax.data.readers.archive import Counts, Progress, count, find_source, json_files
from spm_jax.data.schema import DataError, Field, Library, Tool, ToolId

_RESERVED = frozenset(("from", "class", "return", "false", "true", "id", "and"))
NAMELESS = "_"  # the name of an API whose own name has no character that standardisation keeps


def standardise(name: str) -> str:
    """ToolBench's identifier of a category, product or API name; ``""`` if nothing is left.

    Characters outside letters, digits, ``_``, ``^`` and CJK become ``_``; repeats squeezed; lower case; ``_`` stripped;
    a leading digit gets ``get_``.
    """
    name = re.sub("_+", "_", re.sub(r"[^\u4e00-\u9fa5a-zA-Z0-9^_]", "_", name)).lower().strip("_")
    return "get_" + name if name[:1].isdigit() else name


def standardise_api(name: str) -> str:
    """``standardise`` for API names, of which reserved words get ``is_``."""
    name = standardise(name)
    return "is_" + name if name in _RESERVED else name


def _text(value: Any, counts: Counts, *, name: bool = False) -> str:
    """A string that the data model accepts: lone surrogates replaced, NULs dropped from names; both counted."""
    if not isinstance(value, (str, int, float)):
        return ""
    text = str(value)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            count(counts, "repaired/lone_surrogates")
            text = text.encode("utf-8", "replace").decode("utf-8")
    if name and "\0" in text:
        count(counts, "repaired/nul_in_name")
        text = text.replace("\0", "")
    return text


def _inputs(api: Mapping[str, Any], counts: Counts) -> Iterator[Field]:
    for side, required in (("required_parameters", True), ("optional_parameters", False)):
        parameters = api.get(side)
        for parameter in parameters if isinstance(parameters, list) else ():
            name = _text(parameter.get("name"), counts, name=True) if isinstance(parameter, Mapping) else ""
            if not name.strip():
                count(counts, "skipped/parameters_without_name")
                continue
            texts = (_text(parameter.get(part), counts) for part in ("type", "description"))
            yield Field(name, *texts, required)


def _tool(family: str, name: str, product: str, api: Mapping[str, Any], counts: Counts) -> Tool:
    description = _text(api.get("description"), counts)
    inferred = outputs.infer_outputs(api.get("schema"), api.get("body"), (), description)
    return Tool(family, name, description, product, tuple(_inputs(api, counts)), *inferred)


def _place(path: PurePosixPath) -> tuple[str, str] | None:
    """Standardised category and file name of a member, or None where it lacks one (the library holds a ``.json``)."""
    if len(path.parts) < 2:
        return None
    category, name = standardise(path.parts[-2]), standardise(path.name.removesuffix(".json"))
    return (category, name) if category and name else None


def _read_tools(source: Path, counts: Counts, progress: Progress | None) -> dict[ToolId, Tool]:
    files: dict[str, dict[ToolId, Tool]] = {}
    for path, document in json_files(source, counts, progress=progress):
        place = _place(path)
        apis = document.get("api_list") if isinstance(document, Mapping) else None
        if place is None or not isinstance(apis, list):
            count(counts, "skipped/files_without_name" if place is None else "skipped/files_not_a_tool")
            continue
        count(counts, "tool_files")
        product = ": ".join(_text(document.get(part), counts) for part in ("tool_name", "tool_description"))
        tools = files.setdefault(str(path), {})
        for api in apis:
            if not isinstance(api, Mapping) or not isinstance(api.get("name"), str):
                count(counts, "skipped/entries_not_an_api")
                continue
            count(counts, "entries")
            identity = ToolId("/".join(place), standardise_api(api["name"]) or NAMELESS)
            if identity in tools:
                count(counts, "skipped/duplicate_identity")
            else:
                tools[identity] = _tool(*identity, product, api, counts)
    found: dict[ToolId, Tool] = {}
    for path in sorted(files):  # a folder and an archive of it give the same order
        for identity, tool in files[path].items():
            if identity in found:
                count(counts, "skipped/duplicate_identity")
            found.setdefault(identity, tool)
    return found


def _answers(recorded: Any, counts: Counts) -> list[Any]:
    """The answers of calls that did not fail, of one API's ``{arguments: {error, response}}``."""
    answers = []
    for pair in recorded.values() if isinstance(recorded, Mapping) else ():
        if not isinstance(pair, Mapping):
            continue
        count(counts, "pairs")
        if pair.get("error") or pair.get("response") is None:
            count(counts, "pairs_failed")
        else:
            answers.append(pair["response"])
    return answers


def _add_responses(tools: dict[ToolId, Tool], source: Path, counts: Counts, progress: Progress | None) -> None:
    """Fill in outputs from recorded responses where neither schema nor body documents them."""
    for path, recorded in json_files(source, counts, progress=progress):
        if len(path.parts) < 3:
            count(counts, "skipped/files_without_category")
            continue
        category, product = path.parts[-3], path.parts[-2].removesuffix(f"_for_{path.parts[-3]}")
        identity = ToolId(f"{standardise(category)}/{standardise(product)}", standardise_api(path.stem) or NAMELESS)
        answers = _answers(recorded, counts)
        tool = tools.get(identity)
        if tool is None:
            count(counts, "skipped/not_in_library")
        elif tool.outputs_from in ("", "prose"):
            fields, known, origin = outputs.infer_outputs(responses=answers)
            if known:
                tools[identity] = replace(tool, outputs=fields, outputs_known=known, outputs_from=origin)
                count(counts, "tools_documented" if not tool.outputs_known else "tools_documented_by_prose_before")


def read_live(path: str | os.PathLike) -> tuple[ToolId, ...]:
    """Identities of live_apis.jsonl, a line ``{"api", "category", "tool"}`` each. DataError names a bad line."""
    identities = []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text ({getattr(error, 'strerror', None) or error})") from None
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            family = f"{standardise(record['category'])}/{standardise(record['tool'])}"
            identities.append(ToolId(family, standardise_api(record["api"]) or NAMELESS))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError(f'{path}, line {number}: expected {{"api", "category", "tool"}}, strings') from None
    return tuple(identities)


def live_cut(library: Library, live: tuple[ToolId, ...]) -> Library:
    """The tools of ``library`` that ``live`` names, order kept. DataError if there is none."""
    names = frozenset(live)
    tools = tuple(tool for tool in library if tool.id in names)
    if not tools:
        raise DataError("live cut: none of the live APIs is in the library; are both of the same ToolBench?")
    return Library(tools)


def _code() -> bytes:
    """The code whose result is cached: a change of it makes another key."""
    files = (outputs.__file__, literals.__file__, archive.__file__, __file__)
    return b"".join(Path(file).read_bytes() for file in files)


def read_library(
    path: str | os.PathLike,
    responses: str | os.PathLike | None = None,
    live: str | os.PathLike | None = None,
    cache: str | os.PathLike | bool | None = None,
    progress: Progress | None = None,
) -> tuple[Library, Counts]:
    """The ToolBench library and counts of what was read and skipped.

    ``path``: library.tar.xz, its unpacked folder, or the folder that holds either. ``responses``: the same of
    responses.tar.xz; None leaves recorded responses out. ``live``: live_apis.jsonl, cuts the library to what it names.
    ``cache``: folder of parsed libraries, None for the default (see cache.py), False for none. ``progress`` is told,
    now and then, how far the reading got. Raises DataError.
    """
    source = find_source(path, "library.tar.xz", "tools")
    answers = None if responses is None else find_source(responses, "responses.tar.xz", "tool_response_cache")
    folder = None if cache is False else caching.cache_folder(None if cache is True else cache)
    key = caching.content_hash((source, answers), _code()) if folder else ""
    parsed = caching.load(folder, key) if folder else None
    if parsed is None:
        counts: Counts = {"library": {}}
        tools = _read_tools(source, counts["library"], progress)
        if not tools:
            raise DataError(f"{source}: holds no ToolBench tool (<Category>/<tool>.json with an api_list)")
        if answers is not None:
            counts["responses"] = {}
            _add_responses(tools, answers, counts["responses"], progress)
        parsed = Library(tuple(tools.values())), counts
        if folder:
            caching.save(folder, key, *parsed)
    library, counts = parsed
    if live is not None:
        names = read_live(live)
        library = live_cut(library, names)
        counts["live"] = {"listed": len(names), "present": len(library)}
    return library, counts
