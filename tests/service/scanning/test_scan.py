"""From a listing to its removal, over real HTTP: what is found, submitted, verified, told, and what never is."""

import asyncio
import json
from contextlib import contextmanager
from datetime import timedelta

import pytest
from support.hostile_pages import hostile_pages, is_hostile
from support.services import START, json_body
from support.small_web import (
    ACCEPTED,
    BLOCKED,
    JUNIPER,
    REFUSED,
    Card,
    Folk,
    GatedAnswer,
    a_house,
    by_form,
    definition,
    nobody,
    results_page,
    without_delay,
)

from exposurekit.sandbox.evaluation import ReportedRecord, agreement
from exposurekit.sandbox.world.asgi import Response, html
from exposurekit.sandbox.world.webhook_receiver import PATH, Integrator
from exposurekit.sandbox.world.world import running_world
from exposurekit.service.accounts import consent
from exposurekit.service.api.server import running
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import candidates
from exposurekit.service.scanning.persist import RECORDS_MAX
from exposurekit.service.scanning.site_scan import CONTROL_MISSING
from exposurekit.service.storage import tables
from exposurekit.service.webhooks import endpoints

HERS = Card("r1")
ON_SQLITE = pytest.mark.parametrize(
    "store", ["sqlite"], indirect=True
)  # where the database makes no difference


@pytest.fixture
def seekfolk(house, town):
    """A site whose form the service can send."""
    house.has(definition(removal=by_form()))
    return town.opens("Seekfolk", Folk([HERS]))


def sent(town, name="Seekfolk"):
    return [request.form for request in town.of(name, "/opt-out") if request.method == "POST"]


# --- from found to gone -----------------------------------------------------------------------------------


def test_a_listing_is_discovered_submitted_and_removed_after_two_absences(house, town, seekfolk):
    """Discovered -> opt-out submitted -> pending removal -> gone in two looks -> removed."""
    juniper = house.scanned_juniper()
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert sent(town) == [{"reference": "r1", "first": "Juniper", "last": "Quillfeather"}]
    seekfolk.cards.clear()
    house.advance(days=1.9)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    house.advance(days=0.2)
    assert [(row.absences, row.status) for row in house.rows()] == [(1, "pending removal")]
    house.advance(days=1)
    assert house.statuses(juniper) == {"r1": "removed"}
    assert house.alert_titles(juniper) == ["New record", "Opt-out submitted", "Removal verified"]
    assert len(sent(town)) == 1


def test_it_takes_two_looks_in_a_row(house, seekfolk):
    """One look that finds it starts the count again."""
    juniper = house.scanned_juniper()
    seekfolk.cards.clear()
    house.advance(days=2)
    assert house.rows()[0].absences == 1
    seekfolk.cards.append(HERS)
    house.advance(days=1)
    assert house.rows()[0].absences == 0
    seekfolk.cards.clear()
    house.advance(days=1)
    assert (house.rows()[0].absences, house.statuses(juniper)) == (1, {"r1": "pending removal"})
    house.advance(days=1)
    assert house.statuses(juniper) == {"r1": "removed"}
    assert house.alert_titles(juniper).count("Removal verified") == 1


@pytest.mark.parametrize("confirmations", [2, 4])
def test_a_site_says_how_many_looks_and_how_often(house, town, confirmations):
    house.has(
        definition(
            removal=by_form(processing_days=0),
            verification={"after_days": 1, "every_days": 2, "confirmations": confirmations},
        )
    )
    site = town.opens("Seekfolk", Folk([HERS]))
    juniper = house.scanned_juniper()
    site.cards.clear()
    for number in range(confirmations):
        assert house.statuses(juniper) == {"r1": "pending removal"}, number
        house.advance(days=1 if number == 0 else 2)
    assert house.statuses(juniper) == {"r1": "removed"}


def test_a_look_before_its_time_does_not_count(house, town):
    """A site that hides a listing while it works on it, or for a day, has not yet removed it."""
    house.has(definition(removal=by_form(processing_days=10)))
    site = town.opens("Seekfolk", Folk([HERS]))
    juniper = house.scanned_juniper()
    site.cards.clear()
    house.advance(days=9.9)  # with a scan on the seventh
    assert len(town.of("Seekfolk")) == 4
    assert [(row.absences, row.status) for row in house.rows()] == [(0, "pending removal")]
    house.advance(days=0.2)
    assert house.rows()[0].absences == 1
    house.advance(days=1)
    assert house.statuses(juniper) == {"r1": "removed"}


def test_concurrent_scans_of_a_site_are_one(house, town):
    """Two looks on one day say no more than one."""
    house.has(definition(removal=by_form(processing_days=7)))
    site = town.opens("Seekfolk", Folk([HERS]))
    house.juniper()
    house.idle()
    site.cards.clear()
    house.advance(days=7)
    assert [(row.absences, row.status) for row in house.rows()] == [(1, "pending removal")]
    house.advance(days=1)
    assert [row.status for row in house.rows()] == ["removed"]


def test_a_relisting_is_discovered_delivered_and_submitted_again(house, town, seekfolk):
    """Listed again -> discovered with an alert."""
    juniper = house.scanned_juniper()
    [record] = house.records(juniper)
    seekfolk.cards.clear()
    house.advance(days=3)
    assert house.statuses(juniper) == {"r1": "removed"}
    seekfolk.cards.append(HERS)
    house.advance(days=4)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert [one["id"] for one in house.records(juniper)] == [record["id"]]
    assert house.alert_titles(juniper)[3:] == ["Listed again", "Opt-out submitted"]
    assert len(sent(town)) == 2
    seekfolk.cards.clear()
    house.advance(days=3)
    assert house.statuses(juniper) == {"r1": "removed"}


def test_a_repeated_finding_makes_no_second_record_or_alert(house, town):
    house.has(definition())
    town.opens("Seekfolk", Folk([HERS]))
    juniper = house.juniper()
    house.advance(days=50)
    assert len(house.records(juniper)) == len(house.alerts(juniper)) == 1
    assert len(town.of("Seekfolk")) == 2 * 8


def test_events_are_told_to_the_integrator(house, town, seekfolk):
    """Alert, record change and event in one transaction; all groups reach the callback."""
    integrator = Integrator(endpoints.new_secret())
    with running(integrator.app) as base_url:
        callback = endpoints.Callback(base_url + PATH, integrator.secret)
        house.work(lambda work: endpoints.set_callback(work, "acme", callback))
        juniper = house.scanned_juniper()
        seekfolk.cards.clear()
        house.advance(days=3.1)
        house.work(lambda work: endpoints.set_callback(work, "acme", None))
    assert house.statuses(juniper) == {"r1": "removed"}
    assert integrator.items == {"new_alerts": 3, "discovered_records": 1, "removed_records": 1}
    assert (integrator.deliveries, integrator.refused) == (2, 0)


# --- what a site says to an opt-out -----------------------------------------------------------------------


def test_a_refusal_is_final_until_the_user_changes(house, town, seekfolk):
    """Refused -> discovered, with an alert that holds the steps."""
    seekfolk.opt_out = lambda _: html(f"<p>{REFUSED}</p>")
    juniper = house.scanned_juniper()
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert house.alert_titles(juniper) == ["New record", "Opt-out refused"]
    assert house.alerts(juniper)[-1]["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    house.advance(days=21)
    assert (len(sent(town)), len(house.alerts(juniper))) == (1, 2)
    seekfolk.opt_out = lambda _: html(f"<p>{ACCEPTED}</p>")
    house.update(juniper, middle_name="Ann")
    house.idle()
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert house.alert_titles(juniper)[2:] == ["Opt-out submitted"]


def test_a_refused_listing_that_flickers_is_not_submitted_again(house, town, seekfolk):
    """One look that misses it is no change of the person."""
    seekfolk.opt_out = lambda _: html(f"<p>{REFUSED}</p>")
    juniper = house.scanned_juniper()
    seekfolk.cards.clear()
    house.advance(days=7)
    assert house.rows()[0].absences == 1
    seekfolk.cards.append(HERS)
    house.advance(days=14)
    assert (len(sent(town)), house.alert_titles(juniper)) == (1, ["New record", "Opt-out refused"])


def test_an_opt_out_that_is_ignored_is_a_humans_job(house, town):
    """A site that accepts and does nothing: past give_up_days an alert carries the steps."""
    house.has(definition(removal=by_form(give_up_days=10)))
    town.opens("Seekfolk", Folk([HERS]))
    juniper = house.juniper()
    house.advance(days=9.9)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    house.advance(days=1.2)
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert house.alert_titles(juniper)[-1] == "Opt-out ignored"
    assert house.alerts(juniper)[-1]["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    house.advance(days=30)
    assert (len(sent(town)), len(house.alerts(juniper))) == (1, 3)


UNCLEAR = {
    "no mark that is known": lambda _: html("<p>Thank you.</p>"),
    "the mark with a wrong status": lambda _: html(f"<p>{ACCEPTED}</p>", 500),
    "a puzzle": lambda _: html(f"<p>{BLOCKED}. {ACCEPTED}</p>"),
    "nothing in time": lambda _: Response(delay_s=5),
    "to another host": lambda _: Response(status=307, headers=(("location", "http://elsewhere.example/"),)),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_an_unclear_response_backs_off_and_becomes_manual(house, town, name):
    """After 1 h, 6 h, 1 d and 3 d; it may have been accepted, and is not called refused."""
    house.has(definition(removal=by_form(), search={"timeout_s": 0.2}))
    site = town.opens("Seekfolk", Folk([HERS]))
    site.opt_out = UNCLEAR[name]
    juniper = house.scanned_juniper()
    began, times = house.clock.now(), []
    due = house.rows()[0].due_at
    while due is not None:
        times.append(due - began)
        house.advance(seconds=(due - house.clock.now()).total_seconds())
        due = house.rows()[0].due_at
    waits = (timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(days=3))
    assert times == [sum(waits[: number + 1], timedelta()) for number in range(4)]
    assert len(sent(town)) == 5
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert house.alert_titles(juniper) == ["New record", "Opt-out unanswered"]
    house.advance(days=14)
    assert len(sent(town)) == 5


def test_an_unclear_response_before_a_clear_one_counts_nothing(house, town, seekfolk):
    seekfolk.opt_out = lambda _: html("", 503)
    juniper = house.scanned_juniper()
    seekfolk.opt_out = lambda _: html(f"<p>{ACCEPTED}</p>")
    house.advance(hours=1)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert house.rows()[0].opt_out_attempts == 0
    assert house.alert_titles(juniper) == ["New record", "Opt-out submitted"]


# --- what a removal needs ---------------------------------------------------------------------------------


def test_a_removal_waits_for_its_required_fields(house, town):
    """Missing user fields -> stays discovered, and an update that supplies them starts the removal."""
    needs = by_form(user_fields_required=["first_name", "birth_date", "zip"])
    house.has(definition(removal=needs))
    town.opens("Seekfolk", Folk([HERS]))
    address = JUNIPER["addresses"][0] | {"zip": ""}
    juniper = house.juniper(birth_date=None, addresses=[address])
    house.advance(days=8)
    assert house.statuses(juniper) == {"r1": "discovered"}
    [item] = house.get(juniper)["user"]["records"]
    assert item["user_fields_required_for_removal"] == needs["user_fields_required"]
    assert house.alerts(juniper)[0]["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    house.update(juniper, birth_date=JUNIPER["birth_date"])
    house.idle()
    assert (house.statuses(juniper), sent(town)) == ({"r1": "discovered"}, [])
    [shown_address] = house.get(juniper)["user"]["addresses"]
    address_id = shown_address["address"]["id"] if "address" in shown_address else shown_address["id"]
    house.update(juniper, addresses=[{"id": address_id, "zip": "95999"}])
    house.idle()
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert len(sent(town)) == 1


def test_a_hidden_token_and_the_cookie_go_with_the_form(house, town):
    """A form's page is asked for first, and what it hides comes back with what it is told."""
    page = "http://seekfolk.example/leave"
    house.has(definition(removal=by_form(page=page, fields={"reference": "{reference_id}"})))
    site = town.opens("Seekfolk", Folk([HERS]))
    form = (
        "<form action=/search><input type=hidden name=token value=no></form>"
        "<form action=/opt-out><input type=hidden name=token value=t0k3n><input type=hidden name=reference value=x>"
        "</form>"
    )
    site.others["/leave"] = lambda _: Response(form.encode(), headers=(("set-cookie", "session=s1; Path=/"),))
    site.opt_out = lambda request: html(
        f"<p>{ACCEPTED if request.cookies.get('session') == 's1' and request.form['token'] == 't0k3n' else REFUSED}</p>"
    )
    juniper = house.scanned_juniper()
    assert sent(town) == [{"token": "t0k3n", "reference": "r1"}]
    assert house.statuses(juniper) == {"r1": "pending removal"}


def test_a_form_gets_the_address_that_the_listing_has(house, town):
    fields = {"reference": "{reference_id}", "town": "{city}", "zip": "{zip}"}
    house.has(definition(removal=by_form(fields=fields)))
    before = {"address1": "3 Kite Lane", "city": "Fogmantle", "state": "CA", "zip": "94999"}
    town.opens("Seekfolk", Folk([Card("r1", locations=("3 Kite Lane, Fogmantle, CA",))]))
    house.juniper(addresses=[JUNIPER["addresses"][0], before])
    house.idle()
    assert sent(town) == [{"reference": "r1", "town": "Fogmantle", "zip": "94999"}]


def test_one_request_covers_the_sister_sites(house, town):
    """Sister sites that share an opt-out."""
    house.has(
        definition("Left", removal=by_form("Left", also_removes=["Right"])),
        definition("Right", removal=by_form("Right", also_removes=["Left"])),
    )
    left, right = town.opens("Left", Folk([HERS])), town.opens("Right", Folk([Card("r2")]))
    juniper = house.juniper()
    house.advance(days=1)
    assert len(sent(town, "Left")) + len(sent(town, "Right")) == 1
    assert house.statuses(juniper) == {"r1": "pending removal", "r2": "pending removal"}
    left.cards.clear()
    right.cards.clear()
    house.advance(days=3)
    assert house.statuses(juniper) == {"r1": "removed", "r2": "removed"}
    assert sorted(house.alert_titles(juniper)) == sorted(
        ["New record", "Opt-out submitted", "Removal verified"] * 2
    )


def test_a_sister_that_is_found_later_asks_for_itself(house, town):
    house.has(
        definition("Left", removal=by_form("Left", also_removes=["Right"])),
        definition("Right", removal=by_form("Right")),
    )
    town.opens("Left", Folk([HERS]))
    right = town.opens("Right", Folk())
    juniper = house.scanned_juniper()
    right.cards.append(Card("r2"))
    house.advance(days=7)
    assert (len(sent(town, "Left")), len(sent(town, "Right"))) == (1, 1)
    assert house.statuses(juniper)["r2"] == "pending removal"


def test_a_manual_sites_steps_are_sent_and_completion_is_accepted(house, town):
    """Human-only sites -> an alert whose opt_out_procedure holds the steps and guide the explanation."""
    house.has(definition())
    site = town.opens("Seekfolk", Folk([HERS]))
    juniper = house.juniper()
    house.advance(days=7)
    [alert] = house.alerts(juniper)
    assert alert["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    assert (alert["guide"], alert["source_type"]) == ("Seekfolk lists people.", "record")
    site.cards.clear()  # somebody has pressed Remove
    house.advance(days=7)
    assert house.statuses(juniper) == {"r1": "discovered"}
    house.advance(days=1)
    assert house.statuses(juniper) == {"r1": "removed"}
    assert house.alert_titles(juniper) == ["New record", "Removal verified"]
    assert town.of("Seekfolk", "/opt-out") == []


def test_a_site_that_is_no_longer_defined_is_left_alone(house, town, seekfolk):
    juniper = house.scanned_juniper()
    house.has()
    before = len(town.requests)
    seekfolk.cards.clear()
    house.advance(days=4)
    assert (house.statuses(juniper), len(town.requests)) == ({"r1": "pending removal"}, before)
    assert house.rows()[0].due_at - house.clock.now() <= timedelta(hours=1)
    house.has(definition(removal=by_form()))  # another worker knows it, or this one knows it again
    house.advance(days=1.1)
    assert house.statuses(juniper) == {"r1": "removed"}


# --- who changes is not cleared by it ---------------------------------------------------------------------

ELSEWHERE = [{"address1": "9 Inkwell Way", "city": "Fogmantle", "state": "CA", "zip": "94999"}]


def test_a_renamed_user_is_not_cleared_while_listed(house, town, seekfolk):
    """A removed record is really gone: to be asked for by another name says nothing of this listing."""
    juniper = house.scanned_juniper()
    house.update(juniper, first_name="Tansy", last_name="Otterwick")
    house.advance(days=10)
    assert HERS in seekfolk.cards
    assert house.statuses(juniper) == {"r1": "pending removal"}
    house.update(juniper, first_name="Juniper", last_name="Quillfeather")
    seekfolk.cards.clear()
    house.advance(days=3)
    assert house.statuses(juniper) == {"r1": "removed"}


def test_a_moved_user_is_not_cleared_while_listed(house, town):
    """A site that is asked for a town says nothing of what it lists in another."""
    by_town = {"fields": {"first": "{first_name}", "last": "{last_name}", "town": "{city}"}}
    house.has(definition(removal=by_form(), search=by_town))
    site = town.opens("Seekfolk", Folk([Card("r1", town="Oakmere")]))
    juniper = house.scanned_juniper()
    [item] = house.get(juniper)["user"]["addresses"]
    house.update(juniper, addresses=[{"id": item["id"], **ELSEWHERE[0]}])
    house.advance(days=10)
    assert town.of("Seekfolk")[-1].query["town"] == "Fogmantle"
    assert (len(site.cards), house.statuses(juniper)) == (1, {"r1": "pending removal"})


# --- when, and for whom -----------------------------------------------------------------------------------


def test_a_person_is_scanned_every_week_and_not_before(house, town):
    """Then weekly per person."""
    house.has(definition())
    town.opens("Seekfolk", Folk())
    house.juniper()
    began = house.clock.now()

    def due():
        return house.behind(lambda database: house.worker(database).next_due())

    assert due() == began
    house.idle()
    for week in range(1, 4):
        assert due() == began + timedelta(weeks=week)
        house.advance(days=7, seconds=-1)
        assert len(town.of("Seekfolk")) == 2 * week
        house.advance(seconds=1)
        assert len(town.of("Seekfolk")) == 2 * week + 2


STOPS = {
    "deactivated": consent.deactivate,
    "withdrawn": lambda work, user_id: consent.withdraw(work, user_id, withdrawn_by="her"),
    "purged": consent.purge,
}


@pytest.mark.parametrize("stop", STOPS)
def test_nobody_is_searched_without_consent(house, town, seekfolk, stop):
    """Only while the service is activated and only with recorded consent."""
    stopped, early = house.juniper(), house.juniper()
    house.work(lambda work: STOPS[stop](work, early["id"]))
    house.idle()
    assert len(town.of("Seekfolk")) == 2
    house.work(lambda work: STOPS[stop](work, stopped["id"]))
    before = len(town.requests)
    house.advance(days=30)
    assert len(town.requests) == before
    assert len(house.rows(tables.users)) == (0 if stop == "purged" else 2)


def test_who_consents_again_is_looked_for_again(house, town, seekfolk):
    juniper = house.juniper()
    house.work(lambda work: consent.withdraw(work, juniper["id"], withdrawn_by="her"))
    house.advance(days=10)
    assert town.requests == []
    house.work(lambda work: consent.consent(work, juniper["id"], granted_by="her"))
    house.idle()
    assert house.statuses(juniper) == {"r1": "pending removal"}


@pytest.mark.parametrize("stop", STOPS)
def test_a_user_stopped_during_a_scan_keeps_no_findings(house, town, stop):
    """An operator can withdraw it for a person, and then nothing is scanned or submitted."""
    sites = [f"Site {number:02}" for number in range(12)]
    house.has(*(definition(name, removal=by_form(name)) for name in sites))
    gates = []
    for name in sites:
        site = town.opens(name, Folk([HERS]))
        gates.append(GatedAnswer(site.matching_cards))
        site.search = gates[-1]
    juniper, other = house.juniper(), house.juniper(first_name="Marigold", last_name="Otterwick")

    async def stopped(database):
        scanning = asyncio.create_task(house.worker(database).run_until_idle())
        await gates[0].is_reached()
        async with database.writing() as work:
            await STOPS[stop](work, juniper["id"])
        request_count = len(town.requests)
        for one in gates:
            one.go.set()
        await asyncio.wait_for(scanning, 20)
        return request_count

    house.behind(stopped)
    names = {name for site in sites for name in town.names(site)}
    assert "Juniper Quillfeather" not in names
    assert "Marigold Otterwick" in names
    assert all(sent(town, name) == [] for name in sites)
    assert {row.user_id for table in (tables.records, tables.alerts) for row in house.rows(table)} == set()
    assert {row.id for row in house.rows(tables.users) if row.is_scanning} == set()
    assert house.get(other)["user"]["is_scanning"] is False
    # What is due of the other is next week's scan alone.
    before = len(town.requests)
    house.advance(days=6)
    assert len(town.requests) == before


@pytest.mark.parametrize("stop", STOPS)
def test_a_user_stopped_during_an_opt_out_sends_no_form(house, town, stop):
    page = "http://seekfolk.example/leave"
    house.has(definition(removal=by_form(page=page)))
    site = town.opens("Seekfolk", Folk([HERS]))
    gate = GatedAnswer(lambda _: html("<form action=/opt-out></form>"))
    site.others["/leave"] = gate
    juniper = house.juniper()

    async def stopped(database):
        working = asyncio.create_task(house.worker(database).run_until_idle())
        await gate.is_reached()
        async with database.writing() as work:
            await STOPS[stop](work, juniper["id"])
        gate.go.set()
        await asyncio.wait_for(working, 20)

    house.behind(stopped)
    assert sent(town) == []
    assert {row.status for row in house.rows()} == (set() if stop == "purged" else {"discovered"})


# --- links ------------------------------------------------------------------------------------------------


def test_a_search_engine_that_is_down_costs_only_itself(store, tmp_path, town):
    """Honest about what it does not know."""
    town.opens("Seekfolk", Folk([HERS]))
    answers = {
        "status 502": lambda _: html("", 502),
        "no JSON": lambda _: html("<p>Results</p>"),
        "no results": lambda _: Response(b'{"query": "x"}'),
        "too late": lambda _: Response(delay_s=5),
        "results of another kind": lambda _: Response(
            b'{"results": [1, {"url": 2}, {"url": "gopher://x.example/"}]}'
        ),
    }
    with a_house(tmp_path, town.resolve, definition(), engine="http://search.example/search") as house:
        for number, answer in enumerate(answers.values(), 1):
            town.opens("search", answer)
            juniper = house.scanned_juniper()
            assert house.statuses(juniper) == {"r1": "discovered"}
            assert house.get(juniper)["user"]["is_scanning"] is False
            assert house.health()["search engine"].inconclusive_scans == min(number, len(answers) - 1)
        assert house.health()["Seekfolk"].inconclusive_scans == 0


# --- the make-believe web ---------------------------------------------------------------------------------


@contextmanager
def a_world(directory, people, seed=7, *, hostile=True):
    """A registered world, not yet scanned: the house, the world, and which user is which person."""
    clock = FrozenClock(START)
    extra_pages = hostile_pages(people, seed) if hostile else ()
    with (
        running_world(people, seed=seed, clock=clock, extra_pages=extra_pages) as world,
        a_house(
            directory,
            world.resolve,
            *map(without_delay, world.definitions.values()),
            clock=clock,
            engine=world.search_engine,
        ) as house,
    ):
        users = [
            json_body(house.call("POST", "/users", json=person.request() | {"async": True}))["user"]
            for person in world.people
        ]
        yield house, world, users


def claims_of(house, users):
    return [
        ReportedRecord(index, record["site"], record["reference_id"], record["status"])
        for index, user in enumerate(users)
        for record in house.records(user)
    ]


@pytest.mark.long
def test_a_month_in_the_world_agrees_with_what_is_so(store, tmp_path, capsys):
    """Precision and recall of matches, no invented person ever a record, every removed record really gone."""
    people = 12 if store == "sqlite" else 4  # one month of twelve is enough of the same
    with a_world(tmp_path, people) as (house, world, users):
        began = world.clock.now()
        whose = {(truth.site, truth.reference_id): truth.person for truth in world.listings()}
        house.idle()
        by_hand = done_by_hand(house, world, users)
        for _ in range(10):
            house.advance(days=3)
            records = claims_of(house, users)
            assert [one for one in records if whose.get((one.site, one.reference_id)) != one.person] == []
            for one in records:
                if one.status == "removed":  # gone now, or shown again since the last scan
                    times = [None, *(world.clock.now() - timedelta(days=days) for days in range(8))]
                    assert not all(world.is_listed(one.site, one.reference_id, at) for at in times)
        scans = [began + timedelta(weeks=week) for week in range(5)]
        evaluation = agreement(world, records, scanned_at=scans)
        with capsys.disabled():
            summary = f"precision {evaluation.precision:.3f}, recall {evaluation.recall:.3f} of {evaluation.reachable}"
            print(f" {store}: {summary}")  # noqa: T201  the issue wants to see it
        assert (evaluation.precision, evaluation.nonexistent, evaluation.verified_removed) == (
            1,
            0,
            evaluation.removed,
        )
        assert evaluation.recall >= 0.8
        assert evaluation.removed > people
        assert {one.site for one in records} <= world.reachable
        health = house.health()
        assert health["Everyname Index"].untrusted_scans == health["Everyname Index"].scans > 0
        assert health["Hushledger"].last_good_scan_at is health["Gatekeep Records"].last_good_scan_at is None
        assert not world.is_listed(by_hand.site, by_hand.reference_id)
        assert house.statuses(users[by_hand.person])[by_hand.reference_id] == "removed"


def done_by_hand(house, world, users):
    """A human's job done, at the site that is quickest; its alert has said how."""
    jobs = [one for one in claims_of(house, users) if world.definitions[one.site].removal.method == "manual"]
    assert {one.status for one in jobs} == {"discovered"}
    job = min(jobs, key=lambda one: (world.definitions[one.site].removal.processing_days, one.reference_id))
    alerts = [alert for alert in house.alerts(users[job.person]) if alert["source_type"] == "record"]
    [alert] = [one for one in alerts if one["source"]["record"]["reference_id"] == job.reference_id]
    assert tuple(alert["opt_out_procedure"]) == world.definitions[job.site].opt_out_procedure
    assert alert["guide"] == world.definitions[job.site].guide
    assert world.opt_out_manually(job.site, job.reference_id)
    return job


@pytest.mark.long
def test_links_contain_only_what_the_users_page_has(store, tmp_path):
    """The page is fetched and `contains` is computed from the person's own data."""
    with a_world(tmp_path, people=8) as (house, world, users):
        house.has()  # no people-search site: links alone
        house.idle()
        truths = {(truth.url, truth.person): truth for truth in world.pages()}
        link_count = 0
        for index, user in enumerate(users):
            links = house.get(user, "/links")["links"]
            urls = {link["url"] for link in links}
            assert len(urls) == len(links)
            for link in links:
                truth = truths[link["url"], index]
                assert set(link["contains"]) == set(truth.contains) != set(), link["url"]
            there = {url for (url, who), truth in truths.items() if who == index and truth.contains}
            assert {url for url in there - urls if not is_hostile(url)} == set()
            assert house.alert_titles(user) == ["Exposure found"] * len(links)
            link_count += len(links)
        assert link_count
        house.advance(days=8)
        assert sum(len(house.alerts(user)) for user in users) == link_count


def test_the_same_seed_gives_the_same_findings(store, tmp_path):
    def days(directory):
        directory.mkdir()
        with a_world(directory, people=2, seed=11, hostile=False) as (house, _, users):
            house.advance(days=4)
            return [
                (
                    sorted(house.statuses(user).items()),
                    sorted(house.alert_titles(user)),
                    house.get(user, "/links"),
                )
                for user in users
            ]

    assert days(tmp_path / "one") == days(tmp_path / "two")


# --- what a review found ----------------------------------------------------------------------------------


def test_a_reference_reassigned_to_somebody_else_is_no_record(house, town):
    site = town.opens("Seekfolk", Folk([HERS]))
    house.has(definition(removal=by_form()))
    juniper = house.scanned_juniper()
    assert len(sent(town)) == 1
    name = house.records(juniper)[0]["name"]
    stranger = Card("r1", "Barnaby Otherwick")
    site.search = lambda request: (
        results_page(stranger) if request.query.get("last") == "Quillfeather" else nobody()
    )
    house.advance(days=30)
    [record] = house.records(juniper)
    assert (record["name"], len(sent(town))) == (name, 1)


@ON_SQLITE
def test_a_form_without_an_address_costs_only_itself(house, town):
    """A page holds what others write."""
    site = town.opens("Seekfolk", Folk([HERS]))
    page = "http://seekfolk.example/form"
    site.others["/form"] = lambda _: html('<form action="http://["><input type="hidden" name="a"></form>')
    house.has(definition(removal=by_form(page=page)))
    juniper = house.scanned_juniper()
    assert house.statuses(juniper) == {"r1": "pending removal"}


def test_a_removal_that_nobody_can_verify_is_given_up(house, town):
    """A site that blocks after the opt-out would keep it pending for ever."""
    site = town.opens("Seekfolk", Folk([HERS]))
    house.has(definition(removal=by_form(processing_days=1, give_up_days=10)))
    juniper = house.scanned_juniper()
    site.search = lambda _: html("", 403)
    house.advance(days=12)
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert house.alert_titles(juniper)[-1] == "Opt-out ignored"


def test_a_renamed_user_keeps_the_record_while_it_is_listed(house, town):
    site = town.opens("Seekfolk", Folk([HERS]))
    house.has(definition(removal={"method": "manual"}))
    juniper = house.scanned_juniper()
    house.update(juniper, first_name="Marigold", last_name="Otterwick")
    house.advance(days=30)
    assert house.statuses(juniper) == {"r1": "discovered"}
    site.cards.clear()
    house.advance(days=9)
    assert house.statuses(juniper) == {"r1": "removed"}


def test_a_result_without_an_address_costs_only_itself(town, tmp_path):
    """The scan comes to its end, and the next result is read."""
    bad = ["http://[bad/", "http://[", "http://a b/", "//[", "http://:0/"]
    results = {"results": [{"url": url} for url in [*bad, "http://club.example/members"]]}
    town.opens("search", lambda _: Response(json.dumps(results).encode()))
    members = html("<title>Members</title><p>Juniper Quillfeather, juniper@example.com")
    town.opens("club", Folk(others={"/members": lambda _: members}))
    town.opens("Seekfolk", Folk([HERS]))
    with a_house(tmp_path, town.resolve, definition(), engine="http://search.example/search") as house:
        juniper = house.scanned_juniper()
        assert house.get(juniper)["user"]["is_scanning"] is False
        [link] = house.get(juniper, "/links")["links"]
        assert link["contains"] == ["email"]
        assert house.statuses(juniper) == {"r1": "discovered"}


CHANGES = {
    "a longer name": {"first_name": "Jonathan"},
    "another name": {"first_name": "Marigold", "last_name": "Otterwick"},
    "another town": {},
}


@pytest.mark.parametrize("changed", CHANGES)
def test_a_changed_user_is_cleared_when_the_listing_is_gone(house, town, changed):
    """What found the listing is asked again: it is missed only where it really stood."""
    by_town = {"fields": {"first": "{first_name}", "last": "{last_name}", "town": "{city}"}}
    house.has(definition(removal=by_form(), search=by_town))
    site = town.opens("Seekfolk", Folk([Card("r1", "Jon Quillfeather", town="Oakmere")]))
    jon = house.scanned_juniper(first_name="Jon")
    assert house.statuses(jon) == {"r1": "pending removal"}
    [item] = house.get(jon)["user"]["addresses"]
    moves = {} if CHANGES[changed] else {"addresses": [{"id": item["id"], **ELSEWHERE[0]}]}
    house.update(jon, **CHANGES[changed], **moves)
    house.advance(days=15)
    assert (house.statuses(jon), house.rows()[0].absences) == ({"r1": "pending removal"}, 0)
    site.cards.clear()
    house.advance(days=1)
    assert (house.statuses(jon), house.rows()[0].absences) == ({"r1": "pending removal"}, 1)
    house.advance(days=1)
    assert house.statuses(jon) == {"r1": "removed"}
    assert house.alert_titles(jon) == ["New record", "Opt-out submitted", "Removal verified"]


def test_a_site_that_finds_nobody_clears_nobody_and_says_why(house, town):
    """Controls (a person known to be listed)."""
    control = {"listed": {"first_name": "Resident", "last_name": "Seekfolk"}}
    house.has(definition(removal=by_form(), controls=control))
    resident = Card("c1", "Resident Seekfolk")
    site = town.opens("Seekfolk", Folk([HERS, resident]))
    juniper = house.scanned_juniper()
    site.search = lambda _: nobody()
    house.advance(days=20)
    assert (house.statuses(juniper), house.rows()[0].absences) == ({"r1": "pending removal"}, 0)
    assert house.health()["Seekfolk"].last_reason == CONTROL_MISSING
    site.search = None
    site.cards[:] = [resident]
    house.advance(days=2)
    assert house.statuses(juniper) == {"r1": "removed"}


def test_a_reference_reassigned_after_a_removal_is_no_relisting(house, town, seekfolk):
    juniper = house.scanned_juniper()
    seekfolk.cards.clear()
    house.advance(days=3)
    assert house.statuses(juniper) == {"r1": "removed"}
    before = house.records(juniper), house.alerts(juniper), len(sent(town))
    stranger = Card("r1", "Barnaby Otherwick", age=71, locations=("Fogmantle, CA",))
    seekfolk.search = lambda request: results_page(stranger) if HERS.fits(request) else nobody()
    house.advance(days=14)
    assert (house.records(juniper), house.alerts(juniper), len(sent(town))) == before


@pytest.mark.parametrize("at", ["before its listing is found", "after its listing is found"])
def test_an_update_during_the_first_scan_starts_the_removal(house, town, at):
    """An update that supplies them starts the removal, whenever it comes."""
    house.has(definition(removal=by_form(user_fields_required=["zip"])), definition("Slow"))
    site, slow = town.opens("Seekfolk", Folk([HERS])), town.opens("Slow", Folk())
    gate = GatedAnswer(site.matching_cards if at.startswith("before") else slow.matching_cards)
    if at.startswith("before"):
        site.search = lambda request: gate(request) if HERS.fits(request) else nobody()
    else:
        slow.search = gate
    address = JUNIPER["addresses"][0]
    juniper = house.juniper(addresses=[address | {"zip": ""}])
    [item] = house.get(juniper)["user"]["addresses"]

    async def updated(database):
        working = asyncio.create_task(house.worker(database).run_until_idle())
        await gate.is_reached()
        for _ in range(500 if at.startswith("after") else 0):
            if await asyncio.to_thread(house.records, juniper):
                break
            await asyncio.sleep(0.01)
        zips = [{"id": item["id"], "zip": address["zip"]}]
        await asyncio.to_thread(lambda: house.update(juniper, addresses=zips))
        gate.go.set()
        await asyncio.wait_for(working, 20)

    house.behind(updated)
    assert (house.statuses(juniper), len(sent(town))) == ({"r1": "pending removal"}, 1)


@ON_SQLITE
def test_records_per_user_and_site_are_limited(house, town):
    """A site that lists anybody, and is not caught at it, floods the operator and not the person."""
    house.has(definition(search={"pages_max": 1, "next": ()}))
    town.opens("Seekfolk", Folk([Card(f"r{number}") for number in range(RECORDS_MAX + 3)]))
    juniper = house.juniper()
    house.advance(days=8)
    assert len(house.records(juniper)) == len(house.alerts(juniper)) == RECORDS_MAX
    assert [one.verdict for one in house.work(candidates.all)] == ["quarantined"] * 3


@ON_SQLITE
def test_the_first_verification_is_at_least_an_hour_later(house, town):
    house.has(definition(removal=by_form(processing_days=0), verification={"after_days": 0}))
    town.opens("Seekfolk", Folk([HERS]))
    house.juniper()
    house.idle()
    assert [row.due_at - house.clock.now() for row in house.rows()] == [timedelta(hours=1)]


@ON_SQLITE
def test_an_internal_error_at_one_site_costs_that_site_scan(house, town):
    """A definition that no file could hold: the catalogue tries each selector, and Python's caller does not."""
    house.has(definition("Odd", listings={"item": "li >"}), definition())
    for name in ("Odd", "Seekfolk"):
        town.opens(name, Folk([HERS]))
    juniper = house.scanned_juniper()
    assert [record["site"] for record in house.records(juniper)] == ["Seekfolk"]
    assert house.get(juniper)["user"]["is_scanning"] is False
    assert house.health()["Odd"].last_reason == "internal error"


@ON_SQLITE
def test_a_worker_that_knows_no_site_has_scanned_nobody(house, town):
    house.has()
    juniper = house.scanned_juniper()
    [row] = house.rows(tables.users)
    assert (row.scanned_at, row.is_scanning) == (None, False)
    assert row.due_at == house.clock.now() + timedelta(hours=1)
    house.has(definition())
    town.opens("Seekfolk", Folk([HERS]))
    house.advance(hours=1)
    assert house.statuses(juniper) == {"r1": "discovered"}
