"""A tiny regression that stands in for a model in the tests of training; run as a program, it is what gets killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spm_jax.train.fit import fit
from spm_jax.train.optim import adamw
from spm_jax.train.state import TrainState, create

BATCH = 8
FEATURES = 5
OPTIMIZER = adamw(0.05, weight_decay=0.01, warmup_steps=3, total_steps=40, clip=1.0)


def initial(hidden: int = 7) -> TrainState:
    """The state before the first update, from host numbers so that it is the same on every machine."""
    draw = np.random.default_rng(0)
    kernel, outer = draw.normal(size=(FEATURES, hidden)), draw.normal(size=hidden)
    params = {"inner": {"kernel": kernel, "bias": np.zeros(hidden)}, "outer": outer}
    return create(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params), OPTIMIZER, seed=1)


def batches(index: int) -> dict[str, np.ndarray]:
    """Batch number ``index``: x [B, 5], y [B], mask [B]; its last row is padding."""
    draw = np.random.default_rng([7, index])
    x = draw.normal(size=(BATCH, FEATURES)).astype(np.float32)
    return {"x": x, "y": np.sin(x.sum(axis=1)), "mask": np.arange(BATCH) < BATCH - 1}


def loss_sums(params: Any, batch: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sum of squared errors over the unmasked rows with dropout, and their count."""
    hidden = jnp.tanh(batch["x"] @ params["inner"]["kernel"] + params["inner"]["bias"][None, :])
    hidden = hidden * jax.random.bernoulli(key, 0.9, hidden.shape)
    error = jnp.square(hidden @ params["outer"] - batch["y"])
    return jnp.sum(jnp.where(batch["mask"], error, 0.0)), jnp.sum(batch["mask"].astype(jnp.float32))


@jax.jit
def step_fn(state: TrainState, batch: Any) -> tuple[TrainState, dict[str, tuple[jax.Array, jax.Array]]]:
    def loss(params: Any) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        sums = loss_sums(params, batch, jax.random.fold_in(state.rng, state.step))
        return sums[0] / sums[1], sums

    (_, sums), gradients = jax.value_and_grad(loss, has_aux=True)(state.params)
    updates, opt_state = OPTIMIZER.update(gradients, state.opt_state, state.params)
    params = jax.tree.map(jnp.add, state.params, updates)
    return state.replace(step=state.step + 1, params=params, opt_state=opt_state), {"loss": sums}


def train(workdir: str | Path, steps: int = 40, batches: Callable[[int], Any] = batches, **options: Any) -> TrainState:
    """The run of the tests: 40 steps, a checkpoint every 6, a metrics line every 4."""
    options = {"run": {"config": "toy"}, "checkpoint_every": 6, "log_every": 4, "batch_size": BATCH, **options}
    return fit(options.pop("state", None) or initial(), options.pop("step_fn", step_fn), batches, steps,
               workdir=workdir, name="toy", **options)  # fmt: skip


if __name__ == "__main__":
    # WORKDIR [STEP SIGNAL]: send SIGNAL to this very process when it asks for the batch of step STEP.
    fatal, number = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 2 else (-1, signal.SIGTERM)

    def batches_with_signal(index: int) -> Any:
        if index == fatal:
            os.kill(os.getpid(), number)
        return batches(index)

    train(sys.argv[1], batches=batches_with_signal)
