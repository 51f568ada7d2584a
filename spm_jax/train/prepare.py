"""Training examples from requests, out of fold: a request's features come from a Memory without its group, or domain.

Everything that does not depend on the networks' parameters is computed once, by the functions that serve a menu.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spm_jax import frontier, menu
from spm_jax.data.labels import Gold, Labels, fixed_pairs, make_labels
from spm_jax.data.paths import called_tools, library_golds
from spm_jax.data.schema import DataError, Request
from spm_jax.device_library import IndexedLibrary
from spm_jax.frontier import FrontierWeights
from spm_jax.memory import MemoryBuilder
from spm_jax.menu import Plan
from spm_jax.train.frontier import POOL, fit_frontier, start_weights
from spm_jax.train.objective import RerankerBatch, RetrieverBatch
from spm_jax.types import DeviceLibrary, Frontier, Memory, RequestArrays

LONGEST_GOLD = 32  # tools of a chain that can be injected


@dataclass(frozen=True)
class Corpus:
    """Training requests over a library, with everything about them that is known before a network exists."""

    indexed: IndexedLibrary
    library: DeviceLibrary  # on the device
    requests: tuple[Request, ...]
    golds: tuple[Gold, ...]
    fixed: tuple[np.ndarray, ...]  # bool [T, T] each
    arrays: tuple[RequestArrays, ...]
    memory: MemoryBuilder
    held_out: tuple[frozenset[str], ...]  # groups whose requests get their features from a Memory without them all

    @property
    def groups(self) -> list[str]:
        return [request.group for request in self.requests]

    @property
    def ordered(self) -> list[bool]:
        return [request.trajectory.ordered for request in self.requests]


def fixed_orders(indexed: IndexedLibrary, requests: Sequence[Request], golds: Sequence[Gold]) -> tuple[np.ndarray, ...]:
    """``labels.fixed_pairs`` of the requests' chains ``golds``, against the chains of their group.

    A chain without order fixes no pair, and is no witness against one.
    """
    by_group: dict[str, dict[Gold, None]] = {}
    for request, gold in zip(requests, golds, strict=True):
        if request.trajectory.ordered:
            by_group.setdefault(request.group, {})[gold] = None
    needs, gives = np.asarray(indexed.arrays.inputs), np.asarray(indexed.arrays.outputs)  # may lie on a device

    def flow(gold: Gold) -> np.ndarray:
        feeds = [[np.intersect1d(gives[list(a)], needs[list(b)]) for b in gold] for a in gold]
        return np.array([[np.any(keys >= 0) for keys in row] for row in feeds], bool).reshape(len(gold), len(gold))

    return tuple(
        fixed_pairs(gold, list(by_group[request.group]), flow(gold))
        if request.trajectory.ordered
        else np.zeros((len(gold), len(gold)), bool)
        for request, gold in zip(requests, golds)
    )


def make_corpus(
    indexed: IndexedLibrary, requests: Sequence[Request], ridge: float, held_out: Sequence[frozenset[str]]
) -> Corpus:
    """Read the gold chains and build what statistics come from. Raises DataError if no request has a trajectory.

    ``held_out`` are disjoint sets of groups, every group in one of them; see ``data.splits.held_out_sets``.
    """
    requests = tuple(request for request in requests if request.trajectory.calls)
    if not requests:
        raise DataError("training: no request has recorded calls; nothing can be learned")
    golds = tuple(library_golds(indexed.library, requests))
    groups = [request.group for request in requests]
    texts = [request.text for request in requests]
    ordered = [request.trajectory.ordered for request in requests]
    builder = MemoryBuilder(indexed, texts, golds, groups, called_tools(golds), ridge, ordered)
    return Corpus(
        indexed=indexed,
        library=jax.device_put(indexed.arrays),
        requests=requests,
        golds=golds,
        fixed=fixed_orders(indexed, requests, golds),
        arrays=tuple(indexed.requests(requests)),
        memory=builder,
        held_out=tuple(held_out),
    )


def _out_of_fold(corpus: Corpus, task: str, use: Callable[[int, Memory], Any], recall: bool = True) -> list[Any]:
    """``use(request number, Memory without what is held out with its group)`` of every request; progress on stderr."""
    results: list[Any] = [None] * len(corpus.requests)
    members: dict[str, list[int]] = {}
    for number, group in enumerate(corpus.groups):
        members.setdefault(group, []).append(number)
    done = 0
    for excluded in corpus.held_out:
        memory = jax.device_put(corpus.memory.build(excluded, recall=recall))
        for group in sorted(excluded):
            for number in members.get(group, ()):
                results[number] = jax.device_get(use(number, memory))
                done += 1
        if sys.stderr.isatty():
            print(f"\r{task}: {done:,} of {len(results):,} requests", end="", file=sys.stderr, flush=True)
    print("" if sys.stderr.isatty() else f"{task}: {done:,} requests", file=sys.stderr, flush=True)
    return results


def _wanted(gold: Gold) -> np.ndarray:
    """int32 [32]: the tools that must be in a training frontier, the first listing of each call."""
    out = np.full(LONGEST_GOLD, -1, np.int32)
    first = [min(listing) for listing in gold][:LONGEST_GOLD]
    out[: len(first)] = first
    return out


@partial(jax.jit, static_argnames="size")
def _pool(
    library: DeviceLibrary, memory: Memory, weights: FrontierWeights, request: RequestArrays, size: int
) -> tuple[jax.Array, jax.Array]:
    scores, _, tool = frontier.candidates(library, memory, weights, request, size)
    return tool, jnp.stack([column[tool] for column in scores.features], axis=1)


def fit_weights(corpus: Corpus) -> FrontierWeights:
    """The frontier's weights, fitted on the out-of-fold pools of the training requests."""
    weights = start_weights()
    size = min(POOL, len(corpus.library.valid))

    def use(number: int, memory: Memory) -> tuple[jax.Array, jax.Array]:
        return _pool(corpus.library, memory, weights, corpus.arrays[number], size)

    pools = _out_of_fold(corpus, "frontier weights", use)
    labels = [np.isin(tool, [t for listing in gold for t in listing]) for (tool, _), gold in zip(pools, corpus.golds)]
    return fit_frontier(np.stack([features for _, features in pools]), np.stack(labels), weights)


@partial(jax.jit, static_argnames=("size", "width"))
def _select(
    library: DeviceLibrary, memory: Memory, weights: FrontierWeights, request: RequestArrays, wanted: jax.Array,
    size: int, width: int,
) -> tuple[Frontier, jax.Array]:  # fmt: skip
    plain = frontier.select(library, memory, weights, request, size, width)
    chosen = frontier.select(library, memory, weights, request, size, width, injected=wanted)
    return chosen, ~jnp.any(chosen.tool[:, None] == plain.tool[None, :], axis=1)


@dataclass(frozen=True)
class Prepared:
    """Stacked training examples: R frontiers with labels. ``injected`` marks tools that only training put there."""

    frontiers: Frontier  # NumPy, [R, ...]
    labels: Labels  # [R, ...], without ``precedes``
    injected: np.ndarray  # bool [R, C]


def _stack(items: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *items)


def _labels(corpus: Corpus, tools: Sequence[np.ndarray]) -> list[Labels]:
    """Labels of the tools [C] of each request."""
    return [make_labels(*parts) for parts in zip(tools, corpus.golds, corpus.fixed, corpus.ordered, strict=True)]


def prepare_frontiers(corpus: Corpus, weights: FrontierWeights, plan: Plan) -> Prepared:
    """Out-of-fold frontiers of all training requests, their gold tools injected."""

    def use(number: int, memory: Memory) -> tuple[Frontier, jax.Array]:
        request, wanted = corpus.arrays[number], _wanted(corpus.golds[number])
        return _select(corpus.library, memory, weights, request, wanted, plan.candidates, plan.text)

    selected = _out_of_fold(corpus, "frontiers", use)
    frontiers = _stack([candidates for candidates, _ in selected])
    labels = _labels(corpus, frontiers.tool)
    stacked = Labels(*(np.stack(field) for field in zip(*[label[:4] for label in labels])), precedes=np.zeros(0))
    return Prepared(frontiers, stacked, np.stack([injected for _, injected in selected]))


def retriever_batch(prepared: Prepared, rows: np.ndarray, weight: np.ndarray) -> RetrieverBatch:
    """The examples ``rows`` [B] as host arrays."""
    labels = prepared.labels
    return RetrieverBatch(
        frontier=jax.tree.map(lambda leaf: leaf[rows], prepared.frontiers),
        member=labels.member[rows],
        entry=labels.entry[rows],
        slot=labels.slot[rows],
        weight=weight,
    )


@jax.jit
def _retrieve(plan: Plan, params: Any, candidates: Frontier, usable: jax.Array) -> tuple[jax.Array, jax.Array]:
    candidates = replace(candidates, valid=candidates.valid & usable)
    retrieved = plan.retriever.apply(params, candidates)
    return retrieved.member, menu.pick(plan, candidates, retrieved)


@jax.jit
def _menu(library: DeviceLibrary, memory: Memory, candidates: Frontier, member: Any, picks: Any, visible: Any) -> Any:
    return menu.menu_inputs(library, memory, candidates, member, picks, visible)


def prepare_menus(
    corpus: Corpus, prepared: Prepared, folds: Sequence[tuple[np.ndarray, Any]], plan: Plan
) -> RerankerBatch:
    """The menus that out-of-fold retrievers pick for all R training requests, with labels.

    ``folds`` holds, for each inner fold, its requests (int [n]) and parameters of a retriever trained on the others.
    """
    params = {int(row): fitted for rows, fitted in folds for row in rows}

    def use(number: int, memory: Memory) -> Any:
        candidates = jax.tree.map(lambda leaf: leaf[number], prepared.frontiers)
        member, picks = _retrieve(plan, params[number], candidates, ~prepared.injected[number])
        return _menu(corpus.library, memory, candidates, member, picks, corpus.arrays[number].visible)

    menus = _out_of_fold(corpus, "menus", use, recall=False)
    labels = _labels(corpus, [made.tool for made in menus])
    gold = np.full((len(menus), plan.prefix), -1, np.int32)
    for row, label in enumerate(labels):
        steps, first = np.unique(label.step, return_index=True)  # one listing of a call is enough
        there = first[steps >= 0][: plan.prefix]
        gold[row, : len(there)] = there
    return RerankerBatch(
        menu=_stack(menus),
        member=np.stack([label.member for label in labels]),
        entry=np.stack([label.entry for label in labels]),
        slot=np.stack([label.slot for label in labels]),
        precedes=np.stack([label.precedes for label in labels]),
        gold=gold,
        weight=np.ones(len(menus), np.float32),
    )


def reranker_batch(examples: RerankerBatch, rows: np.ndarray, weight: np.ndarray) -> RerankerBatch:
    """The examples ``rows`` [B] as host arrays."""
    return replace(jax.tree.map(lambda leaf: leaf[rows], examples), weight=weight)
