"""``spm bench``: how fast menus are on this machine, beside other ways to find tools."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spm_jax.cli.common import FORMATTER
from spm_jax.data.schema import DataError

QUICK_BUDGET, FULL_BUDGET = 6.0, 60.0  # seconds of queries for each peer
QUICK_RUNS, FULL_RUNS, LEAST_RUNS = 100, 200, 3
SHARED = Path("../shared/data")  # where ToolBench and TRAJECT-Bench are looked for

_EXAMPLES = """\
examples:
  spm bench --quick
      16,384 tools alone, in under a minute (without the extra [peers])
  spm bench --json --out bench.json --plot bench.png
      every size up to 1,048,576 tools; the first time the bundles are made, which takes a quarter of an hour
  spm bench --sizes 1024 4096 --runs 50 --no-peers --no-training
      these sizes

Bundles are kept in --workdir, so a second run is quicker. The size 44,589 is ToolBench where its folder is given or
found at ../shared/data/toolbench, else the embedded world of that size. pip install 'spm_jax[peers]' adds the other
tool selectors, 'spm_jax[plots]' the plot. Progress goes to stderr.
"""


def add_parser(subparsers: Any) -> None:
    """Add the ``bench`` command to the subparsers of ``spm``."""
    parser = subparsers.add_parser(
        "bench", help="time menus on this machine", description=__doc__, epilog=_EXAMPLES, formatter_class=FORMATTER
    )
    parser.add_argument("--quick", action="store_true", help="16,384 tools alone, fewer runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="numbers of tools, at least 128 each")
    parser.add_argument("--workdir", type=Path, default=Path("runs/bench"), metavar="DIR",
                        help="folder for the bundles (default runs/bench)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the JSON object to this file")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="write a plot of time and memory")
    parser.add_argument("--runs", type=int, help=f"runs at batch 1 (default {FULL_RUNS}, with --quick {QUICK_RUNS})")
    parser.add_argument("--no-peers", action="store_true", help="leave the other tool selectors out")
    parser.add_argument("--no-training", action="store_true", help="leave the training speed out, as --quick does")
    parser.add_argument("--toolbench", metavar="PATH", help="folder of ToolBench's library")
    parser.add_argument("--traject", metavar="PATH", help="folder of TRAJECT-Bench, the requests over ToolBench")
    parser.set_defaults(run=run)


def _found(given: str | None, name: str) -> str:
    """The path given, or the shared folder ``name`` where it is there, or ""."""
    if given is not None:
        if not Path(given).exists():
            raise DataError(f"--{name.partition('_')[0]} {given}: no such file or folder")
        return given
    return str(SHARED / name) if (SHARED / name).exists() else ""


def _check(args: argparse.Namespace) -> None:
    from spm_jax.bench.run import LEAST_TOOLS, label

    if args.quick and args.sizes:
        raise DataError("--quick measures 16,384 tools alone; leave out --sizes or --quick")
    sizes = args.sizes or []
    for tools in sizes:
        if tools < LEAST_TOOLS:
            raise DataError(f"--sizes {tools}: at least {LEAST_TOOLS} tools are needed, a whole frontier")
    if len({label(tools) for tools in sizes}) < len(sizes):
        raise DataError(f"--sizes {' '.join(map(str, sizes))}: two of them are the same in thousands; leave one out")
    if args.runs is not None and args.runs < LEAST_RUNS:
        raise DataError(f"--runs {args.runs}: at least {LEAST_RUNS} are needed")
    if args.plot and args.plot.suffix != ".png":
        raise DataError(f"--plot {args.plot}: the plot is a PNG file; give it the ending .png")
    for option, path in (("--out", args.out), ("--plot", args.plot)):
        if path and path.is_dir():
            raise DataError(f"{option} {path}: is a folder; give the path of a file")


def run(args: argparse.Namespace) -> int:
    """Measure and print; the exit code. Raises DataError for bad arguments and where a measuring process fails."""
    _check(args)
    from spm_jax.bench import report
    from spm_jax.bench.run import REFERENCE, SIZES, Options, run_benchmark
    from spm_jax.data.jsonl import write_atomic

    options = Options(
        sizes=(REFERENCE,) if args.quick else tuple(args.sizes or SIZES),
        workdir=args.workdir,
        runs=args.runs or (QUICK_RUNS if args.quick else FULL_RUNS),
        training=not (args.quick or args.no_training),
        peers_budget=0.0 if args.no_peers else QUICK_BUDGET if args.quick else FULL_BUDGET,
        toolbench=_found(args.toolbench, "toolbench"),
        traject=_found(args.traject, "traject_bench"),
        command=shlex.join(["spm", *args.argv]),
    )
    result = run_benchmark(options)
    written = json.dumps(result, indent=1, allow_nan=False)
    if args.out:
        write_atomic(args.out, [written])
    if args.plot and find_spec("matplotlib") is None:
        print(f"note: {args.plot} is not written, it needs matplotlib: pip install 'spm_jax[plots]'", file=sys.stderr)
    elif args.plot:
        report.plot(result, args.plot)
    print(written if args.json else report.text(result))
    return 0
