"""``spm export``: the menu program of a bundle as one file, ahead of time."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from spm_jax.cli.common import FORMATTER, quiet_logs
from spm_jax.data.schema import DataError

_EXAMPLES = """\
example:
  spm export --checkpoint runs/tiny/fold0/menu --out runs/tiny/menu.program
      one file for processors, NVIDIA GPUs and TPUs, for menus of 32 tools
  spm menu --checkpoint runs/tiny/fold0/menu --program runs/tiny/menu.program "Send me the receipt of order 48213"
      the menu, with nothing of the model traced
  spm export --checkpoint runs/tiny/fold0/menu --out small.program --k 8 --platforms cpu --batch 1
      menus of 8 tools, one request at a time, on processors only

In Python: MenuBuilder.load("runs/tiny/fold0/menu", program="runs/tiny/menu.program").

The file holds no library and no parameters. It serves every bundle whose library has the same padded sizes and whose
networks are of the same size; where they differ, loading says what does. A JAX up to 6 months newer or 3 weeks older
than the one that wrote it reads it. It runs as compiled code: load only files that you trust. Size and time go to
stderr.
"""


def add_parser(subparsers: Any) -> None:
    """Add the ``export`` command to the subparsers of ``spm``."""
    parser = subparsers.add_parser(
        "export", help="write the menu program as one file, ahead of time", description=__doc__, epilog=_EXAMPLES,
        formatter_class=FORMATTER,
    )  # fmt: skip
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="bundle folder, as runs/tiny/fold0/menu")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="file to write")
    parser.add_argument("--k", type=int, default=32, metavar="K", help="tools of the menu (default 32)")
    parser.add_argument("--platforms", nargs="+", metavar="NAME", default=["cpu", "cuda", "tpu"],
                        choices=["cpu", "cuda", "tpu", "rocm"],
                        help="of cpu, cuda, tpu, rocm (default: cpu cuda tpu)")  # fmt: skip
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8], choices=[1, 8],
                        help="1 for one request at a time, 8 for build_many (default: both)")  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file; the exit code. Raises DataError for a bad checkpoint, k below 1, and a folder as ``--out``."""
    if args.out.is_dir():
        raise DataError(f"--out {args.out}: is a folder; give the path of a file")
    from spm_jax.builder import MenuBuilder

    quiet_logs()
    builder = MenuBuilder.load(args.checkpoint)
    start = time.perf_counter()
    builder.export(args.out, args.k, args.platforms, args.batch)
    seconds, size = time.perf_counter() - start, args.out.stat().st_size
    print(f"{args.out}: {size / 1e3:.0f} kB in {seconds:.1f} s, for {', '.join(args.platforms)}", file=sys.stderr)
    return 0
