"""The training loop: batches in, a trained state out; killed at any point, the same call ends with the same state.

"Step n" means that n updates are done. Update number i, from 0, consumes ``batches(i)``, a pure function of i, and
draws its randomness from ``fold_in(state.rng, state.step)``: nothing but the state and i has to be restored.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from spm_jax.data.schema import DataError
from spm_jax.train import checkpoint
from spm_jax.train.mesh import data_mesh, replicate, replicated, shard_batch
from spm_jax.train.state import TrainState
from spm_jax.train.writer import MetricsWriter, Progress

Sums = Mapping[str, tuple[jax.Array, jax.Array]]  # name -> (sum, denominator), scalars


class NonFiniteError(DataError):
    """Training met a NaN or an infinity; the message names the step and the batch, and nothing of it was saved."""


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """A list that SIGINT and SIGTERM append to; a second one acts at once. Only the main thread can listen."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def listen(number: int, frame: object) -> None:
        received.append(number)
        for each, handler in previous.items():
            signal.signal(each, handler)

    for number in previous:
        signal.signal(number, listen)
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


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
    steps to ``workdir/name/metrics.jsonl``; the one called "loss" is shown. ``batches(i)`` gives host arrays, cut over
    the devices of ``mesh`` (default: the first device alone). ``run`` holds what a resumed run must share with the
    saved one (hash of the config, fingerprint of the library). ``describe(i)`` names what is in batch i, for errors.

    Raises NonFiniteError naming step and batch where a sum or a saved leaf is not finite, and CheckpointError where the
    checkpoint belongs to another run. SIGINT and SIGTERM end the step under way, save and exit with 128 + the signal.
    """
    folder = Path(workdir) / name
    root = folder / "checkpoints"
    mesh = data_mesh(jax.devices()[:1]) if mesh is None else mesh
    run = {**run, "total_steps": total_steps}

    restored = checkpoint.restore(root, state, replicated(mesh))
    if restored is None:
        state, step, window = replicate(mesh, state), 0, _Window({})
    else:
        _check_run(restored.meta["run"], run, root / str(restored.step))
        state, step, window = restored.tree, restored.step, _Window(restored.meta["window"])
        print(f"{name}: goes on from step {step} of {total_steps} ({root / str(step)})", file=sys.stderr)
    start, began = step, time.monotonic()

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
        loss, denominator = map(float, host["loss"])
        progress.update(step, loss / denominator if denominator else 0.0, batch_size)
        if step % log_every == 0 or step == total_steps:
            seconds = time.monotonic() - began
            wall = {"seconds": round(seconds, 3)}
            if batch_size:
                wall["examples_per_second"] = round((step - start) * batch_size / max(seconds, 1e-9), 1)
            metrics.write(step, {**window.means(), **wall})

    progress = Progress(name, step, total_steps)
    metrics = MetricsWriter(folder / "metrics.jsonl", None if restored is None else step)
    with metrics, _stop_signals() as stop:
        pending: tuple[int, Sums] | None = None
        while step < total_steps:
            state, sums = step_fn(state, shard_batch(mesh, batches(step)))
            step += 1
            # The sums of the step before: this step is already on its way to the device, so nothing waits for the host.
            if pending is not None:
                take(*pending)
            pending = (step, sums)
            stopping = bool(stop)  # read once: a signal that comes after this line acts at the next step
            if step % checkpoint_every == 0 or step == total_steps or stopping:
                take(*pending)
                pending = None
                leaves = checkpoint.host_leaves(state)
                for leaf, array in leaves.items():
                    if jnp.issubdtype(array.dtype, jnp.floating) and not np.isfinite(array).all():
                        raise non_finite(step, leaf)
                checkpoint.save(root, step, leaves, {"run": run, "window": window.sums}, keep)
            if stopping:
                break
        if stop:
            print(
                f"\n{name}: stopped by {signal.Signals(stop[0]).name} at step {step} of {total_steps}; saved in "
                f"{root / str(step)}. The same command goes on from there",
                file=sys.stderr,
            )
            raise SystemExit(128 + stop[0])
    return state
