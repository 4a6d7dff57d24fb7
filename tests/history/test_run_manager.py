"""A collection that Ctrl-C stops says whether anything was kept, without the frames of the request."""

import itertools
import traceback
from dataclasses import dataclass
from datetime import timedelta

import pytest
from crash.collector_scenes import BEFORE, Canned
from support.histories import DAWN, Clock, Person, Service, seen_through

from exposurekit.errors import ConfigurationError, InvalidArgument, LoadStopped
from exposurekit.history import History


@dataclass(frozen=True)
class Stopped(Canned):
    """A load that Ctrl-C stops after some batches of two people."""

    batches: int = 0

    def iter_batches(self, **words):
        yield from itertools.islice(super().iter_batches(**words), self.batches)
        raise KeyboardInterrupt


NOBODY = "nobody was loaded"
CONTINUES = "what was loaded is kept, and the next collect continues from there"


@pytest.mark.parametrize(("batches", "message"), [(0, NOBODY), (1, CONTINUES)])
def test_ctrl_c_in_a_collection_says_what_was_kept(tmp_path, batches, message):
    with History(tmp_path / "history") as history:
        with pytest.raises(LoadStopped) as stopped:
            history.collect(Stopped(BEFORE, batches=batches), progress=False)
        assert str(stopped.value) == message
        assert "iter_batches" not in "".join(traceback.format_exception(stopped.value))
        assert stopped.value._render_traceback_() == [f"Stopped: {stopped.value}"]
        assert history.collect(Canned(BEFORE), progress=False).people["whole"] == len(BEFORE)


@pytest.mark.parametrize(
    ("options", "continuation"),
    [
        ({"only": [1, 2, 3]}, "the next collect adds it to the history, without the rest"),
        ({"only": [1, 2, 3], "run": "tuesday"}, "a collect of the same run continues from there"),
    ],
)
def test_what_is_kept_of_some_people_is_said_truly(tmp_path, options, continuation):
    everyone = {1, 2, 3}
    with History(tmp_path / "history") as history:
        with pytest.raises(LoadStopped) as stopped:
            history.collect(Stopped(BEFORE, batches=1), progress=False, **options)
        assert str(stopped.value) == f"what was loaded is kept, and {continuation}"
        [pending] = history.pending_runs()
        assert str(pending) == f"run {pending.run}: interrupted; {continuation}"
        run = history.collect(Canned(BEFORE), progress=False, **options)
        assert run.people["whole"] == len(everyone)
        first = history.runs().iloc[0]
        loaded = 2 if "run" not in options else len(everyone)
        assert (first["run"], first["whole"]) == (pending.run, loaded)


def test_people_of_another_waiting_run_are_not_those_kept(tmp_path):
    with History(tmp_path / "history") as history:
        with pytest.raises(LoadStopped):
            history.collect(Stopped(BEFORE, batches=1), progress=False, run="tuesday")
        with pytest.raises(LoadStopped, match=NOBODY):
            history.collect(Stopped(BEFORE, batches=0), progress=False)


@pytest.mark.parametrize(("seconds", "duration"), [(4.2, "4.2 s"), (200, "3 min 20 s")])
def test_the_summary_of_a_run_ends_with_its_duration(tmp_path, seconds, duration):
    clock = Clock()
    clock.set(DAWN, DAWN + timedelta(seconds=seconds))
    service = Service({1: Person()})
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        run = history.collect(exposure)
        assert str(run) == f"run {run.run}: 1 person loaded in full, 1 registered, in {duration}"
        assert str(history.last_run()) == str(run)


PRODUCTION = "https://api.example.com · acme"


@pytest.mark.parametrize(
    "other",
    [
        "https://staging.example.com · acme",
        "https://api.example.com · other",
        "http://127.0.0.1:8000 · acme",
        "simulated service with invented people · demo",
    ],
)
def test_a_history_refuses_another_service_unless_it_moved(tmp_path, other):
    with History(tmp_path / "history") as history:
        history.collect(Canned(BEFORE, origin=PRODUCTION), progress=False)
        for options in ({}, {"only": [1]}, {"run": "monday"}):
            with pytest.raises(ConfigurationError, match="was collected from another service or integrator"):
                history.collect(Canned(BEFORE, origin=other), progress=False, **options)
        assert len(history.runs()) == 1
        assert history.pending_runs() == []
        history.collect(Canned(BEFORE, origin=other), progress=False, moved=True)
        history.collect(Canned(BEFORE, origin=other), progress=False)
        assert history.runs()["source"].tolist() == [PRODUCTION, other, other]


def test_a_stopped_collection_is_not_continued_from_another_service(tmp_path):
    with History(tmp_path / "history") as history:
        with pytest.raises(LoadStopped):
            history.collect(Stopped(BEFORE, batches=1, origin=PRODUCTION), progress=False)
        with pytest.raises(ConfigurationError, match="was collected from another service"):
            history.collect(Canned(BEFORE), progress=False)
        run = history.collect(Canned(BEFORE, origin="https://API.example.com/ · acme"), progress=False)
        assert run.people["whole"] == len(BEFORE)


STAGING = "https://staging.example.com · acme"


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        (None, [PRODUCTION, STAGING, STAGING]),  # the next collection ends the run that was stopped
        ("tuesday", [STAGING, STAGING]),  # waits until somebody finalizes it
    ],
)
def test_a_move_is_passed_once_after_a_stopped_run(tmp_path, name, sources):
    with History(tmp_path / "history") as history:
        with pytest.raises(LoadStopped):
            history.collect(Stopped(BEFORE, batches=1, origin=PRODUCTION), progress=False, run=name)
        history.collect(Canned(BEFORE, origin=STAGING), progress=False, moved=True)
        history.collect(Canned(BEFORE, origin=STAGING), progress=False)
        assert history.runs()["source"].tolist() == sources
        assert set(history.runs()["whole"].tolist()[-2:]) == {len(BEFORE)}
        with pytest.raises(ConfigurationError):
            history.collect(Canned(BEFORE, origin=PRODUCTION), progress=False)


def test_a_run_from_before_a_move_may_be_finalized(tmp_path):
    with History(tmp_path / "history") as history:
        with pytest.raises(LoadStopped):
            history.collect(Stopped(BEFORE, batches=1, origin=PRODUCTION), progress=False, run="tuesday")
        history.collect(Canned(BEFORE, origin=STAGING), progress=False, moved=True)
        history.finalize("tuesday")
        history.collect(Canned(BEFORE, origin=STAGING), progress=False)
        assert history.runs()["source"].tolist() == [STAGING, PRODUCTION, STAGING]


def test_a_named_run_is_not_continued_from_another_service(tmp_path):
    with History(tmp_path / "history") as history:
        with pytest.raises(LoadStopped):
            history.collect(Stopped(BEFORE, batches=1, origin=PRODUCTION), progress=False, run="tuesday")
        with pytest.raises(InvalidArgument, match="or from another service: choose another name"):
            history.collect(Canned(BEFORE, origin=STAGING), progress=False, run="tuesday", moved=True)
        run = history.collect(Canned(BEFORE, origin=PRODUCTION), progress=False, run="tuesday")
        assert run.people["whole"] == len(BEFORE)


def test_one_shard_of_a_moved_run_passes_the_move(tmp_path):
    with History(tmp_path / "history") as history:
        history.collect(Canned(BEFORE, origin=PRODUCTION), progress=False)
        for shard, moved in (("1/2", True), ("2/2", False)):
            service = Canned(BEFORE, origin=STAGING)
            run = history.collect(service, progress=False, run="monday", shard=shard, moved=moved)
        assert run.people["whole"] == len(BEFORE)


def test_a_service_on_this_machine_may_have_another_port(tmp_path):
    with History(tmp_path / "history") as history:
        for port in (8000, 8001):
            history.collect(Canned(BEFORE, origin=f"http://127.0.0.1:{port} · acme"), progress=False)
        assert len(history.runs()) == 2
