"""The receipt example of method.md section 1: only an order number is visible, and the menu must still start runnable.

    python -m experiments.receipt [--workdir DIR]      (under a minute)

A shop with 52 tools and 96 recorded requests of eight kinds. Training takes seconds; the menu printed is for a request
with an order number and words that no training request has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from experiments.configs import tiny
from spm_jax.baselines.lexical import fit_bm25
from spm_jax.builder import MenuBuilder, render
from spm_jax.cli.common import quiet_logs
from spm_jax.data.schema import Call, Field, Library, Request, Tool, Trajectory
from spm_jax.device_library import index_library
from spm_jax.train.loop import train_menus

REQUEST = Request("new", "Please email the receipt for order 48213 to the customer.", state={"order_number": "48213"})

# family: tool(inputs) -> outputs; the description follows from the name.
_TOOLS = """
orders: LookupOrder(order_number) -> order_id customer_id
orders: ListOrders(customer_id) -> order_id
orders: CancelOrder(order_id) -> cancellation_id
orders: ReorderItems(order_id) -> order_number
orders: HoldOrder(order_id, hold_reason) ->
orders: GetOrderStatus(order_number) -> order_status
orders: GetOrderNotes(order_id) -> note_text
orders: AddOrderNote(order_id, note_text) ->
receipts: CreateReceipt(order_id) -> receipt_id
receipts: VoidReceipt(receipt_id) ->
receipts: PrintReceipt(receipt_id, printer_name) ->
receipts: ListReceipts(customer_id) -> receipt_id
receipts: TranslateReceipt(receipt_id, language) -> receipt_id
customers: GetCustomerEmail(customer_id) -> customer_email
customers: GetCustomerPhone(customer_id) -> customer_phone
customers: FindCustomer(customer_email) -> customer_id
customers: GetCustomerAddress(customer_id) -> customer_address
customers: UpdateCustomerEmail(customer_id, customer_email) ->
customers: GetLoyaltyLevel(customer_id) -> loyalty_level
customers: MergeCustomers(customer_id, other_customer_id) ->
mail: SendEmailReceipt(customer_email, receipt_id) -> message_id
mail: SendEmailInvoice(customer_email, invoice_id) -> message_id
mail: SendEmailNewsletter(customer_email, newsletter_id) -> message_id
mail: SendEmailSurvey(customer_email, survey_id) -> message_id
mail: SendEmailReminder(customer_email, reminder_text) -> message_id
mail: GetEmailStatus(message_id) -> delivery_status
mail: ListEmailTemplates() -> template_id
billing: CreateInvoice(order_id) -> invoice_id
billing: GetInvoice(invoice_id) -> invoice_total
billing: GetPayment(order_id) -> payment_id
billing: CreateRefund(payment_id) -> refund_id
billing: GetRefundStatus(refund_id) -> refund_status
billing: ApplyCoupon(order_id, coupon_code) -> discount
billing: ConvertCurrency(amount, currency) -> converted_amount
shipping: GetShipment(order_id) -> tracking_code
shipping: TrackParcel(tracking_code) -> parcel_location
shipping: CreateReturnLabel(order_id) -> label_id
shipping: PrintLabel(label_id) ->
shipping: EstimateDelivery(tracking_code) -> delivery_date
shipping: ChangeAddress(order_id, customer_address) ->
shipping: ListCarriers() -> carrier_name
phone: SendTextMessage(customer_phone, message_text) -> message_id
phone: CallCustomer(customer_phone) -> call_id
phone: GetCallLog(call_id) -> call_minutes
stock: FindProduct(product_name) -> product_code
stock: GetStock(product_code) -> stock_count
stock: ReserveStock(product_code, stock_count) -> reservation_id
stock: GetPrice(product_code) -> price
support: OpenTicket(customer_id, problem) -> ticket_number
support: CloseTicket(ticket_number) ->
support: EmailTranscript(ticket_number, customer_email) -> message_id
support: SearchHelp(question) -> article_title
"""

# Recorded chains, each with the ways in which people ask for it; {} is the order number.
_PATHS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("LookupOrder CreateReceipt GetCustomerEmail SendEmailReceipt",
     ("Send the receipt of order {} by e-mail", "Mail the buyer a receipt for {}", "E-mail receipt, order {}")),
    ("LookupOrder GetCustomerEmail CreateReceipt SendEmailReceipt",
     ("The customer of {} wants a receipt in the inbox", "Get the receipt of {} to them", "Receipt to buyer: {}")),
    ("LookupOrder CreateInvoice GetCustomerEmail SendEmailInvoice",
     ("Send the invoice of order {} by e-mail", "Bill the customer of {} by mail", "E-mail invoice, order {}")),
    ("LookupOrder GetPayment CreateRefund",
     ("Refund order {}", "Give the money for {} back", "The buyer of {} wants the payment returned")),
    ("LookupOrder GetShipment TrackParcel",
     ("Where is the parcel of order {}?", "Track order {}", "Has {} left the depot yet?")),
    ("LookupOrder GetCustomerPhone SendTextMessage",
     ("Text the customer of order {}", "Send an SMS about {}", "Let the buyer of {} know by text message")),
    ("LookupOrder CreateReturnLabel PrintLabel",
     ("Print a return label for {}", "The goods of order {} come back, make a label", "Return label, order {}")),
    ("LookupOrder OpenTicket",
     ("Open a support ticket for order {}", "Something is broken in {}, note it down", "Complaint about order {}")),
)  # fmt: skip
GROUPS = 4  # groups of each chain; a training request never sees its own group in the statistics


def _tool(line: str) -> Tool:
    family, _, rest = line.partition(": ")
    name, _, rest = rest.partition("(")
    inputs, _, outputs = rest.partition(") ->")
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    return Tool(
        family,
        name,
        f"{words.capitalize()}.",
        inputs=tuple(Field(key.strip()) for key in inputs.split(",") if key.strip()),
        outputs=tuple(Field(key) for key in outputs.split()),
        outputs_known=True,
    )


def receipt_world() -> tuple[Library, tuple[Request, ...]]:
    """The shop's library and its 96 recorded requests."""
    library = Library(tuple(_tool(line) for line in _TOOLS.strip().splitlines()))
    by_name = {tool.name: tool.id for tool in library}
    requests = []
    for path, (chain, phrases) in enumerate(_PATHS):
        calls = Trajectory(tuple(Call((by_name[name],)) for name in chain.split()))
        for group in range(GROUPS):
            for way, phrase in enumerate(phrases):
                number = str(10_007 + 911 * len(requests))
                identity = f"{path}-{group}-{way}"
                text = phrase.format(number)
                requests.append(Request(identity, text, f"{path}-{group}", "shop", {"order_number": number}, calls))
    return library, tuple(requests)


def train_receipt(workdir: Path) -> MenuBuilder:
    """A menu builder trained on the shop, by experiments/configs/tiny.py with more epochs."""
    config = tiny.get_config()
    config.retriever.epochs, config.retriever.lr = 20, 3e-3
    config.reranker.epochs, config.reranker.lr = 40, 3e-3
    config.retriever.inner_folds = 2
    config.checkpoint_every = config.log_every = 1_000
    library, requests = receipt_world()
    return MenuBuilder(train_menus(config, index_library(library, config.text.search_width), requests, workdir))


def show(builder: MenuBuilder, lines: int = 4) -> str:
    """What the README shows: the request, what is visible, BM25's ranking, and the first lines of the menu."""
    library = builder.trained.indexed.library
    ranked = fit_bm25(library, ()).build(REQUEST, lines)
    items = builder.explain(REQUEST)
    state = ", ".join(f"{key} = {value}" for key, value in REQUEST.state.items())
    return "\n".join(
        [
            f"request: {REQUEST.text}",
            f"visible: {state}",
            f"by relevance (BM25): {', '.join(library[int(tool)].name for tool in ranked)}, ...",
            "State-Path:",
            render(items[:lines]),
            f"  ... {len(items) - lines} more",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Train, print the menu; 0."""
    parser = argparse.ArgumentParser(prog="experiments.receipt", description=__doc__)
    parser.add_argument("--workdir", type=Path, help="keep the bundle (DIR/menu) instead of throwing it away")
    args = parser.parse_args(argv)
    quiet_logs()
    with tempfile.TemporaryDirectory() as folder:
        print(show(train_receipt(args.workdir or Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
