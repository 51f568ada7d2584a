"""From a configuration to a table of results: data, folds, training, evaluation; where a config meets code."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from spm_jax import bundle
from spm_jax.builder import MenuBuilder
from spm_jax.bundle import TrainedMenus, make_plan
from spm_jax.data import jsonl
from spm_jax.data.aliases import Aliases, similar_aliases
from spm_jax.data.corpora import CORPORA, TOOLBENCH, read_corpus
from spm_jax.data.documentation import documented
from spm_jax.data.histories import corrupted, sparse
from spm_jax.data.paths import library_golds
from spm_jax.data.readers import toolbench
from spm_jax.data.schema import DataError, Library, Request
from spm_jax.data.splits import domain_folds, held_out_sets, sequence_folds
from spm_jax.data.synthetic import make_world
from spm_jax.device_library import IndexedLibrary, index_library
from spm_jax.evaluate import STATE_PATH, Scores, baseline_constructors, best_baseline, evaluate
from spm_jax.tables import make_meta, make_table, markdown, write_scores, write_table
from spm_jax.text.bert import load_encoder
from spm_jax.train.mesh import training_mesh
from spm_jax.train.pipeline import Recipe, train
from spm_jax.train.prepare import fixed_orders, make_corpus
from spm_jax.train.processes import is_first

BUNDLE = "menu"  # the folder of a fold that holds its menu bundle


def load_data(data: ConfigDict) -> tuple[Library, tuple[Request, ...]]:
    """The library and the requests that ``config.data`` names. Raises DataError for an unknown source or bad files."""
    if data.source == "world":
        world = make_world(data.seed, data.tools, data.count)
        return world.library, world.requests
    for name in ("library",) if data.source in CORPORA else ("library", "requests"):
        if not data[name]:
            raise DataError(f"config.data.{name} is empty; give its path with --config.data.{name}=PATH")
    if data.source == "jsonl":
        return jsonl.read_library(data.library), jsonl.read_requests(data.requests)
    if data.source in TOOLBENCH:
        responses = data.library if data.responses else None
        library, _ = toolbench.read_library(data.library, responses=responses)
        requests, _ = TOOLBENCH[data.source](data.requests, library)
        return library, requests
    if data.source in CORPORA:
        library, requests, _ = read_corpus(data.source, data.library)
        return library, requests
    known = ", ".join(("jsonl", "world", *TOOLBENCH, *CORPORA))
    raise DataError(f"config.data.source = {data.source!r}; known are {known}")


def _recipe(c: ConfigDict) -> Recipe:
    if c.epochs < 1 or c.batch < 1 or not 0 <= c.warmup < 1:
        raise DataError(
            f"training: epochs = {c.epochs}, batch = {c.batch}, warmup = {c.warmup}: epochs and batch must be at least "
            "1, warmup a share of the steps in [0, 1)"
        )
    names = [f.name for f in dataclasses.fields(Recipe)]
    return Recipe(**{name: dict(c.loss) if name == "loss" else c[name] for name in names})


def _plan(c: ConfigDict) -> Any:
    return make_plan(
        candidates=c.menu.candidates,
        menu=c.menu.size,
        prefix=c.menu.prefix,
        text=c.text.width,
        producers_first=c.menu.producers_first,
        coverage=c.menu.coverage,
        redundancy=c.menu.redundancy,
        hedge=c.menu.hedge,
        order=c.menu.order,
        width=c.model.width,
        heads=c.model.heads,
        layers=c.model.layers,
        text_scale=(c.retriever.text_scale, c.reranker.text_scale),
        relations=c.model.relations,
        compute=c.model.compute,
    )


def _identity(c: ConfigDict, indexed: IndexedLibrary, requests: Sequence[Request]) -> dict[str, Any]:
    """What a resumed run must share with the saved one. What changes neither data nor parameters may differ."""
    free = ("split", "seeds", "baselines", "must_beat", "checkpoint_every", "log_every")
    config = {key: value for key, value in c.to_dict().items() if key not in free}
    config["data"] = {key: value for key, value in config["data"].items() if key not in ("library", "requests")}
    text = json.dumps(config, sort_keys=True)
    read = hashlib.sha256("".join(jsonl.dumps(jsonl.request_record(request)) for request in requests).encode())
    return {
        "config": hashlib.sha256(text.encode()).hexdigest(),
        "library": jsonl.fingerprint(indexed.library),
        "requests": read.hexdigest(),
    }


def train_menus(
    c: ConfigDict, indexed: IndexedLibrary, requests: Sequence[Request], workdir: Path
) -> TrainedMenus:
    """Train on ``requests`` and write the bundle to ``workdir/menu``; a run that was cut off goes on where it was."""
    began = time.monotonic()
    retriever, reranker = _recipe(c.retriever), _recipe(c.reranker)
    mesh = training_mesh({"retriever.batch": retriever.batch, "reranker.batch": reranker.batch})
    plan = _plan(c)
    repeated = [name for name, times in Counter(request.id for request in requests).items() if times > 1]
    if repeated:
        raise DataError(f"training: request id {repeated[0]!r} stands twice; ids must differ")
    held_out = held_out_sets(requests, c.memory.held_out, c.memory.folds)
    corpus = make_corpus(indexed, requests, c.memory.ridge, held_out)
    if len(set(corpus.groups)) < 2:
        raise DataError(
            f"training: all {len(corpus.requests)} requests with recorded calls are of group {corpus.groups[0]!r}; "
            "features are made without a request's own group, so at least two groups are needed"
        )
    print(f"training on {len(corpus.requests):,} requests of {len(set(corpus.groups)):,} groups", file=sys.stderr)
    trained = train(
        corpus,
        plan,
        retriever=retriever,
        reranker=reranker,
        negatives=c.retriever.negatives,
        dropout=(c.retriever.text_dropout, c.reranker.text_dropout),
        folds=min(c.retriever.inner_folds, len(set(corpus.groups))),
        seed=c.seed,
        workdir=workdir,
        run=_identity(c, indexed, corpus.requests),
        checkpoint_every=c.checkpoint_every,
        log_every=c.log_every,
        mesh=mesh,
    )
    seconds = round(time.monotonic() - began, 1)
    meta = {"config": c.to_dict(), "injected": trained.injected, "seconds": seconds}
    menus = TrainedMenus(plan, trained.params, indexed, trained.memory, corpus.requests, meta)
    if is_first():
        bundle.save(workdir / BUNDLE, menus)
    print(
        f"trained in {seconds} s; {trained.injected:.1%} of gold tools were put into training frontiers; "
        f"bundle: {workdir / BUNDLE}",
        file=sys.stderr,
    )
    return menus


def _command() -> str:
    """The command line of this process, without the path of this machine's program."""
    program = Path(sys.argv[0])
    start = ["python", "-m", f"spm_jax.{program.stem}"] if program.suffix == ".py" else [program.name]
    return shlex.join([*start, *sys.argv[1:]])


def split_folds(split: ConfigDict, requests: Sequence[Request]) -> np.ndarray:
    """int [R]: the fold of each request. Raises DataError for an unknown kind of split."""
    if split.kind == "sequence":
        return sequence_folds(requests, split.folds)
    if split.kind == "domain":
        return domain_folds(requests)
    raise DataError(f"config.split.kind = {split.kind!r}; known are sequence, domain")


def train_and_evaluate(c: ConfigDict, workdir: str | Path, out: str | Path | None = None) -> dict[str, Any]:
    """Train and score the folds that ``config.split.run`` names; write results.json and results.md to ``workdir``.

    ``out`` also writes the JSON there. Raises DataError for bad data or configuration, and where
    ``config.must_beat`` names a baseline that State-Path does not beat.
    """
    workdir = Path(workdir)
    began = time.monotonic()
    library, requests = load_data(c.data)
    requests = tuple(request for request in requests if request.trajectory.calls)
    if not requests:
        raise DataError("training: no request has recorded calls (the field 'calls'); nothing can be learned")
    fold = split_folds(c.split, requests)
    count = int(fold.max()) + 1
    if not c.split.run or any(not 0 <= number < count for number in c.split.run):
        raise DataError(f"config.split.run = {tuple(c.split.run)}: name folds of 0..{count - 1}")
    print(f"{len(library):,} tools, {len(requests):,} requests with trajectories; indexing", file=sys.stderr)
    encoder = load_encoder(c.text.encoder) if c.text.encoder else None
    read = documented(library, c.data.documentation)
    aliases = similar_aliases(read, c.aliases) if c.aliases else Aliases()
    indexed = index_library(read, c.text.search_width, c.seed, encoder, aliases, c.off)
    golds = library_golds(library, requests)
    fixed = fixed_orders(indexed, requests, golds)

    scores = Scores()
    training: list[float] = []
    for number in c.split.run:
        print(f"fold {number}", file=sys.stderr)
        train_requests = [request for request, f in zip(requests, fold) if f != number]
        train_requests = sparse(train_requests, c.histories.share, c.seed)
        train_requests = corrupted(library, train_requests, c.histories.corrupted, c.seed)
        test = np.flatnonzero(fold == number)
        started = time.monotonic()
        builder = MenuBuilder(train_menus(c, indexed, train_requests, workdir / f"fold{number}"))
        training.append(round(time.monotonic() - started, 1))
        others = baseline_constructors(library, train_requests, c.seed, builder) if c.baselines else []
        scores.add(
            evaluate(
                [builder, *others],
                library,
                train_requests,
                [requests[i] for i in test],
                [fixed[i] for i in test],
                c.menu.size,
            )
        )
    meta = make_meta(
        tools=len(library),
        folds=len(c.split.run),
        seeds=[c.seed],
        command=_command(),
        device=jax.devices()[0].platform,
        training_seconds=training,
        seconds=round(time.monotonic() - began, 1),
    )
    table = make_table(scores.cases, scores.results, meta, f"complete_chain@{c.menu.size}")
    text = markdown(table)
    if is_first():
        write_scores(workdir / "scores.json", scores.cases, scores.results, meta)
        for path in (workdir / "results.json", *([Path(out)] if out else [])):
            write_table(path, table)
        jsonl.write_atomic(workdir / "results.md", text.splitlines())
    print(text)
    _check(c.must_beat, scores, c.menu.size)
    return table


def _check(must_beat: str, scores: Scores, k: int) -> None:
    if not must_beat:
        return
    metric = f"complete_chain@{k}"
    if must_beat == "every baseline":
        must_beat = best_baseline(scores.results, metric)[0]
    if must_beat not in scores.results:
        raise DataError(f"config.must_beat = {must_beat!r} is no row of the table: {', '.join(scores.results)}")
    ours, theirs = (np.mean([row[metric] for row in scores.results[name]]) for name in (STATE_PATH, must_beat))
    if ours <= theirs:
        raise DataError(f"{STATE_PATH} reaches {metric} = {ours:.3f}, not above {must_beat} with {theirs:.3f}")
