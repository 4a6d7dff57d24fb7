"""Charts: Plotly figures of the tables in `analysis`, under the same names. No I/O.

::

    counts        listings by site, user and state          status_over_time   counts per period
    survival      time to removal, relistings               forecast           expected open listings, with interval
    data_quality  precision, coverage, site health          score              points per person
    work_queue    blockers and manual work                  declared_vs_observed  days that sites declare, and take

    theme         palette, labels and the `Chart` class     bars, heatmap      one row per group; people by columns
    area          areas and lines over time                 time_gaps          periods with and without observations
    waterfall     causes of a change                        survival_curves    survival curves
    medians       median times with intervals               embedding          charts in notebooks and reports
    missed        estimated number of missed listings       argument_checks    checks of a chart's table
"""

import sys
from typing import TYPE_CHECKING, Any

from exposurekit.charts.bars import MAX_ROWS
from exposurekit.charts.counts import by_kind, by_site, by_state, by_user, user_by_site
from exposurekit.charts.data_quality import coverage, precision, site_health
from exposurekit.charts.declared_vs_observed import declared_vs_observed
from exposurekit.charts.missed import missed
from exposurekit.charts.score import score
from exposurekit.charts.status_over_time import changes, forecast, score_changes, status_over_time
from exposurekit.charts.survival import relistings, survival, time_to_removal
from exposurekit.charts.theme import COLOURS, CONFIG, LABEL_MAX, PATTERNS, Chart, describe
from exposurekit.charts.work_queue import best_next_fields, blockers, work_queue

__all__ = [
    "COLOURS",
    "CONFIG",
    "LABEL_MAX",
    "MAX_ROWS",
    "PATTERNS",
    "Chart",
    "best_next_fields",
    "blockers",
    "by_kind",
    "by_site",
    "by_state",
    "by_user",
    "changes",
    "coverage",
    "declared_vs_observed",
    "describe",
    "forecast",
    "missed",
    "precision",
    "relistings",
    "score",
    "score_changes",
    "site_health",
    "status_over_time",
    "survival",
    "time_to_removal",
    "user_by_site",
    "work_queue",
]


_DRAW_DIFF = "draw a diff with charts.changes(diff.why)"
_OTHER_NAMES = {"diff": _DRAW_DIFF, "why": _DRAW_DIFF}


def __dir__() -> list[str]:
    return [*__all__]


if not TYPE_CHECKING:  # a type checker refuses a mistyped name only where the module has no `__getattr__`

    def __getattr__(name: str) -> Any:
        hint = _OTHER_NAMES.get(name, "dir(charts) lists the charts")
        raise AttributeError(f"There is no chart {name!r}: {hint}", name=name, obj=sys.modules[__name__])
