"""The reranker: the order of the menu's tools (method.md section 7)."""

from __future__ import annotations

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from spm_jax.models.layers import Encoder
from spm_jax.types import MenuInputs


class Reranked(NamedTuple):
    """Outputs for a menu of K tools."""

    member: jax.Array  # float32 [K]: log-odds of being on the path
    entry: jax.Array  # float32 [K]: logits over the menu
    slot: jax.Array  # float32 [K, S + 1]: logits over the 8 slots and "not on the path"
    precedence: jax.Array  # float32 [K, K]: logit of i before j; antisymmetric
    weights: jax.Array  # float32 [4]: w_e, w_s, w_p, w_x of the decoder, all above 0


class Reranker(nn.Module):
    """0.449 M parameters at the published sizes."""

    width: int = 128
    heads: int = 4
    layers: int = 2
    slots: int = 8
    text_scale: float = 1.0  # of the text embeddings; 0 hides them, where few requests would be learned by heart
    relations: bool = True  # whether attention has a bias by the pair features
    compute: str = "float32"  # of the encoder: "float32" or "bfloat16"; the heads are float32

    @nn.compact
    def __call__(self, menu: MenuInputs) -> Reranked:
        """Scores of one menu; add requests with ``vmap``."""
        query = jnp.broadcast_to(menu.query, menu.text.shape)
        scale = self.text_scale
        inputs = jnp.concatenate([scale * query, scale * menu.text, menu.node], axis=1)  # [K, 142]
        biases = nn.Dense(self.layers * self.heads, name="pair_bias")(menu.pair) * self.relations  # [K, K, layers*heads]
        biases = jnp.pad(jnp.moveaxis(biases, -1, 0), ((0, 0), (1, 0), (1, 0)))
        biases = biases.reshape(self.layers, self.heads, *biases.shape[1:])
        h = Encoder(self.width, self.heads, self.layers, self.compute, name="encoder")(inputs, biases, menu.valid)
        left = nn.Dense(self.width, use_bias=False, name="before")(h)
        right = nn.Dense(self.width, use_bias=False, name="after")(h)
        flow = left @ right.T / jnp.sqrt(self.width)
        weights = self.param("decoder_weights", nn.initializers.zeros, (4,))
        return Reranked(
            member=jnp.where(menu.valid, nn.Dense(1, name="member")(h)[:, 0], -1e9),
            entry=jnp.where(menu.valid, nn.Dense(1, name="entry")(h)[:, 0], -1e9),
            slot=nn.Dense(self.slots + 1, name="slot")(h),
            precedence=flow - flow.T,
            weights=jnp.exp(weights),
        )
