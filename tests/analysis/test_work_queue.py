"""The queue of manual work, compared with one built alert by alert: complete, and without duplicates."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import TEXT
from support.tables import shape

from exposurekit import frames
from exposurekit.analysis import plan, work_queue
from exposurekit.contract.models import Alert
from exposurekit.errors import InvalidArgument

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
    **dict.fromkeys(["items_per_minute", "success_rate"], "float64"),
    "reason": "str",
}
COLUMNS = ["user_id", "alert_number", "record_id", "site", "status", "url", "ticks", "step"]
FINISHED = ["removed", "pending removal", "vanished", "unknown"]


def alert(
    user, number, record_id=None, *, site=None, status="discovered", url=None, ticks=(None,), step=None
):
    """One alert; ``ticks`` has a tick or None for each step, and ``step`` is the text of all."""
    about = (site or "Seekfolk", status) if record_id is not None else (site, None)
    return dict(zip(COLUMNS, (user, number, record_id, *about, url, ticks, step), strict=True))


def steps(*alerts, **more):
    """The steps of some alerts, with the columns of `History.steps`; all are labelled."""
    table = pd.DataFrame(alerts, columns=COLUMNS, dtype="object").explode("ticks", ignore_index=True)
    table = table.rename(columns={"ticks": "tick"})
    table["step_number"] = table.groupby(["user_id", "alert_number"]).cumcount() + 1
    kinds = dict.fromkeys(["user_id", "alert_number", "step_number"], "int64") | {"record_id": "Int64"}
    texts = dict.fromkeys(["site", "status"], "category") | dict.fromkeys(["url", "tick", "step"], "str")
    typed = table.astype(kinds | texts).assign(**({"label": "mine"} | more))
    return typed if typed["step"].notna().any() else typed.drop(columns="step")


def cells(table, *columns):
    return [
        tuple(None if pd.isna(cell) else cell for cell in row)
        for row in table[[*columns]].itertuples(index=False)
    ]


def test_an_alert_is_one_row_with_its_progress():
    """Specification, "Alert", ``opt_out_procedure``."""
    first = alert(1, 0, 2**53 + 1, url="https://seekfolk.example/out", ticks=("done", None, "open"))
    second = alert(2, 3, 12, site="Peoplepile", url="https://peoplepile.example", ticks=(None, None))
    table = work_queue(steps(first, second))
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


def test_vanished_alerts_are_left_out():
    both = [alert(1, 0, 7), alert(1, 1, 8)]
    table = work_queue(steps(*both, presence=pd.Categorical(["vanished", "listed"])))
    assert table["alert_number"].tolist() == [1]


def test_a_listing_that_is_labelled_not_mine_is_left_out():
    both = alert(1, 1, record_id=11), alert(1, 2, record_id=12)
    table = work_queue(steps(*both, label=["not mine", None]))
    assert table["record_id"].tolist() == [12]


def test_of_several_alerts_about_one_source_the_newest_counts():
    about = [alert(1, 9, 7), alert(1, 10, 7, ticks=(None, None)), alert(1, 2, 7, ticks=("done",))]
    assert cells(work_queue(steps(*about)), "alert_number", "steps") == [(10, 2)]
    others = [alert(2, 9, 7), alert(1, 11, 8)]
    assert len(work_queue(steps(*about, *others))) == 3
    page = "https://pages.example/1"
    pages = [alert(1, 0, url=page), alert(1, 1, url=page), alert(1, 2, url=page + "0")]
    assert work_queue(steps(*pages))["alert_number"].tolist() == [1, 2]
    blank = [alert(1, number, url=url) for number, url in enumerate((None, None, "", "", " ", " "))]
    assert len(work_queue(steps(*blank))) == 6


@pytest.mark.parametrize(
    ("status", "is_left"),
    [*((status, False) for status in FINISHED), *((odd, True) for odd in ("verifying", "", "Removed"))],
)
def test_closed_and_pending_records_are_left_out(status, is_left):
    assert len(work_queue(steps(alert(1, 0, 7, status=status)))) == is_left


def test_a_numeric_page_address_is_no_record():
    assert len(work_queue(steps(alert(1, 0, 7, url="https://seekfolk.example"), alert(1, 1, url="7")))) == 2


HOST_OF = {
    "https://optout.example/a?b#c": "optout.example",
    "http://www.OptOut.example:8443": "optout.example",
    " HTTPS://optout.example": "optout.example",
    "https://somebody:secret@optout.example/a": "optout.example",
    "https://good.example@evil.example": "evil.example",
    "https://optout.example?mail=a@evil.example": "optout.example",
    "https://optout.example#@evil.example": "optout.example",
    "https://optout.example\\@evil.example": "optout.example",  # as browsers read it
    "http://[2001:db8::1]:80/": "[2001:db8::1]",
    "https://wwwoptout.example": "wwwoptout.example",
    **dict.fromkeys(
        ["javascript:alert(1)", "mailto:a@optout.example", "https://", "optout.example", "", None]
    ),
}


def test_pages_are_grouped_by_host():
    pages = steps(*(alert(user, 0, url=url) for user, url in enumerate(HOST_OF)))
    expected = [(user, group, None) for user, group in enumerate(HOST_OF.values())]
    assert sorted(cells(work_queue(pages), "user_id", "group", "site")) == expected
    alerts = pages.assign(url="https://alerts.example/7", link_url=pages["url"])
    expected = [(user, group or "alerts.example") for user, group, _ in expected]
    assert sorted(cells(work_queue(alerts), "user_id", "group")) == expected


def test_alerts_of_one_page_are_one_item():
    """By the page's address, in any spelling: an alert's own URL may be the service's, which all alerts share."""
    pages = ["https://a.example/1", "https://a.example/2", "http://www.a.example/2/?utm_source=x", None, None]
    alerts = steps(*(alert(1, number, url="https://alerts.example") for number in range(5)))
    queue = work_queue(alerts.assign(link_url=pd.Series(pages, dtype="str")))
    assert sorted(queue["alert_number"]) == [0, 2, 4]


def test_listings_are_grouped_by_the_host_of_their_opt_out():
    """The alert's own URL may be the listing's, or the service's."""
    groups = {
        "Open https://optout.example/a?b#c, then wait.": "optout.example",
        "Open www.OptOut.example/form.": "optout.example",
        "Search first.example/a; the form is at second.example/b.": "first.example",
        "Write to privacy@optout.example.": "Seekfolk",
        "Go to optout.example.": "Seekfolk",
        "Choose remove.": "Seekfolk",
    }
    expected = [(user, group, "Seekfolk") for user, group in enumerate(groups.values())]
    for url in ("https://alerts.example/12", "https://seekfolk.example/p/7", None):
        table = work_queue(
            steps(*(alert(user, 0, 7, url=url, step=step) for user, step in enumerate(groups)))
        )
        assert sorted(cells(table, "user_id", "group", "site")) == expected
    assert cells(work_queue(steps(alert(1, 0, 7))), "group") == [("Seekfolk",)]  # without texts of steps


def test_the_first_step_that_names_a_host_names_the_group():
    texts = ["Then open second.example/b.", "Choose remove.", "Open first.example/a.", "Wait."]
    table = steps(alert(1, 0, 7, ticks=(None,) * 4), step=texts).assign(step_number=[3, 1, 2, 4])
    assert cells(work_queue(table), "group") == [("first.example",)]


def test_steps_that_only_wait_take_no_minutes():
    """Reading an email takes time; waiting for one does not, unless the step says more first."""
    texts = ["Open first.example/a.", "Wait for the second email.", "Open the email and wait."]
    table = steps(alert(1, 0, 7, ticks=(None,) * 3), step=texts)
    assert cells(work_queue(table), "steps", "minutes") == [(3, 3.0 + 2 * 2.0)]
    waited = steps(alert(1, 0, 7, ticks=(None, "done", None)), step=texts)
    assert cells(work_queue(waited), "done", "minutes") == [(1, 3.0 + 2 * 2.0)]
    spans = [
        "Allow 72 hours for processing.",
        "Then come back after five days.",
        "Allow the site to send email.",
    ]
    allowed = steps(alert(1, 0, 7, ticks=(None,) * 3), step=spans)
    assert cells(work_queue(allowed), "minutes") == [(3.0 + 2.0,)]
    more = ["Wait for the email and click its link.", "Wait two days, then call them.", "Wait and see."]
    followed = steps(alert(1, 0, 7, ticks=(None,) * 3), step=more)
    assert cells(work_queue(followed), "minutes") == [(3.0 + 2 * 2.0,)]


@pytest.mark.parametrize(
    ("step", "minutes"),
    [
        *(
            (f"Wait a week, then {verb} it.", 5.0)
            for verb in ("check", "complete", "contact", "email", "e-mail")
        ),
        *((f"Wait for the email and {verb} it.", 5.0) for verb in ("fill in", "request", "search", "sign")),
        *(
            (f"Wait a day; {verb} it.", 5.0)
            for verb in ("copy", "submit", "upload", "use", "verify", "write to")
        ),
        ("Wait a day.\nClick the link.", 5.0),
        ("Wait a day.\n\nThen answer", 5.0),
        ("Wait a day\nSend the form", 5.0),
        ("Allow\n72 hours.", 3.0),
        ("Wait a day, then check back in a week.", 3.0),
        ("Wait a day.\nThe site then removes it.", 3.0),
    ],
)
def test_a_step_that_waits_and_then_acts_takes_minutes(step, minutes):
    assert cells(work_queue(steps(alert(1, 0, 7), step=[step])), "minutes") == [(minutes,)]


def test_sister_sites_are_grouped_and_share_one_visit():
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


@pytest.mark.parametrize(
    ("options", "minutes"),
    [
        ({"visit_minutes": 10, "step_minutes": 0.5}, 11.0),
        ({"visit_minutes": 0}, 4.0),
        ({"step_minutes": 0}, 3.0),
    ],
)
def test_the_minutes_can_be_set(options, minutes):
    queue = work_queue(steps(alert(1, 0, 1, ticks=(None, None))), **options)
    assert cells(queue, "minutes", "items_per_minute") == [(minutes, 1 / minutes)]


@pytest.mark.parametrize(
    ("visit", "step"), [(-1, 2), (3, -0.1), (0, 0), (float("nan"), 2), (3, float("nan")), (float("inf"), 1)]
)
def test_invalid_minutes_are_errors(visit, step):
    with pytest.raises(InvalidArgument, match="invalid visit_minutes or step_minutes"):
        work_queue(steps(alert(1, 0, 1)), visit_minutes=visit, step_minutes=step)


def test_removal_that_needs_a_document_comes_later_until_ticked():
    letter, page = "Enclose a copy of a bill.", alert(3, 0, url="https://pages.example/3", step="Write.")
    table = work_queue(
        steps(
            alert(1, 0, 7, site="Postal", step=letter),
            alert(2, 0, 8, site="Postal", step=letter, ticks=("done", None)),
            page,
        )
    )
    needs = "it needs a copy of a document from the person"
    assert cells(table, "user_id", "state", "reason") == [
        (2, "started", None),
        (3, "open", None),
        (1, "open", needs),
    ]
    assert plan(table, minutes=60)["user_id"].tolist() == [2, 3]


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


def test_one_listing_that_cannot_be_done_moves_alone():
    """Only a second one says something about the site, unless as many were done."""
    wall = [alert(1, 0, 1, site="Wall", ticks=("unable",))]
    wall += [alert(user, 0, user, site="Wall") for user in (2, 3, 4)]
    gate = alert(5, 0, 5, site="Gate", ticks=(None, None))
    table = work_queue(steps(*wall, gate))
    assert cells(table, "site", "user_id", "state", "reason") == [
        *(("Wall", user, "open", None) for user in (2, 3, 4)),
        ("Gate", 5, "open", None),
        ("Wall", 1, "unable", None),
    ]
    second = alert(6, 0, 6, site="Wall", ticks=("unable",))
    assert work_queue(steps(*wall, gate, second))["site"].iloc[0] == "Gate"
    done = [alert(user, 0, user, site="Wall", ticks=("done",)) for user in (7, 8)]
    assert work_queue(steps(*wall, gate, second, *done))["site"].iloc[0] == "Wall"


def test_an_alert_that_lacks_a_required_value_comes_last():
    alerts = [alert(user, 0, user, site="Gate") for user in (1, 2)] + [alert(3, 0, 3, site="Wall")]
    on_file = [["email: jo@example.com"], ["email: x@example.com"]]
    values = [["email: not on file", "phone_number: not on file"], *on_file]
    required = [["emails", "name"]] * 3
    table = work_queue(steps(*alerts, form_values=values, user_fields_required_for_removal=required))
    reasons = [(1, 2, None), (2, 3, None), (3, 1, "email is not on file")]
    assert cells(table, "rank", "user_id", "reason") == reasons
    ticked = [alert(1, 0, 1, ticks=("done",))]
    done = work_queue(steps(*ticked, form_values=values[:1], user_fields_required_for_removal=required[:1]))
    assert cells(done, "reason") == [(None,)]


def test_a_site_that_removed_nothing_comes_after_the_others():
    alerts = [alert(user, 0, user, site="Wall") for user in (1, 2, 3)]
    alerts += [alert(4, 0, 4, site="Gate", ticks=(None, None))]
    table = work_queue(steps(*alerts), stalled={"Wall": "3 removals pending"})
    assert cells(table, "site", "reason") == [("Gate", None), *[("Wall", "3 removals pending")] * 3]


def test_expected_removals_per_minute_decide_the_order():
    alerts = [alert(user, 0, user, site="Wall") for user in (1, 2, 3)]
    alerts += [alert(4, 0, 4, site="Gate", ticks=(None, None))]
    rates = {"Wall": 0.125, "Gate": 0.875}
    table = work_queue(steps(*alerts), success_rates=rates)
    assert cells(table, "site", "success_rate") == [("Gate", 0.875), *[("Wall", 0.125)] * 3]
    assert cells(work_queue(steps(*alerts)), "site", "success_rate") == [*[("Wall", 0.5)] * 3, ("Gate", 0.5)]
    pages = work_queue(steps(alert(1, 0, site=None, url="https://a.example/x")), success_rates=rates)
    assert cells(pages, "kind", "success_rate") == [("page", None)]


def test_items_without_a_label_take_a_check():
    alerts = [alert(user, 0, user) for user in (1, 2)] + [alert(3, 0, 3, ticks=("done", None))]
    labels = [None, "mine", None, None]
    table = work_queue(steps(*alerts, label=pd.Series(labels, dtype="str")))
    assert cells(table.sort_values("user_id"), "minutes") == [
        (5,),
        (3,),
        (3,),
    ]  # what was started was checked
    fast = work_queue(steps(*alerts, label=pd.Series(labels, dtype="str")), check_minutes=0)
    assert cells(fast, "minutes") == [(3,)] * 3
    nowhere = steps(*alerts).drop(columns="label")  # so nobody has labelled anything
    assert sorted(cells(work_queue(nowhere), "user_id", "minutes")) == [(1, 5), (2, 5), (3, 3)]
    pages = [alert(user, 0, site=None, url=f"https://a.example/{user}") for user in (1, 2)]
    of_pages = steps(*pages, label=pd.Series([None, "mine"], dtype="str"))
    assert cells(work_queue(of_pages), "user_id", "minutes") == [(1, 5.5), (2, 3.5)]  # one visit for both
    with pytest.raises(InvalidArgument, match="check_minutes"):
        work_queue(steps(*alerts), check_minutes=-1)


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
    """Build the queue: (group, site, user, number, record, state, minutes, listings, people, rate)."""
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
    refusing = {
        group for group, is_refusing in refusals(rows).items() if group[0] is not None and is_refusing
    }
    return sorted(map(shared, rows, left), key=lambda row: turn(row, refusing))


def refusals(rows):
    """Whether two or more alerts of each group are unable, and more than are done."""
    states = {}
    for group, site, _, _, record, state, _ in rows:
        states.setdefault((group, site is None and record is None), []).append(state)
    return {group: each.count("unable") > max(1, each.count("done")) for group, each in states.items()}


def is_page(alert):
    return alert["site"] is None and alert["record_id"] is None


def shared(row, left):
    *values, state, own = row
    whole = 3 + sum(minutes for _, minutes in left)
    minutes = own + 3 / len(left) if state in ("open", "started") else own
    return (*values, state, minutes, len(left), len({user for user, _ in left}), len(left) / whole)


def turn(row, refusing):
    group, site, user, number, record, state, _, _, people, rate = row
    is_of_page = site is None and record is None
    last = {"done": 3, "unable": 2}.get(state, int((group, is_of_page) in refusing))
    within = (state != "started", site is None, site or "", user, number)
    return (last, is_of_page, -rate, -people, group is None, group or "", *within)


@settings(max_examples=20)
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


def test_the_steps_of_an_exposure_are_accepted_unchanged():
    record = {"id": 7, "name": "", "site": "Seekfolk", "status": "discovered", "reference_id": "7"}
    record |= dict.fromkeys(("relations", "aliases", "locations"), ())
    about = {"source_type": "record", "source": {"record": record}, "url": "https://seekfolk.example/p/7"}
    page = {"source_type": "link", "source": {"link": {"url": "https://pages.example/1", "title": "A page"}}}
    several = [
        about | {"opt_out_procedure": ["Open it", "Press Remove"]},
        page | {"opt_out_procedure": "Write."},
    ]
    tables = frames.from_alerts(
        {5: [Alert.model_validate({"text": "", "html": ""} | one) for one in several]}
    )
    table = work_queue(tables["steps"])
    assert cells(table, "group", "site", "user_id", "record_id", "steps") == [
        ("Seekfolk", "Seekfolk", 5, 7, 2),
        (None, None, 5, None, 1),
    ]
    again = frames.steps_from_alerts(tables["alerts"])
    pd.testing.assert_frame_equal(again[tables["steps"].columns], tables["steps"])
    queue = work_queue(again)
    assert queue["group"].tolist() == ["Seekfolk", "pages.example"]  # where the page's address is known
    pd.testing.assert_frame_equal(queue[table.columns.drop("group")], table.drop(columns="group"))


def test_the_steps_of_an_alert_return_to_one_cell():
    """`frames.procedures_from_steps` is the opposite of `frames.steps_from_alerts`, whatever the order of the steps."""
    page = {
        "text": "",
        "html": "",
        "source_type": "link",
        "source": {"link": {"url": None, "title": "A page"}},
    }
    several = [page | {"opt_out_procedure": texts} for texts in (["Open it", "Press Remove"], [], ["Write."])]
    tables = frames.from_alerts({9: [Alert.model_validate(one) for one in several], 5: []})
    columns = ["user_id", "alert_number", "opt_out_procedure"]
    expected = tables["alerts"].loc[[0, 2], columns].reset_index(drop=True)
    for steps in (tables["steps"], tables["steps"][::-1]):
        pd.testing.assert_frame_equal(frames.procedures_from_steps(steps), expected)
    nothing = frames.procedures_from_steps(tables["steps"].head(0))
    assert nothing.dtypes.tolist() == expected.dtypes.tolist()


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
    assert (groups != groups.shift()).sum() == 60  # each group is contiguous
