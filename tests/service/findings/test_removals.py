"""Removals: discovered -> pending removal -> removed, twice verified; and the ways back."""

import itertools
from datetime import timedelta

import pytest
from sqlalchemy import select
from support.services import LISTING, SITE

from exposurekit.service.findings.alerts import Event
from exposurekit.service.findings.findings import Site, discover_record
from exposurekit.service.findings.removals import (
    NoSuchRecord,
    WrongStatus,
    reconsider,
    refuse_removal,
    submit_removal,
    verify_removal,
)
from exposurekit.service.storage import tables


class Case:
    """One record of one person, and the steps that may be taken with it."""

    def __init__(self, service):
        self.service = service
        self.user = service.create()
        self.record_id = self.see()

    def see(self):
        return self.service.work(lambda work: discover_record(work, self.user["id"], LISTING, SITE))

    def submit(self, **when):
        self.service.work(lambda work: submit_removal(work, self.record_id, SITE, **when))

    def refuse(self, **how):
        self.service.work(lambda work: refuse_removal(work, self.record_id, SITE, **how))

    def scan(self, *, absent, **how):
        return self.service.work(
            lambda work: verify_removal(work, self.record_id, SITE, absent=absent, **how)
        )

    def reconsider(self):
        self.service.work(lambda work: reconsider(work, self.user["id"]))

    def tomorrow(self):
        self.service.clock.advance(timedelta(days=1))

    @property
    def row(self):
        """The record as the database has it."""
        ours = tables.records.c.id == self.record_id

        async def row(work):
            return await work.first(select(tables.records).where(ours))

        return self.service.work(row)

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


def test_two_absences_in_a_row_verify_a_removal(case):
    """Not in the specification, "transitions": removed (verified twice)."""
    case.submit()
    assert case.scan(absent=True) == "pending removal"
    assert len(case.alerts) == 2
    assert case.scan(absent=True) == "removed"
    assert case.status == "removed"
    assert case.alerts[-1]["text"].startswith("Removal verified: ")


def test_a_look_that_finds_it_starts_the_count_again(case):
    case.submit()
    assert [case.scan(absent=gone) for gone in (True, False, True)] == ["pending removal"] * 3
    assert case.scan(absent=True) == "removed"


def test_a_scan_that_sees_it_starts_the_count_again(case):
    case.submit()
    case.scan(absent=True)
    assert case.see() == case.record_id
    assert case.scan(absent=True) == "pending removal"
    assert case.status == "pending removal"


def test_a_refusal_goes_back_and_carries_the_steps_by_hand(case):
    """Not in the specification, "transitions": a refused opt-out."""
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
    case.scan(absent=True)
    case.scan(absent=True)
    discovered, submitted, verified = case.alerts
    assert discovered["opt_out_procedure"]
    assert submitted["opt_out_procedure"] == verified["opt_out_procedure"] == []


def test_a_refused_removal_may_be_submitted_again_from_zero(case):
    case.submit()
    case.scan(absent=True)
    case.refuse()
    case.submit()
    assert case.scan(absent=True) == "pending removal"


def test_a_manual_removal_is_verified_too(case):
    """Not in the specification, "transitions": verified twice, whoever asked for it."""
    assert case.scan(absent=True) == "discovered"
    assert (case.status, len(case.alerts)) == ("discovered", 1)
    assert case.scan(absent=True) == "removed"
    assert case.status == "removed"
    assert case.alerts[-1]["text"].startswith("Removal verified: ")
    assert len(case.alerts) == 2


def test_an_absence_without_a_submission_changes_nothing(case):
    assert [case.scan(absent=gone) for gone in (True, False, True)] == ["discovered"] * 3
    assert len(case.alerts) == 1


@pytest.mark.parametrize("submitted", [True, False])
def test_a_site_may_want_more_looks_than_two(case, submitted):
    """Verification (when, how often, confirmations)."""
    if submitted:
        case.submit()
    before = case.status
    assert [case.scan(absent=True, confirmations=3) for _ in range(2)] == [before] * 2
    assert case.scan(absent=False, confirmations=3) == before
    assert [case.scan(absent=True, confirmations=3) for _ in range(3)] == [before, before, "removed"]


def test_one_look_is_enough_where_one_is_asked_for(case):
    case.submit()
    assert case.scan(absent=True, confirmations=1) == "removed"


def test_the_next_look_is_due_when_it_was_said(case):
    """Scans, removal checks and deliveries are due rows."""
    soon, later, last = (case.service.clock.now() + timedelta(days=days) for days in (3, 7, 14))
    assert case.row.due_at is None
    case.submit(next_scan_at=soon)
    assert case.row.due_at == soon
    case.scan(absent=False, next_scan_at=later)
    assert case.row.due_at == later
    case.scan(absent=True, next_scan_at=last)
    assert case.row.due_at == last
    case.scan(absent=True, next_scan_at=last)
    assert (case.status, case.row.due_at) == ("removed", None)


def test_a_status_has_its_instant(case):
    start = case.row.changed_at
    case.tomorrow()
    case.scan(absent=False)
    assert case.row.changed_at == start
    for step in (case.submit, case.refuse, case.submit, lambda: case.scan(absent=True, confirmations=1)):
        case.tomorrow()
        step()
        assert case.row.changed_at == case.service.clock.now()
    case.tomorrow()
    case.see()
    assert (case.status, case.row.changed_at) == ("discovered", case.service.clock.now())


@pytest.mark.parametrize("submitted", [True, False])
def test_a_refusal_has_its_instant_and_nothing_is_due(case, submitted):
    """Not in the specification, "transitions": a refused opt-out -> back to discovered; it may come as the answer to the form."""
    if submitted:
        case.submit(next_scan_at=case.service.clock.now())
    case.tomorrow()
    case.refuse()
    assert (case.status, case.row.due_at) == ("discovered", None)
    assert case.row.refused_at == case.service.clock.now()
    assert case.alerts[-1]["text"].startswith(
        "Opt-out refused: People & Places did not accept the removal of "
    )


def test_an_ignored_opt_out_is_an_event_with_steps(case):
    case.submit()
    case.refuse(event=Event.OPT_OUT_IGNORED)
    alert = case.alerts[-1]
    assert alert["text"] == (
        "Opt-out ignored: People & Places has not acted on the removal of Jane Q. Doe. It can be done by hand:\n"
        "1. Open the form.\n2. Press Remove."
    )
    assert alert["opt_out_procedure"] == ["Open the form.", "Press Remove."]
    assert alert["url"] == "https://places.example/opt-out"
    assert (case.status, case.row.refused_at) == ("discovered", case.service.clock.now())


def test_a_person_who_has_changed_is_worth_another_try(case):
    """Missing user fields -> stays discovered; an update that supplies them starts the removal."""
    case.refuse()
    case.tomorrow()
    case.reconsider()
    assert (case.row.due_at, case.row.refused_at, case.row.opt_out_attempts) == (
        case.service.clock.now(),
        None,
        0,
    )
    assert case.status == "discovered"
    assert len(case.alerts) == 2


def test_an_update_over_http_is_such_a_change(case):
    case.refuse()
    case.tomorrow()
    case.service.update(case.user, addresses=[{"address1": "1 Elm Street", "city": "Oakmere", "state": "CA"}])
    assert (case.row.due_at, case.row.refused_at) == (case.service.clock.now(), None)


@pytest.mark.parametrize("state", ["pending", "removed", "due"])
def test_what_is_under_way_or_done_is_not_tried_again(case, state):
    at = case.service.clock.now() + timedelta(days=3)
    if state == "due":
        case.scan(absent=True, next_scan_at=at)
    else:
        case.submit(next_scan_at=at)
    if state == "removed":
        case.scan(absent=True, confirmations=1)
    before = case.row
    case.tomorrow()
    case.reconsider()
    assert case.row == before


def test_another_persons_change_is_none_of_this_one(case):
    other = Case(case.service)
    other.reconsider()
    assert (case.row.due_at, other.row.due_at) == (None, case.service.clock.now())


STEPS = {
    "submit": lambda case: case.submit(),
    "absent": lambda case: case.scan(absent=True),
    "find": lambda case: case.scan(absent=False),
    "refuse": lambda case: case.refuse(),
    "ignore": lambda case: case.refuse(event=Event.OPT_OUT_IGNORED),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_removed_record_has_no_further_transitions(case, step):
    case.submit()
    case.scan(absent=True, confirmations=1)
    before, alerts = case.row, case.alerts
    with pytest.raises(
        WrongStatus, match=r"^a record that is removed cannot be [^\n]+: it must be discovered[^\n]*$"
    ):
        STEPS[step](case)
    assert (case.row, case.alerts) == (before, alerts)


@pytest.mark.parametrize("first", [None, "submit"])
@pytest.mark.parametrize("steps", list(itertools.product(STEPS, repeat=2)), ids="-".join)
def test_whatever_happens_the_transitions_are_those_that_are_shown(case, first, steps):
    """Not in the specification, "transitions": a model of the table beside the service."""
    status, gone = "discovered", 0
    for step in ([first] if first else []) + list(steps):
        may = status != "removed" and (step != "submit" or status == "discovered")
        if not may:
            with pytest.raises(WrongStatus):
                STEPS[step](case)
            continue
        STEPS[step](case)
        gone = gone + 1 if step == "absent" else 0
        after = {"submit": "pending removal", "refuse": "discovered", "ignore": "discovered"}
        status = "removed" if gone == 2 else after.get(step, status)
        assert (case.status, case.row.absences) == (status, gone)


@pytest.mark.parametrize("removed", [False, True])
def test_a_record_can_be_submitted_while_discovered_only(case, removed):
    case.submit()
    if removed:
        case.scan(absent=True)
        case.scan(absent=True)
    with pytest.raises(WrongStatus, match="must be discovered"):
        case.submit()
    assert case.status == ("removed" if removed else "pending removal")


def test_a_record_is_known_by_its_id_and_its_site(case):
    for record_id, site in ((10**9, SITE), (case.record_id, Site(name="Elsewhere"))):
        with pytest.raises(NoSuchRecord):
            case.service.work(lambda work, id_tried=record_id, on=site: submit_removal(work, id_tried, on))
