"""A library as device arrays: text index, embeddings and key ids, padded to a bucket (method.md section 8)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spm_jax.data.aliases import Aliases
from spm_jax.data.fields import input_keys, output_keys, split_words
from spm_jax.data.schema import DataError, Library, Request
from spm_jax.data.state import visible_keys
from spm_jax.text.documents import content_words, short_document, tool_document
from spm_jax.text.embeddings import encoded
from spm_jax.text.lexical import bm25_postings, make_postings, name_postings
from spm_jax.text.lsa import fit_lsa_words
from spm_jax.text.segments import SEGMENTS, clauses
from spm_jax.text.vocabulary import Vocabulary, build_vocabulary, request_words
from spm_jax.types import DeviceLibrary, Postings, RequestArrays, TextEncoder

INPUTS, OUTPUTS, NAME_WORDS = 8, 32, 8  # slots of a tool; longer lists are folded
TOGETHER = "+"  # joins keys that share a slot; no canonical key holds it
PRODUCERS = 256  # longest list of producers of a key: what more tools output than this is no one's need
WORDS, VISIBLE = 128, 128  # of a request; explicit state of more keys takes a larger bucket
# What an ablation can switch off: visible state, outputs of tools, order of training paths, texts of training requests,
# which tools are of one family, clauses of a request.
SIGNALS = ("state", "flow", "precedence", "memory", "families", "clauses")


def bucket(size: int) -> int:
    """The padded size of ``size`` things: the next of 2^k, 1.25, 1.5 and 1.75 times 2^k, at least 128."""
    if size <= 128:
        return 128
    step = 1 << (int(size - 1).bit_length() - 3)
    return -(-size // step) * step


@dataclass(frozen=True)
class IndexedLibrary:
    """A library with its vocabularies (host) and its arrays (NumPy, ready to go to a device)."""

    library: Library
    vocabulary: Vocabulary
    keys: tuple[str, ...]  # sorted: every key that a tool needs or outputs, and the joined ones of ``_fold_inputs``
    arrays: DeviceLibrary
    encoder: TextEncoder | None = None  # None: the program's own LSA
    aliases: Aliases = Aliases()  # which inputs a key fills beside its own
    off: frozenset[str] = frozenset()  # the ``SIGNALS`` that menus of this library do without

    @cached_property
    def key_index(self) -> dict[str, int]:
        return {key: number for number, key in enumerate(self.keys)}

    @cached_property
    def known_keys(self) -> frozenset[str]:
        return frozenset(key for key in self.keys if TOGETHER not in key)

    @cached_property
    def _joined(self) -> tuple[str, ...]:
        return tuple(key for key in self.keys if TOGETHER in key)

    def visible(self, request: Request) -> frozenset[str]:
        """F0(q), as far as some tool knows it."""
        if "state" in self.off:
            return frozenset()
        return self.known_keys.intersection(visible_keys(request, self.known_keys))

    def _filled(self, seen: frozenset[str]) -> frozenset[str]:
        """``seen`` and the inputs that it fills by alias, as far as the slots of a request go."""
        held = [key for key in self.aliases.extend(sorted(seen)) if key in self.known_keys]
        return frozenset(held[: max(VISIBLE, len(seen))])

    def request(self, request: Request) -> RequestArrays:
        """The arrays of a request: its words, its vector, and the keys of its visible state that some tool knows."""
        return self.requests([request])[0]

    def requests(self, requests: Sequence[Request]) -> list[RequestArrays]:
        """The arrays of many requests; an encoder takes them all at once."""
        width = self.arrays.embedding.shape[1]
        vectors = np.zeros((len(requests), 1 + SEGMENTS, width), np.float32)
        if self.encoder is not None:
            cut = (lambda text: []) if "clauses" in self.off else clauses
            parts = [[request.text, *cut(request.text)] for request in requests]
            texts = [part for row in parts for part in row]
            found = self.encoder.encode(texts) if len(parts) == 1 else encoded(self.encoder, texts)
            row = np.repeat(np.arange(len(parts)), [len(row) for row in parts])
            vectors[row, [number for row in parts for number in range(len(row))]] = found
        return [self._request(request, *np.split(each, [1])) for request, each in zip(requests, vectors)]

    def _request(self, request: Request, query: np.ndarray, by_clause: np.ndarray) -> RequestArrays:
        words = request_words(self.vocabulary, request.text, WORDS)
        if "clauses" in self.off:
            words = words._replace(segment=np.zeros_like(words.segment))
        seen = self._filled(self.visible(request))
        joined = [key for key in self._joined if seen.issuperset(key.split(TOGETHER))]
        found = sorted(self.key_index[key] for key in (*seen, *joined))
        visible = np.full(max(VISIBLE, bucket(len(found))), -1, np.int32)
        visible[: len(found)] = found
        return RequestArrays(*words, visible, query[0], by_clause)


def _padded(values: np.ndarray, size: int, fill: float = 0) -> np.ndarray:
    out = np.full((size, *values.shape[1:]), fill, values.dtype)
    out[: len(values)] = values
    return out


def _pad_postings(postings: Postings, words: int) -> Postings:
    entries = bucket(len(postings.tool))
    return Postings(
        start=_padded(postings.start, words),
        length=_padded(postings.length, words),
        tool=_padded(postings.tool, entries),
        weight=_padded(postings.weight, entries),
    )


def _fold_inputs(row: tuple[str, ...]) -> tuple[str, ...]:
    """At most ``INPUTS`` keys: those of a longer list that do not fit are joined into one that stands for all of them.

    It is met where all are visible or one tool outputs them all, so that a tool is never taken for executable while an
    input beyond the eighth is missing.
    """
    return row if len(row) <= INPUTS else (*row[: INPUTS - 1], TOGETHER.join(row[INPUTS - 1 :]))


def _fold_outputs(rows: list[tuple[str, ...]], needs: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The outputs of each tool, with the joined inputs that they meet; of a long list the needed ones first."""
    needed = {key for row in needs for key in row}
    joined: dict[str, list[str]] = {}
    for key in sorted(key for key in needed if TOGETHER in key):
        joined.setdefault(key.partition(TOGETHER)[0], []).append(key)
    folded = []
    for row in rows:
        extra = [key for first in row for key in joined.get(first, ()) if set(row).issuperset(key.split(TOGETHER))]
        row = (*row, *extra)
        folded.append(row if len(row) <= OUTPUTS else tuple(sorted(row, key=lambda key: key not in needed)))
    return folded


def _ids(rows: list[list[int]], width: int, size: int) -> np.ndarray:
    """int32 [size, width]: the first ``width`` ids of each row, padded with -1."""
    out = np.full((size, width), -1, np.int32)
    for number, row in enumerate(rows):
        out[number, : len(row[:width])] = row[:width]
    return out


def _numbered(values: list) -> tuple[np.ndarray, int]:
    """Each distinct value as an integer, in order of first appearance, and how many there are."""
    seen: dict = {}
    return np.array([seen.setdefault(value, len(seen)) for value in values], np.int32), len(seen)


def _turned(embedding: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``embedding`` [N, E] turned so that its first columns hold most of it, and the rotation [E, E].

    A rotation leaves every cosine as it is, and the networks, which see the first 64 columns, see the best 64.
    """
    _, vectors = np.linalg.eigh(embedding.T.astype(np.float64) @ embedding)
    rotation = vectors[:, ::-1]
    rotation *= np.where(rotation[np.abs(rotation).argmax(axis=0), np.arange(len(rotation))] < 0, -1, 1)
    return (embedding @ rotation).astype(np.float32), rotation.astype(np.float32)


def _flow(
    library: Library, aliases: Aliases, outputs: bool = True
) -> tuple[tuple[str, ...], dict[str, np.ndarray | Postings]]:
    """Every key of a library, sorted, and the arrays of a DeviceLibrary that say what its tools need and output.

    Without ``outputs`` no tool outputs anything. Of a long list of outputs the needed ones come first, and of these the tool's own before what they fill.
    """
    whole = [input_keys(tool) for tool in library]
    needed = {key for row in whole for key in row}
    fills = Aliases({
        key: kept for key, names in aliases.fills.items() if (kept := [name for name in names if name in needed])
    })  # fmt: skip
    needs = [_fold_inputs(row) for row in whole]
    gives = _fold_outputs([fills.extend(output_keys(tool)) if outputs else () for tool in library], needs)
    keys = tuple(sorted({key for row in (*whole, *needs, *gives) for key in row}))
    key_index = {key: number for number, key in enumerate(keys)}
    inputs = [[key_index[key] for key in row] for row in needs]
    outputs = [[key_index[key] for key in row] for row in gives]
    key = np.array([key for row in outputs for key in row[:OUTPUTS]], np.int32)
    tool = np.array([number for number, row in enumerate(outputs) for _ in row[:OUTPUTS]], np.int32)
    producers = make_postings(key, tool, np.ones(len(key), np.float32), len(keys), PRODUCERS)
    size = bucket(len(library))
    return keys, {
        "inputs": _ids(inputs, INPUTS, size),
        "outputs": _ids(outputs, OUTPUTS, size),
        "producers": _pad_postings(producers, bucket(len(keys))),
    }


def index_library(
    library: Library,
    width: int = 256,
    seed: int = 0,
    encoder: TextEncoder | None = None,
    aliases: Aliases = Aliases(),
    off: Collection[str] = (),
) -> IndexedLibrary:
    """Index a library; ``width`` is E of LSA. 44,589 tools take about half a minute on two cores, most of it the SVD.

    With an ``encoder`` its embeddings take the place of LSA's, and E is its width; they are kept in the cache. With
    ``aliases`` a tool outputs, and a request holds, also what its keys fill (data/aliases.py); needs stay as they are.

    ``off`` are ``SIGNALS`` to do without. Raises DataError for another name.
    """
    unknown = sorted(set(off) - set(SIGNALS))
    if unknown:
        raise DataError(f"off: no signal is called {unknown[0]!r}; known are {', '.join(SIGNALS)}")
    size = bucket(len(library))
    words = [content_words(tool_document(tool)) for tool in library]
    vocabulary = build_vocabulary(words)
    vocabulary_size = bucket(len(vocabulary))
    if encoder is None:
        lsa = fit_lsa_words(words, vocabulary, width, seed)
        embedding, projection = lsa.document_embeddings, _padded(lsa.projection, vocabulary_size)
    else:
        embedding, projection = _turned(encoded(encoder, [short_document(tool) for tool in library]))

    keys, flow = _flow(library, aliases, "flow" not in off)
    names = [split_words(tool.name) for tool in library]
    name_words = {word: number for number, word in enumerate(sorted({word for name in names for word in name}))}
    family, families = _numbered([tool.id if "families" in off else tool.family for tool in library])
    category, _ = _numbered([tool.family.partition("/")[0] if "/" in tool.family else "" for tool in library])
    name, different_names = _numbered([tuple(name) for name in names])
    arrays = DeviceLibrary(
        valid=_padded(np.ones(len(library), bool), size, False),
        embedding=_padded(embedding, size),
        family=_padded(family, size, families),
        category=_padded(category, size, families),
        name=_padded(name, size, different_names),
        name_words=_ids([sorted({name_words[word] for word in name}) for name in names], NAME_WORDS, size),
        outputs_known=_padded(np.array([tool.outputs_known and "flow" not in off for tool in library]), size, False),
        lexical=_pad_postings(bm25_postings(words, vocabulary), vocabulary_size),
        names=_pad_postings(name_postings([content_words(t.name) for t in library], vocabulary), vocabulary_size),
        idf=_padded(vocabulary.idf, vocabulary_size),
        projection=projection,
        families=bucket(families + 1),
        encoded=encoder is not None,
        **flow,
    )
    return IndexedLibrary(library, vocabulary, keys, arrays, encoder, aliases, frozenset(off))


def with_aliases(indexed: IndexedLibrary, aliases: Aliases) -> IndexedLibrary:
    """The same index with other aliases: what ``index_library`` gives with them, without reading any text again."""
    keys, flow = _flow(indexed.library, aliases, "flow" not in indexed.off)
    return replace(indexed, keys=keys, arrays=replace(indexed.arrays, **flow), aliases=aliases)
