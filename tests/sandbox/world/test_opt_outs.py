"""The opt-out forms of the make-believe web over real HTTP, and what becomes of a request."""

from collections import defaultdict
from datetime import timedelta

import pytest
from support.world_browser import START, browsing

from exposurekit.sandbox.world.sites import SITES
from exposurekit.sandbox.world.world import World
from exposurekit.service.clock import FrozenClock

FORMS = sorted(site.name for site in SITES if site.reachable and site.definition.removal.method == "form")
HUMAN = sorted(site.name for site in SITES if site.reachable and site.definition.removal.method == "manual")
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
    with browsing(60, seed=11) as browser:
        yield browser


def willing(world, site):
    """Listings of people who know all that the site asks for."""
    needed = set(world.definitions[site].removal.user_fields_required)
    return [
        truth
        for truth in world.listings()
        if truth.site == site
        and truth.visible
        and truth.person is not None
        and world.people[truth.person].fields() >= needed
    ]


def says(answer, marks):
    return any(mark in answer.text for mark in marks)


@pytest.mark.parametrize("name", FORMS)
def test_a_matching_form_is_accepted_and_another_refused(browser, name):
    world, site = browser.world, browser.world.definitions[name]
    truth = willing(world, name)[0]
    person = world.people[truth.person]
    for field in site.removal.user_fields_required:
        answer = browser.opt_out(site, truth, person, **{field: FIELDS[field]})
        assert says(answer, site.removal.refused), field
        assert not says(answer, site.removal.accepted)
        assert world.opt_outs[-1] == (name, truth.reference_id, world.clock.now(), False)
    assert world.is_listed(name, truth.reference_id)
    answers = [browser.opt_out(site, each, world.people[each.person]) for each in willing(world, name)[:12]]
    accepted = [says(answer, site.removal.accepted) for answer in answers]
    assert all(accepted) or name == "Crumbtrail Register"
    assert any(accepted)
    assert all(answer.status_code == 200 for answer in answers)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_refuses_unknown_references_and_residents(browser, name):
    world, site = browser.world, browser.world.definitions[name]
    person = world.people[willing(world, name)[0].person]
    unknown = willing(world, name)[0].__class__(name, "404", None, visible=False, href=None, name="")
    resident = next(
        truth for truth in world.listings() if truth.site == name and "resident" in truth.name.lower()
    )
    for truth in (unknown, resident):
        assert says(browser.opt_out(site, truth, person), site.removal.refused)
    assert world.is_listed(name, resident.reference_id)


def test_a_namesake_stays_listed_where_forms_ask_for_more(browser):
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
            assert says(browser.opt_out(site, truth, person), site.removal.refused)
    assert tried


@pytest.mark.parametrize("name", ["Seekfolk", "Pigeonloft Public"])
def test_some_sites_remove_at_once(name):
    with browsing(30) as browser:
        world, site = browser.world, browser.world.definitions[name]
        for truth in willing(world, name):
            browser.opt_out(site, truth, world.people[truth.person])
            assert not world.is_listed(name, truth.reference_id)


@pytest.mark.parametrize("name", ["Whomsoever Directory", "Lanternpost People", "Doorbell Almanac"])
def test_some_sites_remove_after_days_and_a_few_later(name):
    with browsing(60) as browser:
        world, site = browser.world, browser.world.definitions[name]
        requested = willing(world, name)
        for truth in requested:
            browser.opt_out(site, truth, world.people[truth.person])
            assert world.is_listed(name, truth.reference_id)
        world.advance(days=site.removal.processing_days)
        late = [truth for truth in requested if world.is_listed(name, truth.reference_id)]
        assert 0 < len(late) < len(requested) / 3
        world.advance(days=site.removal.processing_days)
        gone_by_itself = START + timedelta(days=200)
        assert not any(world.is_listed(name, truth.reference_id, gone_by_itself) for truth in requested)


def test_one_site_thanks_or_refuses_and_never_removes():
    with browsing(30) as browser:
        world, site = browser.world, browser.world.definitions["Crumbtrail Register"]
        requested = willing(world, site.name)
        answers = [browser.opt_out(site, truth, world.people[truth.person]) for truth in requested]
        again = [browser.opt_out(site, truth, world.people[truth.person]) for truth in requested]
        assert [a.text for a in answers] == [a.text for a in again]
        assert {says(answer, site.removal.accepted) for answer in answers} == {True, False}
        assert {says(answer, site.removal.refused) for answer in answers} == {True, False}
        there = [truth.visible for truth in world.listings() if truth.site == site.name]
        later = World(30, seed=7, clock=FrozenClock(START)).listings(START + timedelta(days=60))
        world.advance(days=60)
        assert [t.visible for t in world.listings() if t.site == site.name] == [
            t.visible for t in later if t.site == site.name
        ]
        assert any(there)


@pytest.mark.parametrize("name", ["Tattleberry", "Umbrella Kin"])
def test_some_sites_list_people_again_a_month_or_two_later(name):
    with browsing(60) as browser:
        world, site = browser.world, browser.world.definitions[name]
        requested = willing(world, name)
        for truth in requested:
            browser.opt_out(site, truth, world.people[truth.person])
        longest = 1.8 * site.removal.processing_days
        world.advance(days=longest)
        assert not [truth for truth in requested if world.is_listed(name, truth.reference_id)]
        world.advance(days=30 - longest)
        assert not [truth for truth in requested if world.is_listed(name, truth.reference_id)]
        world.advance(days=30 + longest)
        back = [truth for truth in requested if world.is_listed(name, truth.reference_id)]
        assert 0.5 < len(back) / len(requested) < 0.95
        for truth in back:
            browser.opt_out(site, truth, world.people[truth.person])
        world.advance(days=longest)
        assert not [truth for truth in back if world.is_listed(name, truth.reference_id)]


@pytest.mark.parametrize("name", ["Mothlight Finder", "Mothlight Neighbors"])
def test_a_request_on_either_sister_covers_both(name):
    with browsing(40) as browser:
        world, site = browser.world, browser.world.definitions[name]
        [other] = site.removal.also_removes
        assert world.definitions[other].removal.also_removes == (name,)
        listings_by_person = defaultdict(list)
        for truth in world.listings():
            if truth.visible and truth.site in {name, other} and truth.person is not None:
                listings_by_person[truth.person].append(truth)
        both = {
            person: each
            for person, each in listings_by_person.items()
            if {t.site for t in each} == {name, other}
        }
        for person, truths in both.items():
            request = next(truth for truth in truths if truth.site == name)
            assert says(browser.opt_out(site, request, world.people[person]), site.removal.accepted)
        world.advance(days=14)
        for person, truths in listings_by_person.items():
            gone = {not world.is_listed(truth.site, truth.reference_id) for truth in truths}
            assert person not in both or gone == {True}
        assert {request.site for request in world.opt_outs} == {name}
        assert any(
            world.is_listed(truth.site, truth.reference_id)
            for person in listings_by_person.keys() - both.keys()
            for truth in listings_by_person[person]
        )


def test_one_form_wants_its_hidden_token_and_its_cookie_back():
    with browsing(30) as browser:
        world, site = browser.world, browser.world.definitions["Whomsoever Directory"]
        truth = willing(world, site.name)[0]
        person = world.people[truth.person]
        page = browser.ask(site.removal.page)
        assert "session=" in page.headers["set-cookie"]
        browser._client.cookies.clear()
        without_cookie = browser.ask(
            site.removal.url, "POST", data={"token": page.text.partition('value="')[2][:16]}
        )
        assert "The form has expired" in without_cookie.text
        browser.ask(site.removal.page)
        without_token = browser.ask(site.removal.url, "POST", data={"entry": truth.reference_id})
        assert "The form has expired" in without_token.text
        assert world.is_listed(site.name, truth.reference_id)
        assert says(browser.opt_out(site, truth, person), site.removal.accepted)


def test_a_puzzle_or_a_mailed_link_needs_a_human():
    with browsing(30) as browser:
        world, site = browser.world, browser.world.definitions["Nosy Heron"]
        truth = willing(world, site.name)[0]
        person = world.people[truth.person]
        form = {
            "reference": truth.reference_id,
            "first_name": person.first_name,
            "last_name": person.last_name,
            "email": person.emails[0],
        }
        assert browser.ask(site.opt_out_url, "POST", data=form).status_code == 403
        assert not world.opt_outs[-1].accepted
        solved = form | {"captcha": world.captcha(site.name)}
        assert (
            browser.ask(site.opt_out_url, "POST", data=solved | {"email": "x@example.com"}).status_code == 403
        )
        assert world.mailbox == []
        assert browser.ask(site.opt_out_url, "POST", data=solved).status_code == 200
        world.advance(days=20)
        assert world.is_listed(site.name, truth.reference_id)
        [mail] = world.mailbox
        assert mail.to == person.emails[0]
        assert browser.ask(mail.url + "0").status_code == 404
        assert browser.ask(mail.url).status_code == 200
        world.advance(days=9)
        assert not world.is_listed(site.name, truth.reference_id)


def test_a_site_that_reads_letters_only_refuses_every_form():
    with browsing(30) as browser:
        world, site = browser.world, browser.world.definitions["Brambledex"]
        truth = willing(world, site.name)[0]
        assert "<form" not in browser.ask(site.opt_out_url).text
        assert (
            browser.ask(site.opt_out_url, "POST", data={"reference": truth.reference_id}).status_code == 403
        )
        assert not world.opt_outs[-1].accepted
        world.advance(days=55)
        assert world.is_listed(site.name, truth.reference_id)


@pytest.mark.parametrize("name", HUMAN)
def test_what_a_human_asks_for_by_hand_is_done(name):
    world = World(30, seed=7, clock=FrozenClock(START))
    truth = willing(world, name)[0]
    assert world.opt_out_manually(name, truth.reference_id)
    assert not world.opt_out_manually(name, "no such reference")
    assert [request.accepted for request in world.opt_outs] == [True, False]
    world.advance(days=2 * world.definitions[name].removal.processing_days)
    assert not world.is_listed(name, truth.reference_id)


def test_asking_twice_before_it_is_done_changes_nothing():
    with browsing(30) as browser:
        world, site = browser.world, browser.world.definitions["Tattleberry"]
        truth = willing(world, site.name)[0]
        fates = []
        for requests in (1, 3):
            with browsing(30) as other:
                for _ in range(requests):
                    other.opt_out(site, truth, world.people[truth.person])
                days = [START + timedelta(days=day) for day in range(120)]
                fates.append([other.world.is_listed(site.name, truth.reference_id, day) for day in days])
        assert fates[0] == fates[1]
        assert set(fates[0]) == {True, False}
