"""A worker in a process of its own, which a test kills: python mail_worker.py, with its settings as JSON on stdin."""

import asyncio
import json
import sys
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.mail import MAILBOX, Zone
from support.services import opened
from support.small_web import a_worker

from exposurekit.service.clock import FrozenClock
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault


async def run(settings: dict) -> None:
    clock = FrozenClock(datetime.fromisoformat(settings["now"]))
    database = Database(settings["url"], vault=Vault(bytes.fromhex(settings["key"])), clock=clock)
    site = Definition.model_validate(settings["definition"])
    mail = MailSettings(address=MAILBOX, directory=Path(settings["directory"]), check_every_s=86_400)
    records = {name: value.encode() for name, value in settings["records"].items()}

    async def resolve(_host: str, _port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", settings["port"])]

    async with opened(database):
        worker = a_worker(database, resolve, {site.name: site}, mail=mail, resolve_txt=Zone(records))
        print("ready", flush=True)  # noqa: T201
        await worker.run_until_idle()


if __name__ == "__main__":
    asyncio.run(run(json.load(sys.stdin)))
