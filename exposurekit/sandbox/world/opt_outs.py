"""Requests to be taken off the make-believe sites, and what became of them. Checks no form, forgets nothing."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from exposurekit.sandbox.world.listings import Entry, Listings


class OptOut(NamedTuple):
    """A request that reached a site; `accepted` is what the site said, not what it did."""

    site: str
    reference_id: str
    at: datetime
    accepted: bool


class OptOutLedger:
    """Which listings are away, and from when to when."""

    def __init__(self, shelves: Listings) -> None:
        self.opt_outs: list[OptOut] = []
        self._away: dict[Entry, list[tuple[datetime, datetime | None]]] = {}
        self._sisters: dict[tuple[str, tuple[str, int]], list[Entry]] = {}
        for entry in shelves.entries:
            if group := entry.site.sister_group:
                self._sisters.setdefault((group, entry.holder), []).append(entry)

    def visible(self, entry: Entry, at: datetime) -> bool:
        """Whether the site shows the listing at an instant."""
        if at < entry.since or (entry.until is not None and at >= entry.until):
            return False
        away = self._away.get(entry, ())
        return not any(begin <= at and (end is None or at < end) for begin, end in away)

    def was(self, entry: Entry, *, visible: bool, since: datetime, until: datetime) -> bool:
        """Whether the site showed the listing, or did not, at any moment between two instants, these included."""
        away = self._away.get(entry, ())
        if visible and any(since <= begin <= until for begin, _ in away):
            return True  # what was taken off stood there until then, if only for a moment
        turns = [entry.since, entry.until, *(turn for span in away for turn in span)]
        moments = [since, until, *(turn for turn in turns if turn is not None and since <= turn <= until)]
        return any(self.visible(entry, moment) == visible for moment in moments)

    def note(self, site: str, reference_id: str, at: datetime, *, accepted: bool) -> None:
        """Remember that a request was made."""
        self.opt_outs.append(OptOut(site, reference_id, at, accepted))

    def leave(self, entry: Entry, at: datetime) -> None:
        """A request is granted; on sister sites, for everything that they show of the same person."""
        self.note(entry.site.name, entry.reference_id, at, accepted=True)
        sisters = self._sisters.get((entry.site.sister_group or "", entry.holder), [entry])
        for each in sisters:
            if self.visible(each, at):
                self._take_off(each, at)

    def past(self) -> dict[str, Any]:
        """What has happened, as plain JSON; `take_up` goes on from it."""
        return {
            "opt_outs": [[*one[:2], one.at.isoformat(), one.accepted] for one in self.opt_outs],
            "away": [
                [entry.site.name, entry.reference_id, [_told(span) for span in spans]]
                for entry, spans in self._away.items()
            ],
        }

    def take_up(self, past: Mapping[str, Any], shelves: Listings) -> None:
        """Go on from what has happened, in place of what is known.

        Raises:
            LookupError: It did not happen to these listings.
        """
        self.opt_outs[:] = [
            OptOut(site, reference_id, datetime.fromisoformat(at), accepted)
            for site, reference_id, at, accepted in past["opt_outs"]
        ]
        self._away.clear()
        for site, reference_id, spans in past["away"]:
            if (entry := shelves.at(site, reference_id)) is None:
                raise LookupError("there is no such listing in this world")
            self._away[entry] = [_span(*span) for span in spans]

    def _take_off(self, entry: Entry, at: datetime) -> None:
        if entry.leaves_after is None:
            return
        away = self._away.setdefault(entry, [])
        if away and at < away[-1][0]:
            return  # asked for twice before it was done once
        begin = at + entry.leaves_after
        stays = entry.returns_after[len(away)] if len(away) < len(entry.returns_after) else None
        away.append((begin, None if stays is None else begin + stays))


def _told(span: tuple[datetime, datetime | None]) -> tuple[str, str | None]:
    begin, end = span
    return begin.isoformat(), None if end is None else end.isoformat()


def _span(begin: str, end: str | None) -> tuple[datetime, datetime | None]:
    return datetime.fromisoformat(begin), None if end is None else datetime.fromisoformat(end)
