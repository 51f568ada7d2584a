"""``spm data world``: write the embedded world as JSON Lines and print its facts beside the real ones."""

from __future__ import annotations

import argparse
from pathlib import Path

from spm_jax.data.jsonl import write_library, write_requests
from spm_jax.data.synthetic import make_world


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Register ``world`` among the sub-commands of ``spm data``; the parsed arguments carry ``run``."""
    parser = subparsers.add_parser("world", help="generate the embedded synthetic world", description=__doc__)
    parser.add_argument("--tools", type=int, default=2_000, help="exact number of tools, at least 100 (default 2000)")
    parser.add_argument("--requests", type=int, default=600, help="exact number of requests (default 600)")
    parser.add_argument("--seed", type=int, default=0, help="equal seeds give equal files (default 0)")
    parser.add_argument("--out", type=Path, required=True, help="folder for library.jsonl and requests.jsonl")
    parser.add_argument("--no-facts", action="store_true", help="write the files only")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the two files, print where they are, then the facts. Raises DataError for numbers out of range."""
    world = make_world(args.seed, args.tools, args.requests)
    for name, write, items in (
        ("library.jsonl", write_library, world.library),
        ("requests.jsonl", write_requests, world.requests),
    ):
        write(args.out / name, items)
        print(f"{args.out / name}: {len(items):,} lines")
    if args.no_facts:
        return 0
    if len({request.group for request in world.requests}) < 5:
        print("facts: left out, the five folds need at least five groups (21 requests)")
        return 0
    from spm_jax.facts import measure_facts, print_facts  # the baselines in it bring jax

    print_facts(measure_facts(world.library, world.requests))
    return 0
