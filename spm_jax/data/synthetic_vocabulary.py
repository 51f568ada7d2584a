"""The words of the embedded world: domains with typed entities, operations, products, values, phrases.

Each operation has two vocabularies. *Document* phrases stand in tool documentation; *asking* phrases are how people
speak of the same step and share no content word with the documents (``{e}`` the documented noun, ``{a}`` the spoken
one). A request mixes the two, which is what makes lexical search on it hard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Entity(NamedTuple):
    """A typed thing: its documented and its spoken noun, the key people know it by and its kind of value, its paper."""

    noun: str
    spoken: str
    natural: str
    value: str
    paper: str


class Domain(NamedTuple):
    """A field of work: ``entities`` are linked in a ring; ``words`` colour product descriptions and requests alike."""

    name: str
    entities: tuple[Entity, ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing a tool can do with one entity. ``needs`` and ``makes`` are canonical keys, the hidden truth."""

    kind: str
    entity: str
    needs: tuple[str, ...]
    makes: tuple[str, ...]
    names: tuple[str, ...]
    documents: tuple[str, ...]
    asking: tuple[str, ...]


def _domain(name: str, words: str, *rows: str) -> Domain:
    return Domain(name, tuple(Entity(*row.split("|")) for row in rows), tuple(words.split()))


DOMAINS: tuple[Domain, ...] = (
    _domain(
        "Commerce", "retail checkout basket merchant catalogue warehouse discount shopping",
        "order|purchase|order_number|code|receipt", "product|item|product_name|title|datasheet",
        "customer|client|email|email|statement", "shipment|parcel|tracking_number|code|label",
        "store|shop|city|city|leaflet",
    ),
    _domain(
        "Travel", "trip journey tourism holiday cabin departure luggage vacation",
        "flight|plane|flight_number|flight|itinerary", "hotel|place to stay|city|city|voucher",
        "booking|reservation|booking_reference|code|confirmation", "traveler|passenger|email|email|visa_form",
        "airport|terminal|airport_code|iata|map",
    ),
    _domain(
        "Finance", "market investor trading bank capital yield asset money",
        "stock|share|ticker_symbol|ticker|factsheet", "account|savings|iban|iban|account_extract",
        "invoice|bill|invoice_number|code|reminder", "portfolio|holdings|portfolio_name|title|prospectus",
        "company|firm|company_name|title|filing",
    ),
    _domain(
        "Weather", "climate temperature rain wind sky season humidity outdoor",
        "location|spot|city|city|bulletin", "station|observatory|coordinates|coordinates|reading",
        "storm|hurricane|storm_name|title|warning", "region|area|postal_code|zip|climate_report",
        "sensor|probe|sensor_code|code|calibration_sheet",
    ),
    _domain(
        "Media", "news press story broadcast editorial audience headline publishing",
        "article|piece|url|url|digest", "channel|outlet|username|handle|media_kit",
        "video|clip|video_title|title|transcript", "podcast|show|podcast_title|title|episode_sheet",
        "author|writer|email|email|biography",
    ),
    _domain(
        "Health", "care medical hospital wellness treatment therapy diagnosis doctor",
        "patient|sick person|email|email|discharge_letter",
        "prescription|remedy order|prescription_number|code|dosage_plan",
        "clinic|practice|city|city|directory_entry", "appointment|visit|visit_date|date|admission_slip",
        "medicine|drug|medicine_name|title|package_insert",
    ),
    _domain(
        "Sports", "game season score championship league fans tournament competition",
        "team|squad|team_name|title|lineup", "match|fixture|match_date|date|match_report",
        "player|athlete|player_name|title|profile_card", "league|division|league_code|code|table_sheet",
        "stadium|arena|city|city|seating_plan",
    ),
    _domain(
        "Education", "learning study campus teacher lesson knowledge class academic",
        "course|class|course_title|title|syllabus", "student|pupil|email|email|report_card",
        "school|college|city|city|brochure", "exam|test|exam_code|code|certificate",
        "book|volume|isbn|isbn|reading_list",
    ),
)

# kind, needs, makes, names, documents, asking; {o} and {oa} are the linked entity's documented and spoken noun
_KINDS: tuple[tuple[str, str, str, str, str, str], ...] = (
    ("find", "{n}", "{e}_id", "search_{e} find_{e} {e}_lookup {e}_by_{n}",
     "Search {e} records by {n}|Look up one {e} from its {n}|Find the {e} that carries a given {n}",
     "begin with the {a}|dig up the {a}|track down that {a}"),
    ("details", "{e}_id", "{e}_title {o}_id", "get_{e} {e}_details read_{e} {e}_info",
     "Return the full record of one {e}|Get all details of a {e} with its {o}|Read the stored {e} record",
     "tell me everything about the {a}|what do we know on the {a}|pull up the {a}"),
    ("linked", "{e}_id", "{o}_id", "list_{o}_of_{e} {e}_{o} get_{e}_{o}",
     "List every {o} that belongs to a {e}|Get the {o} attached to one {e}|Return the {o} entries of a {e}",
     "see whichever {oa} goes along|the {oa} it hangs together with"),
    ("status", "{e}_id", "{e}_status", "get_{e}_status {e}_status check_{e}",
     "Get the current status of one {e}|Check the state of a {e}|Report live {e} status",
     "how is the {a} doing|is the {a} fine at the moment|any trouble with that {a}"),
    ("history", "{e}_id", "{e}_history event_id", "get_{e}_history {e}_events {e}_timeline",
     "Return the history of one {e}|List past events of a {e}|Show the timeline of {e} changes",
     "what happened to the {a} before|how the {a} went over the months"),
    ("contact", "{e}_id", "email phone", "get_{e}_email {e}_contact read_{e}_contact",
     "Get the contact address of a {e}|Return email and phone of the {e}|Give the contact data for one {e}",
     "whoever stands behind the {a}|the person to write to"),
    ("paper", "{e}_id", "{d}_id", "create_{d} make_{e}_{d} generate_{d} new_{d}",
     "Create a {d} for one {e}|Generate the {d} of a {e}|Render a new {d}",
     "something printable on the {a}|a sheet I can file"),
    ("send", "{d}_id email", "message_id", "send_{d} mail_{d} send_{e}_{d} deliver_{d}",
     "Send a {d} to an email address|Mail the {d} of a {e}|Deliver a {d} by email",
     "forward it to my inbox|drop it to the mailbox"),
    ("price", "{e}_id", "{e}_price", "get_{e}_price {e}_cost price_{e}",
     "Get the price of one {e}|Calculate what a {e} costs|Quote the price of a {e}",
     "how much is the {a}|what would I pay with the {a}"),
    ("cancel", "{e}_id", "case_id", "cancel_{e} close_{e} withdraw_{e}",
     "Cancel one {e}|Close a {e} for good|Withdraw the {e}",
     "call the {a} off|get rid of the {a}"),
    ("schedule", "{e}_id date", "event_id", "schedule_{e} plan_{e} set_{e}_date",
     "Schedule a {e} for a date|Plan the {e} on the calendar|Set the date of one {e}",
     "fix a day when the {a} suits|put the {a} in my agenda"),
    ("rating", "{e}_id", "{e}_score review_id", "get_{e}_reviews {e}_rating {e}_reviews",
     "Get ratings and reviews of one {e}|Show the review list of a {e}|Return the average {e} rating",
     "what people say on the {a}|is the {a} any good"),
    ("similar", "{e}_id", "similar_{e}_id", "similar_{e} recommend_{e} related_{e}",
     "Recommend a similar {e}|List related {e} entries|Suggest alternatives to a {e}",
     "anything else like the {a}|other choices instead of the {a}"),
    ("compare", "{e}_id similar_{e}_id", "comparison_id", "compare_{e} {e}_comparison diff_{e}",
     "Compare two {e} records|Show a side by side comparison of a {e} with another|Diff two {e} entries",
     "which {a} wins|put both next to each other"),
    ("top", "", "{e}_id", "top_{e} trending_{e} popular_{e} latest_{e}",
     "List the most popular {e} entries|Show trending {e} of today|Return the latest {e} entries",
     "what everybody talks of|whatever {a} is hot"),
    ("kinds", "", "{e}_category", "{e}_categories list_{e}_types {e}_groups",
     "List all {e} categories|Return the known types of {e}|Name the available {e} groups",
     "which sorts of {a} there are|how a {a} may be sorted"),
    ("category", "{e}_category", "{e}_id", "{e}_by_category browse_{e} filter_{e}",
     "Browse {e} entries of one category|Filter {e} by category|Give all {e} in a category",
     "only the {a} sort that fits|narrow the {a} down"),
    ("nearby", "city", "{e}_id", "nearby_{e} {e}_near {e}_in_city",
     "List {e} entries near a city|Find a nearby {e} in a city|Show local {e} around a place",
     "a {a} around here|close to where I am"),
    ("trace", "event_id", "trace_url", "trace_{e}_event {e}_event get_{e}_event",
     "Trace one {e} event|Return a single event of the {e}|Read the event log entry of a {e}",
     "the very moment with the {a}|what exactly went on"),
    ("notify", "phone {e}_status", "message_id", "notify_{e} sms_{e}_status alert_{e}",
     "Notify a phone about the {e} status|Send an SMS with {e} status|Write a text message alert on a {e}",
     "ping the number with the outcome|a short note to the mobile"),
)  # fmt: skip

TARGETS = frozenset({"paper", "price", "cancel", "schedule", "compare", "rating", "history", "trace", "status"})
TERMINALS = frozenset({"send", "notify"})
ASKABLE = frozenset({"date"}) | {e.natural for d in DOMAINS for e in d.entities}  # keys that people can state


def operations(domain: Domain) -> tuple[Operation, ...]:
    """Every operation of a domain: each kind with each entity, in a fixed order."""
    made = []
    for n, entity in enumerate(domain.entities):
        other = domain.entities[(n + 1) % len(domain.entities)]
        words = {"e": entity.noun, "a": entity.spoken, "n": entity.natural, "d": entity.paper}
        words |= {"o": other.noun, "oa": other.spoken}
        spaced = {key: word.replace("_", " ") for key, word in words.items()}
        for kind, needs, makes, names, documents, asking in _KINDS:
            key_lists = [tuple(text.format(**words).split()) for text in (needs, makes, names)]
            phrases = [tuple(text.format(**spaced).split("|")) for text in (documents, asking)]
            made.append(Operation(kind, entity.noun, *key_lists, *phrases))
    return tuple(made)


SEGMENTS = tuple(
    "nordic vintage marine urban alpine organic student premium rural coastal family corporate digital classic iberian "
    "baltic tropical desert island junior senior luxury budget express global oriental andean pacific atlantic arctic "
    "balkan bavarian bengal breton caribbean caspian celtic colonial danube dutch flemish gaelic gothic hanse iranian "
    "istrian javan kenyan korean latin lombard malay maltese mayan mekong nubian ottoman persian polish prairie "
    "punjabi roman saharan saxon siberian silesian slavic sumatran swiss tibetan turkish tuscan ural venetian viking "
    "welsh zulu artisan boutique charity civic festival freelance garden heritage indie industrial mobile municipal "
    "nomad outdoor pocket pioneer regional remote seasonal startup solar weekend wholesale youth".split()
)
_SYLLABLES = tuple("zel bo nor ti va ra qui len dor mex su pla kor vi hin fo gra ju wex ol pyr na tem ska".split())

OPENINGS = (
    "I am working on something {w} and need help.", "Could you help me with a {w} question?", "Quick one on {w}:",
    "It is for my {w} project.", "My boss asked about {w} today.", "Hello, this is about {w}.",
    "We are preparing a {w} summary.",
)  # fmt: skip
GOALS = ("Please {x}.", "I want to {x}.", "In the end I need you to {x}.", "Can you {x}?", "The aim: {x}.")
WISHES = ("What matters: {x}.", "The point is this: {x}.", "One thing counts, {x}.", "My question: {x}?")
STEPS = ("Also, {x}.", "On the way, {x}.", "{x}, please.", "I wonder: {x}?", "Then {x}.", "{x} too.")
NAMED = ("Use {x}.", "We work with {x}.", "{x} should know it.", "I have an account at {x}.")
GIVEN = ("{k} {v}.", "The {k} is {v}.", "It concerns {v}.", "{v} is what I have.", "{k}: {v}.")

# What vendors write around the facts; small talk that requests are full of too, as in a real catalogue.
PITCHES = (
    "Need help with a {w} question? Please ask.", "I am working on this project, it should end soon.",
    "We are preparing something new for your {w} project today.", "Hello, could you use a quick summary? Can do.",
    "Also know that this is what the boss asked about.", "You want an account: then work with us, please.",
    "In the end I have one aim: {w} on the way to you.", "I wonder what concerns you, and we know it too.",
    "Use it if you need to, then tell us what you have in mind.",
    "My code is quick, please write an email with a number.",
)  # fmt: skip

_CITIES = ("Lisbon", "Oslo", "Kyoto", "Denver", "Nairobi", "Lima", "Ghent", "Perth", "Turin", "Leeds", "Quito", "Cork")
_FIRST = ("ana", "li", "omar", "ruth", "ivan", "mei", "joao", "sara", "tom", "nina", "karl", "aiko")
_LAST = ("berg", "costa", "diaz", "ito", "khan", "lund", "moreau", "novak", "okoye", "rossi", "silva", "weber")
_TITLES = ("Blue Harbor", "Silver Oak", "North Gate", "Red Falcon", "Green Delta", "White Pine", "Golden Arc")


def pick(rng: np.random.Generator, items: tuple | list):
    """One of ``items``, each with the same chance."""
    return items[int(rng.random() * len(items))]


def provider_name(number: int) -> str:
    """The made-up name of provider ``number``: distinct for distinct numbers."""
    base = len(_SYLLABLES)
    mixed = number % base**3 * 5077 % base**3  # 5077 shares no factor with 24: a permutation, so that neighbours differ
    name = "".join(_SYLLABLES[mixed // base**p % base] for p in range(3))
    return name + (provider_name(number // base**3 - 1) if number >= base**3 else "")


def make_value(rng: np.random.Generator, kind: str, key: str) -> str:
    """A fresh value of a kind; ``code`` values carry the first letters of their key."""
    number = int(rng.integers(10_000, 99_999))
    match kind:
        case "email":
            return f"{pick(rng, _FIRST)}.{pick(rng, _LAST)}{number % 100}@example.com"
        case "city":
            return pick(rng, _CITIES)
        case "date":
            return f"20{24 + number % 3}-{1 + number % 12:02d}-{1 + number // 12 % 28:02d}"
        case "flight":
            return f"{'LH KL BA AF UA'.split()[number % 5]}{100 + number % 899}"
        case "iata":
            return "LIS OSL KIX DEN NBO LIM".split()[number % 6]
        case "ticker":
            return "ACME NVLD BRKT QXTM ZETA HLIO".split()[number % 6]
        case "iban":
            account = f"50010517{number:010d}"
            return f"DE{98 - int(account + '131400') % 97:02d}{account}"  # ISO 13616 check digits
        case "coordinates":
            return f"{number % 80}.{number % 97:02d}, {number % 170}.{number % 89:02d}"
        case "zip":
            return str(number)
        case "url":
            return f"https://www.example.com/stories/{number}"
        case "handle":
            return f"@{pick(rng, _FIRST)}{number % 1000}"
        case "isbn":
            digits = f"978316{number}0"
            check = -sum(int(d) * (1, 3)[n % 2] for n, d in enumerate(digits)) % 10
            return f"978-3-16-{number}0-{check}"
        case "title":
            return f'"{pick(rng, _TITLES)} {number % 90 + 10}"'
        case _:
            return f"{key[:3].upper()}-{number}"


VALUE_KINDS = {"date": "date"} | {e.natural: e.value for d in DOMAINS for e in d.entities}
