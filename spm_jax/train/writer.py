"""Metrics as JSON Lines, and a progress line on stderr.

A metrics line is ``{"step": 50, "loss": 1.25, ..., "seconds": 3.1}``. Everything but the wall-clock fields (``WALL``)
is a function of the run alone: the file of a resumed run equals that of an undisturbed one. ``seconds`` counts from the
start of this process's run; ``examples_per_second`` and ``waiting`` are of the time since the line before (``Meter``).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

from spm_jax.data.jsonl import dumps, write_atomic
from spm_jax.data.schema import DataError

WALL = ("seconds", "examples_per_second", "waiting")


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


class Speed(NamedTuple):
    """``steps`` steps with ``examples`` examples were done in ``seconds``, of which ``waited`` without work."""

    steps: int
    examples: int
    seconds: float
    waited: float

    def rates(self) -> dict[str, float]:
        """Examples per second, and the share of the time in which the device waited for a batch; {} without steps."""
        if not self.steps or self.seconds <= 0:
            return {}
        speed = {"examples_per_second": round(self.examples / self.seconds, 1)} if self.examples else {}
        return {**speed, "waiting": round(self.waited / self.seconds, 4)}

    def __str__(self) -> str:
        rates = self.rates()
        examples = f"{rates['examples_per_second']:,.0f} examples/s  " if "examples_per_second" in rates else ""
        return f"{examples}waiting {rates['waiting']:.0%}" if rates else ""


class Meter:
    """The speed of a run. Its clock starts when the first step of this process is done.

    So neither the first batch nor compiling nor the first step counts; saving checkpoints does. Waiting is the time in
    which no step was on the device because the next batch was not there yet.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._steps, self._waited = 0, 0.0
        self._start: tuple[float, int, float] | None = None  # time, steps and waiting at the start, and at the mark
        self._mark = (0.0, 0, 0.0)

    def step_done(self) -> None:
        """Count one more step."""
        self._steps += 1
        if self._start is None:
            self._start = self._mark = (time.monotonic(), self._steps, self._waited)

    def waited(self, seconds: float) -> None:
        """Count time in which the device had nothing to do."""
        self._waited += seconds

    def _since(self, mark: tuple[float, int, float] | None) -> Speed:
        began, steps, waited = mark or (time.monotonic(), self._steps, self._waited)
        done = self._steps - steps
        return Speed(done, done * self._batch_size, time.monotonic() - began, self._waited - waited)

    def since_start(self) -> Speed:
        """Speed of the whole run."""
        return self._since(self._start)

    def since_mark(self) -> Speed:
        """Speed since the last call of this."""
        speed = self._since(self._mark if self._start else None)
        self._mark = (time.monotonic(), self._steps, self._waited)
        return speed


class Progress:
    """Step, loss, speed and time left: one line that rewrites itself on a terminal, a line now and then elsewhere."""

    def __init__(self, name: str, total: int, stream: TextIO | None = None) -> None:
        self._name, self._total = name, total
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._every = 0.2 if self._terminal else 15.0  # seconds between two lines
        self._shown = 0.0

    def update(self, step: int, loss: float, meter: Meter) -> None:
        """Report that ``step`` steps are done; shows something only when it is time to."""
        now = time.monotonic()
        if step < self._total and now - self._shown < self._every:
            return
        self._shown = now
        speed = meter.since_start()
        line = f"{self._name}: step {step}/{self._total}  loss {loss:.4f}"
        if speed.rates():
            line += f"  {speed}  {(self._total - step) * speed.seconds / speed.steps:,.0f} s left"
        last = "\n" if step >= self._total else ""
        self._stream.write(f"\r{line:<79}{last}" if self._terminal else f"{line}\n")
        self._stream.flush()
