"""Where the arrays of a menu lie: the library cut over the mesh axis "library", requests over "data", the rest whole.

One process or several: every process passes the same host arrays and keeps its part of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from spm_jax.data.schema import DataError
from spm_jax.types import DeviceLibrary, Memory, Postings

DATA, LIBRARY = "data", "library"
WHOLE = PartitionSpec()


def menu_mesh(library: int = 1, data: int | None = None, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of ``data`` x ``library`` devices (default: all devices of all processes, those left over to "data").

    Raises DataError where the numbers do not fit the devices.
    """
    devices = jax.devices() if devices is None else list(devices)
    data = len(devices) // library if data is None else data
    if library < 1 or data < 1 or library * data != len(devices):
        raise DataError(f"mesh of data = {data} x library = {library}: there are {len(devices)} devices")
    axes = (AxisType.Auto, AxisType.Auto)
    return jax.make_mesh((data, library), (DATA, LIBRARY), axis_types=axes, devices=devices)


def place(array: Any, mesh: Mesh | None, spec: PartitionSpec = WHOLE) -> jax.Array:
    """``array`` on the devices: on the first one without a mesh, else cut as ``spec`` says."""
    if mesh is None:
        return jax.device_put(array)
    array = np.asarray(array)
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec), lambda part: array[part])


def place_whole(tree: Any, mesh: Mesh | None) -> Any:
    """``tree`` with every leaf whole on every device."""
    return jax.tree.map(lambda leaf: place(leaf, mesh), tree)


def place_requests(tree: Any, mesh: Mesh | None) -> Any:
    """``tree`` with the first axis of every leaf cut over "data"."""
    return jax.tree.map(lambda leaf: place(leaf, mesh, PartitionSpec(DATA)), tree)


def _rows(tree: Any, names: Sequence[str], mesh: Mesh | None) -> Any:
    """A dataclass of arrays: those of ``names`` cut by their first axis over "library", the others whole."""
    placed = {}
    for name, value in ((f.name, getattr(tree, f.name)) for f in dataclasses.fields(tree)):
        if isinstance(value, Postings):
            placed[name] = _rows(value, ("tool", "weight"), mesh)
        elif isinstance(value, int):  # a static field
            placed[name] = value
        else:
            placed[name] = place(value, mesh, PartitionSpec(LIBRARY) if name in names else WHOLE)
    return type(tree)(**placed)


def place_library(library: DeviceLibrary, mesh: Mesh | None) -> DeviceLibrary:
    """The library on the devices, what has a row a tool or an entry a posting cut over "library".

    Raises DataError where the padded number of tools or postings does not divide by the devices of that axis.
    """
    parts = 1 if mesh is None else mesh.shape[LIBRARY]
    for what, array in (
        ("tools", library.valid),
        ("postings", library.lexical.tool),
        ("postings", library.names.tool),
        ("postings", library.producers.tool),
    ):
        if len(array) % parts:
            raise DataError(f"library: {len(array)} padded {what} does not divide by {parts} devices; use a power of 2")
    rows = ("valid", "embedding", "family", "category", "name", "name_words", "inputs", "outputs", "outputs_known")
    return _rows(library, rows, mesh)


def place_memory(memory: Memory, mesh: Mesh | None) -> Memory:
    """The memory on the devices, the place of every tool in it cut over "library"."""
    return _rows(memory, ("slot",), mesh)
