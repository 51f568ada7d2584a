"""The losses by hand arithmetic, under masks and at extremes; their gradients are finite."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spm_jax import losses

LN = np.log
EXTREME = np.array([-1e9, -1e4, -50.0, 0.0, 50.0, 1e4, 1e9], np.float32)


def pair(result):
    return [float(part) for part in result]


def softplus(x):
    return np.logaddexp(0, x)


def test_binary_by_hand():
    logits, labels = jnp.array([0.0, 2.0, -1.0]), jnp.array([True, False, True])
    total, weight = pair(losses.binary(logits, labels, jnp.array([1.0, 0.5, 2.0])))
    assert total == pytest.approx(LN(2) + 0.5 * softplus(2.0) + 2 * softplus(1.0), rel=1e-6) and weight == 3.5
    assert pair(losses.binary(logits, labels, jnp.zeros(3))) == [0, 0]


def test_choice_by_hand():
    logits = jnp.log(jnp.array([1.0, 2.0, 5.0, 9.0]))
    where = jnp.array([True, True, True, False])
    label = jnp.array([True, False, False, False])
    assert pair(losses.choice(logits, label, where)) == pytest.approx([LN(8), 1], rel=1e-6)
    two = jnp.array([True, True, False, True])  # the last one is masked and does not count
    assert pair(losses.choice(logits, two, where)) == pytest.approx([LN(8 / 3), 1], rel=1e-6)
    only_masked = jnp.array([False, False, False, True])
    for nothing in (only_masked, jnp.zeros(4, bool)):
        assert pair(losses.choice(logits, nothing, where)) == [0, 0]
    assert pair(losses.choice(logits, label, jnp.zeros(4, bool))) == [0, 0]


def test_slots_by_hand():
    logits = jnp.log(jnp.array([[1.0, 3.0], [1.0, 1.0]]))
    assert pair(losses.slots(logits, jnp.array([1, 0]), jnp.array([1.0, 0.5]))) == pytest.approx(
        [LN(4 / 3) + 0.5 * LN(2), 1.5], rel=1e-6
    )
    assert pair(losses.slots(logits, jnp.array([1, 0]), jnp.zeros(2))) == [0, 0]
    unknown = losses.slots(logits, jnp.array([-1, 0]), jnp.array([1.0, 0.5]))
    assert pair(unknown) == pytest.approx([0.5 * LN(2), 0.5], rel=1e-6)


def test_precedence_by_hand():
    logits = jnp.array([[0.0, 2.0], [-2.0, 0.0]])
    before = jnp.array([[False, True], [False, False]])
    assert pair(losses.precedence(logits, before)) == pytest.approx([softplus(-2.0), 1], rel=1e-6)
    assert pair(losses.precedence(logits, before.T)) == pytest.approx([softplus(2.0), 1], rel=1e-6)
    assert pair(losses.precedence(logits, jnp.zeros((2, 2), bool))) == [0, 0]


def test_negatives_by_hand():
    member = jnp.array([5.0, 4.0, 3.0, 2.0, 1.0, 9.0, 8.0])
    lexical = jnp.array([0.9, 0.1, 0.2, 0.8, 0.0, 0.7, 1.0])
    labels = jnp.array([True, False, False, False, False, False, False])
    valid = jnp.array([True] * 6 + [False])
    kinds = losses.negatives(member, lexical, labels, valid, menu=2, count=2)
    assert np.flatnonzero(kinds["frontier"]).tolist() == [1, 2, 3, 4, 5]
    assert np.flatnonzero(kinds["hard"]).tolist() == [3, 5]
    # Off the path by member: 5, 1, 2, 3, 4; ranks 1 to 3 are around the second place.
    assert np.flatnonzero(kinds["boundary"]).tolist() == [1, 2, 3]
    everything = losses.negatives(member, lexical, jnp.ones(7, bool), valid, menu=2, count=2)
    assert not any(bool(mask.any()) for mask in everything.values())


def test_boundary_margin_by_hand():
    member, labels = jnp.array([1.0, 5.0, 4.0, 3.0]), jnp.array([True, False, False, False])
    valid = jnp.ones(4, bool)
    assert pair(losses.boundary_margin(member, labels, valid, menu=2)) == pytest.approx([softplus(3.0), 1], rel=1e-6)
    assert pair(losses.boundary_margin(member, labels, ~valid, menu=2)) == [0, 0]
    total, count = pair(
        losses.boundary_margin(member, labels, valid, menu=32)
    )  # fewer tools than places: no one is cut
    assert total == pytest.approx(0) and count == 1


def path(gold, weights, entry=None, slot=None, logits=None, visible=False, valid=(True, True, True)):
    """Three tools; tool 0 gives the one input of tool 1; tool 2 needs nothing."""
    produces = jnp.zeros((3, 3, 1), bool).at[0, 1, 0].set(True)
    required = jnp.array([[False], [True], [False]])
    return losses.path(
        jnp.zeros(3) if entry is None else entry,
        jnp.zeros((3, 8)) if slot is None else slot,
        jnp.zeros((3, 3)) if logits is None else logits,
        jnp.array(weights),
        produces,
        required,
        required & (not visible),
        jnp.array(valid),
        jnp.array(gold),
    )


def test_path_by_hand():
    only_readiness = (0.0, 0.0, 0.0, 1.0)
    # First step: scores 1, 0, 1; then tool 1 is ready: 1, 1.
    first = LN(2 * np.e + 1) - 1
    assert pair(path([0, 1, -1], only_readiness)) == pytest.approx([first + LN(2), 2], rel=1e-6)
    # Called first, tool 1 is the unlikeliest; with its input visible all three are alike.
    assert pair(path([1, -1, -1], only_readiness)) == pytest.approx([LN(2 * np.e + 1), 1], rel=1e-6)
    assert pair(path([1, -1, -1], only_readiness, visible=True)) == pytest.approx([LN(3), 1], rel=1e-6)
    # The entry counts in the first step alone.
    entry = jnp.log(jnp.array([0.5, 0.25, 0.25]))
    assert pair(path([0, 2, -1], (1.0, 0.0, 0.0, 0.0), entry=entry)) == pytest.approx([LN(2) + LN(2), 2], rel=1e-6)
    # Precedence is the mean over the other unplaced tools.
    logits = jnp.array([[0.0, 2.0, 4.0], [-2.0, 0.0, 0.0], [-4.0, 0.0, 0.0]])
    expected = LN(np.exp(3) + np.exp(-1) + np.exp(-2)) - 3
    assert pair(path([0, -1, -1], (0.0, 0.0, 1.0, 0.0), logits=logits)) == pytest.approx([expected, 1], rel=1e-5)
    assert pair(path([-1, -1, -1], only_readiness)) == [0, 0]
    assert pair(path([2, -1, -1], only_readiness, valid=(False, False, True)))[0] == pytest.approx(0, abs=1e-6)


CASES = {
    "binary": lambda x: losses.binary(x, jnp.arange(7) % 2 == 0, jnp.ones(7)),
    "binary, masked": lambda x: losses.binary(x, jnp.arange(7) % 2 == 0, jnp.zeros(7)),
    "choice": lambda x: losses.choice(x, jnp.arange(7) == 0, jnp.ones(7, bool)),
    "choice, masked": lambda x: losses.choice(x, jnp.arange(7) == 0, jnp.zeros(7, bool)),
    "choice, no label": lambda x: losses.choice(x, jnp.zeros(7, bool), jnp.ones(7, bool)),
    "slots": lambda x: losses.slots(jnp.stack([x, -x]), jnp.array([0, 3]), jnp.ones(2)),
    "slots, masked": lambda x: losses.slots(jnp.stack([x, -x]), jnp.array([0, 3]), jnp.zeros(2)),
    "margin": lambda x: losses.boundary_margin(x, jnp.arange(7) < 2, jnp.ones(7, bool), menu=3),
    "margin, masked": lambda x: losses.boundary_margin(x, jnp.arange(7) < 2, jnp.zeros(7, bool), menu=3),
    "margin, no path": lambda x: losses.boundary_margin(x, jnp.zeros(7, bool), jnp.ones(7, bool), menu=3),
    "precedence": lambda x: losses.precedence(x[:, None] - x[None, :], jnp.tri(7, k=-1) > 0),
    "precedence, masked": lambda x: losses.precedence(x[:, None] - x[None, :], jnp.zeros((7, 7), bool)),
    "path": lambda x: path([0, 1, 2], (1.0, 1.0, 1.0, 1.0), entry=x[:3], slot=x[:3, None] * jnp.ones((1, 8))),
    "path, masked": lambda x: path([-1, -1, -1], (1.0, 1.0, 1.0, 1.0), entry=x[:3], valid=(False, False, False)),
}


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_finite_at_extremes(name):
    function = jax.jit(jax.value_and_grad(lambda x: CASES[name](x)[0]))
    for scores in (EXTREME, EXTREME[::-1].copy(), np.zeros(7, np.float32), np.full(7, -1e9, np.float32)):
        value, gradient = function(scores)
        assert np.isfinite(value) and value >= 0 and np.isfinite(gradient).all(), (name, scores, value, gradient)
        if "masked" in name or "no" in name.split(", ")[-1].split():
            assert value == 0 and not np.asarray(gradient).any()


def test_the_order_of_the_batch_and_padding_do_not_matter():
    rng = np.random.default_rng(0)
    logits, labels = jnp.array(rng.normal(size=9).astype(np.float32)), jnp.array(rng.random(9) < 0.5)
    weight = jnp.array([1.0] * 6 + [0.0] * 3)
    whole = pair(losses.binary(logits, labels, weight))
    assert whole == pytest.approx(pair(losses.binary(logits[:6], labels[:6], weight[:6])), rel=1e-6)
    back = jnp.arange(9)[::-1]
    assert whole == pytest.approx(pair(losses.binary(logits[back], labels[back], weight[back])), rel=1e-6)
