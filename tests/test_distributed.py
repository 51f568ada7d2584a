"""Two processes on this machine's loopback, one CPU device each, do what one process does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import distributed_training as distributed
import jax
import numpy as np
import pytest

from spm_jax.cli import main
from spm_jax.data.schema import DataError
from spm_jax.train import checkpoint
from spm_jax.train.mesh import data_mesh, own_rows, training_mesh
from spm_jax.train.processes import join
from spm_jax.train.writer import read_metrics

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 300  # the longest that a pair may take


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def environment(folder: Path) -> dict[str, str]:
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
    python = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **cache, **python, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}


def run_pair(task: str, workdir: Path, logs: Path, cache: Path) -> tuple[list[int], list[str]]:
    """Exit codes and output of the two processes of ``task``; none is left. Where one is killed, so is the other."""
    address = free_address()
    files = [logs / f"{task}-{process}.txt" for process in range(2)]
    running = []
    try:
        for process, file in enumerate(files):
            script = [sys.executable, str(ROOT / "tests" / "distributed_training.py")]
            with open(file, "wb") as log:
                command = [*script, address, "2", str(process), task, str(workdir)]
                running.append(subprocess.Popen(command, env=environment(cache), stdout=log, stderr=log, cwd=ROOT))
        deadline = time.monotonic() + SECONDS
        while any(process.poll() is None for process in running) and time.monotonic() < deadline:
            if any(process.poll() == -signal.SIGKILL for process in running):
                break
            time.sleep(0.05)
        print(f"{task}: {SECONDS - deadline + time.monotonic():.1f} s")
    finally:
        for process in running:
            process.kill()
            process.wait()
    return [process.returncode for process in running], [file.read_text(errors="replace") for file in files]


def losses(path: Path) -> list[float]:
    lines = read_metrics(path)
    assert [line["step"] for line in lines] == list(range(1, distributed.STEPS + 1))
    return [line["loss"] for line in lines]


def files(folder: Path) -> list[str]:
    """Files by their path in ``folder``, and how many folders of arrays stand beside each marker."""
    inside = [path.relative_to(folder).as_posix() for path in folder.rglob("*.json*") if "data-" not in path.as_posix()]
    return sorted(inside) + [path.parent.name for path in sorted(folder.rglob("data-*"))]


def arrays(folder: Path) -> dict[str, np.ndarray]:
    return checkpoint.load_bundle(folder / "checkpoints" / str(distributed.STEPS)).arrays


def assert_same_run(one: Path, two: Path) -> None:
    """The same losses and parameters to 1e-5, and the same files."""
    np.testing.assert_allclose(losses(two / "metrics.jsonl"), losses(one / "metrics.jsonl"), rtol=1e-5)
    left, right = arrays(one), arrays(two)
    assert left.keys() == right.keys()
    for name, array in left.items():
        # A softmax does not depend on a bias that all share: what Adam makes of such a gradient is rounding alone.
        if not name.endswith(("key/bias", "entry/bias")):
            np.testing.assert_allclose(array, right[name], rtol=1e-5, atol=1e-5, err_msg=name)
    assert files(one) == files(two)


def test_a_killed_and_restarted_pair_goes_on_and_both_train_as_one_process_does(tmp_path: Path) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    codes, output = run_pair("kill", two, tmp_path, tmp_path / "cache")
    assert codes == [-signal.SIGKILL] * 2, output
    assert checkpoint.saved_steps(two / "killed" / "toy" / "checkpoints")[-1] == 12, output
    distributed.write_examples(two / distributed.EXAMPLES)
    codes, output = run_pair("finish", two, tmp_path, tmp_path / "cache")
    assert codes == [0, 0], output
    assert all("toy: goes on from step 12 of 20" in text for text in output), output
    killed, whole = arrays(two / "killed" / "toy"), arrays(two / "whole" / "toy")
    assert all(killed[name].tobytes() == array.tobytes() for name, array in whole.items())
    assert losses(two / "killed" / "toy" / "metrics.jsonl") == losses(two / "whole" / "toy" / "metrics.jsonl")

    mesh = data_mesh(jax.devices()[:1])
    distributed.train_toy(one, mesh)
    assert_same_run(one / "toy", two / "killed" / "toy")
    distributed.train_retriever(one, mesh, two / distributed.EXAMPLES)
    assert_same_run(one / "retriever", two / "retriever")


def test_a_pair_agrees_writes_once_and_stops_together(tmp_path: Path) -> None:
    codes, output = run_pair("toy", tmp_path, tmp_path, tmp_path / "cache")
    assert codes == [128 + signal.SIGTERM] * 2, output
    assert all(f"error: toy: processes differ in config, here 'toy {n}'" in output[n] for n in range(2)), output
    norms = [line for text in output for line in text.splitlines() if line.startswith("norm ")]
    assert len(norms) == 2 and norms[0] == norms[1]

    assert (tmp_path / "of-0" / "whole" / "toy" / "metrics.jsonl").exists() and not (tmp_path / "of-1").exists()

    saved = checkpoint.saved_steps(tmp_path / "of-0" / "stopped" / "toy" / "checkpoints")
    assert 2 <= saved[-1] < distributed.STEPS
    assert f"toy: stopped by SIGTERM at step {saved[-1]} of 20" in output[0] and "stopped by" not in output[1]


def test_the_program_joins_before_anything_touches_a_device(tmp_path: Path) -> None:
    spm = ["-c", "import sys; from spm_jax.cli import main; sys.exit(main())", "train"]
    alone = [f"--coordinator={free_address()}", "--processes=1", "--process=0"]
    flags = ["--config=experiments/configs/tiny.py", f"--workdir={tmp_path}"]
    for arguments, message in (
        (["-m", "spm_jax.main", *flags, "--config.split.run=()", *alone], "error: config.split.run = ()"),
        ([*spm, *flags, "--set", "split.run=()", *alone], "error: config.split.run = ()"),
        ([*spm, *flags, "--coordinator=auto"], "error: --coordinator auto: "),
    ):
        done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment(tmp_path), capture_output=True,
                              text=True, timeout=SECONDS)  # fmt: skip
        assert done.returncode == 2 and message in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("10.0.0.1:1", 2, None), r"belong together .* missing: \['--process'\]"),
        ((None, 2, 1), r"missing: \['--coordinator'\]"),
        (("auto", 2, 1), "'--coordinator auto' stands alone"),
        (("10.0.0.1", 2, 1), "10.0.0.1: expected HOST:PORT"),
        (("10.0.0.1:x", 2, 1), "10.0.0.1:x: expected HOST:PORT"),
        (("10.0.0.1:1", 2, 2), "--process 2 of --processes 2: processes are numbered from 0"),
    ],
)
def test_a_run_that_cannot_be_joined_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        join(*arguments)
    assert join(None, None, None) is None


def test_spm_train_names_what_is_missing(capsys: pytest.CaptureFixture) -> None:
    config = str(ROOT / "experiments" / "configs" / "tiny.py")
    assert main(["train", "--config", config, "--workdir", "w", "--processes", "2"]) == 2
    assert "--coordinator, --processes, --process belong together" in capsys.readouterr().err


def test_batches_must_divide_by_the_devices() -> None:
    assert training_mesh({"retriever.batch": 16, "reranker.batch": 4}).size == 4
    with pytest.raises(DataError, match=r"reranker.batch = 6 does not divide by the 4 devices .* a multiple of 4"):
        training_mesh({"retriever.batch": 16, "reranker.batch": 6})
    assert own_rows(data_mesh(), 8) == slice(0, 8)


def test_rows_are_fed_process_by_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device:
        def __init__(self, process_index: int, id: int) -> None:
            self.process_index, self.id = process_index, id

    class Mesh:
        devices = np.array([Device(0, 0), Device(0, 4), Device(1, 1), Device(1, 5)])
        size = 4

    for process, rows in ((0, slice(0, 6)), (1, slice(6, 12))):
        monkeypatch.setattr(jax, "process_index", lambda process=process: process)
        assert own_rows(Mesh(), 12) == rows
