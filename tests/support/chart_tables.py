"""Small tables of records, changes and steps, and the table of each chart, named like its question."""

import numpy as np
import pandas as pd

from exposurekit import analysis, charts

NOW = pd.Timestamp("2026-03-31T12:00Z")

HOSTILE = '<a href="//x.example">A</a>%{meta.summary}$x$'


def records():
    statuses = ["discovered", "pending removal", "removed", "verifying", "discovered", "vanished"]
    return pd.DataFrame(
        {
            "user_id": [1, 1, 2, 2, 3, 3],
            "site": ["Near", "Far", "Near", "Far", "Near", "Far"],
            "status": statuses,
            "locations": [["Oakmere, CA"], [], ["Fernton, NC"], [], ["Oakmere, CA"], []],
            "user_fields_required_for_removal": [["birth_date"], ["zip", "pet"], [], ["pet"], ["zip"], []],
            "label": ["mine", "not mine", None, "mine", "unsure", None],
            "first_seen_at": NOW - pd.Timedelta(days=20),
            "changed_at": NOW - pd.Timedelta(days=5),
        }
    )


def transitions():
    return pd.DataFrame(
        {
            "at": pd.to_datetime(["2026-03-02T09:00Z", "2026-03-03T09:00Z", "2026-03-06T09:00Z"]),
            "site": ["Near", "Far", "Near"],
            "user_id": [1, 2, 1],
            "prev_status": [None, None, "discovered"],
            "status": ["discovered", "verifying", "removed"],
            "left_censored": False,
            "n": [5, 4, 2],
        }
    )


def over_time(by=None):
    runs = pd.DataFrame({"at": transitions()["at"], "people": 3, "unseen": [0, 1, 0]})
    return analysis.status_over_time(transitions(), runs, by=by)


def flows():
    return pd.DataFrame(
        {
            "site": ["Near"] * 4 + ["Far"] * 2,
            "days": [0, 2, 5, 9, 0, 9],
            "flow": ["entered", "removed", "removed", "open", "entered", "open"],
            "left_censored": False,
            "n": [10, 4, 3, 3, 5, 5],
        }
    )


def relistings():
    return pd.DataFrame(
        {
            "site": ["Near", "Near", "Far"],
            "previous_status": ["removed", "vanished", "removed"],
            "gone_days": [10.5, 3.0, np.nan],
            "removed_at": [NOW - pd.Timedelta(days=10.5), NOW - pd.Timedelta(days=3), pd.NaT],
            "listed_again_at": NOW,
        }
    )


def steps():
    return pd.DataFrame(
        {
            "user_id": [1, 1, 2, 3],
            "alert_number": [0, 0, 1, 2],
            "step_number": [1, 2, 1, 1],
            "record_id": pd.array([11, 11, 12, None], dtype="Int64"),
            "site": ["Near", "Near", "Far", None],
            "status": ["discovered", "discovered", "discovered", None],
            "url": ["https://near.example/a", "https://near.example/a", None, "https://page.example/b"],
            "tick": ["done", None, "unable", None],
        }
    )


def forecast():
    row = {
        "open_now": 9,
        "of_open": 4.5,
        "of_gone": 1.0,
        "of_new": 2.0,
        "open": 7.5,
        "low": 3.0,
        "high": 12.0,
    }
    days = (30, 60, 90)
    return pd.DataFrame([{"days": ahead, **row, "beyond": ahead // 60, "reason": None} for ahead in days])


def moved():
    things = {"before": [None, "discovered"], "after": ["discovered", "removed"], "what": ["new", "removed"]}
    return pd.DataFrame(things)


def people():
    last_complete = pd.to_datetime(["2026-03-31T06:00Z", None, "2026-03-01T06:00Z"])
    return pd.DataFrame(
        {"listed": True, "last_complete_at": last_complete, "outcome": ["whole", "failed", "partial"]}
    )


def requests():
    """Twelve requests to Near, which take 18 days, and three to Far, of which one is pending."""
    day = lambda days: NOW - pd.Timedelta(days=days)  # noqa: E731
    columns = ["site", "requested_after", "requested_at", "ended_after", "ended_at", "end"]
    rows = [["Near", day(31), day(30), day(12), day(11), "removed"]] * 12
    rows += [["Far", day(31), day(30), day(26), day(25), "removed"]] * 2
    rows += [["Far", pd.NaT, day(30), pd.NaT, pd.NaT, None]]
    return pd.DataFrame(rows, columns=columns).assign(observed_until=NOW).astype({"end": "str"})


def findings():
    """Twelve listings that site scans and web search found, and five and three that one found alone."""
    urls = [f"https://near.example/{number}" for number in range(20)]
    records = pd.DataFrame({"user_id": 1, "href": [*urls[:17], None]})
    return records, pd.DataFrame({"user_id": 1, "url": [*urls[5:], "https://page.example/b"]})


def declared():
    return pd.DataFrame({"site": ["near", "Far", "Other"], "declared_days": [7.0, 10.0, 5.0]})


def timed():
    """Eight ticks on each of two sites, a minute apart."""
    at = [NOW + pd.Timedelta(minutes=number) for number in range(16)]
    return pd.DataFrame({"site": ["Near"] * 8 + ["Far"] * 8, "minutes": 1.0, "marked_at": at})


FILLED = pd.DataFrame({"user_id": [1], "field": ["zip"]})

TABLES = {
    "by_site": lambda: analysis.by_site(records()),
    "by_user": lambda: analysis.by_user(records()),
    "score": lambda: analysis.score(records(), pd.DataFrame({"user_id": [1, 4]})),
    "score_changes": lambda: analysis.score_changes(moved(), moved().head(0), score_before=9.0),
    "user_by_site": lambda: analysis.user_by_site(records()),
    "by_kind": lambda: analysis.by_kind(pd.DataFrame({"contains": [["email"], ["zip"]], "user_id": [1, 2]})),
    "by_state": lambda: analysis.by_state(records()),
    "status_over_time": over_time,
    "status_over_time by site": lambda: over_time("site"),
    "status_over_time by user": lambda: over_time("user_id"),
    "changes": lambda: analysis.changes(transitions(), pd.Timestamp("2026-03-02"), NOW, open_before=3),
    "forecast": forecast,
    "time_to_removal": lambda: analysis.time_to_removal(flows()),
    "time_to_removal of all": lambda: analysis.time_to_removal(flows(), by=None),
    "survival": lambda: analysis.survival(flows()),
    "survival by site": lambda: analysis.survival(flows(), by="site"),
    "declared_vs_observed": lambda: analysis.declared_vs_observed(requests(), declared()),
    "missed": lambda: analysis.missed(*findings()),
    "relistings": relistings,
    "blockers": lambda: analysis.blockers(records(), FILLED),
    "best_next_fields": lambda: analysis.best_next_fields(records(), FILLED),
    "work_queue": lambda: analysis.work_queue(steps()),
    "precision": lambda: analysis.precision(records()),
    "coverage": lambda: analysis.coverage(people(), at=NOW),
    "site_health": lambda: analysis.site_health(records(), at=NOW),
}


def draw(name, table, **options):
    return getattr(charts, name.split()[0])(table, **options)


def title(figure):
    return figure.layout.title.text.replace("<br>", " ")


def hostile(table):
    """Return the table with hostile text in every text cell."""
    changed = table.copy()
    for column in changed:
        if pd.api.types.is_string_dtype(changed[column]):
            changed[column] = [HOSTILE + str(number) for number in range(len(changed))]
    return changed
