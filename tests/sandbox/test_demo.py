"""The demo: real HTTP, seeded, and deleted when it is closed."""

import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

import exposurekit as ek

long = pytest.mark.long  # weeks are simulated


@pytest.fixture(scope="module")
def demo():
    """A demo of the default length."""
    with ek.demo(people=6, seed=5, cache=False) as demo:
        yield demo


@pytest.fixture(scope="module")
def small():
    with ek.demo(people=2, days=0, cache=False, progress=False) as small:
        yield small


@long
def test_its_records_agree_with_its_world(demo):
    evaluation = demo.agreement()
    assert evaluation.records > 25
    assert evaluation.nonexistent == 0
    assert evaluation.precision == 1
    assert evaluation.recall > 0.75
    assert evaluation.removed > 5
    assert evaluation.verified_removed == evaluation.removed
    assert evaluation.unreachable > 0


@long
def test_agreement_detects_wrong_records(demo):
    from exposurekit.sandbox.evaluation import ReportedRecord, agreement, agreement_on

    listed = next(truth for truth in demo.world.listings() if truth.visible and truth.person == 0)
    wrong = [
        ReportedRecord(1, listed.site, listed.reference_id, "discovered"),
        ReportedRecord(0, listed.site, listed.reference_id, "removed"),
        ReportedRecord(0, listed.site, "no such listing", "discovered"),
    ]
    now = demo.world.clock.now()
    evaluation = agreement(demo.world, wrong, scanned_at=[now])
    assert (evaluation.records, evaluation.correct, evaluation.nonexistent) == (3, 1, 1)
    assert (evaluation.removed, evaluation.verified_removed) == (1, 0)
    assert evaluation.recall < 0.15
    listed = next(truth for truth in demo.world.listings() if truth.visible and truth.quirks == ())
    right = ReportedRecord(0, listed.site, listed.reference_id, "discovered")
    missing = ReportedRecord(0, listed.site, "no such listing", "discovered")
    assert agreement_on(demo.world, [right, missing], now).wrong == 1
    removed = ReportedRecord(0, listed.site, "no such listing", "removed")
    assert agreement_on(demo.world, [removed], now).gone == 1


@long
def test_each_day_of_its_history_agrees_with_its_world(demo):
    days, counts = demo.agreement_by_day(), demo.history.status_over_time(every="run")
    assert days["wrong"].tolist() == [0] * 16
    assert counts["total"].tolist() == (days["open"] + days["removed"]).tolist()
    assert counts["removed"].tolist() == days["removed"].tolist()
    assert counts["total"].iloc[-1] == len(demo.exposure.records())
    assert days["removed"].iloc[-1] > days["removed"].iloc[3] > 0
    assert demo.history.verify() == {}


@long
def test_a_default_demo_can_be_compared_with_two_weeks_ago(demo):
    first_day = demo.history.diff("14d")
    assert not first_day.is_first
    assert first_day.by_site["open_before"].sum() > 0


@long
def test_its_history_begins_before_anyone_is_registered(demo):
    """Each record is dated to within a day."""
    assert demo.history.runs()["listed"].iloc[0] == 0
    changes = demo.history.changes()
    assert not changes["left_censored"].any()
    assert changes["not_before"].notna().all()


@long
def test_its_tables_contain_every_status_and_event(demo):
    exposure = demo.exposure
    assert len(exposure.users()) == 6
    assert exposure.failures().empty
    alerts = exposure.alerts()
    happened = {"New record", "Opt-out submitted", "Removal verified", "Exposure found"}
    assert happened <= set(alerts["text"].str.partition(":")[0])
    assert set(exposure.records()["status"]) == {"discovered", "pending removal", "removed"}
    assert len(exposure.steps()) == alerts["opt_out_procedure"].list.len().sum()


@long
def test_its_integrator_receives_what_the_tables_contain(demo):
    demo.advance(days=1)  # every delivery window has closed by then
    received = demo.integrator.items
    assert demo.integrator.refused == 0
    assert received["new_alerts"] == len(demo.exposure.alerts())
    assert received["discovered_records"] == len(demo.exposure.records())
    assert received["discovered_links"] == len(demo.exposure.links())
    removals = demo.exposure.alerts()["text"].str.startswith("Removal verified")
    assert received["removed_records"] == removals.sum()


@long
def test_a_new_user_is_scanned_at_once(demo):
    user = demo.client.create_user(**demo.world.people[0].request(), asynchronous=False)
    assert not user.is_scanning
    assert user.records


def test_it_works_inside_a_running_loop():
    async def cell():
        with ek.demo(people=1, days=0) as demo:
            return len(demo.exposure.users())

    assert asyncio.run(cell()) == 1


def test_a_closed_demo_accepts_no_connections():
    demo = ek.demo(people=1, days=0)
    assert len(demo.exposure.users()) == 1
    demo.close()
    demo.close()
    with ek.Client(**demo.connection, retries=0) as late, pytest.raises(ek.ConnectionFailed):
        late.list_users()


def test_a_closed_demo_says_how_to_start_another():
    demo = ek.demo(people=1, days=0, progress=False)
    history = demo.history
    demo.close()
    for use in (
        lambda: demo.advance(days=1),
        demo.exposure.refresh,
        demo.client.list_users,
        demo.pending_events,
    ):
        with pytest.raises(ek.ExposureError, match=ENDED):
            use()
    assert "demo has ended" in repr(history)
    assert "demo has ended" in history._repr_html_()


ENDED = r"^This demo has ended: ek\.demo\(\) starts another$"
USES = (
    lambda history: history.records(),
    lambda history: history.ticks(),
    lambda history: history.diff("7d"),
    lambda history: history.label({"user_id": 1, "kind": "record", "key": 1}, "mine"),
    lambda history: history.rename_site("Seekfolk", "Seek Folk"),
    lambda history: history.declare_days({"Seekfolk": 7}),
    lambda history: history.ingest_deliveries([], "inbox"),
    lambda history: history.last_delivery("inbox"),
    lambda history: history.last_run(),
    lambda history: history.last_collected_at(),
    lambda history: history.pending_runs(),
    lambda history: history.finalize("monday"),
    lambda history: history.erase(1),
    lambda history: history.compact(),
    lambda history: history.verify(),
    lambda history: history.sync(),
    lambda history: history.lock("watch").__enter__(),
)


def test_a_closed_demo_neither_reads_nor_recreates_its_history():
    demo = ek.demo(people=1, days=0, progress=False)
    path, pinned = Path(demo.history.path), demo.history.pinned()
    demo.close()
    for history in (demo.history, pinned):
        for use in (*USES, lambda history: history.collect(demo.exposure, progress=False)):
            with pytest.raises(ek.NotFound, match=ENDED):
                use(history)
        assert "demo has ended" in repr(history)
    assert not path.exists()


COUNT_DIRECTORIES = """
import pathlib, sys
import exposurekit as ek
with ek.demo(people=1, days=0):
    print(len(list(pathlib.Path(sys.argv[1]).iterdir())))
"""


@long
def test_a_closed_demo_leaves_no_files(tmp_path):
    output = subprocess.run(
        [sys.executable, "-c", COUNT_DIRECTORIES, tmp_path],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert output == "3\n"  # its own directory, and two that DuckDB may spill into
    assert not list(tmp_path.iterdir())


def test_its_repr_contains_no_credentials(small):
    assert small.connection["api_secret"] not in repr(small)
    assert small.connection["api_key"] not in repr(small)


def test_people_that_are_no_number_raise_error():
    with pytest.raises(ek.InvalidArgument, match="whole number"):
        ek.demo(people="3")


def test_a_negative_number_of_people_raises_error():
    with pytest.raises(ek.InvalidArgument, match="zero or more"), ek.demo(people=-1):
        pass


@pytest.mark.parametrize("days", ["three", "-1d", None, True, float("nan")])
def test_other_durations_are_invalid_arguments(small, days):
    for call in (small.advance, lambda days: ek.demo(people=1, days=days)):
        with pytest.raises(ek.InvalidArgument, match="duration"):
            call(days)


@long
def test_durations_may_be_text_as_times_may():
    with ek.demo(people=1, days="1d", progress=False) as demo:
        assert demo.history.runs()["listed"].tolist() == [0, 1]
        before = demo.world.clock.now()
        demo.advance("36h", progress=False)
        assert demo.world.clock.now() - before == timedelta(hours=36)


def test_its_help_is_about_the_demo_alone(small):
    import pydoc

    assert "__getstate__" not in pydoc.render_doc(type(small))


def test_events_are_pending_until_a_webhook_carries_them(small):
    """A delivery groups ten minutes of events."""
    tables = small.exposure.records(), small.exposure.links(), small.exposure.alerts()
    assert small.pending_events() == sum(map(len, tables)) - sum(small.integrator.items.values()) > 0
    small.advance(days=0.1)
    assert small.pending_events() == 0


@long
def test_exposure_and_history_share_one_clock(small):
    for days in (0, 1, 0.5):
        before = small.world.clock.now()
        small.advance(days=days)
        assert small.world.clock.now() - before == timedelta(days=days)
        newest = small.history.runs()["finished_at"].max()
        assert pd.Timestamp(small.exposure.as_of) == newest == small.world.clock.now()
        day = f"{newest:%Y-%m-%d %H:%M} UTC"
        provenance = small.exposure.provenance
        assert f"as of {day}" in provenance
    reports = [
        ek.report(source, sections=["by_site"]).provenance["as of"]
        for source in (small.exposure, small.history)
    ]
    assert reports == [day] * 2
    chart = ek.charts.by_site(small.exposure.records().exposure.by_site(), provenance=provenance)
    assert f"as of {day}" in chart.layout.meta["provenance"]
    with pytest.raises(ek.InvalidArgument, match="does not go back"):
        small.advance(days=-1)
    before = small.history.records(as_of="1d")
    assert before["first_seen_at"].max() <= newest - pd.Timedelta(days=1)


@long
def test_one_run_is_collected_at_the_end_of_each_day():
    with ek.demo(people=2, days=2, progress=False) as demo:
        runs = demo.history.runs()
        assert runs["listed"].tolist() == [0, 2, 2]
        assert (runs["started_at"].diff().dropna() == timedelta(days=1)).all()
        demo.advance(days=1.5)
        assert demo.history.last_collected_at() == demo.world.clock.now()
        assert len(demo.history.runs()) == 5
        assert demo.history.verify() == {}


@long
def test_all_records_and_removals_have_true_evidence(demo, tmp_path):
    """Each record was listed when its evidence says so, and each removed one was gone."""
    from exposurekit.contract import evidence_bundle

    records = demo.exposure.records().set_index("record_id")
    demo.advance(days=1)  # the evidence until then has roots
    entries = []
    for user_id in records["user_id"].unique().tolist():
        demo.export_evidence(user_id, tmp_path / "bundle.zip")
        verified = evidence_bundle.verify((tmp_path / "bundle.zip").read_bytes())
        entries += [one.content for one in verified.entries]
    assert {*records.index} <= {one.record_id for one in entries if one.kind == "before"}
    removed = {*records.index[records["status"] == "removed"]}
    assert len(removed) > 5
    assert removed <= {one.record_id for one in entries if one.kind == "after"}
    names = demo.exposure.records().set_index("record_id")["name"]
    for one in entries:
        # Some sites delist within the instant: the clock stands still during a scan.
        moment = {"since": one.observed_at - timedelta(seconds=1), "until": one.observed_at}
        is_before = one.kind == "before"
        assert demo.world.was_listed(one.site, one.reference_id, **moment, listed=is_before), one
        assert all(page.text for page in one.pages)
        if is_before:
            assert names[one.record_id] in one.pages[0].text
