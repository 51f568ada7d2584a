"""State-Path Tool Menus in JAX (arXiv 2609.09395)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> module. Imported on first use: the data model and ``spm --help`` must not wait for JAX.
_PUBLIC = {
    "Call": "spm_jax.data.schema",
    "DataError": "spm_jax.data.schema",
    "Field": "spm_jax.data.schema",
    "Library": "spm_jax.data.schema",
    "Request": "spm_jax.data.schema",
    "Tool": "spm_jax.data.schema",
    "ToolId": "spm_jax.data.schema",
    "Trajectory": "spm_jax.data.schema",
    "read_library": "spm_jax.data.jsonl",
    "read_requests": "spm_jax.data.jsonl",
    "write_library": "spm_jax.data.jsonl",
    "write_requests": "spm_jax.data.jsonl",
    "make_world": "spm_jax.data.synthetic",
    "MenuBuilder": "spm_jax.builder",
    "MenuConstructor": "spm_jax.types",
}
__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'spm_jax' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
