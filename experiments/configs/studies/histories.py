"""How much documentation and how many, and how clean, training paths State-Path needs, trained anew on each.

Run:  python -m experiments.sweep --config=experiments/configs/studies/histories.py --workdir=runs/histories \
          --out=experiments/results/histories.json
Expect: the table of docs/results.md; on two cores some three minutes a variant. What the same weights do with fewer
paths, and with none, is measured by ``python -m experiments.served histories``.
"""

from typing import Any

from ml_collections import ConfigDict

from experiments.configs.studies import signals


def get_config() -> ConfigDict:
    """As in the study of signals."""
    return signals.get_config()


def variants() -> dict[str, dict[str, Any]]:
    """The fields that each variant changes."""
    return {
        "all": {},
        **{f"{share:.0%} of the groups": {"histories.share": share} for share in (0.5, 0.25, 0.1)},
        **{f"a wrong step in {share:.0%}": {"histories.corrupted": share} for share in (0.25, 0.5, 1.0)},
        "names only": {"data.documentation": "names"},
        "names and fields": {"data.documentation": "fields"},
    }
