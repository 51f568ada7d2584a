"""The floor: bytes that a menu must read and flops that it must do, and the time that this machine needs for them.

Counted from shapes: every array that the score of every tool needs is read once, the posting lists and rows of the
request's words, the rows of the frontier, the parameters; the flops are those of the products of matrices. A program
that overlaps reading and computing perfectly takes at least the larger of the two times; one that does not, their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import numpy as np

from spm_jax.menu import Params, Plan
from spm_jax.types import DeviceLibrary, Frontier, Memory, MenuInputs, RequestArrays


def matmul_flops(function: Callable[..., Any], *arguments: Any) -> int:
    """Flops of every product of matrices in ``function``, from its jaxpr: two for each multiplication and addition.

    A scan counts as often as it runs, a branch or a loop of unknown length once.
    """
    return _count(jax.make_jaxpr(function)(*arguments).jaxpr)


def _count(jaxpr: Any) -> int:
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            total += 2 * prod(equation.outvars[0].aval.shape) * prod(shape[axis] for axis in contracted)
        repeats = equation.params["length"] if equation.primitive.name == "scan" else 1
        total += repeats * sum(_count(inner) for inner in _inner(equation.params.values()))
    return total


def _inner(values: Any) -> list[Any]:
    """The jaxprs among the parameters of an equation."""
    found = []
    for value in values:
        if isinstance(value, (tuple, list)):
            found += _inner(value)
        elif hasattr(value, "jaxpr"):  # closed
            found.append(value.jaxpr)
        elif hasattr(value, "eqns"):
            found.append(value)
    return found


def networks(plan: Plan, params: Params, candidates: Frontier, menu: MenuInputs) -> tuple[Any, Any]:
    """Both networks of one request, nothing else."""
    return plan.retriever.apply(params.retriever, candidates), plan.reranker.apply(params.reranker, menu)


def network_flops(plan: Plan, candidates: Frontier, menu: MenuInputs, params: Params) -> dict[str, int]:
    """Flops of each network for one request."""
    return {
        "retriever": matmul_flops(plan.retriever.apply, params.retriever, candidates),
        "reranker": matmul_flops(plan.reranker.apply, params.reranker, menu),
    }


def compiled_flops(compiled: Any) -> float:
    """Flops as XLA counts them for a compiled program, elementwise ones too; 0 where it does not tell."""
    analysis = compiled.cost_analysis()
    analysis = analysis[0] if isinstance(analysis, list) else analysis
    return float((analysis or {}).get("flops", 0.0))


def menu_bytes(
    plan: Plan, params: Params, library: DeviceLibrary, memory: Memory, requests: Sequence[RequestArrays]
) -> dict[str, int]:
    """Bytes that one menu reads at least, by what they are; the mean over ``requests`` where it depends on words."""
    length = np.asarray(library.lexical.length) + np.asarray(library.names.length)
    known = np.asarray(memory.word_row)
    word = library.projection.nbytes // len(library.projection)
    posting = library.lexical.tool.dtype.itemsize + library.lexical.weight.dtype.itemsize
    rows = (memory.recall.nbytes + memory.extended.nbytes) // len(memory.recall)
    words = [np.asarray(request.words)[np.asarray(request.words) >= 0] for request in requests]
    each_tool = (library.embedding, library.inputs, library.outputs, library.name_words)
    return {
        "every tool": library.valid.nbytes + library.embedding.nbytes + library.family.nbytes,
        "postings": int(np.mean([length[w].sum() for w in words])) * posting,
        "words": int(np.mean([len(w) * word + np.sum(known[w] >= 0) * rows for w in words])),
        "frontier": plan.candidates * sum(array.nbytes // len(array) for array in each_tool),
        "networks": sum(leaf.nbytes for leaf in jax.tree.leaves(params)),
    }


def floor(
    measured_ms: float, bytes_read: dict[str, int], flops: dict[str, int], copy_gb_s: float, matmul_gflop_s: float
) -> dict[str, Any]:
    """The floor of one menu beside its measured time. ``copy_gb_s`` counts reading and writing."""
    reading = sum(bytes_read.values()) / copy_gb_s / 1e6
    computing = sum(flops.values()) / matmul_gflop_s / 1e6
    return {
        "bytes": bytes_read,
        "flops": flops,
        "read_ms": reading,
        "compute_ms": computing,
        "overlapped_ms": max(reading, computing),
        "in_turn_ms": reading + computing,
        "measured_over_overlapped": measured_ms / max(reading, computing),
        "measured_over_in_turn": measured_ms / (reading + computing),
    }
