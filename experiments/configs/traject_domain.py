"""TRAJECT-Bench with one domain left out at a time: what transfers where path memory cannot help.

Run:  python -m experiments.sweep --config=experiments/configs/traject_domain.py --workdir=runs/traject_domain \
          --out=experiments/results/traject_domain.json
Expect: the table of docs/results.md, in the minutes that stand beside it.
"""

from ml_collections import ConfigDict

from experiments.configs import traject


def get_config() -> ConfigDict:
    """The main result over seven domains, one seed."""
    c = traject.get_config()
    c.split.kind = "domain"
    c.split.run = (0, 1, 2, 3, 4, 5, 6)
    c.seeds = (0,)
    c.memory.held_out = "domain"  # or the networks trust paths, which a new domain does not have
    return c
