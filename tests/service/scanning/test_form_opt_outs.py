"""An opt-out by a site's form over real HTTP: the request, and the meaning of the response."""

import asyncio
from datetime import date

import pytest
from support.services import a_database
from support.small_web import ACCEPTED, BLOCKED, KEY, LOOPBACK, REFUSED, Folk, by_form, definition

from exposurekit.sandbox.world.asgi import Response, html, redirect, text
from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.http.client import HttpClient
from exposurekit.service.models import Listing, Site
from exposurekit.service.scanning import form_opt_outs
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
def send(town, tmp_path):
    """Send one opt-out and return its result; a site without a delay needs no database."""

    def send(site, **fields):
        listing = Listing(**{"name": "Juniper Quillfeather", "reference_id": "r1", **fields})
        http = HttpClient(allowed_networks=LOOPBACK, resolve=town.resolve)
        fetcher = PoliteFetcher(http, a_database(tmp_path, key=KEY))
        return asyncio.run(form_opt_outs.send(site, JUNIPER, listing.stored(Site(name=site.name)), fetcher))

    return send


@pytest.fixture
def site(town):
    return town.opens("Seekfolk", Folk())


def forms(town):
    return [request.form for request in town.of("Seekfolk", "/opt-out")]


async def _cut():
    yield b"<p>It will"


def _formatted(sentence):
    """A sentence as a template writes it: over lines, with a word in bold and a letter as an entity."""
    first, second, *others = sentence.split()
    return f"&#{ord(first[0])};{first[1:]}\n  <b>{second}</b> {' '.join(others)}"


ANSWERS = {
    "accepted": (html(f"<p>{ACCEPTED}.</p>"), "accepted"),
    "accepted in capitals": (html(f"<H1>{ACCEPTED.upper()}"), "accepted"),
    "accepted in formatted text": (html(f"<p>{_formatted(ACCEPTED)}</p>"), "accepted"),
    "refused in formatted text": (html(f"<p>{_formatted(REFUSED)}</p>"), "refused"),
    "accepted beside a script": (html(f"<script>let no = '{REFUSED}'</script><p>{ACCEPTED}"), "accepted"),
    "refused beside a script": (html(f"<script>let yes = '{ACCEPTED}'</script><p>{REFUSED}"), "refused"),
    "accepted in the source": (html(f"<p title='{ACCEPTED}'>Thank you."), "accepted"),
    "accepted elsewhere": (redirect("/thanks"), "accepted"),
    "refused": (html(f"<p>{REFUSED}.</p>"), "refused"),
    "refused with a status": (html(f"<p>{REFUSED}.</p>", 403), "refused"),
    "refused, and how others were accepted": (html(f"<p>{REFUSED}. {ACCEPTED}, others heard."), "refused"),
    "accepted with another status of success": (html(f"<p>{ACCEPTED}</p>", 202), "accepted"),
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
def test_marks_determine_what_a_response_means(town, send, site, name):
    """A site that sends neither mark may have accepted: that is unclear, not refused."""
    response, meaning = ANSWERS[name]
    site.opt_out = lambda _: response
    site.others |= {"/thanks": lambda _: html(ACCEPTED), "/round": lambda _: redirect("/round")}
    result, why = send(definition(removal=by_form(), search={"timeout_s": 0.5}))
    assert result == meaning
    assert why
    assert "Quillfeather" not in why
    assert len(forms(town)) == 1


@pytest.mark.usefixtures("site")
def test_a_form_sends_the_fields_of_its_definition(town, send):
    fields = {
        "reference": "{reference_id}",
        "page": "{href}",
        "who": "{last_name}, {first_name} {middle_name}",
        "born": "{birth_date}",
        "mail": "{email}",
        "phone": "{phone_number}",
        "agreed": "yes",
    }
    defined = definition(removal=by_form(fields=fields))
    assert send(defined, href="http://seekfolk.example/r1")[0] == "accepted"
    send(defined)
    form = {
        "reference": "r1",
        "page": "http://seekfolk.example/r1",
        "who": "Quillfeather, Juniper Ann",
        "born": "1983-04-24",
        "mail": "juniper@example.com",
        "phone": "",
        "agreed": "yes",
    }
    assert forms(town) == [form, form | {"page": ""}]


@pytest.mark.usefixtures("site")
def test_a_value_with_braces_is_sent_as_it_is(town, send):
    send(definition(removal=by_form(fields={"name": "{name}"})), name="{email} {0.__class__}")
    assert forms(town) == [{"name": "{email} {0.__class__}"}]


@pytest.mark.parametrize(
    ("locations", "street"),
    [
        (("9 Kite Lane, Fogmantle, CA",), "9 Kite Lane"),
        (("OAKMERE, CA", "9 KITE LANE, FOGMANTLE, CA"), "9 Kite Lane"),
        (("Fogmantle, CA",), "3 Kite Lane"),
        (("Oakmere, CA",), "12 Acorn Street"),
        (("Mothgate, CT",), ""),
        ((), "12 Acorn Street"),
    ],
)
@pytest.mark.usefixtures("site")
def test_the_address_is_the_one_on_the_listing(town, send, locations, street):
    send(definition(removal=by_form(fields={"street": "{address1}"})), locations=locations)
    assert forms(town) == [{"street": street}]


@pytest.mark.usefixtures("site")
def test_the_name_is_the_one_on_the_listing(town, send):
    send(definition(removal=by_form(fields={"who": "{first_name} {last_name}"})), name="OTTERWICK JUNIE")
    assert forms(town) == [{"who": "Junie Otterwick"}]


ACTION = "http://seekfolk.example/opt-out"
TOKENS = {"token": "t&1", "bare": ""}
FORM = (
    "<form action='/search'><input type=hidden name=token value=wrong></form>"
    "<form action='{action}' method=post><input type=hidden name=token value='t&amp;1'>"
    "<input type=hidden name=reference value=theirs><input type=hidden value=nameless>"
    "<input name=shown value=no><input type=hidden name=bare></form>"
)


@pytest.mark.parametrize(
    ("page", "hidden"),
    [
        *((FORM.format(action=action), TOKENS) for action in ("/opt-out", "opt-out", ACTION)),
        *((FORM.format(action=bad) + FORM.format(action=ACTION), TOKENS) for bad in ("http://[", "//[")),
        (FORM.format(action="http://elsewhere.example/opt-out"), {}),
        ("<div>" * 100_000, {}),
    ],
    ids=[
        "absolute path",
        "relative path",
        "URL",
        "invalid URL first",
        "no host first",
        "elsewhere",
        "too large",
    ],
)
def test_hidden_fields_of_the_form_are_sent_unless_overridden(town, send, site, page, hidden):
    site.others["/leave"] = lambda _: html(page)
    removal = by_form(page=PAGE, fields={"reference": "{reference_id}"})
    assert send(definition(removal=removal))[0] == "accepted"
    assert forms(town) == [hidden | {"reference": "r1"}]


def test_a_form_on_its_own_address_needs_no_action(town, send, site):
    site.others["/opt-out"] = lambda _: html("<form><input type=hidden name=token value=t1></form>")
    send(definition(removal=by_form(page="http://seekfolk.example/opt-out", fields={})))
    assert {"token": "t1"} in forms(town)


def test_a_pages_cookie_is_sent_with_its_form_only(send, site):
    cookies = []

    def opt_out(request):
        cookies.append(dict(request.cookies))
        return html(ACCEPTED)

    site.opt_out = opt_out
    site.others["/leave"] = lambda _: Response(b"", headers=(("set-cookie", "session=s1; Path=/; HttpOnly"),))
    send(definition(removal=by_form(page=PAGE)))
    send(definition(removal=by_form()))
    assert cookies == [{"session": "s1"}, {}]


@pytest.mark.parametrize(
    "page",
    [html("", 404), html("", 503), Response(delay_s=5), redirect("/leave"), Response(bytes(3_000_000))],
)
def test_nothing_is_sent_if_the_forms_page_fails(town, send, site, page):
    site.others["/leave"] = lambda _: page
    result, _ = send(definition(removal=by_form(page=PAGE), search={"timeout_s": 0.3}))
    assert (result, forms(town)) == ("unclear", [])


@pytest.mark.parametrize("forbidden", ["/opt-out", "/leave"])
def test_a_form_that_robots_txt_forbids_is_not_sent(town, send, site, forbidden):
    site.robots = text(f"User-agent: *\nDisallow: {forbidden}\n")
    site.others["/leave"] = lambda _: html("")
    result, why = send(definition(removal=by_form(page=PAGE)))
    assert (result, forms(town)) == ("unclear", [])
    assert "robots.txt" in why
