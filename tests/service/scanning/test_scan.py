"""From a listing to its removal, over real HTTP: scans, opt-outs, verification, alerts and consent."""

import asyncio
import json
from contextlib import contextmanager
from datetime import timedelta

import pytest
from support.hostile_pages import HostileWorld, is_hostile
from support.services import START, json_body
from support.small_web import (
    ACCEPTED,
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
from exposurekit.service.accounts import consent
from exposurekit.service.api.server import running
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import candidates
from exposurekit.service.scanning.save_scan import RECORDS_MAX
from exposurekit.service.storage import tables
from exposurekit.service.webhooks import endpoints

HERS = Card("r1")


def scanned(house, town, **defined):
    """A site that lists her, and her as a user after the first scan."""
    house.has(definition(**defined))
    site = town.opens("Seekfolk", Folk([HERS]))
    return site, house.scanned_juniper()


@pytest.fixture
def seekfolk(house, town):
    """A site whose form the service can send."""
    house.has(definition(removal=by_form()))
    return town.opens("Seekfolk", Folk([HERS]))


def work_while(house, gate, act):
    """Run the worker, and act while a response waits for its gate."""

    async def run(database):
        working = asyncio.create_task(house.worker(database).run_until_idle())
        await gate.is_reached()
        await asyncio.to_thread(act)
        gate.go.set()
        await asyncio.wait_for(working, 60)

    house.behind(run)


def sent(town, name="Seekfolk"):
    return [request.form for request in town.of(name, "/opt-out") if request.method == "POST"]


def test_a_listing_is_discovered_submitted_and_removed_after_two_absences(house, town, seekfolk):
    """Discovered -> opt-out submitted -> pending removal -> absent from two consecutive scans -> removed."""
    juniper = house.scanned_juniper()
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert sent(town) == [{"reference": "r1", "first": "Juniper", "last": "Quillfeather"}]
    seekfolk.cards.clear()
    house.advance(days=1.9)
    assert house.rows()[0].absences == 0
    house.advance(days=0.2)
    assert house.rows()[0].absences == 1
    seekfolk.cards.append(HERS)
    house.advance(days=1)
    assert house.rows()[0].absences == 0
    seekfolk.cards.clear()
    house.advance(days=1)
    assert (house.rows()[0].absences, house.statuses(juniper)) == (1, {"r1": "pending removal"})
    house.advance(days=1)
    assert house.statuses(juniper) == {"r1": "removed"}
    assert house.alert_titles(juniper) == ["New record", "Opt-out submitted", "Removal verified"]
    assert len(sent(town)) == 1


@pytest.mark.parametrize("confirmations", [2, 4])
def test_a_site_defines_its_number_and_interval_of_verifications(house, town, confirmations):
    verification = {"after_days": 1, "every_days": 2, "confirmations": confirmations}
    site, juniper = scanned(house, town, removal=by_form(processing_days=0), verification=verification)
    site.cards.clear()
    for number in range(confirmations):
        assert house.statuses(juniper) == {"r1": "pending removal"}, number
        house.advance(days=1 if number == 0 else 2)
    assert house.statuses(juniper) == {"r1": "removed"}


def test_one_scan_verifies_all_removals_of_a_user(house, town):
    """Both count, whichever job scans the site."""
    cards = [Card("r1"), Card("r2"), Card("r3", "Juniper Otterwick")]
    house.has(definition(removal=by_form(processing_days=2)))
    site = town.opens("Seekfolk", Folk(cards))
    juniper, other = house.juniper(), house.juniper(last_name="Otterwick")
    house.idle()
    site.cards.clear()
    for status in ("pending removal", "removed"):
        town.requests.clear()
        house.advance(days=2 if status == "pending removal" else 1)
        assert house.statuses(juniper) == {"r1": status, "r2": status}
        assert house.statuses(other) == {"r3": status}
        assert town.names("Seekfolk").count("Juniper Quillfeather") == 1
        assert town.names("Seekfolk").count("Juniper Otterwick") == 1


def test_an_absence_during_the_processing_time_does_not_count(house, town):
    """A site may hide a listing while it processes the request."""
    site, juniper = scanned(house, town, removal=by_form(processing_days=10))
    site.cards.clear()
    house.advance(days=9.9)  # with a scan on the seventh
    assert len(town.of("Seekfolk")) == 4
    assert [(row.absences, row.status) for row in house.rows()] == [(0, "pending removal")]
    house.advance(days=0.2)
    assert house.rows()[0].absences == 1
    house.advance(days=1)
    assert house.statuses(juniper) == {"r1": "removed"}


def test_concurrent_scans_of_a_site_are_one(house, town):
    site, _ = scanned(house, town, removal=by_form(processing_days=7))
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


def test_events_are_delivered_to_the_integrator(house, town, seekfolk):
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


def test_a_refusal_is_final_until_the_user_changes(house, town, seekfolk):
    """Refused -> discovered, with an alert that contains the steps."""
    seekfolk.opt_out = lambda _: html(f"<p>{REFUSED}</p>")
    juniper = house.scanned_juniper()
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert house.alert_titles(juniper) == ["New record", "Opt-out refused"]
    assert house.alerts(juniper)[-1]["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    house.advance(days=7)
    seekfolk.cards.clear()
    house.advance(days=7)
    assert house.rows()[0].absences == 1
    seekfolk.cards.append(HERS)  # one absence is no change of the user
    house.advance(days=14)
    assert (len(sent(town)), len(house.alerts(juniper))) == (1, 2)
    seekfolk.opt_out = lambda _: html(f"<p>{ACCEPTED}</p>")
    house.update(juniper, middle_name="Ann")  # which the form does not contain
    house.idle()
    assert (house.statuses(juniper), len(sent(town))) == ({"r1": "discovered"}, 1)
    house.update(juniper, first_name="Juniper Ann")
    house.idle()
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert house.alert_titles(juniper)[2:] == ["Opt-out submitted"]


@pytest.mark.parametrize("search", [None, lambda _: html("", 403)], ids=["still listed", "blocked"])
def test_an_opt_out_without_a_verified_removal_is_given_up(house, town, search):
    """Past give_up_days an alert contains the steps."""
    site, juniper = scanned(house, town, removal=by_form(give_up_days=10))
    site.search = search
    house.advance(days=9.9)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    house.advance(days=1.2)
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert house.alert_titles(juniper)[-1] == "Opt-out ignored"
    assert house.alerts(juniper)[-1]["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    house.advance(days=30)
    assert (len(sent(town)), len(house.alerts(juniper))) == (1, 3)


def test_a_missing_value_is_no_reason_to_give_up(house, town):
    """The site was never asked, so that it ignored nothing."""
    site = town.opens("Seekfolk", Folk([HERS]))
    site.others["/Oakmere/search"] = site.matching_cards
    search = {"url": "http://seekfolk.example/{city}/search"}
    house.has(definition(search=search, removal=by_form(give_up_days=10)))
    juniper = house.scanned_juniper()
    [address] = house.get(juniper)["user"]["addresses"]
    house.update(juniper, addresses=[{"id": address["id"], "city": ""}])
    house.advance(days=12)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert house.health()["Seekfolk"].inconclusive_scans == 0


def test_an_unclear_response_is_retried_and_becomes_manual(house, town, seekfolk):
    """After 1 h, 6 h, 1 d and 3 d; the site may have accepted, so this is no refusal."""
    seekfolk.opt_out = lambda _: html("<p>Thank you.</p>")
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


def test_a_clear_response_resets_the_number_of_attempts(house, town, seekfolk):
    seekfolk.opt_out = lambda _: html("", 503)
    juniper = house.scanned_juniper()
    seekfolk.opt_out = lambda _: html(f"<p>{ACCEPTED}</p>")
    house.advance(hours=1)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert house.rows()[0].opt_out_attempts == 0
    assert house.alert_titles(juniper) == ["New record", "Opt-out submitted"]


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
    [stored] = house.get(juniper)["user"]["addresses"]
    house.update(juniper, addresses=[{"id": stored["id"], "zip": "95999"}])
    house.idle()
    assert house.statuses(juniper) == {"r1": "pending removal"}
    assert len(sent(town)) == 1


def test_one_request_covers_the_sister_sites(house, town):
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
    expected_titles = ["New record", "Opt-out submitted", "Removal verified"] * 2
    assert sorted(house.alert_titles(juniper)) == sorted(expected_titles)


def test_a_sister_listing_discovered_later_gets_its_own_request(house, town):
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
    """Manual sites -> an alert whose opt_out_procedure contains the steps and guide the explanation."""
    site, juniper = scanned(house, town)
    house.advance(days=7)
    [alert] = house.alerts(juniper)
    assert alert["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    assert (alert["guide"], alert["source_type"]) == ("Seekfolk lists people.", "record")
    site.cards.clear()
    house.advance(days=7)
    assert house.statuses(juniper) == {"r1": "discovered"}
    house.advance(days=1)
    assert house.statuses(juniper) == {"r1": "removed"}
    assert house.alert_titles(juniper) == ["New record", "Removal verified"]
    assert town.of("Seekfolk", "/opt-out") == []


def test_an_undefined_site_is_not_verified(house, town, seekfolk):
    juniper = house.scanned_juniper()
    house.has()
    before = len(town.requests)
    seekfolk.cards.clear()
    house.advance(days=4)
    assert (house.statuses(juniper), len(town.requests)) == ({"r1": "pending removal"}, before)
    assert house.rows()[0].due_at - house.clock.now() <= timedelta(hours=1)
    house.has(definition(removal=by_form()))
    house.advance(days=1.1)
    assert house.statuses(juniper) == {"r1": "removed"}


ELSEWHERE = {"address1": "9 Inkwell Way", "city": "Fogmantle", "state": "CA", "zip": "94999"}
CHANGES = {
    "a longer name": {"first_name": "Jonathan"},
    "another name": {"first_name": "Marigold", "last_name": "Otterwick"},
    "another town": {},
}


@pytest.mark.parametrize("changed", CHANGES)
def test_a_changed_user_is_cleared_when_the_listing_is_gone(house, town, changed):
    """The query that discovered the listing is repeated: other names and towns confirm no absence."""
    by_town = {"fields": {"first": "{first_name}", "last": "{last_name}", "town": "{city}"}}
    house.has(definition(removal=by_form(), search=by_town))
    site = town.opens("Seekfolk", Folk([Card("r1", "Jon Quillfeather", town="Oakmere")]))
    jon = house.scanned_juniper(first_name="Jon")
    assert house.statuses(jon) == {"r1": "pending removal"}
    [item] = house.get(jon)["user"]["addresses"]
    moves = {} if CHANGES[changed] else {"addresses": [{"id": item["id"], **ELSEWHERE}]}
    house.update(jon, **CHANGES[changed], **moves)
    house.advance(days=15)
    assert (house.statuses(jon), house.rows()[0].absences) == ({"r1": "pending removal"}, 0)
    assert ("Fogmantle" in {request.query["town"] for request in town.of("Seekfolk")}) == bool(moves)
    site.cards.clear()
    house.advance(days=1)
    assert (house.statuses(jon), house.rows()[0].absences) == ({"r1": "pending removal"}, 1)
    house.advance(days=1)
    assert house.statuses(jon) == {"r1": "removed"}
    assert house.alert_titles(jon) == ["New record", "Opt-out submitted", "Removal verified"]


def test_a_person_is_scanned_every_week_and_not_before(house, town):
    """A listing that is there each week makes one record and one alert."""
    house.has(definition())
    town.opens("Seekfolk", Folk([HERS]))
    juniper = house.juniper()
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
    assert len(house.records(juniper)) == len(house.alerts(juniper)) == 1


MARRIED = Card("r2", "Juniper Otterwick")


def test_a_changed_name_is_searched_for_at_most_hourly(house, town):
    """Not in the specification, "Update user": whether an update starts a scan."""
    house.has(definition())
    town.opens("Seekfolk", Folk([HERS, MARRIED]))
    juniper = house.scanned_juniper()

    def is_scanning():
        return house.get(juniper)["user"]["is_scanning"]

    house.update(juniper, middle_name="Ann", emails=[{"address": "other@example.com"}])
    house.advance(hours=2)
    assert (is_scanning(), len(town.of("Seekfolk"))) == (False, 2)
    assert house.update(juniper, last_name="Otterwick")["is_scanning"] is True
    house.idle()
    assert (is_scanning(), house.statuses(juniper).keys()) == (False, {"r1", "r2"})
    requests = len(town.of("Seekfolk"))
    june = house.update(juniper, aliases=[{"first_name": "June", "last_name": "Otterwick"}])
    assert june["is_scanning"] is False  # until an hour has passed
    house.advance(minutes=59)
    assert (is_scanning(), len(town.of("Seekfolk"))) == (False, requests)
    house.advance(minutes=1)
    assert "June" in {request.query["first"] for request in town.of("Seekfolk")[requests:]}
    assert is_scanning() is False


def test_a_name_that_changes_during_a_scan_is_searched_for(house, town):
    house.has(definition())
    site = town.opens("Seekfolk", Folk([HERS, MARRIED]))
    gate = GatedAnswer(site.matching_cards)
    site.search = gate
    juniper = house.juniper()
    work_while(house, gate, lambda: house.update(juniper, last_name="Otterwick"))
    assert (house.get(juniper)["user"]["is_scanning"], house.statuses(juniper).keys()) == (False, {"r1"})
    house.advance(hours=1)
    assert house.statuses(juniper).keys() == {"r1", "r2"}
    assert house.get(juniper)["user"]["is_scanning"] is False


def test_a_change_without_consent_schedules_no_scan(house, town):
    house.has(definition())
    town.opens("Seekfolk", Folk([HERS]))
    juniper = house.scanned_juniper()
    apply(house, "withdrawn", juniper)
    assert house.update(juniper, last_name="Otterwick")["is_scanning"] is False
    house.advance(days=8)
    assert len(town.of("Seekfolk")) == 2


STOPS = {
    "deactivated": consent.deactivate,
    "withdrawn": lambda work, user_id: consent.withdraw(work, user_id, withdrawn_by="her"),
    "purged": consent.purge,
}


def apply(house, stop, user):
    house.work(lambda work: STOPS[stop](work, user["id"]))


@pytest.mark.parametrize("stop", STOPS)
def test_no_user_is_scanned_without_consent(house, town, seekfolk, stop):
    """Only while the service is activated and only with recorded consent."""
    stopped, early = house.juniper(), house.juniper()
    apply(house, stop, early)
    house.idle()
    assert len(town.of("Seekfolk")) == 2
    apply(house, stop, stopped)
    before = len(town.requests)
    house.advance(days=30)
    assert len(town.requests) == before
    assert len(house.rows(tables.users)) == (0 if stop == "purged" else 2)


def test_a_user_who_consents_again_is_scanned_again(house, town, seekfolk):
    juniper = house.juniper()
    house.work(lambda work: consent.withdraw(work, juniper["id"], withdrawn_by="her"))
    house.advance(days=10)
    assert town.requests == []
    house.work(lambda work: consent.consent(work, juniper["id"], granted_by="her"))
    house.idle()
    assert house.statuses(juniper) == {"r1": "pending removal"}


@pytest.mark.parametrize("stop", STOPS)
def test_a_user_stopped_during_a_scan_keeps_no_findings(house, town, stop):
    sites = [f"Site {number:02}" for number in range(6)]
    house.has(*(definition(name, removal=by_form(name)) for name in sites))
    gate = GatedAnswer(Folk([HERS]).matching_cards)
    for name in sites:
        town.opens(name, Folk(search=gate))
    juniper, other = house.juniper(), house.juniper(first_name="Marigold", last_name="Otterwick")
    work_while(house, gate, lambda: apply(house, stop, juniper))
    names = {name for site in sites for name in town.names(site)}
    assert "Juniper Quillfeather" not in names
    assert "Marigold Otterwick" in names
    assert all(sent(town, name) == [] for name in sites)
    assert {row.user_id for table in (tables.records, tables.alerts) for row in house.rows(table)} == set()
    assert {row.id for row in house.rows(tables.users) if row.is_scanning} == set()
    assert house.get(other)["user"]["is_scanning"] is False
    # Only next week's scan of the other user is due.
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
    work_while(house, gate, lambda: apply(house, stop, juniper))
    assert sent(town) == []
    assert {row.status for row in house.rows()} == (set() if stop == "purged" else {"discovered"})


def test_search_engine_failures_do_not_affect_site_scans(store, tmp_path, town):
    town.opens("Seekfolk", Folk([HERS]))
    unusable = b'{"results": [1, {"url": 2}, {"url": "gopher://x.example/"}]}'
    responses = [html("", 502), html("<p>Results</p>"), Response(b'{"query": "x"}'), Response(delay_s=5)]
    responses.append(Response(unusable))  # conclusive
    with a_house(tmp_path, town.resolve, definition(), engine="http://search.example/search") as house:
        for number, response in enumerate(responses, 1):
            town.opens("search", lambda _, response=response: response)
            juniper = house.scanned_juniper()
            assert house.statuses(juniper) == {"r1": "discovered"}
            assert house.get(juniper)["user"]["is_scanning"] is False
            assert house.health()["search engine"].inconclusive_scans == min(number, len(responses) - 1)
        assert house.health()["Seekfolk"].inconclusive_scans == 0


@contextmanager
def a_world(directory, people, seed=7):
    """An invented world whose people are registered and not yet scanned."""
    clock = FrozenClock(START)
    with (
        HostileWorld(people, seed=seed, clock=clock).running() as world,
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
def test_a_month_in_the_world_agrees_with_its_truth(store, tmp_path):
    """Matches are precise and mostly complete, and each removed record is gone."""
    people = 4
    with a_world(tmp_path, people) as (house, world, users):
        began = world.clock.now()
        whose = {(truth.site, truth.reference_id): truth.person for truth in world.listings()}
        house.idle()
        manual = complete_manually(house, world, users)
        for _ in range(5):
            house.advance(days=6)
            records = claims_of(house, users)
            assert [one for one in records if whose.get((one.site, one.reference_id)) != one.person] == []
            for one in records:
                if one.status == "removed":  # gone now, or relisted since the last scan
                    times = [None, *(world.clock.now() - timedelta(days=days) for days in range(8))]
                    assert not all(world.is_listed(one.site, one.reference_id, at) for at in times)
        scans = [began + timedelta(weeks=week) for week in range(5)]
        evaluation = agreement(world, records, scanned_at=scans)
        assert (evaluation.precision, evaluation.nonexistent) == (1, 0)
        assert evaluation.verified_removed == evaluation.removed
        assert evaluation.recall >= 0.8
        assert evaluation.removed > people
        assert {one.site for one in records} <= world.reachable
        health = house.health()
        assert health["Everyname Index"].untrusted_scans == health["Everyname Index"].scans > 0
        assert health["Hushledger"].last_good_scan_at is health["Gatekeep Records"].last_good_scan_at is None
        assert not world.is_listed(manual.site, manual.reference_id)
        assert house.statuses(users[manual.person])[manual.reference_id] == "removed"


def complete_manually(house, world, users):
    """Follow an alert's steps at the manual site that is quickest."""
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
def test_links_contain_exactly_the_data_on_the_page(store, tmp_path):
    """The page is fetched and `contains` is computed from the person's own data."""
    with a_world(tmp_path, people=5) as (house, world, users):
        house.has()  # links only
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
            expected = {url for (url, who), truth in truths.items() if who == index and truth.contains}
            assert {url for url in expected - urls if not is_hostile(url)} == set()
            assert house.alert_titles(user) == ["Exposure found"] * len(links)
            link_count += len(links)
        assert link_count
        house.advance(days=8)
        assert sum(len(house.alerts(user)) for user in users) == link_count


def test_a_reassigned_reference_is_no_record_or_relisting(house, town, seekfolk):
    juniper = house.scanned_juniper()
    [record] = house.records(juniper)
    stranger = Card("r1", "Barnaby Otherwick", age=71, locations=("Fogmantle, CA",))
    seekfolk.search = lambda request: results_page(stranger) if HERS.fits(request) else nobody()
    house.advance(days=30)
    assert house.records(juniper) == [record | {"status": "removed"}]
    before = house.records(juniper), house.alerts(juniper), len(sent(town))
    house.advance(days=14)
    assert (house.records(juniper), house.alerts(juniper), len(sent(town))) == before


def test_an_invalid_result_url_is_skipped(town, tmp_path):
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


@pytest.mark.parametrize("at", ["before the discovery", "after the discovery"])
def test_an_update_during_the_first_scan_starts_the_removal(house, town, at):
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

    def update():
        while at.startswith("after") and not house.records(juniper):
            pass
        house.update(juniper, addresses=[{"id": item["id"], "zip": address["zip"]}])

    work_while(house, gate, update)
    assert (house.statuses(juniper), len(sent(town))) == ({"r1": "pending removal"}, 1)


def test_records_per_user_and_site_are_limited(house, town):
    house.has(definition(search={"pages_max": 1, "next": ()}))
    town.opens("Seekfolk", Folk([Card(f"r{number}") for number in range(RECORDS_MAX + 3)]))
    juniper = house.juniper()
    house.advance(days=8)
    assert len(house.records(juniper)) == len(house.alerts(juniper)) == RECORDS_MAX
    assert [one.verdict for one in house.work(candidates.all)] == ["quarantined"] * 3


def test_the_first_verification_is_at_least_an_hour_later(house, town):
    scanned(house, town, removal=by_form(processing_days=0), verification={"after_days": 0})
    assert [row.due_at - house.clock.now() for row in house.rows()] == [timedelta(hours=1)]


def test_an_internal_error_affects_only_its_site(house, town):
    """The loader would reject this selector; a definition built in Python is not checked."""
    house.has(definition("Odd", listings={"item": "li >"}), definition())
    for name in ("Odd", "Seekfolk"):
        town.opens(name, Folk([HERS]))
    juniper = house.scanned_juniper()
    assert [record["site"] for record in house.records(juniper)] == ["Seekfolk"]
    assert house.get(juniper)["user"]["is_scanning"] is False
    assert house.health()["Odd"].last_reason == "internal error"


def test_a_worker_without_sites_marks_no_user_as_scanned(house, town):
    house.has()
    juniper = house.scanned_juniper()
    [row] = house.rows(tables.users)
    assert (row.scanned_at, row.is_scanning) == (None, False)
    assert row.due_at == house.clock.now() + timedelta(hours=1)
    house.has(definition())
    town.opens("Seekfolk", Folk([HERS]))
    house.advance(hours=1)
    assert house.statuses(juniper) == {"r1": "discovered"}


def test_a_site_that_waits_for_a_person_gets_no_request(house, town):
    """Its scan is neither failed nor an absence, and an absence that is due is not scanned for either."""
    site, juniper = scanned(house, town)
    site.cards.clear()
    house.advance(days=7)
    assert [row.absences for row in house.rows()] == [1]
    town.requests.clear()
    house.has(definition(search={"method": "person"}))
    house.advance(days=30)
    assert town.requests == []
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert [(row.absences, row.due_at) for row in house.rows()] == [(1, None)]
    health = house.health()["Seekfolk"]
    assert (health.scans, health.inconclusive_scans, health.last_reason) == (2, 0, "waits for a person")
