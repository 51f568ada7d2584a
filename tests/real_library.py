"""The real ToolBench library, parsed once a session and cached between sessions."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from spm_jax.data.readers import toolbench, traject


@lru_cache
def real_library(shared_data: Path, cache: Path):
    """(library with recorded responses, counts)."""
    return toolbench.read_library(shared_data / "toolbench", responses=shared_data / "toolbench", cache=cache)


@lru_cache
def real_requests(shared_data: Path, cache: Path):
    """(TRAJECT-Bench requests resolved onto that library, counts)."""
    return traject.read_requests(shared_data / "traject_bench", real_library(shared_data, cache)[0])
