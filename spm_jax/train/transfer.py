"""The weights of one library on another: every feature is of the new library, and none is of a single tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spm_jax.bundle import TrainedMenus
from spm_jax.data.paths import called_tools, library_golds
from spm_jax.data.schema import DataError, Request
from spm_jax.device_library import IndexedLibrary
from spm_jax.memory import MemoryBuilder


def transfer(
    trained: TrainedMenus, indexed: IndexedLibrary, requests: Sequence[Request] = (), *, menu: int, ridge: float = 1.0
) -> TrainedMenus:
    """``trained`` with another library, and path statistics of ``requests`` over it (none: a cold library).

    ``menu`` is K of its menus, ``ridge`` the penalty of path memory. No weight changes. Raises DataError where the
    text encoders differ: the weights were fitted to the scores of one.
    """
    encoders = [index.encoder.fingerprint if index.encoder else "" for index in (trained.indexed, indexed)]
    if encoders[0] != encoders[1]:
        raise DataError("transfer: the new library was indexed with another text encoder than that of the weights")
    requests = tuple(request for request in requests if request.trajectory.calls)
    golds = library_golds(indexed.library, requests)
    tools = called_tools(golds) if golds else np.array([], np.int32)
    texts, groups = [request.text for request in requests], [request.group for request in requests]
    ordered = [request.trajectory.ordered for request in requests]
    memory = MemoryBuilder(indexed, texts, golds, groups, tools, ridge, ordered).build()
    return replace(
        trained,
        plan=replace(trained.plan, menu=menu, prefix=min(trained.plan.prefix, menu)),
        indexed=indexed,
        memory=memory,
        requests=requests,
    )
