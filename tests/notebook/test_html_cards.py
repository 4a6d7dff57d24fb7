"""Cards and reprs of objects: no personal data, no secret, and only escaped text from outside."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pandas as pd
import pytest
from support.clients import connected
from support.histories import Clock, Person, Service, a_link, a_record, an_alert, seen_through
from support.payloads import ALERT, LINK, RECORD, USER

from exposurekit.contract.models import Alert, Link, Record, User, UserKey
from exposurekit.contract.webhooks import Delivery
from exposurekit.history import Diff, History, ReceivedDelivery, Run
from exposurekit.text import html_cards

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = {
    "script": "<script>fetch('https://beacon.example/x')</script>",
    "image": '<img src=x onerror="alert(1)">',
    "attribute": '" onmouseover="alert(1)" x=\'',
    "style": "</td></table><style>*{background:url(https://beacon.example/y)}</style>",
    "entity": "&lt;svg onload=alert(1)&gt;&#x3c;script&#x3e;",
    "terminal": "\x1b]0;owned\x07\x1b[31mred\x9b2J",
    "turned": "site\u202egpj.exe\u2066\u2069\u200f",
    "lines": "one\ntwo\u2028three\rfour",
    "template": "{{7*7}}${7*7}%(x)s{0.__class__}",
    "long": "<b>" * 5_000,
}
PERSONAL = {
    "first_name": "Canaria",
    "middle_name": "Canarina",
    "last_name": "Canarsson",
    "birth_date": 86_400_123,
    "secret": "canary-secret",
    "aliases": [{"id": 1, "first_name": "Canary", "last_name": "Canarbird"}],
    "emails": [{"id": 2, "address": "canary@mail.example"}],
    "phone_numbers": [{"id": 3, "number": "5550101234"}],
    "addresses": [
        {"id": 4, "address1": "77 Canary Row", "address2": "Canary Floor", "city": "Canarytown"}
        | {"state": "CN", "zip": "98765", "country": "Canaryland"}
    ],
}
LISTED = {
    "name": "Canaria Listed",
    "href": "https://canary.example/listed",
    "relations": ["Canary Relation"],
    "aliases": ["Canary Otherwise"],
    "locations": ["Canary Location"],
    "reference_id": "canary-000123",
}
TITLED = {"url": "https://canary.example/page", "title": "Canary Title"}
TAGS = {
    *[
        "div",
        "span",
        "strong",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "ol",
        "ul",
        "li",
        "p",
        "bdi",
    ],
    *["dl", "dt", "dd", "code", "style"],
}
CLASS = re.compile(r"[a-z0 -]*")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Checked(HTMLParser):
    """Parses markup; anything but the tags and attributes of a card fails."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.words, self.open = [], []
        self.feed(text)
        self.close()
        assert self.open == [], "a tag stays open"
        text = text.replace(html_cards.stylesheet(), "")
        assert not CONTROL.search(text), "a control character"

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, f"a tag that no card has: {tag}"
        for name, value in attrs:
            assert name in {"class", "scope", "role", "tabindex", "aria-label"}, f"no card has {name}"
            assert name == "aria-label" or CLASS.fullmatch(value), "a class that no card has"
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open[-1:] == [tag], "tags that do not match"
        self.open.pop()

    def handle_data(self, data):
        if self.open[-1:] == ["style"]:
            assert data == html_cards.stylesheet(), "a style that no card has"
        else:
            self.words.append(data)

    def handle_comment(self, data):
        raise AssertionError("not a tag, and not text:", data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def words(value):
    return " ".join(" ".join(Checked(value._repr_html_()).words).split())


def replaced(value, text):
    """Replace every text in a value."""
    if isinstance(value, dict):
        return {name: replaced(one, text) for name, one in value.items()}
    if isinstance(value, list):
        return [replaced(one, text) for one in value]
    return text if isinstance(value, str) else value


def hostile_values(text):
    """Return one of everything that has a card and text from outside, with this text in every field."""
    user = replaced(USER | {"service_history": []}, text)
    record, link, alert = (replaced(one, text) for one in (RECORD, LINK, ALERT))
    delivery = {"user_id": 12, "events": [text], "discovered_records": [{"record": record}], text: [link]}
    run = Run(text, 3, AT, AT, text, {"listed": 2, text: 1}, {"new": 1, text: 2})
    counts = pd.DataFrame({"what": [text], "n": [1]})
    why = pd.DataFrame({"cause": [text], "n": [-1], "open": [3]})
    return {
        "user": User.model_validate(user),
        "record": Record.model_validate(record | {text: text, "_repr_html_": text}),
        "link": Link.model_validate(link),
        "alert": Alert.model_validate(alert),
        "procedure": Alert.model_validate(alert | {"opt_out_procedure": f"1. {text} 2. {text}"}),
        "about a link": Alert.model_validate(alert | {"source": {"link": link}}),
        "key": UserKey(id=12, secret=text),
        "delivery": Delivery.model_validate(delivery),
        "received": ReceivedDelivery(1, AT, text, Delivery.model_validate(delivery)),
        "run": run,
        "waiting": Run(text, None, AT, None, text, {}, {}, waits_for=(2,)),
        "diff": Diff(counts, counts, counts, why, AT, AT),
    }


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_cards_escape_text_and_reprs_are_one_short_line(text):
    for name, value in hostile_values(text).items():
        Checked(value._repr_html_())
        assert len(value._repr_html_()) < 60_000, name
        for line in (repr(value), str(value)):
            assert not CONTROL.search(line), name
            assert "\n" not in line, name
            assert len(line) < 1_000, name


@pytest.mark.parametrize(
    "card",
    [
        f'<td class="{HOSTILE["attribute"]}">x</td>',
        *(f"<td>{HOSTILE[name]}</td>" for name in ("script", "image", "style", "terminal", "turned")),
    ],
)
def test_the_check_detects_an_unescaped_card(card):
    with pytest.raises(AssertionError):
        Checked(f"<table><tr>{card}</tr></table>")


def personal_values():
    record = RECORD | LISTED
    user = User.model_validate(
        USER | PERSONAL | {"records": [record], "links": [LINK | TITLED], "nickname": "Canarino"}
    )
    of_record = {"text": "Canary Text", "html": "<p>Canary Html</p>", "url": "https://canary.example/alert"}
    add_link_alert = {"source_type": "link", "source": {"link": LINK | TITLED}}
    return {
        "user": user,
        "key": user.key,
        "record": user.records[0],
        "link": user.links[0],
        "alert": Alert.model_validate(ALERT | of_record | {"source": {"record": record}}),
        "about a link": Alert.model_validate(ALERT | of_record | add_link_alert),
        "alias": user.aliases[0],
        "email": user.emails[0],
        "phone": user.phone_numbers[0],
        "address": user.addresses[0],
    }


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {leaf for inner in value for leaf in leaves(inner)}
    return {str(value)} if not isinstance(value, int) or value > 99 else set()


CANARIES = leaves(PERSONAL) | leaves(LISTED) | leaves(TITLED) | {"Canary Text", "Canary Html", "Canarino"}


def test_cards_and_reprs_have_no_personal_data():
    values = personal_values()
    dumped = "".join(value.model_dump_json() for value in values.values())
    assert [canary for canary in CANARIES if canary not in dumped] == []
    for name, value in values.items():
        for text in (repr(value), str(value), f"{[value]}", value._repr_html_()):
            assert [canary for canary in (*CANARIES, "canar") if canary.lower() in text.lower()] == [], name


def test_the_card_of_a_user_counts():
    card_text = words(personal_values()["user"])
    assert "id 12345" in card_text
    assert "emails 1" in card_text
    assert "discovered 1" in card_text
    assert "is scanning yes" in card_text


def test_an_alerts_card_has_its_site_guide_and_ordered_steps():
    card = personal_values()["alert"]._repr_html_()
    card_text = words(personal_values()["alert"])
    assert "site Lookup" in card_text
    assert "guide About the site" in card_text
    assert re.findall(r"<li><bdi>(.*?)</bdi></li>", card) == ALERT["opt_out_procedure"]


@pytest.mark.parametrize("none", [None, "", []], ids=["null", "blank", "empty"])
def test_an_alert_without_steps_has_a_note(none):
    assert "No steps" in words(Alert.model_validate(ALERT | {"opt_out_procedure": none}))


def test_unknown_and_empty_lists_are_distinguished():
    assert "contains unknown" in words(Link(title="A page"))
    assert "removal requires unknown" in words(Record(**RECORD | {"user_fields_required_for_removal": None}))
    assert "removal requires nothing" in words(Record(**RECORD | {"user_fields_required_for_removal": []}))


def test_a_long_list_states_the_number_left_out():
    card_text = words(Alert.model_validate(ALERT | {"opt_out_procedure": ["Step"] * 60}))
    assert card_text.count("Step") == html_cards.ROWS_MAX
    assert "and 10 more" in card_text


def test_a_card_has_only_the_colours_of_the_style_sheet():
    """Dark themes too: all colours are mixed from that of the page."""
    cards = personal_values()["user"]._repr_html_() + personal_values()["alert"]._repr_html_()
    card = cards.replace(html_cards.stylesheet(), "")
    assert not re.search(r"color|background|#[0-9a-f]{3}|rgb|style=", card)
    assert card.count("<style></style>") == 2


def test_cards_of_containers_have_three_calls_to_try(hostile):
    for owner in hostile:
        assert owner._repr_html_().count("<li><code>") == 3


@pytest.fixture(scope="module")
def service():
    with seen_through(Service()) as exposure:
        yield exposure


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """An exposure of a service that is hostile in every text, and a history of it."""
    text = "".join(HOSTILE[name] for name in ("script", "attribute", "style"))
    record = a_record(7, site=text, status=text, name=text)
    service = Service()
    service.people[1] = Person([record], [a_link("https://page.example", text)], [an_alert(text, record)])
    directory = tmp_path_factory.mktemp("hostile")
    with seen_through(service) as exposure, History(directory / "history", clock=Clock()) as history:
        history.collect(exposure)
        yield exposure.refresh(), history


def test_cards_of_containers_escape_a_hostile_service(hostile):
    exposure, history = hostile
    since = history.runs()["finished_at"].iloc[0]
    for item in (exposure, exposure.client, history, history.last_run(), history.diff(since)):
        Checked(item._repr_html_())
        assert "beacon" not in repr(item) + item._repr_html_()


def test_the_card_of_an_exposure_loads_nobody(service):
    exposure = type(service)(service.client)
    assert "people not loaded yet" in words(exposure)
    assert not exposure.is_loaded
    exposure.records()
    assert exposure.is_loaded
    assert "records 0" in words(exposure)


def test_the_card_of_an_exposure_counts_its_tables(hostile):
    exposure, _ = hostile
    before = words(exposure)
    tables = {name: len(exposure[name]) for name in ("users", "records", "links", "alerts", "steps")}
    for card_text in (before, words(exposure)):
        assert [n for name, n in tables.items() if f"{name} {n}" not in card_text] == []


@pytest.mark.parametrize("face", ["blocking", "awaiting"])
def test_a_clients_card_has_its_address_and_never_the_key(face):
    with connected(face, "http://127.0.0.1:9", api_key="k3y-of-mine", api_secret="s3cret-of-mine") as client:
        inner_client = getattr(client, "client", client)
        card_text = words(inner_client)
        assert "service http://127.0.0.1:9" in card_text
        assert "k3y" not in card_text + repr(inner_client)
        assert "s3cret" not in card_text + repr(inner_client)


def test_an_empty_history_names_the_first_call(tmp_path):
    with History(tmp_path / "history") as history:
        assert "call collect() first" in words(history)


def test_every_table_is_accessible_by_its_name(hostile):
    for owner in hostile:
        for name in owner._ipython_key_completions_():
            pd.testing.assert_frame_equal(owner[name], getattr(owner, name)())


@pytest.mark.parametrize("name", ["recrods", "client", "__init__", 0, None, ["records"]], ids=repr)
def test_an_unknown_name_raises_an_error_naming_all(hostile, name):
    for owner in hostile:
        with pytest.raises(KeyError, match=r"it has: .*records"):
            owner[name]


def test_an_exposure_is_no_sequence(hostile):
    with pytest.raises(TypeError, match="not iterable"):
        list(hostile[0])


def test_a_diffs_card_signs_changes_alone():
    counts = pd.DataFrame({"what": ["removed", "still open"], "n": [1, 1_234]})
    why = pd.DataFrame({"cause": ["open before", "removed", "open after"], "n": [1_235, -1, 0]})
    why = why.assign(open=[1_235, 1_234, 1_234])
    text = words(Diff(counts, counts, counts, why, AT, AT))
    assert "open before 1,235 removed \N{MINUS SIGN}1 1,234 open after 1,234" in text
