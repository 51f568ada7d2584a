"""What a request's gold chain says of the tools of a frontier or a menu: membership, entry, slots, order, roles."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

SLOTS = 8  # path slots s = 1..8; a tool called later than eighth shares the last slot
NO_SLOT = SLOTS  # the label "not on the path"
UNKNOWN = -1  # the slot of a path tool where only the set of tools is known: no label

Gold = Sequence[Collection[int]]


class Role(StrEnum):
    """The part a tool plays on the route (method.md section 1); EXTRA is a menu tool that is not on it."""

    ENTRY = "entry"
    BRIDGE = "bridge"
    TARGET = "target"
    EXTRA = "extra"


class Labels(NamedTuple):
    """Labels of C tools; every interchangeable listing of a gold tool carries its label."""

    member: np.ndarray  # bool [C]
    entry: np.ndarray  # bool [C]
    slot: np.ndarray  # int32 [C]: 0..7, NO_SLOT or UNKNOWN
    step: np.ndarray  # int32 [C]: position in the gold chain, -1 off it and where it has no order
    precedes: np.ndarray  # bool [C, C]: at [i, j], the data fixes i before j


def fixed_pairs(gold: Gold, group: Sequence[Gold], flow: np.ndarray) -> np.ndarray:
    """bool [T, T], true at [i, j] where the data fixes g_i before g_j (method.md section 7).

    That is where i < j and either a dependency says so (``flow`` bool [T, T]: g_i gives an input of g_j, and not the
    other way round) or every trajectory of ``group`` (their gold chains) with both tools calls them in this order.
    """
    size = len(gold)
    fixed = np.zeros((size, size), bool)
    for i in range(size):
        for j in range(i + 1, size):
            orders = [_order(chain, gold[i], gold[j]) for chain in group]
            agree = all(order > 0 for order in orders if order)
            fixed[i, j] = agree or bool(flow[i, j] and not flow[j, i])
    return fixed


def _order(chain: Gold, a: Collection[int], b: Collection[int]) -> int:
    """1 if ``chain`` calls a before b, -1 if b before a, 0 if it does not call both."""
    places = [next((n for n, tools in enumerate(chain) if set(tools) & set(wanted)), None) for wanted in (a, b)]
    if None in places:
        return 0
    return int(np.sign(places[1] - places[0]))


def make_labels(tools: np.ndarray, gold: Gold, fixed: np.ndarray, ordered: bool = True) -> Labels:
    """Labels of ``tools`` (int [C], -1 = padding) for a gold chain with its ``fixed`` pairs [T, T].

    Without ``ordered`` only membership is told: no entry, no step, and no slot of a path tool.
    """
    step_of: Mapping[int, int] = {tool: n for n, listing in reversed(list(enumerate(gold))) for tool in listing}
    step = np.array([step_of.get(int(tool), -1) for tool in tools], np.int32)
    member = step >= 0
    if not ordered:
        slot = np.where(member, UNKNOWN, NO_SLOT).astype(np.int32)
        unknown = np.full(len(tools), -1, np.int32)
        return Labels(member, np.zeros(len(tools), bool), slot, unknown, np.zeros((len(tools), len(tools)), bool))
    slot = np.where(member, np.minimum(step, SLOTS - 1), NO_SLOT).astype(np.int32)
    precedes = np.zeros((len(tools), len(tools)), bool)
    on = np.flatnonzero(member)
    precedes[np.ix_(on, on)] = fixed[np.ix_(step[on], step[on])]
    return Labels(member, step == 0, slot, step, precedes)


def path_roles(length: int) -> tuple[Role, ...]:
    """The roles of a path of ``length`` tools: entry, bridges, target. A path of one is a target."""
    if length <= 1:
        return (Role.TARGET,) * length
    return (Role.ENTRY, *(Role.BRIDGE,) * (length - 2), Role.TARGET)
