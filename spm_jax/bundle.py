"""A trained menu builder as one folder: parameters, statistics, vocabularies, text encoder, library, config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from flax.traverse_util import unflatten_dict

from spm_jax.data.aliases import Aliases
from spm_jax.data.jsonl import fingerprint, read_requests, write_library, write_requests
from spm_jax.data.schema import DataError, Request
from spm_jax.data.stored import StoredLibrary
from spm_jax.device_library import IndexedLibrary
from spm_jax.frontier import FrontierWeights
from spm_jax.menu import Params, Plan, initial
from spm_jax.models.reranker import Reranker
from spm_jax.models.retriever import Retriever
from spm_jax.text.bert import load_encoder
from spm_jax.text.vocabulary import Vocabulary
from spm_jax.train.checkpoint import CheckpointError, fill, host_leaves, load_bundle, save_bundle
from spm_jax.types import DeviceLibrary, Memory, Postings, TextEncoder

LIBRARY, REQUESTS = "library.jsonl", "requests.jsonl"
COMPUTE = ("float32", "bfloat16")


@dataclass(frozen=True)
class TrainedMenus:
    """Everything that a menu needs."""

    plan: Plan
    params: Params
    indexed: IndexedLibrary
    memory: Memory
    requests: tuple[Request, ...]  # what it was trained on
    meta: dict[str, Any]  # what else was written with it: config, versions


def make_plan(
    *,
    candidates: int,
    menu: int,
    prefix: int,
    text: int,
    producers_first: bool,
    coverage: float,
    redundancy: float,
    hedge: float,
    width: int,
    heads: int,
    layers: int,
    text_scale: Sequence[float],
    order: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    relations: bool = True,
    compute: str = "float32",
) -> Plan:
    """A plan from plain numbers, the sizes of both networks included; ``text_scale`` is of retriever and reranker.

    ``order`` multiplies the learned weights of the order decoder's four terms (entry, slot, precedence, executable).

    ``compute`` is the dtype of their matrix products. Raises DataError where it is not one of ``COMPUTE``.
    """
    if compute not in COMPUTE:
        raise DataError(f"compute = {compute!r}: expected one of {', '.join(COMPUTE)}")
    if len(order) != 4:
        raise DataError(f"order = {tuple(order)!r}: expected four numbers: entry, slot, precedence, executable")
    sizes = {"width": width, "heads": heads, "layers": layers, "relations": relations, "compute": compute}
    retriever, reranker = (model(**sizes, text_scale=scale) for model, scale in zip((Retriever, Reranker), text_scale))
    return Plan(
        coverage=coverage,
        redundancy=redundancy,
        hedge=hedge,
        order=np.array(order, np.float32),
        candidates=candidates,
        menu=menu,
        prefix=prefix,
        text=text,
        producers_first=producers_first,
        retriever=retriever,
        reranker=reranker,
    )


def plan_numbers(plan: Plan) -> dict[str, Any]:
    """The arguments of ``make_plan`` that give ``plan``, as JSON values."""
    model = plan.retriever
    return {
        "candidates": plan.candidates,
        "menu": plan.menu,
        "prefix": plan.prefix,
        "text": plan.text,
        "producers_first": plan.producers_first,
        "coverage": float(plan.coverage),
        "redundancy": float(plan.redundancy),
        "hedge": float(plan.hedge),
        "order": np.asarray(plan.order).tolist(),
        "width": model.width,
        "heads": model.heads,
        "layers": model.layers,
        "text_scale": [plan.retriever.text_scale, plan.reranker.text_scale],
        "relations": model.relations,
        "compute": model.compute,
    }


def save(folder: str | os.PathLike, trained: TrainedMenus) -> None:
    """Write the bundle atomically; an older one in ``folder`` is replaced as a whole."""
    library, encoder = trained.indexed.arrays, trained.indexed.encoder
    arrays = {
        **_named("library", library),
        **_named("memory", trained.memory),
        **_named("params", trained.params),
        "vocabulary/idf": trained.indexed.vocabulary.idf,
    }
    meta = {
        **trained.meta,
        "plan": plan_numbers(trained.plan),
        "words": list(trained.indexed.vocabulary.words),
        "keys": list(trained.indexed.keys),
        "aliases": {key: list(names) for key, names in trained.indexed.aliases.fills.items()},
        "off": sorted(trained.indexed.off),
        "families": library.families,
        "encoder": None if encoder is None else {"name": encoder.name, "fingerprint": encoder.fingerprint},
        "library": fingerprint(trained.indexed.library),
    }
    files = {
        LIBRARY: lambda path: write_library(path, trained.indexed.library),
        REQUESTS: lambda path: write_requests(path, trained.requests),
    }
    save_bundle(folder, arrays, meta, files)


def _named(prefix: str, tree: Any) -> dict[str, np.ndarray]:
    return {f"{prefix}/{name}": leaf for name, leaf in host_leaves(tree).items()}


def load(folder: str | os.PathLike, trace: bool = True) -> TrainedMenus:
    """Read a bundle; large arrays are mapped, and tools stay on disk until they are asked for.

    The networks are traced to check their parameters; ``trace`` False leaves that to ``export.Program.check``.

    Raises CheckpointError where it is unfinished, damaged, of another version or incomplete.
    """
    bundle = load_bundle(folder)
    try:
        meta = bundle.meta
        plan = make_plan(**meta["plan"])
        library = StoredLibrary(bundle.files[LIBRARY])
        requests = read_requests(bundle.files[REQUESTS])
        arrays = _library_arrays(bundle.arrays, meta)
        vocabulary = Vocabulary(tuple(meta["words"]), bundle.arrays["vocabulary/idf"])
        memory = Memory(**_under("memory/", bundle.arrays))
        params = _params(plan, _under("params/", bundle.arrays), str(folder), trace)
        encoder = _encoder(meta["encoder"], str(folder))
        aliases = Aliases(meta.get("aliases", {}))  # older bundles have none
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{folder}: is not a menu bundle of this version ({error!r}); train it again") from None
    off = frozenset(meta.get("off", ()))
    indexed = IndexedLibrary(library, vocabulary, tuple(meta["keys"]), arrays, encoder, aliases, off)
    return TrainedMenus(plan, params, indexed, memory, requests, meta)


def _under(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _library_arrays(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> DeviceLibrary:
    own = _under("library/", arrays)
    postings = {name: Postings(**_under(f"{name}/", own)) for name in ("lexical", "names", "producers")}
    plain = {name: array for name, array in own.items() if "/" not in name}
    return DeviceLibrary(**plain, **postings, families=meta["families"], encoded=meta["encoder"] is not None)


def _encoder(kept: dict[str, str] | None, where: str) -> TextEncoder | None:
    """The text encoder that the library was indexed with. Raises CheckpointError where it is another one now."""
    if kept is None:
        return None
    encoder = load_encoder(kept["name"])
    if encoder.fingerprint != kept["fingerprint"]:
        raise CheckpointError(
            f"{where}: was trained with another version of the text encoder {kept['name']!r} than the one installed; "
            "install that version, or train again"
        )
    return encoder


def _params(plan: Plan, leaves: dict[str, np.ndarray], where: str, trace: bool) -> Params:
    weights = FrontierWeights(leaves["frontier/anchor"], leaves["frontier/propagated"])
    networks = {n: leaf for n, leaf in leaves.items() if not n.startswith("frontier/")}
    if trace:
        retriever, reranker = jax.eval_shape(lambda: initial(plan, 0))  # the form alone: no compilation at each load
        filled = fill({"retriever": retriever, "reranker": reranker}, networks, where)
    else:
        filled = unflatten_dict(networks, sep="/")
    return Params(weights, filled["retriever"], filled["reranker"])
