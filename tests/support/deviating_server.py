"""A second service of the API, written from the specification alone, whose responses deviate as a `Variant` says.

It has five invented people and is reachable on the loopback only.

    with running(Variant(count_name="total", secret="integer")) as service:
        client = Client(base_url=str(service), ...)
        assert service.requests[-1].path.endswith("/users.json")
"""

import copy
import html
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import unquote

from support import faults

INTEGRATION_NAME = "acme"
API_KEY = "key-otherwise"
API_SECRET = "secret-otherwise"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """How responses deviate. Unset, they have the shapes of the specification."""

    count_name: Literal["count", "total"] | None = "count"
    count_of: Literal["all", "page"] = "all"
    secret: Literal["text", "integer"] = "text"  # the same digits either way, more than 2**53
    records: Literal["specified", "bare", "wrapped"] = "specified"  # in Get user and in lists
    procedure: Literal["list", "string", "numbered", "null", "missing"] = "list"
    identification: Literal["identification_on_file", "identification_onfile"] = "identification_on_file"
    encoding: Literal["requested", "json", "xml"] = "requested"  # by the suffix of the path
    xml_root: str = "answer"
    xml_style: Literal["repeated", "items"] = "repeated"  # items: <emails><item>; never a type attribute
    xml_null: Literal["nil", "empty"] = "nil"  # xsi:nil="true", or <age/>
    page_cap: int | None = None  # lowers `limit` silently
    contains: Literal["present", "missing", "null"] = "present"
    optional: Literal["present", "missing", "null"] = "present"  # age, href, address2, an alert's url, guide
    birth_date: Literal["epoch", "text", "datetime"] = "epoch"
    history: Literal["chronological", "newest first"] = "chronological"
    status: str | None = None  # of each person's first record
    source_type: str | None = None  # of each person's first alert, and the key in its source
    loose_numbers: bool = False  # zip, number, reference_id as JSON numbers where no zero leads
    extra_fields: bool = False  # unknown fields in every object but those of exactly one key
    request_fields: bool = False  # alias_type and country in responses
    errors: Literal["json", "html", "empty"] = "json"
    credentials_in: Literal["anywhere", "query", "body", "header"] = "anywhere"


PLAIN = Variant()
COMBINED = Variant(
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
_DEVIATIONS: dict[str, tuple[Any, ...]] = {
    "count_name": ("total", None),
    "secret": ("integer",),
    "records": ("bare", "wrapped"),
    "procedure": ("string", "numbered", "null", "missing"),
    "identification": ("identification_onfile",),
    "page_cap": (3,),
    "contains": ("missing", "null"),
    "optional": ("missing", "null"),
    "birth_date": ("text", "datetime"),
    "history": ("newest first",),
    "status": ("archived",),
    "source_type": ("breach",),
    "loose_numbers": (True,),
    "extra_fields": (True,),
    "request_fields": (True,),
    "errors": ("html", "empty"),
}
VARIANTS = {
    f"{name}: {value}": Variant(**{name: value}) for name in _DEVIATIONS for value in _DEVIATIONS[name]
}
VARIANTS |= {
    "plain": PLAIN,
    "count of the page": Variant(count_of="page", page_cap=3),
    "capped pages without count": Variant(page_cap=3, count_name=None),
    "combined": COMBINED,
}
XML_VARIANTS = {
    f"XML, {style}, {null}, {name}": replace(variant, encoding="xml", xml_style=style, xml_null=null)
    for style in ("repeated", "items")
    for null in ("nil", "empty")
    for name, variant in (("plain", PLAIN), ("combined", COMBINED))
}


_NAMES = ("first_name", "middle_name", "last_name")
_ITEM_FIELDS = {
    "aliases": ("first_name", "last_name", "alias_type"),
    "emails": ("address",),
    "phone_numbers": ("number",),
    "addresses": ("address1", "address2", "city", "state", "zip", "country"),
}


def _record(number: int, *values: Any, **rest: Any) -> dict[str, Any]:
    named = zip(("name", "site", "status", "age", "reference_id"), values, strict=True)
    record = {"id": number, **dict(named), "relations": [], "aliases": [], "locations": []}
    record["href"] = f"https://{record['site'].lower()}.example/p/{number}?a=1&b=2"
    record["user_fields_required_for_removal"] = ["first_name", "last_name"]
    return record | rest


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


def _person(
    number: int, secret: str, birth_date: int | None, *names: str, alerts: Any = (), **rest: Any
) -> dict[str, Any]:
    """A person; items are (id, fields), the source of an alert is the position of a record or the title of a link."""
    person: dict[str, Any] = {"id": number, "secret": secret, "birth_date": birth_date}
    person |= dict(zip(_NAMES, names, strict=True))
    person |= {"records": [], "links": [], "is_scanning": False, "identification_on_file": False}
    person["service_history"] = [{"activated_service_on": "2026/01/05 08:00:00 +0000"}]
    person |= rest
    for name, fields in _ITEM_FIELDS.items():
        person[name] = [
            {"id": item[0], **dict(zip(fields, item[1:], strict=True))} for item in rest.get(name, ())
        ]
    sources = dict(enumerate(person["records"])) | {link["title"]: link for link in person["links"]}
    person["alerts"] = [_alert(text, sources[source], *steps) for text, source, *steps in alerts]
    return person


# In the shapes of Get user, records bare, with the person's `alerts`, `alias_type` and `country` beside them.
PEOPLE: tuple[dict[str, Any], ...] = (
    _person(
        *(101, "904417732051266311", 457_920_000, "Mirabel", "June", "Okontan"),  # 1984-07-06
        aliases=[(1, "Mira", "Okontan", "nickname"), (2, "Mirabel", "Fenwright", "maiden")],
        emails=[(11, "mirabel@example.com"), (12, "mira.okontan@example.org")],
        phone_numbers=[(21, "4135550101"), (22, "02075550102")],
        addresses=[
            (31, "14 Heron Lane", "Unit #3 & 4", "Westhollow", "MA", "01234", "US"),
            (32, "2 Pier Road", None, "Larch Bay", "ME", "04999", "US"),
        ],
        records=[
            _record(
                *(9001, "Mirabel Okontan", "PeepFinder", "discovered", 42, "000560228488"),
                relations=["Idris Okontan", "Pia Okontan"],
                aliases=["Mira Okontan"],
                locations=["Westhollow, MA", "Larch Bay, ME"],
                user_fields_required_for_removal=["first_name", "last_name", "address1"],
            ),
            _record(9002, "M. Okontan", "WhoDex", "pending removal", None, "77120045", href=None),
            _record(9003, "Mirabel J Okontan", "LookThem", "removed", 41, "LT-3391-a"),
        ],
        links=[
            _link("minutes-14", "Minutes of the harbour club", "email", "phone"),
            _link("roster", "Roster 2019 <final>", "address"),
        ],
        alerts=[
            ("PeepFinder lists you", 0, "Open the listing.", "Choose remove.", "Confirm by mail."),
            ("An opt-out was sent to WhoDex", 1, "Wait for two weeks."),
            ("Your email is on a page", "Minutes of the harbour club", "Write to them.", "Ask for removal."),
        ],
    ),
    _person(
        *(102, "817263544098112233", -352_425_600, "Aurelio", "", "Vantongel"),  # 1958-11-01
        emails=[(13, "aurelio@example.net")],
        phone_numbers=[(23, "5055550147")],
        addresses=[(33, "900 Quarry Spur", None, "Old Quarry", "NM", "87599", "US")],
        records=[
            _record(9011, "Aurelio Vantongel", "PeepFinder", "discovered", 68, "560228489"),
            _record(
                *(9012, "Aurelio & Beata Vantongel", "StreetRoll", "discovered", None, "00017"),
                relations=["Beata Vantongel"],
                locations=["Old Quarry, NM"],
            ),
            _record(9013, "A Vantongel", "WhoDex", "removed", 67, "77120046", href=None),
            _record(9014, "Aurelio Vantongel Sr", "LookThem", "pending removal", 68, "LT-3392"),
        ],
        links=[
            _link("quarry", "Quarry news", "address", "phone"),
            _link("guestbook?p=2&n=1", "Guestbook", "email"),
        ],
        identification_on_file=True,
        alerts=[
            ("A removal was verified at WhoDex", 2),
            ("Your address is on a page", "Quarry news", "Call the newsroom."),
        ],
    ),
    _person(
        *(103, "700000000000000001", None, "Tamsin", "Rue", "Quillfeth"),
        addresses=[(34, "1 Nowhere Court", "", "Tall Pines", "OR", "97999", "US")],
        is_scanning=True,
    ),
    _person(
        *(104, "655443322110099887", 848_016_000, "Żofia", "Maria", "Brzękowska"),  # 1996-11-15
        aliases=[(3, "Zosia", "Brzękowska", "nickname")],
        emails=[(14, "zofia@example.com")],
        phone_numbers=[(24, "5095550163")],
        addresses=[(35, "77 Mill Street", "Apt 9", "Kettle Falls", "WA", "99141", "US")],
        records=[
            _record(  # the reference is more than 2**53: a float would lose it
                *(9021, "Żofia Brzękowska", "StreetRoll", "discovered", 29, "18014398509481985"),
                aliases=["Zofia Brzekowska", "Zosia Brzekowska"],
                locations=["Kettle Falls, WA"],
            ),
            _record(9022, "Zofia Brzekowska", "PeepFinder", "removed", 30, "000000000001"),
        ],
        links=[
            _link("race", "Half marathon: results", "age"),
            _link("thesis", "Rozprawa o źródłach", "email"),
            _link("list", "A mailing list", "email", "address", "phone"),
            _link("nothing", "A page that names nothing"),
        ],
        service_history=[
            {"activated_service_on": "2025/03/01 23:59:59 +0000"},
            {"deactivated_service_on": "2025/09/30 00:00:00 +0000"},
            {"activated_service_on": "2026/02/28 12:30:00 +0000"},
        ],
        identification_on_file=True,
        alerts=[
            ("StreetRoll lists you", 0, "Send form 7.", "Note the number."),
            ("Your email is on a page", "Rozprawa o źródłach", "Write to the library."),
        ],
    ),
    _person(
        *(107, "123456789012345678", 0, "Ned", "", "O'Dellory"),  # ids have gaps; 0 is 1970-01-01
        aliases=[(4, "Neddy", "O'Dellory & Sons", "nickname")],
        emails=[(15, "ned+lists@example.com")],
        phone_numbers=[(25, "2125550199")],
        addresses=[(36, "5 <Back> Alley", None, "Fort Minor", "NY", "00501", "US")],
        records=[
            _record(
                *(9031, 'Ned "Odd" O\'Dellory <Jr>', "WhoDex", "pending removal", 0, "90"),
                relations=["A & B <Dellory>"],
            ),
            _record(9032, "Ned Odellory", "StreetRoll", "discovered", 55, "0", href=None),
        ],
        links=[
            _link("forum", "Forum", "email"),
            _link("petition", "Petition", "address"),
            _link("sale", "Yard sale", "phone", "address"),
        ],
        service_history=[
            {"activated_service_on": "2026/04/01 00:00:00 +0000"},
            {"deactivated_service_on": "2026/10/01 00:00:00 +0000"},
        ],
        alerts=[
            ("An opt-out was sent to WhoDex", 0, "Wait."),
            ("StreetRoll lists you", 1, "Send form 7.", "Note the number."),
            ("Your email is on a page", "Forum", "Ask the moderators."),
            ("Your phone is on a page", "Yard sale", "Ask the seller."),
        ],
    ),
)

_EXTRA = {"x_note": "not in the specification", "x_more": {"deep": [1, 2], "none": None}, "x_flag": True}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PROCEDURES: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "string": " ".join,
    "numbered": lambda steps: "\n".join(f"{position}. {step}" for position, step in enumerate(steps, 1)),
    "null": lambda _: None,
}


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


@dataclass(frozen=True)
class Writer:
    """People and their items in the shapes of a variant."""

    variant: Variant

    def fields(self, fields: dict[str, Any], *optional: str) -> dict[str, Any]:
        sent = fields | (_EXTRA if self.variant.extra_fields else {})
        if self.variant.optional == "missing":
            return _without(sent, *optional)
        return sent | (dict.fromkeys(optional) if self.variant.optional == "null" else {})

    def number(self, text: str) -> str | int:
        loose = self.variant.loose_numbers and text.isdecimal() and (text == "0" or not text.startswith("0"))
        return int(text) if loose else text

    def secret(self, person: dict[str, Any]) -> str | int:
        return int(person["secret"]) if self.variant.secret == "integer" else person["secret"]

    def birth_date(self, seconds: int | None) -> int | str | None:
        if seconds is None or self.variant.birth_date == "epoch":
            return seconds
        form = "%Y-%m-%d" if self.variant.birth_date == "text" else "%Y-%m-%dT%H:%M:%SZ"
        return (_EPOCH + timedelta(seconds=seconds)).strftime(form)

    def record(self, record: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
        needed = ("user_fields_required_for_removal",)
        fields = record if required else _without(record, *needed)
        sent = fields | {"reference_id": self.number(fields["reference_id"])}
        return self.fields(sent, "age", "href", *(needed if required else ()))

    def records(self, person: dict[str, Any], inside: str) -> list[dict[str, Any]]:
        sent = [self.record(record, required=inside == "get") for record in person["records"]]
        is_wrapped = self.variant.records == "wrapped" or (
            self.variant.records == "specified" and inside == "list"
        )
        return [{"record": record} for record in sent] if is_wrapped else sent

    def link(self, link: dict[str, Any]) -> dict[str, Any]:
        contains = {} if self.variant.contains == "present" else {"contains": None}
        return self.fields(
            _without(link, "contains") if self.variant.contains == "missing" else link | contains
        )

    def alert(self, alert: dict[str, Any]) -> dict[str, Any]:
        fields = _without(alert, "opt_out_procedure")
        if self.variant.procedure != "missing":
            fields["opt_out_procedure"] = _PROCEDURES[self.variant.procedure](alert["opt_out_procedure"])
        ((kind, source),) = alert["source"].items()
        fields["source"] = {kind: self.link(source) if "title" in source else self.record(source)}
        return self.fields(fields, "url", "guide")

    def items(self, person: dict[str, Any], name: str) -> list[dict[str, Any]]:
        hidden = () if self.variant.request_fields else ("alias_type", "country")
        items = [_without(item, *hidden) for item in person[name]]
        for item in items:
            item.update({key: self.number(item[key]) for key in ("zip", "number") if key in item})
        return [self.fields(item, *({"address2"} & item.keys())) for item in items]

    def user(self, person: dict[str, Any], inside: str) -> dict[str, Any]:
        history = person["service_history"]
        return self.fields(
            {
                "id": person["id"],
                "secret": self.secret(person),
                "birth_date": self.birth_date(person["birth_date"]),
                **{name: person[name] for name in _NAMES},
                **{name: self.items(person, name) for name in _ITEM_FIELDS},
                "records": self.records(person, inside),
                "links": [self.link(link) for link in person["links"]],
                "service_history": history if self.variant.history == "chronological" else history[::-1],
                "is_scanning": person["is_scanning"],
                self.variant.identification: person["identification_on_file"],
            }
        )

    def xml(self, body: dict[str, Any]) -> bytes:
        inside = "".join(self._element(name, value) for name, value in body.items())
        root, space = self.variant.xml_root, 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        return f"<?xml version='1.0'?>\n<{root} {space}>{inside}</{root}>\n".encode()

    def _element(self, name: str, value: Any) -> str:
        match value:
            case None:
                return f'<{name} xsi:nil="true"/>' if self.variant.xml_null == "nil" else f"<{name}/>"
            case dict():
                inside = "".join(self._element(key, item) for key, item in value.items())
            case list() if self.variant.xml_style == "repeated":
                return "".join(self._element(name, item) for item in value)
            case list():
                inside = "".join(self._element("item", item) for item in value)
            case bool():
                inside = "true" if value else "false"
            case _:
                inside = html.escape(str(value), quote=False)
        return f"<{name}>{inside}</{name}>" if inside else f"<{name}/>"


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


class Service:
    """A running service: a script of `faults.running`; as text it is its base URL."""

    base_url: str
    requests: list[faults.Request]

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.people = {person["id"]: copy.deepcopy(person) for person in PEOPLE}  # as they are now
        self._write = Writer(variant)
        self._latest_id = 50_000
        self._lock = threading.Lock()
        for person in self.people.values():
            self._deviate(person)

    def __str__(self) -> str:
        return self.base_url

    def __call__(self, request: faults.Request) -> faults.Answer:
        status, body = 200, dict(_EXTRA) if self.variant.extra_fields else {}
        try:
            with self._lock:
                body = self._respond(request) | body
        except _Refusal as refusal:
            status, body = refusal.status, {"error": str(refusal)}
        except (ValueError, TypeError, KeyError):
            status, body = 400, {"error": "the request is not readable"}
        if status != 200 and self.variant.errors != "json":
            content = b"<h1>Refused</h1>" if self.variant.errors == "html" else b""
            return faults.Answer(status=status, body=content, content_type="text/html")
        requested = "xml" if request.path.endswith(".xml") else "json"
        if (requested if self.variant.encoding == "requested" else self.variant.encoding) == "xml":
            return faults.Answer(
                status=status, body=self._write.xml(body), content_type="text/xml; charset=utf-8"
            )
        return faults.Answer(status=status, body=json.dumps(body, ensure_ascii=False).encode())

    def _respond(self, request: faults.Request) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(request.body or "{}")
        headers = {"api_secret": "x-api-secret", "secret": "x-user-secret"}
        sent = {"query": request.query, "body": body}
        sent["header"] = {
            name: request.headers[header] for name, header in headers.items() if header in request.headers
        }
        if self.variant.credentials_in != "anywhere":
            sent = {self.variant.credentials_in: sent[self.variant.credentials_in]}
        secrets = {
            name: str(value) for part in sent.values() for name, value in part.items() if name in headers
        }
        if request.operation is None:
            raise _Refusal(404, "no such path")
        _, _, integration_name, api_key, *_ = map(unquote, request.path.split("/"))
        if (integration_name, api_key) != (INTEGRATION_NAME, API_KEY):
            raise _Refusal(401, "api_key is invalid")
        _check("api_secret", secrets, API_SECRET)
        values = request.query | body
        if request.operation in {"create_user", "list_users"}:
            return getattr(self, f"_{request.operation}")(values)
        user_id, *item_ids = map(int, re.findall(r"/(\d+)", request.path))
        person = self.people.get(user_id)
        _check("secret", secrets, person["secret"] if person else None)
        return self._respond_about(request.operation, person, values, *item_ids)

    def _respond_about(
        self, operation: str, person: dict[str, Any], values: dict[str, Any], record_id: int | None = None
    ) -> dict[str, Any]:
        match operation:
            case "update_user":
                changed = copy.deepcopy(person)
                self._edit(changed, values)
                self.people[person["id"]] = changed
                return {"user": self._write.user(changed, "update")}
            case "list_user_records":
                return {"records": self._write.records(person, "list")}
            case "get_record":
                for record in person["records"]:
                    if record["id"] == record_id:
                        return {"record": self._write.record(record)}
                raise _Refusal(400, "id is invalid")
            case "list_user_links":
                return {"links": [self._write.link(link) for link in person["links"]]}
            case "get_user_alerts":
                return {"alerts": [self._write.alert(alert) for alert in person["alerts"]]}
        return {"user": self._write.user(person, "get")}

    def _deviate(self, person: dict[str, Any]) -> None:
        if self.variant.status and person["records"]:
            person["records"][0]["status"] = self.variant.status
        if self.variant.source_type and person["alerts"]:
            alert = person["alerts"][0]
            alert["source_type"] = self.variant.source_type
            alert["source"] = {self.variant.source_type: next(iter(alert["source"].values()))}

    def _next_id(self) -> int:
        self._latest_id += 1
        return self._latest_id

    def _create_user(self, values: dict[str, Any]) -> dict[str, Any]:
        for name in ("first_name", "last_name"):
            if not values.get(name):
                raise _Refusal(400, f"{name} is missing")
        number = self._next_id()
        person = _person(number, str(700_000_000_000_000_000 + number), None, "", "", "")
        self._edit(person, values)
        person["is_scanning"] = bool(values.get("async"))
        if not person["is_scanning"]:  # "a new scan completes before the call returns"
            name = f"{person['first_name']} {person['last_name']}"
            record = _record(self._next_id(), name, "PeepFinder", "discovered", None, "0042")
            person["records"] = [record]
            person["links"] = [_link(f"new-{number}", "A page", "email")]
            person["alerts"] = [_alert("PeepFinder lists you", record, "Open the listing.")]
            self._deviate(person)
        self.people[number] = person
        return {"user": self._write.user(person, "create")}

    def _list_users(self, values: dict[str, Any]) -> dict[str, Any]:
        limit = _integer(values.get("limit"), "limit", 100)
        offset = _integer(values.get("offset"), "offset", 0)
        if limit < 0 or offset < 0:
            raise _Refusal(400, "limit or offset is invalid")
        if self.variant.page_cap is not None:
            limit = min(limit, self.variant.page_cap)
        everyone = [self.people[number] for number in sorted(self.people)]
        page = everyone[offset : offset + limit]
        users = [{"id": person["id"], "secret": self._write.secret(person)} for person in page]
        count = len(everyone) if self.variant.count_of == "all" else len(page)
        named = {self.variant.count_name: count} if self.variant.count_name else {}
        return {**named, "users": [self._write.fields(user) for user in users]}

    def _edit(self, person: dict[str, Any], values: dict[str, Any]) -> None:
        """Set what was sent, as JSON; list items are appended."""
        for name in _NAMES:
            if values.get(name) is not None:
                person[name] = str(values[name])
        if "birth_date" in values:
            person["birth_date"] = _integer(values["birth_date"], "birth_date")
        for name, fields in _ITEM_FIELDS.items():
            for item in values.get(name, ()):
                person[name].append({"id": self._next_id(), **dict.fromkeys(fields, ""), **item})


def _check(name: str, secrets: dict[str, str], right: str | None) -> None:
    if name not in secrets:
        raise _Refusal(400, f"{name} is missing")
    if right is None or secrets[name] != right:
        raise _Refusal(401, f"{name} is invalid")


@contextmanager
def running(variant: Variant = PLAIN) -> Iterator[Service]:
    """Serve the five people on a free loopback port until the block ends."""
    service = Service(variant)
    with faults.running(service) as server:
        service.base_url, service.requests = server.base_url, server.requests
        yield service
