"""A second service of the API, written from the specification alone, that answers otherwise.

What the specification leaves open, a `Manner` decides: the count's name, a secret's type, wrapped
records, another XML. It holds five invented people and never leaves the loopback.

    with running(Manner(count_name="total", secret="integer")) as service:
        client = Client(base_url=service, ...)      # the service is its own base URL
        assert service.requests[-1].path.endswith("/users.json")
"""

import copy
import html
import json
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

INTEGRATION_NAME = "acme"
API_KEY = "key-otherwise"
API_SECRET = "secret-otherwise"


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How the service answers. Unset, every answer has the specification's own shape."""

    count_name: Literal["count", "total"] | None = "count"  # None: users without any count
    count_of: Literal["all", "page"] = "all"  # "a count of users": of which, not shown
    secret: Literal["text", "integer"] = "text"  # the same digits either way, more than 2**53
    records: Literal["specified", "bare", "wrapped"] = "specified"  # in Get user and in lists
    procedure: Literal["list", "string", "numbered", "null", "missing"] = "list"
    identification: Literal["identification_on_file", "identification_onfile"] = "identification_on_file"
    encoding: Literal["asked", "json", "xml"] = "asked"  # asked: by the suffix; else whatever was asked
    xml_root: str = "answer"
    xml_style: Literal["repeated", "items"] = "repeated"  # items: <emails><item>, still no type attribute
    xml_null: Literal["nil", "empty"] = "nil"  # xsi:nil="true", or <age/>
    page_cap: int | None = None  # lowers `limit` and says nothing
    contains: Literal["present", "missing", "null"] = "present"
    optional: Literal["present", "missing", "null"] = "present"  # age, href, address2, an alert's url, guide
    birth_date: Literal["epoch", "text", "datetime"] = "epoch"  # text: 1958-11-02
    history: Literal["chronological", "newest first"] = "chronological"
    status: str | None = None  # of each person's first record, such as "archived"
    source_type: str | None = None  # of each person's first alert, and the key in its source
    loose_numbers: bool = False  # zip, number, reference_id as JSON numbers where no zero leads
    extra_fields: bool = False  # unknown fields in every object but those of exactly one key
    request_fields: bool = False  # alias_type and country in responses
    errors: Literal["json", "html", "empty"] = "json"
    credentials_in: Literal["anywhere", "query", "body", "header"] = "anywhere"


PLAIN = Manner()
OTHERWISE = Manner(
    count_name=None,
    secret="integer",
    records="wrapped",
    procedure="string",
    identification="identification_onfile",
    page_cap=3,
    contains="missing",
    birth_date="text",
    history="newest first",
    status="archived",
    source_type="breach",
    loose_numbers=True,
    extra_fields=True,
    request_fields=True,
    errors="html",
)
MANNERS: dict[str, Manner] = {  # each deviation alone, then together: for pytest.mark.parametrize
    "plain": PLAIN,
    "the count is named total": Manner(count_name="total"),
    "no count": Manner(count_name=None),
    "the count is the page's": Manner(count_of="page", page_cap=3),
    "integer secrets": Manner(secret="integer"),
    "bare records": Manner(records="bare"),
    "wrapped records": Manner(records="wrapped"),
    "the procedure is one string": Manner(procedure="string"),
    "the procedure is numbered": Manner(procedure="numbered"),
    "the procedure is null": Manner(procedure="null"),
    "no procedure": Manner(procedure="missing"),
    "identification_onfile": Manner(identification="identification_onfile"),
    "pages are capped": Manner(page_cap=3),
    "pages are capped and not counted": Manner(page_cap=3, count_name=None),
    "contains is missing": Manner(contains="missing"),
    "contains is null": Manner(contains="null"),
    "optional fields are missing": Manner(optional="missing"),
    "optional fields are null": Manner(optional="null"),
    "the birth date is text": Manner(birth_date="text"),
    "the birth date is an instant as text": Manner(birth_date="datetime"),
    "newest history first": Manner(history="newest first"),
    "an unknown status": Manner(status="archived"),
    "an unknown source": Manner(source_type="breach"),
    "loose numbers": Manner(loose_numbers=True),
    "unknown fields": Manner(extra_fields=True),
    "request fields in responses": Manner(request_fields=True),
    "errors as HTML": Manner(errors="html"),
    "errors without a body": Manner(errors="empty"),
    "all at once": OTHERWISE,
}
XML_MANNERS: dict[str, Manner] = {
    f"{style}, {null}, {name}": replace(manner, encoding="xml", xml_style=style, xml_null=null)
    for style in ("repeated", "items")
    for null in ("nil", "empty")
    for name, manner in (("plain", PLAIN), ("all at once", OTHERWISE))
}

# --- five invented people -----------------------------------------------------------------------------


def _record(number: int, name: str, site: str, status: str, **rest: Any) -> dict[str, Any]:
    href = f"https://{site.lower()}.example/p/{number}?a=1&b=2"
    lists: dict[str, Any] = {"relations": [], "aliases": [], "locations": []}
    required = {"user_fields_required_for_removal": ["first_name", "last_name"]}
    common = {"id": number, "name": name, "site": site, "status": status, "age": None, "href": href}
    return {**common, **lists, "reference_id": "", **required, **rest}


def _link(slug: str, title: str, *contains: str) -> dict[str, Any]:
    return {"url": f"https://pages.example/{slug}", "title": title, "contains": list(contains)}


def _alert(text: str, source: dict[str, Any], *steps: str) -> dict[str, Any]:
    kind = "link" if "title" in source else "record"
    source_fields = {key: value for key, value in source.items() if key != "user_fields_required_for_removal"}
    return {
        "text": text,
        "html": f"<p><b>{html.escape(text, quote=False)}</b></p>",
        "url": source.get("url") or source.get("href") or "https://alerts.example/none",
        "guide": f"About {source.get('site', 'this page')}: an invented listing & its habits.",
        "opt_out_procedure": list(steps),
        "source_type": kind,
        "source": {kind: source_fields},
    }


def _address(number: int, *parts: str | None) -> dict[str, Any]:
    names = ("address1", "address2", "city", "state", "zip")
    return {"id": number, **dict(zip(names, parts, strict=True)), "country": "US"}


def _alias(number: int, first: str, last: str, kind: str = "nickname") -> dict[str, Any]:
    return {"id": number, "first_name": first, "last_name": last, "alias_type": kind}


def _person(number: int, secret: str, birth_date: int | None, *names: str, **rest: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "aliases": [],
        "emails": [],
        "phone_numbers": [],
        "addresses": [],
        "records": [],
        "links": [],
        "service_history": [{"activated_service_on": "2026/01/05 08:00:00 +0000"}],
        "is_scanning": False,
        "identification_on_file": False,
        "alerts": [],
    }
    first, middle, last = names
    common = {"id": number, "secret": secret, "birth_date": birth_date}
    return {**common, "first_name": first, "middle_name": middle, "last_name": last, **empty, **rest}


_MIRABEL = (
    _record(
        9001,
        "Mirabel Okontan",
        "PeepFinder",
        "discovered",
        age=42,
        reference_id="000560228488",
        relations=["Idris Okontan", "Pia Okontan"],
        aliases=["Mira Okontan"],
        locations=["Westhollow, MA", "Larch Bay, ME"],
        user_fields_required_for_removal=["first_name", "last_name", "address1"],
    ),
    _record(9002, "M. Okontan", "WhoDex", "pending removal", age=None, reference_id="77120045", href=None),
    _record(9003, "Mirabel J Okontan", "LookThem", "removed", age=41, reference_id="LT-3391-a"),
)
_AURELIO = (
    _record(9011, "Aurelio Vantongel", "PeepFinder", "discovered", age=68, reference_id="560228489"),
    _record(
        9012,
        "Aurelio & Beata Vantongel",
        "StreetRoll",
        "discovered",
        age=None,
        reference_id="00017",
        relations=["Beata Vantongel"],
        locations=["Old Quarry, NM"],
    ),
    _record(9013, "A Vantongel", "WhoDex", "removed", age=67, reference_id="77120046", href=None),
    _record(9014, "Aurelio Vantongel Sr", "LookThem", "pending removal", age=68, reference_id="LT-3392"),
)
_ZOFIA = (
    _record(
        9021,
        "Żofia Brzękowska",
        "StreetRoll",
        "discovered",
        age=29,
        reference_id="18014398509481985",  # more than 2**53: a float would lose it
        aliases=["Zofia Brzekowska", "Zosia Brzekowska"],
        locations=["Kettle Falls, WA"],
    ),
    _record(9022, "Zofia Brzekowska", "PeepFinder", "removed", age=30, reference_id="000000000001"),
)
_NED = (
    _record(
        9031,
        'Ned "Odd" O\'Dellory <Jr>',
        "WhoDex",
        "pending removal",
        age=0,
        reference_id="90",
        relations=["A & B <Dellory>"],
    ),
    _record(9032, "Ned Odellory", "StreetRoll", "discovered", age=55, reference_id="0", href=None),
)
_MIRABEL_LINKS = (
    _link("minutes-14", "Minutes of the harbour club", "email", "phone"),
    _link("roster", "Roster 2019 <final>", "address"),
)
_AURELIO_LINKS = (
    _link("quarry", "Quarry news", "address", "phone"),
    _link("guestbook?p=2&n=1", "Guestbook", "email"),
)
_ZOFIA_LINKS = (
    _link("race", "Half marathon: results", "age"),
    _link("thesis", "Rozprawa o źródłach", "email"),
    _link("list", "A mailing list", "email", "address", "phone"),
    _link("nothing", "A page that names nothing"),
)
_NED_LINKS = (
    _link("forum", "Forum", "email"),
    _link("petition", "Petition", "address"),
    _link("sale", "Yard sale", "phone", "address"),
)

# In the shapes of Get user, records bare and whole, with the person's `alerts` and the request-only
# fields `alias_type` and `country` beside them.
PEOPLE: tuple[dict[str, Any], ...] = (
    _person(
        101,
        "904417732051266311",
        457_920_000,  # 1984-07-06
        *("Mirabel", "June", "Okontan"),
        aliases=[_alias(1, "Mira", "Okontan"), _alias(2, "Mirabel", "Fenwright", "maiden")],
        emails=[
            {"id": 11, "address": "mirabel@example.com"},
            {"id": 12, "address": "mira.okontan@example.org"},
        ],
        phone_numbers=[{"id": 21, "number": "4135550101"}, {"id": 22, "number": "02075550102"}],
        addresses=[
            _address(31, "14 Heron Lane", "Unit #3 & 4", "Westhollow", "MA", "01234"),
            _address(32, "2 Pier Road", None, "Larch Bay", "ME", "04999"),
        ],
        records=list(_MIRABEL),
        links=list(_MIRABEL_LINKS),
        alerts=[
            _alert(
                "PeepFinder lists you", _MIRABEL[0], "Open the listing.", "Choose remove.", "Confirm by mail."
            ),
            _alert("An opt-out was sent to WhoDex", _MIRABEL[1], "Wait for two weeks."),
            _alert("Your email is on a page", _MIRABEL_LINKS[0], "Write to the owner.", "Ask for removal."),
        ],
    ),
    _person(
        102,
        "817263544098112233",
        -352_425_600,  # 1958-11-01
        *("Aurelio", "", "Vantongel"),
        emails=[{"id": 13, "address": "aurelio@example.net"}],
        phone_numbers=[{"id": 23, "number": "5055550147"}],
        addresses=[_address(33, "900 Quarry Spur", None, "Old Quarry", "NM", "87599")],
        records=list(_AURELIO),
        links=list(_AURELIO_LINKS),
        identification_on_file=True,
        alerts=[
            _alert("A removal was verified at WhoDex", _AURELIO[2]),
            _alert("Your address is on a page", _AURELIO_LINKS[0], "Call the newsroom."),
        ],
    ),
    _person(
        103,
        "700000000000000001",
        None,
        *("Tamsin", "Rue", "Quillfeth"),
        addresses=[_address(34, "1 Nowhere Court", "", "Tall Pines", "OR", "97999")],
        is_scanning=True,
    ),
    _person(
        104,
        "655443322110099887",
        848_016_000,  # 1996-11-15
        *("Żofia", "Maria", "Brzękowska"),
        aliases=[_alias(3, "Zosia", "Brzękowska")],
        emails=[{"id": 14, "address": "zofia@example.com"}],
        phone_numbers=[{"id": 24, "number": "5095550163"}],
        addresses=[_address(35, "77 Mill Street", "Apt 9", "Kettle Falls", "WA", "99141")],
        records=list(_ZOFIA),
        links=list(_ZOFIA_LINKS),
        service_history=[
            {"activated_service_on": "2025/03/01 23:59:59 +0000"},
            {"deactivated_service_on": "2025/09/30 00:00:00 +0000"},
            {"activated_service_on": "2026/02/28 12:30:00 +0000"},
        ],
        identification_on_file=True,
        alerts=[
            _alert("StreetRoll lists you", _ZOFIA[0], "Send form 7.", "Keep the number."),
            _alert("Your email is on a page", _ZOFIA_LINKS[1], "Write to the library."),
        ],
    ),
    _person(
        107,  # 105 and 106 are gone: ids have gaps
        "123456789012345678",
        0,  # 1970-01-01: a zero is a date, not an absence
        *("Ned", "", "O'Dellory"),
        aliases=[_alias(4, "Neddy", "O'Dellory & Sons")],
        emails=[{"id": 15, "address": "ned+lists@example.com"}],
        phone_numbers=[{"id": 25, "number": "2125550199"}],
        addresses=[_address(36, "5 <Back> Alley", None, "Fort Minor", "NY", "00501")],
        records=list(_NED),
        links=list(_NED_LINKS),
        service_history=[
            {"activated_service_on": "2026/04/01 00:00:00 +0000"},
            {"deactivated_service_on": "2026/10/01 00:00:00 +0000"},
        ],
        alerts=[
            _alert("An opt-out was sent to WhoDex", _NED[0], "Wait."),
            _alert("StreetRoll lists you", _NED[1], "Send form 7.", "Keep the number."),
            _alert("Your email is on a page", _NED_LINKS[0], "Ask the moderators."),
            _alert("Your phone is on a page", _NED_LINKS[2], "Ask the seller."),
        ],
    ),
)

# --- shapes -------------------------------------------------------------------------------------------

_EXTRA = {"x_note": "not in the specification", "x_more": {"deep": [1, 2], "none": None}, "x_flag": True}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _thing(fields: dict[str, Any], manner: Manner, *optional: str) -> dict[str, Any]:
    """An object with the manner's unknown fields, and without its optional ones."""
    fields_sent = {**fields, **_EXTRA} if manner.extra_fields else dict(fields)
    for name in optional:
        if manner.optional == "missing":
            del fields_sent[name]
        elif manner.optional == "null":
            fields_sent[name] = None
    return fields_sent


def _number(text: str, manner: Manner) -> str | int:
    loose = manner.loose_numbers and text.isdecimal() and (text == "0" or not text.startswith("0"))
    return int(text) if loose else text


def _secret_shown(person: dict[str, Any], manner: Manner) -> str | int:
    return int(person["secret"]) if manner.secret == "integer" else person["secret"]


def _birth_date_shown(seconds: int | None, manner: Manner) -> int | str | None:
    if seconds is None or manner.birth_date == "epoch":
        return seconds
    instant = _EPOCH + timedelta(seconds=seconds)
    return instant.strftime("%Y-%m-%d" if manner.birth_date == "text" else "%Y-%m-%dT%H:%M:%SZ")


def _record_shown(record: dict[str, Any], manner: Manner, *, required: bool = False) -> dict[str, Any]:
    hidden = set() if required else {"user_fields_required_for_removal"}
    fields = {name: value for name, value in record.items() if name not in hidden}
    fields["reference_id"] = _number(fields["reference_id"], manner)
    return _thing(fields, manner, "age", "href", *({"user_fields_required_for_removal"} - hidden))


def _records_shown(person: dict[str, Any], manner: Manner, *, inside: str) -> list[dict[str, Any]]:
    records_sent = [_record_shown(record, manner, required=inside == "get") for record in person["records"]]
    wrapped = manner.records == "wrapped" or (manner.records == "specified" and inside == "list")
    return [{"record": record} for record in records_sent] if wrapped else records_sent


def _link_shown(link: dict[str, Any], manner: Manner) -> dict[str, Any]:
    fields = dict(link)
    if manner.contains == "missing":
        del fields["contains"]
    elif manner.contains == "null":
        fields["contains"] = None
    return _thing(fields, manner)


_PROCEDURES: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "string": " ".join,
    "numbered": lambda steps: "\n".join(f"{position}. {step}" for position, step in enumerate(steps, 1)),
    "null": lambda _: None,
}


def _alert_shown(alert: dict[str, Any], manner: Manner) -> dict[str, Any]:
    fields = dict(alert)
    if manner.procedure == "missing":
        del fields["opt_out_procedure"]
    else:
        fields["opt_out_procedure"] = _PROCEDURES[manner.procedure](alert["opt_out_procedure"])
    ((kind, source),) = alert["source"].items()
    show = _link_shown if "title" in source else _record_shown
    fields["source"] = {kind: show(source, manner)}
    return _thing(fields, manner, "url", "guide")


def _listed(person: dict[str, Any], name: str, manner: Manner) -> list[dict[str, Any]]:
    hidden = set() if manner.request_fields else {"alias_type", "country"}
    items = [{key: value for key, value in item.items() if key not in hidden} for item in person[name]]
    for item in items:
        item.update({key: _number(item[key], manner) for key in ("zip", "number") if key in item})
    return [_thing(item, manner, *({"address2"} & item.keys())) for item in items]


def _user_shown(person: dict[str, Any], manner: Manner, *, inside: str) -> dict[str, Any]:
    history = person["service_history"]
    fields = {
        "id": person["id"],
        "secret": _secret_shown(person, manner),
        "birth_date": _birth_date_shown(person["birth_date"], manner),
        **{name: person[name] for name in _NAMES},
        **{name: _listed(person, name, manner) for name in _LISTS},
        "records": _records_shown(person, manner, inside=inside),
        "links": [_link_shown(link, manner) for link in person["links"]],
        "service_history": list(history) if manner.history == "chronological" else history[::-1],
        "is_scanning": person["is_scanning"],
        manner.identification: person["identification_on_file"],
    }
    return _thing(fields, manner)


# --- encodings ----------------------------------------------------------------------------------------


def _xml_nodes(name: str, value: Any, manner: Manner) -> str:
    match value:
        case None:
            return f'<{name} xsi:nil="true"/>' if manner.xml_null == "nil" else f"<{name}/>"
        case dict():
            inside = "".join(_xml_nodes(key, item, manner) for key, item in value.items())
        case list() if manner.xml_style == "repeated":
            return "".join(_xml_nodes(name, item, manner) for item in value)
        case list():
            inside = "".join(_xml_nodes("item", item, manner) for item in value)
        case bool():
            inside = "true" if value else "false"
        case _:
            inside = html.escape(str(value), quote=False)
    return f"<{name}>{inside}</{name}>" if inside else f"<{name}/>"


def _xml(answer: dict[str, Any], manner: Manner) -> bytes:
    inside = "".join(_xml_nodes(name, value, manner) for name, value in answer.items())
    space = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    return f"<?xml version='1.0'?>\n<{manner.xml_root} {space}>{inside}</{manner.xml_root}>\n".encode()


def _form(text: str) -> dict[str, Any]:
    """Form fields; `emails[][address]` and `emails[0][address]` make lists of objects."""
    fields: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        head, *keys = re.split(r"\]?\[", name.removesuffix("]"))
        if not keys:
            fields[head] = value
            continue
        items = fields.setdefault(head, [])
        index, key = keys[0], keys[-1]
        if len(keys) == 1:
            items.append(value)
            continue
        fresh = int(index) >= len(items) if index else not items or key in items[-1]
        if fresh:
            items.append({})
        items[int(index) if index else -1][key] = value
    return fields


# --- operations ---------------------------------------------------------------------------------------

_NAMES = ("first_name", "middle_name", "last_name")
_LISTS = ("aliases", "emails", "phone_numbers", "addresses")
_ITEM_FIELDS = {
    "aliases": ("first_name", "last_name", "alias_type"),
    "emails": ("address",),
    "phone_numbers": ("number",),
    "addresses": ("address1", "address2", "city", "state", "zip", "country"),
}


class _Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _integer(value: Any, name: str, default: int | None = None) -> int | None:
    if value in (None, ""):
        return default
    try:
        return int(value)
    except (TypeError, ValueError):
        raise _Refusal(400, f"{name} is invalid") from None


def _true(value: Any) -> bool:
    return value in (True, 1, "true", "1")


def _items(value: Any, name: str) -> list[dict[str, Any]]:
    """A list of objects, a JSON text of one, or comma-separated text."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        value = json.loads(value)
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if name == "aliases":
            return [
                {"first_name": part.split()[0], "last_name": " ".join(part.split()[1:])} for part in parts
            ]
        return [{_ITEM_FIELDS[name][0]: part} for part in parts]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _Refusal(400, f"{name} is invalid")
    return value


@dataclass(frozen=True)
class Request:
    """What came, by name only: `path` has no query, the three tuples hold sorted parameter names."""

    method: str
    path: str
    query: tuple[str, ...]
    body: tuple[str, ...]
    headers: tuple[str, ...]  # of the credentials' headers, those that came
    encoding: str | None  # the body's media type

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(sorted({*self.query, *self.body}))


class Service(str):
    """A running service. It is its own base URL: what precedes `/api/`."""

    __slots__ = ("_latest", "_lock", "manner", "people", "requests")

    manner: Manner
    people: dict[int, dict[str, Any]]  # as they are now, by id, in the shape of PEOPLE
    requests: list[Request]

    @classmethod
    def at(cls, port: int, manner: Manner) -> "Service":
        service = cls(f"http://127.0.0.1:{port}")
        service.manner = manner
        service.people = {person["id"]: copy.deepcopy(person) for person in PEOPLE}
        service.requests = []
        service._latest = 50_000
        service._lock = threading.Lock()
        for person in service.people.values():
            service._color(person)
        return service

    @property
    def base_url(self) -> str:
        return str(self)

    def _color(self, person: dict[str, Any]) -> None:
        if self.manner.status and person["records"]:
            person["records"][0]["status"] = self.manner.status
        if self.manner.source_type and person["alerts"]:
            alert = person["alerts"][0]
            alert["source_type"] = self.manner.source_type
            alert["source"] = {self.manner.source_type: next(iter(alert["source"].values()))}

    def _fresh(self) -> int:
        self._latest += 1
        return self._latest

    def create_user(self, values: dict[str, Any]) -> dict[str, Any]:
        for name in ("first_name", "last_name"):
            if not values.get(name):
                raise _Refusal(400, f"{name} is missing")
        number = self._fresh()
        person = _person(number, str(700_000_000_000_000_000 + number), None, "", "", "")
        self._edit(person, values)
        whole = f"{person['first_name']} {person['last_name']}"
        person["is_scanning"] = _true(values.get("async"))
        if not person["is_scanning"]:  # "a new scan completes before the call returns"
            record = _record(self._fresh(), whole, "PeepFinder", "discovered", age=None, reference_id="0042")
            person["records"] = [record]
            person["links"] = [_link(f"new-{number}", "A page", "email")]
            person["alerts"] = [_alert("PeepFinder lists you", record, "Open the listing.")]
            self._color(person)
        self.people[number] = person
        return {"user": _user_shown(person, self.manner, inside="create")}

    def list_users(self, values: dict[str, Any]) -> dict[str, Any]:
        limit = _integer(values.get("limit"), "limit", 100)
        offset = _integer(values.get("offset"), "offset", 0)
        if limit < 0 or offset < 0:
            raise _Refusal(400, "limit or offset is invalid")
        if self.manner.page_cap is not None:
            limit = min(limit, self.manner.page_cap)
        everyone = [self.people[number] for number in sorted(self.people)]
        page = everyone[offset : offset + limit]
        users = [{"id": person["id"], "secret": _secret_shown(person, self.manner)} for person in page]
        count = len(everyone) if self.manner.count_of == "all" else len(page)
        named = {self.manner.count_name: count} if self.manner.count_name else {}
        return {**named, "users": [_thing(user, self.manner) for user in users]}

    def get_user(self, person: dict[str, Any]) -> dict[str, Any]:
        return {"user": _user_shown(person, self.manner, inside="get")}

    def update_user(self, person: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        changed = copy.deepcopy(person)
        self._edit(changed, values)
        self.people[person["id"]] = changed
        return {"user": _user_shown(changed, self.manner, inside="update")}

    def list_user_records(self, person: dict[str, Any]) -> dict[str, Any]:
        return {"records": _records_shown(person, self.manner, inside="list")}

    def get_record(self, person: dict[str, Any], number: int) -> dict[str, Any]:
        for record in person["records"]:
            if record["id"] == number:
                return {"record": _record_shown(record, self.manner)}
        raise _Refusal(400, "id is invalid")

    def list_user_links(self, person: dict[str, Any]) -> dict[str, Any]:
        return {"links": [_link_shown(link, self.manner) for link in person["links"]]}

    def get_user_alerts(self, person: dict[str, Any]) -> dict[str, Any]:
        return {"alerts": [_alert_shown(alert, self.manner) for alert in person["alerts"]]}

    def _edit(self, person: dict[str, Any], values: dict[str, Any]) -> None:
        """Update user, rules 1 to 5."""
        for name in _NAMES:
            if values.get(name) is not None:
                person[name] = str(values[name])
        if "birth_date" in values:
            person["birth_date"] = _integer(values["birth_date"], "birth_date")
        for name in _LISTS:
            if values.get(name) is not None:
                for item in _items(values[name], name):
                    self._edit_item(person[name], item, name)

    def _edit_item(self, existing: list[dict[str, Any]], item: dict[str, Any], name: str) -> None:
        fields = {key: item[key] for key in _ITEM_FIELDS[name] if key in item}
        if item.get("id") in (None, ""):
            if not _true(item.get("_destroy")):
                existing.append({"id": self._fresh(), **dict.fromkeys(_ITEM_FIELDS[name], ""), **fields})
            return
        places = {str(existing_item["id"]): position for position, existing_item in enumerate(existing)}
        if str(item["id"]) not in places:
            raise _Refusal(400, f"id in {name} is invalid")
        position = places[str(item["id"])]
        if _true(item.get("_destroy")):
            del existing[position]
        else:
            existing[position] = {**existing[position], **fields}

    def _answer(
        self, method: str, path: str, values: dict[str, Any], secrets: dict[str, str]
    ) -> dict[str, Any]:
        """The operation that a path names, on plain values."""
        match [unquote(part) for part in path.removesuffix(".json").removesuffix(".xml").split("/")]:
            case ["", "api", integration_name, api_key, "v2", "users", *rest]:
                pass
            case _:
                raise _Refusal(404, "no such path")
        if (integration_name, api_key) != (INTEGRATION_NAME, API_KEY):
            raise _Refusal(401, "api_key is invalid")
        _check("api_secret", secrets, API_SECRET)
        if not rest:
            chosen = {"POST": self.create_user, "GET": self.list_users}.get(method)
            if chosen is None:
                raise _Refusal(405, "no such method")
            return chosen(values)
        return self._answer_person(method, rest, values, secrets)

    def _answer_person(
        self, method: str, rest: list[str], values: dict[str, Any], secrets: dict[str, str]
    ) -> dict[str, Any]:
        person = self.people.get(int(rest[0]) if rest[0].isdecimal() else -1)
        _check("secret", secrets, person["secret"] if person else None)
        match (method, *rest[1:]):
            case ("GET",):
                return self.get_user(person)
            case ("PUT",):
                return self.update_user(person, values)
            case ("GET", "records"):
                return self.list_user_records(person)
            case ("GET", "records", number) if number.isdecimal():
                return self.get_record(person, int(number))
            case ("GET", "links"):
                return self.list_user_links(person)
            case ("GET", "alerts"):
                return self.get_user_alerts(person)
        raise _Refusal(404, "no such path")


def _check(name: str, secrets: dict[str, str], right: str | None) -> None:
    if name not in secrets:
        raise _Refusal(400, f"{name} is missing")
    if right is None or secrets[name] != right:
        raise _Refusal(401, f"{name} is invalid")


# --- HTTP ---------------------------------------------------------------------------------------------

_HEADERS = {"api_secret": "X-Api-Secret", "secret": "X-User-Secret"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "otherwise"
    wbufsize = -1  # one write an answer
    disable_nagle_algorithm = True
    timeout = 30
    service: Service  # set on the class made for each server

    def log_message(self, *_: Any) -> None:
        """Stay quiet: the request line holds the key."""

    def answer(self) -> None:
        service, manner = self.service, self.service.manner
        address = urlsplit(self.path)
        try:
            query, body = _form(address.query), self._body()
            headers = {key: self.headers[name] for key, name in _HEADERS.items() if name in self.headers}
            self._note(address.path, query, body, headers)
            places = {"query": query, "body": body, "header": headers}
            if manner.credentials_in != "anywhere":
                places = {manner.credentials_in: places[manner.credentials_in]}
            secrets = {
                name: str(parameters[name])
                for parameters in places.values()
                for name in _HEADERS
                if name in parameters
            }
            with service._lock:
                answer = service._answer(self.command, address.path, {**query, **body}, secrets)
        except _Refusal as refusal:
            self._refuse(refusal)
        except (ValueError, TypeError, KeyError):
            self._refuse(_Refusal(400, "the request is not readable"))
        else:
            self._send(200, *self._encode({**answer, **(_EXTRA if manner.extra_fields else {})}))

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer  # noqa: N815 BaseHTTPRequestHandler's names

    def _body(self) -> dict[str, Any]:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not content:
            return {}
        if self.headers.get_content_type() == "application/json":
            fields = json.loads(content)
            return fields if isinstance(fields, dict) else {}
        return _form(content.decode())

    def _note(self, path: str, query: dict[str, Any], body: dict[str, Any], headers: dict[str, str]) -> None:
        kind = self.headers.get_content_type() if "Content-Type" in self.headers else None
        names = (tuple(sorted(parameters)) for parameters in (query, body))
        sent = tuple(sorted(_HEADERS[name] for name in headers))
        self.service.requests.append(Request(self.command, path, *names, sent, kind))

    def _encode(self, answer: dict[str, Any]) -> tuple[str, bytes]:
        manner = self.service.manner
        requested = "xml" if urlsplit(self.path).path.endswith(".xml") else "json"
        if (requested if manner.encoding == "asked" else manner.encoding) == "xml":
            return "text/xml; charset=utf-8", _xml(answer, manner)
        return "application/json", json.dumps(answer, ensure_ascii=False).encode()

    def _refuse(self, refusal: _Refusal) -> None:
        shapes = {"html": ("text/html", f"<h1>{refusal}</h1>".encode()), "empty": ("text/plain", b"")}
        shape = shapes.get(self.service.manner.errors) or self._encode({"error": str(refusal)})
        self._send(refusal.status, *shape)

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # joined, so that no test leaves a thread behind
    request_queue_size = 128

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own asks a name server who we are
        self.server_name, self.server_port = self.server_address[:2]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, peer = super().get_request()
        self._open.add(connection)
        return connection, peer

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: Any) -> None:
        """A client may leave in the middle of an answer."""

    def stop(self) -> None:
        self.shutdown()
        for connection in tuple(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # gone by itself
                continue
        self.server_close()


@contextmanager
def running(manner: Manner = PLAIN) -> Iterator[Service]:
    """Serve the five people in this manner on a free loopback port, until the block ends."""
    server = _Server()
    service = Service.at(server.server_port, manner)
    server.RequestHandlerClass = type("Handler", (_Handler,), {"service": service})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="otherwise")
    thread.start()
    try:
        yield service
    finally:
        server.stop()
        thread.join()
