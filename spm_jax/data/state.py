"""Visible state F0 of a request: which fields are known before the first call (method.md section 3).

Explicit state from the caller always wins: where a request carries any, its keys are F0 and the text is not read.
Otherwise three kinds of evidence are read from the text: typed values (an e-mail address makes ``email`` visible),
mentions of the library's field keys beside a value ("SKU W003078383"), and free text, which can fill what asks for free
text (a query, a keyword). Keys are looked up by n-grams of the request's words, whatever the size of the library.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from spm_jax.data.detectors import DETECTORS
from spm_jax.data.fields import GENERIC, canonical_key, tool_entity
from spm_jax.data.schema import Library, Request

MAX_VISIBLE = 128  # keys of one request, surest first
MAX_TEXT = 20_000  # characters of a request that are read
MAX_WORDS = 600
MAX_NGRAM = 4

# A generic word is asked for as the entity's own: its "limit" is news_limit for the news tool.
_FREE_TEXT = ("query", "q", "search", "keyword", "term", "text", "title", "topic", "search_term", "search_query")
_NAMED = ("name",)
_TOKEN = re.compile(r"[^\W_]+(?:[-.'’:/][^\W_]+)*")
_COUNT = re.compile(r"(?<![\w.,:/-])\d{1,3}(?![\w:/-]|[.,]\d)")
_JOINED_NAME = re.compile(r"\b[A-Z]?[a-z]+[A-Z][A-Za-z]*\b|\b[A-Z]{2,}[a-z]+\b")
_QUOTED = re.compile(r"\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|(?<!\w)'[^'\n]{1,200}'(?!\w)|「[^」\n]{1,200}」")
_STOP = frozenset(
    "i a an the and or of to in on at for with from by me my you your it its is are be can could would show find get "
    "give need want please tell then first next after finally also this that these those all any about as what which "
    "who how some let use using check look search list provide see know help like more most".split()
)


def _values(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """Keys that typed values fill, surest first, and the spans of those values and of quoted strings."""
    keys: list[str] = []
    spans: list[tuple[int, int]] = [match.span() for match in _QUOTED.finditer(text)]
    for pattern, fills in DETECTORS.values():
        found = [match.span() for match in pattern.finditer(text)]
        if found:
            keys.extend(fills)
            spans.extend(found)
    return keys, spans


@lru_cache(maxsize=4)
def _owners(known: frozenset[str]) -> frozenset[str]:
    """What stands before the last word of a known key: ``news`` of ``news_limit``."""
    return frozenset(key.rpartition("_")[0] for key in known)


@lru_cache(maxsize=1 << 15)
def _has_digit(token: str) -> bool:
    return any(map(str.isdigit, token))


@lru_cache(maxsize=1 << 15)
def _canonical_words(token: str) -> tuple[str, ...]:
    return tuple(canonical_key(token).split("_")) if token else ()


def _words(text: str, spans: Sequence[tuple[int, int]]) -> tuple[list[str], list[bool], list[int]]:
    """Canonical words of the text; for each whether it is (part of) a value, and the number of its sentence."""
    marks = bytearray(len(text))
    for start, end in spans:
        marks[start:end] = b"\1" * (end - start)
    words: list[str] = []
    is_value: list[bool] = []
    sentence: list[int] = []
    number, last = 0, 0
    for match in _TOKEN.finditer(text):
        gap, token = text[last : match.start()], match[0]
        begins = not words or (gap != " " and any(mark in gap for mark in ".?!;\n"))
        number += begins
        value = marks[match.start()] == 1 or (token[0].isupper() and not begins and token != "I") or _has_digit(token)
        canonical = _canonical_words(token)
        words += canonical
        is_value += [value] * len(canonical)
        sentence += [number] * len(canonical)
        last = match.end()
        if len(words) >= MAX_WORDS:
            break
    return words, is_value, sentence


def _beside_value(position: int, is_value: Sequence[bool], sentence: Sequence[int]) -> bool:
    """Whether the word just before or after, in the same sentence, is a value."""
    before, after = position - 1, position + 1
    if before >= 0 and is_value[before] and sentence[before] == sentence[position]:
        return True
    return after < len(is_value) and is_value[after] and sentence[after] == sentence[position]


def read_text(text: str, known: frozenset[str]) -> list[str]:
    """Keys that the text makes visible, surest first, repeats possible."""
    text = text[:MAX_TEXT]
    typed, spans = _values(text)
    keys = [key for key in (*typed, *_FREE_TEXT) if key in known]
    words, is_value, sentence = _words(text, spans)
    joined = (match[0].lower() for match in _JOINED_NAME.finditer(text))  # BizToc names the tools of biztoc
    pairs = (a + b for a, b in pairwise(words) if a not in _STOP and b not in _STOP)  # getlearningresource
    owners = _owners(known)
    content = [
        w for w in dict.fromkeys((*words, *joined, *pairs)) if w in owners and w not in _STOP and not w.isdigit()
    ]
    for length in range(MAX_NGRAM, 0, -1):
        for start in range(len(words) - length + 1):
            key = "_".join(words[start : start + length])
            if key in known and (length > 1 or (key not in _STOP and _beside_value(start, is_value, sentence))):
                keys.append(key)
    generic = {
        w for n, w in enumerate(words) if w in GENERIC and w not in _STOP and _beside_value(n, is_value, sentence)
    }
    if _COUNT.search(text):
        generic.add("limit")
    tails = [*_FREE_TEXT, *(_NAMED if any(is_value) else ()), *sorted(generic.difference(_FREE_TEXT, _NAMED))]
    keys.extend(key for tail in tails for word in content if (key := f"{word}_{tail}") in known)
    return keys


def visible_keys(request: Request, known: Collection[str]) -> tuple[str, ...]:
    """F0(q): the canonical keys visible in a request, at most ``MAX_VISIBLE``, sorted.

    ``known``: the keys that the library's tools use, a frozenset (anything else is made one, which costs time).
    Explicit state wins: its keys are taken as they are, whether known or not, and the text is not read.
    """
    explicit = [key for name in request.state if (key := canonical_key(name))]
    if explicit:
        return tuple(sorted(set(explicit)))
    keys = dict.fromkeys(read_text(request.text, frozenset(known)))
    return tuple(sorted(list(keys)[:MAX_VISIBLE]))


def free_text_keys(known: Collection[str]) -> frozenset[str]:
    """Keys that any request fills, whatever it says: what asks for free text (``movie_query``, ``keyword``, ``text``).

    They are thousands in a large library, so ``visible_keys`` names only those whose owner the request speaks of;
    whoever can may count all as visible (on TRAJECT-Bench that lifts recall by 0.07 at the same precision).
    """
    return frozenset(key for key in known if key.rpartition("_")[2] in _FREE_TEXT)


# --- how good the reader is ------------------------------------------------------------------------------------------


def _stands_in(value: object, text: str) -> bool:
    """Whether an argument's value stands literally in the lower-case ``text``, at word boundaries."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    wanted = str(value).strip().lower()
    position = text.find(wanted) if wanted else -1
    while position >= 0:
        end = position + len(wanted)
        before, after = text[position - 1 : position], text[end : end + 1]
        if not (before.isalnum() and wanted[0].isalnum()) and not (after.isalnum() and wanted[-1].isalnum()):
            return True
        position = text.find(wanted, position + 1)
    return False


def labelled_arguments(request: Request, library: Library) -> dict[str, bool]:
    """Key of each argument of the recorded calls -> whether one of its values stands literally in the request text."""
    text = request.text.lower()
    labels: dict[str, bool] = {}
    for call in request.trajectory.calls:
        entity = tool_entity(library[library.index(call.tools[0])])
        for name, value in call.arguments.items():
            key = canonical_key(name, entity)
            if key:
                labels[key] = labels.get(key, False) or _stands_in(value, text)
    return labels


def score_reader(
    requests: Iterable[Request], library: Library, known: Collection[str], always: Collection[str] = frozenset()
) -> dict[str, float]:
    """Precision, recall and F1 (each in [0, 1]) of the reader over the arguments of recorded calls.

    Micro-averaged. An argument counts as visible where its value stands literally in the request text; precision is
    taken over the keys that have an argument, since nothing tells whether other keys are visible. Explicit state is
    left out. ``keys_per_request`` is the mean size of F0. ``always``: keys that count as visible in every request.
    """
    hits = predicted = labelled = keys = total = 0
    for request in requests:
        labels = labelled_arguments(request, library)
        visible = visible_keys(Request(request.id, request.text), known)
        told = [labels[key] for key in {*visible, *(key for key in labels if key in always)} if key in labels]
        hits += sum(told)
        predicted += len(told)
        labelled += sum(labels.values())
        keys += len(visible)
        total += 1
    precision, recall = hits / max(1, predicted), hits / max(1, labelled)
    return {
        "requests": total,
        "labelled_visible": labelled,
        "predicted_with_label": predicted,
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / max(1e-12, precision + recall),
        "keys_per_request": keys / max(1, total),
    }
