"""Baselines, each ``fit(library, train_requests, seed) -> MenuConstructor`` (evaluation.md, Baselines).

RankGPT, ToolGen and other constructors that need a language model are not here; anything with the same signature can
stand beside these in ``spm eval``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spm_jax.baselines.colt import fit_colt
from spm_jax.baselines.dense import fit_dense, fit_minilm, minilm_space
from spm_jax.baselines.dependency import fit_graph_fusion, fit_iterative, fit_look_ahead, fit_sorted
from spm_jax.baselines.fusion import fit_fused, fit_marginal_relevance, fit_reciprocal_ranks
from spm_jax.baselines.lexical import fit_bm25, fit_extended_bm25, fit_sibling_bm25
from spm_jax.baselines.memory import fit_knn
from spm_jax.baselines.order_only import fit_order_only
from spm_jax.baselines.template import fit_template
from spm_jax.baselines.tool2vec import fit_tool2vec
from spm_jax.baselines.toolrerank import fit_toolrerank
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
    "minilm": fit_minilm,
    "fused": fit_fused,
    "reciprocal_ranks": fit_reciprocal_ranks,
    "marginal_relevance": fit_marginal_relevance,
    "extended_bm25": fit_extended_bm25,
    "sibling_bm25": fit_sibling_bm25,
    "sorted": fit_sorted,
    "knn": fit_knn,
    "tool2vec": fit_tool2vec,
    "colt": fit_colt,
    "toolrerank": fit_toolrerank,
    "transition_walk": fit_transition_walk,
    "template": fit_template,
    "iterative": fit_iterative,
    "graph_fusion": fit_graph_fusion,
    "look_ahead": fit_look_ahead,
    "order_only": fit_order_only,
}


def available(library: Library) -> dict[str, Fit]:
    """``BASELINES`` without those whose extra is not installed."""
    return {name: fit for name, fit in BASELINES.items() if name != "minilm" or minilm_space(library) is not None}
