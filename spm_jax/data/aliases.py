"""Soft flow: which inputs a key fills beside the one that is named alike (method.md section 3).

``book_details`` fills ``book_info``, ``sky_id`` fills ``origin_sky_id``. This is a directed relation from keys to the
input keys that they fill. A partition of the keys into classes does as well on edge accuracy (experiments/edges.py
measures both) but must be kept from growing, covers fewer flows, and blurs what a tool needs; here needs stay as they
are.

Similar names, descriptions and types give the relation from the library alone, so every request may be trained on with
it. Pairs that the recorded data flow of training requests proves come with the groups that prove them: what a request's
own group alone proves must not be seen in its training features (``add_proved``). On three corpora they cover more
flows, but let in so many other producers that edge accuracy falls or stays; menus therefore use similarity alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from scipy.sparse import csr_array, diags_array

from spm_jax.data.fields import canonical_key, input_keys, path_keys, singular, split_words, tool_entity
from spm_jax.data.schema import DataError, Library, Request, Tool

Pair = tuple[str, str]  # (key, the input key that it fills)

THRESHOLD = 0.6  # least similarity; what most inner folds of NesTools choose (experiments/edges.py)
MOST = 4  # keys that may fill one input key by similarity, and input keys that one key may fill
DESCRIBED = 0.4  # least similarity of descriptions where a key lacks the last word of the input key
WORDS = 40  # of a field's description
COMMON = 2000  # a word of more keys than this proposes no pair; it counts in those that a rarer word proposes
BLOCK = 512  # input keys compared at a time

_TYPES = {
    "str": "string", "int": "number", "integer": "number", "float": "number", "double": "number", "bool": "boolean",
    "list": "array", "dict": "object",
}  # fmt: skip


@dataclass(frozen=True)
class Aliases:
    """``fills`` maps a key to the other input keys that it fills, best first. Empty: only equal keys flow."""

    fills: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.fills, Mapping):
            raise DataError(f"aliases: expected an object of key: list of keys, got {type(self.fills).__name__}")
        checked = {}
        for key, filled in self.fills.items():
            names = tuple(filled) if isinstance(filled, (list, tuple)) else ()
            if not names or not all(isinstance(name, str) and name for name in (key, *names)):
                raise DataError(f"aliases: {key!r:.60}: expected a list of at least one key")
            if len({key, *names}) <= len(names):
                raise DataError(f"aliases: {key!r:.60}: names itself, or one key twice")
            checked[key] = names
        object.__setattr__(self, "fills", MappingProxyType(checked))

    def __bool__(self) -> bool:
        return bool(self.fills)

    def extend(self, keys: Iterable[str]) -> tuple[str, ...]:
        """``keys`` and, after all of them, what they fill; distinct."""
        own = tuple(keys)
        return tuple(dict.fromkeys((*own, *(name for key in own for name in self.fills.get(key, ())))))


def _words(text: str) -> list[str]:
    return [singular(word) for word in split_words(text[:1000])[:WORDS]]


def _said(library: Iterable[Tool]) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]], set[str]]:
    """Of every key that a tool needs or outputs, sorted: its whole document, its descriptions alone; the needed keys.

    The whole document holds the key's own words, and descriptions and types of the fields that give the key.
    """
    whole: dict[str, Counter[str]] = defaultdict(Counter)
    described: dict[str, Counter[str]] = defaultdict(Counter)
    needed: set[str] = set()
    for tool in library:
        entity = tool_entity(tool)
        needed.update(input_keys(tool))
        fields = [(f, (canonical_key(f.name, entity),)) for f in tool.required]
        for f, keys in (*fields, *((f, path_keys(f.name, entity)) for f in tool.outputs)):
            words, kind = _words(f.description), f.type.strip().lower()
            for key in filter(None, keys):
                described[key].update(words)
                whole[key].update([f"type {_TYPES.get(kind, kind)}"] if kind else ())
    for key, words in described.items():
        whole[key].update((*words.elements(), *key.split("_")))
    keys = sorted(described)
    return {key: whole[key] for key in keys}, {key: described[key] for key in keys}, needed


def _vectors(documents: Iterable[Counter[str]]) -> tuple[csr_array, np.ndarray]:
    """TF-IDF of n documents, float64 [n, words] with rows of length 1, and how many documents hold each word [words].

    Weight (1 + log count) * log((n + 1) / (holders + 0.5)); the words are sorted.
    """
    documents = [sorted(document.items()) for document in documents]  # sums must not hang on the order of the library
    words = sorted({word for document in documents for word, _ in document})
    number = {word: n for n, word in enumerate(words)}
    row = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    column = np.array([number[word] for document in documents for word, _ in document], np.int64)
    count = np.array([count for document in documents for _, count in document], np.float64)
    holders = np.bincount(column, minlength=len(words))
    weight = (1 + np.log(count)) * np.log((len(documents) + 1) / (holders[column] + 0.5))
    length = np.sqrt(np.bincount(row, weight**2, len(documents)))
    weight /= np.maximum(length, 1e-12)[row]
    return csr_array((weight, (row, column)), shape=(len(documents), len(words))), holders


def _cosine(vectors: csr_array, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float64 [P] of the pairs of rows ``a`` and ``b`` [P]; rounded, so that equal texts tie."""
    return np.asarray(vectors[a].multiply(vectors[b]).sum(axis=1)).ravel().round(9)


def _similar(vectors: csr_array, holders: np.ndarray, rows: np.ndarray, threshold: float) -> tuple[np.ndarray, ...]:
    """(row, key, cosine) of the pairs of ``rows`` [r] with any key that are at least ``threshold`` alike.

    Only words of at most ``COMMON`` keys propose pairs. What common words can add is bounded by the lengths of both
    documents' common parts; a pair that stays below the threshold even so is dropped before the exact cosine is taken.
    """
    rare = diags_array((holders <= COMMON).astype(np.float64))
    proposing = csr_array(vectors @ rare)
    common = np.sqrt(np.maximum(0.0, 1 - proposing.multiply(proposing).sum(axis=1)))
    other = csr_array(proposing.T)
    found = []
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        proposed = (proposing[block] @ other).tocoo()
        place, key = proposed.coords
        row = block[place]
        kept = (proposed.data + common[row] * common[key] >= threshold - 1e-9) & (row != key)
        row, key = row[kept], key[kept]
        cosine = _cosine(vectors, row, key)
        alike = cosine >= threshold
        found.append((row[alike], key[alike], cosine[alike]))
    return tuple(np.concatenate(part) for part in zip(*found))


def _places(group: np.ndarray, order: np.ndarray) -> np.ndarray:
    """int [P]: the place of each pair within its ``group``, when the pairs are taken in ``order``."""
    sorted_order = order[np.argsort(group[order], kind="stable")]
    grouped = group[sorted_order]
    first = np.searchsorted(grouped, grouped)
    place = np.empty(len(group), np.int64)
    place[sorted_order] = np.arange(len(group)) - first
    return place


def similar_pairs(library: Library, threshold: float = THRESHOLD, most: int = MOST) -> dict[Pair, float]:
    """The pairs of a key and an input key that it fills, by similarity, with their cosines, the most alike first.

    A key fills an input key where the cosine of their TF-IDF documents is at least ``threshold``, the key is among the
    ``most`` nearest of the input key, and the input key among the ``most`` nearest inputs of the key; ties go to the
    name that sorts first. Where the key lacks the last word of the input key, which says what the field is
    (``flight_code``, ``flight_from``), their descriptions alone must be alike too. Depends on the set of tools, not on
    their order. 44,589 tools take about ten seconds.

    Raises DataError for a threshold outside (0, 1] and for ``most`` below 1.
    """
    if not 0 < threshold <= 1:
        raise DataError(f"aliases: threshold = {threshold!r}: expected a number above 0 and at most 1")
    if most < 1:
        raise DataError(f"aliases: most = {most!r}: expected a whole number of at least 1")
    whole, described, needed = _said(library)
    keys = list(whole)
    rows = np.array([number for number, key in enumerate(keys) if key in needed], np.int64)
    if not len(rows):
        return {}
    row, key, cosine = _similar(*_vectors(whole.values()), rows, threshold)
    words = [key.split("_") for key in keys]
    plain = np.array([words[p][-1] in words[o] for p, o in zip(row, key)], bool)
    alike = plain | (_cosine(_vectors(described.values())[0], row, key) >= DESCRIBED)
    row, key, cosine = row[alike], key[alike], cosine[alike]
    order = np.lexsort((key, row, -cosine))
    mutual = (_places(row, order) < most) & (_places(key, order) < most)
    return {(keys[key[pair]], keys[row[pair]]): float(cosine[pair]) for pair in order[mutual[order]]}


def as_aliases(pairs: Iterable[Pair]) -> Aliases:
    """The pairs as they are, each key's in the order given."""
    fills: dict[str, list[str]] = defaultdict(list)
    for key, filled in pairs:
        fills[key].append(filled)
    return Aliases(fills)


def similar_aliases(library: Library, threshold: float = THRESHOLD, most: int = MOST) -> Aliases:
    """``similar_pairs`` as aliases. They look at no request, so every request may be trained on with them."""
    return as_aliases(similar_pairs(library, threshold, most))


def proved_pairs(library: Library, requests: Iterable[Request]) -> dict[Pair, frozenset[str]]:
    """The pairs that recorded flow proves, each with the groups of requests that prove it.

    An argument that an earlier call's output filled (``Call.sources``) proves that every key of that output fills the
    argument's key. An output without a name proves something only where its tool has a single one. Arguments that no
    tool requires, and pairs of equal keys, say nothing. Raises DataError for a tool that the library does not hold.
    """
    witnesses: dict[Pair, set[str]] = defaultdict(set)
    for request in requests:
        calls = request.trajectory.calls
        for call in calls:
            for source in call.sources:
                filled = {key for tool in map(library.__getitem__, map(library.index, call.tools))
                          for key in _argument_keys(tool, source.argument)}  # fmt: skip
                given = {key for tool in map(library.__getitem__, map(library.index, calls[source.call].tools))
                         for key in _source_keys(tool, source.output)}  # fmt: skip
                for pair in ((o, p) for o in given for p in filled if o != p):
                    witnesses[pair].add(request.group)
    return {pair: frozenset(witnesses[pair]) for pair in sorted(witnesses)}


def _argument_keys(tool: Tool, name: str) -> tuple[str, ...]:
    key = canonical_key(name, tool_entity(tool))
    return (key,) if key in input_keys(tool) else ()


def _source_keys(tool: Tool, name: str) -> tuple[str, ...]:
    names = [f.name for f in tool.outputs]
    if not name and len(names) == 1:
        name = names[0]
    return path_keys(name, tool_entity(tool)) if name in names else ()


def add_proved(
    aliases: Aliases, proved: Mapping[Pair, Collection[str]], without: Collection[str] = frozenset()
) -> Aliases:
    """``aliases`` and, before them, the proved pairs that a group other than those of ``without`` proves.

    The pair that more groups prove comes first. Training features of a request need ``without`` its group: the result
    is then that of the other requests, so nothing of its own flow can be left (method.md section 2, Out of fold).
    """
    count = {pair: len(frozenset(groups).difference(without)) for pair, groups in proved.items()}
    fills: dict[str, list[str]] = defaultdict(list)
    for key, filled in sorted((p for p in count if count[p]), key=lambda pair: (-count[pair], pair)):
        fills[key].append(filled)
    for key, names in aliases.fills.items():
        fills[key].extend(name for name in names if name not in fills[key])
    return Aliases({key: fills[key] for key in sorted(fills)})
