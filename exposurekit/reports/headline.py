"""The head of a report: its title, its finding, the figures below it and what to keep in mind."""

import json
import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pandas as pd

from exposurekit import analysis
from exposurekit.analysis.diff import AGAIN, ENDED, NEW, OPENED
from exposurekit.analysis.failed_removals import IGNORED, REFUSED
from exposurekit.analysis.failed_removals import outcomes as request_outcomes
from exposurekit.analysis.score import PAGE
from exposurekit.analysis.statuses import OPEN, OTHER, UNKNOWN, VANISHED
from exposurekit.analysis.step_minutes import STEP_MINUTES
from exposurekit.analysis.survival import MIN_N
from exposurekit.analysis.work_queue import CHECK_MINUTES, VISIT_MINUTES
from exposurekit.charts.theme import (
    format_duration,
    format_interval,
    short,
)
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.reports import statements
from exposurekit.reports.data import WEEK_DAYS, ReportData
from exposurekit.reports.model import (
    Fact,
)
from exposurekit.reports.share_safe import FEW
from exposurekit.text.formatting import enumerate_words, percent, pluralize

_ASSUMED = (
    f"estimated at {format_duration(VISIT_MINUTES)} per site or host, {format_duration(STEP_MINUTES)} per step, and "
    f"{format_duration(CHECK_MINUTES)} to check a listing or page without a label"
)
_WAITING = "steps that only wait take none"
NOT_IN_TIME = "not carried out in the usual time"
_ROUNDED = 0.05  # the same number with one decimal
_HALF_MIN = 5  # of so many listings, it is said what holds for half
_CODE = {  # what analysts can do, and how
    "Begin with": ("import exposurekit as ek; {begin}",),
    "Make a report that may be passed on": (
        'ek.report({source}, "shared.html", share_safe=True)',
        "exposurekit report --share-safe --out shared.html",
    ),
    "Record what was done by hand: one item, or all ticked on this page and saved": (
        "history.tick(history.work_queue().iloc[0])",
        'history.import_ticks("ticks.json")',
        "exposurekit history import-ticks ticks.json",
    ),
    "Label listings as right or wrong, all or one, or a web page": (
        "ek.widgets.RecordLabels(history.records(), history)",
        'history.label(history.records().iloc[0], "not mine")',
        'history.label(history.links().iloc[0], "not mine")',
    ),
    "Add names and values on file": (
        'ek.report(history, "fleet.html", exposure=ek.connect())',
        "exposurekit report --live --out fleet.html",
    ),
    "Record within how many days sites promise to remove; columns of days.csv: site, declared_days": (
        'history.declare_days({{site}: 10}, source="its terms")',
        "exposurekit history declare days.csv",
    ),
}
_UNCHECKED = "whether required values, such as an email address, are on file was not checked"


def caveat(data: ReportData) -> str:
    """What nobody has checked about the matches; empty if all were, or the tables do not tell."""
    unlabelled = statements.unlabelled_count(data)
    if not unlabelled:
        return ""
    is_all = unlabelled == len(data["records"])
    checked = "Nobody has checked yet whom the listings are about" if is_all else statements.unconfirmed(data)
    each = "each listing and page" if statements.checks(data)[1] else "each one"
    return (
        f"{checked}. Some may be about {statements.SOMEBODY_ELSE}, so check {each} first.{_check_time(data)}"
    )


def _check_time(data: ReportData) -> str:
    """How long it takes to check the manual work that has no label; empty if there is none."""
    n = sum(statements.checks(data))
    if not n:
        return ""
    times = f" each, {format_duration(n * CHECK_MINUTES)} in total" if n > 1 else ""
    return f" The times below include this: {format_duration(CHECK_MINUTES)}{times}."


def analyst_code(data: ReportData) -> dict[str, tuple[str, ...]]:
    """What analysts can do to improve the report, and the code for it."""
    if data.sharing is not None:
        return {}
    outcomes = data.tables["site_outcomes"]
    is_undeclared = outcomes is not None and bool(outcomes["declared_days"].isna().all())
    has_history = data.runs is not None
    is_waiting = has_history and data.manual_work[0] > 0
    applies = (
        True,
        True,
        is_waiting,
        has_history and statements.unlabelled_count(data) > 0,
        not data.has_profiles,
        is_undeclared,
    )
    history = json.dumps(data.history_name, ensure_ascii=False)
    source, begin = ("history", f"ek.History({history})") if has_history else ("exposure", "ek.connect()")
    site = json.dumps(next(iter(data["records"]["site"].head(1)), "a site"), ensure_ascii=False)
    values = {"{begin}": f"{source} = {begin}", "{source}": source, "{site}": site}

    def filled(code: str) -> str:
        for name, value in values.items():
            code = code.replace(name, value)
        return code

    return {
        what: tuple(map(filled, code))
        for (what, code), is_useful in zip(_CODE.items(), applies, strict=True)
        if is_useful
    }


# --- headings and figures ---------------------------------------------------------------------------------


def fleet_title(data: ReportData) -> str:
    """Title of a report about everyone, with its dates."""
    return f"Exposure of {data.loaded_people}{_dates(data)}"


def _dates(data: ReportData) -> str:
    last = f"{data.as_of:%Y-%m-%d}"
    first = last if data.first_run_at is None else f"{data.first_run_at:%Y-%m-%d}"
    return f", {last}" if first == last else f", {first} to {last}"


def sites_title(data: ReportData) -> str:
    """Title of a report about sites, with its dates."""
    sites = data["records"]["site"].nunique()
    return f"Exposure on {pluralize(sites, 'site')}{_dates(data)}"


def finding(data: ReportData) -> str:
    """What is open, and where most of it is, in one or two sentences."""
    open_now = data.open_records
    total = len(data["records"])
    are = "is" if len(open_now) == 1 else "are"
    if open_now.empty:
        return f"No listing is open, of {total:,} that were found.{_not_verified(data)}"
    return f"{len(open_now):,} of {pluralize(total, 'listing')} found on people-search sites {are} still open.{_worst_sites(data)}"


def parts(data: ReportData) -> Iterator[str]:
    """Why listings are open, a phrase with its number for each reason; and how many others were not verified as removed."""
    if data.open_records.empty:
        return
    by_hand, rest, being_removed, not_carried_out = data.open_parts
    since = f"{_without_request(data)}{_waiting_since(data)}"
    pending = "pending removal (for how long is not known)"
    under_way = (
        (f"is {pending}", f"are {pending}")
        if data.runs is None
        else ("removal is under way", "removals are under way")
    )
    for n, one, many in (
        (by_hand, f"needs manual work{since}", f"need manual work{since}"),
        *_without_work(data, rest),
        (being_removed, *under_way),
    ):
        if n:
            yield f"{n:,} {one if n == 1 else many}"
    if not_carried_out:
        yield _not_carried_out(not_carried_out, being_removed)
    if others := _not_verified(data):
        yield f"besides,{others.removesuffix('.')}"


def _not_carried_out(n: int, others: int) -> str:
    """How many pending requests a site did not carry out in the usual time, of how many."""
    was, pending = "was" if n == 1 else "were", n + others
    of_all = f"{n:,} of {pending:,} pending removal requests" if others else pluralize(n, "removal request")
    return f"{of_all} {was} {NOT_IN_TIME}"


def _not_verified(data: ReportData) -> str:
    """How many of the other listings nobody knows to be removed, as a sentence; empty if all of them were."""
    status = data["records"]["status"]
    vanished, unknown = (int((status == name).sum()) for name in (VANISHED, UNKNOWN))
    parts = [f"{vanished:,} vanished"] if vanished else []
    parts += [f"{unknown:,} {'is' if unknown == 1 else 'are'} unknown"] if unknown else []
    return f" {' and '.join(parts)} without a verified removal." if parts else ""


def _without_work(data: ReportData, n: int) -> tuple[tuple[int, str, str], ...]:
    """The parts of the discovered listings that nobody has work with, each with what it does; of readers who may know it."""
    done, unable = data.ticked_listings
    others, theirs = len(data.unrecognised_listings), len(data.namesakes_listings)
    waits, wait = ["waits for the service"], ["wait for the service"]
    if data.sharing is not None:
        hidden = {"ticked": done or unable, "labelled": theirs}
        waits += [f"was {what}" for what, n_hidden in hidden.items() if n_hidden]
        wait += [f"were {what}" for what, n_hidden in hidden.items() if n_hidden]
        done = unable = theirs = 0
    return (
        (done, "was done by hand and is not verified yet", "were done by hand and are not verified yet"),
        (unable, "was marked unable", "were marked unable"),
        (theirs, "is labelled as somebody else's", "are labelled as somebody else's"),
        (others, "has an unknown status", "have an unknown status"),
        (n - done - unable - theirs - others, enumerate_words(waits, "or"), enumerate_words(wait, "or")),
    )


def _worst_sites(data: ReportData) -> str:
    """The site with the most open listings, as a sentence; empty if there is none, or there are too many to name."""
    worst = statements.most_open(data)
    if not worst or len(worst) > statements.WORST_NAMED:
        return ""
    each = " each" if len(worst) > 1 else ""
    return f" Most open listings{statements.of_named(data)}: {enumerate_words([*map(short, worst)])} ({max(worst.values()):,}{each})."


def _without_request(data: ReportData) -> str:
    """How many of the listings to be done by hand never had a removal request; empty if all had, or it is not known."""
    counts = data.requested_before
    if counts is None:
        return ""
    n, rest = counts
    if not rest:
        return (
            ", none of them with a removal request so far"
            if n > 1
            else ", without a removal request so far"
            if n
            else ""
        )
    return f", {n:,} of them without a removal request so far" if n else ""


def _waiting_since(data: ReportData) -> str:
    """For how long half of the manual work has waited, or the oldest of little in brackets; empty if that is not known."""
    days = data.waiting_days
    if days.empty or (data.sharing is not None and data.user is None and len(days) < FEW):
        return ""
    if len(days) >= _HALF_MIN:
        half = math.floor(days.median())
        first = data.first_run_at
        if (
            half and first is not None and (data.as_of.date() - first.date()).days == half
        ):  # no wait can be longer
            return f"; most have waited since monitoring began, {pluralize(half, 'day')} ago"
        return f"; half have waited {pluralize(half, 'day')} or more" if half else ""
    longest = int(days.max())
    return f" ({'the oldest ' if len(days) > 1 else ''}for {pluralize(longest, 'day')})" if longest else ""


def facts(data: ReportData) -> Iterator[Fact]:
    """The figures of any report: open, removed, to do by hand, web pages and points."""
    open_now, records = data.open_records, data["records"]
    of_all = f"of {len(records):,} found{_missed_text(data)}"
    complete = f"all {data.people:,} people were" if data.people != 1 else "the person was"
    missed = f"{data.incomplete_text} of {data.people:,} people {statements.missing_from(data)}"
    observed = "" if data.incomplete else f"{complete} observed in the last run"
    yield Fact("open listings", f"{len(open_now):,}", missed if data.incomplete else of_all, detail=observed)
    removed = int((records["status"] == REMOVED).sum())
    share = removed / len(records) if len(records) else float("nan")
    absent = int(records["status"].isin(analysis.NOT_LISTED).sum())
    besides = f"; {absent:,} vanished or are unknown" if absent else ""
    for_good = "; ".join(filter(None, _for_good(data, removed)))
    of_all_listings = f"{percent(share)} of {len(records):,} found"
    yield Fact("removed", f"{removed:,}", "; ".join(filter(None, (for_good, f"{of_all_listings}{besides}"))))
    yield _manual_fact(data)
    yield Fact("web pages", f"{len(data['links']):,}", _pages_text(data))
    score = data["score"]["score"].sum()
    yield Fact("score", f"{score:,.0f}", "points for open listings and web pages", detail=_score_sum(data))
    if data.incomplete and data.user is None and statements.names_unobserved(data):
        yield Fact("not known", f"{data.unchecked:,}", statements.unobserved(data))


def _for_good(data: ReportData, removed: int) -> Iterator[str]:
    """How many listings were ever removed, and how many of them were listed again or were not, so far.

    Nothing without a history, and in a report on one person.
    """
    if statements.outcomes_by_site(data) is None:
        return
    records, relistings = data["records"], data.tables.get("relistings")
    if relistings is not None:
        again = statements.removed_and_relisted(data)
        if ever := removed + int((again["status"] != REMOVED).sum()):
            yield f"of {pluralize(ever, 'listing')} ever removed{statements.relisted_words(data, again)}"
    once = int(((records["status"] == REMOVED) & (records["episode"] == 1)).sum())
    if once:
        yield f"{once:,} {'was' if once == 1 else 'were'} never listed again{_gone_for(data)}"


def _gone_for(data: ReportData) -> str:
    """For how many days at most listings have been gone, in brackets; empty if that is not known."""
    days = data.longest_gone
    return f" (gone for up to {pluralize(days, 'day')})" if days else ""


def _pages_text(data: ReportData) -> str:
    """Where the web pages are, and how many different links they have: each counts once for each person on it."""
    distinct, hosts = data.distinct_pages
    is_shared = distinct < int(data["links"]["url"].notna().sum())
    links = pluralize(distinct, "different link") if is_shared else ""
    on_hosts = f"on {pluralize(hosts, 'host')}" if hosts else "" if is_shared else "with personal data"
    return "; ".join(filter(None, (on_hosts, links)))


def _missed_text(data: ReportData) -> str:
    """How many listings were missed, if that can be estimated."""
    table = data.tables["missed"]
    if table is None or pd.isna(table["listings"].iloc[-1]):
        return ""
    last = table.iloc[-1]
    band = format_interval(last["low"], last["high"], "{:,.0f}".format, "95% interval")
    return f"; an estimated {last['listings']:,.0f}{band} missed"


def fleet_facts(data: ReportData) -> Iterator[Fact]:
    """The figures of everyone; with a history also those of time and of the next month."""
    points = data.tables["week_score"]
    for fact in facts(data):
        if fact.name == "score" and points is not None:
            more = int(points["score"].iloc[-1] - points["score"].iloc[0])
            yield replace(fact, change=signed_change(more, data))
        elif fact.name == "removed" and data.runs is not None:
            yield replace(fact, qualifier=f"{fact.qualifier}{_request_successes(data)}")
        else:
            yield fact
    if data.runs is not None:
        yield from _history_facts(data)


def _request_successes(data: ReportData) -> str:
    """How many requests succeeded, of those that have an outcome; empty without any."""
    n = _outcomes_of_requests(data)
    decided = n[REMOVED] + n[REFUSED] + n[IGNORED]
    each = " (a relisted listing may have several)" if len(data["relistings"]) else ""
    of_all = f"{n[REMOVED]:,} of {pluralize(decided, 'removal request')} with an outcome"
    return f"; {of_all} {'was' if n[REMOVED] == 1 else 'were'} carried out{each}" if decided else ""


def _outcomes_of_requests(data: ReportData) -> dict[str, int]:
    """How many requests were followed by a removal, were refused or not carried out in the usual time, or are pending."""
    requests = data["removal_requests"]
    outcome = request_outcomes(requests, at=data.as_of)
    return {
        REMOVED: int((requests["end"].astype("str") == REMOVED).sum()),
        **{did: int((outcome == did).sum()) for did in (REFUSED, IGNORED)},
        PENDING_REMOVAL: int((outcome.isna() & requests["end"].isna()).sum()),
    }


def site_facts(data: ReportData) -> Iterator[Fact]:
    """The figures of everyone that say something about sites, and how many sites list anybody."""
    sites = data["records"]["site"].nunique()
    for fact in fleet_facts(data):
        if fact.name not in ("score", "web pages") and not fact.name.startswith("open in "):
            yield fact
        if fact.name == "open listings":
            n_open = len(data.open_by_site)
            yield Fact("sites with open listings", f"{n_open:,}", f"of {sites:,} with listings")


def change_facts(data: ReportData) -> Iterator[Fact]:
    """The causes of the change in open listings as figures, as in the chart of changes."""
    why, points, since_text = data["changes"], data["score_changes"], statements.since_day(data)
    n = dict(zip(why["cause"], why["n"], strict=True))
    before, now = int(why["open"].iloc[0]), int(why["open"].iloc[-1])
    yield Fact("open listings", f"{now:,}", f"{before:,} on {since_text}")
    for cause in (*OPENED, *ENDED):
        if n[cause] or cause in (NEW, AGAIN, REMOVED):
            yield Fact(cause, f"{-n[cause] if cause in ENDED else n[cause]:,}", f"since {since_text}")
    first, last = float(points["score"].iloc[0]), float(points["score"].iloc[-1])
    yield Fact("score", f"{last:,.0f}", f"{first:,.0f} on {since_text}", detail=f"now {_score_sum(data)}")
    yield _manual_fact(data)


def _score_sum(data: ReportData) -> str:
    status = data.open_records["status"]
    n = {name: int((status == name).sum()) for name in (DISCOVERED, PENDING_REMOVAL)}
    n |= {OTHER: len(status) - sum(n.values()), PAGE: len(data["links"])}
    words = {OTHER: "in other statuses", PAGE: "web page" if n[PAGE] == 1 else "web pages"}
    parts = [
        f"{n[name]:,} {words.get(name, name)} \u00d7 {analysis.WEIGHTS[name]:g}" for name in n if n[name]
    ]
    return " + ".join(parts) or "nothing is open"


def _manual_fact(data: ReportData) -> Fact:
    """The number of pending manual removals, for listings and web pages."""
    waiting, pages, blocked, duration = data.manual_work
    reason = f"; {blocked:,} of them cannot start: a required value is not on file" if blocked else ""
    checks = statements.check_part(data)
    if data.unchecked_sites:
        reason = f"; {_UNCHECKED if data.sharing is None else statements.LEFT_OUT}"
    items = f"{pluralize(waiting - pages, 'listing')}, {pluralize(pages, 'web page')}"
    later = data.later_work
    when = f"; {waiting - later:,} to do now, {later:,} later" if later and data.sharing is None else ""
    return Fact(
        "to do by hand",
        f"{waiting:,}",
        f"{items}, about {duration}{'; ' if checks else ''}{checks.removeprefix(', ')}{when}{reason}",
        detail=_minutes_basis(data),
    )


def _minutes_basis(data: ReportData) -> str:
    """Where the minutes come from: assumed, or learned from ticks."""
    learned = data.tables["step_minutes"]
    if learned is None or learned.empty:
        return f"{_ASSUMED}, {_WAITING}"
    ticks = pluralize(int(learned["ticks"].sum()), "timed tick")
    sites = pluralize(len(learned), "site")
    return f"{_ASSUMED}, except on {sites}, where minutes per step are learned from {ticks}; {_WAITING}"


def _history_facts(data: ReportData) -> Iterator[Fact]:
    [removal] = data["removal_of_all"].to_dict("records")
    if removal["n"] >= MIN_N:
        yield _median_fact(data, removal)
    relistings = data["relistings"]
    listings = relistings.drop_duplicates(["user_id", "key"], keep="last")
    again = statements.relisted_listings(data, says_what=False) if len(relistings) else ""
    if where := _all_relisted(data, len(listings)):
        again = f"{where}; {again}"
    else:
        again = again.partition(" ")[2] or "no removed listing was listed again"
    yield Fact(AGAIN, f"{len(listings):,}", again, detail=_gone(data))
    yield from _forecast_facts(data)


def _median_fact(data: ReportData, removal: Mapping[Hashable, Any]) -> Fact:
    """The median days to removal: from the request, or from the first observation if too few requests were seen."""
    followed = statements.followed(data, int(removal["n"]))
    days, band = statements.median_words(removal)
    still_listed = statements.still_listed(removal) or "nothing was requested or removed yet"
    detail = (
        f"estimated from {followed}, recent ones included "
        f"({removal['n'] - removal['first_removed']:,} seen open, {removal['first_removed']:,} first seen removed); "
        f"{still_listed}"
    )
    request = data.request_times
    stay = statements.still_listed(removal, band=False)
    if pd.isna(request["median_days"]):
        start = f"from the first observation{f' ({band})' if band else ''}"
        words = "; ".join(filter(None, (start, stay, f"based on {followed}")))
        return Fact("half removed within", days, words, detail=detail)
    days_from_request, band_from_request = statements.median_words(request)
    of_all = f"of all listings, requested or not, {stay}" if stay else ""
    clocks = f"from the request{f' ({band_from_request})' if band_from_request else ''}; {days} from first observation"
    return Fact(
        "half removed within",
        days_from_request,
        f"{clocks}. {statements.sentences([_request_counts(data), of_all])}".removesuffix("."),
        detail=f"from the first observation of a listing: {', '.join(filter(None, (days, band)))}, {detail}",
    )


def _request_counts(data: ReportData) -> str:
    """How many requests were carried out, refused, not carried out in time, or are pending; a relisted listing has one each time."""
    n = _outcomes_of_requests(data)
    pending = n[PENDING_REMOVAL]
    words = {REMOVED: "carried out", REFUSED: "refused", IGNORED: NOT_IN_TIME}
    parts = [
        f"{n[did]:,} {'was' if n[did] == 1 else 'were'} {what}"
        for did, what in words.items()
        if n[did] or did == REMOVED
    ]
    parts += [f"{pending:,} {'is' if pending == 1 else 'are'} pending"] if pending else []
    return f"of {pluralize(len(data['removal_requests']), 'removal request')}, {enumerate_words(parts)}"


def _gone(data: ReportData) -> str:
    """How many of the listings that were gone at some time are so now; empty if none was listed again, or that is not known."""
    if statements.outcomes_by_site(data) is None or not len(data["relistings"]):
        return ""
    now = int(data["records"]["status"].isin(analysis.CLOSED).sum())
    return f"{now:,} {'is' if now == 1 else 'are'} gone now"


def _forecast_facts(data: ReportData) -> Iterator[Fact]:
    """The expected number of open listings, if nothing is done by hand and if all is; without a forecast, what stays open."""
    forecast = data["next_forecast"].to_dict("records")[0]
    name = f"open in {forecast['days']:,} days"
    reason = "" if pd.isna(forecast["reason"]) else f"; {forecast['reason']}"
    by_hand, _, _, not_carried_out = data.open_parts
    stay = f"{pluralize(by_hand, 'listing stays', 'listings stay')} open until done by hand"
    if not pd.isna(forecast["open"]):
        interval = f"(95% interval: {forecast['low']:,.0f}\N{EN DASH}{forecast['high']:,.0f})"
        change = round(forecast["open"]) - len(data.open_records)
        than_now = f"{statements.more_or_fewer(change)} than now" if change else "as many as now"
        staying, back, new = statements.forecast_parts(forecast)
        parts = (
            f"{staying:,} of the {len(data.open_records):,} open now, {back:,} listed again and {new:,} new"
        )
        caution = "" if pd.isna(forecast["reason"]) else str(forecast["reason"])
        words = f"if nothing is done by hand {interval}; {than_now}: {parts}"
        notes = statements.sentences([caution]).removesuffix(".")
        words = f"{words}. {notes}" if notes else words
        yield Fact(name, f"{forecast['open']:,.0f}", words, detail=_forecast_basis(data, forecast))
        if_done, at_best = statements.open_if_done(data, forecast)
        if at_best < staying + back + new:
            low, high = statements.open_if_done_interval(data, forecast)
            band = f"(95% interval: {low:,}\N{EN DASH}{high:,})"
            _, later = statements.manual_removals(data, forecast)
            slower = ", also on slower sites" if later else ""
            best = f"{at_best:,} at best, if every manual removal succeeds by then{slower}"
            yield Fact(
                f"{name} if all is done",
                f"{if_done:,}",
                f"if all manual work is done now {band}; {best}",
                detail=_done_basis(data, forecast),
            )
        return
    old = (
        f"; not counted: {pluralize(not_carried_out, 'removal request')} {NOT_IN_TIME}"
        if not_carried_out
        else ""
    )
    if not by_hand:
        yield Fact(name, "\N{EM DASH}", f"no forecast yet{reason}{old}")
    else:
        yield Fact(name, f"at least {by_hand:,}", f"{stay}{old}; no forecast yet{reason}")


def _forecast_basis(data: ReportData, forecast: Mapping[Hashable, Any]) -> str:
    """How a forecast compares with the past, and why it may exceed it."""
    days, total = int(forecast["days"]), round(forecast["open"])
    by_hand, *_ = data.open_parts
    stay, *_ = statements.forecast_parts(forecast)
    words = ["it assumes that nothing is done by hand, and that each site continues at its past rates"]
    if stay < by_hand:
        words.append("so some that wait go without a request")
    start, change = data.as_of.date() - timedelta(days=days), total - len(data.open_records)
    if statements.change_in(data, OPEN, start) is None:
        return "; ".join(words)
    course = data["status_over_time"]
    peak = int(course.loc[course["period"].dt.date >= start, OPEN].max())
    if total > peak:
        words.append(f"more than on any of the last {days:,} days ({peak:,} at most)")
    past = max(days // WEEK_DAYS, 1) * WEEK_DAYS  # the same weekday, as in the comparisons with a month ago
    before = statements.change_in(data, OPEN, data.as_of.date() - timedelta(days=past))
    if before is not None and before != change:
        words.append(
            f"{statements.more_or_fewer(before)} {'is' if abs(before) == 1 else 'are'} open now than {past:,} days ago"
            if before
            else f"as many are open now as {past:,} days ago"
        )
    return "; ".join(words)


def _done_basis(data: ReportData, forecast: Mapping[Hashable, Any]) -> str:
    """What is expected of the manual work within a forecast."""
    done = pluralize(min(data.open_parts[0], statements.forecast_parts(forecast)[0]), "listing")
    removed, later = statements.manual_removals(data, forecast)
    days = int(forecast["days"])
    slow = f"; {later:,} more come later, on sites that declare {days:,} days or more" if later else ""
    return (
        f"it assumes that {removed:,} of {done} are removed by then (the expected removals of all sites together) and not listed "
        f"again{slow}"
    )


def outlook(data: ReportData, expected: float | None) -> str:
    """How many of the expected removals come within the time of the forecast, as a sentence; empty if nothing does.

    Args:
        data: The data of the report.
        expected: The expected removals of all actions, as the report states them; None: it states none.
    """
    table = data.tables.get("next_forecast")
    if table is None or table["open"].isna().any():
        return ""
    [forecast] = table.to_dict("records")
    removed, later = statements.manual_removals(data, forecast)
    if not removed + later:
        return ""
    days, n_open = pluralize(int(forecast["days"]), "day"), sum(statements.forecast_parts(forecast))
    whole = float(data.manual_listings["success_rate"].sum())
    is_whole = expected is not None and abs(expected - whole) < _ROUNDED
    of = f"Of the {expected:,.1f} expected removals" if is_whole else "If all manual work is done now"
    coming = ("comes", "come") if is_whole else ("removal comes", "removals come")
    none = "none comes" if is_whole else "no removal comes"
    many = f"about {pluralize(removed, *coming)}" if removed else none
    instead = f" instead of {n_open:,}" if removed else ""
    parts = [f"{many} within {days} ({pluralize(n_open - removed, 'open listing')} then{instead})"]
    if later:
        parts.append(
            f"about {pluralize(later, 'comes', 'come')} later, on {statements.slow_sites(data, forecast)}"
        )
    rest = round(whole) - removed - later
    if rest > 0:
        parts.append(f"about {rest:,} would come without manual work, too")
    return f"{of}, {'; '.join(parts)}."


def signed_change(more: int, data: ReportData) -> str:
    """How much a figure has changed since the start of the week."""
    return f"{statements.signed(more) if more else 'unchanged'} {span(data)}"


def span(data: ReportData) -> str:
    """Since when changes are counted, such as ``in 7 days``."""
    return f"in {WEEK_DAYS} days" if data.is_whole_week else f"since {data.week_start}"


def person_title(data: ReportData) -> str:
    """Title of a report about one person, by name if it is known."""
    name = data.names.get(data.user or 0)
    if name is None:
        return f"Exposure of {data.user_label}"
    if not data.has_profiles:  # the name may be somebody else's, or an alias
        return f"Exposure of {data.user_label}, listed as {short(name)}"
    return f"Exposure of {short(name)} ({data.user_label})"


def change_finding(data: ReportData) -> str:
    """How many listings are open, and how many more or fewer than before."""
    n_open = data["changes"]["open"]
    before, after = int(n_open.iloc[0]), int(n_open.iloc[-1])
    more = after - before
    words = (
        "as many as before" if more == 0 else f"{abs(more):,} {'more' if more > 0 else 'fewer'} than before"
    )
    return f"{pluralize(after, 'listing')} {'is' if after == 1 else 'are'} open, {words}."


def _all_relisted(data: ReportData, n: int) -> str:
    """The sites of the ``n`` listings that were listed again; empty if these are many, or may not be named."""
    outcomes, sites = statements.outcomes_by_site(data), statements.relisting_sites(data)
    if outcomes is None or not sites:
        return ""
    return statements.all_on(n, sites)
