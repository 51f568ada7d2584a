"""The two greedy decoders, each a ``lax.scan`` over a state with names (method.md sections 6 and 7).

``cover`` picks the K tools of a menu from a frontier; ``order`` orders its first P. Both are pure functions of arrays,
run under ``jit`` and ``vmap``, and break ties by the lowest index.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from spm_jax.types import pytree

EARLY = 5  # positions among which an agent should find the entry


def masked_argmax(scores: jax.Array, where: jax.Array) -> jax.Array:
    """Index of the largest of ``scores`` [n] among ``where`` [n]; ties go to the lowest index.

    Where nothing is left it returns 0: the caller knows from ``where`` that this is no choice.
    """
    return jnp.argmax(jnp.where(where, scores, -jnp.inf))


@pytree
class CoverState:
    """What the cover decoder knows after t picks."""

    picks: jax.Array  # int32 [K]: the tools picked, -1 from place t on
    unpicked: jax.Array  # bool [C]
    slots: jax.Array  # float32 [S]: largest slot probability of a picked tool, 0..1
    made: jax.Array  # bool [C, I]: the p-th required input of tool j is output by a picked tool
    makers: jax.Array  # float32 [K, I, C]: 1 where tool i outputs the p-th required input of the t-th picked tool
    similar: jax.Array  # float32 [C]: largest similarity to a picked tool


def cover(
    member: jax.Array,
    slot: jax.Array,
    produces: jax.Array,
    missing: jax.Array,
    required: jax.Array,
    similar: jax.Array,
    valid: jax.Array,
    *,
    size: int,
    coverage: float,
    redundancy: float,
) -> jax.Array:
    """int32 [K]: indices into the frontier of the ``size`` tools picked, in order of picking; -1 after the last valid.

    Greedy, one tool a step: s_i = M_i + coverage * C_i - redundancy * D_i over the unpicked (method.md section 6), with
    M_i = ``member`` [C] (log-odds); C_i = sum_s max(0, ``slot``[i, s] - covered[s]) (``slot`` [C, S], probabilities)
    + the sum, over picked j and required inputs p of j that are neither visible nor output by a picked tool, of
    1 / |I_j| where i outputs p (``produces`` [C, C, I], ``missing`` and ``required`` [C, I]);
    D_i = largest ``similar`` [C, C] to a picked tool, at least 0.
    """
    share = 1.0 / jnp.maximum(1, jnp.sum(required, axis=1))  # [C]
    made_by = jnp.transpose(produces, (1, 2, 0)).astype(jnp.float32)  # [C, I, C]
    state = CoverState(
        picks=jnp.full(size, -1, jnp.int32),
        unpicked=valid,
        slots=jnp.zeros_like(slot[0]),
        made=jnp.zeros_like(missing),
        makers=jnp.zeros((size, *made_by.shape[1:]), jnp.float32),
        similar=jnp.zeros_like(member),
    )

    def gain(state: CoverState) -> jax.Array:
        new_slots = jnp.sum(jnp.maximum(0.0, slot - state.slots[None, :]), axis=1)
        needed = missing[state.picks] & ~state.made[state.picks] & (state.picks >= 0)[:, None]  # [K, I]
        met = (needed * share[state.picks][:, None]).ravel() @ state.makers.reshape(-1, len(valid))
        return member + coverage * (new_slots + met) - redundancy * state.similar

    def pick(state: CoverState, t: jax.Array, i: jax.Array, picked: jax.Array) -> CoverState:
        return CoverState(
            picks=state.picks.at[t].set(jnp.where(picked, i, -1)),
            unpicked=state.unpicked.at[i].set(False),
            slots=jnp.where(picked, jnp.maximum(state.slots, slot[i]), state.slots),
            made=state.made | (produces[i] & picked),
            makers=state.makers.at[t].set(made_by[i]),
            similar=jnp.where(picked, jnp.maximum(state.similar, similar[i]), state.similar),
        )

    def step(state: CoverState, t: jax.Array) -> tuple[CoverState, None]:
        i = masked_argmax(gain(state), state.unpicked).astype(jnp.int32)
        return pick(state, t, i, state.unpicked[i]), None

    state, _ = jax.lax.scan(step, state, jnp.arange(size))
    return state.picks


@pytree
class OrderState:
    """What the order decoder knows after t placements."""

    unplaced: jax.Array  # bool [K]
    met: jax.Array  # bool [K, I]: the p-th required input of tool j is visible or output by a placed tool


def decoder_scores(
    state: OrderState,
    t: jax.Array,
    entry: jax.Array,
    slot: jax.Array,
    precedence: jax.Array,
    required: jax.Array,
    weights: jax.Array,
) -> jax.Array:
    """float32 [K]: r_i(t) = 1[t = 0] w_e entry_i + w_s slot_i[t] + w_p mean_j B_ij + w_x exec_i (method.md section 7).

    The mean is over the other unplaced tools j; exec_i is the share of i's required inputs that are met, 1 without any.
    ``entry`` [K] and ``slot`` [K, S] are log-probabilities, ``precedence`` [K, K] logits, ``weights`` [4].
    """
    others = state.unplaced[None, :] & ~jnp.eye(len(entry), dtype=bool)
    ahead = jnp.sum(jnp.where(others, precedence, 0.0), axis=1) / jnp.maximum(1, jnp.sum(others, axis=1))
    count = jnp.sum(required, axis=1)
    ready = jnp.where(count > 0, jnp.sum(state.met & required, axis=1) / jnp.maximum(1, count), 1.0)
    first = jnp.where(t == 0, entry, 0.0)
    return weights[0] * first + weights[1] * slot[:, t] + weights[2] * ahead + weights[3] * ready


def place(state: OrderState, i: jax.Array, produces: jax.Array) -> OrderState:
    """The state after tool ``i`` is placed: its outputs are visible."""
    return OrderState(unplaced=state.unplaced.at[i].set(False), met=state.met | produces[i])


def order(
    entry: jax.Array,
    slot: jax.Array,
    precedence: jax.Array,
    produces: jax.Array,
    required: jax.Array,
    missing: jax.Array,
    valid: jax.Array,
    weights: jax.Array,
    *,
    size: int,
    hedge: float | jax.Array = 0.0,
) -> jax.Array:
    """int32 [K]: the menu's tools in the order shown: ``size`` (P) by ``decoder_scores``, the others as they stand.

    ``hedge`` [ours; the paper has 0] adds hedge * w_e entry_i to r_i(1) .. r_i(4): where the first tool is not the
    entry, the next likely entries stand close behind it. Padding comes last, as -1. ``size`` is at most the number of
    slots; ``produces`` [K, K, I] and the masks [K, I] are those of the menu's tools.
    """
    state = OrderState(unplaced=valid, met=required & ~missing)

    def step(state: OrderState, t: jax.Array) -> tuple[OrderState, jax.Array]:
        scores = decoder_scores(state, t, entry, slot, precedence, required, weights)
        scores = scores + jnp.where((t > 0) & (t < EARLY), hedge * weights[0] * entry, 0.0)
        i = masked_argmax(scores, state.unplaced)
        placed = state.unplaced[i]
        return place(state, i, produces), jnp.where(placed, i, -1)

    state, prefix = jax.lax.scan(step, state, jnp.arange(size))
    rest = jnp.argsort(~state.unplaced, stable=True)[: len(valid) - size]
    rest = jnp.where(state.unplaced[rest], rest, -1)
    return jnp.concatenate([prefix, rest]).astype(jnp.int32)


def producers_first(shown: jax.Array, produces: jax.Array, *, fixed: int) -> jax.Array:
    """int32 [K]: ``shown`` with the tools after the first ``fixed`` re-sorted so that producers precede consumers.

    At each place, the earliest tool that no tool still to be placed feeds (``produces`` [K, K, I], by menu position);
    where every one waits for another (a cycle), the earliest. Padding (-1) stays last. Two tools that feed each other
    do not wait. [ours]: the paper keeps retriever order here.
    """
    feeds = jnp.any(produces, axis=-1)
    there = shown >= 0
    feeds = (feeds & ~feeds.T)[shown][:, shown] & there[:, None] & there[None, :]

    def step(waiting: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        free = waiting & there & ~jnp.any(feeds & waiting[:, None], axis=0)
        i = jnp.argmax(jnp.where(jnp.any(free), free, waiting))
        return waiting.at[i].set(False), shown[i]

    waiting = jnp.arange(len(shown)) >= fixed
    _, rest = jax.lax.scan(step, waiting, None, length=len(shown) - fixed)
    return jnp.concatenate([shown[:fixed], rest])
