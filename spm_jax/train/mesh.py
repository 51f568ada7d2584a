"""Data parallelism: parameters on every device, the batch cut along its first axis.

Every crossing from host to device is explicit, so training runs under ``jax.transfer_guard("disallow")``. The compiler
inserts the sums over devices, so a step on one device and on four computes the same sums and denominators but for the
order of the additions. The devices may belong to several processes: each feeds the rows of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from spm_jax.data.schema import DataError


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh with the one axis "data" over ``devices`` (default: all of all processes), process by process."""
    devices = sorted(jax.devices() if devices is None else devices, key=lambda d: (d.process_index, d.id))
    return Mesh(np.array(devices), ("data",), axis_types=(AxisType.Auto,))


def training_mesh(batches: Mapping[str, int]) -> Mesh:
    """The devices that train: all of all processes. ``batches`` are the batch sizes by the name of their setting.

    Raises DataError, naming the setting, for one that does not divide by the number of devices.
    """
    mesh = data_mesh()
    for name, size in batches.items():
        if size % mesh.size:
            raise DataError(
                f"{name} = {size} does not divide by the {mesh.size} devices that train; set it to a multiple of "
                f"{mesh.size}, or hide devices from JAX (CUDA_VISIBLE_DEVICES, JAX_NUM_CPU_DEVICES)"
            )
    return mesh


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of what stands whole on every device: parameters, optimizer state, library arrays."""
    return NamedSharding(mesh, PartitionSpec())


def replicate(mesh: Mesh, tree: Any) -> Any:
    """``tree``, the same in every process, with every leaf whole on every device."""
    return jax.make_array_from_process_local_data(replicated(mesh), tree)


def on_own_device(tree: Any) -> Any:
    """Replicated leaves as they stand on the first device of this process alone; nothing is copied."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)


def own_rows(mesh: Mesh, size: int) -> slice:
    """The rows of a batch of ``size`` rows that this process feeds; ``size`` divides by the number of devices."""
    own = [place for place, device in enumerate(mesh.devices) if device.process_index == jax.process_index()]
    each = size // mesh.size
    return slice(own[0] * each, (own[-1] + 1) * each)


def shard_batch(mesh: Mesh, batch: Any) -> Any:
    """``batch`` with the first axis of every leaf cut over the devices; scalars are replicated.

    A process gives its ``own_rows``. Raises DataError, naming the leaf, where their number does not divide by that of
    its devices: pad the batch.
    """
    devices = len(mesh.local_devices)
    cut = NamedSharding(mesh, PartitionSpec("data"))

    def sharding(path: tuple, leaf: Any) -> NamedSharding:
        if leaf.ndim == 0:
            return replicated(mesh)
        if leaf.shape[0] % devices:
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            raise DataError(f"batch: {name}: first axis {leaf.shape[0]} does not divide by {devices} devices; pad it")
        return cut

    return jax.make_array_from_process_local_data(jax.tree_util.tree_map_with_path(sharding, batch), batch)
