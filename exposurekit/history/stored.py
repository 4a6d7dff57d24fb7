"""The tables of a history as they lie, and how a question reaches them. Writes nothing, and works nothing out.

Another process may write meanwhile: each question lists the files anew, and asks again where some were taken away.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.history import ingest, queries
from exposurekit.history.conversion import People, frame, ids
from exposurekit.history.engines.duckdb import CorruptHistory, Engine, StaleSnapshot
from exposurekit.history.ingest import Run, of_row
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.schema import BUCKETS, in_parts
from exposurekit.history.times import DAY, EPOCH, When, end_of_day, is_day, parse_time

TRIES = 5
ROWS_AT_ONCE = 6_000_000  # so many are joined at once: with what they say, a gigabyte
LONG_AGO, FAR_AHEAD = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
FIRST_DAY, LAST_DAY = -(2**31), 2**31 - 1


class Stored:
    """What a history holds, row by row. Where none was begun, each question raises `NotFound`."""

    _store: Store
    _engine: Engine
    _records_by: str
    _clock: Callable[[], datetime]

    def runs(self) -> pd.DataFrame:
        """Every run that was taken in, in order.

        Returns:
            One row a run: ``seq``, ``run``, ``origin`` (look or webhook), ``scope``, ``source``, ``started_at``,
            ``finished_at`` (UTC), ``complete`` (the list of users was whole), ``listed`` and by how they were seen
            ``whole``, ``partial``, ``failed``, ``missed``, ``unlisted``, ``late``, ``registered`` (people, int64), and
            what it brought: ``new``, ``came_into_view``, ``relisted``, ``changed``, ``removed``, ``vanished``,
            ``out_of_view`` (records), ``links_new``, ... (int64), ``deliveries``.

        >>> history.runs()["origin"].unique().tolist()
        ['look']
        """
        return frame(self._ask(queries.RUNS, ("runs",)))

    def looks(self) -> pd.DataFrame:
        """The looks at everyone, in order: rows of `runs`. A look at some people, or a webhook, says nothing of the rest.

        >>> history.looks()["run"].tolist() == history.runs()["run"].tolist()
        True
        """
        self._store.check_is_there()
        return frame(ingest.collection_runs(self._store))

    def last_run(self) -> Run:
        """The newest run.

        Raises:
            NotFound: Nothing was collected yet, or there is no history.

        >>> history.last_run().failed
        0
        """
        self._store.check_is_there()
        rows = self._store.rows("runs").sort_by("seq").to_pylist()
        if not rows:
            raise NotFound("This history is empty: collect() takes the first look")
        return of_row(rows[-1])

    def people(self) -> pd.DataFrame:
        """Everybody whom a run was ever about: ``user_id``, ``listed``, ``whole_at`` (when the last good look began), ...

        >>> bool(history.people()["listed"].all())
        True
        """
        return frame(self._ask(queries.PEOPLE, ("people",)))

    def exceptions(self) -> pd.DataFrame:
        """Whom a run did not see whole, or for the first time: ``seq``, ``user_id``, ``what``, ``error``, ``reason``.

        >>> "registered" in set(history.exceptions()["what"])
        True
        """
        return frame(self._ask(queries.EXCEPTIONS, ("exceptions",)))

    def changes(self) -> pd.DataFrame:
        """Every change of a status that was ever seen: the rows that all else is made of.

        Returns:
            ``seq``, ``seen_at``, ``day``, ``kind``, ``user_id``, ``key``, ``site``, ``status``, ``prev_status`` (missing:
            seen for the first time), ``episode``, ``episode_at``, ``open_s``, ``not_before``, ``left_censored``.

        >>> history.changes()["kind"].unique().tolist()
        ['alert', 'link', 'record']
        """
        return frame(self._ask(queries.CHANGES, ("changes",)))

    def deliveries(self) -> pd.DataFrame:
        """Every webhook delivery that was taken in: ``seen_at``, ``user_id``, ``events``, ``others`` (JSON), ...

        >>> len(history.deliveries())
        0
        """
        return frame(self._ask(queries.DELIVERIES, ("deliveries",)))

    def _ask(
        self,
        sql: str,
        names: tuple[str, ...],
        given: Mapping[str, Any] | None = None,
        **more: pa.Table,
    ) -> pa.Table:
        """What a question answers; several that belong together are given the same ``upto``."""
        self._store.check_is_there()
        named = dict(given or {})
        if ":upto" in sql and "upto" not in named:
            named["upto"] = self._moment().upto
        for _ in range(TRIES):
            with contextlib.suppress(StaleSnapshot):
                return self._engine.ask(sql, self._store.snapshot(*names) | more, named)
        raise CorruptHistory  # nobody takes files away that often

    def _by_buckets(self, sql: str, names: tuple[str, ...], given: Mapping[str, Any]) -> Iterator[pa.Table]:
        """What a question answers that is asked of some buckets at a time, so many as are held at once: ``low``, ``high``."""
        rows = max(sum(rows for _, rows, _ in self._store.sizes(name)) for name in names)
        for low, high in in_parts(0, BUCKETS - 1, rows, ROWS_AT_ONCE):
            yield self._ask(sql, names, {**given, "low": low, "high": high})

    def _moment(self) -> "Moment":
        """The newest run that counts now, and from when to when everything was seen."""
        self._store.check_is_there()
        runs = self._store.rows("runs")
        if not runs.num_rows:
            return Moment(0, None, None)
        ends = pc.min_max(runs["finished_at"]).as_py()
        return Moment(pc.max(runs["seq"]).as_py(), ends["min"], ends["max"])

    def _until(self, when: When, moment: "Moment | None" = None) -> datetime:
        """An instant by which something was seen; None: the end of the last day of which anything is known."""
        known = moment or self._moment()
        if known.first_at is None or known.last_at is None:
            raise NotFound("This history is empty: collect() takes the first look")
        by = end_of_day(known.last_at.date()) if when is None else parse_time(when, now=self._clock())
        if by < known.first_at:
            first = f"{known.first_at:%Y-%m-%d %H:%M} UTC"
            raise NotFound(f"Nothing was seen by then: the first look ended at {first}")
        return by

    def _named(self, until: datetime, moment: "Moment") -> pd.DataFrame:
        return frame(self._ask(queries.NAMED, ("records",), {"as_of": until, "upto": moment.upto}))

    def _span(self, a: When, b: When, moment: "Moment") -> tuple[datetime, datetime]:
        """From when until when something moved, as far as that is known."""
        after, known = self._until(a, moment), self._until(None, moment)
        if b is not None and self._until(b, moment) < after:
            raise InvalidArgument("diff(a, b): b is the later one")
        if after > known:
            raise NotFound(
                f"Nothing is known after {moment.last_at:%Y-%m-%d %H:%M} UTC, when the last look ended"
            )
        return after, known if b is None else self._until(b, moment)

    def _cube(
        self, kind: str, by: tuple[str, ...], when: str, upto: int, until: int = LAST_DAY
    ) -> pd.DataFrame:
        given = {"kind": kind, "after": FIRST_DAY, "until": until, "upto": upto}
        return frame(self._ask(queries.transitions(by, when=when), ("cube",), given))

    def _log(
        self, kind: str, by: tuple[str, ...], after: datetime, until: datetime, upto: int
    ) -> pd.DataFrame:
        given = {"kind": kind, "after": after, "until": until, "upto": upto}
        text = queries.transitions(by, table="changes", when="")
        return frame(self._ask(text, ("changes",), given))

    def _of_people(self, kind: str, by: tuple[str, ...], when: str, user: People, upto: int) -> pd.DataFrame:
        given = {"kind": kind, "after": LONG_AGO, "until": FAR_AHEAD, "upto": upto}
        asked = {} if user is None else {"asked": self._asked(user, upto)}
        buckets = {one % BUCKETS for table in asked.values() for one in table["user_id"].to_pylist()}
        text = queries.transitions(by, table="changes", when=when, buckets=buckets)
        return frame(self._ask(text, ("changes",), given, **asked))

    def _asked(self, user: People, upto: int) -> pa.Table:
        """The people who are asked about; each of them is known."""
        asked = pa.table({"user_id": pa.array(ids(user), pa.int64())})
        tables = ("people", "deliveries")
        unknown = self._ask(queries.STRANGERS, tables, {"upto": upto}, asked=asked)["user_id"].to_pylist()
        if unknown:
            raise NotFound(
                f"Nothing was ever collected of these people: {unknown}. "
                "history.people() lists the ids; on the command line: exposurekit history show --by user_id"
            )
        return asked

    def _life_table(self, by: str | None, as_of: When) -> pd.DataFrame:
        if as_of is not None and not is_day(as_of):
            raise InvalidArgument("as_of is a day, such as 2026-11-13: durations are told in days")
        moment = self._moment()
        day = min(self._until(as_of, moment), self._until(None, moment))
        given = {"kind": "record", "day": (day - EPOCH) // DAY, "upto": moment.upto}
        return frame(self._ask(queries.life_table(by), ("cube",), given))


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a history stands: what is taken in later does not count."""

    upto: int
    first_at: datetime | None
    last_at: datetime | None
