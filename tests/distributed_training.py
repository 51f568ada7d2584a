"""What each process of tests/test_distributed.py runs: COORDINATOR PROCESSES PROCESS TASK WORKDIR."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from experiments.configs import tiny
from spm_jax.data.batching import batch
from spm_jax.data.labels import Labels
from spm_jax.data.schema import DataError
from spm_jax.menu import initial
from spm_jax.train import processes
from spm_jax.train.fit import fit
from spm_jax.train.mesh import data_mesh, on_own_device, own_rows
from spm_jax.train.objective import retriever_objective
from spm_jax.train.optim import adamw
from spm_jax.train.prepare import Prepared, retriever_batch
from spm_jax.train.state import create
from spm_jax.train.step import make_step
from spm_jax.types import Frontier

BATCH, EXAMPLES = 8, "examples.npz"
STEPS, KILLED = 20, 17  # that batch is asked for when the checkpoint of step 12 is whole, and no later one


def nothing(index: int) -> None:
    """What happens when batch ``index`` is asked for: nothing."""


def train_toy(workdir: Path, mesh: Mesh, before: Callable[[int], None] = nothing, **options: Any) -> Any:
    """The toy state after 20 steps on the devices of ``mesh``; ``before(i)`` is called when batch i is asked for."""
    import toy_training as toy

    own = own_rows(mesh, toy.BATCH)

    def batches(index: int) -> Any:
        before(index)
        return {name: array[own] for name, array in toy.batches(index).items()}

    return toy.train(workdir, STEPS, batches, mesh=mesh, log_every=1, **options)


def write_examples(path: Path) -> None:
    """Training examples of a small world, so that they are prepared once and not in every process."""
    import test_train

    made = test_train.prepared()
    frontiers = {f"frontiers/{field.name}": getattr(made.frontiers, field.name) for field in fields(made.frontiers)}
    labels = {f"labels/{name}": value for name, value in made.labels._asdict().items()}
    np.savez(path, **frontiers, **labels, injected=made.injected)


def read_examples(path: Path) -> Prepared:
    """What ``write_examples`` wrote."""
    arrays = dict(np.load(path))

    def under(prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

    return Prepared(Frontier(**under("frontiers/")), Labels(**under("labels/")), arrays["injected"])


def train_retriever(workdir: Path, mesh: Mesh, examples: Path) -> Any:
    """The state of the real retriever after 20 steps on ``examples``."""
    from untrained import small_plan

    plan, made = small_plan(), read_examples(examples)
    optimizer = adamw(1e-3, weight_decay=0.01, warmup_steps=1, total_steps=STEPS, clip=1.0)
    objective = retriever_objective(plan.retriever, menu=plan.menu, negatives=16, text_dropout=0.2)
    rows, own = np.arange(len(made.injected)), own_rows(mesh, BATCH)
    return fit(
        create(jax.jit(lambda: initial(plan, 0)[0])(), optimizer, 0),
        make_step(objective, dict(tiny.get_config().retriever.loss), optimizer),
        lambda index: retriever_batch(made, *(part[own] for part in batch(rows, BATCH, 0, index))),
        STEPS,
        workdir=workdir,
        name="retriever",
        run={"test": "retriever"},
        batch_size=BATCH,
        checkpoint_every=5,
        log_every=1,
        mesh=mesh,
    )


def task_kill(workdir: Path) -> None:
    """The toy; process 1 dies on the way."""

    def before(index: int) -> None:
        if index == KILLED and jax.process_index() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    train_toy(workdir / "killed", data_mesh(), before)


def task_finish(workdir: Path) -> None:
    """The toy that was killed, a toy that was not, and the retriever."""
    train_toy(workdir / "killed", data_mesh())
    assert (workdir / "killed" / "toy" / "checkpoints" / str(STEPS) / "checkpoint.json").exists()  # in every process
    train_toy(workdir / "whole", data_mesh())
    state = train_retriever(workdir, data_mesh(), workdir / EXAMPLES)
    assert all(leaf.is_fully_replicated for leaf in jax.tree.leaves(state))


def task_toy(workdir: Path) -> None:
    """The toy, and what processes agree on: each in a folder of its own; the second run is stopped by one process."""
    own = workdir / f"of-{jax.process_index()}"
    mesh = data_mesh()
    try:
        train_toy(own / "odd", mesh, run={"config": f"toy {jax.process_index()}"})
    except DataError as error:
        print("error:", error)
    params = on_own_device(train_toy(own / "whole", mesh).params)
    print("norm", float(sum(jax.numpy.sum(leaf**2) for leaf in jax.tree.leaves(params))))

    def before(index: int) -> None:
        if index == 4 and jax.process_index() == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)

    with processes.first_speaks():
        train_toy(own / "stopped", mesh, before)


if __name__ == "__main__":
    processes.join(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    tasks = {"kill": task_kill, "finish": task_finish, "toy": task_toy}
    tasks[sys.argv[4]](Path(sys.argv[5]))
