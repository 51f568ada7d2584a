"""AdamW with a linear warm-up and a cosine decay (method.md sections 5 and 6 give the learning rates)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax


def warmup_cosine(learning_rate: float, warmup_steps: int, total_steps: int) -> Callable[[jax.Array], jax.Array]:
    """Learning rate of update number ``count`` (from 0): rises linearly, is highest at ``warmup_steps``, ends near 0.

    Unlike the schedule of optax the first update is not made with a rate of 0.
    """
    if not 0 <= warmup_steps < total_steps:
        raise ValueError(f"warmup_steps must lie in [0, total_steps), got {warmup_steps} of {total_steps}")

    def rate(count: jax.Array) -> jax.Array:
        rise = (count + 1) / (warmup_steps + 1)
        fall = 0.5 * (1 + jnp.cos(jnp.pi * (count - warmup_steps) / (total_steps - warmup_steps)))
        return learning_rate * jnp.where(count < warmup_steps, rise, fall)

    return rate


def matrices(params: Any) -> Any:
    """Which leaves weight decay applies to: everything but biases and scales."""
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


def adamw(
    learning_rate: float, *, weight_decay: float, warmup_steps: int, total_steps: int, clip: float
) -> optax.GradientTransformation:
    """AdamW on gradients clipped to a global norm of ``clip``; decay on matrices only."""
    return optax.chain(
        optax.clip_by_global_norm(clip),
        optax.adamw(warmup_cosine(learning_rate, warmup_steps, total_steps), weight_decay=weight_decay, mask=matrices),
    )
