"""Data parallelism: parameters on every device, the batch cut along its first axis.

Every crossing from host to device is an explicit ``device_put``, so training runs under
``jax.transfer_guard("disallow")``. The compiler inserts the sums over devices, so a step on one device and on four
computes the same sums and denominators but for the order of the additions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from spm_jax.data.schema import DataError


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh with the one axis "data" over ``devices`` (default: all)."""
    devices = jax.devices() if devices is None else list(devices)
    return jax.make_mesh((len(devices),), ("data",), axis_types=(AxisType.Auto,), devices=devices)


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of what stands whole on every device: parameters, optimizer state, library arrays."""
    return NamedSharding(mesh, PartitionSpec())


def replicate(mesh: Mesh, tree: Any) -> Any:
    """``tree`` with every leaf whole on every device."""
    return jax.device_put(tree, replicated(mesh))


def shard_batch(mesh: Mesh, batch: Any) -> Any:
    """``batch`` with the first axis of every leaf cut over the devices; scalars are replicated.

    Raises DataError, naming the leaf, where the first axis does not divide by the number of devices: pad the batch.
    """
    cut = NamedSharding(mesh, PartitionSpec("data"))

    def sharding(path: tuple, leaf: Any) -> NamedSharding:
        if leaf.ndim == 0:
            return replicated(mesh)
        if leaf.shape[0] % mesh.size:
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            raise DataError(f"batch: {name}: first axis {leaf.shape[0]} does not divide by {mesh.size} devices; pad it")
        return cut

    return jax.device_put(batch, jax.tree_util.tree_map_with_path(sharding, batch))
