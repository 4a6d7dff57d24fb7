"""Alert by alert, the steps that a human must do, as boxes to tick. Opens no page, and does no step."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from ipywidgets import HTML, Button, Checkbox, Dropdown, HBox, IntProgress, Layout, Text, ToggleButton, VBox

from exposurekit import analysis, frames
from exposurekit.analysis.tasks import Task, tasks, with_listings, with_pages
from exposurekit.analysis.work_queue import DONE, TO_DO, UNABLE
from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import escaped, plain
from exposurekit.widgets import listings, static_html
from exposurekit.widgets.copying import CopyTable
from exposurekit.widgets.panel import Panel
from exposurekit.widgets.shortcuts import Keys

OFFERED = 500
STATIC_MAX = 300  # alerts in the static copy of a saved or exported notebook
SAME_SHOWN = 30  # listings with the same steps, each with a box of its own
_NOT_KEPT = "No history was given: ticks are kept as long as this widget is."
_KEY = ["user_id", "alert_number"]
_WIDE = Layout(width="auto")


class OptOutChecklist(Panel):
    """The alerts that need a human, in the order that clears most for the time, and the steps of each to tick.

    Args:
        alerts: As `Exposure.alerts` or `History.alerts` give them, or a part of it.
        history: Where ticks and notes are kept; they are there again after a restart. None: nowhere.
        exposure: An `Exposure`, for whose each listing is and what to enter, where ``alerts`` are a history's.

    Each alert shows which listing it is about, whose that is, and what to enter, each value with a button that copies
    it. A box ticks all steps of a listing; where listings of one site need the same steps, each has its box there.

    Attributes:
        steps: The steps as they stand: those of `Exposure.steps`, ``tick`` and ``tick_note``.

    Raises:
        InvalidArgument: ``alerts`` is no such table.

    Source: specification, "Alert".

    >>> ek.widgets.OptOutChecklist(exposure.alerts(), history)
    OptOutChecklist: ... of ... alerts that need somebody done; ... alerts in all
    """

    def __init__(
        self, alerts: pd.DataFrame, history: History | None = None, *, exposure: Exposure | None = None
    ) -> None:
        if not isinstance(alerts, pd.DataFrame) or not {*_KEY, "opt_out_procedure"} <= {*alerts.columns}:
            raise InvalidArgument("alerts is a table: exposure.alerts(), history.alerts(), or a part of one")
        self._history = history
        self._alerts = _described(alerts.reset_index(drop=True), exposure, history)
        self.steps = _ticked(frames.steps_from_alerts(self._alerts), history)
        self._keys = [*zip(self._alerts["user_id"], self._alerts["alert_number"], strict=True)]
        self._places = self.steps.groupby(_KEY).indices
        self._tallies = listings.tallied(self.steps)
        self._needed, rest = _ordered(self._alerts, self.steps)
        self._order = self._needed + rest
        self._same = listings.alike(self._alerts, self._needed)
        self._tasks: dict[int, Task] = {}
        self._static: dict[int, str] = {}  # the static HTML of an alert, until one of its steps is ticked
        self._place = 0
        self._pick = Dropdown(description="Alert", layout=_WIDE)
        self._about, self._rows, self._far = HTML(), VBox(), HTML()
        self._enter, self._guide, self._together = CopyTable(), HTML(), VBox()
        self._boxes: dict[int, Checkbox] = {}  # of whole listings, by their place
        self._is_telling = False
        self._bar = IntProgress(description="Steps", min=0, layout=_WIDE)
        turn = [_button("Previous alert", self, -1), _button("Next alert", self, 1)]
        keys = Keys({"n": "next alert", "p": "previous alert"}, self.answering(self._pressed))
        about = [self._about, self._enter, self._guide, self._rows, self._bar, self._far, self._together]
        super().__init__([self._pick, HBox(turn), *about, keys])
        self._on_pick = self.answering(lambda change: self._picked(change["new"]))
        self._choices()
        self._show()

    def line(self) -> str:
        """How far it is, in one line."""
        return f"OptOutChecklist: {self._told_done()}; {len(self._order):,} alerts in all"

    def to_html(self) -> str:
        """Every alert that needs somebody, with its steps and ticks, in the order of the work; 300 at most.

        >>> "<ol>" in ek.widgets.OptOutChecklist(exposure.alerts()).to_html()
        True
        """
        shown = self._order[: min(max(len(self._needed), static_html.ROWS), STATIC_MAX)]
        new = [place for place in shown if place not in self._tasks]
        self._tasks |= zip(new, tasks(self._alerts.iloc[new]), strict=True)
        parts = [self._static_of(place) for place in shown]
        left_out = len(self._needed) - len(shown)
        more = (
            f"<p>{left_out:,} more need somebody: ek.export(history, 'queue.md') has all.</p>"
            if left_out > 0
            else ""
        )
        return f"<section><p>{escaped(self.line())}</p>{''.join(parts)}{more}</section>"

    def step(self, ahead: int) -> None:
        """Go on by so many alerts, or back; at either end it stays.

        >>> checklist = ek.widgets.OptOutChecklist(exposure.alerts())
        >>> checklist.step(1)
        >>> checklist.alert.name == checklist.order[1]
        True
        """
        self._picked(max(0, min(len(self._order) - 1, self._place + ahead)))

    @property
    def order(self) -> list[int]:
        """The alerts, by their place in the table that was given, in the order of the work."""
        return [*self._order]

    @property
    def alert(self) -> "pd.Series[Any]":
        """The alert that is shown."""
        if not self._order:
            raise InvalidArgument("There is no alert to show")
        return self._alert(self._order[self._place])

    def _alert(self, place: int) -> "pd.Series[Any]":
        return self._alerts.iloc[place]

    def _task(self, place: int) -> Task:
        if place not in self._tasks:
            [self._tasks[place]] = tasks(self._alerts.iloc[[place]])
        return self._tasks[place]

    def _of(self, place: int) -> pd.DataFrame:
        return self.steps.iloc[self._places.get(self._keys[place], [])]

    def _told(self, place: int) -> str:
        of = self._of(place)
        return (
            f"{_head(self._alert(place))}{static_html.task(self._task(place))}{_guide(self._alert(place))}"
            + (
                static_html.steps(
                    of["step"].tolist(),
                    of["tick"].fillna(TO_DO).tolist(),
                    of["tick_note"].fillna("").tolist(),
                )
                if len(of)
                else f"<p>{_STEPLESS}</p>"
            )
        )

    def _static_of(self, place: int) -> str:
        if place not in self._static:
            self._static[place] = self._told(place)
        return self._static[place]

    def _told_done(self) -> str:
        done = sum(tally.state == DONE for tally in map(self._tally, self._needed))
        return f"{done:,} of {len(self._needed):,} alerts that need somebody done"

    def _tally(self, place: int) -> "listings.Tally":
        return self._tallies.get(self._keys[place], listings.Tally())

    def _choices(self) -> None:
        """The list of alerts, each with how far it is; what is picked stays."""
        first = self._place // OFFERED * OFFERED
        shown = self._order[first : first + OFFERED]
        with contextlib.suppress(ValueError):  # new options pick the first by themselves
            self._pick.unobserve(self._on_pick, "value")
        self._pick.options = [
            (f"{number + 1}. {listings.named(self._task(place))} · {self._tally(place)}", number)
            for number, place in enumerate(shown, first)
        ]
        self._pick.value = self._place if shown else None
        self._pick.observe(self._on_pick, "value")

    def _pressed(self, key: str) -> None:
        self.step(1 if key == "n" else -1)

    def _picked(self, place: int | None) -> None:
        if place is not None and self._order:
            self._place = place
            if self._pick.value != place:
                self._choices()
            self._show()

    def _show(self) -> None:
        if not self._order:
            self._about.value = "<p>No alerts.</p>"
            return
        place = self._order[self._place]
        task = self._task(place)
        self._about.value = _head(self._alert(place)) + static_html.links(task)
        self._enter.show(listings.copied(task))
        self._guide.value = _guide(self._alert(place))
        self._boxes = {}
        self._together.children = self._whole(place) if len(self._of(place)) else []
        self._show_steps(place)

    def _show_steps(self, place: int) -> None:
        of = self._of(place)
        self._rows.children = [_Row(self, index, of.loc[index]).box for index in of.index] or [
            HTML(f"<p>{_STEPLESS}</p>")
        ]
        self._count()

    def _whole(self, place: int) -> list[Any]:
        """Boxes for whole listings: the one that is shown, and those that need the same steps."""
        self._boxes = {place: self._box(place, "All steps are done for this listing")}
        same = self._same.get(place, [])
        if len(same) < 2:  # noqa: PLR2004  itself alone
            return [*self._boxes.values()]
        kind = "pages" if self._task(place).site is None else "listings of this site"
        shown = same[:SAME_SHOWN]
        self._boxes |= {one: self._box(one, listings.alone(self._task(one))) for one in shown if one != place}
        more = (
            f"<p>The first {len(shown)} are here; the button ticks all.</p>" if len(same) > len(shown) else ""
        )
        every = Button(
            description=f"Tick all {len(same)}", layout=Layout(width="auto", align_self="flex-start")
        )
        every.on_click(self.answering(lambda _: self.tick_all(same)))
        others = [box for one, box in self._boxes.items() if one != place]
        head = HTML(f"<h4>Same steps for {len(same)} {kind}</h4>{more}")
        return [self._boxes[place], head, every, *others]

    def _box(self, place: int, words: str) -> Checkbox:
        box = Checkbox(description=words, indent=False, layout=_WIDE)

        def changed(change: Any) -> None:
            if not self._is_telling:
                self.tick_all([place], DONE if change["new"] else TO_DO)

        box.observe(self.answering(changed), "value")
        return box

    def tick_all(self, places: Sequence[int], tick: str = DONE) -> None:
        """Say how far all steps of some alerts are; notes stay.

        >>> checklist = ek.widgets.OptOutChecklist(exposure.alerts())
        >>> checklist.tick_all(checklist.order[:1])
        >>> int((checklist.steps["tick"] == "done").sum()) > 0
        True
        """
        try:
            of = pd.concat([self._of(place) for place in places])
            notes = of["tick_note"].fillna("")
            if self._history is not None:
                for note, steps in of.groupby(notes, sort=False):
                    self._history.tick(steps, tick, note=str(note))
            self.steps = self.steps.copy()
            self.steps.loc[of.index, "tick"] = tick
            self.steps.loc[of.index, "tick_note"] = notes
            self._static.clear()
            self._tallies = listings.tallied(self.steps)
        finally:
            self._choices()
            self._show_steps(self._order[self._place])

    def _count(self) -> None:
        tally = self._tally(self._order[self._place])
        self._bar.max, self._bar.value = max(tally.steps, 1), tally.done
        said = f"{tally}; {self._told_done()}."
        kept = "" if self._history is not None else f" {_NOT_KEPT}"
        self._far.value = f'<p role="status">{escaped(said + kept)}</p>'
        self._is_telling = True
        for place, box in self._boxes.items():
            box.value = self._tally(place).state == DONE
        self._is_telling = False

    def tick(self, index: int, tick: str, note: str) -> None:
        """Say how far a step is: kept in the history, and shown."""
        if self._history is not None:
            self._history.tick(self.steps.loc[index], tick, note=note)
        self.steps = self.steps.copy()
        self.steps.loc[index, ["tick", "tick_note"]] = [tick, note]
        key = tuple(self.steps.loc[index, list(_KEY)])
        self._static.pop(self._keys.index(key), None)
        self._tallies = listings.tallied(self.steps)
        self._count()
        self._choices()


_STEPLESS = "This alert tells no steps: its guide, or its page, may."


@dataclass(slots=True)
class _Row:
    """One step: its box, whether it cannot be done, and a note."""

    checklist: OptOutChecklist
    index: int
    step: "pd.Series[Any]"

    @property
    def box(self) -> HBox:
        """The controls of the step."""
        tick, words = self.step["tick"], f"{self.step['step_number']}. {plain(self.step['step'])}"
        said = self.step["tick_note"]
        done = Checkbox(
            value=tick == DONE, description=words, indent=False, layout=Layout(flex="1 1 auto", width="auto")
        )
        unable = ToggleButton(value=tick == UNABLE, description="Unable", tooltip="This step cannot be done")
        note = Text(value=said if isinstance(said, str) else "", placeholder="note", continuous_update=False)
        note.description = "Note"

        def changed(change: Any) -> None:
            both = done.value and unable.value
            if both and change["owner"] is done:
                unable.value = False
                return
            if both and change["owner"] is unable:
                done.value = False
                return
            state = UNABLE if unable.value else DONE if done.value else TO_DO
            self.checklist.tick(self.index, state, note.value)

        for control in (done, unable, note):
            control.observe(self.checklist.answering(changed), "value")
        return HBox([done, unable, note], layout=Layout(align_items="center", flex_flow="row wrap"))


def _button(words: str, checklist: OptOutChecklist, ahead: int) -> Button:
    button = Button(description=words)
    button.on_click(checklist.answering(lambda _: checklist.step(ahead)))
    return button


def _ticked(steps: pd.DataFrame, history: History | None) -> pd.DataFrame:
    if history is not None:
        return history.with_ticks(steps)
    nothing = pd.Series(index=steps.index, dtype="str")
    return steps.assign(tick=nothing, tick_note=nothing)


def _ordered(alerts: pd.DataFrame, steps: pd.DataFrame) -> tuple[list[int], list[int]]:
    """What needs somebody, as `analysis.work_queue` has it; and the rest: what needs nobody, and what tells no steps."""
    queue = analysis.work_queue(steps)
    turn = dict(zip(zip(queue["user_id"], queue["alert_number"], strict=True), queue["place"], strict=True))
    keys = [*zip(alerts["user_id"], alerts["alert_number"], strict=True)]
    needed = sorted(
        (place for place, key in enumerate(keys) if key in turn), key=lambda place: turn[keys[place]]
    )
    with_steps = {*zip(steps["user_id"], steps["alert_number"], strict=True)}
    rest = [place for place, key in enumerate(keys) if key not in turn]
    return needed, sorted(rest, key=lambda place: keys[place] not in with_steps)


def _head(alert: "pd.Series[Any]") -> str:
    """Where it is, and how it stands."""
    where = alert["site"] if isinstance(alert["site"], str) else "A web page"
    stands = f" · {escaped(alert['status'])}" if isinstance(alert["status"], str) else ""
    return f"<h4>{escaped(where)}{stands}</h4>"


def _guide(alert: "pd.Series[Any]") -> str:
    return f"<p>{escaped(alert['guide'])}</p>" if isinstance(alert["guide"], str) else ""


def _described(alerts: pd.DataFrame, exposure: Exposure | None, history: History | None) -> pd.DataFrame:
    """Alerts with whose each is, and what each page contains, where that can be known."""
    source = history if exposure is None else exposure
    if source is not None and "link_url" in alerts:
        with contextlib.suppress(NotFound):  # a history in which nothing was collected yet
            alerts = with_pages(alerts, source.links())
    if exposure is None:
        return alerts
    listed = alerts if "reference_id" in alerts else with_listings(alerts, exposure.records())
    return exposure.with_people(listed)
