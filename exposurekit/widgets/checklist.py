"""Alert by alert, the steps that a human must do, as boxes to tick. Opens no page, and does no step."""

import contextlib
from dataclasses import dataclass
from typing import Any

import pandas as pd
from ipywidgets import HTML, Button, Checkbox, Dropdown, HBox, IntProgress, Layout, Text, ToggleButton, VBox

from exposurekit import analysis, frames
from exposurekit.analysis.work import DONE, TO_DO, UNABLE
from exposurekit.errors import Misconfigured
from exposurekit.history import History
from exposurekit.markup import escaped, linked, plain
from exposurekit.widgets import twin
from exposurekit.widgets.keys import Keys
from exposurekit.widgets.panel import Panel

LABEL_MAX = 60
OFFERED = 500
_NOT_KEPT = "No history was given: ticks are kept as long as this widget is."
_KEY = ["user_id", "alert_number"]
_WIDE = Layout(width="auto")


class OptOutChecklist(Panel):
    """The alerts that need a human, in the order that clears most for the time, and the steps of each to tick.

    Args:
        alerts: As `Exposure.alerts` or `History.alerts` give them, or a part of it.
        history: Where ticks and notes are kept; they are there again after a restart. None: nowhere.

    Attributes:
        steps: The steps as they stand: those of `Exposure.steps`, ``tick`` and ``tick_note``.

    Raises:
        Misconfigured: ``alerts`` is no such table.

    Source: specification, "Alert".

    >>> ek.widgets.OptOutChecklist(exposure.alerts(), history)
    OptOutChecklist: ... of ... alerts that need somebody done; ... alerts in all
    """

    def __init__(self, alerts: pd.DataFrame, history: History | None = None) -> None:
        if not isinstance(alerts, pd.DataFrame):
            raise Misconfigured("alerts is a table: exposure.alerts(), history.alerts(), or a part of one")
        self._history = history
        self._alerts = alerts.reset_index(drop=True)
        self.steps = _ticked(frames.steps_of(self._alerts), history)
        self._keys = [*zip(self._alerts["user_id"], self._alerts["alert_number"], strict=True)]
        self._places = self.steps.groupby(_KEY).indices
        self._tallies = _tallied(self.steps)
        self._needed, rest = _ordered(self._alerts, self.steps)
        self._order = self._needed + rest
        self._place = 0
        self._pick = Dropdown(description="Alert", layout=_WIDE)
        self._about, self._rows, self._far = HTML(), VBox(), HTML()
        self._bar = IntProgress(description="Steps", min=0, layout=_WIDE)
        turn = [_button("Previous alert", self, -1), _button("Next alert", self, 1)]
        keys = Keys({"n": "next alert", "p": "previous alert"}, self.answering(self._pressed))
        super().__init__([self._pick, HBox(turn), self._about, self._rows, self._bar, self._far, keys])
        self._on_pick = self.answering(lambda change: self._picked(change["new"]))
        self._choices()
        self._show()

    def line(self) -> str:
        """How far it is, in one line."""
        return f"OptOutChecklist: {self._told_done()}; {len(self._order):,} alerts in all"

    def to_html(self) -> str:
        """The first alerts with their steps and ticks, in the order of the work; says how many there are.

        >>> "<ol>" in ek.widgets.OptOutChecklist(exposure.alerts()).to_html()
        True
        """
        parts = [self._told(place) for place in self._order[: twin.ROWS]]
        return f"<section><p>{escaped(self.line())}</p>{''.join(parts)}</section>"

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
            raise Misconfigured("There is no alert to show")
        return self._alert(self._order[self._place])

    def _alert(self, place: int) -> "pd.Series[Any]":
        return self._alerts.iloc[place]

    def _of(self, place: int) -> pd.DataFrame:
        return self.steps.iloc[self._places.get(self._keys[place], [])]

    def _told(self, place: int) -> str:
        of = self._of(place)
        return _about(self._alert(place)) + (
            twin.steps(
                of["step"].tolist(), of["tick"].fillna(TO_DO).tolist(), of["tick_note"].fillna("").tolist()
            )
            if len(of)
            else f"<p>{_STEPLESS}</p>"
        )

    def _told_done(self) -> str:
        done = sum(tally.state == DONE for tally in map(self._tally, self._needed))
        return f"{done:,} of {len(self._needed):,} alerts that need somebody done"

    def _tally(self, place: int) -> "_Tally":
        return self._tallies.get(self._keys[place], _Tally())

    def _choices(self) -> None:
        """The list of alerts, each with how far it is; what is picked stays."""
        first = self._place // OFFERED * OFFERED
        shown = self._order[first : first + OFFERED]
        with contextlib.suppress(ValueError):  # new options pick the first by themselves
            self._pick.unobserve(self._on_pick, "value")
        self._pick.options = [
            (f"{number + 1}. {_named(self._alert(place))} · {self._tally(place)}", number)
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
        self._about.value = _about(self._alert(place))
        of = self._of(place)
        self._rows.children = [_Row(self, index, of.loc[index]).box for index in of.index] or [
            HTML(f"<p>{_STEPLESS}</p>")
        ]
        self._count()

    def _count(self) -> None:
        tally = self._tally(self._order[self._place])
        self._bar.max, self._bar.value = max(tally.steps, 1), tally.done
        said = f"{tally}; {self._told_done()}."
        kept = "" if self._history is not None else f" {_NOT_KEPT}"
        self._far.value = f'<p role="status">{escaped(said + kept)}</p>'

    def tick(self, index: int, tick: str, note: str) -> None:
        """Say how far a step is: kept in the history, and shown."""
        if self._history is not None:
            self._history.tick(self.steps.loc[index], tick, note=note)
        self.steps = self.steps.copy()
        self.steps.loc[index, ["tick", "tick_note"]] = [tick, note]
        self._tallies = _tallied(self.steps)
        self._count()
        self._choices()


_STEPLESS = "This alert tells no steps: its guide, or its page, may."


@dataclass(frozen=True, slots=True)
class _Tally:
    """How far the steps of an alert are."""

    steps: int = 0
    done: int = 0
    unable: int = 0

    @property
    def state(self) -> str:
        if self.unable:
            return UNABLE
        return DONE if self.steps and self.done == self.steps else TO_DO

    def __str__(self) -> str:
        if not self.steps:
            return "no steps"
        return f"{self.done} of {self.steps} done" + (f", {self.unable} unable" if self.unable else "")


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
        return history.ticked(steps)
    nothing = pd.Series(index=steps.index, dtype="str")
    return steps.assign(tick=nothing, tick_note=nothing)


def _tallied(steps: pd.DataFrame) -> dict[tuple[int, int], _Tally]:
    """How far each alert is."""
    ticks = steps["tick"].astype("str")
    counted = steps[_KEY].assign(steps=1, done=ticks == DONE, unable=ticks == UNABLE)
    sums = counted.groupby(_KEY, as_index=False).sum()
    rows = zip(*(sums[name].tolist() for name in (*_KEY, "steps", "done", "unable")), strict=True)
    return {(user_id, number): _Tally(*map(int, far)) for user_id, number, *far in rows}


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


def _named(alert: "pd.Series[Any]") -> str:
    where = alert["site"] if isinstance(alert["site"], str) else "a web page"
    shown = plain(where)[:LABEL_MAX]
    return f"user {alert['user_id']}, {shown}"


def _about(alert: "pd.Series[Any]") -> str:
    """What the alert is about: where, how it stands, the guide, and the page to open."""
    stands = f" · {escaped(alert['status'])}" if isinstance(alert["status"], str) else ""
    parts = [f"<h4>{escaped(_named(alert))}{stands}</h4>"]
    if isinstance(alert["guide"], str):
        parts.append(f"<p>{escaped(alert['guide'])}</p>")
    if isinstance(alert["url"], str):
        parts.append(f"<p>Open: {linked(alert['url'])}</p>")
    return "".join(parts)
