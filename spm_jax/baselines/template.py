"""Schema-only template: entry -> bridge -> target, filled from text and schemas without any training path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spm_jax.baselines.lexical import Postings, library_postings
from spm_jax.baselines.scored import filled, top
from spm_jax.data.schema import Library, Request
from spm_jax.data.state import visible_keys
from spm_jax.metrics import Schemas, build_schemas

DEPTH = 2  # a target's producers (bridges) and their producers (entries)


def producers_of(schemas: Schemas) -> dict[str, tuple[int, ...]]:
    """The tools that output each key, ascending."""
    producers: dict[str, list[int]] = defaultdict(list)
    for tool, keys in enumerate(schemas.outputs):
        for key in keys:
            producers[key].append(tool)
    return {key: tuple(tools) for key, tools in producers.items()}


@dataclass(frozen=True)
class Template:
    """Puts the producers of what the best text match lacks in front of it; the rest in BM25 order."""

    documents: Postings
    schemas: Schemas
    producers: dict[str, tuple[int, ...]]
    name: str = "Schema template"

    def build(self, request: Request, k: int) -> np.ndarray:
        """int [min(k, N)]: entries, bridges, the target, then BM25 order."""
        text = self.documents.scores(request.text)
        visible = set(visible_keys(request, self.schemas.known))
        menu: dict[int, None] = {}
        for target in top(text, 1).tolist():
            self._place(target, visible, text, menu, DEPTH)
        return filled(menu, text, k)

    def _place(self, tool: int, state: set[str], text: np.ndarray, menu: dict[int, None], depth: int) -> None:
        """Add the best producer of each missing input, then the tool; ``state`` grows by the outputs of each."""
        missing = sorted(self.schemas.inputs[tool] - state)
        for key in missing if depth else ():
            if key not in state:
                makers = [maker for maker in self.producers.get(key, ()) if maker != tool and maker not in menu]
                if makers:
                    self._place(max(makers, key=lambda maker: (text[maker], -maker)), state, text, menu, depth - 1)
        menu[tool] = None
        state |= self.schemas.outputs[tool]


def fit_template(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Template:
    """The fixed entry-bridge-target template of method.md section 9, from schemas alone.

    The target is BM25's first tool. For every required input that is neither visible nor produced yet, the best text
    match among the tools that output it is placed before it (a bridge), and the same once more for that one (an
    entry). Simplified: one target, exact keys, no alias classes.
    """
    schemas = build_schemas(library)
    return Template(library_postings(library), schemas, producers_of(schemas))
