"""Path memory and the Memory's arrays against the oracles; the proof that a group left out leaves nothing."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
import reference
from worlds import DEPTH, RIDGE, SIZE, World, look, make_world, random_weights

from spm_jax.data.schema import Library, Tool
from spm_jax.device_library import index_library
from spm_jax.features import pair_features
from spm_jax.memory import NEIGHBOURS, MemoryBuilder
from spm_jax.text.documents import content_words
from spm_jax.types import Memory

pairs = jax.jit(pair_features)


def by_tool(world: World, memory: Memory) -> dict[int, tuple]:
    """What the memory says of each tool that training used, as plain numbers and neighbours by tool id."""
    tools = {int(slot): tool for tool, slot in enumerate(memory.slot) if slot >= 0}
    out = {}
    for slot, tool in tools.items():
        near = zip(memory.neighbour[slot], memory.neighbour_weight[slot], strict=True)
        near = {tools[int(j)]: float(weight) for j, weight in near if j >= 0}
        out[tool] = (float(memory.calls[slot]), float(memory.groups[slot]), float(memory.first[slot]), near)
    return {tool: values for tool, values in out.items() if values[0]}


def recalls(world: World, memory: Memory, text: str) -> np.ndarray:
    """float64 [library]: path memory of a text, read with a loop over words."""
    vocabulary = world.indexed.vocabulary
    words = [vocabulary.index[word] for word in content_words(text) if word in vocabulary.index]
    distinct = sorted(set(words))
    query = reference.tfidf(distinct, [words.count(word) for word in distinct], vocabulary.idf)
    out = np.zeros(len(world.indexed.library))
    for word in distinct:
        if memory.word_row[word] >= 0:
            for tool in np.flatnonzero(memory.slot[: len(out)] >= 0):
                out[tool] += query[word] * memory.recall[memory.word_row[word], memory.slot[tool]]
    return out


@pytest.mark.parametrize("seed", range(4))
def test_counts_and_neighbours_are_the_oracle(seed):
    world = make_world(seed)
    statistics = world.statistics
    found = by_tool(world, world.memory())
    assert set(found) == {tool for tool, count in statistics.calls.items() if count}
    for tool, (calls, groups, first, near) in found.items():
        assert (calls, first) == (statistics.calls[tool], statistics.first[tool])
        assert groups == len(statistics.groups[tool])
        expected = statistics.neighbours(tool)
        assert near == pytest.approx(expected, rel=1e-6)
        assert list(near) == list(expected)  # most shared first, ties by id


def test_neighbours_are_cut_to_the_most_shared():
    tools = Library(tuple(Tool("f", f"t{n}") for n in range(40)))
    indexed = index_library(tools, 16)
    golds = [tuple((n,) for n in range(40)), ((0,), (39,)), ((0,), (38,)), ((0,), (39,))]
    memory = MemoryBuilder(indexed, [""] * 4, golds, "abcd", np.arange(40), RIDGE).build()
    near = memory.neighbour[0].tolist()
    assert len(near) == NEIGHBOURS and near == [39, 38, *range(1, 31)]
    np.testing.assert_allclose(memory.neighbour_weight[0, :3], np.array([3, 2, 1]) / 4.5)
    np.testing.assert_allclose(memory.neighbour_weight[1], 1 / 1.5)
    assert (memory.neighbour[40:] == -1).all()


def test_pairs_lie_row_after_row():
    world = make_world(0)
    memory = world.memory()
    n = int(memory.pair_length.sum())
    assert (memory.pair[:n] >= 0).all() and (memory.pair[n:] == -1).all()
    assert not memory.precedes[n:].any() and not memory.follows[n:].any()
    assert memory.pair_start.tolist() == [int(memory.pair_length[:slot].sum()) for slot in range(len(memory.calls))]
    used = len(world.used)
    assert memory.tool[:used].tolist() == world.used.tolist() and (memory.tool[used:] == -1).all()
    before = np.repeat(np.arange(len(memory.calls)), memory.pair_length)
    at = {
        (int(memory.tool[i]), int(memory.tool[j])): count
        for i, j, count in zip(before, memory.pair[:n], memory.precedes[:n], strict=True)
    }
    assert {pair: count for pair, count in at.items() if count} == {
        pair: count for pair, count in world.statistics.precedes.items() if count
    }


def test_path_memory_by_hand():
    """One training request: its own text recalls its tool by 1 / (1 + ridge), another text by the cosine's share."""
    library = Library((Tool("f", "rain"), Tool("f", "sun")))
    indexed = index_library(library, 16)
    world = World(indexed, ("rain",), (((1,),),), ("g",), ())
    np.testing.assert_allclose(recalls(world, world.memory(), "rain rain"), [0, 1 / (1 + RIDGE)], rtol=1e-6)
    np.testing.assert_allclose(recalls(world, world.memory(), "rain sun"), [0, 0.5**0.5 / (1 + RIDGE)], rtol=1e-5)
    np.testing.assert_array_equal(recalls(world, world.memory(), "sun"), 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_group_left_out_is_a_group_that_never_was(seed):
    """The no-leak proof: building without a group gives, tool by tool, the memory of the data without it."""
    world = make_world(seed)
    builder = world.builder()
    for group in dict.fromkeys(world.groups):
        left_out, never = builder.build(frozenset([group])), world.without(group).memory()
        got, expected = by_tool(world, left_out), by_tool(world, never)
        assert got.keys() == expected.keys()
        for tool in got:
            assert got[tool][:3] == expected[tool][:3]
            assert got[tool][3] == pytest.approx(expected[tool][3], rel=1e-6)
        for text in (*world.texts, *(request.text for request in world.requests)):
            np.testing.assert_allclose(recalls(world, left_out, text), recalls(world, never, text), atol=1e-5)


@pytest.mark.parametrize("seed", range(2))
def test_features_of_a_request_do_not_change_when_its_group_is_removed(seed):
    """The same at the level of everything the networks see: the frontier and the pair features of training requests."""
    world = make_world(seed)
    builder, weights, arrays = world.builder(), random_weights(seed), world.indexed.arrays
    changed = 0
    for text, group in list(zip(world.texts, world.groups, strict=True))[::2]:
        request = world.indexed.request(dataclasses.replace(world.requests[0], text=text))
        seen = []
        for memory in (builder.build(frozenset([group])), world.without(group).memory(), world.memory()):
            frontier = look(arrays, memory, weights, request, size=SIZE, width=DEPTH)
            columns = pairs(arrays, memory, frontier.tool, frontier.produces, request.visible, frontier.similar)
            seen.append(jax.tree.map(np.asarray, (frontier, columns)))
        left_out, never, leaking = seen
        for got, expected in zip(jax.tree.leaves(left_out), jax.tree.leaves(never), strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-4)
        changed += not np.allclose(left_out[0].prior, leaking[0].prior, atol=1e-3)
    assert changed >= 4  # the group itself would have been seen


def test_one_shape_for_every_subset():
    builder = make_world(0).builder()
    shapes = [
        [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(builder.build(frozenset(excluded)))]
        for excluded in ((), ("g0",), ("g1", "g2"), tuple(f"g{n}" for n in range(6)))
    ]
    assert all(shape == shapes[0] for shape in shapes)


def test_with_everything_left_out_nothing_is_known():
    world = make_world(0)
    memory = world.builder().build(frozenset(world.groups))
    assert by_tool(world, memory) == {}
    assert not memory.recall.any() and not memory.precedes.any() and (memory.neighbour == -1).all()


def test_building_is_deterministic():
    world = make_world(1)
    one, two = world.memory(), world.memory()
    assert [leaf.tobytes() for leaf in jax.tree.leaves(one)] == [leaf.tobytes() for leaf in jax.tree.leaves(two)]
