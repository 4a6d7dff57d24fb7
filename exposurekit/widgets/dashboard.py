"""Charts and a table over one set of records, with pickers, a date, and clicks that filter the rest. Fetches nothing itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pandas as pd
from ipywidgets import HTML, Button, Dropdown, HBox, Layout, SelectionSlider, SelectMultiple

from exposurekit import analysis, charts
from exposurekit.errors import InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import escaped, plain
from exposurekit.widgets import static_html
from exposurekit.widgets.explorer import Explorer
from exposurekit.widgets.figure_widget import create_view, mark, on_click, redraw
from exposurekit.widgets.panel import Panel
from exposurekit.widgets.people import people
from exposurekit.widgets.scope import NOW, Scope, available
from exposurekit.widgets.textbox import TextBox

_BY_USER = "by_user"  # the question whose bars are people


class Dashboard(Panel):
    """Exposure by site, status counts over time, and the records behind them; what is picked or clicked filters the rest.

    Args:
        exposure: What is so now; None: as the history last saw it.
        history: What was so: then there is a date to move, and a chart over time.

    Two charts are always there; the third answers the question that is asked (`ask`). A day, people, sites and
    statuses drive all of them; a chart that cannot heed one of these says so below its title. A click on the bar of a
    site, or of a person, marks it and dims the others; another click adds a bar, or takes it back. Clear shows
    everything again.

    Attributes:
        question: What the third chart answers.

    Raises:
        InvalidArgument: There is neither, or something else, such as a table.
        NotFound: The history is empty.

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
            raise InvalidArgument(
                "Give an exposure, a history, or both: Dashboard(exposure), Dashboard(history=history)"
            )
        self._scope = Scope(exposure, history, _records(exposure, history, None))
        self._people = people(exposure, history)
        self._offered = available(exposure, history)
        self.question = next(iter(self._offered))
        self._is_telling = False
        self._over_time = None if history is None else history.status_over_time()
        self._table = Explorer(self._scope.all, name="records")
        self._figures = [create_view(figure) for figure in self._charts()]
        self._finding = HTML()
        *fixed, asked = self._figures
        self._whom = HTML()
        picks, *slider = self._controls()
        super().__init__([self._finding, picks, self._whom, *slider, *fixed, self._ask, asked, self._table])
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
    def users(self) -> tuple[int, ...]:
        """The ids of the people who are picked; none: everyone."""
        return self._scope.users

    @property
    def day(self) -> date | None:
        """The day that is shown; None: now."""
        return self._scope.day

    def pick(
        self,
        *,
        sites: Sequence[str] | None = None,
        statuses: Sequence[str] | None = None,
        user: int | str | Sequence[int | str] | None = None,
        day: str | date | None = None,
    ) -> None:
        """Show this; what is left out is not filtered.

        Args:
            sites: Their names.
            statuses: As the records have them.
            user: A person by id or name, or several; None: everyone.
            day: A day of the history, until its end in UTC; None or ``now``: now.

        Raises:
            InvalidArgument: A day was asked for, and there is no history; or what is asked is of no such form, or a name
                is that of several people.
            NotFound: Nothing was seen by that day, or nobody has that id or name. What was shown stays.

        >>> dashboard = ek.widgets.Dashboard(exposure)
        >>> dashboard.pick(user=[1, 2])
        >>> dashboard.users
        (1, 2)
        """
        if isinstance(sites, str) or isinstance(statuses, str):
            raise InvalidArgument("sites and statuses are lists of names, such as ['removed']")
        asked, was = _day(day), self._scope
        of = was.all if asked == was.day else _records(was.exposure, was.history, asked)
        picked = tuple(sites or ()), tuple(statuses or ()), self._people.ids(user)
        self._scope = Scope(was.exposure, was.history, of, asked, *picked)
        try:
            self._show()
        except Exception:
            self._scope = was
            self._show()
            raise

    def clear(self) -> None:
        """Show everything again: no search, no people, sites or statuses, no marks, no ticks, and now.

        >>> dashboard = ek.widgets.Dashboard(exposure)
        >>> dashboard.pick(statuses=["removed"], user=1)
        >>> dashboard.clear()
        >>> len(dashboard.records) == len(exposure.records())
        True
        """
        self._table.clear()
        self._person.value = ""
        self.pick()

    def ask(self, question: str) -> None:
        """Draw the chart of another question, of what is picked.

        Args:
            question: As it is called in `ek.charts`: ``by_user``, ``user_by_site``, ``by_state``, ``by_kind``; with an
                exposure ``blockers`` and ``best_next_fields``; with a history ``changes``, ``time_to_removal``,
                ``survival``, ``relistings``, ``work_queue``, ``precision``, ``site_health`` and ``forecast``.

        Raises:
            InvalidArgument: It is none of these.

        >>> dashboard = ek.widgets.Dashboard(exposure, history)
        >>> dashboard.ask("relistings")
        """
        if question not in self._offered:
            raise InvalidArgument(f"question is one of: {', '.join(self._offered)}")
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
        table = static_html.table(self._by_site, caption="Listings by site")
        return f"<section><p>{escaped(self.line())}</p>{words}{table}<p>{escaped(self._scope.provenance)}</p></section>"

    def renew(self) -> None:
        """Not while the controls are told, one by one, what is picked: once, when they say it."""
        if not self._is_telling:
            super().update_fallback()

    def _charts(self) -> list[charts.Chart]:
        """The charts of what is picked, and the table behind the first; both are kept for the twin."""
        scope, everywhere = self._scope, replace(self._scope, sites=())
        self._by_site = analysis.by_site(everywhere.records)
        made = [charts.by_site(self._by_site, provenance=everywhere.provenance)]
        mark(made[0], [site in scope.sites for site in self._rows("site")])
        if self._over_time is not None:
            counted = scope.over_time(self._over_time)
            made.append(charts.status_over_time(counted, provenance=scope.told_of(("site", "user_id"))))
        if self.question == _BY_USER:
            made.append(self._offered[_BY_USER](replace(scope, users=())))
            mark(made[-1], [user in scope.users for user in self._rows("user_id")])
        else:
            made.append(self._offered[self.question](scope))
        self._drawn = made
        return made

    def _rows(self, by: str) -> list[Any]:
        """The sites, or the people, of the bars in their chart, from the first."""
        if by == "site":
            return self._by_site["site"].tolist()[: charts.SHOWN]
        table = analysis.by_user(replace(self._scope, users=()).records)
        return table["user_id"].tolist()[: charts.SHOWN]

    def _controls(self) -> list[Any]:
        everything = self._scope.all
        self._person = TextBox(
            description="Person",
            placeholder="name or id",
            options=self._people.completions(""),
        )
        self._site = SelectMultiple(description="Sites", options=_options(everything["site"]), rows=5)
        self._status = SelectMultiple(description="Statuses", options=_options(everything["status"]), rows=5)
        clear = Button(description="Clear")
        self._ask = Dropdown(
            description="Chart",
            options=[(question.replace("_", " "), question) for question in self._offered],
            value=self.question,
        )
        self._person.observe(self.callback(lambda change: self._named(change["new"])), "value")
        self._site.observe(self.callback(lambda change: self._moved(sites=change["new"])), "value")
        self._status.observe(self.callback(lambda change: self._moved(statuses=change["new"])), "value")
        self._ask.observe(self.callback(lambda change: self._asked(change["new"])), "value")
        clear.on_click(self.callback(lambda _: self.clear()))
        picks = [self._person, self._site, self._status, clear]
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
        self._day.observe(self.callback(lambda change: self._moved(day=change["new"])), "value")
        return [self._day]

    def _moved(self, **asked: Any) -> None:
        """One thing is picked otherwise, by a control or a click; all else stays."""
        if not self._is_telling:
            picked = {"sites": self.sites, "statuses": self.statuses, "user": self.users, "day": self.day}
            self.pick(**picked | asked)

    def _named(self, text: str) -> None:
        """Somebody types whom to show: whoever is meant is picked, and nobody else."""
        if not self._is_telling:
            self._person.options = self._people.completions(text)
            self._moved(user=self._people.meant(text))

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
            if self._people.meant(self._person.value) != self.users:
                self._person.value = self._people.names(self.users) if len(self.users) == 1 else ""
            several = (self._site, "site", self.sites), (self._status, "status", self.statuses)
            for control, name, picked in several:
                control.options = _options(self._scope.all[name], picked)
                control.value = picked
            if self._over_time is not None and (self.day or NOW) in [value for _, value in self._day.options]:
                self._day.value = self.day or NOW
        finally:
            self._is_telling = False
        self._finding.value = f'<p role="status">{escaped(self.line())}</p>'
        self._whom.value = self._said_of_people()
        self.update_fallback()

    def _said_of_people(self) -> str:
        """Who is shown, or why everyone is, where the box alone does not say it."""
        text, names = self._person.value, self._people.names(self.users)
        if names:
            return "" if text == names else f'<p role="status">Person: {escaped(names)}</p>'
        if not text.strip():
            return ""
        found = len(self._people.matching(text))
        if not found:
            return '<p role="alert">No person here has this name or id. Everyone is shown.</p>'
        return f'<p role="status">{found:,} people match. Type on, or choose one; until then everyone is shown.</p>'

    def _clicks(self) -> None:
        """A click on a bar adds its site, or its person, to what is picked, or takes it back; on a day, it picks the day."""
        by_site, *over_time, asked = self._figures
        self._on_bars(by_site, "site", lambda site: self._moved(sites=_toggled(self.sites, site)))
        for living in over_time:
            on_click(living, self._safely(lambda _place, x: self._moved(day=pd.Timestamp(x).date())))
        if self.question == _BY_USER:
            self._on_bars(asked, "user_id", lambda user: self._moved(user=_toggled(self.users, user)))

    def _on_bars(self, living: Any, by: str, act: Callable[[Any], None]) -> None:
        rows = self._rows(by)
        on_click(living, self._safely(lambda place, _x: act(rows[place]) if place < len(rows) else None))

    def _safely(self, act: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
        """What a click does, with its errors shown."""
        answer = self.callback(lambda point: act(*point))
        return lambda place, x: answer((place, x))


def _records(exposure: Exposure | None, history: History | None, day: date | None) -> pd.DataFrame:
    """Those of everyone on a day; None: now."""
    if day is None and exposure is not None:
        return exposure.records()
    if history is None:
        raise InvalidArgument("A day is asked of a history, and this dashboard has none")
    return history.records(as_of=day)


def _options(values: "pd.Series[Any]", picked: Sequence[str] = ()) -> list[tuple[str, str]]:
    """What can be picked: what there is, and what is picked already."""
    there = {*values.dropna().drop_duplicates().astype("str"), *picked}
    return [(plain(value), value) for value in sorted(there)]


def _toggled(picked: tuple[Any, ...], one: Any) -> tuple[Any, ...]:
    return tuple(other for other in picked if other != one) if one in picked else (*picked, one)


def _day(day: str | date | None) -> date | None:
    try:
        return None if day in (None, NOW) else date.fromisoformat(str(day)[:10])
    except ValueError:
        raise InvalidArgument("day is a day, such as '2026-03-01'") from None
