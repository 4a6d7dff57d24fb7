"""What the processes of one run share: addresses, and how fast time passes."""

import asyncio
import json
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta

from exposurekit.sandbox.world.sites import SITES
from exposurekit.service.clock import Clock
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.worker import WorkerConfig

SPEED = 600  # the window of ten minutes is a second; the retries come after 0.1, 0.5 and 3 seconds
DAY_S = 86_400
WORLD_SPEED = 4 * DAY_S  # of the embedded sites: a listing that is removed in two weeks is soon gone

# Real seconds.
LEASE_S = 8.0
SCAN_S, REMOVAL_S, DELIVERY_S = 7.0, 5.0, 4.0  # each ends before its lease does
ATTEMPT_S = 1.5  # how long an integrator may take
FIRST_CHECK_S, CHECK_EVERY_S, GIVE_UP_S = 0.5, 1.0, 4.5
OPT_OUT_RETRY_S = (0.5, 1.0, 1.5, 2.0)
PAGE_S = 0.5
# One site of each kind: removes at once, after days, too late; sister sites; manual; sometimes unavailable.
SITE_FILES = {
    *("seekfolk", "whomsoever", "nosyheron", "tattleberry", "pigeonloft", "mothlightfinder"),
    *("mothlightneighbors", "crumbtrail", "everyname"),
}


@dataclass(frozen=True, slots=True)
class FastClock(Clock):
    """Since `epoch`, in seconds since 1970, time passes `speed` times as fast."""

    epoch: float
    speed: float

    def now(self):
        return datetime.fromtimestamp(self.epoch + (time.time() - self.epoch) * self.speed, UTC)

    async def sleep(self, seconds):
        await asyncio.sleep(seconds / self.speed)


@dataclass(frozen=True)
class Settings:
    database: str
    key: str = field(repr=False)
    epoch: float
    world_port: int

    def worker_config(self):
        """Time limits are real seconds; leases last by the service's clock."""
        limits = {"scan_s": SCAN_S, "removal_s": REMOVAL_S, "delivery_s": DELIVERY_S}
        margin = timedelta(seconds=LEASE_S * SPEED - SCAN_S)
        return WorkerConfig(scans=2, removals=4, deliveries=12, idle_s=0.1, lease_margin=margin, **limits)

    def open(self):
        """The database, not yet opened."""
        vault = Vault(bytes.fromhex(self.key))
        return Database(self.database, vault=vault, clock=FastClock(self.epoch, SPEED))

    def definitions(self):
        """The embedded sites, checked again after seconds instead of days."""
        return {site.name: _hurried(site.definition) for site in SITES if site.file in SITE_FILES}

    def save(self, file):
        file.touch(mode=0o600)
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, file):
        return cls(**json.loads(file.read_text()))


def _hurried(site):
    first, every, give_up = (s * SPEED / DAY_S for s in (FIRST_CHECK_S, CHECK_EVERY_S, GIVE_UP_S))
    removal = site.removal.model_copy(update={"processing_days": first, "give_up_days": give_up})
    verification = site.verification.model_copy(update={"after_days": first, "every_days": every})
    return site.model_copy(update={"removal": removal, "verification": verification})
