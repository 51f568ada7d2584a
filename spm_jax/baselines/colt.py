"""COLT (Qu et al., CIKM 2024, arXiv 2405.16089): collaborative learning over the request-scene-tool graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from spm_jax.baselines.dense import dense_space
from spm_jax.baselines.scored import Scored
from spm_jax.data.schema import Library, Request
from spm_jax.text.lsa import normalised

STEPS, RATE = 60, 3e-3
NEGATIVES = 1024  # tools that no training request used, drawn once
TEMPERATURE = 0.05
CONTRAST = 0.1  # weight of the loss between the two views
HOPS = 2  # layers of propagation


def _propagated(matrix: jax.Array, left: jax.Array, right: jax.Array) -> jax.Array:
    """The mean over layers of LightGCN's propagation of ``right`` rows over a normalised graph [left, right]."""
    total = right
    for _ in range(HOPS):
        left, right = matrix @ right, matrix.T @ left
        total = total + right
    return total / (HOPS + 1)


def _views(weights: jax.Array, graph: tuple[jax.Array, ...], queries: jax.Array, tools: jax.Array) -> jax.Array:
    """float32 [2, U, E]: used tools seen from requests, and from scenes (a request's set of tools)."""
    of_request, of_scene = graph
    rows = tools @ weights
    scenes = of_scene @ rows
    return jnp.stack([_propagated(of_request, queries @ weights, rows), _propagated(of_scene, scenes, rows)])


def _loss(
    weights: jax.Array, graph: tuple[jax.Array, ...], queries: jax.Array, tools: jax.Array, others: jax.Array,
    called: jax.Array,
) -> jax.Array:  # fmt: skip
    views = _views(weights, graph, queries, tools)
    rows = queries @ weights
    scores = jnp.concatenate([rows @ (views[0] + views[1]).T / 2, rows @ (others @ weights).T], axis=1) / TEMPERATURE
    target = jnp.pad(called / jnp.sum(called, axis=1, keepdims=True), ((0, 0), (0, len(others))))
    listwise = -jnp.mean(jnp.sum(target * jax.nn.log_softmax(scores), axis=1))
    one, two = (view / jnp.maximum(jnp.linalg.norm(view, axis=1, keepdims=True), 1e-9) for view in views)
    alike = one @ two.T / TEMPERATURE
    return listwise - CONTRAST * jnp.mean(jnp.diag(jax.nn.log_softmax(alike)))


@partial(jax.jit, static_argnames="steps")
def _train(start: jax.Array, steps: int, *data: jax.Array) -> jax.Array:
    optimizer = optax.adam(RATE)

    def step(carry: tuple[jax.Array, optax.OptState], _: None) -> tuple[tuple[jax.Array, optax.OptState], None]:
        weights, state = carry
        updates, state = optimizer.update(jax.grad(_loss)(weights, *data), state)
        return (optax.apply_updates(weights, updates), state), None

    return jax.lax.scan(step, (start, optimizer.init(start)), None, length=steps)[0][0]


def _normalised_graph(edges: np.ndarray) -> np.ndarray:
    degree = np.sqrt(np.maximum(edges.sum(axis=1), 1))[:, None] * np.sqrt(np.maximum(edges.sum(axis=0), 1))[None]
    return (edges / degree).astype(np.float32)


def fit_colt(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """The request against tools propagated over the request-tool and the scene-tool graph, both views summed.

    Simplified: the encoder is frozen and a linear map on top of it is trained (the paper fine-tunes the encoder in its
    first stage); scenes with the same tools are one; losses are the paper's list-wise loss with uniform targets and
    its cross-view contrast. A tool that no training request used keeps its mapped document vector.
    """
    space = dense_space(library, seed)
    train = [request for request in train_requests if request.trajectory.calls]
    if not train:
        return Scored(f"COLT ({space.name})", lambda request: space.scores(request.text))
    sets = [frozenset(tool for listing in library.gold(request) for tool in listing) for request in train]
    used = np.array(sorted(frozenset.union(*sets)))
    called = np.array([np.isin(used, list(tools)) for tools in sets], np.float32)
    scenes = np.array([np.isin(used, list(tools)) for tools in dict.fromkeys(sets)], np.float32)
    rng = np.random.default_rng(seed)
    others = np.setdiff1d(rng.choice(len(library), min(NEGATIVES, len(library)), replace=False), used)
    queries = normalised(space.encode([request.text for request in train]))
    graph = (_normalised_graph(called), _normalised_graph(scenes))
    tools = space.tools[used]
    with jax.default_matmul_precision("float32"):
        start = jnp.eye(space.tools.shape[1])
        weights = _train(start, STEPS, graph, queries, tools, space.tools[others], called)
        views = np.asarray(_views(weights, graph, queries, tools))
    weights = np.asarray(weights)
    mapped = space.tools @ weights
    mapped[used] = views.mean(axis=0)
    return Scored(f"COLT ({space.name})", lambda request: mapped @ (space.encode([request.text])[0] @ weights))
