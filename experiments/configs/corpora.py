"""Corpora that bring their own library, five folds over call sequences, one seed, menus of ten tools.

Run:  pip install '.[minilm]'
      python -m experiments.sweep --config=experiments/configs/corpora.py:NAME --workdir=runs/NAME \
          --out=experiments/results/NAME.json
      with NAME one of nestools, seal_tools, nestful, restbench
Expect: the table of docs/results.md, in the minutes of two cores that stand beside it.
"""

from ml_collections import ConfigDict

from experiments.configs import default


def get_config(name: str = "nestools") -> ConfigDict:
    """The default on the corpus ``name``, beside this checkout in ../shared/data."""
    c = default.get_config()
    c.data.source = name
    c.data.library = f"../shared/data/{name}"
    c.split.run = (0, 1, 2, 3, 4)
    c.seeds = (0,)
    c.text.encoder = "minilm"
    c.menu.size = 10
    c.menu.hedge = 0.5
    c.retriever.text_scale = c.reranker.text_scale = 0.0
    c.retriever.epochs = 3
    return c
