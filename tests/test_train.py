"""Training end to end: kill and resume, determinism, devices, damage, non-finite numbers, and nothing leaks."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from functools import lru_cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import small_plan

from experiments.configs import tiny
from spm_jax.data.batching import batch
from spm_jax.data.schema import Call, Request, Trajectory
from spm_jax.data.splits import held_out_sets
from spm_jax.data.synthetic import make_world
from spm_jax.device_library import index_library
from spm_jax.menu import initial
from spm_jax.train.checkpoint import CheckpointWarning, host_leaves, load_bundle, saved_steps
from spm_jax.train.fit import NonFiniteError, fit
from spm_jax.train.frontier import start_weights
from spm_jax.train.mesh import data_mesh
from spm_jax.train.objective import reranker_objective, retriever_objective
from spm_jax.train.optim import adamw
from spm_jax.train.prepare import (
    Corpus,
    Prepared,
    make_corpus,
    prepare_frontiers,
    prepare_menus,
    reranker_batch,
    retriever_batch,
)
from spm_jax.train.state import create
from spm_jax.train.step import make_step

ROOT = Path(__file__).parents[1]
BATCH, STEPS = 8, 6
FOLDS = 100  # more than there are groups: each is left out alone


def same_arrays(one: Path, other: Path) -> None:
    """That two bundles hold the same numbers, bit for bit."""
    a, b = load_bundle(one), load_bundle(other)
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        assert array.dtype == b.arrays[name].dtype and array.tobytes() == b.arrays[name].tobytes(), name


def test_killed_at_any_moment_training_ends_with_the_same_parameters(tmp_path):
    base = [sys.executable, "-m", "spm_jax.main", "--config=experiments/configs/tiny.py"]
    command = [*base, f"--workdir={tmp_path / 'work'}"]
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
    env = {**os.environ, **cache, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    network = random.choice(["retriever-without-0", "retriever-without-1", "retriever", "reranker"])
    moment = random.choice([4, 6])  # by then an earlier checkpoint is whole, should the kill cut this one
    awaited = tmp_path / "work" / "fold0" / network / "checkpoints"
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and max(saved_steps(awaited), default=0) < moment:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, (network, moment)
    assert not (tmp_path / "work" / "fold0" / "menu" / "checkpoint.json").exists()
    run = partial(subprocess.run, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
    done = run(command)
    assert done.returncode == 0 and "goes on from step" in done.stderr, (network, moment, done.stderr)
    undisturbed = run([*base, f"--workdir={tmp_path / 'other'}"])  # also: two trainings with one seed are equal
    assert undisturbed.returncode == 0 and "goes on" not in undisturbed.stderr, undisturbed.stderr
    same_arrays(tmp_path / "other" / "fold0" / "menu", tmp_path / "work" / "fold0" / "menu")


# --- the steps of both networks ---


@lru_cache
def corpus() -> Corpus:
    world = make_world(5, 120, 20)
    held_out = held_out_sets(world.requests, "group", FOLDS)
    return make_corpus(index_library(world.library, 32), world.requests, 1.0, held_out)


@lru_cache
def prepared() -> Prepared:
    return prepare_frontiers(corpus(), start_weights(), small_plan())


@lru_cache
def network(name: str):
    """(start, step, batch of rows): a network with its compiled step, trained as tiny.py says."""
    plan, c = small_plan(), tiny.get_config()
    retriever, reranker = jax.jit(lambda: initial(plan, 0))()
    recipe = c[name]
    optimizer = adamw(recipe.lr, weight_decay=0.01, warmup_steps=1, total_steps=STEPS, clip=1.0)
    if name == "retriever":
        objective = retriever_objective(plan.retriever, menu=plan.menu, negatives=16, text_dropout=0.2)
        start, examples = retriever, partial(retriever_batch, prepared())
    else:
        objective = reranker_objective(plan.reranker, text_dropout=0.2)
        everything = np.arange(len(corpus().requests))
        menus = prepare_menus(corpus(), prepared(), [(everything, retriever)], plan)
        start, examples = reranker, partial(reranker_batch, menus)
    return (
        start,
        (objective, dict(recipe.loss), optimizer),
        make_step(objective, dict(recipe.loss), optimizer),
        examples,
    )


def train(name: str, workdir: Path, steps: int = STEPS, step=None, **options):
    start, (_, _, optimizer), own_step, examples = network(name)
    rows = np.arange(len(corpus().requests))
    state = create(jax.tree.map(jnp.copy, start), optimizer, 0)
    names = [request.id for request in corpus().requests]
    with jax.transfer_guard("disallow"):
        state = fit(
            state,
            step or own_step,
            lambda number: examples(*batch(rows, BATCH, 0, number)),
            steps,
            workdir=workdir,
            name=name,
            run={"test": name},
            checkpoint_every=2,
            log_every=2,
            describe=lambda number: ", ".join(names[row] for row in batch(rows, BATCH, 0, number)[0]),
            **options,
        )
    return host_leaves(state.params)


@pytest.mark.parametrize("name", ["retriever", "reranker"])
def test_steps_run_without_hidden_transfers_and_alike_on_one_device_and_four(name, tmp_path):
    one = train(name, tmp_path / "one")
    again = train(name, tmp_path / "again")
    four = train(name, tmp_path / "four", mesh=data_mesh(jax.devices()[:4]))
    start = host_leaves(network(name)[0])
    assert any(np.abs(one[leaf] - start[leaf]).max() > 1e-5 for leaf in one)
    for leaf in one:
        assert one[leaf].tobytes() == again[leaf].tobytes(), leaf
        # A softmax does not depend on a bias that all share: what Adam makes of such a gradient is rounding alone.
        if not leaf.endswith(("key/bias", "entry/bias")):
            np.testing.assert_allclose(one[leaf], four[leaf], atol=2e-4, err_msg=leaf)


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path):
    whole = train("retriever", tmp_path)
    root = tmp_path / "retriever" / "checkpoints"
    newest = max(saved_steps(root))
    files = [path for path in (root / str(newest)).rglob("*") if path.is_file()]
    data = max(files, key=lambda path: path.stat().st_size)
    data.write_bytes(data.read_bytes()[:-1] + b"\0")
    with pytest.warns(CheckpointWarning, match=f"{newest}: damaged, .*passed over"):
        again = train("retriever", tmp_path)
    assert all(whole[leaf].tobytes() == again[leaf].tobytes() for leaf in whole)


def test_an_infinite_loss_stops_with_step_and_batch(tmp_path):
    _, (objective, weights, optimizer), _, _ = network("retriever")
    broken = make_step(objective, weights | {"path": float("inf")}, optimizer)
    first = batch(np.arange(len(corpus().requests)), BATCH, 0, 0)[0]
    with pytest.raises(NonFiniteError, match=r"retriever: .* not finite at step 1 of 6, batch 0: ") as caught:
        train("retriever", tmp_path, step=broken)
    assert corpus().requests[first[0]].id in str(caught.value)
    assert not saved_steps(tmp_path / "retriever" / "checkpoints")


def test_padding_of_a_batch_does_not_matter():
    start, (objective, *_), _, examples = network("retriever")
    sums = jax.jit(objective)
    key = jax.random.key(0)
    a = sums(start, examples(np.array([0, 1, 2, 3]), np.array([1, 1, 0, 0], np.float32)), key)
    b = sums(start, examples(np.array([0, 1, 7, 8]), np.array([1, 1, 0, 0], np.float32)), key)
    for name, (total, count) in a.items():
        np.testing.assert_allclose([total, count], b[name], rtol=1e-6, err_msg=name)


# --- nothing of a request's own group reaches its features ---


def features(requests: tuple[Request, ...], number: int, by: str = "group") -> dict[str, np.ndarray]:
    """The frontier that a retriever would see of request ``number``, before gold tools are put in."""
    index = [request.id for request in requests].index(corpus().requests[number].id)
    made = make_corpus(corpus().indexed, requests, 1.0, held_out_sets(requests, by, FOLDS))
    plain = dataclasses.replace(made, golds=((),) * len(requests), fixed=(np.zeros((0, 0), bool),) * len(requests))
    frontiers = prepare_frontiers(plain, start_weights(), small_plan()).frontiers
    return {field.name: getattr(frontiers, field.name)[index] for field in dataclasses.fields(frontiers)}


def _with(requests: tuple[Request, ...], change) -> tuple[Request, ...]:
    return tuple(new for request in requests if (new := change(request)) is not None)


@pytest.mark.parametrize("number", [0, 9])
def test_features_of_a_training_request_do_not_depend_on_its_group(number):
    requests = corpus().requests
    own = requests[number]
    calls = tuple(Call((corpus().indexed.library[tool].id,)) for tool in (3, 1, 4, 15))

    def replaced(request: Request) -> Request:
        return dataclasses.replace(request, trajectory=Trajectory(calls))

    changes = {
        "others of the group removed": lambda r: None if r.group == own.group and r.id != own.id else r,
        "others of the group altered": lambda r: (
            dataclasses.replace(replaced(r), text="entirely different words")
            if r.group == own.group and r.id != own.id
            else r
        ),
        "its own trajectory replaced": lambda r: replaced(r) if r.id == own.id else r,
        "every trajectory of the group replaced": lambda r: replaced(r) if r.group == own.group else r,
    }
    before = features(requests, number)
    assert sum(request.group == own.group for request in requests) > 1
    for name, change in changes.items():
        after = features(_with(requests, change), number)
        for field, value in before.items():
            np.testing.assert_allclose(value, after[field], atol=1e-4, rtol=1e-4, err_msg=f"{name}: {field}")
    # The other way round: a change of another group is seen, so the comparison can fail.
    other = next(request.group for request in requests if request.group != own.group)
    after = features(_with(requests, lambda r: None if r.group == other else r), number)
    assert not np.allclose(before["node"], after["node"], atol=1e-4)


def test_features_made_without_domains_do_not_depend_on_the_own_domain():
    requests = corpus().requests
    own, before = requests[0], features(requests, 0, "domain")
    call = (Call((corpus().indexed.library[3].id,)),)

    def altered(request: Request) -> Request:
        return dataclasses.replace(request, text="other words", trajectory=Trajectory(call))

    mates = _with(requests, lambda r: altered(r) if r.domain == own.domain and r.id != own.id else r)
    others = _with(requests, lambda r: altered(r) if r.domain != own.domain else r)
    assert any(request.group != own.group for request in requests if request.domain == own.domain)
    for field, value in features(mates, 0, "domain").items():
        np.testing.assert_allclose(before[field], value, atol=1e-4, rtol=1e-4, err_msg=field)
    assert not np.allclose(before["node"], features(others, 0, "domain")["node"], atol=1e-4)
