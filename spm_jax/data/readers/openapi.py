"""OpenAPI 3 documents as tools, one an operation: parameters and body are inputs, the 2xx answer's schema outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spm_jax.data.outputs import resolve, schema_fields
from spm_jax.data.readers.archive import Counts, count
from spm_jax.data.readers.described import text
from spm_jax.data.schema import DataError, Field, Tool

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
REFERENCES = 8  # longest chain of references to references


def _follow(document: Mapping[str, Any], node: Any) -> Mapping[str, Any]:
    """``node`` or what its ``$ref`` points at, {} where that is no object."""
    for _ in range(REFERENCES):
        if not isinstance(node, Mapping) or "$ref" not in node:
            break
        node = resolve(document, node["$ref"])
    return node if isinstance(node, Mapping) and "$ref" not in node else {}


def _schema(document: Mapping[str, Any], holder: Any) -> Mapping[str, Any]:
    """The JSON schema of a request body or an answer, with the document's components beside it for references."""
    content = _follow(document, holder).get("content")
    kinds = content if isinstance(content, Mapping) else {}
    kind = next((name for name in kinds if "json" in str(name)), next(iter(kinds), None))
    schema = _follow(document, kinds[kind]).get("schema") if kind is not None else None
    return {**schema, "components": document.get("components", {})} if isinstance(schema, Mapping) else {}


def _inputs(document: Mapping[str, Any], path: Mapping[str, Any], operation: Mapping[str, Any]) -> tuple[Field, ...]:
    """Path, query and body inputs; an operation's parameter replaces the path's of the same name."""
    found: dict[str, Field] = {}
    for level in (path, operation):
        listed = level.get("parameters")
        for parameter in listed if isinstance(listed, list) else ():
            facts = _follow(document, parameter)
            name = text(facts.get("name"))
            if not name.strip() or facts.get("in") not in ("path", "query"):
                continue
            kind = text(_follow(document, facts.get("schema")).get("type"))
            needed = facts.get("required") is True or facts["in"] == "path"
            found[name] = Field(name, kind, text(facts.get("description")), needed)
    body = _follow(document, operation.get("requestBody"))
    schema = _schema(document, body)
    needed = _follow(document, {**schema}).get("required") if schema else ()
    for field in schema_fields(schema) if schema else ():
        top = field.name.partition(".")[0]
        required = body.get("required") is True and isinstance(needed, list) and field.name in needed
        found.setdefault(top, Field(top, field.type if top == field.name else "object", field.description, required))
    return tuple(found.values())


def _outputs(document: Mapping[str, Any], operation: Mapping[str, Any]) -> tuple[tuple[Field, ...], bool]:
    """Fields of the first 2xx answer, and whether the document says what comes back (also: nothing)."""
    answers = operation.get("responses")
    answers = answers if isinstance(answers, Mapping) else {}
    good = next((answers[code] for code in sorted(answers, key=str) if str(code).startswith("2")), None)
    if good is None:
        return (), False
    schema = _schema(document, good)
    if schema:
        fields = schema_fields(schema)
        return fields, bool(fields)
    return (), "content" not in _follow(document, good)


def tools_of(document: Any, counts: Counts, family: str = "") -> tuple[Tool, ...]:
    """The tools of a document; a tool's name is ``GET /path``. ``family`` is the document's title where not given.

    Raises DataError where it is no OpenAPI 3 document.
    """
    version = text(document.get("openapi")) if isinstance(document, Mapping) else ""
    if not version.startswith("3.") or not isinstance(document.get("paths"), Mapping):
        raise DataError("OpenAPI: expected an object with openapi: 3.x and paths")
    info = document.get("info") if isinstance(document.get("info"), Mapping) else {}
    family = family or text(info.get("title")).strip() or "api"
    tools = []
    for path, item in document["paths"].items():
        item = _follow(document, item)
        for method in METHODS:
            if method not in item:
                continue
            operation = _follow(document, item[method])
            if not operation or not text(path).strip():
                count(counts, "skipped/operations_malformed")
                continue
            outputs, known = _outputs(document, operation)
            parts = (text(operation.get(name)).strip() for name in ("summary", "description"))
            tools.append(
                Tool(
                    family,
                    f"{method.upper()} {text(path)}",
                    "\n".join(dict.fromkeys(part for part in parts if part)),
                    text(info.get("description")),
                    _inputs(document, item, operation),
                    outputs,
                    known,
                    "schema" if known else "",
                )
            )
            count(counts, "operations")
    return tuple(tools)
