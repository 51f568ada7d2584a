"""MenuBuilder: requests in, named and explained menus out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from spm_jax import bundle
from spm_jax.bundle import TrainedMenus
from spm_jax.data.fields import canonical_key, input_keys, tool_entity
from spm_jax.data.labels import Role
from spm_jax.data.schema import DataError, Request, ToolId
from spm_jax.device_library import INPUTS
from spm_jax.menu import Menu, Plan, build_menu_jit, order_tools_jit

REQUEST = "request"  # where a visible input comes from


@dataclass(frozen=True)
class Input:
    """A required input of a menu tool. ``source`` is "request", the tool that makes it, or None where nothing does."""

    name: str
    source: str | ToolId | None


@dataclass(frozen=True)
class Item:
    """One tool of a menu."""

    tool: ToolId
    role: Role
    executable: bool  # every required input is visible or made by a tool above
    inputs: tuple[Input, ...]
    score: float  # probability of being on the path, as the reranker sees it

    def record(self) -> dict[str, Any]:
        """The item as JSON values."""
        sources = [
            {"name": i.name, "from": i.source._asdict() if isinstance(i.source, ToolId) else i.source} for i in self.inputs
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
    """Builds menus from a trained bundle. The first menu of a size compiles the program; later ones do not."""

    name = "State-Path"

    def __init__(self, trained: TrainedMenus) -> None:
        self.trained = trained
        self._library, self._memory, self._params = jax.device_put(
            (trained.indexed.arrays, trained.memory, trained.params)
        )

    @classmethod
    def load(cls, folder: str | os.PathLike) -> MenuBuilder:
        """From a bundle folder. Raises CheckpointError, which says what is wrong with it."""
        return cls(bundle.load(folder))

    def _plan(self, k: int) -> Plan:
        if k < 1:
            raise DataError(f"k = {k}: a menu holds at least one tool")
        plan = self.trained.plan
        size = len(self.trained.indexed.arrays.valid)
        return replace(plan, menu=min(k, size), candidates=min(max(plan.candidates, k), size))

    def arrays(self, request: Request, k: int = 32) -> Menu:
        """The menu as host arrays; -1 where a library of fewer than ``k`` tools is exhausted."""
        request_arrays = self.trained.indexed.request(request)
        menu = build_menu_jit(self._plan(k), self._params, self._library, self._memory, request_arrays)
        return jax.device_get(menu)

    def build(self, request: Request, k: int = 32) -> np.ndarray:
        """int [min(k, N)]: the tool ids of the menu in the order shown. Raises DataError for k below 1."""
        tool = self.arrays(request, k).tool
        return tool[tool >= 0]

    def order(self, request: Request, tools: np.ndarray) -> np.ndarray:
        """``tools`` int [n], n at most the frontier's size, in the order that State-Path would show them."""
        given = np.full(self.trained.plan.menu, -1, np.int32) if len(tools) <= self.trained.plan.menu else tools
        given[: len(tools)] = tools
        plan = self._plan(len(given))
        ordered = order_tools_jit(
            plan, self._params, self._library, self._memory, self.trained.indexed.request(request), given
        )
        ordered = np.asarray(ordered)
        return ordered[ordered >= 0]

    def explain(self, request: Request, k: int = 32) -> tuple[Item, ...]:
        """The menu with role, executability and the source of every required input of each tool."""
        menu = self.arrays(request, k)
        library = self.trained.indexed.library
        there = np.flatnonzero(menu.tool >= 0)
        roles = _roles(menu.member[there])
        items = []
        for row in there:
            tool = library[int(menu.tool[row])]
            names = {canonical_key(f.name, tool_entity(tool)): f.name for f in reversed(tool.required)}
            inputs = []
            for slot, key in enumerate(input_keys(tool)[:INPUTS]):
                makers = [i for i in there if i < row and menu.produces[i, row, slot]]
                if not menu.missing[row, slot]:
                    source: str | ToolId | None = REQUEST
                else:
                    source = library[int(menu.tool[makers[0]])].id if makers else None
                inputs.append(Input(names.get(key, key), source))
            score = float(1 / (1 + np.exp(-float(menu.member[row]))))
            items.append(Item(tool.id, roles[row], bool(menu.executable[row]), tuple(inputs), score))
        return tuple(items)


def _roles(member: np.ndarray) -> list[Role]:
    """Roles of tools in the order shown from their log-odds [n]: the tools likelier than not to be on the path are,
    from first to last, entry, bridges and target; at least the likeliest one is."""
    on = member > 0
    if len(member):
        on[member.argmax()] = True
    path = np.flatnonzero(on)
    roles = [Role.BRIDGE if there else Role.EXTRA for there in on]
    if len(path):
        roles[path[0]] = Role.ENTRY
        roles[path[-1]] = Role.TARGET
    return roles


def render(items: Sequence[Item]) -> str:
    """A menu for people: one line a tool, with its role and what each input comes from."""
    lines = []
    for position, item in enumerate(items, 1):
        state = "runs" if item.executable else "waits"
        sources = [
            f"{i.name} <- {i.source.name if isinstance(i.source, ToolId) else i.source or 'MISSING'}" for i in item.inputs
        ]
        lines.append(
            f"{position:3d}  {item.role:<7} {state:<6} {item.tool.family}/{item.tool.name}"
            + (f"  ({', '.join(sources)})" if sources else "")
        )
    return "\n".join(lines)
