"""Figures and sentences that several parts of a report state."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from exposurekit import analysis
from exposurekit.analysis import expected_removals
from exposurekit.analysis.diff import AGAIN
from exposurekit.analysis.manual_tasks import field_label
from exposurekit.analysis.statuses import VANISHED
from exposurekit.analysis.work_queue import CHECK_MINUTES, TO_DO
from exposurekit.charts.theme import (
    MINUS,
    format_duration,
    format_interval,
    short,
)
from exposurekit.charts.time_to_removal import format_days
from exposurekit.contract.types import REMOVED
from exposurekit.reports.data import ReportData
from exposurekit.reports.model import (
    OPERATOR_AND_PERSON,
    Action,
    Removal,
)
from exposurekit.reports.share_safe import FEW
from exposurekit.text.formatting import enumerate_words, percent, pluralize
from exposurekit.text.times import format_time

SOMEBODY_ELSE = "somebody else with the same name"
WORST_NAMED = 3  # sites
RELISTING_SITES = 2  # named in the finding
_ADDRESSES = {"email": "email address"}
NEED_HISTORY = "success rates need a history"
IS_SHARED = "left out because the report is shared"  # of what a share-safe report does not have
LEFT_OUT = f"whether required values are on file is {IS_SHARED}"


def checks(data: ReportData) -> tuple[int, int]:
    """How many listings and how many web pages of the manual work take a check first."""
    queue = data["work_queue"]
    unchecked = queue[queue["label"].isna() & (queue["state"] == TO_DO)]
    pages = int(unchecked["site"].isna().sum())
    return len(unchecked) - pages, pages


def _checked_items(data: ReportData) -> str:
    """What has to be checked first, in words."""
    counts = zip(checks(data), ("listing", "web page"), strict=True)
    return enumerate_words([pluralize(n, one) for n, one in counts if n])


def check_part(data: ReportData) -> str:
    """The part of the manual work that is checks; empty if there is none."""
    n = sum(checks(data))
    return f", including {format_duration(n * CHECK_MINUTES)} to check {_checked_items(data)}" if n else ""


def since_day(data: ReportData) -> str:
    """The day since which changes are reported; to be shared without the time."""
    assert data.since is not None  # noqa: S101  the callers check
    return format_time(data.since) if data.sharing is None else f"{data.since:%Y-%m-%d}"


def most_open(data: ReportData) -> dict[str, int]:
    """The sites with the most open listings of those that may be named, several if they have as many.

    Empty for a person, and if all listings are on one site.
    """
    if data.user is not None or pd.Index(data.record_sites).nunique() < 2:  # noqa: PLR2004  the only one is no worse
        return {}
    named = {site: n for site, n in sorted(data.open_by_site.items()) if data.can_name(site)}
    return {site: n for site, n in named.items() if n == max(named.values())}


def of_named(data: ReportData) -> str:
    """What a ranking of sites has to add in a share-safe report that names not all of them."""
    return "" if all(map(data.can_name, data.record_sites)) else " of the named sites"


def outcomes_by_site(data: ReportData) -> pd.DataFrame | None:
    """What came of the requests to each site; None without a history, and in a report on one person."""
    outcomes = data.tables["site_outcomes"]
    return outcomes if data.user is None else None


def still_listed(removal: Mapping[Hashable, Any], *, band: bool = True) -> str:
    """The estimated share of listings that stay, and after how many days; empty without an estimate."""
    if pd.isna(removal["never"]):
        return ""
    ends = (
        format_interval(removal["never_low"], removal["never_high"], percent, "95% interval") if band else ""
    )
    after = pluralize(int(removal["followed_days"]), "day")
    return f"an estimated {percent(removal['never'])}{ends} are still listed after {after}"


def median_words(row: Mapping[Hashable, Any]) -> tuple[str, str]:
    """A median in days, and its interval; empty if there is none."""
    if pd.isna(row["median_days"]):
        return "not reached", ""
    band = format_interval(row["median_low"], row["median_high"], "{:,g}".format, "95% interval")
    return format_days(row["median_days"]), band.strip(" ()")


def _were_gone(data: ReportData, n: int) -> str:
    """How many listings were gone at some time: all of them removed, or some vanished."""
    status, before = data["records"]["status"], data["relistings"]["previous_status"]
    is_removed = not (status == VANISHED).any() and bool((before == REMOVED).all())
    return (
        f"{pluralize(n, 'listing')} {'ever removed' if is_removed else 'that were removed or had vanished'}"
    )


def manual_removals(data: ReportData, forecast: Mapping[Hashable, Any]) -> tuple[int, int]:
    """How many listings are removed within a forecast if all manual work is done, and how many of them later.

    As many as the success rates of their sites say; those on sites that declare at least as many days come later.
    """
    by_hand, *_ = data.open_parts
    if not by_hand:
        return 0, 0
    rates, in_time = (table["success_rate"] for table in (data.manual_listings, _in_time(data, forecast)))
    share = min(by_hand, forecast_parts(forecast)[0]) / len(rates)
    removed, later = round(in_time.sum() * share), round(rates.sum() * share)
    return removed, later - removed


def removal_interval(data: ReportData, requests: Iterable[tuple[str, int, float]]) -> tuple[float, int, int]:
    """How many removals to expect of the requests to some sites, with the interval of `analysis.expected_removals`.

    Args:
        data: The data of the report.
        requests: Sites, each with a number of requests and of expected removals; a site may have several rows.
    """
    of_site: dict[str, tuple[int, float]] = {}
    for site, n, expected in requests:
        listings, removals = of_site.get(site, (0, 0.0))
        of_site[site] = listings + n, removals + expected
    rows = ((n, removals / n, site) for site, (n, removals) in of_site.items() if n)
    return expected_removals.removal_interval(
        (n, rate, data.decisions.get(site, (0, 0))[1]) for n, rate, site in rows
    )


def open_if_done(data: ReportData, forecast: Mapping[Hashable, Any]) -> tuple[int, int]:
    """How many open listings to expect if all manual work is done, and how many if all of it succeeds."""
    by_hand, *_ = data.open_parts
    parts = forecast_parts(forecast)
    removed, _ = manual_removals(data, forecast)
    return sum(parts) - removed, sum(parts) - min(by_hand, parts[0])


def open_if_done_interval(data: ReportData, forecast: Mapping[Hashable, Any]) -> tuple[int, int]:
    """The 95% interval of the open listings to expect if all manual work is done.

    It joins that of the forecast and that of the removals within its time, which are independent: the distance of each end
    is the root of the sum of the squared distances of both.

    Source: MOVER, method of variance estimates recovery (Zou and Donner, Stat. Med. 27 (2008), 1693).
    """
    expected, _ = open_if_done(data, forecast)
    in_time, listings = _in_time(data, forecast), min(data.open_parts[0], forecast_parts(forecast)[0])
    rows = in_time.groupby(in_time["site"].astype("str"))["success_rate"].agg(["size", "sum"])
    removed, *ends = removal_interval(data, zip(rows.index, rows["size"], rows["sum"], strict=True))
    share = listings / max(len(data.manual_listings), 1)
    below, above = (abs(end - removed) * share for end in ends)
    low = expected - math.hypot(forecast["open"] - forecast["low"], above)
    high = expected + math.hypot(forecast["high"] - forecast["open"], below)
    return max(math.floor(low), 0), math.ceil(high)


def slow_sites(data: ReportData, forecast: Mapping[Hashable, Any]) -> str:
    """The sites of manual work that declare as many days as a forecast has, with these days, or what they have in common."""
    listings, outcomes = data.manual_listings.drop(_in_time(data, forecast).index), outcomes_by_site(data)
    sites = sorted({*listings["site"].astype("str")})
    if outcomes is None or len(sites) > WORST_NAMED or not all(map(data.can_name, sites)):
        return f"sites that declare {pluralize(int(forecast['days']), 'day')} or more"
    days = outcomes.assign(site=outcomes["site"].astype("str")).set_index("site")["declared_days"]
    return enumerate_words(
        [f"{short(site)} ({pluralize(int(days[site]), 'day')} declared)" for site in sites]
    )


def _in_time(data: ReportData, forecast: Mapping[Hashable, Any]) -> pd.DataFrame:
    """The listings of the manual work on sites that do not declare as many days as a forecast has."""
    listings, outcomes = data.manual_listings, outcomes_by_site(data)
    slow = [] if outcomes is None else outcomes.loc[outcomes["declared_days"] >= forecast["days"], "site"]
    return listings[~listings["site"].isin(slow)]


def if_done(data: ReportData, forecast: Mapping[Hashable, Any]) -> str:
    """The same in words; empty if there is no manual work."""
    expected, least = open_if_done(data, forecast)
    if least == sum(forecast_parts(forecast)):
        return ""
    low, high = open_if_done_interval(data, forecast)
    band = f"(95% interval: {low:,}\N{EN DASH}{high:,})"
    return f"about {expected:,} {band} if all manual work is done, {least:,} if all of it succeeds"


def forecast_parts(forecast: Mapping[Hashable, Any]) -> list[int]:
    """How many of the listings open then are open now, gone now, and not found yet; they add up to the forecast."""
    until = np.round(np.cumsum([forecast[part] for part in ("of_open", "of_gone", "of_new")]))
    parts: list[int] = np.diff(until, prepend=0.0).astype("int64").tolist()
    return parts


def change_in(data: ReportData, column: str, day: date) -> int | None:
    """How much a column of the status over time has changed since the end of a day; None if that was not observed."""
    course = data.tables["status_over_time"]
    if course is None:
        return None
    before = course.loc[course["period"].dt.date <= day, column]
    return None if before.empty else int(course[column].iloc[-1] - before.iloc[-1])


def followed(data: ReportData, n: int) -> str:
    """What the number of listings that were followed is made of: the ones found, and relistings.

    Listings that were open at the first load are not followed, but their relistings are.
    """
    total, relisted = len(data["records"]), len(data["relistings"])
    relistings = f" and {pluralize(relisted, 'relisting')}" if relisted else ""
    first = n - relisted
    share = (
        pluralize(total, "listing") if first == total else f"{first:,} of {pluralize(total, 'listing')} found"
    )
    return f"{share}{relistings}"


def more_or_fewer(n: int) -> str:
    """A difference in words, such as ``3 fewer``."""
    return f"{abs(n):,} {'fewer' if n < 0 else 'more'}"


def signed(n: int) -> str:
    """A difference with its sign, such as ``+3``."""
    return f"{'+' if n > 0 else MINUS}{abs(n):,}" if n else "0"


def sentences(parts: Iterable[str]) -> str:
    """Some statements as sentences; empty ones are left out."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)


def value_words(labels: Sequence[str]) -> str:
    """Values to ask a person for, such as ``the birth date and the email address``."""
    return enumerate_words([f"the {_ADDRESSES.get(label, label)}" for label in labels])


def best_request(data: ReportData) -> Action | None:
    """The request for data that unlocks most removals."""
    requests = data.tables["best_next_fields"]
    if requests is None or requests.empty or data.sharing is not None:
        return None
    request = requests.iloc[0]
    person = data.names.get(int(request["user_id"]), f"user {request['user_id']}")
    labels = [*map(field_label, str(request["fields"]).split(", "))]
    effect = sentences([f"this unlocks {pluralize(int(request['removals']), 'removal')}"])
    return Action(f"Ask {short(person)} for {value_words(labels)}", effect, "blockers", OPERATOR_AND_PERSON)


def relisted_listings(data: ReportData, *, counts_times: bool = True, says_what: bool = True) -> str:
    """How many listings were listed again, of how many that were ever gone, how often, and how many of them are open.

    Args:
        data: The data of the report.
        counts_times: Whether to say how often.
        says_what: Whether to say that they were listed again: the name of a figure says it.
    """
    table, outcomes = data["relistings"], outcomes_by_site(data)
    listings = table.drop_duplicates(["user_id", "key"], keep="last")
    n, n_open = len(listings), int(analysis.is_open(listings["status"]).sum())
    did = f" {'was' if n == 1 else 'were'} {AGAIN}" if says_what else ""
    again = f"{pluralize(n, 'listing')}{did}"
    if outcomes is not None:
        ever = int((outcomes["listed_again"] + outcomes["not_listed_again"]).sum())
        again = f"{n:,} of {_were_gone(data, ever)}{did} ({percent(n / ever)})"
    often = f", {len(table):,} times in all" if counts_times and len(table) > n else ""
    return f"{again}{often}; {n_open:,} of them {'is' if n_open == 1 else 'are'} open now"


def relisting_sites(data: ReportData) -> list[str]:
    """The sites on which listings were listed again; empty if there are none, or many, or some may not be named."""
    outcomes = outcomes_by_site(data)
    back = (
        [] if outcomes is None else outcomes.loc[outcomes["listed_again"] > 0, "site"].astype("str").tolist()
    )
    is_named = len(back) <= RELISTING_SITES and all(map(data.can_name, back))
    return [*map(short, back)] if is_named else []


def removed_and_relisted(data: ReportData) -> pd.DataFrame:
    """The removed listings that were listed again: the last relisting of each, with its status now."""
    relistings = data["relistings"]
    was_removed = (relistings["previous_status"] == REMOVED).groupby(
        [relistings["user_id"], relistings["key"]]
    )
    return relistings[was_removed.transform("any")].drop_duplicates(["user_id", "key"], keep="last")


def all_on(n: int, sites: Sequence[str]) -> str:
    """On which sites all of some listings are, such as ``all on Seekfolk``; of one, its site."""
    return f"{'all ' if n > 1 else ''}on {enumerate_words(sites)}"


def relisted_words(data: ReportData, again: pd.DataFrame) -> str:
    """How many removed listings were listed again, where if that may be said, and how many are removed now; empty if none."""
    if again.empty:
        return ", none listed again so far"
    of_these = {*again["site"].astype("str").map(short)}
    sites = [site for site in relisting_sites(data) if site in of_these]
    n, twice = len(again), int((again["status"] == REMOVED).sum())
    where = f" ({all_on(n, sites)})" if len(sites) == len(of_these) > 0 else ""
    were = "was" if n == 1 else "were"
    removed = f", {twice:,} of them removed once more" if twice else ""
    return f": {n:,} {were} {AGAIN}{where}{removed}"


def removal_groups(data: ReportData) -> tuple[Removal, ...]:
    """The manual work by steps; in a share-safe report, what may be shared of it.

    Without a history, it is not known how many removals to expect.
    """
    work = data.removals
    if data.runs is None:
        work = tuple(replace(one, expected=None) for one in work)
    return work if data.sharing is None else data.sharing.removals(work, data.user)


def unlabelled_count(data: ReportData) -> int:
    """How many listings nobody has labelled as the person's or not."""
    return int(data["labels"]["label"].isna().sum())


def unconfirmed(data: ReportData) -> str:
    """How many listings nobody has labelled, in words; empty if there are none."""
    n, unlabelled = len(data["records"]), unlabelled_count(data)
    if not unlabelled:
        return ""
    if unlabelled == n > 1:
        return f"None of the {n:,} listings has been checked"
    have = "has" if unlabelled == 1 else "have"
    return f"{unlabelled:,} of {pluralize(n, 'listing')} {have} not been checked"


def names_unobserved(data: ReportData) -> bool:
    """Whether the report may count the listings of the people that the newest run did not observe completely."""
    return data.sharing is None or data.incomplete >= FEW


def unobserved(data: ReportData) -> str:
    """Who was not observed completely, and what that means for their listings."""
    listings = f"{pluralize(data.unchecked, 'open listing keeps its', 'open listings keep their')} last observed status"
    people = pluralize(data.incomplete, "person", "people")
    consequence = "what is listed of them is not known" if data.runs is None else listings
    return f"{people} {missing_from(data)}: {consequence}"


def missing_from(data: ReportData) -> str:
    """What the newest run, or the load of an exposure, lacks of `ReportData.incomplete` people."""
    were = "was" if data.incomplete == 1 else "were"
    return f"{were} not {'loaded' if data.runs is None else 'observed completely in the last run'}"
