"""Render the measured tables of README.md and docs/performance.md again from experiments/results/*.json.

    python -m experiments.report [--check]

A table stands between ``<!-- results:NAME -->`` and ``<!-- /results -->``; it comes from experiments/results/NAME.json,
which ``--out`` of a training run, or of ``spm bench``, writes. ``--check`` writes nothing and fails where a document
says something else.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments import edges
from spm_jax.bench.report import text
from spm_jax.data.jsonl import write_atomic
from spm_jax.data.schema import DataError
from spm_jax.quickstart import aligned
from spm_jax.tables import Table, markdown, read_table

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "performance.md", ROOT / "docs" / "results.md")
RESULTS = ROOT / "experiments" / "results"
BLOCK = re.compile(r"(<!-- results:([a-z0-9_]+) -->\n).*?(<!-- /results -->)", re.DOTALL)
BENCH = "bench"  # of spm bench, not of a training run
EDGES = "edges"  # of experiments.edges
BFLOAT16, BFLOAT16_BASE = "traject_bf16", "traject_float32"  # shown beside each other
COLD = ("traject_domain", "cold", "transfer_nestools", "transfer_restbench")  # compared in more than the complete chain
COLUMNS = (
    "complete_chain", "tool_recall", "early_entry@5", "first_action", "ordered_prefix", "chain_order",
    "executable_prefix@8", "producer_violations", "frontier_chain@128",
)  # fmt: skip


def _made(meta: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    made = f"`{meta['command']}` ({versions}; {meta['machine']['cores']} cores"
    return made + (f"; {meta['seconds'] / 60:.0f} minutes)" if "seconds" in meta else ")")


def sizes(table: Table) -> list[int]:
    """The menu sizes at which a table gives the complete chain."""
    names = table["rows"][0]["metrics"]
    return sorted(int(name.partition("@")[2]) for name in names if name.startswith("complete_chain@"))


def _columns(table: Table) -> list[str]:
    """``COLUMNS`` as the table calls them: the first two carry the size of its menus. Of several sizes, the chains."""
    if len(sizes(table)) > 1:
        return [f"complete_chain@{k}" for k in sizes(table)]
    size = table["meta"]["test_metric"].partition("@")[2]
    return [f"{name}@{size}" if name in ("complete_chain", "tool_recall") else name for name in COLUMNS]


def render_results(path: Path) -> str:
    """The Markdown of a committed result with the command that made it; a line where there is none yet."""
    if not path.exists():
        return f"Not measured yet: `experiments/results/{path.name}` is missing.\n"
    if path.stem == BENCH:
        result = json.loads(path.read_text("utf-8"))
        return f"Made by {_made(result)}:\n\n{text(result)}\n"
    if path.stem == EDGES:
        result = json.loads(path.read_text("utf-8"))
        return f"Made by {_made(result['meta'])}:\n\n{aligned(edges.render(result))}\n"
    table = read_table(path)
    if path.stem == BFLOAT16:
        return _precisions(read_table(path.with_stem(BFLOAT16_BASE)), table)
    metric = table["meta"]["test_metric"]
    compared = (metric.replace("complete_chain", "tool_recall"), "early_entry@5") if path.stem in COLD else ()
    shown = aligned(markdown(table, _columns(table), {metric}, compared))
    return f"Made by {_made(table['meta'])}:\n\n{shown}\n"


def _precisions(exact: Table, rounded: Table) -> str:
    """Every metric of State-Path in both precisions, and the difference."""
    lines = ["| | float32 | bfloat16 | difference |", "|---|---|---|---|"]
    one, other = (table["rows"][0]["metrics"] for table in (exact, rounded))
    for name in one:
        if name in other:
            a, b = one[name]["mean"], other[name]["mean"]
            interval = f"[{other[name]['low']:.3f}, {other[name]['high']:.3f}]"
            lines.append(f"| {name} | {a:.3f} | {b:.3f} {interval} | {b - a:+.3f} |")
    made = " and ".join(_made(table["meta"]) for table in (exact, rounded))
    return f"Made by {made}:\n\n" + aligned("\n".join(lines)) + "\n"


def render(document: str, results: Path = RESULTS) -> str:
    """``document`` with every block between result markers rendered again."""
    return BLOCK.sub(lambda m: m[1] + "\n" + render_results(results / f"{m[2]}.json") + "\n" + m[3], document)


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite the documents, or check them; 0 unless a check fails."""
    parser = argparse.ArgumentParser(prog="experiments.report", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a table of a document is out of date")
    args = parser.parse_args(argv)
    stale = 0
    for path in DOCUMENTS:
        old = path.read_text("utf-8")
        try:
            new = render(old)
        except DataError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        stale += new != old
        if args.check:
            print(f"{path.name} is up to date" if new == old else f"{path.name}: python -m experiments.report")
        else:
            write_atomic(path, new.splitlines())
            print(f"{path.name}: {len(BLOCK.findall(new))} tables rendered")
    return int(args.check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
