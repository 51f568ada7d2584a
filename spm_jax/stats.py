"""Paired tests and intervals for result tables: exact McNemar and bootstrap over groups (evaluation.md, Splits)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from spm_jax.data.schema import DataError


def mcnemar(ours: Sequence[float] | np.ndarray, other: Sequence[float] | np.ndarray) -> dict[str, float]:
    """Exact two-sided McNemar test of paired 0/1 outcomes: {"won", "lost", "p"}.

    won / lost count the requests that only ``ours`` / only ``other`` solves. Under the null the smaller count is
    Binomial(won + lost, 1/2), so p = min(1, 2 P(X <= min(won, lost))); 1 where nothing differs. The sum runs in log
    space, so counts may be large. Raises DataError for unequal lengths or values other than 0 and 1.
    """
    a, b = np.asarray(ours, np.float64), np.asarray(other, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise DataError(f"McNemar: outcomes must be two equally long lists, got shapes {a.shape} and {b.shape}")
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise DataError("McNemar: outcomes must be 0 or 1")
    won, lost = int(np.sum(a > b)), int(np.sum(a < b))
    return {"won": won, "lost": lost, "p": binomial_two_sided(min(won, lost), won + lost)}


def binomial_two_sided(successes: int, trials: int) -> float:
    """min(1, 2 P(X <= successes)) for X ~ Binomial(trials, 1/2) and successes <= trials / 2."""
    if not 0 <= 2 * successes <= trials:
        raise DataError(f"binomial test: {successes} is not the smaller count of {trials}")
    log_half = trials * math.log(0.5)
    total = math.lgamma(trials + 1)
    logs = [total - math.lgamma(x + 1) - math.lgamma(trials - x + 1) + log_half for x in range(successes + 1)]
    top = max(logs)
    return min(1.0, 2.0 * math.exp(top) * math.fsum(math.exp(x - top) for x in logs))


@lru_cache(maxsize=16)  # a table asks for the same few group counts hundreds of times
def _draws(groups: int, samples: int, seed: int) -> np.ndarray:
    """float64 [samples, groups]: how often each group is drawn in each sample; a row sums to ``groups``."""
    drawn = np.random.default_rng(seed).multinomial(groups, np.full(groups, 1 / groups), size=samples)
    return drawn.astype(np.float64)


def group_interval(
    values: Sequence[float] | np.ndarray,
    groups: Sequence[str],
    *,
    samples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float, float]:
    """(mean, low, high) of ``values`` [R]: percentile bootstrap that resamples whole groups, not requests.

    A sample draws G of the G groups with replacement; its mean is that of all requests drawn, so large groups weigh
    more, as in the plain mean. Groups are taken in sorted order: the result depends on the values, the groups and the
    seed, not on the order of the requests beyond rounding. For a paired difference pass the differences.
    Raises DataError for no value, a value that is not finite, or unequal lengths.
    """
    data = np.asarray(values, np.float64)
    if data.ndim != 1 or len(data) != len(groups):
        raise DataError(f"bootstrap: {np.shape(data)} values for {len(groups)} groups")
    if not len(data) or not np.isfinite(data).all():
        raise DataError("bootstrap: needs at least one value, all finite")
    names, member = np.unique(np.asarray(groups, str), return_inverse=True)
    sums = np.bincount(member, data, len(names))
    counts = np.bincount(member, minlength=len(names)).astype(np.float64)
    weights = _draws(len(names), samples, seed)
    means = (weights @ sums) / (weights @ counts)
    tail = (1 - level) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(data.mean()), float(low), float(high)


def paired_interval(
    ours: Sequence[float] | np.ndarray, other: Sequence[float] | np.ndarray, groups: Sequence[str], **options: float
) -> tuple[float, float, float]:
    """(mean, low, high) of ours - other over the same requests, groups resampled; ``options`` as group_interval."""
    a, b = np.asarray(ours, np.float64), np.asarray(other, np.float64)
    if a.shape != b.shape:
        raise DataError(f"paired difference: shapes {a.shape} and {b.shape}")
    return group_interval(a - b, groups, **options)
