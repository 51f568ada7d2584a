"""The receipt example (method.md section 1): only the order number is visible, and the menu starts runnable."""

from __future__ import annotations

import pytest

from experiments import receipt
from spm_jax.builder import REQUEST as FROM_REQUEST
from spm_jax.data.schema import ToolId

ROUTE = ("LookupOrder", "CreateReceipt", "GetCustomerEmail", "SendEmailReceipt")


@pytest.fixture(scope="module")
def items(receipt_builder):
    return receipt_builder.explain(receipt.REQUEST)


def test_the_shop_has_distractors_and_the_request_is_new():
    library, requests = receipt.receipt_world()
    assert {tool.name for tool in library} >= set(ROUTE)
    assert len(library) >= len(ROUTE) + 40
    assert len({request.group for request in requests}) == 32
    assert receipt.REQUEST.text not in {request.text for request in requests}
    assert not any("48213" in request.text for request in requests)
    assert dict(receipt.REQUEST.state).keys() == {"order_number"} and not receipt.REQUEST.trajectory.calls


def test_the_menu_starts_with_the_route(items):
    names = [item.tool.name for item in items[:4]]
    assert names[0] == ROUTE[0] and names[3] == ROUTE[3]
    assert set(names[1:3]) == set(ROUTE[1:3])


def test_the_route_runs_from_top_to_bottom_and_says_why(items):
    assert [str(item.role) for item in items[:4]] == ["entry", "bridge", "bridge", "target"]
    assert all(item.executable for item in items[:4])
    sources = {i.name: i.source for item in items[:4] for i in item.inputs}
    assert sources == {
        "order_number": FROM_REQUEST,
        "order_id": ToolId("orders", "LookupOrder"),
        "customer_id": ToolId("orders", "LookupOrder"),
        "receipt_id": ToolId("receipts", "CreateReceipt"),
        "customer_email": ToolId("customers", "GetCustomerEmail"),
    }
    assert len(items) == 32 and len({item.tool for item in items}) == 32


def test_the_readme_shows_what_the_example_prints(receipt_builder, readme):
    shown = readme.split("<!-- output:receipt -->\n```\n")[1].split("\n```\n<!-- /output -->")[0]
    assert _either_order(receipt.show(receipt_builder)) == _either_order(shown)


def _either_order(text: str) -> list[str]:
    """The lines, the two bridges sorted by what they say: neither needs the other, both orders are right."""
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("  2 "))
    lines[at : at + 2] = sorted(line[3:] for line in lines[at : at + 2])
    sends = lines[at + 2].partition("(")
    lines[at + 2] = sends[0] + ", ".join(sorted(sends[2].rstrip(")").split(", ")))
    return lines
