"""Requests of which only the set of tools is known: the order in which their calls stand reaches nothing."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import numpy as np

from spm_jax.baselines import available
from spm_jax.baselines.order_only import precedence_order
from spm_jax.data.schema import Library, Request, Trajectory
from spm_jax.data.splits import held_out_sets
from spm_jax.data.synthetic import make_world
from spm_jax.device_library import index_library
from spm_jax.evaluate import evaluate
from spm_jax.metrics import OF_ORDER
from spm_jax.train.prepare import Corpus, make_corpus

SETS = 12  # the first requests of the world, of 20


@lru_cache
def world() -> tuple[Library, tuple[Request, ...]]:
    made = make_world(5, 120, 20)
    return made.library, made.requests


def corpus(*, ordered: bool, turned: bool) -> Corpus:
    """The world's first requests ``ordered`` or not, their calls ``turned`` round or not."""
    library, requests = world()
    first = [
        dataclasses.replace(
            request, trajectory=Trajectory(request.trajectory.calls[:: -1 if turned else 1], ordered=ordered)
        )
        for request in requests[:SETS]
    ]
    requests = [*first, *requests[SETS:]]
    return make_corpus(index_library(library, 16), requests, 1.0, held_out_sets(requests, "group", 10))


def test_the_order_of_a_set_changes_no_statistic_and_no_label():
    one, other = (corpus(ordered=False, turned=turned) for turned in (False, True))
    memories = [dataclasses.asdict(made.memory.build()) for made in (one, other)]
    for name, value in memories[0].items():
        np.testing.assert_array_equal(value, memories[1][name], err_msg=name)
    assert not any(fixed.any() for made in (one, other) for fixed in made.fixed[:SETS])
    for mine, theirs in zip(one.fixed[SETS:], other.fixed[SETS:], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    # Where the order counts, turning the calls round is seen.
    straight, back = (corpus(ordered=True, turned=turned).memory.build() for turned in (False, True))
    assert not np.array_equal(straight.first, back.first) and not np.array_equal(straight.precedes, back.precedes)
    # Membership and what goes together are learned of a set as of a chain.
    for name in ("tool", "groups", "pair", "recall", "extended", "neighbour_weight"):
        np.testing.assert_array_equal(getattr(straight, name), memories[0][name], err_msg=name)


def test_baselines_learn_no_order_of_a_set():
    library, requests = world()
    sets, sets_turned = (corpus(ordered=False, turned=turned).requests for turned in (False, True))
    asked = dataclasses.replace(requests[0], id="asked", trajectory=Trajectory())
    for fit in available(library).values():
        made, again = (fit(library, train).build(asked, 16) for train in (sets, sets_turned))
        np.testing.assert_array_equal(made, again)
    tools = np.array([library.gold(requests[0])[n][0] for n in (1, 0)])
    ranked = [precedence_order(library, train[:SETS])(asked, tools).tolist() for train in (sets, sets_turned, requests)]
    assert ranked == [tools.tolist(), tools.tolist(), tools[::-1].tolist()]


def test_a_set_is_scored_without_order():
    library, requests = world()
    bm25 = available(library)["bm25"](library, requests)
    a_set = dataclasses.replace(requests[0], trajectory=dataclasses.replace(requests[0].trajectory, ordered=False))
    length = len(library.gold(requests[0]))
    fixed = [np.triu(np.ones((length, length), bool), 1)] * 2
    chain, scored = evaluate([bm25], library, requests, [requests[0], a_set], fixed, 16).results[bm25.name]
    assert "first_action" in chain and not OF_ORDER & set(scored) and "complete_chain@16" in scored
