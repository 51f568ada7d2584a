"""The exported program: the same menus without the model code, and one clear error for every file that does not fit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import export as jax_export
from untrained import recorded, small_plan, tool, untrained

from spm_jax import builder as builder_module
from spm_jax import bundle, export, menu
from spm_jax.builder import TOGETHER, MenuBuilder
from spm_jax.cli import main
from spm_jax.data.schema import DataError, Library, Request
from spm_jax.models.reranker import Reranker
from spm_jax.models.retriever import Retriever
from spm_jax.placement import menu_mesh

K = 8


def trained(**changes):
    """20 tools, of which three pairs are the same but for their family: ties."""
    names = [*(f"do{n}" for n in range(14)), *(f"same{n}" for n in range(3)), *(f"same{n}" for n in range(3))]
    tools = [tool(name, [f"k{n % 17}"], [f"k{n % 17 + 1}"], family=f"f{n}") for n, name in enumerate(names)]
    library = Library(tuple(tools))
    plan = dataclasses.replace(small_plan(menu=K), candidates=16, **changes)
    return untrained(library, [recorded(library, n, [n, n + 1]) for n in range(6)], plan=plan)


REQUESTS = [
    Request("1", "do 3", state={"k3": 1}),
    Request("2", "same 1"),
    Request("3", ""),
    Request("4", "do 2 and same 0", state={"k1": 1, "k2": 1}),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A bundle folder, and its program as ``spm export`` writes it."""
    folder = tmp_path_factory.mktemp("export")
    bundle.save(folder / "menu", trained())
    arguments = ["--checkpoint", str(folder / "menu"), "--out", str(folder / "menu.program"), "--k", str(K)]
    assert main(["export", *arguments]) == 0
    return folder / "menu", folder / "menu.program"


@pytest.fixture(scope="module")
def traced(made) -> MenuBuilder:
    return MenuBuilder.load(made[0])


@pytest.fixture(scope="module")
def ready(made) -> MenuBuilder:
    """A builder of the program, made and run once while none of the model code may be called."""
    with pytest.MonkeyPatch.context() as patched:
        forbid_tracing(patched)
        builder = MenuBuilder.load(made[0], program=made[1])
        builder.warm_up(K)
    return builder


def forbid_tracing(patched: pytest.MonkeyPatch) -> None:
    def called(*_, **__):
        raise AssertionError("the model code was called")

    for model in (Retriever, Reranker):
        patched.setattr(model, "__call__", called)
    for module in (menu, export, builder_module):
        for name in ("build_menu", "build_menus", "build_menu_jit", "build_menus_jit"):
            patched.setattr(module, name, called)


def assert_equal(one: menu.Menu, other: menu.Menu) -> None:
    for field in dataclasses.fields(menu.Menu):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 if a.dtype.kind == "f" else 0, err_msg=field.name)


def header(program: Path) -> dict:
    return json.loads(program.read_bytes().split(b"\n")[1])


def rewritten(program: Path, path: Path, body: bytes | None = None, **changes) -> Path:
    """A whole file, its digest right, with another header or other programs."""
    content, new = header(program) | changes, program.read_bytes().split(b"\n", 2)[2] if body is None else body
    if body is not None:
        content["programs"] = [{"batch": 1, "bytes": len(body)}]
    joined = json.dumps(content).encode() + b"\n" + new
    path.write_bytes(export.MAGIC + f" 1 {hashlib.sha256(joined).hexdigest()}\n".encode() + joined)
    return path


# --- the same menus ---------------------------------------------------------------------------------------------------


def test_menus_are_those_of_the_traced_program_without_the_model_code(traced, ready, monkeypatch):
    expected = [traced.arrays(request, K) for request in REQUESTS]
    assert len({tuple(menu.tool) for menu in expected}) > 1
    many = traced.arrays_many(REQUESTS * 3, K)
    forbid_tracing(monkeypatch)
    for request, one in zip(REQUESTS, expected):
        assert_equal(ready.arrays(request, K), one)
    for one, other in zip(ready.arrays_many(REQUESTS * 3, K), many, strict=True):
        assert_equal(one, other)
    assert ready.explain(REQUESTS[0], K) == traced.explain(REQUESTS[0], K)


def test_another_bundle_of_the_same_sizes_gets_its_own_menus(ready, traced):
    other = trained(coverage=0.0, redundancy=2.0, hedge=0.0)
    library = Library(tuple(tool(f"other{n}", [f"q{n}"], [f"q{n + 1}"]) for n in range(25)))
    requests = [recorded(library, n, [n, n + 1]) for n in range(6)]
    for one in (other, untrained(library, requests, seed=1, plan=other.plan)):
        theirs = MenuBuilder(one, program=ready._one)
        for request in REQUESTS[:2]:
            assert_equal(theirs.arrays(request, K), MenuBuilder(one).arrays(request, K))
    assert not np.array_equal(theirs.build(REQUESTS[0], K), traced.build(REQUESTS[0], K))


def test_what_the_file_does_not_hold_is_traced(ready, monkeypatch):
    calls = []
    monkeypatch.setattr(export, "build_menu_jit", lambda *arguments: calls.append("one") or arguments[-1])
    monkeypatch.setattr(export, "build_menus_jit", lambda *arguments: calls.append("many") or arguments[-1])
    plan, learned = ready._plan(K), ready._learned
    request = ready.trained.indexed.request(REQUESTS[0])
    wider = dataclasses.replace(request, visible=np.pad(request.visible, (0, 32), constant_values=-1))
    ready._one(plan, *learned, request)
    assert calls == []
    ready._one(plan, *learned, wider)
    ready._many(plan, *learned, jax.tree.map(lambda leaf: np.stack([leaf] * 3), request))
    assert calls == ["one", "many"]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_file_says_what_it_is_and_is_lowered_for_every_platform(made, ready):
    _, program = made
    first, _, rest = program.read_bytes().split(b"\n", 2)
    about = header(program)
    assert first.startswith(b"spm_jax program 1 ") and about["jax"] == jax.__version__
    assert about["k"] == K and about["fixed"]["candidates"] == 16 and about["fixed"]["width"] == 16
    assert about["arguments"]["library/embedding"] == "float32[128,32]"
    assert about["arguments"]["plan/coverage"] == "float32[]"
    assert [entry["batch"] for entry in about["programs"]] == [1, TOGETHER]
    assert sum(entry["bytes"] for entry in about["programs"]) == len(rest)
    exported = jax_export.deserialize(bytearray(rest[: about["programs"][0]["bytes"]]))
    assert exported.platforms == ("cpu", "cuda", "tpu") and exported.disabled_safety_checks == ()
    module = exported.mlir_module()
    assert "stablehlo.custom_call" not in module and "chlo.top_k" in module
    assert list(program.parent.glob(".*")) == []


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_accelerators_are_lowered_alone_too(traced, tmp_path, platform):
    traced.export(tmp_path / "one", K, [platform], [1])
    with pytest.raises(DataError, match=f"made for {platform}, this is cpu; export it again with --platforms cpu"):
        export.Program(tmp_path / "one")


def test_damaged_and_foreign_files_are_named(made, tmp_path):
    _, program = made
    whole, path = program.read_bytes(), tmp_path / "file"
    with pytest.raises(DataError, match="file: cannot be read .No such file"):
        export.Program(path)
    with pytest.raises(DataError, match="cannot be read .Is a directory"):
        export.Program(tmp_path)
    for change, message in (
        (whole[:-1], "damaged"),
        (whole[:90], "damaged"),
        (whole[:20], "damaged"),
        (b"", "not a program"),
        (b"PK" + whole, "not a program"),
        (whole.replace(b"program 1", b"program 2", 1), "program format 2.*reads format 1"),
        *((whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], "damaged") for at in (30, 150, len(whole) // 2)),
    ):
        path.write_bytes(change)
        with pytest.raises(DataError, match=f"file: .*{message}"):
            export.Program(path)


def test_what_this_jax_cannot_read_names_both_versions(made, tmp_path):
    _, program = made
    body = program.read_bytes().split(b"\n", 2)[2]
    one = jax_export.deserialize(bytearray(body[: header(program)["programs"][0]["bytes"]]))
    later = dataclasses.replace(one, mlir_module_serialized=b"ML\xefR of another day")
    for unread in (b"no flatbuffer", bytes(later.serialize())):
        path = rewritten(program, tmp_path / "file", unread, jax="9.8.7")
        with pytest.raises(DataError, match=f"9.8.7, not read by {jax.__version__}.*6 months older and 3 weeks new"):
            export.Program(path)


# --- another bundle ---------------------------------------------------------------------------------------------------


def test_a_bundle_of_other_sizes_is_refused_by_the_name_of_what_differs(made, tmp_path):
    program = export.Program(made[1])
    larger = Library(tuple(tool(f"do{n}", [f"k{n}"], [f"k{n + 1}"], family=f"{n % 9}") for n in range(129)))
    plan, library = trained().plan, trained().indexed.library
    wide = dataclasses.replace(plan, retriever=plan.retriever.clone(width=32), reranker=plan.reranker.clone(width=32))
    requests = [recorded(library, n, [n, n + 1]) for n in range(6)]
    for other, message in (
        (untrained(larger, plan=plan), r"library/valid is bool\[128\] in the program and bool\[160\]"),
        (trained(prefix=4), "prefix is 8 in the program and 4 in the bundle"),
        (trained(producers_first=False), "producers_first is True .* False"),
        (untrained(library, requests, plan=wide), r"params/retriever/.* is float32\[.*16.*\] .* float32\[.*32"),
    ):
        with pytest.raises(DataError, match=f"made for another bundle: {message}"):
            MenuBuilder(other, program=program)
    bundle.save(tmp_path / "wide", untrained(library, requests, plan=wide))
    with pytest.raises(DataError, match="params/retriever/.* run `spm export` for this one"):
        MenuBuilder.load(tmp_path / "wide", program=made[1])


def test_another_k_a_mesh_and_bad_arguments_are_refused(made, ready, tmp_path, capsys):
    folder, program = map(str, made)
    with pytest.raises(DataError, match=f"holds menus of k = {K} tools, not 5; .*--k 5"):
        ready.build(REQUESTS[0], 5)
    with pytest.raises(DataError, match="runs on one device"):
        MenuBuilder.load(folder, menu_mesh(2), program)
    with pytest.raises(DataError, match="batches .3.: expected 1, 8 or both"):
        ready.export(tmp_path / "no", K, batches=[3])
    with pytest.raises(DataError, match="platforms .'gpu'.: expected some of cpu, cuda, tpu, rocm"):
        ready.export(tmp_path / "no", K, ["gpu"])
    for arguments, message in (
        (["--out", str(tmp_path)], "is a folder"),
        (["--out", str(tmp_path / "no"), "--k", "0"], "k = 0: expected a whole number"),
    ):
        assert main(["export", "--checkpoint", folder, *arguments]) == 2
        assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# --- the commands -----------------------------------------------------------------------------------------------------


def test_spm_menu_runs_the_program(made, capsys, monkeypatch):
    folder, program = map(str, made)
    text = ["menu", "--checkpoint", folder, "do 3", "--state", "k3=1", "--k", str(K)]
    assert main(text) == 0
    plain = capsys.readouterr().out
    forbid_tracing(monkeypatch)
    assert main([*text, "--program", program]) == 0
    assert capsys.readouterr().out == plain
    assert main([*text[:-1], "3", "--program", program]) == 2
    assert "holds menus of k = 8 tools, not 3" in capsys.readouterr().err


def test_help_teaches_and_writing_reports_size_and_time(made, capsys):
    folder, program = made
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    shown = capsys.readouterr().out
    assert "spm export --checkpoint" in shown and "--program" in shown and "6 months newer" in shown
    again = program.with_name("again")
    options = ["--platforms", "cpu", "cpu", "--batch", "1"]  # a name given twice counts once
    assert main(["export", "--checkpoint", str(folder), "--out", str(again), *options]) == 0
    out, err = capsys.readouterr()
    assert out == "" and f"{again.stat().st_size / 1e3:.0f} kB in " in err and "for cpu" in err
    assert header(again)["platforms"] == ["cpu"] and header(again)["k"] == 32
