"""``spm eval``: a trained menu builder and every baseline on the same test requests, in one table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from spm_jax.cli.common import FORMATTER, quiet_logs
from spm_jax.data.schema import DataError, Request

_EXAMPLES = """\
examples:
  spm eval --checkpoint runs/mine/fold0/menu --requests test.jsonl --out runs/mine/test
      writes results.json and results.md there, and prints the latter
  spm eval --checkpoint runs/mine/fold0/menu --requests requests.jsonl --held-out
      of all requests, those of groups that the checkpoint was not trained on
  spm eval --checkpoint runs/mine/fold0/menu --requests test.jsonl --no-baselines --k 16

Requests without recorded calls are left out. The baselines are fitted on the requests that the checkpoint was
trained on. Metrics are explained in spm_jax/metrics.py.
"""


def add_parser(subparsers: Any) -> None:
    """Add the ``eval`` command to the subparsers of ``spm``."""
    parser = subparsers.add_parser(
        "eval", help="score a checkpoint and the baselines", description=__doc__, epilog=_EXAMPLES,
        formatter_class=FORMATTER,
    )  # fmt: skip
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="bundle folder, as runs/mine/fold0/menu")
    parser.add_argument("--requests", required=True, metavar="FILE", help="requests.jsonl with recorded calls")
    parser.add_argument("--out", metavar="DIR", help="folder for results.json and results.md")
    parser.add_argument("--k", type=int, default=32, metavar="K", help="tools of a menu (default 32)")
    parser.add_argument("--held-out", action="store_true", help="leave out requests of groups that training saw")
    parser.add_argument("--no-baselines", action="store_true", help="score the checkpoint only")
    parser.set_defaults(run=run)


def _test_requests(path: str, trained: tuple[Request, ...], held_out: bool) -> tuple[Request, ...]:
    """The requests of ``path`` that can be scored. Raises DataError where none can, or training saw their groups."""
    from spm_jax.data.jsonl import read_requests

    requests = [request for request in read_requests(path) if request.trajectory.calls]
    if not requests:
        raise DataError(f"{path}: no request has recorded calls; nothing can be scored")
    groups = {request.group for request in trained}
    new = tuple(request for request in requests if request.group not in groups)
    if len(new) < len(requests) and not held_out:
        raise DataError(
            f"{path}: {len(requests) - len(new):,} of {len(requests):,} requests are of groups that the checkpoint was "
            "trained on, so their scores would say nothing; give other requests, or --held-out to leave these out"
        )
    if not new:
        raise DataError(f"{path}: the checkpoint was trained on the groups of all its requests; nothing can be scored")
    return new


def run(args: argparse.Namespace) -> int:
    """Score and print; the exit code. Raises DataError for a bad checkpoint, bad requests or k below 1."""
    if args.k < 1:
        raise DataError(f"--k {args.k}: a menu holds at least one tool")
    import shlex

    from spm_jax import tables
    from spm_jax.builder import MenuBuilder
    from spm_jax.data.jsonl import write_atomic
    from spm_jax.data.paths import library_golds
    from spm_jax.evaluate import baseline_constructors, evaluate
    from spm_jax.train.prepare import fixed_orders

    quiet_logs()
    builder = MenuBuilder.load(args.checkpoint)
    trained = builder.trained
    library, train = trained.indexed.library, trained.requests
    test = _test_requests(args.requests, train, args.held_out)
    golds = library_golds(library, test)
    fixed = fixed_orders(trained.indexed, test, golds)
    print(f"{len(library):,} tools, {len(test):,} test requests, {len(train):,} training requests", file=sys.stderr)
    seed = trained.meta.get("config", {}).get("seed", 0)
    others = [] if args.no_baselines else baseline_constructors(library, train, seed, builder)
    scores = evaluate([builder, *others], library, train, test, fixed, args.k)
    command = shlex.join(["spm", *args.argv])
    meta = tables.make_meta(tools=len(library), folds=1, seeds=[seed], command=command)
    table = tables.make_table(scores.cases, scores.results, meta, f"complete_chain@{args.k}")
    text = tables.markdown(table, spread=(f"complete_chain@{args.k}",))
    if args.out:
        tables.write_table(Path(args.out) / "results.json", table)
        write_atomic(Path(args.out) / "results.md", text.splitlines())
    print(text)
    return 0
