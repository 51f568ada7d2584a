"""Labels of a gold chain: membership, entry, slots, fixed order and roles, by hand and by property."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.data.labels import NO_SLOT, SLOTS, UNKNOWN, Role, fixed_pairs, make_labels, path_roles

NO_FLOW = np.zeros((3, 3), bool)


def test_labels_by_hand():
    """The chain {4, 5} -> 8 -> 2 in a frontier that lacks 8 and is padded."""
    fixed = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0]], bool)
    labels = make_labels(np.array([2, 7, 5, -1, 4]), [(4, 5), (8,), (2,)], fixed)
    assert labels.member.tolist() == [True, False, True, False, True]
    assert labels.entry.tolist() == [False, False, True, False, True]
    assert labels.step.tolist() == [2, -1, 0, -1, 0]
    assert labels.slot.tolist() == [2, NO_SLOT, 0, NO_SLOT, 0]
    assert np.argwhere(labels.precedes).tolist() == [[2, 0], [4, 0]]


def test_of_a_set_only_membership_is_told():
    labels = make_labels(np.array([2, 7, 5, -1]), [(5,), (2,)], np.ones((2, 2), bool), ordered=False)
    assert labels.member.tolist() == [True, False, True, False]
    assert labels.slot.tolist() == [UNKNOWN, NO_SLOT, UNKNOWN, NO_SLOT] and labels.step.tolist() == [-1] * 4
    assert not labels.entry.any() and not labels.precedes.any()


def test_a_tool_listed_twice_has_its_first_step():
    labels = make_labels(np.array([1, 2]), [(1,), (1, 2)], np.ones((2, 2), bool))
    assert labels.step.tolist() == [0, 1]


def test_long_chains_share_the_last_slot():
    labels = make_labels(np.arange(11), [(n,) for n in range(11)], np.zeros((11, 11), bool))
    assert labels.slot.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7] and NO_SLOT == SLOTS == 8
    assert labels.step.tolist() == list(range(11))


def test_no_chain_no_label():
    labels = make_labels(np.array([3, -1]), [], np.zeros((0, 0), bool))
    assert not labels.member.any() and not labels.entry.any() and not labels.precedes.any()
    assert (labels.slot == NO_SLOT).all() and (labels.step == -1).all()


def test_order_that_the_group_agrees_on_is_fixed():
    gold = [(1,), (2,), (3,)]
    upper = np.triu(np.ones((3, 3), bool), 1)
    np.testing.assert_array_equal(fixed_pairs(gold, [gold, [(1,), (3,)]], NO_FLOW), upper)
    swapped = fixed_pairs(gold, [gold, [(2,), (1,), (3,)]], NO_FLOW)  # 1 and 2 stand in both orders
    assert np.argwhere(swapped).tolist() == [[0, 2], [1, 2]]
    listings = fixed_pairs([(1, 9), (2,)], [[(1, 9), (2,)], [(2,), (9,)]], NO_FLOW[:2, :2])
    assert not listings.any()  # 9 is another listing of 1


def test_a_dependency_fixes_what_the_group_does_not():
    gold, other = [(1,), (2,)], [(2,), (1,)]
    flow = np.array([[0, 1], [0, 0]], bool)
    assert np.argwhere(fixed_pairs(gold, [gold, other], flow)).tolist() == [[0, 1]]
    assert not fixed_pairs(gold, [gold, other], flow | flow.T).any()  # each gives the other an input
    assert not fixed_pairs(gold, [gold, other], flow.T).any()  # never against the recorded order


@given(st.permutations(range(5)), st.lists(st.permutations(range(5)), max_size=3))
def test_fixed_pairs_are_those_in_every_order(gold, others):
    group = [[(tool,) for tool in chain] for chain in (gold, *others)]
    fixed = fixed_pairs(group[0], group, np.zeros((5, 5), bool))
    for i in range(5):
        for j in range(5):
            agreed = i < j and all(list(c).index(gold[i]) < list(c).index(gold[j]) for c in (gold, *others))
            assert fixed[i, j] == agreed


@pytest.mark.parametrize(
    ("length", "roles"),
    [(0, ()), (1, ("target",)), (2, ("entry", "target")), (4, ("entry", "bridge", "bridge", "target"))],
)
def test_roles(length, roles):
    assert path_roles(length) == roles and all(isinstance(role, Role) for role in path_roles(length))
