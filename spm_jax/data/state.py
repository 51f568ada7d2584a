"""Visible state F0 of a request: which fields are known before the first call (method.md section 3)."""

from __future__ import annotations

from collections.abc import Collection

from spm_jax.data.fields import canonical_key, split_words, singular
from spm_jax.data.schema import Request


def visible_keys(request: Request, known: Collection[str]) -> tuple[str, ...]:
    """F0(q): canonical keys that are visible, sorted."""
    keys = {canonical_key(name) for name in request.state}
    words = [singular(word) for word in split_words(request.text)]
    for length in range(1, 5):
        for start in range(len(words) - length + 1):
            key = "_".join(words[start : start + length])
            if key in known:
                keys.add(key)
    return tuple(sorted(keys - {""}))
