"""Retriever and reranker: sizes, antisymmetry, masks, equivariance and finite gradients."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spm_jax.features import Node, Pair, Relation
from spm_jax.models.reranker import Reranker
from spm_jax.models.retriever import RELATIONS, Retriever
from spm_jax.types import Frontier, MenuInputs

D, INPUTS, C, K = 64, 8, 12, 9


def random_frontier(seed: int, size: int = C) -> Frontier:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    return Frontier(
        tool=np.arange(size, dtype=np.int32),
        valid=np.ones(size, bool),
        prior=normal(size),
        query=normal(D),
        text=normal(size, D),
        node=normal(size, len(Node)),
        relation=rng.integers(0, len(Relation), (size, size)).astype(np.int8),
        produces=np.zeros((size, size, INPUTS), bool),
        required=np.zeros((size, INPUTS), bool),
        missing=np.zeros((size, INPUTS), bool),
        similar=normal(size, size),
    )


def random_menu(seed: int, size: int = K) -> MenuInputs:
    rng = np.random.default_rng(seed)
    return MenuInputs(
        tool=np.arange(size, dtype=np.int32),
        valid=np.ones(size, bool),
        query=rng.normal(size=D).astype(np.float32),
        text=rng.normal(size=(size, D)).astype(np.float32),
        node=rng.normal(size=(size, len(Node) + 2)).astype(np.float32),
        pair=rng.normal(size=(size, size, len(Pair))).astype(np.float32),
        produces=np.zeros((size, size, INPUTS), bool),
        required=np.zeros((size, INPUTS), bool),
        missing=np.zeros((size, INPUTS), bool),
    )


MODELS = {"retriever": (Retriever(), random_frontier), "reranker": (Reranker(), random_menu)}
both = pytest.mark.parametrize("name", MODELS)


@lru_cache
def learned(name: str):
    """(compiled model, parameters with no zero among them, as after training)."""
    model, make = MODELS[name]
    params = jax.jit(model.init)(jax.random.key(0), make(0))
    leaves, tree = jax.tree.flatten(params)
    rng = np.random.default_rng(1)
    leaves = [leaf + 0.1 * rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    return jax.jit(model.apply), jax.tree.unflatten(tree, leaves)


def outputs(name: str, inputs, valid: np.ndarray | None = None) -> dict[str, np.ndarray]:
    apply, params = learned(name)
    inputs = inputs if valid is None else dataclasses.replace(inputs, valid=valid)
    return jax.tree.map(np.asarray, apply(params, inputs)._asdict())


@pytest.mark.parametrize(("name", "published"), [("retriever", 416_000), ("reranker", 449_000)])
def test_parameter_counts_are_the_published_ones(name, published):
    model, make = MODELS[name]
    shapes = jax.eval_shape(model.init, jax.random.key(0), make(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    assert count == pytest.approx(published, rel=0.02)
    block = sum(leaf.size for leaf in jax.tree.leaves(shapes["params"]["encoder"]["block_0"]))
    assert block == 198_272  # method.md section 5


def test_there_is_a_bias_for_every_relation():
    assert len(Relation) == RELATIONS


def test_precedence_is_antisymmetric():
    precedence = outputs("reranker", random_menu(1))["precedence"]
    np.testing.assert_allclose(precedence, -precedence.T, atol=1e-6)  # compiled, both halves round on their own
    assert np.abs(precedence).max() > 0.1


def test_decoder_weights_are_above_0():
    assert (outputs("reranker", random_menu(1))["weights"] > 0).all()


def permuted(inputs, order: np.ndarray):
    """The same tools in another order."""
    new = {}
    for field in dataclasses.fields(inputs):
        value = getattr(inputs, field.name)
        if field.name != "query":
            value = value[order]
        if field.name in ("relation", "pair", "produces", "similar"):
            value = value[:, order]
        new[field.name] = value
    return type(inputs)(**new)


@both
def test_the_order_of_the_tools_changes_nothing(name):
    inputs = MODELS[name][1](2)
    order = np.random.default_rng(0).permutation(len(inputs.tool))
    plain, moved = outputs(name, inputs), outputs(name, permuted(inputs, order))
    for field, value in plain.items():
        expected = value if field == "weights" else value[order]
        if field == "precedence":
            expected = expected[:, order]
        np.testing.assert_allclose(moved[field], expected, atol=1e-4, err_msg=field)


@both
def test_padding_changes_nothing(name):
    """Whatever stands in padded rows, and however many there are, the outputs of the others are the same."""
    make = MODELS[name][1]
    inputs = make(3)
    n = len(inputs.tool) - 4
    valid = np.arange(n + 4) < n
    noise = make(4)
    noisy = {}
    for field in dataclasses.fields(inputs):
        value = getattr(inputs, field.name).copy()
        if field.name in ("relation", "pair", "similar"):
            value[:, n:] = getattr(noise, field.name)[:, n:]
        if field.name not in ("query", "valid"):
            value[n:] = getattr(noise, field.name)[n:]
        noisy[field.name] = value
    plain, changed = outputs(name, inputs, valid), outputs(name, type(inputs)(**noisy), valid)
    short = outputs(name, permuted(inputs, np.arange(n)))
    for field, value in plain.items():
        part = {"precedence": np.ix_(range(n), range(n)), "weights": slice(None)}.get(field, slice(n))
        np.testing.assert_allclose(changed[field][part], value[part], atol=1e-5, err_msg=field)
        np.testing.assert_allclose(short[field], value[part], atol=1e-4, err_msg=field)
    assert (plain["member"][n:] == -1e9).all() and (plain["entry"][n:] == -1e9).all()


@both
def test_with_everything_masked_outputs_and_gradients_are_finite(name):
    apply, params = learned(name)
    inputs = MODELS[name][1](5)

    @jax.jit
    @jax.grad
    def gradient(params, masked):
        out = apply(params, masked)._asdict()
        out["entry"] = jax.nn.log_softmax(out["entry"])
        return sum(jnp.sum(jnp.where(jnp.abs(leaf) < 1e8, leaf, 0.0)) for leaf in out.values())

    for valid in (np.zeros(len(inputs.tool), bool), np.arange(len(inputs.tool)) < 1):
        masked = dataclasses.replace(inputs, valid=valid)
        for leaf in (*outputs(name, masked).values(), *jax.tree.leaves(gradient(params, masked))):
            assert np.isfinite(np.asarray(leaf)).all()


@both
def test_a_batch_is_a_loop(name):
    apply, params = learned(name)
    inputs = [MODELS[name][1](seed) for seed in range(3)]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *inputs)
    batched = jax.jit(jax.vmap(apply, in_axes=(None, 0)))(params, batch)
    for n, one in enumerate(inputs):
        for field, value in outputs(name, one).items():
            np.testing.assert_allclose(getattr(batched, field)[n], value, atol=1e-4, err_msg=field)


def test_before_training_the_membership_is_the_frontiers():
    frontier = random_frontier(6)
    model = Retriever()
    retrieved = jax.jit(lambda key: model.apply(model.init(key, frontier), frontier))(jax.random.key(1))
    np.testing.assert_allclose(retrieved.member, frontier.prior, atol=1e-6)


@pytest.mark.parametrize(("name", "field"), [("retriever", "relation"), ("reranker", "pair")])
def test_the_attention_bias_matters(name, field):
    inputs = MODELS[name][1](7)
    other = dataclasses.replace(inputs, **{field: np.zeros_like(getattr(inputs, field))})
    assert np.abs(outputs(name, inputs)["member"] - outputs(name, other)["member"]).max() > 1e-3
