"""Constructors that follow schema flow: iterative dependency retrieval, graph fusion, look-ahead, topological sort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spm_jax.baselines.lexical import Postings, fit_sibling_bm25, library_postings
from spm_jax.baselines.order_only import MENU
from spm_jax.baselines.scored import filled, top
from spm_jax.baselines.template import producers_of
from spm_jax.data.schema import Library, Request
from spm_jax.data.state import visible_keys
from spm_jax.metrics import Schemas, build_schemas
from spm_jax.types import MenuConstructor

SEEDS = 8  # tools that text retrieval starts from
MAKERS = 3  # producers that are added for a missing input
DEPTH = 2  # producers of producers
BEAM, BRANCHES, CALLS = 8, 16, 8  # look-ahead: routes kept, continuations of each, calls of a route
COMMON = 256  # a key that more tools output than this is no one's need


@dataclass(frozen=True)
class Flow:
    """What tools need and who makes it."""

    documents: Postings
    schemas: Schemas
    producers: dict[str, tuple[int, ...]]

    def makers(self, tool: int, state: set[str], text: np.ndarray) -> list[int]:
        """The best producers of every missing input of ``tool`` by text score, input after input."""
        found: list[int] = []
        for key in sorted(self.schemas.inputs[tool] - state):
            makers = [maker for maker in self.producers.get(key, ()) if maker != tool]
            found += sorted(makers, key=lambda maker: (-text[maker], maker))[:MAKERS]
        return list(dict.fromkeys(found))


def build_flow(library: Library) -> Flow:
    """Producers by canonical key, keys that everybody outputs left out."""
    schemas = build_schemas(library)
    kept = {key: tools for key, tools in producers_of(schemas).items() if len(tools) <= COMMON}
    return Flow(library_postings(library), schemas, kept)


@dataclass(frozen=True)
class IterativeRetrieval:
    """Retrieves the target, then producers of what it lacks, then theirs."""

    flow: Flow
    name: str = "Iterative dependency retrieval"

    def build(self, request: Request, k: int) -> np.ndarray:
        """int [min(k, N)]: each seed behind the producers that were retrieved for it."""
        text = self.flow.documents.scores(request.text)
        state = set(visible_keys(request, self.flow.schemas.known))
        menu: list[int] = []

        def need(tool: int, depth: int) -> None:
            for maker in self.flow.makers(tool, state, text) if depth else ():
                if maker not in menu and text[maker] > 0:
                    need(maker, depth - 1)
            if tool not in menu:
                menu.append(tool)

        for seed in top(text, SEEDS).tolist():
            need(seed, DEPTH)
        return filled(menu, text, k)


def fit_iterative(library: Library, train_requests: Sequence[Request], seed: int = 0) -> IterativeRetrieval:
    """Dynamic tool dependency retrieval (Patel et al. 2025, arXiv 2512.17052), by schemas.

    Simplified: the paper conditions each retrieval on the plan so far with a trained encoder; here the next query is
    the set of inputs that are still missing, and BM25 chooses among their producers.
    """
    return IterativeRetrieval(build_flow(library))


@dataclass(frozen=True)
class GraphFusion:
    """Seeds by text, each followed by a depth-first walk along its dependencies."""

    flow: Flow
    name: str = "Graph RAG-Tool Fusion"

    def build(self, request: Request, k: int) -> np.ndarray:
        """int [min(k, N)]: seed, its dependencies depth first, next seed."""
        text = self.flow.documents.scores(request.text)
        state = set(visible_keys(request, self.flow.schemas.known))
        menu: dict[int, None] = {}

        def walk(tool: int, depth: int) -> None:
            menu.setdefault(tool)
            for maker in self.flow.makers(tool, state, text)[:MAKERS] if depth else ():
                if maker not in menu:
                    walk(maker, depth - 1)

        for seed in top(text, SEEDS).tolist():
            walk(seed, DEPTH)
        return filled(menu, text, k)


def fit_graph_fusion(library: Library, train_requests: Sequence[Request], seed: int = 0) -> GraphFusion:
    """Graph RAG-Tool Fusion (Lumer et al. 2025, arXiv 2502.07223): vector seeds plus dependency traversal.

    Simplified: seeds are BM25's, dependencies are exact schema flow (the paper's graph is written by hand), and there
    is no reranking.
    """
    return GraphFusion(build_flow(library))


@dataclass(frozen=True)
class LookAhead:
    """A beam of routes from the visible state: text relevance, and what a call makes possible."""

    flow: Flow
    name: str = "Look-ahead tree"

    def build(self, request: Request, k: int) -> np.ndarray:
        """int [min(k, N)]: the best route, then the tools of the other routes, then text order."""
        schemas, text = self.flow.schemas, self.flow.documents.scores(request.text)
        scaled = text / max(float(text.max(initial=0.0)), 1e-9)
        state = set(visible_keys(request, schemas.known))
        tools = dict.fromkeys(top(text, BRANCHES * 2).tolist())
        for tool in list(tools)[:SEEDS]:
            tools.update(dict.fromkeys(self.flow.makers(tool, state, text)))
        wanted = {key for tool in list(tools)[:SEEDS] for key in schemas.inputs[tool]}
        beam: list[tuple[float, tuple[int, ...], frozenset[str]]] = [(0.0, (), frozenset(state))]
        for _ in range(CALLS):
            grown = list(beam)
            for value, route, seen in beam:
                ready = [tool for tool in tools if tool not in route and schemas.inputs[tool] <= seen]
                gain = {t: scaled[t] + 0.5 * len((schemas.outputs[t] & wanted) - seen) / 4 for t in ready}
                for tool in sorted(ready, key=lambda t: (-gain[t], t))[:BRANCHES]:
                    grown.append((value + gain[tool], (*route, tool), seen | schemas.outputs[tool]))
            beam = sorted(grown, key=lambda entry: (-entry[0], entry[1]))[:BEAM]
        menu = [tool for _, route, _ in beam for tool in route]
        return filled(menu, text, k)


def fit_look_ahead(library: Library, train_requests: Sequence[Request], seed: int = 0) -> LookAhead:
    """ToolTree's search (arXiv 2603.12740) without its executor: routes are grown by what the state allows.

    Simplified: no language model scores a branch and nothing is executed, so a beam over text relevance and newly made
    inputs takes the place of Monte-Carlo tree search with pre- and post-evaluation.
    """
    return LookAhead(build_flow(library))


@dataclass(frozen=True)
class Sorted:
    """Another constructor's first 32 tools, producers before consumers; what comes after them keeps its place."""

    inner: MenuConstructor
    schemas: Schemas
    name: str

    def build(self, request: Request, k: int) -> np.ndarray:
        """int [min(k, N)]: at each place the earliest tool that waits for no other; in a cycle the earliest."""
        ranked = self.inner.build(request, k)
        menu = ranked[:MENU].tolist()
        feeds = {
            (i, j): bool(self.schemas.outputs[i] & self.schemas.inputs[j]) for i in menu for j in menu if i != j
        }
        waiting, shown = list(menu), []
        while waiting:
            free = [j for j in waiting if not any(feeds[i, j] and not feeds[j, i] for i in waiting if i != j)]
            shown.append((free or waiting)[0])
            waiting.remove(shown[-1])
        return np.concatenate([np.array(shown, np.int64), ranked[MENU:]])


def fit_sorted(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Sorted:
    """The strongest baseline's menu in topological order of schema flow; ties and cycles keep its own order."""
    inner = fit_sibling_bm25(library, train_requests, seed=seed)
    return Sorted(inner, build_schemas(library), f"{inner.name}, sorted by flow")
