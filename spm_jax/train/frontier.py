"""Fits the weights of the frontier's two passes by logistic regression on training requests (method.md section 4)."""

from __future__ import annotations

import numpy as np

from spm_jax.frontier import Anchor, FrontierWeights, Propagated

POOL = 512  # tools of a request that the fit looks at: the best by the weights before it, and the gold ones
PENALTY = 10.0  # L2 on the weights of standardised features
NEWTON_STEPS = 12

START = {
    Anchor.LEXICAL: 3.0,
    Anchor.DENSE: 1.0,
    Anchor.MEMORY: 6.0,
    Anchor.POPULARITY: 1.0,
    Anchor.FAMILY_LEXICAL: 1.0,
    Anchor.WITHIN_USED: 1.0,
    Anchor.WITHIN_MEMORY: 3.0,
    Anchor.ONE: -6.0,
}  # what the first pool is drawn with; also what serves where nothing was ever trained


def start_weights() -> FrontierWeights:
    """Weights before any fit: text and memory, nothing propagated but a little along paths and flow."""
    anchor = np.zeros(len(Anchor), np.float32)
    for feature, weight in START.items():
        anchor[feature] = weight
    added = np.zeros(len(Propagated), np.float32)
    added[Propagated.ANCHOR - len(Anchor)] = 1.0
    added[Propagated.NEIGHBOUR - len(Anchor)] = 3.0
    added[Propagated.PRODUCER - len(Anchor)] = 0.3
    return FrontierWeights(anchor, np.concatenate([np.zeros_like(anchor), added]))


def fit_logistic(features: np.ndarray, labels: np.ndarray, penalty: float = PENALTY) -> np.ndarray:
    """float32 [features]: logistic regression of ``labels`` bool [n] on ``features`` [n, m] by Newton's method.

    Features are standardised inside (a constant column is the intercept and carries no penalty); the weights returned
    are for the features as given.
    """
    x = features.astype(np.float64)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    constant = scale < 1e-9
    scale[constant] = 1.0
    one = np.flatnonzero(constant & (mean != 0))
    z = (x - np.where(constant, 0, mean)) / scale
    ridge = np.where(constant, 1e-6, penalty)
    w = np.zeros(x.shape[1])
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(-np.clip(z @ w, -30, 30)))
        gradient = z.T @ (p - labels) + ridge * w
        hessian = (z * (p * (1 - p))[:, None]).T @ z + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        w -= step * min(1.0, 4.0 / max(1e-9, np.abs(step).max()))  # a long step from a flat start would overshoot
    weights = w / scale
    if len(one):
        shift = np.sum((w / scale * mean)[~constant])
        weights[one[0]] -= shift / mean[one[0]]
    return weights.astype(np.float32)
