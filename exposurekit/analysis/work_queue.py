"""What a human must do, and in which order. Does none of it, and marks nothing as done."""

from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.grouping import Instants, aware, instants
from exposurekit.analysis.statuses import is_open
from exposurekit.contract.types import PENDING_REMOVAL
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.frames import DETAILS, LISTS_DTYPE

DONE, UNABLE, TO_DO, STARTED = "done", "unable", "open", "started"
STATES = (STARTED, TO_DO, UNABLE, DONE)
VISIT_MINUTES, STEP_MINUTES = 3.0, 2.0
_HOST = r"(?i)^\s*https?://(?:[^/\\?#@\s]*@)*(?:www\.)?(\[[^\]\s]*\]|[^/\\:?#@\s]+)"


def work_queue(
    steps: pd.DataFrame, *, visit_minutes: float = VISIT_MINUTES, step_minutes: float = STEP_MINUTES
) -> pd.DataFrame:
    """The manual removals that are left, in the order that clears most for the time.

    Of several alerts about one listing, or one page (told by ``url``), the one with the highest number counts. Sites
    that are opted out of at the same place are sisters, and stand together: whoever is there already can do the next
    one. Groups are ranked by listings cleared a minute, then by people; in a group, what was started comes first.

    Args:
        steps: As `Exposure.steps` gives them, or `History.steps`, which also knows ``tick`` (``done``, ``unable``,
            ``open``) and ``first_seen_at``. Without a tick every step is open; without an instant no age is known.
            Steps for listings that are removed, under way or gone need nobody, and are left out.
        visit_minutes: Minutes that a group of sister sites takes before its first step: an assumption, yours to set.
        step_minutes: Minutes a step takes: likewise.

    Returns:
        One row an alert, in order: ``place`` (from 1), ``group`` (text: the host where sisters are opted out of, or the
        site; missing: neither is told), ``site`` (text; missing: a page), ``user_id``, ``alert_number``, ``record_id``
        (Int64), ``state`` (``open``, ``started``, ``unable``: a step cannot be done, ``done``), ``steps``, ``done``,
        ``unable`` (int64), ``minutes`` (what is left of it, and an equal part of its group's visit, float64: the
        sum over a group is the time that it takes), ``first_seen_at`` (datetime64[us, UTC]), and of its group: ``listings`` and ``people`` that are to be cleared (int64), ``listings_a_minute`` (float64).
        What is done or unable stands at the end, with a group's figures of what is left. Then what a person needs:
        ``url`` (where to begin), ``opt_out_procedure`` (the steps), and those columns of `Exposure.steps` that ``steps``
        has: the listing (``name``, ``age``, ``locations``, ``reference_id``, ``href``) or page (``link_title``,
        ``link_url``), whose it is (``person``), what to enter (``form_values``), and the ``guide``.

    Raises:
        MissingColumns: ``steps`` lacks a column.
        InvalidArgument: A time is negative or without end, or both are zero.

    Source: specification, "Alert", ``opt_out_procedure``.

    >>> analysis.work_queue(exposure.steps())["place"].head(2).tolist()
    [1, 2]
    """
    needed = ("user_id", "alert_number", "step_number", "record_id", "site", "status", "url")
    MissingColumns.check("work_queue", steps.columns, needed)
    if not (min(visit_minutes, step_minutes) >= 0 and 0 < visit_minutes + step_minutes < np.inf):
        raise InvalidArgument("visit_minutes and step_minutes are minutes, and not both zero")
    alerts = _newest(_alerts(_needed(steps)))
    left = alerts["steps"] - alerts["done"] - alerts["unable"]
    alerts["minutes"] = (
        (left * step_minutes).astype("float64").where(alerts["state"].isin((TO_DO, STARTED)), 0)
    )
    ranked = _ranked(alerts, visit_minutes)
    ranked.insert(0, "place", np.arange(1, len(ranked) + 1))
    return ranked


def _needed(steps: pd.DataFrame) -> pd.DataFrame:
    """The steps that need somebody: of listings that are open and not under way, and of pages."""
    status = steps["status"].astype("str")
    waits = is_open(status) & (status != PENDING_REMOVAL)
    shown = is_open(steps["standing"]) if "standing" in steps else np.ones(len(steps), "bool")
    return steps[(status.isna() | waits) & shown]


def _alerts(steps: pd.DataFrame) -> pd.DataFrame:
    """One row an alert: how far its steps are."""
    tick = steps["tick"].astype("str").to_numpy() if "tick" in steps else np.full(len(steps), "")
    alert = ["user_id", "alert_number"]
    rows = steps[alert].astype("int64")
    counts = rows.assign(steps=1, done=tick == DONE, unable=tick == UNABLE).groupby(alert).sum()
    counts = counts.astype("int64").reset_index()
    first = steps[~rows.duplicated().to_numpy()]  # what is told of an alert stands beside each of its steps
    told = pd.DataFrame(
        {
            **{name: first[name].astype("int64") for name in alert},
            "group": _groups(first),
            "site": first["site"].astype("str"),
            "record_id": first["record_id"].astype("Int64"),
            "page": first["url"].astype("str"),
            "first_seen_at": aware(_seen(first)),
            "url": first["url"].astype("str"),
            **{name: first[name] for name in DETAILS if name in first},
        }
    )
    table = counts.merge(told, on=alert)
    if "step" in steps:
        table = table.merge(_procedures(steps), on=alert)
    cases = [table[UNABLE] > 0, table[DONE] == table["steps"], table[DONE] > 0]
    state = np.select(cases, [UNABLE, DONE, STARTED], default=TO_DO)
    return table.assign(state=pd.Series(state, index=table.index, dtype="str"))


def _procedures(steps: pd.DataFrame) -> pd.DataFrame:
    """The steps of each alert, in their order, as one list."""
    alert = ["user_id", "alert_number"]
    ordered = steps.astype(dict.fromkeys(alert, "int64")).sort_values([*alert, "step_number"], kind="stable")
    texts = ordered.groupby(alert)["step"].agg(list)
    lists = pd.Series(texts.tolist(), texts.index, dtype=LISTS_DTYPE, name="opt_out_procedure")
    return lists.reset_index()


def _seen(alerts: pd.DataFrame) -> Instants:
    if "first_seen_at" in alerts:
        return instants(alerts["first_seen_at"])
    return np.full(len(alerts), "NaT", "datetime64[us]")


def _groups(alerts: pd.DataFrame) -> "pd.Series[Any]":
    """Where each is opted out of: the host that it points at, else the site."""
    host = alerts["url"].astype("str").str.extract(_HOST, expand=False).str.lower()
    return host.fillna(alerts["site"].astype("str")).astype("str")


def _newest(alerts: pd.DataFrame) -> pd.DataFrame:
    """Of several alerts about one listing, or one page, the last."""
    page = alerts["page"].where(alerts["record_id"].isna() & (alerts["page"].str.strip() != ""))
    kept = alerts.assign(page=page).sort_values(["user_id", "alert_number"])
    about = kept[["record_id", "page"]].notna().any(axis=1)
    doubled = about & kept.duplicated(["user_id", "record_id", "page"], keep="last")
    return kept[~doubled].drop(columns="page")


def _ranked(alerts: pd.DataFrame, visit_minutes: float) -> pd.DataFrame:
    """All, group by group: what clears most listings a minute first, what needs nobody any more last."""
    to_do = alerts[alerts["state"].isin((TO_DO, STARTED))]
    groups = to_do.groupby("group", dropna=False).agg(
        listings=("user_id", "size"), people=("user_id", "nunique"), whole=("minutes", "sum")
    )
    groups["listings_a_minute"] = groups["listings"] / (groups.pop("whole") + visit_minutes)
    table = alerts.merge(groups.reset_index(), on="group", how="left")
    table["listings_a_minute"] = table["listings_a_minute"].fillna(0.0)
    table = table.fillna({"listings": 0, "people": 0}).astype({"listings": "int64", "people": "int64"})
    share = visit_minutes / table["listings"].where(table["listings"] > 0)
    table["minutes"] += share.where(table["state"].isin((TO_DO, STARTED)), 0.0)
    table["turn"] = table["state"].map({STARTED: 0, TO_DO: 0, UNABLE: 1, DONE: 2})
    order = ["turn", "listings_a_minute", "people", "group", "site", "state", "user_id", "alert_number"]
    table = table.sort_values(order, ascending=[True, False, False, True, True, False, True, True])
    shown = [
        "group", "site", "user_id", "alert_number", "record_id", "state", "steps", DONE, UNABLE, "minutes",
        "first_seen_at", "listings", "people", "listings_a_minute",
    ]  # fmt: skip
    details = [name for name in ("url", "opt_out_procedure", *DETAILS) if name in table]
    return table[[*shown, *details]].reset_index(drop=True)
