"""Result tables: strata, intervals, McNemar, the written form and its Markdown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from spm_jax import tables
from spm_jax.data.schema import DataError
from spm_jax.tables import Case

CHAIN = "complete_chain@32"
CASES = [Case("1", "a", 2, 0), Case("2", "a", 3, 1), Case("3", "b", 6, 0), Case("4", "c", 9, 2)]
OURS = [{CHAIN: 1.0, "chain_order": 0.5}, {CHAIN: 1.0}, {CHAIN: 1.0}, {CHAIN: 0.0}]
OTHER = [{CHAIN: 1.0, "chain_order": 1.0}, {CHAIN: 0.0}, {CHAIN: 0.0}, {CHAIN: 0.0}]


def _table() -> tables.Table:
    meta = tables.make_meta(tools=10, folds=2, seeds=[0], command="spm eval", note="by hand")
    return tables.make_table(CASES, {"Ours": OURS, "Other": OTHER}, meta)


def test_rows_hold_means_strata_and_mcnemar() -> None:
    ours, other = _table()["rows"]
    assert ours["metrics"][CHAIN]["mean"] == 0.75 and ours["metrics"][CHAIN]["n"] == 4
    assert ours["metrics"]["chain_order"] == {"mean": 0.5, "low": 0.5, "high": 0.5, "n": 1}  # undefined is left out
    by_length = {name: part[CHAIN]["mean"] for name, part in ours["by_length"].items()}
    assert by_length == {"2": 1, "3-4": 1, "5-6": 1, ">=7": 0}
    assert ours["warm"][CHAIN]["mean"] == 1 and ours["warm"][CHAIN]["n"] == 2
    assert ours["cold"][CHAIN]["mean"] == 0.5
    assert "mcnemar" not in ours
    assert other["difference"][CHAIN] == {"mean": 0.5, "low": 0.0, "high": 1.0, "n": 4}  # group a 0.5, b 1, c 0
    assert other["difference"]["chain_order"]["mean"] == -0.5 and other["difference"]["chain_order"]["n"] == 1
    assert other["mcnemar"] == {"metric": CHAIN, "first": "Ours", "won": 2, "lost": 0, "p": pytest.approx(0.5)}


def test_means_over_seeds_have_a_difference_and_no_mcnemar() -> None:
    ours = [{CHAIN: 2 / 3}, *OURS[1:]]
    meta = tables.make_meta(tools=10, folds=2, seeds=[0, 1], command="x", by_seed={"base": [0.7, 0.65]})
    table = tables.make_table(CASES, {"Ours": ours, "Other": OTHER}, meta)
    assert "mcnemar" not in table["rows"][1] and table["rows"][1]["difference"][CHAIN]["n"] == 4
    assert "of each seed (base): 0.700, 0.650" in tables.markdown(table)


def test_interval_holds_the_mean() -> None:
    for row in _table()["rows"]:
        for cell in row["metrics"].values():
            assert cell["low"] <= cell["mean"] <= cell["high"]


def test_meta_says_what_a_reader_needs() -> None:
    meta = _table()["meta"]
    assert (meta["N"], meta["requests"], meta["groups"], meta["folds"], meta["seeds"]) == (10, 4, 3, 2, [0])
    assert meta["command"] == "spm eval" and meta["note"] == "by hand"
    assert meta["machine"]["cores"] >= 1 and "numpy" in meta["versions"]


def test_written_twice_is_the_same_bytes_and_reads_back(tmp_path: Path) -> None:
    tables.write_table(tmp_path / "one.json", _table())
    tables.write_table(tmp_path / "two.json", _table())
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    table = tables.read_table(tmp_path / "one.json")
    assert list(table) == ["meta", "rows"] and table["rows"][0]["metrics"][CHAIN]["mean"] == 0.75


def test_small_p_values_survive_the_rounding(tmp_path: Path) -> None:
    tables.write_table(tmp_path / "t.json", {"meta": {}, "rows": [{"p": 1.23456789e-12, "x": 0.123456789}]})
    assert json.loads((tmp_path / "t.json").read_text())["rows"] == [{"p": 1.23457e-12, "x": 0.123457}]


def test_markdown() -> None:
    text = tables.markdown(_table())
    lines = text.splitlines()
    assert lines[0] == "N = 10, 4 requests in 3 groups, folds: 2, seeds: 0."
    assert lines[2] == f"|  | {CHAIN} | chain_order | first row minus this |"
    assert "**0.750** [" in lines[4] and lines[5].endswith("| +0.500 [+0.000, +1.000], p = 0.5 |")
    assert "**1.000**" in lines[5]
    assert any("T 3-4 (n=1)" in line and "all warm (n=2)" in line for line in lines)
    assert all(line.count("|") == lines[2].count("|") for line in lines[2:6])


def test_differences_in_further_metrics_stand_in_columns_of_their_own() -> None:
    rows = {"a": [{CHAIN: 1.0, "early": 0.75}] * 4, "b": [{CHAIN: 1.0, "early": 0.5}] * 4, "c": [{CHAIN: 1.0}] * 4}
    lines = tables.markdown(tables.make_table(CASES, rows, {}), compared=("early",)).splitlines()
    assert lines[2].endswith("| first row minus this | in early |")
    assert lines[4].endswith("|  |  |")
    assert lines[5].endswith("| +0.000 [+0.000, +0.000], p = 1 | +0.250 [+0.250, +0.250] |")
    assert lines[6].endswith("| +0.000 [+0.000, +0.000], p = 1 |  |")


def test_lower_is_better_for_violations_and_undefined_shows_a_dash() -> None:
    worse = [{CHAIN: 0.0, "producer_violations": 0.5}] * 4
    better = [{CHAIN: 0.0, "producer_violations": 0.1}] * 4
    table = tables.make_table(CASES, {"a": worse, "b": better, "c": [{CHAIN: 0.0}] * 4}, {})
    lines = tables.markdown(table, metrics=["producer_violations"]).splitlines()
    assert "| 0.500 |" in lines[4] and "| **0.100** |" in lines[5] and "| - |" in lines[6]


def test_what_cannot_be_a_table() -> None:
    with pytest.raises(DataError, match="at least one row"):
        tables.make_table(CASES, {}, {})
    with pytest.raises(DataError, match="scores 1 requests of 4"):
        tables.make_table(CASES, {"a": OURS[:1]}, {})
    with pytest.raises(DataError, match="lacks"):
        tables.make_table(CASES, {"a": [{}] * 4}, {})


def test_reading_something_else(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "broken.json").write_text("{")
    for name in ("list.json", "broken.json", "missing.json"):
        with pytest.raises(DataError, match=name):
            tables.read_table(tmp_path / name)


def test_cold_tools_are_those_without_any_used_listing() -> None:
    assert tables.cold_tools(((1, 2), (3,), (4,)), {2, 4}).tolist() == [False, True, False]
    assert tables.cold_tools((), {1}).dtype == np.bool_
