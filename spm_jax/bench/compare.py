"""Other ways to find 32 tools for a request, timed beside the menu: bm25s, exact dense search, and the peers."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spm_jax.bench import peers
from spm_jax.bench.timing import summary
from spm_jax.device_library import IndexedLibrary
from spm_jax.text.documents import tool_document
from spm_jax.text.lsa import Lsa

TOP = 32

Search = Callable[[str], Any]  # text of a request -> TOP tools


def bm25s_search(indexed: IndexedLibrary) -> Search:
    """bm25s as its README says, on the tool documents: tokenise with English stop words, retrieve the best 32."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    documents = [tool_document(tool) for tool in indexed.library]
    index = bm25s.BM25()
    index.index(bm25s.tokenize(documents, stopwords="en", show_progress=False), show_progress=False)
    top = min(TOP, len(documents))

    def search(text: str) -> np.ndarray:
        tokens = bm25s.tokenize(text, stopwords="en", show_progress=False)
        found, _ = index.retrieve(tokens, k=top, show_progress=False)
        return found[0]

    return search


def encoder(indexed: IndexedLibrary) -> Lsa:
    """The text encoder of the menu's dense score, at its full width."""
    arrays, vocabulary = indexed.arrays, indexed.vocabulary
    return Lsa(
        vocabulary,
        np.asarray(arrays.projection)[: len(vocabulary)],
        np.asarray(arrays.embedding)[: len(indexed.library)],
    )


def dense_search(lsa: Lsa) -> Search:
    """Exact search in NumPy with the embeddings and the request encoder of the menu."""
    top = min(TOP, len(lsa.document_embeddings))

    def search(text: str) -> np.ndarray:
        scores = lsa.document_embeddings @ lsa.encode([text])[0]
        best = np.argpartition(-scores, top - 1)[:top]
        return best[np.argsort(-scores[best], kind="stable")]

    return search


def time_peers(indexed: IndexedLibrary, texts: Sequence[str], runs: int, budget: float) -> dict[str, dict[str, Any]]:
    """Each peer that is installed: seconds of its index, of its first query, and its time a query.

    Queries stop after ``budget`` seconds, the first one is a warm-up. Where it alone takes longer than the budget it
    is the measurement, which a "note" says. A peer that fails has an "error" and no times.
    """
    lsa = encoder(indexed)
    found = {}
    for name, version in peers.installed().items():
        print(f"    {name} ...", file=sys.stderr, flush=True)
        try:
            times = _time_peer(peers.PEERS[name], indexed, lsa, texts, runs, budget)
        except Exception as error:  # other people's code: one that fails must not take the others' times along
            times = {"error": f"{type(error).__name__}: {error}"}
        found[name] = {"version": version, **times}
    return found


def _time_peer(
    build: Callable[..., Search], indexed: IndexedLibrary, lsa: Lsa, texts: Sequence[str], runs: int, budget: float
) -> dict[str, Any]:
    began = time.perf_counter()
    search = build(indexed.library, lsa.encode, TOP)
    index = time.perf_counter() - began
    first = _query(search, texts[0])
    result: dict[str, Any] = {"index_s": index, "first_query_ms": first * 1e3}
    if first > budget:
        return {**summary([first]), **result, "note": "one query without a warm-up, since it took more than the budget"}
    seconds: list[float] = []
    while not seconds or (len(seconds) < runs and sum(seconds) < budget):
        seconds.append(_query(search, texts[(1 + len(seconds)) % len(texts)]))
    return {**summary(seconds), **result}


def _query(search: Search, text: str) -> float:
    began = time.perf_counter()
    search(text)
    return time.perf_counter() - began
