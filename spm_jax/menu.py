"""The one program: a request in, an ordered menu out, compiled as a whole (method.md section 8)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from spm_jax import decode, frontier
from spm_jax.features import Node, Pair, pair_features
from spm_jax.frontier import PRECISION, FrontierWeights
from spm_jax.models.reranker import Reranked, Reranker
from spm_jax.models.retriever import Retrieved, Retriever
from spm_jax.placement import DATA
from spm_jax.types import DeviceLibrary, Frontier, Memory, MenuInputs, RequestArrays, pytree, static

TIE = 1e-5  # log-odds that a place in the frontier is worth: above rounding errors, below anything that is learned


@pytree
class Params:
    """Everything that is learned."""

    frontier: FrontierWeights
    retriever: Any
    reranker: Any


@pytree
class Plan:
    """What fixes the shape of the program, and the weights of the decoders."""

    coverage: jax.Array | float  # lambda
    redundancy: jax.Array | float  # eta
    hedge: jax.Array | float  # weight of the entry at positions 2 to 5
    order: jax.Array  # float32 [4]: what the learned weights of entry, slot, precedence, executable are multiplied by
    candidates: int = static()  # C
    menu: int = static()  # K
    prefix: int = static()  # P
    text: int = static()  # D
    producers_first: bool = static()  # re-sort what stands after the prefix
    retriever: Retriever = static()
    reranker: Reranker = static()
    mesh: Mesh | None = static(None)  # where the library is cut over devices


@pytree
class Menu:
    """An ordered menu of K tools; -1 = none left. Arrays follow the order shown."""

    tool: jax.Array  # int32 [K]
    member: jax.Array  # float32 [K]: log-odds of being on the path, by the reranker
    executable: jax.Array  # bool [K]: every required input is visible or output by an executable tool shown earlier
    required: jax.Array  # bool [K, I]
    missing: jax.Array  # bool [K, I]: required and not visible
    produces: jax.Array  # bool [K, K, I]: i outputs the p-th required input of j
    frontier: jax.Array  # int32 [C]: the candidates, best first


def pick(plan: Plan, candidates: Frontier, retrieved: Retrieved) -> jax.Array:
    """int32 [K]: frontier indices that the cover decoder picks, in order.

    Tools that are alike come in the frontier's order, so by tool id, although the network's sums differ in their last
    bits from row to row.
    """
    return decode.cover(
        retrieved.member - TIE * jnp.arange(plan.candidates),
        jax.nn.softmax(retrieved.slot)[:, :-1],
        candidates.produces,
        candidates.missing,
        candidates.required,
        candidates.similar,
        candidates.valid,
        size=plan.menu,
        coverage=plan.coverage,
        redundancy=plan.redundancy,
    )


def menu_inputs(
    library: DeviceLibrary,
    memory: Memory,
    candidates: Frontier,
    member: jax.Array,
    picks: jax.Array,
    visible: jax.Array,
) -> MenuInputs:
    """The picked tools with the 14 node and 16 pair features; ``member`` [C] are the retriever's log-odds."""
    valid = picks >= 0
    tool = candidates.tool[picks]
    both = valid[:, None, None] & valid[None, :, None]
    produced = candidates.produces[picks][:, picks] & both
    similar = candidates.similar[picks][:, picks]
    rank = jnp.arange(len(picks)) / len(picks)
    node = jnp.concatenate([candidates.node[picks], member[picks][:, None] / 5, rank[:, None]], axis=1)
    pair = pair_features(library, memory, tool, produced, visible, similar)
    return MenuInputs(
        tool=jnp.where(valid, tool, -1),
        valid=valid,
        query=candidates.query,
        text=candidates.text[picks],
        node=jnp.where(valid[:, None], node, 0.0),
        pair=jnp.where(both, pair, 0.0),
        produces=produced,
        required=candidates.required[picks] & valid[:, None],
        missing=candidates.missing[picks] & valid[:, None],
    )


def arrange(plan: Plan, menu: MenuInputs, ranked: Reranked) -> jax.Array:
    """int32 [K]: positions of ``menu`` in the order shown."""
    prefix = min(plan.prefix, plan.menu)
    shown = decode.order(
        jax.nn.log_softmax(ranked.entry),
        jax.nn.log_softmax(ranked.slot)[:, :-1],
        ranked.precedence,
        menu.produces,
        menu.required,
        menu.missing,
        menu.valid,
        ranked.weights * plan.order,
        size=prefix,
        hedge=plan.hedge,
    )
    return decode.producers_first(shown, menu.produces, fixed=prefix) if plan.producers_first else shown


def _shown(menu: MenuInputs, member: jax.Array, shown: jax.Array, candidates: jax.Array) -> Menu:
    valid = shown >= 0
    produced = menu.produces[shown][:, shown] & valid[:, None, None] & valid[None, :, None]
    required = menu.required[shown] & valid[:, None]
    missing = menu.missing[shown] & valid[:, None]

    def replay(met: jax.Array, i: jax.Array) -> tuple[jax.Array, jax.Array]:
        runs = valid[i] & jnp.all(met[i] | ~required[i])
        return met | (produced[i] & runs), runs  # a tool that cannot run makes nothing

    _, executable = jax.lax.scan(replay, required & ~missing, jnp.arange(len(shown)))
    return Menu(
        tool=jnp.where(valid, menu.tool[shown], -1),
        member=jnp.where(valid, member[shown], -jnp.inf),
        executable=executable,
        required=required,
        missing=missing,
        produces=produced,
        frontier=candidates,
    )


@jax.default_matmul_precision(PRECISION)
def build_menu(
    plan: Plan, params: Params, library: DeviceLibrary, memory: Memory, request: RequestArrays
) -> Menu:
    """Frontier, retriever, cover, reranker, order: one pure function of arrays. Jit it, ``vmap`` it over requests.

    What is float32 is multiplied as float32 on every platform (``PRECISION``): the order of tools hangs on differences
    that the accelerators' faster products round away.
    """
    candidates = frontier.select(
        library, memory, params.frontier, request, plan.candidates, plan.text, mesh=plan.mesh
    )
    retrieved = plan.retriever.apply(params.retriever, candidates)
    picks = pick(plan, candidates, retrieved)
    menu = menu_inputs(library, memory, candidates, retrieved.member, picks, request.visible)
    ranked = plan.reranker.apply(params.reranker, menu)
    shown = arrange(plan, menu, ranked)
    return _shown(menu, ranked.member, shown, jnp.where(candidates.valid, candidates.tool, -1))


@jax.default_matmul_precision(PRECISION)
def order_tools(
    plan: Plan, params: Params, library: DeviceLibrary, memory: Memory, request: RequestArrays, tool: jax.Array
) -> jax.Array:
    """int32 [K]: the given tools [K] (-1 = none) in the order that the reranker and the order decoder give them."""
    weights = params.frontier
    candidates = frontier.select(
        library, memory, weights, request, plan.candidates, plan.text, injected=tool, mesh=plan.mesh
    )
    retrieved = plan.retriever.apply(params.retriever, candidates)
    at = jnp.argmax(candidates.tool[None, :] == tool[:, None], axis=1)
    menu = menu_inputs(library, memory, candidates, retrieved.member, jnp.where(tool >= 0, at, -1), request.visible)
    shown = arrange(plan, menu, plan.reranker.apply(params.reranker, menu))
    return jnp.where(shown >= 0, menu.tool[shown], -1)


build_menus = jax.vmap(build_menu, in_axes=(None, None, None, None, 0), spmd_axis_name=DATA)
build_menu_jit = jax.jit(build_menu)
build_menus_jit = jax.jit(build_menus)
order_tools_jit = jax.jit(order_tools)


def initial(plan: Plan, seed: int) -> tuple[Any, Any]:
    """Parameters of retriever and reranker before training."""
    retriever, reranker = jax.random.split(jax.random.key(seed))
    c, k, d = plan.candidates, plan.menu, plan.text
    slots = 1  # the widths of key slots do not enter the parameters
    candidates = Frontier(
        tool=jnp.zeros(c, jnp.int32),
        valid=jnp.ones(c, bool),
        prior=jnp.zeros(c),
        query=jnp.zeros(d),
        text=jnp.zeros((c, d)),
        node=jnp.zeros((c, len(Node))),
        relation=jnp.zeros((c, c), jnp.int8),
        produces=jnp.zeros((c, c, slots), bool),
        required=jnp.zeros((c, slots), bool),
        missing=jnp.zeros((c, slots), bool),
        similar=jnp.zeros((c, c)),
    )
    menu = MenuInputs(
        tool=jnp.zeros(k, jnp.int32),
        valid=jnp.ones(k, bool),
        query=jnp.zeros(d),
        text=jnp.zeros((k, d)),
        node=jnp.zeros((k, len(Node) + 2)),
        pair=jnp.zeros((k, k, len(Pair))),
        produces=jnp.zeros((k, k, slots), bool),
        required=jnp.zeros((k, slots), bool),
        missing=jnp.zeros((k, slots), bool),
    )
    return jax.jit(plan.retriever.init)(retriever, candidates), jax.jit(plan.reranker.init)(reranker, menu)
