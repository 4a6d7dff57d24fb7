"""Removals: discovered -> pending removal -> removed, twice verified; and the ways back."""

import pytest
from service_kit import LISTING, SITE

from exposurekit.service.findings import Site, discover_record
from exposurekit.service.removals import (
    NoSuchRecord,
    WrongStatus,
    refuse_removal,
    submit_removal,
    verify_removal,
)


class Case:
    """One record of one person, and the steps that may be taken with it."""

    def __init__(self, service):
        self.service = service
        self.user = service.create()
        self.record_id = self.see()

    def see(self):
        return self.service.work(lambda work: discover_record(work, self.user["id"], LISTING, SITE))

    def submit(self):
        self.service.work(lambda work: submit_removal(work, self.record_id, SITE))

    def refuse(self):
        self.service.work(lambda work: refuse_removal(work, self.record_id, SITE))

    def look(self, *, gone):
        return self.service.work(lambda work: verify_removal(work, self.record_id, SITE, gone=gone))

    @property
    def status(self):
        return self.service.get(self.user, f"/records/{self.record_id}")["record"]["status"]

    @property
    def alerts(self):
        return self.service.get(self.user, "/alerts")["alerts"]


@pytest.fixture
def case(service):
    return Case(service)


def test_an_opt_out_makes_a_removal_pending_and_tells(case):
    """Specification, "Alert": an opt-out submitted."""
    case.submit()
    assert case.status == "pending removal"
    assert (
        case.alerts[-1]["text"]
        == "Opt-out submitted: People & Places was asked to remove its listing of Jane Q. Doe."
    )


def test_two_looks_in_a_row_that_find_nothing_verify_a_removal(case):
    """CONTRACT.md, "transitions": removed (verified twice)."""
    case.submit()
    assert case.look(gone=True) == "pending removal"
    assert len(case.alerts) == 2
    assert case.look(gone=True) == "removed"
    assert case.status == "removed"
    assert case.alerts[-1]["text"].startswith("Removal verified: ")


def test_a_look_that_finds_it_starts_the_count_again(case):
    case.submit()
    assert [case.look(gone=gone) for gone in (True, False, True)] == ["pending removal"] * 3
    assert case.look(gone=True) == "removed"


def test_a_scan_that_sees_it_starts_the_count_again(case):
    case.submit()
    case.look(gone=True)
    assert case.see() == case.record_id
    assert case.look(gone=True) == "pending removal"
    assert case.status == "pending removal"


def test_a_refusal_goes_back_and_carries_the_steps_by_hand(case):
    """CONTRACT.md, "transitions": a refused opt-out."""
    case.submit()
    case.refuse()
    assert case.status == "discovered"
    alert = case.alerts[-1]
    assert alert["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    assert alert["url"] == "https://places.example/opt-out"
    assert alert["text"].endswith("by hand:\n1. Open the form.\n2. Press Remove.")
    assert alert["html"].endswith("<ol><li>Open the form.</li><li>Press Remove.</li></ol>")


def test_steps_stand_only_where_somebody_can_act_on_them(case):
    """Specification, "Alert": opt_out_procedure holds manual removal steps."""
    case.submit()
    case.look(gone=True)
    case.look(gone=True)
    found, submitted, verified = case.alerts
    assert found["opt_out_procedure"]
    assert submitted["opt_out_procedure"] == verified["opt_out_procedure"] == []


def test_a_refused_removal_may_be_submitted_again_and_counts_from_none(case):
    case.submit()
    case.look(gone=True)
    case.refuse()
    case.submit()
    assert case.look(gone=True) == "pending removal"


@pytest.mark.parametrize("step", ["refuse", "look"])
def test_a_record_that_is_not_pending_can_be_neither_verified_nor_refused(case, step):
    with pytest.raises(WrongStatus, match="is discovered cannot be"):
        case.refuse() if step == "refuse" else case.look(gone=True)


@pytest.mark.parametrize("removed", [False, True])
def test_a_record_can_be_submitted_while_discovered_only(case, removed):
    case.submit()
    if removed:
        case.look(gone=True)
        case.look(gone=True)
    with pytest.raises(WrongStatus, match="must be discovered"):
        case.submit()
    assert case.status == ("removed" if removed else "pending removal")


def test_a_record_is_known_by_its_id_and_its_site(case):
    for record_id, site in ((10**9, SITE), (case.record_id, Site(name="Elsewhere"))):
        with pytest.raises(NoSuchRecord):
            case.service.work(lambda work, known=record_id, on=site: submit_removal(work, known, on))
