"""MenuBuilder: requests in, named and explained menus out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from spm_jax import bundle, compiled
from spm_jax.bundle import TrainedMenus
from spm_jax.data.fields import canonical_key, input_keys, path_keys, tool_entity
from spm_jax.data.labels import Role, path_roles
from spm_jax.data.schema import DataError, Request, Tool, ToolId
from spm_jax.export import PLATFORMS, Program, write_program
from spm_jax.menu import (
    Menu,
    Params,
    Plan,
    build_menu,
    build_menu_jit,
    build_menus,
    build_menus_jit,
    order_tools,
    order_tools_jit,
)
from spm_jax.placement import DATA, WHOLE, place, place_library, place_memory, place_requests, place_whole
from spm_jax.types import DeviceLibrary, Memory, RequestArrays

REQUEST = "request"  # where a visible input comes from
NOTHING = Request("nothing", "")  # for what depends on the shapes of a request only
TOGETHER = 8  # requests of one call of the program, a device
READ = 256  # requests whose text is read, and encoded, at a time


@dataclass(frozen=True)
class Input:
    """A required input of a menu tool. ``source`` is "request", the first tool above that makes it, or None.

    A tool above that can run is preferred to one that cannot, and a field of the same key to one that fills it.
    """

    name: str
    source: str | ToolId | None
    field: str = ""  # where another key fills it (data/aliases.py): the source's name for it


@dataclass(frozen=True)
class Item:
    """One tool of a menu."""

    tool: ToolId
    role: Role
    executable: bool  # every required input is visible or made by an executable tool above
    inputs: tuple[Input, ...]
    score: float  # probability of being on the path, as the reranker sees it

    def record(self) -> dict[str, Any]:
        """The item as JSON values."""
        sources = [
            {"name": i.name, "from": i.source._asdict() if isinstance(i.source, ToolId) else i.source}
            | ({"field": i.field} if i.field else {})
            for i in self.inputs
        ]
        return {
            "family": self.tool.family,
            "name": self.tool.name,
            "role": str(self.role),
            "executable": self.executable,
            "inputs": sources,
            "score": round(self.score, 4),
        }


class MenuBuilder:
    """Builds menus from a trained bundle; safe to share between threads.

    The first menu of a size compiles the program (``warm_up`` does it ahead of time), later ones do not.
    """

    name = "State-Path"

    def __init__(self, trained: TrainedMenus, mesh: Mesh | None = None, program: Program | None = None) -> None:
        """Menus of ``trained``, with library and requests cut over a ``placement.menu_mesh``, or on one device.

        ``program`` builds them in the place of the traced one; it is for one device.
        """
        plan, indexed = trained.plan, trained.indexed
        weights = {name: np.float32(getattr(plan, name)) for name in ("coverage", "redundancy", "hedge", "order")}
        self.trained = replace(
            trained,
            plan=replace(plan, mesh=mesh, **place_whole(weights, mesh)),
            params=place_whole(trained.params, mesh),
            indexed=replace(indexed, arrays=place_library(indexed.arrays, mesh)),
            memory=place_memory(trained.memory, mesh),
        )
        self.mesh = mesh
        self._one, self._many, self._order = build_menu_jit, build_menus_jit, order_tools_jit
        if mesh is not None:  # every device, and so every process, gets every menu
            whole = NamedSharding(mesh, WHOLE)
            self._one, self._many, self._order = (
                jax.jit(function, out_shardings=whole) for function in (build_menu, build_menus, order_tools)
            )
        if program is not None:
            if mesh is not None:
                raise DataError(f"{program.path}: runs on one device; leave out the program or the mesh")
            program.check(self._plan(program.k), *self._learned, self._request(NOTHING))
            self._one = self._many = program

    @classmethod
    def load(
        cls, folder: str | os.PathLike, mesh: Mesh | None = None, program: str | os.PathLike | None = None
    ) -> MenuBuilder:
        """From a bundle folder; compiled programs are kept on disk from one process to the next (``compiled.keep``).

        With the file ``program`` that ``export`` wrote, the model code is not traced again. Its menus are of the k
        that it was written for; another k raises DataError. ``order``, and what ``export.Program`` says the file does
        not hold, is traced all the same.

        Raises CheckpointError, which says what is wrong with the bundle, and DataError, which says what is wrong with
        the program, or how it differs from the bundle.
        """
        compiled.keep()
        if program is None:
            return cls(bundle.load(folder), mesh)
        ready = Program(program)
        return cls(bundle.load(folder, trace=False), mesh, ready)

    def export(
        self,
        path: str | os.PathLike,
        k: int = 32,
        platforms: Sequence[str] = PLATFORMS,
        batches: Sequence[int] = (1, TOGETHER),
    ) -> None:
        """Write the program for menus of ``k`` tools to ``path``: for ``build``, ``build_many`` or both (batch 1, 8).

        Raises DataError for k below 1, an unknown platform, and another batch.
        """
        if not batches or not {1, TOGETHER}.issuperset(batches):
            raise DataError(f"batches {list(batches)}: expected 1, {TOGETHER} or both")
        write_program(path, self._plan(k), *self._learned, self._request(NOTHING), platforms, batches)

    def warm_up(self, k: int = 32) -> None:
        """Compile the programs for one request and for many, so that no later menu of ``k`` tools waits for it."""
        self.build(NOTHING, k)
        self.build_many([NOTHING] * 2, k)

    def _plan(self, k: int) -> Plan:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise DataError(f"k = {k!r}: expected a whole number of at least 1, the number of tools on the menu")
        k = int(k)
        plan = self.trained.plan
        size = len(self.trained.indexed.arrays.valid)
        return replace(plan, menu=min(k, size), candidates=min(max(plan.candidates, k), size))

    @property
    def _learned(self) -> tuple[Params, DeviceLibrary, Memory]:
        return self.trained.params, self.trained.indexed.arrays, self.trained.memory

    def _request(self, request: Request) -> RequestArrays:
        arrays = self.trained.indexed.request(request)
        return arrays if self.mesh is None else place_whole(arrays, self.mesh)

    def arrays(self, request: Request, k: int = 32) -> Menu:
        """The menu as host arrays; -1 where a library of fewer than ``k`` tools is exhausted."""
        return jax.device_get(self._one(self._plan(k), *self._learned, self._request(request)))

    def arrays_many(self, requests: Sequence[Request], k: int = 32) -> list[Menu]:
        """The menus of ``requests``, in order, as host arrays.

        They are built ``TOGETHER`` at a time for each device of the axis "data": more would no longer fit the caches of
        a processor. The next requests are read while the device builds.
        """
        plan = self._plan(k)
        size = TOGETHER * (1 if self.mesh is None else self.mesh.shape[DATA])
        running = []
        for start in range(0, len(requests), READ):
            read = self.trained.indexed.requests(requests[start : start + READ])
            for first in range(0, len(read), size):
                part = read[first : first + size]
                kept = len(part)
                part += part[-1:] * (size - kept)  # of more visible keys in one, all take the larger bucket
                longest = max(len(arrays.visible) for arrays in part)
                stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *(_wider(arrays, longest) for arrays in part))
                running.append((self._many(plan, *self._learned, place_requests(stacked, self.mesh)), kept))
        done = ((jax.device_get(batch), kept) for batch, kept in running)
        return [jax.tree.map(lambda leaf: leaf[row], batch) for batch, kept in done for row in range(kept)]

    def build(self, request: Request, k: int = 32) -> np.ndarray:
        """int [min(k, N)]: the tool ids of the menu in the order shown. Raises DataError for k below 1."""
        tool = self.arrays(request, k).tool
        return tool[tool >= 0]

    def build_many(self, requests: Sequence[Request], k: int = 32) -> list[np.ndarray]:
        """``build`` of every request, in less than half the time."""
        return [menu.tool[menu.tool >= 0] for menu in self.arrays_many(requests, k)]

    def order(self, request: Request, tools: np.ndarray) -> np.ndarray:
        """``tools`` int [n], n at most the frontier's size, in the order that State-Path would show them."""
        given = np.full(max(len(tools), self.trained.plan.menu), -1, np.int32)
        given[: len(tools)] = tools
        plan = self._plan(len(given))
        ordered = self._order(plan, *self._learned, self._request(request), place(given, self.mesh))
        ordered = np.asarray(ordered)
        return ordered[ordered >= 0]

    def explain(self, request: Request, k: int = 32) -> tuple[Item, ...]:
        """The menu with role, executability and the source of every required input of each tool.

        Sources are looked up among all keys of the tools, also those beyond the slots that the program has for a tool.
        """
        menu = self.arrays(request, k)
        indexed = self.trained.indexed
        tools = [indexed.library[int(tool)] for tool in menu.tool[menu.tool >= 0]]
        log_odds = menu.member[: len(tools)].astype(float)
        scores = 1 / (1 + np.exp(-np.clip(log_odds, -500, 500)))
        fills = indexed.aliases.fills
        sources, promised = _Sources(fills), _Sources(fills)  # promised: what tools above would make if they could run
        sources.add(REQUEST, {key: key for key in sorted(indexed.visible(request))})
        items = []
        for tool, role, score in zip(tools, _roles(log_odds), scores):
            needed = input_keys(tool)
            runs = all(map(sources.find, needed))
            names = _written(tool)
            found = ((key, sources.find(key) or promised.find(key) or (None, "")) for key in needed)
            inputs = tuple(Input(names[key], *source) for key, source in found)
            items.append(Item(tool.id, role, runs, inputs, float(score)))
            (sources if runs else promised).add(tool.id, _output_names(tool))
        return tuple(items)


def _wider(arrays: RequestArrays, longest: int) -> RequestArrays:
    more = longest - len(arrays.visible)
    return replace(arrays, visible=np.pad(arrays.visible, (0, more), constant_values=-1)) if more else arrays


class _Sources:
    """Which source gives each key, the first one first; a key of its own comes before one that fills it by alias."""

    def __init__(self, fills: Mapping[str, Sequence[str]]) -> None:
        self._fills = fills
        self._own: dict[str, tuple[str | ToolId, str]] = {}
        self._filled: dict[str, tuple[str | ToolId, str]] = {}

    def add(self, source: str | ToolId, names: Mapping[str, str]) -> None:
        """``names``: the keys that ``source`` gives, and how it writes each."""
        for key, name in names.items():
            self._own.setdefault(key, (source, ""))
            for filled in self._fills.get(key, ()):
                self._filled.setdefault(filled, (source, name))

    def find(self, key: str) -> tuple[str | ToolId, str] | None:
        """The source of a key, and the name of the field that fills it by alias ("" where it is the key's own)."""
        return self._own.get(key) or self._filled.get(key)


def _output_names(tool: Tool) -> dict[str, str]:
    """The name of the output that gives each key."""
    entity = tool_entity(tool)
    return {key: f.name for f in reversed(tool.outputs) for key in path_keys(f.name, entity)}


def _written(tool: Tool) -> dict[str, str]:
    """The name of the required input that gives each key."""
    entity = tool_entity(tool)
    return {canonical_key(f.name, entity): f.name for f in reversed(tool.required)}


def _roles(member: np.ndarray) -> list[Role]:
    """Roles of tools in the order shown from their log-odds [n] of being on the path.

    As many tools as the probabilities add up to, at least one, are taken for the path: the likeliest, and the first of
    them is the entry, the last the target.
    """
    expected = round(float(np.sum(1 / (1 + np.exp(-np.clip(member, -500, 500))))))
    path = np.sort(np.argsort(-member, kind="stable")[: max(1, expected)])
    roles = [Role.EXTRA] * len(member)
    for place, role in zip(path, path_roles(len(path))):
        roles[place] = role
    return roles


def render(items: Sequence[Item]) -> str:
    """A menu for people: one line a tool, with its role and what each input comes from."""
    lines = []
    for position, item in enumerate(items, 1):
        state = "runs" if item.executable else "waits"
        sources = [
            f"{i.name} <- {i.source.name if isinstance(i.source, ToolId) else i.source or 'MISSING'}"
            + (f": {i.field}" if i.field else "")
            for i in item.inputs
        ]
        lines.append(
            f"{position:3d}  {item.role:<7} {state:<6} {item.tool.family}/{item.tool.name}"
            + (f"  ({', '.join(sources)})" if sources else "")
        )
    return "\n".join(lines)
