"""JSON files of a folder or a tar archive, read as a stream: nothing is ever extracted to disk."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from spm_jax.data.schema import DataError

Counts = dict[str, Any]  # what was read, skipped and why
Progress = Callable[[str], None]

MAX_MEMBER = 64 << 20  # bytes of one JSON file; the largest real one has about 4 MB
ARCHIVES = (".tar.xz", ".tar.gz", ".tar.bz2", ".tar", ".tgz", ".txz")


def count(counts: Counts, name: str, number: int = 1) -> None:
    """Add ``number`` to an entry of ``counts``; a name with a slash, ``skipped/links``, counts inside a nested dict."""
    *outer, last = name.split("/")
    for part in outer:
        counts = counts.setdefault(part, {})
    counts[last] = counts.get(last, 0) + number


def find_source(path: str | os.PathLike, archive: str, folder: str) -> Path:
    """The archive or folder to read: ``path`` itself, or the file ``archive`` or folder ``folder`` that lies in it."""
    path = Path(path)
    if path.is_dir():
        for inner in (path / folder, path / archive):
            if inner.exists():
                return inner
        return path
    if not path.exists():
        raise DataError(f"{path}: does not exist; give a folder or an archive ({archive})")
    if not path.name.endswith(ARCHIVES):
        raise DataError(f"{path}: neither a folder nor an archive; archives end in {', '.join(ARCHIVES)}")
    return path


def _bytes_of_folder(path: Path, counts: Counts) -> Iterator[tuple[PurePosixPath, bytes]]:
    for root, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            file = Path(root, name)
            if not name.endswith(".json"):
                continue
            if file.is_symlink() or not file.is_file():
                count(counts, "skipped/links_and_devices")
            elif file.stat().st_size > MAX_MEMBER:
                count(counts, "skipped/too_large")
            else:
                try:
                    yield PurePosixPath(file.relative_to(path).as_posix()), file.read_bytes()
                except OSError:
                    count(counts, "skipped/unreadable")


def _decompressed(path: Path) -> IO[bytes]:
    with open(path, "rb") as file:
        start = file.read(6)
    for magic, opener in ((b"\xfd7zXZ\0", lzma.open), (b"\x1f\x8b", gzip.open), (b"BZh", bz2.open)):
        if start.startswith(magic):
            return opener(path, "rb")
    return open(path, "rb")


def _bytes_of_archive(path: Path, counts: Counts) -> Iterator[tuple[PurePosixPath, bytes]]:
    try:
        with _decompressed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                if member.isdir() or not member.name.endswith(".json"):
                    continue
                if name.is_absolute() or ".." in name.parts or "\0" in member.name:
                    count(counts, "skipped/path_escapes")
                elif not member.isreg():
                    count(counts, "skipped/links_and_devices")
                elif member.size > MAX_MEMBER:
                    count(counts, "skipped/too_large")
                else:
                    handle = archive.extractfile(member)
                    assert handle is not None  # a regular file always has one
                    yield name, handle.read()
                archive.members = []  # tarfile remembers every member; a stream need not
            while stream.read(1 << 20):  # tarfile stops at its end mark; a cut-off compressed stream shows only here
                pass
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        raise DataError(f"{path}: damaged or truncated archive ({error}); fetch it again") from None


def json_files(
    path: Path, counts: Counts, where: str = "", progress: Progress | None = None
) -> Iterator[tuple[PurePosixPath, Any]]:
    """``(path inside, parsed JSON)`` of every readable ``*.json``; whatever is skipped is counted with its reason.

    ``where``: a regular expression that the end of the path inside must match; other files are passed over, uncounted.
    ``progress`` is told the state now and then.
    Raises DataError for an archive that is damaged or ends early.
    """
    for name, content in (_bytes_of_folder if path.is_dir() else _bytes_of_archive)(path, counts):
        if not re.search(f"(?:{where})$", str(name)):
            continue
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            count(counts, "skipped/not_json")
            continue
        count(counts, "files")
        if progress is not None and counts["files"] % 1000 == 0:
            progress(f"{path.name}: {counts['files']:,} files read")
        yield name, value
