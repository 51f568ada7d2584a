"""The embedded world: 2,000 tools, 900 requests, both networks at the published sizes, all baselines, one fold.

Run:  make quickstart      (or: python -m spm_jax.quickstart; under four minutes on two cores, with the set-up)
"""

from ml_collections import ConfigDict

from experiments.configs import default


def get_config() -> ConfigDict:
    """The default on the embedded world."""
    c = default.get_config()
    c.data.source = "world"
    c.data.count = 900
    # As in traject.py: few requests, so the networks do without the text embeddings.
    c.retriever.text_scale = c.reranker.text_scale = 0.0
    c.menu.hedge = 0.5
    c.retriever.epochs = 3
    return c
