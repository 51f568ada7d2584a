"""The two decoders against the oracles on random cases, against the best choice on small ones, and as compiled code.

Random scores are multiples of 1/64 and input counts powers of two, so sums are exact and ties are real.
"""

from __future__ import annotations

import itertools
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference_decode as reference

from spm_jax.decode import OrderState, cover, decoder_scores, masked_argmax, order, place, producers_first

CASES = 100  # of each setting
C, INPUTS, S = 10, 4, 3
WEIGHTS = ((0.5, 0.25), (1.0, 0.0), (0.0, 1.0), (2.0, 0.5))  # (coverage, redundancy)
ORDER_WEIGHTS = ((1.0, 0.5, 0.25, 2.0), (0.0, 1.0, 0.0, 0.0), (0.5, 0.0, 0.0, 1.0))


def tenths(rng: np.random.Generator, *shape: int, steps: int = 64) -> np.ndarray:
    """float32 multiples of 1/64 below ``steps``/64, some of them equal."""
    return (rng.integers(0, steps, shape) / 64).astype(np.float32)


def tools(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """(produces, missing, required, valid) of C random tools with 0, 1, 2 or 4 required inputs."""
    required = np.arange(INPUTS) < rng.choice([0, 1, 2, 4], C)[:, None]
    missing = required & (rng.random((C, INPUTS)) < 0.7)
    produces = required & (rng.random((C, C, INPUTS)) < 0.25) & ~np.eye(C, dtype=bool)[:, :, None]
    return produces, missing, required, rng.random(C) < rng.choice([0.0, 0.4, 1.0])


jit_cover = jax.jit(cover, static_argnames="size")
jit_order = jax.jit(order, static_argnames="size")


@lru_cache
def cover_cases() -> tuple[np.ndarray, ...]:
    """(member, slot, produces, missing, required, similar, valid) [CASES, ..]; every third case has few values."""
    cases = []
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        steps = 3 if seed % 3 == 0 else 64
        similar = tenths(rng, C, C, steps=steps) - np.float32(0.25 * (seed % 2))
        produces, missing, required, valid = tools(rng)
        member, slot = tenths(rng, C, steps=steps) - np.float32(0.5), tenths(rng, C, S, steps=steps)
        cases.append((member, slot, produces, missing, required, np.maximum(similar, similar.T), valid))
    return tuple(map(np.stack, zip(*cases, strict=True)))


@partial(jax.jit, static_argnames="size")
def covers(arrays, coverage, redundancy, size: int):
    return jax.vmap(lambda *case: cover(*case, size=size, coverage=coverage, redundancy=redundancy))(*arrays)


@pytest.mark.parametrize("size", [4, C])
@pytest.mark.parametrize(("coverage", "redundancy"), WEIGHTS)
def test_cover_is_the_oracle(coverage, redundancy, size):
    picks = np.asarray(covers(cover_cases(), coverage, redundancy, size))
    for got, (*scores, valid) in zip(picks, zip(*cover_cases(), strict=True), strict=True):
        assert got.tolist() == reference.cover(valid, size, *scores, coverage, redundancy)


@lru_cache
def order_cases() -> tuple[np.ndarray, ...]:
    """(entry, slot, precedence, produces, required, missing, valid), each [CASES, ..]."""
    cases = []
    for seed in range(CASES):
        rng = np.random.default_rng(1000 + seed)
        steps = 3 if seed % 3 == 0 else 64
        flow = tenths(rng, C, C, steps=steps)
        produces, missing, required, valid = tools(rng)
        entry, slot = tenths(rng, C, steps=steps) - 1, tenths(rng, C, S + 1, steps=steps) - 1
        cases.append((entry, slot, flow - flow.T, produces, required, missing, valid))
    return tuple(map(np.stack, zip(*cases, strict=True)))


@partial(jax.jit, static_argnames="size")
def orders(arrays, weights, size: int):
    return jax.vmap(lambda *case: order(*case, weights, size=size))(*arrays)


@pytest.mark.parametrize("size", [1, S + 1])
@pytest.mark.parametrize("weights", ORDER_WEIGHTS)
def test_order_is_the_oracle(weights, size):
    """A mean over 3 or 7 tools is rounded, so the program's choice must be as good as the oracle's, and the first such
    where means are exact."""
    arrays = order_cases()
    shown = np.asarray(orders(arrays, jnp.array(weights, jnp.float32), size))
    for got, case in zip(shown, zip(*arrays, strict=True), strict=True):
        valid = case[-1]
        if weights[2] == 0:
            assert got.tolist() == reference.order(size, *case, weights)
        placed = got[: min(size, valid.sum())].tolist()
        for t, choice in enumerate(placed):
            scores = reference.decoder_scores(placed[:t], t, *case, weights)
            assert scores[choice] == pytest.approx(max(scores.values()), abs=1e-5)
        rest = [i for i in range(C) if valid[i] and i not in placed]
        assert got.tolist() == placed + rest + [-1] * (C - valid.sum())


def test_the_cases_hold_ties_empty_menus_and_few_tools():
    for *_, valid in (cover_cases(), order_cases()):
        count = valid.sum(axis=1)
        assert (count == 0).any() and ((count > 0) & (count < 4)).any() and (count == C).any()
    member, *_, valid = cover_cases()
    best = np.where(valid, member, -9).max(axis=1, keepdims=True)
    assert (((member == best) & valid).sum(axis=1) > 1).sum() > 10


def example() -> dict[str, np.ndarray]:
    """LookupOrder, CreateReceipt, GetCustomerEmail, SendEmailReceipt; two inputs a tool, the order number visible."""
    required = np.array([[1, 0], [1, 0], [1, 0], [1, 1]], bool)
    missing = np.array([[0, 0], [1, 0], [1, 0], [1, 1]], bool)
    produces = np.zeros((4, 4, 2), bool)
    produces[0, 1, 0] = produces[0, 2, 0] = produces[1, 3, 1] = produces[2, 3, 0] = True
    return {"produces": produces, "missing": missing, "required": required, "valid": np.ones(4, bool)}


def test_cover_by_hand():
    """Picking the target raises its two producers by half an input each; picking them raises theirs."""
    member = np.array([-2.0, -1.25, -1.5, 0], np.float32)
    nothing = np.zeros((4, 4), np.float32)
    pick = partial(jit_cover, member, nothing, similar=nothing, **example(), size=4)
    assert np.asarray(pick(coverage=0.0, redundancy=0.0)).tolist() == [3, 1, 2, 0]
    # After 3: 1 has -0.25, 2 has -0.5, 0 has -2. After 1: 0 has -2 + 2 = 0, 2 has -0.5.
    assert np.asarray(pick(coverage=2.0, redundancy=0.0)).tolist() == [3, 1, 0, 2]


def test_redundancy_by_hand():
    """A near-duplicate of the first pick comes after a tool that scores less; a similarity below 0 is no reward."""
    similar = np.array([[1, 0.9, -1, 0], [0.9, 1, 0, 0], [-1, 0, 1, 0], [0, 0, 0, 1]], np.float32)
    member = np.array([1, 0.95, 0.5, 0.75], np.float32)
    nothing = np.zeros((4, 2), bool)
    picks = jit_cover(
        member, np.zeros((4, 3), np.float32), np.zeros((4, 4, 2), bool), nothing, nothing, similar, np.ones(4, bool),
        size=4, coverage=1.0, redundancy=1.0,
    )  # fmt: skip
    assert np.asarray(picks).tolist() == [0, 3, 2, 1]


def test_order_by_hand():
    """Relevance puts the target first; the executable prefix puts it last."""
    logits = {"entry": np.array([0, 0, 0, 1.0]), "slot": np.zeros((4, 4)), "precedence": np.zeros((4, 4))}
    relevance = jit_order(**logits, **example(), weights=jnp.array([1.0, 0, 0, 0]), size=4)
    assert np.asarray(relevance).tolist() == [3, 0, 1, 2]
    executable = jit_order(**logits, **example(), weights=jnp.array([1.0, 0, 0, 2]), size=4)
    assert np.asarray(executable).tolist() == [0, 1, 2, 3]


def test_masked_argmax():
    scores = jnp.array([3.0, 1, 2, 2])
    assert masked_argmax(scores, jnp.array([False, True, True, True])) == 2
    assert masked_argmax(scores, jnp.zeros(4, bool)) == 0


# --- against the best choice -----------------------------------------------------------------------------------------


def value(sequence, scores, coverage: float, redundancy: float) -> float:
    """The sum of s_i over the picks of a sequence."""
    return sum(reference.cover_gain(i, sequence[:t], *scores, coverage, redundancy) for t, i in enumerate(sequence))


def test_without_coverage_cover_is_the_best_set():
    """Modular gains: the greedy set is the best one."""
    picks = np.asarray(covers(cover_cases(), 0.0, 0.0, 4))
    for got, (member, *_, valid) in zip(picks, zip(*cover_cases(), strict=True), strict=True):
        assert np.sort(member[got[got >= 0]]).tolist() == np.sort(member[valid])[-4:][: valid.sum()].tolist()


def test_slot_coverage_is_within_1_minus_1_over_e_of_the_best_set():
    """With slots alone the gain is monotone and submodular (Nemhauser, Wolsey and Fisher 1978)."""
    member, slot, produces, _, required, similar, valid = cover_cases()
    none = np.zeros_like(required)
    picks = covers((0 * member, slot, produces, none, required, similar, valid | True), 1.0, 0.0, 3)
    ratios = []
    for got, probabilities in zip(np.asarray(picks), slot, strict=True):
        best = max(probabilities[list(s)].max(axis=0).sum() for s in itertools.combinations(range(C), 3))
        ratios.append(probabilities[got].max(axis=0).sum() / best if best else 1.0)
    assert 1 - 1 / np.e <= min(ratios) and max(ratios) <= 1 + 1e-6


def test_no_sequence_beats_cover_by_much_where_fields_are_needed():
    """With needs the gain is not submodular and greed has no bound: it must only never beat the best sequence."""
    arrays = tuple(array[:24] for array in cover_cases())
    picks = np.asarray(covers(arrays, 1.0, 0.25, 3))
    ratios = []
    for got, (member, *scores, valid) in zip(picks, zip(*arrays, strict=True), strict=True):
        if valid.sum() < 3:
            continue
        scores = (member + 0.5, *scores)  # members of 0 and more: a ratio means something
        best = max(value(s, scores, 1.0, 0.25) for s in itertools.permutations(np.flatnonzero(valid), 3))
        ratios.append(value(got.tolist(), scores, 1.0, 0.25) / best)
    assert len(ratios) > 10 and max(ratios) <= 1 + 1e-6


def test_precedence_alone_sorts():
    """B_ij = a_i - a_j is a total order: greed finds it whole."""
    rng = np.random.default_rng(0)
    flow = rng.permutation(C).astype(np.float32)
    none = np.zeros((C, INPUTS), bool)
    shown = jit_order(
        np.zeros(C, np.float32), np.zeros((C, C), np.float32), flow[:, None] - flow[None, :],
        np.zeros((C, C, INPUTS), bool),
        none, none, np.ones(C, bool), jnp.array([0.0, 0, 1, 0]), size=C,
    )  # fmt: skip
    assert np.asarray(shown).tolist() == np.argsort(-flow).tolist()


def test_the_prefix_is_executable_where_a_route_exists():
    """Tools whose inputs all come from lower-numbered ones, in random order, weighed by executability above all."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rank = rng.permutation(C)
        required = rng.random((C, INPUTS)) < 0.6
        lower = rank[:, None] < rank[None, :]
        produces = required[None] & lower[:, :, None] & (rng.random((C, C, INPUTS)) < 0.5)
        missing = required & produces.any(axis=0)  # what nothing outputs is visible
        random = rng.normal(size=(2, C)).astype(np.float32)
        shown = jit_order(
            random[0], np.tile(random[1][:, None], (1, C)), np.zeros((C, C), np.float32), produces, required, missing,
            np.ones(C, bool), jnp.array([0.1, 0.1, 0, 100]), size=C,
        )  # fmt: skip
        for t, i in enumerate(np.asarray(shown)):
            assert not (missing[i] & ~produces[np.asarray(shown[:t]), i].any(axis=0)).any()


# --- as compiled code ------------------------------------------------------------------------------------------------


def test_compiled_is_interpreted_and_batched_is_looped():
    picks, shown = covers(cover_cases(), 0.5, 0.25, 4), orders(order_cases(), jnp.array(ORDER_WEIGHTS[0]), 4)
    for n in (0, 1, 5):
        one, other = ([jnp.asarray(array[n]) for array in cases] for cases in (cover_cases(), order_cases()))
        with jax.disable_jit():
            slow = cover(*one, size=4, coverage=0.5, redundancy=0.25)
            slow_order = order(*other, jnp.array(ORDER_WEIGHTS[0]), size=4)
        np.testing.assert_array_equal(slow, picks[n])
        np.testing.assert_array_equal(slow_order, shown[n])
        np.testing.assert_array_equal(jit_cover(*one, size=4, coverage=0.5, redundancy=0.25), picks[n])
        np.testing.assert_array_equal(jit_order(*other, jnp.array(ORDER_WEIGHTS[0]), size=4), shown[n])


def test_the_gradient_through_the_scores_is_finite():
    """Plackett-Luce over a teacher-forced order, with padding at -1e9 as the reranker gives it."""
    entry, slot, precedence, produces, required, missing, _ = (jnp.asarray(array[1]) for array in order_cases())
    valid = jnp.arange(C) < 6
    entry = jnp.where(valid, entry, -1e9)

    def loss(entry, slot, precedence, weights):
        state, total = OrderState(valid, required & ~missing), 0.0
        for t, choice in enumerate((3, 0, 5)):
            scores = decoder_scores(state, jnp.array(t), entry, slot, precedence, required, weights)
            total -= jax.nn.log_softmax(jnp.where(state.unplaced, scores, -jnp.inf))[choice]
            state = place(state, choice, produces)
        return total

    gradients = jax.grad(loss, argnums=(0, 1, 2, 3))(entry, slot, precedence, jnp.ones(4))
    for gradient in gradients:
        assert np.isfinite(np.asarray(gradient)).all() and np.asarray(gradient).any()
    assert not np.asarray(gradients[0])[6:].any()


def first_producers(shown: list[int], produces: np.ndarray, fixed: int) -> list[int]:
    """The oracle of ``producers_first``: place after place, by the definition."""
    out, waiting = list(shown[:fixed]), list(shown[fixed:])

    def feeds(i: int, j: int) -> bool:
        return bool(produces[i, j].any() and not produces[j, i].any())

    while waiting:
        tools = [j for j in waiting if j >= 0]
        free = [j for j in tools if not any(i != j and feeds(i, j) for i in tools)]
        out.append(free[0] if free else waiting[0])
        waiting.remove(out[-1])
    return out


def test_producers_come_first_after_the_prefix():
    rng = np.random.default_rng(0)
    sort = jax.jit(producers_first, static_argnames="fixed")
    for case in range(200):
        produces = rng.random((12, 12, 2)) < rng.choice([0.03, 0.1, 0.3])
        produces[np.arange(12), np.arange(12)] = False
        valid = int(rng.integers(0, 13))
        shown = np.concatenate([rng.permutation(12)[:valid], np.full(12 - valid, -1)]).astype(np.int32)
        got = sort(jnp.array(shown), jnp.array(produces), fixed=4).tolist()
        assert got == first_producers(shown.tolist(), produces, 4), case
        assert sorted(got) == sorted(shown.tolist()) and got[:4] == shown[:4].tolist()


def test_a_cycle_keeps_the_order_as_it_stands():
    produces = np.zeros((3, 3, 1), bool)
    produces[0, 1] = produces[1, 2] = produces[2, 0] = True
    assert producers_first(jnp.arange(3), jnp.array(produces), fixed=0).tolist() == [0, 1, 2]


def test_a_hedge_moves_the_next_likely_entries_up():
    """Three tools; the slots say 0, 1, 2 and the entry says 2 after 0: only a hedge puts 2 second."""
    entry = jax.nn.log_softmax(jnp.array([5.0, 0.0, 4.0]))
    slot = jax.nn.log_softmax(jnp.eye(3), axis=0)
    nothing = jnp.zeros((3, 1), bool)
    rest = (jnp.zeros((3, 3)), jnp.zeros((3, 3, 1), bool), nothing, nothing, jnp.ones(3, bool), jnp.ones(4))
    assert order(entry, slot, *rest, size=3).tolist() == [0, 1, 2]
    assert order(entry, slot, *rest, size=3, hedge=0.5).tolist() == [0, 2, 1]
