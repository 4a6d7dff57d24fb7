"""The manual work as a person does it: what to do, once for all listings that need the same, and each of these."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import pandas as pd

from exposurekit.analysis.tasks import Task, tasks
from exposurekit.analysis.work_queue import DONE, UNABLE
from exposurekit.reports.model import Removal

_Kind: TypeAlias = tuple[str | None, str | None, tuple[str, ...]]


def removals(queue: pd.DataFrame, *, most: int | None = None) -> tuple[Removal, ...]:
    """What is left of a work queue, in its order; listings that need the same steps stand together.

    Args:
        queue: As `analysis.work_queue` gives it for the steps of an `Exposure` or a `History`.
        most: How many listings and pages are told of at most, the first ones; None: all.
    """
    left = queue[~queue["state"].isin([DONE, UNABLE])]
    described = [*tasks(left if most is None else left.head(most))]
    found: dict[_Kind, list[tuple[int, float, Task | None]]] = {}
    columns = ("user_id", "minutes", "site", "guide", "opt_out_procedure")
    for place, (user_id, minutes, site, guide, steps) in enumerate(_cells(left, *columns)):
        kind = _text(site), _text(guide), tuple(map(str, steps))
        task = described[place] if place < len(described) else None
        found.setdefault(kind, []).append((user_id, minutes, task))
    return tuple(_removal(kind, waits) for kind, waits in found.items())


def _removal(kind: _Kind, waiting: list[tuple[int, float, Task | None]]) -> Removal:
    people = len({user_id for user_id, _, _ in waiting})
    minutes = sum(minutes for _, minutes, _ in waiting)
    return Removal(*kind, tuple(task for _, _, task in waiting if task), len(waiting), people, minutes)


def _cells(table: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Row by row; each column is unpacked at once."""
    return zip(*(table[name].tolist() for name in columns), strict=True)


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) and cell.strip() else None
