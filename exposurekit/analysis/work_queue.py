"""Work queue: manual removals, listings before web pages, in the order that removes most per minute."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.data_quality import NOT_MINE
from exposurekit.analysis.group_codes import Instants, instants, utc_index
from exposurekit.analysis.manual_tasks import missing_values, opt_out_url
from exposurekit.analysis.statuses import is_open
from exposurekit.analysis.step_minutes import STEP_MINUTES, WAITING
from exposurekit.analysis.step_requirements import DOCUMENT, NEEDS_DOCUMENT, preparations
from exposurekit.contract.types import PENDING_REMOVAL
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.frames import DETAILS, procedures_from_steps
from exposurekit.frames.arrow import categories, take, texts
from exposurekit.frames.url_columns import by_origin, page_keys
from exposurekit.text.formatting import enumerate_words

DONE, UNABLE, TO_DO, STARTED = "done", "unable", "open", "started"
STATES = (STARTED, TO_DO, UNABLE, DONE)
VISIT_MINUTES = 3.0
CHECK_MINUTES = 2.0  # to compare a listing or page with the person
UNKNOWN_RATE = 0.5  # of success, at a site that has decided on no request
REFUSALS = 2  # a single alert that cannot be done says nothing about the others of its group
LISTING, PAGE = "listing", "page"
# Columns of an alert that its place in the order depends on, if the steps have them.
_OF_ORDER = (
    *("site", "record_id", "url", "link_url", "label", "first_seen_at"),
    *("form_values", "user_fields_required_for_removal"),
)
_HOST = re.compile(r"(?i)^\s*https?://(?:[^/\\?#@\s]*@)*(?:www\.)?(\[[^\]\s]*\]|[^/\\:?#@\s]+)")


def work_queue(
    steps: pd.DataFrame,
    *,
    visit_minutes: float = VISIT_MINUTES,
    step_minutes: float | Mapping[str, float] = STEP_MINUTES,
    check_minutes: float = CHECK_MINUTES,
    stalled: Mapping[str, str] | None = None,
    success_rates: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Rank the manual removals: listings before web pages, then by expected removals per minute.

    Only the newest of several alerts about the same listing, or the same page (by ``url``), counts. Sites with the same
    opt-out host, that of the first URL in their steps, form a group, because one visit serves them all. Groups of listings
    come before groups of pages; then those with the most expected removals per minute (items per minute, times the
    group's success rate), then with the most people, then by name.
    Within a group, started alerts come first, then it goes by site, user and alert number. After all
    others come the groups of which two or more alerts were ticked ``unable``, and more than done (the site blocks, or its
    captcha fails), the sites in ``stalled``, and the alerts that need a copy of a document from the person, until a step is ticked; then
    the alerts that cannot start, because a required value is not on file.

    Args:
        steps: A table as returned by `Exposure.steps()` or `History.steps()`. A history adds ``tick`` (``done``,
            ``unable``, ``open``; without it every step is open), ``tick_note`` and ``first_seen_at``. Steps for listings that are
            removed, pending removal or no longer listed, and for listings and pages labelled ``not mine`` (column ``label``), are
            ignored. Where that column is missing, nobody has checked anything yet.
        visit_minutes: Assumed minutes per group before its first step; an estimate, not measured.
        step_minutes: Minutes per step: assumed ones; or those of some sites, or hosts of pages, such as were learned, while
            the others have `STEP_MINUTES`. A step that only waits ("Wait", "Allow 72 hours", "Come back after five days")
            takes none.
        check_minutes: Assumed minutes to check that a listing or page without a label shows the person, before its first
            step. A check removes nothing by itself, so it has no place of its own in the order.
        stalled: The sites that do not remove, with the reason: see `stalled_sites`.
        success_rates: The expected share of requests that succeed, by site: see `success_rates`. At other sites, it is
            `UNKNOWN_RATE`.

    Returns:
        One row per alert, in order: ``rank`` (from 1), ``group`` (text: the opt-out host, or the site if the
        steps name none; the host of a page; missing if none is stated), ``kind`` (``listing`` or ``page``), ``site`` (text; missing: a page), ``user_id``, ``alert_number``, ``record_id`` (Int64),
        ``state`` (``open``, ``started``, ``unable``: a step cannot be done, ``done``), ``steps``, ``done``, ``unable``
        (int64), ``minutes`` (for its check and its open steps, plus an equal part of the group's visit; float64, adds up
        to the group's time), ``first_seen_at`` (datetime64[us, UTC]), and for its group: ``items`` and ``people`` still to
        do (int64), ``items_per_minute``, ``success_rate`` (mean of its listings to do; missing: pages; both float64); ``reason`` (text: why the alert comes later, such as ``email is not on
        file`` or ``2 of 9 could not be done: the form is blocked``; missing if it does not). Alerts that are done or
        unable come last. Then what is needed to do the work: ``url`` (where to start), ``opt_out_procedure`` (the steps), and those columns of
        `Exposure.steps()` that ``steps`` has: the listing (``name``, ``age``, ``locations``, ``reference_id``,
        ``href``) or page (``link_title``, ``link_url``), the user (``person``), the form values (``form_values``) and
        the ``guide``.

    Raises:
        MissingColumns: ``steps`` lacks a column.
        InvalidArgument: A time is negative or infinite, or those of visits and steps are both zero.

    Source: specification, "Alert", ``opt_out_procedure``.

    >>> analysis.work_queue(exposure.steps())["rank"].head(2).tolist()
    [1, 2]
    """
    needed = ("user_id", "alert_number", "step_number", "record_id", "site", "status", "url")
    MissingColumns.check("work_queue", steps, needed)
    by_site = step_minutes if isinstance(step_minutes, Mapping) else {}
    other = STEP_MINUTES if isinstance(step_minutes, Mapping) else step_minutes
    assumed = np.array([visit_minutes, other, *by_site.values()], "float64")
    if not ((assumed >= 0).all() and np.isfinite(assumed).all() and visit_minutes + assumed[1:].min() > 0):
        raise InvalidArgument(
            "invalid visit_minutes or step_minutes: pass finite minutes, zero or more, and not both zero"
        )
    if not (math.isfinite(check_minutes) and check_minutes >= 0):
        raise InvalidArgument("invalid check_minutes: pass finite minutes, zero or more")
    steps = actionable(steps).reset_index(drop=True)
    alerts = _newest(_alerts(steps))
    n_open = alerts["steps"] - alerts["done"] - alerts["unable"] - alerts.pop("waiting")
    per_step = categories(alerts["site"].fillna(alerts["group"])).map(by_site).astype("float64").fillna(other)
    minutes = (n_open * per_step).astype("float64")
    minutes += check_minutes * (alerts.pop("is_unchecked") & (alerts["state"] == TO_DO))
    alerts["minutes"] = minutes.where(alerts["state"].isin((TO_DO, STARTED)), 0)
    rates = categories(alerts["site"]).map(success_rates or {}).astype("float64")
    alerts["success_rate"] = rates.fillna(UNKNOWN_RATE)
    ranked = _rank(alerts, visit_minutes, stalled or {})
    table = _with_details(ranked, steps)
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    return table


def actionable(rows: pd.DataFrame) -> pd.DataFrame:
    """The alerts or steps that need manual work: for open listings of the person without a pending removal, and for pages."""
    is_actionable = is_open(rows["status"]) & (rows["status"] != PENDING_REMOVAL).to_numpy(
        "bool", na_value=True
    )
    if "presence" in rows:
        is_actionable &= is_open(rows["presence"])
    if "label" in rows:
        is_actionable &= (rows["label"] != NOT_MINE).to_numpy("bool", na_value=True)
    return rows if is_actionable.all() else rows[is_actionable]


def _alerts(steps: pd.DataFrame) -> pd.DataFrame:
    """What the order of the alerts depends on, by user and alert number.

    ``row`` is the position of the first step, and ``procedure`` that of the alert in `procedures_from_steps`.
    """
    tick = steps["tick"].astype("str").to_numpy() if "tick" in steps else np.full(len(steps), "")
    alert = ["user_id", "alert_number"]
    rows = steps[alert].astype("int64")
    is_open = (tick != DONE) & (tick != UNABLE)
    flags = {"done": tick == DONE, "unable": tick == UNABLE}
    flags |= {"waiting": is_open & _tested(steps, _only_waits), "documents": _tested(steps, _needs_document)}
    counts = rows.assign(steps=1, **flags).groupby(alert).sum().astype("int64").reset_index()
    needed = [*alert, *(name for name in _OF_ORDER if name in steps)]
    # Columns of an alert repeat on each of its steps.
    first = steps.loc[~rows.duplicated().to_numpy(), needed]
    columns = pd.DataFrame(
        {
            **{name: first[name].astype("int64") for name in alert},
            "row": first.index,
            "group": _groups(first, steps),
            "site": texts(first["site"]),
            "record_id": first["record_id"].astype("Int64"),
            "page": _page_keys(first),
            "first_seen_at": utc_index(_first_seen_at(first)),
            "is_unchecked": first["label"].isna() if "label" in first else True,
            "missing": _unstartable(first),
        }
    )
    table = counts.merge(columns, on=alert)
    if "tick_note" in steps:
        notes = steps[tick == UNABLE].astype(dict.fromkeys(alert, "int64")).groupby(alert)["tick_note"].last()
        table = table.merge(notes.reset_index(), on=alert, how="left")
    cases = [table[UNABLE] > 0, table[DONE] == table["steps"], table[DONE] > 0]
    state = np.select(cases, [UNABLE, DONE, STARTED], default=TO_DO)
    return table.assign(
        state=pd.Series(state, index=table.index, dtype="str"), procedure=np.arange(len(table))
    )


def _page_keys(alerts: pd.DataFrame) -> "pd.Series[Any]":
    """What identifies the page of an alert without a record; its own URL may be the service's, which all alerts share."""
    pages = alerts[alerts["record_id"].isna()]
    urls = pages["url"].astype("str")
    if "link_url" in pages:
        urls = pages["link_url"].astype("str").fillna(urls)
    keys = pd.Series(page_keys(pd.Index(urls.fillna(""))), pages.index, dtype="str")
    return keys.reindex(alerts.index)


def _tested(steps: pd.DataFrame, test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Whether each step passes a test, which each different text takes once."""
    if "step" not in steps:
        return np.zeros(len(steps), "bool")
    step = categories(steps["step"])
    passed: NDArray[np.bool_] = np.array([*map(test, step.cat.categories), False], "bool")[step.cat.codes]
    return passed


def _only_waits(step: str) -> bool:
    return re.search(WAITING, step) is not None


def _needs_document(step: str) -> bool:
    return DOCUMENT in preparations((step,))


def _first_seen_at(alerts: pd.DataFrame) -> Instants:
    if "first_seen_at" in alerts:
        return instants(alerts["first_seen_at"])
    return np.full(len(alerts), "NaT", "datetime64[us]")


def _groups(alerts: pd.DataFrame, steps: pd.DataFrame) -> "pd.Series[Any]":
    """The group of each alert: the host of the first URL in its steps, else the site; of a page, its host.

    The URL of a listing's alert may be the listing's, or the service's: it does not tell where to opt out.
    """
    site, none = texts(alerts["site"]), pd.Series(index=alerts.index, dtype="str")
    host = _opt_out_hosts(alerts, steps) if "step" in steps else none
    is_page = alerts["record_id"].isna() & site.isna()
    group = host.mask(is_page).fillna(site.mask(is_page))
    pages = alerts[group.isna()]
    page = _hosts(pages["url"])
    if "link_url" in pages:
        page = _hosts(pages["link_url"]).fillna(page)
    return group.fillna(page.reindex(group.index)).astype("str")


def _opt_out_hosts(alerts: pd.DataFrame, steps: pd.DataFrame) -> "pd.Series[Any]":
    alert = ["user_id", "alert_number"]
    step = categories(steps["step"])
    urls = {text: opt_out_url([text]) for text in step.cat.categories}
    names = {text: _host(url) for text, url in urls.items() if url is not None}
    ordered = steps[[*alert, "step_number"]].assign(host=step.map(names).astype("str"))
    with_host = ordered.dropna(subset="host").sort_values([*alert, "step_number"], kind="stable")
    first = with_host.drop_duplicates(alert)
    return alerts[alert].merge(first, on=alert, how="left")["host"].set_axis(alerts.index)


def _hosts(urls: "pd.Series[Any]") -> "pd.Series[Any]":
    hosts = texts(by_origin(urls.astype("str"), lambda origin: _host(origin) or ""))
    return hosts.where(hosts != "")


def _host(url: str) -> str | None:
    match = _HOST.search(url)
    return match and match[1].lower()


def _newest(alerts: pd.DataFrame) -> pd.DataFrame:
    page = alerts["page"].where(alerts["record_id"].isna() & (alerts["page"].str.strip() != ""))
    ordered = alerts.assign(page=page).sort_values(["user_id", "alert_number"])
    has_subject = ordered[["record_id", "page"]].notna().any(axis=1)
    is_older = has_subject & ordered.duplicated(["user_id", "record_id", "page"], keep="last")
    return ordered[~is_older].drop(columns="page")


def _refusals(alerts: pd.DataFrame) -> "pd.Series[Any]":
    """Explain why an alert's group is ranked lower: `REFUSALS` or more are unable, and more than done; else missing."""
    is_unable, is_done = alerts["state"] == UNABLE, alerts["state"] == DONE
    if not is_unable.any():
        return pd.Series(index=alerts.index, dtype="str")
    notes = alerts["tick_note"] if "tick_note" in alerts else pd.Series(index=alerts.index, dtype="str")
    group = [alerts["kind"], alerts["group"]]
    columns = {"unable": is_unable, "done": is_done, "all": 1, "note": notes.where(is_unable & (notes != ""))}
    sums = {name: "last" if name == "note" else "sum" for name in columns}
    groups = pd.DataFrame(columns, index=alerts.index).groupby(group).agg(sums)
    reasons = {
        key: f"{unable:,} of {total:,} could not be done{f': {note}' if isinstance(note, str) else ''}"
        for key, unable, done, total, note in groups.itertuples(name=None)
        if unable >= REFUSALS and unable > done
    }
    keys = zip(*(column.tolist() for column in group), strict=True)
    return pd.Series([reasons.get(key) for key in keys], alerts.index, dtype="str")


def _unstartable(alerts: pd.DataFrame) -> "pd.Series[Any]":
    """Which required values of each alert are not on file, in words; missing if it can start."""
    labels = missing_values(alerts)
    texts = [
        f"{enumerate_words(one)} {'is' if len(one) == 1 else 'are'} not on file" if one else None
        for one in labels
    ]
    return pd.Series(texts, alerts.index, dtype="str")


def _rank(alerts: pd.DataFrame, visit_minutes: float, stalled: Mapping[str, str]) -> pd.DataFrame:
    """Sort the alerts group by group: listings first, then most expected removals; unable and done alerts last."""
    is_page = alerts["record_id"].isna() & alerts["site"].isna()
    alerts = alerts.assign(kind=pd.Series(np.where(is_page, PAGE, LISTING), alerts.index, dtype="str"))
    to_do = alerts[alerts["state"].isin((TO_DO, STARTED))]
    groups = to_do.groupby(["kind", "group"], dropna=False).agg(
        items=("user_id", "size"),
        people=("user_id", "nunique"),
        minutes=("minutes", "sum"),
        success_rate=("success_rate", "mean"),
    )
    groups["items_per_minute"] = groups["items"] / (groups.pop("minutes") + visit_minutes)
    groups["expected"] = groups["items_per_minute"] * groups["success_rate"]  # pages all have the same rate
    of_alerts = alerts.drop(columns="success_rate")
    table = of_alerts.merge(groups.reset_index(), on=["kind", "group"], how="left")
    table["success_rate"] = table["success_rate"].mask(table["kind"] == PAGE)
    table["items_per_minute"] = table["items_per_minute"].fillna(0.0)
    table = table.fillna({"items": 0, "people": 0}).astype({"items": "int64", "people": "int64"})
    share = visit_minutes / table["items"].where(table["items"] > 0)
    table["minutes"] += share.where(table["state"].isin((TO_DO, STARTED)), 0.0)
    needs_document = (table.pop("documents") > 0) & (table["state"] == TO_DO)
    documents = pd.Series(NEEDS_DOCUMENT, table.index, dtype="str").where(needs_document)
    reasons = categories(table["site"]).map(stalled).astype("str")
    later = _refusals(table).fillna(reasons).fillna(documents)
    rank = categories(table["state"]).map({STARTED: 0, TO_DO: 0, UNABLE: 3, DONE: 4}).astype("int64")
    unstartable = table.pop("missing").where(rank == 0)
    table["reason"] = unstartable.fillna(later)
    table["rank"] = rank.mask((rank == 0) & later.notna(), 1).mask(unstartable.notna(), 2)
    order = [
        "rank",
        "kind",
        "expected",
        "people",
        "group",
        "state",
        "site",
        "user_id",
        "alert_number",
    ]
    return table.sort_values(order, ascending=[True, True, False, False, True, False, True, True, True])


def _with_details(ranked: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Add what is needed to do the work: many texts, which are copied once, when their order is known."""
    rows = ranked["row"].to_numpy("int64")
    details = {name: take(steps[name].array, rows) for name in DETAILS if name in steps}
    details["url"] = take(steps["url"].astype("str").array, rows)
    table = ranked.reset_index(drop=True).assign(**details)
    if "step" in steps:
        procedures = procedures_from_steps(steps)["opt_out_procedure"].array
        table["opt_out_procedure"] = take(procedures, ranked["procedure"].to_numpy())
    columns = [
        "person", "site", "name", "reference_id", "state", "minutes", "group", "kind", "user_id", "alert_number",
        "record_id", "steps", DONE, UNABLE, "first_seen_at", "items", "people", "items_per_minute", "success_rate",
        "reason", "url", "opt_out_procedure", *DETAILS,
    ]  # fmt: skip
    return table[[name for name in dict.fromkeys(columns) if name in table]]
