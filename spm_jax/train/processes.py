"""Several processes as one run, by ``jax.distributed``: all run the same program, and the first alone writes files.

Each process reads the data, prepares features and evaluates on its own first device, which gives the same everywhere;
only the steps of training are cut over the processes (``mesh``). The folder of the run must be one that all can read.
"""

from __future__ import annotations

import contextlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from spm_jax.data.schema import DataError


def join(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Become process ``process`` of ``processes``; all None: a run of one process, nothing is done.

    Must come before anything that touches a device. ``coordinator`` is HOST:PORT of process 0, or "auto". Raises
    DataError where a part is missing or out of range, and where "auto" finds nothing.
    """
    if coordinator == "auto" and processes is None and process is None:
        try:
            jax.distributed.initialize()
        except ValueError as error:
            raise DataError(f"--coordinator auto: {error} JAX found no cluster; give HOST:PORT instead") from None
        return
    given = {"--coordinator": coordinator, "--processes": processes, "--process": process}
    missing = [flag for flag, value in given.items() if value is None]
    if len(missing) == len(given):
        return
    if missing or coordinator == "auto":
        raise DataError(f"{', '.join(given)} belong together ('--coordinator auto' stands alone); missing: {missing}")
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal():
        raise DataError(f"--coordinator {coordinator}: expected HOST:PORT, such as 10.0.0.1:1234")
    if not 0 <= process < processes:
        raise DataError(f"--process {process} of --processes {processes}: processes are numbered from 0")
    jax.distributed.initialize(coordinator, processes, process)


def is_first() -> bool:
    """Whether this process writes the files and speaks."""
    return jax.process_index() == 0


@contextlib.contextmanager
def first_speaks() -> Iterator[None]:
    """What Python prints inside is kept to process 0; exceptions leave as ever."""
    if is_first():
        yield
    else:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield


def barrier(name: str) -> None:
    """Wait until every process is here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def agree(name: str, values: Mapping[str, Any]) -> None:
    """Raise DataError, naming the first key, where JSON ``values`` under the same keys differ between processes."""
    if jax.process_count() == 1:
        return
    keys = sorted(values)
    digests = [zlib.crc32(json.dumps(values[key], sort_keys=True).encode()) for key in keys]
    every = multihost_utils.process_allgather(np.array(digests, np.uint32))  # [processes, keys]
    for key, row in zip(keys, every.T):
        if len(set(row.tolist())) > 1:
            raise DataError(
                f"{name}: processes differ in {key}, here {values[key]!r}; start all with the same configuration and "
                "data, and a working folder that all of them see"
            )
