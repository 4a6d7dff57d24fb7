"""What a listing is called in a widget, what of it can be copied, how far it is, and which need the same steps."""

from dataclasses import dataclass

import pandas as pd

from exposurekit.analysis.tasks import NO_VALUE_TEXTS, Task
from exposurekit.analysis.work_queue import DONE, TO_DO, UNABLE
from exposurekit.text.sanitize import plain
from exposurekit.widgets import static_html

LABEL_MAX, PART_MAX = 110, 40
_KEY = ["user_id", "alert_number"]


def alike(alerts: pd.DataFrame, needed: list[int]) -> dict[int, list[int]]:
    """Which alerts need the same steps: of each of those that need somebody, all of its kind, in their order."""
    kinds: dict[tuple[str, ...], list[int]] = {}
    columns = ("site", "guide", "opt_out_procedure")
    for place in needed:
        site, guide, steps = (alerts[name].iloc[place] for name in columns)
        kinds.setdefault((str(site), str(guide), *map(str, steps)), []).append(place)
    return {place: places for places in kinds.values() for place in places}


def named(task: Task) -> str:
    """Where, whose and which, on one line.

    >>> from exposurekit.analysis.tasks import Task
    >>> from exposurekit.widgets.listings import named
    >>> named(Task("user 1", "PeepFinder", facts=(("Name", "Jo Doe"), ("Age", "46"))))
    'PeepFinder, user 1: Jo Doe · age 46'
    """
    where = task.site or "a web page"
    return _short(f"{_short(where, PART_MAX)}, {alone(task)}", LABEL_MAX)


def alone(task: Task) -> str:
    """Whose and which, where the site is known."""
    line = f": {task.line}" if task.facts else ""
    return _short(f"{_short(task.person, PART_MAX)}{line}", LABEL_MAX)


def _short(text: str, most: int) -> str:
    shown = plain(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def copied(task: Task) -> list[tuple[str, str | None]]:
    """What names the listing, its address, and what to enter: labels and texts, None where there is none."""
    labels = {"Name": "Name as listed", "Page": "Title of the page"}
    facts = [
        (labels.get(label, label), None if text in NO_VALUE_TEXTS else text) for label, text in task.facts
    ]
    page = (
        [("Address of the listing" if task.site else "Address of the page", task.address)]
        if task.address
        else []
    )
    return [
        *facts,
        *page,
        *((f"{task.values_label} {label}", value) for label, value in static_html.entries(task)),
    ]


@dataclass(frozen=True, slots=True)
class Tally:
    """How far the steps of an alert are."""

    steps: int = 0
    done: int = 0
    unable: int = 0

    @property
    def state(self) -> str:
        """Its state, as a work queue has it."""
        if self.unable:
            return UNABLE
        return DONE if self.steps and self.done == self.steps else TO_DO

    def __str__(self) -> str:
        if not self.steps:
            return "no steps"
        return f"{self.done} of {self.steps} done" + (f", {self.unable} unable" if self.unable else "")


def tallied(steps: pd.DataFrame) -> dict[tuple[int, int], Tally]:
    """How far each alert is."""
    ticks = steps["tick"].astype("str")
    counted = steps[_KEY].assign(steps=1, done=ticks == DONE, unable=ticks == UNABLE)
    sums = counted.groupby(_KEY, as_index=False).sum()
    rows = zip(*(sums[name].tolist() for name in (*_KEY, "steps", "done", "unable")), strict=True)
    return {(user_id, number): Tally(*map(int, far)) for user_id, number, *far in rows}
