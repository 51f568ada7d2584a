"""Train and evaluate a configuration: python -m spm_jax.main --config=experiments/configs/NAME.py --workdir=DIR"""

from __future__ import annotations

import sys

from absl import app, flags
from ml_collections import config_flags

from spm_jax.cli import train
from spm_jax.cli.common import quiet_logs
from spm_jax.data.schema import DataError
from spm_jax.train import processes

_CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file; override fields with --config.a.b=c.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder for checkpoints, bundles and results; a run in it goes on.")
_OUT = flags.DEFINE_string("out", None, "Also write the result table (JSON) to this file.")
_COORDINATOR = flags.DEFINE_string("coordinator", None, f"HOST:PORT, {train.COORDINATOR}; see spm train --help.")
_PROCESSES = flags.DEFINE_integer("processes", None, f"{train.PROCESSES}.")
_PROCESS = flags.DEFINE_integer("process", None, f"{train.PROCESS}.")


def main(argv: list[str]) -> None:
    """Entry point; bad data or configuration ends with one line and exit code 2."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected argument {argv[1]!r}")
    quiet_logs()
    try:
        processes.join(_COORDINATOR.value, _PROCESSES.value, _PROCESS.value)
        from spm_jax.train.loop import train_and_evaluate  # only now: the import of bm25s runs JAX on a device

        with processes.first_speaks():
            train_and_evaluate(_CONFIG.value, _WORKDIR.value, _OUT.value)
    except (DataError, OSError) as error:
        sys.exit(_fail(error))


def _fail(error: Exception) -> int:
    print(f"error: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    flags.mark_flags_as_required(["config", "workdir"])
    app.run(main)
