"""``spm train``: train both networks of a configuration and print how they do."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from spm_jax.cli.common import FORMATTER, load_config, quiet_logs, set_fields

_EXAMPLES = """\
examples:
  spm train --config experiments/configs/tiny.py --workdir runs/tiny
      everything small, in about half a minute
  spm train --config experiments/configs/default.py --workdir runs/mine \\
      --set data.library=library.jsonl --set data.requests=requests.jsonl
      your own tools and recorded trajectories, one fold held out
  spm train --config experiments/configs/traject.py --workdir runs/traject --set split.run=0
      TRAJECT-Bench, the first fold only
  spm train --config ... --workdir /shared/runs/mine --coordinator 10.0.0.1:1234 --processes 2 --process 0
      as one of two processes; on the other machine the same with --process 1

Training uses every device that JAX sees, of every process; both batch sizes must divide by their number. A CPU is one
device: with JAX_NUM_CPU_DEVICES=4 it is four. CUDA_VISIBLE_DEVICES=0 leaves one GPU of several. Several processes need
a working folder and data that all of them see.

The same command again goes on where it was cut off. The folder foldN/menu of the working folder is a bundle: all that
spm menu and spm eval need.
"""
COORDINATOR = "address of process 0; or 'auto' alone where JAX finds the others itself (TPU pods, Slurm, Open MPI)"
PROCESSES = "number of processes that train together, each started by the same command but for --process"
PROCESS = "number of this process, from 0; process 0 alone writes files"


def add_parser(subparsers: Any) -> None:
    """Add the ``train`` command to the subparsers of ``spm``."""
    parser = subparsers.add_parser(
        "train", help="train on a library with trajectories", description=__doc__, epilog=_EXAMPLES,
        formatter_class=FORMATTER,
    )  # fmt: skip
    parser.add_argument("--config", required=True, metavar="FILE", help="such as experiments/configs/tiny.py")
    parser.add_argument("--workdir", required=True, metavar="DIR", help="folder for checkpoints, bundles and results")
    parser.add_argument("--out", metavar="FILE", help="also write the result table (JSON) to this file")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", dest="settings",
                        help="set a field of the configuration, such as retriever.lr=1e-3; repeatable")  # fmt: skip
    parser.add_argument("--coordinator", metavar="HOST:PORT", help=COORDINATOR)
    parser.add_argument("--processes", type=int, metavar="N", help=PROCESSES)
    parser.add_argument("--process", type=int, metavar="I", help=PROCESS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train and evaluate; the exit code. Raises DataError for a bad configuration or bad data."""
    config = load_config(args.config)
    set_fields(config, args.settings)
    from spm_jax.train import processes

    quiet_logs()
    try:
        processes.join(args.coordinator, args.processes, args.process)
        from spm_jax.train.loop import train_and_evaluate  # only now: the import of bm25s runs JAX on a device

        with processes.first_speaks():
            train_and_evaluate(config, args.workdir, args.out)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    return 0
