"""Measure the facts of TRAJECT-Bench over the ToolBench library and of the embedded world, side by side.

    python -m experiments.facts [--data ../shared/data] [--out experiments/results/facts.json]

Takes about a minute on two cores. The world's constants (spm_jax/data/synthetic_*.py) were set by this table.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from spm_jax.data.jsonl import write_atomic
from spm_jax.data.readers.toolbench import read_library
from spm_jax.data.readers.traject import read_requests
from spm_jax.data.synthetic import make_world
from spm_jax.facts import REAL_FACTS, format_facts, measure_facts

WORLDS = ((2_000, 600), (16_000, 1_000))
SEEDS = (0, 1, 2)


def measure_world(n_tools: int, n_requests: int) -> dict[str, float]:
    """The mean over SEEDS of the facts of a world of this size."""
    runs = [measure_facts(w.library, w.requests) for w in (make_world(seed, n_tools, n_requests) for seed in SEEDS)]
    return {fact: sum(run[fact] for run in runs) / len(runs) for fact in runs[0]}


def measure_real(data: str | os.PathLike) -> dict[str, float]:
    """The facts of the TRAJECT-Bench requests that resolve onto the ToolBench library (read without responses)."""
    library, _ = read_library(Path(data) / "toolbench")
    requests, _ = read_requests(Path(data) / "traject_bench", library)
    return measure_facts(library, requests)


def main(argv: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data", help="folder with toolbench/ and traject_bench/")
    parser.add_argument("--out", default=str(REAL_FACTS))
    args = parser.parse_args(argv)
    columns = {"TRAJECT-Bench": measure_real(args.data)}
    for n_tools, n_requests in WORLDS:
        columns[f"world {n_tools:,}/{n_requests:,}"] = measure_world(n_tools, n_requests)
    columns = {name: {fact: round(value, 4) for fact, value in column.items()} for name, column in columns.items()}
    meta = {"command": "python -m experiments.facts", "protocol": "sequence split, 5 folds", "world_seeds": list(SEEDS)}
    write_atomic(args.out, [json.dumps({"meta": meta, "facts": columns}, indent=1)])
    print(format_facts(columns))


if __name__ == "__main__":
    main()
