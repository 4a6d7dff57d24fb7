"""Charts: Plotly figures of the tables in `analysis`, under the same names. No I/O.

::

    counts            listings by site, user, state     status_over_time      counts per period
    time_to_removal   median times, with intervals      survival              shares not removed, by age
    relistings        listings that reappear            forecast              expected open listings, with interval
    changes           causes of a change                score                 points per person
    blockers          missing fields, by person         work_queue            manual work
    data_quality      precision, coverage, site health  declared_vs_observed  days that sites declare, and take
    missed            estimated missed listings

    theme             palette, labels, `Chart`          bars, heatmap         one row per group; people by columns
    area              areas and lines over time         time_gaps             periods with and without observations
    embedding         charts in notebooks and reports   argument_checks       checks of a chart's table
"""

import sys
from typing import TYPE_CHECKING, Any

from exposurekit.charts.bars import MAX_ROWS
from exposurekit.charts.blockers import best_next_fields, blockers
from exposurekit.charts.changes import changes, score_changes
from exposurekit.charts.counts import by_kind, by_site, by_state, by_user, user_by_site
from exposurekit.charts.data_quality import coverage, precision, site_health
from exposurekit.charts.declared_vs_observed import declared_vs_observed
from exposurekit.charts.forecast import forecast
from exposurekit.charts.missed import missed
from exposurekit.charts.relistings import relistings
from exposurekit.charts.score import score
from exposurekit.charts.status_over_time import status_over_time
from exposurekit.charts.survival import survival
from exposurekit.charts.theme import COLOURS, CONFIG, LABEL_MAX, PATTERNS, Chart, describe
from exposurekit.charts.time_to_removal import time_to_removal
from exposurekit.charts.work_queue import work_queue

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
