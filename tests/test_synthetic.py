"""The embedded world: the same from the same seed, runnable, of the size asked for, with what it promises inside."""

import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.data.jsonl import (
    dumps,
    fingerprint,
    read_library,
    read_requests,
    request_record,
    write_library,
    write_requests,
)
from spm_jax.data.schema import DataError, ToolId
from spm_jax.data.synthetic import make_world
from spm_jax.data.synthetic_vocabulary import ASKABLE, DOMAINS, VALUE_KINDS, make_value, operations, provider_name
from spm_jax.text.documents import tokenize

TINY_LIBRARY = "c4fa3bc998edfe54020fbbcc3cdfb1d4435e903af4789838fe94000e96323bd5"
TINY_REQUESTS = "2cb45541c9def2881cf0cb1125e7a29558233bc2f849a8ad80df12d8cece0e59"


@pytest.fixture(scope="module")
def world():
    return make_world(0, 2_000, 600)


def _digest(requests):
    return hashlib.sha256("".join(dumps(request_record(r)) for r in requests).encode()).hexdigest()


def test_a_tiny_world_is_the_one_written_down_here():
    tiny = make_world(3, 100, 12)
    tool = tiny.library[0]
    assert tool.id == ToolId("commerce/zelzelzel_nordic", "get_customer_shipment")
    assert tool.description == "Return the shipment entries of a customer."
    assert [(f.name, f.required) for f in tool.inputs] == [("id", True), ("limit", False)]
    assert tool.inputs[1].description == "How many entries. Default: 10."
    assert (tiny.needs[0], tiny.makes[0]) == (("customer_id",), ("shipment_id",))
    assert [r.id for r in tiny.requests[:6]] == [f"Commerce/{n}" for n in range(5)] + ["Travel/5"]
    assert fingerprint(tiny.library) == TINY_LIBRARY
    assert _digest(tiny.requests) == TINY_REQUESTS


def test_equal_seeds_give_equal_worlds_and_other_seeds_other_ones():
    assert make_world(7, 300, 40) == make_world(7, 300, 40)
    assert make_world(7, 300, 40).library != make_world(8, 300, 40).library


def test_the_library_does_not_depend_on_the_number_of_requests():
    assert make_world(1, 300, 5).library == make_world(1, 300, 50).library


@given(st.integers(0, 2**40), st.integers(100, 700), st.integers(1, 60))
def test_any_world_has_its_size_and_every_call_can_run(seed, n_tools, n_requests):
    _check_runnable(make_world(seed, n_tools, n_requests), n_tools, n_requests)


def test_every_call_of_the_quickstart_world_can_run(world):
    _check_runnable(world, 2_000, 600)


def _check_runnable(world, n_tools, n_requests):
    """What a call needs is visible or made earlier; its arguments hold it; visible values stand in text or state."""
    assert len(world.library) == len(world.needs) == len(world.makes) == n_tools
    assert len(world.requests) == len(world.visible) == n_requests
    for request, visible in zip(world.requests, world.visible, strict=True):
        assert 2 <= len(request.trajectory.calls) <= 10
        assert not request.state or set(request.state) == set(visible)
        known = set(visible)
        for call in request.trajectory.calls:
            tool = world.library.index(call.tools[0])
            assert set(world.needs[tool]) <= known
            required = {f.name for f in world.library[tool].required}
            assert required <= set(call.arguments) and len(call.arguments) == len(world.needs[tool])
            for key, value in zip(world.needs[tool], call.arguments.values(), strict=True):
                if key in visible and not request.state:
                    made = any(key in world.makes[world.library.index(c.tools[0])] for c in request.trajectory.calls)
                    assert value in request.text or made
            known |= set(world.makes[tool])


def test_documented_outputs_agree_with_the_truth_in_number_and_are_absent_where_unknown(world):
    for tool, makes in zip(world.library, world.makes, strict=True):
        assert len(tool.outputs) == (len(makes) if tool.outputs_known else 0)
        assert bool(tool.outputs_from) == tool.outputs_known


def test_families_are_products_of_three_to_ten_tools_and_domains_are_several(world):
    sizes = Counter(tool.family for tool in world.library)
    assert set(sizes.values()) <= set(range(3, 11)) and len(set(sizes.values())) >= 6
    assert len({request.domain for request in world.requests}) >= 4
    assert len({tool.family.split("/")[0] for tool in world.library}) == len(DOMAINS) + 1  # and the hub of mirrors


def test_near_duplicates_offer_the_same_under_other_wording(world):
    offers = {}
    for tool, needs, makes in zip(world.library, world.needs, world.makes, strict=True):
        offers.setdefault((tool.family.split("/")[0], needs, makes), []).append(tool)
    same = [tools for tools in offers.values() if needs_two_families(tools)]
    assert sum(map(len, same)) > 1_500
    assert all(len({tool.description for tool in tools}) > 1 for tools in same if len(tools) > 10)


def needs_two_families(tools):
    return len({tool.family for tool in tools}) > 1


def test_mirrored_listings_are_interchangeable_gold(world):
    chains = [entry for request in world.requests for entry in world.library.gold(request)]
    both = [entry for entry in chains if len(entry) == 2]
    assert both and all(world.library[a].name == world.library[b].name for a, b in both)
    assert not any(world.library[entry[0]].family.startswith("hub/") for entry in chains if len(entry) == 1)


def test_paths_recur_and_some_tools_belong_to_one_group_alone(world):
    chains = {request.group: world.library.gold(request) for request in world.requests}
    assert len(chains) == len(set(chains.values())) == 120
    groups_of = Counter(entry for chain in chains.values() for entry in set(chain))
    assert sum(n == 1 for n in groups_of.values()) >= 30
    pairs = Counter(pair for chain in chains.values() for pair in zip(chain, chain[1:]))
    assert sum(n for n in pairs.values() if n > 1) / sum(pairs.values()) > 0.4
    by_group = Counter(request.group for request in world.requests)
    assert set(by_group.values()) == {5}
    texts = [request.text for request in world.requests]
    assert len(set(texts)) > 0.99 * len(texts)


def test_state_is_explicit_for_some_requests_and_in_the_text_of_others(world):
    explicit = [bool(r.state) for r, visible in zip(world.requests, world.visible, strict=True) if visible]
    assert 0.3 < np.mean(explicit) < 0.5
    silent = [r for r in world.requests if r.state and not any(str(v) in r.text for v in r.state.values())]
    assert len(silent) > 100


def test_spoken_words_do_not_stand_in_the_documents_of_the_same_operation():
    shared = {"the", "a", "one", "of", "with", "in", "for", "to", "and", "it", "is", "by", "on", "an"}
    clean = total = 0
    for domain in DOMAINS:
        for operation in operations(domain):
            written = {word for text in operation.documents for word in tokenize(text)} - shared
            spoken = {word for text in operation.asking for word in tokenize(text)} - shared
            clean, total = clean + (not written & spoken), total + 1
    assert clean / total > 0.8


def test_every_askable_key_has_values_and_providers_have_distinct_names():
    rng = np.random.Generator(np.random.PCG64(0))
    assert all(make_value(rng, VALUE_KINDS[key], key) for key in sorted(ASKABLE))
    assert len({provider_name(n) for n in range(30_000)}) == 30_000


def test_a_world_survives_its_written_form(tmp_path):
    world = make_world(2, 200, 15)
    write_library(tmp_path / "library.jsonl", world.library)
    write_requests(tmp_path / "requests.jsonl", world.requests)
    assert read_library(tmp_path / "library.jsonl") == world.library
    assert read_requests(tmp_path / "requests.jsonl") == world.requests


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((-1, 100, 1), "seed"), ((0, 99, 1), "n_tools"), ((0, 100, 0), "n_requests"), ((0, 1e3, 1), "n_tools"),
     ((True, 100, 1), "seed")],
)  # fmt: skip
def test_numbers_out_of_range_are_named(arguments, named):
    with pytest.raises(DataError, match=named):
        make_world(*arguments)


def test_too_many_groups_for_the_tools_say_so(monkeypatch):
    from spm_jax.data import synthetic_requests

    monkeypatch.setattr(synthetic_requests, "LENGTHS", np.array([2]))
    monkeypatch.setattr(synthetic_requests, "LENGTH_SHARES", np.array([1.0]))
    monkeypatch.setattr(synthetic_requests, "POOL", 3)
    monkeypatch.setattr(synthetic_requests, "NOVEL_SHARES", (1.0,))
    with pytest.raises(DataError, match="raise n_tools"):
        make_world(0, 100, 500)
