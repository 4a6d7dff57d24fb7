"""What a human must do, beside a queue made alert by alert: nothing is lost, nothing stands there twice."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import TEXT

from exposurekit import frames
from exposurekit.analysis import work_queue
from exposurekit.analysis.work_queue import stalled_sites
from exposurekit.contract.models import Alert
from exposurekit.errors import InvalidArgument, MissingColumns

DAWN = datetime(2026, 3, 1, tzinfo=UTC)
QUEUE = {
    "rank": "int64",
    "group": "str",
    "kind": "str",
    "site": "str",
    "user_id": "int64",
    "alert_number": "int64",
    "record_id": "Int64",
    "state": "str",
    **dict.fromkeys(["steps", "done", "unable"], "int64"),
    "minutes": "float64",
    "first_seen_at": "datetime64[us, UTC]",
    **dict.fromkeys(["items", "people"], "int64"),
    "items_per_minute": "float64",
    "reason": "str",
}
COLUMNS = ["user_id", "alert_number", "record_id", "site", "status", "url", "ticks", "step"]
FINISHED = ["removed", "pending removal", "vanished", "unknown"]


def alert(
    user, number, record_id=None, *, site=None, status="discovered", url=None, ticks=(None,), step=None
):
    """One alert: whose, which of theirs, about what; a tick, or none, for each of its steps, and what these say."""
    about = (site or "Seekfolk", status) if record_id is not None else (site, None)
    return dict(zip(COLUMNS, (user, number, record_id, *about, url, ticks, step), strict=True))


def steps(*alerts, **more):
    """The steps of some alerts, as `History.steps` gives them; without ``ticked`` as `Exposure.steps` does."""
    table = pd.DataFrame(alerts, columns=COLUMNS, dtype="object").explode("ticks", ignore_index=True)
    table = table.rename(columns={"ticks": "tick"})
    table["step_number"] = table.groupby(["user_id", "alert_number"]).cumcount() + 1
    kinds = dict.fromkeys(["user_id", "alert_number", "step_number"], "int64") | {"record_id": "Int64"}
    texts = dict.fromkeys(["site", "status"], "category") | dict.fromkeys(["url", "tick", "step"], "str")
    typed = table.astype(kinds | texts).assign(**more)
    return typed if typed["step"].notna().any() else typed.drop(columns="step")


def shape(table):
    return {name: str(dtype) for name, dtype in table.dtypes.items()}


def cells(table, *columns):
    return [
        tuple(None if pd.isna(cell) else cell for cell in row)
        for row in table[[*columns]].itertuples(index=False)
    ]


# --- one row an alert -------------------------------------------------------------------------------------


def test_an_alert_is_one_row_with_its_progress():
    """Specification, "Alert", ``opt_out_procedure``."""
    table = work_queue(
        steps(
            alert(1, 0, 2**53 + 1, url="https://seekfolk.example/out", ticks=("done", None, "open")),
            alert(2, 3, 12, site="Peoplepile", url="https://peoplepile.example", ticks=(None, None)),
        )
    )
    assert shape(table) == QUEUE | {"url": "str"}
    assert cells(table, *[*QUEUE][:12]) == [
        (1, "Peoplepile", "listing", "Peoplepile", 2, 3, 12, "open", 2, 0, 0, 7.0),
        (2, "Seekfolk", "listing", "Seekfolk", 1, 0, 2**53 + 1, "started", 3, 1, 0, 7.0),
    ]
    assert table["first_seen_at"].isna().all()
    assert cells(table, "items", "people", "items_per_minute") == [(1, 1, 1 / 7)] * 2


@pytest.mark.parametrize(
    ("ticks", "state", "minutes"),
    [
        ((None,), "open", 5.0),
        (("open", "open"), "open", 7.0),
        (("done", None), "started", 5.0),
        (("done", "done"), "done", 0.0),
        (("done", "unable"), "unable", 0.0),
        (("unable", None, "open"), "unable", 0.0),
        (("Done", "nearly"), "open", 7.0),  # none of the three words
    ],
)
def test_the_state_of_an_alert_is_that_of_its_steps(ticks, state, minutes):
    [row] = work_queue(steps(alert(1, 0, 7, ticks=ticks))).to_dict("records")
    assert (row["state"], row["minutes"]) == (state, minutes)
    assert (row["steps"], row["done"], row["unable"]) == (
        len(ticks),
        ticks.count("done"),
        ticks.count("unable"),
    )


def test_unticked_steps_are_open_and_ages_need_an_instant():
    plain = steps(alert(1, 0, 7, ticks=("done", "unable"))).drop(columns="tick")
    [row] = work_queue(plain).to_dict("records")
    assert (row["state"], row["minutes"], row["first_seen_at"]) == ("open", 7.0, pd.NaT)
    queue = work_queue(steps(alert(1, 0, 7), first_seen_at=DAWN))
    assert queue["first_seen_at"].tolist() == [DAWN]


@pytest.mark.parametrize("status", FINISHED)
def test_what_is_removed_under_way_or_gone_needs_nobody(status):
    assert len(work_queue(steps(alert(1, 0, 7, status=status)))) == 0


@pytest.mark.parametrize("status", ["verifying", "", "<b>removed</b>", "Removed"])
def test_a_status_that_the_specification_does_not_name_needs_somebody(status):
    assert len(work_queue(steps(alert(1, 0, 7, status=status)))) == 1


def test_alerts_that_are_listed_no_longer_need_nobody():
    both = [alert(1, 0, 7), alert(1, 1, 8)]
    table = work_queue(steps(*both, presence=pd.Categorical(["vanished", "listed"])))
    assert table["alert_number"].tolist() == [1]


def test_a_listing_that_is_labelled_not_mine_is_left_out():
    both = alert(1, 1, record_id=11), alert(1, 2, record_id=12)
    table = work_queue(steps(*both, label=["not mine", None]))
    assert table["record_id"].tolist() == [12]


def test_of_several_alerts_about_one_listing_the_newest_counts():
    about = [
        alert(1, 9, 7, ticks=(None,)),
        alert(1, 10, 7, ticks=(None, None)),
        alert(1, 2, 7, ticks=("done",)),
    ]
    assert cells(work_queue(steps(*about)), "alert_number", "steps") == [(10, 2)]
    others = [alert(2, 9, 7), alert(1, 11, 8)]
    assert len(work_queue(steps(*about, *others))) == 3


def test_of_several_alerts_about_one_page_the_newest_counts():
    page = "https://pages.example/1"
    table = work_queue(steps(alert(1, 0, url=page), alert(1, 1, url=page), alert(1, 2, url=page + "0")))
    assert table["alert_number"].tolist() == [1, 2]


@pytest.mark.parametrize("url", [None, "", " "])
def test_alerts_without_a_source_are_all_listed(url):
    assert len(work_queue(steps(alert(1, 0, url=url), alert(1, 1, url=url)))) == 2


def test_a_page_address_that_looks_numeric_is_no_record():
    assert len(work_queue(steps(alert(1, 0, 7, url="https://seekfolk.example"), alert(1, 1, url="7")))) == 2


# --- their order ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "group"),
    [
        ("https://optout.example/a?b#c", "optout.example"),
        ("http://www.OptOut.example:8443", "optout.example"),
        (" HTTPS://optout.example", "optout.example"),
        ("https://somebody:secret@optout.example/a", "optout.example"),
        ("https://good.example@evil.example", "evil.example"),
        ("https://optout.example?mail=a@evil.example", "optout.example"),
        ("https://optout.example#@evil.example", "optout.example"),
        ("https://optout.example\\@evil.example", "optout.example"),  # as browsers read it
        ("http://[2001:db8::1]:80/", "[2001:db8::1]"),
        ("https://wwwoptout.example", "wwwoptout.example"),
        ("javascript:alert(1)", None),
        ("mailto:a@optout.example", None),
        ("https://", None),
        ("optout.example", None),
        ("", None),
        (None, None),
    ],
)
def test_pages_stand_together_by_their_host(url, group):
    assert cells(work_queue(steps(alert(1, 0, url=url))), "group", "site") == [(group, None)]
    alerts = steps(alert(1, 0, url="https://alerts.example/7"), link_url=[url])
    assert cells(work_queue(alerts), "group") == [(group or "alerts.example",)]


@pytest.mark.parametrize(
    ("step", "group"),
    [
        ("Open https://optout.example/a?b#c, then wait.", "optout.example"),
        ("Open www.OptOut.example/form.", "optout.example"),
        ("Search first.example/a; the form is at second.example/b.", "first.example"),
        ("Write to privacy@optout.example.", "Seekfolk"),
        ("Go to optout.example.", "Seekfolk"),
        ("Choose remove.", "Seekfolk"),
        (None, "Seekfolk"),
    ],
)
def test_listings_stand_together_by_the_host_of_their_opt_out(step, group):
    """The alert's own URL may be the listing's, or the service's."""
    for url in ("https://alerts.example/12", "https://seekfolk.example/p/7", None):
        table = work_queue(steps(alert(1, 0, 7, url=url, step=step)))
        assert cells(table, "group", "site") == [(group, "Seekfolk")]


def test_the_first_step_that_names_a_host_names_the_group():
    texts = ["Then open second.example/b.", "Choose remove.", "Open first.example/a.", "Wait."]
    table = steps(alert(1, 0, 7, ticks=(None,) * 4), step=texts).assign(step_number=[3, 1, 2, 4])
    assert cells(work_queue(table), "group") == [("first.example",)]


def test_sister_sites_stand_together_and_share_one_visit():
    out = "Open https://optout.example/"
    table = work_queue(
        steps(
            alert(1, 0, 1, site="Sister", step=out + "s"),
            alert(1, 1, 2, site="Alone", step="Open https://alone.example"),
            alert(2, 0, 3, site="Brother", step=out + "b", ticks=("done", None, None)),
        )
    )
    assert cells(table, "group", "site", "items", "people", "items_per_minute") == [
        ("optout.example", "Brother", 2, 2, 2 / (3 + 2 + 4)),
        ("optout.example", "Sister", 2, 2, 2 / (3 + 2 + 4)),
        ("alone.example", "Alone", 1, 1, 1 / 5),
    ]


def test_records_per_minute_come_first_then_the_number_of_people():
    one_person = [alert(1, number, number, site="Mine") for number in range(2)]
    two_people = [alert(user, 5, 50 + user, site="Theirs") for user in (1, 2)]
    long = [alert(3, 0, 99, site="All", ticks=(None,) * 4)]
    assert work_queue(steps(*long, *one_person, *two_people))["group"].tolist() == ["Theirs"] * 2 + [
        "Mine"
    ] * 2 + ["All"]


def test_listings_come_before_web_pages():
    pages = [alert(1, number, url=f"https://pages.example/{number}") for number in range(5)]
    listing = alert(2, 0, 7, site="Slow", ticks=(None,) * 9)
    table = work_queue(steps(*pages, listing))
    assert table["kind"].tolist() == ["listing"] + ["page"] * 5


def test_in_a_group_what_was_started_comes_first():
    table = work_queue(steps(alert(1, 0, 1), alert(2, 0, 2, ticks=("done", None)), alert(3, 0, 3)))
    assert cells(table, "user_id", "state") == [(2, "started"), (1, "open"), (3, "open")]
    out = {"step": "Open optout.example/form."}
    sisters = alert(1, 0, 1, site="A", **out), alert(2, 0, 2, site="B", ticks=("done", None), **out)
    assert cells(work_queue(steps(*sisters)), "site", "state") == [("B", "started"), ("A", "open")]


def test_finished_alerts_come_last_with_their_groups_open_rest():
    table = work_queue(
        steps(
            alert(1, 0, 1, ticks=("done",)),
            alert(2, 0, 2),
            alert(3, 0, 3, ticks=("unable",)),
            alert(4, 0, 4, site="Finished", ticks=("done",)),
        )
    )
    assert cells(table, "rank", "user_id", "state", "items", "people", "items_per_minute") == [
        (1, 2, "open", 1, 1, 0.2),
        (2, 3, "unable", 1, 1, 0.2),
        (3, 1, "done", 1, 1, 0.2),
        (4, 4, "done", 0, 0, 0.0),
    ]


def test_the_minutes_are_the_analysts_to_set():
    queue = work_queue(steps(alert(1, 0, 1, ticks=(None, None))), visit_minutes=10, step_minutes=0.5)
    assert cells(queue, "minutes", "items_per_minute") == [(11.0, 1 / 11)]
    queue = work_queue(steps(alert(1, 0, 1)), visit_minutes=0)
    assert cells(queue, "minutes", "items_per_minute") == [(2.0, 0.5)]
    queue = work_queue(steps(alert(1, 0, 1)), step_minutes=0)
    assert cells(queue, "minutes", "items_per_minute") == [(3.0, 1 / 3)]


@pytest.mark.parametrize(
    ("visit", "step"), [(-1, 2), (3, -0.1), (0, 0), (float("nan"), 2), (3, float("nan")), (float("inf"), 1)]
)
def test_minutes_that_are_none_are_refused(visit, step):
    with pytest.raises(InvalidArgument, match="invalid visit_minutes or step_minutes"):
        work_queue(steps(alert(1, 0, 1)), visit_minutes=visit, step_minutes=step)


def test_a_site_that_refuses_comes_later_with_the_reason():
    wall = [alert(user, 0, user, site="Wall", ticks=("unable",)) for user in (1, 2)]
    wall += [alert(user, 0, user, site="Wall") for user in (3, 4, 5)]
    notes = ["blocked", None, None, None, None, None, None, None]
    others = [alert(6, 0, 6, site="Gate", ticks=(None, None)), alert(7, 0, url="https://pages.example")]
    table = work_queue(steps(*wall, *others, tick_note=notes))
    assert cells(table, "site", "reason") == [
        *(("Gate", None), (None, None)),
        *(("Wall", "2 of 5 could not be done: blocked"),) * 5,
    ]
    assert table["state"].tolist()[-2:] == ["unable", "unable"]
    cleared = [alert(user, 1, 10 + user, site="Wall", ticks=("done",)) for user in (1, 2)]
    assert work_queue(steps(*wall, *others, *cleared))["site"].iloc[0] == "Wall"


def test_an_alert_that_lacks_a_required_value_comes_last():
    alerts = [alert(user, 0, user, site="Gate") for user in (1, 2)] + [alert(3, 0, 3, site="Wall")]
    values = [
        ["email: not on file", "phone_number: not on file"],
        ["email: jo@example.com"],
        ["email: x@example.com"],
    ]
    required = [["emails", "name"]] * 3
    table = work_queue(steps(*alerts, form_values=values, user_fields_required_for_removal=required))
    assert cells(table, "rank", "user_id", "reason") == [
        (1, 2, None),
        (2, 3, None),
        (3, 1, "email is not on file"),
    ]
    ticked = [alert(1, 0, 1, ticks=("done",))]
    done = work_queue(steps(*ticked, form_values=values[:1], user_fields_required_for_removal=required[:1]))
    assert cells(done, "reason") == [(None,)]


def test_a_site_that_removed_nothing_comes_after_the_others():
    alerts = [alert(user, 0, user, site="Wall") for user in (1, 2, 3)]
    alerts += [alert(4, 0, 4, site="Gate", ticks=(None, None))]
    table = work_queue(steps(*alerts), stalled={"Wall": "3 removals pending"})
    assert cells(table, "site", "reason") == [("Gate", None), *[("Wall", "3 removals pending")] * 3]


@pytest.mark.parametrize(
    ("moves", "requests"),
    [
        ([("pending removal", 14, 3)], 3),
        ([("pending removal", 13, 3)], 0),
        ([("pending removal", 30, 2)], 0),
        ([("pending removal", 30, 2), ("discovered", 20, 2), ("pending removal", 15, 2)], 4),
        ([("pending removal", 14, 3), ("removed", 1, 1)], 0),
        ([("pending removal", 14, 3), ("vanished", 1, 1)], 0),
        ([("discovered", 14, 3)], 0),
    ],
)
def test_a_site_is_stalled_by_requests_in_vain(moves, requests):
    table = pd.DataFrame(moves, columns=["status", "days", "n"]).assign(site="Wall")
    day = (DAWN.date() - date(1970, 1, 1)).days - table["days"]
    expected = (
        {"Wall": f"{requests} removals requested 14 or more days ago, none removed"} if requests else {}
    )
    assert stalled_sites(table.assign(day=day), DAWN) == expected


# --- beside one made by hand ------------------------------------------------------------------------------

HOSTS = {
    "https://www.a.example/x": "a.example",
    "http://b.example": "b.example",
    "ftp://c.example": None,
    "": None,
}
ALERTS = st.lists(
    st.builds(
        alert,
        st.sampled_from([1, 2, 2**63 - 1]),
        st.just(0),
        st.none() | st.sampled_from([1, 2, 2**53, 2**53 + 1]),
        site=st.sampled_from(["A", "B", "<i>", "nan"]) | TEXT,
        status=st.sampled_from(["discovered", "verifying", *FINISHED]),
        url=st.none() | st.sampled_from([*HOSTS]),
        step=st.sampled_from([*HOSTS]),
        ticks=st.lists(st.sampled_from([None, None, "open", "done", "unable"]), min_size=1, max_size=3),
    ),
    max_size=9,
)


def queue_of(alerts):
    """The queue, made alert by alert: (group, site, user, number, record, state, minutes, listings, people, rate)."""
    newest = {}
    for one in alerts:
        if one["record_id"] is None or one["status"] not in FINISHED:
            page = one["url"] if one["record_id"] is None and one["url"] else None
            about = one["record_id"] or page or ("nothing", one["alert_number"])
            newest[one["user_id"], about] = one  # they come in the order of their numbers
    rows, groups = [], {}
    for one in newest.values():
        group = HOSTS.get(one["url"]) if is_page(one) else HOSTS.get(one["step"]) or one["site"]
        ticks = one["ticks"]
        state = "started" if "done" in ticks else "open"
        state = "done" if {*ticks} == {"done"} else "unable" if "unable" in ticks else state
        minutes = 0.0 if state in ("done", "unable") else 2.0 * sum(tick != "done" for tick in ticks)
        rows.append(
            (group, one["site"], one["user_id"], one["alert_number"], one["record_id"], state, minutes)
        )
        if state in ("open", "started"):
            groups.setdefault((group, is_page(one)), []).append((one["user_id"], minutes))
    left = [groups.get((row[0], row[1] is None and row[4] is None), []) for row in rows]
    refusing = {group for group, n in refusals(rows).items() if n > 0 and group[0] is not None}
    return sorted(map(shared, rows, left), key=lambda row: turn(row, refusing))


def refusals(rows):
    """How many more of each group are unable than done."""
    counts = Counter()
    for group, site, _, _, record, state, _ in rows:
        counts[group, site is None and record is None] += (state == "unable") - (state == "done")
    return counts


def is_page(alert):
    return alert["site"] is None and alert["record_id"] is None


def shared(row, left):
    *values, state, own = row
    whole = 3 + sum(minutes for _, minutes in left)
    minutes = own + 3 / len(left) if state in ("open", "started") else own
    return (*values, state, minutes, len(left), len({user for user, _ in left}), len(left) / whole)


def turn(row, refusing):
    group, site, user, number, record, state, _, _, people, rate = row
    refuses = (group, site is None and record is None) in refusing
    last = {"done": 3, "unable": 2}.get(state, int(refuses))
    return (
        last,
        site is None and record is None,
        -rate,
        -people,
        group is None,
        group or "",
        state != "started",
        site is None,
        site or "",
        user,
        number,
    )


@settings(max_examples=50, deadline=None)
@given(ALERTS)
def test_the_queue_equals_one_built_alert_by_alert(alerts):
    numbered = [one | {"alert_number": number} for number, one in enumerate(alerts)]
    table = work_queue(steps(*numbered))
    procedures = {"opt_out_procedure": "list<item: string>[pyarrow]"} if "step" in steps(*numbered) else {}
    assert shape(table) == QUEUE | {"url": "str"} | procedures
    expected = queue_of(numbered)
    columns = ["group", "site", "user_id", "alert_number", "record_id", "state", "minutes", "items", "people"]
    assert cells(table, *columns) == [row[:9] for row in expected]
    assert table["items_per_minute"].tolist() == pytest.approx([row[9] for row in expected])
    assert table["rank"].tolist() == [*range(1, len(expected) + 1)]


def test_alerts_without_a_host_or_site_have_no_group():
    table = work_queue(steps(alert(1, 0), alert(2, 0, 5)))
    assert cells(table, "group", "site", "items") == [("Seekfolk", "Seekfolk", 1), (None, None, 1)]


# --- tables as they come ----------------------------------------------------------------------------------


def test_no_steps_give_the_same_columns():
    none = frames.frame("steps", [])
    for table in (none, none.astype("object"), steps(), steps(alert(1, 0, 7, status="removed"))):
        assert len(work_queue(table)) == 0
        procedures = {"opt_out_procedure": "list<item: string>[pyarrow]"} if "step" in table else {}
        assert shape(work_queue(table)) == QUEUE | {"url": "str"} | procedures


@pytest.mark.parametrize("missing", [["url"], ["status", "url"], ["user_id"], ["step_number", "record_id"]])
def test_a_table_that_lacks_columns_is_told_which(missing):
    order = ["user_id", "alert_number", "step_number", "record_id", "site", "status", "url"]
    names = ", ".join(name for name in order if name in missing)
    with pytest.raises(
        MissingColumns, match=f"^work_queue needs the columns {names}, and the table lacks them$"
    ):
        work_queue(steps(alert(1, 0, 7)).drop(columns=missing))


def test_the_steps_of_an_exposure_are_accepted_unchanged():
    record = {"id": 7, "name": "", "site": "Seekfolk", "status": "discovered", "reference_id": "7"}
    record |= dict.fromkeys(("relations", "aliases", "locations"), ())
    about = {"source_type": "record", "source": {"record": record}, "url": "https://seekfolk.example/p/7"}
    page = {"source_type": "link", "source": {"link": {"url": "https://pages.example/1", "title": "A page"}}}
    several = [
        about | {"opt_out_procedure": ["Open it", "Press Remove"]},
        page | {"opt_out_procedure": "Write."},
    ]
    given_by = frames.from_alerts(
        {5: [Alert.model_validate({"text": "", "html": ""} | one) for one in several]}
    )
    table = work_queue(given_by["steps"])
    assert cells(table, "group", "site", "user_id", "record_id", "steps") == [
        ("Seekfolk", "Seekfolk", 5, 7, 2),
        (None, None, 5, None, 1),
    ]
    again = frames.steps_from_alerts(given_by["alerts"])
    pd.testing.assert_frame_equal(again[given_by["steps"].columns], given_by["steps"])
    queue = work_queue(again)
    assert queue["group"].tolist() == ["Seekfolk", "pages.example"]  # where the page's address is known
    pd.testing.assert_frame_equal(queue[table.columns.drop("group")], table.drop(columns="group"))


def test_the_index_is_ignored_and_the_table_stays_unchanged():
    table = steps(
        alert(1, 0, 7, ticks=("done", None)), alert(2, 0, 8, site="B"), alert(2, 1, url="https://b.example")
    )
    before, expected = table.copy(deep=True), work_queue(table)
    for other in (
        table.set_index(pd.Index([7] * 4)),
        table[::-1],
        table.astype({"site": "str", "status": "object"}),
    ):
        pd.testing.assert_frame_equal(work_queue(other), expected)
    pd.testing.assert_frame_equal(table, before)


def test_a_hundred_thousand_steps_are_queued():
    n, chance = 50_000, np.random.default_rng(7)
    alerts = np.arange(n).repeat(2)
    table = pd.DataFrame(
        {
            "user_id": alerts // 10,
            "alert_number": alerts % 10,
            "step_number": 1 + np.arange(2 * n) % 2,
            "record_id": pd.array(alerts, dtype="Int64"),
            "site": pd.Categorical.from_codes(alerts % 60, [f"Site {k}" for k in range(60)]),
            "status": "discovered",
            "url": pd.Series([f"https://site{k % 60}.example/p/{k}" for k in alerts], dtype="str"),
            "tick": pd.Series(
                chance.choice(["done", "open", "unable"], 2 * n, p=[0.3, 0.6, 0.1]), dtype="str"
            ),
            "first_seen_at": DAWN + pd.to_timedelta(alerts, unit="s"),
        }
    )
    queue = work_queue(table)
    assert len(queue) == n
    assert int(queue["done"].sum()) == int((table["tick"] == "done").sum())
    assert queue["first_seen_at"].min() == DAWN
    assert queue["first_seen_at"].max() == DAWN + timedelta(seconds=n - 1)
    groups = queue.loc[queue["state"].isin(["open", "started"]), "group"]
    assert (groups != groups.shift()).sum() == 60  # each stands together
