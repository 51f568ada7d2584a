"""The stages of one training: frontier weights, out-of-fold retrievers, the retriever, the reranker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from spm_jax.data.batching import batch, steps_per_epoch
from spm_jax.data.splits import inner_folds
from spm_jax.menu import Params, Plan, initial
from spm_jax.train.fit import fit
from spm_jax.train.mesh import on_own_device, own_rows
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
    seed: int,
    workdir: str | Path,
    run: Mapping[str, str | int | float | bool],
    checkpoint_every: int,
    log_every: int,
    mesh: Mesh,
) -> Trained:
    """Train everything; resumable in every network, see ``train.fit.fit``. ``dropout`` is of retriever and reranker.

    The steps run on all of ``mesh``, everything else on the first device of each process.
    """
    names = [request.id for request in corpus.requests]
    everything = np.arange(len(names))
    network = partial(
        _Network,
        names=names,
        seed=seed,
        workdir=workdir,
        run=run,
        checkpoint_every=checkpoint_every,
        log_every=log_every,
        mesh=mesh,
    )
    weights = fit_weights(corpus)
    prepared = prepare_frontiers(corpus, weights, plan)
    retriever_start, reranker_start = initial(plan, seed)

    objective = retriever_objective(plan.retriever, menu=plan.menu, negatives=negatives, text_dropout=dropout[0])
    retrieve = network(retriever_start, objective, retriever, partial(retriever_batch, prepared))
    fold = inner_folds(corpus.requests, folds, seed)
    inner = []
    for number in range(folds):
        params = retrieve.fit(f"retriever-without-{number}", np.flatnonzero(fold != number))
        inner.append((np.flatnonzero(fold == number), params))
    retriever_params = retrieve.fit("retriever", everything)

    menus = prepare_menus(corpus, prepared, inner, plan)
    objective = reranker_objective(plan.reranker, text_dropout=dropout[1])
    rerank = network(reranker_start, objective, reranker, partial(reranker_batch, menus))
    reranker_params = rerank.fit("reranker", everything)
    gold = prepared.labels.member
    return Trained(
        params=Params(weights, retriever_params, reranker_params),
        memory=corpus.memory.build(),
        injected=float(np.sum(gold & prepared.injected) / max(1, np.sum(gold))),
    )


class _Network:
    """Trains one kind of network, on all or on some of the examples, with one compiled step.

    The number of steps is ``epochs`` passes over all examples, also where a fold leaves some out.
    """

    def __init__(
        self,
        start: Any,
        objective: Callable[..., Any],
        recipe: Recipe,
        examples: Callable[[np.ndarray, np.ndarray], Any],
        *,
        names: list[str],
        seed: int,
        mesh: Mesh,
        **run: Any,
    ) -> None:
        self.start, self.recipe, self.examples = start, recipe, examples
        self.names, self.seed, self.mesh, self.run = names, seed, mesh, run
        self.total = recipe.epochs * steps_per_epoch(len(names), recipe.batch)
        self.optimizer = adamw(
            recipe.lr,
            weight_decay=recipe.weight_decay,
            warmup_steps=int(recipe.warmup * self.total),
            total_steps=self.total,
            clip=recipe.clip,
        )
        self.step = make_step(objective, dict(recipe.loss), self.optimizer)

    def fit(self, name: str, rows: np.ndarray) -> Any:
        """Parameters after training on the examples ``rows`` int [n]."""

        def chosen(number: int) -> tuple[np.ndarray, np.ndarray]:
            return batch(rows, self.recipe.batch, self.seed, number)

        own = own_rows(self.mesh, self.recipe.batch)
        state = fit(
            create(jax.tree.map(jnp.copy, self.start), self.optimizer, self.seed),
            self.step,
            lambda number: self.examples(*(part[own] for part in chosen(number))),
            self.total,
            name=name,
            batch_size=self.recipe.batch,
            describe=lambda number: ", ".join(self.names[row] for row in chosen(number)[0]),
            mesh=self.mesh,
            **self.run,
        )
        return on_own_device(state.params)
