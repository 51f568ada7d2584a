"""A few seconds of everything, for tests: a small world, one fold, small networks.

Run:  python -m spm_jax.main --config=experiments/configs/tiny.py --workdir=DIR      (about half a minute)
"""

from ml_collections import ConfigDict

from experiments.configs import default


def get_config() -> ConfigDict:
    """The default with everything small."""
    c = default.get_config()
    c.data.source = "world"
    c.data.tools, c.data.count = 200, 60
    c.text.search_width = 64
    c.model.width, c.model.layers = 32, 1
    c.retriever.epochs, c.retriever.inner_folds = 2, 2
    c.reranker.epochs = 2
    c.memory.folds = 4
    c.checkpoint_every, c.log_every = 2, 2
    c.baselines = False
    return c
