"""Path statistics M: what past trajectories say of tools and of pairs of tools (method.md section 2).

Counts are over trajectories; a tool that is called again in one trajectory counts where it was called first, and every
interchangeable listing of a called tool counts. ``groups`` alone counts groups of requests, so that five paraphrases
of one sequence are one witness. A trajectory without order says which tools go together, and nothing of what is first.
Statistics out of fold are the statistics of the other requests: build them again without the group, and nothing of it
can be left.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from spm_jax.data.schema import Library, Request

Gold = Sequence[Sequence[int]]


@dataclass(frozen=True)
class PathStatistics:
    """M in sparse form. U tools were called in training; pairs [Q] are sorted by (before, after), tools by slot."""

    tools: np.ndarray  # int32 [U]: tool ids, ascending; the position of a tool in it is its slot
    calls: np.ndarray  # float32 [U]: trajectories that call the tool
    in_order: np.ndarray  # float32 [U]: those of them whose order is known: what first, last and follows are shares of
    groups: np.ndarray  # float32 [U]: groups that call it
    first: np.ndarray  # float32 [U]: trajectories that call it first
    last: np.ndarray  # float32 [U]
    before: np.ndarray  # int32 [Q]: slot i of the pair
    after: np.ndarray  # int32 [Q]: slot j
    precedes: np.ndarray  # float32 [Q]: c(i before j), at any distance
    follows: np.ndarray  # float32 [Q]: trajectories in which j is the next call after i
    together: np.ndarray  # float32 [Q]: groups that call both, in any order (the same for (i, j) and (j, i))


def path_statistics(
    golds: Sequence[Gold], groups: Sequence[str], tools: np.ndarray, ordered: Sequence[bool] | None = None
) -> PathStatistics:
    """Count R gold chains with their ``groups`` over ``tools`` (int [U], ascending; must hold every gold tool).

    Where ``ordered`` [R] is false (all are true if it is None), the chain counts in calls, groups and together alone.
    A tool of ``tools`` that no chain calls has counts of 0, which to every feature is the same as not being there.
    """
    slot = {int(tool): number for number, tool in enumerate(tools)}
    size = len(slot)
    calls, in_order, first, last = (np.zeros(size, np.float32) for _ in range(4))
    members: dict[str, set[int]] = defaultdict(set)
    pairs: Counter[tuple[int, int]] = Counter()
    adjacent: Counter[tuple[int, int]] = Counter()
    known = [True] * len(golds) if ordered is None else ordered
    for gold, group, is_ordered in zip(golds, groups, known, strict=True):
        chain, called = [], set()  # of each step, the slots of the tools that no earlier step called
        for alternatives in gold:
            chain.append([slot[tool] for tool in alternatives if tool not in called])
            called.update(alternatives)
        for position, alternatives in enumerate(chain):
            calls[alternatives] += 1
            members[group].update(alternatives)
            if not is_ordered:
                continue
            in_order[alternatives] += 1
            for distance, later in enumerate(chain[position + 1 :]):
                step = {(i, j) for i in alternatives for j in later if i != j}
                pairs.update(step)
                if distance == 0:
                    adjacent.update(step)
        if chain and is_ordered:
            first[chain[0]] += 1
            last[chain[-1]] += 1
    in_groups = np.zeros(size, np.float32)
    together: Counter[tuple[int, int]] = Counter()
    for group in members.values():
        in_groups[list(group)] += 1
        together.update((i, j) for i in group for j in group if i != j)
    keys = sorted(together)  # holds every pair that pairs and adjacent hold
    column = np.array(keys, np.int32).reshape(-1, 2)
    return PathStatistics(
        tools=np.asarray(tools, np.int32),
        calls=calls,
        in_order=in_order,
        groups=in_groups,
        first=first,
        last=last,
        before=column[:, 0],
        after=column[:, 1],
        precedes=np.array([pairs[key] for key in keys], np.float32),
        follows=np.array([adjacent[key] for key in keys], np.float32),
        together=np.array([together[key] for key in keys], np.float32),
    )


def called_tools(golds: Iterable[Gold]) -> np.ndarray:
    """int32 [U]: every tool of the chains, ascending."""
    return np.array(sorted({tool for gold in golds for tools in gold for tool in tools}), np.int32)


def library_golds(library: Library, requests: Sequence[Request]) -> list[tuple[tuple[int, ...], ...]]:
    """The gold chains of requests, in order (``Library.gold`` of each)."""
    return [library.gold(request) for request in requests]
