"""Charts and a table over one set of records, with pickers, a date, and clicks that filter the rest. Fetches nothing itself."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import pandas as pd
from ipywidgets import HTML, Button, Combobox, Dropdown, HBox, Layout, SelectionSlider, SelectMultiple

from exposurekit import analysis, charts
from exposurekit.errors import Misconfigured
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.markup import escaped, plain
from exposurekit.widgets import twin
from exposurekit.widgets.explorer import Explorer
from exposurekit.widgets.living import listen, live, redraw
from exposurekit.widgets.panel import Panel
from exposurekit.widgets.questions import NOW, Scope, offered

PEOPLE_OFFERED = 1_000
_EVERYONE = "everyone"
_ID = re.compile(r"[0-9]{1,18}")


class Dashboard(Panel):
    """Exposure by site, status counts over time, and the records behind them; what is picked or clicked filters all.

    Args:
        exposure: What is so now; None: as the history last saw it.
        history: What was so: then there is a date to move, and a chart over time.

    Two charts are always there; the third answers the question that is asked (`ask`). A day, a person, sites and
    statuses drive all of them; a chart that cannot heed one of these says so below its title.

    Attributes:
        question: What the third chart answers.

    Raises:
        Misconfigured: There is neither, or something else, such as a table.
        NotLoaded: The history is empty.

    >>> dashboard = ek.widgets.Dashboard(exposure, history)
    >>> dashboard
    Dashboard: ... of ... records, now
    >>> dashboard.pick(statuses=["removed"])
    >>> bool((dashboard.records["status"] == "removed").all())
    True
    """

    def __init__(self, exposure: Exposure | None = None, history: History | None = None) -> None:
        is_given = isinstance(exposure, Exposure | None) and isinstance(history, History | None)
        if not is_given or (exposure is None and history is None):
            raise Misconfigured(
                "Give an exposure, a history, or both: Dashboard(exposure), Dashboard(history=history)"
            )
        self._scope = Scope(exposure, history, _records(exposure, history, None))
        self._offered = offered(exposure, history)
        self.question = next(iter(self._offered))
        self._is_telling = False
        self._over_time = None if history is None else history.status_over_time()
        self._table = Explorer(self._scope.all, name="records")
        self._figures = [live(figure) for figure in self._charts()]
        self._finding = HTML()
        *fixed, asked = self._figures
        super().__init__([self._finding, *self._controls(), *fixed, self._ask, asked, self._table])
        self._clicks()
        self._told()

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that are picked; none: all."""
        return self._scope.sites

    @property
    def statuses(self) -> tuple[str, ...]:
        """The statuses that are picked; none: all."""
        return self._scope.statuses

    @property
    def user(self) -> int | None:
        """The person who is picked; None: everyone."""
        return self._scope.user

    @property
    def day(self) -> date | None:
        """The day that is shown; None: now."""
        return self._scope.day

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
        asked, was = _day(day), self._scope
        of = was.all if asked == was.day else _records(was.exposure, was.history, asked)
        picked = tuple(sites or ()), tuple(statuses or ())
        self._scope = Scope(was.exposure, was.history, of, asked, *picked, user)
        try:
            self._show()
        except Exception:
            self._scope = was
            self._show()
            raise

    def ask(self, question: str) -> None:
        """Draw the chart of another question, of what is picked.

        Args:
            question: As it is called in `ek.charts`: ``by_user``, ``user_by_site``, ``by_state``, ``by_kind``; with an
                exposure ``blockers`` and ``best_next_fields``; with a history ``changes``, ``time_to_removal``,
                ``survival``, ``relistings``, ``work_queue``, ``precision``, ``site_health`` and ``forecast``.

        Raises:
            Misconfigured: It is none of these.

        >>> dashboard = ek.widgets.Dashboard(exposure, history)
        >>> dashboard.ask("relistings")
        """
        if question not in self._offered:
            raise Misconfigured(f"question is one of: {', '.join(self._offered)}")
        was, self.question = self.question, question
        try:
            self._show()
        except Exception:
            self.question = was
            raise

    @property
    def records(self) -> pd.DataFrame:
        """The records that are shown; a copy."""
        return self._scope.records.copy()

    def line(self) -> str:
        """What is shown, in one line; people are told by number."""
        scope = self._scope
        shown = f"{len(scope.records):,} of {len(scope.all):,} records"
        return f"Dashboard: {', '.join([shown, str(scope.day or NOW), *scope.filters])}"

    def to_html(self) -> str:
        """What the charts say, in words, and the numbers by site.

        >>> "<caption>" in ek.widgets.Dashboard(exposure).to_html()
        True
        """
        words = "".join(f"<p>{escaped(charts.describe(figure))}</p>" for figure in self._drawn)
        table = twin.table(self._by_site, caption="Listings by site")
        return f"<section><p>{escaped(self.line())}</p>{words}{table}<p>{escaped(self._scope.provenance)}</p></section>"

    def renew(self) -> None:
        """Not while the controls are told, one by one, what is picked: once, when they say it."""
        if not self._is_telling:
            super().renew()

    def _charts(self) -> list[charts.Chart]:
        """The charts of what is picked, and the table behind the first; both are kept for the twin."""
        scope = self._scope
        self._by_site = analysis.by_site(scope.records)
        made = [charts.by_site(self._by_site, provenance=scope.provenance)]
        if self._over_time is not None:
            counted = scope.over_time(self._over_time)
            made.append(charts.status_over_time(counted, provenance=scope.told_of(("site", "user_id"))))
        made.append(self._offered[self.question](scope))
        self._drawn = made
        return made

    def _controls(self) -> list[Any]:
        everything = self._scope.all
        people = sorted(everything["user_id"].unique())[:PEOPLE_OFFERED]
        self._user = Combobox(
            description="User",
            options=[_EVERYONE, *map(str, people)],
            placeholder="id of a person",
            continuous_update=False,
        )
        self._site = SelectMultiple(description="Sites", options=_options(everything["site"]), rows=5)
        self._status = SelectMultiple(description="Statuses", options=_options(everything["status"]), rows=5)
        clear = Button(description="Clear")
        self._ask = Dropdown(
            description="Chart",
            options=[(question.replace("_", " "), question) for question in self._offered],
            value=self.question,
        )
        self._user.observe(self.answering(lambda change: self._moved(user=_user_id(change["new"]))), "value")
        self._site.observe(self.answering(lambda change: self._moved(sites=change["new"])), "value")
        self._status.observe(self.answering(lambda change: self._moved(statuses=change["new"])), "value")
        self._ask.observe(self.answering(lambda change: self._asked(change["new"])), "value")
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

    def _asked(self, question: str) -> None:
        if not self._is_telling:
            self.ask(question)

    def _show(self) -> None:
        for living, figure in zip(self._figures, self._charts(), strict=True):
            redraw(living, figure)
        self._clicks()
        self._table.show(self._scope.records)
        self._told()

    def _told(self) -> None:
        """The controls say what is shown, however it was picked."""
        self._is_telling = True
        try:
            self._ask.value = self.question
            self._user.value = "" if self.user is None else str(self.user)
            several = (self._site, "site", self.sites), (self._status, "status", self.statuses)
            for control, name, picked in several:
                control.options = _options(self._scope.all[name], picked)
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

        def on_day(_place: int, x: Any) -> None:
            self._moved(day=pd.Timestamp(x).date())

        for living, act in zip(self._figures, (on_site, on_day)[: len(self._figures) - 1], strict=False):
            listen(living, self._safely(act))

    def _safely(self, act: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
        """What a click does, with its errors shown."""
        answer = self.answering(lambda point: act(*point))
        return lambda place, x: answer((place, x))


def _records(exposure: Exposure | None, history: History | None, day: date | None) -> pd.DataFrame:
    """Those of everyone on a day; None: now."""
    if day is None and exposure is not None:
        return exposure.records()
    if history is None:
        raise Misconfigured("A day is asked of a history, and this dashboard has none")
    return history.records(as_of=day)


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
