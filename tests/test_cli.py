"""The spm command: help without jax, one clear line for bad input, menus and tables from a trained bundle."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from experiments.configs import default, tiny
from spm_jax import cli
from spm_jax.baselines import BASELINES
from spm_jax.cli.common import json_or_text, load_config, set_fields
from spm_jax.data.jsonl import read_requests, write_requests
from spm_jax.data.schema import DataError
from spm_jax.data.synthetic import make_world
from spm_jax.tables import read_table

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    [], ["train"], ["eval"], ["menu"], ["export"], ["bench"], ["data"], ["data", "toolbench"], ["data", "traject"],
    ["data", "world"],
)  # fmt: skip

CHECK_LAZY = """
import sys
from spm_jax import cli
for words in {commands!r}:
    try:
        cli.main([*words, "--help"])
    except SystemExit as end:
        assert end.code == 0
cli.main(["data", "world", "--tools", "100", "--requests", "5", "--no-facts", "--out", {out!r}])
heavy = [name for name in ("jax", "flax", "optax", "orbax") if name in sys.modules]
assert not heavy, heavy
"""


def run(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT, timeout=120)


def test_help_and_data_need_no_jax(tmp_path):
    done = run("-c", CHECK_LAZY.format(commands=COMMANDS, out=str(tmp_path)))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [c for c in COMMANDS if c != ["data", "world"]], ids=" ".join)
def test_help_teaches_by_example(words, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([*words, "--help"])
    assert end.value.code == 0
    assert "  spm " in capsys.readouterr().out


@pytest.fixture
def files(tmp_path):
    (tmp_path / "broken.py").write_text("def get_config(): return missing_name\n")
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "config.txt").write_text("")
    (tmp_path / "bad.jsonl").write_text('{"id": "a"}\n')
    (tmp_path / "empty.jsonl").write_text("")
    return tmp_path


TINY = str(ROOT / "experiments" / "configs" / "tiny.py")
WEB = [word for field in ("source", "library", "requests") for word in ("--set", f"data.{field}=web")]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "--config", "nowhere.py", "--workdir", "w"], "no such configuration file"),
        (["train", "--config", "{}/config.txt", "--workdir", "w"], "ending .py"),
        (["train", "--config", "{}/broken.py", "--workdir", "w"], "NameError"),
        (["train", "--config", "{}/none.py", "--workdir", "w"], "defines get_config()"),
        (["train", "--config", TINY, "--workdir", "{}", "--set", "model.depth=2"], "known are compute, heads, layers, relations, width"),
        (["train", "--config", TINY, "--workdir", "{}", "--set", "model.width=wide"], "expected int"),
        (["train", "--config", TINY, "--workdir", "{}", "--set", "model=2"], "is a group of fields"),
        (["train", "--config", TINY, "--workdir", "{}", "--set", "model.width.x=2"], "no field 'x'"),
        (["train", "--config", TINY, "--workdir", "{}", "--set", "seed"], "expected key=value"),
        (["train", "--config", TINY, "--workdir", "{}", *WEB], "known are jsonl, world, traject"),
        (["train", "--config", TINY, "--workdir", "{}", "--set", "data.source=jsonl"], "config.data.library is empty"),
        (["train", "--config", TINY, "--workdir", "{}", "--set", "split.run=7"], "name folds of 0..4"),
        (["menu", "--checkpoint", "{}/nothing", "hi"], "no such folder"),
        (["menu", "--checkpoint", "{}", "hi"], "unfinished save"),
        (["menu", "--checkpoint", "{}", "hi", "--state", "=1"], "expected key=value"),
        (["menu", "--checkpoint", "{}", "hi", "--state", "a=1", "--state", "a=2"], "given twice"),
        (["menu", "--checkpoint", "{}", "bad \ud800 text"], "lone surrogate"),
        (["menu", "--checkpoint", "{bundle}", "hi", "--k", "0"], "at least 1"),
        (["eval", "--checkpoint", "{}", "--requests", "r.jsonl", "--k", "-1"], "at least one tool"),
        (["eval", "--checkpoint", "{}/nothing", "--requests", "r.jsonl"], "no such folder"),
        (["eval", "--checkpoint", "{bundle}", "--requests", "{}/bad.jsonl"], "line 1: request: field 'text'"),
        (["eval", "--checkpoint", "{bundle}", "--requests", "{}/empty.jsonl"], "no request has recorded calls"),
        (["eval", "--checkpoint", "{bundle}", "--requests", "{}/away.jsonl"], "No such file"),
        (["data", "world", "--tools", "3", "--out", "{}"], "n_tools"),
    ],
)
def test_bad_input_gives_one_line(words, says, files, tiny_bundle, capsys):
    words = [word.replace("{bundle}", str(tiny_bundle)).replace("{}", str(files)) for word in words]
    assert cli.main(words) == 2
    *before, last = capsys.readouterr().err.splitlines()
    assert last.startswith("error: ")
    assert says in last
    assert not any("Traceback" in line for line in before)


def test_menu_for_people_and_programs(tiny_bundle, capsys):
    words = ["menu", "--checkpoint", str(tiny_bundle), "Where is my parcel?", "--state", "city=Turin", "--k", "5"]
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "visible: city"
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3", "4", "5"]
    assert cli.main([*words, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["state"] == {"city": "Turin"} and record["visible"] == ["city"]
    assert len(record["menu"]) == 5
    for line, item in zip(lines[1:], record["menu"], strict=True):
        assert f"{item['family']}/{item['name']}" in line
        assert item["role"] in line and ("runs" if item["executable"] else "waits") in line
        assert item["executable"] == all(i["from"] is not None for i in item["inputs"])


def test_menu_of_an_empty_request_and_of_the_whole_library(tiny_bundle, capsys):
    assert cli.main(["menu", "--checkpoint", str(tiny_bundle), "--k", "1000", "--json"]) == 0
    menu = json.loads(capsys.readouterr().out)["menu"]
    assert len({(item["family"], item["name"]) for item in menu}) == len(menu) == 200


def test_state_that_no_tool_knows_is_pointed_out(tiny_bundle, capsys):
    assert cli.main(["menu", "--checkpoint", str(tiny_bundle), "x", "--state", "shoe_colour=red", "--k", "1"]) == 0
    assert "no tool takes or gives 'shoe_colour'" in capsys.readouterr().err


def test_eval_scores_only_what_training_did_not_see(tiny_bundle, tmp_path, capsys):
    config = tiny.get_config()
    write_requests(tmp_path / "all.jsonl", make_world(config.data.seed, config.data.tools, config.data.count).requests)
    words = ["eval", "--checkpoint", str(tiny_bundle), "--requests", str(tmp_path / "all.jsonl")]
    assert cli.main(words) == 2
    assert "45 of 60 requests are of groups that the checkpoint was trained on" in capsys.readouterr().err
    assert cli.main([*words, "--held-out", "--out", str(tmp_path / "out")]) == 0
    table = read_table(tmp_path / "out" / "results.json")
    names = [row["name"] for row in table["rows"]]
    assert names[0] == "State-Path" and len(set(names)) == len(names) >= len(BASELINES)  # MiniLM is an extra
    assert table["meta"]["requests"] == 15
    assert table["meta"]["command"].startswith("spm eval --checkpoint ")
    assert all({"metrics", "by_length", "warm", "cold"} <= row.keys() for row in table["rows"])
    printed = capsys.readouterr().out
    assert printed.strip() == (tmp_path / "out" / "results.md").read_text().strip()


def test_eval_of_the_bundle_equals_the_table_of_its_training(tiny_run, tiny_bundle, tmp_path):
    config = tiny.get_config()
    write_requests(tmp_path / "all.jsonl", make_world(config.data.seed, config.data.tools, config.data.count).requests)
    words = ["--requests", str(tmp_path / "all.jsonl"), "--held-out", "--no-baselines", "--out", str(tmp_path)]
    assert cli.main(["eval", "--checkpoint", str(tiny_bundle), *words]) == 0
    (theirs,), (ours,) = (read_table(f / "results.json")["rows"] for f in (tiny_run, tmp_path))
    for metric in ("complete_chain@32", "tool_recall@32", "early_entry@5", "ordered_prefix", "frontier_chain@128"):
        assert ours["metrics"][metric] == theirs["metrics"][metric]


def test_the_bundle_holds_its_training_requests(tiny_bundle):
    (file,) = tiny_bundle.glob("data-*/requests.jsonl")
    assert len(read_requests(file)) == 45


def test_settings_take_the_type_of_the_field():
    c = default.get_config()
    set_fields(c, ["retriever.lr=1e-3", "model.layers=3", "baselines=false", "split.run=(0, 2)", "data.source=world"])
    assert (c.retriever.lr, c.model.layers, c.baselines) == (1e-3, 3, False)
    assert (tuple(c.split.run), c.data.source) == ((0, 2), "world")
    set_fields(c, ["split.run=4", "must_beat=a = b"])
    assert tuple(c.split.run) == (4,) and c.must_beat == "a = b"
    with pytest.raises(DataError, match="baselines=no: expected bool"):
        set_fields(c, ["baselines=no"])


def test_a_configuration_outside_a_package_loads(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from ml_collections import ConfigDict\ndef get_config():\n    return ConfigDict({'a': 1})\n"
    )
    before = list(sys.path)
    assert load_config(tmp_path / "mine.py") == ConfigDict({"a": 1})
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("a b", "a b"), ('["x"]', ["x"]), ("NaN", "NaN"), ("", ""), ("0012", "0012")]
)
def test_state_values_are_json_or_text(text, value):
    assert json_or_text(text) == value


@pytest.mark.parametrize(("error", "code"), [(BrokenPipeError(), 141), (KeyboardInterrupt(), 130)])
def test_a_closed_pipe_and_ctrl_c_leave_no_traceback(error, code, tmp_path):
    source = (
        "import sys\nfrom spm_jax import cli\n"
        f"def stop(args): raise {type(error).__name__}\n"
        f"cli.data.world.run = stop\nsys.exit(cli.main(['data', 'world', '--out', {str(tmp_path)!r}]))"
    )
    done = run("-c", source)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert cli.main(["data", "world", "--tools", "100", "--requests", "5", "--out", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err
