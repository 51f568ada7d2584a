"""TRAJECT-Bench over the whole ToolBench library, sequence split, five folds: the project's main result.

Run:  pip install '.[minilm]'
      python -m experiments.sweep --config=experiments/configs/traject.py --workdir=runs/traject \
          --out=experiments/results/traject.json
      (the committed table took the minutes of one core that stand beside it;
      one fold and seed: python -m spm_jax.main --config=experiments/configs/traject.py --workdir=DIR)
Expect: the table of README.md and experiments/results/traject.json.
"""

from ml_collections import ConfigDict

from experiments.configs import default


def get_config() -> ConfigDict:
    """The default on real data, all five folds."""
    c = default.get_config()
    c.data.source = "traject"
    c.data.library = "../shared/data/toolbench"
    c.data.requests = "../shared/data/traject_bench"
    c.split.run = (0, 1, 2, 3, 4)
    c.seeds = (0, 1, 2)
    c.text.encoder = "minilm"
    # 760 requests of 123 groups: shown the text embeddings, the networks learn requests by heart (inner folds).
    c.retriever.text_scale = c.reranker.text_scale = 0.0
    c.menu.hedge = 0.5
    c.retriever.epochs = 3
    return c
