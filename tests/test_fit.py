from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_training as toy

from spm_jax.data.schema import DataError
from spm_jax.train import checkpoint
from spm_jax.train.fit import NonFiniteError
from spm_jax.train.mesh import data_mesh, replicate, shard_batch
from spm_jax.train.step import make_step
from spm_jax.train.writer import WALL, Meter, MetricsWriter, Progress, read_metrics


def program(workdir: Path, *kill: int) -> subprocess.CompletedProcess:
    """Run the toy training as a process of its own, with one device; ``kill``: step and signal."""
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(root / "tests" / "toy_training.py"), str(workdir), *map(str, kill)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def bits(state: Any) -> dict[str, bytes]:
    return {name: leaf.tobytes() for name, leaf in checkpoint.host_leaves(state).items()}


def metrics(workdir: Path) -> list[dict[str, Any]]:
    """The metrics of the toy run without what the clock says."""
    lines = read_metrics(workdir / "toy" / "metrics.jsonl")
    return [{name: value for name, value in line.items() if name not in WALL} for line in lines]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    workdir = tmp_path_factory.mktemp("undisturbed")
    return bits(toy.train(workdir)), metrics(workdir)


def test_it_writes_the_mean_of_each_window(undisturbed: tuple) -> None:
    _, lines = undisturbed
    assert [line["step"] for line in lines] == list(range(4, 41, 4))
    state, total, denominator = toy.initial(), 0.0, 0.0
    for index in range(4):
        state, sums = toy.step_fn(state, toy.batches(index))
        total, denominator = total + float(sums["loss"][0]), denominator + float(sums["loss"][1])
    assert denominator == 4 * (toy.BATCH - 1)
    assert lines[0] == {"step": 4, "loss": total / denominator}


def test_two_runs_are_equal_bit_for_bit(undisturbed: tuple, tmp_path: Path) -> None:
    assert (bits(toy.train(tmp_path)), metrics(tmp_path)) == undisturbed


class Cut(Exception):
    pass


def batches_until(stop: int) -> Callable[[int], Any]:
    """The batches of the toy, and an exception instead of batch ``stop``."""

    def batches(index: int) -> Any:
        if index == stop:
            raise Cut
        return toy.batches(index)

    return batches


def test_killed_at_a_random_step_the_run_ends_the_same(undisturbed: tuple, tmp_path: Path) -> None:
    step = int(np.random.default_rng().integers(1, 40))  # any step will do, so it is a new one every time
    assert program(tmp_path, step, signal.SIGKILL).returncode == -signal.SIGKILL, step
    done = program(tmp_path)
    assert done.returncode == 0, (step, done.stderr)
    final = checkpoint.load_bundle(tmp_path / "toy" / "checkpoints" / "40").arrays
    assert {name: leaf.tobytes() for name, leaf in final.items()} == undisturbed[0], step
    assert metrics(tmp_path) == undisturbed[1], step


def test_cut_off_in_a_save_the_run_ends_the_same(
    undisturbed: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Cut):
        original = checkpoint.write_atomic

        def write_atomic(path: Path, lines: Any) -> None:
            if path.parent.name == "12":
                raise Cut
            original(path, lines)

        patch.setattr(checkpoint, "write_atomic", write_atomic)
        toy.train(tmp_path)
    assert checkpoint.saved_steps(tmp_path / "toy" / "checkpoints") == [6, 12]
    with pytest.warns(checkpoint.CheckpointWarning, match="12: .* unfinished save"):
        state = toy.train(tmp_path)
    assert (bits(state), metrics(tmp_path)) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_saves_says_so_and_goes_on(undisturbed: tuple, tmp_path: Path, number: int) -> None:
    stopped = program(tmp_path, 16, number)
    assert stopped.returncode == 128 + number
    step = checkpoint.saved_steps(tmp_path / "toy" / "checkpoints")[-1]
    assert f"stopped by {signal.Signals(number).name} at step {step} of 40" in stopped.stderr
    assert step in range(15, 18)  # the signal comes with batch 16, which is made at step 15 at the earliest
    assert "Traceback" not in stopped.stderr
    assert (bits(toy.train(tmp_path)), metrics(tmp_path)) == undisturbed


def test_a_damaged_newest_checkpoint_costs_only_time(undisturbed: tuple, tmp_path: Path) -> None:
    with pytest.raises(Cut):
        toy.train(tmp_path, batches=batches_until(14))
    root = tmp_path / "toy" / "checkpoints"
    assert checkpoint.saved_steps(root) == [6, 12]
    (root / "12" / "checkpoint.json").write_text("{")
    with pytest.warns(checkpoint.CheckpointWarning, match="12"):
        state = toy.train(tmp_path)
    assert (bits(state), metrics(tmp_path)) == undisturbed


def test_a_finished_run_trains_no_more(undisturbed: tuple, tmp_path: Path) -> None:
    toy.train(tmp_path)

    def never(index: int) -> Any:
        raise AssertionError(f"asked for batch {index}")

    assert (bits(toy.train(tmp_path, batches=never)), metrics(tmp_path)) == undisturbed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": {"config": "other"}}, "config = 'toy', and this run has 'other'"),
        ({"run": {"config": "toy", "library": "f"}}, "library = None, and this run has 'f'"),
        ({"steps": 30}, "total_steps = 10, and this run has 30"),
        ({"state": toy.initial(6)}, "leaf 'params/inner/bias' has shape"),
    ],
)
def test_another_run_is_not_gone_on_with(tmp_path: Path, change: dict, message: str) -> None:
    toy.train(tmp_path, 10)
    with pytest.raises(checkpoint.CheckpointError, match=message):
        toy.train(tmp_path, **{"steps": 10, **change})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_nan_names_step_and_batch_and_is_not_saved(tmp_path: Path, bad: float) -> None:
    def batches(index: int) -> Any:
        batch = toy.batches(index)
        if index == 11:
            batch["x"][2, 3], batch["y"][0] = bad, bad
        return batch

    # Batch 11 makes step 12, which is one to save, too.
    with pytest.raises(NonFiniteError, match=r"toy: loss .* at step 12 of 40, batch 11: requests 11a, 11b\."):
        toy.train(tmp_path, batches=batches, describe=lambda index: f"requests {index}a, {index}b")
    assert checkpoint.saved_steps(tmp_path / "toy" / "checkpoints") == [6]
    assert [line["step"] for line in metrics(tmp_path)] == [4, 8]


def test_parameters_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    @jax.jit
    def step_fn(state: Any, batch: Any) -> Any:
        state, sums = toy.step_fn(state, batch)
        spoiled = state.params["outer"] / jnp.where(state.step == 6, 0.0, 1.0)
        return state.replace(params={**state.params, "outer": spoiled}), sums

    with pytest.raises(NonFiniteError, match=r"params/outer is not finite at step 6 .* batch 5"):
        toy.train(tmp_path, step_fn=step_fn)
    assert not (tmp_path / "toy" / "checkpoints").exists()


def test_four_devices_do_what_one_does(tmp_path: Path) -> None:
    one = toy.train(tmp_path / "one", mesh=data_mesh(jax.devices()[:1]))
    four = toy.train(tmp_path / "four", mesh=data_mesh(jax.devices()[:4]))
    assert len(four.params["outer"].sharding.device_set) == 4
    for left, right in zip(jax.tree.leaves(one.params), jax.tree.leaves(four.params), strict=True):
        assert np.allclose(left, right, rtol=1e-5, atol=1e-6)
    assert [m["loss"] for m in metrics(tmp_path / "one")] == pytest.approx(
        [m["loss"] for m in metrics(tmp_path / "four")], rel=1e-5
    )


def test_a_run_goes_on_with_another_number_of_devices(tmp_path: Path) -> None:
    with pytest.raises(Cut):
        toy.train(tmp_path, batches=batches_until(16))
    four = toy.train(tmp_path, mesh=data_mesh(jax.devices()[:4]))
    assert int(four.step) == 40 and len(four.params["outer"].sharding.device_set) == 4


@pytest.mark.parametrize("devices", [1, 4])
def test_every_crossing_between_host_and_device_is_explicit(tmp_path: Path, devices: int) -> None:
    state = toy.initial()
    jax.config.update("jax_transfer_guard", "disallow")  # in all threads, where a context holds for this one alone
    try:
        toy.train(tmp_path, 14, state=state, mesh=data_mesh(jax.devices()[:devices]))
        toy.train(tmp_path, 14, state=state, mesh=data_mesh(jax.devices()[:devices]))
    finally:
        jax.config.update("jax_transfer_guard", None)


def slow_step(seconds: float) -> Callable[[Any, Any], Any]:
    """The step of the toy, with a device that takes ``seconds`` for it."""

    def nap(loss: Any) -> Any:
        time.sleep(seconds)
        return loss

    @jax.jit
    def step_fn(state: Any, batch: Any) -> Any:
        state, sums = toy.step_fn(state, batch)
        loss = jax.pure_callback(nap, jax.ShapeDtypeStruct((), jnp.float32), sums["loss"][0])
        return state, {"loss": (loss, sums["loss"][1])}

    return step_fn


def slow_batches(seconds: float) -> Callable[[int], Any]:
    def batches(index: int) -> Any:
        time.sleep(seconds)
        return toy.batches(index)

    return batches


@pytest.mark.parametrize(
    ("step", "batch", "least", "most", "waiting"),
    [
        (0.05, 0.0, 0.04, 0.08, (0.0, 0.1)),  # the device is busy all the time
        (0.0, 0.05, 0.04, 0.08, (0.8, 1.0)),  # it waits nearly all the time
        (0.05, 0.05, 0.04, 0.085, (0.0, 0.3)),  # both at once: the greater of the two, not the sum
        (0.04, 0.08, 0.07, 0.11, (0.35, 0.6)),  # half of the time it waits
    ],
)
def test_batches_are_made_while_the_device_works(
    tmp_path: Path, capsys: pytest.CaptureFixture, step: float, batch: float, least: float, most: float, waiting: tuple
) -> None:
    options = {"checkpoint_every": 100, "log_every": 12, "step_fn": slow_step(step) if step else toy.step_fn}
    toy.train(tmp_path, 24, slow_batches(batch), **options)
    first, second = read_metrics(tmp_path / "toy" / "metrics.jsonl")
    seconds = (second["seconds"] - first["seconds"]) / 12
    assert least < seconds < most
    assert second["examples_per_second"] == pytest.approx(toy.BATCH / seconds, rel=0.1)
    assert waiting[0] <= second["waiting"] <= waiting[1]
    summary = capsys.readouterr().err.splitlines()[-1]
    assert summary.startswith("toy: 23 steps after the first in ") and " examples/s  waiting " in summary


def test_the_first_step_is_not_part_of_the_speed(tmp_path: Path) -> None:
    def batches(index: int) -> Any:
        time.sleep(1.0 if index == 0 else 0.0)
        return toy.batches(index)

    toy.train(tmp_path, 9, batches, checkpoint_every=100, log_every=8, step_fn=slow_step(0.02))
    line = read_metrics(tmp_path / "toy" / "metrics.jsonl")[0]
    assert line["seconds"] > 1.0 and line["waiting"] < 0.2
    assert 200 < line["examples_per_second"] < 420  # 8 examples in 0.02 s


def test_no_batch_is_made_after_the_loop_has_ended(tmp_path: Path) -> None:
    asked: list[int] = []

    def batches(index: int) -> Any:
        asked.append(index)
        if index == 5:
            raise Cut
        return toy.batches(index)

    with pytest.raises(Cut):
        toy.train(tmp_path, batches=batches, step_fn=slow_step(0.01))
    before = list(asked)
    time.sleep(0.1)
    assert asked == before and before in ([*range(6)], [*range(7)], [*range(8)])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]
    with pytest.raises(DataError, match="batch: x: first axis 6"):
        toy.train(tmp_path / "odd", batches=lambda i: {"x": np.ones((6, 2))}, mesh=data_mesh(jax.devices()[:4]))


def test_a_state_that_is_donated_trains_the_same(undisturbed: tuple, tmp_path: Path) -> None:
    donating = jax.jit(toy.step_fn.__wrapped__, donate_argnums=0)
    assert bits(toy.train(tmp_path, step_fn=donating)) == undisturbed[0]


def test_the_step_of_a_network_takes_over_the_buffers_of_the_state() -> None:
    step = make_step(lambda *inputs: {"error": toy.loss_sums(*inputs)}, {"error": 1.0}, toy.OPTIMIZER)
    state = toy.initial()
    after, sums = step(state, toy.batches(0))
    assert state.params["outer"].is_deleted() and not after.params["outer"].is_deleted()
    assert float(sums["grad_norm"][0]) > 0 and int(after.step) == 1


def test_it_runs_outside_the_main_thread(undisturbed: tuple, tmp_path: Path) -> None:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(toy.train(tmp_path)))
    thread.start()
    thread.join()
    assert bits(results[0]) == undisturbed[0]


def test_a_batch_that_does_not_divide_is_named() -> None:
    mesh = data_mesh(jax.devices()[:4])
    with pytest.raises(DataError, match=r"batch: rows/x: first axis 6 .* 4 devices"):
        shard_batch(mesh, {"rows": {"x": np.zeros((6, 2))}})
    placed = shard_batch(mesh, {"x": np.arange(8.0), "scale": np.float32(2)})
    assert [shard.data.tolist() for shard in placed["x"].addressable_shards] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert placed["scale"].is_fully_replicated and replicate(mesh, np.ones(3)).is_fully_replicated


def test_metrics_go_on_behind_the_restored_step(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    with MetricsWriter(path) as writer:
        for step in (5, 10, 15):
            writer.write(step, {"loss": 1 / step})
    with open(path, "a") as file:
        file.write('{"step": 20, "lo')  # cut off by a kill
    with MetricsWriter(path, 10) as writer:
        writer.write(12, {"loss": 0.5})
        with pytest.raises(DataError, match="step 13"):
            writer.write(13, {"loss": float("nan")})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"step": 5, "loss": 0.2}, {"step": 10, "loss": 0.1}, {"step": 12, "loss": 0.5}]
    with MetricsWriter(path):
        pass
    assert path.read_text() == ""


def test_progress_rewrites_one_line_on_a_terminal_and_is_sparse_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        progress, meter = Progress("retriever", 20, stream), Meter(8)
        for step in range(1, 21):
            now[0] += 1  # a step a second, a quarter of it without a batch
            meter.waited(0.25)
            meter.step_done()
            progress.update(step, 0.5, meter)
    assert plain.getvalue().splitlines() == [
        "retriever: step 1/20  loss 0.5000",
        "retriever: step 16/20  loss 0.5000  8 examples/s  waiting 25%  4 s left",
        "retriever: step 20/20  loss 0.5000  8 examples/s  waiting 25%  0 s left",
    ]
    assert terminal.getvalue().count("\r") == 20 and terminal.getvalue().count("\n") == 1
