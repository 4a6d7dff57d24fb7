"""The opt-out forms of the invented web over real HTTP, and what becomes of a request."""

from collections import defaultdict
from datetime import timedelta

import pytest
from support.world_browser import START, browsing

from exposurekit.sandbox.world.sites import SITES
from exposurekit.sandbox.world.world import World
from exposurekit.service.clock import FrozenClock

FORMS = sorted(site.name for site in SITES if site.reachable and site.definition.removal.method == "form")
MANUAL = sorted(site.name for site in SITES if site.reachable and site.definition.removal.method == "manual")
DAY = timedelta(days=1)
FIELDS = {
    "first_name": "Nobody",
    "last_name": "Atall",
    "birth_date": "1901-01-01",
    "address1": "1 Elsewhere Road",
    "city": "Elsewhere",
    "state": "ZZ",
    "zip": "00000",
}


@pytest.fixture(scope="module")
def browser():
    """A world in which most forms are refused, and no time passes."""
    with browsing(60, seed=11) as browser:
        yield browser


@pytest.fixture(scope="module")
def requested():
    """A world in which everyone filled in every form; the listings and the responses of each site."""
    with browsing(60) as browser:
        truths = {name: eligible(browser.world, name) for name in FORMS}
        yield browser.world, {name: (truths[name], opt_out_all(browser, truths[name])) for name in FORMS}


def eligible(world, site):
    """The listings of people who have every field that the site requires."""
    required = set(world.definitions[site].removal.user_fields_required)
    return [
        truth
        for truth in world.listings()
        if truth.site == site
        and truth.visible
        and truth.person is not None
        and world.people[truth.person].fields() >= required
    ]


def opt_out_all(browser, truths):
    world = browser.world
    return [
        browser.opt_out(world.definitions[truth.site], truth, world.people[truth.person]) for truth in truths
    ]


def one_of(browser, name):
    truth = eligible(browser.world, name)[0]
    return browser.world.definitions[name], truth, browser.world.people[truth.person]


def listed_at(world, truths, days):
    return [truth for truth in truths if world.is_listed(truth.site, truth.reference_id, START + days * DAY)]


def contains(response, marks):
    return any(mark in response.text for mark in marks)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_refuses_other_values_references_and_residents(browser, name):
    world, (site, truth, person) = browser.world, one_of(browser, name)
    for field in site.removal.user_fields_required:
        response = browser.opt_out(site, truth, person, **{field: FIELDS[field]})
        assert contains(response, site.removal.refused), field
        assert not contains(response, site.removal.accepted)
        assert world.opt_outs[-1] == (name, truth.reference_id, world.clock.now(), False)
    assert world.is_listed(name, truth.reference_id)
    unknown = truth.__class__(name, "404", None, visible=False, href=None, name="")
    resident = next(one for one in world.listings() if one.site == name and "resident" in one.name.lower())
    for other in (unknown, resident):
        assert contains(browser.opt_out(site, other, person), site.removal.refused)
    assert world.is_listed(name, resident.reference_id)


@pytest.mark.parametrize("name", FORMS)
def test_a_matching_form_is_accepted(requested, name):
    world, requests = requested
    _, responses = requests[name]
    accepted = [contains(response, world.definitions[name].removal.accepted) for response in responses]
    assert all(accepted) or name == "Crumbtrail Register"
    assert any(accepted)
    assert all(response.status_code == 200 for response in responses)


def test_a_namesake_stays_listed_where_forms_require_more(browser):
    world, site = browser.world, browser.world.definitions["Whomsoever Directory"]
    names = {(person.first_name, person.last_name): person for person in world.people}
    strangers = [
        truth
        for truth in world.listings()
        if truth.site == site.name and truth.visible and truth.person is None
    ]
    tried = 0
    for truth in strangers:
        last, _, first = truth.name.partition(", ")
        if person := names.get((first, last)):
            tried += 1
            assert contains(browser.opt_out(site, truth, person), site.removal.refused)
    assert tried


@pytest.mark.parametrize("name", ["Seekfolk", "Pigeonloft Public"])
def test_some_sites_remove_immediately(requested, name):
    world, requests = requested
    truths, _ = requests[name]
    assert truths
    assert listed_at(world, truths, 0) == []


@pytest.mark.parametrize("name", ["Whomsoever Directory", "Lanternpost People", "Doorbell Almanac"])
def test_some_sites_remove_after_days_and_some_later(requested, name):
    world, requests = requested
    truths, _ = requests[name]
    days = world.definitions[name].removal.processing_days
    assert listed_at(world, truths, 0) == truths
    assert 0 < len(listed_at(world, truths, days)) < len(truths) / 3
    assert listed_at(world, truths, 2 * days) == listed_at(world, truths, 200) == []


def test_one_site_responds_but_never_removes(requested):
    world, requests = requested
    truths, responses = requests["Crumbtrail Register"]
    removal = world.definitions["Crumbtrail Register"].removal
    for marks in (removal.accepted, removal.refused):
        assert {contains(response, marks) for response in responses} == {True, False}
    with browsing(60) as other:
        again = opt_out_all(other, truths), opt_out_all(other, truths)
        assert [[one.text for one in texts] for texts in again] == [[one.text for one in responses]] * 2
    untouched = World(60, seed=7, clock=FrozenClock(START))
    for days in (0, 60):
        assert listed_at(world, truths, days) == listed_at(untouched, truths, days) != []


def test_some_sites_list_people_again_after_one_or_two_months():
    with browsing(60) as browser:
        world = browser.world
        for name in ("Tattleberry", "Umbrella Kin"):
            site, began = world.definitions[name], (world.clock.now() - START) / DAY
            truths = eligible(world, name)
            opt_out_all(browser, truths)
            longest = 1.8 * site.removal.processing_days
            assert listed_at(world, truths, began + longest) == listed_at(world, truths, began + 30) == []
            world.advance(days=60 + longest)
            back = [truth for truth in truths if world.is_listed(name, truth.reference_id)]
            assert 0.5 < len(back) / len(truths) < 0.95
            opt_out_all(browser, back)
            assert listed_at(world, back, began + 60 + 2 * longest) == []


def test_a_request_to_either_sister_site_covers_both():
    """Half of the people ask one of the two sites, and half the other."""
    sisters = {"Mothlight Finder": "Mothlight Neighbors", "Mothlight Neighbors": "Mothlight Finder"}
    with browsing(60) as browser:
        world = browser.world
        for name, other in sisters.items():
            assert world.definitions[name].removal.also_removes == (other,)
        listings = defaultdict(dict)
        for truth in world.listings():
            if truth.visible and truth.site in sisters and truth.person is not None:
                listings[truth.person][truth.site] = truth
        on_both = [person for person, truths in listings.items() if len(truths) == 2]
        requests = list(zip(on_both, 30 * [*sisters], strict=False))
        for person, name in requests:
            response = browser.opt_out(world.definitions[name], listings[person][name], world.people[person])
            assert contains(response, world.definitions[name].removal.accepted)
        assert {name for _, name in requests} == {*sisters}
        assert [request.site for request in world.opt_outs] == [name for _, name in requests]
        assert not any(listed_at(world, listings[person].values(), 14) for person in on_both)
        rest = listings.keys() - on_both
        assert any(listed_at(world, listings[person].values(), 14) for person in rest)


def test_one_form_requires_its_hidden_token_and_cookie(browser):
    world, (site, truth, person) = browser.world, one_of(browser, "Whomsoever Directory")
    page = browser.ask(site.removal.page)
    assert "session=" in page.headers["set-cookie"]
    browser._client.cookies.clear()
    token = page.text.partition('value="')[2][:16]
    without_cookie = browser.ask(site.removal.url, "POST", data={"token": token})
    browser.ask(site.removal.page)
    without_token = browser.ask(site.removal.url, "POST", data={"entry": truth.reference_id})
    for response in (without_cookie, without_token):
        assert "The form has expired" in response.text
    assert world.is_listed(site.name, truth.reference_id)
    assert contains(browser.opt_out(site, truth, person), site.removal.accepted)


def test_one_form_requires_a_captcha_and_a_confirmed_mail(browser):
    world, (site, truth, person) = browser.world, one_of(browser, "Nosy Heron")
    form = {
        "reference": truth.reference_id,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "email": person.emails[0],
    }
    solved = form | {"captcha": world.captcha(site.name)}
    for wrong in (form, solved | {"email": "x@example.com"}):
        assert browser.ask(site.opt_out_url, "POST", data=wrong).status_code == 403
        assert not world.opt_outs[-1].accepted
    assert world.mailbox == []
    assert browser.ask(site.opt_out_url, "POST", data=solved).status_code == 200
    assert listed_at(world, [truth], 20) == [truth]
    [mail] = world.mailbox
    assert mail.to == person.emails[0]
    assert browser.ask(mail.url + "0").status_code == 404
    assert browser.ask(mail.url).status_code == 200
    assert listed_at(world, [truth], 9) == []


def test_a_site_that_accepts_postal_mail_refuses_every_form(browser):
    world, (site, truth, _) = browser.world, one_of(browser, "Brambledex")
    assert "<form" not in browser.ask(site.opt_out_url).text
    response = browser.ask(site.opt_out_url, "POST", data={"reference": truth.reference_id})
    assert response.status_code == 403
    assert not world.opt_outs[-1].accepted
    assert listed_at(world, [truth], 55) == [truth]


@pytest.mark.parametrize("name", MANUAL)
def test_a_manual_request_is_processed(name):
    world = World(30, seed=7, clock=FrozenClock(START))
    truth = eligible(world, name)[0]
    assert world.opt_out_manually(name, truth.reference_id)
    assert not world.opt_out_manually(name, "no such reference")
    assert [request.accepted for request in world.opt_outs] == [True, False]
    assert listed_at(world, [truth], 2 * world.definitions[name].removal.processing_days) == []


def test_a_repeated_request_changes_nothing(browser):
    world, (site, truth, person) = browser.world, one_of(browser, "Tattleberry")
    states = []
    for requests in (1, 2):
        for _ in range(requests):
            browser.opt_out(site, truth, person)
        states.append([bool(listed_at(world, [truth], day)) for day in range(120)])
    assert states[0] == states[1]
    assert set(states[0]) == {True, False}
