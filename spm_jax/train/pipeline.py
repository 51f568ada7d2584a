"""The stages of one training: frontier weights, out-of-fold retrievers, the retriever, the reranker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spm_jax.data.batching import batch, steps_per_epoch
from spm_jax.data.splits import inner_folds
from spm_jax.menu import Params, Plan, initial
from spm_jax.train.fit import fit
from spm_jax.train.objective import reranker_objective, retriever_objective
from spm_jax.train.optim import adamw
from spm_jax.train.prepare import (
    Corpus,
    fit_weights,
    prepare_frontiers,
    prepare_menus,
    reranker_batch,
    retriever_batch,
)
from spm_jax.train.state import create
from spm_jax.train.step import make_step
from spm_jax.types import Memory


@dataclass(frozen=True)
class Recipe:
    """How one network is trained."""

    lr: float
    epochs: int
    batch: int
    weight_decay: float
    warmup: float  # share of the steps
    clip: float
    loss: Mapping[str, float]


@dataclass(frozen=True)
class Trained:
    """What training leaves: with the library, all that a menu needs. ``injected`` is the share of gold tools that only
    training had put into its frontiers."""

    params: Params
    memory: Memory
    injected: float


def train(
    corpus: Corpus,
    plan: Plan,
    *,
    retriever: Recipe,
    reranker: Recipe,
    negatives: int,
    dropout: tuple[float, float],
    folds: int,
    memory_folds: int,
    seed: int,
    workdir: str | Path,
    run: Mapping[str, str | int | float | bool],
    checkpoint_every: int,
    log_every: int,
) -> Trained:
    """Train everything; resumable in every network, see ``train.fit.fit``. ``dropout`` is of retriever and reranker."""
    network = partial(_fit, seed=seed, workdir=workdir, run=run, checkpoint_every=checkpoint_every, log_every=log_every)
    names = [request.id for request in corpus.requests]
    weights = fit_weights(corpus, memory_folds)
    prepared = prepare_frontiers(corpus, weights, plan, memory_folds)
    retriever_start, reranker_start = initial(plan, seed)

    objective = retriever_objective(
        plan.retriever, menu=plan.menu, negatives=negatives, text_dropout=dropout[0]
    )
    examples = partial(retriever_batch, prepared)
    everything = np.arange(len(names))
    fold = inner_folds(corpus.requests, folds, seed)
    inner = []
    for number in range(folds):
        rows = np.flatnonzero(fold != number)
        name = f"retriever-without-{number}"
        params = network(name, retriever_start, objective, retriever, examples, rows, names)
        inner.append((np.flatnonzero(fold == number), params))
    retriever_params = network("retriever", retriever_start, objective, retriever, examples, everything, names)

    menus = prepare_menus(corpus, prepared, inner, plan, memory_folds)
    objective = reranker_objective(plan.reranker, text_dropout=dropout[1])
    examples = partial(reranker_batch, menus)
    reranker_params = network("reranker", reranker_start, objective, reranker, examples, everything, names)
    gold = prepared.labels.member
    return Trained(
        params=Params(weights, retriever_params, reranker_params),
        memory=corpus.memory.build(),
        injected=float(np.sum(gold & prepared.injected) / max(1, np.sum(gold))),
    )


def _fit(
    name: str,
    start: Any,
    objective: Any,
    recipe: Recipe,
    examples: Any,
    rows: np.ndarray,
    names: list[str],
    *,
    seed: int,
    workdir: str | Path,
    run: Mapping[str, str | int | float | bool],
    checkpoint_every: int,
    log_every: int,
) -> Any:
    """Train one network on the examples ``rows`` and return its parameters."""
    total = recipe.epochs * steps_per_epoch(len(rows), recipe.batch)
    optimizer = adamw(
        recipe.lr,
        weight_decay=recipe.weight_decay,
        warmup_steps=int(recipe.warmup * total),
        total_steps=total,
        clip=recipe.clip,
    )
    step = make_step(objective, dict(recipe.loss), optimizer)
    state = create(jax.tree.map(jnp.copy, start), optimizer, seed)
    state = fit(
        state,
        step,
        lambda number: examples(*batch(rows, recipe.batch, seed, number)),
        total,
        workdir=workdir,
        name=name,
        run=run,
        batch_size=recipe.batch,
        checkpoint_every=checkpoint_every,
        log_every=log_every,
        describe=lambda number: ", ".join(names[row] for row in batch(rows, recipe.batch, seed, number)[0]),
    )
    return state.params
