"""The frontier: the 128 tools of the library that the networks look at (method.md section 4).

Two passes over the whole library, both linear in named features. The first scores text and path memory; its best tools
are the anchors. The second propagates from them to their training-path neighbours, to the producers of the inputs that
they miss, and to their family, and its score, a log-odds of being on the path, picks the frontier. The weights of the
second pass are fitted on training requests (train/frontier.py); those of the first are constants.
"""

from __future__ import annotations

from enum import IntEnum

import jax
import jax.numpy as jnp

from spm_jax.features import membership, node_features, produces, relations
from spm_jax.text.lexical import gather_scores
from spm_jax.types import DeviceLibrary, Frontier, Memory, RequestArrays, pytree

ANCHORS = 64


class Anchor(IntEnum):
    """Features of the first pass, in the order of their columns."""

    LEXICAL = 0  # BM25 over its maximum in the library
    DENSE = 1  # cosine, full width
    MEMORY = 2  # path memory
    POPULARITY = 3  # log(1 + groups that call the tool)
    USED = 4  # whether training called it at all
    FAMILY_LEXICAL = 5  # best lexical score of the family
    FAMILY_MEMORY = 6
    FAMILY_POPULARITY = 7  # log(1 + sum of groups over the family)
    WITHIN = 8  # lexical score over the family's best
    WITHIN_USED = 9  # the same where training used the family, else 0
    WITHIN_MEMORY = 10  # the same times the family's best memory
    ONE = 11


class Propagated(IntEnum):
    """What the second pass adds to those features."""

    NEIGHBOUR = 12  # best of: anchor's probability times the share of its groups that call the tool
    FAMILY_NEIGHBOUR = 13  # the family's best of it
    PRODUCER = 14  # log(1 + probability-weighted missing inputs of anchors that the tool outputs)
    EXTENDED = 15  # BM25 with used tools' documents extended by the requests that call them, over its maximum
    FAMILY_EXTENDED = 16  # the family's best of it



@pytree
class FrontierWeights:
    """Weights of the two passes."""

    anchor: jax.Array  # float32 [12]
    propagated: jax.Array  # float32 [17]


@pytree
class Scores:
    """The first look at a request: every tool's text scores and features, before a frontier is chosen."""

    query: jax.Array  # float32 [E]
    text: tuple[jax.Array, jax.Array, jax.Array]  # dense, lexical, memory, float32 [N] each
    features: jax.Array  # float32 [N, 17]


def query_embedding(library: DeviceLibrary, request: RequestArrays) -> jax.Array:
    """float32 [E]: the request's TF-IDF projected as the library's documents were, length 1 (0 without known words)."""
    weight = _tfidf(library, request)
    query = weight @ library.projection[request.words]
    return query / jnp.maximum(jnp.linalg.norm(query), 1e-9)


def _tfidf(library: DeviceLibrary, request: RequestArrays) -> jax.Array:
    there = request.words >= 0
    weight = jnp.where(there, (1 + jnp.log(jnp.maximum(request.counts, 1))) * library.idf[request.words], 0.0)
    return weight / jnp.maximum(jnp.linalg.norm(weight), 1e-9)


def _rows(memory: Memory, request: RequestArrays) -> jax.Array:
    """int32 [W]: the memory's row of each word, -1 for a word that training does not use."""
    return jnp.where(request.words >= 0, memory.word_row[request.words], -1)


def memory_scores(library: DeviceLibrary, memory: Memory, request: RequestArrays) -> jax.Array:
    """float32 [U]: path memory of the used tools, about 0 (never called for such a request) to 1 (always)."""
    row = _rows(memory, request)
    return jnp.where(row >= 0, _tfidf(library, request), 0.0) @ memory.recall[row]


def extended_scores(memory: Memory, request: RequestArrays) -> jax.Array:
    """float32 [U]: BM25 of the used tools' extended documents; a word counts by the root of its count."""
    row = _rows(memory, request)
    return jnp.where(row >= 0, jnp.sqrt(request.counts), 0.0) @ memory.extended[row]


def _spread(memory: Memory, values: jax.Array) -> jax.Array:
    """``values`` [U] over the library [N], 0 for tools that training never used."""
    return jnp.where(memory.slot >= 0, values[memory.slot], 0.0)


def _family_max(library: DeviceLibrary, values: jax.Array) -> jax.Array:
    best = jnp.zeros(library.families, jnp.float32).at[library.family].max(values)
    return best[library.family]


def _family_sum(library: DeviceLibrary, values: jax.Array) -> jax.Array:
    total = jnp.zeros(library.families, jnp.float32).at[library.family].add(values)
    return total[library.family]


def library_scores(
    library: DeviceLibrary, memory: Memory, anchor_weights: jax.Array, request: RequestArrays
) -> Scores:
    """Both passes' features of every tool."""
    size = len(library.valid)
    query = query_embedding(library, request)
    dense = library.embedding @ query
    impact = gather_scores(library.lexical, request.words, jnp.sqrt(request.counts), size)
    lexical = impact / jnp.maximum(jnp.max(impact), 1e-9)
    recall = _spread(memory, memory_scores(library, memory, request))
    groups = _spread(memory, memory.groups)
    family_lexical, family_memory = _family_max(library, lexical), _family_max(library, recall)
    family_groups = jnp.log1p(_family_sum(library, groups))
    within = lexical / jnp.maximum(family_lexical, 1e-9)
    columns = {
        Anchor.LEXICAL: lexical,
        Anchor.DENSE: dense,
        Anchor.MEMORY: recall,
        Anchor.POPULARITY: jnp.log1p(groups),
        Anchor.USED: groups > 0,
        Anchor.FAMILY_LEXICAL: family_lexical,
        Anchor.FAMILY_MEMORY: family_memory,
        Anchor.FAMILY_POPULARITY: family_groups,
        Anchor.WITHIN: within,
        Anchor.WITHIN_USED: within * (family_groups > 0),
        Anchor.WITHIN_MEMORY: within * family_memory,
        Anchor.ONE: jnp.ones(size),
    }
    anchor = jnp.stack([columns[name].astype(jnp.float32) for name in Anchor], axis=1)  # [N, 12]
    odds = anchor @ anchor_weights
    added = _propagate(library, memory, odds, request.visible)
    extended = jnp.where(groups > 0, _spread(memory, extended_scores(memory, request)), impact)
    extended = extended / jnp.maximum(jnp.max(extended), 1e-9)
    last = jnp.stack([extended, _family_max(library, extended)], axis=1)
    return Scores(query, (dense, lexical, recall), jnp.concatenate([anchor, added, last], axis=1))


def _propagate(library: DeviceLibrary, memory: Memory, odds: jax.Array, visible: jax.Array) -> jax.Array:
    """float32 [N, 3]: the first three columns of ``Propagated``, from the best 64 tools by ``odds`` [N]."""
    best, anchors = jax.lax.top_k(jnp.where(library.valid, odds, -jnp.inf), min(ANCHORS, len(odds)))
    likely = jax.nn.sigmoid(best)  # [A]

    slots = memory.slot[anchors]
    neighbour = jnp.where(slots[:, None] >= 0, memory.neighbour[slots], -1)  # [A, 32]
    weight = likely[:, None] * memory.neighbour_weight[slots]
    place = jnp.where(neighbour >= 0, neighbour, len(memory.calls))
    reached = _spread(memory, jnp.zeros(len(memory.calls), jnp.float32).at[place].max(weight, mode="drop"))

    inputs = library.inputs[anchors]  # [A, I]
    missing = (inputs >= 0) & ~membership(inputs, visible)
    need = likely[:, None] * missing / jnp.maximum(1, jnp.sum(inputs >= 0, axis=1))[:, None]
    keys = jnp.where(missing, inputs, -1)
    produced = gather_scores(library.producers, keys.ravel(), need.ravel(), len(odds))

    return jnp.stack([reached, _family_max(library, reached), jnp.log1p(produced)], axis=1)


def select(
    library: DeviceLibrary,
    memory: Memory,
    weights: FrontierWeights,
    request: RequestArrays,
    size: int,
    width: int,
    injected: jax.Array | None = None,
) -> Frontier:
    """The frontier of ``size`` tools (C), best first, ties by tool id; ``width`` is D.

    ``injected`` int32 [T] (-1 = none) are tools that must be there: one that is missing takes the place of the last.
    For training only (method.md section 6).
    """
    scores = library_scores(library, memory, weights.anchor, request)
    odds = jnp.where(library.valid, scores.features @ weights.propagated, -jnp.inf)
    best, tool = jax.lax.top_k(odds, size)
    if injected is not None:
        tool = inject(tool, injected)
        best = odds[tool]
    valid = jnp.isfinite(best)
    prior = jnp.where(valid, best, -20.0)
    inputs = library.inputs[tool]
    required = (inputs >= 0) & valid[:, None]
    produced = produces(library.outputs[tool], inputs) & valid[:, None, None] & valid[None, :, None]
    embedding = library.embedding[tool]
    text = tuple(score[tool] for score in scores.text)
    return Frontier(
        tool=tool,
        valid=valid,
        prior=prior,
        query=scores.query[:width],
        text=embedding[:, :width],
        node=node_features(library, memory, tool, valid, prior, text, request.visible, produced),
        relation=relations(library, memory, tool, produced),
        produces=produced,
        required=required,
        missing=required & ~membership(inputs, request.visible),
        similar=embedding @ embedding.T,
    )


def inject(tool: jax.Array, wanted: jax.Array) -> jax.Array:
    """``tool`` [C] with every id of ``wanted`` [T] (-1 = none) in it; those not there yet replace the last ones."""
    repeated = jnp.any(jnp.tril(wanted[:, None] == wanted[None, :], -1), axis=1)
    absent = (wanted >= 0) & ~repeated & ~jnp.any(wanted[:, None] == tool[None, :], axis=1)
    keep = jnp.any(tool[:, None] == wanted[None, :], axis=1)  # a wanted tool is not pushed out by another
    # The places that may be given away, in order; the first absent tool takes the last of them.
    free = jnp.argsort(keep, stable=True)
    place = free[jnp.maximum(jnp.sum(~keep) - jnp.cumsum(absent), 0)]
    return tool.at[jnp.where(absent, place, len(tool))].set(wanted, mode="drop")
