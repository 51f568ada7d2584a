"""The two decoders of method.md sections 6 and 7 in plain loops, written from the specification alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from reference import share


def cover_gain(
    i: int,
    picked: Sequence[int],
    member: np.ndarray,
    slot: np.ndarray,
    made: np.ndarray,
    missing: np.ndarray,
    required: np.ndarray,
    similar: np.ndarray,
    coverage: float,
    redundancy: float,
) -> float:
    """s_i after ``picked``; ``made`` [C, C, I] is ``produces``."""
    covered = [max([slot[j, s] for j in picked], default=0.0) for s in range(slot.shape[1])]
    gain = sum(max(0.0, slot[i, s] - covered[s]) for s in range(slot.shape[1]))
    for j in picked:
        for p in range(required.shape[1]):
            if missing[j, p] and not any(made[other, j, p] for other in picked) and made[i, j, p]:
                gain += 1 / sum(required[j])
    repeated = max([0.0, *(similar[i, j] for j in picked)])
    return float(member[i] + coverage * gain - redundancy * repeated)


def first_largest(score: Callable[[int], float], among: Sequence[int]) -> int:
    return max(sorted(among), key=score)  # max keeps the first of equals


def cover(valid: np.ndarray, size: int, *arrays_and_weights) -> list[int]:
    """The picks of the greedy coverage decoder; ``arrays_and_weights`` are those of ``cover_gain``."""
    picked: list[int] = []
    while len(picked) < size and len(picked) < sum(valid):
        left = [i for i in range(len(valid)) if valid[i] and i not in picked]
        picked.append(first_largest(lambda i: cover_gain(i, picked, *arrays_and_weights), left))
    return picked + [-1] * (size - len(picked))


def decoder_scores(
    placed: Sequence[int],
    t: int,
    entry: np.ndarray,
    slot: np.ndarray,
    precedence: np.ndarray,
    made: np.ndarray,
    required: np.ndarray,
    missing: np.ndarray,
    valid: np.ndarray,
    weights: Sequence[float],
) -> dict[int, float]:
    """r_i(t) of every valid tool not in ``placed``."""
    unplaced = [i for i in range(len(entry)) if valid[i] and i not in placed]
    scores = {}
    for i in unplaced:
        others = [j for j in unplaced if j != i]
        need = [p for p in range(required.shape[1]) if required[i, p]]
        met = [p for p in need if not missing[i, p] or any(made[j, i, p] for j in placed)]
        scores[i] = float(
            (t == 0) * weights[0] * entry[i]
            + weights[1] * slot[i, t]
            + weights[2] * share(sum(precedence[i, j] for j in others), len(others))
            + weights[3] * (share(len(met), len(need)) if need else 1.0)
        )
    return scores


def order(size: int, *arrays_and_weights) -> list[int]:
    """The menu's order; ``arrays_and_weights`` are those of ``decoder_scores``."""
    valid = arrays_and_weights[6]
    placed: list[int] = []
    for t in range(min(size, sum(valid))):
        scores = decoder_scores(placed, t, *arrays_and_weights)
        placed.append(first_largest(scores.__getitem__, list(scores)))
    rest = [i for i in range(len(valid)) if valid[i] and i not in placed]
    return placed + rest + [-1] * (len(valid) - len(placed) - len(rest))
