"""Times and durations as people type them: instants, days, spans back from now (UTC), and 90s, 30m, 6h or 1d."""

import calendar
import contextlib
import re
from datetime import UTC, date, datetime, timedelta
from numbers import Integral, Number, Real

from exposurekit.errors import InvalidArgument

When = str | int | date | datetime | None
DAY = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ACCEPTED = (
    "A time is 14d, 2w, 3mo, 1y or 36h (back from now; also '2 weeks', and a number of days), today or yesterday, a day such as "
    "2026-11-13, an instant such as 2026-11-13T12:00Z, or a date, datetime or Timestamp; without a zone it is UTC"
)
UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}  # of a duration, in seconds
_DATE = len("2026-11-13")
_BACK = re.compile(r"(\d{1,5})(?: ?(?:[hdwy]|mo|(?:hour|day|week|month|year)s?)(?: ago)?)?")
_DAYS_BACK = {"today": 0, "yesterday": 1}
_UNITS = {"h": timedelta(hours=1), "d": DAY, "w": timedelta(weeks=1)}
_MONTHS = {"m": 1, "y": 12}  # of a unit


def parse_time(when: str | int | date | datetime, *, now: datetime) -> datetime:
    """Parse a time as an instant; of a day, its end. All functions that take a time take these.

    ``14d``, ``"14 days"``, ``14``, ``2w``, ``3mo`` and ``1y`` are the day that many days, weeks, months or years before
    today, until its end, as are ``yesterday`` and ``2026-11-13``; ``36h`` is the instant 36 hours before now. A month
    ago is the same day of the month before, or its last day. *Now* is the clock's time, not that of the newest run.

    Args:
        when: The time; UTC if it has no zone.
        now: The current time; in a sandbox, that of its clock.

    Raises:
        InvalidArgument: It is not a time; the message lists what is accepted.

    >>> now = datetime(2026, 11, 22, 15, tzinfo=UTC)
    >>> parse_time("2026-11-13", now=now).isoformat(), parse_time("2026-11-13T12:00Z", now=now).isoformat()
    ('2026-11-13T23:59:59.999999+00:00', '2026-11-13T12:00:00+00:00')
    >>> {parse_time(days, now=now).day for days in ("9d", "9 days", 9, "2026-11-13")}
    {13}
    >>> parse_time("36h", now=now).isoformat()
    '2026-11-21T03:00:00+00:00'
    >>> parse_time("9 months", now=now).isoformat()
    '2026-02-22T23:59:59.999999+00:00'
    """
    with contextlib.suppress(ValueError, OverflowError):  # no time, or the last day that datetime has
        is_days = isinstance(when, Integral) and not isinstance(when, bool) and _BACK.fullmatch(str(when))
        if is_days or not isinstance(when, Number):
            at = _instant(when, now)
            if str(at) != "NaT" and at + DAY:  # pandas' NaT is a datetime
                return at
    if isinstance(when, date | Number):
        raise InvalidArgument(ACCEPTED)
    kind = type(when).__name__
    if type(when).__module__ == "builtins":  # without a text, which may be secret
        raise InvalidArgument(ACCEPTED)
    raise InvalidArgument(f"{kind} is not a time: pass it by name: {kind.lower()}=...")


def parse_start(when: str | int | date | datetime, *, now: datetime) -> datetime:
    """Parse the time since which changes count: as `parse_time`, but today counts from its beginning.

    Its end is still to come, and nothing changes after that.

    >>> now = datetime(2026, 11, 22, 15, tzinfo=UTC)
    >>> {parse_start(start, now=now).isoformat() for start in ("today", "0d", "2026-11-22", "yesterday")}
    {'2026-11-21T23:59:59.999999+00:00'}
    """
    at = parse_time(when, now=now)
    return at - DAY if is_day(when) and at == end_of_day(now.astimezone(UTC).date()) else at


def parse_duration(duration: float | str, *, now: datetime) -> timedelta:
    """Parse a duration: a number of days, or a text such as ``7d``, ``2 weeks``, ``3mo`` or ``36h``.

    Months and years are as long as those before now.

    Raises:
        InvalidArgument: It is neither, or too long.

    >>> now = datetime(2026, 11, 22, 15, tzinfo=UTC)
    >>> [parse_duration(text, now=now).days for text in (14, "2w", "1mo", "1y")]
    [14, 14, 31, 365]
    """
    with contextlib.suppress(ValueError, OverflowError):  # not a number, or too many days
        if isinstance(duration, str) and (text := _BACK.fullmatch(_text(duration))):
            return now - _before(now, int(text[1]), _unit(text[0]))
        if isinstance(duration, Real) and not isinstance(duration, bool):
            return float(duration) * DAY
    raise InvalidArgument("A duration is a number of days, or a text such as '7d', '2 weeks', '3mo' or '36h'")


def is_day(when: str | int | date | datetime) -> bool:
    """Return whether a time is a day, not an instant."""
    if isinstance(when, date):
        return not isinstance(when, datetime)
    text = _text(when)
    if _BACK.fullmatch(text):
        return _unit(text) != "h"
    return len(text) <= _DATE


def end_of_day(day: date) -> datetime:
    """Return the last microsecond of a day in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + DAY - timedelta(microseconds=1)


def format_time(at: datetime) -> str:
    """Format an instant to the minute; the end of a day as that day."""
    return f"{at:%Y-%m-%d}" if at == end_of_day(at.date()) else f"{at:%Y-%m-%d %H:%M} UTC"


def interval(duration: timedelta) -> str:
    """Format a duration in the largest unit that fits."""
    seconds = duration.total_seconds()
    unit = next((unit for unit, size in UNITS.items() if not seconds % size), "s")
    return f"{seconds / UNITS[unit]:g}{unit}"


def format_elapsed(duration: timedelta) -> str:
    """Format how long something took, in one unit or two.

    >>> [format_elapsed(timedelta(seconds=seconds)) for seconds in (0.01, 9.96, 200, 3_900)]
    ['0.1 s', '10 s', '3 min 20 s', '1 h 5 min']
    """
    seconds = max(duration.total_seconds(), 0.1)
    if seconds < 9.95:  # noqa: PLR2004  where one decimal becomes two digits
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, left = divmod(minutes, 60)
    return f"{hours:,} h {left} min" if hours else f"{minutes} min {rest} s"


def _unit(back: str) -> str:
    """The first letter of a span's unit: ``h``, ``d``, ``w``, ``m`` or ``y``; of a number alone ``d``."""
    return back.strip("0123456789 ")[:1] or "d"


def _before(at: datetime, n: int, unit: str) -> datetime:
    """Return the instant that many units before another; a month or year before, at most the last day of that month."""
    if unit not in _MONTHS:
        return at - n * _UNITS[unit]
    year, month = divmod(at.year * 12 + at.month - 1 - n * _MONTHS[unit], 12)
    last_day = calendar.monthrange(year, month + 1)[1]
    return at.replace(year=year, month=month + 1, day=min(at.day, last_day))


def _instant(when: str | int | date | datetime, now: datetime) -> datetime:
    if isinstance(when, datetime):
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    if isinstance(when, date):
        return end_of_day(when)
    text = _text(when)
    if back := _BACK.fullmatch(text):
        at = _before(now.astimezone(UTC), int(back[1]), _unit(text))
        return end_of_day(at.date()) if is_day(text) else at
    if text in _DAYS_BACK:
        return end_of_day(now.astimezone(UTC).date() - _DAYS_BACK[text] * DAY)
    if is_day(text):
        return end_of_day(date.fromisoformat(text))
    return _instant(datetime.fromisoformat(text), now)


def _text(when: object) -> str:
    """A time as normalized text, so that `14D` and ` Yesterday ` are accepted."""
    text = str(when).strip()
    lower = text.lower()
    return lower if len(text) <= _DATE or _BACK.fullmatch(lower) else text
