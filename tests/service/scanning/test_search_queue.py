"""The searches for a person to open: in which order, and what each is for."""

from datetime import timedelta

import pytest
from support.small_web import Card, Folk, definition

from exposurekit.service.accounts import consent
from exposurekit.service.findings.removals import submit_removal
from exposurekit.service.scanning import assisted_opt_outs, search_queue
from exposurekit.service.scanning.search_queue import QueueEntry

SITE = definition(search={"method": "person"})
ADDRESS = "http://seekfolk.example/search?first=Juniper&last=Quillfeather"


def queued(house, limit=9, **options):
    return house.work(lambda work: search_queue.queue(work, house.definitions, limit=limit, **options))


@pytest.fixture
def juniper(house):
    house.has(SITE)
    return house.scanned_juniper()


def test_the_queue_lists_each_search_of_each_person(house, juniper):
    house.has(SITE, definition("Nosy Heron"))
    june = house.juniper(aliases=[{"first_name": "June", "last_name": "Quill"}])
    [first, second, third] = queued(house)
    assert (first.user_id, first.site, first.address) == (juniper["id"], "Seekfolk", ADDRESS)
    assert second == QueueEntry(june["id"], "Seekfolk", ADDRESS)
    assert third.address.endswith("?first=June&last=Quill")
    assert "Juniper" not in repr(first)
    assert queued(house, user_id=june["id"], limit=1) == [second]
    house.work(lambda work: consent.withdraw(work, june["id"], withdrawn_by="the person"))
    assert queued(house) == [first]


def test_the_queue_puts_verifications_first(house, juniper):
    house.has(definition("Nosy Heron", search={"method": "person"}), SITE)

    def entries():
        return [(entry.site, entry.to_verify) for entry in queued(house)]

    house.save_page(juniper, "Nosy Heron", Card("n1"))
    house.save_page(juniper, "Seekfolk", Card("r1"))
    assert entries() == [("Nosy Heron", 0), ("Seekfolk", 0)]
    [record] = [one for one in house.records(juniper) if one["site"] == "Seekfolk"]
    next_day = house.clock.now() + timedelta(days=1)
    house.work(lambda work: submit_removal(work, record["id"], SITE.site(), next_scan_at=next_day))
    assert entries() == [("Nosy Heron", 0), ("Seekfolk", 0)]
    house.advance(days=1)
    assert entries() == [("Seekfolk", 1), ("Nosy Heron", 0)]


def test_the_queue_begins_with_searches_that_opt_outs_wait_for(house, town):
    """One form removes what an open site and its owner's other site show, if the latter is searched before it is sent."""
    town.opens("Seekfolk", Folk([Card("s1"), Card("s2")]))
    removal = {"method": "assisted", "one_request_per": "person"}
    house.has(
        definition(removal=removal | {"also_removes": ["Peepfolk"]}),
        definition("Peepfolk", search={"method": "person"}, removal=removal | {"also_removes": ["Seekfolk"]}),
        definition("Nosyfolk", search={"method": "person"}),
    )
    juniper = house.scanned_juniper()

    def opt_outs():
        queue = house.work(lambda work: assisted_opt_outs.queue(work, house.definitions, limit=9))
        return [(one.site, one.listings) for one in queue.opt_outs]

    def searches():
        return [(entry.site, entry.waiting) for entry in queued(house)]

    assert searches() == [("Peepfolk", 2), ("Nosyfolk", 0)]
    assert queued(house, user_id=juniper["id"] + 1) == opt_outs() == []
    house.save_page(juniper, "Peepfolk", Card("p1"))
    assert opt_outs() == [("Seekfolk", 3)]
    assert searches() == [("Nosyfolk", 0), ("Peepfolk", 0)]
