"""What each loss is worth: TRAJECT-Bench with one term of retriever or reranker at weight 0.

Run:  python -m experiments.sweep --config=experiments/configs/studies/losses.py --workdir=runs/losses \
          --out=experiments/results/losses.json
Expect: the table of docs/results.md; on two cores some three minutes a variant.
"""

from typing import Any

from ml_collections import ConfigDict

from experiments.configs.studies import signals

RETRIEVER = ("path", "frontier", "hard", "boundary", "margin", "entry", "slot")
RERANKER = ("entry", "slot", "precedence", "membership", "path")


def get_config() -> ConfigDict:
    """As in the study of signals."""
    return signals.get_config()


def variants() -> dict[str, dict[str, Any]]:
    """The fields that each variant changes."""
    return {
        "all": {},
        **{f"retriever without {name}": {f"retriever.loss.{name}": 0.0} for name in RETRIEVER},
        **{f"reranker without {name}": {f"reranker.loss.{name}": 0.0} for name in RERANKER},
    }
