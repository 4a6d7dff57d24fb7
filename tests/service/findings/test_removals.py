"""Removals: discovered -> pending removal -> removed, verified twice; and back to discovered."""

from datetime import timedelta
from itertools import product

import pytest
from sqlalchemy import select, update
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
    """One record of one user, and its transitions."""

    def __init__(self, service):
        self.service = service
        self.user = service.create()
        self.record_id = self.discover()

    def discover(self):
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
        self.service.work(lambda work: reconsider(work, self.user["id"], {"address1"}))

    def tomorrow(self):
        self.service.clock.advance(timedelta(days=1))

    @property
    def row(self):
        query = select(tables.records).where(tables.records.c.id == self.record_id)
        return self.service.work(lambda work: work.first(query))

    @property
    def status(self):
        return self.service.get(self.user, f"/records/{self.record_id}")["record"]["status"]

    @property
    def alerts(self):
        return self.service.get(self.user, "/alerts")["alerts"]


OPT_OUT_STEPS = ["Open the form.", "Press Remove."]


@pytest.fixture
def case(service):
    return Case(service)


def test_an_opt_out_makes_a_removal_pending_with_an_alert(case):
    """Specification, "Alert": an opt-out submitted."""
    case.submit()
    assert case.status == "pending removal"
    text = "Opt-out submitted: People & Places was asked to remove its listing of Jane Q. Doe."
    assert case.alerts[-1]["text"] == text


@pytest.mark.parametrize("submitted", [True, False])
def test_two_absences_in_a_row_verify_a_removal(case, submitted):
    """Not in the specification, "transitions": verified twice, whoever submitted the opt-out."""
    if submitted:
        case.submit()
    before, alerts = case.status, len(case.alerts)
    assert [case.scan(absent=gone) for gone in (True, False, True)] == [before] * 3
    assert (case.status, len(case.alerts)) == (before, alerts)
    assert case.scan(absent=True) == "removed"
    assert case.status == "removed"
    assert case.alerts[-1]["text"].startswith("Removal verified: ")
    assert len(case.alerts) == alerts + 1


def test_a_scan_that_finds_the_listing_resets_the_absences(case):
    case.submit()
    case.scan(absent=True)
    assert case.discover() == case.record_id
    assert case.scan(absent=True) == "pending removal"
    assert case.status == "pending removal"


@pytest.mark.parametrize(
    ("event", "title"),
    [
        (
            Event.OPT_OUT_REFUSED,
            "Opt-out refused: People & Places did not accept the removal of Jane Q. Doe.",
        ),
        (
            Event.OPT_OUT_IGNORED,
            "Opt-out ignored: People & Places has not acted on the removal of Jane Q. Doe.",
        ),
    ],
)
def test_a_refusal_leads_to_discovered_with_manual_steps(case, event, title):
    """Not in the specification, "transitions": a refused opt-out."""
    case.submit()
    case.refuse(event=event)
    assert (case.status, case.row.refused_at) == ("discovered", case.service.clock.now())
    alert = case.alerts[-1]
    assert alert["opt_out_procedure"] == OPT_OUT_STEPS
    assert alert["url"] == "https://places.example/opt-out"
    assert alert["text"].startswith(title)
    assert alert["text"].endswith("by hand:\n1. Open the form.\n2. Press Remove.")
    assert alert["html"].endswith("<ol><li>Open the form.</li><li>Press Remove.</li></ol>")


def test_only_alerts_that_need_action_have_steps(case):
    """Specification, "Alert": opt_out_procedure holds manual removal steps."""
    case.submit()
    case.scan(absent=True)
    case.scan(absent=True)
    discovered, submitted, verified = case.alerts
    assert discovered["opt_out_procedure"]
    assert submitted["opt_out_procedure"] == verified["opt_out_procedure"] == []


@pytest.mark.parametrize("submitted", [True, False])
def test_a_site_may_require_more_absences(case, submitted):
    if submitted:
        case.submit()
    before = case.status
    assert [case.scan(absent=True, confirmations=3) for _ in range(2)] == [before] * 2
    assert case.scan(absent=False, confirmations=3) == before
    assert [case.scan(absent=True, confirmations=3) for _ in range(3)] == [before, before, "removed"]


def test_a_site_may_require_only_one_absence(case):
    case.submit()
    assert case.scan(absent=True, confirmations=1) == "removed"


def test_the_next_scan_is_due_at_its_time(case):
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


def test_changed_at_is_the_time_of_the_last_transition(case):
    start = case.row.changed_at
    case.tomorrow()
    case.scan(absent=False)
    assert case.row.changed_at == start
    for step in (case.submit, case.refuse, case.submit, lambda: case.scan(absent=True, confirmations=1)):
        case.tomorrow()
        step()
        assert case.row.changed_at == case.service.clock.now()
    case.tomorrow()
    case.discover()
    assert (case.status, case.row.changed_at) == ("discovered", case.service.clock.now())


@pytest.mark.parametrize("submitted", [True, False])
def test_a_refusal_sets_refused_at_and_nothing_is_due(case, submitted):
    """Not in the specification, "transitions": a refused opt-out -> back to discovered; also as the response to the form."""
    if submitted:
        case.submit(next_scan_at=case.service.clock.now())
    case.tomorrow()
    case.refuse()
    assert (case.status, case.row.due_at) == ("discovered", None)
    assert case.row.refused_at == case.service.clock.now()
    assert case.alerts[-1]["text"].startswith("Opt-out refused: ")


def test_a_refused_removal_is_due_after_a_user_update(case):
    """Missing user fields -> stays discovered; an update that supplies them starts the removal."""
    case.refuse()
    case.tomorrow()
    case.reconsider()
    row = case.row
    assert (row.due_at, row.refused_at, row.opt_out_attempts) == (case.service.clock.now(), None, 0)
    assert case.status == "discovered"
    assert len(case.alerts) == 2


def test_an_update_over_http_makes_a_refused_removal_due(case):
    case.refuse()
    case.tomorrow()
    case.service.update(case.user, addresses=[{"address1": "1 Elm Street", "city": "Oakmere", "state": "CA"}])
    assert (case.row.due_at, case.row.refused_at) == (case.service.clock.now(), None)


@pytest.mark.parametrize(
    "changed",
    [
        {"middle_name": "Quill"},
        {"phone_numbers": [{"number": "555-555-0199"}]},
        {"emails": [{"address": "other@example.com"}]},
        {"first_name": "Jane"},
    ],
)
def test_no_refused_removal_is_repeated_for_fields_that_it_lacks(case, changed):
    """A site that said no would get the same opt-out after each change."""
    case.refuse()
    before = case.row
    case.tomorrow()
    case.service.update(case.user, **changed)
    assert case.row == before


def test_a_record_without_its_fields_is_due_after_any_change(case):
    """Earlier versions did not store the fields of an opt-out."""
    case.refuse()
    row = case.row

    def forget(work):
        stored = work.decrypt("records", case.user["id"], row.ciphertext)
        del stored["opt_out_fields"]
        ciphertext = work.encrypt("records", case.user["id"], stored)
        return work.run(update(tables.records).filter_by(id=row.id).values(ciphertext=ciphertext))

    case.service.work(forget)
    case.service.update(case.user, middle_name="Quill")
    assert (case.row.due_at, case.row.refused_at) == (case.service.clock.now(), None)


@pytest.mark.parametrize("state", ["pending", "removed", "due"])
def test_an_update_changes_no_pending_or_finished_removal(case, state):
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


def test_an_update_of_another_user_changes_nothing(case):
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


@pytest.mark.parametrize("steps", [*product(STEPS, STEPS), *product(["submit"], STEPS, STEPS)], ids="-".join)
def test_transitions_follow_a_model_of_the_table(case, steps):
    """Not in the specification, "transitions"."""
    status, gone = "discovered", 0
    for step in steps:
        may = status != "removed" and (step != "submit" or status == "discovered")
        if not may:
            with pytest.raises(WrongStatus, match="must be discovered"):
                STEPS[step](case)
            continue
        STEPS[step](case)
        gone = gone + 1 if step == "absent" else 0
        after = {"submit": "pending removal", "refuse": "discovered", "ignore": "discovered"}
        status = "removed" if gone == 2 else after.get(step, status)
        assert (case.status, case.row.absences) == (status, gone)


def test_an_unknown_record_id_or_site_raises_error(case):
    for record_id, site in ((10**9, SITE), (case.record_id, Site(name="Elsewhere"))):
        with pytest.raises(NoSuchRecord):
            case.service.work(lambda work, id_tried=record_id, on=site: submit_removal(work, id_tried, on))
