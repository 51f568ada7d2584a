"""Fits the frontier's second pass on training requests (method.md section 4).

The fit minimises, over path tools i of every request, softplus(b - s_i), where b is the 64th best score off the path: a
path tool must stay within the frontier, and how far others are ahead does not matter. Logistic regression, the obvious
choice, loses cold tools, since the many easy ones rule it. Boundary and penalty were chosen on inner folds.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from spm_jax.frontier import Anchor, FrontierWeights, Propagated

POOL = 1536  # tools of a request that the fit looks at: the best by the weights before it
BOUNDARY = 64
PENALTY = 100.0  # L2 on the distance to the start, per standardised feature, against a sum over path tools
STEPS = 60

START = {
    Anchor.LEXICAL: 3.0,
    Anchor.DENSE: 1.0,
    Anchor.MEMORY: 6.0,
    Anchor.POPULARITY: 1.0,
    Anchor.FAMILY_LEXICAL: 1.0,
    Anchor.WITHIN_USED: 1.0,
    Anchor.WITHIN_MEMORY: 3.0,
    Anchor.ONE: -6.0,
}  # set before any measurement: text, memory, and a word for families that training used
START_PROPAGATED = {Propagated.NEIGHBOUR: 3.0, Propagated.PRODUCER: 0.3}


def start_weights() -> FrontierWeights:
    """The weights of the first pass, and those of the second before it is fitted."""
    propagated = np.zeros(len(Anchor) + len(Propagated), np.float32)
    for feature, weight in (START | START_PROPAGATED).items():
        propagated[feature] = weight
    return FrontierWeights(propagated[: len(Anchor)].copy(), propagated)


def _loss(scores: np.ndarray, features: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Sum of the boundary losses and its gradient by the weights, of ``scores`` [R, P] and ``features`` [R, P, m]."""
    off = np.where(labels, -np.inf, scores)
    place = min(BOUNDARY, off.shape[1]) - 1
    last = np.argpartition(-off, place, axis=1)[:, place]
    rows = np.arange(len(off))
    margin = np.where(labels, np.clip(off[rows, last][:, None] - scores, -30, 30), -30.0)
    slope = np.where(labels, 1 / (1 + np.exp(-margin)), 0.0)
    gradient = slope.sum(axis=1) @ features[rows, last] - np.einsum("rp,rpm->m", slope, features)
    return float(np.sum(np.logaddexp(0, margin)[labels])), gradient


def fit_frontier(features: np.ndarray, labels: np.ndarray, start: FrontierWeights) -> FrontierWeights:
    """Weights of the second pass from pools of R requests: ``features`` [R, P, 17], ``labels`` bool [R, P].

    The scores are then scaled to log-odds by logistic regression on the pools. With no path tool, ``start``.
    """
    if not labels.any():
        return start
    scale = features.std(axis=(0, 1)).astype(np.float64)
    live = scale > 1e-6
    scaled = features[:, :, live] / scale[live].astype(np.float32)
    origin = start.propagated[live] * scale[live]

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = _loss(scaled @ weights.astype(np.float32), scaled, labels)
        away = weights - origin
        return loss + PENALTY * float(away @ away), gradient.astype(np.float64) + 2 * PENALTY * away

    best = minimize(objective, origin, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    weights = np.zeros(features.shape[2])
    weights[live] = best / scale[live]
    slope, shift = _log_odds(features @ weights.astype(np.float32), labels)
    weights *= slope
    weights[Anchor.ONE] += shift
    return FrontierWeights(start.anchor, weights.astype(np.float32))


def _log_odds(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """(a, b) so that a * score + b is the log-odds of a label, a above 0: Platt's scaling by Newton's method."""
    x = np.stack([scores.ravel().astype(np.float64), np.ones(scores.size)], axis=1)
    y = labels.ravel()
    centre, spread = x[:, 0].mean(), max(x[:, 0].std(), 1e-9)
    x[:, 0] = (x[:, 0] - centre) / spread
    w = np.array([1.0, np.log(max(y.mean(), 1e-6))])
    for _ in range(20):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + 1e-3 * np.eye(2)
        w -= np.clip(np.linalg.solve(curvature, x.T @ (p - y)), -2, 2)
    slope = max(w[0], 1e-3) / spread
    return slope, w[1] - slope * centre
