"""TRAJECT-Bench over the whole ToolBench library, first fold only: CI fails where State-Path does not beat BM25.

Run:  python -m spm_jax.main --config=experiments/configs/traject_ci.py --workdir=DIR      (a few minutes)
Expect: exit code 0; the baseline that must be beaten is BM25 over documents extended by training requests.
"""

from ml_collections import ConfigDict

from experiments.configs import traject


def get_config() -> ConfigDict:
    """One fold of the main result, with fewer out-of-fold passes."""
    c = traject.get_config()
    c.split.run = (0,)
    c.text.encoder = ""  # embedding the library would take CI longer than all else
    c.retriever.inner_folds = 2
    c.memory.folds = 20
    c.must_beat = "BM25 + training requests"
    return c
