"""The relation-aware Transformer block that retriever and reranker share (method.md section 5)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

FEED_FORWARD = 4  # width of the feed-forward layer over the width of the block
EXCLUDED = -1e9  # finite, so that a row in which every key is excluded has no NaN


class Block(nn.Module):
    """Pre-norm attention and GELU feed-forward; the attention logits take a ``bias``."""

    width: int
    heads: int

    @nn.compact
    def __call__(self, x: jax.Array, bias: jax.Array, valid: jax.Array) -> jax.Array:
        """``x`` [n, H], ``bias`` [heads, n, n], ``valid`` bool [n] -> [n, H]. Keys that are not valid are not seen."""
        depth = self.width // self.heads
        y = nn.LayerNorm(name="attention_norm")(x)
        query, key, value = (nn.DenseGeneral((self.heads, depth), name=name)(y) for name in ("query", "key", "value"))
        logits = jnp.einsum("qhd,khd->hqk", query, key) / jnp.sqrt(depth) + bias
        weights = jax.nn.softmax(jnp.where(valid[None, None, :], logits, EXCLUDED), axis=-1)
        mixed = jnp.einsum("hqk,khd->qhd", weights, value)
        x = x + nn.DenseGeneral(self.width, axis=(-2, -1), name="out")(mixed)
        y = nn.LayerNorm(name="feed_forward_norm")(x)
        y = nn.gelu(nn.Dense(FEED_FORWARD * self.width, name="up")(y))
        return x + nn.Dense(self.width, name="down")(y)


class Encoder(nn.Module):
    """[query | tool | features] -> H, a path-summary token in front, the blocks, a last norm."""

    width: int = 128
    heads: int = 4
    layers: int = 2

    @nn.compact
    def __call__(self, inputs: jax.Array, biases: jax.Array, valid: jax.Array) -> jax.Array:
        """``inputs`` [n, m], ``biases`` [layers, heads, n, n], ``valid`` [n] -> [n, H] without the summary token.

        Between the summary token and the tools the bias is 0.
        """
        x = nn.Dense(self.width, name="input")(inputs)
        summary = self.param("summary", nn.initializers.normal(0.02), (1, self.width))
        x = jnp.concatenate([summary, x])
        valid = jnp.concatenate([jnp.ones(1, bool), valid])
        biases = jnp.pad(biases, ((0, 0), (0, 0), (1, 0), (1, 0)))
        for layer in range(self.layers):
            x = Block(self.width, self.heads, name=f"block_{layer}")(x, biases[layer], valid)
        return nn.LayerNorm(name="norm")(x)[1:]
