"""A tolerant reader of JSON-like text: Python reprs, single quotes, cut-off ends. It evaluates nothing."""

from __future__ import annotations

import re
from typing import Any

MAX_DEPTH = 40

_TOKEN = re.compile(
    r"""\s*(?:([\[\](){},:])|[bru]?'((?:[^'\\]|\\.)*)'?|[bru]?"((?:[^"\\]|\\.)*)"?|([^\s\[\](){},:'"]+))""", re.S
)
_ATOMS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def _string(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text, flags=re.S) if "\\" in text else text


def _atom(text: str) -> Any:
    if text in _ATOMS:
        return _ATOMS[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _put(container: list | dict, pending: list, value: Any) -> None:
    if isinstance(container, list):
        container.append(value)
    elif pending[-1] is None:
        pending[-1] = (value,)  # a key waits for its value
    else:
        container[_key(pending[-1][0])] = value
        pending[-1] = None


def _key(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def read_literal(text: str) -> Any:
    """The list or dict that ``text`` writes, as far as it can be read; None where it starts with neither.

    A text that breaks off gives what stands before the break. Tuples read as lists. Nesting beyond ``MAX_DEPTH`` and
    text after the closing bracket are ignored. Linear in the length of the text.
    """
    stack: list[list | dict] = []
    pending: list = []  # per open container: the key that waits for its value, as a 1-tuple, or None
    root: Any = None
    for match in _TOKEN.finditer(text):
        mark, single, double, atom = match.groups()
        if mark is not None and mark in "[({":
            opened: list | dict = {} if mark == "{" else []
            if root is None:
                root = opened
            elif len(stack) >= MAX_DEPTH:
                return root
            else:
                _put(stack[-1], pending, opened)
            stack.append(opened)
            pending.append(None)
        elif root is None:
            return None
        elif mark is not None and mark in "])}":
            stack.pop()
            pending.pop()
            if not stack:
                return root
        elif mark is None:
            value = _string(single if single is not None else double) if atom is None else _atom(atom)
            _put(stack[-1], pending, value)
        elif mark == "," and isinstance(stack[-1], dict):
            pending[-1] = None
    return root
