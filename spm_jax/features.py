"""Signals, node features, relations and pair features (method.md sections 2, 5 and 7).

Every function is pure, works on one request and is compiled as part of the menu program; ``vmap`` adds requests.
"""

from __future__ import annotations

from enum import IntEnum

import jax
import jax.numpy as jnp

from spm_jax.ragged import fold_lists
from spm_jax.types import DeviceLibrary, Memory


class Node(IntEnum):
    """The node features, in the order of their columns: the 12 of the paper's groups, and what clauses say [ours]."""

    DENSE = 0  # cosine of request and tool, full width
    LEXICAL = 1  # BM25 over its maximum in the library
    MEMORY = 2  # path memory
    PRIOR = 3  # log-odds of the propagated frontier score, over 5
    CHI = 4  # state fit; 1 = executable now
    OUTPUTS_KNOWN = 5
    FLOW_OUT = 6  # best flow into a likely tool of the frontier
    FLOW_IN = 7  # best flow received from a likely tool of the frontier
    PRODUCIBLE = 8  # share of the missing inputs that another tool of the frontier outputs
    FIRST = 9  # log-odds of being called first
    FOLLOW = 10  # precedence of the likely tools before this one, weighted by likelihood
    FAMILY = 11  # share of the frontier in the same family
    POSITION = 12  # where in the request the words that speak for the tool stand: 0 first clause, 1 last
    MEMORY_POSITION = 13  # the same by path memory; 0.5 where there is none
    BEST_CLAUSE = 14  # the tool's share of the best score in the clause that suits it best
    UNEXPLAINED = 15  # the same, but of what the clause's other likely tools leave open
    CLAUSES = 16  # log of the number of clauses, over 3
    DENSE_CLAUSE = 17  # cosine of the closest clause; this and the next need an encoder on the host, else 0
    DENSE_POSITION = 18
    NAME = 19  # share of the tool's name that the request says, by idf
    NAME_CLAUSE = 20  # the same of the clause that says most of it


class Relation(IntEnum):
    """The 5 relation types of the attention bias."""

    NEUTRAL = 0
    FEEDS = 1  # i -> j: transitions or schema flow say that j depends on i
    FED_BY = 2  # j -> i
    SAME_NAME = 3
    SAME_FAMILY = 4


class Pair(IntEnum):
    """The 16 pair features of [i, j], in the order of their columns."""

    KAPPA = 0
    KAPPA_BACK = 1
    MISSING_FLOW = 2  # kappa restricted to the inputs that are not visible
    MISSING_FLOW_BACK = 3
    RHO = 4
    PRECEDES = 5  # log(1 + c(i before j))
    PRECEDES_BACK = 6
    TRANSITION = 7  # share of i's calls that j follows at once
    TRANSITION_BACK = 8
    SHARED_INPUTS = 9  # Jaccard index of the required inputs
    SHARED_OUTPUTS = 10
    NAME = 11  # Jaccard index of the words of the names
    EMBEDDING = 12  # cosine, full width
    SAME_FAMILY = 13
    KNOWN = 14  # i's outputs are known
    KNOWN_BACK = 15


def membership(keys: jax.Array, within: jax.Array) -> jax.Array:
    """bool, shape of ``keys`` [.., I]: the key is not -1 and stands in ``within`` [V]."""
    within = jnp.where(within < 0, -2, within).reshape((1,) * jnp.ndim(keys) + (-1,))
    return jnp.any(keys[..., None] == within, axis=-1)


def chi(inputs: jax.Array, visible: jax.Array) -> jax.Array:
    """State fit [..] in [0, 1]: (|I ∩ F0| + 1[I = ∅]) / max(1, |I|), of ``inputs`` [.., I] and ``visible`` [V]."""
    count = jnp.sum(inputs >= 0, axis=-1)
    met = jnp.sum(membership(inputs, visible), axis=-1)
    return (met + (count == 0)) / jnp.maximum(1, count)


def produces(outputs: jax.Array, inputs: jax.Array) -> jax.Array:
    """bool [C, C, I]: tool i outputs the p-th required input of tool j, of ``outputs`` [C, O] and ``inputs`` [C, I].

    A tool does not produce for itself.
    """
    given = jnp.where(outputs < 0, -2, outputs)

    # A scan rather than ``any``: many features read the result, and the compiler would make it again for each of them.
    def either(match: jax.Array, column: jax.Array) -> tuple[jax.Array, None]:
        return match | (inputs[None] == column[:, None, None]), None

    match, _ = jax.lax.scan(either, jnp.zeros((len(outputs), *inputs.shape), bool), given.T, unroll=4)
    return match & ~jnp.eye(len(inputs), dtype=bool)[:, :, None]


def kappa(produced: jax.Array, required: jax.Array) -> jax.Array:
    """Schema flow i -> j [C, C] in [0, 1]: |O_i ∩ I_j| / max(1, |I_j|), of ``produces`` [C, C, I] and [C, I] masks.

    With ``required`` cut to missing inputs, the flow into what is not visible: the divisor stays the count of the mask.
    """
    return jnp.sum(produced & required[None], axis=-1) / jnp.maximum(1, jnp.sum(required, axis=-1))[None, :]


def rho(precedes: jax.Array) -> jax.Array:
    """Path precedence [C, C]: log((c(i ≺ j) + 1) / (c(j ≺ i) + 1)); antisymmetric."""
    return jnp.log1p(precedes) - jnp.log1p(precedes.T)


def pair_counts(memory: Memory, tool: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(c(i ≺ j), c(j follows i)) [C, C] of the tools' pairs [C], 0 where training paths never used one of them."""
    size = len(tool)
    slot = jnp.where(tool < 0, -1, memory.slot[tool])
    used = slot >= 0
    # Where in ``tool`` a slot stands; the rows of M of these tools are then read once, and what is not there dropped.
    column = jnp.full(len(memory.calls), size).at[jnp.where(used, slot, len(memory.calls))].set(
        jnp.arange(size), mode="drop"
    )

    def add(counts: jax.Array, row: jax.Array, place: jax.Array, there: jax.Array) -> jax.Array:
        pair = jnp.where(there, row * size + column[memory.pair[place]], size * size)
        pair = jnp.where(column[memory.pair[place]] < size, pair, size * size)
        return counts.at[pair].set(jnp.stack([memory.precedes[place], memory.follows[place]], axis=-1), mode="drop")

    length = jnp.where(used, memory.pair_length[slot], 0)
    counts = fold_lists(memory.pair_start[slot], length, add, jnp.zeros((size * size, 2), jnp.float32))
    return counts[:, 0].reshape(size, size), counts[:, 1].reshape(size, size)


def per_tool(memory: Memory, values: jax.Array, tool: jax.Array) -> jax.Array:
    """``values`` [U] of the tools [C]; 0 for a tool that no training path used."""
    slot = jnp.where(tool < 0, -1, memory.slot[tool])
    return jnp.where(slot >= 0, values[slot], 0.0)


def first_log_odds(first: jax.Array, calls: jax.Array) -> jax.Array:
    """log((first + 1) / (calls - first + 1)): how much more often a tool is called first than later."""
    return jnp.log1p(first) - jnp.log1p(calls - first)


def _best(flow: jax.Array, likely: jax.Array) -> jax.Array:
    return jnp.max(flow * likely, axis=1)


def node_features(
    library: DeviceLibrary,
    memory: Memory,
    tool: jax.Array,
    valid: jax.Array,
    prior: jax.Array,
    text: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
    visible: jax.Array,
    produced: jax.Array,
    precedes: jax.Array,
    clause_scores: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
    clauses: jax.Array,
) -> jax.Array:
    """float32 [C, 21], columns as in ``Node``; rows of padding are 0.

    ``prior`` [C] are log-odds, ``text`` the dense, lexical, memory and name score of each tool [C], ``produced`` is
    ``produces`` [C, C, I], ``precedes`` c(i ≺ j) [C, C]. Likely means sigmoid(prior). ``clause_scores`` are evidence,
    recall and dense of ``clause_features``, and the share of the names that each clause says.
    """
    dense, lexical, recall, name = text
    *by_clause, named = clause_scores
    inputs = library.inputs[tool]
    required = inputs >= 0
    missing = required & ~membership(inputs, visible)
    likely = jnp.where(valid, jax.nn.sigmoid(prior), 0.0)
    produced = produced & valid[:, None, None] & valid[None, :, None]
    flow = kappa(produced, required)
    producible = jnp.any(produced, axis=0) & missing
    family = library.family[tool]
    same_family = (family[:, None] == family[None, :]) & valid[None, :]
    columns = {
        Node.DENSE: dense,
        Node.LEXICAL: lexical,
        Node.MEMORY: recall,
        Node.PRIOR: prior / 5,
        Node.CHI: chi(inputs, visible),
        Node.OUTPUTS_KNOWN: library.outputs_known[tool],
        Node.FLOW_OUT: _best(flow, likely[None, :]),
        Node.FLOW_IN: _best(flow.T, likely[None, :]),
        Node.PRODUCIBLE: jnp.sum(producible, axis=1) / jnp.maximum(1, jnp.sum(missing, axis=1)),
        Node.FIRST: first_log_odds(per_tool(memory, memory.first, tool), per_tool(memory, memory.calls, tool)),
        Node.FOLLOW: jnp.sum(rho(precedes) * likely[:, None], axis=0) / jnp.maximum(1e-6, jnp.sum(likely)),
        Node.FAMILY: jnp.sum(same_family, axis=1) / jnp.maximum(1, jnp.sum(valid)),
    }
    stacked = jnp.stack([columns[feature].astype(jnp.float32) for feature in columns], axis=1)
    names = jnp.stack([name, jnp.max(named, axis=1)], axis=1)
    stacked = jnp.concatenate([stacked, clause_features(*by_clause, likely, clauses), names], axis=1)
    return jnp.where(valid[:, None], stacked, 0.0)


SHARP = 20.0  # of the softmax over clauses that turns cosines into a place


def clause_features(
    evidence: jax.Array, recall: jax.Array, dense: jax.Array, likely: jax.Array, clauses: jax.Array
) -> jax.Array:
    """float32 [C, 7], the columns of ``Node`` from POSITION to DENSE_POSITION.

    ``evidence`` and ``recall`` [C, S] are what each clause adds to a tool's BM25 and to its path memory, ``dense``
    [C, S] the cosine of the clause, ``likely`` [C] the tool's probability, ``clauses`` their number.
    """
    place = jnp.arange(evidence.shape[1]) / jnp.maximum(1, clauses - 1)

    def position(scores: jax.Array) -> jax.Array:
        weight = jnp.maximum(scores, 0.0) ** 2
        total = jnp.sum(weight, axis=1)
        return jnp.where(total > 1e-9, weight @ place / jnp.maximum(total, 1e-9), 0.5)

    share = evidence / jnp.maximum(jnp.max(evidence, axis=0, keepdims=True), 1e-6)
    claim = share * likely[:, None]
    best, second = jax.lax.top_k(claim.T, 2)[0].T  # [S] each
    rival = jnp.where(claim == best[None], second[None], best[None])
    columns = [
        position(evidence),
        position(recall),
        jnp.max(share, axis=1),
        jnp.max(share * (1 - rival), axis=1),
        jnp.broadcast_to(jnp.log(jnp.maximum(clauses, 1)) / 3, likely.shape),
        jnp.max(dense, axis=1),
        jax.nn.softmax(jnp.where(jnp.arange(dense.shape[1])[None] < clauses, SHARP * dense, -1e9), axis=1) @ place,
    ]
    return jnp.stack(columns, axis=1)


def relations(library: DeviceLibrary, tool: jax.Array, produced: jax.Array, precedes: jax.Array) -> jax.Array:
    """int8 [C, C], values of ``Relation``. A dependency wins over a shared name, that over a shared family.

    j depends on i where training calls i before j more often than after, or, where training fixes no order, where
    kappa_ij > kappa_ji.
    """
    order = rho(precedes)
    flow = kappa(produced, library.inputs[tool] >= 0)
    lean = jnp.where(order != 0, order, flow - flow.T)
    different = ~jnp.eye(len(tool), dtype=bool)
    names, families = library.name[tool], library.family[tool]
    kind = jnp.where(families[:, None] == families[None, :], Relation.SAME_FAMILY, Relation.NEUTRAL)
    kind = jnp.where(names[:, None] == names[None, :], Relation.SAME_NAME, kind)
    kind = jnp.where(lean > 0, Relation.FEEDS, kind)
    kind = jnp.where(lean < 0, Relation.FED_BY, kind)
    return jnp.where(different, kind, Relation.NEUTRAL).astype(jnp.int8)


def jaccard(keys: jax.Array) -> jax.Array:
    """float32 [C, C] in [0, 1]: shared share of the key sets ``keys`` [C, I] (-1 = none); 0 where both are empty."""
    size = jnp.sum(keys >= 0, axis=1)
    other = jnp.where(keys < 0, -2, keys)
    shared = jnp.sum(jnp.any(keys[:, None, :, None] == other[None, :, None, :], axis=-1), axis=-1)
    return shared / jnp.maximum(1, size[:, None] + size[None, :] - shared)


def pair_features(
    library: DeviceLibrary,
    memory: Memory,
    tool: jax.Array,
    produced: jax.Array,
    visible: jax.Array,
    similar: jax.Array,
) -> jax.Array:
    """float32 [K, K, 16], columns as in ``Pair``; ``similar`` [K, K] is the cosine of the embeddings."""
    inputs, known = library.inputs[tool], library.outputs_known[tool]
    required = inputs >= 0
    missing = required & ~membership(inputs, visible)
    flow, missing_flow = kappa(produced, required), kappa(produced, missing)
    precedes, follows = pair_counts(memory, tool)
    transition = follows / jnp.maximum(1.0, per_tool(memory, memory.calls, tool))[:, None]
    family = library.family[tool]
    shape = flow.shape
    columns = {
        Pair.KAPPA: flow,
        Pair.KAPPA_BACK: flow.T,
        Pair.MISSING_FLOW: missing_flow,
        Pair.MISSING_FLOW_BACK: missing_flow.T,
        Pair.RHO: rho(precedes),
        Pair.PRECEDES: jnp.log1p(precedes),
        Pair.PRECEDES_BACK: jnp.log1p(precedes.T),
        Pair.TRANSITION: transition,
        Pair.TRANSITION_BACK: transition.T,
        Pair.SHARED_INPUTS: jaccard(inputs),
        Pair.SHARED_OUTPUTS: jaccard(library.outputs[tool]),
        Pair.NAME: jaccard(library.name_words[tool]),
        Pair.EMBEDDING: similar,
        Pair.SAME_FAMILY: family[:, None] == family[None, :],
        Pair.KNOWN: jnp.broadcast_to(known[:, None], shape),
        Pair.KNOWN_BACK: jnp.broadcast_to(known[None, :], shape),
    }
    return jnp.stack([columns[feature].astype(jnp.float32) for feature in Pair], axis=-1)
