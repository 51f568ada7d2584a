"""The training loop: batches in, a trained state out; killed at any point, the same call ends with the same state.

"Step n" means that n updates are done. Update number i, from 0, consumes ``batches(i)``, a pure function of i, and
draws its randomness from ``fold_in(state.rng, state.step)``: nothing but the state and i has to be restored. A thread
makes the next batches while a step runs. In a run of several processes all call it alike, and process 0 writes.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from spm_jax.data.schema import DataError
from spm_jax.train import checkpoint
from spm_jax.train.mesh import data_mesh, replicate, replicated, shard_batch
from spm_jax.train.prefetch import prefetch
from spm_jax.train.processes import agree, barrier, is_first
from spm_jax.train.state import TrainState
from spm_jax.train.stopping import stop_signals
from spm_jax.train.writer import Meter, MetricsWriter, Progress

Sums = Mapping[str, tuple[jax.Array, jax.Array]]  # name -> (sum, denominator), scalars


class NonFiniteError(DataError):
    """Training met a NaN or an infinity; the message names the step and the batch, and nothing of it was saved."""


class _Window:
    """Sums and denominators since the last metrics line, on the host in float64, added in the order of the steps."""

    def __init__(self, sums: Mapping[str, list[float]]) -> None:
        self.sums: dict[str, list[float]] = {name: list(pair) for name, pair in sums.items()}

    def add(self, sums: Mapping[str, tuple[Any, Any]]) -> None:
        for name, (total, denominator) in sums.items():
            pair = self.sums.setdefault(name, [0.0, 0.0])
            pair[0] += float(total)
            pair[1] += float(denominator)

    def means(self) -> dict[str, float]:
        """Mean of each name, 0 where the denominator is 0; the window starts again."""
        means = {name: total / denominator if denominator else 0.0 for name, (total, denominator) in self.sums.items()}
        self.sums = {}
        return means


def _check_run(saved: Mapping[str, Any], wanted: Mapping[str, Any], where: Path) -> None:
    """A run goes on only as what it was; CheckpointError names the first thing that differs."""
    for key in sorted(saved.keys() | wanted.keys()):
        if saved.get(key) != wanted.get(key):
            raise checkpoint.CheckpointError(
                f"{where}: was made with {key} = {saved.get(key)!r}, and this run has {wanted.get(key)!r}; "
                "use another workdir, or remove this folder to start again"
            )


def fit(
    state: TrainState,
    step_fn: Callable[[TrainState, Any], tuple[TrainState, Sums]],
    batches: Callable[[int], Any],
    total_steps: int,
    *,
    workdir: str | Path,
    name: str,
    run: Mapping[str, str | int | float | bool],
    batch_size: int = 0,
    checkpoint_every: int = 200,
    log_every: int = 20,
    keep: int = 2,
    mesh: Mesh | None = None,
    describe: Callable[[int], str] | None = None,
) -> TrainState:
    """Train to ``total_steps`` updates, going on from the newest good checkpoint under ``workdir/name``.

    ``step_fn`` is jitted and may donate the state; its sums are divided on the host and written every ``log_every``
    steps to ``workdir/name/metrics.jsonl``; the one called "loss" is shown. ``batches(i)`` gives host arrays, called in
    another thread and up to three steps early: the rows of batch i that this process feeds to its devices of ``mesh``
    (default: the first device of the process alone). ``run`` holds what a resumed run must share with the saved one
    (hash of the config, fingerprint of the library). ``describe(i)`` names what is in batch i, for errors.

    Raises NonFiniteError naming step and batch where a sum or a saved leaf is not finite, CheckpointError where the
    checkpoint belongs to another run, and DataError where processes disagree on the run or its checkpoint. SIGINT and
    SIGTERM end the step under way, save and exit with 128 + the signal.
    """
    folder = Path(workdir) / name
    root = folder / "checkpoints"
    mesh = data_mesh(jax.local_devices()[:1]) if mesh is None else mesh
    run = {**run, "total_steps": total_steps}

    restored = checkpoint.restore(root, state, replicated(mesh))
    step = restored.step if restored else 0
    agree(name, {**run, "checkpoint": step})
    if restored is None:
        state, window = replicate(mesh, state), _Window({})
    else:
        _check_run(restored.meta["run"], run, root / str(step))
        state, window = restored.tree, _Window(restored.meta["window"])
        print(f"{name}: goes on from step {step} of {total_steps} ({root / str(step)})", file=sys.stderr)
    began, meter = time.monotonic(), Meter(batch_size)

    def non_finite(step: int, what: str) -> NonFiniteError:
        contents = f": {describe(step - 1)}" if describe else ""
        return NonFiniteError(
            f"{name}: {what} is not finite at step {step} of {total_steps}, batch {step - 1}{contents}. Nothing of "
            "this step was saved; lower the learning rate, or look at these requests"
        )

    def take(step: int, sums: Sums) -> None:
        """Fetch the sums of a step, check them, and write the metrics line when one is due."""
        host = jax.device_get(dict(sums))
        for key, pair in host.items():
            if not all(map(math.isfinite, pair)):
                raise non_finite(step, f"{key} ({float(pair[0])} / {float(pair[1])})")
        window.add(host)
        meter.step_done()
        loss, denominator = map(float, host["loss"])
        progress.update(step, loss / denominator if denominator else 0.0, meter)
        if step % log_every == 0 or step == total_steps:
            wall = {"seconds": round(time.monotonic() - began, 3), **meter.since_mark().rates()}
            values = {**window.means(), **wall}
            if metrics is not None:
                metrics.write(step, values)

    progress = Progress(name, total_steps)
    metrics = MetricsWriter(folder / "metrics.jsonl", None if restored is None else step) if is_first() else None
    coming = prefetch(lambda number: shard_batch(mesh, batches(number)), range(step, total_steps))
    with metrics or nullcontext(), stop_signals() as asked_to_stop, coming as futures:
        stop = 0
        pending: tuple[int, Sums] | None = None
        for future in futures:
            if not future.done():  # there is nothing to put behind the step under way, so it is finished first
                if pending is not None:
                    take(*pending)
                    pending = None
                since = time.monotonic()
                wait([future])
                meter.waited(time.monotonic() - since)
            state, sums = step_fn(state, future.result())
            step += 1
            # The sums of the step before: this step is already on its way to the device, so nothing waits for the host.
            if pending is not None:
                take(*pending)
            pending = (step, sums)
            stop = asked_to_stop()  # once a step: a signal that comes after this line acts at the next one
            if step % checkpoint_every == 0 or step == total_steps or stop:
                take(*pending)
                pending = None
                leaves = checkpoint.host_leaves(state)
                for leaf, array in leaves.items():
                    if jnp.issubdtype(array.dtype, jnp.floating) and not np.isfinite(array).all():
                        raise non_finite(step, leaf)
                if is_first():
                    checkpoint.save(root, step, leaves, {"run": run, "window": window.sums}, keep)
            if stop:
                break
    barrier(f"{name}: saved")
    speed = meter.since_start()
    if speed.steps:
        print(f"{name}: {speed.steps} steps after the first in {speed.seconds:.1f} s  {speed}", file=sys.stderr)
    if stop:
        print(
            f"\n{name}: stopped by {signal.Signals(stop).name} at step {step} of {total_steps}; saved in "
            f"{root / str(step)}. The same command goes on from there",
            file=sys.stderr,
        )
        raise SystemExit(128 + stop)
    return state
