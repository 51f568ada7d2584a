"""Ahead of time: the menu program as one file that is lowered for several platforms and runs without its Python.

method.md section 8. The form of the file::

    spm_jax program FORMAT SHA256      one line; the SHA-256 is that of all that follows
    {"spm_jax": ..., "jax": ..., ...}  one line of JSON: versions, platforms, the numbers that fix the program, the
                                       shape and dtype of every argument by name, and the length of each program
    ...                                the programs, as ``jax.export`` serialises them, one after the other

Everything that is learned and every array of library, memory and request stays an argument, so one file serves all
bundles of the same padded sizes and the same networks. No type of ours is in it: arguments and results are arrays by
name. All operations have stable forms (``top_k`` is a composite), so no check of ``jax.export`` is switched off.

JAX reads what was exported by a version up to 6 months older or 3 weeks newer than itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jax
from jax import export

import spm_jax
from spm_jax.bundle import plan_numbers
from spm_jax.data.jsonl import write_atomic_bytes
from spm_jax.data.schema import DataError
from spm_jax.menu import Menu, Params, Plan, build_menu, build_menu_jit, build_menus, build_menus_jit
from spm_jax.types import DeviceLibrary, Memory, RequestArrays

MAGIC = b"spm_jax program"
FORMAT = 1
PLATFORMS = ("cpu", "cuda", "tpu")  # what a file is made for where nobody says otherwise
KNOWN_PLATFORMS = (*PLATFORMS, "rocm")
PARTS = ("plan", "params", "library", "memory", "request")


def _names(arguments: Sequence[Any]) -> list[str]:
    """The name of each leaf of the arguments of ``build_menu``, in the order of ``jax.tree.leaves``."""
    return [
        f"{part}/{jax.tree_util.keystr(path, simple=True, separator='/')}"
        for part, tree in zip(PARTS, arguments)
        for path, _ in jax.tree_util.tree_leaves_with_path(tree)
    ]


def _forms(arguments: Sequence[Any]) -> dict[str, str]:
    """Dtype and shape of each leaf by name, as "float32[128,64]"."""
    leaves = jax.tree.leaves(arguments)
    return {n: f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]" for n, leaf in zip(_names(arguments), leaves)}


def _fixed(plan: Plan, library: DeviceLibrary) -> dict[str, Any]:
    """The numbers that the program holds as constants."""
    arguments = {field.name for field in fields(Plan) if not field.metadata.get("static")}
    numbers = {name: value for name, value in plan_numbers(plan).items() if name not in arguments}
    return {**numbers, "families": library.families}


def _export(program: Callable[..., Menu], arguments: Sequence[Any], platforms: Sequence[str], batch: int) -> bytes:
    """``program`` of one request (batch 1) or of several, serialised, with arguments and results as {name: array}."""
    names, structure = _names(arguments), jax.tree.structure(arguments)

    def flat(leaves: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return vars(program(*jax.tree.unflatten(structure, [leaves[name] for name in names])))

    *learned, request = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arguments)
    if batch > 1:
        request = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((batch, *leaf.shape), leaf.dtype), request)
    form = dict(zip(names, jax.tree.leaves((*learned, request))))
    return bytes(export.export(jax.jit(flat), platforms=platforms)(form).serialize())


def write_program(
    path: str | os.PathLike,
    plan: Plan,
    params: Params,
    library: DeviceLibrary,
    memory: Memory,
    request: RequestArrays,
    platforms: Sequence[str] = PLATFORMS,
    batches: Sequence[int] = (1,),
) -> None:
    """Write the program for arguments of these shapes, one request at a time and so many at a time as ``batches`` say.

    Atomic. Raises DataError for a platform that JAX does not know.
    """
    unknown = set(platforms) - set(KNOWN_PLATFORMS)
    if unknown or not platforms:
        raise DataError(f"platforms {list(platforms)}: expected some of {', '.join(KNOWN_PLATFORMS)}")
    platforms = list(dict.fromkeys(platforms))
    arguments = (replace(plan, mesh=None), params, library, memory, request)
    programs = {
        batch: _export(build_menu if batch == 1 else build_menus, arguments, platforms, batch)
        for batch in sorted(set(batches))
    }
    header = {
        "spm_jax": spm_jax.__version__,
        "jax": jax.__version__,
        "platforms": platforms,
        "k": plan.menu,
        "fixed": _fixed(plan, library),
        "arguments": _forms(arguments),
        "programs": [{"batch": batch, "bytes": len(program)} for batch, program in programs.items()],
    }
    content = b"".join([json.dumps(header, allow_nan=False).encode(), b"\n", *programs.values()])
    digest = hashlib.sha256(content).hexdigest()
    write_atomic_bytes(path, [MAGIC + f" {FORMAT} {digest}\n".encode(), content])


def _read(path: str | os.PathLike) -> tuple[dict[str, Any], bytes]:
    """Header and programs of a file. Raises DataError where it cannot be read, is damaged, or is of another format."""
    try:
        first, _, content = Path(path).read_bytes().partition(b"\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); `spm export` writes a program") from None
    format_, _, digest = first.removeprefix(MAGIC).strip().decode("ascii", "replace").partition(" ")
    if not first.startswith(MAGIC) or not format_:
        raise DataError(f"{path}: is not a program that `spm export` wrote")
    if format_ != str(FORMAT):
        raise DataError(
            f"{path}: program format {format_}; this is spm_jax {spm_jax.__version__}, which reads format {FORMAT}: "
            "export it again with this version"
        )
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataError(f"{path}: damaged, it is not what was written (its SHA-256 differs); export it again")
    header, _, programs = content.partition(b"\n")
    return json.loads(header), programs


class Program:
    """A file that ``write_program`` wrote, in the place of ``build_menu_jit`` and ``build_menus_jit``.

    What the file does not hold is traced, as without it: requests of more visible keys than it was made for, and
    several at a time where it was made for one (or the reverse). Menus of another number of tools raise DataError.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        """Read and lower the programs; each is compiled at its first call.

        Raises DataError where the file is missing, damaged, of another format, beyond what this JAX reads, or not made
        for the platform that JAX runs on.
        """
        self.path = path
        self._header, rest = _read(path)
        self.k: int = self._header["k"]
        platform = export.default_export_platform()
        if platform not in self._header["platforms"]:
            made = ", ".join(self._header["platforms"])
            raise DataError(f"{path}: made for {made}, this is {platform}; export it again with --platforms {platform}")
        self._calls: dict[tuple[int, ...], Callable[..., Any]] = {}  # by the leading axes of a request
        for entry in self._header["programs"]:
            part, rest = rest[: entry["bytes"]], rest[entry["bytes"] :]
            try:
                exported = export.deserialize(bytearray(part))
                call = jax.jit(exported.call)
                call.lower(*jax.tree.unflatten(exported.in_tree, exported.in_avals)[0])
            except Exception as error:  # JAX documents none; the file is whole, so its version is at fault
                raise DataError(
                    f"{path}: written with jax {self._header['jax']}, not read by {jax.__version__}, which reads what "
                    f"versions up to 6 months older and 3 weeks newer wrote: export it again with this one ({error})"
                ) from None
            self._calls[() if entry["batch"] == 1 else (entry["batch"],)] = call

    def check(self, plan: Plan, params: Params, library: DeviceLibrary, memory: Memory, request: RequestArrays) -> None:
        """Raise DataError, naming what differs, where the program was made for other arguments than these."""
        arguments = (plan, params, library, memory, request)
        own = {**_forms(arguments), **_fixed(plan, library)}
        made = {**self._header["arguments"], **self._header["fixed"]}
        for name in [*made, *own]:
            if own.get(name) != made.get(name):
                raise DataError(
                    f"{self.path}: made for another bundle: {name} is {made.get(name, 'missing')} in the program and "
                    f"{own.get(name, 'missing')} in the bundle; run `spm export` for this one"
                )
        self._names = _names(arguments)
        self._visible = len(request.visible)

    def __call__(
        self, plan: Plan, params: Params, library: DeviceLibrary, memory: Memory, request: RequestArrays
    ) -> Menu:
        """``build_menu``, or ``build_menus`` of requests with a leading axis. Call ``check`` before."""
        if plan.menu != self.k:
            raise DataError(
                f"{self.path}: holds menus of k = {self.k} tools, not {plan.menu}; ask for {self.k}, "
                f"or run `spm export --k {plan.menu}`"
            )
        *batch, keys = request.visible.shape
        call = self._calls.get(tuple(batch))
        if call is None or keys != self._visible:
            return (build_menus_jit if batch else build_menu_jit)(plan, params, library, memory, request)
        return Menu(**call(dict(zip(self._names, jax.tree.leaves((plan, params, library, memory, request))))))

