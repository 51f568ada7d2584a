"""Typed values in free text: what a value of a kind looks like, and which keys it fills (method.md section 3).

The order is that of confidence: where a request shows more than fits, later kinds are dropped first. Every pattern is
linear in the length of the text: its repeats are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBER = r"[-+]?\d{1,4}(?:\.\d{1,20})?"
_CURRENCIES = (
    "USD EUR GBP JPY CNY INR AUD CAD CHF NZD SEK NOK DKK RUB BRL MXN ZAR KRW TRY PLN HKD SGD THB IDR MYR PHP AED SAR "
    "NGN ARS CLP COP EGP ILS CZK HUF RON VND PKR BTC ETH USDT LTC XRP DOGE BNB SOL ADA"
)
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*"

# Each detector: what makes a value of its kind, and the keys that such a value fills.
_TABLE: tuple[tuple[str, str, int, str], ...] = (
    (
        "email",
        r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+",
        0,
        "email email_address mail recipient to_email user_email",
    ),
    ("url", r"(?:https?://|www\.)\S{3,2000}", 0, "url link website uri image_url page_url website_url domain"),
    (
        "domain",
        r"(?<![@\w.])[a-z0-9-]{2,63}\.(?:com|org|net|io|co|dev|gov|edu)\b",
        re.I,
        "domain domain_name host website",
    ),
    ("ip", r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])", 0, "ip ip_address"),
    (
        "date",
        r"\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b",
        0,
        "date day start_date end_date from_date to_date",
    ),
    (
        "calendar_date",
        rf"\b(?:{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}),? \d{{4}}\b",
        re.I,
        "date start_date end_date from_date to_date",
    ),
    ("year", r"\b(?:1[4-9]|20)\d\d\b(?![-.]\d)", 0, "year"),
    ("time", r"\b\d{1,2}:\d{2}(?::\d{2})?\b|\b\d{1,2} ?[ap]\.?m\b", re.I, "time"),
    ("timestamp", r"\b1[4-9]\d{8}\b", 0, "timestamp start end"),
    (
        "money",
        r"[$€£¥]\s?\d[\d,.]{0,15}|\b\d[\d,.]{0,15} ?(?:dollars?|euros?|pounds?|USD|EUR|GBP)\b",
        re.I,
        "amount price budget",
    ),
    (
        "coordinates",
        rf"(?<![\d.]){_NUMBER}\s*°?\s*[NS]?\s*,\s*{_NUMBER}(?![\d.])(?<=[.\d]\d)",
        0,
        "latitude longitude coordinate latlng lat_lng point location origin destination",
    ),
    ("latitude", rf"\blat(?:itude)?\b\W{{0,3}}(?:\w+ )?{_NUMBER}", re.I, "latitude longitude"),
    ("zip", r"\b\d{5}(?:-\d{4})?\b", 0, "zip zip_code postal_code"),
    (
        "phone",
        r"(?<!\w)\+\d[\d ()-]{7,16}\d|\(\d{3}\) ?\d{3}-\d{4}|\b\d{3}-\d{3}-\d{4}\b",
        0,
        "phone phone_number telephone mobile",
    ),
    (
        "currency",
        rf"\b(?:{_CURRENCIES.replace(' ', '|')})\b",
        0,
        "currency base currency_code to_currency market symbol from_symbol to_symbol currency_base currency_quote "
        "base_currency target_currency",
    ),
    (
        "ticker",
        r"\b(?!(?:AND|THE|FOR|API|URL|USA|CEO|FAQ|GPS|NEWS|JSON|HTML|CSV|XML|PDF|SKU|ISO|UTC|GMT|EST|PST|TV|PC|ID|OK|AI|UK|US)\b)"
        r"[A-Z]{3,5}\b|\$[A-Z]{1,5}\b",
        0,
        "symbol ticker stock_symbol ticker_symbol stock",
    ),
    (
        "country",
        r"\b(?:USA|UK|United States|United Kingdom|UAE|Germany|France|Italy|Spain|Canada|Mexico|Brazil|India|China|"
        r"Japan|Australia|Turkey|Netherlands|Sweden|Norway|Russia|Nigeria|Indonesia|South Korea|Argentina)\b",
        0,
        "country country_name",
    ),
    ("iso", r"\b[A-Z]{2}\b(?<!\bOR)(?<!\bID)(?<!\bTV)(?<!\bOK)", 0, "country country_code iso state region area"),
    (
        "timezone",
        r"\b(?:America|Europe|Asia|Africa|Australia|Pacific|Atlantic)/[A-Z]\w+|\b(?:UTC|GMT|EST|PST|CET)\b",
        0,
        "timezone time_zone tz",
    ),
    ("isbn", r"\b97[89][- ]?\d[\d -]{8,12}\d\b", 0, "isbn"),
    ("asin", r"\bB0[A-Z0-9]{8}\b", 0, "asin"),
    ("hash", r"\b0x[0-9a-fA-F]{6,}\b", 0, "address hash wallet_address"),
    ("unit", r"\b(?:metric|imperial)\b", re.I, "unit"),
    ("json", r"\b(?:json|csv|xml)\b", re.I, "format datatype fmt"),
)
DETECTORS: Mapping[str, tuple[re.Pattern[str], tuple[str, ...]]] = {
    name: (re.compile(pattern, flags), tuple(keys.split())) for name, pattern, flags, keys in _TABLE
}
