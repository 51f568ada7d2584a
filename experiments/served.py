"""Trained bundles again, with other decoders, menu sizes or histories: nothing is trained.

    python -m experiments.served decoder --runs=runs/traject/base --out=experiments/results/decoder.json

The studies: ``decoder`` (each term of both decoders off), ``widths`` (menus of 8 to 128 tools, beside the strongest
baselines), ``histories`` (path statistics of a part of the training requests, or of spoilt ones, with the weights that
all of them gave), ``cold`` (no path of the library at all, beside baselines that need none). ``--runs`` holds the cells
of a sweep; the bundles of its first seed are read, one a fold, and each is scored on the requests of its fold.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from spm_jax import bundle
from spm_jax.baselines import BASELINES, available
from spm_jax.builder import MenuBuilder
from spm_jax.bundle import TrainedMenus
from spm_jax.data.histories import corrupted, sparse
from spm_jax.data.paths import library_golds
from spm_jax.data.schema import DataError, Library, Request
from spm_jax.evaluate import STATE_PATH, Scores, evaluate
from spm_jax.tables import make_meta, make_table, markdown, write_table
from spm_jax.train.loop import BUNDLE, load_data, split_folds
from spm_jax.train.prepare import fixed_orders
from spm_jax.train.transfer import transfer

WIDTHS = (8, 16, 32, 64, 128)
UNTRAINED = ("bm25", "lsa", "minilm", "fused", "template")  # baselines that a cold library is shown with
BESIDE = ("bm25", "fused", "sibling_bm25")  # baselines that the widths are shown with
TERMS = {
    "no coverage": {"coverage": 0.0},
    "redundancy 1": {"redundancy": 1.0},
    "no hedge": {"hedge": 0.0},
    "others in retriever order": {"producers_first": False},
    "no entry term": {"order": (0, 1, 1, 1)},
    "no slot term": {"order": (1, 0, 1, 1)},
    "no precedence term": {"order": (1, 1, 0, 1)},
    "no executable term": {"order": (1, 1, 1, 0)},
}
SHARES, SPOILT = (0.5, 0.25, 0.1, 0.0), (0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Fold:
    """A trained bundle and the requests that it is scored on."""

    menus: TrainedMenus
    library: Library
    test: Sequence[Request]
    fixed: Sequence[np.ndarray]
    k: int

    def scores(self, menus: TrainedMenus, k: int, others: Sequence[Any] = ()) -> Scores:
        """State-Path by ``menus``, then the ``others``, on menus of ``k`` tools."""
        constructors = [MenuBuilder(menus), *others]
        return evaluate(constructors, self.library, self.menus.requests, self.test, self.fixed, k)


def read_folds(runs: Path) -> Iterator[Fold]:
    """The bundles of the first seed below ``runs``. Raises DataError where there is none."""
    cells = sorted(path.parent.parent for path in runs.glob(f"fold*-seed*/fold*/{BUNDLE}"))
    seeds = sorted({cell.name.partition("-")[2] for cell in cells})
    if not cells:
        raise DataError(f"--runs={runs}: holds no cell with a bundle (fold0-seed0/fold0/{BUNDLE})")
    data = None
    for cell in (cell for cell in cells if cell.name.endswith(seeds[0])):
        number = int(cell.name.partition("-")[0].removeprefix("fold"))
        menus = bundle.load(cell / f"fold{number}" / BUNDLE)
        config = ConfigDict(menus.meta["config"])
        if data is None:
            library, requests = load_data(config.data)
            requests = tuple(request for request in requests if request.trajectory.calls)
            data = library, requests, fixed_orders(menus.indexed, requests, library_golds(library, requests))
        library, requests, fixed = data
        test = np.flatnonzero(split_folds(config.split, requests) == number)
        yield Fold(menus, library, [requests[i] for i in test], [fixed[i] for i in test], config.menu.size)


def decoder(fold: Fold) -> dict[str, Scores]:
    """State-Path as it was trained, and with each term of its decoders off."""
    made = {STATE_PATH: fold.scores(fold.menus, fold.k)}
    for name, changed in TERMS.items():
        values = {key: np.array(v, np.float32) if key == "order" else v for key, v in changed.items()}
        made[name] = fold.scores(replace(fold.menus, plan=replace(fold.menus.plan, **values)), fold.k)
    return made


def histories(fold: Fold) -> dict[str, Scores]:
    """The same weights with path statistics of fewer requests, and of paths with one wrong step."""
    ridge = fold.menus.meta["config"]["memory"]["ridge"]
    seed = fold.menus.meta["config"]["seed"]

    def scored(requests: Sequence[Request]) -> Scores:
        menus = transfer(fold.menus, fold.menus.indexed, requests, menu=fold.menus.plan.menu, ridge=ridge)
        return fold.scores(menus, fold.k)

    made = {STATE_PATH: fold.scores(fold.menus, fold.k)}
    for share in SHARES:
        made[f"{share:.0%} of the groups"] = scored(sparse(fold.menus.requests, share, seed) if share else ())
    for share in SPOILT:
        wrong = corrupted(fold.library, fold.menus.requests, share, seed)
        made[f"a wrong step in {share:.0%}"] = scored(wrong)
    return made


def widths(fold: Fold) -> dict[str, Scores]:
    """One row a constructor, with complete chain and recall at every width."""
    others = [BASELINES[name](fold.library, fold.menus.requests, seed=0) for name in BESIDE]
    cases, rows = [], {}
    for k in WIDTHS:
        scores = fold.scores(fold.menus, k, others)
        cases = scores.cases
        for name, found in scores.results.items():
            kept = [{m: v for m, v in row.items() if m.endswith(f"@{k}")} for row in found]
            rows[name] = [{**a, **b} for a, b in zip(rows.get(name, [{}] * len(kept)), kept)]
    return {name: Scores(cases, {STATE_PATH: found}) for name, found in rows.items()}


def cold(fold: Fold) -> dict[str, Scores]:
    """The same weights on the library as if no call had ever been recorded, and baselines in the same position."""
    ridge = fold.menus.meta["config"]["memory"]["ridge"]
    menus = transfer(fold.menus, fold.menus.indexed, (), menu=fold.k, ridge=ridge)
    known = available(fold.library)
    scores = fold.scores(menus, fold.k, [known[name](fold.library, ()) for name in UNTRAINED if name in known])
    return {name: Scores(scores.cases, {STATE_PATH: found}) for name, found in scores.results.items()}


STUDIES: Mapping[str, Callable[[Fold], dict[str, Scores]]] = {
    "decoder": decoder, "widths": widths, "histories": histories, "cold": cold,
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Score, print, write; 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="experiments.served", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=tuple(STUDIES))
    parser.add_argument("--runs", required=True, metavar="DIR", help="cells of a sweep's variant")
    parser.add_argument("--out", metavar="FILE", help="also write the table there")
    args = parser.parse_args(argv)
    began, scores, folds, tools = time.monotonic(), Scores(), 0, 0
    try:
        for fold in read_folds(Path(args.runs)):
            folds, tools, k = folds + 1, len(fold.library), fold.k
            made = STUDIES[args.study](fold)
            cases = next(iter(made.values())).cases
            scores.add(Scores(cases, {name: part.results[STATE_PATH] for name, part in made.items()}))
        meta = make_meta(
            tools=tools,
            folds=folds,
            seeds=[fold.menus.meta["config"]["seed"]],
            command=shlex.join(["python", "-m", "experiments.served", *(sys.argv[1:] if argv is None else argv)]),
            seconds=round(time.monotonic() - began, 1),
        )
        table = make_table(scores.cases, scores.results, meta, f"complete_chain@{k}")
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.out:
        write_table(args.out, table)
    print(markdown(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
