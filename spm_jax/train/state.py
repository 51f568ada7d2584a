"""What training carries from step to step, and what a checkpoint holds of it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct


@struct.dataclass
class TrainState:
    """A frozen pytree. ``step`` counts the updates done, so the update to come consumes batch number ``step``."""

    step: jax.Array  # int32 []
    params: Any
    opt_state: Any
    rng: jax.Array  # typed PRNG key []; never advanced: a step draws from fold_in(rng, step)


def create(params: Any, optimizer: optax.GradientTransformation, seed: int) -> TrainState:
    """The state before the first update."""
    return TrainState(
        step=jnp.zeros((), jnp.int32), params=params, opt_state=optimizer.init(params), rng=jax.random.key(seed)
    )
