"""Loops over lists of different lengths that lie one after another in flat arrays (posting lists, rows of M)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

Carry = TypeVar("Carry")

BLOCK = 64  # neighbouring places of one list
TOGETHER = 128  # most blocks of a round


def fold_lists(
    start: jax.Array,
    length: jax.Array,
    body: Callable[[Carry, jax.Array, jax.Array, jax.Array], Carry],
    carry: Carry,
) -> Carry:
    """``carry`` after ``body(carry, row, place, there)`` over all places of the lists [L], G blocks of 64 a round.

    List number ``row`` is the slice of ``length`` places from ``start`` in the flat arrays. ``row`` int32 [G, 1] says
    whose places these are, ``place`` int32 [G, 64] where they lie, ``there`` bool [G, 64] is false behind the end of a
    list (and ``place`` 0). The time is that of the places there are, whatever the longest list could be, and the
    shapes, and so the trace, are always the same. By blocks, as to search the list of every single place takes four
    times as long.
    """
    if not len(start):
        return carry
    end = jnp.cumsum((length + BLOCK - 1) // BLOCK)  # [L]: in blocks
    begin = end - (length + BLOCK - 1) // BLOCK

    together = min(TOGETHER, len(end))

    def round_(number: jax.Array, carry: Carry) -> Carry:
        block = number * together + jnp.arange(together, dtype=jnp.int32)
        row = jnp.searchsorted(end, block, side="right", method="compare_all")
        row = jnp.minimum(row, len(end) - 1)[:, None]
        offset = (block[:, None] - begin[row]) * BLOCK + jnp.arange(BLOCK, dtype=jnp.int32)[None]
        there = (offset < length[row]) & (block < end[-1])[:, None]
        return body(carry, row, jnp.where(there, start[row] + offset, 0), there)

    return jax.lax.fori_loop(0, (end[-1] + together - 1) // together, round_, carry)
