"""Public corpora by name, with a library of their own or over ToolBench's: what ``data.source`` may say."""

from __future__ import annotations

import os
from collections.abc import Callable

from spm_jax.data.readers import nestful, nestools, restbench, seal_tools, stabletoolbench, traject
from spm_jax.data.readers.archive import Counts
from spm_jax.data.schema import DataError, Library, Request

Read = Callable[[str | os.PathLike], tuple[Library, tuple[Request, ...], Counts]]

CORPORA: dict[str, Read] = {
    "nestools": nestools.read,
    "seal_tools": seal_tools.read,
    "nestful": nestful.read,
    "restbench": restbench.read,
}

# Requests over the ToolBench library: chains, and sets of tools without order.
TOOLBENCH: dict[str, Callable[[str | os.PathLike, Library], tuple[tuple[Request, ...], Counts]]] = {
    "traject": traject.read_requests,
    "traject_parallel": traject.read_parallel,
    "stabletoolbench": stabletoolbench.read_requests,
}


def read_corpus(name: str, path: str | os.PathLike) -> tuple[Library, tuple[Request, ...], Counts]:
    """Library, requests and counts of a corpus. Raises DataError for an unknown name or bad files."""
    if name not in CORPORA:
        raise DataError(f"corpus {name!r} is unknown; known are {', '.join(CORPORA)}")
    return CORPORA[name](path)
