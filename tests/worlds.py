"""Small random worlds (library, training requests, memory) for the tests of the compiled program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import numpy as np
from reference import Statistics

from spm_jax.data.schema import Field, Library, Request, Tool
from spm_jax.device_library import IndexedLibrary, index_library
from spm_jax.frontier import Anchor, FrontierWeights, Propagated, select
from spm_jax.memory import MemoryBuilder
from spm_jax.types import Memory

KEYS = ("apple", "river", "stone", "cloud", "tiger", "metal", "piano", "lemon", "horse", "glass")
WORDS = ("weather", "ticket", "invoice", "music", "football", "recipe", "hotel", "currency", "rocket", "garden", "天气")
WIDTH, RIDGE = 16, 0.5  # E of the worlds, and the penalty of their path memory
DEPTH, SIZE = 8, 20  # D and C of their frontiers

look = jax.jit(select, static_argnames=("size", "width"))


@dataclass(frozen=True)
class World:
    indexed: IndexedLibrary
    texts: tuple[str, ...]
    golds: tuple[tuple[tuple[int, ...], ...], ...]
    groups: tuple[str, ...]
    requests: tuple[Request, ...]

    @property
    def used(self) -> np.ndarray:
        return np.array(sorted({tool for gold in self.golds for step in gold for tool in step}), np.int32)

    @property
    def statistics(self) -> Statistics:
        return Statistics(self.golds, self.groups)

    def builder(self) -> MemoryBuilder:
        return MemoryBuilder(self.indexed, self.texts, self.golds, self.groups, self.used, RIDGE)

    def memory(self) -> Memory:
        return self.builder().build()

    def without(self, group: str) -> World:
        """The world whose training data never held ``group``."""
        kept = [n for n, other in enumerate(self.groups) if other != group]
        texts, golds = tuple(self.texts[n] for n in kept), tuple(self.golds[n] for n in kept)
        return World(self.indexed, texts, golds, tuple(self.groups[n] for n in kept), self.requests)


def _text(rng: np.random.Generator, low: int, high: int) -> str:
    return " ".join(rng.choice(WORDS, rng.integers(low, high)))


def make_library(rng: np.random.Generator, tools: int) -> Library:
    """Tools of few families that share names, words and keys; some need nothing, some output nothing that is known."""

    def fields(most: int) -> tuple[Field, ...]:
        names = rng.choice(KEYS, rng.integers(0, most + 1), replace=False)
        return tuple(Field(str(name), required=bool(rng.random() < 0.8)) for name in names)

    made = []
    for n in range(tools):
        outputs = fields(4) if rng.random() < 0.7 else ()
        name = f"get{rng.choice(('Alpha', 'Beta', 'Gamma'))}" if n % 3 else f"do_{rng.choice(WORDS)}_{n}"
        family = f"{n if rng.random() < 0.2 else n % 4}"
        known = bool(outputs) or bool(rng.random() < 0.2)
        made.append(Tool(f"{family}", name, _text(rng, 1, 6), "", fields(3), outputs, known))
    return Library(tuple({tool.id: tool for tool in made}.values()))


def random_weights(seed: int) -> FrontierWeights:
    """Weights with no zero, so that every feature matters."""
    rng = np.random.default_rng(seed)
    anchor, propagated = rng.normal(size=len(Anchor)), rng.normal(size=len(Anchor) + len(Propagated))
    return FrontierWeights(anchor.astype(np.float32), propagated.astype(np.float32))


@lru_cache
def make_world(seed: int, tools: int = 40) -> World:
    rng = np.random.default_rng(seed)
    library = make_library(rng, tools)
    golds, groups, texts = [], [], []
    for n in range(12):
        length = int(rng.integers(0 if n == 11 else 1, 6))
        order = rng.permutation(min(len(library), 20))
        chain = [(int(order[step]),) for step in range(length)]
        if length:
            chain[-1] = tuple(sorted({*chain[-1], int(order[-1])}))  # two listings of one tool
        golds.append(tuple(chain))
        groups.append(f"g{n // 2}")
        texts.append(_text(rng, 2, 8))
    requests = [
        Request(f"r{n}", f"{_text(rng, 1, 9)} unheard", state={str(key): 1 for key in rng.choice(KEYS, n % 4)})
        for n in range(3)
    ]
    requests.append(Request("none", "zzz"))
    return World(index_library(library, WIDTH), tuple(texts), tuple(golds), tuple(groups), tuple(requests))
