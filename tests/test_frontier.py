"""The frontier's two passes, its selection and its injection, against the oracles; its traces and its devices."""

from __future__ import annotations

import dataclasses
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from worlds import DEPTH, RIDGE, SIZE, WIDTH, World, look, make_world, random_weights

from spm_jax.data.schema import Library, Request, Tool
from spm_jax.device_library import INPUTS, OUTPUTS, VISIBLE, WORDS, bucket, index_library
from spm_jax.features import Node
from spm_jax.frontier import (
    ANCHORS,
    Anchor,
    FrontierWeights,
    Propagated,
    Scores,
    inject,
    library_scores,
    query_embedding,
    select,
)
from spm_jax.memory import MemoryBuilder
from spm_jax.text.documents import content_words, tool_document
from spm_jax.train.mesh import data_mesh, replicate, shard_batch

SEEDS = range(3)
both_passes = jax.jit(library_scores)


def matrix(scores: Scores) -> np.ndarray:
    """float32 [N, 17]: the features of both passes."""
    return np.stack(scores.features, axis=1)


def cases():
    return pytest.mark.parametrize(("seed", "number"), [(seed, number) for seed in SEEDS for number in range(4)])


@lru_cache
def scored(seed: int, number: int):
    """(world, request, its arrays, scores of the library) of a request of a small world."""
    world = make_world(seed)
    request = world.requests[number]
    taken = world.indexed.request(request)
    scores = both_passes(world.indexed.arrays, world.memory(), random_weights(seed).anchor, taken)
    return world, request, taken, jax.tree.map(np.asarray, scores)


def text_rows(world: World) -> np.ndarray:
    """float64 [R, words]: TF-IDF of the training requests."""
    vocabulary, rows = world.indexed.vocabulary, []
    for text in world.texts:
        words = [vocabulary.index[word] for word in content_words(text) if word in vocabulary.index]
        distinct = sorted(set(words))
        rows.append(reference.tfidf(distinct, [words.count(word) for word in distinct], vocabulary.idf))
    return np.array(rows)


@cases()
def test_text_scores_are_the_oracles(seed, number):
    world, request, taken, scores = scored(seed, number)
    n, vocabulary = len(world.indexed.library), world.indexed.vocabulary
    arrays, query = world.indexed.arrays, reference.tfidf(taken.words, taken.counts, vocabulary.idf)

    projection = arrays.projection[: len(vocabulary)]
    embedding = reference.query_embedding(taken.words, taken.counts, vocabulary.idf, projection)
    np.testing.assert_allclose(scores.query, embedding, atol=1e-5)
    length = np.linalg.norm(scores.query)
    assert length == pytest.approx(1, abs=1e-5) if (taken.words >= 0).any() else length == 0
    np.testing.assert_allclose(scores.text[0][:n], arrays.embedding[:n] @ embedding, atol=1e-5)

    documents = [content_words(tool_document(tool)) for tool in world.indexed.library]
    lexical = reference.bm25_scores(documents, content_words(request.text))
    np.testing.assert_allclose(scores.text[1][:n], lexical / max(lexical.max(), 1e-9), atol=1e-5)

    called = np.array([[any(tool in step for step in gold) for tool in world.used] for gold in world.golds], float)
    memory = np.zeros(n)
    memory[world.used] = reference.path_memory(text_rows(world), called, query, RIDGE)
    np.testing.assert_allclose(scores.text[2][:n], memory, atol=1e-4)
    for score in scores.text:
        assert not score[n:].any()


@pytest.mark.parametrize("number", range(4))
def test_only_the_best_tools_are_anchors(number, monkeypatch):
    monkeypatch.setattr("spm_jax.frontier.ANCHORS", 5)
    world, weights = make_world(0), random_weights(0)
    arrays, taken, n = world.indexed.arrays, world.indexed.request(world.requests[number]), len(world.indexed.library)
    scores = jax.jit(lambda *arguments: library_scores(*arguments))(arrays, world.memory(), weights.anchor, taken)
    features = matrix(scores)[:n]
    odds = features[:, : len(Anchor)] @ weights.anchor
    expected = reference.propagated_features(
        odds, 5, world.statistics, arrays.family, arrays.inputs, arrays.outputs[:n], taken.visible
    )
    np.testing.assert_allclose(features[:, Propagated.NEIGHBOUR : Propagated.PRODUCER + 1], expected, atol=1e-4)


@cases()
def test_features_of_both_passes_are_the_oracles(seed, number):
    world, _, taken, scores = scored(seed, number)
    n, arrays = len(world.indexed.library), world.indexed.arrays
    statistics = world.statistics
    groups = np.array([len(statistics.groups.get(tool, ())) for tool in range(n)])
    dense, lexical, memory, name = (score[:n].astype(float) for score in scores.text)
    expected = reference.anchor_features(lexical, dense, memory, groups, arrays.family[:n])
    np.testing.assert_allclose(matrix(scores)[:n, : len(Anchor)], expected, atol=1e-4)

    odds = expected @ random_weights(seed).anchor
    added = reference.propagated_features(
        odds, ANCHORS, statistics, arrays.family, arrays.inputs[:n], arrays.outputs[:n], taken.visible
    )
    np.testing.assert_allclose(matrix(scores)[:n, Propagated.NEIGHBOUR : Propagated.PRODUCER + 1], added, atol=1e-4)
    np.testing.assert_allclose(matrix(scores)[:n, Propagated.NAME], name, atol=1e-6)
    family_memory = expected[:, Anchor.FAMILY_MEMORY]
    np.testing.assert_allclose(matrix(scores)[:n, Propagated.NAME_MEMORY], name * family_memory, atol=1e-4)


@cases()
def test_the_frontier_is_the_best_by_the_second_pass(seed, number):
    world, _, taken, scores = scored(seed, number)
    arrays, weights = world.indexed.arrays, random_weights(seed)
    frontier = look(arrays, world.memory(), weights, taken, size=SIZE, width=DEPTH)
    odds = matrix(scores) @ weights.propagated
    tool, prior = np.asarray(frontier.tool), np.asarray(frontier.prior)
    np.testing.assert_allclose(prior, odds[tool], atol=1e-3)
    assert (np.diff(prior) <= 0).all()
    expected = reference.select(odds, arrays.valid, SIZE)
    np.testing.assert_allclose(odds[tool], odds[expected], atol=1e-3)
    assert len(set(tool.tolist())) == SIZE
    np.testing.assert_array_equal(frontier.query, scores.query[:DEPTH])
    np.testing.assert_array_equal(frontier.text, arrays.embedding[tool, :DEPTH])
    for column, score in zip((Node.DENSE, Node.LEXICAL, Node.MEMORY, Node.NAME), scores.text, strict=True):
        np.testing.assert_allclose(np.asarray(frontier.node)[:, column], score[tool], atol=1e-6)


def test_ties_go_to_the_lower_id():
    """Twenty tools that no score tells apart stand by their ids."""
    indexed = index_library(Library(tuple(Tool(f"f{n}", "same") for n in range(20))), WIDTH)
    memory = MemoryBuilder(indexed, [], [], [], np.array([], np.int32), RIDGE).build()
    request = indexed.request(Request("r", "same"))
    frontier = look(indexed.arrays, memory, random_weights(0), request, size=20, width=DEPTH)
    assert np.asarray(frontier.tool).tolist() == list(range(20))


def test_features_by_hand():
    """Two families; the first holds a used tool. One word, one memory, no fields."""
    tools = (Tool("a", "rain"), Tool("a", "sun"), Tool("b", "wind"))
    indexed = index_library(Library(tools), WIDTH)
    used = np.array([1], np.int32)
    memory = MemoryBuilder(indexed, ["sun"], [((1,),)], ["g"], used, 1.0).build()
    scores = both_passes(indexed.arrays, memory, np.zeros(12, np.float32), indexed.request(Request("r", "rain sun")))
    features = matrix(scores)[:3]
    half = 0.5**0.5 / 2  # cosine of "rain sun" and "sun" over 1 + the penalty
    np.testing.assert_allclose(features[:, Anchor.LEXICAL], [1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(features[:, Anchor.MEMORY], [0, half, 0], atol=1e-6)
    np.testing.assert_allclose(features[:, Anchor.POPULARITY], [0, np.log(2), 0], atol=1e-6)
    np.testing.assert_allclose(features[:, Anchor.USED], [0, 1, 0])
    np.testing.assert_allclose(features[:, Anchor.FAMILY_MEMORY], [half, half, 0], atol=1e-6)
    np.testing.assert_allclose(features[:, Anchor.WITHIN_MEMORY], [half, half, 0], atol=1e-6)
    np.testing.assert_allclose(features[:, Anchor.WITHIN_USED], [1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(features[:, Propagated.NEIGHBOUR : Propagated.EXTENDED], 0)
    # The documents are "rain", "sun" and "b wind" ("a" is no content word); "sun" becomes "sun sun". All idf are equal.
    plain, extended = 1 / (1 + 1.5 * (0.25 + 0.75 / (4 / 3))), 2 / (2 + 1.5 * (0.25 + 0.75 * 2))
    np.testing.assert_allclose(features[:, Propagated.EXTENDED], [1, extended / plain, 0], atol=1e-6)
    np.testing.assert_allclose(features[:, Propagated.FAMILY_EXTENDED], [1, 1, 0], atol=1e-6)


@cases()
def test_extended_documents_are_the_oracles(seed, number):
    world, request, _, scores = scored(seed, number)
    library, n = world.indexed.library, len(world.indexed.library)
    plain = reference.bm25_scores([content_words(tool_document(tool)) for tool in library], content_words(request.text))
    documents = {int(tool): content_words(tool_document(library[int(tool)], inputs=False)) for tool in world.used}
    idf = dict(zip(world.indexed.vocabulary.words, world.indexed.vocabulary.idf, strict=True))
    texts = [content_words(text) for text in world.texts]
    raw = reference.extended_scores(plain, documents, texts, world.golds, content_words(request.text), idf)
    expected = raw / max(raw.max(), 1e-9)
    np.testing.assert_allclose(matrix(scores)[:n, Propagated.EXTENDED], expected, atol=1e-4)
    family = world.indexed.arrays.family[:n]
    best = [max(expected[j] for j in range(n) if family[j] == family[i]) for i in range(n)]
    np.testing.assert_allclose(matrix(scores)[:n, Propagated.FAMILY_EXTENDED], best, atol=1e-4)


jit_inject = jax.jit(inject)


@given(st.permutations(range(12)), st.lists(st.integers(-1, 14), min_size=5, max_size=5))
def test_injection_is_the_oracle(order, wanted):
    tool = np.array(order[:8], np.int32)
    out = np.asarray(jit_inject(tool, np.array(wanted, np.int32)))
    assert len(set(out.tolist())) == 8
    assert set(out.tolist()) == reference.inject(tool.tolist(), wanted)
    assert all(out[n] == tool[n] or tool[n] not in out for n in range(8))  # who stays keeps the place


def test_injection_by_hand():
    assert inject(jnp.arange(5), jnp.array([9, 4, -1, 8])).tolist() == [0, 1, 8, 9, 4]
    assert inject(jnp.arange(3), jnp.array([-1, -1])).tolist() == [0, 1, 2]
    assert inject(jnp.arange(3), jnp.array([7, 7])).tolist() == [0, 1, 7]


def test_select_injects():
    world = make_world(1)
    arrays, memory, weights = world.indexed.arrays, world.memory(), random_weights(1)
    request = world.indexed.request(world.requests[0])
    plain = np.asarray(look(arrays, memory, weights, request, size=8, width=DEPTH).tool)
    lacking = [tool for tool in range(len(world.indexed.library)) if tool not in plain][:2]
    wanted = np.array([lacking[0], plain[0], -1, lacking[1]], np.int32)
    frontier = look(arrays, memory, weights, request, size=8, width=DEPTH, injected=wanted)
    tool = np.asarray(frontier.tool)
    assert tool[:6].tolist() == plain[:6].tolist() and tool[6:].tolist() == lacking[::-1]
    odds = matrix(both_passes(arrays, memory, weights.anchor, request)) @ weights.propagated
    np.testing.assert_allclose(frontier.prior, odds[tool], atol=1e-3)
    np.testing.assert_array_equal(frontier.text, arrays.embedding[tool, :DEPTH])


def test_a_request_without_known_words_has_no_direction():
    world = make_world(0)
    query = query_embedding(jax.tree.map(jnp.asarray, world.indexed.arrays), world.indexed.request(world.requests[3]))
    assert not np.asarray(query).any()


def test_one_trace_for_two_libraries_of_the_same_bucket():
    traces = []

    @partial(jax.jit, static_argnames=("size", "width"))
    def counted(*arguments, size: int, width: int):
        traces.append(size)
        return select(*arguments, size=size, width=width)

    sizes = set()
    for tools in (5, 9, 12):
        world = make_world(7, tools)
        sizes.add(len(world.indexed.library))
        for request in world.requests:
            arguments = world.indexed.arrays, world.memory(), random_weights(0), world.indexed.request(request)
            counted(*arguments, size=SIZE, width=DEPTH)
    assert len(sizes) == 3
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("size", "padded"), [(0, 128), (1, 128), (128, 128), (129, 160), (160, 160), (161, 192), (225, 256), (257, 320)]
)
def test_buckets(size, padded):
    assert bucket(size) == padded


def test_buckets_of_large_libraries_waste_a_quarter_at_most():
    assert bucket(16_384) == 16_384 and bucket(44_589) == 49_152
    assert all(size <= bucket(size) <= 1.25 * size + 1 for size in range(128, 70_000, 97))


def test_arrays_of_a_request_and_of_a_library_are_padded():
    world = make_world(0)
    request = world.indexed.request(world.requests[2])
    assert request.words.shape == request.counts.shape == (WORDS,) and request.visible.shape == (VISIBLE,)
    assert {world.indexed.keys[key] for key in request.visible if key >= 0} == set(world.requests[2].state)
    arrays, n = world.indexed.arrays, len(world.indexed.library)
    assert arrays.inputs.shape == (128, INPUTS) and arrays.outputs.shape == (128, OUTPUTS)
    assert not arrays.valid[n:].any() and arrays.valid[:n].all()
    assert (arrays.inputs[n:] == -1).all() and (arrays.outputs[n:] == -1).all()
    assert set(arrays.family[n:]).isdisjoint(arrays.family[:n]) and arrays.family.max() < arrays.families
    assert set(arrays.name[n:]).isdisjoint(arrays.name[:n])


def test_one_device_equals_four():
    world = make_world(2)
    taken = [world.indexed.request(request) for request in world.requests] * 2
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *taken)
    whole = (world.indexed.arrays, world.memory(), random_weights(2))

    @jax.jit
    def frontiers(library, memory, weights: FrontierWeights, requests):
        return jax.vmap(lambda request: select(library, memory, weights, request, SIZE, DEPTH))(requests)

    results = []
    for devices in (jax.devices()[:1], jax.devices()[:4]):
        mesh = data_mesh(devices)
        out = frontiers(*replicate(mesh, whole), shard_batch(mesh, batch))
        assert len(out.tool.sharding.device_set) == len(devices)
        results.append(jax.tree.map(np.asarray, out))
    single = [look(*whole, request, size=SIZE, width=DEPTH) for request in taken[:4]]
    loop = jax.tree.map(lambda *leaves: np.stack([*leaves, *leaves]), *single)
    for field in dataclasses.fields(results[0]):
        one, four, alone = (getattr(result, field.name) for result in (*results, loop))
        np.testing.assert_allclose(one, four, atol=1e-5, err_msg=field.name)
        np.testing.assert_allclose(one, alone, atol=1e-5, err_msg=field.name)
