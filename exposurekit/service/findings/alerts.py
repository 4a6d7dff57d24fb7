"""What a person is told about, and in which words. Only writes, always in the transaction of the event itself.

Whatever happens to a person passes through `_add`: the alert, and what their integrator is told by webhook.
"""

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
    """What happened."""

    NEW_RECORD = "new record"
    LISTED_AGAIN = "listed again"
    OPT_OUT_SUBMITTED = "opt-out submitted"
    REMOVAL_VERIFIED = "removal verified"
    OPT_OUT_REFUSED = "opt-out refused"
    OPT_OUT_IGNORED = "opt-out ignored"
    OPT_OUT_UNANSWERED = "opt-out unanswered"
    EXPOSURE_FOUND = "exposure found"


_SENTENCES = {
    Event.NEW_RECORD: "{place} lists {subject}.",
    Event.LISTED_AGAIN: "{place} lists {subject} again, after a removal.",
    Event.OPT_OUT_SUBMITTED: "{place} was asked to remove its listing of {subject}.",
    Event.REMOVAL_VERIFIED: "{place} no longer lists {subject}: two looks in a row found nothing.",
    Event.OPT_OUT_REFUSED: "{place} did not accept the removal of {subject}. It can be done by hand:",
    Event.OPT_OUT_IGNORED: "{place} has not acted on the removal of {subject}. It can be done by hand:",
    Event.OPT_OUT_UNANSWERED: "{place} could not be asked to remove {subject}. It can be done by hand:",
    Event.EXPOSURE_FOUND: "{place} shows personal data: {subject}.",
}
# A page has no opt-out of its own, as a site has.
_PAGE_GUIDE = "This is a web page outside the people-search sites. Whoever runs it can take the data down."
_PAGE_STEP = "Ask whoever runs the page to take the data down."
# Steps stand where somebody can act on them: not where a removal is under way, done, or about to be sent by us.
_NOTHING_TO_DO = {Event.OPT_OUT_SUBMITTED, Event.REMOVAL_VERIFIED}
_FOUND = {Event.NEW_RECORD, Event.LISTED_AGAIN}
_BY_HAND = {Event.OPT_OUT_REFUSED, Event.OPT_OUT_IGNORED, Event.OPT_OUT_UNANSWERED}
# not shown: whether a record that is listed again is told as discovered; its alert tells it, and the record is the same
_GROUP_OF = {Event.NEW_RECORD: DISCOVERED_RECORDS, Event.REMOVAL_VERIFIED: REMOVED_RECORDS}
_INSERT = insert(tables.alerts)


async def about_record(
    session: Session, event: Event, user_id: int, record: Mapping[str, Any], site: Site
) -> None:
    """Tell a person what happened to a record: one as the specification describes it, as it is now."""
    name, href = record["name"], record["href"]
    steps = () if _needs_nobody(event, site) else site.opt_out_procedure
    by_hand = event in _BY_HAND
    url = site.opt_out_url or href if by_hand else href or site.opt_out_url
    said = steps if by_hand else ()
    words = {
        "text": _text(event, site.name, name, said),
        "html": _html(event, site.name, name, said, url=url),
        "url": url or "",
        "guide": site.guide or "",
        "opt_out_procedure": list(steps),
    }
    source = {"source_type": "record", "source": {"record": dict(record)}}
    await _add(session, event, user_id, words, source, record_id=record["id"])
    if event in _GROUP_OF:
        await outbox.enqueue_event(session, user_id, _GROUP_OF[event], {"record": dict(record)})


async def about_link(session: Session, user_id: int, link_id: int, page: Page) -> None:
    """Tell a person about a web page that shows their data."""
    event = Event.EXPOSURE_FOUND
    kinds = ", ".join(page.contains) or "not told which"
    words = {
        "text": _text(event, page.title, kinds),
        "html": _html(event, page.title, kinds, url=page.url),
        "url": page.url,
        "guide": _PAGE_GUIDE,
        "opt_out_procedure": [_PAGE_STEP],
    }
    source = {"source_type": "link", "source": {"link": page.resource()}}
    await _add(session, event, user_id, words, source, link_id=link_id)
    # Specification, "Link": only url and title appear here.
    await outbox.enqueue_event(session, user_id, DISCOVERED_LINKS, {"url": page.url, "title": page.title})


def _needs_nobody(event: Event, site: Site) -> bool:
    return event in _NOTHING_TO_DO or (site.removed_by_us and event in _FOUND)


def _text(event: Event, place: str, subject: str, steps: Sequence[str] = ()) -> str:
    sentence = _SENTENCES[event].format(place=sanitize.plain(place), subject=sanitize.plain(subject))
    numbered = [f"{number}. {sanitize.plain(step)}" for number, step in enumerate(steps, 1)]
    return "\n".join([f"{event.capitalize()}: {sentence}", *numbered])


def _html(event: Event, place: str, subject: str, steps: Sequence[str] = (), *, url: str | None) -> str:
    name = sanitize.escaped(place)
    if url and url.startswith(("http://", "https://")):
        name = f'<a href="{sanitize.escaped(url)}">{name}</a>'
    sentence = _SENTENCES[event].format(place=name, subject=sanitize.escaped(subject))
    items = "".join(f"<li>{sanitize.escaped(step)}</li>" for step in steps)
    return f"<p><strong>{event.capitalize()}</strong>: {sentence}</p>" + (
        f"<ol>{items}</ol>" if items else ""
    )


async def _add(
    session: Session,
    event: Event,
    user_id: int,
    words: dict[str, Any],
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
        "ciphertext": session.encrypt("alerts", user_id, words),
        "created_at": session.clock.now(),
    }
    await session.add(_INSERT, row)
    # Specification, "Alert": absent in alerts inside webhooks.
    told = {name: value for name, value in words.items() if name != "url"}
    await outbox.enqueue_event(session, user_id, NEW_ALERTS, told | source)
