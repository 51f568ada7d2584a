"""What each signal is worth: TRAJECT-Bench without it, in features, relations and decoders alike.

Run:  python -m experiments.sweep --config=experiments/configs/studies/signals.py --workdir=runs/signals \
          --out=experiments/results/signals.json
Expect: the table of docs/results.md; on two cores some three minutes a variant.
"""

from typing import Any

from ml_collections import ConfigDict

from experiments.configs import traject
from spm_jax.device_library import SIGNALS


def get_config() -> ConfigDict:
    """The main result's first fold, one seed, without baselines."""
    c = traject.get_config()
    c.split.run = (0,)
    c.seeds = (0,)
    c.baselines = False
    return c


def variants() -> dict[str, dict[str, Any]]:
    """The fields that each variant changes."""
    return {
        "all": {},
        **{f"without {signal}": {"off": (signal,)} for signal in SIGNALS},
        "fields that are alike": {"aliases": 0.6},
        "LSA for MiniLM": {"text.encoder": ""},
        "no bias by relation": {"model.relations": False},
    }
