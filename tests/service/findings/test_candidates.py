"""Candidates: possible listings of a user, which become records only when the operator accepts them."""

import dataclasses
from functools import partial

import pytest
from sqlalchemy import select
from support.services import LISTING, SITE

from exposurekit.errors import ConfigurationError
from exposurekit.service.findings import candidates
from exposurekit.service.findings.candidates import POSSIBLE, QUARANTINED, Assessment
from exposurekit.service.findings.findings import Site, discover_record
from exposurekit.service.storage import tables

POSSIBLY = Assessment(POSSIBLE, 0.6, ("the same name", "no age"))
BAD_DAY = Assessment(QUARANTINED, 0.9, ("the site lists anybody",))


@pytest.fixture
def jane(service):
    return service.create()


def listing(reference="1", **fields):
    return dataclasses.replace(LISTING, reference_id=reference, **fields)


def save(service, user, candidate=LISTING, verdict=POSSIBLY, site=SITE.name):
    service.work(lambda work: candidates.save(work, user["id"], site, candidate, verdict))


def stored_candidates(service, user, **options):
    return service.work(lambda work: candidates.all(work, user_id=user["id"], **options))


def test_a_candidate_has_its_reasons_and_makes_no_event(service, jane):
    """Weaker matches wait for the operator."""
    save(service, jane)
    [one] = stored_candidates(service, jane)
    assert (one.user_id, one.site, one.verdict, one.score) == (jane["id"], SITE.name, "possible", 0.6)
    assert (one.reasons, one.observed_at) == (("the same name", "no age"), service.clock.now())
    assert one.listing == LISTING
    assert service.get(jane, "/records") == {"records": []}
    assert service.get(jane, "/alerts") == {"alerts": []}


def test_a_candidate_found_again_is_updated(service, jane):
    save(service, jane)
    [before] = stored_candidates(service, jane)
    save(service, jane, listing(LISTING.reference_id, age=42), BAD_DAY)
    [after] = stored_candidates(service, jane)
    assert (after.id, after.verdict, after.score, after.listing.age) == (before.id, "quarantined", 0.9, 42)
    assert after.reasons == BAD_DAY.reasons


def test_a_reference_belongs_to_one_site_and_one_user(service, jane):
    other = service.create()
    save(service, jane)
    save(service, jane, site="Elsewhere")
    save(service, other)
    assert (len(stored_candidates(service, jane)), len(stored_candidates(service, other))) == (2, 1)
    service.work(lambda work: candidates.discard(work, jane["id"], SITE.name, LISTING))
    assert [one.site for one in stored_candidates(service, jane)] == ["Elsewhere"]
    assert len(stored_candidates(service, other)) == 1


def test_the_open_candidates_of_a_site_are_read_alone(service, jane):
    """The others are not decrypted."""
    save(service, jane)
    save(service, jane, listing("2"), site="Elsewhere")

    def open_listings(*sites):
        return service.work(lambda work: candidates.open_listings(work, jane["id"], *sites))

    assert [site for site, _ in open_listings()] == [SITE.name, "Elsewhere"]
    assert open_listings("Elsewhere") == [("Elsewhere", listing("2"))]


def test_discarding_an_unknown_candidate_changes_nothing(service, jane):
    service.work(lambda work: candidates.discard(work, jane["id"], SITE.name, LISTING))
    assert stored_candidates(service, jane) == []


def test_candidates_are_listed_by_score(service, jane):
    for number, score in enumerate((0.5, 0.9, 0.5, 0.7)):
        judged = Assessment(QUARANTINED if number == 3 else POSSIBLE, score, ())
        save(service, jane, listing(str(number)), judged)
    assert [one.listing.reference_id for one in stored_candidates(service, jane)] == ["1", "3", "0", "2"]
    assert [one.listing.reference_id for one in stored_candidates(service, jane, limit=2)] == ["1", "3"]
    assert [one.listing.reference_id for one in stored_candidates(service, jane, verdict=QUARANTINED)] == [
        "3"
    ]
    everybody = service.work(lambda work: candidates.all(work, limit=10_000))
    assert {one.id for one in stored_candidates(service, jane)} <= {one.id for one in everybody}


def test_an_accepted_candidate_becomes_an_ordinary_record(service, jane):
    save(service, jane)
    [one] = stored_candidates(service, jane)
    assert service.work(lambda work: candidates.find(work, one.id)) == one
    record_id = service.work(lambda work: candidates.accept(work, one.id, SITE))
    [item] = service.get(jane, "/records")["records"]
    assert (item["record"]["id"], item["record"]["name"]) == (record_id, LISTING.name)
    assert item["record"]["status"] == "discovered"
    [alert] = service.get(jane, "/alerts")["alerts"]
    assert alert["text"].startswith("New record: ")
    assert stored_candidates(service, jane) == []
    assert service.work(lambda work: discover_record(work, jane["id"], LISTING, SITE)) == record_id


def test_a_rejected_candidate_becomes_no_record_and_stays_rejected(service, jane):
    save(service, jane)
    save(service, jane, listing("2"))
    [one, other] = stored_candidates(service, jane)
    is_rejected = partial(candidates.is_rejected, user_id=jane["id"], site=one.site, listing=one.listing)
    assert not service.work(is_rejected)
    service.work(lambda work: candidates.reject(work, one.id))
    assert service.work(is_rejected)
    assert stored_candidates(service, jane) == [other]
    assert stored_candidates(service, jane, verdict="rejected")[0].id == one.id
    assert service.get(jane, "/records") == {"records": []}


@pytest.mark.parametrize("step", ["accept", "reject", "accept elsewhere", "find"])
def test_an_unknown_candidate_is_a_one_line_error(service, jane, step):
    save(service, jane)
    [one] = stored_candidates(service, jane)
    steps = {
        "accept": lambda work: candidates.accept(work, 10**9, SITE),
        "reject": lambda work: candidates.reject(work, 10**9),
        "find": lambda work: candidates.find(work, 10**9),
        "accept elsewhere": lambda work: candidates.accept(work, one.id, Site(name="Elsewhere")),
    }
    with pytest.raises(ConfigurationError, match=r"^no candidate has this id[^\n]+$"):
        service.work(steps[step])
    assert stored_candidates(service, jane) == [one]
    assert service.get(jane, "/records") == {"records": []}


def test_a_candidate_is_encrypted_and_hidden_in_its_repr(service, jane):
    save(service, jane)
    [one] = stored_candidates(service, jane)
    rows = service.work(lambda work: work.all(select(tables.candidates)))
    for text in (repr(one), repr(rows)):
        assert "Jane" not in text
        assert LISTING.reference_id not in text
