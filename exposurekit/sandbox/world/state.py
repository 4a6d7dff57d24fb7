"""State that all invented sites share: seed, clock, listings, opt-outs and sent mail."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from exposurekit.sandbox.world.listings import Entry, Listings
from exposurekit.sandbox.world.opt_outs import OptOutLedger
from exposurekit.service.clock import Clock


class Mail(NamedTuple):
    """An email from a site to somebody who opted out."""

    site: str
    to: str
    url: str


@dataclass(frozen=True)
class WorldState:
    """Seed, clock, listings, opt-outs and sent mail."""

    seed: int
    clock: Clock
    listings: Listings
    ledger: OptOutLedger
    mailbox: list[Mail] = field(default_factory=list)

    def now(self) -> datetime:
        """Return the current time of the invented web."""
        return self.clock.now()

    def visible_listing(self, site: str, reference_id: str) -> Entry | None:
        """Return the listing with this reference if the site shows it now."""
        entry = self.listings.at(site, reference_id)
        return entry if entry and self.ledger.is_visible(entry, self.now()) else None
