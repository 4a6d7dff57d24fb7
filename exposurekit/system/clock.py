"""The machine's clock."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the current time in UTC.

    >>> from exposurekit.system.clock import utc_now
    >>> utc_now().tzinfo is not None
    True
    """
    return datetime.now(UTC)
