"""The retriever: how likely a tool of the frontier is on the path, first on it, in which slot (method.md section 6)."""

from __future__ import annotations

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from spm_jax.models.layers import Encoder
from spm_jax.types import Frontier

RELATIONS = 5
NONE = -1  # between the summary token and the tools


class Retrieved(NamedTuple):
    """Outputs for a frontier of C tools. Padding has a membership of -1e9."""

    member: jax.Array  # float32 [C]: log-odds of being on the path
    entry: jax.Array  # float32 [C]: logits over the frontier
    slot: jax.Array  # float32 [C, S + 1]: logits over the 8 slots and "not on the path"


class Retriever(nn.Module):
    """0.416 M parameters at the published sizes. The membership corrects the frontier's log-odds."""

    width: int = 128
    heads: int = 4
    layers: int = 2
    slots: int = 8
    text_scale: float = 1.0  # of the text embeddings; 0 hides them, where few requests would be learned by heart
    relations: bool = True  # whether attention has a bias by relation
    compute: str = "float32"  # of the encoder: "float32" or "bfloat16"; the heads are float32

    @nn.compact
    def __call__(self, frontier: Frontier) -> Retrieved:
        """Scores of one frontier; add requests with ``vmap``."""
        query = jnp.broadcast_to(frontier.query, frontier.text.shape)
        scale = self.text_scale
        inputs = jnp.concatenate([scale * query, scale * frontier.text, frontier.node], axis=1)  # [C, 140]
        table = self.param("relation_bias", nn.initializers.zeros, (self.layers, self.heads, RELATIONS))
        relation = jnp.pad(frontier.relation, ((1, 0), (1, 0)), constant_values=NONE)  # [1 + C, 1 + C]

        def bias(row: jax.Array) -> jax.Array:  # table[row, relation], without the slow look-up
            return sum(jnp.where(relation == kind, row[kind], 0.0) for kind in range(RELATIONS))

        biases = [[bias(row * self.relations) for row in layer] for layer in table]
        h = Encoder(self.width, self.heads, self.layers, self.compute, name="encoder")(inputs, biases, frontier.valid)
        member = nn.Dense(1, kernel_init=nn.initializers.zeros, name="member")(h)[:, 0] + frontier.prior
        entry = nn.Dense(1, name="entry")(h)[:, 0]
        slot = nn.Dense(self.slots + 1, name="slot")(h)
        return Retrieved(jnp.where(frontier.valid, member, -1e9), jnp.where(frontier.valid, entry, -1e9), slot)
