"""The menu program as a whole: what its menus promise. Traces, devices, jit and batches: tests/test_scale.py."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import jax
import numpy as np
import pytest
from untrained import builder, tool, untrained

from spm_jax import bundle
from spm_jax.builder import REQUEST, MenuBuilder, render
from spm_jax.data.labels import Role
from spm_jax.data.schema import Library, Request
from spm_jax.data.state import visible_keys
from spm_jax.data.synthetic import make_world
from spm_jax.frontier import select
from spm_jax.menu import pick
from spm_jax.metrics import build_schemas


@lru_cache
def world():
    made = make_world(3, 120, 24)
    return made, untrained(made.library, made.requests[:16])


def assert_equal(one, other):
    for field in dataclasses.fields(one):
        a, b = np.asarray(getattr(one, field.name)), np.asarray(getattr(other, field.name))
        np.testing.assert_array_equal(a, b, err_msg=field.name)


def program(trained):
    return trained.plan, trained.params, trained.indexed.arrays, trained.memory


def test_a_bundle_read_back_builds_the_same_menus(tmp_path):
    made, trained = world()
    bundle.save(tmp_path / "menu", trained)
    before, after = MenuBuilder(trained), MenuBuilder.load(tmp_path / "menu")
    assert after.trained.indexed.keys == trained.indexed.keys and after.trained.requests == trained.requests
    for request in made.requests[16:20]:
        assert_equal(before.arrays(request), after.arrays(request))
        assert before.explain(request) == after.explain(request)


@pytest.mark.parametrize("number", range(16, 24))
def test_a_menu_keeps_its_promises(number):
    made, trained = world()
    library, schemas = made.library, build_schemas(made.library)
    request = made.requests[number]
    menu_builder = MenuBuilder(trained)
    menu = menu_builder.arrays(request)
    items = menu_builder.explain(request)
    assert len(set(menu.tool.tolist())) == len(menu.tool) == len(items) == 32
    assert set(menu.tool) <= set(menu.frontier)
    assert [library.index(item.tool) for item in items] == menu.tool.tolist() == menu_builder.build(request).tolist()

    state = set(visible_keys(request, schemas.known))
    known_so_far: dict[str, object] = dict.fromkeys(state, REQUEST)
    for row, (identity, item) in enumerate(zip(menu.tool.tolist(), items)):
        runs = schemas.inputs[identity] <= state
        assert item.executable == runs == bool(menu.executable[row]), (row, item)
        assert len(item.inputs) == len(schemas.inputs[identity])
        assert all(i.source is not None for i in item.inputs) or not runs
        for made_by in (i.source for i in item.inputs if i.source not in (None, REQUEST)):
            above = [other.tool for other in items[:row]]
            assert made_by in above and schemas.outputs[library.index(made_by)] & schemas.inputs[identity]
        assert [i.source == REQUEST for i in item.inputs].count(True) == len(
            [key for key in schemas.inputs[identity] if known_so_far.get(key) == REQUEST]
        )
        if runs:
            state |= schemas.outputs[identity]
    assert render(items).count("\n") == 31


def test_the_first_eight_are_ordered_and_the_others_keep_their_order():
    made, trained = world()
    trained = dataclasses.replace(trained, plan=dataclasses.replace(trained.plan, producers_first=False))

    @jax.jit
    def picked(plan, params, library, memory, request):
        candidates = select(library, memory, params.frontier, request, plan.candidates, plan.text)
        return candidates.tool[pick(plan, candidates, plan.retriever.apply(params.retriever, candidates))]

    for request in made.requests[16:20]:
        picks = np.asarray(picked(*program(trained), trained.indexed.request(request))).tolist()
        shown = MenuBuilder(trained).build(request).tolist()
        assert sorted(shown) == sorted(picks)
        assert shown[8:] == [pick for pick in picks if pick not in shown[:8]]


def test_roles_run_from_entry_to_target():
    made, trained = world()
    for request in made.requests[16:20]:
        items = MenuBuilder(trained).explain(request)
        roles = [item.role for item in items if item.role != Role.EXTRA]
        expected = [Role.ENTRY, *[Role.BRIDGE] * (len(roles) - 2), Role.TARGET] if len(roles) > 1 else [Role.TARGET]
        assert roles == expected
        on, off = ([i.score for i in items if (i.role != Role.EXTRA) is there] for there in (True, False))
        assert min(on) >= max(off, default=0)
        assert all(0 <= item.score <= 1 for item in items)


def test_order_gives_back_the_tools_that_it_was_given():
    made, trained = world()
    menu_builder = MenuBuilder(trained)
    rng = np.random.default_rng(0)
    for number, size in ((16, 1), (17, 9), (18, 32), (19, 31)):
        given = rng.permutation(len(made.library))[:size].astype(np.int32)
        kept = given.copy()
        ordered = menu_builder.order(made.requests[number], given)
        assert sorted(ordered) == sorted(given) and np.array_equal(given, kept)


@pytest.mark.parametrize("k", [1, 500])
def test_k_tools_or_all_there_are(k):
    made, trained = world()
    menu = MenuBuilder(trained).build(made.requests[16], k)
    assert len(menu) == len(set(menu.tolist())) == min(k, 120)


def test_the_receipt_chain_is_explained():
    library = Library(
        (
            tool("SendEmailReceipt", ["receipt_id", "email"], ["sent"]),
            tool("CreateReceipt", ["customer_id"], ["receipt_id"]),
            tool("LookupOrder", ["order_number"], ["customer_id"]),
            tool("GetCustomerEmail", ["customer_id"], ["email"]),
        )
    )
    items = builder(library).explain(Request("r", "receipt", state={"order_number": "1234"}))
    named = {item.tool.name: item for item in items}
    assert named["LookupOrder"].executable and named["LookupOrder"].inputs[0].source == REQUEST
    position = {item.tool.name: n for n, item in enumerate(items)}
    first = position["LookupOrder"] < position["CreateReceipt"]
    assert named["CreateReceipt"].executable == first
    assert named["CreateReceipt"].inputs[0].source == (named["LookupOrder"].tool if first else None)
