"""``spm data``: read a public format into JSON Lines and print what it holds."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from spm_jax.cli import world
from spm_jax.data import jsonl, statistics
from spm_jax.data.corpora import CORPORA, TOOLBENCH, read_corpus
from spm_jax.data.readers import toolbench
from spm_jax.data.schema import DataError, Library
from spm_jax.data.state import free_text_keys, score_reader

_EXAMPLES = """\
examples:
  spm data toolbench shared/data/toolbench --responses --out library
      reads library.tar.xz and responses.tar.xz there, writes library/library.jsonl and library/counts.json
  spm data toolbench shared/data/toolbench --live --out live
      only the APIs that live_apis.jsonl names
  spm data traject shared/data/traject_bench --library library --out requests
      the sequential requests whose steps are all in the library, and how well the state reader reads them
  spm data stabletoolbench shared/data/toolbench --library library --out sets
      requests for a set of tools without order; traject_parallel reads those of TRAJECT-Bench
  spm data nestools shared/data/nestools --out nestools
      a corpus that brings its own library; seal_tools, nestful and restbench are read in the same way
  spm data world --out world
      the embedded synthetic world, and its facts beside the real ones
"""


_REQUESTS = {
    "traject": "TRAJECT-Bench sequential requests",
    "traject_parallel": "TRAJECT-Bench parallel requests (sets)",
    "stabletoolbench": "StableToolBench requests (sets)",
}


def add_parser(subparsers: Any) -> None:
    """Add the ``data`` command to the subparsers of ``spm``."""
    formatter = argparse.RawDescriptionHelpFormatter
    text = "Read a public format into JSON Lines (library.jsonl, requests.jsonl) and print its statistics."
    parser = subparsers.add_parser(
        "data",
        help="read a public format into JSON Lines",
        description=text,
        epilog=_EXAMPLES,
        formatter_class=formatter,
    )
    parser.set_defaults(run=run)
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT")

    library = formats.add_parser("toolbench", help="the ToolBench library", epilog=_EXAMPLES, formatter_class=formatter)
    library.add_argument("path", help="library.tar.xz, its unpacked folder, or the folder that holds either")
    library.add_argument("--responses", nargs="?", const="", metavar="PATH",
                         help="also read recorded responses; PATH defaults to responses.tar.xz beside it")  # fmt: skip
    library.add_argument("--live", nargs="?", const="", metavar="PATH",
                         help="keep only live APIs; PATH defaults to live_apis.jsonl beside the library")  # fmt: skip

    over = [
        formats.add_parser(name, help=f"{what}, over ToolBench", epilog=_EXAMPLES, formatter_class=formatter)
        for name, what in _REQUESTS.items()
    ]
    for requests in over:
        requests.add_argument("path", help="the archive or folder of the requests, or the folder that holds either")
        requests.add_argument("--library", required=True, metavar="PATH",
                              help="library.jsonl, a folder that holds it, or a ToolBench library to read")  # fmt: skip
    own = [
        formats.add_parser(name, help=f"{name}: library and requests", epilog=_EXAMPLES, formatter_class=formatter)
        for name in CORPORA
    ]
    for command in own:
        command.add_argument("path", help="the folder of the corpus")
        command.add_argument("--out", metavar="DIR", help="folder to write to; without it, figures are only printed")
    for command in (library, *over):
        command.add_argument("--out", metavar="DIR", help="folder to write to; without it, figures are only printed")
        command.add_argument(
            "--cache", metavar="DIR", help="folder of parsed libraries (default: $SPM_CACHE or ~/.cache/spm_jax)"
        )
    world.add_parser(formats)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show(title: str, figures: dict[str, Any]) -> None:
    print(title)
    print("\n".join(statistics.lines(figures)))


def _folder(path: str) -> Path:
    return Path(path) if Path(path).is_dir() else Path(path).parent


def _write_counts(out: Path, counts: dict[str, Any]) -> None:
    jsonl.write_atomic(out / "counts.json", [json.dumps(counts, indent=2, sort_keys=True, ensure_ascii=False)])


def _toolbench(args: argparse.Namespace) -> int:
    responses = None if args.responses is None else args.responses or _folder(args.path)
    beside = _folder(args.path) / "live_apis.jsonl"
    library, counts = toolbench.read_library(args.path, responses, cache=args.cache, progress=_say)
    figures = statistics.library_statistics(library)
    documented = counts.get("responses", {}).get("tools_documented", 0)
    if responses is not None:
        figures["outputs_known_without_responses"] = round(figures["outputs_known"] - documented / len(library), 4)
    live = Path(args.live or beside) if args.live is not None or beside.is_file() else None
    cut: Library | None = None
    if live is not None:
        names = toolbench.read_live(live)
        cut = toolbench.live_cut(library, names)
        counts["live"] = {"listed": len(names), "present": len(cut)}
    _show("read", counts)
    _show("library", figures)
    if args.live is not None and cut is not None:
        library, figures = cut, statistics.library_statistics(cut)
        _show("live cut", figures)
    if args.out:
        out = Path(args.out)
        jsonl.write_library(out / "library.jsonl", library)
        _write_counts(out, {"read": counts, "library": figures})
        print(f"wrote {out / 'library.jsonl'} ({len(library):,} tools) and {out / 'counts.json'}")
    return 0


def _read_library(path: str, cache: str | None) -> Library:
    file = Path(path) / "library.jsonl" if Path(path).is_dir() else Path(path)
    if file.name.endswith(".jsonl") and file.is_file():
        return jsonl.read_library(file)
    return toolbench.read_library(path, cache=cache, progress=_say)[0]


def _rounded(figures: dict[str, float]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}


def _over_toolbench(args: argparse.Namespace) -> int:
    library = _read_library(args.library, args.cache)
    requests, counts = TOOLBENCH[args.format](args.path, library)
    _show("read", counts)
    if not requests:
        raise DataError(f"{args.path}: no request has all its tools in the library of {len(library):,} tools")
    figures = statistics.request_statistics(requests, library)
    _show("requests", figures)
    known = statistics.known_keys(library)
    reader = _rounded(score_reader(requests, library, known))
    _show("state reader, against the arguments that stand literally in the request text", reader)
    free = _rounded(score_reader(requests, library, known, free_text_keys(known)))
    _show("the same, every free-text key counted as visible", free)
    if args.out:
        out = Path(args.out)
        jsonl.write_requests(out / "requests.jsonl", requests)
        _write_counts(out, {"read": counts, "requests": figures, "state_reader": reader, "with_free_text": free})
        print(f"wrote {out / 'requests.jsonl'} ({len(requests):,} requests) and {out / 'counts.json'}")
    return 0


def _corpus(args: argparse.Namespace) -> int:
    library, requests, counts = read_corpus(args.format, args.path)
    facts = {
        "library": statistics.library_statistics(library),
        "requests": statistics.request_statistics(requests, library),
    }
    _show("read", counts)
    for title, figures in facts.items():
        _show(title, figures)
    if args.out:
        out = Path(args.out)
        jsonl.write_library(out / "library.jsonl", library)
        jsonl.write_requests(out / "requests.jsonl", requests)
        _write_counts(out, {"read": counts, **facts})
        print(f"wrote library.jsonl ({len(library):,} tools), requests.jsonl ({len(requests):,}), counts.json to {out}")
    return 0


def run(args: argparse.Namespace) -> int:
    """Run ``spm data`` with parsed arguments; the exit code. Raises DataError for input that cannot be used."""
    try:
        if args.format in CORPORA:
            return _corpus(args)
        return _toolbench(args) if args.format == "toolbench" else _over_toolbench(args)
    except OSError as error:
        raise DataError(f"{error.filename or args.out}: {error.strerror}") from None
