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

The same command again goes on where it was cut off. The folder foldN/menu of the working folder is a bundle: all that
spm menu and spm eval need.
"""


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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train and evaluate; the exit code. Raises DataError for a bad configuration or bad data."""
    config = load_config(args.config)
    set_fields(config, args.settings)
    from spm_jax.train.loop import train_and_evaluate

    quiet_logs()
    try:
        train_and_evaluate(config, args.workdir, args.out)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    return 0
