"""Canonical field keys: what lets an output of one tool be recognised as an input of another (method.md section 3).

``orderId``, ``order_id`` and ``Order IDs`` give one key, ``order_id``. A name too generic to carry meaning (``id``,
``name``, ``q``) is qualified by the entity it belongs to: the ``id`` that ``get_order`` returns is ``order_id``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from spm_jax.data.schema import Tool

MAX_WORDS = 8  # of a key; a longer "name" is a sentence or junk and its start identifies it well enough

# Say nothing about what a field holds.
NOISE = frozenset(
    "a an the of for to my your this that please param parameter parm arg argument field input output".split()
)

# Do not identify what a field holds unless one knows whose field it is.
GENERIC = frozenset(
    "id uid uuid guid name key code number value type data q query search term text title label description detail "
    "info information status state result response message msg success error item list array object record entry row "
    "element count total content body format page limit offset size start end sort filter option mode index rank "
    "position level kind category class tag version timestamp updated created note comment summary slug ref reference "
    "handle attribute property meta metadata payload obj output val len length amount quantity flag first last next "
    "previous prev current new old min max from in on by is get".split()
)

ABBREVIATIONS = {
    "lat": "latitude", "lng": "longitude", "lon": "longitude", "num": "number", "nbr": "number", "lang": "language",
    "desc": "description", "qty": "quantity", "addr": "address", "img": "image", "pic": "picture", "msg": "message",
    "identifier": "id", "pwd": "password", "tel": "telephone", "curr": "currency",
}  # fmt: skip

# Written in one word as often as in two.
JOINED = {
    "zipcode": ("zip", "code"), "postcode": ("postal", "code"), "postalcode": ("postal", "code"),
    "username": ("user", "name"), "firstname": ("first", "name"), "lastname": ("last", "name"),
    "fullname": ("full", "name"), "userid": ("user", "id"), "filename": ("file", "name"),
    "startdate": ("start", "date"), "enddate": ("end", "date"), "countrycode": ("country", "code"),
    "phonenumber": ("phone", "number"), "playerid": ("player", "id"), "teamid": ("team", "id"),
    "videoid": ("video", "id"), "apikey": ("api", "key"), "hotelid": ("hotel", "id"), "matchid": ("match", "id"),
}  # fmt: skip

# What makes a name of several words generic too: data_type, but not category_id.
_CORE = frozenset("id uid uuid name key code number value type data q query text result response item".split())

# What a tool does, and how its answer is cut, as opposed to what it is about.
_VERBS = frozenset(
    "get list search find create update delete post put patch lookup look up fetch retrieve send add remove set check "
    "show read return query request make do run generate compute calculate convert validate verify view load browse "
    "all any new latest current available single multiple full basic advanced simple by id endpoint api rest free v "
    "details detail info information data result results list name names value values".split()
)
# The words after these qualify the entity: get_order_by_customer is about an order.
_PREPOSITIONS = frozenset("by for from with in of on at to using via per within near and or".split())

_UNCHANGED = frozenset(
    "news series species status address business analysis basis gps sms dns https css aws ios os is us as bus gas plus "
    "this has was yes its iris paris texas lens atlas canvas alias bias chaos cosmos kudos physics mathematics "
    "statistics sports athletics economics politics rss pos cors does goes access process progress class".split()
)
_IRREGULAR = {
    "movies": "movie", "cookies": "cookie", "calories": "calorie", "selfies": "selfie", "children": "child",
    "people": "person", "statuses": "status", "bonuses": "bonus", "viruses": "virus", "buses": "bus",
    "indices": "index", "matrices": "matrix", "vertices": "vertex", "analyses": "analysis", "ids": "id",
    "aliases": "alias", "zombies": "zombie", "rookies": "rookie", "sports": "sport", "statistics": "statistic",
}  # fmt: skip

_ASCII_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PATH_PART = re.compile(r"[^.\[\]]+")


def _kind(char: str) -> str:
    """u upper case, l any other letter, d digit, m mark that belongs to the letter before it, '' a separator."""
    category = unicodedata.category(char)
    if category == "Lu" or category == "Lt":
        return "u"
    return {"L": "l", "N": "d", "M": "m"}.get(category[0], "")


def _split_unicode(name: str) -> list[str]:
    words, word, last = [], "", ""
    for position, char in enumerate(name):
        kind = _kind(char)
        if kind == "m":
            kind = last or "l"
        following = _kind(name[position + 1]) if position + 1 < len(name) else ""
        starts = kind != last and not (last == "u" and kind == "l" and len(word) == 1)
        starts = starts or (kind == last == "u" and following == "l")
        if word and starts:
            words.append(word)
            word = ""
        if kind:
            word += char
        last = kind
    return [*words, word] if word else words


def split_words(name: str) -> list[str]:
    """Lower-case words of a name: splits camelCase, snake_case, digits and at anything that is no letter or digit.

    Letters of any script count, with their marks; scripts without case or spaces stay in one piece. A name of symbols
    outside ASCII alone (an emoji) is one word, so that no such name collapses to nothing. ``"getOrderIDs2"`` gives
    ``["get", "order", "ids", "2"]``: a plural s after an abbreviation stays with it.
    """
    if name.isascii():
        name = re.sub(r"([A-Z]{2,})s(?![a-z])", lambda m: m[1].lower() + "s", _guard_plural(name))
        return [word.lower() for word in _ASCII_WORD.findall(name)]
    name = unicodedata.normalize("NFKC", name)
    words = [unicodedata.normalize("NFKC", word.lower()) for word in _split_unicode(name)]
    if not words:
        rest = "".join(char for char in name if not char.isascii() and not char.isspace())
        words = [rest] if rest else []
    return words


def _guard_plural(name: str) -> str:
    """Sets a plural abbreviation apart from a lower-case start that it follows: ``orderIDs -> order_IDs``."""
    return re.sub(r"([a-z])([A-Z]{2,}s(?![a-z]))", r"\1_\2", name)


def singular(word: str) -> str:
    """Singular of an English lower-case word by rule; a word that is no plural stays as it is. Idempotent."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or word in _UNCHANGED or not word.endswith("s") or word[-2] in "sui":
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    return word[:-1]


def _meaning(name: str) -> list[str]:
    """The canonical words of a name, noise dropped; ["value"] for a name of noise words alone."""
    words: list[str] = []
    for word in split_words(name[:1000]):
        words.extend(JOINED.get(word, (word,)))
    words = [ABBREVIATIONS.get(w, w) for w in map(singular, words)]
    kept = [w for w in words if w not in NOISE]
    return kept if kept or not words else ["value"]


@lru_cache(maxsize=1 << 17)
def canonical_key(name: str, entity: str = "") -> str:
    """The key of a field name, words joined by ``_``; ``""`` if nothing is left of the name.

    ``entity`` qualifies a generic name: ``canonical_key("id", "order")`` is ``"order_id"``.
    Idempotent for a given entity (method.md section 3).
    """
    words = _meaning(name)
    if words and entity and (GENERIC if len(words) == 1 else _CORE).issuperset(words):
        owner = _meaning(entity)
        if words[: len(owner)] != owner:
            words = owner + words
    return "_".join(words[:MAX_WORDS])


# ToolBench lower-cases getPeople to getpeople; the verb must still come off.
_GLUED_VERB = re.compile(r"^(?:get|fetch|create|update|delete|search)(?=[a-z]{4})")


def _entity_word(name: str) -> str:
    words = [_GLUED_VERB.sub("", word) for word in split_words(name[:1000])]
    for position, word in enumerate(words):
        if word in _PREPOSITIONS and any(w not in _VERBS for w in words[:position]):
            words = words[:position]
            break
    nouns = [w for w in words if w not in _VERBS and w not in _PREPOSITIONS and w not in NOISE and not w.isdigit()]
    return singular(nouns[-1]) if nouns else ""


@lru_cache(maxsize=1 << 17)
def _entity(family: str, name: str) -> str:
    return _entity_word(name) or _entity_word(family.rsplit("/", 1)[-1])


def tool_entity(tool: Tool) -> str:
    """What a tool is about, one word: ``get_order_by_id -> order``, ``SendEmailReceipt -> receipt``.

    The last noun before a preposition; where the tool's name holds none, the family's. May be ``""``.
    """
    return _entity(tool.family, tool.name)


def _distinct(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(key for key in dict.fromkeys(keys) if key)


def input_keys(tool: Tool) -> tuple[str, ...]:
    """Keys of the required inputs, I of method.md section 2: order kept, distinct."""
    entity = tool_entity(tool)
    return _distinct(canonical_key(f.name, entity) for f in tool.inputs if f.required)


def optional_keys(tool: Tool) -> tuple[str, ...]:
    """Keys of the optional inputs: order kept, distinct."""
    entity = tool_entity(tool)
    return _distinct(canonical_key(f.name, entity) for f in tool.inputs if not f.required)


def _path_keys(path: str, entity: str) -> Iterable[str]:
    """Leaf and qualified leaf of a dotted path; wrappers such as ``data`` or ``result`` qualify nothing."""
    parts = [part for part in _PATH_PART.findall(path) if part.strip()]
    if not parts:
        return
    owners = [part for part in parts[:-1] if not GENERIC.issuperset(_meaning(part))]
    owner = canonical_key(owners[-1]) if owners else ""
    leaf = canonical_key(parts[-1], owner or entity)
    yield leaf
    if owner and leaf and not leaf.startswith(owner):
        yield canonical_key(f"{owner}_{leaf}")


@lru_cache(maxsize=1 << 17)
def path_keys(path: str, entity: str) -> tuple[str, ...]:
    """Keys of one output path of a tool about ``entity``: the leaf and the qualified leaf, what is distinct of them."""
    return _distinct(_path_keys(path, entity))


def output_keys(tool: Tool) -> tuple[str, ...]:
    """Keys of the outputs, O of method.md section 2: leaf and qualified leaf of each, order kept, distinct.

    An output named ``order.customer.email`` gives ``email`` and ``customer_email``; ``orders[].id`` gives ``order_id``;
    a generic name without an owner takes the tool's entity.
    """
    entity = tool_entity(tool)
    return _distinct(key for f in tool.outputs for key in path_keys(f.name, entity))
