"""Path statistics: by hand and against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.data.paths import PathStatistics, called_tools, path_statistics

chains = st.lists(st.sets(st.integers(0, 7), min_size=1, max_size=3).map(sorted), max_size=6)


def table(m: PathStatistics, name: str) -> dict[tuple[int, int], float]:
    """A pair column as {(tool i, tool j): count} without zeros."""
    pairs = zip(m.tools[m.before], m.tools[m.after], getattr(m, name), strict=True)
    return {(int(i), int(j)): float(count) for i, j, count in pairs if count}


def column(m: PathStatistics, name: str) -> dict[int, float]:
    return {int(tool): float(count) for tool, count in zip(m.tools, getattr(m, name), strict=True) if count}


def nonzero(counts) -> dict:
    return {key: float(count) for key, count in counts.items() if count}


def test_counts_by_hand():
    """Two paraphrases of 5 -> 7 -> 9 and one request 7 -> 5: three trajectories, two groups."""
    m = path_statistics([[[5], [7], [9]], [[5], [7], [9]], [[7], [5]]], ["a", "a", "b"], np.array([5, 6, 7, 9]))
    assert column(m, "calls") == {5: 3, 7: 3, 9: 2}
    assert column(m, "groups") == {5: 2, 7: 2, 9: 1}
    assert column(m, "first") == {5: 2, 7: 1}
    assert column(m, "last") == {9: 2, 5: 1}
    assert table(m, "precedes") == {(5, 7): 2, (5, 9): 2, (7, 9): 2, (7, 5): 1}
    assert table(m, "follows") == {(5, 7): 2, (7, 9): 2, (7, 5): 1}
    assert table(m, "together") == {(5, 7): 2, (7, 5): 2, (5, 9): 1, (9, 5): 1, (7, 9): 1, (9, 7): 1}


def test_a_chain_without_order_tells_what_goes_together_and_nothing_of_order():
    golds, groups = [[[5], [7]], [[9], [5], [7]]], ["a", "b"]
    m = path_statistics(golds, groups, np.array([5, 7, 9]), [True, False])
    assert column(m, "calls") == column(m, "groups") == {5: 2, 7: 2, 9: 1}
    assert column(m, "in_order") == {5: 1, 7: 1}
    assert column(m, "first") == {5: 1} and column(m, "last") == {7: 1}
    assert table(m, "precedes") == table(m, "follows") == {(5, 7): 1}
    assert table(m, "together") == {(5, 7): 2, (7, 5): 2, (5, 9): 1, (9, 5): 1, (7, 9): 1, (9, 7): 1}


def test_interchangeable_listings_all_count_and_not_against_each_other():
    m = path_statistics([[[1, 2], [3]]], ["a"], np.array([1, 2, 3]))
    assert column(m, "calls") == {1: 1, 2: 1, 3: 1} and column(m, "first") == {1: 1, 2: 1}
    assert table(m, "precedes") == table(m, "follows") == {(1, 3): 1, (2, 3): 1}


def test_a_tool_called_again_counts_where_it_was_called_first():
    m = path_statistics([[[1], [2], [1, 4], [3]]], ["a"], np.array([1, 2, 3, 4]))
    assert column(m, "calls") == {1: 1, 2: 1, 3: 1, 4: 1}
    assert table(m, "precedes") == {(1, 2): 1, (1, 3): 1, (1, 4): 1, (2, 3): 1, (2, 4): 1, (4, 3): 1}
    assert table(m, "follows") == {(1, 2): 1, (2, 4): 1, (4, 3): 1}


@given(st.lists(st.tuples(chains, st.sampled_from("abc")), max_size=8))
def test_counts_are_the_oracle(data):
    golds, groups = [gold for gold, _ in data], [group for _, group in data]
    expected = reference.Statistics(golds, groups)
    m = path_statistics(golds, groups, np.arange(8))
    for name in ("calls", "first", "last"):
        assert column(m, name) == nonzero(getattr(expected, name)), name
    assert column(m, "groups") == {tool: len(found) for tool, found in expected.groups.items()}
    for name in ("precedes", "follows"):
        assert table(m, name) == nonzero(getattr(expected, name)), name
    both = {(i, j): expected.together(i, j) for i in range(8) for j in range(8) if i != j}
    assert table(m, "together") == nonzero(both)
    key = m.before * 8 + m.after
    assert (np.diff(key) > 0).all()  # sorted, no pair twice


@given(st.lists(st.tuples(chains, st.sampled_from("abc")), max_size=6))
def test_the_tools_listed_and_the_order_of_requests_change_nothing(data):
    golds, groups = [gold for gold, _ in data], [group for _, group in data]
    m = path_statistics(golds, groups, called_tools(golds))
    wide = path_statistics(golds[::-1], groups[::-1], np.arange(12))
    for name in ("calls", "groups", "first", "last"):
        assert column(m, name) == column(wide, name)
    for name in ("precedes", "follows", "together"):
        assert table(m, name) == table(wide, name)


def test_nothing_gives_nothing():
    for m in (path_statistics([], [], np.array([], np.int32)), path_statistics([[]], ["a"], np.array([3]))):
        assert len(m.before) == 0 and not m.calls.any() and not m.groups.any()
    assert called_tools([]).tolist() == [] and called_tools([[[3, 1], [2]], [[1]]]).tolist() == [1, 2, 3]


def test_every_chain_has_a_group():
    with pytest.raises(ValueError):
        path_statistics([[[1]]], [], np.array([1]))
