"""The relation-aware Transformer block that retriever and reranker share (method.md section 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

FEED_FORWARD = 4  # width of the feed-forward layer over the width of the block
EXCLUDED = -1e9  # finite, so that a row in which every key is excluded has no NaN


class Block(nn.Module):
    """Pre-norm attention and GELU feed-forward; the attention logits take a ``bias``."""

    width: int
    heads: int
    compute: str = "float32"  # dtype of the matrix products; sums of softmax, norms and residuals stay float32

    @nn.compact
    def __call__(self, x: jax.Array, biases: Sequence[jax.Array], valid: jax.Array) -> jax.Array:
        """``x`` [n, H], a bias [n, n] a head, ``valid`` bool [n] -> [n, H]. Keys that are not valid are not seen.

        Heads are a Python loop: four matrix products of two axes take a CPU half the time of one of three axes.
        """
        depth = self.width // self.heads
        dense = partial(nn.Dense, dtype=self.compute)
        general = partial(nn.DenseGeneral, dtype=self.compute)
        y = nn.LayerNorm(name="attention_norm")(x)
        query, key, value = (general((self.heads, depth), name=name)(y) for name in ("query", "key", "value"))

        def attend(head: int) -> jax.Array:
            logits = (query[:, head] @ key[:, head].T).astype(jnp.float32) / math.sqrt(depth) + biases[head]
            weights = jax.nn.softmax(jnp.where(valid[None, :], logits, EXCLUDED), axis=-1)
            return weights.astype(self.compute) @ value[:, head]

        mixed = jnp.stack([attend(head) for head in range(self.heads)], axis=1)
        x = x + general(self.width, axis=(-2, -1), name="out")(mixed).astype(jnp.float32)
        y = nn.LayerNorm(name="feed_forward_norm")(x)
        y = nn.gelu(dense(FEED_FORWARD * self.width, name="up")(y))
        return x + dense(self.width, name="down")(y).astype(jnp.float32)


class Encoder(nn.Module):
    """[query | tool | features] -> H, a path-summary token in front, the blocks, a last norm."""

    width: int = 128
    heads: int = 4
    layers: int = 2
    compute: str = "float32"

    @nn.compact
    def __call__(self, inputs: jax.Array, biases: Sequence[Sequence[jax.Array]], valid: jax.Array) -> jax.Array:
        """``inputs`` [n, m], a bias [1 + n, 1 + n] a layer and head, ``valid`` [n] -> [n, H] without the summary token.

        The summary token comes first; between it and the tools the bias is to be 0.
        """
        x = nn.Dense(self.width, dtype=self.compute, name="input")(inputs).astype(jnp.float32)
        summary = self.param("summary", nn.initializers.normal(0.02), (1, self.width))
        x = jnp.concatenate([summary, x])
        valid = jnp.concatenate([jnp.ones(1, bool), valid])
        for layer in range(self.layers):
            x = Block(self.width, self.heads, self.compute, name=f"block_{layer}")(x, biases[layer], valid)
        return nn.LayerNorm(name="norm")(x)[1:]
