"""The watch: collections at an interval, after failures, and of users named by webhooks."""

import json
import logging
import os
import stat
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from support import faults
from support.watches import EVERY, KEY, PEOPLE, SECRET, START, a_scene

from exposurekit.errors import ConfigurationError, NotFound
from exposurekit.history import History
from exposurekit.history.storage.delta import HistoryLocked
from exposurekit.monitor.notifications.notifier import Notifier
from exposurekit.monitor.notifications.outbox import NotificationOutbox
from exposurekit.monitor.notifications.rules import parse_rules
from exposurekit.monitor.status import WatchStatus, read
from exposurekit.monitor.watch import HINT_DELAY

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
FAULTS = (faults.LoseReply(), faults.server_error(), faults.refused(401), faults.html_page())


@pytest.fixture
def scene(tmp_path):
    with a_scene(tmp_path / "history") as scene:
        yield scene


@pytest.fixture
def inbox(scene):
    store = scene.open_inbox()
    yield store
    store.close()


def about(user_id):
    return json.dumps({"user_id": user_id, "events": []}).encode()


def scopes(scene):
    runs = scene.history.runs()
    return runs.loc[runs["origin"] == "collect", "scope"].tolist()


def set_fault(scene, fault):
    scene.fleet.fault = fault


def test_it_collects_at_once_and_then_at_its_interval(scene):
    scene.watch(scene.report, EVERY - SECOND, SECOND, EVERY - MINUTE, MINUTE).run()
    assert scene.fleet.hours() == [0, 6, 12]
    assert scopes(scene) == ["everyone"] * 3
    assert sorted(scene.fleet.user_ids[:5]) == list(PEOPLE)
    assert scene.waited == [60, 1, 60, 60, 60]
    assert scene.history.verify() == {}
    [waiting] = scene.statuses
    assert (waiting["state"], waiting["alive"], waiting["problem"]) == ("waiting", True, None)
    assert (waiting["pid"], waiting["every_s"]) == (os.getpid(), 6 * 3600)
    assert datetime.fromisoformat(waiting["next_run_at"]) == START + EVERY
    assert (waiting["last_run"]["whole"], waiting["last_run"]["failed"]) == (len(PEOPLE), 0)
    assert (scene.status()["state"], scene.status()["problem"]) == ("stopped", "it was stopped")


def test_the_first_run_is_due_at_once(scene):
    def ticking():
        scene.clock.advance(timedelta(microseconds=1))
        return scene.clock.now()

    scene.watch(clock=ticking).run()
    assert len(scene.fleet.listed_at) == 1


def test_a_restarted_watch_continues_from_the_history(scene):
    scene.watch(HOUR).run()
    scene.watch(EVERY - HOUR - SECOND, SECOND).run()
    assert scene.fleet.hours() == [0, 6]
    scene.clock.advance(3 * EVERY)
    scene.watch(HOUR).run()
    assert scene.fleet.hours() == [0, 6, 24]


def test_runs_of_other_processes_count(scene):
    collect = partial(scene.history.collect, scene.exposure, progress=False)
    scene.watch(4 * HOUR, collect, 2 * HOUR, 4 * HOUR).run()
    assert scene.fleet.hours() == [0, 4, 10]


def test_a_watch_stopped_while_idle_runs_no_more(scene):
    def stop():
        watch.stop()

    watch = scene.watch(stop, EVERY)
    watch.run()
    assert scene.fleet.hours() == [0]


AGES = timedelta(days=4 * 365)


def test_a_clock_that_jumped_ahead_does_not_stop_the_watch(scene, caplog):
    steps = (HOUR, AGES, -AGES, scene.report, EVERY)
    scene.watch(*steps).run()
    scene.watch(EVERY, scene.report).run()  # nor another watch
    ages = AGES / HOUR
    assert scene.fleet.hours() == [0, ages + 1, 7, 13]
    for status in scene.statuses:
        assert status["problem"].startswith("the clock went back: the history has a run of 2030-03-01T07:00")
        assert "continue with a copy of the history from before that run" in status["problem"]
    assert datetime.fromisoformat(scene.statuses[0]["next_run_at"]) == START + EVERY
    assert caplog.text.count("the clock went back") == 2  # once by each watch


def test_a_failure_under_a_fast_clock_is_not_postponed(scene):
    def ahead():
        scene.clock.advance(AGES)
        set_fault(scene, faults.server_error())

    scene.watch(HOUR, ahead, MINUTE, partial(set_fault, scene, None), -AGES, EVERY - HOUR, EVERY).run()
    assert [hour for hour in scene.fleet.hours() if hour < AGES / HOUR] == [0, 6 + 1 / 60, 12 + 1 / 60]
    assert scene.status()["problem"] == "it was stopped"
    assert scene.status()["run_ahead_at"] is None


def test_a_small_clock_correction_is_no_problem(scene):
    problems = []
    scene.watch(-30 * SECOND, lambda: problems.append(scene.status()["problem"])).run()
    assert problems == [None]


def test_hints_received_under_a_fast_clock_are_processed(scene, inbox):
    def come():
        scene.clock.advance(EVERY - MINUTE)
        inbox.put("msg_1", about(2))

    scene.watch(come, SECOND, -HOUR, HINT_DELAY, inbox=inbox).run()
    assert scopes(scene) == ["everyone", "some"]


def test_a_failed_run_is_retried_with_growing_delays(scene):
    def report():
        scene.report()
        scene.fleet.fault = FAULTS[len(scene.statuses) % len(FAULTS)]

    scene.fleet.fault = FAULTS[0]
    steps = [step for minutes in (1, 2, 4, 8, 16) for step in (report, minutes * MINUTE - SECOND, SECOND)]
    steps += [report, 20 * MINUTE - SECOND, partial(set_fault, scene, None), SECOND, report]
    scene.watch(*steps, every=20 * MINUTE).run()
    minutes = [(at - START) / MINUTE for at in scene.fleet.listed_at]
    assert minutes == [0, 1, 3, 7, 15, 31, 51]
    assert [one["failures_in_a_row"] for one in scene.statuses] == [1, 2, 3, 4, 5, 6, 0]
    assert scene.statuses[5]["problem"].startswith("the last 6 collections failed: List users failed")
    assert not scene.statuses[5]["problem"].endswith(".")
    assert (scene.statuses[6]["problem"], scene.statuses[6]["last_run"]["whole"]) == (None, len(PEOPLE))
    assert datetime.fromisoformat(scene.statuses[6]["next_run_at"]) == START + 71 * MINUTE
    assert scopes(scene) == ["everyone"]
    for secret in (KEY, SECRET, scene.base_url, scene.base_url.removeprefix("http://")):
        assert secret not in json.dumps(scene.statuses)


def test_users_that_fail_to_load_do_not_fail_the_run(scene):
    scene.fleet.user_faults[3] = faults.server_error()
    scene.watch().run()
    status = scene.status()
    assert (status["last_run"]["whole"], status["last_run"]["failed"]) == (len(PEOPLE) - 1, 1)
    assert status["failures_in_a_row"] == 0


def test_a_damaged_history_does_not_end_the_watch(scene, caplog):
    def damage():
        for file in (scene.directory / "changes").rglob("*.parquet"):
            file.unlink()

    caplog.set_level(logging.WARNING, "exposurekit")  # the line of the start has the path
    scene.watch(damage, EVERY, scene.report, MINUTE).run()
    assert scene.fleet.hours()[:2] == [0, 6]
    assert scene.statuses[0]["failures_in_a_row"] == 1
    for text in (json.dumps(scene.statuses), caplog.text):
        assert str(scene.directory) not in text


def test_a_watch_of_a_damaged_history_starts(scene):
    scene.history.collect(scene.exposure, progress=False)
    for file in (scene.directory / "runs").rglob("*.parquet"):
        file.unlink()
    with History(scene.directory, clock=scene.clock.now) as scene.history:
        scene.watch(scene.report).run()
    assert scene.statuses[0]["failures_in_a_row"] == 1


def test_a_watch_of_another_service_ends_at_its_start(scene):
    """No retry would mend it."""
    with a_scene(scene.directory.parent / "other", integration_name="other") as other:
        scene.history.collect(other.exposure, progress=False)
    opened = []

    @contextmanager
    def receiving():
        opened.append("receiver")
        yield

    with pytest.raises(ConfigurationError, match=r"from another service or integrator.*collect --moved once"):
        scene.watch(EVERY).run(receiving())
    assert (scene.fleet.hours(), scene.waited, opened) == ([], [], [])
    scene.history.collect(scene.exposure, progress=False, moved=True)
    scene.watch(EVERY).run(receiving())
    assert (scene.fleet.hours(), opened) == ([0, 6], ["receiver"])


def test_rules_that_a_new_history_cannot_answer_are_logged(scene, caplog):
    """The outbox remembers the runs of a history that was replaced."""
    rules = parse_rules("send_to: {team: 'json://127.0.0.1:9'}\nrules: [{when: new, send: team}]")
    notifier = Notifier(
        rules, NotificationOutbox(scene.directory.parent / "notifications.db"), scene.clock.now
    )
    with History(scene.directory.parent / "former", clock=scene.clock.now) as former:
        former.collect(scene.exposure, progress=False)
        notifier.on_new_run(former)
    scene.clock.advance(EVERY)
    scene.watch(EVERY, notifier=notifier).run()
    assert "the notification rules could not be evaluated: Nothing was observed by then" in caplog.text


def test_an_unwritable_status_file_does_not_end_the_watch(scene):
    (scene.directory / "watch.json").mkdir(parents=True)
    scene.watch(EVERY).run()
    assert scene.fleet.hours() == [0, 6]


def test_a_second_watch_of_the_same_history_raises_error(scene):
    opened = []

    @contextmanager
    def beside():
        opened.append("second")
        yield

    def second():
        before = (scene.directory / "watch.json").read_bytes()
        with pytest.raises(HistoryLocked, match="already watches with this history"):
            scene.watch().run(beside())
        assert (scene.directory / "watch.json").read_bytes() == before

    scene.watch(second, EVERY).run(nullcontext())
    assert scene.fleet.hours() == [0, 6]
    assert opened == []


def test_users_named_by_webhooks_are_collected_again_and_no_others(scene, inbox):
    def come():
        scene.fleet.user_ids.clear()
        inbox.put_all([("msg_1", about(2)), ("msg_2", about(4)), ("msg_3", about(999))])

    scene.watch(come, 10 * SECOND, scene.report, HINT_DELAY, inbox=inbox).run()
    assert sorted(scene.fleet.user_ids) == [2, 4]
    assert scopes(scene) == ["everyone", "some"]
    assert (
        scene.statuses[0]["ingested"],
        scene.statuses[0]["inbox"]["quarantined"],
        scene.statuses[0]["inbox"]["waiting"],
    ) == (3, 0, 0)
    assert datetime.fromisoformat(scene.statuses[0]["next_run_at"]) == START + EVERY
    status = scene.status()
    assert [status[name]["whole"] for name in ("last_run", "last_reload")] == [len(PEOPLE), 2]
    assert max(scene.waited) <= 10
    assert scene.history.verify() == {}


def test_users_named_within_two_minutes_are_collected_together(scene, inbox):
    begun = []
    first, second = (partial(inbox.put, None, about(user_id)) for user_id in (2, 4))
    steps = (first, 10 * SECOND, second, HINT_DELAY - SECOND, lambda: begun.extend(scopes(scene)), SECOND)
    scene.watch(*steps, inbox=inbox).run()
    assert begun == ["everyone"]
    assert scopes(scene) == ["everyone", "some"]
    assert sorted(scene.fleet.user_ids[len(PEOPLE) :]) == [2, 4]
    assert len(scene.fleet.listed_at) == 2


def test_hints_after_a_run_wait_their_own_two_minutes(scene, inbox):
    def come():
        inbox.put(None, about(len(scopes(scene))))

    scene.watch(*[come, 10 * SECOND, HINT_DELAY, come, HINT_DELAY, MINUTE, MINUTE], inbox=inbox).run()
    assert [(at - START) / SECOND for at in scene.fleet.listed_at] == [0, 130, 370]
    assert scopes(scene) == ["everyone", "some", "some"]


def test_an_unreadable_delivery_is_quarantined_and_the_watch_continues(scene, inbox):
    inbox.put_all([("msg_1", b"Quillfeather?"), ("msg_2", about(3))])
    scene.watch(10 * SECOND, EVERY, inbox=inbox).run()
    assert scopes(scene) == ["everyone"] * 2  # which include user 3
    status = scene.status()
    assert (status["ingested"], status["inbox"]["quarantined"]) == (1, 1)
    scene.watch(inbox=inbox).run()  # a restart
    status = scene.status()
    assert (status["ingested"], status["inbox"]["quarantined"]) == (1, 1)
    assert "Quillfeather" not in json.dumps(status)


def test_a_failed_partial_run_is_retried_for_those_users_only(scene, inbox):
    def come():
        scene.fleet.user_ids.clear()
        inbox.put("msg_1", about(2))
        set_fault(scene, faults.server_error())

    def mend():
        assert scene.status()["failures_in_a_row"] == 1
        set_fault(scene, None)

    steps = (come, 10 * SECOND, HINT_DELAY, mend, 50 * SECOND, 10 * SECOND)
    scene.watch(*steps, inbox=inbox).run()
    assert scene.fleet.user_ids == [2]
    assert scopes(scene) == ["everyone", "some"]
    assert len(scene.fleet.listed_at) == 3
    assert scene.status()["failures_in_a_row"] == 0


def test_an_unusable_inbox_stops_no_run_and_is_logged_once(scene, inbox, caplog):
    scene.inbox.write_bytes(b"not a database" * 100)

    def mend():
        scene.report()
        scene.inbox.unlink()

    steps = (EVERY - MINUTE, MINUTE, EVERY, mend, 10 * SECOND, scene.report)
    scene.watch(*steps, inbox=inbox).run()
    assert scene.fleet.hours() == [0, 6, 12]
    assert scene.statuses[0]["problem"].startswith("the inbox could not be processed: ")
    assert (scene.statuses[0]["failures_in_a_row"], scene.statuses[0]["inbox"]) == (0, None)
    assert scene.statuses[1]["problem"] is None
    assert caplog.text.count("could not be processed") == 1


@pytest.fixture
def status_file(tmp_path):
    return WatchStatus(tmp_path / "watch.json")


def test_the_status_of_an_ended_process_is_a_problem(status_file):
    """Another process may have got its number."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        status_file.start(process.pid, START, EVERY)
    status = read(status_file.path)
    assert (status["alive"], status["problem"]) == (False, "its process ended")
    status_file.start(os.getpid(), START, EVERY)
    value = json.loads(status_file.path.read_text())
    assert read(status_file.path)["alive"]
    status_file.path.write_text(json.dumps(value | {"process_start": "12"}))
    assert read(status_file.path)["problem"] == "its process ended"


def test_an_outdated_status_is_a_problem_except_while_collecting(status_file):
    status_file.start(os.getpid(), START, EVERY)
    value = json.loads(status_file.path.read_text())

    def problem(hours, **fields):
        written_at = (datetime.now(UTC) + hours * HOUR).isoformat()
        status_file.path.write_text(json.dumps(value | {"written_at": written_at, **fields}))
        return read(status_file.path)["problem"]

    assert problem(-1).startswith("it has not updated its status for 36")
    assert problem(-1, state="collecting") is None
    assert problem(1).startswith("the clock went back: ")


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"state": "waiting", "pid": "x"}', "\xff"])
def test_a_foreign_status_file_is_an_error_with_a_remedy(tmp_path, content):
    (tmp_path / "watch.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"watch\.json is not a status file\. Remove it: ") as error:
        read(tmp_path / "watch.json")
    assert error.value.__context__ is None


def test_a_missing_or_unreadable_status_file_is_an_error(tmp_path):
    with pytest.raises(NotFound):
        read(tmp_path / "watch.json")
    (tmp_path / "watch.json").mkdir()
    with pytest.raises(ConfigurationError, match=r"watch\.json cannot be read: Is a directory"):
        read(tmp_path / "watch.json")


def test_the_status_file_is_private_and_follows_no_symlink(tmp_path, status_file):
    other = tmp_path / "other"
    other.write_text("another's")
    for name in (f".watch.json.{os.getpid()}", ".watch.json.0123456789abcdef"):
        (tmp_path / name).symlink_to(other)
    status_file.start(os.getpid(), START, EVERY)
    assert stat.S_IMODE(status_file.path.stat().st_mode) == 0o600
    assert {file.name for file in tmp_path.iterdir()} == {"other", "watch.json"}
    (tmp_path / f".watch.json.{os.getpid()}").symlink_to(other)
    status_file.stop(START)
    assert other.read_text() == "another's"
    assert read(status_file.path)["state"] == "stopped"


def test_due_reports_are_written_after_each_step(scene):
    seen = []
    scene.watch(EVERY, EVERY, write_reports=lambda: seen.append(len(scene.history.runs()))).run()
    assert seen[0] == 1
    assert seen == sorted(seen)
    assert seen[-1] == 3
