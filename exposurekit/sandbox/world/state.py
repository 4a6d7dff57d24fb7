"""What every host of the make-believe web stands on: seed, clock, listings and requests. Answers nothing itself."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from exposurekit.sandbox.world.listings import Entry, Listings
from exposurekit.sandbox.world.opt_outs import OptOutLedger
from exposurekit.service.clock import Clock


class Mail(NamedTuple):
    """A message that a site has sent to somebody who asked to be taken off."""

    site: str
    to: str
    url: str


@dataclass(frozen=True)
class WorldState:
    """The same for all sites. The clock alone says what time it is."""

    seed: int
    clock: Clock
    shelves: Listings
    ledger: OptOutLedger
    mailbox: list[Mail] = field(default_factory=list)

    def now(self) -> datetime:
        """This instant of the world."""
        return self.clock.now()

    def there(self, site: str, reference_id: str) -> Entry | None:
        """The listing of this reference, if the site shows it now."""
        entry = self.shelves.at(site, reference_id)
        return entry if entry and self.ledger.visible(entry, self.now()) else None
