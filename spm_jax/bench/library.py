"""The benchmark's bundle of N tools, made once and kept: ``python -m spm_jax.bench.library``, a child of ``spm bench``.

The tools are those of the embedded world, or ToolBench. The networks have the published sizes and random parameters:
time does not depend on what was learned. A process of its own, since indexing a million tools
takes far more memory than serving them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import spm_jax
from spm_jax.bench.child import answer
from spm_jax.data.jsonl import write_atomic, write_requests
from spm_jax.data.schema import Call, DataError, Library, Request, Trajectory

if TYPE_CHECKING:
    from spm_jax.menu import Plan

BUNDLE, REQUESTS, RECORD = "menu", "requests.jsonl", "made.json"  # in the folder of a size
TRAINING, ASKED = 1_000, 256  # requests of path memory, and others that menus are timed on
GROUP = 5  # requests of one group, as in the embedded world
PUBLISHED = {
    "candidates": 128, "menu": 32, "prefix": 8, "text": 64, "producers_first": True, "coverage": 1.0,
    "redundancy": 0.0, "hedge": 0.0, "width": 128, "heads": 4, "layers": 2, "text_scale": (1.0, 1.0),
}  # fmt: skip
SEARCH_WIDTH, RIDGE = 256, 1.0


def made(folder: Path) -> dict[str, Any] | None:
    """How the bundle in ``folder`` was made: tools, source, seconds, peak memory; None where there is none of this
    version."""
    try:
        record = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("spm_jax") == spm_jax.__version__ else None


def read_data(tools: int, toolbench: str, traject: str) -> tuple[Library, tuple[Request, ...], str]:
    """Library, requests, and what they are: ToolBench where its path is given, else the embedded world."""
    if not toolbench:
        from spm_jax.data.synthetic import make_world

        world = make_world(0, tools, TRAINING + ASKED)
        return world.library, world.requests, "embedded world"
    from spm_jax.data.readers import toolbench as toolbench_reader
    from spm_jax.data.readers import traject as traject_reader

    library, _ = toolbench_reader.read_library(toolbench)
    if traject:
        return library, traject_reader.read_requests(traject, library)[0], "ToolBench, requests of TRAJECT-Bench"
    return library, drawn_requests(library), "ToolBench, requests drawn from its descriptions"


def drawn_requests(library: Library, count: int = TRAINING + ASKED, seed: int = 0) -> tuple[Request, ...]:
    """Requests for a library without any: each names two to four tools next to each other, in their own words."""
    rng = np.random.default_rng(seed)
    requests = []
    for number in range(count):
        length = min(int(rng.integers(2, 5)), len(library))
        first = int(rng.integers(len(library) - length + 1))
        tools = [library[n] for n in range(first, first + length)]
        text = " ".join(" ".join((tool.description or tool.name).split()[:12]) for tool in tools)
        calls = tuple(Call((tool.id,)) for tool in tools)
        requests.append(Request(f"drawn/{number}", text, f"drawn/{number // GROUP}", trajectory=Trajectory(calls)))
    return tuple(requests)


def _drawn_networks(plan: Plan, seed: int = 0) -> Any:
    """Random parameters of retriever and reranker; to initialise them properly takes a compilation of ten seconds."""
    import jax

    from spm_jax.menu import initial

    rng = np.random.default_rng(seed)
    form = jax.eval_shape(lambda: initial(plan, seed))
    return jax.tree.map(lambda leaf: (0.05 * rng.standard_normal(leaf.shape)).astype(leaf.dtype), form)


def make(folder: Path, tools: int, toolbench: str = "", traject: str = "") -> dict[str, Any]:
    """Write bundle, requests to ask and the record; the record. Raises DataError for data that cannot be read."""
    from spm_jax import bundle
    from spm_jax.bench.machine import peak_rss
    from spm_jax.data.paths import called_tools, library_golds
    from spm_jax.device_library import index_library
    from spm_jax.memory import MemoryBuilder
    from spm_jax.menu import Params
    from spm_jax.train.frontier import start_weights

    seconds: dict[str, float] = {}
    last = time.perf_counter()

    def done(what: str) -> None:
        nonlocal last
        now = time.perf_counter()
        seconds[what], last = now - last, now
        print(f"    {what}: {seconds[what]:.1f} s", file=sys.stderr, flush=True)

    library, requests, source = read_data(tools, toolbench, traject)
    if len(requests) < 2 * ASKED:
        raise DataError(f"benchmark: {source}: {len(requests)} requests; at least {2 * ASKED} are needed")
    done("data")
    indexed = index_library(library, SEARCH_WIDTH)
    done("index")
    training, asked = requests[:-ASKED], requests[-ASKED:]
    golds = library_golds(library, training)
    texts, groups = [request.text for request in training], [request.group for request in training]
    memory = MemoryBuilder(indexed, texts, golds, groups, called_tools(golds), RIDGE).build()
    done("memory")
    plan = bundle.make_plan(**PUBLISHED)
    params = Params(start_weights(), *_drawn_networks(plan))
    bundle.save(folder / BUNDLE, bundle.TrainedMenus(plan, params, indexed, memory, training, {}))
    write_requests(folder / REQUESTS, [replace(request, trajectory=Trajectory()) for request in asked])
    done("bundle")
    record = {
        "spm_jax": spm_jax.__version__,
        "tools": len(library),
        "source": source,
        "used_tools": int(np.sum(np.asarray(memory.slot) >= 0)),
        "training_requests": len(training),
        "seconds": seconds,
        "peak_rss_bytes": peak_rss(),
        "bytes": sum(path.stat().st_size for path in (folder / BUNDLE).rglob("*") if path.is_file()),
    }
    write_atomic(folder / RECORD, [json.dumps(record)])
    return record


def main(argv: Sequence[str] | None = None) -> int:
    """The child process; its answer goes into the file ``--answer``."""
    parser = argparse.ArgumentParser(prog="spm_jax.bench.library", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--tools", type=int, required=True)
    parser.add_argument("--toolbench", default="")
    parser.add_argument("--traject", default="")
    parser.add_argument("--answer", type=Path, required=True)
    args = parser.parse_args(argv)
    return answer(args.answer, lambda: make(args.folder, args.tools, args.toolbench, args.traject))


if __name__ == "__main__":
    sys.exit(main())
