"""Dashboard: figures, charts and a table of the same records, with pickers, a day, tabs, and bars that filter."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from typing import Any

import pandas as pd
from ipywidgets import HTML, Box, Dropdown, HBox, VBox

from exposurekit import charts
from exposurekit.analysis.statuses import VANISHED
from exposurekit.charts.embedding import in_terminal, widget_library
from exposurekit.charts.theme import embed, escape, short
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.frames.person_names import People, aliases_of, labels_of
from exposurekit.history import History
from exposurekit.questions import QUESTIONS
from exposurekit.text.formatting import pluralize
from exposurekit.text.sanitize import isolated, plain
from exposurekit.text.times import When, parse_time
from exposurekit.widgets import dashboard_metrics, static_html
from exposurekit.widgets.dashboard_scope import CHANGES_DAYS, NOW, Scope, available, draw, needed_for
from exposurekit.widgets.explorer import Explorer
from exposurekit.widgets.figure_widget import ChartCard, align, mark
from exposurekit.widgets.multi_select import MultiSelect
from exposurekit.widgets.panel import Panel, in_words, publish, with_classes
from exposurekit.widgets.slider import Slider
from exposurekit.widgets.tabs import Tabs
from exposurekit.widgets.textbox import TextBox

_QUESTION_MAX = 100  # characters: a longer word is not a misspelling
_BY_USER = "by_user"  # the question whose bars are people
_USER = re.compile(r"\buser (\d+)\b")
_SINCE_DAYS = (7, 30, 90)
_NO_HISTORY = "a day needs a history: pass one, Dashboard(exposure, history)"
_DEFAULT_SINCE = (f"{CHANGES_DAYS} days before", None)
_CLASSES = {status: status.replace(" ", "-") for status in (DISCOVERED, PENDING_REMOVAL, REMOVED, VANISHED)}


class Dashboard(Panel):
    """Figures, exposure by site, status over time, and the records behind them; what is picked or clicked filters all.

    Args:
        exposure: The current tables. None, or a `History` alone: the newest state of the history.
        history: Adds the day to pick, and charts over time.

    One chart, or two with a history, are always displayed; the last has a tab for each question, as `ask`. The picked day, people, sites and
    statuses apply to all of them; a chart that cannot apply one says so below its title. A click on the bar of a site
    or person marks it and dims the others; another click adds a bar, or removes it. Clear resets everything.

    Attributes:
        question: The question that the last chart answers.

    Raises:
        InvalidArgument: Neither is given, or something else, such as a table.
        NotFound: The history is empty.

    >>> dashboard = ek.widgets.Dashboard(exposure, history)
    >>> dashboard
    Dashboard: ... of ... records, now
    >>> dashboard.pick(statuses=["removed"])
    >>> bool((dashboard.records["status"] == "removed").all())
    True
    """

    def __init__(self, exposure: Exposure | History | None = None, history: History | None = None) -> None:
        if isinstance(exposure, History) and history is None:
            exposure, history = None, exposure
        if not (isinstance(exposure, Exposure | None) and isinstance(history, History | None)) or (
            exposure is None and history is None
        ):
            raise InvalidArgument(
                "Give an exposure, a history, or both: Dashboard(exposure, history), Dashboard(history=history)"
            )
        self._scope = Scope(exposure, history, _records(exposure, history, None))
        self._people = _people(exposure, history)
        self._available = available(exposure, history)
        self.question = self._available[0]
        self._is_updating = False
        self._over_time = None if history is None else history.status_over_time()
        self._table = Explorer(self._scope.all_records, name="records")
        self._drawn = self._draw()
        self._title, self._summary, self._source = HTML(), HTML(), HTML()
        self._person_note, self._metrics = HTML(), HTML()
        picks, *slider = self._controls()
        since = [] if history is None else [self._since]
        *fixed, chosen = self._drawn
        source = self._scope.source
        self._cards = [ChartCard(one, source=source) for one in fixed]
        self._cards.append(ChartCard(chosen, *since, source=source))
        wide = () if history is None else ("exposurekit-wide",)  # else beside the only other chart
        answers = with_classes(VBox([self._ask, self._cards[-1]]), "exposurekit-answers", *wide)
        grid = with_classes(Box([*self._cards[:-1], answers]), "exposurekit-charts")
        head = with_classes(VBox([self._title, self._summary, self._source]), "exposurekit-head")
        super().__init__([head, picks, self._person_note, *slider, self._metrics, grid, self._table])
        self._connect_clicks()
        self._update_controls()

    @property
    def sites(self) -> tuple[str, ...]:
        """The picked sites; empty: all."""
        return self._scope.sites

    @property
    def statuses(self) -> tuple[str, ...]:
        """The picked statuses; empty: all."""
        return self._scope.statuses

    @property
    def users(self) -> tuple[int, ...]:
        """The ids of the picked people; empty: everyone."""
        return self._scope.users

    @property
    def day(self) -> date | None:
        """The displayed day; None: now."""
        return self._scope.day

    @property
    def _is_filtered(self) -> bool:
        return bool(self.sites or self.statuses or self.users or self.day)

    def pick(
        self,
        *,
        sites: Sequence[str] | None = None,
        statuses: Sequence[str] | None = None,
        user: int | str | Sequence[int | str] | None = None,
        day: When = None,
        since: When = None,
    ) -> None:
        """Display this; what is not given is not filtered.

        Args:
            sites: Names of sites.
            statuses: Statuses of the records.
            user: A person by id or name, or several; None: everyone.
            day: A day of the history, until its end in UTC, such as ``2026-03-01`` or ``14d`` (14 days ago); None or
                ``now``: now.
            since: The day from which ``changes`` counts, in the same forms; None: 14 days before the day, or the first
                run.

        Raises:
            InvalidArgument: A day without a history, an argument of another form, or a name that several people have.
            NotFound: The history has nothing on that day, or nobody has that id or name. The display stays as it is.

        >>> dashboard = ek.widgets.Dashboard(exposure)
        >>> dashboard.pick(user=[1, 2])
        >>> dashboard.users
        (1, 2)
        """
        if isinstance(sites, str) or isinstance(statuses, str):
            raise InvalidArgument("sites and statuses are lists of names, such as ['removed']")
        previous = self._scope
        new_day, start = _day(day, previous.history), _day(since, previous.history)
        is_same_day = new_day == previous.day
        records = (
            previous.all_records if is_same_day else _records(previous.exposure, previous.history, new_day)
        )
        picked = tuple(sites or ()), tuple(statuses or ()), self._people.ids(user)
        self._scope = Scope(previous.exposure, previous.history, records, new_day, *picked, start)
        try:
            self._show()
        except Exception:
            self._scope = previous
            self._show()
            raise

    def clear(self) -> None:
        """Reset everything: no search, no picks, no marks, no selected rows, and now.

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
        """Answer another question in the last chart, as its tab does.

        Args:
            question: A name in `ek.charts`, such as ``by_user``; the tabs are those that an exposure or a history
                can answer for a day.

        Raises:
            InvalidArgument: The question is not one of these.

        >>> dashboard = ek.widgets.Dashboard(exposure, history)
        >>> dashboard.ask("relistings")
        """
        if question not in self._available:
            # A misspelt name may be that of a question which this dashboard does not offer.
            for nearest in get_close_matches(str(question)[:_QUESTION_MAX], QUESTIONS, 1):
                if needed := needed_for(nearest, self._scope.exposure, self._scope.history):
                    raise InvalidArgument(f"{nearest} needs {needed}: Dashboard(exposure, history)")
        InvalidArgument.check("question", question, self._available)
        previous, self.question = self.question, question
        try:
            self._drawn[-1] = self._third_chart()
        except Exception:
            self.question = previous
            raise
        self._cards[-1].show(self._drawn[-1], is_filtered=self._is_filtered, source=self._scope.source)
        self._connect_clicks()
        self._update_controls()

    @property
    def records(self) -> pd.DataFrame:
        """The displayed records, with the ``person`` if names are known; a copy."""
        return self._scope.records.copy()

    def line(self) -> str:
        """What is displayed, in one line; people by id."""
        return f"Dashboard: {self._in_short()}"

    def _in_short(self) -> str:
        scope = self._scope
        counts = f"{len(scope.records):,} of {len(scope.all_records):,} records"
        return ", ".join([counts, str(scope.day or NOW), *scope.filters])

    def to_html(self) -> str:
        """The charts in words, each with its provenance, and the numbers by site.

        >>> "<caption>" in ek.widgets.Dashboard(exposure).to_html()
        True
        """
        return self._static_html(map(_described, self._drawn))

    def to_output_html(self) -> str:
        """The same with the charts drawn, whose alternative text the words become; one without data is a note."""
        return self._static_html(
            embed(figure, _described(figure)) if figure.data else _nothing(figure) for figure in self._drawn
        )

    def _static_html(self, figures: Iterable[str]) -> str:
        table = static_html.table(self._scope.by_site, caption="Listings by site")
        return static_html.section(
            f'<p class="headline">{isolated(self._in_short())}</p>',
            self._metrics.value,
            *(f'<div class="card">{figure}</div>' for figure in figures),
            table,
            f'<p class="label">{isolated(self._scope.provenance)}</p>',
        )

    def _ipython_display_(self) -> None:
        super()._ipython_display_()
        if not in_terminal() and (library := widget_library()):
            publish({"text/html": library})  # apart from the charts, which are sent again after each click

    def update_fallback(self) -> None:
        """Skip the updates while the controls are set one by one: one follows at the end."""
        if not self._is_updating:
            super().update_fallback()

    def _draw(self) -> list[charts.Chart]:
        """The charts that are always displayed, and that of the question."""
        scope = self._scope
        drawn = [charts.by_site(scope.by_site, provenance=scope.everywhere.provenance)]
        mark(drawn[0], [site in scope.sites for site in self._rows("site")])
        if self._over_time is not None:
            self._counts = scope.over_time(self._over_time)
            provenance = scope.provenance_for(("site", "user_id"))
            drawn.append(charts.status_over_time(self._counts, provenance=provenance))
            align(drawn)  # side by side
        return [*drawn, self._third_chart()]

    def _third_chart(self) -> charts.Chart:
        """The chart of the question."""
        drawn = draw(self.question, self._scope)
        if self.question == _BY_USER:
            users = self._rows("user_id")
            if self._scope.exposure is not None:  # a history has no names
                _name_people(drawn, dict(zip(users, self._people.distinct_names(users), strict=True)))
            mark(drawn, [user in self.users for user in users])
        return drawn

    def _rows(self, by: str) -> list[Any]:
        """The sites, or the people, of the bars of their chart, in order."""
        table = self._scope.by_site if by == "site" else self._scope.by_user
        return table[by].tolist()[: charts.MAX_ROWS]

    def _controls(self) -> list[Any]:
        self._person = TextBox(
            description="Person",
            placeholder="name or id",
            options=self._people.completions(""),
        )
        self._site = MultiSelect("Sites", everything="all sites")
        self._status = MultiSelect("Statuses", everything="all statuses")
        options = [(QUESTIONS[name].group, QUESTIONS[name].title, name) for name in self._available]
        self._ask = Tabs("Questions", options, self.question)
        self._since = Dropdown(description="Changes since", options=[_DEFAULT_SINCE])
        self._since.observe(self.callback(lambda change: self._change(since=change["new"])), "value")
        self._person.observe(self.callback(lambda change: self._find_person(change["new"])), "value")
        self._site.observe(self.callback(lambda change: self._change(sites=change["new"])), "value")
        self._status.observe(self.callback(lambda change: self._change(statuses=change["new"])), "value")
        self._ask.observe(self.callback(lambda change: self._change_question(change["new"])), "value")
        picks = [self._person, self._site, self._status, self.button("Clear", lambda _: self.clear())]
        return [with_classes(HBox(picks), "exposurekit-filters"), *self._slider()]

    def _slider(self) -> list[Any]:
        if self._over_time is None:
            return []
        self._day = Slider("Day", [*(f"{one:%Y-%m-%d}" for one in self._over_time["period"]), NOW], NOW)
        self._day.observe(self.callback(lambda change: self._change(day=change["new"])), "value")
        return [self._day]

    def _change(self, **change: Any) -> None:
        if not self._is_updating:
            picked = {"sites": self.sites, "statuses": self.statuses, "user": self.users, "day": self.day}
            self.pick(**picked | {"since": self._scope.since} | change)

    def _find_person(self, text: str) -> None:
        if not self._is_updating:
            self._person.options = self._people.completions(text)
            if (users := self._people.unique_match(text)) == self.users:
                self._person_note.value = self._person_message()
            else:
                self._change(user=users)

    def _change_question(self, question: str) -> None:
        """Answer the question of a tab; the tab stays picked if that fails, and its card says why."""
        if self._is_updating:
            return
        try:
            self.ask(question)
        except Exception as error:  # noqa: BLE001  displayed where the chart would be
            self.error = error
            self._cards[-1].show_error(in_words(error))
        self._ask.displayed = self._ask.value

    def _show(self) -> None:
        self._drawn = self._draw()
        for card, figure in zip(self._cards, self._drawn, strict=True):
            card.show(figure, is_filtered=self._is_filtered, source=self._scope.source)
        self._connect_clicks()
        self._table.show(self._scope.records)
        self._update_controls()

    def _update_controls(self) -> None:
        self._is_updating = True
        try:
            self._ask.value = self._ask.displayed = self.question
            if self._people.unique_match(self._person.value) != self.users:
                self._person.value = self._people.names(self.users) if len(self.users) == 1 else ""
            self._offer(self._site, "site", self._scope.everywhere, self.sites)
            self._offer(self._status, "status", self._scope.any_status, self.statuses)
            if self._over_time is not None:
                self._day.value = str(self.day or NOW)
            self._update_since()
        finally:
            self._is_updating = False
        people = self._scope.stopped or pluralize(len(self.users) or self._monitored(), "person", "people")
        self._title.value = f'<h2 class="headline">Exposure of {people}</h2>'
        self._summary.value = f'<p class="label" role="status">{isolated(self._in_short())}</p>'
        self._source.value = f'<p class="label">{isolated(self._scope.source)}</p>'
        is_drawn = self._over_time is not None and not self.statuses  # it counts all statuses
        over_time = self._counts if is_drawn else None
        self._metrics.value = dashboard_metrics.to_html(
            dashboard_metrics.measure(
                self._scope.records,
                self._scope.links,
                over_time,
                has_all_pages=bool(self.sites or self.statuses),
            )
        )
        self._person_note.value = self._person_message()
        self.update_fallback()

    def _offer(self, control: MultiSelect, name: str, scope: Scope, picked: Sequence[str]) -> None:
        """Offer the values of a column, with how many records have each under the other filters."""
        counts = {str(value): n for value, n in scope.records[name].value_counts().items() if n}
        options = {*self._scope.all_records[name].dropna().unique().astype("str"), *picked}
        control.offer(
            [(plain(value), value) for value in sorted(options)], picked, counts=counts, classes=_CLASSES
        )

    def _update_since(self) -> None:
        history, since = self._scope.history, self._scope.since
        if history is None:
            return
        self._since.layout.display = None if "since" in QUESTIONS[self.question].options else "none"
        first_run = self._scope.first_day
        options = [
            _DEFAULT_SINCE,
            *((f"{days} days ago", _day(f"{days}d", history)) for days in _SINCE_DAYS),
        ]
        options.append((f"the first run ({first_run})", first_run))
        if since not in [value for _, value in options]:
            options.append((str(since), since))
        self._since.options = options
        self._since.index = [value for _, value in options].index(
            since
        )  # of a value None it would display nothing

    def _monitored(self) -> int:
        """How many people the records are of, with a listing or without."""
        if self._over_time is None or (self.day is None and self._scope.exposure is not None):
            assert self._scope.exposure is not None  # noqa: S101  a dashboard has one, or a history
            return len(self._scope.exposure.users())
        people = self._over_time["people"]
        until = people if self.day is None else people[self._over_time["period"].dt.date <= self.day]
        return int(until.fillna(0).iloc[-1])

    def _person_message(self) -> str:
        text, names = self._person.value, self._people.names(self.users)
        if names:
            return "" if text == names else f'<p role="status">Person: {isolated(names)}</p>'
        if not text.strip():
            return ""
        n_matches = len(self._people.matching(text))
        if not n_matches:
            return '<p role="alert">No person here has this name or id. Everyone is shown.</p>'
        return f'<p role="status">{n_matches:,} people match. Type more, or choose one; until then everyone is shown.</p>'

    def _connect_clicks(self) -> None:
        """A click on a bar adds or removes its site or person; a click on a day picks the day."""
        by_site, *over_time, chosen = [card.view for card in self._cards]
        self._connect_bars(by_site, "site", lambda site: self._change(sites=_toggle(self.sites, site)))
        for view in over_time:
            view.on_click(self._safe(lambda _row, x: self._change(day=pd.Timestamp(x).date())))
        if self.question == _BY_USER:
            self._connect_bars(chosen, "user_id", lambda user: self._change(user=_toggle(self.users, user)))

    def _connect_bars(self, view: Any, by: str, action: Callable[[Any], None]) -> None:
        rows = self._rows(by)
        view.on_click(self._safe(lambda row, _x: action(rows[row]) if row < len(rows) else None))

    def _safe(self, action: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
        run = self.callback(lambda point: action(*point))
        return lambda row, x: run((row, x))


def _people(exposure: Exposure | None, history: History | None) -> People:
    """Everybody in an exposure or a history; a history has no names."""
    ids = [] if history is None else history.people()["user_id"].tolist()
    labels = {one: str(one) for one in ids} | ({} if exposure is None else labels_of(exposure.users()))
    aliases = {} if exposure is None else aliases_of(exposure.aliases())
    return People(dict(sorted(labels.items())), aliases)


def _records(exposure: Exposure | None, history: History | None, day: date | None) -> pd.DataFrame:
    """The records of everyone on a day, with the names on file if there is an exposure; None: now."""
    if day is None and exposure is not None:
        return exposure.with_people(exposure.records())
    if history is None:
        raise InvalidArgument(_NO_HISTORY)
    records = history.records(as_of=day)
    return records if exposure is None else exposure.with_people(records)


def _described(figure: charts.Chart) -> str:
    words, provenance = charts.describe(figure), figure.layout.meta["provenance"]
    return f"<p>{isolated(words)}</p><p><em>{isolated(provenance)}</em></p>"


def _nothing(figure: charts.Chart) -> str:
    """What is shown for a chart without data: its finding and its provenance."""
    meta = figure.layout.meta
    return (
        f'<div class="empty"><strong>{isolated(meta["finding"])}</strong>'
        f"<span>{isolated(meta['provenance'])}</span></div>"
    )


def _name_people(figure: charts.Chart, names: Mapping[int, str]) -> None:
    """Replace ``user 7`` by a name in all texts of a chart of people, but for its repr."""

    def named(text: str) -> str:
        return _USER.sub(lambda user: short(names.get(int(user[1]), user[0])), text)

    def in_plotly(texts: Iterable[str] | None) -> list[str]:
        return [_USER.sub(lambda user: escape(named(user[0])), text) for text in texts or ()]

    meta = figure.layout.meta
    finding = named(meta["finding"])
    texts = {"finding": finding, "summary": named(meta["summary"]), "repr": meta["finding"]}
    figure.update_layout(meta=meta | texts, title={"text": escape(finding)})
    figure.update_yaxes(ticktext=in_plotly(figure.layout.yaxis.ticktext))
    figure.for_each_trace(lambda bars: bars.update(customdata=in_plotly(bars.customdata)), {"type": "bar"})


def _toggle(picked: tuple[Any, ...], one: Any) -> tuple[Any, ...]:
    return tuple(other for other in picked if other != one) if one in picked else (*picked, one)


def _day(when: When, history: History | None) -> date | None:
    """The day of a time; None: now."""
    if when is None or when == NOW:
        return None
    if history is None:
        raise InvalidArgument(_NO_HISTORY)
    return parse_time(when, now=history._clock()).date()  # noqa: SLF001  of a sandbox its own
