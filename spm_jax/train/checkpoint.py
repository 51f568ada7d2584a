"""Checkpoints: numbered ones of a training run, and bundles from which a menu builder is made again.

Both are a folder of the same form; this is the only file that imports Orbax::

    FOLDER/checkpoint.json     the commit marker, written last and atomically: format, versions, shapes, a SHA-256 of
                               every file, the caller's metadata (JSON), and a SHA-256 over all of this
    FOLDER/data-XXXX/arrays/   the arrays, written by Orbax (no pickle)
    FOLDER/data-XXXX/mapped/   those of a mebibyte and more, as NAME.npy: mapped into memory rather than read, so that a
                               library of a million tools is in memory once, and not twice while it is loaded
    FOLDER/data-XXXX/NAME      further files of a bundle, such as library.jsonl

Writing again into a folder makes a new ``data-`` folder and then replaces the marker, so that at every moment the old
checkpoint or the new one is whole. A folder without a marker is an unfinished save. Arrays are kept as whole host
arrays and are placed when they are read, so a run may go on with another number of devices.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import flax
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

import spm_jax
from spm_jax.data.jsonl import write_atomic
from spm_jax.data.schema import DataError

FORMAT = 2
LARGE = 1 << 20  # bytes
MARKER = "checkpoint.json"


class CheckpointError(DataError):
    """A checkpoint that cannot be used as it is asked to be; the message names the folder and the leaf or version."""


class DamagedError(CheckpointError):
    """A checkpoint that is unfinished, or whose files are not those that were written."""


class CheckpointWarning(UserWarning):
    """A checkpoint was passed over; the message says which and why."""


class Bundle(NamedTuple):
    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]
    files: dict[str, Path]


class Restored(NamedTuple):
    tree: Any
    step: int
    meta: dict[str, Any]


# --- one folder ------------------------------------------------------------------------------------------------------


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _manifest(data: Path) -> dict[str, str]:
    """SHA-256 of every file under ``data``, by its path inside it."""
    manifest = {}
    for path in sorted(data.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                manifest[path.relative_to(data).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return manifest


def _orbax() -> ocp.Checkpointer:
    """Orbax for this process alone; among several it would else wait until all of them save or read the same."""
    own = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(own, {own}, barrier_sync_key_prefix=f"process{own}")
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(multiprocessing_options=alone), multiprocessing_options=alone)


def _is_mapped(shape: tuple[int, ...], dtype: np.dtype) -> bool:
    return dtype.kind in "biuf" and math.prod(shape) * dtype.itemsize >= LARGE


def _mapped_path(data: Path, name: str) -> Path:
    return data / "mapped" / f"{name}.npy"


def save_bundle(
    folder: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    meta: Mapping[str, Any],
    files: Mapping[str, Callable[[Path], None]] | None = None,
) -> None:
    """Write a checkpoint folder atomically, over the one that is there.

    ``arrays``: host arrays of numbers or booleans, any shape, by name. ``meta``: JSON (strings go here). ``files``: for
    each further file its name and a function that writes it to the path which it is given. Raises CheckpointError,
    naming the array, for a dtype that is not numeric, and for metadata that is not JSON.
    """
    folder = Path(folder)
    for name, array in arrays.items():
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        if not isinstance(kind, np.dtype) or not (jnp.issubdtype(kind, jnp.number) or kind == bool):
            raise CheckpointError(f"{folder}: array {name!r} is {kind}, not an array of numbers; put text into meta")
    try:
        meta = json.loads(json.dumps(dict(meta), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{folder}: metadata is not JSON ({error})") from None

    folder.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="data-", dir=folder)).resolve()
    data.chmod(0o755)
    mapped = {name: array for name, array in arrays.items() if _is_mapped(array.shape, array.dtype)}
    for name, array in mapped.items():
        path = _mapped_path(data, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array, allow_pickle=False)
    stored = {name: a for name, a in arrays.items() if a.size and name not in mapped}  # Orbax refuses a size of 0
    if stored:
        with _orbax() as checkpointer:
            checkpointer.save(data / "arrays", args=ocp.args.PyTreeSave(stored))
    for name, write in (files or {}).items():
        if name in ("arrays", "mapped") or Path(name).name != name:
            raise CheckpointError(f"{folder}: {name!r} cannot be the name of a file of a bundle")
        write(data / name)
    content = {
        "data": data.name,
        "arrays": {name: {"shape": list(a.shape), "dtype": a.dtype.name} for name, a in arrays.items()},
        "files": _manifest(data),
        "versions": {"jax": jax.__version__, "flax": flax.__version__, "orbax": ocp.__version__},
        "meta": meta,
    }
    marker = {"format": FORMAT, "spm_jax": spm_jax.__version__, "sha256": _digest(content), "content": content}
    write_atomic(folder / MARKER, [json.dumps(marker, allow_nan=False)])
    for old in folder.glob("data-*"):
        if old.name != data.name:
            shutil.rmtree(old, ignore_errors=True)


def _read_marker(folder: Path) -> dict[str, Any]:
    try:
        marker = json.loads((folder / MARKER).read_text("utf-8"))
    except FileNotFoundError:
        what = "an unfinished save" if folder.is_dir() else "no such folder"
        raise DamagedError(f"{folder}: not a checkpoint, {MARKER} is missing ({what})") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{folder}: damaged, {MARKER} cannot be read ({error})") from None
    if not isinstance(marker, dict) or "format" not in marker:
        raise DamagedError(f"{folder}: damaged, {MARKER} is not the marker of a checkpoint")
    if marker["format"] != FORMAT:
        raise CheckpointError(
            f"{folder}: checkpoint format {marker['format']!r}, written by spm_jax {marker.get('spm_jax', '?')}; this "
            f"is spm_jax {spm_jax.__version__}, which reads format {FORMAT}: use that version, or train again with this"
        )
    content = marker.get("content")
    if not isinstance(content, dict) or marker.get("sha256") != _digest(content):
        raise DamagedError(f"{folder}: damaged, {MARKER} is not what was written (its SHA-256 differs)")
    fields = {"data", "arrays", "files", "versions", "meta"}
    if content.keys() != fields or Path(content["data"]).name != content["data"]:
        raise DamagedError(f"{folder}: {MARKER} is not one that spm_jax wrote")
    return content


def load_bundle(folder: str | os.PathLike) -> Bundle:
    """Read a checkpoint folder, with every file checked.

    Raises DamagedError, naming the file, where it is unfinished or damaged, and CheckpointError, naming both versions,
    where it was written in another format.
    """
    folder = Path(folder)
    content = _read_marker(folder)
    data = folder.resolve() / content["data"]
    found = _manifest(data)
    for name, digest in content["files"].items():
        if found.get(name) != digest:
            what = "has changed since it was written" if name in found else "is missing"
            raise DamagedError(f"{folder}: damaged, {content['data']}/{name} {what}")
    if len(found) > len(content["files"]):
        extra = min(found.keys() - content["files"].keys())
        raise DamagedError(f"{folder}: damaged, {content['data']}/{extra} is not one of its files")

    specs = {name: (tuple(spec["shape"]), np.dtype(spec["dtype"])) for name, spec in content["arrays"].items()}
    mapped = {name for name, spec in specs.items() if _is_mapped(*spec)}
    stored = {
        name: ocp.RestoreArgs(restore_type=np.ndarray)
        for name, (shape, _) in specs.items()
        if 0 not in shape and name not in mapped
    }
    arrays = {}
    if stored:
        try:
            with _orbax() as checkpointer:
                arrays = checkpointer.restore(data / "arrays", args=ocp.args.PyTreeRestore(restore_args=stored))
        except Exception as error:  # Orbax documents no exceptions; the files are whole, so its version is at fault
            wrote, reads = content["versions"]["orbax"], ocp.__version__
            raise CheckpointError(f"{folder}: written by Orbax {wrote}, not read by {reads} ({error})") from error
    for name, spec in specs.items():
        if name in mapped:
            arrays[name] = np.load(_mapped_path(data, name), mmap_mode="r", allow_pickle=False)
        elif name not in stored:
            arrays[name] = np.zeros(*spec)
    files = {name: data / name for name in content["files"] if not name.startswith(("arrays/", "mapped/"))}
    return Bundle({name: arrays[name] for name in specs}, content["meta"], files)


# --- the numbered checkpoints of a run -------------------------------------------------------------------------------


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def host_leaves(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of ``tree`` as host arrays by name ("params/encoder/kernel"); typed PRNG keys as their data."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    raw = {
        jax.tree_util.keystr(path, simple=True, separator="/"): jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for path, leaf in paths
    }
    return {name: np.asarray(leaf) for name, leaf in jax.device_get(raw).items()}


def saved_steps(root: str | os.PathLike) -> list[int]:
    """Steps with a folder under ``root``, ascending, finished or not."""
    root = Path(root)
    return sorted(int(p.name) for p in root.iterdir() if p.name.isdecimal() and p.is_dir()) if root.is_dir() else []


def save(
    root: str | os.PathLike, step: int, leaves: Mapping[str, np.ndarray], meta: Mapping[str, Any], keep: int
) -> None:
    """Write ``root/<step>``; of the others under ``root`` only the newest ``keep`` - 1 finished earlier ones stay.

    Later ones were passed over when this run started, so they are unfinished or damaged.
    """
    root = Path(root)
    save_bundle(root / str(step), leaves, meta)
    steps = saved_steps(root)
    finished = [s for s in steps if s <= step and (root / str(s) / MARKER).exists()]
    for old in set(steps) - set(finished[-max(keep, 1) :]):
        (root / str(old) / MARKER).unlink(missing_ok=True)  # first, so that a half-removed folder counts as unfinished
        shutil.rmtree(root / str(old), ignore_errors=True)


def fill(
    target: Any, leaves: Mapping[str, np.ndarray], where: str, sharding: jax.sharding.Sharding | None = None
) -> Any:
    """``target`` with its leaves replaced by ``leaves``, placed with ``sharding`` (None: as the leaf of ``target`` is).

    Raises CheckpointError, naming ``where`` and the leaf, for a leaf that is missing, left over, or of another shape
    or dtype.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(target)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths]
    for problem, odd in (("is missing", set(names) - set(leaves)), ("is not in this model", set(leaves) - set(names))):
        if odd:
            raise CheckpointError(f"{where}: leaf {min(odd)!r} {problem}: it was saved from another model or config")
    filled = []
    for name, (_, old) in zip(names, paths, strict=True):
        data, new = jax.random.key_data(old) if _is_key(old) else old, leaves[name]
        if np.shape(data) != new.shape or np.dtype(data.dtype) != new.dtype:
            raise CheckpointError(
                f"{where}: leaf {name!r} has shape {new.shape} and dtype {new.dtype}, "
                f"this model wants {np.shape(data)} and {data.dtype}: it was saved from another model or config"
            )
        if sharding is None:
            placed = jax.device_put(new, data.sharding)
        else:  # its devices may be of several processes, each of which has read the same
            placed = jax.make_array_from_process_local_data(sharding, new)
        filled.append(jax.random.wrap_key_data(placed, impl=jax.random.key_impl(old)) if _is_key(old) else placed)
    return jax.tree_util.tree_unflatten(structure, filled)


def restore(root: str | os.PathLike, target: Any, sharding: jax.sharding.Sharding | None = None) -> Restored | None:
    """The newest good checkpoint under ``root``, in the structure of ``target``; None where there is none.

    Unfinished and damaged ones are passed over with a CheckpointWarning; one of another model or format raises
    CheckpointError, as going on from an older one would hide the mistake.
    """
    for step in reversed(saved_steps(root)):
        try:
            bundle = load_bundle(Path(root) / str(step))
        except DamagedError as error:
            warnings.warn(f"{error}; passed over", CheckpointWarning, stacklevel=2)
            continue
        return Restored(fill(target, bundle.arrays, f"{root}/{step}", sharding), step, bundle.meta)
    return None
