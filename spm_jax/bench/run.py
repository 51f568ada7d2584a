"""The whole benchmark: a bundle of every size, its measuring process, and one result out of all."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from spm_jax.bench import machine
from spm_jax.bench.child import ask, import_times
from spm_jax.bench.library import made
from spm_jax.data.schema import DataError

REFERENCE, MILLION = 16_384, 1_048_576
TOOLBENCH_TOOLS = 44_589
SIZES = (1_024, REFERENCE, TOOLBENCH_TOOLS, 262_144, MILLION)
LEAST_TOOLS = 128  # a frontier

Result = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """What is measured. ``toolbench`` and ``traject`` are paths, "" where the data is not there."""

    sizes: tuple[int, ...]
    workdir: Path
    runs: int
    training: bool  # also how fast the retriever trains, at the reference size
    peers_budget: float  # seconds of queries for each peer; 0: no peers
    toolbench: str
    traject: str
    command: str


def label(tools: int) -> str:
    """The name of a size in the result: n128, n16k, n1m."""
    if tools >= 1_000_000:
        return f"n{tools // 1_000_000}m"
    return f"n{tools // 1_000}k" if tools >= 1_000 else f"n{tools}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _folder(tools: int, options: Options) -> tuple[Path, str]:
    """The folder of a size, and ToolBench's path where its tools are those."""
    toolbench = options.toolbench if tools == TOOLBENCH_TOOLS else ""
    return options.workdir / (f"{tools}-toolbench" if toolbench else f"{tools}"), toolbench


def _make(tools: int, options: Options) -> Result:
    """Make the bundle of a size; the record of how that went."""
    _say(f"  making the bundle of {tools:,} tools ...")
    folder, toolbench = _folder(tools, options)
    shutil.rmtree(folder, ignore_errors=True)
    arguments = ["--folder", str(folder), "--tools", str(tools)]
    arguments += ["--toolbench", toolbench, "--traject", options.traject] if toolbench else []
    return ask("spm_jax.bench.library", arguments, options.workdir)


def _serve(folder: Path, options: Options, *words: str) -> Result:
    return ask("spm_jax.bench.serve", ["--folder", str(folder), "--began", repr(time.time()), *words], options.workdir)


def measure_size(tools: int, reference: int, options: Options) -> Result:
    """One size: how its bundle was made, cold starts without and with compiled programs kept, and all the times."""
    folder, _ = _folder(tools, options)
    kept = made(folder)
    record = kept or _make(tools, options)
    _say(f"  {tools:,} tools: cold start ...")
    try:
        first = _serve(folder, options, "--start-only")
    except DataError as error:
        if not kept:
            raise
        _say(f"  {error}")  # kept from an earlier version of the code
        record = _make(tools, options)
        first = _serve(folder, options, "--start-only")
    _say(f"  {tools:,} tools: measuring ...")
    words = ["--runs", str(options.runs), "--compare"]
    if tools == reference:
        words += ["--peers-budget", str(options.peers_budget), *(["--training"] if options.training else [])]
    measured = _serve(folder, options, *words)
    measured["first_start"] = first
    return {"library": record, **measured}


def exponents(times: Sequence[tuple[int, float]]) -> dict[str, float]:
    """Exponent e between successive (N, time), where time grows as N^e; by names such as "n1k_n16k"."""
    return {
        f"{label(small)}_{label(large)}": math.log(slow / fast) / math.log(large / small)
        for (small, fast), (large, slow) in pairwise(times)
    }


def assemble(sizes: dict[int, Result], reference: int, options: Options, imports: Result) -> Result:
    """The object that ``--json`` prints, from the measured sizes; what was not run is not in it."""
    at = sizes[reference]
    batch1 = {tools: size["menu"]["batch1"]["ms"] for tools, size in sizes.items()}
    menu, beside = at["side_by_side"]["menu"], at["side_by_side"]
    ratios = {
        "menu_vs_bm25s": menu["ms"] / beside["bm25s"]["ms"],
        "menu_vs_dense": menu["ms"] / beside["dense"]["ms"],
        "p95_vs_median": menu["p95_ms"] / menu["ms"],
        "batch64_vs_batch1": at["menu"]["batch64"]["ms"] / batch1[reference],
    }
    if {REFERENCE, MILLION} <= sizes.keys():
        ratios["n1m_vs_n16k"] = batch1[MILLION] / batch1[REFERENCE]
    peers = at.get("peers", {})
    result = {
        "command": options.command,
        "machine": {**machine.describe(), "devices": at["devices"], "rates": at["rates"]},
        "versions": machine.versions(),
        "reference_tools": reference,
        "menu": menu,
        "bm25s": beside["bm25s"],
        "dense": beside["dense"],
        "ratios": ratios,
        "peak_rss_bytes": {label(tools): size["peak_rss_bytes"] for tools, size in sizes.items()},
        "networks": at["networks"],
        "exponents": exponents(sorted(batch1.items())),
        "cold_start": at["cold_start"],
        "import": imports,
        "stages": at["stages"],
        "floor": at["floor"],
        "sizes": {label(tools): size for tools, size in sizes.items()},
    }
    if "training" in at:
        result["training"] = at["training"]
    if peers:
        result["peers"] = peers
        result["peers_vs_menu"] = {name: peer["ms"] / menu["ms"] for name, peer in peers.items() if "ms" in peer}
    return result


def run_benchmark(options: Options) -> Result:
    """Measure every size, smallest first. Raises DataError where a child process fails."""
    reference = min(options.sizes, key=lambda tools: abs(math.log(tools / REFERENCE)))
    _say("imports ...")
    imports = import_times()
    sizes = {}
    for tools in sorted(options.sizes):
        sizes[tools] = measure_size(tools, reference, options)
        _say(f"  {tools:,} tools: {sizes[tools]['menu']['batch1']['ms']:.2f} ms a menu")
    return assemble(sizes, reference, options, imports)
