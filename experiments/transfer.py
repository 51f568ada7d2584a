"""Weights trained on one corpus, unchanged, on the library of another: without any path of it, and with its own.

    python -m experiments.transfer nestools --runs=runs/traject/base --out=experiments/results/transfer_nestools.json

The argument is a corpus of spm_jax.data.corpora. ``--runs`` holds the cells of a sweep; the bundles of its first seed
are used, and State-Path's scores are their mean. Without paths nothing of the new corpus but its tools is known, and
the baselines are those that need no more. With paths the statistics come from the other four folds of the new corpus,
by the same split as in its own table; no weight changes.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from spm_jax import bundle
from spm_jax.baselines import available
from spm_jax.builder import MenuBuilder
from spm_jax.data.corpora import CORPORA, read_corpus
from spm_jax.data.paths import library_golds
from spm_jax.data.schema import DataError
from spm_jax.data.splits import sequence_folds
from spm_jax.device_library import index_library
from spm_jax.evaluate import STATE_PATH, Scores, evaluate
from spm_jax.tables import make_meta, make_table, markdown, mean_scores, write_table
from spm_jax.train.loop import BUNDLE
from spm_jax.train.prepare import fixed_orders
from spm_jax.train.transfer import transfer

WITH = f"{STATE_PATH}, with the library's paths"
UNTRAINED = ("bm25", "lsa", "minilm", "fused", "reciprocal_ranks", "marginal_relevance", "template", "iterative",
             "graph_fusion", "look_ahead")  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Score, print, write; 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="experiments.transfer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", choices=tuple(CORPORA))
    parser.add_argument("--path", help="folder of the corpus (default: ../shared/data/NAME)")
    parser.add_argument("--runs", required=True, metavar="DIR", help="cells of a sweep's variant")
    parser.add_argument("--k", type=int, default=10, metavar="K", help="tools of a menu (default 10)")
    parser.add_argument("--out", metavar="FILE", help="also write the table there")
    args = parser.parse_args(argv)
    began = time.monotonic()
    try:
        found = sorted(Path(args.runs).glob(f"fold*-seed*/fold*/{BUNDLE}"))
        if not found:
            raise DataError(f"--runs={args.runs}: holds no cell with a bundle (fold0-seed0/fold0/{BUNDLE})")
        seed = min(folder.parts[-3].partition("-")[2] for folder in found)
        trained = [bundle.load(folder) for folder in found if folder.parts[-3].endswith(seed)]
        library, requests, _ = read_corpus(args.corpus, args.path or f"../shared/data/{args.corpus}")
        requests = tuple(request for request in requests if request.trajectory.calls)
        indexed = index_library(library, encoder=trained[0].indexed.encoder)
        fixed = fixed_orders(indexed, requests, library_golds(library, requests))
        folds = sequence_folds(requests)
        baselines = [fit(library, ()) for name, fit in available(library).items() if name in UNTRAINED]
        cold = [MenuBuilder(transfer(menus, indexed, menu=args.k)) for menus in trained]
        scores = Scores()
        for number in range(max(folds) + 1):
            test = [n for n, fold in enumerate(folds) if fold == number]
            train = [request for request, fold in zip(requests, folds) if fold != number]
            data = library, train, [requests[n] for n in test], [fixed[n] for n in test], args.k
            warm = [MenuBuilder(transfer(menus, indexed, train, menu=args.k)) for menus in trained]
            rows = {}
            for name, builders in ((STATE_PATH, cold), (WITH, warm)):
                runs = [evaluate([builder], *data).results[STATE_PATH] for builder in builders]
                rows[name] = [mean_scores(same) for same in zip(*runs)]
            plain = evaluate(baselines, *data)
            scores.add(Scores(plain.cases, {**rows, **plain.results}))
        meta = make_meta(
            tools=len(library),
            folds=int(max(folds)) + 1,
            seeds=[int(seed.removeprefix("seed"))],
            command=shlex.join(["python", "-m", "experiments.transfer", *(sys.argv[1:] if argv is None else argv)]),
            seconds=round(time.monotonic() - began, 1),
        )
        table = make_table(scores.cases, scores.results, meta, f"complete_chain@{args.k}")
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.out:
        write_table(args.out, table)
    print(markdown(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
