"""Baselines, each ``fit(library, train_requests, seed) -> MenuConstructor`` (evaluation.md, Baselines).

RankGPT, ToolGen and other constructors that need a language model are not here; anything with the same signature can
stand beside these in ``spm eval``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spm_jax.baselines.dense import fit_dense
from spm_jax.baselines.lexical import fit_bm25, fit_extended_bm25, fit_sibling_bm25
from spm_jax.baselines.memory import fit_knn
from spm_jax.baselines.order_only import fit_order_only
from spm_jax.baselines.template import fit_template
from spm_jax.baselines.transitions import fit_transition_walk
from spm_jax.baselines.trivial import fit_popularity, fit_random
from spm_jax.data.schema import Library, Request
from spm_jax.types import MenuConstructor


class Fit(Protocol):
    """Makes a constructor from a library and training requests; the same arguments give the same menus."""

    def __call__(self, library: Library, train_requests: Sequence[Request], seed: int = 0) -> MenuConstructor: ...


BASELINES: dict[str, Fit] = {
    "random": fit_random,
    "popularity": fit_popularity,
    "bm25": fit_bm25,
    "lsa": fit_dense,
    "extended_bm25": fit_extended_bm25,
    "sibling_bm25": fit_sibling_bm25,
    "knn": fit_knn,
    "transition_walk": fit_transition_walk,
    "template": fit_template,
    "order_only": fit_order_only,
}
