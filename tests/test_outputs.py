"""Outputs from schema, body, responses and prose."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.data.literals import read_literal
from spm_jax.data.outputs import MAX_FIELDS, infer_outputs, is_error

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
SCHEMAS = st.recursive(
    st.sampled_from(
        [{"type": "string"}, {"$ref": "#"}, {"$ref": "#/$defs/a"}, {"type": ["null", "integer"]}, {}, None, 3]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "\ud800"]),
            "properties": st.dictionaries(st.text(max_size=6), inner, max_size=3) | inner,
            "items": inner | st.lists(inner, max_size=2),
            "anyOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        },
    ),
    max_leaves=10,
)


def names(*args, **kwargs):
    return [field.name for field in infer_outputs(*args, **kwargs)[0]]


def test_schema_with_references_and_branches():
    order = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "Order number"},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
            "parent": {"$ref": "#/$defs/Order"},
            "payer": {"oneOf": [{"properties": {"iban": {}}}, {"properties": {"card": {}}}]},
        },
    }
    schema = {"type": "object", "properties": {"order": {"$ref": "#/$defs/Order"}}, "$defs": {"Order": order}}
    fields, known, source = infer_outputs(schema)
    assert (known, source) == (True, "schema")
    # The recursion stops at the second order; both branches of the payer are there.
    assert {f.name for f in fields} == {
        "order.id",
        "order.parent",
        "order.lines.sku",
        "order.payer.iban",
        "order.payer.card",
    }
    assert {f.name: f.description for f in fields}["order.id"] == "Order number"
    assert infer_outputs(json.dumps(schema))[0] == fields


def test_all_of_and_its_own_properties():
    schema = {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}], "properties": {"c": {}}}
    assert sorted(names(schema)) == ["a", "b", "c"]


def test_example_in_place_of_a_schema_and_properties_without_frame():
    assert names({"city": "string", "place": {"lat": "number"}}) == ["city", "place.lat"]
    assert names({"city": {"type": "string", "required": True}, "zip": {"type": "string"}}) == ["city", "zip"]


def test_body():
    body = {"items": [{"id": 1, "price": {"amount": 2.5}}, {"id": 2, "sold": True}], "next": None}
    fields, known, source = infer_outputs(body=json.dumps(body))
    assert (known, source) == (True, "body")
    assert [(f.name, f.type) for f in fields] == [
        ("next", ""), ("items.id", "integer"), ("items.sold", "boolean"), ("items.price.amount", "number"),
    ]  # fmt: skip


def test_keys_that_are_data_are_rows():
    assert names(body={"prices": {"2020-01-01": {"open": 1, "close": 2}, "2020-01-02": {"open": 3, "close": 4}}}) == [
        "prices.open",
        "prices.close",
    ]
    team = {"wins": 1, "losses": 2}
    assert names(body={"teams": {"Lions": team, "Bears": team, "Packers": team}}) == ["teams.wins", "teams.losses"]
    assert names(body={"rates": {f"A{chr(65 + n)}": n for n in range(25)}, "base": "USD"}) == ["base", "rates"]


def test_dots_and_brackets_of_a_name_do_not_read_as_a_path():
    assert names(body={"a.b[0]": 1, "\0x": 2, "c": 3}) == ["a_b_0_", "_x", "c"]


def test_preference():
    schema, body = {"properties": {"a": {}}}, {"b": 1}
    responses, prose = [{"c": 1}], "Returns: d1, e1"
    assert infer_outputs(schema, body, responses, prose)[2] == "schema"
    assert names(None, body, responses, prose) == ["b"]
    assert names(None, None, responses, prose) == ["c"]
    assert names(None, None, [], prose) == ["d1", "e1"]
    assert infer_outputs() == ((), False, "")


@pytest.mark.parametrize(
    "answer",
    [
        {"message": "You are not subscribed to this API."},
        {"error": "x", "code": 7},
        {"status": 404, "message": "no"},
        {"success": False, "info": "sorry"},
        {"detail": [{"msg": "field required"}]},
        "Internal Server Error",
        [{"message": "bad"}],
    ],
)
def test_failures_are_no_outputs(answer):
    assert is_error(answer)
    assert infer_outputs(body=answer, responses=[answer, json.dumps(answer), repr(answer)]) == ((), False, "")


def test_answers_that_say_nothing():
    assert not infer_outputs({"properties": {"message": {"type": "string"}}})[1]
    assert not infer_outputs(body={"key1": "value", "key2": "value"})[1]
    # The form that RapidAPI copied to 2,373 ToolBench APIs.
    wrapper = {"get": "string", "parameters": "array", "errors": "array", "results": "integer", "response": "array"}
    assert not infer_outputs({"type": "object", "properties": {k: {"type": v} for k, v in wrapper.items()}})[1]
    assert not is_error({"status": "ok", "message": "done"})


def test_responses_merge_and_read_reprs():
    assert names(responses=["{'a': 1, 'b': None}", '{"c": [{"d": 1}]}', "<html>", {"error": "x"}, "{'e': 'cut o"]) == [
        "a", "b", "e", "c.d",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("prose", "expected"),
    [
        ("Returns the name, price and currency of a product.", ["name", "price", "currency"]),
        ("Response fields: id, first name, `email`", ["id", "first name", "email"]),
        ("It returns:\n- title\n- release date", ["title", "release date"]),
        ("Returns a user", []),
        ("Returns how many followers are there, and more", []),
        ("Find shops in a city, a state and a country", []),
    ],
)
def test_prose(prose, expected):
    assert names(prose=prose) == expected


def test_bounds():
    wide = {f"field_{n}": str(n) for n in range(500)}
    assert len(names(body=wide)) == MAX_FIELDS
    deep: dict = {"leaf": 1}
    for _ in range(300):
        deep = {"level": deep}
    assert names(body=deep) == ["level.level.level.level.level.level"]
    assert infer_outputs(body="[" * 100_000)[0] == ()
    assert infer_outputs(prose="Returns: " + "a," * 100_000)[1] in (True, False)


def test_literals():
    text = "{'a': [1, 2.5, None, ('x', \"it's\")], 3: {'b': True}, 'c': 'a\\'b'} and more"
    assert read_literal(text) == {"a": [1, 2.5, None, ["x", "it's"]], 3: {"b": True}, "c": "a'b"}
    assert read_literal("[1, {'a': 'cut of") == [1, {"a": "cut of"}]
    assert read_literal("__import__('os')") is None


@given(st.text(max_size=60) | st.text(alphabet="{}[]():,'\"\\a1 ", max_size=60))
def test_literals_never_fail(text):
    read_literal(text)


@given(JSON, SCHEMAS | JSON, st.lists(JSON, max_size=3), st.text(max_size=60))
def test_never_fails_and_flag_agrees(body, schema, responses, prose):
    fields, known, source = infer_outputs(schema, body, responses, prose)
    assert known == bool(fields) == bool(source)
    assert len({f.name for f in fields}) == len(fields) <= MAX_FIELDS
