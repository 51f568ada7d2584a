"""Each stage of a menu as a program of its own, and both networks at the batches of ``build_many``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from spm_jax import frontier
from spm_jax.bench import floor
from spm_jax.bench.timing import repeat, summary
from spm_jax.builder import TOGETHER, MenuBuilder
from spm_jax.data.schema import Request
from spm_jax.menu import Plan, arrange, menu_inputs, pick

INPUTS = 8  # requests whose inputs of a stage are kept: the runs of a stage take them in turn


def _stages(plan: Plan) -> dict[str, Callable[..., Any]]:
    """The stages of ``build_menu`` between request arrays and the order shown, each jitted."""
    return {
        "frontier": jax.jit(
            lambda params, library, memory, request: frontier.select(
                library, memory, params.frontier, request, plan.candidates, plan.text
            )
        ),
        "retriever": jax.jit(lambda params, candidates: plan.retriever.apply(params.retriever, candidates)),
        "cover": jax.jit(lambda candidates, retrieved: pick(plan, candidates, retrieved)),
        "menu features": jax.jit(menu_inputs),
        "reranker": jax.jit(lambda params, menu: plan.reranker.apply(params.reranker, menu)),
        "order": jax.jit(lambda menu, ranked: arrange(plan, menu, ranked)),
    }


def stage_inputs(
    builder: MenuBuilder, requests: Sequence[Request]
) -> tuple[dict[str, Callable[..., Any]], dict[str, list[tuple]]]:
    """The jitted stages, and for each the arguments of every request, made by the stages before it."""
    trained = builder.trained
    params, library, memory = trained.params, trained.indexed.arrays, trained.memory
    stages = _stages(trained.plan)
    arguments: dict[str, list[tuple]] = {name: [] for name in stages}

    def run(name: str, *given: Any) -> Any:
        arguments[name].append(given)
        return stages[name](*given)

    for request in requests:
        arrays = jax.device_put(trained.indexed.request(request))
        candidates = run("frontier", params, library, memory, arrays)
        retrieved = run("retriever", params, candidates)
        picks = run("cover", candidates, retrieved)
        menu = run("menu features", library, memory, candidates, retrieved.member, picks, arrays.visible)
        run("order", menu, run("reranker", params, menu))
    return stages, arguments


@jax.default_matmul_precision(frontier.PRECISION)  # as in build_menu
def time_stages(builder: MenuBuilder, requests: Sequence[Request], runs: int) -> dict[str, Any]:
    """Times of every stage for one request, host work included; their sum of medians, in milliseconds."""
    requests = requests[:INPUTS]
    stages, arguments = stage_inputs(builder, requests)
    menus = [builder.build(request) for request in requests]
    tools = builder.trained.indexed.library

    def at(items: Sequence[Any], number: int) -> Any:
        return items[number % len(items)]

    calls: dict[str, Callable[[int], Any]] = {
        "request": lambda number: builder.trained.indexed.request(at(requests, number)),
        **{
            name: lambda number, name=name: jax.block_until_ready(stages[name](*at(arguments[name], number)))
            for name in stages
        },
        "names": lambda number: [tools[int(tool)].id for tool in at(menus, number)],
    }
    times = {name: summary(repeat(call, runs)) for name, call in calls.items()}
    return {**times, "sum": {"ms": sum(time["ms"] for time in times.values())}}


def _networks(plan: Plan) -> Callable[..., Any]:
    return jax.jit(jax.vmap(partial(floor.networks, plan), in_axes=(None, 0, 0)))


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@jax.default_matmul_precision(frontier.PRECISION)
def time_networks(builder: MenuBuilder, requests: Sequence[Request], runs: int) -> dict[str, Any]:
    """Both networks on ``requests`` in the batches of ``build_many``: time a menu, counted flops, gigaflops a second.

    ``xla_gflop_per_menu`` is XLA's own count, elementwise work included; the rate uses ours.
    """
    _, arguments = stage_inputs(builder, requests)
    candidates = [given[1] for given in arguments["retriever"]]
    menus = [given[1] for given in arguments["reranker"]]
    plan, params = builder.trained.plan, builder.trained.params
    program = _networks(plan)
    together = [
        (_stacked(candidates[first : first + TOGETHER]), _stacked(menus[first : first + TOGETHER]))
        for first in range(0, len(requests), TOGETHER)
    ]
    seconds = repeat(lambda _: jax.block_until_ready([program(params, *batch) for batch in together]), runs, warmup=2)
    flops = floor.network_flops(plan, candidates[0], menus[0], params)
    by_xla = floor.compiled_flops(program.lower(params, *together[0]).compile()) / min(TOGETHER, len(requests))
    time = summary(seconds, items=len(requests))
    return {
        **time,
        "batch": len(requests),
        "flops_per_menu": flops,
        "xla_gflop_per_menu": by_xla / 1e9,
        "gflop_s": sum(flops.values()) / time["ms"] / 1e6,
    }
