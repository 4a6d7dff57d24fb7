"""Evidence: what a page showed when a listing was found and when it was gone, in a chain that a purge does not break."""

import asyncio
import json
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, update
from support.evidence_bundles import members_of
from support.services import LISTING, SITE, START, a_service
from support.small_web import Card, Folk, by_form, definition, nobody, results_page

from exposurekit.contract import evidence_bundle
from exposurekit.service.accounts import consent
from exposurekit.service.database_check import check
from exposurekit.service.findings import candidates, evidence
from exposurekit.service.findings.findings import discover_record
from exposurekit.service.models import Excerpt, Listing, Site
from exposurekit.service.scanning import saved_pages
from exposurekit.service.storage import tables
from exposurekit.service.worker import create_worker

HERS, SOMEBODY = Card("r1"), Card("r9", "Somebody Otherwick")
ADDRESS = "http://seekfolk.example/search?first=Juniper&last=Quillfeather"


def forget(service):
    async def delete_all(work):
        await work.run(delete(tables.evidence_entries))
        await work.run(delete(tables.evidence_roots))

    service.work(delete_all)


def exported(service, user):
    return service.work(lambda work: evidence.export(work, user["id"]))


async def public_key(work):
    return work.vault.public_key


def entries(service, user):
    """The entries of a verified bundle, once their day is over."""
    service.clock.advance(timedelta(days=1))
    key = service.work(public_key)
    return [one.content for one in evidence_bundle.verify(exported(service, user).content, key).entries]


def roots(service):
    return service.work(lambda work: evidence.newest_roots(work, 100))


def test_each_removal_has_the_listing_and_the_page_without_it(house, town):
    forget(house)
    house.has(definition(removal=by_form()))
    site = town.opens("Seekfolk", Folk([HERS, SOMEBODY]))
    site.search = lambda _: results_page(*site.cards) if site.cards else nobody()
    juniper = house.scanned_juniper()
    site.cards.clear()
    house.advance(days=3.1)
    assert house.statuses(juniper) == {"r1": "removed"}
    site.cards[:] = [Card("r1", age=43)]  # it is listed again, and removed again
    house.advance(days=4)
    site.cards.clear()
    house.advance(days=4)
    found = entries(house, juniper)
    before, after, *again = found
    assert [one.kind for one in found] == ["before", "after", "before", "after"]
    [record] = house.records(juniper)
    assert {(one.user_id, one.record_id, one.reference_id) for one in found} == {
        (juniper["id"], record["id"], "r1")
    }
    assert (before.site, before.source, before.observed_at) == ("Seekfolk", "scan", before.recorded_at)
    assert before.query == {"first": "Juniper", "last": "Quillfeather"}
    [listing], [page] = before.pages, after.pages
    assert listing.text == "Juniper Quillfeather 42 12 Acorn Street, Oakmere, CA"
    assert "43" in again[0].pages[0].text
    assert (page.address, page.text, page.status, page.is_cut) == (ADDRESS, "Nobody of that name", 200, False)
    assert (after.observed_at - before.observed_at).days == 3
    assert len({one.scan_id for one in found}) == 4

    site.cards[:] = [HERS]
    other = house.scanned_juniper()
    house.work(lambda work: consent.purge(work, juniper["id"]))
    assert {row.user_id for row in house.rows(tables.evidence)} == {other["id"]}
    assert len(house.rows(tables.evidence_entries)) == 5
    assert [one.kind for one in entries(house, other)] == ["before"]
    house.work(lambda work: consent.withdraw(work, other["id"], withdrawn_by="her"))
    site.cards.clear()
    house.advance(days=8)
    assert [one.kind for one in entries(house, other)] == ["before"]
    assert [one.number for one in roots(house)] == [1, 2, 3, 4, 5]


def test_records_and_accepted_candidates_get_evidence_later(house, town):
    """An upgraded database has records without evidence: a candidate has that of its discovery."""
    forget(house)
    house.has(definition())
    town.opens("Seekfolk", Folk([HERS, Card("r2", age=None, locations=("Oakmere, CA",))]))
    juniper, other = house.scanned_juniper(), house.scanned_juniper()
    house.work(lambda work: consent.withdraw(work, other["id"], withdrawn_by="her"))
    [candidate] = house.work(lambda work: candidates.all(work, user_id=other["id"]))
    house.work(lambda work: candidates.accept(work, candidate.id, Site(name="Seekfolk")))
    assert [one.reference_id for one in entries(house, other)] == ["r1"]
    house.clock.advance(timedelta(days=1))
    [candidate] = house.work(lambda work: candidates.all(work, user_id=juniper["id"]))
    house.work(lambda work: candidates.accept(work, candidate.id, Site(name="Seekfolk")))
    accepted = entries(house, juniper)[1]
    assert accepted.pages[0].text == "Juniper Quillfeather Oakmere, CA"
    assert accepted.recorded_at - accepted.observed_at == timedelta(days=2)
    forget(house)
    house.advance(days=5)
    assert sorted(one.reference_id for one in entries(house, juniper)) == ["r1", "r2"]


def test_saved_pages_are_evidence_and_say_so(house, town):
    forget(house)
    site = definition(search={"method": "person"})
    house.has(site)
    juniper = house.scanned_juniper()

    def scan(answer, mark=""):
        page = b"<!DOCTYPE html>\n" + mark.encode() + b"<html><body>" + answer.body + b"</body></html>"
        pages = [saved_pages.read(site, page)]
        house.work(lambda work: saved_pages.scan_saved(work, juniper["id"], site, pages))

    scan(results_page(HERS, beside="<p>Juniper Quillfeather</p>"))
    for _ in range(2):
        house.clock.advance(timedelta(days=1.1))
        scan(nobody(), f"<!-- saved from url=({len(ADDRESS):04d}){ADDRESS} -->")
    before, after = entries(house, juniper)
    assert (before.source, before.pages[0].address) == ("saved page", None)
    assert (after.source, after.pages[0].address) == ("saved page", ADDRESS)


# --- without scans ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bureau(tmp_path_factory):
    with a_service(tmp_path_factory.mktemp("evidence")) as service:
        yield service


@pytest.fixture
def desk(bureau):
    forget(bureau)
    midnight = bureau.clock.now().replace(hour=0, minute=0, second=0) + timedelta(days=1)
    bureau.clock.advance(midnight + timedelta(hours=9) - bureau.clock.now())
    return bureau


def record(service, user):
    """Add an entry about a record."""

    async def append(work):
        record_id = await discover_record(work, user["id"], LISTING, SITE)
        scan = evidence.Scan(evidence.new_scan_id(), SITE.name, "scan", work.clock.now())
        await evidence.append(work, user["id"], record_id, evidence.before(LISTING, scan))

    service.work(append)


@pytest.fixture
def jane(desk):
    jane = desk.create()
    record(desk, jane)
    return jane


def test_a_day_has_one_root_once_it_is_over(desk, jane):
    day = desk.clock.now().date()
    record(desk, jane)
    desk.clock.advance(timedelta(hours=14, minutes=59))
    assert exported(desk, jane).not_rooted == 2
    desk.clock.advance(timedelta(minutes=1))
    assert desk.clock.now().date() == day + timedelta(days=1)
    first, second = exported(desk, jane), exported(desk, jane)
    assert (first.before, first.not_rooted, len(first.new_roots)) == (2, 0, 1)
    assert second.content == first.content
    assert [(one.number, one.day, one.entries) for one in roots(desk)] == [(1, day.isoformat(), 2)]
    members = members_of(first.content)
    rows = desk.work(lambda work: work.all(tables.evidence_entries.select()))
    for row, (name, member) in zip(rows, [*members.items()][4:], strict=True):
        assert name.startswith("entries/")
        assert evidence_bundle.encode(json.loads(member)) == member
        assert evidence_bundle._sha256(member) == bytes(row.digest).hex()


def test_some_days_of_a_person_verify_alone(desk, jane):
    first = desk.clock.now().date()
    for _ in range(3):
        desk.clock.advance(timedelta(days=1))
        record(desk, jane)
    desk.clock.advance(timedelta(days=1))
    one, two = (first + timedelta(days=days) for days in (1, 2))
    for days, numbers in (((one, two), [2, 3]), ((two,), [3, 4]), ((two, one), [])):
        result = desk.work(lambda work, days=days: evidence.export(work, jane["id"], *days))
        verified = evidence_bundle.verify(result.content)
        assert [root.number for root in verified.roots] == numbers
        assert len(verified.entries) == result.before == len(numbers)


def test_a_worker_makes_and_logs_roots(desk, jane, caplog):
    desk.clock.advance(timedelta(days=1))
    caplog.set_level("INFO", "exposurekit.service")

    async def run_until_logged():
        working = asyncio.create_task(create_worker(desk.database).run())
        while not (logged := [one for one in caplog.messages if "evidence_root" in one]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        working.cancel()
        return logged

    [message] = asyncio.run(asyncio.wait_for(run_until_logged(), 60))
    [root] = roots(desk)
    assert message == f"evidence_root={root.hash} number=1 day={root.day} entries=1"


def test_a_clock_that_was_ahead_leaves_a_chain_that_verifies(desk, jane):
    """The days go back, the numbers go on, and nothing waits until the wrong day comes."""
    ahead = timedelta(days=400)
    for by in (ahead, -ahead):
        desk.clock.advance(by)
        desk.work(evidence.make_roots)
        record(desk, jane)
    assert len(entries(desk, jane)) == 3
    assert evidence_bundle.verify(exported(desk, jane).content).clock_was_set_back
    days = [one.day for one in roots(desk)]
    assert len(days) == 3
    assert days[0] == days[2] < days[1]


def test_a_damaged_or_changed_entry_is_left_out(desk, jane):
    record(desk, jane)
    first, second = desk.work(lambda work: work.all(tables.evidence.select()))
    one = tables.evidence.c.id == first.id
    desk.work(lambda work: work.run(update(tables.evidence).where(one).values(ciphertext=second.ciphertext)))
    desk.clock.advance(timedelta(days=1))
    result = exported(desk, jane)
    assert (result.before, result.damaged) == (1, 1)
    desk.work(lambda work: work.run(update(tables.evidence).values(ciphertext=b"x")))
    assert exported(desk, jane).damaged == 2
    assert [damage.table for damage in desk.work(check)[1]] == ["evidence"] * 2


NASTY = st.text(st.sampled_from('a"\\é😀<\u2028'), max_size=30).map(lambda part: part * 700)


@settings(max_examples=25, deadline=None)
@given(NASTY, NASTY, st.integers(0, 9))
def test_a_pair_has_at_most_30_kb(words, address, pages):
    excerpt = Excerpt(address, 200, words[:12_000], "0" * 64, is_cut=False)
    listing = Listing(
        name="J",
        reference_id=address[:300],
        href=address[:2000],
        query={"name": words[:255], "town": address[:2000]},
        excerpt=excerpt,
    )
    scan = evidence.Scan("0" * 16, words[:200], "scan", START)
    for content in (evidence.before(listing, scan), evidence.after(listing, [excerpt] * pages, scan)):
        ids = {"user_id": 2**62, "record_id": 2**62, "recorded_at": START.isoformat(), "salt": "0" * 32}
        encoded = evidence_bundle.encode(content | ids)
        evidence_bundle.EntryContent.model_validate_json(encoded)
        assert len(encoded) <= evidence_bundle.ENTRY_BYTES_MAX == 15_000
        assert all(words.startswith(page["text"]) for page in content["pages"])
        assert all(page["is_cut"] or page["text"] == excerpt.text for page in content["pages"])
