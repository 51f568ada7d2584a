"""Render the result tables of README.md again from experiments/results/*.json.

    python -m experiments.report [--check]

A table stands between ``<!-- results:NAME -->`` and ``<!-- /results -->``; it comes from experiments/results/NAME.json,
which ``--out`` of a training run writes. ``--check`` writes nothing and fails where the README says something else.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from spm_jax.data.jsonl import write_atomic
from spm_jax.data.schema import DataError
from spm_jax.quickstart import aligned
from spm_jax.tables import markdown, read_table

ROOT = Path(__file__).resolve().parents[1]
README, RESULTS = ROOT / "README.md", ROOT / "experiments" / "results"
BLOCK = re.compile(r"(<!-- results:([a-z0-9_]+) -->\n).*?(<!-- /results -->)", re.DOTALL)
COLUMNS = (
    "complete_chain@32", "tool_recall@32", "early_entry@5", "first_action", "ordered_prefix", "executable_prefix@8",
    "producer_violations", "frontier_chain@128",
)  # fmt: skip


def render_results(path: Path) -> str:
    """The Markdown of a committed result table with the command that made it; a line where there is none yet."""
    if not path.exists():
        return f"Not measured yet: `experiments/results/{path.name}` is missing.\n"
    table = read_table(path)
    meta = table["meta"]
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    made = f"`{meta['command']}` ({versions}; {meta['machine']['cores']} cores"
    made += f"; {meta['seconds'] / 60:.0f} minutes)" if "seconds" in meta else ")"
    return f"Made by {made}:\n\n{aligned(markdown(table, metrics=COLUMNS))}\n"


def render_readme(text: str, results: Path = RESULTS) -> str:
    """``text`` with every block between result markers rendered again."""
    return BLOCK.sub(lambda m: m[1] + "\n" + render_results(results / f"{m[2]}.json") + "\n" + m[3], text)


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite the README, or check it; 0 unless a check fails."""
    parser = argparse.ArgumentParser(prog="experiments.report", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a table of the README is out of date")
    args = parser.parse_args(argv)
    old = README.read_text("utf-8")
    try:
        new = render_readme(old)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.check:
        print("README.md is up to date" if new == old else "README.md is out of date: python -m experiments.report")
        return int(new != old)
    write_atomic(README, new.splitlines())
    print(f"{len(BLOCK.findall(new))} tables rendered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
