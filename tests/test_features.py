"""Signals, node features, relations and pair features: by hand, by property, and against the oracles."""

from __future__ import annotations

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from worlds import DEPTH, SIZE, World, look, make_world, random_weights

from spm_jax.data.schema import Library, Request, Tool
from spm_jax.data.synthetic import make_world as make_synthetic
from spm_jax.device_library import index_library
from spm_jax.features import (
    Node,
    Pair,
    Relation,
    chi,
    clause_features,
    first_log_odds,
    jaccard,
    kappa,
    membership,
    pair_counts,
    pair_features,
    per_tool,
    produces,
    rho,
)
from spm_jax.frontier import clause_scores, select
from spm_jax.memory import MemoryBuilder
from spm_jax.text.documents import content_words
from spm_jax.text.segments import SEGMENTS
from spm_jax.train.frontier import start_weights

SEEDS = range(3)
rows = arrays(np.int32, (5, 4), elements=st.integers(-1, 5))
pairs = jax.jit(pair_features)


def sets(matrix: np.ndarray) -> np.ndarray:
    """The matrix with repeats within a row replaced by -1: rows are sets."""
    out = matrix.copy()
    for row in out:
        seen: set[int] = set()
        for n, key in enumerate(row):
            row[n] = -1 if key in seen else key
            seen.add(int(key))
    return out


def test_signals_by_hand():
    """LookupOrder -> GetCustomerEmail -> SendEmailReceipt, of the example in method.md section 1."""
    order, customer, email, receipt = range(4)
    inputs = np.array([[order, -1], [customer, -1], [email, receipt], [-1, -1]], np.int32)
    outputs = np.array([[customer, -1], [email, -1], [-1, -1], [receipt, email]], np.int32)
    visible = np.array([order, -1, -1], np.int32)
    np.testing.assert_array_equal(chi(inputs, visible), [1, 0, 0, 1])
    np.testing.assert_array_equal(chi(inputs[2], np.array([email])), 0.5)
    produced = produces(outputs, inputs)
    expected = np.zeros((4, 4))
    expected[0, 1], expected[1, 2], expected[3, 2] = 1, 0.5, 1
    np.testing.assert_array_equal(kappa(produced, inputs >= 0), expected)
    missing = (inputs >= 0) & ~np.asarray(membership(inputs, np.array([email])))
    np.testing.assert_array_equal(kappa(produced, missing)[:, 2], [0, 0, 0, 1])  # receipt alone is missing
    counts = np.array([[0.0, 3], [1, 0]], np.float32)
    np.testing.assert_allclose(rho(counts), [[0, math.log(2)], [-math.log(2), 0]], rtol=1e-6)
    np.testing.assert_allclose(first_log_odds(np.array([0.0, 3, 1]), np.array([0.0, 3, 4])), [0, np.log(4), -np.log(2)])


def test_a_tool_does_not_produce_for_itself():
    keys = np.array([[0, 1], [1, -1]], np.int32)
    assert not np.asarray(produces(keys, keys))[[0, 1], [0, 1]].any()


@given(rows, rows, arrays(np.int32, 6, elements=st.integers(-1, 5)))
def test_set_signals_are_the_oracles(outputs, inputs, visible):
    outputs, inputs = sets(outputs), sets(inputs)
    state = np.asarray(chi(inputs, visible))
    np.testing.assert_allclose(state, [reference.chi(row, visible) for row in inputs], rtol=1e-6)
    produced = np.asarray(produces(outputs, inputs))
    np.testing.assert_array_equal(produced, reference.produces(outputs, inputs))
    flow = np.asarray(kappa(produced, inputs >= 0))
    for i in range(5):
        for j in range(5):
            assert flow[i, j] == pytest.approx((i != j) * reference.kappa(outputs[i], inputs[j]), abs=1e-6)
    shared = np.asarray(jaccard(inputs))
    np.testing.assert_allclose(shared, [[reference.jaccard(a, b) for b in inputs] for a in inputs], rtol=1e-6)
    for signal in (state, flow, shared):
        assert (signal >= 0).all() and (signal <= 1).all()
    np.testing.assert_array_equal(shared, shared.T)


@given(arrays(np.float32, (4, 4), elements=st.integers(0, 1000)))
def test_rho_is_antisymmetric(counts):
    flow = np.asarray(rho(counts))
    np.testing.assert_array_equal(flow, -flow.T)
    assert flow[0, 1] == pytest.approx(reference.rho(counts[0, 1], counts[1, 0]), abs=1e-5)


def test_nothing_stands_in_an_empty_state():
    none = np.full(3, -1, np.int32)
    assert not np.asarray(membership(np.array([-1, 0, 5]), none)).any()
    np.testing.assert_array_equal(chi(np.array([[-1, -1], [2, -1]]), none), [1, 0])


@lru_cache
def seen(seed: int, number: int):
    """(world, request arrays, memory, frontier) of a request of a small world."""
    world = make_world(seed)
    request, memory = world.indexed.request(world.requests[number]), world.memory()
    frontier = look(world.indexed.arrays, memory, random_weights(seed), request, size=SIZE, width=DEPTH)
    return world, request, memory, jax.tree.map(np.asarray, frontier)


def cases():
    return pytest.mark.parametrize(("seed", "number"), [(seed, number) for seed in SEEDS for number in range(4)])


def gathered(world: World, tool: np.ndarray):
    library = world.indexed.arrays
    return library.inputs[tool], library.outputs[tool], library.outputs_known[tool], library.family[tool]


@cases()
def test_node_features_are_the_oracles(seed, number):
    world, request, _, frontier = seen(seed, number)
    assert frontier.valid.all()
    inputs, outputs, known, family = gathered(world, frontier.tool)
    text = tuple(frontier.node[:, : Node.PRIOR].T)  # text scores have their own tests
    expected = reference.node_features(
        frontier.prior, text, inputs, outputs, known, request.visible, world.statistics, frontier.tool, family
    )
    np.testing.assert_allclose(frontier.node[:, : Node.POSITION], expected, atol=2e-5)


@pytest.mark.parametrize("clauses", [1, 3, SEGMENTS])
def test_clause_features_are_the_oracles(clauses):
    rng = np.random.default_rng(clauses)
    evidence, recall, dense = (np.zeros((9, SEGMENTS), np.float32) for _ in range(3))
    evidence[:, :clauses] = rng.random((9, clauses)) * (rng.random((9, clauses)) < 0.7)
    recall[:, :clauses] = rng.normal(size=(9, clauses))
    dense[:, :clauses] = rng.uniform(-1, 1, (9, clauses))
    dense[:, 0] = np.abs(dense[:, 0])  # columns beyond the clauses are 0, which a request's best clause is above
    evidence[4] = recall[4] = 0  # nothing speaks for this tool
    likely = rng.random(9).astype(np.float32)
    expected = reference.clause_features(evidence, recall, dense, likely, clauses)
    np.testing.assert_allclose(clause_features(evidence, recall, dense, likely, clauses), expected, atol=1e-5)


@cases()
def test_clause_scores_add_up_to_the_scores_of_the_whole_request(seed, number):
    world, request, memory, frontier = seen(seed, number)
    evidence, recall, _ = jax.jit(clause_scores)(world.indexed.arrays, memory, request, frontier.tool)
    np.testing.assert_allclose(np.sum(recall, axis=1), frontier.node[:, Node.MEMORY], atol=1e-5)
    words = reference_words(world, request)
    for clause in range(SEGMENTS):
        if clause not in words:
            assert not np.asarray(evidence)[:, clause].any() and not np.asarray(recall)[:, clause].any()


@pytest.mark.parametrize("number", range(6))
def test_names_are_told_by_the_words_of_the_request_and_of_its_clauses(number):
    world = make_synthetic(0, 120, 6)
    indexed = index_library(world.library, width=32)
    memory = MemoryBuilder(indexed, [], [], [], np.array([], np.int32), 1.0).build()
    request = indexed.request(world.requests[number])
    frontier = jax.jit(select, static_argnums=(4, 5))(indexed.arrays, memory, start_weights(), request, 32, 16)
    idf = dict(zip(indexed.vocabulary.words, indexed.vocabulary.idf.tolist()))

    def told(name: str, ids: set[int]) -> float:
        words = {word for word in content_words(name) if word in idf}
        said = sum(idf[word] for word in words if indexed.vocabulary.index[word] in ids)
        return said / max(1e-9, sum(idf[word] for word in words))

    names = [indexed.library[int(tool)].name for tool in frontier.tool]
    by_clause = [{int(w) for w, s in zip(request.words, request.segment) if s == clause} for clause in range(SEGMENTS)]
    whole = [told(name, set(request.words.tolist())) for name in names]
    best = [max(told(name, ids) for ids in by_clause) for name in names]
    np.testing.assert_allclose(frontier.node[:, Node.NAME], whole, atol=1e-5)
    np.testing.assert_allclose(frontier.node[:, Node.NAME_CLAUSE], best, atol=1e-5)
    assert 0 < max(whole) <= 1


def reference_words(world: World, request) -> set[int]:
    """The clauses that hold a known word."""
    return {int(s) for s, w in zip(request.segment, request.words) if w >= 0}


@cases()
def test_relations_are_the_oracles(seed, number):
    world, _, _, frontier = seen(seed, number)
    inputs, outputs, _, family = gathered(world, frontier.tool)
    precedes, names = world.statistics.precedes, world.indexed.arrays.name[frontier.tool]
    for i, a in enumerate(frontier.tool):
        for j, b in enumerate(frontier.tool):
            flow, back = reference.kappa(outputs[i], inputs[j]), reference.kappa(outputs[j], inputs[i])
            same = names[i] == names[j], family[i] == family[j]
            kind = reference.relation(precedes[a, b], precedes[b, a], flow, back, *same) if i != j else Relation.NEUTRAL
            assert frontier.relation[i, j] == kind, (i, j)


def test_the_worlds_hold_every_relation():
    kinds = {int(kind) for seed in SEEDS for kind in seen(seed, 0)[3].relation.ravel()}
    assert kinds == set(Relation)


@cases()
def test_pair_features_are_the_oracles(seed, number):
    world, request, memory, frontier = seen(seed, number)
    library, tool = world.indexed.arrays, frontier.tool
    measured = pairs(library, memory, tool, frontier.produces, request.visible, frontier.similar)
    inputs, outputs, known, family = gathered(world, tool)
    embedding = library.embedding[tool]
    expected = reference.pair_features(
        world.statistics,
        tool,
        inputs,
        outputs,
        known,
        request.visible,
        library.name_words[tool],
        family,
        embedding @ embedding.T,
    )
    np.testing.assert_allclose(measured, expected, atol=2e-5)
    for feature in (Pair.KAPPA, Pair.MISSING_FLOW, Pair.TRANSITION, Pair.SHARED_INPUTS, Pair.SHARED_OUTPUTS, Pair.NAME):
        assert measured[..., feature].min() >= 0 and measured[..., feature].max() <= 1


@cases()
def test_produces_required_and_missing_of_the_frontier(seed, number):
    world, request, _, frontier = seen(seed, number)
    inputs, outputs, _, _ = gathered(world, frontier.tool)
    visible = reference.keys(request.visible)
    np.testing.assert_array_equal(frontier.produces, reference.produces(outputs, inputs))
    np.testing.assert_array_equal(frontier.required, inputs >= 0)
    np.testing.assert_array_equal(frontier.missing, [[k >= 0 and k not in visible for k in row] for row in inputs])


@pytest.mark.parametrize("seed", SEEDS)
def test_pair_counts_and_counts_per_tool(seed):
    world = make_world(seed)
    memory, statistics = world.memory(), world.statistics
    tool = np.array([*range(len(world.indexed.library)), 100, -1], np.int32)
    precedes, follows = pair_counts(jax.tree.map(jnp.asarray, memory), tool)
    np.testing.assert_array_equal(precedes, [[statistics.precedes[a, b] for b in tool] for a in tool])
    np.testing.assert_array_equal(follows, [[statistics.follows[a, b] for b in tool] for a in tool])
    for values, counts in ((memory.calls, statistics.calls), (memory.first, statistics.first)):
        np.testing.assert_array_equal(per_tool(memory, jnp.asarray(values), tool), [counts[t] for t in tool])


def test_padding_of_a_frontier_is_empty_and_changes_nothing():
    world = make_world(0)
    request, memory, weights = world.indexed.request(world.requests[1]), world.memory(), random_weights(0)
    n = len(world.indexed.library)
    frontier = look(world.indexed.arrays, memory, weights, request, size=128, width=DEPTH)
    assert np.flatnonzero(frontier.valid).tolist() == list(range(n))
    for array in (frontier.node, frontier.required, frontier.missing, frontier.produces):
        assert not np.asarray(array)[n:].any()
    assert not np.asarray(frontier.produces)[:, n:].any()
    inputs, outputs, known, family = gathered(world, np.asarray(frontier.tool)[:n])
    text = tuple(np.asarray(frontier.node)[:n, : Node.PRIOR].T)
    expected = reference.node_features(
        np.asarray(frontier.prior)[:n], text, inputs, outputs, known, request.visible, world.statistics,
        np.asarray(frontier.tool)[:n], family,
    )  # fmt: skip
    np.testing.assert_allclose(np.asarray(frontier.node)[:n, : Node.POSITION], expected, atol=2e-5)


@pytest.mark.parametrize("names", [("alpha", "beta"), ("!!!", "???")])
def test_a_bare_library_without_fields_paths_or_words_gives_finite_features(names):
    indexed = index_library(Library(tuple(Tool("!", name) for name in names)), 16)
    memory = MemoryBuilder(indexed, [], [], [], np.array([], np.int32), 1.0).build()
    request = indexed.request(Request("r", ""))
    frontier = look(indexed.arrays, memory, random_weights(1), request, size=SIZE, width=DEPTH)
    assert np.asarray(frontier.valid).sum() == 2
    for leaf in jax.tree.leaves(frontier):
        assert np.isfinite(np.asarray(leaf)).all()
    node = np.asarray(frontier.node)
    np.testing.assert_array_equal(node[:2, Node.CHI], 1)
    np.testing.assert_array_equal(node[:2, [Node.FLOW_IN, Node.FLOW_OUT, Node.PRODUCIBLE, Node.FIRST, Node.FOLLOW]], 0)
    np.testing.assert_array_equal(node[:2, Node.FAMILY], 1)
