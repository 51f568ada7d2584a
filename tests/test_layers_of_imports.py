"""Which layer may import what, read from the source without importing it."""

from __future__ import annotations

import ast
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("spm_jax", "experiments", "tests")
    for path in (ROOT / folder).rglob("*.py")
)
MAX_LINES = 400

# File pattern -> every module outside the standard library that it may import (a name covers what is inside it). The
# first pattern that matches counts; a file that matches none may import anything but what OWNERS keeps from it.
LAYERS = {
    "spm_jax/data/aliases.py": ("numpy", "scipy.sparse", "spm_jax.data"),
    "spm_jax/data/*": ("numpy", "spm_jax.data"),
    "spm_jax/types.py": ("jax", "numpy", "spm_jax.data.schema"),
    "spm_jax/ragged.py": ("jax",),
    "spm_jax/features.py": ("jax", "numpy", "spm_jax.types", "spm_jax.ragged"),
    "spm_jax/losses.py": ("jax", "numpy", "spm_jax.types", "spm_jax.decode"),
    "spm_jax/decode.py": ("jax", "numpy", "spm_jax.types"),
    "spm_jax/metrics.py": ("jax", "numpy", "spm_jax.types", "spm_jax.data"),
    "spm_jax/stats.py": ("jax", "numpy", "spm_jax.types", "spm_jax.data"),
    "spm_jax/models/*": ("jax", "numpy", "flax", "spm_jax.types", "spm_jax.models"),
    "spm_jax/train/step.py": ("jax", "numpy", "optax", "flax.struct", "spm_jax.types", "spm_jax.train.state"),
    "spm_jax/train/state.py": ("jax", "numpy", "optax", "flax.struct", "spm_jax.types"),
    "spm_jax/train/optim.py": ("jax", "numpy", "optax", "flax.struct", "spm_jax.types"),
    "experiments/configs/studies/signals.py": (
        "ml_collections", "experiments.configs", "spm_jax.device_library.SIGNALS",
    ),
    "experiments/configs/*": ("ml_collections", "experiments.configs"),
}  # fmt: skip
# Library -> the only files that may import it.
OWNERS = {
    "orbax": ("spm_jax/train/checkpoint.py",),
    "ml_collections": (
        "spm_jax/train/loop.py", "spm_jax/cli/*", "spm_jax/cli.py", "spm_jax/main.py", "spm_jax/quickstart.py",
        "experiments/*", "tests/*",
    ),
    "bm25s": ("spm_jax/baselines/*", "spm_jax/bench/compare.py", "tests/*"),
    "pickle": (),
}  # fmt: skip


def imported(source: str, file: str) -> set[str]:
    """Every module that the source names in an import, at any depth; ``from a import b`` counts as ``a.b``."""
    package = file.split("/")[:-1]
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            modules |= {f"{module}.{alias.name}" for alias in node.names}
    return modules


def within(module: str, names: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def violations(source: str, file: str) -> list[str]:
    modules = sorted(m for m in imported(source, file) if m.split(".")[0] != "__future__")
    wrong = [m for m in modules for name, files in OWNERS.items() if within(m, (name,))
             and not any(fnmatch(file, pattern) for pattern in files)]  # fmt: skip
    allowed = next((names for pattern, names in LAYERS.items() if fnmatch(file, pattern)), None)
    if allowed is not None:
        wrong += [m for m in modules if m.split(".")[0] not in sys.stdlib_module_names and not within(m, allowed)]
    return wrong


@pytest.mark.parametrize("file", FILES)
def test_file_keeps_to_its_layer_and_size(file: str) -> None:
    source = (ROOT / file).read_text("utf-8")
    assert violations(source, file) == []
    assert source.count("\n") <= MAX_LINES, "does it hold two things?"


@pytest.mark.parametrize(
    ("file", "line", "wrong"),
    [
        ("spm_jax/data/fields.py", "import jax.numpy as jnp", ["jax.numpy"]),
        ("spm_jax/data/fields.py", "import os, numpy\nfrom spm_jax.data import schema", []),
        ("spm_jax/data/readers/traject.py", "from ...features import chi", ["spm_jax.features.chi"]),
        ("spm_jax/data/readers/traject.py", "from ..schema import Tool", []),
        ("spm_jax/models/layers.py", "from spm_jax import losses", ["spm_jax.losses"]),
        ("spm_jax/models/layers.py", "def f():\n    import optax", ["optax"]),
        ("spm_jax/train/step.py", "from flax import linen, struct", ["flax.linen"]),
        ("spm_jax/train/loop.py", "import orbax.checkpoint as ocp", ["orbax.checkpoint"]),
        ("spm_jax/train/checkpoint.py", "import orbax.checkpoint as ocp", []),
        ("spm_jax/frontier.py", "import ml_collections", ["ml_collections"]),
        ("spm_jax/frontier.py", "import pickle", ["pickle"]),
        ("experiments/configs/tiny.py", "import jax\nfrom experiments.configs import default", ["jax"]),
    ],
)  # fmt: skip
def test_the_check_finds_what_it_looks_for(file: str, line: str, wrong: list[str]) -> None:
    assert violations(line, file) == wrong
