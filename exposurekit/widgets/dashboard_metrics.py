"""Metrics: the figures above a dashboard's charts, each with its definition, and with its course if there is a history."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from exposurekit import analysis
from exposurekit.analysis.definitions import definition
from exposurekit.analysis.status_over_time import since_observed
from exposurekit.analysis.statuses import OPEN, is_open
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.text.formatting import percent, pluralize
from exposurekit.text.html_cards import sparkline
from exposurekit.text.sanitize import escaped

_POINTS_MAX = 60


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure.

    Attributes:
        label: What it counts.
        value: The figure as text.
        note: What it is measured against.
        definition: What it means, for a tooltip.
        status: The class of a status, for its colour; or empty.
        course: The figure over time; empty: none is drawn.
    """

    label: str
    value: str
    note: str = ""
    definition: str = ""
    status: str = ""
    course: tuple[float, ...] = ()

    def to_html(self) -> str:
        """A card.

        >>> from exposurekit.widgets.dashboard_metrics import Metric
        >>> Metric("Removed", "62", "33% of 189 found").to_html()
        '<li class="metric"><span class="label">Removed</span><strong>62</strong><span class="label">33% of 189 found</span></li>'
        """
        title = f' title="{escaped(self.definition)}"' if self.definition else ""
        kind = f" {self.status}" if self.status else ""
        note = f'<span class="label">{escaped(self.note)}</span>' if self.note else ""
        return (
            f'<li class="metric{kind}"{title}><span class="label">{escaped(self.label)}</span>'
            f"<strong>{escaped(self.value)}</strong>{note}{sparkline(self.course)}</li>"
        )


def to_html(metrics: Sequence[Metric]) -> str:
    """All cards, as a list."""
    return f'<ul class="metrics">{"".join(metric.to_html() for metric in metrics)}</ul>'


def measure(
    records: pd.DataFrame,
    links: pd.DataFrame,
    over_time: pd.DataFrame | None = None,
    *,
    has_all_pages: bool = False,
) -> list[Metric]:
    """Measure the picked records and pages: the figures that a report has, in the same form.

    Args:
        records: The picked records: ``user_id``, ``status``.
        links: The pages of the picked people that are still there, one a row.
        over_time: The counts of the picked people and sites over time, for the course; None: none is drawn.
        has_all_pages: Whether sites or statuses are picked, which pages do not have: the cards then say so.

    >>> from exposurekit.widgets.dashboard_metrics import measure
    >>> [metric.label for metric in measure(exposure.records(), exposure.links())]
    ['Open listings', 'Removed', 'Pending removal', 'People exposed', 'Web pages', 'Score']
    """
    status = records["status"].astype("category")
    names = status.cat.categories.astype("str")
    codes = status.cat.codes.to_numpy()
    n_by_status = dict(zip(names, np.bincount(codes[codes >= 0], minlength=len(names)).tolist(), strict=True))
    open_rows = is_open(records["status"])
    n_open, n_removed = int(open_rows.sum()), n_by_status.get(REMOVED, 0)
    n_people, n_exposed = records["user_id"].nunique(), records.loc[open_rows, "user_id"].nunique()
    of_all = f"of {len(records):,} found"
    metrics = [
        Metric(
            "Open listings",
            f"{n_open:,}",
            of_all,
            definition("open listings"),
            course=_course(over_time, OPEN),
        ),
        Metric(
            "Removed",
            f"{n_removed:,}",
            f"{percent(n_removed / len(records))} {of_all}" if len(records) else of_all,
            definition(REMOVED),
            "removed",
            _course(over_time, REMOVED),
        ),
        Metric(
            "Pending removal",
            f"{n_by_status.get(PENDING_REMOVAL, 0):,}",
            "requested, not verified yet",
            definition(PENDING_REMOVAL),
            "pending-removal",
            _course(over_time, PENDING_REMOVAL),
        ),
        Metric(
            "People exposed",
            f"{n_exposed:,}",
            f"of {pluralize(n_people, 'person', 'people')} with listings",
            f"people with at least one open listing: {definition(OPEN)}",
        ),
    ]
    return [
        *metrics,
        Metric(
            "Web pages",
            f"{len(links):,}",
            "not filtered by site or status" if has_all_pages else "beyond people-search sites",
            f"{definition('web pages')}; sites and statuses do not filter them",
        ),
        Metric(
            "Score",
            f"{_points(n_by_status, n_open, len(links)):,.0f}",
            "points, with all these pages" if has_all_pages else "points for open listings and web pages",
            definition("score"),
        ),
    ]


def _points(n_by_status: dict[str, int], n_open: int, n_pages: int) -> float:
    """The score of all, as the sum of `analysis.score`."""
    weights = analysis.WEIGHTS
    n_discovered, n_pending = n_by_status.get(DISCOVERED, 0), n_by_status.get(PENDING_REMOVAL, 0)
    listings = weights[DISCOVERED] * n_discovered + weights[PENDING_REMOVAL] * n_pending
    return (
        listings + weights[analysis.OTHER] * (n_open - n_discovered - n_pending) + weights["page"] * n_pages
    )


def _course(over_time: pd.DataFrame | None, column: str) -> tuple[float, ...]:
    if over_time is None or column not in over_time:
        return ()
    course = since_observed(over_time)[column].astype("float64").tolist()
    if len(course) < 2:  # noqa: PLR2004  a point is no course
        return ()
    step = max(1, -(-len(course) // _POINTS_MAX))
    return tuple(course[::-step][::-1])
