"""What the processes of one run agree on: where everything is, and how fast time passes. Starts nothing."""

import json
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from crash.clock import FastClock

from exposurekit.sandbox.world.sites import SITES
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.worker import WorkerConfig

SPEED = 600  # the window of ten minutes is a second; the retries come after 0.1, 0.5 and 3 seconds
WORLD_SPEED = (
    4 * 86_400
)  # the make-believe web: four days a second, so that what leaves in two weeks is soon gone
DAY_S = 86_400

# The machine's seconds.
LEASE_S = 8.0
SCAN_S, REMOVAL_S, DELIVERY_S = 7.0, 5.0, 4.0  # each ends before its lease does
ATTEMPT_S = 1.5  # how long an integrator may take
FIRST_LOOK_S, LOOK_EVERY_S, GIVE_UP_S = 0.5, 1.5, 8.0
OPT_OUT_AGAIN_S = (1.0, 1.5, 2.0, 2.5)
PAGE_S = 0.5
# One of each kind: gone at once, after days, after more than we wait; sisters; a human's job; now and then away.
LOOKED_AT = (
    "seekfolk",
    "whomsoever",
    "nosyheron",
    "tattleberry",
    "pigeonloft",
    "mothlightfinder",
    "mothlightneighbors",
    "crumbtrail",
    "everyname",
)


@dataclass(frozen=True)
class Settings:
    """One run."""

    database: str
    key: str = field(repr=False)
    epoch: float
    world_port: int
    speed: float = SPEED

    @property
    def clock(self) -> FastClock:
        """The service's."""
        return FastClock(self.epoch, self.speed)

    @property
    def pace(self) -> WorkerConfig:
        """A worker's: its limits are the machine's seconds, its leases last by the service's clock."""
        lease_margin = timedelta(seconds=LEASE_S * self.speed - SCAN_S)
        return WorkerConfig(
            scans=2,
            removals=4,
            deliveries=12,
            scan_s=SCAN_S,
            removal_s=REMOVAL_S,
            delivery_s=DELIVERY_S,
            idle_s=0.1,
            lease_margin=lease_margin,
        )

    def open(self) -> Database:
        """The database, closed as yet."""
        return Database(self.database, vault=Vault(bytes.fromhex(self.key)), clock=self.clock)

    def passing(self, seconds: float) -> timedelta:
        """What passes by the service's clock in so many of the machine's seconds."""
        return timedelta(seconds=seconds * self.speed)

    def definitions(self) -> dict[str, Definition]:
        """The make-believe sites, looked at again after a moment and not after days."""
        return {site.name: self._hurried(site.definition) for site in SITES if site.file in LOOKED_AT}

    def save(self, file: Path) -> None:
        """For the other processes."""
        file.touch(mode=0o600)
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, file: Path) -> "Settings":
        """What was saved."""
        values: dict[str, Any] = json.loads(file.read_text())
        return cls(**values)

    def _hurried(self, site: Definition) -> Definition:
        first, every, give_up = (
            self.passing(seconds).total_seconds() / DAY_S
            for seconds in (FIRST_LOOK_S, LOOK_EVERY_S, GIVE_UP_S)
        )
        removal = site.removal.model_copy(update={"processing_days": first, "give_up_days": give_up})
        verification = site.verification.model_copy(update={"after_days": first, "every_days": every})
        return site.model_copy(update={"removal": removal, "verification": verification})
