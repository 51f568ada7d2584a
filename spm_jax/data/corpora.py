"""Public corpora that bring their own library, by name: what ``data.source`` of a configuration may say."""

from __future__ import annotations

import os
from collections.abc import Callable

from spm_jax.data.readers import nestful, nestools, restbench, seal_tools
from spm_jax.data.readers.archive import Counts
from spm_jax.data.schema import DataError, Library, Request

Read = Callable[[str | os.PathLike], tuple[Library, tuple[Request, ...], Counts]]

CORPORA: dict[str, Read] = {
    "nestools": nestools.read,
    "seal_tools": seal_tools.read,
    "nestful": nestful.read,
    "restbench": restbench.read,
}


def read_corpus(name: str, path: str | os.PathLike) -> tuple[Library, tuple[Request, ...], Counts]:
    """Library, requests and counts of a corpus. Raises DataError for an unknown name or bad files."""
    if name not in CORPORA:
        raise DataError(f"corpus {name!r} is unknown; known are {', '.join(CORPORA)}")
    return CORPORA[name](path)
