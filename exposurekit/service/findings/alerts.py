"""Alerts: their texts, and the webhook events that go with them, in the transaction of the change."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import insert

from exposurekit.contract.webhooks import DISCOVERED_LINKS, DISCOVERED_RECORDS, NEW_ALERTS, REMOVED_RECORDS
from exposurekit.service.models import Page, Site
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Session
from exposurekit.service.webhooks import outbox
from exposurekit.text import sanitize


class Event(StrEnum):
    """What an alert reports."""

    NEW_RECORD = "new record"
    LISTED_AGAIN = "listed again"
    OPT_OUT_SUBMITTED = "opt-out submitted"
    REMOVAL_VERIFIED = "removal verified"
    OPT_OUT_REFUSED = "opt-out refused"
    OPT_OUT_IGNORED = "opt-out ignored"
    OPT_OUT_UNANSWERED = "opt-out unanswered"
    OPT_OUT_UNCONFIRMED = "opt-out unconfirmed"
    EXPOSURE_FOUND = "exposure found"


_SENTENCES = {
    Event.NEW_RECORD: "{site_name} lists {subject}.",
    Event.LISTED_AGAIN: "{site_name} lists {subject} again, after a removal.",
    Event.OPT_OUT_SUBMITTED: "{site_name} was asked to remove its listing of {subject}.",
    Event.REMOVAL_VERIFIED: "{site_name} no longer lists {subject}: two or more scans in a row did not find it.",
    Event.OPT_OUT_REFUSED: "{site_name} did not accept the removal of {subject}. It can be done by hand:",
    Event.OPT_OUT_IGNORED: "{site_name} has not acted on the removal of {subject}. It can be done by hand:",
    Event.OPT_OUT_UNANSWERED: "{site_name} could not be asked to remove {subject}. It can be done by hand:",
    Event.OPT_OUT_UNCONFIRMED: "{site_name} sent no message with which the removal of {subject} could be confirmed. It can be "
    "done by hand:",
    Event.EXPOSURE_FOUND: "the page \u201c{site_name}\u201d shows personal data: {subject}.",
}
# Unlike a site, a page has no opt-out of its own.
_PAGE_GUIDE = (
    "A web page outside the people-search sites: whoever runs it can take the data down. Write which page it is, "
    "whose data it shows and what to remove. If nobody answers within two weeks, write once more. If there is still no answer, stop."
)
_PAGE_STEP = "Write to whoever runs the page (look for Contact, About or Imprint there), and ask them to take the data down."
# No steps where nobody has to act: the removal is under way, done, or about to be sent by the service.
_NOTHING_TO_DO = {Event.OPT_OUT_SUBMITTED, Event.REMOVAL_VERIFIED}
_DISCOVERIES = {Event.NEW_RECORD, Event.LISTED_AGAIN}
FAILURES = {Event.OPT_OUT_REFUSED, Event.OPT_OUT_IGNORED, Event.OPT_OUT_UNANSWERED, Event.OPT_OUT_UNCONFIRMED}
# spec does not say: whether a relisted record is reported as discovered; here only its alert reports it
_GROUP_OF = {Event.NEW_RECORD: DISCOVERED_RECORDS, Event.REMOVAL_VERIFIED: REMOVED_RECORDS}
_INSERT = insert(tables.alerts)


async def add_record_alert(
    session: Session, event: Event, user_id: int, record: Mapping[str, Any], site: Site
) -> None:
    """Add an alert about a record, given as the specification describes one, in its current state."""
    name, href = record["name"], record["href"]
    needs_no_steps = event in _NOTHING_TO_DO or (site.removed_by_us and event in _DISCOVERIES)
    steps = () if needs_no_steps else site.opt_out_procedure
    is_manual = event in FAILURES
    url = site.opt_out_url or href if is_manual else href or site.opt_out_url
    text_steps = steps if is_manual else ()
    content = {
        "text": _text(event, site.name, name, text_steps),
        "html": _html(event, site.name, name, text_steps, url=url),
        "url": url or "",
        "guide": site.guide or "",
        "opt_out_procedure": list(steps),
    }
    source = {"source_type": "record", "source": {"record": dict(record)}}
    await _add(session, event, user_id, content, source, record_id=record["id"])
    if event in _GROUP_OF:
        await outbox.enqueue_event(session, user_id, _GROUP_OF[event], {"record": dict(record)})


async def add_link_alert(session: Session, user_id: int, link_id: int, page: Page) -> None:
    """Add an alert about a web page that shows a user's data."""
    event = Event.EXPOSURE_FOUND
    kinds = ", ".join(page.contains) or "unspecified data"
    content = {
        "text": _text(event, page.title, kinds),
        "html": _html(event, page.title, kinds, url=page.url),
        "url": page.url,
        "guide": _PAGE_GUIDE,
        "opt_out_procedure": [_PAGE_STEP],
    }
    source = {"source_type": "link", "source": {"link": page.resource()}}
    await _add(session, event, user_id, content, source, link_id=link_id)
    # Specification, "Link": only url and title appear here.
    await outbox.enqueue_event(session, user_id, DISCOVERED_LINKS, {"url": page.url, "title": page.title})


def _text(event: Event, site_name: str, subject: str, steps: Sequence[str] = ()) -> str:
    sentence = _SENTENCES[event].format(site_name=sanitize.plain(site_name), subject=sanitize.plain(subject))
    numbered = [f"{number}. {sanitize.plain(step)}" for number, step in enumerate(steps, 1)]
    return "\n".join([f"{event.capitalize()}: {sentence}", *numbered])


def _html(event: Event, site_name: str, subject: str, steps: Sequence[str] = (), *, url: str | None) -> str:
    name = sanitize.escaped(site_name)
    if url and url.startswith(("http://", "https://")):
        name = f'<a href="{sanitize.escaped(url)}">{name}</a>'
    sentence = _SENTENCES[event].format(site_name=name, subject=sanitize.escaped(subject))
    items = "".join(f"<li>{sanitize.escaped(step)}</li>" for step in steps)
    return f"<p><strong>{event.capitalize()}</strong>: {sentence}</p>" + (
        f"<ol>{items}</ol>" if items else ""
    )


async def _add(
    session: Session,
    event: Event,
    user_id: int,
    content: dict[str, Any],
    source: dict[str, Any],
    *,
    record_id: int | None = None,
    link_id: int | None = None,
) -> None:
    row = {
        "user_id": user_id,
        "kind": event.value,
        "record_id": record_id,
        "link_id": link_id,
        "ciphertext": session.encrypt("alerts", user_id, content),
        "created_at": session.clock.now(),
    }
    await session.add(_INSERT, row)
    # Specification, "Alert": absent in alerts inside webhooks.
    payload = {name: value for name, value in content.items() if name != "url"}
    await outbox.enqueue_event(session, user_id, NEW_ALERTS, payload | source)
