"""The ``spm`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from spm_jax.cli import data
from spm_jax.data.schema import DataError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="spm", description="State-Path tool menus.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    data.add_parser(subparsers)
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
