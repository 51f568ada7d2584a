"""Compiled programs that outlive the process: JAX's persistent compilation cache, switched on in one place."""

from __future__ import annotations

import os
from pathlib import Path

import jax

ENVIRONMENT = "JAX_COMPILATION_CACHE_DIR"  # JAX's own variable; the empty text switches the cache off


def keep() -> None:
    """Keep every compiled program in ``~/.cache/spm_jax/compiled``, unless the caller has already chosen a folder.

    Whoever sets ``jax_compilation_cache_dir`` or its environment variable decides: another folder, or "" for none. A
    folder that cannot be written costs a warning from JAX and nothing else.
    """
    if jax.config.jax_compilation_cache_dir is not None or ENVIRONMENT in os.environ:
        return
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    jax.config.update("jax_compilation_cache_dir", str(Path(base) / "spm_jax" / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
