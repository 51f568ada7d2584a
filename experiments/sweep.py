"""Run a configuration over its variants, folds and seeds, and make one table of all.

    python -m experiments.sweep --config=experiments/configs/traject.py --workdir=runs/traject \
        [--out=experiments/results/traject.json] [--jobs=2] [--seeds=0,1] [--only=VARIANT ...]

A cell is one variant, fold and seed: a run of ``spm_jax.main`` in its own process and folder,
WORKDIR/VARIANT/fold0-seed0. A finished cell is never run again, one that was cut off goes on where it was, and one that
fails is named with the end of its log while the others go on. The configuration gives ``split.run`` (folds) and
``seeds``; its file may define ``variants()``, a dictionary from a variant's name to the fields it changes, as
{"menu.coverage": 0.0}. The baselines are fitted in the cells of the first variant and the first seed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from spm_jax.data.jsonl import write_atomic
from spm_jax.data.schema import DataError
from spm_jax.evaluate import STATE_PATH
from spm_jax.tables import Case, make_meta, make_table, markdown, mean_scores, read_scores, write_table

BASE = "base"  # the variant that changes nothing, where a configuration names none
SCORES, IDENTITY, LOG = "scores.json", "cell.json", "log.txt"


@dataclass(frozen=True)
class Cell:
    """One run: what it changes and where it lies."""

    variant: str
    fold: int
    seed: int
    overrides: Mapping[str, Any]
    folder: Path

    def command(self, config: str) -> list[str]:
        """The command line of the run."""
        changed = [f"--config.{name}={value!r}" if not isinstance(value, str) else f"--config.{name}={value}"
                   for name, value in self.overrides.items()]  # fmt: skip
        cell = [f"--config.seed={self.seed}", f"--config.split.run=({self.fold},)"]
        return [sys.executable, "-m", "spm_jax.main", f"--config={config}", f"--workdir={self.folder}", *cell, *changed]


def load_module(config: str) -> ModuleType:
    """The configuration ``FILE`` or ``FILE:ARGUMENT`` as a module. Raises DataError where it has no get_config."""
    path, _, argument = config.partition(":")
    spec = importlib.util.spec_from_file_location("swept", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise DataError(f"--config={path}: no such configuration file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "get_config"):
        raise DataError(f"--config={path}: defines no get_config()")
    if argument:
        module.get_config = partial(module.get_config, argument)
    return module


def make_cells(module: ModuleType, workdir: Path, seeds: Sequence[int], only: Sequence[str]) -> list[Cell]:
    """The cells of a configuration, the baselines in the first variant's and seed's alone."""
    config = module.get_config()
    variants: dict[str, dict[str, Any]] = module.variants() if hasattr(module, "variants") else {BASE: {}}
    unknown = sorted(set(only) - variants.keys())
    if unknown:
        raise DataError(f"--only={unknown[0]}: no such variant; known are {', '.join(variants)}")
    cells = []
    for number, (name, changed) in enumerate(variants.items()):
        for fold in config.split.run:
            for seed in seeds:
                baselines = config.baselines and number == 0 and seed == seeds[0]
                folder = workdir / name.replace(" ", "_").replace("/", "_") / f"fold{fold}-seed{seed}"
                cells.append(Cell(name, fold, seed, {"baselines": baselines, **changed}, folder))
    return [cell for cell in cells if not only or cell.variant in only]


def _identity(cell: Cell, config_text: str) -> str:
    record = json.dumps([config_text, cell.fold, cell.seed, dict(cell.overrides)], sort_keys=True)
    return hashlib.sha256(record.encode()).hexdigest()


def run_cell(cell: Cell, config: str, config_text: str, cores: Sequence[int]) -> str:
    """Run a cell unless it is finished; "" or what went wrong. ``cores``: where the process may run."""
    cell.folder.mkdir(parents=True, exist_ok=True)
    identity, kept = _identity(cell, config_text), cell.folder / IDENTITY
    if kept.is_file() and kept.read_text("utf-8").strip() != identity:
        return f"{cell.folder}: was made by another configuration; use another --workdir, or remove this folder"
    if (cell.folder / SCORES).is_file() and kept.is_file():
        return ""
    write_atomic(kept, [identity])
    with open(cell.folder / LOG, "ab") as log, subprocess.Popen(cell.command(config), stdout=log, stderr=log) as run:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(run.pid, cores)  # its threads, which start later, stay there too
        try:
            code = run.wait()
        except BaseException:
            run.terminate()
            raise
    if code:
        tail = (cell.folder / LOG).read_text("utf-8", "replace").splitlines()[-5:]
        return "\n    ".join([f"{cell.folder}: exit code {code}", *tail])
    return ""


def run_cells(cells: Sequence[Cell], config: str, jobs: int) -> list[str]:
    """Run the cells, ``jobs`` at a time on cores of their own; the failures, one text each."""
    resolved = load_module(config).get_config().to_dict()
    free = {**resolved, "seeds": None, "split": {**resolved["split"], "run": None}}  # more of either changes no cell
    text = json.dumps(free, sort_keys=True, default=str)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    share = max(1, len(cores) // jobs)
    places = [cores[n * share : (n + 1) * share] or cores for n in range(jobs)]
    began, failures = time.monotonic(), []
    with ThreadPoolExecutor(jobs) as pool:

        def work(cell: Cell) -> tuple[Cell, str]:
            place = places.pop()
            try:
                return cell, run_cell(cell, config, text, place)
            finally:
                places.append(place)

        for number, (cell, failure) in enumerate(pool.map(work, cells), 1):
            seconds = time.monotonic() - began
            left = seconds / number * (len(cells) - number)
            state = "failed" if failure else "done"
            print(
                f"{number} of {len(cells)} cells, {cell.variant} fold {cell.fold} seed {cell.seed}: {state} "
                f"({seconds:.0f} s, about {left:.0f} s left)",
                file=sys.stderr,
                flush=True,
            )
            failures += [failure] if failure else []
    return failures


def gather(cells: Sequence[Cell]) -> tuple[list[Case], dict[str, list[dict[str, float]]], dict[str, Any]]:
    """All cells as one run: rows of State-Path a variant, its metrics averaged over seeds, and the baselines.

    Also, as meta, the complete chain of every seed. A variant without one of its cells is left out.
    """
    cases: list[Case] = []
    results: dict[str, list[dict[str, float]]] = {}
    metas: list[dict[str, Any]] = []
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    for name in variants:
        own = [cell for cell in cells if cell.variant == name]
        if any(not (cell.folder / SCORES).is_file() for cell in own):
            continue
        rows: dict[str, list[dict[str, float]]] = {}
        seen: list[Case] = []
        for fold in dict.fromkeys(cell.fold for cell in own):
            runs = [read_scores(cell.folder / SCORES) for cell in own if cell.fold == fold]
            metas += [meta for _, _, meta in runs]
            seen += runs[0][0]
            for row in dict.fromkeys(row for _, scores, _ in runs for row in scores):
                scored = [scores[row] for _, scores, _ in runs if row in scores]
                shown = row.replace(STATE_PATH, f"{STATE_PATH}, {name}", 1) if name != variants[0] else row
                rows.setdefault(shown, []).extend(mean_scores(same) for same in zip(*scored))
        if cases and [case.id for case in seen] != [case.id for case in cases]:
            raise DataError(f"variant {name!r} scores other requests than {variants[0]!r}; make a study of its own")
        cases = seen
        results.update(rows)
    if not cases:
        raise DataError("no variant has all its cells; nothing to show")
    return cases, results, {"tools": metas[0]["N"], "seconds": sum(meta.get("seconds", 0) for meta in metas)}


def seed_spread(cells: Sequence[Cell], metric: str) -> dict[str, list[float]]:
    """{variant: State-Path's mean ``metric`` of each seed, over all folds}."""
    spread: dict[str, dict[int, list[float]]] = {}
    for cell in cells:
        if (cell.folder / SCORES).is_file():
            rows = read_scores(cell.folder / SCORES)[1][STATE_PATH]
            spread.setdefault(cell.variant, {}).setdefault(cell.seed, []).extend(row[metric] for row in rows)
    return {name: [float(np.mean(values)) for values in seeds.values()] for name, seeds in spread.items()}


def _seeds(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise DataError(f"--seeds={text}: expected whole numbers with commas between") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Run, gather, print; 1 where a cell failed, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="experiments.sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="a file of experiments/configs")
    parser.add_argument("--workdir", required=True, metavar="DIR", help="folder of the cells")
    parser.add_argument("--out", metavar="FILE", help="also write the table there (experiments/results/NAME.json)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cells at a time (default 2)")
    parser.add_argument("--seeds", metavar="N,N", help="run these seeds (default: those of the configuration)")
    parser.add_argument("--only", action="append", default=[], metavar="VARIANT", help="run these variants alone")
    args = parser.parse_args(argv)
    try:
        module = load_module(args.config)
        config = module.get_config()
        seeds = _seeds(args.seeds) if args.seeds else list(config.seeds)
        cells = make_cells(module, Path(args.workdir), seeds, args.only)
        failures = run_cells(cells, args.config, max(1, min(args.jobs, len(cells))))
        for failure in failures:
            print(f"error: {failure}", file=sys.stderr)
        metric = f"complete_chain@{config.menu.size}"
        cases, results, facts = gather(cells)
        table = make_table(
            cases,
            results,
            make_meta(
                tools=facts["tools"],
                folds=len(config.split.run),
                seeds=seeds,
                command=shlex.join(["python", "-m", "experiments.sweep", *(sys.argv[1:] if argv is None else argv)]),
                by_seed=seed_spread(cells, metric),
                seconds=facts["seconds"],
            ),
            metric,
        )
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for path in (Path(args.workdir) / "results.json", *([Path(args.out)] if args.out else [])):
        write_table(path, table)
    print(markdown(table))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
