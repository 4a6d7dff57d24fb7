"""Opt-out requests to the invented sites, and the removals and relistings that follow."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, TypeAdapter

from exposurekit.sandbox.world.listings import Entry, Listings

Instant = Annotated[datetime, AfterValidator(lambda at: at.astimezone(UTC))]  # a saved one reads as it was


class OptOut(NamedTuple):
    """A request that reached a site; `accepted` is what the site answered, not what it did."""

    site: str
    reference_id: str
    at: Instant
    accepted: bool


Absence = tuple[Instant, Instant | None]
_OPT_OUTS = TypeAdapter(list[OptOut])
_ABSENCES = TypeAdapter(list[tuple[str, str, list[Absence]]])  # by site and reference


class OptOutLedger:
    """The opt-out requests, and the times during which a listing is removed."""

    def __init__(self, listings: Listings) -> None:
        self.opt_outs: list[OptOut] = []
        self._absences: dict[Entry, list[Absence]] = {}
        self._sisters: dict[tuple[str, tuple[str, int]], list[Entry]] = {}
        for entry in listings.entries:
            if group := entry.site.sister_group:
                self._sisters.setdefault((group, entry.holder), []).append(entry)

    def is_visible(self, entry: Entry, at: datetime) -> bool:
        """Return whether the site shows the listing at an instant."""
        if at < entry.since or (entry.until is not None and at >= entry.until):
            return False
        absences = self._absences.get(entry, ())
        return not any(begin <= at and (end is None or at < end) for begin, end in absences)

    def was_ever(self, entry: Entry, *, visible: bool, since: datetime, until: datetime) -> bool:
        """Return whether the listing was visible, or was not, at any moment between two instants, inclusive."""
        absences = self._absences.get(entry, ())
        if visible and any(since <= begin <= until for begin, _ in absences):
            return True  # a listing is visible until its removal, if only for a moment
        changes = [entry.since, entry.until, *(instant for absence in absences for instant in absence)]
        moments = [since, until, *(at for at in changes if at is not None and since <= at <= until)]
        return any(self.is_visible(entry, moment) == visible for moment in moments)

    def log(self, site: str, reference_id: str, at: datetime, *, accepted: bool) -> None:
        """Log a request."""
        self.opt_outs.append(OptOut(site, reference_id, at, accepted))

    def remove(self, entry: Entry, at: datetime) -> None:
        """Grant a request; sister sites remove every listing of the same person."""
        self.log(entry.site.name, entry.reference_id, at, accepted=True)
        for sister in self._sisters.get((entry.site.sister_group or "", entry.holder), [entry]):
            is_spared = (
                sister.site is entry.site and sister is not entry and sister.site.one_request_per == "listing"
            )
            if self.is_visible(sister, at) and not is_spared:
                self._schedule_absence(sister, at)

    def saved_state(self) -> dict[str, Any]:
        """Return the requests and absences as plain JSON, for `restore`."""
        absences = [(entry.site.name, entry.reference_id, spans) for entry, spans in self._absences.items()]
        return {
            "opt_outs": _OPT_OUTS.dump_python(self.opt_outs, mode="json"),
            "absences": _ABSENCES.dump_python(absences, mode="json"),
        }

    def restore(self, state: Mapping[str, Any], listings: Listings) -> None:
        """Replace the requests and absences with those of a saved state; raises `LookupError` if it is another's."""
        self.opt_outs[:] = _OPT_OUTS.validate_python(state["opt_outs"])
        self._absences.clear()
        for site, reference_id, absences in _ABSENCES.validate_python(state["absences"]):
            if (entry := listings.at(site, reference_id)) is None:
                raise LookupError("this world has no such listing")
            self._absences[entry] = absences

    def _schedule_absence(self, entry: Entry, at: datetime) -> None:
        if entry.removal_delay is None:
            return
        absences = self._absences.setdefault(entry, [])
        if absences and at < absences[-1][0]:
            return  # a second request before the first took effect
        begin = at + entry.removal_delay
        delays = entry.relisting_delays
        relisting_delay = delays[len(absences)] if len(absences) < len(delays) else None
        absences.append((begin, None if relisting_delay is None else begin + relisting_delay))
