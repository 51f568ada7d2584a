"""Weights on another library: a cold one, one with paths, one indexed in another way."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from untrained import untrained

from experiments import transfer as command
from spm_jax import bundle
from spm_jax.builder import MenuBuilder
from spm_jax.data.schema import DataError
from spm_jax.data.synthetic import make_world
from spm_jax.device_library import index_library
from spm_jax.evaluate import STATE_PATH
from spm_jax.tables import read_table
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


def test_the_command_scores_with_and_without_paths_beside_what_needs_none(worlds, tmp_path, monkeypatch, capsys):
    trained, there = worlds[0], make_world(1, 170, 30)
    bundle.save(tmp_path / "runs" / "fold0-seed0" / "fold0" / "menu", trained)
    monkeypatch.setattr(command, "read_corpus", lambda name, path: (there.library, there.requests, {}))
    monkeypatch.setattr(command, "UNTRAINED", ("bm25",))
    out = tmp_path / "table.json"
    assert command.main(["nestools", f"--runs={tmp_path / 'runs'}", f"--out={out}"]) == 0
    rows = {row["name"]: row["metrics"] for row in read_table(out)["rows"]}
    assert list(rows) == [STATE_PATH, command.WITH, "BM25"]
    assert all(row["complete_chain@10"]["n"] == len(there.requests) for row in rows.values())
    assert rows[STATE_PATH] != rows[command.WITH]
    assert command.main(["nestools", f"--runs={tmp_path}"]) == 2
    assert "holds no cell with a bundle" in capsys.readouterr().err
