"""Menus full of ties, and what each process of tests/test_scale.py runs: COORDINATOR PROCESSES PROCESS FOLDER."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from spm_jax.builder import MenuBuilder
from spm_jax.bundle import TrainedMenus
from spm_jax.data.schema import Library, Request
from spm_jax.menu import Menu
from spm_jax.placement import menu_mesh
from spm_jax.train import processes

K = 12  # tools of a menu
COPIES = 12  # of each tool, alike in all but the signs in their names
WIDE = 120  # the tool after them
KINDS = (
    ("get order", ["customer id"], ["order id"]),
    ("find customer", ["email"], ["customer id"]),
    ("send receipt", ["order id", "email"], ["receipt id"]),
    ("look up invoice", ["receipt id"], ["invoice number"]),
    ("cancel order", ["order id"], ["cancelled"]),
    ("list hotels", ["city"], ["hotel id"]),
    ("book hotel", ["hotel id", "email"], ["booking"]),
    ("current weather", [], ["temperature"]),
    ("translate text", ["text"], ["translation"]),
    ("pay invoice", ["invoice number"], ["payment"]),
)
SEEN = ({"email": "a@b.example"}, {"city": "Rome", "order id": 3}, {})
REQUESTS = tuple(
    Request(f"q{n}", f"please {KINDS[n % 10][0]} then {KINDS[(n + 3) % 10][0]}", state=SEEN[n % 3]) for n in range(9)
)


def copies(name: str) -> list[str]:
    """Names that give the same words."""
    return [("_", "-", " ", ".", "/", ":")[n % 6].join(name.split()) + "!" * (n // 6) for n in range(COPIES)]


@lru_cache
def tied() -> TrainedMenus:
    """121 tools, twelve of a kind in mixed order, a few of which training used; a frontier that cuts through a kind.

    The last is alone of its kind and has more keys than a request usually shows.
    """
    from untrained import recorded, small_plan, tool, untrained

    tools = [
        tool(alike, needs, gives, family=f"shop {number % 4}", about=f"{name} of the shop")
        for number, (name, needs, gives) in enumerate(KINDS)
        for alike in copies(name)
    ]
    wide = tool("export", gives=[f"column {first}{second}" for first in "abcdefghijkl" for second in "abcdefghijkl"])
    library = Library((*(tools[n] for n in np.random.default_rng(0).permutation(WIDE)), wide))
    used = [
        recorded(library, n, [3 * n, 5 * n + 1, 7 * n + 2], f"{KINDS[n][0]} and {KINDS[(3 * n + 1) % 10][0]}")
        for n in range(8)
    ]
    return untrained(library, used, plan=replace(small_plan(K), candidates=40, prefix=8))


def write(path: Path, made: Sequence[Menu]) -> None:
    """Write every array of every menu."""
    np.savez(path, **{f"{n}/{f.name}": getattr(menu, f.name) for n, menu in enumerate(made) for f in fields(menu)})


def read(path: Path) -> list[Menu]:
    """What ``write`` wrote."""
    arrays = dict(np.load(path))
    names = [field.name for field in fields(Menu)]
    return [Menu(**{name: arrays[f"{n}/{name}"] for name in names}) for n in range(len(arrays) // len(names))]


if __name__ == "__main__":
    processes.join(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    write(Path(sys.argv[4]) / f"{sys.argv[3]}.npz", MenuBuilder(tied(), menu_mesh(2)).arrays_many(REQUESTS, K))
