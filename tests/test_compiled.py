"""Compiled programs are kept from one process to the next, where the caller wants it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import distributed_menus as tied
import jax
import pytest
from test_distributed import ROOT, environment

from spm_jax import bundle, compiled
from spm_jax.builder import MenuBuilder
from spm_jax.data.schema import Request


@pytest.mark.parametrize(
    ("setting", "variable", "kept"),
    [(None, None, "BASE/spm_jax/compiled"), ("mine", None, "mine"), ("", None, ""), (None, "theirs", None),
     (None, "", None)],
)  # fmt: skip
def test_who_has_chosen_a_folder_keeps_it(
    setting: str | None, variable: str | None, kept: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = [getattr(jax.config, name) for name in names]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(compiled.ENVIRONMENT, raising=False)
    if variable is not None:
        monkeypatch.setenv(compiled.ENVIRONMENT, variable)
    try:
        jax.config.update(names[0], setting)
        compiled.keep()
        assert getattr(jax.config, names[0]) == (kept and kept.replace("BASE", str(tmp_path)))
    finally:
        for name, value in zip(names, before):
            jax.config.update(name, value)


NEXT_PROCESS = """
import sys
import jax
from collections import Counter
events = Counter()
jax.monitoring.register_event_listener(lambda name, **_: events.update([name.rsplit("/", 1)[-1]]))
from spm_jax.builder import MenuBuilder
from spm_jax.data.schema import Request
menu = MenuBuilder.load(sys.argv[1]).build(Request("r", "get order"), 12)
print(*menu)
print(events["cache_hits"], events["cache_misses"])
"""


def test_the_next_process_compiles_no_program_anew(tmp_path: Path) -> None:
    asked = Request("r", "get order")
    here_built = MenuBuilder(tied.tied()).build(asked, tied.K)  # compiled here
    bundle.save(tmp_path / "menu", tied.tied())
    here = {**environment(Path(os.environ["JAX_COMPILATION_CACHE_DIR"])), "JAX_NUM_CPU_DEVICES": "4"}
    command = [sys.executable, "-c", NEXT_PROCESS, str(tmp_path / "menu")]
    done = subprocess.run(command, cwd=ROOT, env=here, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    menu, events = done.stdout.splitlines()[-2:]
    assert menu.split() == [str(n) for n in here_built]
    assert events == "1 0", done.stdout
