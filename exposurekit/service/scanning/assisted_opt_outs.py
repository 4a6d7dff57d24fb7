"""Assisted opt-outs: the forms for a person to send, with what to type, and what the person reports of them.

The service sends nothing here, and passes no puzzle. A form is offered while its listing is ``discovered``. Once a person
reports it as sent, the removal goes on as after any other opt-out: the site's message, then the scans. If it fails, the
service asks by email where it can; else, and if that is not carried out either, the form is offered again, with the reason.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, select

from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument
from exposurekit.service.accounts import consent, users
from exposurekit.service.findings import removals
from exposurekit.service.findings.alerts import FAILURES, Event
from exposurekit.service.mail import follow_ups, opt_out_requests
from exposurekit.service.mail.follow_ups import SiteEmail
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.scanning import saved_pages, schedule
from exposurekit.service.scanning.form_opt_outs import form_values
from exposurekit.service.scanning.removal_job import submit_sisters
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.tables import alerts, records

REFUSED = "the site refused it"
_REASONS: Mapping[str, str] = {
    Event.OPT_OUT_REFUSED: REFUSED,
    Event.OPT_OUT_IGNORED: "the site did not remove the listing in time",
    Event.OPT_OUT_UNANSWERED: "it could not be sent",
    Event.OPT_OUT_UNCONFIRMED: "the site sent no message in time",
}
_FOLLOWED_UP = "; the service has asked by email, too"
# After this many listings that were not removed in time, a request is unlikely to succeed, unless the site has removed at
# least one in three of those with an outcome: a few disappear by themselves.
UNRESPONSIVE, REMOVES_ONE_IN = 3, 3
# How long a listing waits, so that one request removes it with others: for the saved searches of the owner's other sites,
# unless they are of about the same time; and for the outcome of a request that its owner got before it was discovered.
WAITS_FOR_SEARCHES, SAME_TIME = timedelta(days=7), timedelta(days=7)
WAITS_FOR_OUTCOME = timedelta(days=30)
_NEVER = datetime.min.replace(tzinfo=UTC)
_LISTED = select(records).where(records.c.status != REMOVED).order_by(records.c.id)
_RECORD = select(records).where(records.c.id == bindparam("record_id"))
_OUTCOMES = (
    select(alerts.c.record_id, alerts.c.kind, records.c.site, alerts.c.created_at)
    .join(records)
    .where(
        alerts.c.kind.in_(
            [*FAILURES, Event.LISTED_AGAIN, Event.OPT_OUT_SUBMITTED, Event.REMOVAL_VERIFIED],
        )
    )
    .order_by(alerts.c.id)
)


class NotAssisted(InvalidArgument):
    """A record has no opt-out that a person may send now; nothing was changed."""


@dataclass(frozen=True, slots=True)
class AssistedOptOut:
    """A form for a person to send; ``id`` is the record of the listing that it names.

    One request also removes the person's listings on ``also_removes``. ``minutes`` is what it takes, as the definition
    says. ``missing`` are the user fields that the site requires and that are not on file: it cannot be sent without them.
    ``failures`` counts the requests that failed since the listing appeared, and ``reason`` says why the last one did.
    ``unresponsive``: the site and its sisters have removed few listings on request so far, and not this one, or not
    `UNRESPONSIVE` others, though these should have been removed.
    """

    id: int
    user_id: int
    site: str
    listings: int
    also_removes: tuple[str, ...]
    minutes: float
    url: str
    listing: str = field(repr=False)  # its address, or its number
    values: Mapping[str, str] = field(repr=False)  # what to type, by the label of the form's field
    steps: tuple[str, ...]
    missing: tuple[str, ...]
    failures: int
    reason: str | None
    unresponsive: bool


@dataclass(frozen=True, slots=True)
class Queue:
    """The opt-outs for a person to send, and how many listings are in none of them yet.

    ``unprepared``: no worker has issued the address yet, or the settings of the mailbox are not given. ``waiting``: one
    request may remove them together with others, once the owner's other sites are searched, or an earlier request has had
    its effect. ``covered``: a request that is on its way, or whose message the service waits for, removes them, or the
    service asks the site by email.
    """

    opt_outs: tuple[AssistedOptOut, ...]
    unprepared: int
    waiting: int
    covered: int


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that may be sent for a listing, and the listings that it removes beyond those of better requests."""

    record: Row[Any]
    removes: tuple[Row[Any], ...]
    minutes: float
    failures: int
    reason: str | None
    unresponsive: bool

    @property
    def listed_since(self) -> datetime:
        """When the first of its listings was discovered."""
        since: datetime = min(row.changed_at for row in self.removes)
        return since

    @property
    def order(self) -> tuple[bool, int, float, int]:
        """What is unlikely to succeed, or failed before, comes later; then most listings per minute first."""
        return self.unresponsive, self.failures, -len(self.removes) / self.minutes, self.record.id


async def queue(
    session: Session,
    definitions: Mapping[str, Definition],
    *,
    mail: MailSettings | None = None,
    user_id: int | None = None,
    limit: int,
    is_patient: bool = True,
) -> Queue:
    """Return the forms to send: those that clear most listings per minute first, failed and unresponsive ones later.

    A listing is in one of them at most, and in none while a request that removes it is on its way. A new one waits some
    days if the same request may remove more by then, unless `is_patient` is false. Forms for which something is not on
    file come last. The values are personal data.
    """
    tokens = await opt_out_requests.waiting_tokens(session)
    history = await _history(session)
    has_mailbox, can_send = mail is not None, mail is not None and mail.smtp is not None
    now = session.clock.now()
    requests: list[_Request] = []
    unprepared = waiting = covered = 0
    for rows in await _listed(session, definitions, user_id):
        plan = _plan(rows, definitions, tokens, history, has_mailbox=has_mailbox, can_send=can_send)
        waits = [is_patient and _waits(one, rows, definitions, history, now) for one in plan.requests]
        requests += [one for one, is_early in zip(plan.requests, waits, strict=True) if not is_early]
        unprepared += plan.unprepared
        waiting += sum(len(one.removes) for one in itertools.compress(plan.requests, waits))
        covered += plan.covered
    opt_outs: list[AssistedOptOut] = []
    for request in sorted(requests, key=lambda one: one.order):
        site, token = definitions[request.record.site], tokens.get(request.record.id)
        email = mail.request_address(token) if mail and token else ""
        opt_out = await _opt_out(session, request, site, email)
        if opt_out is not None:
            opt_outs.append(opt_out)
        if sum(not one.missing for one in opt_outs) >= limit:
            break
    opt_outs.sort(key=lambda one: bool(one.missing))
    return Queue(tuple(opt_outs[:limit]), unprepared, waiting, covered)


async def awaited_searches(
    session: Session, definitions: Mapping[str, Definition], *, user_id: int | None = None
) -> Mapping[tuple[int, str], int]:
    """Count the listings that wait until a search of another site of their owner is saved, by user and that site."""
    tokens = await opt_out_requests.waiting_tokens(session)
    history = await _history(session)
    now = session.clock.now()
    counts: Counter[tuple[int, str]] = Counter()
    for rows in await _listed(session, definitions, user_id):
        plan = _plan(rows, definitions, tokens, history, has_mailbox=True, can_send=True)
        for request in plan.requests:
            for name in _awaited_sites(request, definitions, history, now):
                counts[request.record.user_id, name] += len(request.removes)
    return counts


async def lock_people(session: Session, record_ids: Sequence[int]) -> None:
    """Lock the users of records that are reported in one transaction: in one order, so that reports cannot deadlock."""
    owners = select(records.c.user_id).where(records.c.id.in_(record_ids)).distinct()
    for row in await session.all(owners.order_by(records.c.user_id)):
        await consent.lock_user(session, row.user_id, changes=False)


async def report_sent(session: Session, record_id: int, definitions: Mapping[str, Definition]) -> int:
    """Record that a person sent the form for a record. Return how many listings are ``pending removal`` because of it.

    None are, if its message came before the report. Those on other sites follow when the site's message was answered.

    Raises:
        NotAssisted: Nobody can send it: the record is removed, or is not of such a site, or is not prepared.
    """
    site, row = await _locked(session, record_id, definitions)
    if row.status == PENDING_REMOVAL:
        return 0
    description, now = site.site(), session.clock.now()
    if site.removal.confirm is not None:
        request = await opt_out_requests.open_request(session, record_id, opt_out_requests.CONFIRMATION)
        if request is None:
            raise NotAssisted(f"record {record_id}: no worker with a mailbox has prepared its opt-out yet")
        answer_by = now + schedule.confirmed_within(site)
        await opt_out_requests.extend(session, request.id, answer_by)
        await opt_out_requests.end(session, record_id, unsent=True)
        await removals.submit_removal(session, record_id, description, next_scan_at=answer_by)
        return 1
    await opt_out_requests.end(session, record_id, unsent=True)
    scan_at = schedule.first_verification_at(now, site)
    await removals.submit_removal(session, record_id, description, next_scan_at=scan_at)
    return 1 + await submit_sisters(session, definitions, site, row.user_id)


async def due(
    session: Session, record_ids: Sequence[int], definitions: Mapping[str, Definition]
) -> list[tuple[str, datetime, bool]]:
    """Return when the removals go on that were just reported for records, and whether with a message: by site, in order.

    The sister sites that a form without a message removes from are included.
    """
    earliest: dict[str, tuple[datetime, bool]] = {}
    for lead in await session.all(select(records).where(records.c.id.in_(record_ids))):
        removal = definitions[lead.site].removal
        sites = {lead.site} if removal.confirm else {lead.site, *removal.also_removes}
        of_owner = select(records.c.site, records.c.due_at).where(
            records.c.user_id == lead.user_id,
            records.c.site.in_(sites),
            records.c.status == PENDING_REMOVAL,
            records.c.changed_at >= lead.changed_at,
            records.c.due_at.is_not(None),
        )
        for site, at in map(tuple, await session.all(of_owner)):
            step = at, removal.confirm is not None
            earliest[site] = min(step, earliest.get(site, step))
    return [(site, *earliest[site]) for site in sorted(earliest)]


async def report_failed(
    session: Session, record_id: int, definitions: Mapping[str, Definition], *, refused: bool
) -> None:
    """Record that a form could not be sent, or that the site refused it; it is offered again, with the reason.

    Raises:
        NotAssisted: The record is removed, or is not of a site whose opt-outs a person sends.
    """
    site, _ = await _locked(session, record_id, definitions)
    await opt_out_requests.end(session, record_id)
    event = Event.OPT_OUT_REFUSED if refused else Event.OPT_OUT_UNANSWERED
    await removals.refuse_removal(session, record_id, site.site(), event=event)


async def _locked(
    session: Session, record_id: int, definitions: Mapping[str, Definition]
) -> tuple[Definition, Row[Any]]:
    """Lock the user of a record; return the record's site, and its row."""
    row = await session.first(_RECORD, {"record_id": record_id})
    if row is None:
        raise NotAssisted(
            f"no record has the id {record_id}: exposurekit users opt-outs lists the ids to report"
        )
    site = definitions.get(row.site)
    if site is None or site.removal.method != "assisted":
        raise NotAssisted(
            f"record {record_id}: its site has no definition with removal.method assisted: name the directory with --sites"
        )
    await consent.lock_user(session, row.user_id, changes=False)  # before a change, lock again
    [row] = await session.all(_RECORD, {"record_id": record_id})
    if not await consent.may_scan(session, row.user_id):
        raise NotAssisted(
            f"record {record_id}: the person's consent is not recorded, or the service is not active for them"
        )
    if row.status not in {DISCOVERED, PENDING_REMOVAL}:
        raise NotAssisted(f"record {record_id} is {row.status}")
    return site, row


@dataclass(frozen=True, slots=True)
class _History:
    """What came of earlier requests of everybody, and when their searches were saved."""

    failures: Mapping[int, Sequence[str]]  # their reasons, by record, since it was last listed
    ignored: Mapping[str, AbstractSet[int]]  # records that were not removed in time, by site
    removed: Mapping[str, AbstractSet[int]]  # records that were, even if they are listed again
    listed_again_at: Mapping[int, datetime]  # the last time, by record
    emails: Mapping[int, Sequence[SiteEmail]]  # those to sites, by user
    saved_at: Mapping[tuple[int, str], datetime]  # the last saved search, by user and site

    def is_unresponsive(self, site: Definition, record_ids: Sequence[int]) -> bool:
        """Return whether a site, and those that the same opt-out removes from, have removed few listings on request.

        They have ignored a request for one of the records, or requests for several others.
        """
        owned = {site.name, *site.removal.also_removes}
        removed = set[int]().union(*(self.removed.get(name, ()) for name in owned))
        ignored = set[int]().union(*(self.ignored.get(name, ()) for name in owned)) - removed
        is_repeated = not ignored.isdisjoint(record_ids)
        is_rare = len(removed) * REMOVES_ONE_IN < len(removed) + len(ignored)
        return (is_repeated or len(ignored) >= UNRESPONSIVE) and is_rare


async def _history(session: Session) -> _History:
    reasons: dict[int, list[str]] = defaultdict(list)
    ignored: dict[str, set[int]] = defaultdict(set)
    removed: dict[str, set[int]] = defaultdict(set)
    requested, listed_again_at = set[int](), dict[int, datetime]()
    for record_id, kind, site, at in map(tuple, await session.all(_OUTCOMES)):
        if kind == Event.LISTED_AGAIN:
            reasons[record_id].clear()
            listed_again_at[record_id] = at
        elif kind == Event.OPT_OUT_SUBMITTED:
            requested.add(record_id)
        elif kind == Event.REMOVAL_VERIFIED:
            # A listing that went without a request says nothing about the site's handling of requests.
            removed[site] |= {record_id} & requested
        else:
            requested.discard(record_id)
            reasons[record_id].append(_REASONS[kind])
            if kind == Event.OPT_OUT_IGNORED:
                ignored[site].add(record_id)
    emails: dict[int, list[SiteEmail]] = defaultdict(list)
    for one in await follow_ups.emails(session):
        emails[one.user_id].append(one)
    saved_at = await saved_pages.last_saved(session)
    return _History(reasons, ignored, removed, listed_again_at, emails, saved_at)


async def _listed(
    session: Session, definitions: Mapping[str, Definition], user_id: int | None
) -> Sequence[Sequence[Row[Any]]]:
    """Return the listings of each person, or of one, on defined sites."""
    people = {one for one in await consent.scannable(session) if user_id in (None, one)}
    listed: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in await session.all(_LISTED):
        if row.user_id in people and row.site in definitions:
            listed[row.user_id].append(row)
    return [*listed.values()]


@dataclass(frozen=True, slots=True)
class _Plan:
    """The requests that remove a person's listings, and how many listings are in none of them, as in `Queue`."""

    requests: Sequence[_Request]
    unprepared: int
    covered: int


def _plan(
    rows: Sequence[Row[Any]],
    definitions: Mapping[str, Definition],
    tokens: Mapping[int, str],
    history: _History,
    *,
    has_mailbox: bool,
    can_send: bool,
) -> _Plan:
    """Plan the requests that remove a person's listings.

    The best request is chosen first; what it removes counts for no other. If the service can send, or the settings of the
    mailbox are not given, a listing that it asks to remove by email is in none.
    """
    emails = history.emails.get(rows[0].user_id, ())
    open_emails = [one for one in emails if one.is_open and (can_send or not has_mailbox)]
    under_way = [row for row in rows if _is_under_way(row, definitions[row.site], tokens)]
    # A listing that was absent once is being removed by somebody else.
    open_rows = [row for row in rows if row.status == DISCOVERED and not row.absences]
    covered = {
        row.id
        for row in open_rows
        if any(definitions[one.site].clears(row.site) for one in under_way)
        or any(one.covers(row.id, row.site, definitions) for one in open_emails)
    }
    left = {row.id: row for row in open_rows if row.id not in covered}
    assisted = [row for row in left.values() if definitions[row.site].removal.method == "assisted"]
    leads = [
        row
        for row in assisted
        if (not definitions[row.site].needs_mailbox or (has_mailbox and row.id in tokens))
        # A worker is about to ask by email, or to leave it to a person.
        and not (can_send and definitions[row.site].removal.email and row.due_at)
    ]

    def request(lead: Row[Any]) -> _Request:
        site = definitions[lead.site]
        removes = tuple(row for row in left.values() if row.id == lead.id or site.clears(row.site))
        reasons = max((history.failures.get(row.id, ()) for row in removes), key=len, default=())
        was_followed_up = any(
            one.was_sent
            and one.covers(lead.id, lead.site, definitions)
            and one.at >= history.listed_again_at.get(lead.id, lead.created_at)
            for one in emails
        )
        return _Request(
            record=lead,
            removes=removes,
            minutes=site.removal.minutes,
            failures=len(reasons),
            reason=f"{reasons[-1]}{_FOLLOWED_UP if was_followed_up else ''}" if reasons else None,
            unresponsive=history.is_unresponsive(site, [row.id for row in removes]),
        )

    requests: list[_Request] = []
    while possible := [request(lead) for lead in leads if lead.id in left]:
        best = min(possible, key=lambda one: one.order)
        requests.append(best)
        for row in best.removes:
            del left[row.id]
    n_covered = sum(
        row.id in covered for row in open_rows if definitions[row.site].removal.method == "assisted"
    )
    return _Plan(requests, sum(row.id in left for row in assisted), n_covered)


def _waits(
    request: _Request,
    rows: Sequence[Row[Any]],
    definitions: Mapping[str, Definition],
    history: _History,
    now: datetime,
) -> bool:
    """Return whether a request may remove more if it is sent later; one that failed before does not wait."""
    since = request.listed_since
    earlier = any(
        row.status == PENDING_REMOVAL
        and row.changed_at < since
        and definitions[row.site].clears(request.record.site)
        for row in rows
    )
    waits_for_outcome = earlier and not request.failures and now < since + WAITS_FOR_OUTCOME
    return waits_for_outcome or bool(_awaited_sites(request, definitions, history, now))


def _awaited_sites(
    request: _Request, definitions: Mapping[str, Definition], history: _History, now: datetime
) -> Sequence[str]:
    """Return the sites whose searches a request waits for: what they show may be removed by it, too."""
    since = request.listed_since
    if request.failures or now >= since + WAITS_FOR_SEARCHES:
        return []
    others = {*definitions[request.record.site].removal.also_removes}
    others.difference_update(row.site for row in request.removes)
    return [
        name
        for name in sorted(others & definitions.keys())
        if definitions[name].search.method == "person"
        and history.saved_at.get((request.record.user_id, name), _NEVER) < since - SAME_TIME
    ]


def _is_under_way(row: Row[Any], site: Definition, tokens: Mapping[int, str]) -> bool:
    """Return whether a request for a listing is on its way, whose sister sites' listings are still ``discovered``."""
    if row.status == PENDING_REMOVAL:
        return row.id in tokens
    return row.due_at is not None and site.removal.method in {"form", "email"}


async def _opt_out(
    session: Session, request: _Request, site: Definition, email: str
) -> AssistedOptOut | None:
    row, subject = request.record, await users.get_subject(session, request.record.user_id)
    [record] = session.decrypt_readable([("records", row.user_id, row.ciphertext)])
    if subject is None or record is DAMAGED:
        return None
    values = form_values(site, subject, record, email)
    return AssistedOptOut(
        id=row.id,
        user_id=row.user_id,
        site=site.name,
        listings=len(request.removes),
        also_removes=tuple(dict.fromkeys(one.site for one in request.removes if one.site != site.name)),
        minutes=request.minutes,
        url=site.opt_out_url,
        listing=record["href"] or record["reference_id"],
        values={label: value for label, value in values.items() if value},
        steps=site.opt_out_procedure,
        missing=site.missing(subject, record),
        failures=request.failures,
        reason=request.reason,
        unresponsive=request.unresponsive,
    )
