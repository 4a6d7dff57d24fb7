from typing import Any

import pytest
from support.services import LISTING, PAGE, SITE, Service

from exposurekit.service.findings.findings import discover_link, discover_record


@pytest.fixture(scope="module")
def jane(service: Service) -> dict[str, Any]:
    """A user with a record and a link."""
    user = service.create(emails="jane@club.example", middle_name="Quentin")

    async def discover(work: Any) -> None:
        user["record_id"] = await discover_record(work, user["id"], LISTING, SITE)
        await discover_link(work, user["id"], PAGE)

    service.work(discover)
    return user
