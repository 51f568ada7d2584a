"""BM25 over tool documents: plain, extended by training requests, and that with family siblings.

BM25 is the library ``bm25s`` (Lù 2024, arXiv 2407.03618) in its Lucene variant (Kamphuis et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import bm25s
import numpy as np

from spm_jax.baselines.scored import Scored
from spm_jax.data.schema import Library, Request
from spm_jax.text.documents import content_words, tool_document

K1, B = 1.5, 0.75  # BM25's usual constants, the defaults of bm25s
SIBLING = 0.5  # weight of the family's best score; of 0.3, 0.5, 0.7 and 1 no other did better on inner folds


@dataclass(frozen=True)
class Postings:
    """A BM25 index over N documents. Words of a request that no document holds count nothing."""

    index: bm25s.BM25 | None  # None where every document is empty
    vocabulary: dict[str, int]
    documents: int

    def scores(self, text: str) -> np.ndarray:
        """float32 [N]: BM25 of ``text`` against every document; a word that stands twice in it counts twice."""
        ids = [self.vocabulary[word] for word in content_words(text) if word in self.vocabulary]
        if self.index is None or not ids:
            return np.zeros(self.documents, np.float32)
        return self.index.get_scores_from_ids(ids)


def build_postings(documents: Sequence[Sequence[str]], k1: float = K1, b: float = B) -> Postings:
    """Index tokenised documents; 44,589 tool documents take about two seconds."""
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in words] for words in documents]
    if not vocabulary:
        return Postings(None, vocabulary, len(ids))
    index = bm25s.BM25(k1=k1, b=b, method="lucene")
    index.index((ids, vocabulary), create_empty_token=False, show_progress=False)
    return Postings(index, vocabulary, len(ids))


@lru_cache(maxsize=1)  # every text baseline of every fold starts from the same tool documents
def library_words(library: Library) -> tuple[tuple[str, ...], ...]:
    """The content words of every tool's document, which leaves the inputs out."""
    return tuple(tuple(content_words(tool_document(tool, inputs=False))) for tool in library)


@lru_cache(maxsize=1)
def library_postings(library: Library) -> Postings:
    """BM25 over the plain tool documents."""
    return build_postings(library_words(library))


def extended_postings(library: Library, train_requests: Sequence[Request]) -> Postings:
    """BM25 over tool documents to which the text of each training request that called the tool is appended.

    Document expansion as in evaluation.md's table; every interchangeable listing gets the text.
    """
    documents = [list(words) for words in library_words(library)]
    for request in train_requests:
        words = content_words(request.text)
        for tool in {tool for tools in library.gold(request) for tool in tools}:
            documents[tool].extend(words)
    return build_postings(documents)


def family_numbers(library: Library) -> np.ndarray:
    """int [N]: the family of each tool, numbered in order of first appearance."""
    families: dict[str, int] = {}
    return np.array([families.setdefault(tool.family, len(families)) for tool in library])


def fit_bm25(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """BM25 of the request against tool documents (family, name and their descriptions); no training data."""
    postings = library_postings(library)
    return Scored("BM25", lambda request: postings.scores(request.text))


def fit_extended_bm25(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """BM25 whose tool documents also hold the training requests that called the tool (evaluation.md, Baselines)."""
    postings = extended_postings(library, train_requests)
    return Scored("BM25 + training requests", lambda request: postings.scores(request.text))


def fit_sibling_bm25(library: Library, train_requests: Sequence[Request], seed: int = 0) -> Scored:
    """Extended BM25 plus half the best score of the tool's family, so that siblings of a good match rise with it.

    evaluation.md's "that + family siblings" names no formula; this is the best simple one found on inner folds.
    """
    postings = extended_postings(library, train_requests)
    family = family_numbers(library)

    def score(request: Request) -> np.ndarray:
        own = postings.scores(request.text)
        best = np.zeros(family.max() + 1, own.dtype)
        np.maximum.at(best, family, own)
        return own + SIBLING * best[family]

    return Scored("BM25 + training requests + family siblings", score)
