"""The embedded world: 2,000 tools, 600 requests, both networks at the published sizes, all baselines, one fold.

Run:  make quickstart      (or: python -m spm_jax.quickstart; under four minutes on two cores, with the set-up)
"""

from ml_collections import ConfigDict

from experiments.configs import default


def get_config() -> ConfigDict:
    """The default on the embedded world."""
    c = default.get_config()
    c.data.source = "world"
    return c
