"""The tables of a report, loaded once from an exposure, a history, or both."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import pandas as pd

import exposurekit
from exposurekit import analysis, frames
from exposurekit.analysis.tasks import with_pages
from exposurekit.errors import InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.privacy.pseudonyms import Pseudonyms
from exposurekit.reports.manual_steps import open_items
from exposurekit.reports.share_safe import Sharing, sharing


@dataclass(frozen=True)
class ReportData:
    """The tables behind a report, as of one instant.

    Attributes:
        exposure: The current tables, or None.
        history: The history, or None.
        user: The id of the person that the report is about; None for everyone.
        records: Their records, with the newest status.
        links: Their listed web pages.
        alerts: Their listed alerts.
        steps: The manual steps; those of a history with ticks.
        people: How many people the report is about.
        incomplete: How many of them the newest run did not observe completely.
        server: The service that was loaded last.
        sharing: What a share-safe report may contain; None for a confidential one.
    """

    exposure: Exposure | None
    history: History | None
    user: int | None
    records: pd.DataFrame = field(repr=False)
    links: pd.DataFrame = field(repr=False)
    alerts: pd.DataFrame = field(repr=False)
    steps: pd.DataFrame = field(repr=False)
    people: int
    incomplete: int
    server: str
    sharing: Sharing | None = None

    @property
    def user_label(self) -> str:
        """The person's id or pseudonym."""
        assert self.user is not None  # noqa: S101  the callers check
        return f"user {self.user if self.sharing is None else self.sharing.pseudonym(self.user)}"

    def can_name(self, site: str) -> bool:
        """Whether the report may name a site."""
        return self.sharing is None or site in self.sharing.sites

    @cached_property
    def names(self) -> dict[int, str]:
        """Names on file by user id; empty for a share-safe report, and without an exposure."""
        if self.exposure is None or self.sharing is not None:
            return {}
        users = self.exposure.users()
        cells = zip(users["user_id"].tolist(), users["first_name"], users["last_name"], strict=True)
        names = {
            user_id: " ".join(part for part in parts if isinstance(part, str)) for user_id, *parts in cells
        }
        return {user_id: name for user_id, name in names.items() if name.strip()}

    @cached_property
    def on_file(self) -> pd.DataFrame | None:
        """What people have on file; None without an exposure."""
        return None if self.exposure is None else _about(self.user, self.exposure.on_file())

    @cached_property
    def queue(self) -> pd.DataFrame:
        """The manual work, in the order that clears most for the time."""
        return with_pages(analysis.work_queue(self.steps), self.links)

    @cached_property
    def waiting(self) -> pd.DataFrame:
        """The rows of `queue` that are neither done nor impossible."""
        return open_items(self.queue)

    @cached_property
    def score(self) -> pd.DataFrame:
        """The exposure score of each person."""
        return analysis.score(self.records, self.links)

    @cached_property
    def as_of(self) -> datetime:
        """The instant of the newest data."""
        if self.history is not None:
            newest: datetime = self.history.runs()["finished_at"].max().to_pydatetime()
            return newest
        assert self.exposure is not None  # noqa: S101  one of the two is there
        return self.exposure.as_of

    @cached_property
    def first_run_at(self) -> datetime | None:
        """The instant of the first run; None without a history."""
        if self.history is None:
            return None
        first: datetime = self.history.runs()["finished_at"].min().to_pydatetime()
        return first

    @cached_property
    def source_line(self) -> str:
        """The provenance in one line, for charts."""
        provenance = self.provenance()
        names = ("server", "as of", "runs", "people")
        return " · ".join(f"{name} {provenance[name]}" for name in names if name in provenance)

    def provenance(self) -> dict[str, str]:
        """The source of the data: server, instant, runs, people and filters."""
        is_shared = self.sharing is not None
        as_of = f"{self.as_of:%Y-%m-%d}" if is_shared else f"{self.as_of:%Y-%m-%d %H:%M} UTC"
        provenance = {"as of": as_of} if is_shared else {"server": self.server, "as of": as_of}
        if self.history is not None:
            provenance["runs"] = f"{self.history.last_run().seq:,}"
        incomplete = f", {self.incomplete:,} not observed completely" if self.incomplete else ""
        provenance["people"] = f"{self.people:,}{incomplete}"
        provenance["filters"] = "none" if self.user is None else self.user_label
        return provenance | {"made with": f"exposurekit {exposurekit.__version__}"}


def report_data(
    source: Any,
    *,
    exposure: Exposure | None = None,
    user: int | None = None,
    pseudonyms: Pseudonyms | None = None,
) -> ReportData:
    """Load the tables that a report may need.

    Args:
        source: An `Exposure` or a `History`.
        exposure: The current tables, next to a history: adds what people have on file.
        user: The id of one person; None for everyone.
        pseudonyms: Pseudonyms for a share-safe report; None for a confidential one.

    Raises:
        InvalidArgument: ``source`` is neither an `Exposure` nor a `History`.
        NotFound: The history is empty, or has never contained the user.
    """
    if isinstance(source, History):
        return _from_history(source, exposure, user, pseudonyms)
    if isinstance(source, Exposure):
        return _from_exposure(source, user, pseudonyms)
    raise InvalidArgument(
        "The source of a report is an Exposure or a History: ek.connect(), ek.History(path), demo.history"
    )


def _from_exposure(exposure: Exposure, user: int | None, pseudonyms: Pseudonyms | None) -> ReportData:
    failures = exposure.failures()
    return ReportData(
        exposure,
        None,
        user,
        exposure.records(user),
        exposure.links(user),
        exposure.alerts(user),
        exposure.steps(user),
        1 if user is not None else len(exposure.users()),
        failures["user_id"].nunique() if user is None else 0,
        exposure.origin,
        None if pseudonyms is None else sharing(pseudonyms, exposure.records(), exposure.alerts()),
    )


def _from_history(
    history: History, exposure: Exposure | None, user: int | None, pseudonyms: Pseudonyms | None
) -> ReportData:
    if user is not None:
        history.status_over_time(user=user)  # raises NotFound for an unknown id
    tables = history.records(), history.links(), history.alerts(), history.stale()
    records, links, alerts, stale = (_about(user, table) for table in tables)
    listed = _listed(alerts)
    if exposure is not None and pseudonyms is None:
        listed = exposure.with_people(listed)
    return ReportData(
        exposure,
        history,
        user,
        records,
        _listed(links),
        listed,
        history.with_ticks(frames.steps_from_alerts(listed, beside=("first_seen_at",))),
        _people(history) if user is None else 1,
        len(stale),
        _server(history),
        None if pseudonyms is None else sharing(pseudonyms, tables[0], tables[2]),
    )


def _about(user: int | None, table: pd.DataFrame) -> pd.DataFrame:
    return table if user is None else table[table["user_id"] == user].reset_index(drop=True)


def _listed(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["presence"] == analysis.LISTED].reset_index(drop=True)


def _people(history: History) -> int:
    """How many people the newest full run listed; without one, all people of the history."""
    listed = history.collection_runs()["listed"]
    return int(listed.iloc[-1]) if len(listed) else len(history.people())


def _server(history: History) -> str:
    runs = history.runs()
    sources = runs.loc[runs["source"].notna() & (runs["source"] != ""), "source"]
    return str(sources.iloc[-1]) if len(sources) else "not known"
