"""Charts and a table over one set of records, with pickers, a date, and clicks that filter the rest. Fetches nothing itself."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from ipywidgets import HTML, Button, Combobox, HBox, Layout, SelectionSlider, SelectMultiple

from exposurekit import analysis, charts
from exposurekit.errors import Misconfigured
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.markup import escaped, plain
from exposurekit.widgets import twin
from exposurekit.widgets.explorer import Explorer
from exposurekit.widgets.panel import Panel

PEOPLE_OFFERED = 1_000
NOW = "now"
_EVERYONE = "everyone"
_ID = re.compile(r"[0-9]{1,18}")


class Dashboard(Panel):
    """Exposure by site, status counts over time, and the records behind them; what is picked or clicked filters all.

    Args:
        exposure: What is so now; None: as the history last saw it.
        history: What was so: then there is a date to move, and a chart over time.

    Attributes:
        sites: The sites that are picked; none: all.
        statuses: The statuses that are picked; none: all.
        user: The person who is picked; None: everyone.
        day: The day that is shown; None: now.

    Raises:
        Misconfigured: There is neither.
        NotLoaded: The history is empty.

    >>> dashboard = ek.widgets.Dashboard(exposure, history)
    >>> dashboard
    Dashboard: ... of ... records, now
    >>> dashboard.pick(statuses=["removed"])
    >>> bool((dashboard.records["status"] == "removed").all())
    True
    """

    def __init__(self, exposure: Exposure | None = None, history: History | None = None) -> None:
        if exposure is None and history is None:
            raise Misconfigured("Give an exposure, a history, or both")
        self._exposure, self._history = exposure, history
        self.sites: tuple[str, ...] = ()
        self.statuses: tuple[str, ...] = ()
        self.user: int | None = None
        self.day: date | None = None
        self._is_telling = False
        self._over_time = None if history is None else history.status_over_time()
        self._all = self._as_of(None)
        self._table = Explorer(self._all, name="records")
        self._figures = [_live(figure) for figure in self._charts()]
        self._finding = HTML()
        super().__init__([self._finding, *self._controls(), *self._figures, self._table])
        self._clicks()
        self._told()

    def pick(
        self,
        *,
        sites: Sequence[str] | None = None,
        statuses: Sequence[str] | None = None,
        user: int | None = None,
        day: str | date | None = None,
    ) -> None:
        """Show this; what is left out is not filtered.

        Args:
            sites: Their names.
            statuses: As the records have them.
            user: The id of a person.
            day: A day of the history, until its end in UTC; None or ``now``: now.

        Raises:
            Misconfigured: A day was asked for, and there is no history; or what is asked is of no such form.
            NotLoaded: Nothing was seen by that day, or of that person. What was shown stays.
        """
        if isinstance(sites, str) or isinstance(statuses, str):
            raise Misconfigured("sites and statuses are lists of names, such as ['removed']")
        asked, was = _day(day), (self._all, self.day, self.sites, self.statuses, self.user)
        if asked != self.day:
            self._all, self.day = self._as_of(asked), asked
        self.sites, self.statuses, self.user = tuple(sites or ()), tuple(statuses or ()), user
        try:
            self._show()
        except Exception:
            self._all, self.day, self.sites, self.statuses, self.user = was
            self._show()
            raise

    @property
    def records(self) -> pd.DataFrame:
        """The records that are shown; a copy."""
        return self._kept().copy()

    def line(self) -> str:
        """What is shown, in one line; people are told by number."""
        parts = [
            f"{len(self._kept()):,} of {len(self._all):,} records",
            NOW if self.day is None else str(self.day),
        ]
        if self.user is not None:
            parts.append(f"user {self.user}")
        for name, picked in (("sites", self.sites), ("statuses", self.statuses)):
            if picked:
                parts.append(f"{name}: {', '.join(plain(one) for one in picked)}")
        return f"Dashboard: {', '.join(parts)}"

    def to_html(self) -> str:
        """What the charts say, in words, and the numbers by site.

        >>> "<caption>" in ek.widgets.Dashboard(exposure).to_html()
        True
        """
        words = "".join(f"<p>{escaped(charts.describe(figure))}</p>" for figure in self._drawn)
        table = twin.table(self._by_site, caption="Listings by site")
        return f"<section><p>{escaped(self.line())}</p>{words}{table}<p>{escaped(self._provenance())}</p></section>"

    def renew(self) -> None:
        """Not while the controls are told, one by one, what is picked: once, when they say it."""
        if not self._is_telling:
            super().renew()

    def _as_of(self, day: date | None) -> pd.DataFrame:
        if day is None and self._exposure is not None:
            return self._exposure.records()
        if self._history is None:
            raise Misconfigured("A day is asked of a history, and this dashboard has none")
        return self._history.records(as_of=day)

    def _kept(self) -> pd.DataFrame:
        kept = self._all
        if self.user is not None:
            kept = kept[kept["user_id"] == self.user]
        if self.sites:
            kept = kept[kept["site"].isin(self.sites)]
        if self.statuses:
            kept = kept[kept["status"].isin(self.statuses)]
        return kept

    def _charts(self) -> list[charts.Chart]:
        """The charts of what is picked, and the table behind the first; both are kept for the twin."""
        self._by_site = analysis.by_site(self._kept())
        made = [charts.by_site(self._by_site, provenance=self._provenance())]
        if self._over_time is not None:
            made.append(charts.status_over_time(self._counted(), provenance=self._provenance()))
        self._drawn = made
        return made

    def _counted(self) -> pd.DataFrame:
        """Counts over time, until the day that is shown, of the person and the sites that are picked."""
        assert self._history is not None  # noqa: S101  asked for where there is one
        table = self._over_time
        if self.user is not None and not self.sites:
            table = self._history.status_over_time(user=self.user)
        elif self.sites:
            of_sites = self._history.status_over_time(by="site", user=self.user)
            table = _together(of_sites[of_sites["site"].isin(self.sites)])
        assert table is not None  # noqa: S101
        return table if self.day is None else table[table["period"] <= pd.Timestamp(self.day, tz="UTC")]

    def _provenance(self) -> str:
        if self.day is None and self._exposure is not None:
            return self._exposure.provenance
        if self._history is None:
            return ""
        last = self._history.last_run()
        as_of = f"{self.day} (its end, UTC)" if self.day else f"{last.finished_at:%Y-%m-%d %H:%M} UTC"
        return f"history of {last.seq:,} runs · as of {as_of}"

    def _controls(self) -> list[Any]:
        people = sorted(self._all["user_id"].unique())[:PEOPLE_OFFERED]
        self._user = Combobox(
            description="User",
            options=[_EVERYONE, *map(str, people)],
            placeholder="id of a person",
            continuous_update=False,
        )
        self._site = SelectMultiple(description="Sites", options=_options(self._all["site"]), rows=5)
        self._status = SelectMultiple(description="Statuses", options=_options(self._all["status"]), rows=5)
        clear = Button(description="Clear")
        self._user.observe(self.answering(lambda change: self._moved(user=_user_id(change["new"]))), "value")
        self._site.observe(self.answering(lambda change: self._moved(sites=change["new"])), "value")
        self._status.observe(self.answering(lambda change: self._moved(statuses=change["new"])), "value")
        clear.on_click(self.answering(lambda _: self.pick(day=self.day)))
        picks = [self._user, self._site, self._status, clear]
        return [HBox(picks, layout=Layout(flex_flow="row wrap")), *self._slider()]

    def _slider(self) -> list[Any]:
        if self._over_time is None:
            return []
        options = [*((f"{one:%Y-%m-%d}", one.date()) for one in self._over_time["period"]), (NOW, NOW)]
        self._day = SelectionSlider(
            description="Day",
            options=options,
            value=NOW,
            continuous_update=False,
            layout=Layout(width="auto"),
        )
        self._day.observe(self.answering(lambda change: self._moved(day=change["new"])), "value")
        return [self._day]

    def _moved(self, **asked: Any) -> None:
        """One thing is picked otherwise, by a control or a click; all else stays."""
        if not self._is_telling:
            picked = {"sites": self.sites, "statuses": self.statuses, "user": self.user, "day": self.day}
            self.pick(**picked | asked)

    def _show(self) -> None:
        for live, figure in zip(self._figures, self._charts(), strict=True):
            with live.batch_update():
                live.data = []
                live.add_traces(figure.data)
                live.layout = figure.layout
        self._clicks()
        self._table.show(self._kept())
        self._told()

    def _told(self) -> None:
        """The controls say what is shown, however it was picked."""
        self._is_telling = True
        try:
            self._user.value = "" if self.user is None else str(self.user)
            several = (self._site, "site", self.sites), (self._status, "status", self.statuses)
            for control, name, picked in several:
                control.options = _options(self._all[name], picked)
                control.value = picked
            if self._over_time is not None and (self.day or NOW) in [value for _, value in self._day.options]:
                self._day.value = self.day or NOW
        finally:
            self._is_telling = False
        self._finding.value = f'<p role="status">{escaped(self.line())}</p>'
        self.renew()

    def _clicks(self) -> None:
        """A click on a site's bar picks the site, or lets it go; on a day of the counts, the day."""
        names = self._by_site["site"].tolist()[: charts.SHOWN]

        def on_site(place: int, _x: Any) -> None:
            if place < len(names):
                site = names[place]
                self._moved(sites=() if self.sites == (site,) else (site,))

        self._listen(self._figures[0], on_site)
        if self._over_time is not None:
            self._listen(self._figures[1], self._on_day)

    def _on_day(self, _place: int, x: Any) -> None:
        self._moved(day=pd.Timestamp(x).date())

    def _listen(self, figure: go.FigureWidget, act: Callable[[int, Any], None]) -> None:
        """Plotly tells every trace of a click, one after the other: only at the last one may there be others."""
        clicked: list[tuple[int, Any]] = []

        def told(_trace: Any, points: Any, _state: Any) -> None:
            clicked.extend(zip(points.point_inds, points.xs, strict=True))
            if points.trace_index == len(figure.data) - 1 and clicked:
                first, clicked[:] = clicked[0], []
                self.answering(lambda point: act(*point))(first)

        for trace in figure.data:
            trace.on_click(told)


def _live(figure: charts.Chart) -> go.FigureWidget:
    live = go.FigureWidget(figure)
    live._config = live._config | charts.CONFIG  # noqa: SLF001  there is no other way to set it
    return live


def _together(of_sites: pd.DataFrame) -> pd.DataFrame:
    """Some sites' counts as one: each has a row in every period from its first change on."""
    return of_sites.drop(columns="site").groupby(["period", "at"], as_index=False).sum()


def _options(values: "pd.Series[Any]", picked: Sequence[str] = ()) -> list[tuple[str, str]]:
    """What can be picked: what there is, and what is picked already."""
    there = {*values.dropna().drop_duplicates().astype("str"), *picked}
    return [(plain(value), value) for value in sorted(there)]


def _user_id(said: str) -> int | None:
    if said.strip() in ("", _EVERYONE):
        return None
    if not _ID.fullmatch(said.strip()):
        raise Misconfigured("User is the id of a person, a whole number; empty is everyone")
    return int(said)


def _day(day: str | date | None) -> date | None:
    try:
        return None if day in (None, NOW) else date.fromisoformat(str(day)[:10])
    except ValueError:
        raise Misconfigured("day is a day, such as '2026-03-01'") from None
