"""Work queue: manual removals, listings before web pages, in the order that does most per minute."""

from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.data_quality import NOT_MINE
from exposurekit.analysis.grouping import Instants, instants, utc_index
from exposurekit.analysis.statuses import is_open
from exposurekit.contract.types import PENDING_REMOVAL
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.frames import DETAILS, LISTS_DTYPE

DONE, UNABLE, TO_DO, STARTED = "done", "unable", "open", "started"
STATES = (STARTED, TO_DO, UNABLE, DONE)
VISIT_MINUTES, STEP_MINUTES = 3.0, 2.0
LISTING, PAGE = "listing", "page"
_HOST = r"(?i)^\s*https?://(?:[^/\\?#@\s]*@)*(?:www\.)?(\[[^\]\s]*\]|[^/\\:?#@\s]+)"


def work_queue(
    steps: pd.DataFrame, *, visit_minutes: float = VISIT_MINUTES, step_minutes: float = STEP_MINUTES
) -> pd.DataFrame:
    """Rank the manual removals: listings before web pages, then by items per minute.

    Only the newest of several alerts about the same listing, or the same page (by ``url``), counts. Sites with the same
    opt-out host form a group, because one visit serves them all. Groups of listings come before groups of pages; then
    those with the most items per minute, then with the most people. Within a group, started alerts come first.

    Args:
        steps: A table as returned by `Exposure.steps()` or `History.steps()`. A history adds ``tick`` (``done``,
            ``unable``, ``open``; without it every step is open) and ``first_seen_at``. Steps for listings that are
            removed, pending removal, no longer listed, or labelled ``not mine`` (column ``label``) are ignored.
        visit_minutes: Assumed minutes per group before its first step; an estimate, not measured.
        step_minutes: Assumed minutes per step.

    Returns:
        One row per alert, in order: ``place`` (rank from 1), ``group`` (text: the opt-out host, or the site; missing if
        neither is stated), ``kind`` (``listing`` or ``page``), ``site`` (text; missing: a page), ``user_id``, ``alert_number``, ``record_id`` (Int64),
        ``state`` (``open``, ``started``, ``unable``: a step cannot be done, ``done``), ``steps``, ``done``, ``unable``
        (int64), ``minutes`` (for its open steps, plus an equal part of the group's visit; float64, adds up to the
        group's time), ``first_seen_at`` (datetime64[us, UTC]), and for its group: ``items`` and ``people`` still to
        do (int64), ``items_per_minute`` (float64). Alerts that are done or unable come last. Then what is
        needed to do the work: ``url`` (where to start), ``opt_out_procedure`` (the steps), and those columns of
        `Exposure.steps()` that ``steps`` has: the listing (``name``, ``age``, ``locations``, ``reference_id``,
        ``href``) or page (``link_title``, ``link_url``), the user (``person``), the form values (``form_values``) and
        the ``guide``.

    Raises:
        MissingColumns: ``steps`` lacks a column.
        InvalidArgument: A time is negative or infinite, or both are zero.

    Source: specification, "Alert", ``opt_out_procedure``.

    >>> analysis.work_queue(exposure.steps())["place"].head(2).tolist()
    [1, 2]
    """
    needed = ("user_id", "alert_number", "step_number", "record_id", "site", "status", "url")
    MissingColumns.check("work_queue", steps.columns, needed)
    if not (min(visit_minutes, step_minutes) >= 0 and 0 < visit_minutes + step_minutes < np.inf):
        raise InvalidArgument(
            "invalid visit_minutes or step_minutes: pass finite minutes, zero or more, and not both zero"
        )
    alerts = _newest(_alerts(_actionable(steps)))
    n_open = alerts["steps"] - alerts["done"] - alerts["unable"]
    alerts["minutes"] = (
        (n_open * step_minutes).astype("float64").where(alerts["state"].isin((TO_DO, STARTED)), 0)
    )
    table = _rank(alerts, visit_minutes)
    table.insert(0, "place", np.arange(1, len(table) + 1))
    return table


def _actionable(steps: pd.DataFrame) -> pd.DataFrame:
    """The steps that need manual work: for open listings of the person without a pending removal, and for pages."""
    status = steps["status"].astype("str")
    needs_work = is_open(status) & (status != PENDING_REMOVAL)
    is_listed = is_open(steps["presence"]) if "presence" in steps else np.ones(len(steps), "bool")
    labels = steps["label"].astype("str") if "label" in steps else pd.Series("", steps.index, dtype="str")
    return steps[(status.isna() | needs_work) & is_listed & (labels != NOT_MINE)]


def _alerts(steps: pd.DataFrame) -> pd.DataFrame:
    """One row per alert, with the progress of its steps."""
    tick = steps["tick"].astype("str").to_numpy() if "tick" in steps else np.full(len(steps), "")
    alert = ["user_id", "alert_number"]
    rows = steps[alert].astype("int64")
    counts = rows.assign(steps=1, done=tick == DONE, unable=tick == UNABLE).groupby(alert).sum()
    counts = counts.astype("int64").reset_index()
    first = steps[~rows.duplicated().to_numpy()]  # columns of an alert repeat on each of its steps
    columns = pd.DataFrame(
        {
            **{name: first[name].astype("int64") for name in alert},
            "group": _groups(first),
            "site": first["site"].astype("str"),
            "record_id": first["record_id"].astype("Int64"),
            "page": first["url"].astype("str"),
            "first_seen_at": utc_index(_first_seen_at(first)),
            "url": first["url"].astype("str"),
            **{name: first[name] for name in DETAILS if name in first},
        }
    )
    table = counts.merge(columns, on=alert)
    if "step" in steps:
        table = table.merge(_procedures(steps), on=alert)
    cases = [table[UNABLE] > 0, table[DONE] == table["steps"], table[DONE] > 0]
    state = np.select(cases, [UNABLE, DONE, STARTED], default=TO_DO)
    return table.assign(state=pd.Series(state, index=table.index, dtype="str"))


def _procedures(steps: pd.DataFrame) -> pd.DataFrame:
    """The steps of each alert as one list, in order."""
    alert = ["user_id", "alert_number"]
    ordered = steps.astype(dict.fromkeys(alert, "int64")).sort_values([*alert, "step_number"], kind="stable")
    texts = ordered.groupby(alert)["step"].agg(list)
    lists = pd.Series(texts.tolist(), texts.index, dtype=LISTS_DTYPE, name="opt_out_procedure")
    return lists.reset_index()


def _first_seen_at(alerts: pd.DataFrame) -> Instants:
    if "first_seen_at" in alerts:
        return instants(alerts["first_seen_at"])
    return np.full(len(alerts), "NaT", "datetime64[us]")


def _groups(alerts: pd.DataFrame) -> "pd.Series[Any]":
    """The group of each alert: the host of its URL, else the site."""
    host = alerts["url"].astype("str").str.extract(_HOST, expand=False).str.lower()
    return host.fillna(alerts["site"].astype("str")).astype("str")


def _newest(alerts: pd.DataFrame) -> pd.DataFrame:
    """The newest alert about each listing or page."""
    page = alerts["page"].where(alerts["record_id"].isna() & (alerts["page"].str.strip() != ""))
    ordered = alerts.assign(page=page).sort_values(["user_id", "alert_number"])
    has_subject = ordered[["record_id", "page"]].notna().any(axis=1)
    is_older = has_subject & ordered.duplicated(["user_id", "record_id", "page"], keep="last")
    return ordered[~is_older].drop(columns="page")


def _rank(alerts: pd.DataFrame, visit_minutes: float) -> pd.DataFrame:
    """Sort the alerts group by group: listings first, then most items per minute; unable and done alerts last."""
    is_page = alerts["record_id"].isna() & alerts["site"].isna()
    alerts = alerts.assign(kind=pd.Series(np.where(is_page, PAGE, LISTING), alerts.index, dtype="str"))
    to_do = alerts[alerts["state"].isin((TO_DO, STARTED))]
    groups = to_do.groupby(["kind", "group"], dropna=False).agg(
        items=("user_id", "size"), people=("user_id", "nunique"), minutes=("minutes", "sum")
    )
    groups["items_per_minute"] = groups["items"] / (groups.pop("minutes") + visit_minutes)
    table = alerts.merge(groups.reset_index(), on=["kind", "group"], how="left")
    table["items_per_minute"] = table["items_per_minute"].fillna(0.0)
    table = table.fillna({"items": 0, "people": 0}).astype({"items": "int64", "people": "int64"})
    share = visit_minutes / table["items"].where(table["items"] > 0)
    table["minutes"] += share.where(table["state"].isin((TO_DO, STARTED)), 0.0)
    table["rank"] = table["state"].map({STARTED: 0, TO_DO: 0, UNABLE: 1, DONE: 2})
    order = [
        "rank",
        "kind",
        "items_per_minute",
        "people",
        "group",
        "site",
        "state",
        "user_id",
        "alert_number",
    ]
    table = table.sort_values(order, ascending=[True, True, False, False, True, True, False, True, True])
    columns = [
        "person", "site", "name", "reference_id", "state", "minutes", "group", "kind", "user_id", "alert_number",
        "record_id", "steps", DONE, UNABLE, "first_seen_at", "items", "people", "items_per_minute", "url",
        "opt_out_procedure", *DETAILS,
    ]  # fmt: skip
    return table[[name for name in dict.fromkeys(columns) if name in table]].reset_index(drop=True)
