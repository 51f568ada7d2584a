"""Loops over lists of different lengths, against a plain loop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.features import pair_counts
from spm_jax.ragged import BLOCK, TOGETHER, fold_lists
from spm_jax.types import Memory

PLACES, LISTS = 5000, 6
VALUES = np.random.default_rng(0).integers(-9, 10, PLACES).astype(np.float32)  # whole, so that sums are exact
Lists = tuple[np.ndarray, np.ndarray]


def visited(start: jax.Array, length: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How often each place was there for each list [L, PLACES], and the sum of its values times the list's number."""

    def body(
        carry: tuple[jax.Array, jax.Array], row: jax.Array, place: jax.Array, there: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        assert row.shape == (place.shape[0], 1) and place.shape == there.shape and place.shape[1] == BLOCK
        count, total = carry
        count = count.at[jnp.where(there, row, len(start)), place].add(1, mode="drop")
        return count, total + jnp.sum(jnp.where(there, (row + 1) * jnp.asarray(VALUES)[place], 0.0))

    return fold_lists(start, length, body, (jnp.zeros((len(start), PLACES), jnp.int32), jnp.zeros(())))


def plainly(start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, float]:
    count, total = np.zeros((len(start), PLACES), np.int32), 0.0
    for row, (first, size) in enumerate(zip(start.tolist(), length.tolist())):
        for place in range(first, first + size):
            count[row, place] += 1
            total += (row + 1) * float(VALUES[place])
    return count, total


def assert_visits(found: tuple[jax.Array, jax.Array], start: np.ndarray, length: np.ndarray) -> None:
    count, total = plainly(start, length)
    np.testing.assert_array_equal(found[0], count)
    assert float(found[1]) == total


lengths = st.sampled_from([0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 1000, 3000]) | st.integers(0, 200)


@st.composite
def lists(draw: st.DrawFn) -> Lists:
    """Starts and lengths of lists that may overlap, some of them empty."""
    length = draw(st.lists(lengths, min_size=LISTS, max_size=LISTS))
    start = [draw(st.integers(0, PLACES - size)) for size in length]
    return np.array(start, np.int32), np.array(length, np.int32)


visited_jit = jax.jit(visited)
visited_together = jax.jit(jax.vmap(visited))


@given(lists())
def test_every_place_of_every_list_is_visited_once(given_lists: Lists) -> None:
    assert_visits(visited_jit(*given_lists), *given_lists)


@given(st.lists(lists(), min_size=3, max_size=3))
def test_lists_of_different_totals_under_vmap(several: list[Lists]) -> None:
    found = visited_together(*(np.stack(part) for part in zip(*several)))
    for number, one in enumerate(several):
        assert_visits(jax.tree.map(lambda leaf, number=number: leaf[number], found), *one)


def test_without_jit_it_is_the_same() -> None:
    start, length = np.array([7, 0, 900], np.int32), np.array([BLOCK + 1, 0, 400], np.int32)
    with jax.disable_jit():
        assert_visits(visited(start, length), start, length)
    assert_visits(visited_jit(start, length), start, length)


@pytest.mark.parametrize("long", [0, 1, BLOCK * TOGETHER // 2])
def test_more_lists_than_blocks_of_a_round(long: int) -> None:
    size = 2 * TOGETHER + 3
    length = np.arange(size, dtype=np.int32) % 3
    length[size // 2] = long
    start = (np.arange(size, dtype=np.int32) * 5) % (PLACES - 4200)
    assert_visits(visited_jit(start, length), start, length)


def test_no_lists_and_empty_lists() -> None:
    for size in (0, 1, LISTS):
        nothing = np.zeros(size, np.int32)
        assert_visits(visited_jit(nothing, nothing), nothing, nothing)


def test_one_trace_whatever_the_lengths() -> None:
    traces = []

    @jax.jit
    def counted(start: jax.Array, length: jax.Array) -> tuple[jax.Array, jax.Array]:
        traces.append(1)
        return visited(start, length)

    for length in (0, 5, 4000):
        counted(np.zeros(2, np.int32), np.array([length, 1], np.int32))
    assert len(traces) == 1


def test_tools_without_a_pair_count_nothing() -> None:
    """Memory in which no tool was used: every list is empty, and the tool -1 has none."""
    slots, none = np.full(4, -1, np.int32), np.zeros(2, np.int32)
    zeros = np.zeros(2, np.float32)
    memory = Memory(
        slot=slots, tool=none - 1, calls=zeros, groups=zeros, first=zeros, pair_start=none, pair_length=none,
        pair=none - 1, precedes=zeros, follows=zeros, neighbour=np.full((2, 32), -1, np.int32),
        neighbour_weight=np.zeros((2, 32), np.float32), word_row=none, recall=zeros, extended=zeros,
    )  # fmt: skip
    for counts in jax.jit(pair_counts)(memory, np.array([-1, 0, 3], np.int32)):
        assert not np.asarray(counts).any()
