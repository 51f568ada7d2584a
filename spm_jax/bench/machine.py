"""What this machine is and what it can do: description, versions, measured copy and matmul rates, peak memory."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from spm_jax.tables import PACKAGES

COPIED = (1 << 22, 1 << 24, 1 << 26)  # float32 values of a copied array: 16, 64 and 256 MiB
SQUARE = (512, 1024, 2048)  # rows of the square matrices that are multiplied
REPEATS = 3

Rates = dict[str, float]


def describe() -> dict[str, Any]:
    """The machine without its name: processor, cores that this process may use, memory, operating system."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "cores": cores,
        "memory_bytes": memory,
        "system": platform.system(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8", errors="replace").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a time."""
    found = {"python": platform.python_version()}
    for package in (*PACKAGES, "jaxlib", "scipy"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def devices() -> list[str]:
    """Platform and kind of every device that JAX sees."""
    import jax

    return [f"{device.platform}: {device.device_kind}" for device in jax.devices()]


def peak_rss() -> int:
    """Bytes: the largest resident memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _fastest(call: Callable[..., Any], *arguments: Any) -> float:
    """Seconds of the fastest of a few calls, after one that is not timed."""
    import jax

    jax.block_until_ready(call(*arguments))
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(call(*arguments))
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def _best(rates: dict[str, float]) -> Rates:
    return {**rates, "best": max(rates.values())}


def copy_rate(sizes: tuple[int, ...] = COPIED) -> Rates:
    """Gigabytes a second read and written by a copy: of NumPy, of a jitted JAX program, and the better one ("best").

    Each is the best of ``sizes`` (float32 values), so arrays that fit in a cache count too: no real program beats it.
    """
    import jax

    program = jax.jit(lambda values: values + 1)
    rates = {"numpy": 0.0, "jax": 0.0}
    for size in sizes:
        source = np.ones(size, np.float32)
        target, on_device = np.empty_like(source), jax.device_put(source)
        moved = 2 * source.nbytes / 1e9
        rates["numpy"] = max(rates["numpy"], moved / _fastest(np.copyto, target, source))
        rates["jax"] = max(rates["jax"], moved / _fastest(program, on_device))
    return _best(rates)


def matmul_rate(sizes: tuple[int, ...] = SQUARE) -> Rates:
    """Gigaflops a second (a multiplication and an addition are two) of float32 products of square matrices.

    Of NumPy, of a jitted JAX program, and the better one ("best"); each is the best of ``sizes`` (rows).
    """
    import jax

    program = jax.jit(lambda left, right: left @ right)
    rng = np.random.default_rng(0)
    rates = {"numpy": 0.0, "jax": 0.0}
    for size in sizes:
        left, right = rng.standard_normal((2, size, size), np.float32)
        on_device = jax.device_put((left, right))
        done = 2 * size**3 / 1e9
        rates["numpy"] = max(rates["numpy"], done / _fastest(np.matmul, left, right))
        rates["jax"] = max(rates["jax"], done / _fastest(program, *on_device))
    return _best(rates)


def better(first: Rates, second: Rates) -> Rates:
    """The larger rate of each name."""
    return {name: max(rate, second[name]) for name, rate in first.items()}
