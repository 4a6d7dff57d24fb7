"""Letters into the history, once each. Decides nothing about what they say."""

from collections.abc import Sequence
from dataclasses import dataclass

from exposurekit.errors import InvalidResponse
from exposurekit.history import History
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.monitor.webhooks import parsing
from exposurekit.monitor.webhooks.store import InboxMessage, InboxStore

BATCH = 500
# What values may bring about. A history that is busy, or whose disk is full, is no fault of a delivery.
_BY_VALUES = (
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
    """What one draining did.

    Attributes:
        taken: How many deliveries the history took in.
        quarantined: How many letters could not be read, or taken in, and were set apart.
        user_ids: Whom the deliveries are about: a reason to look at them again.
    """

    taken: int = 0
    quarantined: int = 0
    user_ids: frozenset[int] = frozenset()


def process_inbox(letters: InboxStore, history: History, *, batch: int = BATCH) -> InboxResult:
    """Hand every letter that the history has not taken in to it, in the order in which they came.

    A letter that cannot be read, or that the history cannot take in though it takes in others, is quarantined, with a
    reason that holds nothing of it. Bodies are dropped from the inbox once the history has them on the disk: killed at
    any point, the next draining goes on. One at a time.

    Args:
        letters: The inbox. Where it is an older copy that was put back, it is another inbox from now on: what was
            taken in of it before is told again, and nothing is passed over.
        history: Where deliveries are taken in.
        batch: How many at most are handed over at once.

    Raises:
        NotKept: The inbox cannot be used at this moment.
        HistoryLocked: Another process writes to the history.
    """
    after = history.last_delivery(letters.identity)
    if letters.renew(after):
        after = 0
    inbox = letters.identity
    _discard(letters, history, after)
    quarantined = 0
    user_ids: list[int] = []
    while waiting := letters.unprocessed(after, batch):
        taken = _ingested(letters, history, inbox, _read(letters, waiting))
        _discard(letters, history, history.last_delivery(inbox))
        quarantined += len(waiting) - len(taken)
        user_ids += [one.delivery.user_id for one in taken]
        after = waiting[-1].number
    return InboxResult(len(user_ids), quarantined, frozenset(user_ids))


def _discard(letters: InboxStore, history: History, until: int) -> None:
    """Drop bodies; what a loss of power could take from the history the inbox still has."""
    oldest = letters.unprocessed(0, 1)
    if oldest and oldest[0].number <= until:
        history.sync()
    letters.forget(until)


def _read(letters: InboxStore, waiting: Sequence[InboxMessage]) -> list[ReceivedDelivery]:
    """Those that can be read; the others are set apart."""
    told = []
    for letter in waiting:
        try:
            delivery = parsing.delivery(letter.body)
        except InvalidResponse as problem:
            letters.quarantine(letter.number, str(problem))
        else:
            told.append(
                ReceivedDelivery(letter.number, letter.received_at, letter.webhook_id or "", delivery)
            )
    return told


def _ingested(
    letters: InboxStore, history: History, inbox: str, told: list[ReceivedDelivery]
) -> list[ReceivedDelivery]:
    """Those that the history took in; where it could not, each half by itself, and what fails alone is set apart."""
    if not told:
        return []
    try:
        history.ingest_deliveries(told, inbox=inbox)
    except _BY_VALUES as error:
        problem = type(error).__name__
    else:
        return told
    if len(told) > 1:
        half = len(told) // 2
        return [
            *_ingested(letters, history, inbox, told[:half]),
            *_ingested(letters, history, inbox, told[half:]),
        ]
    history.ingest_deliveries([], inbox=inbox)  # fails where it is the history that is not well
    letters.quarantine(told[0].number, f"the history cannot take it in: {problem}")
    return []
