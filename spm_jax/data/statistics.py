"""Figures that describe a library and a set of requests, for people: what ``spm data`` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spm_jax.data.fields import input_keys, optional_keys, output_keys
from spm_jax.data.schema import Library, Request


def known_keys(library: Library) -> frozenset[str]:
    """Every canonical key that some tool takes, required or optional: what the state reader may find in a text."""
    return frozenset(key for tool in library for key in (*input_keys(tool), *optional_keys(tool)))


def _share(hits: int, total: int) -> float:
    return round(hits / total, 4) if total else 0.0


def library_statistics(library: Library) -> dict[str, Any]:
    """Numbers of tools, families, fields and keys; shares in [0, 1] of tools with required inputs and known outputs."""
    required = {key for tool in library for key in input_keys(tool)}
    produced = {key for tool in library for key in output_keys(tool)}
    return {
        "tools": len(library),
        "families": len({tool.family for tool in library}),
        "with_inputs": _share(sum(bool(tool.inputs) for tool in library), len(library)),
        "with_required_inputs": _share(sum(bool(tool.required) for tool in library), len(library)),
        "outputs_known": _share(sum(tool.outputs_known for tool in library), len(library)),
        "outputs_from": dict(sorted(Counter(tool.outputs_from or "unknown" for tool in library).items())),
        "input_fields": sum(len(tool.inputs) for tool in library),
        "output_fields": sum(len(tool.outputs) for tool in library),
        "required_keys": len(required),
        "output_keys": len(produced),
        "required_keys_that_are_produced": _share(len(required & produced), len(required)),
    }


def request_statistics(requests: Sequence[Request], library: Library) -> dict[str, Any]:
    """Numbers of requests, groups, domains and calls; shares in [0, 1] over the distinct gold tools of each request."""
    chains = [library.gold(request) for request in requests]
    gold = [library[tools[0]] for chain in chains for tools in chain]
    families = [len({library[tools[0]].family for tools in chain}) for chain in chains]
    return {
        "requests": len(requests),
        "groups": len({request.group for request in requests}),
        "domains": len({request.domain for request in requests}),
        "all_steps_succeeded": sum(request.trajectory.succeeded for request in requests),
        "calls_per_request": round(sum(len(r.trajectory.calls) for r in requests) / max(1, len(requests)), 2),
        "gold_tools_per_request": round(sum(map(len, chains)) / max(1, len(chains)), 2),
        "families_per_request": round(sum(families) / max(1, len(families)), 2),
        "gold_with_outputs_known": _share(sum(tool.outputs_known for tool in gold), len(gold)),
        "gold_with_required_inputs": _share(sum(bool(tool.required) for tool in gold), len(gold)),
        "distinct_gold_tools": len({tools for chain in chains for tools in chain}),
    }


def lines(figures: Mapping[str, Any], indent: str = "  ") -> Iterable[str]:
    """``name  value`` lines for people; a nested object is a heading with its own lines."""
    for name, value in figures.items():
        label = str(name).replace("_", " ")
        if isinstance(value, Mapping):
            yield f"{indent}{label}:"
            yield from lines(value, indent + "  ")
        elif isinstance(value, float):
            yield f"{indent}{label:<38} {value:.3f}"
        else:
            yield f"{indent}{label:<38} {value:,}" if isinstance(value, int) else f"{indent}{label:<38} {value}"
