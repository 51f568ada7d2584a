"""Edge accuracy with and without aliases: classes, scores of one request by hand, and the choice of the threshold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import edges
from experiments.edges import METRICS, OFF, Bench, Fold, as_aliases, chosen, joined, measure, render
from spm_jax.data.aliases import Aliases
from spm_jax.data.schema import Call, DataError, Field, Library, Request, Source, Tool, Trajectory

RESULT = Path(__file__).resolve().parents[1] / "experiments" / "results" / "edges.json"
KINDS = "river stone cloud tiger lemon paper glass metal".split()


def tool(name: str, needs: list[str], gives: list[str]) -> Tool:
    return Tool("f", name, "", "", tuple(map(Field, needs)), tuple(map(Field, gives)), bool(gives))


def world() -> tuple[Library, list[Request]]:
    """Eight producers, eight consumers, and two requests of each pair: ``X_sheet`` fills ``small_X_sheet``."""
    makers = [tool(f"make {kind}", [], [f"{kind}_sheet"]) for kind in KINDS]
    takers = [tool(f"take {kind}", [f"small_{kind}_sheet"], []) for kind in KINDS]
    library = Library((*makers, *takers, tool("decoy", [], [])))
    requests = []
    for number, kind in enumerate(KINDS * 2):
        n = number % len(KINDS)
        source = Source(f"small_{kind}_sheet", 0, f"{kind}_sheet")
        calls = Call((makers[n].id,)), Call((takers[n].id,), sources=(source,))
        requests.append(Request(f"r{number}", "do it", f"g{number}", trajectory=Trajectory(calls)))
    return library, requests


def test_classes_join_the_most_alike_first_and_stay_small() -> None:
    pairs = {("a", "b"): 0.9, ("c", "d"): 0.8, ("b", "c"): 0.7, ("d", "e"): 0.6, ("e", "f"): 0.5}
    assert joined(pairs, 8).fills["a"] == ("b", "c", "d", "e", "f")
    small = joined(pairs, 4)
    assert set(small.fills["a"]) == {"b", "c", "d"} and set(small.fills["e"]) == {"f"}
    assert set(joined(pairs, 2).fills) == {"a", "b", "c", "d", "e", "f"} and joined(pairs, 2).fills["b"] == ("a",)
    assert as_aliases(pairs).fills["b"] == ("c",)


def test_scores_of_a_request_by_hand() -> None:
    library, requests = world()
    bench = Bench(library, requests)
    fold = Fold(bench, np.arange(len(KINDS), 2 * len(KINDS))[1:], np.array([0]))  # training never saw "river"
    off = fold.score(Aliases())[0]
    assert off == {METRICS[0]: off[METRICS[0]], METRICS[1]: 0, METRICS[2]: 0, METRICS[3]: 0}
    right = fold.score(Aliases({"river_sheet": ("small_river_sheet",)}))[0]
    assert right == dict(zip(METRICS, (1, 1, 1, 0)))
    wrong = fold.score(Aliases({"stone_sheet": ("small_river_sheet",), "cloud_sheet": ("small_river_sheet",)}))[0]
    assert wrong == dict(zip(METRICS, (0, 0, 0, 2)))
    seen = Fold(bench, np.array([len(KINDS)]), np.array([0])).score(Aliases())[0]  # the other group of the same tools
    assert seen == dict(zip(METRICS, (1, 1, 0, 0)))  # rho alone says it


def test_the_threshold_is_chosen_on_the_training_part() -> None:
    library, requests = world()
    bench = Bench(library, requests[: len(KINDS)])  # no pair of tools twice, so rho says nothing
    makes = {"right": lambda pairs, proved: as_aliases(pairs), "never": lambda pairs, proved: Aliases()}
    best = chosen(bench, np.arange(len(KINDS)), makes)
    assert best["never"] == max(edges.THRESHOLDS)  # of equal ones the highest
    assert ("river_sheet", "small_river_sheet") in bench.pairs[best["right"]]


def test_every_variant_over_all_folds() -> None:
    library, requests = world()
    found = measure(library, requests)
    assert found["facts"] == {"tools": 17, "requests": 16, "with edges": 16, "groups": 16, "edges": 16}
    assert found["rows"][OFF]["edges covered"]["mean"] == 0 and found["rows"]["similar"]["edges covered"]["mean"] == 1
    assert found["rows"]["similar"]["edge_accuracy"]["mean"] == 1
    gain = found["rows"]["similar"]["difference"]
    assert gain["mean"] == pytest.approx(1 - found["rows"][OFF]["edge_accuracy"]["mean"], abs=1e-5)
    assert "| similar |" in render({"corpora": {"world": found}})
    with pytest.raises(DataError, match="no request records"):
        measure(library, [Request("r", "t", trajectory=Trajectory((Call((library[0].id,)),)))])


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert edges.main(["--data", str(tmp_path), "nestful"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")


def test_nestful_gives_the_committed_figures(shared_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "edges.json"
    assert edges.main(["--data", str(shared_data), "--out", str(out), "nestful"]) == 0
    made, committed = (json.loads(path.read_text("utf-8"))["corpora"]["nestful"] for path in (out, RESULT))
    assert made["facts"] == committed["facts"] and made["thresholds"] == committed["thresholds"]
    for name, row in committed["rows"].items():
        for metric in METRICS:
            assert made["rows"][name][metric]["mean"] == pytest.approx(row[metric]["mean"], abs=1e-4), (name, metric)
