"""One jitted training step for any model: gradient of a sum of weighted means, an update, sums for the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from spm_jax.train.state import TrainState

Sums = dict[str, tuple[jax.Array, jax.Array]]


def make_step(
    objective: Callable[[Any, Any, jax.Array], Sums],
    weights: Mapping[str, float],
    optimizer: optax.GradientTransformation,
) -> Callable[[TrainState, Any], tuple[TrainState, Sums]]:
    """A step that minimises sum_k weights[k] * sum_k / denominator_k.

    ``objective(params, batch, rng)`` gives (sum, denominator) by name, over the whole batch. The step returns them with
    "loss" and "grad_norm" added; its random key is ``fold_in(state.rng, state.step)``. The state is donated: its
    buffers hold the new one, and the old one is gone.
    """

    def total(params: Any, batch: Any, rng: jax.Array) -> tuple[jax.Array, Sums]:
        sums = objective(params, batch, rng)
        loss = sum(weights[name] * sums[name][0] / jnp.maximum(sums[name][1], 1e-6) for name in sorted(weights))
        return loss, sums

    @partial(jax.jit, donate_argnums=0)
    def step(state: TrainState, batch: Any) -> tuple[TrainState, Sums]:
        rng = jax.random.fold_in(state.rng, state.step)
        (loss, sums), gradient = jax.value_and_grad(total, has_aux=True)(state.params, batch, rng)
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        one = jnp.ones(())
        sums = {**sums, "loss": (loss, one), "grad_norm": (optax.tree.norm(gradient), one)}
        return state.replace(step=state.step + 1, params=params, opt_state=opt_state), sums

    return step
