"""Times of repeated calls: warm-up, many runs, median and 95th percentile; several things side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Call = Callable[[int], object]  # gets the number of the run, so that every run may take another request
Clock = Callable[[], float]  # seconds

BLOCK = 50  # runs of one thing before it is the next one's turn: an agent asks again and again, so caches are warm
PAUSE = 0.05  # seconds: threads of the last thing's BLAS spin for a while and would slow down the next


def summary(seconds: Sequence[float], items: int = 1) -> dict[str, float]:
    """{"ms": median, "p95_ms", "min_ms", "runs"} of runs that each did ``items`` things: milliseconds a thing."""
    each = np.asarray(seconds) * 1e3 / items
    return {
        "ms": float(np.median(each)),
        "p95_ms": float(np.percentile(each, 95)),
        "min_ms": float(each.min()),
        "runs": len(each),
    }


def repeat(call: Call, runs: int, *, warmup: int = 3, clock: Clock = time.perf_counter) -> list[float]:
    """Seconds of each of ``runs`` calls, after ``warmup`` calls that are not timed."""
    for number in range(warmup):
        call(number)
    return [_timed(call, warmup + number, clock) for number in range(runs)]


def _timed(call: Call, number: int, clock: Clock) -> float:
    began = clock()
    call(number)
    return clock() - began


def side_by_side(
    calls: Mapping[str, Call],
    runs: int,
    *,
    block: int = BLOCK,
    clock: Clock = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, list[float]]:
    """Seconds of ``runs`` calls of each, in turns of ``block`` calls, so that a drift of the machine meets all alike.

    A turn begins with a pause and one call that is not timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for first in range(0, runs, block):
        for name, call in calls.items():
            sleep(PAUSE)
            call(first)
            seconds[name] += [_timed(call, number, clock) for number in range(first, min(first + block, runs))]
    return seconds
