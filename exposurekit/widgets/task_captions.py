"""Task labels: how a checklist labels a listing, which values can be copied, and how many of its steps are done."""

from dataclasses import dataclass

import pandas as pd

from exposurekit.analysis.manual_tasks import NO_VALUE_TEXTS, FormValue, Task
from exposurekit.analysis.step_minutes import WAITING
from exposurekit.analysis.work_queue import DONE, STARTED, TO_DO, UNABLE
from exposurekit.text.formatting import pluralize
from exposurekit.text.sanitize import link_text, plain

LABEL_MAX, PART_MAX = 400, 60
_KEY = ["user_id", "alert_number"]
Row = tuple[str, str, bool, str]  # label, text, whether it can be copied, link text (empty: no link)
Section = tuple[str, bool, list[Row]]  # heading, whether it is collapsed, rows


def same_steps(alerts: pd.DataFrame, positions: list[int]) -> dict[int, list[int]]:
    """Map each of these alerts to all that need the same steps, in order."""
    groups: dict[tuple[str, ...], list[int]] = {}
    columns = ("site", "guide", "opt_out_procedure")
    for position in positions:
        site, guide, steps = (alerts[name].iloc[position] for name in columns)
        groups.setdefault((str(site), str(guide), *map(str, steps)), []).append(position)
    return {position: group for group in groups.values() for position in group}


def full_label(task: Task) -> str:
    """The site, the person and the facts that identify a listing, on one line.

    >>> from exposurekit.analysis.manual_tasks import Task
    >>> from exposurekit.widgets.task_captions import full_label
    >>> full_label(Task("user 1", "PeepFinder", facts=(("Name as listed", "Jo Doe"), ("Age", "46"))))
    'PeepFinder, user 1: Jo Doe · age 46'
    """
    return truncate(f"{truncate(task.site or 'a web page')}, {short_label(task)}", LABEL_MAX)


def short_label(task: Task) -> str:
    """The label of a listing under the heading of its site."""
    line = f": {task.line}" if task.facts else ""
    return truncate(f"{truncate(task.person)}{line}", LABEL_MAX)


def truncate(text: str, length: int = PART_MAX) -> str:
    """Shorten a text to one line."""
    line = plain(text)
    return line if len(line) <= length else f"{line[: length - 1]}…"


def facts(task: Task) -> list[Row]:
    """What the listing shows, its link, and the page where the removal begins."""
    rows = [(label, plain(text), text not in NO_VALUE_TEXTS, "") for label, text in task.facts]
    links = [("Link", task.address), ("Begin at", task.begin)]
    return rows + [(label, plain(url), True, link_text(url) or "") for label, url in links if url]


def sections(task: Task) -> list[Section]:
    """Everything about a listing that somebody may copy: its facts, the values to enter, other values."""
    first, other = task.value_headings
    parts = [
        ("", False, facts(task)),
        (first, False, [_row(value) for value in task.values_to_enter]),
        (other, True, [_row(value) for value in task.other_values]),
    ]
    return [part for part in parts if part[2]]


def _row(one: FormValue) -> Row:
    is_absent = one.value is None
    return one.choice_label, one.absence if is_absent else plain(one.value), not is_absent, ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How many steps of an alert are done or cannot be done, and how many are to do that take time."""

    steps: int = 0
    done: int = 0
    unable: int = 0
    to_do: int = 0

    @property
    def state(self) -> str:
        """The state as in a work queue."""
        if self.unable:
            return UNABLE
        if self.steps and self.done == self.steps:
            return DONE
        return STARTED if self.done else TO_DO

    @property
    def is_complete(self) -> bool:
        """Whether no step is open and at least one is done."""
        return self.done > 0 and self.done + self.unable == self.steps

    def __str__(self) -> str:
        if not self.steps:
            return "no steps"
        unable = f", {self.unable} marked unable" if self.unable else ""
        return f"{self.done} of {pluralize(self.steps, 'step')} done{unable}"


def progress(steps: pd.DataFrame) -> dict[tuple[int, int], Progress]:
    """The progress of each alert, by user id and alert number."""
    ticks = steps["tick"].astype("str")
    flags = steps[_KEY].assign(steps=1, done=ticks == DONE, unable=ticks == UNABLE)
    flags["to_do"] = ~(flags["done"] | flags["unable"] | steps["step"].astype("str").str.contains(WAITING))
    sums = flags.groupby(_KEY, as_index=False).sum()
    rows = zip(*(sums[name].tolist() for name in (*_KEY, "steps", "done", "unable", "to_do")), strict=True)
    return {(user_id, number): Progress(*map(int, counts)) for user_id, number, *counts in rows}
