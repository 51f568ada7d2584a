"""Signals that are switched off say nothing: what they read may change, and no menu changes."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from untrained import untrained

from spm_jax import bundle, frontier
from spm_jax.builder import MenuBuilder
from spm_jax.data.documentation import LEVELS, documented
from spm_jax.data.histories import corrupted, sparse
from spm_jax.data.paths import library_golds
from spm_jax.data.schema import DataError, Library
from spm_jax.data.synthetic import make_world
from spm_jax.device_library import SIGNALS, index_library
from spm_jax.features import Node
from spm_jax.memory import MemoryBuilder

WORLD = make_world(0, 120, 16)
LIBRARY, REQUESTS = WORLD.library, WORLD.requests
SELECT = jax.jit(frontier.select, static_argnums=(4, 5))


def _memory(indexed, requests=REQUESTS):
    golds = library_golds(indexed.library, requests)
    tools = np.unique([tool for gold in golds for tools in gold for tool in tools])
    texts, groups = [r.text for r in requests], [r.group for r in requests]
    return MemoryBuilder(indexed, texts, golds, groups, tools, 1.0).build()


def _frontier(off: tuple[str, ...], library: Library = LIBRARY, request=REQUESTS[0], requests=REQUESTS[1:]):
    indexed = index_library(library, width=32, off=off)
    weights = frontier.FrontierWeights(np.ones(12, np.float32), np.ones(20, np.float32))
    memory = _memory(indexed, requests)
    return jax.device_get(SELECT(indexed.arrays, memory, weights, indexed.request(request), 32, 16))


def _same(one, other) -> bool:
    return jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, b), one, other))


def test_without_state_nothing_is_visible():
    seen = replace(REQUESTS[0], state={key: "1" for key in index_library(LIBRARY, width=32).known_keys})
    assert _same(_frontier(("state",)), _frontier(("state",), request=seen))
    assert not _same(_frontier(()), _frontier((), request=seen))


def test_without_flow_no_tool_makes_anything():
    shown = _frontier(("flow",))
    assert not np.any(shown.produces) and not np.any(shown.node[:, [Node.FLOW_IN, Node.FLOW_OUT, Node.OUTPUTS_KNOWN]])
    assert np.any(_frontier(()).produces)


def test_without_precedence_the_order_of_training_paths_says_nothing():
    def turned(request):
        calls = tuple(replace(call, sources=()) for call in reversed(request.trajectory.calls))
        return replace(request, trajectory=replace(request.trajectory, calls=calls))

    back = [turned(request) for request in REQUESTS[1:]]
    assert _same(_frontier(("precedence",)), _frontier(("precedence",), requests=back))
    assert not _same(_frontier(()), _frontier((), requests=back))


def test_without_memory_the_texts_of_training_requests_say_nothing():
    other = [replace(request, text="send every receipt of the order") for request in REQUESTS[1:]]
    without = [_frontier(("memory",), requests=requests) for requests in (REQUESTS[1:], other)]
    assert _same(*without) and not np.any(without[0].node[:, Node.MEMORY])
    assert not _same(_frontier(()), _frontier((), requests=other))


def test_without_families_every_tool_stands_alone():
    indexed = index_library(LIBRARY, width=32, off=("families",))
    assert len(np.unique(indexed.arrays.family[: len(LIBRARY)])) == len(LIBRARY)


def test_without_clauses_a_request_is_one():
    indexed = index_library(LIBRARY, width=32, off=("clauses",))
    text = "Find the order. Then send the receipt; after that, close the ticket."
    assert not np.any(indexed.request(replace(REQUESTS[0], text=text)).segment)
    assert np.any(index_library(LIBRARY, width=32).request(replace(REQUESTS[0], text=text)).segment)


def test_an_unknown_signal_is_refused():
    with pytest.raises(DataError, match="no signal is called 'flows'; known are state, flow"):
        index_library(LIBRARY, width=32, off=("flows",))


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_bundle_keeps_what_is_off(signal, tmp_path):
    made = untrained(LIBRARY, REQUESTS)
    indexed = index_library(LIBRARY, width=32, off=(signal,))
    bundle.save(tmp_path / "menu", replace(made, indexed=indexed))
    loaded = bundle.load(tmp_path / "menu")
    assert loaded.indexed.off == {signal}
    ours, theirs = (MenuBuilder(menus).build(REQUESTS[0]) for menus in (replace(made, indexed=indexed), loaded))
    assert ours.tolist() == theirs.tolist()


def test_documentation_is_taken_away_step_by_step():
    names, fields, everything = (documented(LIBRARY, level) for level in LEVELS)
    assert everything is LIBRARY
    assert [tool.id for tool in names] == [tool.id for tool in LIBRARY]
    assert not any(t.inputs or t.outputs or t.outputs_known or t.description for t in names)
    assert [[f.name for f in t.inputs] for t in fields] == [[f.name for f in t.inputs] for t in LIBRARY]
    assert not any(f.description for t in fields for f in (*t.inputs, *t.outputs))
    with pytest.raises(DataError, match="'none': expected one of names, fields, all"):
        documented(LIBRARY, "none")


def test_sparse_histories_keep_whole_groups_and_grow():
    kept = [sparse(REQUESTS, share, 3) for share in (0.25, 0.5, 1.0)]
    groups = [{request.group for request in part} for part in kept]
    assert groups[0] < groups[1] < groups[2] and kept[2] == list(REQUESTS)
    for part, names in zip(kept, groups):
        assert part == [request for request in REQUESTS if request.group in names]
    with pytest.raises(DataError, match="above 0"):
        sparse(REQUESTS, 0.0, 3)


def test_corrupted_histories_have_one_wrong_step_in_the_share_asked_for():
    spoilt = corrupted(LIBRARY, REQUESTS, 0.5, 3)
    changed = [(a, b) for a, b in zip(REQUESTS, spoilt) if a != b]
    assert len(changed) == round(0.5 * len(REQUESTS)) == 8
    for before, after in changed:
        pairs = list(zip(before.trajectory.calls, after.trajectory.calls, strict=True))
        assert sum(a.tools != b.tools for a, b in pairs) == 1 and before.text == after.text
    assert corrupted(LIBRARY, REQUESTS, 0.0, 3) == list(REQUESTS)
    assert spoilt == corrupted(LIBRARY, REQUESTS, 0.5, 3)
    with pytest.raises(DataError, match="from 0 to 1"):
        corrupted(LIBRARY, REQUESTS, 1.5, 3)
