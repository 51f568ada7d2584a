"""``spm bench``: counted flops and times against values by hand, its arguments, and one small run of all of it."""

from __future__ import annotations

import json
import math
import platform
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untrained import untrained

from spm_jax import cli
from spm_jax.bench import child, compare, floor, library, machine, peers, report, run, timing, training
from spm_jax.bundle import make_plan
from spm_jax.data.jsonl import read_requests
from spm_jax.data.schema import DataError, Library, Tool
from spm_jax.data.synthetic import make_world
from spm_jax.features import Node, Pair
from spm_jax.menu import Params, initial
from spm_jax.types import Frontier, MenuInputs

SIZE = 128


class Clock:
    """A clock that moves only when a fake call takes its time."""

    def __init__(self) -> None:
        self.now, self.calls = 0.0, []

    def __call__(self) -> float:
        return self.now

    def call(self, name: str, seconds: float):
        def work(number: int) -> None:
            self.calls.append((name, number))
            self.now += seconds * (1 + number)

        return work


def test_summary_by_hand() -> None:
    times = timing.summary([n / 1000 for n in range(101)], items=2)  # 0 to 100 ms for two menus each
    assert times == {"ms": 25.0, "p95_ms": pytest.approx(47.5), "min_ms": 0.0, "runs": 101}


def test_repeat_times_each_call_and_not_the_warm_up() -> None:
    clock = Clock()
    assert timing.repeat(clock.call("a", 1.0), 3, warmup=2, clock=clock) == [3.0, 4.0, 5.0]
    assert [number for _, number in clock.calls] == [0, 1, 2, 3, 4]


def test_side_by_side_takes_turns_and_begins_each_with_an_untimed_call() -> None:
    clock, pauses = Clock(), []
    calls = {"a": clock.call("a", 1.0), "b": clock.call("b", 10.0)}
    found = timing.side_by_side(calls, 3, block=2, clock=clock, sleep=pauses.append)
    assert found == {"a": [1.0, 2.0, 3.0], "b": [10.0, 20.0, 30.0]}
    assert clock.calls == [
        ("a", 0), ("a", 0), ("a", 1), ("b", 0), ("b", 0), ("b", 1), ("a", 2), ("a", 2), ("b", 2), ("b", 2),
    ]  # fmt: skip
    assert len(pauses) == 4 and min(pauses) > 0


def test_exponents_by_hand() -> None:
    found = run.exponents([(1_024, 2.0), (16_384, 8.0), (1_048_576, 8.0)])
    assert found == {"n1k_n16k": pytest.approx(0.5), "n16k_n1m": 0.0}
    assert run.exponents([(1_024, 2.0)]) == {}
    assert [run.label(n) for n in (128, 1_024, 44_589, 262_144, 1_048_576)] == ["n128", "n1k", "n44k", "n262k", "n1m"]


def test_rates_are_plausible_and_best_is_the_larger() -> None:
    for rates in (machine.copy_rate((1 << 20,)), machine.matmul_rate((256,))):
        assert 0.1 < rates["numpy"] < 1e6 and 0.1 < rates["jax"] < 1e6
        assert rates["best"] == max(rates["numpy"], rates["jax"])
    assert machine.better({"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 2.0}) == {"a": 3.0, "b": 5.0}
    assert machine.peak_rss() > 10_000_000


def test_the_machine_is_described_without_its_name() -> None:
    found = machine.describe()
    assert found["cores"] >= 1 and found["memory_bytes"] > 1 << 28 and found["processor"]
    assert platform.node() not in found.values()
    assert {"python", "jax", "numpy", "bm25s"} <= machine.versions().keys()


def test_matmul_flops_by_hand() -> None:
    a, b = jnp.zeros((3, 4)), jnp.zeros((4, 5))

    def layer(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jnp.tanh(carry @ jnp.zeros((5, 5))), None

    def both(a: jax.Array, b: jax.Array) -> jax.Array:
        return jax.lax.scan(layer, jax.jit(jnp.matmul)(a, b) + 1, None, length=7)[0]

    assert floor.matmul_flops(both, a, b) == 2 * 3 * 4 * 5 + 7 * 2 * 3 * 5 * 5
    assert floor.matmul_flops(jax.vmap(jnp.dot), jnp.zeros((6, 3)), jnp.zeros((6, 3))) == 6 * 2 * 3


def small_networks() -> tuple:
    """Plan, forms of the parameters, inputs of both networks: C = 10, K = 6, D = 4, H = 8, 2 heads, 1 layer."""
    plan = make_plan(
        candidates=10, menu=6, prefix=3, text=4, producers_first=True, coverage=1.0, redundancy=0.0, hedge=0.0,
        width=8, heads=2, layers=1, text_scale=(1.0, 1.0),
    )  # fmt: skip
    params = Params(None, *jax.eval_shape(lambda: initial(plan, 0)))
    c, k, d, slots = 10, 6, 4, 1
    common = {"query": jnp.zeros(d)}
    candidates = Frontier(
        tool=jnp.zeros(c, jnp.int32), valid=jnp.ones(c, bool), prior=jnp.zeros(c), text=jnp.zeros((c, d)),
        node=jnp.zeros((c, len(Node))), relation=jnp.zeros((c, c), jnp.int8),
        produces=jnp.zeros((c, c, slots), bool), required=jnp.zeros((c, slots), bool),
        missing=jnp.zeros((c, slots), bool), similar=jnp.zeros((c, c)), **common,
    )  # fmt: skip
    menu = MenuInputs(
        tool=jnp.zeros(k, jnp.int32), valid=jnp.ones(k, bool), text=jnp.zeros((k, d)),
        node=jnp.zeros((k, len(Node) + 2)), pair=jnp.zeros((k, k, len(Pair))),
        produces=jnp.zeros((k, k, slots), bool), required=jnp.zeros((k, slots), bool),
        missing=jnp.zeros((k, slots), bool), **common,
    )  # fmt: skip
    return plan, params, candidates, menu


def encoder_flops(n: int, inputs: int, width: int) -> int:
    """One layer on n tools and the summary token: input layer, q k v out, both attention products, feed-forward."""
    t = n + 1
    return 2 * (n * inputs * width + 4 * t * width * width + 2 * t * t * width + 2 * t * width * 4 * width)


def test_network_flops_by_hand() -> None:
    plan, params, candidates, menu = small_networks()
    heads = 1 + 1 + 9  # member, entry, 8 slots and none
    retriever = encoder_flops(10, 4 + 4 + len(Node), 8) + 2 * 10 * 8 * heads
    pairs = 2 * 6 * 6 * 16 * 2 + 2 * 2 * 6 * 8 * 8 + 2 * 6 * 6 * 8  # bias of 2 heads; before and after; their product
    reranker = encoder_flops(6, 4 + 4 + len(Node) + 2, 8) + pairs + 2 * 6 * 8 * heads
    assert floor.network_flops(plan, candidates, menu, params) == {"retriever": retriever, "reranker": reranker}


def test_xla_counts_at_least_our_flops() -> None:
    """Elementwise work comes on top; on networks as small as these it is a good part."""
    plan, params, candidates, menu = small_networks()
    ours = sum(floor.network_flops(plan, candidates, menu, params).values())
    compiled = jax.jit(partial(floor.networks, plan)).lower(params, candidates, menu).compile()
    assert ours <= floor.compiled_flops(compiled) <= 2 * ours


def test_floor_by_hand() -> None:
    found = floor.floor(8.0, {"a": 3_000_000, "b": 1_000_000}, {"c": 50_000_000}, copy_gb_s=2.0, matmul_gflop_s=50.0)
    assert (found["read_ms"], found["compute_ms"]) == (2.0, 1.0)
    assert (found["overlapped_ms"], found["in_turn_ms"]) == (2.0, 3.0)
    assert (found["measured_over_overlapped"], found["measured_over_in_turn"]) == (4.0, pytest.approx(8 / 3))


def test_a_peer_over_the_budget_is_measured_once_and_one_that_fails_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def fine(library: object, encode: object, k: int):
        return lambda text: asked.append(text)

    def broken(library: object, encode: object, k: int):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(peers, "installed", lambda: {"fine": "1", "broken": "2"})
    monkeypatch.setattr(peers, "PEERS", {"fine": fine, "broken": broken})
    monkeypatch.setattr(compare, "encoder", lambda indexed: SimpleNamespace(encode=None))
    indexed = SimpleNamespace(library=())
    found = compare.time_peers(indexed, ["a", "b", "c"], runs=4, budget=60.0)
    assert found["fine"]["runs"] == 4 and asked == ["a", "b", "c", "a", "b"]
    assert found["broken"] == {"version": "2", "error": "RuntimeError: no such thing"}
    found = compare.time_peers(indexed, ["a"], runs=4, budget=-1.0)
    assert found["fine"]["runs"] == 1 and "without a warm-up" in found["fine"]["note"]


def test_bm25s_and_dense_find_the_matching_tool() -> None:
    from spm_jax.device_library import index_library

    words = ("weather", "ticket", "invoice", "football", "recipe", "hotel", "currency", "rocket")
    tools = tuple(Tool(word, f"search_{word}", f"Find one {word} by number {n}.") for n, word in enumerate(words))
    indexed = index_library(Library(tools), width=8)
    for search in (compare.bm25s_search(indexed), compare.dense_search(compare.encoder(indexed))):
        found = search("the cheapest hotel")
        assert found[0] == 5 and sorted(found) == list(range(8))


def test_drawn_requests_call_tools_of_the_library() -> None:
    tools = Library(tuple(Tool("f", f"tool {n}", f"Does the thing {n}.") for n in range(50)))
    requests = library.drawn_requests(tools, 20)
    assert requests == library.drawn_requests(tools, 20)
    assert all(2 <= len(tools.gold(request)) <= 4 for request in requests)
    assert len({request.group for request in requests}) == 4 and len({request.id for request in requests}) == 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--quick", "--sizes", "1024"], "leave out --sizes or --quick"),
        (["--sizes", "1024", "12"], "--sizes 12: at least 128"),
        (["--sizes", "16384", "16400"], "the same in thousands"),
        (["--runs", "1"], "--runs 1: at least 3"),
        (["--plot", "bench.svg"], "ending .png"),
        (["--out", "."], "--out .: is a folder"),
        (["--toolbench", "nowhere"], "--toolbench nowhere: no such"),
        (["--traject", "nowhere"], "--traject nowhere: no such"),
    ],
)
def test_bad_arguments_give_one_clear_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["bench", *words]) == 2
    shown = capsys.readouterr()
    assert message in shown.err and shown.err.count("\n") == 1 and not shown.out
    assert not list(tmp_path.iterdir())


def test_a_child_that_reports_or_dies_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "spm_child.py"
    module.write_text(
        "import sys\nfrom pathlib import Path\nfrom spm_jax.bench.child import answer\n"
        "from spm_jax.data.schema import DataError\n"
        "def work():\n    if sys.argv[1] == 'die': sys.exit(7)\n    raise DataError('the file is bad')\n"
        "sys.exit(answer(Path(sys.argv[-1]), work))\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(run.__file__).parents[2]}")
    with pytest.raises(DataError, match=r"^the file is bad$"):
        child.ask("spm_child", ["report"], tmp_path / "work")
    with pytest.raises(DataError, match=r"spm_child die failed \(exit code 7\)"):
        child.ask("spm_child", ["die"], tmp_path / "work")
    assert not list((tmp_path / "work").glob(".answer-*"))


KEYS = {
    "command", "machine", "versions", "reference_tools", "menu", "bm25s", "dense", "ratios", "peak_rss_bytes",
    "networks", "exponents", "cold_start", "import", "stages", "floor", "sizes",
}  # fmt: skip


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """The result of the whole command on 128 tools, and its working folder."""
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(run.__file__).parents[2]))
        patch.chdir(folder)
        patch.setattr(run, "import_times", partial(child.import_times, 1))
        words = ["--sizes", str(SIZE), "--runs", "3", "--no-peers", "--no-training", "--workdir", "work"]
        words += ["--out", "out.json"]
        assert cli.main(["bench", *words, "--json"]) == 0
    return json.loads((folder / "out.json").read_text("utf-8")), folder / "work"


def test_the_json_has_every_key_of_what_was_run(small_run: tuple[dict, Path]) -> None:
    result, work = small_run
    assert result.keys() == KEYS
    assert result["reference_tools"] == SIZE and result["sizes"].keys() == {"n128"} == result["peak_rss_bytes"].keys()
    assert result["ratios"].keys() == {"menu_vs_bm25s", "menu_vs_dense", "p95_vs_median", "batch64_vs_batch1"}
    assert result["exponents"] == {} and "n1m_vs_n16k" not in result["ratios"]
    size = result["sizes"]["n128"]
    assert size["tools"] == SIZE and size["menu"].keys() == {"batch1", "batch8", "batch64"}
    assert [*result["stages"]][:2] == ["request", "frontier"] and [*result["stages"]][-2:] == ["names", "sum"]
    assert result["ratios"]["menu_vs_bm25s"] == pytest.approx(result["menu"]["ms"] / result["bm25s"]["ms"])
    assert 0 < result["networks"]["matmul_share_batch64"] < 1.5 and result["networks"]["batch"] == 64
    ours = sum(result["networks"]["flops_per_menu"].values())
    assert 0.9 < result["networks"]["xla_gflop_per_menu"] * 1e9 / ours < 1.2
    assert 50_000_000 < size["peak_rss_bytes"] and size["library"]["peak_rss_bytes"] > 50_000_000
    assert size["first_start"].keys() == {*size["cold_start"], "peak_rss_bytes"}
    assert result["import"]["ratio"] < 1.5
    parts = ("import_s", "load_s", "first_menu_s")
    assert result["cold_start"]["total_s"] == pytest.approx(sum(result["cold_start"][part] for part in parts))
    assert math.isfinite(sum(time["ms"] for time in result["stages"].values()))
    asked = read_requests(work / "128" / library.REQUESTS)
    assert len(asked) == library.ASKED and not any(request.trajectory.calls for request in asked)


def test_a_bundle_is_kept_by_its_record(small_run: tuple[dict, Path], tmp_path: Path) -> None:
    _, work = small_run
    record = library.made(work / str(SIZE))
    assert record and record["tools"] == SIZE and record["source"] == "embedded world"
    for text in ("{}", "[1]", "not JSON", json.dumps({**record, "spm_jax": "0.0.0"})):
        (tmp_path / library.RECORD).write_text(text)
        assert library.made(tmp_path) is None


@pytest.mark.parametrize("kept", [{"tools": SIZE}, None])
def test_a_kept_bundle_that_no_longer_loads_is_made_again(
    kept: dict | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was just made and does not load is an error."""
    asked = []

    def ask(module: str, arguments: list[str], workdir: Path) -> dict:
        asked.append("start" if "--start-only" in arguments else module.rpartition(".")[2])
        if asked.count("start") == 1 and asked[-1] == "start":
            raise DataError("not a menu bundle of this version")
        return {"cold_start": {}}

    monkeypatch.setattr(run, "ask", ask)
    monkeypatch.setattr(run, "made", lambda folder: kept)
    options = run.Options((SIZE,), tmp_path, 3, True, 0.0, "", "", "spm bench")
    if kept is None:
        with pytest.raises(DataError, match="not a menu bundle"):
            run.measure_size(SIZE, SIZE, options)
        assert asked == ["library", "start"]
    else:
        run.measure_size(SIZE, SIZE, options)
        assert asked == ["start", "library", "start", "serve"]


def test_training_speed_is_of_whole_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "BATCH", 8)
    world = make_world(3, SIZE, 20)
    trained = untrained(world.library, world.requests)
    speed = training.time_training(trained, matmul_gflop_s=100.0)
    assert speed["steps"] == 2 * 3 and speed["batch"] == 8 and speed["examples_per_second"] > 0
    assert 0 <= speed["waiting"] <= 1 and speed["matmul_share"] == pytest.approx(speed["gflop_s"] / 100)
    candidates = 1 + 128  # with the summary token; forward alone is a third of a step's products
    forward = 2 * candidates * 16 * 16 * 12 + 4 * candidates**2 * 16
    assert 2.5 * forward < speed["gflop_per_example"] * 1e9 < 5 * forward


def test_tables_and_plot_show_the_result(small_run: tuple[dict, Path], tmp_path: Path) -> None:
    result, _ = small_run
    failed = {"version": "1.0", "error": "RuntimeError: no"}
    slow = {"version": "2.0", **timing.summary([9.0]), "note": "one query"}
    larger = {**result["sizes"]["n128"], "tools": 1_024}
    more = {
        **result,
        "peers": {"failing": failed, "slow": slow},
        "sizes": {**result["sizes"], "n1k": larger},
        "exponents": {"n128_n1k": 0.25},
    }
    shown = report.text(more)
    for part in ("128", "1,024", "n128_n1k 0.25", "failing 1.0", "RuntimeError: no", "slow 2.0 (one query)", "9000.00"):
        assert part in shown
    assert "cold start" in report.text(result)
    pytest.importorskip("matplotlib")
    report.plot(more, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_million_ratio_is_there_only_with_both_sizes(small_run: tuple[dict, Path]) -> None:
    result, work = small_run
    size = result["sizes"]["n128"]
    options = run.Options((run.REFERENCE, run.MILLION), work, 3, False, 0.0, "", "", "spm bench")
    slower = {**size, "menu": {**size["menu"], "batch1": {**size["menu"]["batch1"], "ms": 12.0}}}
    faster = {**size, "menu": {**size["menu"], "batch1": {**size["menu"]["batch1"], "ms": 4.0}}}
    sizes = {run.REFERENCE: faster, run.MILLION: slower}
    found = run.assemble(sizes, run.REFERENCE, options, result["import"])
    assert found["ratios"]["n1m_vs_n16k"] == 3.0
    assert found["peak_rss_bytes"].keys() == {"n16k", "n1m"}
    assert found["exponents"] == {"n16k_n1m": pytest.approx(np.log(3) / np.log(64))}
