"""The tools of the embedded world: markets, products (families) and what their documentation says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from spm_jax.data.schema import Field, Library, Tool
from spm_jax.data.synthetic_vocabulary import (
    DOMAINS,
    PITCHES,
    SEGMENTS,
    Domain,
    Operation,
    operations,
    pick,
    provider_name,
)  # fmt: skip

TOOLS_A_MARKET = 250
OUTPUTS_KNOWN = 0.22  # share of tools whose documentation says what they return
ALL_OPTIONAL = 0.3  # share of tools whose documentation calls every input optional, used or not
ASKING_WORDS = 0.25  # share of documents that also carry an asking phrase: decoys that resemble requests
PITCHES_A_FAMILY = 3  # sentences of small talk in a product's description
MIRRORED = 0.03  # share of families listed a second time under another category, tool for tool


class Market(NamedTuple):
    """One segment of one domain: a community of products and of the requests that use them."""

    domain: Domain
    segment: str


class Style(NamedTuple):
    """How one product writes its documentation."""

    case: int  # 0 snake_case, 1 camelCase, 2 Title Words, 3 kebab-case
    wording: int
    keys: int  # 0 the canonical key, 1 the bare "id" for the own entity, 2 another name ("order_ref")
    nested: bool
    extras: int  # which optional parameters its tools carry


@dataclass
class Catalogue:
    """The tools while they are made; parallel lists, a tool's position is its integer id."""

    markets: tuple[Market, ...]
    tools: list[Tool] = field(default_factory=list)
    operation: list[Operation] = field(default_factory=list)
    family: list[int] = field(default_factory=list)
    market: list[int] = field(default_factory=list)
    mirror: dict[int, int] = field(default_factory=dict)  # tool -> its second listing
    provider: list[str] = field(default_factory=list)  # a family's product name

    def library(self) -> Library:
        """The finished library."""
        return Library(tuple(self.tools))


_operations = lru_cache(maxsize=None)(operations)


def _cased(name: str, case: int) -> str:
    words = name.split("_")
    match case:
        case 1:
            return words[0] + "".join(word.capitalize() for word in words[1:])
        case 2:
            return " ".join(word.capitalize() for word in words)
        case 3:
            return "-".join(words)
    return name


def _field_name(key: str, operation: Operation, style: Style) -> str:
    if key == f"{operation.entity}_id":
        key = (key, "id", f"{operation.entity}_ref")[style.keys]
    return _cased(key, style.case if style.case == 1 else 0)


_EXTRAS: tuple[tuple[tuple[str, str, str], ...], ...] = (
    (),
    (("limit", "integer", "How many entries. Default: 10."),),
    (("language", "string", "Language of the answer. Default: en."), ("format", "string", "Default: json.")),
    (("page", "integer", "Page to return. Default: 1."), ("limit", "integer", "Page size. Default: 20.")),
)


@lru_cache(maxsize=100_000)
def _fields(operation: Operation, style: Style, loose: bool) -> tuple[tuple[Field, ...], tuple[Field, ...], str]:
    """Documented inputs, outputs and name of an operation in a style; the outputs may be withheld by the caller."""
    inputs = [
        Field(_field_name(key, operation, style), "string", f"The {key.replace('_', ' ')}.", required=not loose)
        for key in operation.needs
    ]
    inputs += [Field(name, kind, text, required=False) for name, kind, text in _EXTRAS[style.extras]]
    prefix = f"{operation.entity}." if style.nested else ""
    outputs = tuple(Field(prefix + _field_name(key, operation, style), "string") for key in operation.makes)
    name = _cased(operation.names[style.wording % len(operation.names)], style.case)
    return tuple(inputs), outputs, name


def _describe(rng: np.random.Generator, operation: Operation, style: Style, market: Market) -> str:
    text = operation.documents[(style.wording + int(rng.random() * 1.3)) % len(operation.documents)]
    if rng.random() < 0.35:
        text += f" in the {market.segment} {pick(rng, market.domain.words)} section"
    if rng.random() < ASKING_WORDS:
        text += f', say: "{pick(rng, operation.asking)}"'
    return text + "."


def _add_family(rng: np.random.Generator, catalogue: Catalogue, market: int, room: int) -> None:
    """Append one product of 3-10 tools on two linked entities of the market's domain, at most ``room`` tools."""
    where = catalogue.markets[market]
    number = len(catalogue.provider)
    provider = provider_name(number).capitalize()
    style = Style(
        int(rng.random() * 4), int(rng.random() * 12), int(rng.random() > 0.75) + int(rng.random() > 0.85),
        bool(rng.random() < 0.2), int(rng.random() * 4),
    )  # fmt: skip
    first = int(rng.random() * len(where.domain.entities))
    nouns = {where.domain.entities[(first + step) % len(where.domain.entities)].noun for step in (0, 1)}
    offered = [o for o in _operations(where.domain) if o.entity in nouns]
    size = min(3 + int(rng.random() * 8), room)
    if 0 < room - size < 3:  # what is left would be no product of its own
        size = room if room <= 10 else size - 3
    chosen = rng.permutation(len(offered))[:size]
    listings = [(f"{where.domain.name}/{provider}_{where.segment.replace(' ', '_')}".lower(), None)]
    if rng.random() < MIRRORED and room >= 2 * size + 3:
        listings.append((f"hub/{provider}_{where.segment.replace(' ', '_')}".lower(), len(catalogue.tools)))
    words = " ".join(pick(rng, where.domain.words) for _ in range(3))
    about = f"{provider}: {where.segment} {words} for {' and '.join(sorted(nouns))}.".replace("_", " ")
    for _ in range(PITCHES_A_FAMILY):
        about += " " + pick(rng, PITCHES).format(w=pick(rng, where.domain.words))
    made: dict[str, Tool] = {}
    kept = []
    for index in sorted(chosen):
        operation = offered[index]
        inputs, outputs, name = _fields(operation, style, bool(rng.random() < ALL_OPTIONAL))
        known = bool(rng.random() < OUTPUTS_KNOWN)
        source = pick(rng, ("schema", "body", "responses")) if known else ""
        if name in made:  # two operations of one product may share a short name
            name = f"{name} {operation.kind}" if style.case == 2 else f"{name}_{operation.kind}"
        text = _describe(rng, operation, style, where)
        made[name] = Tool(listings[0][0], name, text, about, inputs, outputs if known else (), known, source)
        kept.append(operation)
    for family, twin in listings:
        for offset, (tool, operation) in enumerate(zip(made.values(), kept, strict=True)):
            if twin is not None:
                catalogue.mirror[twin + offset] = len(catalogue.tools)
                tool = Tool(family, *(getattr(tool, f) for f in Tool.__dataclass_fields__ if f != "family"))
            catalogue.tools.append(tool)
            catalogue.operation.append(operation)
            catalogue.family.append(len(catalogue.provider))
            catalogue.market.append(market)
        catalogue.provider.append(provider)


def _segment(number: int) -> str:
    """The name of segment ``number``: one word, then two, then more; never the same twice."""
    name = SEGMENTS[number % len(SEGMENTS)]
    rest = number // len(SEGMENTS)
    return name if rest == 0 else f"{_segment(rest - 1)} {name}"


def make_catalogue(rng: np.random.Generator, n_tools: int) -> Catalogue:
    """``n_tools`` tools in markets of about 250; equal seeds give equal tools."""
    n_markets = max(1, round(n_tools / TOOLS_A_MARKET), min(len(DOMAINS), n_tools // 50))
    markets = [Market(DOMAINS[m % len(DOMAINS)], _segment(m)) for m in range(n_markets)]
    catalogue = Catalogue(tuple(markets))
    for market in range(n_markets):
        end = n_tools * (market + 1) // n_markets
        while len(catalogue.tools) < end:
            _add_family(rng, catalogue, market, end - len(catalogue.tools))
    return catalogue
