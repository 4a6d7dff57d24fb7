"""The demo: real, seeded, and gone when it ends."""

import asyncio
import os
import subprocess
import sys
from datetime import timedelta

import pandas as pd
import pytest

import exposurekit as ek

long = pytest.mark.long  # weeks pass


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=12, days=15, seed=5, cache=False) as demo:
        yield demo


@long
def test_what_it_says_is_so_in_its_world(demo):
    evaluation = demo.agreement()
    assert evaluation.records > 50
    assert evaluation.nonexistent == 0
    assert evaluation.precision == 1
    assert evaluation.recall > 0.75
    assert evaluation.removed > 10
    assert evaluation.verified_removed == evaluation.removed
    assert evaluation.unreachable > 0


@long
def test_the_control_can_fail(demo):
    """An agreement that finds nothing wrong with wrong records would say nothing about right ones."""
    from exposurekit.sandbox.evaluation import ReportedRecord, agreement

    listed = next(truth for truth in demo.world.listings() if truth.visible and truth.person == 0)
    wrong = [
        ReportedRecord(1, listed.site, listed.reference_id, "discovered"),
        ReportedRecord(0, listed.site, listed.reference_id, "removed"),
        ReportedRecord(0, listed.site, "no such listing", "discovered"),
    ]
    evaluation = agreement(demo.world, wrong, scanned_at=[demo.world.clock.now()])
    assert (evaluation.records, evaluation.correct, evaluation.nonexistent) == (3, 1, 1)
    assert (evaluation.removed, evaluation.verified_removed) == (1, 0)
    assert evaluation.recall < 0.1


@long
def test_its_history_has_each_day_as_its_world_was(demo):
    days, counts = demo.agreement_by_day(), demo.history.status_over_time(every="run")
    assert days["wrong"].tolist() == [0] * 16
    assert counts["total"].tolist() == (days["open"] + days["removed"]).tolist()
    assert counts["removed"].tolist() == days["removed"].tolist()
    assert counts["total"].iloc[-1] == len(demo.exposure.records())
    assert days["removed"].iloc[-1] > days["removed"].iloc[3] > 0
    assert demo.history.verify() == {}


@long
def test_the_control_of_a_day_can_fail(demo):
    from exposurekit.sandbox.evaluation import ReportedRecord, agreement_on

    now = demo.world.clock.now()
    listed = next(truth for truth in demo.world.listings() if truth.visible and truth.quirks == ())
    site, reference_id = listed.site, listed.reference_id
    claims = [
        ReportedRecord(0, site, reference_id, "discovered"),
        ReportedRecord(0, site, "no such listing", "discovered"),
    ]
    assert agreement_on(demo.world, claims, now).wrong == 1
    assert agreement_on(demo.world, [ReportedRecord(0, site, "no such listing", "removed")], now).gone == 1


@long
def test_its_history_began_before_anybody_was_registered(demo):
    """So that of each record it is known within a day when it was found."""
    assert demo.history.runs()["listed"].iloc[0] == 0
    changes = demo.history.changes()
    assert not changes["left_censored"].any()
    assert changes["not_before"].notna().all()


@long
def test_everything_happens_to_somebody(demo):
    texts = demo.exposure.alerts()["text"].str.partition(":")[0]
    happened = {"New record", "Opt-out submitted", "Removal verified", "Exposure found"}
    assert happened <= set(texts)
    assert set(demo.exposure.records()["status"]) == {"discovered", "pending removal", "removed"}


@long
def test_its_integrator_is_told_what_the_tables_say(demo):
    demo.advance(days=1)  # every window has closed by then
    received = demo.integrator.items
    assert demo.integrator.refused == 0
    assert received["new_alerts"] == len(demo.exposure.alerts())
    assert received["discovered_records"] == len(demo.exposure.records())
    assert received["discovered_links"] == len(demo.exposure.links())
    removals = demo.exposure.alerts()["text"].str.startswith("Removal verified")
    assert received["removed_records"] == removals.sum()


@long
def test_time_passes_and_does_not_go_back(demo):
    before = demo.world.clock.now()
    demo.advance(days=0.5)
    assert (demo.world.clock.now() - before).total_seconds() == 43_200
    with pytest.raises(ek.InvalidArgument, match="does not go back"):
        demo.advance(days=-1)


@long
def test_the_same_seed_tells_the_same():
    def deliveries():
        with ek.demo(people=3, days=8, seed=11, cache=False) as small:
            records = small.exposure.records()
            return sorted(zip(records["site"], records["reference_id"], records["status"], strict=True))

    assert deliveries() == deliveries() != []


@long
def test_somebody_who_registers_is_scanned_at_once(demo):
    person = demo.world.people[0]
    user = demo.client.create_user(**person.request(), asynchronous=False)
    assert not user.is_scanning
    assert user.records


@long
def test_everyone_is_loaded_whole(demo):
    assert len(demo.exposure.users()) == 12
    assert demo.exposure.failures().empty


@long
def test_a_step_stands_for_each_line_of_each_procedure(demo):
    alerts = demo.exposure.alerts()
    assert len(demo.exposure.steps()) == alerts["opt_out_procedure"].list.len().sum()


def test_it_works_inside_a_running_loop():
    async def cell():
        with ek.demo(people=1, days=0) as small:
            return len(small.exposure.users())

    assert asyncio.run(cell()) == 1


def test_a_default_demo_can_be_compared_with_two_weeks_ago():
    with ek.demo(people=1, progress=False) as demo:
        first_day = demo.history.diff("14d")
        assert not first_day.is_first
        assert first_day.by_site["open_before"].sum() > 0


def test_a_demo_is_a_value_and_ends_when_closed():
    small = ek.demo(people=1, days=0)
    assert len(small.exposure.users()) == 1
    small.close()
    small.close()
    with ek.Client(**small.connection, retries=0) as late, pytest.raises(ek.ConnectionFailed):
        late.list_users()


LOOKED_AT = """
import pathlib, sys
import exposurekit as ek
with ek.demo(people=1, days=0):
    print(len(list(pathlib.Path(sys.argv[1]).iterdir())))
"""


@pytest.mark.long
def test_nothing_of_it_is_left(tmp_path):
    output = subprocess.run(
        [sys.executable, "-c", LOOKED_AT, tmp_path],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert output == "2\n"  # its own directory, and what DuckDB spills into
    assert not list(tmp_path.iterdir())


@long
def test_its_repr_shows_no_credentials(demo):
    assert demo.connection["api_secret"] not in repr(demo)
    assert demo.connection["api_key"] not in repr(demo)


def test_a_negative_number_of_people_is_refused():
    with pytest.raises(ek.InvalidArgument, match="zero or more"), ek.demo(people=-1):
        pass


def test_what_no_webhook_has_carried_yet_is_counted():
    """A delivery collects ten minutes of events: the tables are ahead of what an integrator was told."""
    with ek.demo(people=2, days=0, cache=False, progress=False) as young:
        tables = young.exposure.records(), young.exposure.links(), young.exposure.alerts()
        assert young.pending_events() == sum(map(len, tables)) - sum(young.integrator.items.values()) > 0
        young.advance(days=0.1)
        assert young.pending_events() == 0


def test_the_sandbox_has_one_clock():
    with ek.demo(people=2, days=1, cache=False, progress=False) as young:
        for days in (0, 3, 0.5):
            young.advance(days=days)
            newest = young.history.runs()["finished_at"].max()
            assert pd.Timestamp(young.exposure.as_of) == newest
            day = f"as of {newest:%Y-%m-%d %H:%M} UTC"
            assert day in young.exposure.provenance
            of_exposure, of_history = ek.report(young.exposure), ek.report(young.history)
            assert (
                of_exposure.provenance["as of"]
                == of_history.provenance["as of"]
                == day.removeprefix("as of ")
            )
            chart = ek.charts.by_site(
                young.exposure.records().exposure.by_site(), provenance=young.exposure.provenance
            )
            assert day in chart.layout.meta["provenance"]
        before = young.history.records(as_of="3d")
        assert before["first_seen_at"].max() <= newest - pd.Timedelta(days=3)


@pytest.mark.long
def test_a_day_and_its_history_pass_together():
    """The history takes looks in behind; when the days have passed, it has them all."""
    with ek.demo(people=2, days=2, progress=False) as small:
        runs = small.history.runs()
        assert runs["listed"].tolist() == [0, 2, 2]
        assert (runs["started_at"].diff().dropna() == timedelta(days=1)).all()
        small.advance(days=1.5)
        assert small.history.last_collected_at() == small.world.clock.now()
        assert len(small.history.runs()) == 5
        assert small.history.verify() == {}
