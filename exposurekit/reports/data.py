"""Load the tables that a report's sections declare, each once, from an exposure, a history, or both."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import exposurekit
from exposurekit import analysis, frames
from exposurekit.analysis.data_quality import NOT_MINE
from exposurekit.analysis.declared_vs_observed import request_life_table
from exposurekit.analysis.expected_removals import success_rate
from exposurekit.analysis.failed_removals import decisions
from exposurekit.analysis.forecast import MIN_RATIO
from exposurekit.analysis.manual_tasks import listed_as, missing_values, tasks, with_pages
from exposurekit.analysis.stalled_sites import STALLED_DAYS
from exposurekit.analysis.status_over_time import since_observed
from exposurekit.analysis.step_requirements import NAME_DIFFERS, NEEDS_DOCUMENT
from exposurekit.analysis.work_queue import DONE, UNABLE, actionable
from exposurekit.charts.theme import format_duration
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.frames.arrow import is_in, texts
from exposurekit.frames.person_names import listed_names
from exposurekit.frames.url_columns import hosts
from exposurekit.history import Diff, History
from exposurekit.privacy.pseudonyms import Pseudonyms
from exposurekit.questions import QUESTIONS, Question
from exposurekit.reports.manual_steps import as_to_begin, open_items, removals, whole_minutes
from exposurekit.reports.model import ROWS_MAX, TASKS_MAX, Removal
from exposurekit.reports.share_safe import FEW, HIDDEN_REASON, Sharing, sharing
from exposurekit.text.formatting import pluralize

AHEAD_DAYS = 30  # of the forecast
NEARER_HISTORY_DAYS = (
    45  # from here on, a shorter forecast is offered: before, its interval is too narrow for mixed delays
)
_NAMES = {"first_name", "last_name", "name", "full_name"}  # everybody has these
# Kinds of data by how directly they lead to a person; others come after these, by name.
_DIRECTNESS = ("address", "phone", "email")
_KINDS_MAX = 3
WEEK_DAYS = 7  # of the changes that each figure and the section "week" state, if the history is that old
_SITES_NAMED = 3  # of one person, in a row of a table
# What a report on everyone reads of all records and alerts; `details` has the other columns.
_COLUMNS = {
    "records": ("user_id", "record_id", "site", "name", "href"),
    "alerts": ("source_type", "url", "guide", "opt_out_procedure", "link_url", "link_title"),
}
_IN_DETAIL = {"by_state", "listings"}  # tables for which it reads all columns
LISTED_NAMES = (
    "as most of a person's listings show them, in mixed case where one has it; those on file were not loaded"
)


@dataclass(frozen=True)
class ReportData:
    """The input of a report's sections: plain values, as of one instant.

    Attributes:
        tables: The declared tables by name; None: the source does not have it.
        user: The id of the person that the report is about; None for everyone.
        since: The start of a report on changes.
        as_of: The instant of the newest data.
        first_run_at: The end of the first run that observed anybody; None without a history.
        run_gap: The median number of whole days from one run to the next; None with fewer than two runs, or more than one
            a day.
        week_start: The day from whose end the figures and the section "week" count changes: the last one with an
            observation that is at least `WEEK_DAYS` ago, or else the first; None if nobody was observed on an earlier
            day than the last.
        first_run: The day of the first run, which may have found nobody; None without a history.
        runs: The number of runs; None without a history.
        people: How many people the report is about.
        incomplete: How many of them the newest run did not observe completely.
        unchecked: The open listings of these people.
        is_stopped: Whether the load of an exposure was stopped, so that `incomplete` people were not loaded.
        server: The service that was loaded last.
        names: Names by user id; empty for a share-safe report.
        history_name: The name of the history's directory; empty for a share-safe report.
        records_by: What identifies a record in the history.
        decisions: How many requests each site granted, and decided on, by site.
        has_profiles: Whether the names are those on file; without an exposure they are read from the listings.
        sharing: What a share-safe report may contain; None for a confidential one.
    """

    tables: Mapping[str, pd.DataFrame | None] = field(repr=False)
    user: int | None
    since: datetime | None
    as_of: datetime
    first_run_at: datetime | None
    runs: int | None
    people: int
    incomplete: int
    server: str
    names: Mapping[int, str] = field(repr=False)
    sharing: Sharing | None = None
    has_profiles: bool = True
    week_start: date | None = None
    run_gap: int | None = None
    first_run: date | None = None
    unchecked: int = 0
    is_stopped: bool = False
    history_name: str = ""
    records_by: str = "id"
    decisions: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> pd.DataFrame:
        """Return a declared table that the source has."""
        table = self.tables[name]
        assert table is not None, name  # noqa: S101  the sections ask `tables` where there may be none
        return table

    @cached_property
    def open_records(self) -> pd.DataFrame:
        """The person, site and status of each record that is open."""
        records = self["records"]
        return records.loc[analysis.is_open(records["status"]), ["user_id", "site", "status"]]

    @cached_property
    def record_sites(self) -> list[str]:
        """The sites that have a record, open or not."""
        sites: list[str] = texts(pd.Series(self["records"]["site"].unique())).tolist()
        return sites

    @cached_property
    def open_by_site(self) -> Mapping[str, int]:
        """The number of open listings of each site that has one."""
        counts = self.open_records["site"].value_counts()  # of categories, also of those without a listing
        return {str(site): int(n) for site, n in counts[counts > 0].items()}

    @cached_property
    def open_work(self) -> pd.DataFrame:
        """The manual work that waits."""
        return open_items(self["work_queue"])

    @cached_property
    def namesakes(self) -> Counter[int]:
        """How many listings of the manual work have another name than those on file, by user."""
        listings = np.flatnonzero(self.open_work["site"].notna())
        queue = self.open_work.iloc[listings[:TASKS_MAX]]
        return Counter(
            user
            for user, task in zip(queue["user_id"].tolist(), tasks(queue), strict=True)
            if any(caution.startswith(NAME_DIFFERS) for caution in task.cautions)
        )

    @cached_property
    def manual_work(self) -> tuple[int, int, int, str]:
        """How many items of manual work wait, how many of them are pages or lack a value, and the estimated time.

        A share-safe report does not mention missing values.
        """
        waiting = self.open_work
        blocked = 0 if self.sharing is not None else sum(map(bool, missing_values(waiting)))
        pages = int(waiting["site"].isna().sum())
        return len(waiting), pages, blocked, format_duration(waiting["minutes"].sum())

    @cached_property
    def manual_pages(self) -> pd.DataFrame:
        """The ``url`` and ``label`` of the web pages among the manual work that waits: a row for each person on a page."""
        waiting = self.open_work
        return waiting.loc[waiting["site"].isna(), ["url", "label"]]

    @cached_property
    def manual_listings(self) -> pd.DataFrame:
        """The ``user_id``, ``record_id``, ``site`` and ``success_rate`` of the listings of the manual work that waits, each once."""
        columns = ["user_id", "record_id", "site", "success_rate"]
        listings = self.open_work[columns].dropna(subset="site")
        is_identified = listings["record_id"].notna().all()
        return listings.drop_duplicates(["user_id", "record_id"]) if is_identified else listings

    @cached_property
    def ticked_listings(self) -> tuple[int, int]:
        """How many discovered listings have all their work ticked: as done and not verified yet, or some of it as unable."""
        records, queue = self["records"], self["work_queue"]
        keys = ["user_id", "record_id"]
        if not queue["state"].isin([DONE, UNABLE]).any():
            return 0, 0
        is_discovered = analysis.is_open(records["status"]) & (records["status"] != PENDING_REMOVAL)
        rows = queue.dropna(subset="record_id").merge(records.loc[is_discovered, keys], on=keys)
        flags = {"is_ticked": rows["state"].isin([DONE, UNABLE]), "is_done": rows["state"] != UNABLE}
        listings = rows[keys].assign(**flags).groupby(keys).all()
        ticked = listings[listings["is_ticked"]]
        done = int(ticked["is_done"].sum())
        return done, len(ticked) - done

    @cached_property
    def namesakes_listings(self) -> pd.DataFrame:
        """The open listings that are labelled as somebody else's and have no pending removal."""
        return self._without_work(self._is_of_namesake)

    @cached_property
    def unrecognised_listings(self) -> pd.DataFrame:
        """The open listings without a status, or in one that the specification does not have, with which nobody has work."""
        status = self["records"]["status"]
        is_other = ~status.isin([DISCOVERED, PENDING_REMOVAL]).to_numpy("bool")
        return self._without_work(is_other & ~self._is_of_namesake)

    @cached_property
    def _is_of_namesake(self) -> NDArray[np.bool_]:
        """Whether each record is labelled as somebody else's."""
        return (self["labels"]["label"] == NOT_MINE).to_numpy("bool", na_value=False)

    def _without_work(self, which: NDArray[np.bool_]) -> pd.DataFrame:
        """Those of the open records that are not pending removal, and are not in the work queue."""
        records, queue = self["records"], self["work_queue"]
        is_idle = analysis.is_open(records["status"]) & (records["status"] != PENDING_REMOVAL).to_numpy(
            "bool"
        )
        keys = ["user_id", "record_id"]
        rows = records.loc[is_idle & which, [*keys, "site"]]
        work = queue[keys].dropna().drop_duplicates().astype("int64").assign(is_work=True)
        merged = rows.merge(work, on=keys, how="left")
        return merged[merged["is_work"].isna()]

    @cached_property
    def removals(self) -> tuple[Removal, ...]:
        """The manual work by steps; its items have their keys, but not in a share-safe report."""
        records_by = self.records_by if self.sharing is None else None
        return removals(self["work_queue"], records_by=records_by, limit=TASKS_MAX, as_of=self.as_of.date())

    @property
    def later_work(self) -> int:
        """How many items of the manual work that waits should come later."""
        queue = self.open_work
        return int(queue["reason"].notna().sum()) if "reason" in queue else 0

    @cached_property
    def open_parts(self) -> tuple[int, int, int, int]:
        """The parts of the open listings: to do by hand, ticked or waiting for the service, being removed, and not removed in the usual time.

        A request was not carried out in the usual time if it has been pending for `overdue_days` or more.
        """
        columns = [name for name in ("site", "status", "changed_at") if name in self["records"]]
        records = self["records"].loc[analysis.is_open(self["records"]["status"]), columns]
        is_pending = (records["status"] == PENDING_REMOVAL).to_numpy("bool")
        by_hand = min(len(self.manual_listings), int((~is_pending).sum()))
        is_old = np.zeros(len(records), "bool")
        if "changed_at" in records:
            days = self._days_since(records["changed_at"])
            is_old = is_pending & (days >= self.overdue_days(records["site"])).to_numpy("bool")
        pending, old = int(is_pending.sum()), int(is_old.sum())
        return by_hand, len(records) - pending - by_hand, pending - old, old

    @cached_property
    def person_rows(self) -> pd.DataFrame:
        """The people of `analysis.score`, at most `ROWS_MAX`, in its order, with more of what is known of each.

        Returns:
            ``user_id``, ``score``, ``listings`` and ``pages`` as in `analysis.score`; ``minutes`` (of manual work; not in a
            share-safe report, as they would tell who shares a visit); ``open_sites`` (text: some of the sites with open listings; in a
            share-safe report their number, ``sites``), ``contains`` (lists: kinds of data on the person's web pages),
            ``first_seen_at`` (of the oldest open listing; only with a history), and ``pending removal`` (of the open listings).
        """
        table = self["score"].head(ROWS_MAX)
        ids = table["user_id"]
        records = self["records"]
        listings = records[
            analysis.is_open(records["status"]) & records["user_id"].isin(ids).to_numpy("bool")
        ]
        by_person = listings.groupby("user_id")
        is_pending = listings["status"] == PENDING_REMOVAL
        columns: dict[str, pd.Series[Any]] = {"user_id": ids}
        columns |= {name: table[name] for name in ("score", "listings", "pages")}
        if self.sharing is None:
            minutes = self.open_work.groupby("user_id")["minutes"].sum()
            columns["minutes"] = ids.map(minutes).fillna(0).round().astype("int64")
            columns["open_sites"] = ids.map(_site_names(listings)).astype("str")
        else:
            columns["sites"] = ids.map(by_person["site"].nunique()).fillna(0).astype("int64")
        columns["contains"] = _page_kinds(self["links"], ids)
        if "first_seen_at" in listings:
            oldest = (
                by_person["first_seen_at"].min().reindex(ids)
            )  # times also without any listing; `map` needs some
            columns["first_seen_at"] = oldest.set_axis(ids.index).dt.floor("D")
        columns[PENDING_REMOVAL] = (
            ids.map(is_pending.groupby(listings["user_id"]).sum()).fillna(0).astype("int64")
        )
        return pd.DataFrame(columns)

    @cached_property
    def request_times(self) -> dict[Hashable, Any]:
        """The times to removal from the request, of all sites together."""
        [times] = analysis.time_to_removal(request_life_table(self["removal_requests"]), by=None).to_dict(
            "records"
        )
        return times

    @cached_property
    def requested_before(self) -> tuple[int, int] | None:
        """How many listings of the manual work never had a removal request, and how many had one; None if that is not known."""
        requests = self.tables.get("removal_requests")
        if requests is None or self.manual_listings["record_id"].isna().any():
            return None
        requested = pd.MultiIndex.from_frame(requests[["user_id", "key"]])
        listings = pd.MultiIndex.from_frame(self.manual_listings[["user_id", "record_id"]])
        after = int(listings.isin(requested).sum())
        counts = len(listings) - after, after
        return None if self.sharing is not None and any(0 < n < FEW for n in counts) else counts

    @cached_property
    def waiting_days(self) -> "pd.Series[int]":
        """For how many days each listing that is to be done by hand has been open without a pending removal."""
        records = self["records"]
        if "changed_at" not in records:
            return pd.Series(dtype="int64")
        listings = self.open_work[["user_id", "record_id"]].dropna().drop_duplicates()
        columns = ["user_id", "record_id", "changed_at"]
        waiting = listings.merge(records.loc[records["record_id"].isin(listings["record_id"]), columns])
        return self._days_since(waiting["changed_at"])

    @cached_property
    def longest_gone(self) -> int | None:
        """The most days for which a listing has been removed, or had been when it was listed again; None without any.

        They are those of one listing, so a share-safe report does not have them.
        """
        if self.sharing is not None:
            return None
        records, relistings = self["records"], self.tables.get("relistings")
        days = []
        if "changed_at" in records:
            days.append(self._days_since(records.loc[records["status"] == REMOVED, "changed_at"]))
        if relistings is not None:
            days.append(relistings["gone_days"].dropna().round())
        longest = max((int(one.max()) for one in days if len(one)), default=0)
        return longest or None

    def overdue_days(self, sites: "pd.Series[Any]") -> "pd.Series[Any]":
        """After how many days a pending request to each of these sites is overdue."""
        outcomes = self.tables["site_outcomes"]
        days = {} if outcomes is None else outcomes.set_index("site")["overdue_days"].to_dict()
        codes, names = pd.factorize(sites)  # millions of rows have a few sites
        limits = [*(days.get(str(name), STALLED_DAYS) for name in names), STALLED_DAYS]
        return pd.Series(np.array(limits, "float64")[codes], sites.index)

    @cached_property
    def distinct_pages(self) -> tuple[int, int]:
        """How many different web pages there are, and on how many hosts."""
        urls = self["links"]["url"].dropna().drop_duplicates()
        return len(urls), len({*hosts(urls).unique()} - {""})

    def _days_since(self, instants: "pd.Series[Any]") -> "pd.Series[int]":
        """Calendar days from instants to the newest data."""
        days: pd.Series[int] = (pd.Timestamp(self.as_of).floor("D") - instants.dt.floor("D")).dt.days
        return days

    @property
    def has_form_values(self) -> bool:
        """Whether it is known which required values are on file; a share-safe report does not mention them."""
        return self.has_profiles and self.sharing is None

    @cached_property
    def unchecked_sites(self) -> frozenset[str]:
        """The sites whose manual work requires values of which it is not known whether they are on file."""
        columns = ["site", "user_fields_required_for_removal"]
        if self.has_form_values or not {*columns} <= {*self.open_work}:
            return frozenset()
        required = self.open_work[columns].dropna()
        fields = required["user_fields_required_for_removal"].explode()
        is_needed = fields.notna() & ~fields.isin(_NAMES)
        return frozenset(texts(required["site"]).reindex(fields.index[is_needed].unique()))

    @property
    def is_whole_week(self) -> bool:
        """Whether `week_start` is `WEEK_DAYS` ago: runs may be missing, or the history be younger."""
        return self.week_start == self.as_of.date() - timedelta(days=WEEK_DAYS)

    @property
    def user_label(self) -> str:
        """The person's id or pseudonym."""
        assert self.user is not None  # noqa: S101  the callers check
        return f"user {self.user if self.sharing is None else self.sharing.pseudonym(self.user)}"

    def can_name(self, site: str) -> bool:
        """Whether the report may name a site."""
        return self.sharing is None or site in self.sharing.sites

    @property
    def incomplete_text(self) -> str:
        """How many people the newest run did not observe completely; not exactly in a share-safe report, if they are few."""
        is_hidden = self.sharing is not None and self.user is None and self.incomplete < FEW
        return f"fewer than {FEW}" if is_hidden else f"{self.incomplete:,}"

    @property
    def loaded_people(self) -> str:
        """How many people the report counts, of all if the load was stopped, in words."""
        if not self.is_stopped:
            return pluralize(self.people, "person", "people")
        is_hidden = self.sharing is not None and self.incomplete < FEW
        loaded = "not all" if is_hidden else f"{self.people - self.incomplete:,}"
        return f"{loaded} of {self.people:,} people"

    @property
    def stopped(self) -> str:
        """That the load was stopped, as a sentence; empty if it was not."""
        if not self.is_stopped:
            return ""
        loaded = self.loaded_people
        subject = loaded.capitalize() if loaded.startswith("not") else f"Only {loaded}"
        return f"{subject} were loaded: the load was stopped."

    @property
    def observed(self) -> str:
        """How many of the people the newest run observed completely, in words."""
        if self.user is not None:
            words = "the person, not completely," if self.incomplete else "the person"
        elif self.incomplete and self.sharing is not None:
            words = f"all but {self.incomplete_text} of {self.people:,} people"
        elif self.incomplete:
            words = f"{self.people - self.incomplete:,} of {self.people:,} people completely"
        else:
            words = f"all {self.people:,} people" if self.people != 1 else "the person"
        return words if self.runs is None else f"{words} in the last run"

    def omits_rows(self, table: pd.DataFrame) -> bool:
        """Whether the report omits a table because it has one row per listing or person."""
        is_per_person = "user_id" in (*table.columns, *table.index.names)
        return self.sharing is not None and not self.sharing.has_rows and self.user is None and is_per_person

    @property
    def source_line(self) -> str:
        """The provenance in one line, for charts."""
        provenance = self.provenance()
        names = ("server", "as of", "runs", "people")
        return " · ".join(f"{name} {provenance[name]}" for name in names if name in provenance)

    @property
    def run_dates(self) -> str:
        """From which day to which the runs are, and since when people were observed, if the first run found nobody."""
        if self.first_run is None or self.first_run_at is None:
            return ""
        days = (
            f", {self.first_run} to {self.as_of:%Y-%m-%d}"
            if self.first_run < self.as_of.date()
            else f", on {self.first_run}"
        )
        first = self.first_run_at.date()
        return days if first == self.first_run else f"{days}; people were observed from {first}"

    def provenance(self) -> dict[str, str]:
        """The source of the data: server, instant, runs, people and filters."""
        is_shared = self.sharing is not None
        as_of = f"{self.as_of:%Y-%m-%d}" if is_shared else f"{self.as_of:%Y-%m-%d %H:%M} UTC"
        provenance = {"as of": as_of} if is_shared else {"server": self.server, "as of": as_of}
        if self.runs is not None:
            provenance["runs"] = f"{self.runs:,}{self.run_dates}"
        incomplete = f", {self.incomplete_text} not observed completely" if self.incomplete else ""
        provenance["people"] = (
            f"{self.loaded_people}: the load was stopped"
            if self.is_stopped
            else f"{self.people:,}{incomplete}"
        )
        provenance["observed"] = self.observed
        if self.names and not self.has_profiles:
            provenance["names"] = LISTED_NAMES
        provenance["filters"] = "none" if self.user is None else self.user_label
        return provenance | {"made with": f"exposurekit {exposurekit.__version__}"}


class ReportSource:
    """Loads the tables of one report.

    A table is a question, a table of an exposure (``on_file``, ``failures``), or one of ``records`` (of everyone in a
    history perhaps without most of what they show), ``listings`` (records with all that they show), ``details`` (these, of
    the person with the highest score and of everyone with a relisting), ``links``, ``alerts``
    and ``steps`` (only what is listed, and what may need manual work), ``evidence``, ``counts`` and ``diff_by_site`` (of a `Diff`), ``week`` and ``week_by_site`` (``why``
    and ``by_site`` since `ReportData.week_start`), ``week_before`` (``by_site`` of the same number of days before it),
    ``week_score`` (`History.score_changes` since then), ``removal_of_all`` (`History.time_to_removal` without groups), ``stalled``
    (`History.stalled_sites`), ``site_outcomes`` and ``removal_requests`` (of a history), ``plan`` (`analysis.plan`), ``labels`` (of the records), ``timed_steps`` and ``step_minutes`` (of a history), ``failed_removals`` and ``next_forecast`` (`AHEAD_DAYS` ahead).

    >>> from exposurekit.reports.data import ReportSource
    >>> {*ReportSource(history).load(["by_site", "survival"]).tables}
    {...}
    """

    def __init__(
        self,
        source: Any,
        *,
        exposure: Exposure | None = None,
        user: int | str | None = None,
        since: str | date | datetime | None = None,
        pseudonyms: Pseudonyms | None = None,
        has_rows: bool = True,
        evidence: pd.DataFrame | None = None,
    ) -> None:
        """Create a source; nothing is loaded yet.

        Args:
            source: An `Exposure` or a `History`.
            exposure: The current tables, next to a history: adds what people have on file.
            user: The id of one person, or with an exposure the name, as in `Exposure.users`; None for everyone.
            since: The start of a report on changes.
            pseudonyms: Pseudonyms for a share-safe report; None for a confidential one.
            has_rows: Whether a share-safe report has tables with one row per listing or person.
            evidence: A table of `read_evidence`; None: there is none.

        Raises:
            InvalidArgument: ``source`` is neither an `Exposure` nor a `History`, or has no past to compare with; or
                ``exposure`` is not an `Exposure`, or is not beside a `History`.
        """
        if not isinstance(source, Exposure | History):
            raise InvalidArgument(
                "The source of a report is an Exposure or a History: ek.connect(), ek.History(path), demo.history"
            )
        if not isinstance(exposure, Exposure | None) or (
            isinstance(source, Exposure) and exposure is not None
        ):
            raise InvalidArgument(
                "exposure must be an Exposure, beside a History: ek.report(history, 'report.html', exposure=exposure)"
            )
        self.history = source.pinned() if isinstance(source, History) else None
        self.exposure = source if isinstance(source, Exposure) else exposure
        if since is not None and self.history is None:
            raise InvalidArgument(
                "An exposure has no past. Report changes of a history: ek.report(history, since=...)"
            )
        self.user = self._user_id(user)
        self._since = since
        self._pseudonyms = pseudonyms
        self._has_rows = has_rows
        self._evidence = evidence
        self._tables: dict[str, pd.DataFrame | None] = {}
        self._columns: Mapping[str, tuple[str, ...]] = {}
        self._loaders: dict[str, Callable[[], pd.DataFrame | None]] = {
            "records": lambda: self._of_user(self._everyone("records")),
            "listings": lambda: self._required("records"),
            "details": self._details,
            "evidence": lambda: self._evidence,
            "links": lambda: _listed(self._of_user(self._everyone("links"))),
            "alerts": self._alerts,
            "steps": self._steps,
            "work_queue": self._work_queue,
            "diff": lambda: self._diff.changes,
            "changes": lambda: self._diff.why,
            "counts": lambda: self._diff.counts,
            "diff_by_site": lambda: self._diff.by_site,
            "stalled": lambda: pd.DataFrame(self._stalled.items(), columns=["site", "reason"], dtype="str"),
            "plan": lambda: analysis.plan(self._queue),
            "labels": self._labels,
        }
        # An exposure alone does not have these.
        self._history_loaders: dict[str, Callable[[History], pd.DataFrame | None]] = {
            "week": lambda _: None if self._week is None else self._week.why,
            "week_by_site": lambda _: None if self._week is None else self._week.by_site,
            "week_before": self._week_before,
            "week_score": lambda history: (
                None if self._week_start is None else history.score_changes(self._week_start)
            ),
            "failed_removals": lambda history: history.failed_removals(),
            "site_outcomes": lambda _: self._site_outcomes(),
            "removal_requests": lambda _: self._everyone("removal_requests"),
            "relistings": lambda _: self._of_user(self._everyone("relistings")),
            "coverage": lambda history: analysis.coverage(history.people(), at=self._as_of),
            "site_health": lambda history: history.site_health(self._as_of),
            "declared_vs_observed": lambda history: (
                None if history.declared_days().empty else history.declared_vs_observed()
            ),
            "timed_steps": lambda history: self._of_user(history.timed_steps()),
            "step_minutes": lambda history: history.step_minutes(),
            "removal_of_all": lambda history: history.time_to_removal(by=None),
            "next_forecast": self._next_forecast,
        }

    def _user_id(self, user: int | str | None) -> int | None:
        """The id of a person, by id or by name."""
        if not isinstance(user, str):
            return user
        if self.exposure is None:
            raise InvalidArgument(
                "A history holds no names on file: give the id of the person, or pass exposure="
            )
        [user_id] = self.exposure.user_ids(user)
        return user_id

    def load(self, names: Iterable[str]) -> ReportData:
        """Load tables.

        Raises:
            NotFound: The history is empty, or has never contained the user.
        """
        history, names = self.history, [*names]
        if (
            self.user is None
            and self.exposure is None
            and self._pseudonyms is None
            and not _IN_DETAIL & {*names}
        ):
            # Labels are found by what identifies a record.
            by_reference = ("reference_id",) if history and history.records_by == "reference" else ()
            self._columns = _COLUMNS | {"records": (*_COLUMNS["records"], *by_reference)}
        if self.user is not None:  # raises NotFound for an unknown id
            self.table("status_over_time") if history else self._exposure.users(self.user)
        tables = {name: self.table(name) for name in names}
        runs = None if history is None else self._runs
        return ReportData(
            tables,
            user=self.user,
            since=None if self._since is None else self._diff.since,
            as_of=self._as_of,
            first_run_at=None if runs is None else _first_observation(runs),
            runs=None if history is None else history.last_run().seq,
            people=self._people() if self.user is None else 1,
            incomplete=self._n_incomplete,
            is_stopped=history is None and self.user is None and self._exposure.is_stopped,
            unchecked=self._unchecked(),
            history_name=PurePosixPath(history.path).name if history and self._pseudonyms is None else "",
            records_by="id" if history is None else history.records_by,
            server=_server(runs) if self.exposure is None and runs is not None else self._exposure.origin,
            names=self._names,
            sharing=self.sharing,
            has_profiles=self.exposure is not None,
            week_start=self._week_start,
            first_run=None if runs is None else runs["finished_at"].min().date(),
            run_gap=None if runs is None else _run_gap(runs),
            decisions=self._decisions if "work_queue" in tables else {},
        )

    def table(self, name: str) -> pd.DataFrame | None:
        """Return a table, loaded once; None: the source does not have it."""
        if name not in self._tables:
            self._tables[name] = self._load(name)
        return self._tables[name]

    @cached_property
    def sharing(self) -> Sharing | None:
        """What a share-safe report may contain; None for a confidential one."""
        if self._pseudonyms is None:
            return None
        records, alerts = self._everyone("records"), self._everyone("alerts")
        return sharing(self._pseudonyms, records, alerts, has_rows=self._has_rows)

    @cached_property
    def _diff(self) -> Diff:
        if self.history is None or self._since is None:
            raise InvalidArgument(
                "A section on changes needs a history and since: ek.report(history, since=...)"
            )
        return self.history.diff(self._since)

    @cached_property
    def _week(self) -> Diff | None:
        """What changed in the last days; None if nobody was observed before them."""
        if self.history is None or self._week_start is None:
            return None
        return self.history.diff(self._week_start)

    def _site_outcomes(self) -> pd.DataFrame:
        """What `History.site_outcomes` returns, from tables of everyone that the report has anyway."""
        tables = map(self._everyone, ("records", "removal_requests", "relistings", "declared_days"))
        return analysis.site_outcomes(*tables, at=self._as_of)

    @cached_property
    def _decisions(self) -> Mapping[str, tuple[int, int]]:
        """How many requests each site granted, and decided on; empty without a history."""
        if self.history is None:
            return {}
        return decisions(self._everyone("removal_requests"), at=self._as_of)

    def _next_forecast(self, history: History) -> pd.DataFrame:
        """The forecast for `AHEAD_DAYS`, or for the longest time that the history supports below it."""
        forecast = history.forecast([AHEAD_DAYS])
        observed_days = (self._as_of - _first_observation(self._runs)).days
        days = observed_days // MIN_RATIO
        if forecast["open"].notna().all() or observed_days < NEARER_HISTORY_DAYS or days >= AHEAD_DAYS:
            return forecast
        nearer = history.forecast([days])
        return nearer if nearer["open"].notna().all() else forecast

    def _week_before(self, history: History) -> pd.DataFrame | None:
        """What changed by site in the `WEEK_DAYS` before the last ones; None if no runs were at both of its ends."""
        start = self._week_start
        if start is None or start != self._as_of.date() - timedelta(days=WEEK_DAYS):
            return None
        before = start - timedelta(days=WEEK_DAYS)
        if before not in {*_observations(self._runs).dt.date}:
            return None
        return history.diff(before, start).by_site

    @cached_property
    def _runs(self) -> pd.DataFrame:
        assert self.history is not None  # noqa: S101  an exposure has none
        return self.history.runs()

    @cached_property
    def _week_start(self) -> date | None:
        if self.history is None:
            return None
        runs = self._runs
        last = runs["finished_at"].max().date()
        days = [day for day in _observations(runs).dt.date if day < last]
        return max(
            (day for day in days if day <= last - timedelta(days=WEEK_DAYS)), default=min(days, default=None)
        )

    @cached_property
    def _as_of(self) -> datetime:
        """The instant of the newest data."""
        if self.history is None:
            return self._exposure.as_of
        last: pd.Timestamp = self._runs["finished_at"].max()
        return last.to_pydatetime()

    @cached_property
    def _stalled(self) -> Mapping[str, str]:
        return {} if self.history is None else self.history.stalled_sites()

    @property
    def _exposure(self) -> Exposure:
        assert self.exposure is not None  # noqa: S101  one of the two is there
        return self.exposure

    def _load(self, name: str) -> pd.DataFrame | None:
        if name in self._loaders:
            return self._loaders[name]()
        if name in self._history_loaders:
            return None if self.history is None else self._history_loaders[name](self.history)
        if name in QUESTIONS:
            return self._answer(QUESTIONS[name])
        return None if self.exposure is None else self._of_user(self.exposure[name])

    def _answer(self, question: Question) -> pd.DataFrame | None:
        if question.inputs:
            inputs = {name: self.table(name) for name in question.inputs}
            if any(table is None for table in inputs.values()):
                return None
            return question.answer(lambda name: inputs[name])  # type: ignore[arg-type,return-value]
        if self.history is None:
            return None
        options: dict[str, Any] = {"since": self._since} if "since" in question.required else {}
        if "user" in question.options and self.user is not None:
            options["user"] = self.user
        table = self._of_user(question.ask(self.history, **options))
        return since_observed(table) if question.name == "status_over_time" else table

    def _alerts(self) -> pd.DataFrame:
        alerts = _listed(self._of_user(self._everyone("alerts")))
        if self.history is None or self._pseudonyms is not None:
            return alerts
        if self.exposure is None:
            names = {user_id: listed_as(name) for user_id, name in self._names.items()}
            return alerts.assign(person=alerts["user_id"].map(names).astype("str"))
        return self.exposure.with_people(alerts)

    def _steps(self) -> pd.DataFrame:
        if self.history is None:
            return self._exposure.steps(self.user)
        alerts = actionable(self._required("alerts"))
        steps = frames.steps_from_alerts(alerts, beside=("first_seen_at",))
        return self.history.with_ticks(steps)

    def _labels(self) -> pd.DataFrame:
        """Return the label of each listing; labels are in a history, so without one all are missing."""
        records = self._required("records")
        if self.history is None:
            return pd.DataFrame({"label": pd.Series(pd.NA, records.index, dtype="str")})
        return self.history.with_labels(records)[["label"]]

    def _work_queue(self) -> pd.DataFrame:
        """Return the work queue, in whole minutes, with the label and first observation of each listing and page."""
        queue = self._queue.assign(minutes=whole_minutes(self._queue))
        steps = self._required("steps")
        if "label" in steps:
            alert = ["user_id", "alert_number"]
            queue = queue.merge(steps[[*alert, "label"]].drop_duplicates(alert), on=alert, how="left")
        else:  # labels are in a history
            queue = queue.assign(label=pd.Series(pd.NA, queue.index, dtype="str"))
        links = self._required("links")
        return with_pages(_with_first_observation(queue, self._required("records"), links), links)

    @cached_property
    def _queue(self) -> pd.DataFrame:
        """The work queue in the order of what to do next; reasons about a site say that they count everybody.

        In a share-safe report the only reasons are that a site removes nothing, or needs a document. Others may be about few
        people, so work that waits for them is marked without the reason. Values that are not on file have no effect: where
        a row stands would tell that a person lacks one.
        """
        steps = self._required("steps")
        of_all = "" if self.user is None else "of all people, "
        stalled = {site: f"{of_all}{reason}" for site, reason in self._stalled.items()}
        minutes = {} if self.history is None else self.history.minutes_by_site()
        rates = {site: success_rate(*counts) for site, counts in self._decisions.items()}
        if self._pseudonyms is not None:
            steps = steps.drop(columns="form_values", errors="ignore")
        queue = analysis.work_queue(steps, stalled=stalled, step_minutes=minutes, success_rates=rates)
        if self._pseudonyms is not None:
            of_site = queue["site"].map(stalled).astype("str")
            is_hidden = queue["reason"].notna() & (queue["reason"] != NEEDS_DOCUMENT)
            queue = queue.assign(reason=of_site.fillna(queue["reason"].mask(is_hidden, HIDDEN_REASON)))
        return as_to_begin(queue, has_rates=self.history is not None)

    def _everyone(self, name: str) -> pd.DataFrame:
        """Return a table about everyone, loaded once; a share-safe report counts the people per site."""
        key = f"{name} of everyone"
        if key not in self._tables:
            options = {"columns": self._columns[name]} if name in self._columns else {}
            self._tables[key] = getattr(self.history or self.exposure, name)(**options)
        return self._required(key)

    def _details(self) -> pd.DataFrame:
        """All that the records of the person with the highest score, and of everyone with a relisting, show."""
        if self.history is None or not self._columns:
            return self._required("records")
        first, relisted = self._required("score")["user_id"].head(1), self._required("relistings")["user_id"]
        return self.history.records(user={*first.tolist(), *relisted.tolist()})

    def _required(self, name: str) -> pd.DataFrame:
        table = self.table(name)
        assert table is not None  # noqa: S101  every source has it
        return table

    def _of_user(self, table: pd.DataFrame) -> pd.DataFrame:
        if self.user is None or "user_id" not in table:
            return table
        return table[table["user_id"] == self.user].reset_index(drop=True)

    def _people(self) -> int:
        """Count the people who are registered; one whom a single run did not list still counts."""
        return self._exposure.listed if self.history is None else int(self.history.people()["listed"].sum())

    @cached_property
    def _incomplete(self) -> set[int]:
        """The people whom the newest run did not observe completely."""
        if self.history is not None:
            return {*self._required("stale")["user_id"].tolist()}
        return set() if self.user is not None else {*self._exposure.failures()["user_id"].dropna().tolist()}

    @property
    def _n_incomplete(self) -> int:
        """Count them; of an exposure also those whose ids are not known."""
        if self.history is not None or self.user is not None:
            return len(self._incomplete)
        return self._exposure.listed - len(self._exposure.users())

    def _unchecked(self) -> int:
        """Count the open listings of people whom the newest run did not observe completely."""
        records = self._required("records")
        is_unchecked = records["user_id"].isin(self._incomplete) & analysis.is_open(records["status"])
        return int(is_unchecked.sum()) if self._incomplete else 0

    @cached_property
    def _names(self) -> dict[int, str]:
        if self._pseudonyms is not None:
            return {}
        if self.exposure is None:
            return listed_names(self._everyone("records"))
        named = self.exposure.with_people(self.exposure.users()[["user_id"]]).dropna()
        return dict(zip(named["user_id"].tolist(), named["person"].tolist(), strict=True))


def _site_names(listings: pd.DataFrame) -> "pd.Series[str]":
    """The sites on which each person has listings, in words: some names, and how many more there are."""
    pairs = pd.DataFrame({"user_id": listings["user_id"], "site": texts(listings["site"])}).drop_duplicates()
    return pairs.dropna().sort_values("site").groupby("user_id")["site"].agg(_some_names)


def _some_names(names: "pd.Series[str]") -> str:
    first, n_more = names[:_SITES_NAMED], len(names) - _SITES_NAMED
    return ", ".join(first) + (f" and {n_more} more" if n_more > 0 else "")


def _page_kinds(links: pd.DataFrame, ids: "pd.Series[int]") -> "pd.Series[Any]":
    """The kinds of data on the web pages of each person, those that lead to the person most directly first."""
    cells = links.loc[links["user_id"].isin(ids), ["user_id", "contains"]].dropna()
    kinds = {
        user: _ordered(kind for cell in of_user for kind in cell)
        for user, of_user in cells.groupby("user_id")["contains"]
    }
    return ids.map(kinds)


def _ordered(kinds: Iterable[str]) -> list[str]:
    rank = {kind: number for number, kind in enumerate(_DIRECTNESS)}
    return sorted({*kinds}, key=lambda kind: (rank.get(kind, len(rank)), kind))[:_KINDS_MAX]


def _listed(table: pd.DataFrame) -> pd.DataFrame:
    if "presence" not in table:
        return table
    return table[table["presence"] == analysis.LISTED].reset_index(drop=True)


def _with_first_observation(queue: pd.DataFrame, records: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """A work queue whose ``first_seen_at`` is that of the listing or page, and not of its newest alert."""
    first = queue["first_seen_at"]
    for table, key, of_queue in ((records, "record_id", "record_id"), (links, "url", "link_url")):
        if "first_seen_at" not in table or of_queue not in queue:
            continue
        wanted = queue[of_queue].dropna().astype(table[key].dtype)
        listed = table.loc[is_in(table[key], wanted), ["user_id", key, "first_seen_at"]]
        listed = listed.dropna().drop_duplicates(["user_id", key])
        rows = queue[["user_id", of_queue]].rename(columns={of_queue: key})
        is_item = rows[key].notna().to_numpy("bool")
        times = rows[is_item].astype({key: listed[key].dtype}).merge(listed, on=["user_id", key], how="left")
        of_items = times["first_seen_at"].set_axis(first.index[is_item])
        first = of_items.reindex(first.index).fillna(first)
    return queue.assign(first_seen_at=first)


def _first_observation(runs: pd.DataFrame) -> datetime:
    first: pd.Timestamp = _observations(runs).min()
    return first.to_pydatetime()


def _run_gap(runs: pd.DataFrame) -> int | None:
    gaps = _observations(runs).sort_values().diff().dropna().dt.total_seconds() / 86_400
    return round(float(gaps.median())) or None if len(gaps) else None


def _observations(runs: pd.DataFrame) -> pd.Series:
    """The ends of the runs that listed anybody or read a delivery; of all runs if none did."""
    has_people = (runs["listed"].fillna(0) > 0) | (runs["deliveries"].fillna(0) > 0)
    return (runs[has_people] if has_people.any() else runs)["finished_at"]


def _server(runs: pd.DataFrame) -> str:
    sources = runs.loc[runs["source"].notna() & (runs["source"] != ""), "source"]
    return str(sources.iloc[-1]) if len(sources) else "not known"
