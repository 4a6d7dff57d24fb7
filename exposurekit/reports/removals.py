"""The manual work as a person does it: place by place, what to do once for all that wait there. Knows no page."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import pandas as pd

from exposurekit.analysis.work import DONE, UNABLE
from exposurekit.reports.content import Removal

_Kind: TypeAlias = tuple[str | None, str | None, tuple[str, ...]]


def removals(queue: pd.DataFrame, alerts: pd.DataFrame) -> tuple[Removal, ...]:
    """What is left of a work queue, in its order; alerts that ask for the same stand together.

    Args:
        queue: As `analysis.work_queue` gives it.
        alerts: Those that it is made of, as `Exposure.alerts` or `History.alerts` give them.
    """
    left = queue[~queue["state"].isin([DONE, UNABLE])]
    told = _cells(alerts, "guide", "opt_out_procedure", "url")
    about = dict(zip(_cells(alerts, "user_id", "alert_number"), told, strict=True))
    found: dict[_Kind, list[tuple[int, float, str | None]]] = {}
    waiting = _cells(left, "user_id", "alert_number", "site", "minutes")
    for user_id, number, site, minutes in waiting:
        guide, steps, url = about[user_id, number]
        kind = _text(site), _text(guide), tuple(map(str, steps))
        found.setdefault(kind, []).append((user_id, minutes, _text(url)))
    return tuple(_removal(kind, waits) for kind, waits in found.items())


def _removal(kind: _Kind, alerts: list[tuple[int, float, str | None]]) -> Removal:
    site, guide, steps = kind
    pages = list(dict.fromkeys(url for _, _, url in alerts if url))
    people = len({user_id for user_id, _, _ in alerts})
    minutes = sum(minutes for _, minutes, _ in alerts)
    return Removal(site, guide, steps, tuple(pages), len(alerts), people, minutes)


def _cells(table: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Row by row; each column is unpacked at once."""
    return zip(*(table[name].tolist() for name in columns), strict=True)


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) and cell.strip() else None
