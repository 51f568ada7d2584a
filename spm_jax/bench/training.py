"""How fast the retriever trains: two epochs of the training loop on the requests of the benchmark's bundle."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spm_jax.bench.floor import matmul_flops
from spm_jax.bundle import TrainedMenus
from spm_jax.data.batching import batch, steps_per_epoch
from spm_jax.data.splits import held_out_sets
from spm_jax.train.fit import fit
from spm_jax.train.objective import retriever_objective
from spm_jax.train.optim import adamw
from spm_jax.train.prepare import make_corpus, prepare_frontiers, retriever_batch
from spm_jax.train.state import create
from spm_jax.train.step import make_step

BATCH, EPOCHS, FOLDS = 32, 2, 2  # requests a step; passes over them; passes that make their features out of fold
RIDGE, RATE, NEGATIVES = 1.0, 8e-4, 16  # as in experiments/configs/default.py
LOSSES = ("path", "hard", "frontier", "boundary", "margin", "entry", "slot")


def time_training(trained: TrainedMenus, matmul_gflop_s: float) -> dict[str, Any]:
    """Examples and gigaflops a second over whole epochs, and the share of the time that the device waited for a batch.

    The flops are those of the products of matrices of the step, forward and backward, the update included; the first
    step, which compiles, is left out. ``matmul_share`` is the rate over ``matmul_gflop_s``, the machine's.
    """
    held_out = held_out_sets(trained.requests, "group", FOLDS)
    corpus = make_corpus(trained.indexed, trained.requests, RIDGE, held_out)
    prepared = prepare_frontiers(corpus, trained.params.frontier, trained.plan)
    steps = EPOCHS * steps_per_epoch(len(corpus.requests), BATCH)
    optimizer = adamw(RATE, weight_decay=0.01, warmup_steps=1, total_steps=steps, clip=1.0)
    plan = trained.plan
    objective = retriever_objective(plan.retriever, menu=plan.menu, negatives=NEGATIVES, text_dropout=0.0)
    step = make_step(objective, dict.fromkeys(LOSSES, 1.0), optimizer)
    state = create(jax.tree.map(jnp.copy, trained.params.retriever), optimizer, seed=0)
    chosen = partial(batch, np.arange(len(corpus.requests)), BATCH, 0)
    flops = matmul_flops(step, state, retriever_batch(prepared, *chosen(0)))
    with TemporaryDirectory() as folder:
        fit(
            state,
            step,
            lambda number: retriever_batch(prepared, *chosen(number)),
            steps,
            workdir=folder,
            name="retriever",
            run={},
            batch_size=BATCH,
            checkpoint_every=steps + 1,
            log_every=steps + 1,
        )
        last = json.loads((Path(folder) / "retriever" / "metrics.jsonl").read_text("utf-8").splitlines()[-1])
    rate = last["examples_per_second"] / BATCH * flops / 1e9
    return {
        "batch": BATCH,
        "steps": steps,
        "examples_per_second": last["examples_per_second"],
        "waiting": last["waiting"],
        "gflop_per_example": flops / BATCH / 1e9,
        "gflop_s": rate,
        "matmul_share": rate / matmul_gflop_s,
    }
