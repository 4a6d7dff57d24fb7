"""The questions of `analysis`, computed from the tables of a history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from exposurekit import analysis, frames
from exposurekit.analysis import manual_tasks
from exposurekit.analysis.declared_vs_observed import ALLOWANCE_DAYS, FALSE_DISCOVERY_RATE
from exposurekit.analysis.failed_removals import overdue_days, requests, success_rates
from exposurekit.analysis.forecast import ARRIVALS_DAYS, HORIZONS
from exposurekit.analysis.group_codes import Ints
from exposurekit.analysis.plan import PLAN_MINUTES
from exposurekit.analysis.score import total_score
from exposurekit.analysis.selection import Choice, UserIds, select_or_warn, user_ids
from exposurekit.analysis.stalled_sites import stalled_sites
from exposurekit.analysis.status_over_time import Every, since_observed
from exposurekit.analysis.survival import NEVER, is_unrequested
from exposurekit.contract.types import REMOVED, STATUSES
from exposurekit.errors import InvalidArgument
from exposurekit.frames.arrow import texts
from exposurekit.history import sql
from exposurekit.history.annotations import Annotations, PersonalData
from exposurekit.history.diff import Diff
from exposurekit.history.reader import MAX_TIME, AsOf, HistoryReader, cached_answer
from exposurekit.history.storage.schema import KINDS
from exposurekit.text.times import DAY, EPOCH, When, is_day, parse_start, parse_time

_DIFF_TEXTS = ("kind", "site", "before", "after")
_FORECAST_COLUMNS = ("user_id", "site", "status", "first_seen_at", "changed_at", "episode", "left_censored")


@dataclass(frozen=True, slots=True)
class HistoryQueries:
    """Methods of `History` that answer the questions of `analysis`."""

    reader: HistoryReader
    annotations: Annotations

    @property
    def answers(self) -> dict[Any, Any] | None:
        """As of the reader."""
        return self.reader.answers

    def status_over_time(
        self,
        by: str | None = None,
        every: Every = "day",
        *,
        kind: str = "record",
        user: UserIds = None,
        site: Choice = None,
        since: When = None,
        until: When = None,
    ) -> pd.DataFrame:
        """Count the items that had each status at the end of each period, as last observed.

        Args:
            by: None for all together, ``site`` or ``user_id``.
            every: ``run``, ``day``, ``week`` or ``month`` (UTC).
            kind: ``record``, ``link`` or ``alert``.
            user: One id or several; None for everyone. ``table.exposure.chart`` names them below the title.
            site: One site or several, ignoring case; None for all. One without items gives a warning. The chart names them,
                too.
            since: Only periods observed from then on; a day counts from its beginning, so that ``"14d"`` gives the state
                of 14 days ago and every day after. Any time that `diff` takes.
            until: Only periods observed by then; a day counts until its end.

        Returns:
            As `analysis.status_over_time`: one row a period (and group), a column for each status, int64. ``people`` and
            ``unseen`` count the selected users alone.

        Raises:
            NotFound: Nothing was ever observed of one of the users.
            InvalidArgument: ``by``, ``every`` or ``kind`` has another value, ``user`` is not an id, or a time cannot be read.

        >>> history.status_over_time()["total"].tolist()[-1] == len(exposure.records())
        True
        >>> table = history.status_over_time(site="nosy heron", since="7d")
        >>> table.exposure.chart("status_over_time").layout.title.subtitle.text
        'Nosy Heron'
        """
        InvalidArgument.check("kind", kind, KINDS)
        InvalidArgument.check("by", by, (None, "site", "user_id"))
        reader, groups, upto = self.reader, tuple(filter(None, [by])), self.reader.latest().upto
        when = "seen_at" if every == "run" else "day"
        columns = groups if site is None else (*dict.fromkeys((*groups, "site")),)
        transitions = reader.transitions(kind, columns, when, upto, user=user)
        runs = reader.loaded_people(upto, user)
        if site is not None:
            transitions = select_or_warn(transitions, {"site": site})
            if transitions.empty:  # unknown is not zero
                runs = runs.iloc[:0]
        statuses = STATUSES if kind == "record" else (analysis.LISTED,)
        table = analysis.status_over_time(
            _with_instants(transitions), runs, by=by, every=every, statuses=statuses
        )
        table = self._between(table, since, until)
        if user is not None:
            table.attrs["users"] = sorted({*user_ids(user)})
        if site is not None:
            table.attrs["sites"] = sorted(transitions["site"].astype("str").unique())
        return table

    def by_site(self, as_of: When = None, *, kind: str = "record") -> pd.DataFrame:
        """Count items per site and status, the site with most open first.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.
            kind: ``record``, ``link`` (by host) or ``alert``.

        Returns:
            As `analysis.counts`: one row per site, ``open``, the statuses, ``total``, ``vanished``, ``unknown`` (int64).

        Raises:
            NotFound: Nothing was observed by then.

        >>> table = history.by_site()
        >>> int(table["total"].sum()) == len(exposure.records())
        True
        """
        InvalidArgument.check("kind", kind, KINDS)
        latest = self.reader.latest()
        return self._by_site(kind, self.reader.instant(as_of, latest), latest.upto)

    def by_user(self, as_of: When = None) -> pd.DataFrame:
        """Count listings per person and status, the person with most open first: `analysis.by_user`.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.

        Returns:
            The columns of `analysis.by_user`; ``vanished`` and ``unknown`` if there are any.

        Raises:
            NotFound: Nothing was observed by then.

        >>> history.by_user().equals(analysis.by_user(history.records()))
        True
        """
        latest = self.reader.latest()
        columns = ("user_id", "site", "status")
        return analysis.by_user(
            self.reader.last_changes("record", self.reader.instant(as_of, latest), latest, columns)
        )

    def _by_site(self, kind: str, until: datetime, upto: int) -> pd.DataFrame:
        counts = self.reader.transitions(kind, ("site",), "", upto, until=until)
        statuses = STATUSES if kind == "record" else (analysis.LISTED,)
        return analysis.counts(counts, by="site", statuses=statuses)

    def diff(self, since: When, until: When = None, *, kind: str = "record") -> Diff:
        """Compare two instants: what changed, and why the number of open items differs.

        Args:
            since: From: an instant, or a day (from its end; today from its beginning). What was observed at this very instant does not count. Every
                time here may also be ``"14d"``, ``"14 days"``, ``14``, ``"2w"``, ``"3mo"``, ``"1y"``, ``"36h"``, ``"yesterday"`` or
                ``"today"``, back from now; a ``date``, a ``datetime`` or a ``Timestamp``. Without a zone it is UTC.
            until: Until, inclusive: an instant, or a day (until its end); None: the end of the last observed day. A later
                time gives the state as last observed.
            kind: ``record``, ``link`` or ``alert``.

        Returns:
            Changes, counts, by_site, and why, which agree: see `Diff` and `analysis.diff`. The changes of records have
            their ``record_id``, as in `relistings`.

        Raises:
            NotFound: Nothing was observed by ``since``, or by ``until``; or ``since`` is after the last observed day.
            InvalidArgument: ``until`` is before ``since``.

        >>> history.diff(history.runs()["finished_at"].iloc[0]).counts.columns.tolist()
        ['what', 'n']
        """
        InvalidArgument.check("kind", kind, KINDS)
        reader, latest = self.reader, self.reader.latest()
        after, end = reader.span(since, until, latest)
        changes = self._changes(kind, after, end, latest.upto)
        before = self._by_site(kind, after, latest.upto)
        moves = reader.transitions(kind, (), "", latest.upto, after=after, until=end)
        why = analysis.changes(
            moves.assign(at=pd.Timestamp(end)), after, end, open_before=int(before["open"].sum())
        )
        counts = analysis.diff_counts(changes, int(why["open"].iloc[-1]))
        by_site = analysis.diff_by_site(changes, before)
        runs = reader.runs()
        # People without listings were observed, too.
        loaded = runs.loc[runs["finished_at"] <= pd.Timestamp(after), ["whole", "partial"]]
        listed = before[["total", analysis.VANISHED, analysis.UNKNOWN]]
        is_first = not (loaded.to_numpy().any() or listed.to_numpy().any())
        return Diff(changes, counts, by_site, why, after, end, is_first=is_first)

    @cached_answer
    def _changes(self, kind: str, after: datetime, until: datetime, upto: int) -> pd.DataFrame:
        rows = self.reader.frame(sql.DIFF, ("changes",), kind=kind, after=after, until=until, upto=upto)
        # Numbers are sorted here, and texts as numbers: an engine carries all columns along.
        order = np.lexsort([rows[name].to_numpy() for name in ("seq", "key", "user_id")])
        coded = rows.drop(columns="seq").astype(dict.fromkeys(_DIFF_TEXTS, "category"))
        table = analysis.diff(coded.take(order).reset_index(drop=True))
        table = table.assign(**{name: texts(table[name]) for name in _DIFF_TEXTS})
        if kind == "record":
            table.insert([*table].index("key") + 1, "record_id", self._record_ids(table, upto))
        return table

    def _record_ids(self, items: pd.DataFrame, upto: int) -> Any:
        """Return the id of each record, by its key; where ids change, its newest one, missing where there is none."""
        reader = self.reader
        if reader.records_by == "id":
            return items["key"].astype("Int64").array
        names = reader.frame(sql.RECORD_NAMES, ("records",), as_of=MAX_TIME, upto=upto)
        newest = names.drop_duplicates(["user_id", "key"], keep="last")[["user_id", "key", "record_id"]]
        ids = items[["user_id", "key"]].merge(newest, on=["user_id", "key"], how="left")["record_id"]
        return ids.astype("Int64").array

    def time_to_removal(
        self, by: str | None = "site", *, as_of: When = None, left_censored: bool = False
    ) -> pd.DataFrame:
        """Estimate how long records stay open, and how many are never removed: Kaplan-Meier, in days.

        Args:
            by: ``site``, or None for all together.
            as_of: A day, not an instant: durations are in days. None, or a later one: the last observed day.
            left_censored: Whether records that were open at the first load count, as if they had begun then.

        Returns:
            As `analysis.time_to_removal`, in days from the first observation of a record, not from the request
            (`declared_vs_observed` has those): ``n``, ``removed``, ``open``, ``median_days`` and ``never`` with intervals.
            Before ``left_out``: ``requested`` (int64), the removals that were seen pending, as in `failed_removals`.
            Where it is 0 and nothing was removed, nobody may have asked yet, and ``never`` is missing.

        Raises:
            NotFound: Nothing was observed by then.
            InvalidArgument: ``as_of`` is an instant.

        >>> history.time_to_removal(by=None).columns.tolist()[:2]
        ['n', 'removed']
        """
        latest = self.reader.latest()
        life_table = self._life_table(by, as_of, latest)
        table = analysis.time_to_removal(life_table, by=by, left_censored=left_censored)
        until = self.reader.instant(as_of, latest)
        requested = requests(self.reader.transitions("record", ("site",), "", latest.upto, until=until))
        of_group = requested.sum() if by is None else table[by].map(requested).fillna(0).to_numpy()
        table.insert([*table].index("left_out"), "requested", pd.Series(of_group, table.index, dtype="int64"))
        table.loc[is_unrequested(table), [*NEVER]] = np.nan
        return table

    def survival(
        self, by: str | None = None, *, as_of: When = None, left_censored: bool = False
    ) -> pd.DataFrame:
        """Return the curve behind `time_to_removal`: the share of records still open after n days, with its band.

        Args:
            by: ``site``, or None for all together.
            as_of: A day, as in `time_to_removal`.
            left_censored: As in `time_to_removal`.

        Returns:
            As `analysis.survival`.

        Raises:
            NotFound: Nothing was observed by then.
            InvalidArgument: ``as_of`` is an instant.

        >>> "survival" in history.survival().columns
        True
        """
        return analysis.survival(self.life_table(by, as_of=as_of), by=by, left_censored=left_censored)

    def life_table(self, by: str | None = None, *, as_of: When = None) -> pd.DataFrame:
        """Count episodes by age: the life table that `analysis.time_to_removal`, `survival` and `forecast` take.

        Args:
            by: ``site``, or None for all together.
            as_of: A day, not an instant. None, or a later one: the last observed day.

        Returns:
            One row per age, flow and gap: ``days``, ``flow``, ``left_censored``, ``gap_days`` (of an entry: days between
            the run that observed it first and the run before), ``n`` (episodes) and the group.

        Raises:
            NotFound: Nothing was observed by then.
            InvalidArgument: ``by`` has another value, or ``as_of`` is an instant.

        >>> sorted(history.life_table().columns)
        ['days', 'flow', 'gap_days', 'left_censored', 'n']
        """
        return self._life_table(by, as_of, self.reader.latest())

    def _life_table(self, by: str | None, as_of: When, latest: AsOf) -> pd.DataFrame:
        """The life table of a state of the history."""
        InvalidArgument.check("by", by, (None, "site"))
        if as_of is not None and not is_day(as_of):
            raise InvalidArgument("as_of must be a day, such as 2026-11-13: durations are in days")
        until = min(self.reader.instant(as_of, latest), self.reader.instant(None, latest))
        columns = [*filter(None, [by]), "days", "flow", "left_censored", "gap_days"]
        sums = self._episodes(until, latest).groupby(columns, as_index=False)[["n"]].sum()
        return sums[sums["n"] != 0].reset_index(drop=True)

    @cached_answer
    def _episodes(self, until: datetime, latest: AsOf) -> pd.DataFrame:
        """The flows of episodes per site."""
        day = (until - EPOCH) // DAY
        rows = self.reader.frame(sql.life_table(), ("cube",), kind="record", day=day, upto=latest.upto)
        return rows.assign(gap_days=self._gap_days(rows.pop("entry_day").fillna(-1).to_numpy("int64")))

    @cached_answer
    def removal_requests(self, as_of: When = None) -> pd.DataFrame:
        """List the removal requests: when each was made, and when and how it ended, as intervals between two runs.

        A request is a record that was pending removal, or that was removed between two runs.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.

        Returns:
            One row per request: ``user_id``, ``key`` (of the record, int64), ``site``, ``requested_after`` and
            ``requested_at`` (UTC: it was made between these two observations; ``requested_after`` is NaT if it may be
            older than the first one), ``ended_after`` and ``ended_at`` (likewise, when it ended), ``end`` (``removed``, ``vanished``,
            ``unknown``, or ``discovered``: it was refused, or not carried out in the usual time; missing: still pending), ``observed_until``
            (start of the last complete load of its person; NaT: none).

        Raises:
            NotFound: Nothing was observed by then.

        >>> history.removal_requests().columns.tolist()[:4]
        ['user_id', 'key', 'site', 'requested_after']
        """
        reader, latest = self.reader, self.reader.latest()
        at = reader.instant(as_of, latest)
        rows = reader.frame(sql.REMOVAL_REQUESTS, ("changes",), kind="record", as_of=at, upto=latest.upto)
        is_at_once = (rows["status"] == REMOVED).to_numpy("bool")
        # Who was not observed before may have been waiting already.
        is_resumed = rows["prev_status"].isin((analysis.VANISHED, analysis.UNKNOWN)).to_numpy("bool")
        people = reader.people().set_index("user_id")["last_complete_at"]
        starts = reader.collection_runs()["started_at"]
        last = starts[starts <= pd.Timestamp(at)].max()
        return pd.DataFrame(
            {
                "user_id": rows["user_id"],
                "key": rows["key"],
                "site": rows["site"],
                "requested_after": rows["not_before"].mask(is_resumed),
                "requested_at": rows["seen_at"],
                "ended_after": rows["next_after"].mask(is_at_once, rows["not_before"]),
                "ended_at": rows["next_at"].mask(is_at_once, rows["seen_at"]),
                "end": rows["next_status"].mask(is_at_once, REMOVED).astype("str"),
                "observed_until": people.reindex(rows["user_id"]).reset_index(drop=True).clip(upper=last),
            }
        )

    def declared_vs_observed(
        self,
        as_of: When = None,
        *,
        allowance_days: float = ALLOWANCE_DAYS,
        false_discovery_rate: float = FALSE_DISCOVERY_RATE,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """Compare the days to removal with those that sites declare: `analysis.declared_vs_observed`.

        The declared days are those of `declare_days`.

        Args:
            as_of: An instant, or a day (until its end, UTC), by which requests were observed; None: now. Declared days are
                the newest.
            allowance_days: Days that the service may take to verify a removal.
            false_discovery_rate: The expected share of the sites in ``takes_longer`` that in truth do not, at most.
            level: Confidence level of the intervals.

        Raises:
            NotFound: Nothing was observed by then.
            InvalidArgument: A number is out of range.

        >>> history.declared_vs_observed().columns.tolist()[:2]
        ['site', 'declared_days']
        """
        return analysis.declared_vs_observed(
            self.removal_requests(as_of),
            self.reader.declared_days(),
            allowance_days=allowance_days,
            false_discovery_rate=false_discovery_rate,
            level=level,
        )

    @cached_answer
    def relistings(self, as_of: When = None) -> pd.DataFrame:
        """List the records that were listed again after they were removed, or had vanished.

        Args:
            as_of: An instant, or a day (until its end, UTC), by which that was observed; None: now.

        Returns:
            As `analysis.relistings`: one row per relisting. ``key`` identifies the record; ``record_id`` (Int64) is its
            id; where ids change, its newest one, missing where there is none. Last, ``status`` (text): that of the
            record at ``as_of``, as in `records`.

        Raises:
            NotFound: Nothing was observed by ``as_of``.

        >>> history.relistings().columns.tolist()[:3]
        ['user_id', 'record_id', 'site']
        """
        reader, latest = self.reader, self.reader.latest()
        changes = reader.frame(sql.RELISTED, ("changes",), kind="record", upto=latest.upto)
        if reader.records_by != "id":
            changes = changes.assign(record_id=self._record_ids(changes, latest.upto))
        if as_of is not None:
            changes = changes[changes["seen_at"] <= pd.Timestamp(reader.instant(as_of, latest))]
        last = changes.drop_duplicates(["user_id", "key"], keep="last")[["user_id", "key", "status"]]
        return analysis.relistings(changes).merge(
            last.astype({"status": "str"}), on=["user_id", "key"], how="left"
        )

    def stale(self, since: When = None) -> pd.DataFrame:
        """List registered people without a full load since an instant, longest first, with the last error.

        Args:
            since: An instant, or a day (from its end); None: since the newest run of everyone began.

        Returns:
            As `analysis.stale`: ``user_id``, ``last_complete_at`` (NaT: never), ``days`` from then until now (missing:
            never, or the clock was ahead then), ``outcome``, ``reason``.

        >>> len(history.stale())
        0
        """
        now = self.reader.clock()
        started = self.reader.collection_runs()["started_at"]
        begin = _newest(started, now) if since is None else parse_start(since, now=now)
        return analysis.stale(self.reader.people(), since=begin, until=now)

    def coverage(self) -> pd.DataFrame:
        """Count people by the time since their last full load: `analysis.coverage`.

        >>> int(history.coverage()["people"].sum()) == len(exposure.users())
        True
        """
        return analysis.coverage(self.reader.people(), at=self.reader.clock())

    def site_health(self, as_of: When = None) -> pd.DataFrame:
        """Flag sites that may be unreadable: `analysis.site_health`.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.

        >>> history.site_health().columns.tolist()[0]
        'site'
        """
        at = self.reader.clock() if as_of is None else self.reader.instant(as_of)
        return analysis.site_health(self.reader.records(as_of), at=at)

    def missed(
        self,
        as_of: When = None,
        *,
        others: Mapping[str, pd.DataFrame] | None = None,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """Estimate how many listings no way of finding found: `analysis.missed`, of all that was ever observed.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.
            others: What was found in other ways, by their names: tables with ``user_id`` and ``url`` or
                ``href``.
            level: Confidence level of the interval.

        Raises:
            NotFound: Nothing was observed by then.
            MissingColumns: A table lacks a column.

        >>> history.missed()["ways"].tolist()[-1]
        'missed'
        """
        records, links = self.reader.records(as_of), self.reader.links(as_of)
        return analysis.missed(records, links, others=others, level=level)

    def score(self, as_of: When = None, *, weights: Mapping[str, float] | None = None) -> pd.DataFrame:
        """Score how exposed each person is, in points: `analysis.score`.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.
            weights: Replacements for some of `analysis.WEIGHTS`.

        Raises:
            NotFound: Nothing was observed by then.
            InvalidArgument: A weight is invalid.

        >>> history.score().columns.tolist()
        ['user_id', 'listings', 'pages', 'of_listings', 'of_pages', 'score']
        """
        latest = self.reader.latest()
        at, columns = self.reader.instant(as_of, latest), ("user_id", "status")
        # Statuses are enough: what was listed, such as names and pages, is most of a history.
        records, links = (self.reader.last_changes(kind, at, latest, columns) for kind in ("record", "link"))
        return analysis.score(records, links.rename(columns={"status": "presence"}), weights=weights)

    def score_changes(
        self, a: When, b: When = None, *, weights: Mapping[str, float] | None = None
    ) -> pd.DataFrame:
        """Explain why the total score changed between two instants: `analysis.score_changes`.

        Args:
            a: From: an instant, or a day (from its end).
            b: Until, as in `diff`.
            weights: As in `score`.

        Raises:
            NotFound: As in `diff`.
            InvalidArgument: ``b`` is before ``a``, or a weight is invalid.

        >>> history.score_changes(history.runs()["finished_at"].iloc[0]).columns.tolist()
        ['cause', 'points', 'score']
        """
        kinds, latest = ("record", "link"), self.reader.latest()
        after, until = self.reader.span(a, b, latest, ("a", "b"))
        parameters = {"after": after, "until": until, "upto": latest.upto}
        records, links = (
            analysis.diff(self.reader.frame(sql.NET_DIFF, ("changes",), kind=kind, **parameters))
            for kind in kinds
        )
        moves = (self.reader.transitions(kind, (), "", latest.upto, until=after) for kind in kinds)
        before = total_score(*moves, weights=weights)
        return analysis.score_changes(records, links, score_before=before, weights=weights)

    def forecast(
        self,
        days: int | Sequence[int] = HORIZONS,
        *,
        as_of: When = None,
        arrivals_days: int = ARRIVALS_DAYS,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """Forecast how many records will be open, including those of people who will register: `analysis.forecast`.

        Args:
            days: One horizon in days, or several, counted from that day.
            as_of: A day, not an instant: the forecast as of then. None: the last observed day.
            arrivals_days: The number of days before it over which new records are counted.
            level: The level of the interval.

        Returns:
            The table of `analysis.forecast`. Its ``attrs["past"]`` has the number of open records so far, for the chart:
            pairs of days (negative, before ``as_of``) and records, oldest first, from the first run that observed anybody.

        Raises:
            NotFound: Nothing was observed by then.
            InvalidArgument: ``as_of`` is an instant, or ``days`` or ``level`` is invalid.

        >>> history.forecast(days=[30]).columns.tolist()[:2]
        ['days', 'open_now']
        """
        reader, latest = self.reader, self.reader.latest()
        at = reader.instant(as_of, latest)
        table = analysis.forecast(
            reader.last_changes("record", at, latest, _FORECAST_COLUMNS),
            self.life_table("site", as_of=as_of),
            self.relistings(as_of),
            people=reader.frame(sql.WATCHED, ("load_issues", "runs"), as_of=at, upto=latest.upto),
            runs=reader.runs(),
            at=at,
            days=days,
            arrivals_days=arrivals_days,
            level=level,
        )
        over_time = since_observed(self.status_over_time(every="run", until=as_of))
        before = (over_time["period"] - at).dt.total_seconds() / 86_400
        table.attrs["past"] = [*zip(before.round(3).tolist(), over_time["open"].tolist(), strict=True)]
        return table

    def steps(self, as_of: When = None, *, exposure: PersonalData | None = None) -> pd.DataFrame:
        """List the manual opt-out steps and their ticks: one row per step of each alert that is listed.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now. Ticks are always the newest.
            exposure: An `Exposure`, for who each listing is about and what to enter, which a history does not store.

        Returns:
            The columns of `Exposure.steps` (``person`` and ``form_values`` are missing without ``exposure``),
            ``first_seen_at`` (of the alert) and those of `with_ticks`.

        Raises:
            NotFound: Nothing was observed by then.

        Source: specification, "Alert".

        >>> history.steps().columns.tolist()[-4:]
        ['tick', 'tick_note', 'ticked_at', 'label']
        """
        alerts = self.reader.alerts(as_of)
        listed = alerts[alerts["presence"] == analysis.LISTED].reset_index(drop=True)
        listed = manual_tasks.without_people(listed) if exposure is None else exposure.with_people(listed)
        return self.annotations.with_ticks(frames.steps_from_alerts(listed, beside=("first_seen_at",)))

    def work_queue(self, as_of: When = None, *, exposure: PersonalData | None = None) -> pd.DataFrame:
        """Order the manual removals that are left by expected removals per minute: `analysis.work_queue`.

        Listings and pages labelled ``not mine`` are left out. `stalled_sites` come later. Success rates are those of `success_rates`,
        and minutes those of `step_minutes`, where there are any, and else assumed.

        Args:
            as_of: As in `steps`: what was listed then, with the newest ticks.
            exposure: An `Exposure`, for ``person`` and ``form_values``, which are missing without it.

        >>> "items_per_minute" in history.work_queue().columns
        True
        """
        return analysis.work_queue(self.steps(as_of, exposure=exposure), **self.site_experience(as_of))

    def site_experience(self, as_of: When = None) -> dict[str, Any]:
        """Return what is known of sites, as keywords of `analysis.work_queue`.

        Args:
            as_of: As in `work_queue`.

        >>> [*history.site_experience()]
        ['stalled', 'success_rates', 'step_minutes']
        """
        return {
            "stalled": self.stalled_sites(as_of),
            "success_rates": self.success_rates(as_of),
            "step_minutes": self.annotations.minutes_by_site(),
        }

    def success_rates(self, as_of: When = None) -> dict[str, float]:
        """Return the expected share of requests that succeed, by site: see `exposurekit.analysis.failed_removals`.

        >>> all(0 < rate < 1 for rate in history.success_rates().values())
        True
        """
        latest = self.reader.latest()
        if latest.first_at is None:
            return {}
        return success_rates(self.removal_requests(as_of), at=self.reader.instant(as_of, latest))

    def plan(
        self,
        minutes: float = PLAN_MINUTES,
        as_of: When = None,
        *,
        exposure: PersonalData | None = None,
    ) -> pd.DataFrame:
        """Choose the manual removals with the most expected removals within some minutes: `analysis.plan`.

        Args:
            minutes: The time there is.
            as_of: As in `work_queue`.
            exposure: As in `work_queue`; with it, alerts that lack a required value are left out.

        >>> history.plan(minutes=30)["minutes"].sum() <= 30
        np.True_
        """
        return analysis.plan(self.work_queue(as_of, exposure=exposure), minutes)

    def failed_removals(self, as_of: When = None) -> pd.DataFrame:
        """Count per site the removals that failed, were not carried out in the usual time or were undone: `analysis.failed_removals`.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: the end of the last run.

        >>> history.failed_removals().columns.tolist()[:3]
        ['site', 'requested', 'failed']
        """
        reader, latest = self.reader, self.reader.latest()
        at = reader.instant(as_of, latest)
        moves = reader.transitions("record", ("site",), "day", latest.upto, until=at)
        records = reader.last_changes("record", at, latest, ("site", "status", "changed_at"))
        limits = {str(site): days for site, days in overdue_days(self.removal_requests(as_of)).items()}
        return analysis.failed_removals(moves, records, self.relistings(as_of), at=at, overdue_after=limits)

    def site_outcomes(self, as_of: When = None) -> pd.DataFrame:
        """Say for each site what came of the removal requests to it: `analysis.site_outcomes`.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: the end of the last run.

        >>> history.site_outcomes().columns.tolist()[:3]
        ['site', 'verdict', 'open']
        """
        reader, latest = self.reader, self.reader.latest()
        at = reader.instant(as_of, latest)
        return analysis.site_outcomes(
            reader.last_changes("record", at, latest, ("user_id", "site", "status", "changed_at")),
            self.removal_requests(as_of),
            self.relistings(as_of),
            reader.declared_days(),
            at=at,
        )

    def stalled_sites(self, as_of: When = None) -> dict[str, str]:
        """Return the sites that remove nothing, with the reason: see `exposurekit.analysis.work_queue`.

        >>> history.stalled_sites()
        {...}
        """
        latest = self.reader.latest()
        if latest.first_at is None:
            return {}
        until = self.reader.instant(as_of, latest)
        moves = self.reader.transitions("record", ("site",), "day", latest.upto, until=until)
        return stalled_sites(self.removal_requests(as_of), moves, until)

    def precision(self, as_of: When = None) -> pd.DataFrame:
        """Estimate the share of each site's findings that are about the person, from labels: `analysis.precision`.

        Args:
            as_of: An instant, or a day (until its end, UTC), by which they were found; None: now. Labels are the newest.

        >>> history.precision().columns.tolist()[:2]
        ['site', 'mine']
        """
        return analysis.precision(self.annotations.with_labels(self.reader.records(as_of)))

    def _gap_days(self, entry_day: Ints) -> Ints:
        """Return the days from the previous run of everyone to each day; 0 if there is none."""
        finished_at = self.reader.collection_runs()["finished_at"]
        run_days = np.unique(finished_at.to_numpy("datetime64[D]").astype("int64"))
        before = np.searchsorted(run_days, entry_day)
        gaps: Ints = np.where(before > 0, entry_day - np.append(run_days, 0)[before - 1], 0)
        return gaps

    def _between(self, table: pd.DataFrame, since: When, until: When) -> pd.DataFrame:
        if since is None and until is None:
            return table
        now, selected = self.reader.clock(), table
        if since is not None:
            begin = parse_time(since, now=now)
            first = begin.replace(hour=0, minute=0, second=0, microsecond=0) if is_day(since) else begin
            selected = selected[selected["at"] >= pd.Timestamp(first)]
        if until is not None:
            selected = selected[selected["at"] <= pd.Timestamp(parse_time(until, now=now))]
        return selected.reset_index(drop=True)


def _newest(started: "pd.Series[Any]", now: datetime) -> datetime:
    """Return when the newest run began, by sequence number: an earlier run's clock may have been ahead."""
    if started.empty or started.iloc[-1] > now:
        return EPOCH if started.empty else started.iloc[-1]
    newest: datetime = started[started <= now].max()
    return newest


def _with_instants(transitions: pd.DataFrame) -> pd.DataFrame:
    """Add ``at``: the instant of the observation, or the start of its day."""
    if "seen_at" in transitions:
        return transitions.rename(columns={"seen_at": "at"})
    days = pd.to_datetime(transitions["day"], unit="D", utc=True)
    return transitions.assign(at=days.astype("datetime64[us, UTC]"))
