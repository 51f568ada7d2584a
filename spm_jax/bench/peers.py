"""Other people's tool selectors over the same library, for ``spm bench`` (the extra ``[peers]``; issue 3).

Each is used as its own README or documentation says, in memory and without a network: tools go in by its public call
for a list of tools, a request by its public call for a search. Where a peer needs an embedding model it is given the
caller's ``encode`` in that library's own base class. A local encoder of a fraction of a millisecond stands where their
READMEs call a hosted model, and no agent or language model is run around the search: both favour the peers.

- graph-tool-call: ``ToolGraph.add_tools`` on OpenAI function schemas, then ``retrieve``, with ``tune_for_scale``, its
  preset for thousands of tools (half the time of its default at 16,384), and the embeddings that it asks for there.
- langgraph-bigtool: its default retrieval tool over LangGraph's ``InMemoryStore``.
- LlamaIndex: ``ObjectIndex.from_objects`` on function tools, over its simple vector store.
- semantic-router: a ``Route`` a tool with the tool's text as its one utterance, an ``IndexedRouter`` on ``LocalIndex``.

A peer's package is imported when its index is built, so this module imports without the extra.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any

import numpy as np

from spm_jax.data.schema import Library, Tool

Encode = Callable[[Sequence[str]], np.ndarray]  # texts -> float32 [texts, width], rows of length 1
Search = Callable[[str], list[int]]  # text of a request -> at most k tool ids (positions in the library), best first

# Key of PEERS -> name of its distribution, where that differs.
DISTRIBUTIONS = MappingProxyType({"llama-index": "llama-index-core"})
NAME_LIMIT = 64  # letters of a function name that the APIs behind these packages take
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def tool_names(library: Library) -> list[str]:
    """A name for each tool that every peer takes: family and name in [A-Za-z0-9_-], at most 64 letters, all different.

    A tool whose name is too long, or taken by an earlier tool, carries its position in the library at the end.
    """
    taken: set[str] = set()
    names = []
    for position, tool in enumerate(library):
        name = _UNFIT.sub("_", f"{tool.family}_{tool.name}")
        end = f"_{position}"
        while len(name) > NAME_LIMIT or name in taken:
            name = name[: NAME_LIMIT - len(end)] + end
            end += "_"  # only where an earlier tool is called just that
        taken.add(name)
        names.append(name)
    return names


def _description(tool: Tool) -> str:
    return tool.description or tool.family_description


def _embeddings(encode: Encode, texts: Sequence[str]) -> list[list[float]]:
    """``encode`` as these packages want it: lists of Python floats."""
    return encode(texts).tolist()


def _function_schema(name: str, tool: Tool) -> dict[str, Any]:
    """An OpenAI function tool, the form that graph-tool-call takes from a list."""
    properties = {f.name: {"type": f.type or "string", "description": f.description} for f in tool.inputs}
    parameters = {"type": "object", "properties": properties, "required": [f.name for f in tool.required]}
    function = {"name": name, "description": _description(tool), "parameters": parameters}
    return {"type": "function", "function": function}


def graph_tool_call(library: Library, encode: Encode, k: int) -> Search:
    """graph-tool-call: keywords, graph and embeddings, over the candidates that its preset for scale keeps."""
    from graph_tool_call import ToolGraph

    names = tool_names(library)
    position = {name: n for n, name in enumerate(names)}
    graph = ToolGraph()
    graph.add_tools(list(map(_function_schema, names, library)))
    graph.enable_embedding(lambda texts: _embeddings(encode, texts))
    graph.tune_for_scale()
    return lambda text: [position[tool.name] for tool in graph.retrieve(text, top_k=k)]


def langgraph_bigtool(library: Library, encode: Encode, k: int) -> Search:
    """langgraph-bigtool: the function behind its agent's ``retrieve_tools``, on LangGraph's in-memory store."""
    from langchain_core.embeddings import Embeddings
    from langgraph.store.memory import InMemoryStore
    from langgraph_bigtool.tools import get_default_retrieval_tool

    class Encoder(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return _embeddings(encode, texts)

        def embed_query(self, text: str) -> list[float]:
            return _embeddings(encode, [text])[0]

    width = encode([library[0].name]).shape[1]
    store = InMemoryStore(index={"embed": Encoder(), "dims": width, "fields": ["description"]})
    for position, (name, tool) in enumerate(zip(tool_names(library), library, strict=True)):
        store.put(("tools",), str(position), {"description": f"{name}: {_description(tool)}"})
    retrieve_tools, _ = get_default_retrieval_tool(("tools",), limit=k)
    return lambda text: [int(key) for key in retrieve_tools(text, store=store)]


def llama_index(library: Library, encode: Encode, k: int) -> Search:
    """LlamaIndex: the object retriever of an ``ObjectIndex`` of function tools, on its simple vector store."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.objects import ObjectIndex
    from llama_index.core.tools import FunctionTool

    class Encoder(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return _embeddings(encode, [query])[0]

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return _embeddings(encode, [text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return _embeddings(encode, texts)

    def never_called(arguments: dict) -> None:
        """Stands for the tool: the index holds what is called, this benchmark calls nothing."""

    names = tool_names(library)
    position = {name: n for n, name in enumerate(names)}
    tools = [
        FunctionTool.from_defaults(never_called, name=name, description=_description(tool))
        for name, tool in zip(names, library, strict=True)
    ]
    index = ObjectIndex.from_objects(tools, index_cls=VectorStoreIndex, embed_model=Encoder())
    retriever = index.as_retriever(similarity_top_k=k)
    return lambda text: [position[tool.metadata.name] for tool in retriever.retrieve(text)]


def semantic_router(library: Library, encode: Encode, k: int) -> Search:
    """semantic-router: the k best routes of an ``IndexedRouter`` with one route a tool."""
    from semantic_router import Route
    from semantic_router.encoders import DenseEncoder
    from semantic_router.index import LocalIndex
    from semantic_router.routers import IndexedRouter

    class Encoder(DenseEncoder):
        def __call__(self, docs: list[str]) -> list[list[float]]:
            return _embeddings(encode, docs)

    names = tool_names(library)
    position = {name: n for n, name in enumerate(names)}
    routes = [
        Route(name=name, utterances=[f"{name}: {_description(tool)}"])
        for name, tool in zip(names, library, strict=True)
    ]
    router = IndexedRouter(encoder=Encoder(name="local"), routes=routes, index=LocalIndex(), top_k=k)
    return lambda text: [position[choice.name] for choice in router(text, limit=k)]


# Builds an index of the library once and returns the search for at most k tools.
PEERS: Mapping[str, Callable[[Library, Encode, int], Search]] = MappingProxyType(
    {
        "graph-tool-call": graph_tool_call,
        "langgraph-bigtool": langgraph_bigtool,
        "llama-index": llama_index,
        "semantic-router": semantic_router,
    }
)


def installed() -> dict[str, str]:
    """Key of PEERS -> version, for those whose package is installed, in the order of PEERS; imports none of them."""
    found = {}
    for peer in PEERS:
        try:
            found[peer] = version(DISTRIBUTIONS.get(peer, peer))
        except PackageNotFoundError:
            continue
    return found
