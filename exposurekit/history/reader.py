"""What a history answers: questions over the files of its newest whole run, as tables. Writes nothing."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from exposurekit import analysis, frames
from exposurekit.analysis.status_over_time import Every
from exposurekit.contract.types import STATUSES
from exposurekit.errors import InvalidArgument
from exposurekit.history import queries
from exposurekit.history.conversion import People, frame, keys_of, series, with_listings
from exposurekit.history.diff import Diff
from exposurekit.history.storage.schema import CONTENT_OF, KINDS
from exposurekit.history.stored import FAR_AHEAD, LONG_AGO, Moment, Stored
from exposurekit.history.times import DAY, EPOCH, When, is_day, parse_time

_OF_THINGS = ("first_seen_at", "changed_at", "not_before", "episode", "left_censored")


class Reading(Stored):
    """The questions that a history answers; `History` is one that also takes in."""

    def records(self, as_of: When = None) -> pd.DataFrame:
        """Every record ever seen, as it stood: the columns of `Exposure.records` and when it came to be so.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.

        Returns:
            One row a record. ``status`` may also be ``vanished`` (was open, no longer listed, removal not verified) or
            ``unknown`` (its person is no longer registered); ``first_seen_at``, ``changed_at`` and ``not_before`` (the
            change came after the one and until the other; NaT: not known), ``episode``, ``left_censored`` (open already
            at the first look, so for longer than is known).

        Raises:
            NotFound: Nothing was seen by then.

        Source: specification, "Record".

        >>> history.records()["status"].isin(["discovered", "pending removal", "removed"]).all()
        np.True_
        """
        return self._things("record", as_of, self._moment(), status="status")

    def links(self, as_of: When = None) -> pd.DataFrame:
        """Every link ever seen: the columns of `Exposure.links`, ``standing`` (listed, vanished or unknown) and when.

        Raises:
            NotFound: Nothing was seen by then.

        >>> history.links().columns.tolist()[:5]
        ['user_id', 'url', 'title', 'contains', 'standing']
        """
        return self._things("link", as_of, self._moment(), status="standing")

    def alerts(self, as_of: When = None) -> pd.DataFrame:
        """Every alert ever seen: the columns of `Exposure.alerts`, ``standing`` (listed, vanished or unknown) and when.

        Not ``person`` and ``form_values``: a history does not keep what people have on file.
        ``status`` is the record's as it stood then (NaN: the alert is about a link, or, where ids change, it cannot be
        told about which record); ``alert_number`` counts a person's alerts in the order in which they were seen.
        An alert that a service repeats word for word about one thing is one alert here, and several in `Exposure.alerts`.
        ``html`` is the service's markup as it came.

        Raises:
            NotFound: Nothing was seen by then.

        >>> history.alerts()["standing"].unique().tolist()
        ['listed']
        """
        moment = self._moment()
        table = self._things("alert", as_of, moment, status="standing")
        numbers = table.groupby("user_id").cumcount().astype("int64")
        numbered = table.assign(alert_number=numbers, status=self._record_statuses(table, as_of, moment))
        named = None if self._records_by == "id" else self._named(self._until(as_of, moment), moment)
        return with_listings(numbered, self._things("record", as_of, moment, status="status"), named)

    def status_over_time(
        self,
        by: str | None = None,
        every: Every = "day",
        *,
        kind: str = "record",
        user: People = None,
        since: When = None,
        until: When = None,
    ) -> pd.DataFrame:
        """How many things had each status at the end of each period, as last seen.

        Args:
            by: None for all together, ``site`` or ``user_id``.
            every: ``run``, ``day``, ``week`` or ``month`` (UTC).
            kind: ``record``, ``link`` or ``alert``.
            user: One id or several; None for everyone.
            since: Only what was observed from then on; a day counts from its beginning, so that ``"14d"`` gives the state
                of 14 days ago and every day after. Any time that `diff` takes.
            until: Only what was observed until then; a day counts until its end.

        Returns:
            As `analysis.status_over_time`: one row a period (and group), a column for each status, int64.

        Raises:
            NotFound: Nothing was ever seen of one of the people asked about.
            InvalidArgument: ``by``, ``every`` or ``kind`` is none of these, ``user`` is no id, or a time is none.

        >>> history.status_over_time()["total"].tolist()[-1] == len(exposure.records())
        True
        """
        _check(kind, KINDS, "kind")
        _check(by, (None, "site", "user_id"), "by")
        columns, upto = tuple(filter(None, [by])), self._moment().upto
        if every != "run" and by != "user_id" and user is None:
            found = self._cube(kind, columns, "day", upto)
        else:
            found = self._of_people(kind, columns, "seen_at" if every == "run" else "day", user, upto)
        looks = frame(self._ask(queries.LOOKS, ("runs",), {"upto": upto}))
        statuses = STATUSES if kind == "record" else (analysis.LISTED,)
        table = analysis.status_over_time(_dated(found), looks, by=by, every=every, statuses=statuses)
        return self._within(table, since, until)

    def by_site(self, as_of: When = None, *, kind: str = "record") -> pd.DataFrame:
        """Count things per site and status, the site with most open first.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.
            kind: ``record``, ``link`` (by host) or ``alert``.

        Returns:
            As `analysis.counts`: one row per site, ``open``, the statuses, ``total``, ``vanished``, ``unknown`` (int64).

        Raises:
            NotFound: Nothing was seen by then.

        >>> table = history.by_site()
        >>> int(table["total"].sum()) == len(exposure.records())
        True
        """
        _check(kind, KINDS, "kind")
        moment = self._moment()
        until, upto = self._until(as_of, moment), moment.upto
        if (until + timedelta(microseconds=1) - EPOCH) % DAY:
            found = self._log(kind, ("site",), LONG_AGO, until, upto)
        else:
            found = self._cube(kind, ("site",), "", upto, until=(until - EPOCH) // DAY)
        statuses = STATUSES if kind == "record" else (analysis.LISTED,)
        return analysis.counts(found, by="site", statuses=statuses)

    def diff(self, a: When, b: When = None, *, kind: str = "record") -> Diff:
        """What moved from one instant to another, and why the number of open things is another.

        Args:
            a: From: an instant, or a day (from its end). What was seen at this very instant does not count. Like every
                time here also ``"14d"``, ``"2w"``, ``"36h"``, ``"yesterday"`` or ``"today"``, back from now; a ``date``, a
                ``datetime`` or a ``Timestamp``. Without a zone it is UTC.
            b: Until, itself included: an instant, or a day (until its end); None: the end of the last look's day. What
                lies after that is as last seen.
            kind: ``record``, ``link`` or ``alert``.

        Returns:
            Things, counts (new, came into view, status changed, removed, vanished, listed again, out of view,
            unchanged), and why: see `Diff`, `analysis.diff` and `analysis.changes`.

        Raises:
            NotFound: Nothing was seen by ``a``, or by ``b``; or ``a`` lies after the last look's day: nothing is known of
                what moved since.
            InvalidArgument: ``b`` lies before ``a``.

        >>> history.diff(history.runs()["finished_at"].iloc[0]).counts.columns.tolist()
        ['what', 'n']
        """
        _check(kind, KINDS, "kind")
        moment = self._moment()
        after, until = self._span(a, b, moment)
        upto = moment.upto
        given = {"kind": kind, "after": after, "until": until, "upto": upto}
        things = analysis.diff(frame(self._ask(queries.DIFF, ("changes",), given)))
        asked = {"kind": kind, "as_of": after, "upto": upto}
        known = self._ask(queries.KNOWN, ("changes",), asked)["n"][0].as_py()
        before = self._log(kind, (), LONG_AGO, after, upto)
        opened = int(
            (
                before["n"]
                * (analysis.is_open(before["status"]) * 1 - analysis.is_open(before["prev_status"]))
            ).sum()
        )
        moved = self._log(kind, (), after, until, upto).assign(at=pd.Timestamp(until))
        why = analysis.changes(moved, after, until, open_before=opened)
        still = int(known - things["before"].notna().sum())
        return Diff(things, analysis.diff_counts(things, still), why, after, until)

    def time_to_removal(
        self, by: str | None = "site", *, as_of: When = None, left_censored: bool = False
    ) -> pd.DataFrame:
        """How long records stay open, and how often for ever: Kaplan-Meier, in days.

        Args:
            by: ``site``, or None for all together.
            as_of: A day, and no instant in it: durations are told in days. None, or a later one: the last look's day.
            left_censored: Whether records that were open at the first look count, as if they had begun then.

        Returns:
            As `analysis.time_to_removal`: ``n``, ``removed``, ``open``, ``median_days`` and ``never`` with intervals.

        Raises:
            NotFound: Nothing was seen by then.
            InvalidArgument: ``as_of`` is an instant.

        >>> history.time_to_removal(by=None).columns.tolist()[:2]
        ['n', 'removed']
        """
        _check(by, (None, "site"), "by")
        return analysis.time_to_removal(self._life_table(by, as_of), by=by, left_censored=left_censored)

    def survival(
        self, by: str | None = None, *, as_of: When = None, left_censored: bool = False
    ) -> pd.DataFrame:
        """The curve behind `time_to_removal`: the share of records open after so many days, with its band.

        Args:
            by: ``site``, or None for all together.
            as_of: A day, as of `time_to_removal`.
            left_censored: Likewise.

        Returns:
            As `analysis.survival`.

        Raises:
            NotFound: Nothing was seen by then.
            InvalidArgument: ``as_of`` is an instant.

        >>> "survival" in history.survival().columns
        True
        """
        _check(by, (None, "site"), "by")
        return analysis.survival(self._life_table(by, as_of), by=by, left_censored=left_censored)

    def relistings(self, as_of: When = None) -> pd.DataFrame:
        """Records that were listed again after they were removed, or had vanished.

        Args:
            as_of: An instant, or a day (until its end, UTC), by which that was seen; None: now.

        Returns:
            As `analysis.relistings`: one row each time. ``key`` is what tells the record from others; ``record_id``
            (Int64) is its id; where ids change, the newest that it is known by, and missing where there is none.

        Raises:
            NotFound: Nothing was seen by ``as_of``.

        >>> history.relistings().columns.tolist()[:3]
        ['user_id', 'record_id', 'site']
        """
        moment = self._moment()
        given = {"kind": "record", "upto": moment.upto}
        changes = frame(self._ask(queries.LISTED_AGAIN, ("changes",), given))
        if self._records_by != "id":
            named = self._named(FAR_AHEAD, moment).drop_duplicates(["user_id", "key"], keep="last")
            newest = named[["user_id", "key", "record_id"]].astype({"record_id": "Int64"})
            changes = changes.merge(newest, on=["user_id", "key"], how="left")
        again = analysis.relistings(changes)
        if as_of is None:
            return again
        by = pd.Timestamp(self._until(as_of, moment))
        return again[again["listed_again_at"] <= by].reset_index(drop=True)

    def stale(self, since: When = None) -> pd.DataFrame:
        """Registered people who were not seen well since an instant, longest first; with what went wrong last.

        Args:
            since: An instant, or a day (from its end); None: since the newest run of everyone began.

        Returns:
            As `analysis.stale`: ``user_id``, ``whole_at`` (NaT: never), ``days`` from then until now, ``outcome``,
            ``reason``.

        >>> len(history.stale())
        0
        """
        looks = self.looks()
        newest = looks["started_at"].max() if len(looks) else EPOCH
        border = newest if since is None else parse_time(since, now=self._clock())
        return analysis.stale(self.people(), since=border, until=self._clock())

    def _within(self, table: pd.DataFrame, since: When, until: When) -> pd.DataFrame:
        """The rows of periods that were observed between two times."""
        kept, now = table, self._clock()
        if since is not None:
            begin = parse_time(since, now=now)
            first = begin.replace(hour=0, minute=0, second=0, microsecond=0) if is_day(since) else begin
            kept = kept[kept["at"] >= pd.Timestamp(first)]
        if until is not None:
            kept = kept[kept["at"] <= pd.Timestamp(parse_time(until, now=now))]
        return kept if kept is table else kept.reset_index(drop=True)

    def _things(self, kind: str, as_of: When, moment: Moment, *, status: str) -> pd.DataFrame:
        content = CONTENT_OF[kind]
        given = {"kind": kind, "as_of": self._until(as_of, moment), "upto": moment.upto}
        parts = [*self._by_buckets(queries.things(content), ("changes", content), given)]
        found, table = pa.concat_tables(parts), frames.frame(content, parts)
        standing = found["thing_status"].to_pandas().astype("category").array
        table[status] = standing
        for name in _OF_THINGS:
            table[name] = series(found[name]).array
        return table if len(parts) == 1 else _in_order(table, found)

    def _stood(self, kind: str, until: datetime, moment: Moment, columns: Sequence[str]) -> pd.DataFrame:
        """Every thing as it stood, without what it said."""
        given = {"kind": kind, "as_of": until, "upto": moment.upto}
        return frame(self._ask(queries.stood(columns), ("changes",), given))

    def _record_statuses(self, alerts: pd.DataFrame, as_of: When, moment: Moment) -> Any:
        until = self._until(as_of, moment)
        known = self._stood("record", until, moment, ("user_id", "key", "status")).astype({"key": "Int64"})
        by_id = self._records_by == "id"
        key = alerts["record_id"] if by_id else keys_of(alerts, self._named(until, moment))
        wanted = alerts[["user_id"]].assign(key=key.array)
        return wanted.merge(known, on=["user_id", "key"], how="left")["status"].astype("category").array


def _in_order(table: pd.DataFrame, found: pa.Table) -> pd.DataFrame:
    """Rows of several parts as one question would have ordered them; more text than Arrow sorts may stand there."""
    by = [(name, "ascending") for name in queries.BY_PERSON]
    order = pc.sort_indices(found.select(queries.BY_PERSON), sort_keys=by)
    return table.take(order.to_numpy()).reset_index(drop=True)


def _dated(found: pd.DataFrame) -> pd.DataFrame:
    """When it was seen, as an instant: a day is told by its begin."""
    if "seen_at" in found:
        return found.rename(columns={"seen_at": "at"})
    return found.assign(at=pd.to_datetime(found["day"], unit="D", utc=True).astype("datetime64[us, UTC]"))


def _check(value: Any, allowed: tuple[Any, ...], name: str) -> None:
    if value not in allowed:
        raise InvalidArgument(f"{name} is one of: {', '.join(map(str, allowed))}")
