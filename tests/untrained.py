"""Menu builders with random parameters, for tests of what holds whatever was learned."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from experiments.configs import tiny
from spm_jax.builder import MenuBuilder
from spm_jax.bundle import TrainedMenus
from spm_jax.data.paths import called_tools, library_golds
from spm_jax.data.schema import Call, Field, Library, Request, Tool, Trajectory
from spm_jax.device_library import index_library
from spm_jax.memory import MemoryBuilder
from spm_jax.menu import Params, Plan, initial
from spm_jax.train.frontier import start_weights
from spm_jax.train.loop import _plan


def small_plan(menu: int = 32) -> Plan:
    """Published sizes of frontier, menu and prefix; networks that compile in a second."""
    c = tiny.get_config()
    c.menu.size, c.text.width = menu, 16
    c.menu.coverage, c.menu.redundancy = 1.0, 0.1
    c.model.width, c.model.heads, c.model.layers = 16, 2, 1
    return _plan(c)


def untrained(
    library: Library, requests: Sequence[Request] = (), seed: int = 0, plan: Plan | None = None
) -> TrainedMenus:
    """A bundle of ``library`` with the memory of ``requests`` and random networks."""
    plan = plan or small_plan()
    indexed = index_library(library, width=32)
    golds = library_golds(library, requests)
    texts, groups = [r.text for r in requests], [r.group for r in requests]
    memory = MemoryBuilder(indexed, texts, golds, groups, called_tools(golds), ridge=1.0).build()
    rng = np.random.default_rng(seed)
    form = jax.eval_shape(lambda: initial(plan, 0))
    networks = jax.tree.map(lambda leaf: 0.3 * rng.normal(size=leaf.shape).astype(np.float32), form)
    return TrainedMenus(plan, Params(start_weights(), *networks), indexed, memory, tuple(requests), {})


def builder(library: Library, requests: Sequence[Request] = (), seed: int = 0) -> MenuBuilder:
    """A menu builder of ``untrained``."""
    return MenuBuilder(untrained(library, requests, seed))


def tool(name: str, needs: Sequence[str] = (), gives: Sequence[str] = (), family: str = "f", about: str = "") -> Tool:
    """A tool from the names of its required inputs and its outputs."""
    inputs, outputs = tuple(map(Field, needs)), tuple(map(Field, gives))
    return Tool(family, name, about, inputs=inputs, outputs=outputs, outputs_known=bool(outputs))


def recorded(library: Library, number: int, chain: Sequence[int], text: str = "", group: str = "") -> Request:
    """A request whose trajectory calls the tools ``chain``, named by their ids."""
    calls = tuple(Call((library[i].id,)) for i in chain)
    return Request(f"r{number}", text or f"request {number}", group or f"g{number}", trajectory=Trajectory(calls))
