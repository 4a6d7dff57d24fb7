"""Read the tables of a history and run SQL on them, as of the newest run that was ingested."""

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from exposurekit import frames
from exposurekit.analysis import LISTED, manual_tasks
from exposurekit.analysis.selection import Choice, UserIds, select_or_warn, user_ids
from exposurekit.errors import EmptyHistory, InvalidArgument, NotFound, warn
from exposurekit.frames.arrow import array_of, from_arrow
from exposurekit.history import ingest, sql
from exposurekit.history.engines.duckdb import CorruptHistory, DuckDB, Engine, StaleSnapshot
from exposurekit.history.ingest import Run, run_from_row
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.schema import BUCKETS, CONTENT_OF, TABLES, bucket_of, in_parts
from exposurekit.text.times import DAY, EPOCH, When, end_of_day, format_time, parse_start, parse_time

MAX_TRIES = 5
MAX_JOIN_ROWS = 250_000  # joined at a time
_SORTED_AT_ONCE = 2  # columns
MIN_TIME, MAX_TIME = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
MIN_DAY, MAX_DAY = -(2**31), 2**31 - 1

# The columns that identify an alert's record where ids change, the surest first.
_RECORD_COLUMNS = (["record_id"], ["site", "href"], ["site"])
_ALERT_COLUMNS = ("user_id", "alert_number", "record_id", "site", "status", "href", "source_type")
_LISTING_COLUMNS = ("user_id", *manual_tasks.LISTING)
# Why a load of a person was not complete, where no other reason is stored.
_REASONS = {
    "partial": "a scan was running, or not all of the answer was readable",
    "absent": "not in the service's list of users: gone if the next one lacks them, too",
    "unlisted": "not in the service's list of users, twice in a row",
    "missed": "the load ended before this person, or the list of users was incomplete",
    "late": "newer data had arrived before this load",
}
_OBSERVATION_COLUMNS = ("first_seen_at", "changed_at", "not_before", "episode", "left_censored")
# Arrow's default pool retains what it frees, and takes huge pages, which have to be cleared; the system's retains the gaps
# between columns.
_POOL = pa.jemalloc_memory_pool() if "jemalloc" in pa.supported_memory_backends() else pa.system_memory_pool()
if _POOL.backend_name == "jemalloc":
    pa.jemalloc_set_decay_ms(0)  # else it keeps a freed column for a second, while the next ones are sorted
_P = ParamSpec("_P")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class AsOf:
    """The newest run that a question counts, and when the first and the last run ended."""

    upto: int
    first_at: datetime | None
    last_at: datetime | None


class _Answering(Protocol):
    @property
    def answers(self) -> dict[Any, Any] | None:
        """What was answered so far, by method and arguments; None: answers are not stored."""


_Self = TypeVar("_Self", bound=_Answering)


def cached_answer(
    method: Callable[Concatenate[_Self, _P], _Answer],
) -> Callable[Concatenate[_Self, _P], _Answer]:
    """Answer the same question once, for an object with `answers`; a table is returned as a copy that shares its data.

    An argument that is None counts as missing.
    """

    @functools.wraps(method)
    def answer(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> _Answer:
        if self.answers is None:
            return method(self, *args, **kwargs)
        options = tuple(sorted((name, value) for name, value in kwargs.items() if value is not None))
        last = next((n for n in range(len(args), 0, -1) if args[n - 1] is not None), 0)
        key = (method.__qualname__, args[:last], options)
        try:
            result = self.answers[key]
        except KeyError:
            result = self.answers[key] = method(self, *args, **kwargs)
        except TypeError:  # a list of ids
            return method(self, *args, **kwargs)
        return cast("_Answer", result.copy(deep=False)) if isinstance(result, pd.DataFrame) else result

    return answer


@dataclass(frozen=True, slots=True)
class HistoryReader:
    """Reads one history. Where none was begun, every method raises `NotFound`.

    Another process may write meanwhile: each query lists the files again, and is repeated if some of them were deleted.
    With `answers`, the newest run is the same for all questions, and each table is read once.
    """

    store: Store
    engine: Engine
    records_by: str
    clock: Callable[[], datetime]
    max_join_rows: int = MAX_JOIN_ROWS
    answers: dict[Any, Any] | None = field(default=None, repr=False, compare=False)

    # --- tables as they are stored ---

    def runs(self) -> pd.DataFrame:
        """List all ingested runs, in order.

        Returns:
            One row per run: ``seq``, ``run``, ``origin`` (collect or webhook), ``scope``, ``source``, ``started_at``,
            ``finished_at`` (UTC), ``complete`` (the list of users was complete), ``listed`` and, by how they were
            loaded, ``whole``, ``partial``, ``failed``, ``missed``, ``unlisted``, ``late``, ``registered`` (people,
            int64), and the changes, as `diff` counts them: ``new``, ``entered_scope``, ``relisted``, ``changed``
            (also ``removal failed``), ``removed``, ``vanished`` (less those that are verified as removed in this run),
            ``left_scope`` (records), ``links_new``, ... (int64), ``deliveries``.

        >>> history.runs()["origin"].unique().tolist()
        ['collect']
        """
        return self.frame(sql.RUNS, ("runs",), upto=self.latest().upto)

    @cached_answer
    def collection_runs(self) -> pd.DataFrame:
        """List the runs that loaded everyone, in order: the rows of `runs` that say who is listed and who is not.

        >>> history.collection_runs()["run"].tolist() == history.runs()["run"].tolist()
        True
        """
        return from_arrow(self._until_latest(ingest.collection_runs(self.store)))

    def last_run(self) -> Run:
        """Return the newest run.

        Raises:
            EmptyHistory: The history has no run, or does not exist.

        >>> history.last_run().failed
        0
        """
        runs = self._until_latest(self.store.rows("runs"))
        rows = runs.sort_by([("seq", "descending")]).slice(0, 1).to_pylist()
        if not rows:
            raise EmptyHistory("This history is empty: call collect() first")
        return run_from_row(rows[0])

    @cached_answer
    def n_registered(self) -> int:
        """Count the people who are registered now; one whom a single run did not list still is."""
        return int(self.frame(sql.REGISTERED, ("people",))["n"].iloc[0])

    def people(self) -> pd.DataFrame:
        """List all people who were ever in a run: ``user_id``, ``listed``, ``last_complete_at`` (start of the last full load), ...

        >>> bool(history.people()["listed"].all())
        True
        """
        people = self.frame(sql.PEOPLE, ("people",))
        return people.assign(reason=_reasons(people, "outcome"))

    def load_issues(self) -> pd.DataFrame:
        """List who was not loaded in full, or was new, per run: ``seq``, ``user_id``, ``what``, ``error``, ``reason``.

        ``partial``: a scan was running, or part of the answer was not readable. ``absent``: not in the service's list of
        users; ``unlisted``: for the second time. ``missed``: the load ended before. ``late``: newer data had arrived.
        ``duplicate``: the person was loaded, and records of one id (or site and reference) were listed more than once;
        the first entry of each counts.

        >>> "registered" in set(history.load_issues()["what"])
        True
        """
        issues = self.frame(sql.LOAD_ISSUES, ("load_issues",), upto=self.latest().upto)
        return issues.assign(reason=_reasons(issues, "what"))

    def changes(self) -> pd.DataFrame:
        """List every status change that was observed; all other tables over time derive from these rows.

        Returns:
            ``seq``, ``seen_at``, ``day``, ``kind``, ``user_id``, ``key``, ``site``, ``status``, ``prev_status`` (missing:
            observed for the first time), ``episode``, ``episode_at``, ``open_s``, ``not_before``, ``left_censored``.

        >>> history.changes()["kind"].unique().tolist()
        ['alert', 'link', 'record']
        """
        return self.frame(sql.CHANGES, ("changes",), upto=self.latest().upto)

    def deliveries(self) -> pd.DataFrame:
        """List every webhook delivery that was ingested: ``seen_at``, ``user_id``, ``events``, ``others`` (JSON), ...

        >>> len(history.deliveries())
        0
        """
        return self.frame(sql.DELIVERIES, ("deliveries",), upto=self.latest().upto)

    def site_names(self) -> pd.DataFrame:
        """List the sites that are called by another name in every answer: ``site`` (as observed) and ``name``.

        >>> history.site_names().columns.tolist()
        ['site', 'name']
        """
        self.store.check_exists()
        names = self._names()
        columns = {"site": pa.array(names, pa.string()), "name": pa.array(names.values(), pa.string())}
        return from_arrow(pa.table(columns))

    def declared_days(self) -> pd.DataFrame:
        """List the days that sites declare to need for a removal: ``site``, ``declared_days``, ``source``, ``declared_at``.

        >>> history.declared_days().columns.tolist()
        ['site', 'declared_days', 'source', 'declared_at']
        """
        rows = self.frame(sql.DECLARED_DAYS, ("declared_days",))
        newest = rows.assign(name=rows["site"].str.casefold()).drop_duplicates("name", keep="last")
        newest = newest.dropna(subset="declared_days").sort_values("name", ignore_index=True)
        return newest[["site", "declared_days", "source", "declared_at"]]

    # --- records, links and alerts at an instant ---

    def records(
        self,
        as_of: When = None,
        *,
        user: UserIds = None,
        site: Choice = None,
        status: Choice = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """List every record ever observed, at its status then: the columns of `Exposure.records` and when it changed.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.
            user: One id or several; None for everyone.
            site: One site or several, ignoring case; None for all. One without records gives a warning.
            status: One status or several, ignoring case; ``"open"`` for every open one.
            columns: Those of `Exposure.records` to read besides ``user_id``, ``site`` and ``status``, which takes less time and memory; None: all.

        Returns:
            One row per record. ``status`` may also be ``vanished`` (was open, no longer listed, removal not verified) or
            ``unknown`` (its person is no longer registered); ``first_seen_at``, ``changed_at`` and ``not_before`` (the
            change came after ``not_before`` and by ``changed_at``; NaT: unknown), ``episode``, ``left_censored`` (open
            already at the first load, so for longer than is known).

        Raises:
            NotFound: Nothing was observed by then, or ever of one of the users.
            InvalidArgument: There is no such column.

        Source: specification, "Record".

        >>> history.records()["status"].isin(["discovered", "pending removal", "removed"]).all()
        np.True_
        >>> {*history.records(status="open")["status"]} <= {"discovered", "pending removal"}
        True
        """
        latest, only = self.latest(), _checked("records", columns, ("user_id", "site", "status"))
        if user is None or site is not None or status is not None:
            table = self._items("record", self.instant(as_of, latest), latest, only).drop(columns="key")
            return self._selected(table, latest, user, site=site, status=status)
        selected = self._user_table(user, latest.upto)
        return self._items("record", self.instant(as_of, latest), latest, only, selected).drop(columns="key")

    def links(self, as_of: When = None, *, user: UserIds = None, contains: Choice = None) -> pd.DataFrame:
        """List every link ever observed: the columns of `Exposure.links`, ``presence`` (listed, vanished or unknown), when.

        ``contains`` selects pages with one kind of data or any of several, as in `Exposure.links`.

        Raises:
            NotFound: Nothing was observed by then, or ever of one of the users.

        >>> history.links().columns.tolist()[:5]
        ['user_id', 'url', 'title', 'contains', 'presence']
        """
        latest = self.latest()
        table = self._items("link", self.instant(as_of, latest), latest).drop(columns="key")
        return self._selected(table, latest, user, contains=contains)

    def alerts(
        self,
        as_of: When = None,
        *,
        user: UserIds = None,
        site: Choice = None,
        status: Choice = None,
        source_type: Choice = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """List every alert ever observed: the columns of `Exposure.alerts`, ``presence`` (listed, vanished, unknown), when.

        ``person`` and ``form_values`` are not there: a history does not store what people have on file.
        ``status`` is the record's status then (NaN: the alert is about a link, or, where ids change, its record is
        ambiguous). ``alert_number`` numbers a person's listed alerts from 0, as `Exposure.alerts` does if the service lists
        new alerts last; those that are no longer listed follow.
        Alerts that a service repeats word for word about one item are one alert here, and several in `Exposure.alerts`.
        ``html`` is the service's markup, unsanitized. ``columns`` are those of the alert itself to read besides what
        identifies it, which takes less time and memory; None: all. The other arguments select rows, as in `Exposure.alerts`.

        Raises:
            NotFound: Nothing was observed by then, or ever of one of the users.
            InvalidArgument: There is no such column.

        >>> history.alerts()["presence"].unique().tolist()
        ['listed']
        """
        latest, only = self.latest(), _checked("alerts", columns, _ALERT_COLUMNS)
        table = self._alerts(self.instant(as_of, latest), latest, only)
        return self._selected(table, latest, user, site=site, status=status, source_type=source_type)

    @cached_answer
    def _alerts(self, until: datetime, latest: AsOf, only: tuple[str, ...] | None) -> pd.DataFrame:
        """Return every alert, or some columns of it, with its record's."""
        alerts = self._items("alert", until, latest, only).drop(columns="key")
        users = alerts["user_id"].to_numpy()
        numbers = np.arange(len(users)) - np.searchsorted(users, users)
        # What an alert repeats of its record may be older than the record.
        keyed = alerts.assign(alert_number=numbers, key=self._record_keys(alerts, until, latest))
        keys = keyed[["user_id", "key"]].dropna().drop_duplicates().astype("int64")
        selected = pa.table({name: pa.array(keys[name]) for name in ("user_id", "key")})
        records = self._items("record", until, latest, _LISTING_COLUMNS, selected)
        listing = (*manual_tasks.LISTING, "status")
        table = manual_tasks.with_listings(keyed.drop(columns="status"), records, by="key", columns=listing)
        table["status"] = table["status"].cat.remove_unused_categories()
        return table[[*alerts.columns, *manual_tasks.LISTING]]

    def last_changes(self, kind: str, until: datetime, latest: AsOf, columns: Sequence[str]) -> pd.DataFrame:
        """Return the last change of every item of a kind by an instant, without the item's content.

        If the items were read before, it is theirs: sites and statuses are then categories.
        """
        for (name, arguments, _), answer in [*(self.answers or {}).items()]:
            is_of_items = name == HistoryReader._items.__qualname__ and arguments[:3] == (kind, until, latest)
            is_of_items = is_of_items and len(arguments) < 5  # noqa: PLR2004  the fifth selects some items
            if is_of_items and {*columns} <= {*answer}:
                items: pd.DataFrame = answer[[*columns]]
                return items
        text = sql.last_changes(self.statuses(kind, latest), columns)
        return self.frame(text, ("changes",), kind=kind, as_of=until, upto=latest.upto)

    def record_names(self, until: datetime, latest: AsOf) -> pd.DataFrame:
        """Return the ids, sites and pages that every record had by an instant."""
        return self.frame(sql.RECORD_NAMES, ("records",), as_of=until, upto=latest.upto)

    # --- transitions: how many items went from which status to which ---

    def transitions(
        self,
        kind: str,
        by: tuple[str, ...],
        when: str,
        upto: int,
        *,
        user: UserIds = None,
        after: datetime | None = None,
        until: datetime | None = None,
    ) -> pd.DataFrame:
        """Count the transitions of items of a kind, from the daily sums where these suffice.

        They are grouped by the columns ``by`` and, if it is not empty, by ``when``: ``day`` or ``seen_at``. They were
        observed after one instant and by another, in the runs up to ``upto``.
        """
        are_days = all(at is None or at == end_of_day(at.date()) for at in (after, until))
        if user is None and are_days and when != "seen_at" and "user_id" not in by:
            days = (MIN_DAY if after is None else _day(after), MAX_DAY if until is None else _day(until))
            text = sql.transitions(by, when=when)
            return _merged(self.frame(text, ("cube",), kind=kind, after=days[0], until=days[1], upto=upto))
        inline = {} if user is None else {"selected": self._user_table(user, upto)}
        buckets = {bucket_of(one) for table in inline.values() for one in table["user_id"].to_pylist()}
        text = sql.transitions(by, table="changes", when=when, buckets=buckets)
        parameters = {"kind": kind, "after": after or MIN_TIME, "until": until or MAX_TIME, "upto": upto}
        if not inline:
            return _merged(self.frame(text, ("changes",), **parameters))
        return _merged(from_arrow(self.query(text, ("changes",), parameters, **inline)))

    def loaded_people(self, upto: int, user: UserIds = None) -> pd.DataFrame:
        """Count, for each run of everyone, the people it had to load, and of these the ones not loaded completely."""
        if user is None:
            return self.frame(sql.COLLECTION_RUNS, ("runs",), upto=upto)
        selected, names = self._user_table(user, upto), ("runs", "load_issues")
        return from_arrow(self.query(sql.COLLECTION_RUNS_OF_USERS, names, {"upto": upto}, selected=selected))

    # --- SQL and instants ---

    def query(
        self,
        text: str,
        names: tuple[str, ...],
        parameters: Mapping[str, Any] | None = None,
        *,
        engine: Engine | None = None,
        **inline: pa.Table,
    ) -> pa.Table:
        """Run a query over some tables; queries that belong together get the same ``upto``.

        Sites have their newest names in the column ``site``, so rows that were grouped by it may have to be merged.
        """
        engine = engine or self.engine
        self.store.check_exists()
        values = dict(parameters or {})
        if ":upto" in text and "upto" not in values:
            values["upto"] = self.latest().upto
        for _ in range(MAX_TRIES):
            with contextlib.suppress(StaleSnapshot):
                files = self.store.snapshot(*names)
                if "low" in values:
                    files = {name: one.within(values["low"], values["high"]) for name, one in files.items()}
                return self._renamed(engine.ask(text, files | inline, values))
        raise CorruptHistory  # nobody vacuums that often

    @cached_answer
    def frame(self, /, text: str, names: tuple[str, ...], **parameters: Any) -> pd.DataFrame:
        """Run a query, as `query` does, and return the rows as pandas."""
        return from_arrow(self.query(text, names, parameters))

    def query_by_buckets(
        self, text: str, names: tuple[str, ...], parameters: Mapping[str, Any], **inline: pa.Table
    ) -> Iterator[pa.Table]:
        """Run a query bucket range by bucket range (parameters ``low`` and ``high``), so that each join fits in memory."""

        def ask(engine: Engine, part: tuple[int, int]) -> pa.Table:
            low, high = part
            rows = self.query(text, names, {**parameters, "low": low, "high": high}, engine=engine, **inline)
            # The columns of an engine's answer are freed together; of a copy, one at a time.
            return pa.table({name: _copied(rows[name]) for name in rows.column_names})

        users = [pc.unique(one["user_id"]).to_pylist() for one in inline.values()]
        buckets = [bucket_of(user) for one in users for user in one] or ([0] if inline else range(BUCKETS))
        low, high = min(buckets), max(buckets)
        rows = max(map(self._n_rows, names)) * (high - low + 1) // BUCKETS
        parts = in_parts(low, high, rows, self.max_join_rows)
        if len(parts) > 1 and isinstance(self.engine, DuckDB):
            return self.engine.ask_on_each_core(ask, parts)
        return (ask(self.engine, part) for part in parts)

    @cached_answer
    def latest(self) -> AsOf:
        """Return the newest run that counts now, and the period that the history covers."""
        self.store.check_exists()
        runs = self.store.rows("runs")
        if not runs.num_rows:
            return AsOf(0, None, None)
        ends = pc.min_max(runs["finished_at"]).as_py()
        return AsOf(pc.max(runs["seq"]).as_py(), ends["min"], ends["max"])

    def _until_latest(self, runs: pa.Table) -> pa.Table:
        return runs.filter(pc.less_equal(runs["seq"], self.latest().upto))

    def instant(self, when: When, latest: AsOf | None = None) -> datetime:
        """Resolve a time, by which something was observed, to an instant; None: the end of the last observed day.

        Warns if that is a later day: the answer is that of the last one.
        """
        period = latest or self.latest()
        at = self._resolve(when, period)
        if period.last_at is not None and at > end_of_day(period.last_at.date()):
            warn(
                f"Nothing is known of {format_time(at)}: this is the state of {period.last_at:%Y-%m-%d}, "
                "the last day with an observation"
            )
        return at

    def _resolve(self, when: When, period: AsOf, parse: Callable[..., datetime] = parse_time) -> datetime:
        if period.first_at is None or period.last_at is None:
            raise EmptyHistory("This history is empty: call collect() first")
        at = end_of_day(period.last_at.date()) if when is None else parse(when, now=self.clock())
        if at < period.first_at:
            first = f"{period.first_at:%Y-%m-%d %H:%M} UTC"
            raise NotFound(f"Nothing was observed by then: the first run ended at {first}")
        return at

    def span(
        self, a: When, b: When, latest: AsOf, names: tuple[str, str] = ("since", "until")
    ) -> tuple[datetime, datetime]:
        """Resolve two times to the instants between which changes were observed; ``names`` are those of the arguments."""
        after, end = self._resolve(a, latest, parse_start), self._resolve(None, latest)
        until = end if b is None else self._resolve(b, latest)
        if b is not None and until < after:
            first, second = names
            raise InvalidArgument(
                f"{first} ({format_time(after)}) is after {second} ({format_time(until)}): pass the earlier time first"
            )
        if after > end:
            raise NotFound(
                f"Nothing was observed after {latest.last_at:%Y-%m-%d %H:%M} UTC, the end of the last run"
            )
        return after, until

    def _renamed(self, table: pa.Table) -> pa.Table:
        if "site" not in table.column_names or not (names := self._names()):
            return table
        position = pc.index_in(table["site"], pa.array(names, pa.string()))
        newest = pa.array(names.values(), pa.string()).take(position)
        column = table.column_names.index("site")
        return table.set_column(column, table.schema.field("site"), pc.coalesce(newest, table["site"]))

    def _names(self) -> dict[str, str]:
        """Return the newest name of each renamed site; a site that got its old name back does not count."""
        names: dict[str, str] = {}
        by = [(name, "ascending") for name in TABLES["site_names"].names]
        for row in self.store.rows("site_names").sort_by(by).to_pylist():
            old, new = row["site"], row["name"]
            names = {site: new if name == old else name for site, name in names.items()} | {old: new}
            names = {site: name for site, name in names.items() if site != new}
        return names

    @cached_answer
    def _items(
        self,
        kind: str,
        until: datetime,
        latest: AsOf,
        only: Collection[str] | None = None,
        selected: pa.Table | None = None,
    ) -> pd.DataFrame:
        """Return every item of a kind in order: its content, or some columns of it; its status, when, and its ``key``.

        With ``selected``, only the items with these values of ``user_id``, or of ``user_id`` and ``key``.
        """
        content = CONTENT_OF[kind]
        state = "status" if kind == "record" else "presence"
        named = [column.name for column in frames.TABLES[content] if only is None or column.name in only]
        columns = [name for name in named if name != state]
        rows = _ordered(self._item_rows(kind, until, latest, columns, selected), kind)
        table = frames.frame(content, [rows], only=columns)
        table[state] = _statuses(rows)
        for name in (*_OBSERVATION_COLUMNS, "key"):
            table[name] = array_of(rows[name])
        return table[[*dict.fromkeys((*named, *table))]]

    def _selected(self, table: pd.DataFrame, latest: AsOf, user: UserIds, **choices: Choice) -> pd.DataFrame:
        """Return the rows of some users with some values; a value that does not occur gives a warning."""
        if any(choice is not None for choice in choices.values()):
            table = select_or_warn(table, choices)
        if user is None:
            return table
        ids = self._user_table(user, latest.upto)["user_id"].to_pylist()
        return table[table["user_id"].isin(ids)].reset_index(drop=True)

    def _item_rows(
        self, kind: str, until: datetime, latest: AsOf, columns: Iterable[str], selected: pa.Table | None
    ) -> pa.Table:
        """Return every item of a kind with some columns of its content, in no order."""
        content = CONTENT_OF[kind]
        parameters = {"kind": kind, "as_of": until, "upto": latest.upto}
        named = [f"content.{name}" for name in dict.fromkeys(("key", *columns))]
        inline = {} if selected is None else {"selected": selected}
        keys = [name for table in inline.values() for name in table.column_names]
        text = sql.items(content, self.statuses(kind, latest), named, keys=keys)
        return pa.concat_tables(self.query_by_buckets(text, ("changes", content), parameters, **inline))

    def _n_rows(self, name: str) -> int:
        return sum(rows for _, rows, _ in self.store.sizes(name))

    def statuses(self, kind: str, latest: AsOf) -> list[str]:
        """Return the statuses that the items of a kind ever had; none of a small history, which is queried without them."""
        if self._n_rows("changes") <= self.max_join_rows:
            return []
        return list(self.frame(sql.STATUSES, ("cube",), kind=kind, upto=latest.upto)["status"])

    def _record_keys(self, alerts: pd.DataFrame, until: datetime, latest: AsOf) -> Any:
        """Return the key of each alert's record; missing for a page, and where ids change and it is ambiguous.

        There, it is the record with the alert's ``record_id``, else with its ``site`` and ``href``, else with its ``site``
        alone, if just one had these by then.
        """
        if self.records_by == "id":
            return alerts["record_id"].array
        types = {"record_id": "Int64", "site": "str", "href": "str"}
        names = self.record_names(until, latest).astype(types | {"key": "Int64"})
        items = alerts[["user_id", *types]].astype(types).reset_index(drop=True)
        keys: pd.Series[Any] = pd.Series(pd.NA, index=items.index, dtype="Int64")
        for columns in _RECORD_COLUMNS:
            on = ["user_id", *columns]
            pairs = names[[*on, "key"]].dropna().drop_duplicates()
            unambiguous = pairs.drop_duplicates(on, keep=False)
            keys = keys.fillna(items[on].merge(unambiguous, on=on, how="left")["key"])
        return keys.array

    def _user_table(self, user: UserIds, upto: int) -> pa.Table:
        selected = pa.table({"user_id": pa.array(user_ids(user), pa.int64())})
        rows = self.query(sql.UNOBSERVED_USERS, ("people", "deliveries"), {"upto": upto}, selected=selected)
        if unobserved := rows["user_id"].to_pylist():
            raise NotFound(
                f"Nothing was ever collected about these people: {unobserved}. "
                "history.people() lists the ids; on the command line: exposurekit history show --group-by user_id"
            )
        return selected


def _ordered(rows: pa.Table, kind: str) -> pa.Table:
    """Sort items. If nothing else holds the table, each column is freed as soon as it is sorted."""
    order = _order(rows, kind)
    columns = dict(zip(rows.column_names, rows.columns, strict=True))
    del rows
    names = [*columns]
    with ThreadPoolExecutor(_SORTED_AT_ONCE) as pool:
        taken = pool.map(lambda name: pc.take(columns.pop(name), order, memory_pool=_POOL), names)
        return pa.table(dict(zip(names, taken, strict=True)))


def _order(rows: pa.Table, kind: str) -> pa.Array:
    """The order of some items, alerts of a person as the service has them: listed ones first, then by its list."""
    user, first, key = (rows[name].to_numpy() for name in sql.ITEM_ORDER)
    if kind != "alert":
        return pa.array(np.lexsort([key, first, user]))
    is_gone = pc.not_equal(rows["thing_status"], LISTED).to_numpy()
    return pa.array(np.lexsort([key, rows["alert_number"].to_numpy(), first, is_gone, user]))


def _checked(table: str, columns: Sequence[str] | None, always: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the columns to read of a table; None: all."""
    for name in columns or ():
        InvalidArgument.check("column", name, [column.name for column in frames.TABLES[table]])
    return None if columns is None else (*dict.fromkeys((*always, *columns)),)


def _copied(values: pa.ChunkedArray) -> pa.Array:
    chunks = values.chunks or [pa.array([], values.type)]
    return pa.concat_arrays(chunks, memory_pool=_POOL)  # `combine_chunks` would use Arrow's own pool


def _reasons(people: pd.DataFrame, column: str) -> "pd.Series[str]":
    """Return the reasons, and for outcomes without one what they mean."""
    return people["reason"].astype("str").fillna(people[column].map(_REASONS).astype("str"))


def _statuses(rows: pa.Table) -> pd.Categorical:
    statuses: pd.Categorical = rows["thing_status"].combine_chunks().dictionary_encode().to_pandas().array
    return statuses.set_categories(sorted(statuses.categories))


def _merged(transitions: pd.DataFrame) -> pd.DataFrame:
    """Merge the rows of sites that have one name now."""
    groups = [name for name in transitions if name != "n"]
    if "site" not in groups or not transitions.duplicated(groups).any():
        return transitions
    return transitions.groupby(groups, as_index=False, dropna=False, sort=False)[["n"]].sum()


def _day(at: datetime) -> int:
    return (at - EPOCH) // DAY
