"""Weights trained on TRAJECT-Bench, unchanged, on the libraries of other corpora without any path of theirs.

    python -m experiments.transfer --runs=runs/traject/base --out=experiments/results/transfer_NAME.json NAME

NAME is a corpus of spm_jax.data.corpora. ``--runs`` holds the cells of the main result; each bundle in it is a row of
scores, and State-Path's are their mean. The baselines are fitted on no request either.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from spm_jax import bundle
from spm_jax.baselines import available
from spm_jax.builder import MenuBuilder
from spm_jax.data.corpora import CORPORA, read_corpus
from spm_jax.data.paths import library_golds
from spm_jax.data.schema import DataError
from spm_jax.device_library import index_library
from spm_jax.evaluate import STATE_PATH, evaluate
from spm_jax.tables import make_meta, make_table, markdown, mean_scores, write_table
from spm_jax.train.loop import BUNDLE
from spm_jax.train.prepare import fixed_orders
from spm_jax.train.transfer import transfer

UNTRAINED = ("bm25", "lsa", "minilm", "fused", "reciprocal_ranks", "marginal_relevance", "template", "iterative",
             "graph_fusion", "look_ahead")  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Score, print, write; 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="experiments.transfer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", choices=tuple(CORPORA))
    parser.add_argument("--path", help="folder of the corpus (default: ../shared/data/NAME)")
    parser.add_argument("--runs", required=True, metavar="DIR", help="cells of the main result")
    parser.add_argument("--k", type=int, default=10, metavar="K", help="tools of a menu (default 10)")
    parser.add_argument("--out", metavar="FILE", help="also write the table there")
    args = parser.parse_args(argv)
    try:
        folders = sorted(Path(args.runs).glob(f"fold*/fold*/{BUNDLE}"))
        if not folders:
            raise DataError(f"--runs={args.runs}: holds no cell with a bundle (fold0-seed0/fold0/{BUNDLE})")
        library, requests, _ = read_corpus(args.corpus, args.path or f"../shared/data/{args.corpus}")
        trained = [bundle.load(folder) for folder in folders]
        indexed = index_library(library, encoder=trained[0].indexed.encoder)
        fixed = fixed_orders(indexed, requests, library_golds(library, requests))
        baselines = [fit(library, ()) for name, fit in available(library).items() if name in UNTRAINED]
        scores = evaluate(baselines, library, (), requests, fixed, args.k)
        rows = [
            evaluate([MenuBuilder(transfer(menus, indexed, menu=args.k))], library, (), requests, fixed, args.k)
            for menus in trained
        ]
        ours = [mean_scores(same) for same in zip(*(row.results[STATE_PATH] for row in rows))]
        command = shlex.join(["python", "-m", "experiments.transfer", *(sys.argv[1:] if argv is None else argv)])
        meta = make_meta(tools=len(library), folds=len(folders), seeds=[], command=command)
        table = make_table(scores.cases, {STATE_PATH: ours, **scores.results}, meta, f"complete_chain@{args.k}")
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.out:
        write_table(args.out, table)
    print(markdown(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
