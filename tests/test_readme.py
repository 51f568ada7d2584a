"""README.md is true: its commands, files, JSON and Python work, and its tables are those of the committed results."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest

from experiments import receipt, report
from spm_jax import cli, quickstart
from spm_jax.data.jsonl import parse_request, parse_tool
from spm_jax.tables import Case, make_meta, make_table, write_table
from spm_jax.train.checkpoint import CheckpointError

ROOT = Path(__file__).resolve().parents[1]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """Every command line: of the sh blocks, and of the code spans that begin with a command."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    spans = re.findall(r"`((?:make|spm|python3?) [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [shlex.split(part) for line in [*lines, *spans] for part in line.split(" && ")]


def test_every_command_exists(readme):
    makefile = (ROOT / "Makefile").read_text("utf-8")
    seen = set()
    for words in commands(readme):
        seen.add(words[0])
        if words[0] == "make":
            assert f"\n{words[-1]}:" in makefile, words
        elif words[0] == "spm" and len(words) > 2:  # shorter ones only name a command
            cli.parser().parse_args(words[1:])
        elif "-m" in words and words[words.index("-m") + 1] not in ("venv", "pytest"):
            assert importlib.util.find_spec(words[words.index("-m") + 1]), words
        for word in words:
            if word.startswith("experiments/"):
                assert (ROOT / word).is_file(), words
    assert {"make", "spm", "python"} <= seen


def test_every_file_named_is_there_and_no_path_is_of_one_machine(readme):
    made = {"experiments/results/traject.json"}  # by the command beside it
    for name in re.findall(r"`((?:spm_jax|experiments|tests)/[^` ]*)`", readme):
        assert name in made or (ROOT / name).exists(), name
    assert not re.search(r"(?<![\w.])/(?:home|work|tmp|root|Users)/", readme)


def test_json_lines_can_be_read_as_they_stand(readme):
    tools, requests = ([json.loads(line) for line in block.splitlines()] for block in blocks(readme, "json"))
    assert [parse_tool(record).name for record in tools] == ["LookupOrder", "ListOrders"]
    assert parse_request(requests[0]).trajectory.calls[0].tools[0].name == "LookupOrder"


def test_the_python_block_runs(readme, receipt_builder, receipt_workdir, tmp_path, monkeypatch, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "receipt").symlink_to(receipt_workdir)
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(readme, "python")
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert len(names["ids"]) == 32


def test_the_number_of_tools_and_baselines_is_true(readme):
    assert f"a shop of {len(receipt.receipt_world()[0])} tools" in readme
    assert len(quickstart.load_config(quickstart.CONFIG)) and "2,000 tools" in readme
    assert quickstart.load_config(quickstart.CONFIG).data.tools == 2_000


def test_tables_are_those_of_the_committed_results(readme):
    assert report.BLOCK.search(readme)
    for document in report.DOCUMENTS:
        text = document.read_text("utf-8")
        assert report.render(text) == text, "run: python -m experiments.report"


def test_report_renders_a_result_with_its_command(tmp_path):
    case = Case("r", "g", 3, 0)
    meta = make_meta(tools=7, folds=1, seeds=[0], command="python -m spm_jax.main --x", seconds=120.0)
    score = {"complete_chain@32": 1.0, "tool_recall@32": 1.0}
    write_table(tmp_path / "x.json", make_table([case, case], {"State-Path": [score] * 2, "BM25": [score] * 2}, meta))
    old = "a\n<!-- results:x -->\nstale\n<!-- /results -->\nb\n<!-- results:y -->\n<!-- /results -->\n"
    new = report.render(old, tmp_path)
    assert "stale" not in new and "`python -m spm_jax.main --x`" in new and "2 minutes" in new
    assert "| State-Path |" in new and "Not measured yet: `experiments/results/y.json`" in new
    assert new.startswith("a\n<!-- results:x -->\n\n") and report.render(new, tmp_path) == new


# --- quickstart -------------------------------------------------------------------------------------------------------


def test_aligned_pads_cells_and_keeps_the_rest():
    table = "x\n\n| | ab |\n|---|---|\n| long | 1 |\n\ny"
    assert quickstart.aligned(table) == "x\n\n|      | ab |\n| ---- | -- |\n| long | 1  |\n\ny"


def test_quickstart_prints_facts_table_and_three_menus_and_runs_again(tiny_run, tmp_path, capsys):
    import shutil

    shutil.copytree(tiny_run, tmp_path / "run")  # a finished run: this is the second start of it
    config = ROOT / "experiments" / "configs" / "tiny.py"
    assert quickstart.main(["--config", str(config), "--workdir", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "recall@32 of BM25" in printed and "TRAJECT-Bench" in printed
    assert re.search(r"^\| State-Path \| .*\[0\.\d+, \d\.\d+\]", printed, re.MULTILINE)
    assert printed.count("recorded calls: ") == 3
    assert re.search(r"^\*\d+ +\d+  (entry|bridge|target|extra)", printed, re.MULTILINE)
    assert "done in" in printed


def test_quickstart_starts_anew_over_a_run_of_another_configuration(tmp_path, monkeypatch, capsys):
    calls = []

    def train(config, workdir):
        calls.append(sorted(path.name for path in workdir.iterdir()))
        if len(calls) == 1:
            raise CheckpointError("of another run")
        return {"rows": []}

    monkeypatch.setattr(quickstart, "train_and_evaluate", train)
    for name in ("fold0", "notes"):
        (tmp_path / name).mkdir()
    assert quickstart._train(None, tmp_path) == {"rows": []}
    assert calls == [["fold0", "notes"], ["notes"]]
    assert "starting anew" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["nowhere/quickstart.py"])
def test_quickstart_away_from_a_checkout_says_so(path, tmp_path, capsys):
    assert quickstart.main(["--config", path, "--workdir", str(tmp_path)]) == 2
    assert "run the quickstart from a checkout" in capsys.readouterr().err
