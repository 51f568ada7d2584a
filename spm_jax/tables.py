"""Result tables: the JSON that results are committed as, and its Markdown form (evaluation.md)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from spm_jax.data.jsonl import write_atomic
from spm_jax.data.schema import DataError
from spm_jax.stats import group_interval, mcnemar, paired_interval

LENGTHS = (("2", 2, 2), ("3-4", 3, 4), ("5-6", 5, 6), (">=7", 7, 1 << 30))  # name, smallest, largest chain
LOWER_IS_BETTER = frozenset({"producer_violations"})
PACKAGES = ("spm_jax", "numpy", "jax", "flax", "optax", "bm25s")

Metrics = dict[str, dict[str, float]]
Table = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What a table needs to know about one test request besides its scores."""

    id: str
    group: str
    length: int  # T, gold calls without repeats
    cold: int  # gold tools that no training path of the fold used


def cold_tools(gold: Sequence[Collection[int]], used: Collection[int]) -> np.ndarray:
    """bool [T]: gold tools of which no listing is among ``used``, the tools that training paths called."""
    return np.array([not any(tool in used for tool in tools) for tools in gold], bool)


def mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The scores that several runs give one request as one: the mean of each metric over the runs that define it."""
    names = dict.fromkeys(name for score in scores for name in score)
    return {name: float(np.mean([score[name] for score in scores if name in score])) for name in names}


def summarise(scores: Sequence[Mapping[str, float]], groups: Sequence[str], seed: int = 0) -> Metrics:
    """{metric: {"mean", "low", "high", "n"}} with 95 % group-bootstrap intervals.

    n is the number of requests for which the metric is defined; a metric that none defines is left out.
    """
    names = list(dict.fromkeys(name for score in scores for name in score))
    summary: Metrics = {}
    for name in names:
        rows = [row for row, score in enumerate(scores) if name in score]
        mean, low, high = group_interval([scores[r][name] for r in rows], [groups[r] for r in rows], seed=seed)
        summary[name] = {"mean": mean, "low": low, "high": high, "n": len(rows)}
    return summary


def make_table(
    cases: Sequence[Case],
    results: Mapping[str, Sequence[Mapping[str, float]]],
    meta: Mapping[str, Any],
    test_metric: str = "complete_chain@32",
) -> Table:
    """The result JSON {"meta": .., "rows": [..]}; ``results`` maps a row's name to ``score_menu`` of each case.

    A row holds "metrics", "by_length" (chains of 2, 3-4, 5-6, >= 7), "warm" (chains whose every tool training used),
    "cold" (the other chains) and, from the second row on, "difference", the first row minus it in every metric that
    both have, over the same requests with an interval over groups, and "mcnemar" of the first row against it on
    ``test_metric`` where that is 0 or 1 (a mean over seeds is not). Raises DataError where a row does not score every
    case, or not on ``test_metric``.
    """
    first = next(iter(results), None)
    if first is None or not cases:
        raise DataError("result table: needs at least one row and one request")
    strata = {name: [low <= case.length <= high for case in cases] for name, low, high in LENGTHS}
    warm = [case.cold == 0 for case in cases]
    rows = []
    for name, scores in results.items():
        if len(scores) != len(cases):
            raise DataError(f"result table: row {name!r} scores {len(scores)} requests of {len(cases)}")
        if any(test_metric not in score for score in scores):
            raise DataError(f"result table: row {name!r} lacks {test_metric!r} for some request")

        def part(kept: Sequence[bool], scores: Sequence[Mapping[str, float]] = scores) -> Metrics:
            chosen = [r for r, keep in enumerate(kept) if keep]
            return summarise([scores[r] for r in chosen], [cases[r].group for r in chosen])

        row: dict[str, Any] = {
            "name": name,
            "metrics": part([True] * len(cases)),
            "by_length": {stratum: part(kept) for stratum, kept in strata.items() if any(kept)},
            "warm": part(warm),
            "cold": part([not keep for keep in warm]),
        }
        if name != first:
            row["difference"] = _differences(results[first], scores, [case.group for case in cases])
            outcome = ([score[test_metric] for score in results[first]], [score[test_metric] for score in scores])
            if set(outcome[0] + outcome[1]) <= {0.0, 1.0}:
                row["mcnemar"] = {"metric": test_metric, "first": first, **mcnemar(*outcome)}
        rows.append(row)
    counted = {"requests": len(cases), "groups": len({case.group for case in cases}), "test_metric": test_metric}
    return {"meta": {**meta, **counted}, "rows": rows}


def _differences(
    ours: Sequence[Mapping[str, float]], other: Sequence[Mapping[str, float]], groups: Sequence[str]
) -> Metrics:
    """{metric: {"mean", "low", "high", "n"}} of ours - other, over the requests for which both define the metric."""
    found: Metrics = {}
    for name in dict.fromkeys(name for score in ours for name in score):
        rows = [row for row in range(len(ours)) if name in ours[row] and name in other[row]]
        if rows:
            pairs = [ours[r][name] for r in rows], [other[r][name] for r in rows]
            mean, low, high = paired_interval(*pairs, [groups[r] for r in rows])
            found[name] = {"mean": mean, "low": low, "high": high, "n": len(rows)}
    return found


def make_meta(*, tools: int, folds: int, seeds: Sequence[int], command: str, **extra: Any) -> dict[str, Any]:
    """The "meta" object: N, folds, seeds, command, versions of the packages that decide a result, and the machine."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    machine = {"cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()}
    known = {"N": tools, "folds": folds, "seeds": list(seeds), "command": command}
    return {**known, "versions": versions, "machine": {**machine, "architecture": platform.machine()}, **extra}


def write_scores(
    path: str | os.PathLike,
    cases: Sequence[Case],
    results: Mapping[str, Sequence[Mapping[str, float]]],
    meta: Mapping[str, Any],
) -> None:
    """Write every metric of every request, which a table of several runs is made from; atomically."""
    record = {"meta": dict(meta), "cases": [asdict(case) for case in cases], "results": results}
    write_atomic(path, [json.dumps(_rounded(record), ensure_ascii=False, allow_nan=False)])


def read_scores(path: str | os.PathLike) -> tuple[list[Case], dict[str, list[dict[str, float]]], dict[str, Any]]:
    """Cases, results and meta of a file of ``write_scores``. Raises DataError for a file that is none."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        return [Case(**case) for case in record["cases"]], record["results"], record["meta"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as scores of a run ({error!r})") from None


def write_table(path: str | os.PathLike, table: Table) -> None:
    """Write the JSON atomically, keys in the table's own order, numbers rounded to 6 digits after the point."""
    write_atomic(path, [json.dumps(_rounded(table), ensure_ascii=False, indent=1, allow_nan=False)])


def read_table(path: str | os.PathLike) -> Table:
    """Read a table that write_table wrote. Raises DataError for a file that is no such table."""
    try:
        table = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a result table ({error})") from None
    if not isinstance(table, dict) or not {"meta", "rows"} <= table.keys():
        raise DataError(f"{path}: a result table is an object with 'meta' and 'rows'")
    return table


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    # A p-value far below 1e-6 must not become 0, so small numbers keep six significant digits.
    return (round(value, 6) if abs(value) >= 1e-3 else float(f"{value:.6g}")) if isinstance(value, float) else value


# --- Markdown --------------------------------------------------------------------------------------------------------


def markdown(
    table: Table,
    metrics: Sequence[str] = (),
    spread: Collection[str] = ("complete_chain@32",),
    compared: Sequence[str] = (),
) -> str:
    """The table as Markdown: all requests, then complete chain by path length and for warm and cold chains.

    ``metrics`` picks the columns (default: all); those in ``spread`` show their interval. The last columns are the
    first row minus the row, in the test metric and those of ``compared``. The best mean of a column is bold. A dash
    stands where a metric is undefined.
    """
    rows = table["rows"]
    columns = list(metrics) or list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    meta = table["meta"]
    chain = meta["test_metric"]
    facts = f"N = {meta.get('N', '-')}, {meta['requests']} requests in {meta['groups']} groups"
    facts += f", folds: {meta.get('folds', '-')}, seeds: {', '.join(map(str, meta.get('seeds', [])))}"
    for name, means in meta.get("by_seed", {}).items():
        if len(means) > 1:
            facts += f"; {chain} of each seed ({name}): {', '.join(f'{mean:.3f}' for mean in means)}"
    main = {row["name"]: [row["metrics"].get(column) for column in columns] for row in rows}
    strata = [name for name, _, _ in LENGTHS if any(name in row["by_length"] for row in rows)]
    parts = {
        row["name"]: [row["by_length"].get(s, {}).get(chain) for s in strata]
        + [row[s].get(chain) for s in ("warm", "cold")]
        for row in rows
    }
    counts = [cell["n"] if cell else 0 for cell in next(iter(parts.values()))]
    heads = [f"{s} (n={n})" for s, n in zip([*(f"T {s}" for s in strata), "all warm", "some cold"], counts)]
    beaten = {row["name"]: [_beaten(row, name) for name in (chain, *compared)] for row in rows}
    last = ["first row minus this", *(f"in {name}" for name in compared)]
    return "\n".join(
        [
            facts + ".",
            "",
            *_grid([*columns, *last], main, spread, beaten),
            "",
            f"{chain} by path length, and for chains whose every tool training used (warm) or not (cold):",
            "",
            *_grid(heads, parts, ()),
            "",
        ]
    )


def _beaten(row: Mapping[str, Any], metric: str) -> str:
    """What the first row has more than this one in ``metric``, its interval, and McNemar's p where there is one."""
    cell = row.get("difference", {}).get(metric)
    if cell is None:
        return ""
    p = f", p = {row['mcnemar']['p']:.2g}" if row.get("mcnemar", {}).get("metric") == metric else ""
    return f"{cell['mean']:+.3f} [{cell['low']:+.3f}, {cell['high']:+.3f}]{p}"


def _grid(
    heads: Sequence[str],
    cells: Mapping[str, Sequence[dict[str, float] | None]],
    spread: Collection[str],
    beaten: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Lines of a table; ``heads`` are of the ``cells``, and then of what is ``beaten``."""
    columns = heads[: len(next(iter(cells.values())))]
    best = []
    for position, column in enumerate(columns):
        means = [round(row[position]["mean"], 3) for row in cells.values() if row[position]]
        best.append((min if column in LOWER_IS_BETTER else max)(means) if means else None)
    lines = ["| " + " | ".join(["", *heads]) + " |", "|" + "---|" * (1 + len(heads))]
    for name, row in cells.items():
        shown = []
        for column, cell, top in zip(columns, row, best):
            text = f"{cell['mean']:.3f}" if cell else "-"
            text = f"**{text}**" if cell and round(cell["mean"], 3) == top else text
            shown.append(f"{text} [{cell['low']:.3f}, {cell['high']:.3f}]" if cell and column in spread else text)
        lines.append("| " + " | ".join([name, *shown, *(beaten[name] if beaten else [])]) + " |")
    return lines
