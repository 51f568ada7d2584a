"""``spm menu``: the ordered menu of one request, explained."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from spm_jax.cli.common import FORMATTER, json_or_text, pairs, quiet_logs

_EXAMPLES = """\
examples:
  spm menu --checkpoint runs/tiny/fold0/menu "Send me the receipt of order 48213"
      what is visible is read from the text
  spm menu --checkpoint runs/tiny/fold0/menu "Send me the receipt" --state order_number=48213 --k 8
      explicit state wins; a value that is JSON is read as JSON, any other is text
  spm menu --checkpoint runs/tiny/fold0/menu "Send me the receipt" --json
      the same for programs

A line holds position, role (entry, bridge, target, extra), whether the tool runs at its place ("runs": every required
input is visible or made by a tool above it; else "waits"), the tool, and where each required input comes from.
"""


def add_parser(subparsers: Any) -> None:
    """Add the ``menu`` command to the subparsers of ``spm``."""
    parser = subparsers.add_parser(
        "menu", help="print the menu of a request", description=__doc__, epilog=_EXAMPLES, formatter_class=FORMATTER
    )
    parser.add_argument("text", nargs="?", default="", metavar="REQUEST", help="text of the request; may be empty")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="bundle folder, as runs/tiny/fold0/menu")
    parser.add_argument("--state", action="append", default=[], metavar="KEY=VALUE",
                        help="a visible value; may be repeated")  # fmt: skip
    parser.add_argument("--k", type=int, default=32, metavar="K", help="tools of the menu (default 32)")
    parser.add_argument("--program", metavar="FILE", help="what spm export wrote, run in the place of the model code")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the menu; the exit code. Raises DataError for a bad checkpoint or program, bad state or k."""
    from spm_jax.data.schema import Request

    state = {key: json_or_text(value) for key, value in pairs(args.state, "--state").items()}
    request = Request("request", args.text, state=state)
    from spm_jax.builder import MenuBuilder, render
    from spm_jax.data.fields import canonical_key

    quiet_logs()
    builder = MenuBuilder.load(args.checkpoint, program=args.program)
    items = builder.explain(request, args.k)
    visible = sorted(builder.trained.indexed.visible(request))
    known = builder.trained.indexed.known_keys
    for key in state:
        if canonical_key(key) not in known:
            print(f"note: no tool takes or gives {key!r}; it changes nothing", file=sys.stderr)
    if args.json:
        record = {"request": args.text, "state": state, "visible": visible, "menu": [item.record() for item in items]}
        print(json.dumps(record, ensure_ascii=False, indent=1))
        return 0
    print(f"visible: {', '.join(visible) or 'nothing'}")
    print(render(items))
    return 0
