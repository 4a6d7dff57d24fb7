"""What each figure means: one definition of each, which tables, charts and reports all show."""

from collections.abc import Mapping

from exposurekit.analysis.diff import (
    AGAIN,
    CHANGED,
    INTO_VIEW,
    NEW,
    OPEN_AFTER,
    OPEN_BEFORE,
    OUT_OF_VIEW,
    UNCHANGED,
)
from exposurekit.analysis.score import PAGE, SCORE_AFTER, SCORE_BEFORE, WEIGHTS
from exposurekit.analysis.statuses import OPEN, OTHER, UNKNOWN, VANISHED
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED

_OPEN = "listings that still have to go: discovered, pending removal, or in a status of the service's own"
_POINTS = (
    f"points: {WEIGHTS[DISCOVERED]:g} for each discovered listing, {WEIGHTS[PENDING_REMOVAL]:g} for each pending removal, "
    f"{WEIGHTS[OTHER]:g} for each in a status of the service's own, {WEIGHTS[PAGE]:g} for each page; none for what is removed"
)
_MANUAL = "alerts whose steps a human still has to take; one listing may have several"
DEFINITIONS: Mapping[str, str] = {
    OPEN: _OPEN,
    "open listings": _OPEN,
    OPEN_BEFORE: f"{_OPEN}; at the beginning",
    OPEN_AFTER: f"{_OPEN}; at the end",
    DISCOVERED: "listed, and no removal is under way",
    PENDING_REMOVAL: "a removal was sent, and is not yet verified",
    REMOVED: "the service verified that the listing is gone",
    OTHER: "in a status that the specification does not name; counts as open",
    VANISHED: "no longer listed, and nobody verified a removal",
    UNKNOWN: "the service no longer lists its person: nobody knows",
    "total": "all that the service lists, open and removed; not what vanished or is unknown",
    NEW: "first seen in this time, and of a person who was known before",
    INTO_VIEW: "was there already when its person was first seen, or seen again: no news",
    AGAIN: "open again after it was removed or had vanished",
    CHANGED: "went from one open status to another",
    OUT_OF_VIEW: "the service no longer lists its person: nobody knows what became of it",
    UNCHANGED: "stands as it stood at the beginning",
    "moves": "every move in between: a listing that was found and removed has moved twice",
    "score": _POINTS,
    SCORE_BEFORE: f"{_POINTS}; at the beginning",
    SCORE_AFTER: f"{_POINTS}; at the end",
    "pages with their data": "web pages with somebody's data that are no listings",
    "removals by hand": _MANUAL,
    "half removed within": "the age by which half of the listings were removed, of those found while the history was kept "
    "(Kaplan-Meier: one that is still open counts for as long as it was watched)",
    "median_days": "the age in days by which half of the listings were removed; missing where half were not",
    "open in 30 days": "how many listings will be open if things go on as they went; the interval holds 95 times in 100",
    "never": "the share that is not removed by the end of the time that was watched",
}


def definition(figure: str) -> str:
    """What a figure means, by its name; empty where its name says it all.

    >>> from exposurekit.analysis.definitions import definition
    >>> definition("removed")
    'the service verified that the listing is gone'
    """
    return DEFINITIONS.get(figure, "")
