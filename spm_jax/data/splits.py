"""Folds over requests that never cut through a group (evaluation.md, Splits)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from spm_jax.data.schema import DataError, Request


def _group_folds(requests: Sequence[Request], n: int, seed: int) -> np.ndarray:
    """int [R]: groups sorted by (domain, group), shuffled by ``random.Random(seed)``, fold = position mod n."""
    if n < 2:
        raise DataError(f"folds: at least 2 are needed, got {n}")
    domain: dict[str, str] = {}
    for request in requests:  # a group that spans domains counts once, under the first of them
        domain[request.group] = min(request.domain, domain.get(request.group, request.domain))
    pairs = sorted((name, group) for group, name in domain.items())
    if len(pairs) < n:
        raise DataError(f"folds: {len(pairs)} groups cannot fill {n} folds; give more groups or ask for fewer folds")
    random.Random(seed).shuffle(pairs)
    fold = {group: position % n for position, (_, group) in enumerate(pairs)}
    return np.array([fold[request.group] for request in requests], np.int64)


def sequence_folds(requests: Sequence[Request], n: int = 5) -> np.ndarray:
    """int [R], the fold 0..n-1 of each request of the main split; depends on the set of groups alone.

    For TRAJECT-Bench, whose group is "domain/sequence_name", this is the recipe that evaluation.md fixes so that
    figures compare. Raises DataError where there are fewer groups than folds.
    """
    return _group_folds(requests, n, seed=0)


def inner_folds(requests: Sequence[Request], n: int, seed: int) -> np.ndarray:
    """int [R], folds of a training part, for choices of development and out-of-fold features."""
    return _group_folds(requests, n, seed)


def held_out_sets(requests: Sequence[Request], by: str, most: int) -> list[frozenset[str]]:
    """The groups in disjoint sets: no request's training features see what another of its set did.

    ``by`` "group": at most ``most`` sets, one group a set where that allows. "domain": one set a domain, as for
    libraries that training never saw. Raises DataError for another ``by``, and as ``domain_folds``.
    """
    names = list(dict.fromkeys(request.group for request in requests))
    if by == "group":
        count = min(most, len(names))
        return [frozenset(names[first::count]) for first in range(count)]
    if by != "domain":
        raise DataError(f"config.memory.held_out = {by!r}; known are group, domain")
    fold = domain_folds(requests)
    return [
        frozenset(request.group for request, f in zip(requests, fold) if f == number)
        for number in range(int(fold.max()) + 1)
    ]


def domain_folds(requests: Sequence[Request]) -> np.ndarray:
    """int [R]: the position of the request's domain among the sorted domains; fold f leaves domain f out.

    Raises DataError for fewer than two domains, and for a group that occurs in two, since it would stand on both sides.
    """
    domains = sorted({request.domain for request in requests})
    if len(domains) < 2:
        raise DataError(f"domain split: at least two domains are needed, found {domains}")
    home: dict[str, str] = {}
    for request in requests:
        if home.setdefault(request.group, request.domain) != request.domain:
            raise DataError(
                f"domain split: group {request.group!r} occurs in the domains {home[request.group]!r} and "
                f"{request.domain!r} (request {request.id!r}); name the groups by domain"
            )
    index = {name: position for position, name in enumerate(domains)}
    return np.array([index[request.domain] for request in requests], np.int64)
