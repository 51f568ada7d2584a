"""The benchmark's result for people: tables of text, and a plot of time and memory against the size of the library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spm_jax.bench.run import label

GIB = 1 << 30


def text(result: dict[str, Any]) -> str:
    """The tables of a result of ``run_benchmark``."""
    machine = result["machine"]
    rates = machine["rates"]
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / GIB:.0f} GiB, "
        f"{', '.join(machine['devices'])}; copies {rates['copy_gb_s']['best']:.1f} GB/s (read + written), "
        f"multiplies {rates['matmul_gflop_s']['best']:.0f} GFLOP/s (float32)",
        "",
        *_grid(
            ["tools", "batch 1", "p95", "batch 8", "batch 64", "bm25s", "dense", "peak GiB", "cold start s", "build s"],
            [_size_row(size) for size in result["sizes"].values()],
        ),
        "",
        "times in ms a menu; exponents of time at batch 1: "
        + (", ".join(f"{name} {value:.2f}" for name, value in result["exponents"].items()) or "one size only"),
        "",
        f"At {result['reference_tools']:,} tools, side by side:",
        "",
        *_grid(["", "median ms", "p95 ms", "times the menu"], _beside_rows(result)),
        "",
        "Stages of one menu, each a program of its own:",
        "",
        *_grid(["stage", "median ms", "p95 ms"], _stage_rows(result)),
        "",
        *_floor_lines(result["floor"], result["networks"]),
        *([_training_line(result["training"])] if "training" in result else []),
        "",
        *_ratio_lines(result),
    ]
    return "\n".join(lines)


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    lines = [heads, ["-" * width for width in widths], *rows]
    padded = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))] for line in lines
    ]
    return ["| " + " | ".join(line) + " |" for line in padded]


def _size_row(size: dict[str, Any]) -> list[str]:
    menu, beside = size["menu"], size.get("side_by_side", {})
    times = [menu["batch1"]["ms"], menu["batch1"]["p95_ms"], menu["batch8"]["ms"], menu["batch64"]["ms"]]
    others = [f"{beside[name]['ms']:.2f}" if name in beside else "-" for name in ("bm25s", "dense")]
    return [
        f"{size['tools']:,}",
        *(f"{time:.2f}" for time in times),
        *others,
        f"{size['peak_rss_bytes'] / GIB:.2f}",
        f"{size['cold_start']['total_s']:.1f}",
        f"{sum(size['library']['seconds'].values()):.0f}",
    ]


def _beside_rows(result: dict[str, Any]) -> list[list[str]]:
    menu = result["menu"]["ms"]
    rows = [("menu", result["menu"]), ("bm25s", result["bm25s"]), ("dense, NumPy", result["dense"])]
    rows += [(f"{name} {peer['version']}", peer) for name, peer in result.get("peers", {}).items()]
    shown = []
    for name, times in rows:
        if "error" in times:
            shown.append([name, "failed", "", times["error"][:60]])
            continue
        name += f" ({times['note']})" if "note" in times else ""
        shown.append([name, f"{times['ms']:.2f}", f"{times['p95_ms']:.2f}", f"{times['ms'] / menu:.2f}"])
    return shown


def _stage_rows(result: dict[str, Any]) -> list[list[str]]:
    rows = [
        [name, f"{time['ms']:.3f}", f"{time['p95_ms']:.3f}" if "p95_ms" in time else ""]
        for name, time in result["stages"].items()
    ]
    whole = result["sizes"][label(result["reference_tools"])]["menu"]["batch1"]
    return [*rows, ["the whole program", f"{whole['ms']:.3f}", f"{whole['p95_ms']:.3f}"]]


def _floor_lines(floor: dict[str, Any], networks: dict[str, Any]) -> list[str]:
    return [
        f"Floor of a menu: {sum(floor['bytes'].values()) / 1e6:.1f} MB read in {floor['read_ms']:.2f} ms, "
        f"{sum(floor['flops'].values()) / 1e9:.3f} GFLOP in {floor['compute_ms']:.2f} ms; measured time is "
        f"{floor['measured_over_overlapped']:.1f} times the floor where the two overlap, "
        f"{floor['measured_over_in_turn']:.1f} times where they do not.",
        f"Both networks, batch {networks['batch']}: {networks['ms']:.2f} ms a menu, {networks['gflop_s']:.0f} GFLOP/s, "
        f"{100 * networks['matmul_share_batch64']:.0f} % of the machine's matmul rate.",
    ]


def _training_line(training: dict[str, Any]) -> str:
    return (
        f"Training the retriever, batch {training['batch']}: {training['examples_per_second']:.0f} examples/s, "
        f"{training['gflop_s']:.0f} GFLOP/s, {100 * training['matmul_share']:.0f} % of the matmul rate; the device "
        f"waited for batches {100 * training['waiting']:.1f} % of the time."
    )


def _ratio_lines(result: dict[str, Any]) -> list[str]:
    lines = [f"{name}: {value:.2f}" for name, value in result["ratios"].items()]
    imports, cold = result["import"], result["cold_start"]
    lines.append(
        f"import of spm_jax: {imports['ratio']:.2f} times that of jax and flax; "
        f"of its menu builder: {imports['builder_ratio']:.2f} times"
    )
    lines.append(
        f"cold start: {cold['total_s']:.1f} s (import {cold['import_s']:.1f}, load {cold['load_s']:.1f}, "
        f"first menu {cold['first_menu_s']:.1f})"
    )
    return lines


def plot(result: dict[str, Any], path: Path) -> None:
    """Write the plot of time and peak memory against N as PNG. Needs matplotlib (the extra ``[plots]``)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = sorted(result["sizes"].values(), key=lambda size: size["tools"])
    tools = [size["tools"] for size in sizes]
    figure, (time, memory) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for batch in ("batch1", "batch8", "batch64"):
        time.plot(tools, [size["menu"][batch]["ms"] for size in sizes], marker="o", label=f"menu, batch {batch[5:]}")
    for name in ("bm25s", "dense"):
        known = [(size["tools"], size["side_by_side"][name]["ms"]) for size in sizes if "side_by_side" in size]
        time.plot(*zip(*known), marker="x", linestyle="--", label=name)
    time.set(xscale="log", yscale="log", xlabel="tools", ylabel="ms a menu (median)", title="Time")
    time.legend()
    memory.plot(tools, [size["peak_rss_bytes"] / GIB for size in sizes], marker="o", color="black")
    memory.set(xscale="log", yscale="log", xlabel="tools", ylabel="peak resident memory, GiB", title="Memory, serving")
    for axes in (time, memory):
        axes.grid(True, which="both", alpha=0.3)
    figure.savefig(path, dpi=130, format="png")
    pyplot.close(figure)
