"""The other tool selectors of ``spm bench``: each finds a matching tool, offline; all optional."""

from __future__ import annotations

import importlib
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from zlib import crc32

import numpy as np
import pytest

from spm_jax.bench import peers
from spm_jax.data.schema import Field, Library, Tool
from spm_jax.text.documents import content_words

THINGS = ("weather", "ticket", "invoice", "song", "football", "recipe", "hotel", "currency", "rocket", "garden")
ACTIONS = ("search", "compare", "cancel", "translate", "summarise")
MODULES = ("graph_tool_call", "langgraph", "langchain_core", "langgraph_bigtool", "llama_index", "semantic_router")


def fake_library() -> Library:
    """50 tools, each of one action on one thing; tool 5 * thing + action."""
    return Library(
        tuple(
            Tool(thing, f"{action}_{thing}", f"Use this to {action} one {thing}.", inputs=(Field(f"{thing}_id"),))
            for thing in THINGS
            for action in ACTIONS
        )
    )


def encode(texts: Sequence[str]) -> np.ndarray:
    """Hashed bags of words, float32 [texts, 4096], rows of length 1."""
    rows = np.zeros((len(texts), 4096), np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in content_words(text):
            row[crc32(word.encode()) % 4096] += 1
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@pytest.mark.parametrize("peer", peers.PEERS)
def test_a_peer_finds_the_matching_tool_without_a_network(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if peer not in peers.installed():
        pytest.skip(f"{peer} is not installed; pip install 'spm_jax[peers]'")

    def refuse(*arguments: object) -> None:
        raise AssertionError(f"{peer} opens a connection: {arguments[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    library = fake_library()
    search = peers.PEERS[peer](library, encode, 5)
    for thing, action in ((6, 2), (0, 1), (9, 4)):
        found = search(f"please {ACTIONS[action]} my {THINGS[thing]}")
        assert all(type(n) is int and 0 <= n < len(library) for n in found)
        assert len(set(found)) == len(found) <= 5
        assert found[0] == 5 * thing + action, [library[n].name for n in found]
    few = Library(library.tools[:3])
    assert 2 in peers.PEERS[peer](few, encode, 8)("cancel weather")


def test_installed_needs_no_package_and_imports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module and ``installed`` in a fresh process where every peer fails to import; then without their metadata."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({MODULES!r}))\n"
        "from spm_jax.bench import peers\n"
        "found = peers.installed()\n"
        "assert set(found) <= set(peers.PEERS) and all(found.values()), found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

    def only_one(distribution: str) -> str:
        if distribution == "llama-index-core":
            return "0.14.25"
        raise PackageNotFoundError(distribution)

    monkeypatch.setattr(peers, "version", only_one)
    assert peers.installed() == {"llama-index": "0.14.25"}


def test_every_peer_that_is_installed_can_be_imported() -> None:
    for peer in peers.installed():
        importlib.import_module({"llama-index": "llama_index.core"}.get(peer, peer.replace("-", "_")))


def test_names_fit_a_function_call_and_differ() -> None:
    tools = (
        Tool("a/b", "c"),
        Tool("a", "b c"),  # the same letters once cleaned
        Tool("a_b", "c_1"),  # the name that the second one would take
        Tool("x" * 70, "first"),
        Tool("x" * 70, "second"),
        Tool("天气", "查询"),
    )
    names = peers.tool_names(Library(tools))
    assert names[:3] == ["a_b_c", "a_b_c_1", "a_b_c_1_2"]
    assert names[3:5] == ["x" * 62 + "_3", "x" * 62 + "_4"]
    assert len(set(names)) == len(names) and all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
