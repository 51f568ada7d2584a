"""The ``spm`` command. Starting it imports no jax: each command imports what it needs when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import spm_jax
from spm_jax.cli import bench, data, evaluate, export, menu, train
from spm_jax.cli.common import FORMATTER
from spm_jax.data.schema import DataError

_DESCRIPTION = """\
State-Path tool menus: a short, ordered, executable menu of tools for a request, learned from recorded trajectories.
"""
_EXAMPLES = """\
from nothing to a menu:
  spm data world --out world                                       a generated library with requests
  spm train --config experiments/configs/default.py --workdir runs/world \\
      --set data.library=world/library.jsonl --set data.requests=world/requests.jsonl
  spm menu --checkpoint runs/world/fold0/menu "Where is the parcel of order 48213?"
  spm eval --checkpoint runs/world/fold0/menu --requests world/requests.jsonl --held-out

spm COMMAND --help shows more of each.
"""


def parser() -> argparse.ArgumentParser:
    """The command line, every command in it."""
    top = argparse.ArgumentParser(
        prog="spm", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=FORMATTER
    )
    top.add_argument("--version", action="version", version=f"spm_jax {spm_jax.__version__}")
    subparsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (train, evaluate, menu, export, data, bench):
        command.add_parser(subparsers)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code: 2 for bad input, 130 after Ctrl-C, 141 where the reader of a pipe left."""
    argv = sys.argv[1:] if argv is None else argv
    args = parser().parse_args(argv)
    args.argv = list(argv)  # for the tables, which name the command that made them
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except DataError as error:
        message = str(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's own flush at exit is quiet
        return 141
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    print(f"error: {message}", file=sys.stderr)
    return 2
