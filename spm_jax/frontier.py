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
from jax.sharding import Mesh, PartitionSpec

from spm_jax.features import membership, node_features, pair_counts, produces, relations
from spm_jax.placement import LIBRARY
from spm_jax.ragged import fold_lists
from spm_jax.text.lexical import gather_scores
from spm_jax.text.segments import SEGMENTS
from spm_jax.types import DeviceLibrary, Frontier, Memory, Postings, RequestArrays, pytree

ANCHORS = 64
PRECISION = "float32"  # of matrix products of float32 on every platform: no TF32, no bfloat16 passes


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
    CATEGORY = 17  # share of the anchors' probability in the tool's category
    NAME = 18  # share of the tool's name that the request says
    NAME_MEMORY = 19  # the same times the family's best memory


@pytree
class FrontierWeights:
    """Weights of the two passes."""

    anchor: jax.Array  # float32 [12]
    propagated: jax.Array  # float32 [20]


@pytree
class Scores:
    """The first look at a request: every tool's text scores and features, before a frontier is chosen."""

    query: jax.Array  # float32 [E]
    text: tuple[jax.Array, jax.Array, jax.Array, jax.Array]  # dense, lexical, memory, name, float32 [N] each
    features: tuple[jax.Array, ...]  # the columns of ``Anchor`` and ``Propagated``, float32 [N] each


def query_embedding(library: DeviceLibrary, request: RequestArrays) -> jax.Array:
    """float32 [E]: the request's TF-IDF projected as the library's documents were, length 1 (0 without known words).

    Where the library was encoded on the host, the request's own vector turned as those of the library were.
    """
    if library.encoded:
        query = request.query @ library.projection
    else:
        query = jnp.sum(_tfidf(library, request)[:, None] * library.projection[request.words], axis=0)
    return query / jnp.maximum(jnp.linalg.norm(query), 1e-9)


def _tfidf(library: DeviceLibrary, request: RequestArrays) -> jax.Array:
    there = request.words >= 0
    weight = jnp.where(there, (1 + jnp.log(jnp.maximum(request.counts, 1))) * library.idf[request.words], 0.0)
    return request.share * weight / jnp.maximum(jnp.sqrt(jnp.sum(request.share * weight**2)), 1e-9)


def lexical_weight(request: RequestArrays) -> jax.Array:
    """float32 [W]: what a BM25 impact is multiplied by; a word counts by the root of its count."""
    return request.share * jnp.sqrt(request.counts)


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
    return jnp.where(row >= 0, lexical_weight(request), 0.0) @ memory.extended[row]


def _places(library: DeviceLibrary, memory: Memory) -> tuple[jax.Array, jax.Array]:
    """int32 [U] each: tool and family of the used tools; out of range, so that scatters drop it, for padding."""
    there = memory.tool >= 0
    return (
        jnp.where(there, memory.tool, len(library.valid)),
        jnp.where(there, library.family[memory.tool], library.families),
    )


@jax.default_matmul_precision(PRECISION)
def library_scores(
    library: DeviceLibrary,
    memory: Memory,
    anchor_weights: jax.Array,
    request: RequestArrays,
    mesh: Mesh | None = None,
) -> Scores:
    """Both passes' features of every tool, of a library that is cut over the axis "library" of ``mesh`` (None: whole).

    What training says is computed for the used tools, then spread.
    """
    nothing = jnp.zeros(len(library.valid), jnp.float32)  # [N]
    no_family = jnp.zeros(library.families, jnp.float32)  # [F]
    used, used_family = _places(library, memory)
    query = query_embedding(library, request)
    dense = library.embedding @ query
    impact = gather_scores(library.lexical, request.words, lexical_weight(request), len(nothing))
    lexical = impact / jnp.maximum(jnp.max(impact), 1e-9)
    recall = memory_scores(library, memory, request)  # [U]
    in_memory = nothing.at[used].set(recall, mode="drop")
    groups = nothing.at[used].set(memory.groups, mode="drop")
    family_lexical = no_family.at[library.family].max(lexical)[library.family]
    family_memory = no_family.at[used_family].max(recall, mode="drop")[library.family]
    family_groups = jnp.log1p(no_family.at[used_family].add(memory.groups, mode="drop"))[library.family]
    within = lexical / jnp.maximum(family_lexical, 1e-9)
    columns = {
        Anchor.LEXICAL: lexical,
        Anchor.DENSE: dense,
        Anchor.MEMORY: in_memory,
        Anchor.POPULARITY: jnp.log1p(groups),
        Anchor.USED: (groups > 0).astype(jnp.float32),
        Anchor.FAMILY_LEXICAL: family_lexical,
        Anchor.FAMILY_MEMORY: family_memory,
        Anchor.FAMILY_POPULARITY: family_groups,
        Anchor.WITHIN: within,
        Anchor.WITHIN_USED: jnp.where(family_groups > 0, within, 0.0),
        Anchor.WITHIN_MEMORY: within * family_memory,
        Anchor.ONE: nothing + 1,
    }
    first = tuple(columns[name] for name in Anchor)
    anchors, likely = _anchors(library, weighted(first, anchor_weights), mesh)
    reached = _reached(memory, anchors, likely)  # [U]
    produced = _produced(library, anchors, likely, request.visible)
    mass = no_family.at[library.category[anchors]].add(likely)  # categories are fewer than families
    name = gather_scores(library.names, request.words, request.share, len(nothing))
    called = jnp.where(memory.groups > 0, used, len(nothing))
    extended = impact.at[called].set(extended_scores(memory, request), mode="drop")
    extended = extended / jnp.maximum(jnp.max(extended), 1e-9)
    columns = {
        Propagated.NEIGHBOUR: nothing.at[used].set(reached, mode="drop"),
        Propagated.FAMILY_NEIGHBOUR: no_family.at[used_family].max(reached, mode="drop")[library.family],
        Propagated.PRODUCER: jnp.log1p(produced),
        Propagated.EXTENDED: extended,
        Propagated.FAMILY_EXTENDED: no_family.at[library.family].max(extended)[library.family],
        Propagated.CATEGORY: (mass / jnp.maximum(jnp.sum(mass), 1e-9))[library.category],
        Propagated.NAME: name,
        Propagated.NAME_MEMORY: name * family_memory,
    }
    return Scores(query, (dense, lexical, in_memory, name), first + tuple(columns[name] for name in Propagated))


def weighted(columns: tuple[jax.Array, ...], weights: jax.Array) -> jax.Array:
    """float32 [N]: the sum of the ``columns`` [N] by ``weights``. No matrix of all of them is ever written."""
    return sum(column * weight for column, weight in zip(columns, weights, strict=True))


def best_tools(values: jax.Array, size: int, mesh: Mesh | None) -> tuple[jax.Array, jax.Array]:
    """The ``size`` largest ``values`` [N] and their tools, largest first, ties by tool id: float32 and int32 [size].

    On a ``mesh`` each device picks from its part of the library and the picks are merged, with the same result.
    """
    if mesh is None:
        return jax.lax.top_k(values, size)

    def within(part: jax.Array) -> tuple[jax.Array, jax.Array]:
        best, tool = jax.lax.top_k(part, min(size, len(part)))
        return best, tool + jax.lax.axis_index(LIBRARY) * len(part)

    cut = PartitionSpec(LIBRARY)
    picked, tool = jax.shard_map(within, mesh=mesh, in_specs=cut, out_specs=cut)(values)
    best, place = jax.lax.top_k(picked, size)  # parts follow one another, so ties still go to the lower id
    return best, tool[place]


def _anchors(library: DeviceLibrary, odds: jax.Array, mesh: Mesh | None) -> tuple[jax.Array, jax.Array]:
    """The best 64 tools by log-odds [N] and their probabilities: int32 and float32 [A]."""
    best, anchors = best_tools(jnp.where(library.valid, odds, -jnp.inf), min(ANCHORS, len(odds)), mesh)
    return anchors, jax.nn.sigmoid(best)


def _reached(memory: Memory, anchors: jax.Array, likely: jax.Array) -> jax.Array:
    """float32 [U]: the best of "anchor's probability times the share of its groups that call the tool"."""
    slot = memory.slot[anchors]
    neighbour = jnp.where(slot[:, None] >= 0, memory.neighbour[slot], -1)  # [A, 32]
    place = jnp.where(neighbour >= 0, neighbour, len(memory.calls))
    return jnp.zeros_like(memory.calls).at[place].max(likely[:, None] * memory.neighbour_weight[slot], mode="drop")


def _produced(library: DeviceLibrary, anchors: jax.Array, likely: jax.Array, visible: jax.Array) -> jax.Array:
    """float32 [N]: the probability-weighted missing inputs of the anchors that a tool outputs."""
    inputs = library.inputs[anchors]  # [A, I]
    missing = (inputs >= 0) & ~membership(inputs, visible)
    need = likely[:, None] * missing / jnp.maximum(1, jnp.sum(inputs >= 0, axis=1))[:, None]
    keys = jnp.where(missing, inputs, -1)
    return gather_scores(library.producers, keys.ravel(), need.ravel(), len(library.valid))


def candidates(
    library: DeviceLibrary,
    memory: Memory,
    weights: FrontierWeights,
    request: RequestArrays,
    size: int,
    mesh: Mesh | None = None,
) -> tuple[Scores, jax.Array, jax.Array]:
    """Every tool's scores, its log-odds of being on the path (float32 [N]), and the best ``size`` (int32 [C])."""
    scores = library_scores(library, memory, weights.anchor, request, mesh)
    odds = jnp.where(library.valid, weighted(scores.features, weights.propagated), -jnp.inf)
    return scores, odds, best_tools(odds, size, mesh)[1]


def clause_scores(
    library: DeviceLibrary, memory: Memory, request: RequestArrays, tool: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """What each clause says for the tools [C], float32 [C, S] each: what it adds to their BM25 (of the extended
    document where training used the tool) and to their path memory, and the share of their names that stands in it."""
    size = len(tool)
    column = jnp.full(len(library.valid), size).at[tool].set(jnp.arange(size), mode="drop")
    weight = lexical_weight(request)
    ids, segment = request.words, jnp.asarray(request.segment)

    def by_clause(postings: Postings, weight: jax.Array) -> jax.Array:
        def add(scores: jax.Array, row: jax.Array, place: jax.Array, there: jax.Array) -> jax.Array:
            at = jnp.where(there, column[postings.tool[place]], size)
            return scores.at[at, segment[row]].add(weight[row] * postings.weight[place], mode="drop")

        length = jnp.where(ids >= 0, postings.length[ids], 0)
        return fold_lists(postings.start[ids], length, add, jnp.zeros((size, SEGMENTS), jnp.float32))

    lexical, named = by_clause(library.lexical, weight), by_clause(library.names, jnp.ones_like(weight))
    row, slot = _rows(memory, request), memory.slot[tool]
    called = (slot >= 0) & (memory.groups[slot] > 0)
    there = (row >= 0)[:, None] & called[None, :]
    clause = jax.nn.one_hot(segment, SEGMENTS)  # [W, S]
    extended = jnp.where(there, memory.extended[row[:, None], slot[None, :]], 0.0) * weight[:, None]
    recall = jnp.where(there, memory.recall[row[:, None], slot[None, :]], 0.0) * _tfidf(library, request)[:, None]
    return jnp.where(called[:, None], extended.T @ clause, lexical), recall.T @ clause, jnp.minimum(named, 1.0)


@jax.default_matmul_precision(PRECISION)
def select(
    library: DeviceLibrary,
    memory: Memory,
    weights: FrontierWeights,
    request: RequestArrays,
    size: int,
    width: int,
    injected: jax.Array | None = None,
    mesh: Mesh | None = None,
) -> Frontier:
    """The frontier of ``size`` tools (C), best first, ties by tool id; ``width`` is D.

    ``injected`` int32 [T] (-1 = none) are tools that must be there: one that is missing takes the place of the last.
    For training only (method.md section 6).
    """
    scores, odds, tool = candidates(library, memory, weights, request, size, mesh)
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
    precedes, _ = pair_counts(memory, tool)
    clauses = 1 + jnp.max(jnp.where(request.words >= 0, request.segment, 0))
    dense = embedding @ (request.clauses @ library.projection).T if library.encoded else jnp.zeros((size, SEGMENTS))
    evidence, recall, named = clause_scores(library, memory, request, tool)
    by_clause = (evidence, recall, dense, named)
    return Frontier(
        tool=tool,
        valid=valid,
        prior=prior,
        query=scores.query[:width],
        text=embedding[:, :width],
        node=node_features(
            library, memory, tool, valid, prior, text, request.visible, produced, precedes, by_clause, clauses
        ),
        relation=relations(library, tool, produced, precedes),
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
