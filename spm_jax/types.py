"""Pytrees, axis letters and the seams (Protocols) of the package.

Axis letters: B requests, N library, C frontier (128), K menu (32), P ordered prefix (8), S slots (8), D text (64),
E text at full width, H width (128), I and O key slots of a tool (8, 32), V visible keys, W request words, U tools that
a training path used, Q ordered pairs of them, F families, T calls of a chain. Ids are int32, -1 = none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax
import numpy as np

from spm_jax.data.schema import Request

Cls = TypeVar("Cls", bound=type)


def pytree(cls: Cls) -> Cls:
    """A frozen dataclass that is a pytree; fields made with ``static()`` are part of the trace, not data."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


def static(default: Any = dataclasses.MISSING) -> Any:
    """A field that is hashed into the trace instead of being traced."""
    return dataclasses.field(default=default, metadata={"static": True})


@pytree
class Postings:
    """A weighted sparse matrix from words (or keys) to tools, list after list."""

    start: jax.Array  # int32 [words]
    length: jax.Array  # int32 [words]
    tool: jax.Array  # int32 [postings]
    weight: jax.Array  # float32 [postings]


@pytree
class DeviceLibrary:
    """A library on the device, padded to a bucket (method.md section 8). Padding tools are not ``valid``."""

    valid: jax.Array  # bool [N]
    embedding: jax.Array  # float32 [N, E]: rows of length 1; the first 64 columns are the networks' input
    family: jax.Array  # int32 [N], below F
    category: jax.Array  # int32 [N], below F: what stands before the first "/" of the family
    name: jax.Array  # int32 [N]: equal where the words of the names are equal
    name_words: jax.Array  # int32 [N, 8]
    inputs: jax.Array  # int32 [N, I]: keys of the required inputs
    outputs: jax.Array  # int32 [N, O]: keys of the outputs
    outputs_known: jax.Array  # bool [N]
    lexical: Postings  # words -> tools, BM25 impact
    names: Postings  # words -> tools, the share of the idf of the tool's name
    producers: Postings  # keys -> tools that output them
    idf: jax.Array  # float32 [words]
    projection: jax.Array  # float32 [words, E]: TF-IDF -> embedding; [E, E]: an encoder's vector -> embedding
    families: int = static()  # F
    encoded: bool = static(False)  # whether an encoder on the host makes the requests' vectors


@pytree
class Memory:
    """Path statistics M and path memory on the device; every array belongs to training requests only."""

    slot: jax.Array  # int32 [N]: place of a tool in the U used ones
    tool: jax.Array  # int32 [U]: the used tools
    calls: jax.Array  # float32 [U]: trajectories of known order that call the tool
    groups: jax.Array  # float32 [U]: groups that call it
    first: jax.Array  # float32 [U]: trajectories that call it first
    pair_start: jax.Array  # int32 [U]: where the pairs (i, j) of slot i begin
    pair_length: jax.Array  # int32 [U]
    pair: jax.Array  # int32 [Q]: slot j
    precedes: jax.Array  # float32 [Q]: c(i before j)
    follows: jax.Array  # float32 [Q]: j called next after i
    neighbour: jax.Array  # int32 [U, 32]: slots that share groups with the tool, most first
    neighbour_weight: jax.Array  # float32 [U, 32]: share of the tool's groups that call the neighbour too
    word_row: jax.Array  # int32 [words]: row of ``recall`` and ``extended`` for a word of training
    recall: jax.Array  # float32 [rows, U]: weight of a request's word for a tool (path memory)
    extended: jax.Array  # float32 [rows, U]: BM25 impact of a word in a tool's document extended by its requests


@pytree
class RequestArrays:
    """A request as the program takes it."""

    words: jax.Array  # int32 [W]: words of the text, an entry for each clause that one stands in
    counts: jax.Array  # float32 [W]: times the word stands in the whole text
    share: jax.Array  # float32 [W]: 1 over the number of the word's entries
    segment: jax.Array  # int32 [W]: number of the clause
    visible: jax.Array  # int32 [V]: keys of F0(q)
    query: jax.Array  # float32 [E]: what the encoder on the host says; 0 where there is none
    clauses: jax.Array  # float32 [S, E]: the same of each clause


@pytree
class Frontier:
    """The C candidate tools of a request, best first, with everything that the retriever and the decoders look at."""

    tool: jax.Array  # int32 [C]
    valid: jax.Array  # bool [C]
    prior: jax.Array  # float32 [C]: log-odds of being on the path, by the propagated score
    query: jax.Array  # float32 [D]
    text: jax.Array  # float32 [C, D]
    node: jax.Array  # float32 [C, 21]: columns of ``features.Node``
    relation: jax.Array  # int8 [C, C]
    produces: jax.Array  # bool [C, C, I]: i outputs the p-th required input of j
    required: jax.Array  # bool [C, I]: j has a p-th required input
    missing: jax.Array  # bool [C, I]: and it is not visible
    similar: jax.Array  # float32 [C, C]: cosine of the embeddings at full width


@pytree
class MenuInputs:
    """The K tools picked for the menu, in order of picking: what the reranker and the order decoder look at."""

    tool: jax.Array  # int32 [K]
    valid: jax.Array  # bool [K]
    query: jax.Array  # float32 [D]
    text: jax.Array  # float32 [K, D]
    node: jax.Array  # float32 [K, 23]: those, the retriever's membership, the rank
    pair: jax.Array  # float32 [K, K, 16]
    produces: jax.Array  # bool [K, K, I]
    required: jax.Array  # bool [K, I]
    missing: jax.Array  # bool [K, I]


@runtime_checkable
class TextEncoder(Protocol):
    """Text to vectors, on the host."""

    name: str
    fingerprint: str  # changes where the vectors do

    @property
    def width(self) -> int:
        """E: the length of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [texts, E], rows of length 1."""
        ...


@runtime_checkable
class MenuConstructor(Protocol):
    """Anything that builds a menu: State-Path and every baseline."""

    name: str

    def build(self, request: Request, k: int) -> np.ndarray:
        """The ``min(k, N)`` distinct tool ids of the menu, in the order in which they are shown."""
        ...
