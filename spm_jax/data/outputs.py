"""What a tool returns, read from whatever documents it (method.md section 3).

In this order of preference: a declared response schema, an example body, recorded responses, prose that lists fields.
Output names are dotted leaf paths, lists dropped: ``order.customer.email``, ``items.price``.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from spm_jax.data.literals import read_literal
from spm_jax.data.schema import Field

MAX_DEPTH = 6  # levels of nesting that are followed
MAX_FIELDS = 64  # outputs kept of a tool, shallow ones first
MAX_NODES = 4000  # visited of one document; what lies beyond is ignored
MAX_TEXT = 200_000  # characters of an example that are parsed
MAX_RESPONSES = 8  # recorded responses that are merged

_COMBINED = ("anyOf", "allOf", "oneOf")
_SCHEMA_TYPES = frozenset("object array string number integer boolean null file any".split())
_SCHEMA_MARKS = frozenset(
    ("properties", "items", "$ref", "additionalProperties", "$schema", "patternProperties", *_COMBINED)
)
_PLACEHOLDERS = frozenset(("key1", "key2", "value1", "value2"))  # what RapidAPI's form holds before anyone fills it in

# The envelope of an answer that says only whether it worked. Without anything else in it the answer is no output.
_ENVELOPE = frozenset(
    "message messages error errors detail details msg info status code statuscode status_code success ok type title "
    "description reason error_code errorcode error_message errormessage error_description exception path timestamp "
    "statusmessage status_message fault hint url documentation_url instance traceid trace_id err".split()
)
# What an answer wraps its content in. Wrapped content that is not spelled out documents nothing: 2,373 ToolBench APIs
# declare just {get, parameters, errors, results, response}, a form that RapidAPI copied from one of its products.
_WRAPPERS = _ENVELOPE | frozenset(
    "data result results response responses items list get parameters payload body content meta pagination count total "
    "page limit offset object value values".split()
)
_FAILURE = re.compile(
    r"error|not (?:found|subscribed|exist|supported|allowed|available|valid|authori[sz]ed|working|provided)|n't|invalid"
    r"|missing|required|fail|exceeded|denied|unauthori[sz]ed|forbidden|unavailable|time[d]?[ -]?out|too many|quota"
    r"|unable|cannot|can not|wrong|bad request|expired|must |blocked|disabled|deprecated|no longer|broke|incorrect"
    r"|unexpected|please |unreachable|suspended",
    re.IGNORECASE,
)

_JSON_TYPE = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def _clean(name: Any) -> str:
    """A usable field name of a document's key; dots and brackets would read as a path."""
    name = name if isinstance(name, str) else str(name)
    if not name.isascii():
        name = name.encode("utf-8", "replace").decode("utf-8")
    return re.sub(r"[\0.\[\]]+", "_", name).strip()[:200] if name.strip() else ""


class _Leaves:
    """Collects fields, first mention first, shallow before deep because the callers walk breadth first."""

    def __init__(self) -> None:
        self.fields: dict[str, Field] = {}

    def add(self, path: str, kind: str, description: str = "") -> None:
        if path and path not in self.fields and len(self.fields) < MAX_FIELDS:
            self.fields[path] = Field(path, kind, description)


def resolve(root: Mapping[str, Any], reference: Any) -> Any:
    """What a local ``$ref`` (``#/$defs/Order``) points at, or None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    node: Any = root
    for part in reference[1:].strip("/").split("/") if reference.strip("#/") else ():
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, Mapping) or part not in node:
            return None
        node = node[part]
    return node


def _schema_kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "")
    return _text(kind[:40]) if isinstance(kind, str) else ""


def _is_schema(document: Mapping[str, Any]) -> bool:
    kind = document.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    typed = all(isinstance(k, str) and k.lower() in _SCHEMA_TYPES for k in kinds)
    return bool(_SCHEMA_MARKS.intersection(document)) or typed


def schema_fields(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """Leaf fields of a JSON schema: references resolved, recursion stopped, fields of all branches of a choice."""
    leaves = _Leaves()
    queue = deque([("", schema, 0, frozenset())])
    for _ in range(MAX_NODES):
        if not queue:
            break
        path, node, depth, seen = queue.popleft()
        if not isinstance(node, Mapping):
            leaves.add(path, node if isinstance(node, str) and node.lower() in _SCHEMA_TYPES else "")
            continue
        if "$ref" in node:
            target = resolve(schema, node["$ref"])
            if isinstance(target, Mapping) and node["$ref"] not in seen:
                queue.appendleft((path, target, depth, seen | {node["$ref"]}))
            else:
                leaves.add(path, "object")
            continue
        branches = [b for word in _COMBINED if isinstance(node.get(word), list) for b in node[word]]
        queue.extendleft((path, branch, depth, seen) for branch in reversed(branches) if isinstance(branch, Mapping))
        properties = node.get("properties")
        items = node.get("items")
        items = items[0] if isinstance(items, list) and items else items
        extra = node.get("additionalProperties")
        if isinstance(properties, Mapping) and properties and depth < MAX_DEPTH:
            for name, child in properties.items():
                queue.append((_join(path, _clean(name)), child, depth + 1, seen))
        elif isinstance(items, Mapping) and items and depth < MAX_DEPTH:
            queue.append((path, items, depth + 1, seen))
        elif isinstance(extra, Mapping) and extra and depth < MAX_DEPTH:
            queue.append((path, extra, depth + 1, seen))
        elif not branches:
            description = node.get("description")
            leaves.add(path, _schema_kind(node), _text(description) if isinstance(description, str) else "")
    return tuple(leaves.fields.values())


def _text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _is_data(name: Any) -> bool:
    """Whether a key is a value (a date, a number, an address), which names nothing."""
    if not isinstance(name, str):
        return True
    head = name[:200]
    digits = sum(map(str.isdigit, head))
    return digits * 2 > len(head) or not any(map(str.isalpha, head)) or "://" in head or "@" in head


def _is_table(children: list[Any]) -> bool:
    """Whether an object is a table, its keys names of rows: 20 currencies' rates, the same record of 3 teams."""
    if len(children) >= 20:
        return all(isinstance(child, (int, float)) and not isinstance(child, bool) for child in children)
    if len(children) < 3 or not all(isinstance(child, Mapping) and len(child) > 1 for child in children):
        return False
    names = [set(child) for child in children]
    return 2 * len(set.intersection(*names)) > len(set.union(*names))


def value_fields(values: Iterable[Any]) -> tuple[Field, ...]:
    """Leaf fields of example values, merged; an object that is a table counts as a list of its rows."""
    leaves = _Leaves()
    queue = deque(("", value, 0) for value in values)
    for _ in range(MAX_NODES):
        if not queue:
            break
        path, value, depth = queue.popleft()
        if isinstance(value, Mapping) and value and depth < MAX_DEPTH:
            names = list(value)[: 4 * MAX_FIELDS]
            table = _is_table([value[name] for name in names]) or sum(map(_is_data, names)) * 2 > len(names)
            for name in names[:3] if table else names:
                queue.append((path if table else _join(path, _clean(name)), value[name], depth + 1))
        elif isinstance(value, (list, tuple)) and value and depth < MAX_DEPTH:
            queue.extend((path, item, depth + 1) for item in value[:3])
        else:
            leaves.add(path, _JSON_TYPE.get(type(value), ""))
    return tuple(leaves.fields.values())


def is_error(value: Any) -> bool:
    """Whether an answer says that a call failed and holds nothing else: ``{"message": "You are not subscribed"}``."""
    if isinstance(value, str):
        return not value.strip() or bool(_FAILURE.search(value[:300]))
    if isinstance(value, list):
        return bool(value) and all(isinstance(v, Mapping) and is_error(v) for v in value[:3])
    if not isinstance(value, Mapping) or not value:
        return False
    names = {str(name).lower() for name in value}
    if not names <= _ENVELOPE:
        return False
    if names <= {"message", "messages", "error", "errors", "detail", "msg", "info"}:
        return True
    for name, content in value.items():
        name = str(name).lower()
        if name.startswith(("error", "exception", "fault")) and content:
            return True
        if name in ("success", "ok") and content in (False, "false", 0):
            return True
        if content in range(400, 600) or (isinstance(content, str) and re.fullmatch("[45][0-9][0-9]", content)):
            return True
        parts = (
            content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else (content,)
        )
        if any(isinstance(part, str) and _FAILURE.search(part[:300]) for part in islice(parts, 10)):
            return True
    return False


def _telling(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """``fields``, or nothing where they are a failure report, RapidAPI's form, or a wrapper of something unsaid."""
    names = {f.name.lower() for f in fields}
    if names <= {"message", "messages", "error", "errors", "err", "detail", "msg"} or names <= _PLACEHOLDERS:
        return ()
    unsaid = any(f.type in ("object", "array", "") and f.name.lower() not in _ENVELOPE for f in fields)
    return () if unsaid and names <= _WRAPPERS else fields


def _parse(document: Any) -> Any:
    """A JSON value of a JSON value, JSON text or the repr of one; None where there is none."""
    if not isinstance(document, str):
        return document
    text = document.strip()[:MAX_TEXT]
    if not text or text[0] not in "{[":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return read_literal(text)


def _from_schema(schema: Any) -> tuple[Field, ...]:
    schema = _parse(schema)
    if isinstance(schema, list):
        return _from_body(schema)
    if not isinstance(schema, Mapping) or not schema:
        return ()
    if not _is_schema(schema):
        if all(isinstance(child, Mapping) and "type" in child and _is_schema(child) for child in schema.values()):
            return _telling(schema_fields({"properties": schema}))  # the properties without their frame
        return _from_body(schema)
    return _telling(schema_fields(schema))


def _from_body(body: Any) -> tuple[Field, ...]:
    body = _parse(body)
    if not isinstance(body, (Mapping, list)) or is_error(body):
        return ()
    return _telling(value_fields([body]))


def _from_responses(responses: Iterable[Any]) -> tuple[Field, ...]:
    values: list[Any] = []
    for response in responses:
        value = _parse(response)
        if isinstance(value, (Mapping, list)) and value and not is_error(value):
            values.append(value)
        if len(values) == MAX_RESPONSES:
            break
    return _telling(value_fields(values))


_ANNOUNCED = re.compile(
    r"\b(?:returns?|returned|returning|response (?:fields|contains|includes)|outputs?|output fields)\b[^.:;\n]{0,40}:"
    r"[ \t]*\n?((?:[^.;\n]|\n[ \t]*[-*•])+)",
    re.IGNORECASE,
)
_RETURNED = re.compile(r"\b(?:returns?|returning)\b ([^.:;\n()]+)", re.IGNORECASE)
_END_OF_LIST = re.compile(
    r"\b(?:of|for|in|from|by|about|based|which|that|with|to|on|using|given|when|if|as|within|per|at)\b", re.I
)
_ARTICLE = re.compile(r"^(?:(?:the|a|an|all|its|their|current|both|only|you|list of)\s+)+", re.IGNORECASE)


_NOT_A_NAME = re.compile(
    r"\b(?:how|are|is|can|like|including|more|will|you|or|if|has|have|be|options?)\b", re.IGNORECASE
)


def _listed(text: str, at_least: int) -> list[str]:
    """Names of a list in prose, or nothing where one item does not look like a name."""
    items = [_ARTICLE.sub("", item.strip(" \t\"'`*•-")) for item in re.split(r",|\n|\band\b|&|\|", text)]
    items = [item for item in items if item and item.lower() not in ("etc", "more", "others", "other")]
    if any(_NOT_A_NAME.search(item) for item in items):
        return []
    good = [i for i in items if len(i) <= 30 and len(i.split()) <= 3 and re.fullmatch(r"[^\W\d][\w \-/]*", i)]
    return good if len(good) >= at_least and len(good) == len(items) else []


def _from_prose(prose: str) -> tuple[Field, ...]:
    for match in _ANNOUNCED.finditer(prose[:4000]):
        names = _listed(match[1], 2)
        if names:
            return tuple(Field(name) for name in dict.fromkeys(names))[:MAX_FIELDS]
    for match in _RETURNED.finditer(prose[:4000]):
        names = _listed(_END_OF_LIST.split(match[1])[0], 3)
        if names:
            return tuple(Field(name) for name in dict.fromkeys(names))[:MAX_FIELDS]
    return ()


def infer_outputs(
    schema: Any = None, body: Any = None, responses: Iterable[Any] = (), prose: str = ""
) -> tuple[tuple[Field, ...], bool, str]:
    """Outputs of a tool: ``(fields, known, source)``, source one of schema, body, responses, prose or ``""``.

    ``schema`` is a JSON schema (or, as often in the wild, an example of the answer), ``body`` an example, ``responses``
    recorded answers; each a JSON value or its text (JSON or a Python repr). Answers that only report a failure count as
    nothing. Never raises on odd content: what cannot be read documents nothing.
    """
    fields = _from_schema(schema)
    if fields:
        return fields, True, "schema"
    fields = _from_body(body)
    if fields:
        return fields, True, "body"
    fields = _from_responses(responses)
    if fields:
        return fields, True, "responses"
    fields = _from_prose(_text(prose))
    return fields, bool(fields), "prose" if fields else ""
