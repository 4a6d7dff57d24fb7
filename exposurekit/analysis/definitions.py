"""Definitions of the figures and the technical words, shared by tables, charts and reports."""

import re
from collections.abc import Mapping

from exposurekit.analysis.diff import (
    AGAIN,
    CHANGED,
    ENTERED_SCOPE,
    FAILED,
    LEFT_SCOPE,
    NEW,
    OPEN_AFTER,
    OPEN_BEFORE,
    STILL_OPEN,
)
from exposurekit.analysis.score import PAGE, SCORE_AFTER, SCORE_BEFORE, WEIGHTS
from exposurekit.analysis.stalled_sites import STALLED_DAYS
from exposurekit.analysis.statuses import OPEN, OTHER, UNKNOWN, VANISHED
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED

_OPEN = "listings whose removal is not verified: discovered, pending removal, or with another status"
_POINTS = (
    f"exposure in points: {WEIGHTS[DISCOVERED]:g} per discovered listing, {WEIGHTS[PENDING_REMOVAL]:g} per pending removal, "
    f"{WEIGHTS[OTHER]:g} per listing in another open status, {WEIGHTS[PAGE]:g} per web page; removed listings have none"
)
_DAYS = re.compile(r"^open in [\d,]+ days(?= if all is done$|$)")  # of a forecast over another number of days
_MEDIAN = "median time to removal in days, from {}: by then half were removed; missing if fewer were"
_MANUAL = "listings and web pages with manual steps still to be done; each counts once, even if several alerts name it"
_IF_DONE = (
    "expected number of open listings if all manual work is done now and succeeds at the success rates of the sites, as in "
    "expected removals"
)
_TOO_LONG = f"for longer than 95% of the site's removals took (on sites with fewer than five removals, for {STALLED_DAYS} days or more)"
_CARRIED_OUT = (
    "of removal requests: the listing was removed; not carried out: refused, or not carried out in the usual time: "
    f"pending {_TOO_LONG}"
)
_LISTED_AGAIN = "listings that were listed again after they were removed or had vanished, however often"
DEFINITIONS: Mapping[str, str] = {
    OPEN: _OPEN,
    "open listings": _OPEN,
    OPEN_BEFORE: f"{_OPEN}; at the start of the period",
    OPEN_AFTER: f"{_OPEN}; at the end of the period",
    DISCOVERED: "listed, and no removal is pending; an earlier request may have failed",
    PENDING_REMOVAL: "a removal was requested and is not yet verified",
    REMOVED: "the service verified that the listing is gone",
    "times removed": "verified removals: a listing that was listed and removed again counts twice",
    OTHER: "with another status than discovered, pending removal or removed, or without one; counts as open",
    VANISHED: "no longer listed, without a verified removal",
    UNKNOWN: "the service no longer lists the user, so the current status is not known",
    "total": "open and removed listings; vanished and unknown ones are not counted",
    NEW: "first observed in this period, for a user who was already monitored or has registered since monitoring began",
    ENTERED_SCOPE: "already listed when monitoring of its user began or resumed; not a new listing",
    AGAIN: "listed again after it was removed or had vanished",
    FAILED: "the request was refused, or not carried out in the usual time: a pending removal has the status discovered again",
    "requested": "the removal requests to the site that the runs saw; the table of sites also counts what it answered between "
    "two runs",
    "without_effect": f"still pending, and {_TOO_LONG}",
    "refused": "of removal requests: answered in the usual time, without a removal",
    "ignored": f"removal requests that were pending {_TOO_LONG}; refused ones are not included",
    "expected removals": "listings times the success rate of their site: (requests that succeeded + 1) / (decided + 2)",
    "listed_again": _LISTED_AGAIN,
    CHANGED: "changed from one open status to another",
    LEFT_SCOPE: "the service no longer lists the user, so what became of the listing is not known",
    STILL_OPEN: f"{_OPEN}; at the end of the period",
    "score": _POINTS,
    SCORE_BEFORE: f"{_POINTS}; at the start of the period",
    SCORE_AFTER: f"{_POINTS}; at the end of the period",
    "web pages": "other pages with personal data, each counted once per person on it; they have no opt-out form",
    "to do by hand": _MANUAL,
    "half removed within": "median days from a removal request to its verified removal; "
    "with few requests, from first observation",
    "first_removed": "listings that were already removed when they were first observed: they came and went between two runs",
    "median_days": _MEDIAN.format("the first observation of a listing"),
    "request_median": _MEDIAN.format("the request"),
    "verdict": "what came of the removal requests to the site, as far as observed",
    "waiting_since": "the date from which the oldest open listing with no pending request has been waiting: first seen, "
    "refused or listed again",
    "ways": "which ways of finding found a listing: site scans, web search, or others",
    "declared_days": "days within which the site or its owner says it removes a listing",
    "due": "requests observed for longer than the declared days plus the days allowed for verification",
    "overdue": "due requests that were still pending after the declared days plus the days allowed for verification",
    "takes_longer": "significantly more than half of the due requests are overdue (sign test, corrected for the number "
    "of sites; false discovery rate of 5%)",
    "q_value": "the smallest false discovery rate at which the site would count as taking longer (Benjamini and Hochberg)",
    "open in 30 days": "expected number of open listings if new listings, relistings and removals continue as "
    "they have so far, with a 95% interval",
    "open in 30 days if all is done": _IF_DONE,
    "if_done": _IF_DONE,
    "never": "estimated share of listings that are not removed by the longest age observed, with or without a request; a listing "
    "found recently has been followed for only a few days, so it may be 0% while some are open",
}
TERMS: Mapping[str, str] = {  # words of sentences; a report defines those that it uses
    **{
        name: DEFINITIONS[name]
        for name in (
            OPEN,
            DISCOVERED,
            PENDING_REMOVAL,
            REMOVED,
            VANISHED,
            NEW,
            AGAIN,
            ENTERED_SCOPE,
            LEFT_SCOPE,
        )
    },
    "95% interval": "a range that contains the true value in 95 of 100 such estimates; the wider, the less certain",
    "by hand": _MANUAL,
    "estimated share still listed": DEFINITIONS["never"],
    "followed": "of listings: watched since they were first seen, unless they were there before their person's data was first "
    "loaded; how long the site had listed them by then is not known; one that is listed again is followed anew",
    "listing": "what a people-search site shows about a person",
    "expected removals": DEFINITIONS["expected removals"],
    "refused": DEFINITIONS["refused"],
    "match": "a listing that the service judged to be about a person",
    "median": "the middle value: of times to removal, the days by which half of the listings were removed",
    "n": "the number of listings behind an estimate, with each relisting counted anew; with few, it is rough",
    "carried out": _CARRIED_OUT,
    "carry out": _CARRIED_OUT,
    "point": _POINTS,
    "relisting": DEFINITIONS[AGAIN],
    "required value": "what a site's form asks for, such as an email address: without it, a removal cannot start",
    "run": "one collection of everyone's data from the service into the history",
    "score": _POINTS,
    "unlocks": "lets removals start that are missing nothing else",
    "web page": DEFINITIONS["web pages"],
}


def definition(figure: str) -> str:
    """Return the definition of a figure by its name; empty if the name is self-explanatory."""
    return DEFINITIONS.get(_DAYS.sub("open in 30 days", figure), "")
