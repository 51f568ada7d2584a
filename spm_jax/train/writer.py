"""Metrics as JSON Lines, and a progress line on stderr.

A metrics line is ``{"step": 50, "loss": 1.25, ..., "seconds": 3.1}``. Everything but the wall-clock fields (``WALL``)
is a function of the run alone: the file of a resumed run equals that of an undisturbed one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TextIO

from spm_jax.data.jsonl import dumps, write_atomic
from spm_jax.data.schema import DataError

WALL = ("seconds", "examples_per_second")


def read_metrics(path: str | os.PathLike) -> list[dict[str, Any]]:
    """The whole lines of a metrics file; what a kill cut off at the end is left out, and so is all after it."""
    records: list[dict[str, Any]] = []
    try:
        text = Path(path).read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return records
    for line in text.splitlines(keepends=True):
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not line.endswith("\n") or not isinstance(record, dict) or not isinstance(record.get("step"), int):
            break
        records.append(record)
    return records


class MetricsWriter:
    """Appends lines to a file, each handed to the system at once, so a killed process loses none."""

    def __init__(self, path: str | os.PathLike, resume_step: int | None = None) -> None:
        """``resume_step``: the step of the restored checkpoint; later lines are dropped. None starts a new file."""
        path = Path(path)
        kept = [r for r in read_metrics(path) if r["step"] <= resume_step] if resume_step is not None else []
        write_atomic(path, map(dumps, kept))
        self._file = open(path, "a", encoding="utf-8", newline="\n")

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Append one line. Raises DataError where a value is not finite or not JSON."""
        try:
            json.dumps(dict(values), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise DataError(f"metrics of step {step}: {error} in {dict(values)}") from None
        self._file.write(dumps({"step": step, **values}) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()


class Progress:
    """Step, loss, speed and time left: one line that rewrites itself on a terminal, a line now and then elsewhere."""

    def __init__(self, name: str, step: int, total: int, stream: TextIO | None = None) -> None:
        self._name, self._total = name, total
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._every = 0.2 if self._terminal else 15.0  # seconds between two lines
        self._shown = 0.0
        # The clock starts with the first step that is reported, so that compiling does not count as slowness.
        self._start: tuple[int, float] | None = None
        self._step = step

    def update(self, step: int, loss: float, batch_size: int) -> None:
        """Report that ``step`` steps are done; shows something only when it is time to."""
        now = time.monotonic()
        if self._start is None:
            self._start = (step, now)
        if step < self._total and now - self._shown < self._every:
            return
        self._shown = now
        steps, seconds = step - self._start[0], now - self._start[1]
        line = f"{self._name}: step {step}/{self._total}  loss {loss:.4f}"
        if steps and seconds > 0:
            if batch_size:
                line += f"  {steps * batch_size / seconds:,.0f} examples/s"
            line += f"  {(self._total - step) * seconds / steps:,.0f} s left"
        last = "\n" if step >= self._total else ""
        self._stream.write(f"\r{line:<79}{last}" if self._terminal else f"{line}\n")
        self._stream.flush()
