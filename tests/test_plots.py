"""experiments.plots draws every form of table, and names what is not there."""

from __future__ import annotations

import pytest

from experiments import plots
from spm_jax.tables import Case, make_meta, make_table, write_table

pytest.importorskip("matplotlib")
CASES = [Case("a", "g", 3, 0), Case("b", "h", 5, 1), Case("c", "i", 8, 1)]
META = make_meta(tools=7, folds=1, seeds=[0], command="python -m spm_jax.main --x")


def _write(path, *sizes: int) -> None:
    score = {f"complete_chain@{k}": k / 64 for k in sizes} | {"ordered_prefix": 0.5}
    rows = {"State-Path": [score] * 3, "BM25": [score] * 3}
    write_table(path, make_table(CASES, rows, META, "complete_chain@32"))


@pytest.mark.parametrize("name, file, sizes", [("x", "x", (32,)), ("w", "w", (16, 32)), ("lengths", "traject", (32,))])
def test_each_form_of_table_becomes_a_picture(name, file, sizes, tmp_path):
    _write(tmp_path / f"{file}.json", *sizes)
    drawn = plots.draw(name, tmp_path / "figures", tmp_path)
    assert drawn.name == f"{name}.png" and drawn.read_bytes().startswith(b"\x89PNG")


def test_a_table_that_is_not_there_is_one_clear_error(capsys):
    assert plots.main(["absent"]) == 2
    assert "absent.json" in capsys.readouterr().err
