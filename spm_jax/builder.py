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
from spm_jax.data.fields import canonical_key, input_keys, output_keys, tool_entity
from spm_jax.data.labels import Role, path_roles
from spm_jax.data.schema import DataError, Request, Tool, ToolId
from spm_jax.menu import Menu, Plan, build_menu_jit, order_tools_jit

REQUEST = "request"  # where a visible input comes from


@dataclass(frozen=True)
class Input:
    """A required input of a menu tool. ``source`` is "request", the first tool above that makes it, or None.

    A tool above that can run is preferred to one that cannot.
    """

    name: str
    source: str | ToolId | None


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
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise DataError(f"k = {k!r}: expected a whole number of at least 1, the number of tools on the menu")
        k = int(k)
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
        given = np.full(max(len(tools), self.trained.plan.menu), -1, np.int32)
        given[: len(tools)] = tools
        plan = self._plan(len(given))
        ordered = order_tools_jit(
            plan, self._params, self._library, self._memory, self.trained.indexed.request(request), given
        )
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
        sources: dict[str, str | ToolId] = dict.fromkeys(indexed.visible(request), REQUEST)
        promised: dict[str, ToolId] = {}  # what tools above would make if they could run
        items = []
        for tool, role, score in zip(tools, _roles(log_odds), scores):
            needed = input_keys(tool)
            runs = all(key in sources for key in needed)
            names = _written(tool)
            inputs = tuple(Input(names[key], sources.get(key, promised.get(key))) for key in needed)
            items.append(Item(tool.id, role, runs, inputs, float(score)))
            for key in output_keys(tool):
                (sources if runs else promised).setdefault(key, tool.id)
        return tuple(items)


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
            for i in item.inputs
        ]
        lines.append(
            f"{position:3d}  {item.role:<7} {state:<6} {item.tool.family}/{item.tool.name}"
            + (f"  ({', '.join(sources)})" if sources else "")
        )
    return "\n".join(lines)
