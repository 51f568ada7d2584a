"""The embedded world: a seeded library of tools, requests and trajectories; any number of each, no download.

Products (families of 3-10 tools) sell operations on typed entities (order, flight, patient, ...) in *markets*,
segments of eight domains. Users of a market return to a small pool of its tools, along paths that partly repeat; some
chains hold tools that no other group uses. A chain is drawn forward, so that every call can run: what it needs is
visible in the request or made by an earlier call. People name the target in the words of its documentation, the rest
in other words or not at all, while the same operation sold by other products, and documents that carry the spoken
words, are there to mislead. Documentation is as uneven as in the field: most say nothing of their outputs, some
call every input optional, and keys go by other names.

The numbers behind all that were set so that the facts of ``spm_jax.facts`` come close to those measured on
TRAJECT-Bench over the ToolBench library (evaluation.md); never by how a method of this package fares.

Not modelled: failing calls and retries, tools that are wrong about their own schema, languages other than English,
requests with several targets or none, branching plans, junk listings, text longer than a paragraph, values that carry
meaning (a city that exists only in some tools), tools that change or disappear, users with a history. Phrases come
from templates: text differs by choice of phrase, not by grammar, so that a learned text encoder has less to gain than
on real requests. Difficulty is calibrated from about 2,000 to 16,000 tools; outside that range the structure holds,
the facts drift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spm_jax.data.schema import DataError, Library, Request
from spm_jax.data.synthetic_library import make_catalogue
from spm_jax.data.synthetic_requests import make_requests


@dataclass(frozen=True, slots=True)
class World:
    """A generated world; a menu constructor sees only ``library`` and ``requests``.

    ``needs`` and ``makes`` (a tuple a tool) and ``visible`` (one a request) are the hidden truth in canonical keys, for
    tests and analysis.
    """

    library: Library
    requests: tuple[Request, ...]
    needs: tuple[tuple[str, ...], ...]
    makes: tuple[tuple[str, ...], ...]
    visible: tuple[tuple[str, ...], ...]


def make_world(seed: int, n_tools: int, n_requests: int) -> World:
    """The world of a seed: the same on every machine and in every run.

    Args:
        seed: any non-negative integer.
        n_tools: exact number of tools, at least 100.
        n_requests: exact number of requests, at least 1; groups hold five (the last maybe fewer).

    Raises:
        DataError: a number out of range, or more groups than the markets have different chains for.
    """
    for name, value, least in (("seed", seed, 0), ("n_tools", n_tools, 100), ("n_requests", n_requests, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DataError(f"{name}: expected an integer of at least {least}, got {value!r}")
    tool_rng, request_rng = (np.random.Generator(np.random.PCG64([seed, part])) for part in (0, 1))
    catalogue = make_catalogue(tool_rng, n_tools)
    requests, visible = make_requests(request_rng, catalogue, n_requests)
    return World(
        catalogue.library(),
        requests,
        tuple(operation.needs for operation in catalogue.operation),
        tuple(operation.makes for operation in catalogue.operation),
        visible,
    )
