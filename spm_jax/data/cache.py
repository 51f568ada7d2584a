"""Parsed libraries kept on disk, keyed by the content they were parsed from and by the code that parsed them.

The form is gzipped JSON Lines: a header, then a tool a line, all as lists. A file that is damaged, or that another
version wrote, is ignored and written again. The folder is ``~/.cache/spm_jax`` unless the environment variable
``SPM_CACHE`` or an argument names another.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spm_jax.data.schema import DataError, Field, Library, Tool

FORMAT = 1


def cache_folder(folder: str | os.PathLike | None = None) -> Path:
    """The folder that holds cached libraries: the argument, ``$SPM_CACHE`` or ``~/.cache/spm_jax``."""
    return Path(folder or os.environ.get("SPM_CACHE") or Path.home() / ".cache" / "spm_jax")


def content_hash(paths: Iterable[Path | None], extra: bytes = b"") -> str:
    """SHA-256 over ``extra`` and files or folders (their files' names and contents, sorted); None: absent."""
    digest = hashlib.sha256(extra)
    for path in paths:
        digest.update(b"\0absent" if path is None else b"\0folder" if path.is_dir() else b"\0file")
        if path is None:
            continue
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            if path.is_dir():
                digest.update(os.fsencode(file.relative_to(path).as_posix()) + b"\0")
            try:
                with open(file, "rb") as handle:
                    digest.update(hashlib.file_digest(handle, "sha256").digest())
            except OSError as error:
                raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    return digest.hexdigest()


def _fields(fields: Iterable[Field]) -> list[list[Any]]:
    return [[f.name, f.type, f.description, int(f.required)] for f in fields]


def _pack(tool: Tool) -> list[Any]:
    texts = [tool.family, tool.name, tool.description, tool.family_description, tool.outputs_from]
    return [*texts, int(tool.outputs_known), _fields(tool.inputs), _fields(tool.outputs)]


def _unpack(line: list[Any], made: dict[tuple, Field]) -> Tool:
    def fields(records: list[list[Any]]) -> tuple[Field, ...]:
        out = []
        for record in records:
            key = tuple(record)
            if (
                key not in made
            ):  # most fields stand in many tools: checking and storing them once halves time and memory
                made[key] = Field(key[0], key[1], key[2], bool(key[3]))
            out.append(made[key])
        return tuple(out)

    family, name, description, family_description, source, known, inputs, outputs = line
    return Tool(family, name, description, family_description, fields(inputs), fields(outputs), bool(known), source)


def save(folder: Path, key: str, library: Library, counts: dict[str, Any]) -> None:
    """Write a parsed library; atomic. A folder that cannot be written is no error: the cache is a convenience."""
    temporary = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".library.")
        with os.fdopen(handle, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3, mtime=0) as out:
            for record in ({"format": FORMAT, "tools": len(library), "counts": counts}, *map(_pack, library)):
                out.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        os.replace(temporary, folder / f"{key}.jsonl.gz")
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def load(folder: Path, key: str) -> tuple[Library, dict[str, Any]] | None:
    """The library and counts saved under ``key``; None where there is none that is whole and of this format."""
    try:
        with gzip.open(folder / f"{key}.jsonl.gz", "rb") as lines:
            header = json.loads(next(lines))
            if header["format"] != FORMAT:
                return None
            made: dict[tuple, Field] = {}
            tools = tuple(_unpack(json.loads(line), made) for line in lines)
        if len(tools) != header["tools"] or not isinstance(header["counts"], dict):
            return None
        return Library(tools), header["counts"]
    except (OSError, EOFError, StopIteration, zlib.error, ValueError, TypeError, KeyError, RecursionError):
        return None
