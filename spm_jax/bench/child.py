"""Child processes of ``spm bench``: each measures in a fresh process and leaves its answer as JSON in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spm_jax.data.jsonl import write_atomic
from spm_jax.data.schema import DataError

BAD_DATA, STDERR = 2, 2  # an exit code; a file descriptor


def answer(path: Path, work: Callable[[], dict[str, Any]]) -> int:
    """In the child: do ``work`` and write what it returns to ``path``; the exit code, 2 for a DataError."""
    try:
        content, code = work(), 0
    except DataError as error:
        content, code = {"error": str(error)}, BAD_DATA
    write_atomic(path, [json.dumps(content, allow_nan=False)])
    return code


def ask(module: str, arguments: Sequence[str], workdir: Path) -> dict[str, Any]:
    """In the parent: run ``python -m module``; its answer. What it prints goes to stderr.

    It gets ``--answer FILE`` and the compilation cache of ``workdir``. Raises DataError with its message where it
    reports one, and one that names it where it dies.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str((workdir / "compiled").resolve()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    with tempfile.TemporaryDirectory(dir=workdir, prefix=".answer-") as folder:
        path = Path(folder) / "answer.json"
        command = [sys.executable, "-m", module, *arguments, "--answer", str(path)]
        code = subprocess.run(command, stdout=STDERR, env=environment, check=False).returncode
        content = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if "error" in content:
        raise DataError(content["error"])
    if code or not content:
        killed = f"killed by signal {-code}; is there too little memory?" if code < 0 else f"exit code {code}"
        raise DataError(f"benchmark: {module} {' '.join(arguments)} failed ({killed}); its own message is above")
    return content


def import_times(repeats: int = 2) -> dict[str, float]:
    """Seconds of imports, each in fresh processes, the fastest of a few: spm_jax, its menu builder, jax with flax.

    ``ratio`` is spm_jax over jax with flax.
    """
    statements = {"spm_jax": "import spm_jax", "builder": "import spm_jax.builder", "jax_flax": "import jax, flax"}
    seconds: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(repeats):
        for name, statement in statements.items():
            code = f"import time; began = time.perf_counter(); {statement}; print(time.perf_counter() - began)"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            seconds[name].append(float(done.stdout))
    best = {name: min(times) for name, times in seconds.items()}
    return {
        **{f"{name}_s": value for name, value in best.items()},
        "ratio": best["spm_jax"] / best["jax_flax"],
        "builder_ratio": best["builder"] / best["jax_flax"],
    }


def since(began: float) -> float:
    """Seconds since ``began``, a time.time() of the parent process."""
    return time.time() - began
