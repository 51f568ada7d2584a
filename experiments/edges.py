"""Dependency-edge accuracy against exact data flow, with and without aliases (evaluation.md, method.md section 3).

    python -m experiments.edges [--data ../shared/data] [--out experiments/results/edges.json] [CORPUS ..]

No network is trained: a candidate i scores kappa_ij + rho_ij as a producer for j, and the request's text breaks ties.
The candidates are a frontier of 128 tools, the best by BM25 with documents extended by training requests, gold tools
injected. rho, those documents, proved pairs and the threshold of similarity come from training folds alone; the
threshold is the one with the best edge accuracy on inner folds of the training part, 1 being all but off. Takes a
minute.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spm_jax.baselines.lexical import extended_postings
from spm_jax.data.aliases import THRESHOLD, Aliases, Pair, add_proved, as_aliases, proved_pairs, similar_pairs
from spm_jax.data.corpora import read_corpus
from spm_jax.data.fields import canonical_key, input_keys, output_keys, tool_entity
from spm_jax.data.jsonl import write_atomic
from spm_jax.data.schema import DataError, Library, Request
from spm_jax.data.splits import inner_folds, sequence_folds
from spm_jax.metrics import edge_accuracy, gold_edges
from spm_jax.stats import group_interval, paired_interval
from spm_jax.tables import make_meta

CORPORA = ("nestools", "seal_tools", "nestful")  # those that record where an argument came from
THRESHOLDS = (1.0, 0.7, 0.6, 0.5, 0.4, 0.3)  # 1: keys of which the library says the same
CANDIDATES, FOLDS, INNER = 128, 5, 3
LARGEST_CLASS = 8
METRICS = ("edge_accuracy", "edge_accuracy, ties lost", "edges covered", "spurious producers")
OFF = "off"

Score = dict[str, float]


def joined(pairs: Mapping[Pair, float], largest: int = LARGEST_CLASS) -> Aliases:
    """Alias classes: keys of similar pairs merged, the most alike first, while a class stays below ``largest`` keys."""
    members: dict[str, list[str]] = {}
    for pair in pairs:
        one, other = (members.setdefault(key, [key]) for key in pair)
        if one is not other and len(one) + len(other) <= largest:
            one.extend(other)
            members.update(dict.fromkeys(other, one))
    return Aliases({key: [other for other in same if other != key] for key, same in members.items() if len(same) > 1})


class Bench:
    """A corpus with what every variant needs of it."""

    def __init__(self, library: Library, requests: Sequence[Request]) -> None:
        self.library, self.requests = library, requests
        self.needs = [input_keys(tool) for tool in library]
        self.gives = [output_keys(tool) for tool in library]
        self.golds = [library.gold(request) for request in requests]
        self.edges = [gold_edges(library, request) for request in requests]
        self.pairs = {threshold: similar_pairs(library, threshold) for threshold in THRESHOLDS}
        self.rows = np.array([row for row, edges in enumerate(self.edges) if edges])  # requests that have edges

    def arguments(self, row: int) -> set[tuple[tuple[int, ...], tuple[int, ...], str]]:
        """(producer, consumer, key of the argument) of every recorded flow of a request."""
        calls = self.requests[row].trajectory.calls
        found = set()
        for call in calls:
            consumer = tuple(sorted(map(self.library.index, call.tools)))
            entity = tool_entity(self.library[consumer[0]])
            for source in call.sources:
                producer = tuple(sorted(map(self.library.index, calls[source.call].tools)))
                if (producer, consumer) in self.edges[row]:
                    found.add((producer, consumer, canonical_key(source.argument, entity)))
        return found


class View(NamedTuple):
    """A test request as training requests let it be seen."""

    row: int
    tools: list[int]  # [n], the candidates, gold ones first
    gold: int  # how many of them are gold
    order: np.ndarray  # [n, n]: rho, in the columns of gold tools
    tie: np.ndarray  # [n]: text score, too small to count where kappa or rho differ


class Fold:
    """Requests ``rows`` to score, and what the training requests ``train`` say of them."""

    def __init__(self, bench: Bench, train: np.ndarray, rows: np.ndarray) -> None:
        self.bench = bench
        requests = [bench.requests[row] for row in train]
        self.proved = proved_pairs(bench.library, requests)
        text = extended_postings(bench.library, requests)
        precedes: Counter[tuple[int, int]] = Counter()
        for row in train:
            chain = bench.golds[row]
            for place, before in enumerate(chain):
                precedes.update({(i, j) for after in chain[place + 1 :] for i in before for j in after if i != j})
        self.views = [self._view(row, text.scores(bench.requests[row].text), precedes) for row in rows]

    def _view(self, row: int, text: np.ndarray, precedes: Mapping[tuple[int, int], int]) -> View:
        gold = list(dict.fromkeys(tool for tools in self.bench.golds[row] for tool in tools))
        best = [tool for tool in np.argsort(-text, kind="stable")[:CANDIDATES].tolist() if tool not in gold]
        tools = [*gold, *best[: max(0, CANDIDATES - len(gold))]]
        order = np.zeros((len(tools), len(tools)))
        for after, tool in enumerate(gold):
            counts = np.array([(precedes[i, tool], precedes[tool, i]) for i in tools], float)
            order[:, after] = np.log1p(counts[:, 0]) - np.log1p(counts[:, 1])
        return View(row, tools, len(gold), order, 1e-6 * text[tools] / max(1e-9, float(text.max())))

    def score(self, aliases: Aliases) -> list[Score]:
        """The metrics of every request to score."""
        gives = [frozenset(aliases.extend(keys)) for keys in self.bench.gives]
        return [self._score(gives, view) for view in self.views]

    def _score(self, gives: Sequence[frozenset[str]], view: View) -> Score:
        edges = self.bench.edges[view.row]
        scores = view.order.copy()
        for after, tool in enumerate(view.tools[: view.gold]):
            needs = self.bench.needs[tool]
            scores[:, after] += [sum(key in gives[i] for key in needs) / max(1, len(needs)) for i in view.tools]
        covered, spurious = [], []
        for producers, consumers, key in self.bench.arguments(view.row):
            covered.append(any(key in gives[i] for i in producers))
            spurious.append(sum(key in gives[i] for i in view.tools if i not in (*producers, *consumers)))
        values = (
            edge_accuracy(scores + view.tie[:, None], view.tools, edges),
            edge_accuracy(scores, view.tools, edges),
            float(np.mean(covered)),
            float(np.mean(spurious)),
        )
        return dict(zip(METRICS, values, strict=True))


Make = Callable[[Mapping[Pair, float], Mapping[Pair, Collection[str]]], Aliases]


def chosen(bench: Bench, train: np.ndarray, makes: Mapping[str, Make]) -> dict[str, float]:
    """The threshold at which each variant has the best edge accuracy on inner folds; of equal ones the highest."""
    inner = inner_folds([bench.requests[row] for row in train], INNER, seed=0)
    sums: Counter[tuple[str, float]] = Counter()
    for number in range(INNER):
        fold = Fold(bench, train[inner != number], np.intersect1d(train[inner == number], bench.rows))
        for name, make in makes.items():
            for threshold in THRESHOLDS:
                scores = fold.score(make(bench.pairs[threshold], fold.proved))
                sums[name, threshold] += sum(score[METRICS[0]] for score in scores)
    return {name: max(THRESHOLDS, key=lambda t: (round(sums[name, t], 9), t)) for name in makes}


PLAIN: dict[str, Make] = {
    OFF: lambda pairs, proved: Aliases(),
    f"similar, threshold {THRESHOLD}": lambda pairs, proved: as_aliases(pairs),
    "proved": lambda pairs, proved: add_proved(Aliases(), proved),
}
TUNED: dict[str, Make] = {
    "similar": lambda pairs, proved: as_aliases(pairs),
    "similar, as classes": lambda pairs, proved: joined(pairs),
    "similar and proved": lambda pairs, proved: add_proved(as_aliases(pairs), proved),
}


def measure(library: Library, requests: Sequence[Request]) -> dict[str, Any]:
    """Every variant over all folds: {"facts", "thresholds": {variant: one a fold}, "rows": {variant: metrics}}.

    A metric is {"mean", "low", "high"}, a mean over the requests that have an edge with an interval over groups;
    "difference" in a row is that of its edge accuracy to ``off``. Raises DataError where no request records an edge.
    """
    bench = Bench(library, requests)
    if not len(bench.rows):
        raise DataError("no request records where an argument came from (Call.sources)")
    fold_of = sequence_folds(requests, FOLDS)
    thresholds: dict[str, list[float]] = {name: [] for name in TUNED}
    scores: dict[str, list[Score]] = {name: [] for name in (*PLAIN, *TUNED)}
    groups: list[str] = []
    for number in range(FOLDS):
        train = np.flatnonzero(fold_of != number)
        fold = Fold(bench, train, np.intersect1d(np.flatnonzero(fold_of == number), bench.rows))
        groups += [requests[view.row].group for view in fold.views]
        best = chosen(bench, train, TUNED)
        for name, make in (PLAIN | TUNED).items():
            threshold = best.get(name, THRESHOLD)
            scores[name] += fold.score(make(bench.pairs[threshold], fold.proved))
            if name in TUNED:
                thresholds[name].append(threshold)
        print(f"fold {number}: {best}", file=sys.stderr, flush=True)
    rows: dict[str, dict[str, Any]] = {}
    for name, values in scores.items():
        columns = {metric: np.array([score[metric] for score in values]) for metric in METRICS}
        rows[name] = {metric: _cell(group_interval(column, groups)) for metric, column in columns.items()}
        off = [score[METRICS[0]] for score in scores[OFF]]
        rows[name]["difference"] = _cell(paired_interval(columns[METRICS[0]], off, groups))
    facts = {
        "tools": len(library),
        "requests": len(requests),
        "with edges": len(bench.rows),
        "groups": len(set(groups)),
        "edges": sum(map(len, bench.edges)),
    }
    return {"facts": facts, "thresholds": thresholds, "rows": rows}


def _cell(interval: tuple[float, float, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in zip(("mean", "low", "high"), interval)}


def render(result: Mapping[str, Any]) -> str:
    """A Markdown table of a result of ``main``."""
    lines = [f"| corpus | aliases | {' | '.join(METRICS)} | accuracy minus off |", "|---" * (3 + len(METRICS)) + "|"]
    for corpus, found in result["corpora"].items():
        facts = ", ".join(f"{value:,} {name}" for name, value in found["facts"].items())
        for name, row in found["rows"].items():
            gain = row["difference"]
            first = f"{row[METRICS[0]]['mean']:.3f} [{row[METRICS[0]]['low']:.3f}, {row[METRICS[0]]['high']:.3f}]"
            cells = [first, *(f"{row[metric]['mean']:.3f}" for metric in METRICS[1:])]
            more = "" if name == OFF else f"{gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]"
            lines.append(f"| {corpus + ': ' + facts if name == OFF else ''} | {name} | {' | '.join(cells)} | {more} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write; 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="experiments.edges", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"default: {' '.join(CORPORA)}")
    parser.add_argument("--data", default="../shared/data", metavar="DIR", help="folder of the corpora")
    parser.add_argument("--out", metavar="FILE", help="also write the JSON there")
    args = parser.parse_args(argv)
    corpora = {}
    try:
        for name in args.corpora or CORPORA:
            print(name, file=sys.stderr)
            library, requests, _ = read_corpus(name, Path(args.data) / name)
            corpora[name] = measure(library, requests)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    command = shlex.join(["python", "-m", "experiments.edges", *(sys.argv[1:] if argv is None else argv)])
    tools = sum(found["facts"]["tools"] for found in corpora.values())
    result = {"meta": make_meta(tools=tools, folds=FOLDS, seeds=[], command=command), "corpora": corpora}
    if args.out:
        write_atomic(args.out, [json.dumps(result, indent=1)])
    print(render(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
