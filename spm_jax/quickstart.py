"""The whole path in a few minutes: a generated world, both networks, the table against the baselines, three menus.

    python -m spm_jax.quickstart [--workdir runs/quickstart]

Runs from a checkout, since its configuration is experiments/configs/quickstart.py. It may be run again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from spm_jax.builder import Item, MenuBuilder, render
from spm_jax.cli.common import FORMATTER, load_config, quiet_logs
from spm_jax.data.schema import DataError, Library, Request
from spm_jax.data.splits import sequence_folds
from spm_jax.facts import measure_facts, print_facts
from spm_jax.tables import Table, markdown
from spm_jax.train.checkpoint import CheckpointError
from spm_jax.train.loop import BUNDLE, load_data, train_and_evaluate

CONFIG = Path(__file__).resolve().parents[1] / "experiments" / "configs" / "quickstart.py"
COLUMNS = ("complete_chain@32", "early_entry@5", "first_action", "ordered_prefix", "producer_violations")
MENUS, SHOWN = 3, 10


def aligned(table: str) -> str:
    """Markdown with the cells of every table padded, so that it also reads well in a terminal."""
    lines, block = [], []
    for line in [*table.splitlines(), ""]:
        if line.startswith("|"):
            block.append([cell.strip() for cell in line.strip("|").split("|")])
            continue
        if block:
            columns = zip(*block, strict=True)
            widths = [max(len(cell) for cell in column if not cell.startswith("---")) for column in columns]
            for row in block:
                cells = ["-" * w if c.startswith("---") else c.ljust(w) for c, w in zip(row, widths, strict=True)]
                lines.append("| " + " | ".join(cells) + " |")
            block = []
        lines.append(line)
    return "\n".join(lines).rstrip("\n")


def _train(config: ConfigDict, workdir: Path) -> Table:
    """Train and evaluate; where ``workdir`` holds a run of another configuration, that one is removed first."""
    for attempt in range(2):
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # the whole table is in results.md; a part is printed below
                return train_and_evaluate(config, workdir)
        except CheckpointError as error:
            if attempt:
                raise
            print(f"{error}\nstarting anew in {workdir}", file=sys.stderr)
            for fold in workdir.glob("fold*"):
                shutil.rmtree(fold)
    raise AssertionError("unreachable")


def show_menu(library: Library, request: Request, items: Sequence[Item]) -> str:
    """The first lines of a menu, its gold tools marked with their step, under the request and its recorded chain."""
    chain = library.gold(request)
    steps = {library[tool].id: step for step, tools in enumerate(chain, 1) for tool in tools}
    place: dict[int, int] = {}
    for position, item in enumerate(items, 1):
        if item.tool in steps:
            place.setdefault(steps[item.tool], position)
    lines = [f'"{request.text}"']
    lines.append("recorded calls: " + " -> ".join(f"{library[tools[0]].name} *{s}" for s, tools in enumerate(chain, 1)))
    for item, line in zip(items[:SHOWN], render(items[:SHOWN]).splitlines()):
        lines.append((f"*{steps[item.tool]}" if item.tool in steps else "").ljust(4) + line)
    rest = [f"*{s} at {place[s]}" for s in sorted(place) if place[s] > SHOWN]
    missing = [f"*{s}" for s in range(1, len(chain) + 1) if s not in place]
    tail = f"    ... {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    tail += f"; {', '.join(rest)}" if rest else ""
    tail += f"; not on the menu: {', '.join(missing)}" if missing else ""
    return "\n".join([*lines, tail])


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; the exit code, 2 where it cannot run here."""
    parser = argparse.ArgumentParser(prog="spm_jax.quickstart", description=__doc__, formatter_class=FORMATTER)
    parser.add_argument("--workdir", type=Path, default=Path("runs/quickstart"), help="default runs/quickstart")
    parser.add_argument("--config", type=Path, default=CONFIG, help=argparse.SUPPRESS)  # tests run a smaller one
    args = parser.parse_args(argv)
    quiet_logs()
    began = time.monotonic()
    try:
        if not args.config.is_file():
            raise DataError(f"{args.config} is not there: run the quickstart from a checkout of the repository")
        config = load_config(args.config)
        _run(config, args.workdir)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on", file=sys.stderr)
        return 130
    print(f"\ndone in {time.monotonic() - began:.0f} s; everything is in {args.workdir}. Menus for your own words:")
    print(f'  spm menu --checkpoint {args.workdir / "fold0" / BUNDLE} "your request"    (in .venv/bin after make)')
    return 0


def _run(config: ConfigDict, workdir: Path) -> None:
    print("1. The embedded world: generated tools, requests and recorded calls, as hard as real ones:\n")
    library, requests = load_data(config.data)
    print_facts(measure_facts(library, requests))

    test = [requests[i] for i in np.flatnonzero(sequence_folds(requests, config.split.folds) == 0)]
    print(f"\n2. Training retriever and reranker; {len(test)} requests, a fifth of the groups, are held out")
    print("   (a quiet minute first: features of every training request, without its own group)\n", flush=True)
    table = _train(config, workdir)

    print(f"\n3. Menus of {config.menu.size} tools for the held-out requests; mean and 95 % interval over groups\n")
    columns = [name.replace("@32", f"@{config.menu.size}") for name in COLUMNS]
    text = markdown(table, metrics=columns, spread=columns)
    print(aligned(text))
    print(f"\n(low is good for producer_violations; every metric: {workdir / 'results.md'})")

    print("\n4. Menus of held-out requests, the first of each of three groups. *N marks the N-th recorded call. runs:")
    print("   every required input is there when the menu is called from top to bottom; <- says where it comes from.\n")
    builder = MenuBuilder.load(workdir / "fold0" / BUNDLE)
    first = list({request.group: request for request in reversed(test)}.values())[::-1]
    for request in first[:MENUS]:
        print(show_menu(library, request, builder.explain(request, config.menu.size)) + "\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
