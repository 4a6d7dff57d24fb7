"""Assisted opt-outs: what a person is told to send, in which order, and what follows their report."""

import asyncio
from datetime import timedelta

import pytest
from support.mail import CONFIRM, LINK, Zone, request_states, signed, unsigned
from support.services import opened
from support.small_web import Card, Folk, a_house, by_form, definition, results_page

from exposurekit.sandbox.world.asgi import html
from exposurekit.service.accounts import consent
from exposurekit.service.scanning import assisted_opt_outs, saved_pages
from exposurekit.service.scanning.assisted_opt_outs import NotAssisted
from exposurekit.service.storage import tables


def by_person(*also_removes, confirmed=False, **changed):
    """The removal of a site whose form a person sends."""
    fields = {"Your listing": "{reference_id}", "State": "{state}"}
    if confirmed:
        fields |= {"Email": "{request_email}"}
        changed |= {"confirm": CONFIRM}
    removal = {
        "method": "assisted",
        "fields": fields,
        "user_fields_required": ["state"],
        "processing_days": 2,
    }
    return removal | {"also_removes": also_removes} | changed


@pytest.fixture
def house(town, tmp_path, drop):
    with a_house(tmp_path, town.resolve, mail=drop.settings, resolve_txt=Zone()) as house:
        yield house


@pytest.fixture
def open_sites(house, town):
    """Open sites with these removals; each lists Juniper once, unless it is given the listings."""

    def opened(cards=None, **removals):
        folks = {}
        for name in removals:
            listed = (cards or {}).get(name, [Card(f"{name}-1")])
            folks[name] = town.opens(name, Folk(listed))
        house.has(*(definition(name, removal=removal) for name, removal in removals.items()))
        return folks

    return opened


def queued(house, limit=100, **options):
    options = {"mail": house.mail} | options
    return house.work(lambda work: assisted_opt_outs.queue(work, house.definitions, limit=limit, **options))


def offered(house):
    """The site of each form, and how many listings it clears."""
    return [(one.site, one.listings) for one in queued(house).opt_outs]


def sent(house, record_id):
    return house.work(lambda work: assisted_opt_outs.report_sent(work, record_id, house.definitions))


def failed(house, record_id, *, refused=False):
    house.work(
        lambda work: assisted_opt_outs.report_failed(work, record_id, house.definitions, refused=refused)
    )


def test_a_reported_opt_out_is_verified_and_removed(house, town, open_sites):
    folks = open_sites(Seekfolk=by_person("Peepfolk"), Peepfolk={"method": "manual"})
    juniper = house.scanned_juniper()
    [alert, _] = house.alerts(juniper)
    [operator, *steps] = alert["opt_out_procedure"]
    assert ("exposurekit users opt-outs" in operator, steps) == (True, ["Open the form.", "Press Remove."])
    [one] = queued(house).opt_outs
    assert (one.site, one.listings, one.also_removes) == ("Seekfolk", 2, ("Peepfolk",))
    assert (one.url, one.steps) == ("http://seekfolk.example/opt-out", ("Open the form.", "Press Remove."))
    assert (one.listing, one.values) == ("Seekfolk-1", {"Your listing": "Seekfolk-1", "State": "CA"})
    assert (one.minutes, one.failures, one.reason, one.missing) == (5, 0, None, ())
    assert "CA" not in repr(one)
    assert sent(house, one.id) == 2
    assert set(house.statuses(juniper).values()) == {"pending removal"}
    assert (queued(house).opt_outs, sent(house, one.id)) == ((), 0)
    for folk in folks.values():
        folk.cards.clear()
    house.advance(days=3.1)
    assert set(house.statuses(juniper).values()) == {"removed"}
    assert town.of("Seekfolk", "/opt-out") == []
    with pytest.raises(NotAssisted, match="is removed"):
        sent(house, one.id)


def test_the_service_waits_for_the_message(house, town, open_sites, drop):
    """The sister's listing is pending only once the message was answered, and is not offered meanwhile."""
    folks = open_sites(Seekfolk=by_person("Peepfolk", confirmed=True), Peepfolk=by_person())
    folks["Seekfolk"].others["/confirm"] = lambda _: html("Your removal is confirmed")
    juniper = house.scanned_juniper()
    assert (queued(house, mail=None).unprepared, offered(house)) == (1, [("Seekfolk", 2)])
    [one] = queued(house).opt_outs
    assert sent(house, one.id) == 1
    assert (house.statuses(juniper)["Seekfolk-1"], offered(house)) == ("pending removal", [])
    assert queued(house, is_patient=False).covered == 1
    drop.deliver(signed(unsigned(one.values["Email"], LINK)))
    house.advance(days=1.1)
    assert len(town.of("Seekfolk", "/confirm")) == 1
    assert set(house.statuses(juniper).values()) == {"pending removal"}
    assert queued(house).covered == 0
    for folk in folks.values():
        folk.cards.clear()
    house.advance(days=3)
    assert set(house.statuses(juniper).values()) == {"removed"}


def test_alerts_name_the_list_with_the_address_to_type(house, open_sites):
    """The person's own address, which an analyst has, would take the message where the service does not read it."""
    open_sites(Seekfolk=by_person(confirmed=True))
    juniper = house.scanned_juniper()
    [one] = queued(house).opt_outs
    assert one.steps == ("Open the form.", "Press Remove.")
    failed(house, one.id)
    for alert in house.alerts(juniper):
        [operator, address, *steps] = alert["opt_out_procedure"]
        assert "exposurekit users opt-outs" in operator
        assert "not the person's own" in address
        assert steps == [*one.steps]


def test_the_message_counts_without_a_report(house, town, open_sites, drop):
    folks = open_sites(Seekfolk=by_person(confirmed=True))
    folks["Seekfolk"].others["/confirm"] = lambda _: html("Your removal is confirmed")
    juniper = house.scanned_juniper()
    house.advance(days=40)  # an address that was issued does not expire
    [one] = queued(house).opt_outs
    drop.deliver(signed(unsigned(one.values["Email"], LINK)))
    house.advance(days=1.1)
    assert house.statuses(juniper) == {"Seekfolk-1": "pending removal"}
    assert sent(house, one.id) == 0


def test_a_message_with_an_unclear_answer_counts_without_a_report(house, open_sites, drop):
    """It shows that the form was sent; the scans find out what came of it."""
    folks = open_sites(Seekfolk=by_person(confirmed=True))
    folks["Seekfolk"].others["/confirm"] = lambda _: html("Hm.")
    juniper = house.scanned_juniper()
    [one] = queued(house).opt_outs
    drop.deliver(signed(unsigned(one.values["Email"], LINK)))
    house.advance(days=1.1)
    assert request_states(house) == ["unclear"]
    assert house.statuses(juniper) == {"Seekfolk-1": "pending removal"}
    assert sent(house, one.id) == 0


def test_an_opt_out_offered_again_waits_without_a_limit(house, open_sites, drop):
    """The site's time for its message begins when the form is sent again."""
    removal = by_person(confirmed=True, give_up_days=10)
    removal["confirm"] = CONFIRM | {"within_days": 14}
    folks = open_sites(Seekfolk=removal)
    folks["Seekfolk"].others["/confirm"] = lambda _: html("Your removal is confirmed")
    juniper = house.scanned_juniper()
    sent(house, queued(house).opt_outs[0].id)
    house.clock.advance(timedelta(days=14, hours=1))  # no worker runs, and the page of results is saved
    site, page = house.definitions["Seekfolk"], results_page(Card("Seekfolk-1")).body
    page = saved_pages.read(site, b"<!DOCTYPE html><html><body>" + page + b"</body></html>")
    house.work(lambda work: saved_pages.scan_saved(work, juniper["id"], site, [page]))
    house.idle()
    assert house.alert_titles(juniper)[-1] == "Opt-out ignored"
    drop.deliver(signed(unsigned(queued(house).opt_outs[0].values["Email"], LINK)))
    house.advance(days=1.1)
    assert house.statuses(juniper) == {"Seekfolk-1": "pending removal"}


def test_an_opt_out_given_up_is_prepared_at_once(house, town, drop):
    """Not when the next scan would have been."""
    folk = town.opens("Seekfolk", Folk([Card("r1")]))
    folk.others["/confirm"] = lambda _: html("Your removal is confirmed")
    removal = by_person(confirmed=True, give_up_days=10)
    house.has(definition(removal=removal, verification={"every_days": 9}))
    juniper = house.scanned_juniper()
    drop.deliver(signed(unsigned(queued(house).opt_outs[0].values["Email"], LINK)))
    house.advance(days=12.5)
    assert house.alert_titles(juniper)[-1] == "Opt-out ignored"
    assert (offered(house), queued(house).unprepared) == ([("Seekfolk", 1)], 0)


def test_an_opt_out_whose_address_is_damaged_is_left_out(house, open_sites):
    open_sites(Seekfolk=by_person(confirmed=True), Nosyfolk=by_person())
    house.scanned_juniper()
    spoilt = tables.mail_requests.update().values(ciphertext=b"\x01" + bytes(40))
    house.work(lambda work: work.run(spoilt))
    assert (offered(house), queued(house).unprepared) == ([("Nosyfolk", 1)], 1)


def test_without_a_message_it_is_offered_again(house, open_sites):
    open_sites(Seekfolk=by_person(confirmed=True))
    juniper = house.scanned_juniper()
    [one] = queued(house).opt_outs
    sent(house, one.id)
    house.advance(days=7.1)
    assert house.alert_titles(juniper)[-1] == "Opt-out unconfirmed"
    [again] = queued(house).opt_outs
    assert (again.id, again.failures, again.reason) == (one.id, 1, "the site sent no message in time")
    assert again.values["Email"] != one.values["Email"]


def test_a_site_that_does_not_act_is_offered_again(house, open_sites):
    open_sites(Seekfolk=by_person(give_up_days=10))
    juniper = house.scanned_juniper()
    sent(house, queued(house).opt_outs[0].id)
    house.advance(days=11.1)
    assert house.statuses(juniper) == {"Seekfolk-1": "discovered"}
    assert queued(house).opt_outs[0].reason == "the site did not remove the listing in time"


def test_a_failed_opt_out_comes_after_the_others(house, open_sites):
    open_sites(Seekfolk=by_person("Peepfolk", confirmed=True), Peepfolk=by_person(), Nosyfolk=by_person())
    juniper = house.scanned_juniper()
    best = queued(house).opt_outs[0]
    assert [best.site, *best.also_removes] == ["Seekfolk", "Peepfolk"]
    failed(house, best.id, refused=True)
    house.idle()
    assert house.alerts(juniper)[-1]["text"].startswith("Opt-out refused: Seekfolk did not accept")
    assert sorted(offered(house)) == [("Nosyfolk", 1), ("Peepfolk", 1), ("Seekfolk", 1)]
    [*_, last] = queued(house).opt_outs
    assert (last.failures, last.reason) == (1, "the site refused it")
    assert last.values["Email"] != best.values["Email"]
    failed(house, last.id)
    house.idle()
    assert [one.reason for one in queued(house).opt_outs][-1] == "it could not be sent"


def test_a_site_that_removes_nothing_comes_last(house, open_sites):
    """The listings on its sister sites count, too."""
    cards = {"Seekfolk": [Card("s1"), Card("s2"), Card("s3")], "Nosyfolk": [Card("n1"), Card("n2")]}
    ignoring = {"give_up_days": 10, "minutes": 1}
    folks = open_sites(
        cards,
        Seekfolk=by_person("Peepfolk", **ignoring),
        Peepfolk=by_person(**ignoring),
        Nosyfolk=by_person(),
    )
    juniper = house.scanned_juniper()
    first, second, _ = [one.id for one in queued(house).opt_outs if one.site == "Seekfolk"]
    assert (sent(house, first), sent(house, second)) == (2, 1)
    assert [one.unresponsive for one in queued(house).opt_outs] == [False] * 3
    house.advance(days=11.1)
    entries = [(one.site, one.unresponsive, one.failures) for one in queued(house).opt_outs]
    assert entries[:2] == [("Nosyfolk", False, 0)] * 2
    assert {one for one in entries if one[0] == "Seekfolk"} == {("Seekfolk", True, 0), ("Seekfolk", True, 1)}
    folks["Seekfolk"].cards.pop()
    house.advance(days=9)
    assert house.statuses(juniper)["s3"] == "removed"  # as it may be without a request
    assert {one.unresponsive for one in queued(house).opt_outs if one.site == "Seekfolk"} == {True}
    sent(house, first)
    removed = folks["Seekfolk"].cards.pop(0)
    house.advance(days=4)
    assert house.statuses(juniper)["s1"] == "removed"
    assert {one.unresponsive for one in queued(house).opt_outs} == {False}
    folks["Seekfolk"].cards.append(removed)
    house.advance(days=7)
    assert "Listed again" in house.alert_titles(juniper)
    assert {one.unresponsive for one in queued(house).opt_outs} == {False}


def test_a_site_that_ignored_a_request_comes_last(house, open_sites):
    """The same request again is probably in vain, unless the site has removed anything for anybody."""
    ignoring = {"give_up_days": 10, "minutes": 1}
    folks = open_sites(
        {"Seekfolk": [Card("s1"), Card("s2", "Juniper Otterwick")]},
        Seekfolk=by_person(**ignoring),
        Nosyfolk=by_person(),
    )
    juniper, other = house.juniper(), house.juniper(last_name="Otterwick")
    house.idle()
    ids = {one.user_id: one.id for one in queued(house).opt_outs if one.site == "Seekfolk"}
    sent(house, ids[juniper["id"]])
    house.advance(days=11.1)
    entries = {one.id: (one.unresponsive, one.failures) for one in queued(house).opt_outs}
    assert entries[ids[juniper["id"]]] == (True, 1)
    assert entries[ids[other["id"]]] == (False, 0)
    assert queued(house).opt_outs[-1].id == ids[juniper["id"]]
    sent(house, ids[other["id"]])
    folks["Seekfolk"].cards.pop()
    house.advance(days=4)
    assert {(one.unresponsive, one.failures) for one in queued(house).opt_outs if one.site == "Seekfolk"} == {
        (False, 1)
    }


def test_one_removal_among_many_ignored_requests_changes_nothing(house, open_sites):
    """A few listings disappear by themselves, while a request for them is on its way."""
    cards = [Card(f"s{number}") for number in range(4)]
    folks = open_sites({"Seekfolk": cards}, Seekfolk=by_person(give_up_days=10), Nosyfolk=by_person())
    juniper = house.scanned_juniper()
    for one in queued(house).opt_outs:
        if one.site == "Seekfolk":
            sent(house, one.id)
    folks["Seekfolk"].cards.pop()
    house.advance(days=11.1)
    assert house.statuses(juniper)["s3"] == "removed"
    assert [(one.site, one.unresponsive) for one in queued(house).opt_outs] == [
        ("Nosyfolk", False),
        *[("Seekfolk", True)] * 3,
    ]


def test_most_listings_per_minute_come_first(house, open_sites):
    """One request per person counts once, and a sister's listing is in the better request alone."""
    cards = {"Seekfolk": [Card("a"), Card("b"), Card("c")], "Nosyfolk": [Card("n")]}
    open_sites(
        cards,
        Nosyfolk=by_person(minutes=2),
        Peepfolk=by_person("Seekfolk", minutes=30),
        Seekfolk=by_person("Peepfolk", one_request_per="person", minutes=4),
    )
    juniper = house.scanned_juniper()
    assert offered(house) == [("Seekfolk", 4), ("Nosyfolk", 1)]
    assert [one.site for one in queued(house, limit=1).opt_outs] == ["Seekfolk"]
    assert queued(house, user_id=juniper["id"] + 1).opt_outs == ()
    assert sent(house, queued(house).opt_outs[0].id) == 4
    assert offered(house) == [("Nosyfolk", 1)]


def test_a_listing_that_another_request_removes_leads_none(house, open_sites):
    cards = {"Seekfolk": [Card("a1"), Card("a2")], "Peepfolk": [Card("b1")]}
    open_sites(cards, Seekfolk=by_person("Peepfolk"), Peepfolk=by_person("Seekfolk", minutes=1))
    juniper = house.scanned_juniper()
    assert offered(house) == [("Peepfolk", 3)]
    [failing] = [one["id"] for one in house.records(juniper) if one["reference_id"] == "a2"]
    failed(house, failing)
    assert offered(house) == [("Seekfolk", 2), ("Seekfolk", 1)]


def test_a_form_of_the_service_comes_before_a_person(house, open_sites):
    """What the service is about to remove by itself is no work for a person."""
    folks = open_sites(Seekfolk=by_form(also_removes=["Peepfolk"]), Peepfolk=by_person())
    folks["Seekfolk"].opt_out = lambda _: html("busy", 503)
    house.scanned_juniper()
    assert offered(house) == []
    house.advance(days=6)  # the last attempt was in vain
    assert offered(house) == [("Peepfolk", 1)]


def test_what_cannot_be_sent_comes_last(house, open_sites):
    open_sites(Seekfolk=by_person(user_fields_required=["middle_name"], minutes=1), Nosyfolk=by_person())
    house.scanned_juniper()
    assert [(one.site, one.missing) for one in queued(house).opt_outs] == [
        ("Nosyfolk", ()),
        ("Seekfolk", ("middle_name",)),
    ]
    assert [one.site for one in queued(house, limit=1).opt_outs] == ["Nosyfolk"]


def test_a_new_listing_waits_for_searches_of_sister_sites(house, town):
    """One form removes what they show, too; but it waits a week at most."""
    town.opens("Seekfolk", Folk([Card("s1")]))
    removal = by_person("Peepfolk", one_request_per="person")
    behind = definition("Peepfolk", search={"method": "person"}, removal=by_person("Seekfolk"))
    house.has(definition(removal=removal), behind)
    juniper = house.scanned_juniper()
    queue = queued(house)
    assert (queue.opt_outs, queue.waiting, queued(house, is_patient=False).waiting) == ((), 1, 0)
    assert [one.site for one in queued(house, is_patient=False).opt_outs] == ["Seekfolk"]
    house.clock.advance(timedelta(days=6))
    assert queued(house).waiting == 1
    house.clock.advance(timedelta(days=2))
    assert (offered(house), queued(house).waiting) == ([("Seekfolk", 1)], 0)
    house.save_page(juniper, "Peepfolk", Card("p1"))
    assert offered(house) == [("Seekfolk", 2)]


def test_a_new_listing_waits_for_an_earlier_forms_outcome(house, open_sites):
    """It may cover both; what is left then is removed by one more form."""
    removal = by_person(one_request_per="person", processing_days=9, give_up_days=20)
    folk = open_sites(Seekfolk=removal)["Seekfolk"]
    juniper = house.scanned_juniper()
    sent(house, queued(house).opt_outs[0].id)
    folk.cards.append(Card("later"))
    house.advance(days=7.5)
    assert house.statuses(juniper) == {"Seekfolk-1": "pending removal", "later": "discovered"}
    assert (offered(house), queued(house).waiting) == ([], 1)
    del folk.cards[0]
    house.advance(days=4)
    assert house.statuses(juniper) == {"Seekfolk-1": "removed", "later": "discovered"}
    assert offered(house) == [("Seekfolk", 1)]


def test_reports_in_opposite_orders_do_not_deadlock(house, open_sites):
    """On PostgreSQL each would wait for a person whom the other has locked; on SQLite all of one waits for the other."""
    open_sites({"Seekfolk": [Card("a1")]}, Seekfolk=by_person())
    first, second = (house.scanned_juniper()["id"] for _ in range(2))
    ids = [row.id for row in sorted(house.rows(), key=lambda row: -row.user_id)]

    async def report(database):
        async with database.writing() as work:
            await assisted_opt_outs.lock_people(work, ids)

    async def meet(database):
        async with opened(house.another_database()) as another:
            async with database.writing() as work:
                await consent.lock_user(work, first, changes=False)
                reporting = asyncio.create_task(report(another))
                done, _ = await asyncio.wait([reporting], timeout=0.5)
                await consent.lock_user(work, second, changes=False)
            await reporting
            return done

    assert house.behind(meet) == set()  # the report had to wait


def test_without_consent_nothing_is_offered_or_reported(house, open_sites):
    open_sites(Seekfolk=by_person(confirmed=True))
    juniper = house.scanned_juniper()
    [one] = queued(house).opt_outs
    house.work(lambda work: consent.withdraw(work, juniper["id"], withdrawn_by="Juniper"))
    assert queued(house).opt_outs == ()
    with pytest.raises(NotAssisted, match="consent is not recorded"):
        sent(house, one.id)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda house: house.definitions.clear(), "name the directory with --sites"),
        (
            lambda house: house.work(lambda work: work.run(tables.mail_requests.delete())),
            "no worker with a mailbox",
        ),
    ],
    ids=["no definition", "not prepared"],
)
def test_a_report_that_does_not_fit_is_refused(house, open_sites, change, error):
    open_sites(Seekfolk=by_person(confirmed=True))
    house.scanned_juniper()
    [one] = queued(house).opt_outs
    change(house)
    with pytest.raises(NotAssisted, match=error):
        sent(house, one.id)
    with pytest.raises(NotAssisted, match="no record has the id"):
        failed(house, one.id + 1)
