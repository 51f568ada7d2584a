"""Sparse and corrupted training histories, for the studies of how many and how clean paths are needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from spm_jax.data.schema import Call, DataError, Library, Request


def sparse(requests: Sequence[Request], share: float, seed: int) -> list[Request]:
    """The requests of a random ``share`` of the groups, in (0, 1], in their order. Of two shares the smaller is part.

    Raises DataError for another share.
    """
    if not 0 < share <= 1:
        raise DataError(f"histories.share = {share}: expected a share of the training groups, above 0 and at most 1")
    groups = sorted({request.group for request in requests})
    random.Random(seed).shuffle(groups)
    kept = set(groups[: max(1, round(share * len(groups)))])
    return [request for request in requests if request.group in kept]


def corrupted(library: Library, requests: Sequence[Request], share: float, seed: int) -> list[Request]:
    """The requests, with one random call in a random ``share`` of the paths replaced by a random tool of the library.

    ``share`` lies in [0, 1], else DataError. The new call has no arguments, and nothing is said to come from it.
    """
    if not 0 <= share <= 1:
        raise DataError(f"histories.corrupted = {share}: expected a share of the training paths, from 0 to 1")
    chance = random.Random(seed)
    order = list(range(len(requests)))
    chance.shuffle(order)
    hit = set(order[: round(share * len(requests))])
    return [_with_one_wrong(library, r, chance) if n in hit else r for n, r in enumerate(requests)]


def _with_one_wrong(library: Library, request: Request, chance: random.Random) -> Request:
    calls = list(request.trajectory.calls)
    wrong = chance.randrange(len(calls))
    calls[wrong] = Call((library[chance.randrange(len(library))].id,))
    for later in range(wrong + 1, len(calls)):
        kept = tuple(source for source in calls[later].sources if source.call != wrong)
        calls[later] = replace(calls[later], sources=kept)
    return replace(request, trajectory=replace(request.trajectory, calls=tuple(calls)))
