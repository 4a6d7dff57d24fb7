"""A plan for some minutes, compared with every other choice of alerts."""

import itertools
import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from support.histories import Person, Service, a_record, an_alert, seen_through

from exposurekit import analysis
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.history import History

VISIT = 3.0


def queue_of(*alerts):
    """A work queue: kind, group, minutes of the steps, why the alert should wait, and the success rate, if not 50%."""
    rows = [(*alert, 0.5)[:5] for alert in alerts]
    table = pd.DataFrame(rows, columns=["kind", "group", "own", "reason", "success_rate"])
    table = table.astype({"kind": "str", "group": "str", "reason": "str", "own": "float64"})
    items = table.groupby(["kind", "group"], dropna=False)["own"].transform("size").astype("int64")
    return table.assign(state="open", items=items, minutes=table["own"] + VISIT / items)


def random_queue(seed, *, rates=(0.5,)):
    rng = np.random.default_rng(seed)
    rate_of = {name: rng.choice(rates) for name in ("a.example", "b.example", "c.example", "d.example", None)}
    return queue_of(
        *(
            (
                rng.choice(["listing", "listing", "page"]),
                group := rng.choice([*rate_of]),
                2.0 * rng.integers(0, 8),
                rng.choice([None, None, None, None, "email is not on file"]),
                rate_of[group],
            )
            for _ in range(rng.integers(1, 11))
        )
    )


def cost(rows):
    return rows["own"].sum() + VISIT * len(rows[["kind", "group"]].drop_duplicates())


def yields(rows):
    is_listing = rows["kind"] == "listing"
    return round((100 * rows["success_rate"])[is_listing].sum()), (~is_listing).sum()


def best_yields(queue, minutes):
    """The most expected removals, in percent of one, then the most pages, over all choices."""
    columns = ["kind", "group", "own", "success_rate"]
    ready = [*queue[queue["reason"].isna()][columns].itertuples(index=False, name=None)]
    best = (0, 0)
    for n in range(len(ready) + 1):
        for chosen in itertools.combinations(ready, n):
            visits = {(kind, "" if pd.isna(group) else group) for kind, group, *_ in chosen}
            if sum(own for _, _, own, _ in chosen) + VISIT * len(visits) <= minutes:
                rates = [rate for kind, *_, rate in chosen if kind == "listing"]
                best = max(best, (round(100 * sum(rates)), n - len(rates)))
    return best


@pytest.mark.parametrize("rates", [(0.5,), (0.11, 0.5, 0.97)])
@pytest.mark.parametrize("seed", [0, 50])
def test_no_choice_clears_more_in_the_same_time(seed, rates):
    for number in range(seed, seed + 50):
        queue, minutes = (
            random_queue(number, rates=rates),
            float(np.random.default_rng(number).integers(1, 45)),
        )
        plan = analysis.plan(queue, minutes)
        assert plan["reason"].isna().all()
        assert plan["minutes"].sum() == pytest.approx(cost(plan))
        assert cost(plan) <= minutes + 1e-6
        assert yields(plan) == best_yields(queue, minutes)


def most_in_percent(queue, minutes):
    """The most expected removals, from the least time for each number of them: group by group, without a bound."""
    least = {0: 0.0}
    for _, group in queue.groupby("group"):
        percent = round(100 * group["success_rate"].iloc[0])
        times = [0.0, *(VISIT + group["own"].sort_values().cumsum())]
        longer: dict[int, float] = {}
        for (weight, time), (n, more) in itertools.product(least.items(), enumerate(times)):
            at = weight + n * percent
            longer[at] = min(time + more, longer.get(at, math.inf))
        least = {weight: time for weight, time in longer.items() if time <= minutes + 1e-9}
    return max(least)


@pytest.mark.parametrize("seed", range(12))
def test_no_choice_from_a_longer_queue_clears_more(seed):
    rng = np.random.default_rng(seed)
    alike = seed % 3 == 0  # the same minutes for each removal everywhere: many choices are nearly as good
    alerts = []
    for group in range(8):
        rate = rng.integers(10, 60) / 100
        own = 20 * rate if alike else rng.integers(1, 12)
        alerts += [("listing", f"{group}.example", own + (not alike) * n % 5, None, rate) for n in range(9)]
    queue = queue_of(*alerts)
    minutes = float(rng.uniform(0.1, 0.9) * cost(queue))
    plan = analysis.plan(queue, minutes)
    assert cost(plan) <= minutes + 1e-6
    assert yields(plan)[0] == most_in_percent(queue, minutes)


def test_one_visit_serves_all_alerts_of_a_group():
    queue = queue_of(*[("listing", "a.example", 4, None)] * 3, ("listing", "b.example", 2, None))
    plan = analysis.plan(queue, 15)
    assert plan["group"].tolist() == ["a.example"] * 3
    assert plan["minutes"].tolist() == [5, 5, 5]
    assert plan["minutes_until"].tolist() == [5, 10, 15]
    assert analysis.plan(queue, 4.9).empty
    assert analysis.plan(queue, 5)["group"].tolist() == ["b.example"]


def test_a_site_that_grants_requests_comes_before_one_that_refuses():
    queue = queue_of(
        *[("listing", "a.example", 2, None, 0.1)] * 9, *[("listing", "b.example", 8, None, 0.6)] * 3
    )
    plan = analysis.plan(queue, 30)
    assert plan["group"].tolist() == ["b.example"] * 3  # 1.8 removals in 27 minutes, and not 0.9 in 21
    assert analysis.plan(queue.assign(success_rate=0.5), 30)["group"].tolist() == ["a.example"] * 9


@pytest.mark.parametrize("minutes", [3_000, 1e6])
def test_a_plan_from_a_long_queue_takes_little_memory(minutes):
    alerts = [("listing", f"{n % 20}.example", 2, None, (n % 20 + 3) / 100) for n in range(2_000)]
    queue = queue_of(*alerts)
    analysis.plan(queue, 1)  # imports
    tracemalloc.start()
    try:
        plan = analysis.plan(queue, minutes)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(plan) == len(queue)) == (minutes >= cost(queue))
    assert peak < 1_000_000


def test_the_queue_is_not_changed_and_its_index_is_ignored():
    queue = random_queue(3)
    queue.index = [7] * len(queue)
    before = queue.copy()
    plan = analysis.plan(queue, 30)
    pd.testing.assert_frame_equal(queue, before)
    pd.testing.assert_frame_equal(plan, analysis.plan(queue.reset_index(drop=True), 30))


def test_columns_stay_in_an_empty_plan():
    queue = queue_of(("listing", "a.example", 4, "the form is blocked"))
    plan = analysis.plan(queue, 60)
    columns = ["minutes", "minutes_until", "reason", "kind", "group", "own", "success_rate", "state", "items"]
    assert [*plan] == columns
    assert plan.empty


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf"), "30", None])
def test_time_that_is_no_positive_number_raises_error(minutes):
    with pytest.raises(InvalidArgument, match="invalid minutes"):
        analysis.plan(random_queue(1), minutes)
    with pytest.raises(MissingColumns, match="group"):
        analysis.plan(pd.DataFrame({"kind": []}))


def test_a_history_plans_its_own_queue(tmp_path):
    procedure = {"opt_out_procedure": [f"Do part {number}" for number in range(4)]}
    records = {number: a_record(number, site="Nosy Heron") for number in range(1, 7)}
    people = {
        number: Person([record], alerts=[an_alert("Remove it", record) | procedure])
        for number, record in records.items()
    }
    with seen_through(Service(people)) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        plan, queue = history.plan(minutes=30), history.work_queue()
        assert plan.columns[:10].tolist() == [  # as many as a notebook displays before it leaves columns out
            "person",
            "user_id",
            "site",
            "minutes",
            "minutes_until",
            "reason",
            "name",
            "url",
            "opt_out_procedure",
            "form_values",
        ]
    assert (len(queue), len(plan)) == (
        6,
        2,
    )  # twice a check of two minutes and eight for steps, and a visit of three
    assert plan["minutes"].sum() == 23
    assert plan["user_id"].tolist() == queue["user_id"].head(2).tolist()
