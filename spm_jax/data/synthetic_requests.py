"""The requests of the embedded world: pools of often used tools, chains with real data flow, and what people write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spm_jax.data.schema import Call, DataError, Request, Trajectory
from spm_jax.data.synthetic_library import Catalogue
from spm_jax.data.synthetic_vocabulary import (
    ASKABLE,
    GIVEN,
    GOALS,
    NAMED,
    OPENINGS,
    STEPS,
    TARGETS,
    TERMINALS,
    VALUE_KINDS,
    WISHES,
    make_value,
    pick,
)  # fmt: skip

PARAPHRASES = 5
GROUPS_A_MARKET = 30
LENGTHS = np.arange(2, 11)
LENGTH_SHARES = np.array([0.02, 0.14, 0.14, 0.15, 0.15, 0.14, 0.13, 0.07, 0.06])
POOL = 36  # tools of a market that its users return to
NOVEL_SHARES = (0.65, 0.10, 0.09, 0.09, 0.07)  # chance of 0, 1, 2, ... tools that no other group uses
EVENNESS = 0.6  # the higher, the fewer pool tools are hardly ever used
CONCENTRATION = 18.0  # how much a pool prefers further tools of the products that it has
NOVEL_NEAR = 0.95  # share of novel tools that come from a product the chain uses, where one has a tool left
NO_INPUT_LIKED = 0.17  # chance that a tool without required inputs is considered for the pool
UNDOCUMENTED_LIKED = 0.2  # the same for one whose outputs are not documented
AFFINITY = 3.2  # spread of the log-preference for one successor over another: higher repeats more pairs
SAME_FAMILY = 25.0  # how much likelier a successor of the same product is
EXPLICIT_STATE = 0.4  # share of requests whose values come as state, not in the text
SILENT_BRIDGE = 0.66  # share of bridges that the text does not mention at all
SILENT_NOVEL = 0.5  # the same for a tool that no other group uses: the unusual has to be said
DOCUMENT_WORDS = 0.25  # share of mentioned bridges and entries that are spoken of in the words of the documents
NOVEL_DOCUMENT_WORDS = 0.35  # the same for tools that no other group uses
TARGET_NAMED = 0.75  # share of requests that name the target in the words of the documents
# In a large library people have to say more precisely what they mean: (share at 2,000 tools, share at 16,000).
PROVIDER_NAMED = (0.15, 0.36)  # chance that a product of the chain is named
NOVEL_PROVIDER_NAMED = (0.2, 0.4)  # the same where the chain uses a tool of it that no other group uses
SEGMENT_NAMED = (0.6, 1.0)  # chance that the request names its market's segment


class Chain(NamedTuple):
    """A group's call sequence: tool ids in order, the keys its requests must show, the tools that only it uses."""

    tools: tuple[int, ...]
    visible: tuple[str, ...]
    novel: frozenset[int]


def _pool(rng: np.random.Generator, catalogue: Catalogue, members: list[int]) -> list[int]:
    """``POOL`` tools of some products of one market; every key they need is askable or made by another of them."""
    families = list(dict.fromkeys(catalogue.family[i] for i in members))
    by_family: dict[int, list[int]] = {f: [] for f in families}
    for i in members:
        by_family[catalogue.family[i]].append(i)
    pool: list[int] = []
    made: set[str] = set(ASKABLE)
    waiting = [i for f in rng.permutation(len(families)) for i in by_family[families[f]]]
    done: set[tuple] = set()
    stale = 0
    # a tool joins when others make what it needs; one listing of each operation is enough
    while len(pool) < POOL and stale < 20:
        ready = [i for i in waiting if set(catalogue.operation[i].needs) <= made]
        fresh = [i for i in ready if catalogue.tools[i].required or rng.random() < NO_INPUT_LIKED]
        fresh = [i for i in fresh if catalogue.tools[i].outputs_known or rng.random() < UNDOCUMENTED_LIKED]
        fresh = [i for i in fresh or ready if (catalogue.operation[i].kind, catalogue.operation[i].entity) not in done]
        if not fresh:
            stale += 1
            continue
        chosen = fresh[int(len(fresh) * rng.random() ** CONCENTRATION)]
        operation = catalogue.operation[chosen]
        pool.append(chosen)
        waiting.remove(chosen)
        done.add((operation.kind, operation.entity))
        made |= set(operation.makes)
    return pool


class _Walker:
    """Draws chains in one market; keeps what recurs there (pool, preferences) and what may not (novel tools)."""

    def __init__(self, rng: np.random.Generator, catalogue: Catalogue, members: np.ndarray) -> None:
        self.rng, self.catalogue = rng, catalogue
        twins = set(catalogue.mirror.values())
        members = [int(i) for i in members if int(i) not in twins]
        self.pool = _pool(rng, catalogue, members)
        pooled = set(self.pool)
        self.unused = [i for i in members if i not in pooled]
        self.popularity = rng.exponential(size=len(self.pool)) + EVENNESS
        self.affinity = np.exp(AFFINITY * rng.standard_normal((len(self.pool) + 1, len(self.pool))))
        self.place = {tool: n for n, tool in enumerate(self.pool)}
        self.drawn: set[tuple[int, ...]] = set()

    def _weight(self, tool: int, chain: list[int], made: set[str], seen: set[str], last: bool) -> float:
        """How likely ``tool`` is called next; 0 where it cannot run."""
        operation = self.catalogue.operation[tool]
        missing = [key for key in operation.needs if key not in made and key not in seen]
        if any(key not in ASKABLE for key in missing):
            return 0.0
        if not chain:
            return 1.0 if operation.needs else 0.25
        newest = set(self.catalogue.operation[chain[-1]].makes)
        flow = 1.0 if newest & set(operation.needs) else 0.4 if made & set(operation.needs) else 0.06
        weight = flow * 0.3 ** len(missing)
        families = [self.catalogue.family[i] for i in chain]
        if self.catalogue.family[tool] == families[-1]:
            weight *= SAME_FAMILY
        if last and operation.kind in TARGETS | TERMINALS:
            weight *= 6.0
        return weight * (0.1 if not last and operation.kind in TERMINALS else 1.0)

    def draw(self) -> Chain:
        """A chain that no earlier group of this market has, with its novel tools used up."""
        for _ in range(200):
            chain = self._try()
            if chain is not None and chain.tools not in self.drawn:
                break
        else:
            raise DataError("n_requests: the tools of one market allow no more different chains; raise n_tools")
        self.drawn.add(chain.tools)
        self.unused = [i for i in self.unused if i not in chain.tools]
        return chain

    def _try(self) -> Chain | None:
        rng, catalogue = self.rng, self.catalogue
        length = int(rng.choice(LENGTHS, p=LENGTH_SHARES / LENGTH_SHARES.sum()))
        n_novel = int(rng.choice(len(NOVEL_SHARES), p=np.array(NOVEL_SHARES) / sum(NOVEL_SHARES)))
        novel_at = set((1 + rng.permutation(length - 1))[:n_novel].tolist())
        chain: list[int] = []
        made: set[str] = set()
        seen: set[str] = set()
        for step in range(length):
            last = step == length - 1
            options, bias = self.pool, self.popularity
            if step in novel_at and self.unused:
                near = {catalogue.family[i] for i in chain} if rng.random() < NOVEL_NEAR else set()
                options = [i for i in self.unused if catalogue.family[i] in near] or self.unused
                bias = np.ones(len(options))
            elif chain:
                bias = self.popularity * self.affinity[self.place.get(chain[-1], -1)]
            weights = [0.0 if i in chain else self._weight(i, chain, made, seen, last) for i in options]
            total = np.cumsum(np.array(weights) * bias)
            if total[-1] == 0:
                return None
            tool = options[int(np.searchsorted(total, rng.random() * total[-1], side="right"))]
            operation = catalogue.operation[tool]
            seen |= {key for key in operation.needs if key not in made}
            made |= set(operation.makes)
            chain.append(tool)
        return Chain(tuple(chain), tuple(sorted(seen)), frozenset(chain) - set(self.pool))


def _share(ends: tuple[float, float], catalogue: Catalogue) -> float:
    """A share between its values at 2,000 and at 16,000 tools, linear in the logarithm of the size."""
    return float(np.interp(np.log(len(catalogue.tools)), np.log([2_000, 16_000]), ends))


def _mention(
    rng: np.random.Generator,
    catalogue: Catalogue,
    tool: int,
    documented: float,
    named: tuple[str, ...],
    asked: tuple[str, ...],
) -> str:
    """A sentence on one step: in the words of the documents (in a form of ``named``) or in spoken ones (``asked``)."""
    operation = catalogue.operation[tool]
    phrases, forms = (operation.documents, named) if rng.random() < documented else (operation.asking, asked)
    phrase = pick(rng, phrases)
    sentence = pick(rng, forms).format(x=phrase[0].lower() + phrase[1:])
    return sentence[0].upper() + sentence[1:]


def _text(rng: np.random.Generator, catalogue: Catalogue, chain: Chain, values: dict[str, str], shown: bool) -> str:
    """One paraphrase: opening, target first, some of the other steps, the values where they are not explicit state."""
    market = catalogue.markets[catalogue.market[chain.tools[0]]]
    topic = pick(rng, market.domain.words)
    if rng.random() < _share(SEGMENT_NAMED, catalogue):
        topic = f"{market.segment} {topic}"
    target = len(chain.tools) - 1
    if catalogue.operation[chain.tools[target]].kind in TERMINALS and target > 0:
        target -= 1
    parts = [_mention(rng, catalogue, chain.tools[target], TARGET_NAMED, GOALS, WISHES)]
    for place, tool in enumerate(chain.tools):
        novel = tool in chain.novel
        spoken = place in (0, len(chain.tools) - 1) or rng.random() >= (SILENT_NOVEL if novel else SILENT_BRIDGE)
        if place != target and spoken:
            documented = NOVEL_DOCUMENT_WORDS if novel else DOCUMENT_WORDS
            parts.append(_mention(rng, catalogue, tool, documented, STEPS, STEPS))
    if shown:
        for key, value in values.items():
            parts.append(pick(rng, GIVEN).format(k=key.replace("_", " "), v=value))
    unusual = {catalogue.family[i] for i in chain.novel}
    for family in dict.fromkeys(catalogue.family[i] for i in chain.tools):
        if rng.random() < _share(NOVEL_PROVIDER_NAMED if family in unusual else PROVIDER_NAMED, catalogue):
            parts.append(pick(rng, NAMED).format(x=catalogue.provider[family]))
    order = [0, *(1 + rng.permutation(len(parts) - 1)).tolist()]
    sentences = [pick(rng, OPENINGS).format(w=topic), *(parts[n] for n in order)]
    return " ".join(sentences)


def _calls(rng: np.random.Generator, catalogue: Catalogue, chain: Chain, values: dict[str, str]) -> tuple[Call, ...]:
    """The recorded calls; an argument is a visible value or the value that an earlier call made."""
    known = dict(values)
    calls = []
    for tool in chain.tools:
        operation = catalogue.operation[tool]
        listings = [tool, catalogue.mirror[tool]] if tool in catalogue.mirror else [tool]
        names = [f.name for f in catalogue.tools[tool].inputs]
        arguments = {name: known[key] for name, key in zip(names, operation.needs, strict=False)}
        calls.append(Call(tuple(catalogue.tools[i].id for i in listings), arguments))
        for key in operation.makes:
            kind = VALUE_KINDS.get(key, "code")
            known[key] = make_value(rng, kind, key)
    return tuple(calls)


def make_requests(
    rng: np.random.Generator, catalogue: Catalogue, n_requests: int
) -> tuple[tuple[Request, ...], tuple[tuple[str, ...], ...]]:
    """``n_requests`` requests, about five a group, and for each the keys that it shows."""
    n_groups = -(-n_requests // PARAPHRASES)
    n_domains = len({market.domain.name for market in catalogue.markets})
    active = min(len(catalogue.markets), max(min(n_domains, 4), round(n_groups / GROUPS_A_MARKET)))
    of_market = np.array(catalogue.market)
    walkers: dict[int, _Walker] = {}
    requests: list[Request] = []
    shown_keys: list[tuple[str, ...]] = []
    for group in range(n_groups):
        market = group % active
        if market not in walkers:
            walkers[market] = _Walker(rng, catalogue, np.flatnonzero(of_market == market))
        chain = walkers[market].draw()
        domain = catalogue.markets[market].domain.name
        title = " > ".join(catalogue.tools[i].name for i in chain.tools)
        for number in range(group * PARAPHRASES, min((group + 1) * PARAPHRASES, n_requests)):
            values = {key: make_value(rng, VALUE_KINDS[key], key) for key in chain.visible}
            explicit = rng.random() < EXPLICIT_STATE
            text = _text(rng, catalogue, chain, values, shown=not explicit or rng.random() < 0.3)
            requests.append(
                Request(
                    f"{domain}/{number}", text, f"{domain}/{group}: {title}", domain, values if explicit else {},
                    Trajectory(_calls(rng, catalogue, chain, values)),
                )
            )
            shown_keys.append(chain.visible)
    return tuple(requests), tuple(shown_keys)
