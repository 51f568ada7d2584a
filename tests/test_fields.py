"""Canonical keys: hand-worked values, and properties over any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spm_jax.data.fields import (
    canonical_key,
    input_keys,
    optional_keys,
    output_keys,
    singular,
    split_words,
    tool_entity,
)
from spm_jax.data.schema import Field, Tool

NAMES = st.text(max_size=40) | st.from_regex(r"[A-Za-z0-9_]{0,20}", fullmatch=True)
ENTITIES = st.sampled_from(["", "order", "data", "订单", "Orders", "id", "input"]) | st.text(max_size=10)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("orderId", ["order", "id"]),
        ("order_id", ["order", "id"]),
        ("HTTPServer", ["http", "server"]),
        ("userIDs", ["user", "ids"]),
        ("mp3Url", ["mp", "3", "url"]),
        ("address-1.line", ["address", "1", "line"]),
        ("订单号", ["订单号"]),
        ("注文ID", ["注文", "id"]),
        ("ÉtatCivil", ["état", "civil"]),
        ("कितने_दिन", ["कितने", "दिन"]),
        ("رقم_الطلب", ["رقم", "الطلب"]),
        ("🏠", ["🏠"]),
        ("___", []),
    ],
)
def test_words_of_a_name(name, words):
    assert split_words(name) == words


@pytest.mark.parametrize(
    ("plural", "expected"),
    [("orders", "order"), ("cities", "city"), ("boxes", "box"), ("classes", "class"), ("movies", "movie"),
     ("status", "status"), ("news", "news"), ("address", "address"), ("series", "series"), ("databases", "database"),
     ("ids", "id"), ("analysis", "analysis"), ("gas", "gas")],
)  # fmt: skip
def test_singular(plural, expected):
    assert singular(plural) == expected


@pytest.mark.parametrize(
    ("name", "entity", "key"),
    [
        ("orderId", "", "order_id"),
        ("Order IDs", "", "order_id"),
        ("id", "order", "order_id"),
        ("id", "", "id"),
        ("order_id", "order", "order_id"),
        ("q", "movie", "movie_q"),
        ("data_type", "post", "post_data_type"),
        ("category_id", "post", "category_id"),
        ("email", "customer", "email"),
        ("the name of the city", "", "name_city"),
        ("zipcode", "", "zip_code"),
        ("lng", "", "longitude"),
        ("params", "order", "order_value"),
        ("订单号", "", "订单号"),
        ("___", "order", ""),
        ("", "order", ""),
    ],
)
def test_key(name, entity, key):
    assert canonical_key(name, entity) == key


@given(NAMES, ENTITIES)
def test_key_is_idempotent(name, entity):
    key = canonical_key(name, entity)
    assert canonical_key(key, entity) == key


@given(NAMES)
def test_key_is_lower_case_and_short(name):
    key = canonical_key(name)
    assert key.count("_") < 8
    assert key == key.strip("_")
    assert all(not ("A" <= char <= "Z") for char in key)


@given(st.text(alphabet=st.characters(categories=("Lo", "Lu", "Ll")), min_size=1, max_size=20))
def test_no_name_with_letters_collapses_to_nothing(name):
    assert canonical_key(name)


def test_long_name():
    assert len(canonical_key("word" * 100_000)) <= 1000
    assert canonical_key(" ".join(["w"] * 50_000)).count("_") == 7


@pytest.mark.parametrize(
    ("name", "entity"),
    [("get_order", "order"), ("LookupOrder", "order"), ("GetCustomerEmail", "email"), ("SendEmailReceipt", "receipt"),
     ("get_orders_by_customer", "order"), ("getMatchesByTeam", "match"), ("search", "football"),
     ("Team Details", "team"),
     ("getpeople", "person"), ("查询订单", "查询订单")],
)  # fmt: skip
def test_entity(name, entity):
    assert tool_entity(Tool("sports/api_football", name)) == entity


def test_keys_of_a_tool():
    tool = Tool(
        "shop/orders",
        "get_order",
        inputs=(Field("id"), Field("orderId"), Field("lang", required=False), Field("___")),
        outputs=(
            Field("order.customer.email"),
            Field("id"),
            Field("data.items[].sku"),
            Field("customer.name"),
            Field("result.status"),
        ),
        outputs_known=True,
    )
    assert input_keys(tool) == ("order_id",)
    assert optional_keys(tool) == ("language",)
    # Leaf and qualified leaf; data, result and item are wrappers; a generic leaf without owner takes the tool's entity.
    assert output_keys(tool) == ("email", "customer_email", "order_id", "sku", "customer_name", "order_status")
