"""Losses of retriever and reranker (method.md sections 6 and 7).

Every function works on one request and returns (sum, denominator), so that a batch is the sum of both and an example
without a label (or of padding) adds 0 to both.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from spm_jax.decode import OrderState, decoder_scores, place

Sum = tuple[jax.Array, jax.Array]
LOWEST = -1e9


def binary(logits: jax.Array, labels: jax.Array, weight: jax.Array) -> Sum:
    """Logistic loss of ``logits`` [n] against bool ``labels`` [n], weighted by ``weight`` [n]."""
    loss = jax.nn.softplus(jnp.where(labels, -logits, logits))
    return jnp.sum(jnp.where(weight > 0, loss * weight, 0.0)), jnp.sum(weight)


def choice(logits: jax.Array, label: jax.Array, where: jax.Array) -> Sum:
    """Softmax cross-entropy over the ``where`` of ``logits`` [n]; several true ``label`` [n] share the probability.

    (0, 0) where no label is true.
    """
    masked = jnp.where(where, logits, LOWEST)
    label = label & where
    there = jnp.any(label)
    hit = jax.nn.logsumexp(jnp.where(label, masked, LOWEST))
    loss = jax.nn.logsumexp(masked) - hit
    return jnp.where(there, loss, 0.0), there.astype(jnp.float32)


def slots(logits: jax.Array, label: jax.Array, weight: jax.Array) -> Sum:
    """Cross-entropy of ``logits`` [n, classes] against int ``label`` [n], weighted by ``weight`` [n].

    A ``label`` below 0 says nothing and weighs nothing.
    """
    weight = jnp.where(label >= 0, weight, 0.0)
    loss = -jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.maximum(label, 0)[:, None], axis=1)[:, 0]
    return jnp.sum(loss * weight), jnp.sum(weight)


def negatives(
    member: jax.Array, lexical: jax.Array, labels: jax.Array, valid: jax.Array, *, menu: int, count: int
) -> dict[str, jax.Array]:
    """The three kinds of negatives of a frontier as bool [C] masks; a tool may be of several kinds.

    "frontier": every tool off the path; "hard": its ``count`` best by text score ``lexical`` [C]; "boundary": those
    ranked from ``menu`` - ``count`` / 2 to ``menu`` + ``count`` / 2 by ``member`` [C], around the last place.
    """
    off = valid & ~labels

    def rank(scores: jax.Array) -> jax.Array:
        order = jnp.argsort(-jnp.where(off, scores, LOWEST), stable=True)
        return jnp.zeros(len(scores), jnp.int32).at[order].set(jnp.arange(len(scores)))

    return {
        "frontier": off,
        "hard": off & (rank(lexical) < count),
        "boundary": off & (jnp.abs(rank(jax.lax.stop_gradient(member)) - menu) <= count // 2),
    }


def boundary_margin(member: jax.Array, labels: jax.Array, valid: jax.Array, *, menu: int) -> Sum:
    """softplus(m_b - m_i), summed over path tools i, with m_b the ``menu``-th best score off the path.

    A path tool that stays below m_b misses a menu of ``menu`` places by relevance alone.
    """
    off = jnp.where(valid & ~labels, member, LOWEST)
    last = jax.lax.top_k(off, min(menu, len(off)))[0][-1]
    on = labels & valid
    return jnp.sum(jnp.where(on, jax.nn.softplus(last - member), 0.0)), jnp.sum(on).astype(jnp.float32)


def precedence(logits: jax.Array, precedes: jax.Array) -> Sum:
    """Logistic loss of ``logits`` [K, K] over the pairs whose order the data fixes, ``precedes`` bool [K, K]."""
    return jnp.sum(jnp.where(precedes, jax.nn.softplus(-logits), 0.0)), jnp.sum(precedes).astype(jnp.float32)


def path(
    entry: jax.Array,
    slot: jax.Array,
    logits: jax.Array,
    weights: jax.Array,
    produces: jax.Array,
    required: jax.Array,
    missing: jax.Array,
    valid: jax.Array,
    gold: jax.Array,
) -> Sum:
    """Plackett-Luce negative log-likelihood of the gold order under the teacher-forced decoder score.

    ``gold`` int32 [P] are the menu positions of the gold tools in order, -1 at the end; ``entry`` and ``slot`` are
    log-probabilities, as ``decode.order`` takes them. Sum over the gold steps, and their number.
    """

    def step(state: OrderState, t: jax.Array) -> tuple[OrderState, jax.Array]:
        there = gold[t] >= 0
        scores = decoder_scores(state, t, entry, slot, logits, required, weights)
        chance = jax.nn.log_softmax(jnp.where(state.unplaced, scores, LOWEST))
        i = jnp.maximum(gold[t], 0)
        after = place(state, i, produces)
        state = jax.tree.map(lambda new, old: jnp.where(there, new, old), after, state)
        return state, jnp.where(there, -chance[i], 0.0)

    start = OrderState(unplaced=valid, met=required & ~missing)
    _, losses = jax.lax.scan(step, start, jnp.arange(len(gold)))
    return jnp.sum(losses), jnp.sum(gold >= 0).astype(jnp.float32)
