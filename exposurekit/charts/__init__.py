"""Tables to Plotly figures, under the same names as `analysis`. Fetches nothing, and trusts no text from outside.

::

    where        who is exposed where                     over_time    how it moved, why, and where it goes
    removal      how long removals take, what comes back  work         what waits for whom, what a human must do
    trust        whether the numbers can be trusted       scoring      how exposed people are, in points

    figure       what every chart has in common: words, colours, a figure that sends nothing anywhere
    rows, grid   a row for each group; people down and something else across
    stretches    time as it was looked into               layers       areas and lines over it
    waterfall    why a number moved                       horizons     the forecast, with its interval
    curves       survival curves                          medians      how long half of the removals take
"""

from exposurekit.charts.figure import COLOURS, CONFIG, LABEL_MAX, PATTERNS, Chart, describe
from exposurekit.charts.over_time import changes, forecast, score_changes, status_over_time
from exposurekit.charts.removal import relistings, survival, time_to_removal
from exposurekit.charts.rows import SHOWN
from exposurekit.charts.scoring import score
from exposurekit.charts.trust import coverage, precision, site_health
from exposurekit.charts.where import by_kind, by_site, by_state, by_user, user_by_site
from exposurekit.charts.work import best_next_fields, blockers, work_queue

__all__ = [
    "COLOURS",
    "CONFIG",
    "LABEL_MAX",
    "PATTERNS",
    "SHOWN",
    "Chart",
    "best_next_fields",
    "blockers",
    "by_kind",
    "by_site",
    "by_state",
    "by_user",
    "changes",
    "coverage",
    "describe",
    "forecast",
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


def __dir__() -> list[str]:
    return [*__all__]
