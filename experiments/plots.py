"""Draw the tables of experiments/results as docs/figures/NAME.png. Needs matplotlib: pip install '.[plots]'

    python -m experiments.plots NAME [NAME ...]

NAME is a table of experiments/results. Bars show complete chain and ordered prefix of every row with 95 % intervals
over groups; a table of several menu sizes is drawn as lines. ``lengths`` is the main table by the number of calls.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.report import RESULTS, ROOT, sizes
from spm_jax.data.schema import DataError
from spm_jax.tables import Table, read_table

FIGURES = ROOT / "docs" / "figures"
LENGTHS = "lengths"
SHOWN = ("State-Path", "BM25", "BM25 + MiniLM", "BM25 + training requests + family siblings", "Order-only")


def _error(cells: Sequence[dict[str, float]]) -> list[list[float]]:
    return [[cell["mean"] - cell["low"] for cell in cells], [cell["high"] - cell["mean"] for cell in cells]]


def bars(table: Table, figure: Any) -> None:
    """Two panels of horizontal bars, a row of the table each, the first row on top."""
    rows = table["rows"][::-1]
    for axes, metric in zip(figure.subplots(1, 2, sharey=True), (table["meta"]["test_metric"], "ordered_prefix")):
        cells = [row["metrics"][metric] for row in rows]
        colours = ["#4878a8"] * (len(rows) - 1) + ["#c44e52"]
        axes.barh([row["name"] for row in rows], [c["mean"] for c in cells], xerr=_error(cells), color=colours)
        axes.set(xlabel=metric.replace("_", " "), xlim=(0, 1))
        axes.grid(True, axis="x", alpha=0.3)


def lines(table: Table, figure: Any) -> None:
    """Complete chain over the menu's size, a line a row."""
    axes = figure.subplots()
    widths = sizes(table)
    for row in table["rows"]:
        cells = [row["metrics"][f"complete_chain@{k}"] for k in widths]
        axes.errorbar(widths, [c["mean"] for c in cells], yerr=_error(cells), marker="o", capsize=3, label=row["name"])
    axes.set(xscale="log", xlabel="tools of the menu", ylabel="complete chain", ylim=(0, 1))
    axes.set_xticks(widths, [str(k) for k in widths])
    axes.grid(True, alpha=0.3)
    axes.legend()


def by_length(table: Table, figure: Any) -> None:
    """Complete chain over the number of calls, a line a row of ``SHOWN``."""
    axes, metric = figure.subplots(), table["meta"]["test_metric"]
    lengths = [name for name in table["rows"][0]["by_length"] if name != "2"]
    for row in table["rows"]:
        if row["name"] in SHOWN:
            cells = [row["by_length"][name][metric] for name in lengths]
            axes.errorbar(lengths, [c["mean"] for c in cells], yerr=_error(cells), marker="o", capsize=3,
                          label=row["name"])  # fmt: skip
    axes.set(xlabel="calls of the chain", ylabel=metric.replace("_", " "), ylim=(0, 1))
    axes.grid(True, alpha=0.3)
    axes.legend()


def draw(name: str, figures: Path = FIGURES, results: Path = RESULTS) -> Path:
    """Draw one table; the path of the picture. Raises DataError where there is no such table."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    table = read_table(results / f"{'traject' if name == LENGTHS else name}.json")
    drawing = by_length if name == LENGTHS else lines if len(sizes(table)) > 1 else bars
    height = 1.5 + 0.28 * len(table["rows"]) if drawing is bars else 4.5
    figure = pyplot.figure(figsize=(10, height), layout="constrained")
    drawing(table, figure)
    figures.mkdir(parents=True, exist_ok=True)
    figure.savefig(figures / f"{name}.png", dpi=100, metadata={"Software": None})
    pyplot.close(figure)
    return figures / f"{name}.png"


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the tables named; 2 where one does not exist."""
    parser = argparse.ArgumentParser(
        prog="experiments.plots", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", metavar="NAME")
    args = parser.parse_args(argv)
    try:
        for name in args.names:
            print(draw(name))
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"error: {error}; pip install '.[plots]'", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
