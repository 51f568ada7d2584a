"""Which examples a step sees: a pure function of (seed, step), in batches of one size (architecture.md)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def steps_per_epoch(examples: int, size: int) -> int:
    """Batches of ``size`` that cover ``examples`` once; the last one is padded."""
    return -(-examples // size)


def batch(examples: Sequence[int] | np.ndarray, size: int, seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """The examples of batch number ``step`` (from 0): (int [size], float32 [size]).

    Every epoch has its own order. A batch is filled up with its epoch's first examples at a weight of 0.
    """
    epoch, place = divmod(step, steps_per_epoch(len(examples), size))
    order = np.random.default_rng((seed, epoch)).permutation(np.asarray(examples))
    slots = np.arange(place * size, (place + 1) * size)
    return order[slots % len(order)], (slots < len(order)).astype(np.float32)
