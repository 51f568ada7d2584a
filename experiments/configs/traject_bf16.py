"""TRAJECT-Bench as in traject.py, with the encoders of both networks in bfloat16: what it costs in every metric.

Run:  python -m spm_jax.main --config=experiments/configs/traject_bf16.py --workdir=runs/traject_bf16 \
          --out=experiments/results/traject_bf16.json
Expect: the row of docs/performance.md.
"""

from ml_collections import ConfigDict

from experiments.configs import traject


def get_config() -> ConfigDict:
    """The main result in bfloat16, without the baselines, which have no networks."""
    c = traject.get_config()
    c.model.compute = "bfloat16"
    c.baselines = False
    return c
