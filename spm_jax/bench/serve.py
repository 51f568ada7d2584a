"""What serving a library of one size takes: ``python -m spm_jax.bench.serve``, a child of ``spm bench``.

Cold start, menus at batch 1, 8 and 64, and the peak memory of all that come first, in a process that has loaded nothing
else and finds its programs compiled: a process before it compiled them, and its times and peak memory are
"first_start". Then stages, networks and machine rates, and, beside menus of the same requests, bm25s, dense search and
peers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spm_jax.bench.child import answer, since

if TYPE_CHECKING:
    from spm_jax.builder import MenuBuilder
    from spm_jax.data.schema import Request, ToolId

BATCHES = (1, 8, 64)
LEAST_RUNS = 5  # of a large batch


def _cold_start(folder: Path, began: float) -> tuple[MenuBuilder, tuple[Request, ...], dict[str, float]]:
    """A builder, the requests to ask, and the seconds from the start of the process to its first menu."""
    from spm_jax.bench.library import BUNDLE, REQUESTS
    from spm_jax.builder import MenuBuilder
    from spm_jax.data.jsonl import read_requests

    imported = since(began)
    requests = read_requests(folder / REQUESTS)
    reading = since(began) - imported  # the benchmark's own work, not part of a cold start
    builder = MenuBuilder.load(folder / BUNDLE)
    loaded = since(began) - reading
    named_menu(builder, requests[0])
    total = since(began) - reading
    return builder, requests, {
        "import_s": imported,
        "load_s": loaded - imported,
        "first_menu_s": total - loaded,
        "total_s": total,
    }


def start(folder: Path, began: float) -> dict[str, float]:
    """The cold start alone, and the peak memory once all programs are compiled, and so kept for later."""
    builder, _, cold_start = _cold_start(folder, began)
    builder.warm_up()
    from spm_jax.bench.machine import peak_rss

    return {**cold_start, "peak_rss_bytes": peak_rss()}


def named_menu(builder: MenuBuilder, request: Request) -> list[ToolId]:
    """The whole way: a request in, the names of the tools of its menu out."""
    library = builder.trained.indexed.library
    return [library[int(tool)].id for tool in builder.build(request)]


def named_menus(builder: MenuBuilder, requests: Sequence[Request]) -> list[list[ToolId]]:
    """The same for several requests at once."""
    library = builder.trained.indexed.library
    return [[library[int(tool)].id for tool in menu] for menu in builder.build_many(requests)]


def _time_menus(builder: MenuBuilder, requests: Sequence[Request], runs: int) -> dict[str, dict[str, float]]:
    from spm_jax.bench.timing import repeat, summary

    times = {}
    for batch in BATCHES:
        batches = [
            [requests[(first + n) % len(requests)] for n in range(batch)] for first in range(0, len(requests), batch)
        ]

        def call(number: int, batches: list[list[Request]] = batches) -> None:
            given = batches[number % len(batches)]
            if len(given) == 1:
                named_menu(builder, given[0])
            else:
                named_menus(builder, given)

        many = runs if batch == 1 else max(min(runs, LEAST_RUNS), runs // batch)
        times[f"batch{batch}"] = summary(repeat(call, many, warmup=5 if batch == 1 else 1), items=batch)
    return times


def measure(
    folder: Path, began: float, runs: int, compare: bool, training: bool, peers_budget: float
) -> dict[str, Any]:
    """Everything of one size. ``peers_budget`` are seconds of queries for each peer, 0 for none of them."""
    builder, requests, cold_start = _cold_start(folder, began)
    from spm_jax.bench import floor, machine
    from spm_jax.bench.stages import time_networks, time_stages

    result: dict[str, Any] = {"tools": len(builder.trained.indexed.library), "cold_start": cold_start}
    result["menu"] = _time_menus(builder, requests, runs)
    result["peak_rss_bytes"] = machine.peak_rss()
    result["stages"] = time_stages(builder, requests, runs)
    copy, before = machine.copy_rate(), machine.matmul_rate()
    networks = time_networks(builder, requests[: max(BATCHES)], max(3, runs // max(BATCHES)))
    matmul = machine.better(before, machine.matmul_rate())
    result["rates"] = {"copy_gb_s": copy, "matmul_gflop_s": matmul}
    result["networks"] = {**networks, "matmul_share_batch64": networks["gflop_s"] / matmul["best"]}
    arrays = [builder.trained.indexed.request(request) for request in requests]
    trained = builder.trained
    size, width = trained.indexed.arrays.embedding.shape
    flops = {"dense": 2 * size * width, **networks["flops_per_menu"]}
    read = floor.menu_bytes(trained.plan, trained.params, trained.indexed.arrays, trained.memory, arrays)
    median = result["menu"]["batch1"]["ms"]
    result["floor"] = floor.floor(median, read, flops, copy["best"], matmul["best"])
    result["devices"] = machine.devices()
    if training:
        from spm_jax.bench.training import time_training

        result["training"] = time_training(trained, matmul["best"])
    if compare:
        result.update(_beside(builder, requests, runs, peers_budget))
    return result


def _beside(builder: MenuBuilder, requests: Sequence[Request], runs: int, peers_budget: float) -> dict[str, Any]:
    from spm_jax.bench.compare import bm25s_search, dense_search, encoder, time_peers
    from spm_jax.bench.timing import side_by_side, summary

    indexed = builder.trained.indexed
    began = time.perf_counter()
    search = bm25s_search(indexed)
    index = time.perf_counter() - began
    dense = dense_search(encoder(indexed))
    calls = {
        "menu": lambda number: named_menu(builder, requests[number % len(requests)]),
        "bm25s": lambda number: search(requests[number % len(requests)].text),
        "dense": lambda number: dense(requests[number % len(requests)].text),
    }
    beside = {name: summary(seconds) for name, seconds in side_by_side(calls, runs).items()}
    beside["bm25s"]["index_s"] = index
    result: dict[str, Any] = {"side_by_side": beside}
    if peers_budget:
        texts = [request.text for request in requests]
        result["peers"] = time_peers(indexed, texts, runs, peers_budget)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """The child process; its answer goes into the file ``--answer``."""
    parser = argparse.ArgumentParser(prog="spm_jax.bench.serve", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--began", type=float, required=True, help="time.time() when the process was started")
    parser.add_argument("--start-only", action="store_true", help="the cold start, and all compilation")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--peers-budget", type=float, default=0.0)
    parser.add_argument("--answer", type=Path, required=True)
    args = parser.parse_args(argv)
    if args.start_only:
        return answer(args.answer, lambda: start(args.folder, args.began))
    return answer(
        args.answer,
        lambda: measure(args.folder, args.began, args.runs, args.compare, args.training, args.peers_budget),
    )


if __name__ == "__main__":
    sys.exit(main())
