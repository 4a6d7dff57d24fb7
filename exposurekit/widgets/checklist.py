"""Checklist of manual opt-outs: a work queue, and of the picked alert the listing, the values to enter and the steps."""

import contextlib
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from time import monotonic
from typing import Any

import pandas as pd
from ipywidgets import HTML, Box, Checkbox, Dropdown, HBox, Layout, Text, ToggleButton, VBox

from exposurekit import analysis, frames
from exposurekit.analysis.data_quality import NOT_MINE
from exposurekit.analysis.manual_tasks import Task, tasks, with_listings, with_pages
from exposurekit.analysis.statuses import is_open
from exposurekit.analysis.step_minutes import PAUSE_MINUTES, STEP_MINUTES
from exposurekit.analysis.step_requirements import preparations
from exposurekit.analysis.work_queue import CHECK_MINUTES, DONE, TO_DO, UNABLE, VISIT_MINUTES
from exposurekit.charts.theme import format_duration
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import escaped, isolated, isolated_value, plain
from exposurekit.text.urls import host
from exposurekit.widgets import static_html, task_captions
from exposurekit.widgets.copy_button import CopyTable
from exposurekit.widgets.panel import Panel, with_classes
from exposurekit.widgets.shortcuts import Keys
from exposurekit.widgets.task_list import TaskList
from exposurekit.widgets.textbox import TextBox

LIST_MAX = 500  # alerts in the list at once
STATIC_MAX = 300  # alerts in the static HTML
OPEN_MAX = 10  # alerts up to which the static HTML is not collapsed
GROUP_MAX = 30  # listings with the same steps that have a box
_NO_HISTORY = "No history was given: ticks are lost when the kernel stops."
_NO_STEPS = "This alert has no steps; its guide or its page may explain the removal."
_BLOCKED = "cannot start yet"
_PAGE = "A web page"  # in place of a site
_PAGES = "Web pages"  # in the heading of all of them
_LOCKED = "The boxes are off, because a required value is not on file."
_WAITING, _ALL = "waiting", "all"
_COLOURED = (DISCOVERED, PENDING_REMOVAL, REMOVED)
_KEY = ["user_id", "alert_number"]
_TICK = ["tick", "tick_note"]
_AUTO = Layout(width="auto")


class OptOutChecklist(Panel):
    """Alerts with manual opt-out steps, most expected removals per minute first, each step with a box to tick.

    Args:
        alerts: An `Exposure`, a `History`, or a table as returned by their `alerts()`, or some of its rows.
        history: Stores ticks and notes; by default ``alerts``, if that is a history. None: they are lost when the kernel
            stops.
        exposure: An `Exposure`, for the person of each listing and the values to enter, if ``alerts`` are a history's.
        learn_minutes: Whether to store in the history how long each step took: the minutes from the last tick, or since the
            alert was displayed, to the tick. `History.step_minutes` learns from them; they never leave your machine.
        clock: Returns seconds, for ``learn_minutes``.

    Each alert displays its text, the listing, and the values to enter, each with a button that copies it. A box ticks
    all steps of a listing; listings of the same site that need the same steps have boxes too. Alerts that cannot be
    done yet, because a required value is not on file, come last. Listings and pages labelled ``not mine`` are left out
    of the open work.

    Attributes:
        steps: The current steps: the columns of `Exposure.steps()`, ``tick``, ``tick_note`` and ``label``.

    Raises:
        InvalidArgument: ``alerts`` has no alerts, ``history`` is no `History`, ``exposure`` is no `Exposure`, or
            ``learn_minutes`` has no history to store them.

    Source: specification, "Alert".

    >>> ek.widgets.OptOutChecklist(exposure, history)
    OptOutChecklist: ... of ... alerts finished...; ... alerts in all
    """

    def __init__(
        self,
        alerts: pd.DataFrame | Exposure | History,
        history: History | None = None,
        *,
        exposure: Exposure | None = None,
        learn_minutes: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if isinstance(alerts, History):
            history = alerts if history is None else history
            alerts = alerts.alerts()
        elif isinstance(alerts, Exposure):
            exposure = alerts if exposure is None else exposure
            alerts = alerts.alerts()
        if not isinstance(alerts, pd.DataFrame) or not {*_KEY, "opt_out_procedure"} <= {*alerts.columns}:
            raise InvalidArgument(
                "not a table of alerts: pass an Exposure, a History, or rows of exposure.alerts() or history.alerts()"
            )
        if not isinstance(history, History | None) or not isinstance(exposure, Exposure | None):
            raise InvalidArgument(
                "history must be a History, and exposure an Exposure: "
                "OptOutChecklist(alerts, history=history, exposure=exposure)"
            )
        if learn_minutes and history is None:
            raise InvalidArgument(
                "learn_minutes needs a history: OptOutChecklist(exposure, history, learn_minutes=True)"
            )
        self._history = history
        self._learns, self._clock = learn_minutes, clock
        self._started_s = clock()  # work on the displayed alert, since the last tick
        self._alerts = _with_details(alerts.reset_index(drop=True), exposure, history)
        self.steps = _with_ticks(frames.steps_from_alerts(self._alerts), history)
        self._keys = [*zip(self._alerts["user_id"], self._alerts["alert_number"], strict=True)]
        not_mine = self.steps.loc[self.steps["label"] == NOT_MINE, _KEY]
        self._not_mine = {*not_mine.itertuples(index=False, name=None)}
        self._rows_by_key = self.steps.groupby(_KEY).indices
        self._tasks: dict[int, Task] = {}
        self._as_of = _as_of(exposure, history)
        self._static: dict[int, str] = {}  # static HTML of each alert, until one of its steps changes
        self._notes: dict[int, list[str]] = {}  # what to know about each alert
        self._before: dict[int, pd.DataFrame] = {}  # ticks of each listing before its box was ticked
        self._waiting, rest = self._ordered()
        self._order = self._waiting + rest
        self._count_steps()
        self._groups = task_captions.same_steps(self._alerts, self._waiting)
        self._view: list[int] = []  # indexes in `order`, as filtered
        self._matches: set[int] | None = None  # indexes in `order` that the text to find matches; None: all
        self._unlocked: set[int] = set()  # alerts that lack a value, to be done anyway
        self._index = 0  # of the displayed alert, in `order`
        self._is_updating = False
        super().__init__(self._build())
        self._filter.value = _WAITING if self._n_to_do() else _ALL
        self._apply_filter()

    def _build(self) -> list[Any]:
        self._find = TextBox(description="Find", placeholder="site, person or listing")
        self._filter = Dropdown(description="Show", options=self._filters())
        self._list, self._picker_note, self._counter = TaskList(description="Alerts"), HTML(), HTML()
        self._about, self._values, self._guide = HTML(), CopyTable(), HTML()
        self._steps_box, self._status = with_classes(VBox(), "exposurekit-steps"), HTML()
        self._boxes: dict[int, Checkbox] = {}  # of whole listings, by position
        self._group_box = with_classes(VBox(), "exposurekit-group")
        self._undo_box = with_classes(HBox(), "exposurekit-row", "exposurekit-undo")
        turn = [
            self.button("Previous alert", lambda _: self.step(-1)),
            self.button("Next alert", lambda _: self.step(1)),
        ]
        keys = Keys(
            {"n": "next alert", "p": "previous alert", "s": "first step"},
            self.callback(self._key_pressed),
            targets={"s": ".exposurekit-steps :is(input, button):enabled"},
        )
        self._find.observe(self.callback(lambda _: self._apply_filter()), "value")
        self._on_filter = self.callback(lambda _: self._apply_filter())
        self._filter.observe(self._on_filter, "value")
        self._on_pick = self.callback(lambda change: self._go_to(change["new"]))
        task = [
            *(self._about, self._values, self._guide, self._steps_box, self._status),
            *(self._undo_box, self._group_box, with_classes(HBox(turn), "exposurekit-row")),
        ]
        queue = VBox([self._picker_note, self._list])
        return [
            self._counter,
            with_classes(HBox([self._find, self._filter]), "exposurekit-filters"),
            with_classes(Box([queue, with_classes(VBox(task), "exposurekit-task")]), "exposurekit-work"),
            keys,
        ]

    def line(self) -> str:
        """How many alerts are finished."""
        return f"OptOutChecklist: {self._finished()}; {len(self._order):,} alerts in all"

    def to_html(self) -> str:
        """The alerts that need somebody, by site, with their steps and ticks; at most 300.

        >>> "<ol" in ek.widgets.OptOutChecklist(exposure.alerts()).to_html()
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
        return static_html.section(self._counter_html(), *parts, more)

    def step(self, ahead: int) -> None:
        """Go forward by some alerts of those in the list, or back; stop at either end.

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
            is_new = tick == DONE and str(self.steps.loc[index, "tick"]) != DONE
            self._history.tick(
                self.steps.loc[index], tick, note=note, minutes=self._minutes_worked(is_new=is_new)
            )
        self._apply(changes)
        self._update_progress()
        self._update_filter()

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
        if tick == DONE:
            steps = steps[steps["tick"] != DONE]
        minutes = self._minutes_worked(is_new=tick == DONE and len(steps) > 0)
        changes = pd.DataFrame({"tick": tick, "tick_note": steps["tick_note"]}, index=steps.index)
        self._save(changes, minutes)

    def _minutes_worked(self, *, is_new: bool) -> float | None:
        """The minutes since the last tick, if they are to be stored; the next ones begin now."""
        now_s = self._clock()
        minutes, self._started_s = (now_s - self._started_s) / 60, now_s
        return minutes if self._learns and is_new and 0 <= minutes <= PAUSE_MINUTES else None

    def _save(self, changes: pd.DataFrame, minutes: float | None = None) -> None:
        try:
            notes = changes["tick_note"].fillna("")
            ticks = changes["tick"].fillna(TO_DO)
            if self._history is not None:
                for (tick, note), rows in changes.groupby([ticks, notes], sort=False):
                    part = None if minutes is None else minutes * len(rows) / len(changes)
                    self._history.tick(self.steps.loc[rows.index], str(tick), note=str(note), minutes=part)
            self._apply(changes.assign(tick_note=notes))
        finally:
            self._update_filter()
            self._show_steps(self._order[self._index])

    def _apply(self, changes: pd.DataFrame) -> None:
        self.steps = self.steps.copy()
        self.steps.loc[changes.index, _TICK] = changes[_TICK]
        for key in set(self.steps.loc[changes.index, _KEY].itertuples(index=False, name=None)):
            self._static.pop(self._keys.index(key), None)
        self._count_steps()

    def _count_steps(self) -> None:
        """Count the steps of each alert, and the alerts to do in each group that one visit serves."""
        self._progress = task_captions.progress(self.steps)
        groups = (
            group
            for key, group in self._group_by_key.items()
            if self._progress[key].state not in (DONE, UNABLE)
        )
        self._n_in_group = Counter(groups)

    def _ordered(self) -> tuple[list[int], list[int]]:
        """The alerts in the order of the work queue: those that need somebody, and the rest."""
        experience = {} if self._history is None else self._history.site_experience()
        minutes = experience.get("step_minutes", {})
        to_do = self.steps[self.steps["label"] != NOT_MINE]
        queue = analysis.work_queue(to_do, **experience)
        keys = [*zip(queue["user_id"], queue["alert_number"], strict=True)]
        rank = {key: number for number, key in enumerate(keys)}
        per_step = queue["site"].fillna(queue["group"]).map(minutes).astype("float64").fillna(STEP_MINUTES)
        self._step_minutes = dict(zip(keys, per_step.tolist(), strict=True))
        unchecked = to_do[to_do["label"].isna()]
        self._unchecked = {*zip(unchecked["user_id"], unchecked["alert_number"], strict=True)}
        groups = zip(queue["kind"], queue["group"].fillna(""), strict=True)
        self._group_by_key = dict(zip(keys, groups, strict=True))
        waiting = [position for position, key in enumerate(self._keys) if key in rank]
        rest = [position for position, key in enumerate(self._keys) if key not in rank]
        return sorted(waiting, key=lambda position: rank[self._keys[position]]), sorted(
            rest, key=lambda position: self._keys[position] not in self._rows_by_key
        )

    def _load_tasks(self, positions: Iterable[int]) -> None:
        new = [position for position in positions if position not in self._tasks]
        if new:
            self._tasks |= zip(new, tasks(self._alerts.iloc[new], as_of=self._as_of), strict=True)

    def _task(self, position: int) -> Task:
        self._load_tasks([position])
        return self._tasks[position]

    def _steps_of(self, positions: Iterable[int]) -> pd.DataFrame:
        rows = [row for position in positions for row in self._rows_by_key.get(self._keys[position], [])]
        return self.steps.iloc[rows]

    def _progress_of(self, position: int) -> task_captions.Progress:
        return self._progress.get(self._keys[position], task_captions.Progress())

    def _static_site(self, site: str, positions: Sequence[int], *, is_open: bool) -> str:
        n_done = sum(self._progress_of(position).state == DONE for position in positions)
        head = f"{_PAGES if site == _PAGE else site}: {n_done:,} of {len(positions):,} finished"
        lines = [self._lines(position) for position in positions]
        common = [line for line in lines[0] if len(lines) > 1 and all(line in one for one in lines)]
        alerts = (self._static_alert(position, common) for position in positions)
        body = f"{static_html.paragraphs(common)}{''.join(alerts)}"
        return f"<details{' open' if is_open else ''}><summary>{isolated(head)}</summary>{body}</details>"

    def _lines(self, position: int) -> list[str]:
        """What to know about an alert before starting, and about its steps."""
        if position not in self._notes:
            notes = static_html.note_lines(self._task(position))
            self._notes[position] = [*notes, *self._guide_lines(position)]
        return self._notes[position]

    def _static_alert(self, position: int, common: Sequence[str]) -> str:
        if position not in self._static:
            steps = self._steps_of([position])
            ticks = steps["tick"].fillna(TO_DO).tolist(), steps["tick_note"].fillna("").tolist()
            body = static_html.steps(steps["step"].tolist(), *ticks) if len(steps) else f"<p>{_NO_STEPS}</p>"
            details = static_html.task(self._task(position), without=common)
            guide = [line for line in self._guide_lines(position) if line not in common]
            parts = f"{self._head(position)}{details}{static_html.paragraphs(guide)}{body}"
            self._static[position] = f'<article class="card">{parts}</article>'
        return self._static[position]

    def _head(self, position: int) -> str:
        """The site, the status, why the alert exists, and whether there is anything to do."""
        alert = self._alerts.iloc[position]
        status = alert["status"] if isinstance(alert["status"], str) else ""
        text = alert["text"] if isinstance(alert.get("text"), str) else ""
        kind = status.replace(" ", "-") if status in _COLOURED else ""
        chip = f' <span class="chip {kind}">{escaped(status)}</span>' if status else ""
        parts = [f'<h2 class="headline">{isolated_value(_site(alert))}{chip}</h2>']
        parts += [
            f"<p>{isolated(line)}</p>" for line in (text, self._nothing_to_do(position, status)) if line
        ]
        return "".join(parts)

    def _nothing_to_do(self, position: int, status: str) -> str:
        if self._keys[position] in self._not_mine:
            item = "page" if self._task(position).site is None else "listing"
            return f"Nothing to do: the {item} is labelled not mine."
        if status == REMOVED:
            return "Nothing to do: already removed."
        if status == PENDING_REMOVAL:
            return "Nothing to do now: the removal is pending."
        is_closed = bool(status) and not is_open(pd.Series([status], dtype="str"))[0]
        return "Nothing to do: no longer listed." if is_closed else ""

    def _guide_lines(self, position: int) -> list[str]:
        """What the service says about the removal, and what its steps need from the person."""
        alert = self._alerts.iloc[position]
        guide = [isolated(alert["guide"])] if isinstance(alert["guide"], str) else []
        needs = preparations(self._steps_of([position])["step"].tolist())
        return [*guide, *(f"<strong>{isolated(text)}</strong>" for text in needs)]

    def _finished(self) -> str:
        n_done = sum(self._progress_of(position).state == DONE for position in self._waiting)
        n_blocked = sum(self._is_blocked(position) for position in self._waiting)
        blocked = f", {n_blocked:,} {_BLOCKED}" if n_blocked else ""
        return f"{n_done:,} of {len(self._waiting):,} alerts finished{blocked}"

    def _is_blocked(self, position: int) -> bool:
        """Whether an alert that is not finished lacks a required value."""
        return bool(self._task(position).cannot_start) and self._progress_of(position).state not in (
            DONE,
            UNABLE,
        )

    def _counter_html(self) -> str:
        """How many alerts are done, and how long the rest takes."""
        n = len(self._waiting)
        n_done = sum(self._progress_of(position).state == DONE for position in self._waiting)
        minutes = sum(self._minutes(position) for position in self._waiting)
        left = f"about {format_duration(minutes)} to do" if minutes else "nothing left to do"
        if not n:
            return '<p class="headline">Nothing needs manual work</p>'
        return (
            f'<p class="headline">{self._finished()} <span class="label">· {left}</span></p>'
            f'<progress max="{n}" value="{n_done}" aria-label="alerts done"></progress>'
        )

    def _minutes(self, position: int) -> float:
        """The minutes that are left, as in the work queue: for the check, the open steps, and a share of the group's visit."""
        key, progress = self._keys[position], self._progress_of(position)
        if key not in self._group_by_key or progress.state in (DONE, UNABLE):
            return 0.0
        visit = VISIT_MINUTES / self._n_in_group[self._group_by_key[key]]
        check = CHECK_MINUTES if progress.state == TO_DO and key in self._unchecked else 0.0
        return visit + check + self._step_minutes[key] * progress.to_do

    def _item(self, index: int) -> list[Any]:
        """What the list shows of an alert."""
        position = self._order[index]
        task, progress, minutes = self._task(position), self._progress_of(position), self._minutes(position)
        state, kind = str(progress), "done" if progress.state == DONE else ""
        if self._keys[position] in self._not_mine:
            state = "labelled not mine"
        elif self._is_blocked(position):
            state = _BLOCKED
        side = format_duration(max(minutes, 1)) if minutes else ""
        person, detail = (
            task_captions.truncate(text) for text in (task.person, task.line if task.facts else "")
        )
        title = task_captions.truncate(task.site or host(task.address) or _PAGE)
        return [index, title, person, detail, side, progress.done, progress.steps, kind, state]

    def _filters(self) -> list[tuple[str, str]]:
        return [
            (f"With steps to do ({self._n_to_do():,})", _WAITING),
            (f"All alerts ({len(self._order):,})", _ALL),
        ]

    def _n_to_do(self) -> int:
        return sum(map(self._has_open_steps, self._waiting))

    def _has_open_steps(self, position: int) -> bool:
        progress = self._progress_of(position)
        return progress.done + progress.unable < progress.steps

    def _apply_filter(self) -> None:
        was_empty = not self._view
        self._matches = self._matching(self._find.value.strip().casefold())
        self._view = self._filtered()
        if not self._view:
            self._clear()
        elif was_empty or self._index not in self._view:
            self._index = self._index if self._index in self._view else self._view[0]
            self._show()
        else:
            self._show_group(self._order[self._index])  # it has only what matches
            self._update_progress()
        self._update_picker()

    def _matching(self, text: str) -> set[int] | None:
        if not text:
            return None
        n = len(self._waiting) if self._filter.value == _WAITING else len(self._order)
        self._load_tasks(self._order[:n])
        labels = ((index, task_captions.full_label(self._tasks[self._order[index]])) for index in range(n))
        return {index for index, label in labels if text in label.casefold()}

    def _filtered(self) -> list[int]:
        indexes: Iterable[int] = range(len(self._order))
        if self._filter.value == _WAITING:
            waiting = range(len(self._waiting))
            indexes = [index for index in waiting if self._has_open_steps(self._order[index])]
        return [index for index in indexes if self._matches is None or index in self._matches]

    def _update_view(self) -> None:
        """Filter again after a tick; the displayed alert stays until another is picked."""
        self._view = self._filtered()
        if self._index not in self._view:
            insort(self._view, self._index)
        self._update_picker()

    def _update_filter(self) -> None:
        """Count the alerts again after a tick."""
        chosen = self._filter.value
        self._filter.unobserve(self._on_filter, "value")
        self._filter.options = self._filters()
        self._filter.value = chosen  # new options change it
        self._filter.observe(self._on_filter, "value")
        self._update_view()

    def _update_picker(self) -> None:
        """Offer the filtered alerts with their progress, and keep what is picked."""
        at = self._view.index(self._index) if self._index in self._view else 0
        first = at // LIST_MAX * LIST_MAX
        indexes = self._view[first : first + LIST_MAX]
        with contextlib.suppress(ValueError):  # it is not observed before the first time
            self._list.unobserve(self._on_pick, "value")
        self._list.show(
            [self._item(index) for index in indexes], self._index if self._index in indexes else None
        )
        self._list.observe(self._on_pick, "value")
        self._counter.value = self._counter_html()
        note = ""
        if not self._view and self._order:
            note = "No alert matches."
        elif len(indexes) < len(self._view):
            note = f"Alerts {first + 1:,} to {first + len(indexes):,} of {len(self._view):,}. Type to find others."
        self._picker_note.value = f'<p class="label">{note}</p>' if note else ""

    def _key_pressed(self, key: str) -> None:
        self.step({"n": 1, "p": -1}.get(key, 0))

    def _go_to(self, index: int | None) -> None:
        if index is not None and self._order:
            self._index = index
            self._started_s = self._clock()
            self._update_view()
            self._clear_undo()
            self._show()

    def _show(self) -> None:
        position = self._order[self._index]
        task = self._task(position)
        notes = static_html.paragraphs(static_html.note_lines(task))
        self._about.value = f"{self._head(position)}{static_html.person(task)}{notes}"
        self._values.show(task_captions.sections(task))
        self._guide.value = static_html.paragraphs(self._guide_lines(position))
        self._group_size = GROUP_MAX
        self._show_group(position)
        self._show_steps(position)

    def _clear(self) -> None:
        """Show no alert, as there is none, or none matches."""
        self._about.value, self._guide.value = "" if self._order else "<p>No alerts.</p>", ""
        self._values.show([])
        self._boxes, self._group_box.children, self._steps_box.children = {}, [], []
        self._clear_undo()
        self._status.value = ""

    def _show_steps(self, position: int) -> None:
        steps = self._steps_of([position])
        is_locked = self._is_locked(position)
        rows: list[Any] = [
            _step_controls(self, index, steps.loc[index], is_locked=is_locked) for index in steps.index
        ]
        if is_locked:
            unlock = self.button("Do it anyway", lambda _: self._unlock(position), layout=_AUTO)
            rows.insert(0, with_classes(HBox([HTML(f"<p>{_LOCKED}</p>"), unlock]), "exposurekit-row"))
        self._steps_box.children = rows or [HTML(f"<p>{_NO_STEPS}</p>")]
        self._update_progress()

    def _is_locked(self, position: int) -> bool:
        """Whether the boxes of an alert are off, because it lacks a required value."""
        return self._is_blocked(position) and position not in self._unlocked

    def _unlock(self, position: int) -> None:
        self._unlocked.add(position)
        self._show_group(position)
        self._show_steps(position)

    def _show_group(self, position: int) -> None:
        self._boxes, self._group_box.children = {}, []
        if not len(self._steps_of([position])):
            return
        is_page = self._task(position).site is None
        own = self._listing_box(position, f"All steps are done for this {'page' if is_page else 'listing'}")
        self._boxes = {position: own}
        others = [other for other in self._group_of(position) if other != position]
        if not others:
            self._group_box.children = [own]
            return
        visible = others[: self._group_size]
        self._boxes |= {other: self._listing_box(other, self._group_label(other)) for other in visible}
        kind = "pages" if is_page else "listings on this site"
        head = HTML(f"<h3>Same steps for {len(others) + 1:,} {kind}: this one and {len(others):,} more</h3>")
        own_width = Layout(width="auto", align_self="flex-start")
        self._tick_button = self.button("", lambda _: self._tick_group(), kind="primary", layout=own_width)
        more = []
        if len(others) > len(visible):
            label = f"Show {min(GROUP_MAX, len(others) - len(visible))} more"
            button = self.button(label, lambda _: self._show_more(position), layout=_AUTO)
            more = [HTML(f"<p>{len(visible)} of the {len(others):,} others are listed here.</p>"), button]
        self._group_box.children = [
            own,
            head,
            self._tick_button,
            *(self._boxes[other] for other in visible),
            *more,
        ]

    def _group_of(self, position: int) -> list[int]:
        """The alerts with the same steps; while a text is searched for, those that match it."""
        group = self._groups.get(position, [])
        if self._matches is None:
            return group
        matching = {self._order[index] for index in self._matches} | {position}
        return [other for other in group if other in matching]

    def _group_label(self, position: int) -> str:
        blocked = f" · {_BLOCKED}" if self._is_blocked(position) else ""
        return f"{task_captions.short_label(self._task(position))}{blocked}"

    def _show_more(self, position: int) -> None:
        self._group_size += GROUP_MAX
        self._show_group(position)
        self._update_progress()

    def _listing_box(self, position: int, label: str) -> Checkbox:
        box = Checkbox(description=label, indent=False, layout=_AUTO, disabled=self._is_locked(position))

        def changed(change: Any) -> None:
            if not self._is_updating:
                self._tick_listing(position, is_done=change["new"])

        box.observe(self.callback(changed), "value")
        return box

    def _tick_listing(self, position: int, *, is_done: bool) -> None:
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
        states = {position: self._progress_of(position) for position in self._boxes}
        return [
            position
            for position, progress in states.items()
            if not self._is_blocked(position) and not progress.unable and progress.state != DONE
        ]

    def _tick_label(self) -> str:
        """The button's text: how many it ticks, and why not all."""
        n = len(self._tickable())
        if not n:
            return "Nothing to tick"
        states = [self._progress_of(position) for position in self._boxes]
        is_partial = len(self._boxes) < len(self._group_of(self._order[self._index]))
        reasons = [
            *(["unfinished"] if any(one.unable or one.state == DONE for one in states) else []),
            *(["listed here"] if is_partial else []),
            *(["that can start"] if any(map(self._is_blocked, self._boxes)) else []),
        ]
        return " ".join([f"Tick all {n}", *reasons])

    def _tick_group(self) -> None:
        positions = self._tickable()
        if not positions:
            return
        before = self._steps_of(positions)[_TICK].copy()
        self.tick_all(positions)
        undo = self.button("Undo", lambda _: self._undo(before), layout=_AUTO)
        self._undo_box.children = [HTML(f'<p role="status">{len(positions):,} ticked</p>'), undo]

    def _undo(self, before: pd.DataFrame) -> None:
        self._clear_undo()
        self._save(before)

    def _clear_undo(self) -> None:
        self._undo_box.children = []

    def _update_progress(self) -> None:
        progress = self._progress_of(self._order[self._index])
        note = "" if self._history is not None else f" {_NO_HISTORY}"
        self._status.value = (
            f'<progress max="{max(progress.steps, 1)}" value="{progress.done}" aria-label="steps done"></progress>'
            f'<p class="label" role="status">{isolated(f"{progress}; {self._finished()}.{note}")}</p>'
        )
        self._is_updating = True
        for position, box in self._boxes.items():
            box.value = self._progress_of(position).is_complete
        self._is_updating = False
        if len(self._boxes) > 1:
            self._tick_button.description = self._tick_label()
            self._tick_button.disabled = not self._tickable()


def _step_controls(
    checklist: OptOutChecklist, index: int, step: "pd.Series[Any]", *, is_locked: bool
) -> HBox:
    tick, text = step["tick"], step["tick_note"]
    done = Checkbox(
        value=bool(tick == DONE),
        description=f"{step['step_number']}. {plain(step['step'])}",
        indent=False,
        disabled=is_locked,
    )
    unable = ToggleButton(value=bool(tick == UNABLE), tooltip="This step cannot be done")
    note = Text(value=text if isinstance(text, str) else "", placeholder="optional", continuous_update=False)
    note.description = "Note"

    def label_button() -> None:
        unable.description = "☒ Marked unable" if unable.value else "Unable"
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
    return with_classes(HBox([done, unable, note]), "exposurekit-step")


def _site(alert: "pd.Series[Any]") -> str:
    return alert["site"] if isinstance(alert["site"], str) else _PAGE


def _as_of(exposure: Exposure | None, history: History | None) -> date:
    """The day of the newest run, as in a report; without a history that of the load; today if neither is there."""
    with contextlib.suppress(NotFound):  # an empty history
        if history is not None and (last := history.last_run().finished_at) is not None:
            return last.date()
    return datetime.now(UTC).date() if exposure is None else exposure.as_of.date()


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
