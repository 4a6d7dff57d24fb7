"""Move inbox messages into the history, each exactly once, and quarantine what cannot be parsed."""

from collections.abc import Sequence
from dataclasses import dataclass

from exposurekit.errors import InvalidResponse
from exposurekit.history import History
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.monitor.webhooks import parsing
from exposurekit.monitor.webhooks.store import InboxMessage, InboxStore

BATCH_SIZE = 500
# Errors that a delivery's values can cause. A locked history or a full disk is not the delivery's fault.
_VALUE_ERRORS = (
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    NotImplementedError,
    RecursionError,
    InvalidResponse,
)


@dataclass(frozen=True, slots=True)
class InboxResult:
    """What one call of `process_inbox` did."""

    ingested: int = 0  # deliveries added to the history
    quarantined: int = 0  # messages that could not be parsed or ingested
    user_ids: frozenset[int] = frozenset()  # whom the deliveries are about; reload them


def process_inbox(store: InboxStore, history: History, *, batch_size: int = BATCH_SIZE) -> InboxResult:
    """Ingest all waiting messages into the history, in the order in which they arrived.

    A message that cannot be parsed, or that the history rejects while it accepts others, is quarantined with a reason
    that contains none of its values. Bodies are dropped from the inbox once the history has them on disk, so a killed
    process can resume at any point. Run one at a time: raises `HistoryLocked` if another process writes to the history.
    An older copy of the inbox that was restored gets a new identity: deliveries that it still holds are ingested again,
    and none is skipped.
    """
    after = history.last_delivery(store.identity)
    if store.reset_identity(after):
        after = 0
    inbox = store.identity
    _discard(store, history, after)
    quarantined = 0
    user_ids: list[int] = []
    while messages := store.unprocessed(after, batch_size):
        ingested = _ingest(store, history, inbox, _parse(store, messages))
        _discard(store, history, history.last_delivery(inbox))
        quarantined += len(messages) - len(ingested)
        user_ids += [received.delivery.user_id for received in ingested]
        after = messages[-1].number
    return InboxResult(len(user_ids), quarantined, frozenset(user_ids))


def _discard(store: InboxStore, history: History, until: int) -> None:
    """Drop bodies, but only after the history has synced them to disk."""
    oldest = store.unprocessed(0, 1)
    if oldest and oldest[0].number <= until:
        history.sync()
    store.discard_processed(until)


def _parse(store: InboxStore, messages: Sequence[InboxMessage]) -> list[ReceivedDelivery]:
    deliveries = []
    for message in messages:
        try:
            delivery = parsing.parse_delivery(message.body)
        except InvalidResponse as problem:
            store.quarantine(message.number, str(problem))
        else:
            deliveries.append(
                ReceivedDelivery(message.number, message.received_at, message.webhook_id or "", delivery)
            )
    return deliveries


def _ingest(
    store: InboxStore, history: History, inbox: str, deliveries: list[ReceivedDelivery]
) -> list[ReceivedDelivery]:
    """Ingest deliveries and return those that succeeded; on an error bisect, and quarantine what fails alone."""
    if not deliveries:
        return []
    try:
        history.ingest_deliveries(deliveries, inbox=inbox)
    except _VALUE_ERRORS as error:
        problem = type(error).__name__
    else:
        return deliveries
    if len(deliveries) > 1:
        half = len(deliveries) // 2
        first = _ingest(store, history, inbox, deliveries[:half])
        return first + _ingest(store, history, inbox, deliveries[half:])
    history.ingest_deliveries([], inbox=inbox)  # raises if the history itself is at fault
    store.quarantine(deliveries[0].number, f"the history cannot ingest it: {problem}")
    return []
