"""Folds: the recipe of evaluation.md, and no group on two sides."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.data.schema import DataError, Request
from spm_jax.data.splits import domain_folds, held_out_sets, inner_folds, sequence_folds


def _request(number: int, domain: str, sequence: str) -> Request:
    return Request(f"r{number}", "text", f"{domain}/{sequence}", domain)


def test_sequence_folds_follow_the_published_recipe() -> None:
    requests = [_request(n, "AB"[n % 2], f"s{n % 14:02}") for n in range(60)]
    pairs = sorted({(r.domain, r.group.removeprefix(f"{r.domain}/")) for r in requests})
    random.Random(0).shuffle(pairs)
    expected = [pairs.index((r.domain, r.group.removeprefix(f"{r.domain}/"))) % 5 for r in requests]
    assert sequence_folds(requests).tolist() == expected


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), min_size=40, max_size=80), st.integers(2, 5))
def test_no_group_is_cut_and_folds_are_even(pairs: list[tuple[str, int]], n: int) -> None:
    requests = [_request(k, domain, str(sequence)) for k, (domain, sequence) in enumerate(pairs)]
    groups = {r.group for r in requests}
    if len(groups) < n:
        with pytest.raises(DataError, match="groups cannot fill"):
            sequence_folds(requests, n)
        return
    for folds in (sequence_folds(requests, n), inner_folds(requests, n, seed=3)):
        home = {r.group: fold for r, fold in zip(requests, folds)}
        assert all(home[r.group] == fold for r, fold in zip(requests, folds))
        sizes = np.bincount(list(home.values()), minlength=n)
        assert sizes.max() - sizes.min() <= 1


def test_folds_do_not_depend_on_the_order_of_the_requests() -> None:
    requests = [_request(n, "a", str(n // 3)) for n in range(30)]
    assert sequence_folds(requests[::-1]).tolist()[::-1] == sequence_folds(requests).tolist()


def test_inner_folds_differ_by_seed() -> None:
    requests = [_request(n, "a", str(n)) for n in range(40)]
    assert inner_folds(requests, 4, 1).tolist() != inner_folds(requests, 4, 2).tolist()


def test_a_group_that_spans_domains_stays_whole() -> None:
    requests = [Request(f"r{n}", "t", f"g{n // 2}", "ab"[n % 2]) for n in range(20)]
    folds = sequence_folds(requests)
    assert (folds[::2] == folds[1::2]).all()
    with pytest.raises(DataError, match="occurs in the domains"):
        domain_folds(requests)


def test_domain_folds() -> None:
    requests = [_request(0, "b", "x"), _request(1, "a", "y"), _request(2, "b", "z")]
    assert domain_folds(requests).tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="two domains"):
        domain_folds(requests[:1])


def test_sets_that_are_held_out_together() -> None:
    requests = [_request(n, "ab"[n % 2], str(n // 4)) for n in range(24)]  # 12 groups
    groups = {r.group for r in requests}
    for by, most, sizes in (("group", 100, [1] * 12), ("group", 5, [3, 3, 2, 2, 2]), ("domain", 5, [6, 6])):
        sets = held_out_sets(requests, by, most)
        assert [len(one) for one in sets] == sizes
        assert sorted(group for one in sets for group in one) == sorted(groups)
    assert [{group.partition("/")[0] for group in one} for one in sets] == [{"a"}, {"b"}]
    with pytest.raises(DataError, match="held_out = 'tool'; known are group, domain"):
        held_out_sets(requests, "tool", 5)
    with pytest.raises(DataError, match="two domains"):
        held_out_sets(requests[::2], "domain", 5)


def test_too_few_folds_or_groups() -> None:
    with pytest.raises(DataError, match="at least 2"):
        sequence_folds([_request(0, "a", "x")], 1)
    with pytest.raises(DataError, match="1 groups cannot fill 5"):
        sequence_folds([_request(0, "a", "x")])
