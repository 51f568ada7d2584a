"""SIGINT and SIGTERM as a request to stop after the step under way, in one process or in all at the same step."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
from jax.experimental import multihost_utils

# JAX's service wants numbers that rise in all processes alike, from one run of the loop to the next.
_asked = itertools.count()


@contextmanager
def stop_signals() -> Iterator[Callable[[], int]]:
    """A function to call after every step: the signal that asked to stop, or 0. A second signal acts at once.

    Only the main thread can listen. In a run of several processes a signal to one of them stops all, at one step:
    JAX's preemption service, which listens to SIGTERM by itself, agrees on it; SIGINT is handed on as SIGTERM.
    """
    received: list[int] = []
    several = jax.process_count() > 1
    listening = (signal.SIGINT,) if several else (signal.SIGINT, signal.SIGTERM)
    main = threading.current_thread() is threading.main_thread()
    previous = {number: signal.getsignal(number) for number in listening} if main else {}

    def listen(number: int, frame: object) -> None:
        received.append(number)
        for each, handler in previous.items():
            signal.signal(each, handler)
        if several:
            signal.raise_signal(signal.SIGTERM)

    def asked() -> int:
        if several and not multihost_utils.reached_preemption_sync_point(next(_asked)):
            return 0
        return received[0] if received else signal.SIGTERM if several else 0

    for number in previous:
        signal.signal(number, listen)
    try:
        yield asked
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
