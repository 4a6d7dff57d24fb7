from collections.abc import Iterator

import pytest
from support.inbox import emptied

from exposurekit.monitor.webhooks.store import InboxStore


@pytest.fixture(scope="module")
def shared_inbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InboxStore]:
    store = InboxStore(tmp_path_factory.mktemp("inbox") / "inbox.db", busy_s=0.05)
    yield store
    store.close()


@pytest.fixture
def inbox(shared_inbox: InboxStore) -> InboxStore:
    """The module's inbox without messages."""
    return emptied(shared_inbox)
