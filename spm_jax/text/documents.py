"""What the text of a tool is, and how text becomes tokens: shared by BM25, LSA and every text baseline."""

from __future__ import annotations

import re
import unicodedata

from spm_jax.data.schema import Field, Tool

DESCRIPTION_LIMIT = 2_000  # characters of one description that count: a pasted manual must not drown the tool's name

_ASCII_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Scripts written without spaces (or, Hangul, with particles glued on): no word boundary to split on.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1100, 0x11FF),  # Hangul Jamo
    (0x3005, 0x3007),  # ideographic iteration mark
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),
    (0x3400, 0x9FFF),  # Han
    (0xAC00, 0xD7AF),  # Hangul syllables
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)

# Function words of English requests and descriptions; the pieces of contractions ("don't" -> don, t) are among them.
STOP_WORDS = frozenset(
    "a about above after again against all also am an and any are aren as at be because been before being below "
    "between both but by can could couldn d did didn do does doesn doing don down during each few for from further "
    "had hadn has hasn have haven having he her here hers him his how i if in into is isn it its itself just let ll m "
    "ma may me might more most must my myself no nor not now o of off on once only or other our ours out over own re "
    "s same shall shan she should shouldn so some such t than that the their theirs them then there these they this "
    "those through to too under until up us ve very was wasn we were weren what when where which while who whom whose "
    "why will with won would wouldn y you your yours yourself".split()
)


def _kind(char: str) -> str:
    """'u' unspaced script, 'd' digit, 'U' capital, 'l' other letter or a mark on one, ' ' anything else."""
    code = ord(char)
    if any(low <= code <= high for low, high in _UNSPACED):
        return "u" if char.isalnum() or unicodedata.category(char)[0] == "M" else " "
    if char.isalpha():
        return "U" if char.isupper() else "l"
    if char.isdigit():
        return "d"
    return "l" if unicodedata.category(char)[0] == "M" else " "


def _unicode_words(text: str) -> list[str]:
    """Words of text that is not all ASCII; a run of an unspaced script gives its characters and its bigrams."""
    text = unicodedata.normalize("NFKC", text)
    kinds = "".join(map(_kind, text))
    words: list[str] = []
    for run in re.finditer(r"u+|U+(?!l)|U?l+|d+", kinds):
        word = text[run.start() : run.end()].lower()
        if kinds[run.start()] == "u":
            words.extend(word)
            words.extend(word[n : n + 2] for n in range(len(word) - 1))
        else:
            words.append(word)
    return words


def tokenize(text: str) -> list[str]:
    """Lower-case tokens of ``text`` in order: words split at camelCase, snake_case and digits.

    Text outside ASCII is put in NFKC first; Chinese, Japanese, Korean and Thai give single characters and bigrams.

    >>> tokenize("getOrderID2, HTTPServer_name")
    ['get', 'order', 'id', '2', 'http', 'server', 'name']
    >>> tokenize("天气")
    ['天', '气', '天气']
    """
    if text.isascii():
        return [word.lower() for word in _ASCII_WORD.findall(text)]
    return _unicode_words(text)


def content_words(text: str) -> list[str]:
    """``tokenize(text)`` without function words: what text search counts.

    On inner folds of TRAJECT-Bench over ToolBench this lifts BM25's recall@32 from 0.41 to 0.46.
    """
    return [word for word in tokenize(text) if word not in STOP_WORDS]


def _field_text(f: Field) -> str:
    return f"{f.name} {f.description[:DESCRIPTION_LIMIT]}"


def tool_document(tool: Tool, inputs: bool = True) -> str:
    """The text that stands for a tool: family, name, their descriptions, its inputs and theirs, one a line.

    ``inputs`` false leaves the inputs out: BM25 finds tools better without them (evaluation.md's extended documents,
    inner folds: complete chain@32 0.59 against 0.50), since an input's description says how to call, not what for.
    """
    lines = [
        tool.family,
        tool.family_description[:DESCRIPTION_LIMIT],
        tool.name,
        tool.description[:DESCRIPTION_LIMIT],
        *(_field_text(f) for f in tool.inputs if inputs),
    ]
    return "\n".join(line for line in lines if line.strip())


SHORT_LIMIT = 300  # characters of a description that a sentence encoder reads


def short_document(tool: Tool) -> str:
    """The sentence that stands for a tool where an encoder reads it: product, name and the start of the description."""
    product = tool.family.rpartition("/")[2].replace("_", " ")
    return f"{product}: {tool.name.replace('_', ' ')}. {tool.description[:SHORT_LIMIT]}"
