"""A worker in a process of its own, which a test kills."""

import asyncio
from datetime import datetime
from multiprocessing.synchronize import Event
from pathlib import Path

from support.mail import MAILBOX, Zone
from support.services import opened
from support.small_web import a_worker

from exposurekit.service.clock import FrozenClock
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault


async def run(settings: dict, ready: Event) -> None:
    clock = FrozenClock(datetime.fromisoformat(settings["now"]))
    database = Database(settings["url"], vault=Vault(bytes.fromhex(settings["key"])), clock=clock)
    site = Definition.model_validate(settings["definition"])
    mail = MailSettings(address=MAILBOX, directory=Path(settings["directory"]), check_every_s=86_400)
    records = {name: value.encode() for name, value in settings["records"].items()}

    async def resolve(_host: str, _port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", settings["port"])]

    async with opened(database):
        worker = a_worker(database, resolve, {site.name: site}, mail=mail, resolve_txt=Zone(records))
        ready.set()
        await worker.run_until_idle()


def main(settings: dict, ready: Event) -> None:
    """What a process does: it says that it is ready, and does all work that is due."""
    asyncio.run(run(settings, ready))
