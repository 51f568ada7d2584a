"""Weights on another library: a cold one, one with paths, one indexed in another way."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from untrained import untrained

from spm_jax.builder import MenuBuilder
from spm_jax.data.schema import DataError
from spm_jax.data.synthetic import make_world
from spm_jax.device_library import index_library
from spm_jax.train.transfer import transfer


@pytest.fixture(scope="module")
def worlds():
    here, there = make_world(0, 150, 12), make_world(1, 170, 12)
    return untrained(here.library, here.requests), there, index_library(there.library, width=32)


def test_a_cold_library_gets_menus_of_its_own_tools_by_the_same_weights(worlds):
    trained, there, indexed = worlds
    moved = transfer(trained, indexed, menu=10)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, b), moved.params, trained.params))
    assert not np.any(moved.memory.calls) and moved.requests == ()
    for request in there.requests[:4]:
        menu = MenuBuilder(moved).build(request, 10)
        assert len(set(menu.tolist())) == 10 and menu.max() < len(there.library)


def test_paths_of_the_new_library_count(worlds):
    trained, there, indexed = worlds
    cold, warm = (transfer(trained, indexed, requests, menu=10) for requests in ((), there.requests[1:]))
    assert np.any(warm.memory.calls) and len(warm.requests) == 11
    asked = there.requests[0]
    menus = [MenuBuilder(menus).build(asked, 10).tolist() for menus in (cold, warm)]
    assert menus[0] != menus[1]


def test_another_encoder_is_refused(worlds):
    trained, _, indexed = worlds

    class Encoder:
        fingerprint = "other"

    with pytest.raises(DataError, match="another text encoder"):
        transfer(trained, replace(indexed, encoder=Encoder()), menu=10)
