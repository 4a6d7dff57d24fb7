"""What a report is made of, taken from an exposure, a history, or both. Says nothing of it."""

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
from exposurekit.reports.share_safe import Sharing, sharing


@dataclass(frozen=True)
class ReportData:
    """The tables behind a report, as of one moment.

    Attributes:
        exposure: What is so now, or None.
        history: What was so, or None.
        user: The person it is about; None: everyone.
        records: Their records, as they stand.
        links: The pages that are listed.
        alerts: What is listed of them.
        steps: What a human must do; of a history with its ticks.
        people: How many people it is about.
        unseen: How many of these were not seen well by the newest look.
        server: The service that was looked at last, as it is told.
        sharing: What of it may be told; None: all.
    """

    exposure: Exposure | None
    history: History | None
    user: int | None
    records: pd.DataFrame = field(repr=False)
    links: pd.DataFrame = field(repr=False)
    alerts: pd.DataFrame = field(repr=False)
    steps: pd.DataFrame = field(repr=False)
    people: int
    unseen: int
    server: str
    sharing: Sharing | None = None

    @property
    def called(self) -> str:
        """The person it is about, as they may be called."""
        assert self.user is not None  # noqa: S101  asked where it is about one
        return f"user {self.user}" if self.sharing is None else f"person {self.sharing.called(self.user)}"

    def may_name(self, site: str) -> bool:
        """Whether it may be told that listings are there."""
        return self.sharing is None or site in self.sharing.sites

    def of(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table that are about the person, where it is about one and tells it."""
        return _about(self.user, table) if "user_id" in table else table

    @cached_property
    def on_file(self) -> pd.DataFrame | None:
        """What people have on file; None: a history does not know."""
        return None if self.exposure is None else self.of(self.exposure.on_file())

    @cached_property
    def queue(self) -> pd.DataFrame:
        """What a human must do, in the order in which it clears most."""
        return with_pages(analysis.work_queue(self.steps), self.links)

    @cached_property
    def score(self) -> pd.DataFrame:
        """How exposed each person is, in points."""
        return analysis.score(self.records, self.links)

    @cached_property
    def as_of(self) -> datetime:
        """When it was so."""
        if self.history is not None:
            newest: datetime = self.history.runs()["finished_at"].max().to_pydatetime()
            return newest
        assert self.exposure is not None  # noqa: S101  there is one of the two
        return self.exposure.as_of

    @cached_property
    def line(self) -> str:
        """Where it comes from, in one line."""
        told = self.provenance()
        return " · ".join(
            f"{name} {told[name]}" for name in ("server", "as of", "runs", "people") if name in told
        )

    def _when(self) -> str:
        return f"{self.as_of:%Y-%m-%d}" if self.sharing is not None else f"{self.as_of:%Y-%m-%d %H:%M} UTC"

    def provenance(self) -> dict[str, str]:
        """Where it comes from: what there is to tell of it, under its names."""
        told = {}
        if self.history is not None:
            last = self.history.last_run()
            told = {
                "server": self.server,
                "as of": self._when(),
                "runs": f"{last.seq:,}",
            }
        elif self.exposure is not None:
            told = {"server": self.server, "as of": self._when()}
        if self.sharing is not None:
            told.pop("server", None)
        told["people"] = f"{self.people:,}" + (f", {self.unseen:,} not seen well" if self.unseen else "")
        told["filters"] = "none" if self.user is None else self.called
        return told | {"made with": f"exposurekit {exposurekit.__version__}"}


def report_data(
    source: Any,
    *,
    exposure: Exposure | None = None,
    user: int | None = None,
    pseudonyms: Pseudonyms | None = None,
) -> ReportData:
    """Ask for everything that a report may need.

    Args:
        source: An `Exposure` or a `History`.
        exposure: Beside a history: what is so now, and what people have on file.
        user: One person; None: everyone.
        pseudonyms: What people are called where it is to be shared; None: it is not.

    Raises:
        InvalidArgument: ``source`` is neither.
        NotFound: The history is empty, or the person is not known.
    """
    if isinstance(source, History):
        return _of_history(source, exposure, user, pseudonyms)
    if isinstance(source, Exposure):
        return _of_exposure(source, user, pseudonyms)
    raise InvalidArgument(
        "A report is of an Exposure or a History: ek.connect(), ek.History(path), demo.history"
    )


def _of_exposure(exposure: Exposure, user: int | None, pseudonyms: Pseudonyms | None) -> ReportData:
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


def _of_history(
    history: History, exposure: Exposure | None, user: int | None, pseudonyms: Pseudonyms | None
) -> ReportData:
    if user is not None:
        history.status_over_time(user=user)  # says so where nobody was ever seen under this id
    whole = history.records(), history.links(), history.alerts(), history.stale()
    records, links, alerts, stale = (_about(user, table) for table in whole)
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
        None if pseudonyms is None else sharing(pseudonyms, whole[0], whole[2]),
    )


def _about(user: int | None, table: pd.DataFrame) -> pd.DataFrame:
    return table if user is None else table[table["user_id"] == user].reset_index(drop=True)


def _listed(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["presence"] == analysis.LISTED].reset_index(drop=True)


def _people(history: History) -> int:
    """How many people the newest look at everyone listed; a look at some, or a webhook, counts nobody."""
    listed = history.collection_runs()["listed"]
    return int(listed.iloc[-1]) if len(listed) else len(history.people())


def _server(history: History) -> str:
    runs = history.runs()
    looks = runs.loc[runs["source"].notna() & (runs["source"] != ""), "source"]
    return str(looks.iloc[-1]) if len(looks) else "not told"
