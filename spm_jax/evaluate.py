"""Scores menu constructors side by side on the same test requests (evaluation.md)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from spm_jax.baselines import available
from spm_jax.baselines.order_only import fit_order_only
from spm_jax.builder import MenuBuilder
from spm_jax.data.labels import Gold
from spm_jax.data.paths import called_tools, library_golds
from spm_jax.data.schema import Library, Request
from spm_jax.data.state import visible_keys
from spm_jax.metrics import build_schemas, score_menu
from spm_jax.tables import Case, cold_tools
from spm_jax.types import MenuConstructor

STATE_PATH = MenuBuilder.name
FRONTIER = 128


@dataclass
class Scores:
    """What the requests evaluated so far gave: cases, and by constructor one dict of metrics a case."""

    cases: list[Case] = field(default_factory=list)
    results: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def add(self, other: Scores) -> None:
        """Append another fold."""
        self.cases += other.cases
        for name, scores in other.results.items():
            self.results.setdefault(name, []).extend(scores)


def baseline_constructors(
    library: Library, train: Sequence[Request], seed: int, builder: MenuBuilder | None = None
) -> list[MenuConstructor]:
    """Every baseline, fitted on the training requests; with ``builder``, order-only takes its reranker's order."""
    fitted = [fit(library, train, seed=seed) for name, fit in available(library).items() if name != "order_only"]
    if builder is not None:
        fitted.append(fit_order_only(library, train, seed=seed, order=builder.order))
    return fitted


def evaluate(
    constructors: Sequence[MenuConstructor],
    library: Library,
    train: Sequence[Request],
    test: Sequence[Request],
    fixed: Sequence[np.ndarray],
    k: int,
) -> Scores:
    """Score each constructor on ``test``; ``fixed``: their chains' fixed pairs; ``train`` tells cold from warm."""
    schemas = build_schemas(library)
    golds: list[Gold] = list(library_golds(library, test))
    used = set(called_tools(library_golds(library, train)).tolist())
    cold = [cold_tools(gold, used) for gold in golds]
    visible = [frozenset(visible_keys(request, schemas.known)) for request in test]
    scores = Scores([Case(r.id, r.group, len(gold), int(c.sum())) for r, gold, c in zip(test, golds, cold)])
    for constructor in constructors:
        began = time.monotonic()
        rows = []
        for request, (menu, frontier), gold, order, seen, is_cold in zip(
            test, _menus(constructor, test, k), golds, fixed, visible, cold, strict=True
        ):
            parts = {"cold": is_cold, "warm": ~is_cold}
            ordered = request.trajectory.ordered
            rows.append(score_menu(menu, gold, order, schemas, seen, k, frontier, parts, ordered))
        scores.results[constructor.name] = rows
        mean = np.mean([row[f"complete_chain@{k}"] for row in rows])
        seconds = time.monotonic() - began
        print(f"  {constructor.name}: complete chain@{k} {mean:.3f} ({seconds:.1f} s)", file=sys.stderr, flush=True)
    return scores


def _menus(
    constructor: MenuConstructor, requests: Sequence[Request], k: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each request the menu, at most ``k`` tools, and the frontier, at most 128."""
    if isinstance(constructor, MenuBuilder):
        for menu in constructor.arrays_many(requests, k):
            yield menu.tool[menu.tool >= 0], menu.frontier[menu.frontier >= 0]
        return
    for request in requests:
        ranked = constructor.build(request, FRONTIER)
        yield ranked[:k], ranked


def best_baseline(results: Mapping[str, Sequence[Mapping[str, float]]], metric: str) -> tuple[str, float]:
    """The name and mean of the best row but State-Path's."""
    means = {
        name: float(np.mean([row[metric] for row in rows])) for name, rows in results.items() if name != STATE_PATH
    }
    name = max(means, key=lambda key: means[key])
    return name, means[name]
