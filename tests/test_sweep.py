"""experiments.sweep: cells run once, go on, fail by name; seeds are averaged before anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import served, sweep
from experiments.report import RESULTS
from spm_jax.data.schema import DataError
from spm_jax.evaluate import STATE_PATH
from spm_jax.tables import Case, read_table, write_scores

CONFIGS = Path(__file__).resolve().parents[1] / "experiments" / "configs"

CONFIG = '''
from ml_collections import ConfigDict

def get_config():
    c = ConfigDict({"seeds": (0, 1), "baselines": True, "split": {"run": (0, 1)}, "menu": {"size": 32}})
    return c

def variants():
    return {"base": {}, "no coverage": {"menu.coverage": 0.0}}
'''
METRIC = "complete_chain@32"


@pytest.fixture
def config(tmp_path) -> str:
    path = tmp_path / "study.py"
    path.write_text(CONFIG)
    return str(path)


@pytest.fixture
def cells(config, tmp_path) -> list[sweep.Cell]:
    return sweep.make_cells(sweep.load_module(config), tmp_path / "runs", (0, 1), ())


def _finish(cell: sweep.Cell) -> None:
    """What a run leaves: two requests a fold; the score tells variant, fold and seed apart."""
    cases = [Case(f"{cell.fold}/{n}", f"g{cell.fold}", 3, 0) for n in range(2)]
    value = 0.5 * cell.seed + 0.25 * cell.fold - (0.125 if cell.variant != "base" else 0)
    results = {STATE_PATH: [{METRIC: value}, {METRIC: 0.0}]}
    if cell.overrides["baselines"]:
        results["BM25"] = [{METRIC: 0.25}, {METRIC: 0.25}]
    cell.folder.mkdir(parents=True, exist_ok=True)
    write_scores(cell.folder / sweep.SCORES, cases, results, {"N": 7, "seconds": 2.0})


def test_cells_are_variants_by_folds_by_seeds_and_baselines_are_fitted_once(cells):
    assert len(cells) == 8 and len({cell.folder for cell in cells}) == 8
    assert [(c.variant, c.fold, c.seed) for c in cells if c.overrides["baselines"]] == [("base", 0, 0), ("base", 1, 0)]
    command = next(cell for cell in cells if cell.variant == "no coverage" and cell.seed == 1).command("x.py")
    assert "--config.menu.coverage=0.0" in command and "--config.seed=1" in command


def test_only_chooses_and_names_what_it_does_not_know(config, tmp_path):
    module = sweep.load_module(config)
    assert {cell.variant for cell in sweep.make_cells(module, tmp_path, (0,), ["no coverage"])} == {"no coverage"}
    with pytest.raises(DataError, match="base, no coverage"):
        sweep.make_cells(module, tmp_path, (0,), ["noise"])
    with pytest.raises(DataError, match="no such configuration"):
        sweep.load_module(str(tmp_path / "absent.py"))


def test_seeds_are_averaged_and_variants_become_rows(cells):
    for cell in cells:
        _finish(cell)
    cases, results, facts = sweep.gather(cells)
    assert [case.id for case in cases] == ["0/0", "0/1", "1/0", "1/1"]
    assert [row[METRIC] for row in results[STATE_PATH]] == [0.25, 0.0, 0.5, 0.0]  # the mean of seeds 0 and 1
    assert [row[METRIC] for row in results[f"{STATE_PATH}, no coverage"]] == [0.125, 0.0, 0.375, 0.0]
    assert [row[METRIC] for row in results["BM25"]] == [0.25] * 4
    assert facts == {"tools": 7, "seconds": 16.0}
    # Seed 0: (0 + 0 + 0.25 + 0) / 4; seed 1: (0.5 + 0 + 0.75 + 0) / 4.
    assert sweep.seed_spread(cells, METRIC)["base"] == [0.0625, 0.3125]


def test_a_variant_that_lacks_a_cell_is_left_out(cells):
    for cell in cells[:-1]:
        _finish(cell)
    assert list(sweep.gather(cells)[1]) == [STATE_PATH, "BM25"]
    with pytest.raises(DataError, match="no variant"):
        sweep.gather([cells[-1]])


def test_a_finished_cell_is_not_run_again_and_another_configuration_is_refused(cells, config, monkeypatch):
    runs: list[Path] = []

    class Run:
        pid = 0

        def __init__(self, command, **_):
            runs.append(Path(next(part for part in command if part.startswith("--workdir="))[10:]))

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: None  # noqa: E731

        def wait(self) -> int:
            broken = runs[-1].name == "fold1-seed1"
            if not broken:
                _finish(next(cell for cell in cells if cell.folder == runs[-1]))
            return int(broken)

    monkeypatch.setattr(sweep.subprocess, "Popen", Run)
    failures = sweep.run_cells(cells, config, jobs=1)
    assert len(runs) == 8 and len(failures) == 2 and all("exit code 1" in failure for failure in failures)
    sweep.run_cells(cells, config, jobs=1)
    assert len(runs) == 10  # the two that failed, and no other
    Path(config).write_text(CONFIG.replace("(0, 1), \"baselines\"", "(0, 1, 2), \"baselines\""))
    sweep.run_cells(cells, config, jobs=1)
    assert len(runs) == 12  # another seed is no other configuration
    Path(config).write_text(CONFIG.replace("32", "16"))
    failures = sweep.run_cells(cells, config, jobs=1)
    assert len(runs) == 12 and len(failures) == 8 and "another configuration" in failures[0]


def test_seeds_that_are_no_numbers_are_said(config, tmp_path, capsys):
    assert sweep.main([f"--config={config}", f"--workdir={tmp_path}", "--seeds=0,one"]) == 2
    assert "--seeds=0,one: expected whole numbers" in capsys.readouterr().err


STUDIES = sorted((CONFIGS / "studies").glob("[a-z]*.py"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_changes_fields_that_there_are(path):
    module = sweep.load_module(str(path))
    variants = module.variants()
    assert next(iter(variants.values())) == {} and len(variants) > 1
    for changed in variants.values():
        config = module.get_config()
        config.update_from_flattened_dict(changed)  # raises for a name or a type that the configuration has not


@pytest.fixture(scope="module")
def world_runs(tmp_path_factory) -> Path:
    """The smallest study, run by its command, with its table beside the cells."""
    folder = tmp_path_factory.mktemp("world")
    config = CONFIGS / "studies" / "world.py"
    assert sweep.main([f"--config={config}", f"--workdir={folder}"]) == 0
    return folder


def test_the_smallest_study_gives_the_committed_table(world_runs):
    made, kept = (read_table(path) for path in (world_runs / "results.json", RESULTS / "world.json"))
    assert [row["name"] for row in made["rows"]] == [row["name"] for row in kept["rows"]]
    assert made["meta"]["requests"] == kept["meta"]["requests"]
    for row, other in zip(made["rows"], kept["rows"]):
        assert row["metrics"].keys() == other["metrics"].keys()
        for name, cell in row["metrics"].items():
            assert cell["n"] == other["metrics"][name]["n"]
            assert cell["mean"] == pytest.approx(other["metrics"][name]["mean"], abs=0.1), (row["name"], name)


@pytest.mark.parametrize("study", served.STUDIES)
def test_trained_bundles_are_scored_again(study, world_runs, tmp_path, capsys):
    out = tmp_path / "table.json"
    assert served.main([study, f"--runs={world_runs / 'all'}", f"--out={out}"]) == 0
    table, trained = read_table(out), read_table(world_runs / "results.json")["rows"][0]["metrics"]
    first, minilm = table["rows"][0], any(row["name"] == "MiniLM" for row in table["rows"])
    rows = {"decoder": 9, "widths": 4, "histories": 8, "cold": 5 + minilm}
    assert first["name"] == STATE_PATH and len(table["rows"]) == rows[study]
    if study == "cold":
        assert first["metrics"]["tool_recall@32"]["mean"] < trained["tool_recall@32"]["mean"]
        return
    assert first["metrics"][METRIC]["mean"] == trained[METRIC]["mean"]  # the same menus as those of the training run
    if study == "widths":
        chains = [first["metrics"][f"complete_chain@{k}"]["mean"] for k in served.WIDTHS]
        assert chains[0] <= chains[-1]
    else:
        other = {row["name"]: row["metrics"] for row in table["rows"]}
        changed = other["no entry term" if study == "decoder" else "0% of the groups"]
        assert any(changed[name]["mean"] != cell["mean"] for name, cell in first["metrics"].items())


def test_runs_without_a_bundle_are_said(tmp_path, capsys):
    assert served.main(["decoder", f"--runs={tmp_path}"]) == 2
    assert "holds no cell with a bundle" in capsys.readouterr().err
