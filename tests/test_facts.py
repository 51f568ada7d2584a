"""Facts: worked out by hand on five tools; those of the embedded world in bands about the real ones."""

import argparse
import json

import numpy as np
import pytest

from spm_jax.cli import world as command
from spm_jax.data.jsonl import read_library, read_requests
from spm_jax.data.schema import Call, DataError, Field, Library, Request, Tool, ToolId, Trajectory  # fmt: skip
from spm_jax.data.synthetic import make_world
from spm_jax.facts import FACTS, REAL_FACTS, format_facts, measure_facts, print_facts, read_facts

# How far a fact of the world may be from the real one: shares absolutely, counts a chain in calls and families.
BANDS = {
    "bm25_recall@32": 0.08,
    "bm25_chain@32": 0.06,
    "bm25_chain@128": 0.13,
    "extended_recall@32": 0.06,
    "extended_chain@32": 0.11,
    "extended_chain@128": 0.08,
    "warm_tools": 0.06,
    "chains_no_cold": 0.09,
    "chains_one_cold": 0.09,
    "chains_two_cold": 0.07,
    "chains_more_cold": 0.07,
    "cold_with_sibling": 0.12,
    "pairs_seen": 0.1,
    "calls": 0.5,
    "families": 0.6,
    "gold_outputs_known": 0.1,
    "gold_required_input": 0.08,
    "library_outputs_known": 0.08,
    "library_required_input": 0.06,
}


def _request(number, group, text, *names):
    calls = tuple(Call((ToolId("f" if name in "ab" else "g", name),)) for name in names)
    return Request(f"r{number}", text, group, "d", trajectory=Trajectory(calls))


def test_facts_by_hand():
    need = (Field("x"),)
    library = Library(
        (
            Tool("f", "a", "apple", inputs=need),
            Tool("f", "b", "pear", outputs=need, outputs_known=True),
            Tool("g", "c", "plum"),
            Tool("g", "d", "fig"),
            Tool("g", "e", "fig"),
        )
    )
    requests = [_request(n, f"g{n}", "apple pear", "a", "b") for n in range(4)]
    requests += [_request(4, "g4", "pear", "a", "c", "d"), Request("r5", "nothing was recorded")]
    facts = measure_facts(library, requests)
    assert set(facts) == set(FACTS)
    assert (facts["tools"], facts["requests"], facts["groups"]) == (5, 5, 5)
    assert facts["bm25_recall@32"] == facts["extended_chain@32"] == 1  # the menu holds the whole library
    assert facts["warm_tools"] == pytest.approx(9 / 11)  # c and d of r4 are cold
    assert (facts["chains_no_cold"], facts["chains_two_cold"], facts["chains_one_cold"]) == (0.8, 0.2, 0)
    assert facts["cold_with_sibling"] == 1  # c and d share family g
    assert facts["pairs_seen"] == pytest.approx(4 / 6)  # a-b four times; a-c and c-d never
    assert facts["calls"] == pytest.approx(11 / 5)
    assert facts["families"] == pytest.approx((4 * 1 + 2) / 5)
    assert facts["gold_outputs_known"] == pytest.approx(4 / 11)
    assert facts["gold_required_input"] == pytest.approx(5 / 11)
    assert (facts["library_outputs_known"], facts["library_required_input"]) == (0.2, 0.2)


def test_fewer_than_five_groups_are_refused():
    library = Library((Tool("f", "a"),))
    with pytest.raises(DataError, match="fold"):
        measure_facts(library, [_request(n, f"g{n}", "x", "a") for n in range(4)])


def test_the_committed_facts_name_their_command_and_hold_every_fact():
    meta = json.loads(REAL_FACTS.read_text(encoding="utf-8"))["meta"]
    assert meta["command"] == "python -m experiments.facts"
    columns = read_facts(REAL_FACTS)
    assert list(columns) == ["TRAJECT-Bench", "world 2,000/600", "world 16,000/1,000"]
    assert all(set(column) == set(FACTS) for column in columns.values())


def _check_bands(world):
    real = read_facts(REAL_FACTS)["TRAJECT-Bench"]
    far = {f: (world[f], real[f]) for f, band in BANDS.items() if abs(world[f] - real[f]) > band}
    assert not far


def test_the_small_world_is_as_hard_as_the_real_one_and_as_the_committed_table_says():
    runs = [measure_facts(w.library, w.requests) for w in (make_world(seed, 2_000, 600) for seed in (0, 1, 2))]
    mean = {fact: float(np.mean([run[fact] for run in runs])) for fact in FACTS}
    _check_bands(mean)
    committed = read_facts(REAL_FACTS)["world 2,000/600"]
    assert {f: (mean[f], committed[f]) for f in FACTS if abs(mean[f] - committed[f]) > 1e-3} == {}


def test_the_large_world_is_as_hard_as_the_real_one():
    _check_bands(read_facts(REAL_FACTS)["world 16,000/1,000"])


def test_the_table_shows_what_is_missing_as_a_dash(capsys, tmp_path):
    table = format_facts({"one": {"tools": 1234.0, "calls": 6.25}})
    assert "1,234" in table and "6.250" in table and table.count(" -") == len(FACTS) - 2
    path = tmp_path / "facts.json"
    path.write_text(json.dumps({"meta": {}, "facts": {"real one": {"calls": 5.5}, "world 1/1": {"calls": 9}}}))
    print_facts({"calls": 6.0}, path)
    out = capsys.readouterr().out
    assert "real one" in out and "5.500" in out and "world 1/1" not in out
    print_facts({"calls": 6.0}, tmp_path / "absent.json")
    out = capsys.readouterr().out
    assert "this world" in out and "no real facts" in out


@pytest.mark.parametrize("text", ["", "[]", '{"facts": 3}', '{"facts": {"a": {"calls": "many"}}}'])
def test_a_file_that_holds_no_facts_is_named(tmp_path, text):
    path = tmp_path / "facts.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"facts\.json"):
        read_facts(path)


def _command(*words):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["world", *map(str, words)])
    return args.run(args)


def test_the_command_writes_the_world_and_prints_its_facts(tmp_path, capsys):
    assert _command("--tools", 200, "--requests", 30, "--seed", 4, "--out", tmp_path) == 0
    world = make_world(4, 200, 30)
    assert read_library(tmp_path / "library.jsonl") == world.library
    assert read_requests(tmp_path / "requests.jsonl") == world.requests
    out = capsys.readouterr().out
    assert "200 lines" in out and "this world" in out and "TRAJECT-Bench" in out
    first = (tmp_path / "requests.jsonl").read_bytes()
    assert _command("--tools", 200, "--requests", 30, "--seed", 4, "--no-facts", "--out", tmp_path) == 0
    assert (tmp_path / "requests.jsonl").read_bytes() == first


def test_the_command_says_when_there_are_too_few_groups_for_facts(tmp_path, capsys):
    assert _command("--tools", 100, "--requests", 6, "--out", tmp_path) == 0
    assert "at least five groups" in capsys.readouterr().out
