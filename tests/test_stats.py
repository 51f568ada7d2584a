"""Exact McNemar against the binomial test, and intervals that resample groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax import stats
from spm_jax.data.schema import DataError


def test_mcnemar_by_hand() -> None:
    # won 3, lost 1: 2 (C(4,0) + C(4,1)) / 16 = 0.625
    assert stats.mcnemar([1, 1, 1, 0, 1, 0], [0, 0, 0, 1, 1, 0]) == {"won": 3, "lost": 1, "p": pytest.approx(0.625)}
    assert stats.mcnemar([1, 0], [1, 0]) == {"won": 0, "lost": 0, "p": 1.0}
    assert stats.mcnemar([1] * 10, [0] * 10)["p"] == pytest.approx(2 / 1024)


def test_mcnemar_of_the_papers_main_comparison() -> None:
    # 50 won, 1 lost (method.md section 9): 2 (1 + 51) / 2^51
    assert stats.mcnemar([1] * 50 + [0], [0] * 50 + [1])["p"] == pytest.approx(104 / 2**51, rel=1e-12)


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_is_the_two_sided_binomial_test(won: int, lost: int) -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    p = stats.mcnemar([1] * won + [0] * lost, [0] * won + [1] * lost)["p"]
    assert p == pytest.approx(scipy_stats.binomtest(won, won + lost).pvalue if won + lost else 1.0, rel=1e-9)


def test_large_counts_neither_overflow_nor_lose_precision() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    assert stats.binomial_two_sided(49_700, 100_000) == pytest.approx(
        scipy_stats.binomtest(49_700, 100_000).pvalue, rel=1e-8
    )
    assert stats.binomial_two_sided(5, 5000) == 0.0


def test_mcnemar_refuses_what_is_not_paired_and_binary() -> None:
    with pytest.raises(DataError, match="equally long"):
        stats.mcnemar([1], [1, 0])
    with pytest.raises(DataError, match="0 or 1"):
        stats.mcnemar([0.5], [1])
    with pytest.raises(DataError, match="smaller count"):
        stats.binomial_two_sided(3, 4)


def test_interval_holds_the_mean_and_shrinks_with_more_groups() -> None:
    rng = np.random.default_rng(0)
    widths = []
    for groups in (20, 200, 2000):
        values = (rng.random(groups) < 0.6).astype(float)
        mean, low, high = stats.group_interval(values, [str(g) for g in range(groups)])
        assert low <= mean <= high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]


def test_groups_not_requests_are_resampled() -> None:
    # Five equal copies of every outcome are no new evidence: the interval is that of the 40 groups.
    outcomes = np.random.default_rng(1).random(40)
    alone = stats.group_interval(outcomes, [f"{g:02}" for g in range(40)])
    copied = stats.group_interval(np.repeat(outcomes, 5), [f"{g:02}" for g in range(40) for _ in range(5)])
    assert copied == pytest.approx(alone)
    as_if_new = stats.group_interval(np.repeat(outcomes, 5), [str(n) for n in range(200)])
    assert as_if_new[2] - as_if_new[1] < 0.6 * (alone[2] - alone[1])


def test_interval_covers_the_true_mean_about_95_times_in_100() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for trial in range(200):
        values = rng.normal(0.0, 1.0, 60)
        _, low, high = stats.group_interval(values, [str(g) for g in range(60)], samples=400, seed=trial)
        covered += low <= 0 <= high
    assert 178 <= covered <= 200


def test_interval_of_one_group_and_of_equal_values_has_no_width() -> None:
    assert stats.group_interval([0.0, 1.0], ["a", "a"]) == (0.5, 0.5, 0.5)
    assert stats.group_interval([1.0] * 9, list("abcabcabc")) == (1.0, 1.0, 1.0)


def test_interval_is_the_same_for_the_same_seed_only() -> None:
    values, groups = np.random.default_rng(3).random(50), [str(n) for n in range(50)]
    assert stats.group_interval(values, groups, seed=1) == stats.group_interval(values, groups, seed=1)
    assert stats.group_interval(values, groups, seed=1) != stats.group_interval(values, groups, seed=2)


def test_paired_difference_is_tighter_than_the_two_intervals_apart() -> None:
    rng = np.random.default_rng(4)
    base, groups = rng.random(100), [str(n) for n in range(100)]
    mean, low, high = stats.paired_interval(base + 0.1, base, groups)
    assert (mean, low, high) == pytest.approx((0.1, 0.1, 0.1))


def test_interval_refuses_empty_unequal_and_infinite_input() -> None:
    for values, groups in (([], []), ([1.0], ["a", "b"]), ([np.nan], ["a"]), ([np.inf], ["a"])):
        with pytest.raises(DataError, match="bootstrap"):
            stats.group_interval(values, groups)
    with pytest.raises(DataError, match="paired"):
        stats.paired_interval([1.0], [1.0, 2.0], ["a"])
