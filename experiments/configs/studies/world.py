"""The smallest study, which CI runs: order and coverage on the embedded world, compared with the committed table.

Run:  python -m experiments.sweep --config=experiments/configs/studies/world.py --workdir=runs/world \
          --out=experiments/results/world.json
Expect: experiments/results/world.json within rounding; about a minute on two cores.
"""

from typing import Any

from ml_collections import ConfigDict

from experiments.configs import tiny


def get_config() -> ConfigDict:
    """The tiny world with more requests and epochs, one fold and seed, without baselines."""
    c = tiny.get_config()
    c.data.count = 200
    c.retriever.epochs = c.reranker.epochs = 6
    c.checkpoint_every = c.log_every = 1_000
    c.seeds = (0,)
    c.baselines = False
    return c


def variants() -> dict[str, dict[str, Any]]:
    """The fields that each variant changes."""
    return {
        "all": {},
        "without flow": {"off": ("flow",)},
    }
