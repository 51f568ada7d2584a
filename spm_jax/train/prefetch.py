"""Batches made ahead of the step that consumes them, by one background thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

AHEAD = 2  # batches made or being made while one is consumed: host memory holds no more


@contextmanager
def prefetch(load: Callable[[int], Any], numbers: Iterable[int]) -> Iterator[Iterator[Future]]:
    """Futures of ``load(number)``, in the order of ``numbers``; one thread makes them one after the other.

    What ``load`` raises, ``Future.result`` raises in the caller's thread. On leaving, what has not begun is cancelled
    and the batch under way is waited for, so ``load`` is never called after that.
    """
    thread = ThreadPoolExecutor(1, "prefetch")
    try:
        yield _futures(thread, load, numbers)
    finally:
        thread.shutdown(cancel_futures=True)


def _futures(thread: ThreadPoolExecutor, load: Callable[[int], Any], numbers: Iterable[int]) -> Iterator[Future]:
    begun: deque[Future] = deque()
    for number in numbers:
        begun.append(thread.submit(load, number))
        if len(begun) > AHEAD:
            yield begun.popleft()
    yield from begun
