"""Checklist of manual opt-outs: alert by alert, the listing, the values to enter and the steps to tick."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from ipywidgets import HTML, Button, Checkbox, Dropdown, HBox, IntProgress, Layout, Text, ToggleButton, VBox

from exposurekit import analysis, frames
from exposurekit.analysis.data_quality import NOT_MINE
from exposurekit.analysis.statuses import is_open
from exposurekit.analysis.tasks import Task, tasks, with_listings, with_pages
from exposurekit.analysis.work_queue import DONE, TO_DO, UNABLE
from exposurekit.contract.types import PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import escaped, plain
from exposurekit.widgets import listings, static_html
from exposurekit.widgets.copying import CopyTable
from exposurekit.widgets.panel import Panel
from exposurekit.widgets.shortcuts import Keys
from exposurekit.widgets.textbox import TextBox

PICKER_MAX = 500  # alerts in the drop-down at once
STATIC_MAX = 300  # alerts in the static HTML
OPEN_MAX = 10  # alerts up to which the static HTML is not collapsed
GROUP_MAX = 30  # listings with the same steps that have a box
_NO_HISTORY = "No history was given: ticks are lost when the kernel stops."
_NO_STEPS = "This alert has no steps; its guide or its page may explain the removal."
_WAITING, _ALL = "waiting", "all"
_KEY = ["user_id", "alert_number"]
_TICK = ["tick", "tick_note"]
_AUTO = Layout(width="auto")
_WRAP = Layout(flex_flow="row wrap")


class OptOutChecklist(Panel):
    """Alerts with manual opt-out steps, most listings per minute first, each step with a box to tick.

    Args:
        alerts: A table as returned by `Exposure.alerts()` or `History.alerts()`, or some of its rows.
        history: Stores ticks and notes. None: they are lost when the kernel stops.
        exposure: An `Exposure`, for the person of each listing and the values to enter, if ``alerts`` are a history's.

    Each alert displays its text, the listing, and the values to enter, each with a button that copies it. A box ticks
    all steps of a listing; listings of the same site that need the same steps have boxes too. Alerts that cannot be
    done yet, because a required value is not on file, come last. Listings labelled ``not mine`` are left out of the
    open work.

    Attributes:
        steps: The current steps: the columns of `Exposure.steps()`, ``tick``, ``tick_note`` and ``label``.

    Raises:
        InvalidArgument: ``alerts`` is not a table of alerts.

    Source: specification, "Alert".

    >>> ek.widgets.OptOutChecklist(exposure.alerts(), history)
    OptOutChecklist: ... of ... alerts finished...; ... alerts in all
    """

    def __init__(
        self, alerts: pd.DataFrame, history: History | None = None, *, exposure: Exposure | None = None
    ) -> None:
        if not isinstance(alerts, pd.DataFrame) or not {*_KEY, "opt_out_procedure"} <= {*alerts.columns}:
            raise InvalidArgument("alerts is a table: exposure.alerts(), history.alerts(), or a part of one")
        self._history = history
        self._alerts = _with_details(alerts.reset_index(drop=True), exposure, history)
        self.steps = _with_ticks(frames.steps_from_alerts(self._alerts), history)
        self._keys = [*zip(self._alerts["user_id"], self._alerts["alert_number"], strict=True)]
        not_mine = self.steps.loc[self.steps["label"] == NOT_MINE, _KEY]
        self._not_mine = {*not_mine.itertuples(index=False, name=None)}
        self._rows_by_key = self.steps.groupby(_KEY).indices
        self._progress = listings.progress(self.steps)
        self._tasks: dict[int, Task] = {}
        self._static: dict[int, str] = {}  # static HTML of each alert, until one of its steps changes
        self._before: dict[int, pd.DataFrame] = {}  # ticks of each listing before its box was ticked
        self._waiting, rest = self._ordered()
        self._order = self._waiting + rest
        self._groups = listings.same_steps(self._alerts, self._waiting)
        self._view = [*range(len(self._waiting) or len(self._order))]  # indexes in `order`, as filtered
        self._index = 0  # of the displayed alert, in `order`
        self._is_updating = False
        super().__init__(self._build())
        self._update_picker()
        self._show()

    def _build(self) -> list[Any]:
        self._find = TextBox(description="Find", placeholder="site, person or listing")
        self._filter = Dropdown(
            description="Show",
            options=[
                (f"With steps to do ({len(self._waiting):,})", _WAITING),
                (f"All alerts ({len(self._order):,})", _ALL),
            ],
            value=_WAITING if self._waiting else _ALL,
        )
        self._pick, self._picker_note = Dropdown(description="Alert", layout=_AUTO), HTML()
        self._about, self._values, self._guide = HTML(), CopyTable(), HTML()
        self._steps_box, self._status = VBox(), HTML()
        self._boxes: dict[int, Checkbox] = {}  # of whole listings, by position
        self._group_box, self._undo_box = VBox(), HBox()
        self._bar = IntProgress(description="Steps", min=0, layout=_AUTO)
        turn = [_button("Previous alert", self, -1), _button("Next alert", self, 1)]
        keys = Keys({"n": "next alert", "p": "previous alert"}, self.callback(self._key_pressed))
        self._find.observe(self.callback(lambda _: self._apply_filter()), "value")
        self._filter.observe(self.callback(lambda _: self._apply_filter()), "value")
        self._on_pick = self.callback(lambda change: self._go_to(change["new"]))
        return [
            HBox([self._find, self._filter], layout=_WRAP),
            *(self._pick, self._picker_note, HBox(turn), self._about, self._values, self._guide),
            *(self._steps_box, self._bar, self._status, self._undo_box, self._group_box, keys),
        ]

    def line(self) -> str:
        """How many alerts are finished."""
        return f"OptOutChecklist: {self._finished()}; {len(self._order):,} alerts in all"

    def to_html(self) -> str:
        """The alerts that need somebody, by site, with their steps and ticks; at most 300.

        >>> "<ol>" in ek.widgets.OptOutChecklist(exposure.alerts()).to_html()
        True
        """
        positions = self._order[: min(max(len(self._waiting), static_html.ROWS), STATIC_MAX)]
        self._load_tasks(positions)
        sites: dict[str, list[int]] = {}
        for position in positions:
            sites.setdefault(_site(self._alerts.iloc[position]), []).append(position)
        is_long = len(positions) > OPEN_MAX
        parts = [self._static_site(site, sites[site], is_open=not is_long) for site in sites]
        n_omitted = len(self._waiting) - len(positions)
        more = (
            f"<p>{n_omitted:,} more need somebody: ek.export(history, 'queue.md') has all.</p>"
            if n_omitted > 0
            else ""
        )
        return f"<section><p>{escaped(self.line())}</p>{''.join(parts)}{more}</section>"

    def step(self, ahead: int) -> None:
        """Go forward by some alerts of those that the drop-down offers, or back; stop at either end.

        >>> checklist = ek.widgets.OptOutChecklist(exposure.alerts())
        >>> checklist.step(1)
        >>> checklist.alert.name == checklist.order[1]
        True
        """
        if self._view:
            at = self._view.index(self._index) if self._index in self._view else 0
            self._go_to(self._view[max(0, min(len(self._view) - 1, at + ahead))])

    @property
    def order(self) -> list[int]:
        """The positions of the alerts in the given table, in working order."""
        return [*self._order]

    @property
    def alert(self) -> "pd.Series[Any]":
        """The displayed alert."""
        if not self._order:
            raise InvalidArgument("There is no alert to show")
        return self._alerts.iloc[self._order[self._index]]

    def tick(self, index: int, tick: str, note: str) -> None:
        """Set the tick and the note of a step, in the history and here.

        Args:
            index: The row in ``steps``.
            tick: ``done``, ``unable`` or ``open``.
            note: Any text.
        """
        self._clear_undo()
        self._before.pop(self._keys.index(tuple(self.steps.loc[index, _KEY])), None)
        changes = pd.DataFrame([[tick, note]], index=[index], columns=_TICK)
        if self._history is not None:
            self._history.tick(self.steps.loc[index], tick, note=note)
        self._apply(changes)
        self._update_progress()
        self._update_picker()

    def tick_all(self, positions: Sequence[int], tick: str = DONE) -> None:
        """Set all steps of some alerts, but those marked unable; notes stay.

        Args:
            positions: Of the alerts in the given table, as in ``order``.
            tick: ``done`` or ``open``.

        >>> checklist = ek.widgets.OptOutChecklist(exposure.alerts())
        >>> checklist.tick_all(checklist.order[:1])
        >>> int((checklist.steps["tick"] == "done").sum()) > 0
        True
        """
        self._clear_undo()
        steps = self._steps_of(positions)
        steps = steps[steps["tick"] != UNABLE]
        self._save(pd.DataFrame({"tick": tick, "tick_note": steps["tick_note"]}, index=steps.index))

    def _save(self, changes: pd.DataFrame) -> None:
        """Store the ticks of several steps, and display them."""
        try:
            notes = changes["tick_note"].fillna("")
            ticks = changes["tick"].fillna(TO_DO)
            if self._history is not None:
                for (tick, note), rows in changes.groupby([ticks, notes], sort=False):
                    self._history.tick(self.steps.loc[rows.index], str(tick), note=str(note))
            self._apply(changes.assign(tick_note=notes))
        finally:
            self._update_picker()
            self._show_steps(self._order[self._index])

    def _apply(self, changes: pd.DataFrame) -> None:
        self.steps = self.steps.copy()
        self.steps.loc[changes.index, _TICK] = changes[_TICK]
        for key in set(self.steps.loc[changes.index, _KEY].itertuples(index=False, name=None)):
            self._static.pop(self._keys.index(key), None)
        self._progress = listings.progress(self.steps)

    def _ordered(self) -> tuple[list[int], list[int]]:
        """The alerts in the order of the work queue: those that need somebody, and the rest."""
        queue = analysis.work_queue(self.steps[self.steps["label"] != NOT_MINE])
        keys = zip(queue["user_id"], queue["alert_number"], strict=True)
        rank = {
            key: (state in (DONE, UNABLE), number)
            for number, (key, state) in enumerate(zip(keys, queue["state"], strict=True))
        }
        waiting = [position for position, key in enumerate(self._keys) if key in rank]
        self._load_tasks(waiting)

        def turn(position: int) -> tuple[bool, bool, int]:
            is_finished, number = rank[self._keys[position]]
            return is_finished, bool(self._tasks[position].cannot_start), number

        rest = [position for position, key in enumerate(self._keys) if key not in rank]
        return sorted(waiting, key=turn), sorted(
            rest, key=lambda position: self._keys[position] not in self._rows_by_key
        )

    def _load_tasks(self, positions: Iterable[int]) -> None:
        new = [position for position in positions if position not in self._tasks]
        if new:
            self._tasks |= zip(new, tasks(self._alerts.iloc[new]), strict=True)

    def _task(self, position: int) -> Task:
        self._load_tasks([position])
        return self._tasks[position]

    def _steps_of(self, positions: Iterable[int]) -> pd.DataFrame:
        rows = [row for position in positions for row in self._rows_by_key.get(self._keys[position], [])]
        return self.steps.iloc[rows]

    def _progress_of(self, position: int) -> listings.Progress:
        return self._progress.get(self._keys[position], listings.Progress())

    def _static_site(self, site: str, positions: Sequence[int], *, is_open: bool) -> str:
        n_done = sum(self._progress_of(position).state == DONE for position in positions)
        head = f"{site}: {n_done:,} of {len(positions):,} finished"
        body = "".join(self._static_alert(position) for position in positions)
        return f"<details{' open' if is_open else ''}><summary>{escaped(head)}</summary>{body}</details>"

    def _static_alert(self, position: int) -> str:
        if position not in self._static:
            steps = self._steps_of([position])
            ticks = steps["tick"].fillna(TO_DO).tolist(), steps["tick_note"].fillna("").tolist()
            body = static_html.steps(steps["step"].tolist(), *ticks) if len(steps) else f"<p>{_NO_STEPS}</p>"
            details = static_html.task(self._task(position))
            self._static[position] = f"{self._head(position)}{details}{self._guide_of(position)}{body}"
        return self._static[position]

    def _head(self, position: int) -> str:
        """The site, the status, why the alert exists, and whether there is anything to do."""
        alert = self._alerts.iloc[position]
        status = alert["status"] if isinstance(alert["status"], str) else ""
        text = alert["text"] if isinstance(alert.get("text"), str) else ""
        parts = [f"<h4>{escaped(' · '.join(filter(None, [_site(alert), status])))}</h4>"]
        parts += [f"<p>{escaped(line)}</p>" for line in (text, self._nothing_to_do(position, status)) if line]
        return "".join(parts)

    def _nothing_to_do(self, position: int, status: str) -> str:
        if self._keys[position] in self._not_mine:
            return "Nothing to do: the listing is labelled not mine."
        if status == REMOVED:
            return "Nothing to do: already removed."
        if status == PENDING_REMOVAL:
            return "Nothing to do now: the removal is pending."
        is_closed = bool(status) and not is_open(pd.Series([status], dtype="str"))[0]
        return "Nothing to do: no longer listed." if is_closed else ""

    def _guide_of(self, position: int) -> str:
        guide = self._alerts.iloc[position]["guide"]
        return f"<p>{escaped(guide)}</p>" if isinstance(guide, str) else ""

    def _finished(self) -> str:
        n_done = sum(self._progress_of(position).state == DONE for position in self._waiting)
        n_blocked = sum(self._is_blocked(position) for position in self._waiting)
        blocked = f", {n_blocked:,} cannot be done yet" if n_blocked else ""
        return f"{n_done:,} of {len(self._waiting):,} alerts finished{blocked}"

    def _is_blocked(self, position: int) -> bool:
        """Whether an alert that is not finished lacks a required value."""
        return bool(self._task(position).cannot_start) and self._progress_of(position).state not in (
            DONE,
            UNABLE,
        )

    def _label(self, position: int) -> str:
        state = "cannot be done yet" if self._is_blocked(position) else str(self._progress_of(position))
        if self._keys[position] in self._not_mine:
            state = "labelled not mine"
        return f"{listings.full_label(self._task(position))} · {state}"

    def _apply_filter(self) -> None:
        indexes = range(len(self._waiting) if self._filter.value == _WAITING else len(self._order))
        if text := self._find.value.strip().casefold():
            self._load_tasks(self._order[: len(indexes)])
            self._view = [
                index
                for index in indexes
                if text in listings.full_label(self._tasks[self._order[index]]).casefold()
            ]
        else:
            self._view = [*indexes]
        if self._view and self._index not in self._view:
            self._index = self._view[0]
            self._show()
        self._update_picker()

    def _update_picker(self) -> None:
        """Offer the filtered alerts with their progress, and keep what is picked."""
        at = self._view.index(self._index) if self._index in self._view else 0
        first = at // PICKER_MAX * PICKER_MAX
        indexes = self._view[first : first + PICKER_MAX]
        with contextlib.suppress(ValueError):  # new options change the value, too
            self._pick.unobserve(self._on_pick, "value")
        self._pick.options = [(self._label(self._order[index]), index) for index in indexes]
        self._pick.value = self._index if self._index in indexes else None
        self._pick.observe(self._on_pick, "value")
        note = ""
        if not self._view and self._order:
            note = "No alert matches."
        elif len(indexes) < len(self._view):
            note = f"Alerts {first + 1:,} to {first + len(indexes):,} of {len(self._view):,}. Type to find others."
        self._picker_note.value = f"<p>{note}</p>" if note else ""

    def _key_pressed(self, key: str) -> None:
        self.step(1 if key == "n" else -1)

    def _go_to(self, index: int | None) -> None:
        if index is not None and self._order:
            self._index = index
            if self._pick.value != index:
                self._update_picker()
            self._clear_undo()
            self._show()

    def _show(self) -> None:
        if not self._order:
            self._about.value = "<p>No alerts.</p>"
            return
        position = self._order[self._index]
        task = self._task(position)
        self._about.value = self._head(position) + static_html.person(task) + static_html.notes(task)
        self._values.show(listings.sections(task))
        self._guide.value = self._guide_of(position)
        self._group_size = GROUP_MAX
        self._show_group(position)
        self._show_steps(position)

    def _show_steps(self, position: int) -> None:
        steps = self._steps_of([position])
        self._steps_box.children = [
            _step_controls(self, index, steps.loc[index]) for index in steps.index
        ] or [HTML(f"<p>{_NO_STEPS}</p>")]
        self._update_progress()

    def _show_group(self, position: int) -> None:
        """Boxes for whole listings: the displayed one, and others that need the same steps."""
        self._boxes, self._group_box.children = {}, []
        if not len(self._steps_of([position])):
            return
        is_page = self._task(position).site is None
        own = self._listing_box(position, f"All steps are done for this {'page' if is_page else 'listing'}")
        self._boxes = {position: own}
        others = [other for other in self._groups.get(position, []) if other != position]
        if not others:
            self._group_box.children = [own]
            return
        visible = others[: self._group_size]
        self._boxes |= {other: self._listing_box(other, self._group_label(other)) for other in visible}
        kind = (
            ("page" if is_page else "listing on this site")
            if len(others) == 1
            else ("pages" if is_page else "listings on this site")
        )
        head = HTML(f"<h4>Same steps for this one and {len(others):,} other {kind}</h4>")
        every = Button(layout=Layout(width="auto", align_self="flex-start"))
        every.on_click(self.callback(lambda _: self._tick_group()))
        self._tick_button = every
        more = []
        if len(others) > len(visible):
            button = Button(
                description=f"Show {min(GROUP_MAX, len(others) - len(visible))} more", layout=_AUTO
            )
            button.on_click(self.callback(lambda _: self._show_more(position)))
            more = [HTML(f"<p>{len(visible)} of {len(others):,} others are here.</p>"), button]
        self._group_box.children = [own, head, every, *(self._boxes[other] for other in visible), *more]

    def _group_label(self, position: int) -> str:
        blocked = " · cannot be done yet" if self._is_blocked(position) else ""
        return f"{listings.short_label(self._task(position))}{blocked}"

    def _show_more(self, position: int) -> None:
        self._group_size += GROUP_MAX
        self._show_group(position)
        self._update_progress()

    def _listing_box(self, position: int, label: str) -> Checkbox:
        box = Checkbox(description=label, indent=False, layout=_AUTO)

        def changed(change: Any) -> None:
            if not self._is_updating:
                self._tick_listing(position, is_done=change["new"])

        box.observe(self.callback(changed), "value")
        return box

    def _tick_listing(self, position: int, *, is_done: bool) -> None:
        """Tick all steps of a listing; or restore what they were before."""
        if is_done:
            before = self._steps_of([position])[_TICK].copy()
            self.tick_all([position])
            self._before[position] = before
        elif (previous := self._before.pop(position, None)) is not None:
            self._clear_undo()
            self._save(previous)
        else:
            self.tick_all([position], TO_DO)

    def _tickable(self) -> list[int]:
        """The visible listings that can be done and have steps to do."""
        states = {position: self._progress_of(position) for position in self._boxes}
        return [
            position
            for position, progress in states.items()
            if not self._is_blocked(position) and not progress.unable and progress.state != DONE
        ]

    def _tick_group(self) -> None:
        positions = self._tickable()
        if not positions:
            return
        before = self._steps_of(positions)[_TICK].copy()
        self.tick_all(positions)
        undo = Button(description="Undo", layout=_AUTO)
        undo.on_click(self.callback(lambda _: self._undo(before)))
        self._undo_box.children = [HTML(f'<p role="status">{len(positions):,} ticked</p>'), undo]

    def _undo(self, before: pd.DataFrame) -> None:
        self._clear_undo()
        self._save(before)

    def _clear_undo(self) -> None:
        self._undo_box.children = []

    def _update_progress(self) -> None:
        progress = self._progress_of(self._order[self._index])
        self._bar.max, self._bar.value = max(progress.steps, 1), progress.done
        note = "" if self._history is not None else f" {_NO_HISTORY}"
        self._status.value = f'<p role="status">{escaped(f"{progress}; {self._finished()}.{note}")}</p>'
        self._is_updating = True
        for position, box in self._boxes.items():
            box.value = self._progress_of(position).is_complete
        self._is_updating = False
        if len(self._boxes) > 1:
            n_tickable = len(self._tickable())
            self._tick_button.description = f"Tick all {n_tickable}" if n_tickable else "Nothing to tick"
            self._tick_button.disabled = not n_tickable


def _step_controls(checklist: OptOutChecklist, index: int, step: "pd.Series[Any]") -> HBox:
    """The box of a step, the button that says it cannot be done, and its note."""
    tick, text = step["tick"], step["tick_note"]
    done = Checkbox(
        value=bool(tick == DONE),
        description=f"{step['step_number']}. {plain(step['step'])}",
        indent=False,
        layout=Layout(flex="1 1 auto", width="auto"),
    )
    unable = ToggleButton(value=bool(tick == UNABLE), tooltip="This step cannot be done")
    note = Text(value=text if isinstance(text, str) else "", placeholder="note", continuous_update=False)
    note.description = "Note"

    def label_button() -> None:
        unable.description = "☒ Cannot be done" if unable.value else "Unable"
        unable.button_style = "warning" if unable.value else ""

    def changed(change: Any) -> None:
        label_button()
        if done.value and unable.value:  # the one that was set last wins, and calls again
            (unable if change["owner"] is done else done).value = False
            return
        state = UNABLE if unable.value else DONE if done.value else TO_DO
        checklist.tick(index, state, note.value)

    label_button()
    for control in (done, unable, note):
        control.observe(checklist.callback(changed), "value")
    return HBox([done, unable, note], layout=Layout(align_items="center", flex_flow="row wrap"))


def _button(label: str, checklist: OptOutChecklist, ahead: int) -> Button:
    button = Button(description=label)
    button.on_click(checklist.callback(lambda _: checklist.step(ahead)))
    return button


def _site(alert: "pd.Series[Any]") -> str:
    return alert["site"] if isinstance(alert["site"], str) else "A web page"


def _with_ticks(steps: pd.DataFrame, history: History | None) -> pd.DataFrame:
    missing = pd.Series(index=steps.index, dtype="str")
    if history is None:
        return steps.assign(tick=missing, tick_note=missing, label=missing)
    return history.with_ticks(steps)


def _with_details(alerts: pd.DataFrame, exposure: Exposure | None, history: History | None) -> pd.DataFrame:
    """Add the person and the form values of each alert, and what each page contains, as far as known."""
    source = history if exposure is None else exposure
    if source is not None and "link_url" in alerts:
        with contextlib.suppress(NotFound):  # an empty history
            alerts = with_pages(alerts, source.links())
    if exposure is None:
        return alerts
    listed = alerts if "reference_id" in alerts else with_listings(alerts, exposure.records())
    return exposure.with_people(listed)
