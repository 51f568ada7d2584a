"""What retriever and reranker minimise: model and losses put together, for a batch of prepared examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from spm_jax import losses
from spm_jax.features import Node
from spm_jax.models.reranker import Reranker
from spm_jax.models.retriever import Retriever
from spm_jax.types import Frontier, MenuInputs, pytree

Sums = dict[str, tuple[jax.Array, jax.Array]]


@pytree
class RetrieverBatch:
    """B frontiers with their labels; ``weight`` 0 marks padding."""

    frontier: Frontier
    member: jax.Array  # bool [B, C]
    entry: jax.Array  # bool [B, C]
    slot: jax.Array  # int32 [B, C]
    weight: jax.Array  # float32 [B]


@pytree
class RerankerBatch:
    """B menus with their labels; ``weight`` 0 marks padding."""

    menu: MenuInputs
    member: jax.Array  # bool [B, K]
    entry: jax.Array  # bool [B, K]
    slot: jax.Array  # int32 [B, K]
    precedes: jax.Array  # bool [B, K, K]
    gold: jax.Array  # int32 [B, P]: menu positions of the gold tools in order
    weight: jax.Array  # float32 [B]


def _summed(per_example: dict[str, losses.Sum], weight: jax.Array) -> Sums:
    return {name: (jnp.sum(total * weight), jnp.sum(count * weight)) for name, (total, count) in per_example.items()}


def retriever_objective(
    model: Retriever, *, menu: int, negatives: int, text_dropout: float
) -> Callable[[Any, RetrieverBatch, jax.Array], Sums]:
    """Sums of: "path" (membership of path tools), one membership term a kind of negative ("hard", "frontier",
    "boundary"), "margin" (path tools against the 32nd tool off the path), "entry" and "slot".

    ``text_dropout`` is the chance that an example hides the 64 + 64 text inputs.
    """

    def one(params: Any, batch: RetrieverBatch, rng: jax.Array) -> dict[str, losses.Sum]:
        frontier = _hide_text(batch.frontier, rng, text_dropout)
        out = model.apply(params, frontier)
        valid = frontier.valid
        lexical = frontier.node[:, Node.LEXICAL]
        kinds = losses.negatives(out.member, lexical, batch.member, valid, menu=menu, count=negatives)
        sums = {kind: losses.binary(out.member, batch.member, mask.astype(jnp.float32)) for kind, mask in kinds.items()}
        on = (batch.member & valid).astype(jnp.float32)
        # A slot is worth learning on the path and on what is taken for it.
        slot_weight = on + 0.5 * (kinds["hard"] | kinds["boundary"])
        return {
            **sums,
            "path": losses.binary(out.member, batch.member, on),
            "margin": losses.boundary_margin(out.member, batch.member, valid, menu=menu),
            "entry": losses.choice(out.entry, batch.entry, valid),
            "slot": losses.slots(out.slot, batch.slot, slot_weight),
        }

    def objective(params: Any, batch: RetrieverBatch, rng: jax.Array) -> Sums:
        keys = jax.random.split(rng, len(batch.weight))
        return _summed(jax.vmap(one, in_axes=(None, 0, 0))(params, batch, keys), batch.weight)

    return objective


def _hide_text(inputs: Any, rng: jax.Array, chance: float) -> Any:
    shown = jax.random.bernoulli(rng, 1 - chance).astype(jnp.float32)
    return replace(inputs, query=inputs.query * shown, text=inputs.text * shown)


def reranker_objective(model: Reranker, *, text_dropout: float) -> Callable[[Any, RerankerBatch, jax.Array], Sums]:
    """Sums of the five losses of method.md section 7: "entry", "slot", "precedence", "membership" and "path"."""

    def one(params: Any, batch: RerankerBatch, rng: jax.Array) -> dict[str, losses.Sum]:
        menu = _hide_text(batch.menu, rng, text_dropout)
        out = model.apply(params, menu)
        valid = menu.valid.astype(jnp.float32)
        entry, slot = jax.nn.log_softmax(out.entry), jax.nn.log_softmax(out.slot)[:, :-1]
        path = losses.path(
            entry, slot, out.precedence, out.weights, menu.produces, menu.required, menu.missing, menu.valid, batch.gold
        )
        return {
            "entry": losses.choice(out.entry, batch.entry, menu.valid),
            "slot": losses.slots(out.slot, batch.slot, (batch.member & menu.valid).astype(jnp.float32)),
            "precedence": losses.precedence(out.precedence, batch.precedes),
            "membership": losses.binary(out.member, batch.member, valid),
            "path": path,
        }

    def objective(params: Any, batch: RerankerBatch, rng: jax.Array) -> Sums:
        keys = jax.random.split(rng, len(batch.weight))
        return _summed(jax.vmap(one, in_axes=(None, 0, 0))(params, batch, keys), batch.weight)

    return objective
