"""Four CPU devices, no silent rank promotion, and the public data where it lies beside the checkout."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from spm_jax.builder import MenuBuilder

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiled programs are kept for the session, where the processes that tests start find them; MenuBuilder.load would
# keep them in the home folder. Traces are counted where functions are traced: that is the same with and without.
_compiled = tempfile.TemporaryDirectory(prefix="spm_jax-compiled-", ignore_cleanup_errors=True)
jax.config.update("jax_compilation_cache_dir", os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", _compiled.name))
seconds = os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
jax.config.update("jax_persistent_cache_min_compile_time_secs", float(seconds))

# The same examples every time, and no failure because another process had the processor.
settings.register_profile(
    "spm_jax", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("spm_jax")


@pytest.fixture(scope="session", autouse=True)
def one_device_trains() -> Iterator[None]:
    """Whole trainings take the first device, as they do on a plain CPU: four cost compilation and prove nothing here.

    Training on several is tested where it is the point, with a mesh that the test makes.
    """
    from spm_jax.train import loop
    from spm_jax.train.mesh import data_mesh

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "training_mesh", lambda batches: data_mesh(jax.devices()[:1]))
        yield


@pytest.fixture(scope="module", autouse=True)
def programs_of_a_file_are_forgotten() -> Iterator[None]:
    """A process may map 65,530 regions of memory; the compiled programs of a whole session are too many for that."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder ``../shared/data`` of public data; without it the test skips, or fails in CI (where CI is set)."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / "README.md").exists():
        reason = f"the public data is not at {folder.parent.parent.name}/shared/data beside the checkout"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; CI must run the tests that read it")
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working folder of experiments/configs/tiny.py, trained once a session; read it, never write to it."""
    from experiments.configs import tiny
    from spm_jax.train.loop import train_and_evaluate

    workdir = tmp_path_factory.mktemp("tiny")
    train_and_evaluate(tiny.get_config(), workdir)
    return workdir


@pytest.fixture(scope="session")
def tiny_bundle(tiny_run: Path) -> Path:
    """The bundle folder of that run."""
    return tiny_run / "fold0" / "menu"


@pytest.fixture(scope="session")
def receipt_workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder; with ``receipt_builder`` it holds the bundle of experiments/receipt.py as ``menu``."""
    return tmp_path_factory.mktemp("receipt")


@pytest.fixture(scope="session")
def receipt_builder(receipt_workdir: Path) -> MenuBuilder:
    """The menu builder of experiments/receipt.py, trained once a session."""
    from experiments.receipt import train_receipt

    return train_receipt(receipt_workdir)


@pytest.fixture(scope="session")
def readme() -> str:
    """The text of README.md."""
    return (Path(__file__).resolve().parents[1] / "README.md").read_text("utf-8")
