"""The metrics of evaluation.md for one request: plain NumPy on the host, one function a metric.

A menu is a sequence of distinct tool ids, best first; a gold chain is ``Library.gold(request)``: T calls in order, each
the set of ids that are listings of the called tool. Any listing counts; the best-placed one decides. A metric that says
nothing about a request (chain order with no fixed pair, ...) returns None and is left out of the mean, never NaN or 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from spm_jax.data import fields
from spm_jax.data.schema import DataError, Library, Request

ABSENT = 1 << 30  # menu position of a gold tool that the menu does not hold
ORDERED = 8  # positions that the order metrics look at, and the calls that a replay may spend
OF_ORDER = frozenset({"early_entry@5", "first_action", "next_tool", "ordered_prefix", "chain_order", "path_replay"})

Menu = Sequence[int] | np.ndarray
Gold = Sequence[Collection[int]]


@dataclass(frozen=True)
class Schemas:
    """Required-input and output keys of every tool of a library; a tool with unknown outputs has no output key."""

    inputs: tuple[frozenset[str], ...]
    outputs: tuple[frozenset[str], ...]

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.outputs):
            raise DataError(f"schemas: {len(self.inputs)} input sets but {len(self.outputs)} output sets")

    @cached_property
    def known(self) -> frozenset[str]:
        """Every key that some tool needs or gives."""
        return frozenset().union(*self.inputs, *self.outputs)


@lru_cache(maxsize=1)  # parsing the names of 44,589 tools takes three seconds
def build_schemas(library: Library) -> Schemas:
    """The canonical keys of a library's tools (method.md section 3), exact keys without alias classes."""
    return Schemas(
        tuple(frozenset(fields.input_keys(tool)) for tool in library),
        tuple(frozenset(fields.output_keys(tool)) for tool in library),
    )


def gold_positions(menu: Menu, gold: Gold) -> np.ndarray:
    """int [T]: 0-based menu position of the best-placed listing of each gold tool, ABSENT where there is none."""
    place = {int(tool): position for position, tool in enumerate(menu)}
    return np.array([min((place.get(tool, ABSENT) for tool in tools), default=ABSENT) for tools in gold], np.int64)


def tool_recall(menu: Menu, gold: Gold, k: int) -> float | None:
    """Share of gold tools among the first ``k``; [0, 1]; None for an empty chain."""
    return float(np.mean(gold_positions(menu, gold) < k)) if len(gold) else None


def complete_chain(menu: Menu, gold: Gold, k: int) -> float | None:
    """1 if every gold tool is among the first ``k``, else 0; None for an empty chain."""
    return float(np.all(gold_positions(menu, gold) < k)) if len(gold) else None


def early_entry(menu: Menu, gold: Gold, k: int = 5) -> float | None:
    """1 if g_1 is among the first ``k``, else 0; None for an empty chain."""
    return float(gold_positions(menu, gold[:1])[0] < k) if len(gold) else None


def first_action(menu: Menu, gold: Gold) -> float | None:
    """1 if the menu's first tool is g_1, else 0; None for an empty chain."""
    return early_entry(menu, gold, 1)


def next_tool(menu: Menu, gold: Gold) -> float | None:
    """Mean over t = 1..T-1 of: the first menu tool outside g_1..g_t is g_{t+1}; [0, 1]; None for T < 2."""
    if len(gold) < 2:
        return None
    prefix: set[int] = set()
    hits = 0
    for done, following in pairwise(gold):
        prefix.update(done)
        hits += next((int(tool) in following for tool in menu if int(tool) not in prefix), False)
    return hits / (len(gold) - 1)


def ordered_prefix(menu: Menu, gold: Gold) -> float | None:
    """Longest l with g_1..g_l among the first 8 in this order, over min(T, 8); [0, 1]; None for an empty chain."""
    if not len(gold):
        return None
    length = 0
    for tool in menu[:ORDERED]:  # the earliest listing after the tool before it is always the best choice
        if length < len(gold) and int(tool) in gold[length]:
            length += 1
    return length / min(len(gold), ORDERED)


def chain_order(menu: Menu, gold: Gold, fixed: np.ndarray) -> float | None:
    """Kendall tau-b between menu position and gold order over the fixed pairs whose tools are both in the menu.

    ``fixed`` is bool [T, T], true at [i, j] where g_i must come before g_j. With C pairs in order, D the wrong way
    round and Z that share one menu position (listings of two gold tools may overlap), it is
    (C - D) / sqrt((C + D)(C + D + Z)).
    In [-1, 1]; None where no pair is left to compare.
    """
    before, after = np.nonzero(_fixed(fixed, gold))
    place = gold_positions(menu, gold)
    gap = (place[after] - place[before])[(place[before] < ABSENT) & (place[after] < ABSENT)]
    right, wrong = int(np.sum(gap > 0)), int(np.sum(gap < 0))
    return (right - wrong) / float(np.sqrt((right + wrong) * len(gap))) if right + wrong else None


def executable_prefix(menu: Menu, schemas: Schemas, visible: Collection[str]) -> float:
    """Length of the run from position 1 in which every tool can run, over 8; at most 8 tools are looked at; [0, 1].

    A tool can run when each of its required inputs is visible or an output of an earlier tool of the run.
    """
    state = set(visible)
    length = 0
    for tool in menu[:ORDERED]:
        if not schemas.inputs[tool] <= state:
            break
        state |= schemas.outputs[tool]
        length += 1
    return length / ORDERED


def producer_violations(menu: Menu, gold: Gold, fixed: np.ndarray, schemas: Schemas) -> float | None:
    """Share of the menu's dependency pairs (producer, consumer) that are shown consumer first; [0, 1], lower is better.

    A pair is a dependency if the gold order fixes it, or if kappa > 0, that is, if the producer gives a required input
    of the consumer. Two tools that feed each other fix no order, so such a pair counts only where gold fixes it. None
    where the menu holds no dependency pair.
    """
    tools = [int(tool) for tool in menu]
    flow = np.array([[bool(schemas.outputs[i] & schemas.inputs[j]) for j in tools] for i in tools], bool)
    flow = flow.reshape(len(tools), len(tools))
    pairs = flow & ~flow.T
    place = gold_positions(menu, gold)
    for i, j in zip(*np.nonzero(_fixed(fixed, gold))):
        if place[i] < ABSENT and place[j] < ABSENT and place[i] != place[j]:
            pairs[place[i], place[j]], pairs[place[j], place[i]] = True, False
    total = int(pairs.sum())
    return int(np.tril(pairs).sum()) / total if total else None


def path_replay(menu: Menu, gold: Gold, fixed: np.ndarray, schemas: Schemas, visible: Collection[str]) -> float | None:
    """1 if replaying the menu executes every gold tool in an allowed order within 8 calls, else 0; None for no chain.

    The replay walks the menu once from the top and calls each tool that can run at that moment (each required input
    visible or an output of a tool called before) until 8 calls are spent. A tool that cannot run when the walk comes
    by is passed over, so a consumer above its producer is lost. The order is allowed if no fixed pair is reversed.
    A chain of more than 8 tools always scores 0.
    """
    if not len(gold):
        return None
    state = set(visible)
    called: list[int] = []
    for tool in menu:
        if len(called) == ORDERED:
            break
        if schemas.inputs[tool] <= state:
            called.append(int(tool))
            state |= schemas.outputs[tool]
    place = gold_positions(called, gold)
    before, after = np.nonzero(_fixed(fixed, gold))
    return float(np.all(place < ABSENT) and np.all(place[before] <= place[after]))


def dependency_edge_accuracy(scores: np.ndarray, edges: Sequence[tuple[Collection[int], int]]) -> float | None:
    """Share of gold edges whose producer outranks every rival as producer of the consumer's input; [0, 1].

    ``scores`` is [n, n]: scores[i, j] says how much i looks like the producer for j, over n candidates. An edge is
    (positions of the producer's listings, position of the consumer). Rivals are all other candidates but the consumer
    itself and other gold producers of the same consumer. A tie is a miss. None without edges.
    """
    hits = 0
    for producers, consumer in edges:
        rivals = np.ones(len(scores), bool)
        rivals[consumer] = False
        for others, same in edges:
            if same == consumer:
                rivals[list(others)] = False
        best_rival = scores[rivals, consumer].max(initial=-np.inf)
        hits += bool(scores[list(producers), consumer].max() > best_rival)
    return hits / len(edges) if len(edges) else None


def gold_edges(library: Library, request: Request) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """The exact data flow of a request: (listings of the producer, listings of the consumer) of each edge, distinct.

    An edge stands where an argument of the consumer came from an answer of the producer (``Call.sources``); a tool that
    feeds a later call of itself gives none. Raises DataError for a tool that the library does not hold.
    """
    calls = [tuple(sorted(map(library.index, call.tools))) for call in request.trajectory.calls]
    edges = (
        (calls[source.call], calls[n]) for n, call in enumerate(request.trajectory.calls) for source in call.sources
    )
    return tuple(dict.fromkeys(edge for edge in edges if not set(edge[0]) & set(edge[1])))


def edge_accuracy(
    scores: np.ndarray, tools: Menu, edges: Sequence[tuple[Collection[int], Collection[int]]]
) -> float | None:
    """Share of ``gold_edges`` whose producer outranks every other candidate as producer for the consumer; [0, 1].

    The candidates ``tools`` int [n] are the tools of the request's frontier, and ``scores`` [n, n] says at [i, j] how
    much i looks like a producer for j, by precedence and flow: rho_ij + kappa_ij, or what a model makes of them. Then
    as ``dependency_edge_accuracy``; an edge with an end outside the candidates is a miss. None without edges.
    """
    place = {int(tool): position for position, tool in enumerate(tools)}
    inside = []
    for producers, consumers in edges:
        before, after = ([place[tool] for tool in end if tool in place] for end in (producers, consumers))
        if before and after:
            inside.append((before, after[0]))
    share = dependency_edge_accuracy(scores, inside) or 0.0
    return share * len(inside) / len(edges) if len(edges) else None


def _fixed(fixed: np.ndarray, gold: Gold) -> np.ndarray:
    if np.shape(fixed) != (len(gold), len(gold)):
        raise DataError(f"fixed pairs: shape {np.shape(fixed)} for a chain of {len(gold)} tools")
    return np.asarray(fixed, bool)


def score_menu(
    menu: Menu,
    gold: Gold,
    fixed: np.ndarray,
    schemas: Schemas,
    visible: Collection[str],
    k: int = 32,
    frontier: Menu | None = None,
    parts: Mapping[str, np.ndarray] = MappingProxyType({}),
    ordered: bool = True,
) -> dict[str, float]:
    """Every metric of one menu, by name; metrics that are undefined for this request are left out.

    ``frontier`` (tool ids, any order) adds "frontier_chain@<its length>". ``parts`` maps a name such as "cold" to bool
    [T] and adds "tool_recall_cold@k", the recall over those gold tools alone, where there are any. Without ``ordered``
    gold is a set: the metrics OF_ORDER are left out, and violations are of schema flow alone. Raises DataError for an
    empty chain, for a tool that stands twice and for one outside the library.
    """
    if not len(gold):
        raise DataError("a request without recorded calls cannot be scored")
    menu = [int(tool) for tool in menu][:k]
    if len(set(menu)) != len(menu):
        raise DataError("menu: a tool stands twice")
    if menu and not (0 <= min(menu) and max(menu) < len(schemas.inputs)):
        raise DataError(f"menu: a tool id outside 0..{len(schemas.inputs) - 1}")
    fixed = _fixed(fixed, gold) & ordered
    scores = {
        f"complete_chain@{k}": complete_chain(menu, gold, k),
        f"tool_recall@{k}": tool_recall(menu, gold, k),
        "early_entry@5": early_entry(menu, gold, 5),
        "first_action": first_action(menu, gold),
        "next_tool": next_tool(menu, gold),
        "ordered_prefix": ordered_prefix(menu, gold),
        "chain_order": chain_order(menu, gold, fixed),
        "executable_prefix@8": executable_prefix(menu, schemas, visible),
        "producer_violations": producer_violations(menu, gold, fixed, schemas),
        "path_replay": path_replay(menu, gold, fixed, schemas, visible),
    }
    for name, members in parts.items():
        scores[f"tool_recall_{name}@{k}"] = tool_recall(menu, [g for g, member in zip(gold, members) if member], k)
    if frontier is not None:
        scores[f"frontier_chain@{len(frontier)}"] = complete_chain(frontier, gold, len(frontier))
    left_out = frozenset() if ordered else OF_ORDER
    return {name: value for name, value in scores.items() if value is not None and name not in left_out}
