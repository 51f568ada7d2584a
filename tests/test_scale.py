"""One program at every size and on every number of devices: no host inside it, one trace a bucket, the same menus."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import distributed_menus as tied
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental import io_callback
from jax.sharding import PartitionSpec
from test_distributed import ROOT, environment, free_address
from untrained import recorded, small_plan, tool, untrained

from spm_jax.builder import MenuBuilder
from spm_jax.data.schema import DataError, Library, Request
from spm_jax.device_library import bucket
from spm_jax.frontier import best_tools
from spm_jax.menu import Menu, build_menu, build_menu_jit, build_menus, build_menus_jit, order_tools
from spm_jax.placement import DATA, LIBRARY, menu_mesh, place_library, place_memory

K = tied.K
ALONE = 3
HOST = ("callback", "infeed", "outfeed", "debug")
COLLECTIVE = re.compile(r"= (.*?) (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(")
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # where no number matters
MESHES = {"library": (4, 1), "both": (2, 2), "requests": (1, 4)}  # devices of the library, of the requests


@lru_cache
def builder(name: str = "one") -> MenuBuilder:
    """The builder of the tied menus on one device, or on the four of a mesh."""
    return MenuBuilder(tied.tied(), menu_mesh(*MESHES[name]) if name in MESHES else None)


@lru_cache
def alone() -> list[Menu]:
    """The menus of one device: of all requests at once, then of the first ones one by one."""
    one_by_one = [builder().arrays(request, K) for request in tied.REQUESTS[:ALONE]]
    return builder().arrays_many(tied.REQUESTS, K) + one_by_one


def arguments(made: MenuBuilder, many: bool = False) -> tuple:
    """What the program of one request, or of eight, takes."""
    requests = [made.trained.indexed.request(request) for request in tied.REQUESTS[:8]]
    taken = jax.tree.map(lambda *leaves: np.stack(leaves), *requests) if many else requests[0]
    return made._plan(K), *made._learned, taken


def assert_same(made: list[Menu], expected: list[Menu]) -> None:
    """Equal in every integer and truth value; log-odds to their last bits."""
    assert len(made) == len(expected)
    for one, other in zip(made, expected):
        for field in fields(one):
            a, b = np.asarray(getattr(one, field.name)), np.asarray(getattr(other, field.name))
            if a.dtype.kind == "f":
                np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5, err_msg=field.name)
            else:
                np.testing.assert_array_equal(a, b, err_msg=field.name)


# --- no host inside --------------------------------------------------------------------------------------------------


def primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all primitives, also those of every jaxpr inside."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for parameter in jax.tree.leaves(equation.params, is_leaf=lambda value: hasattr(value, "eqns")):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns"):
                yield from primitives(inner)


def asks_the_host(function: Callable, *arguments: Any) -> set[str]:
    """Primitives of the function that call back to Python or wait for the host."""
    names = set(primitives(jax.make_jaxpr(function)(*arguments).jaxpr))
    return {name for name in names if any(word in name for word in HOST)}


def targets(text: str) -> set[str]:
    """What a compiled program calls outside itself, and how it talks to the host."""
    return {*re.findall(r'custom_call_target="([^"]*)"', text), *re.findall(r" (infeed|outfeed|send|recv)\(", text)}


@pytest.mark.parametrize("name", ["one", "both"])
def test_no_program_asks_the_host(name: str) -> None:
    made = builder(name)
    for program in (build_menu, order_tools):
        given_tools = (np.arange(K, dtype=np.int32),) if program is order_tools else ()
        names = set(primitives(jax.make_jaxpr(program)(*arguments(made), *given_tools).jaxpr))
        assert {"scan", "while", "top_k"} <= names and ("shard_map" in names) == (name == "both")
        assert not asks_the_host(program, *arguments(made), *given_tools)
    assert not asks_the_host(build_menus, *arguments(made, many=True))


def test_a_program_that_asks_the_host_is_found() -> None:
    def python(x: jax.Array) -> jax.Array:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), jnp.float32), x)

    def ordered(x: jax.Array) -> jax.Array:
        return io_callback(np.sin, jax.ShapeDtypeStruct((), jnp.float32), x, ordered=True)

    def shown(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x)
        return x

    def deep(asks: Callable, x: jax.Array) -> jax.Array:
        def step(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jax.lax.cond(carry > 0, jax.jit(asks), lambda y: y, carry), None

        return jax.lax.scan(step, x, None, length=2)[0]

    for asks in (python, ordered, shown):
        assert asks_the_host(partial(deep, asks), 1.0), asks
    assert not asks_the_host(partial(deep, jnp.sin), 1.0)
    assert any("callback" in target for target in targets(jax.jit(python).lower(1.0).compile().as_text()))


def test_the_compiled_programs_call_nothing_of_the_host() -> None:
    assert len(alone()) == len(tied.REQUESTS) + ALONE  # compiled, so that it comes from the cache below
    for program, many in ((build_menu_jit, False), (build_menus_jit, True)):
        text = program.lower(*arguments(builder(), many)).compile().as_text()
        assert "while(" in text and targets(text) <= {"TopK"}, targets(text)


# --- one trace a bucket ----------------------------------------------------------------------------------------------

ENTRIES = 490  # of tools' words: 448 to 512 are one bucket
SYLLABLES = [first + second for first in "bdfgklmnprtvz" for second in "aeiou"]


def sized(size: int) -> MenuBuilder:
    """``size`` tools: words, keys, families, memory and requests differ from size to size, their buckets do not."""
    word = [SYLLABLES[size % 13] + syllable for syllable in SYLLABLES]
    extra = ENTRIES - 3 * size - 20  # tools whose description has a word of its own
    tools = [
        tool(
            f"{word[n % 41]}_{word[n // 41]}",
            [f"{word[50]}_{word[n % 7]}"] if n < 10 else [],
            [f"{word[50]}_{word[n % (size % 9 + 5)]}"] if n < 100 else [],
            family=word[51 + n % (size % 11 + 2)],
            about=word[42 + n % 5] if n < extra else "",
        )
        for n in range(size)
    ]
    library = Library(tuple(tools))
    used = [recorded(library, n, [n, n + 1, 2 * n], f"{word[n]} {word[42]}") for n in range(3 + size % 4)]
    return MenuBuilder(untrained(library, used, plan=replace(small_plan(K), candidates=40)))


def test_one_trace_serves_ten_libraries_of_a_bucket() -> None:
    traces = []

    @partial(jax.jit, compiler_options=QUICK)
    def counted(*given_arrays: Any) -> Menu:
        traces.append(1)
        return build_menu(*given_arrays)

    sizes, menus = (131, 132, 134, 138, 141, 144, 149, 153, 157, 160), []
    for size in sizes:
        made = sized(size)
        assert len(made.trained.indexed.arrays.valid) == bucket(size) == 160
        keys, words = made.trained.indexed.keys, made.trained.indexed.vocabulary.words
        for text, seen in (("", ()), (" ".join(words) * 50, keys[:1]), ("unheard 天气", keys), (words[-1], ())):
            request = made.trained.indexed.request(Request("r", text, state=dict.fromkeys(seen, 1)))
            menus.append(tuple(np.asarray(counted(made._plan(K), *made._learned, request).tool).tolist()))
        assert len(traces) == counted._cache_size() == 1, size
    assert len(set(menus)) > len(sizes)
    larger = sized(161)
    counted.trace(larger._plan(K), *larger._learned, larger.trained.indexed.request(Request("r", "")))
    assert len(traces) == 2


# --- the same menus everywhere ---------------------------------------------------------------------------------------


def test_the_menus_are_full_of_ties() -> None:
    """What the tests below stand on: equal tools stand on both sides of every border."""
    library, borders = tied.tied().indexed.library, []
    kinds = {n: one.description for n, one in enumerate(library) if n != tied.WIDE}
    assert all(list(kinds.values()).count(kind) == tied.COPIES for kind in set(kinds.values()))
    for menu in alone()[: len(tied.REQUESTS)]:
        inside, shown = set(menu.frontier.tolist()), menu.tool.tolist()
        assert len(inside) == 40 and len(set(shown)) == K and len({kinds[n] for n in shown}) < K
        cut = {kinds[n] for n in inside} & {kinds[n] for n in set(kinds) - inside}
        missed = {kinds[n] for n in shown} & {kinds[n] for n in inside - set(shown)}
        borders.append((len(cut), len(missed)))
    assert all(cut for cut, _ in borders) and sum(missed > 0 for _, missed in borders) > 4, borders


@pytest.mark.parametrize("name", MESHES)
def test_menus_of_four_devices_are_those_of_one(name: str) -> None:
    made = builder(name)
    assert len(made.trained.indexed.arrays.embedding.addressable_shards[0].data) == 128 // MESHES[name][0]
    assert_same(made.arrays_many(tied.REQUESTS, K), alone()[: len(tied.REQUESTS)])
    if name == "library":
        assert_same([made.arrays(request, K) for request in tied.REQUESTS], alone()[: len(tied.REQUESTS)])


def test_menus_one_by_one_are_those_at_once() -> None:
    assert_same(alone()[len(tied.REQUESTS) :], alone()[: ALONE])


def test_menus_without_jit_are_the_same() -> None:
    made = builder()
    plain = [build_menu(made._plan(K), *made._learned, made._request(request)) for request in tied.REQUESTS[:2]]
    assert_same(plain, alone()[:2])


def test_menus_of_two_processes_are_those_of_one(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tests" / "distributed_menus.py"), free_address(), "2"]
    cache = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    running = []
    try:
        for process in range(2):
            log = open(tmp_path / f"{process}.txt", "wb")
            arguments = [*command, str(process), str(tmp_path)]
            running.append(subprocess.Popen(arguments, env=environment(cache), stdout=log, stderr=log, cwd=ROOT))
            log.close()
        codes = [process.wait(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
        output = [(tmp_path / f"{process}.txt").read_text(errors="replace") for process in range(len(running))]
        print(*output, sep="\n")
    assert codes == [0, 0], output
    for process in range(2):
        assert_same(tied.read(tmp_path / f"{process}.npz"), alone()[: len(tied.REQUESTS)])


mesh_of = {name: menu_mesh(*shape) for name, shape in MESHES.items()} if len(jax.devices()) == 4 else {}
best = {(n, k): jax.jit(partial(best_tools, size=k, mesh=mesh)) for n, mesh in mesh_of.items() for k in (3, 20, 64)}
values = st.lists(st.sampled_from([-np.inf, -1.5, 0.0, 2.0]), min_size=64, max_size=64)


@given(values, st.sampled_from([3, 20, 64]))
def test_the_best_tools_of_shards_are_the_best_tools(numbers: list[float], size: int) -> None:
    array = np.array(numbers, np.float32)
    largest = np.argsort(-array, kind="stable")[:size]  # ties by tool id
    for name in mesh_of:
        value, chosen = best[name, size](array)
        np.testing.assert_array_equal(chosen, largest)
        np.testing.assert_array_equal(value, array[largest])
    np.testing.assert_array_equal(jax.lax.top_k(array, size)[1], largest)


# --- what devices tell one another -----------------------------------------------------------------------------------

TOOLS = 1 << 16


def grown(made: MenuBuilder, many: bool) -> tuple:
    """The arguments of the program as shapes alone, as if the library had 65,536 tools and eight postings a tool."""
    mesh, (plan, params, _, _, request) = made.mesh, arguments(made, many)

    def rows(tree: Any, names: tuple[str, ...], size: int) -> Any:
        larger = {name: np.empty((size, *getattr(tree, name).shape[1:]), getattr(tree, name).dtype) for name in names}
        return replace(tree, **larger)

    library = tied.tied().indexed.arrays
    by_tool = ("valid", "embedding", "family", "category", "name", "name_words", "inputs", "outputs", "outputs_known")
    postings = {name: rows(getattr(library, name), ("tool", "weight"), 8 * TOOLS) for name in ("lexical", "producers")}
    library = place_library(replace(rows(library, by_tool, TOOLS), **postings), mesh)
    memory = place_memory(rows(tied.tied().memory, ("slot",), TOOLS), mesh)
    cut = jax.sharding.NamedSharding(mesh, PartitionSpec(DATA) if many else PartitionSpec())
    request = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=cut), request)
    return plan, params, library, memory, request


def told(text: str) -> list[tuple[int, str]]:
    """The most numbers of one array that each collective of a compiled program hands on, and the line."""
    found = []
    for match in COLLECTIVE.finditer(text):
        sizes = [math.prod(map(int, filter(None, dims.split(",")))) for dims in re.findall(r"\[([\d,]*)\]", match[1])]
        found.append((max(sizes), match[0]))
    return found


@pytest.mark.parametrize(("name", "many"), [("library", False), ("both", True)])
def test_devices_never_tell_one_another_of_every_tool(name: str, many: bool) -> None:
    made = builder(name)
    program = made._many if many else made._one
    lines = told(program.lower(*grown(made, many)).compile(QUICK).as_text())
    assert any("all-reduce" in line for _, line in lines) and any("all-gather" in line for _, line in lines)
    requests = 8 // MESHES[name][1] if many else 1
    assert max(lines)[0] <= requests * 128 * 64 < TOOLS, max(lines)  # a round of postings: 128 blocks of 64


def test_an_array_told_whole_is_found() -> None:
    mesh = mesh_of["library"]
    cut = jax.sharding.NamedSharding(mesh, PartitionSpec(LIBRARY))
    whole = jax.jit(lambda x: jnp.sort(x)[:5], in_shardings=cut).lower(np.zeros(TOOLS, np.float32)).compile()
    assert max(told(whole.as_text()))[0] >= TOOLS


# --- threads and batches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one", "library"])
def test_eight_threads_build_what_one_builds(name: str) -> None:
    made = MenuBuilder(tied.tied(), builder(name).mesh)  # on a mesh, traced here by all at once

    def job(number: int) -> Any:
        request, kind = tied.REQUESTS[number % 7], number % 3
        if kind == 0:
            return made.build(request, K).tolist()
        if kind == 1:
            return made.explain(request, K)
        return [menu.tolist() for menu in made.build_many(tied.REQUESTS[number % 5 :], K)]

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(job, range(24)))
    assert together == [job(number) for number in range(24)]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 17])
def test_many_menus_are_each_as_one(count: int) -> None:
    """Requests number 9 and 16 show more keys than fit the usual bucket, so that number 8 to 15 take a larger one."""
    made = builder()
    keys = made.trained.indexed.keys
    shown = {8: keys[:128], 9: keys[:129], 16: keys}
    states = [dict.fromkeys(shown.get(n, keys[: n % 3]), 1) for n in range(count)]
    requests = [replace(tied.REQUESTS[n % 9], state=state) for n, state in enumerate(states)]
    lengths = [len(made.trained.indexed.request(request).visible) for request in requests]
    assert [n for n, length in enumerate(lengths) if length != 128] == [n for n in (9, 16) if n < count]
    several = made.build_many(requests, K)
    assert isinstance(several, list) and len(several) == count
    for menu, request in zip(several, requests):
        np.testing.assert_array_equal(menu, made.build(request, K))


def test_a_mesh_that_does_not_fit_is_named() -> None:
    with pytest.raises(DataError, match="data = 1 x library = 3: there are 4 devices"):
        menu_mesh(3)
    with pytest.raises(DataError, match="128 padded tools does not divide by 3 devices"):
        MenuBuilder(tied.tied(), menu_mesh(3, devices=jax.devices()[:3]))
