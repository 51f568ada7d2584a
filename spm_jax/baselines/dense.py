"""Dense retrieval with the embedded encoder: latent semantic analysis of the library (Deerwester et al. 1990)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from spm_jax.baselines.scored import Scored
from spm_jax.data.schema import Library, Request
from spm_jax.text.documents import tool_document
from spm_jax.text.lsa import Lsa, fit_lsa

WIDTH = 128


@lru_cache(maxsize=1)  # fitted on the library alone, so the folds share it
def library_lsa(library: Library, seed: int) -> Lsa:
    """LSA of width 128 over the whole tool documents; 44,589 of them take about 20 s."""
    return fit_lsa([tool_document(tool) for tool in library], WIDTH, seed)


def fit_dense(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """Tools by the cosine of the request's and the tool's LSA embedding; no training data."""
    lsa = library_lsa(library, seed)
    return Scored("LSA", lambda request: lsa.document_embeddings @ lsa.encode([request.text])[0])
