"""Array aliases, axis letters and the seams (Protocols) of the package.

Axis letters: B requests, N library, C frontier (128), K menu (32), P ordered prefix (8), S path slots (8), D text (64),
H width (128), I and O key slots of a tool, V visible keys, W request tokens, R training requests, T calls of a chain.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from spm_jax.data.schema import Request


@runtime_checkable
class MenuConstructor(Protocol):
    """Anything that builds a menu: State-Path and every baseline."""

    name: str

    def build(self, request: Request, k: int) -> np.ndarray:
        """The ``min(k, N)`` distinct tool ids of the menu, in the order in which they are shown."""
        ...
