"""An opt-out by a site's own form, over real HTTP: what is sent, and what the answer means."""

import asyncio
from datetime import date

import pytest
from support.services import a_database
from support.small_web import (
    ACCEPTED,
    BLOCKED,
    KEY,
    LOOPBACK,
    REFUSED,
    Folk,
    by_form,
    definition,
)

from exposurekit.sandbox.world.asgi import Response, html, redirect, text
from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.http.client import HttpClient
from exposurekit.service.models import Listing, Site
from exposurekit.service.scanning import optouts
from exposurekit.service.scanning.politeness import PoliteFetcher

PAGE = "http://seekfolk.example/leave"
JUNIPER = Subject(
    names=(Name("Juniper", "Quillfeather", "Ann"), Name("Junie", "Otterwick")),
    birth_date=date(1983, 4, 24),
    emails=("juniper@example.com",),
    places=(
        Place("12 Acorn Street", "", "Oakmere", "CA", "95999"),
        Place("3 Kite Lane", "", "Fogmantle", "CA", "94999"),
        Place("9 Kite Lane", "", "Fogmantle", "CA", "94999"),
    ),
)


@pytest.fixture
def sent(town, tmp_path):
    """Send one opt-out; what it came to, in one word and in a few."""

    def sent(site, **listing):
        async def send():
            # Nothing is kept: a site without a delay needs no turns.
            fetcher = PoliteFetcher(
                HttpClient(allowed_networks=LOOPBACK, resolve=town.resolve), a_database(tmp_path, key=KEY)
            )
            listing_shown = Listing(**{"name": "Juniper Quillfeather", "reference_id": "r1", **listing})
            return await optouts.send(site, JUNIPER, listing_shown.stored(Site(name=site.name)), fetcher)

        return asyncio.run(send())

    return sent


def forms(town):
    return [request.form for request in town.of("Seekfolk", "/opt-out")]


async def _cut():
    yield b"<p>It will"


ANSWERS = {
    "accepted": (html(f"<p>{ACCEPTED}.</p>"), "accepted"),
    "accepted in capitals": (html(f"<H1>{ACCEPTED.upper()}"), "accepted"),
    "accepted elsewhere": (redirect("/thanks"), "accepted"),
    "refused": (html(f"<p>{REFUSED}.</p>"), "refused"),
    "refused with a status": (html(f"<p>{REFUSED}.</p>", 403), "refused"),
    "refused, and how others were accepted": (
        html(f"<p>{REFUSED}. {ACCEPTED}, others heard.</p>"),
        "refused",
    ),
    "accepted with a wrong status": (html(f"<p>{ACCEPTED}</p>", 500), "unclear"),
    "a puzzle": (html(f"<p>{BLOCKED}</p><!-- {ACCEPTED} -->"), "unclear"),
    "a puzzle before a refusal": (html(f"<p>{BLOCKED}. {REFUSED}</p>"), "unclear"),
    "forbidden": (html("", 403), "unclear"),
    "nothing known": (html("<p>Thank you.</p>"), "unclear"),
    "nothing": (Response(b""), "unclear"),
    "too late": (Response(html(ACCEPTED).body, delay_s=5), "unclear"),
    "too large": (Response(ACCEPTED.encode() + bytes(3_000_000)), "unclear"),
    "hung up": (Response(headers=(("content-length", "900"),), parts=_cut), "unclear"),
    "round and round": (redirect("/round"), "unclear"),
    "on to another host": (
        Response(status=307, headers=(("location", "http://elsewhere.example/"),)),
        "unclear",
    ),
    "to the metadata": (redirect("http://169.254.169.254/latest/"), "unclear"),
    "broken encoding": (Response(b"\xff\xfe\x80\xc3\x28", kind="text/html; charset=x-none"), "unclear"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_marks_decide_what_an_answer_means(town, sent, name):
    """A site that gives neither mark may have accepted: that is unclear, and never called refused."""
    answer, meaning = ANSWERS[name]
    site = town.opens("Seekfolk", Folk(opt_out=lambda _: answer))
    site.others |= {"/thanks": lambda _: html(ACCEPTED), "/round": lambda _: redirect("/round")}
    result, why = sent(definition(removal=by_form(), search={"timeout_s": 0.5}))
    assert result == meaning
    assert why
    assert "Quillfeather" not in why
    assert len(forms(town)) == 1


def test_a_form_is_posted_with_what_its_definition_says(town, sent):
    fields = {
        "reference": "{reference_id}",
        "page": "{href}",
        "who": "{last_name}, {first_name} {middle_name}",
        "born": "{birth_date}",
        "mail": "{email}",
        "phone": "{phone_number}",
        "agreed": "yes",
    }
    town.opens("Seekfolk", Folk())
    site = definition(removal=by_form(fields=fields))
    assert sent(site, href="http://seekfolk.example/r1")[0] == "accepted"
    assert forms(town) == [
        {
            "reference": "r1",
            "page": "http://seekfolk.example/r1",
            "who": "Quillfeather, Juniper Ann",
            "born": "1983-04-24",
            "mail": "juniper@example.com",
            "phone": "",
            "agreed": "yes",
        }
    ]
    sent(site)
    assert forms(town)[1]["page"] == ""


@pytest.mark.parametrize(
    ("locations", "street"),
    [
        (("9 Kite Lane, Fogmantle, CA",), "9 Kite Lane"),
        (("OAKMERE, CA", "9 KITE LANE, FOGMANTLE, CA"), "9 Kite Lane"),
        (("Fogmantle, CA",), "3 Kite Lane"),
        (("Oakmere, CA",), "12 Acorn Street"),
        (("Mothgate, CT",), "12 Acorn Street"),
        ((), "12 Acorn Street"),
    ],
)
def test_the_place_is_the_one_that_the_listing_shows(town, sent, locations, street):
    """The form will be compared with the listing."""
    town.opens("Seekfolk", Folk())
    sent(definition(removal=by_form(fields={"street": "{address1}"})), locations=locations)
    assert forms(town) == [{"street": street}]


FORM = (
    "<form action='/search'><input type=hidden name=token value=wrong></form>"
    "<form action='{action}' method=post><input type=hidden name=token value='t&amp;1'>"
    "<input type=hidden name=reference value=theirs><input type=hidden value=nameless>"
    "<input name=shown value=no><input type=hidden name=bare></form>"
)


@pytest.mark.parametrize("action", ["/opt-out", "opt-out", "http://seekfolk.example/opt-out"])
def test_hidden_fields_are_returned_unless_overridden(town, sent, action):
    site = town.opens("Seekfolk", Folk())
    site.others["/leave"] = lambda _: html(FORM.format(action=action))
    sent(definition(removal=by_form(page=PAGE, fields={"reference": "{reference_id}"})))
    assert forms(town) == [{"token": "t&1", "bare": "", "reference": "r1"}]


def test_a_form_on_its_own_address_needs_no_action(town, sent):
    site = town.opens("Seekfolk", Folk())
    site.others["/opt-out"] = lambda _: html("<form><input type=hidden name=token value=t1></form>")
    sent(definition(removal=by_form(page="http://seekfolk.example/opt-out", fields={})))
    assert {"token": "t1"} in forms(town)


def test_a_page_without_that_form_hides_nothing(town, sent):
    site = town.opens("Seekfolk", Folk())
    site.others["/leave"] = lambda _: html(FORM.format(action="http://elsewhere.example/opt-out"))
    sent(definition(removal=by_form(page=PAGE, fields={"reference": "{reference_id}"})))
    assert forms(town) == [{"reference": "r1"}]


def test_a_pages_cookie_goes_with_its_form_only(town, sent):
    cookies = []
    site = town.opens("Seekfolk", Folk())

    def opt_out(request):
        cookies.append(dict(request.cookies))
        return html(ACCEPTED)

    site.opt_out = opt_out
    site.others["/leave"] = lambda _: Response(b"", headers=(("set-cookie", "session=s1; Path=/; HttpOnly"),))
    sent(definition(removal=by_form(page=PAGE)))
    sent(definition(removal=by_form()))
    assert cookies == [{"session": "s1"}, {}]


@pytest.mark.parametrize(
    "page",
    [html("", 404), html("", 503), Response(delay_s=5), redirect("/leave"), Response(bytes(3_000_000))],
)
def test_nothing_is_sent_where_the_form_cannot_be_seen(town, sent, page):
    site = town.opens("Seekfolk", Folk())
    site.others["/leave"] = lambda _: page
    result, _ = sent(definition(removal=by_form(page=PAGE), search={"timeout_s": 0.3}))
    assert (result, forms(town)) == ("unclear", [])


@pytest.mark.parametrize("action", ["http://[", "http://[bad/", "//["])
def test_an_action_without_an_address_hides_nothing(town, sent, action):
    site = town.opens("Seekfolk", Folk())
    site.others["/leave"] = lambda _: html(FORM.format(action=action) + FORM.format(action="/opt-out"))
    fields = {"reference": "{reference_id}"}
    assert sent(definition(removal=by_form(page=PAGE, fields=fields)))[0] == "accepted"
    assert forms(town) == [{"token": "t&1", "bare": "", "reference": "r1"}]


def test_an_oversized_page_hides_nothing(town, sent):
    site = town.opens("Seekfolk", Folk())
    site.others["/leave"] = lambda _: html("<div>" * 100_000)
    assert sent(definition(removal=by_form(page=PAGE)))[0] == "accepted"


@pytest.mark.parametrize("forbidden", ["/opt-out", "/leave"])
def test_a_form_that_robots_txt_forbids_is_not_sent(town, sent, forbidden):
    """Robots.txt obeyed."""
    site = town.opens("Seekfolk", Folk(robots=text(f"User-agent: *\nDisallow: {forbidden}\n")))
    site.others["/leave"] = lambda _: html("")
    result, why = sent(definition(removal=by_form(page=PAGE)))
    assert (result, forms(town)) == ("unclear", [])
    assert "robots.txt" in why
