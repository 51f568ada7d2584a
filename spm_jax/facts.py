"""Facts of a library with requests: how hard it is for search, how much recurs, how much is documented (evaluation.md).

They describe data, never a method of this package: the embedded world is calibrated on them, and the real ones stand in
``experiments/results/facts.json``, written by ``python -m experiments.facts``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from spm_jax.baselines.lexical import fit_bm25, fit_extended_bm25
from spm_jax.data.schema import DataError, Library, Request
from spm_jax.data.splits import sequence_folds
from spm_jax.types import MenuConstructor

FIT = Callable[[Library, Sequence[Request], int], MenuConstructor]
FACTS: dict[str, str] = {
    "tools": "tools in the library",
    "requests": "requests with a chain",
    "groups": "groups",
    "bm25_recall@32": "recall@32 of BM25",
    "bm25_chain@32": "complete chain@32 of BM25",
    "bm25_chain@128": "complete chain@128 of BM25",
    "extended_recall@32": "recall@32 of BM25, documents extended by training requests",
    "extended_chain@32": "complete chain@32 of the same",
    "extended_chain@128": "complete chain@128 of the same",
    "extended_cold_recall@128": "recall@128 of the same, cold gold tools",
    "extended_warm_recall@32": "recall@32 of the same, warm gold tools",
    "extended_cold_recall@32": "recall@32 of the same, cold gold tools",
    "bm25_first_before_next": "adjacent gold pairs that BM25 ranks in the order of the calls",
    "warm_tools": "gold tools of test requests that training used",
    "chains_no_cold": "test chains without a cold tool",
    "chains_one_cold": "test chains with one cold tool",
    "chains_two_cold": "test chains with two",
    "chains_more_cold": "test chains with more",
    "cold_with_sibling": "cold gold tools that share a family with another gold tool of their chain",
    "pairs_seen": "adjacent gold pairs that training has",
    "calls": "calls a chain",
    "families": "families a chain",
    "gold_outputs_known": "gold tools with documented outputs",
    "gold_required_input": "gold tools with a required input",
    "library_outputs_known": "tools of the library with documented outputs",
    "library_required_input": "tools of the library with a required input",
}  # fmt: skip


def _search(
    library: Library, train: Sequence[Request], test: Sequence[Request], fit: FIT, seed: int
) -> list[np.ndarray]:
    """The 128 tools that a constructor puts first, for each test request."""
    constructor = fit(library, train, seed)
    return [np.asarray(constructor.build(request, 128)) for request in test]


def measure_facts(library: Library, requests: Sequence[Request], seed: int = 0) -> dict[str, float]:
    """The FACTS of a library with requests, over the five sequence folds; shares are in 0..1, means over all folds.

    Requests without calls are left out. Raises DataError for a gold tool that the library does not hold, or for fewer
    than five groups.
    """
    requests = [request for request in requests if request.trajectory.calls]
    folds = sequence_folds(requests)
    chains = [library.gold(request) for request in requests]
    found: dict[str, list[float]] = {name: [] for name in FACTS}
    for fold in range(5):
        inside = np.flatnonzero(folds == fold)
        train = [requests[i] for i in np.flatnonzero(folds != fold)]
        test = [requests[i] for i in inside]
        used = {tool for i in np.flatnonzero(folds != fold) for entry in chains[i] for tool in entry}
        pairs = {p for i in np.flatnonzero(folds != fold) for p in zip(chains[i], chains[i][1:], strict=False)}
        plain = _search(library, train, test, fit_bm25, seed)
        extended = _search(library, train, test, fit_extended_bm25, seed)
        for place, i in enumerate(inside):
            _one_request(found, library, chains[i], used, pairs, plain[place], extended[place])
    facts = {name: float(np.mean(values)) if values else float("nan") for name, values in found.items()}
    facts |= {"tools": float(len(library)), "requests": float(len(requests))}
    facts["groups"] = float(len({request.group for request in requests}))
    facts["library_outputs_known"] = float(np.mean([tool.outputs_known for tool in library]))
    facts["library_required_input"] = float(np.mean([bool(tool.required) for tool in library]))
    return facts


def _one_request(
    found: dict[str, list[float]],
    library: Library,
    chain: tuple[tuple[int, ...], ...],
    used: set[int],
    pairs: set[tuple[tuple[int, ...], tuple[int, ...]]],
    plain: np.ndarray,
    extended: np.ndarray,
) -> None:
    """Add what one test request shows to ``found``."""
    warm = [any(tool in used for tool in entry) for entry in chain]
    n_cold = warm.count(False)
    families = [{library[tool].family for tool in entry} for entry in chain]
    for name, menu in (("bm25", plain), ("extended", extended)):
        rank = {int(tool): place for place, tool in enumerate(menu)}
        best = [min(rank.get(tool, len(library)) for tool in entry) for entry in chain]
        found[f"{name}_recall@32"].append(float(np.mean([r < 32 for r in best])))
        found[f"{name}_chain@32"].append(float(max(best) < 32))
        found[f"{name}_chain@128"].append(float(max(best) < 128))
        if name == "extended":
            for place, r in enumerate(best):
                found[f"extended_{'warm' if warm[place] else 'cold'}_recall@32"].append(float(r < 32))
                if not warm[place]:
                    found["extended_cold_recall@128"].append(float(r < 128))
        else:
            ranked = [(a, b) for a, b in zip(best, best[1:], strict=False) if min(a, b) < len(library)]
            found["bm25_first_before_next"] += [float(a < b) for a, b in ranked]
    found["warm_tools"] += [float(w) for w in warm]
    for cold, name in ((0, "chains_no_cold"), (1, "chains_one_cold"), (2, "chains_two_cold")):
        found[name].append(float(n_cold == cold))
    found["chains_more_cold"].append(float(n_cold > 2))
    for place, own in enumerate(families):
        if not warm[place]:
            others = set().union(*(f for n, f in enumerate(families) if n != place))
            found["cold_with_sibling"].append(float(bool(own & others)))
    found["pairs_seen"] += [float(pair in pairs) for pair in zip(chain, chain[1:], strict=False)]
    found["calls"].append(float(len(chain)))
    found["families"].append(float(len({min(f) for f in families})))
    found["gold_outputs_known"] += [float(any(library[t].outputs_known for t in entry)) for entry in chain]
    found["gold_required_input"] += [float(any(library[t].required for t in entry)) for entry in chain]


def read_facts(path: str | os.PathLike) -> dict[str, dict[str, float]]:
    """The columns (name -> facts) of a facts.json. Raises DataError for a file that is none."""
    try:
        columns = json.loads(Path(path).read_text(encoding="utf-8"))["facts"]
        return {name: {fact: float(value) for fact, value in column.items()} for name, column in columns.items()}
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: no facts there ({error}); write it with python -m experiments.facts") from None


def format_facts(columns: Mapping[str, Mapping[str, float]]) -> str:
    """A plain-text table, a fact a line, a column for each entry of ``columns``; "-" where one is missing."""
    width = max(map(len, FACTS.values()))
    widths = {name: max(12, len(name)) for name in columns}
    lines = [" " * width + "".join(f"  {name:>{widths[name]}}" for name in columns)]
    for fact, label in FACTS.items():
        cells = []
        for name, column in columns.items():
            value = column.get(fact, float("nan"))
            whole = fact in ("tools", "requests", "groups")
            text = "-" if np.isnan(value) else f"{value:,.0f}" if whole else f"{value:.3f}"
            cells.append(f"  {text:>{widths[name]}}")
        lines.append(f"{label:<{width}}" + "".join(cells))
    return "\n".join(lines)


REAL_FACTS = Path(__file__).resolve().parents[1] / "experiments" / "results" / "facts.json"


def print_facts(world: Mapping[str, float], real: str | os.PathLike = REAL_FACTS) -> None:
    """Print a world's facts beside the real ones, where their file is at hand (beside the package, not in it)."""
    columns: dict[str, Mapping[str, float]] = {"this world": world}
    if Path(real).exists():
        columns |= {name: column for name, column in read_facts(real).items() if not name.startswith("world")}
    print(format_facts(columns))
    if len(columns) == 1:
        print(f"(no real facts to compare with: {Path(real).name} is written by python -m experiments.facts)")
