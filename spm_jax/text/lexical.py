"""BM25 as flat arrays, so that lexical search is part of the compiled program (method.md section 4).

Postings are stored word after word, each list by falling impact. The program adds the lists of a request's words up
over the library. A list of more than ``LONGEST`` (a word that most tools share, which tells little) is cut to its best,
so that a request costs at most so much a word in a library of any size.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from spm_jax.ragged import fold_lists
from spm_jax.text.vocabulary import Vocabulary
from spm_jax.types import Postings

K1, B = 1.5, 0.75  # BM25's usual constants
LONGEST = 4096


def make_postings(word: np.ndarray, tool: np.ndarray, weight: np.ndarray, words: int, longest: int) -> Postings:
    """Postings from entries [P], any order. Lists are sorted by falling weight, ties by id, and cut to ``longest``."""
    order = np.lexsort((tool, -weight, word))
    word, tool, weight = word[order], tool[order], weight[order]
    length = np.bincount(word, minlength=words)
    first = np.cumsum(length) - length
    kept = np.arange(len(word)) - first[word] < longest
    length = np.minimum(length, longest)
    return Postings(
        start=(np.cumsum(length) - length).astype(np.int32),
        length=length.astype(np.int32),
        tool=tool[kept].astype(np.int32),
        weight=weight[kept].astype(np.float32),
    )


def bm25_postings(words: Sequence[Sequence[str]], vocabulary: Vocabulary, longest: int = LONGEST) -> Postings:
    """BM25 impacts (Lucene's form, as in bm25s) of N tokenised documents."""
    counts = vocabulary.count(words).tocoo()
    tool, word = counts.coords
    size = np.bincount(tool, weights=counts.data, minlength=len(words))
    norm = 1 - B + B * size / max(size.mean(), 1e-9)
    impact = vocabulary.idf[word] * counts.data / (counts.data + K1 * norm[tool])
    return make_postings(word, tool, impact, len(vocabulary), longest)


def name_postings(names: Sequence[Sequence[str]], vocabulary: Vocabulary, longest: int = LONGEST) -> Postings:
    """The words of N tokenised names, each with its share of the idf of the name it stands in.

    So a sum over the words of a request is the share of a name that the request says, 0 to 1. A word of more than
    ``longest`` names says nothing and belongs to none.
    """
    tool, word = vocabulary.count(names).tocoo().coords
    told = np.bincount(word, minlength=len(vocabulary))[word] <= longest
    tool, word = tool[told], word[told]
    weight = vocabulary.idf[word]
    total = np.bincount(tool, weights=weight, minlength=len(names))
    return make_postings(word, tool, weight / np.maximum(total[tool], 1e-9), len(vocabulary), longest)


def gather_scores(postings: Postings, ids: jax.Array, weight: jax.Array, size: int) -> jax.Array:
    """float32 [size]: the sum over ``ids`` [W] (-1 = none) of ``weight`` [W] times the posting's weight, by tool."""

    def add(scores: jax.Array, row: jax.Array, place: jax.Array, there: jax.Array) -> jax.Array:
        tool = jnp.where(there, postings.tool[place], size)  # out of range: dropped
        return scores.at[tool].add(weight[row] * postings.weight[place], mode="drop")

    weight, length = jnp.asarray(weight), jnp.where(ids >= 0, postings.length[ids], 0)
    return fold_lists(postings.start[ids], length, add, jnp.zeros(size, jnp.float32))
