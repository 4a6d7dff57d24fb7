"""The guarded web: its shape, and that only a person passes what guards it."""

from datetime import UTC, datetime
from email import message_from_bytes

import pytest

from exposurekit.sandbox.world.asgi import Request
from exposurekit.sandbox.world.guarded_sites import OWNERS, WALL, guarded_sites
from exposurekit.sandbox.world.sites import PAGES, SITES
from exposurekit.sandbox.world.world import World
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings.alerts import Event
from exposurekit.service.mail import smtp, wording
from exposurekit.service.mail.dkim_signature import is_signed

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
WALLED, EMAIL = "bramblefolk.example", "optout+8f1e@privacy.example"


@pytest.fixture
def posted():
    return []


@pytest.fixture
def world(posted):
    return World(8, seed=7, clock=FrozenClock(START), web="guarded", post=posted.append)


def cookies(world, host):
    """What a person's browser sends."""
    return {"hand": world.guards.hand, "picture": world.guards.solution(host)}


def search(world, host=WALLED, **cookies):
    query = {"first": "Resident", "last": "Bramblefolk"}
    return world.respond(Request("GET", host, "/search", query, cookies=cookies)).body.decode()


def listing_of(world, site):
    return next(
        one for one in world.listings() if one.site == site and one.person is not None and one.visible
    )


def send_form(world, site, *, cookies, **changed):
    """Send a site's form for a listing, as its person would."""
    listing = listing_of(world, site)
    definition = world.definitions[site]
    form = {"State": world.people[listing.person].addresses[0].state, "Email": EMAIL}
    by_address = definition.removal.fields["Listing"] == "{href}"
    form["Listing"] = listing.href if by_address else listing.reference_id
    host, _, path = definition.opt_out_url.removeprefix("http://").partition("/")
    form |= {"picture": cookies.get("picture", "")} | changed
    answer = world.respond(Request("POST", host, f"/{path}", {}, form, cookies))
    return listing, answer.body.decode()


def counted(world, guard):
    return [world.guards.counts[f"{guard} {kind}"] for kind in ("machine", "machine passed", "person passed")]


def test_it_has_the_shape_of_the_real_web():
    sites = guarded_sites(START)
    assert (len(sites), sum(site.walled for site in sites), len(OWNERS)) == (45, 30, 10)
    assert (sum(one.mail for one in OWNERS), sum(one.puzzle for one in OWNERS)) == (9, 8)
    definitions = [site.definition for site in sites]
    by_program = [one for one in definitions if one.removal.method == "form" and not one.needs_mailbox]
    assert len(by_program) == 7
    assert {one.behaviour for one in OWNERS} == {"honest", "lies", "relists", "forgets", "denies", "ignores"}
    assert len({origin.host for origin in (*sites, *SITES, *PAGES)}) == 45 + len(SITES) + len(PAGES)
    sisters = {name for one in definitions for name in one.removal.also_removes}
    assert sisters == {one.name for one in definitions}


def test_the_open_web_stays_as_it_is():
    open_web = World(1, seed=7, clock=FrozenClock(START))
    assert (len(open_web.definitions), open_web.guards) == (15, None)


def test_a_bot_check_is_before_a_search(world):
    assert WALL in search(world)
    assert counted(world, "wall") == [1, 0, 0]
    assert "Resident Bramblefolk" in search(world, **cookies(world, WALLED))
    assert counted(world, "wall") == [1, 0, 1]


def test_a_program_with_the_solution_is_counted(world):
    assert WALL not in search(world, picture=world.guards.solution(WALLED))
    assert counted(world, "wall") == [1, 1, 0]


def test_a_puzzle_is_in_the_form(world):
    host = "privacy.bramblegate.example"
    _, answer = send_form(world, "Bramblefolk", cookies={})
    assert "what the picture says" in answer
    _, answer = send_form(world, "Bramblefolk", cookies={"picture": world.guards.solution(host)})
    assert "We have sent you a message" in answer
    assert counted(world, "puzzle") == [2, 1, 0]


def test_the_message_removes_from_all_sister_sites(world, posted):
    host = "privacy.bramblegate.example"
    listing, _ = send_form(world, "Bramblefolk", cookies=cookies(world, host))
    sisters = [
        one.key
        for one in world.listings()
        if one.person == listing.person and one.site.startswith("Bramble") and one.visible
    ]
    message = posted[-1]
    assert is_signed(message, "bramblegate.example", world.guards.mail.resolve_txt)
    text = message_from_bytes(message)
    assert (text["To"], text["From"]) == (EMAIL, "no-reply@bramblegate.example")
    key = text.get_payload().partition("key=")[2].strip()
    world.advance(days=12)
    assert world.is_listed(*listing.key)
    for answer in ("You have confirmed", "leads nowhere"):
        assert answer in world.respond(Request("GET", host, "/confirm", {"key": key})).body.decode()
    world.advance(days=12)
    assert len(sisters) > 1
    assert not any(world.is_listed(*one) for one in sisters)


@pytest.mark.parametrize("changed", [{"State": "ZZ"}, {"Listing": "no such listing"}])
def test_a_form_with_a_wrong_value_is_refused(world, posted, changed):
    host = "privacy.bramblegate.example"
    _, answer = send_form(world, "Bramblefolk", cookies=cookies(world, host), **changed)
    assert ("that this listing is yours" in answer, posted) == (True, [])


def test_phishing_messages_are_counted_if_followed(world):
    mail = world.guards.mail
    messages = mail.phishing(OWNERS[2], EMAIL, "8f1e")
    links = [message_from_bytes(one).get_payload().partition("http://")[2].split()[0] for one in messages]
    for link in links:
        host, _, rest = link.partition("/")
        path, _, query = rest.partition("?")
        parameters = dict(part.split("=") for part in query.split("&"))
        world.respond(Request("GET", host, f"/{path}", parameters))
    assert world.guards.counts["phishing followed"] == len(links) == 5
    signed = [is_signed(one, OWNERS[2].domain, mail.resolve_txt) for one in messages]
    assert signed == [False, False, False, True, True]


def email_about(world, listing, **changed):
    """The follow-up that the service sends about a listing."""
    person = world.people[listing.person]
    values = {
        "first_name": person.first_name,
        "last_name": person.last_name,
        "state": person.addresses[0].state,
    }
    truth = {"name": listing.name, "href": listing.href, "reference_id": listing.reference_id}
    text = wording.opt_out(
        "ccpa",
        wording.Listing(site=listing.site, **{key: changed.get(key, value) for key, value in truth.items()}),
        {key: changed.get(key, value) for key, value in values.items()},
        wording.Consent(granted_at=START, granted_by="Jo"),
        answer_within_days=45,
        earlier=wording.Earlier(Event.OPT_OUT_IGNORED, START, world.definitions[listing.site].opt_out_url),
    )
    to = world.definitions[listing.site].removal.email.to
    return to, smtp.compose(
        sender=EMAIL,
        reply_to=EMAIL,
        to=to,
        subject="x",
        message_id="<1@privacy.example>",
        date=START,
        text=text,
    ).as_bytes()


@pytest.mark.parametrize(
    ("site", "acts"), [("Bramblefolk", True), ("Elderfolk", True), ("Dunfolk", True), ("Hazelfolk", False)]
)
def test_an_owner_acts_on_an_email_as_on_a_form(world, site, acts):
    listing = listing_of(world, site)
    world.receive_email(*email_about(world, listing))
    counts = world.guards.counts
    assert (counts["emails"], counts["emails refused"], counts["emails elsewhere"]) == (1, 0, 0)
    world.advance(days=12)
    assert world.is_listed(*listing.key) is not acts


def test_an_owner_denies_by_email_what_it_denies(world):
    listings = [one for one in world.listings() if one.site.startswith("Gull") and one.person is not None]
    for listing in listings:
        world.receive_email(*email_about(world, listing))
    denied = [one for one in listings if not world.is_removable(*one.key)]
    assert world.guards.counts["denied"] == len(denied) > 0


@pytest.mark.parametrize(
    "changed", [{"last_name": "Elsewho"}, {"state": "ZZ"}, {"href": "http://x.example/1"}]
)
def test_an_email_that_is_not_about_the_person_is_refused(world, changed):
    listing = listing_of(world, "Bramblefolk")
    world.receive_email(*email_about(world, listing, **changed))
    world.advance(days=12)
    assert (world.guards.counts["emails refused"], world.is_listed(*listing.key)) == (1, True)


def test_an_email_to_another_address_is_counted(world):
    _, message = email_about(world, listing_of(world, "Bramblefolk"))
    world.receive_email("sales@bramblegate.example", message)
    assert (world.guards.counts["emails"], world.guards.counts["emails elsewhere"]) == (0, 1)


def test_a_redesign_needs_another_definition(world):
    [site] = [one for one in world.guards.sites if one.name == "Foxfolk"]
    listing = listing_of(world, "Foxfolk")
    before, after = (site.layout_on(at) for at in (START.date(), site.redesigned_at.date()))
    assert before != after
    assert site.definition_on(START.date()) == site.definition
    assert site.definition_on(site.redesigned_at.date()).listings != site.definition.listings
    assert world.is_removable(*listing.key)
