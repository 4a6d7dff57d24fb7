"""A demo is kept, and the next one is a copy: the same, going on the same way, and at once."""

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import date, timedelta
from zipfile import ZipFile

import pandas as pd
import pytest

import exposurekit as ek
from exposurekit.sandbox.cache import MAX_ENTRIES, DemoCache, cache_for
from exposurekit.sandbox.demo import _resume
from exposurekit.sandbox.world.webhook_receiver import Integrator

long = pytest.mark.long  # weeks pass
TODAY = date(2030, 1, 31)
COMPARED_COLUMNS = ["user_id", "site", "reference_id", "status"]
MAKING = {"people": "10", "days": "6", "seed": "3", "version": "0.1.0", "digest": "0" * 64}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A cache of these tests' own."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(directory))
        yield directory / "exposurekit" / "demos"


@pytest.fixture(scope="module")
def copies(cache):
    """One that was made, and one that was copied from it, both as they were then."""
    with ek.demo(people=10, days=6, seed=8) as original, ek.demo(people=10, days=6, seed=8) as copied:
        yield original, copied


def told_of(demo, *, but="Umbrella Kin"):
    """What somebody who looks sees, and what is so; but of a site whose answers a busy machine may miss."""
    records = demo.exposure.records()
    changes = demo.history.changes()
    names = ["seq", "seen_at", "user_id", "site", "status", "prev_status", "episode", "open_s", "not_before"]
    return {
        "records": sorted(
            records.loc[records["site"] != but, COMPARED_COLUMNS]
            .astype(str)
            .itertuples(index=False, name=None)
        ),
        "changes": sorted(
            changes.loc[(changes["kind"] == "record") & (changes["site"] != but), names]
            .astype(str)
            .itertuples(index=False, name=None)
        ),
        "days": demo.history.runs()["finished_at"].tolist(),
        "opt-outs": sorted(map(str, (one for one in demo.world.opt_outs if one.site != but))),
        "listings": [truth for truth in demo.world.listings() if truth.site != but],
        "now": demo.world.clock.now(),
    }


@long
def test_a_copy_is_what_was_made(copies):
    original, copied = copies
    assert copied.connection["api_key"] == original.connection["api_key"]  # it was not made anew
    assert told_of(copied) == told_of(original)
    for name in ("users", "records", "links", "alerts", "steps"):
        pd.testing.assert_frame_equal(getattr(copied.exposure, name)(), getattr(original.exposure, name)())
    assert copied.agreement() == original.agreement()
    pd.testing.assert_frame_equal(copied.agreement_by_day(), original.agreement_by_day())
    assert copied.integrator.items == original.integrator.items
    assert copied.integrator.deliveries == original.integrator.deliveries > 0
    assert copied.world.requests == original.world.requests


@long
def test_a_copy_goes_on_as_the_one_that_was_made(copies):
    before = told_of(copies[0])
    for one in copies:
        one.advance(days=3)  # a weekly scan is among them
    original, copied = copies
    after = told_of(original)
    assert told_of(copied) == after
    assert len(after["changes"]) > len(before["changes"])
    assert len(after["opt-outs"]) > len(before["opt-outs"])
    assert after["days"][-1] - before["days"][-1] == timedelta(days=3)
    assert copied.integrator.refused == 0
    assert copied.agreement_by_day()["wrong"].tolist() == [0] * 10
    assert copied.history.verify() == {}


@long
def test_what_a_copy_does_is_its_own(copies, cache):
    [file] = cache.iterdir()
    before = file.read_bytes()
    with ek.demo(people=10, days=6, seed=8) as another:
        assert len(another.history.runs()) == 7
        another.advance(days=1)
    assert file.read_bytes() == before


@long
def test_one_that_is_damaged_is_made_anew(copies, cache):
    [file] = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with ek.demo(people=10, days=6, seed=8) as anew:
        assert anew.connection["api_key"] != copies[0].connection["api_key"]
        assert len(anew.history.runs()) == 7
    [file] = cache.iterdir()
    with ZipFile(file) as mended:
        assert mended.testzip() is None


MADE_AT_ONCE = """
import exposurekit as ek
with ek.demo(people=10, days=5, seed=4) as demo:
    print(len(demo.history.runs()), demo.history.verify())
"""


@long
def test_two_processes_make_the_same_at_once(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", MADE_AT_ONCE]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate()[0] for process in running] == ["6 {}\n"] * 2
    [file] = (tmp_path / "exposurekit" / "demos").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def cache_with_entry(directory, *, day=TODAY, **making):
    """A shelf, and one thing on it."""
    shelf, part = DemoCache(directory / "demos", MAKING | making), directory / "part"
    part.mkdir(exist_ok=True)
    (part / "data").write_text("kept")
    shelf.put([part], {"began": "2030-01-25"}, day)
    return shelf


def test_what_is_kept_is_copied(tmp_path):
    shelf = cache_with_entry(tmp_path)
    [entry] = shelf.entries(TODAY)
    assert entry.file.name == "0.1.0-000000000000-10-people-6-days-3-seed-2030-01-31.demo"
    assert entry.unpack(tmp_path / "copy") == {"began": "2030-01-25"}
    assert (tmp_path / "copy" / "part" / "data").read_text() == "kept"
    assert shelf.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("days_ago", "count"), [(0, 1), (1, 1), (7, 1), (8, 0), (-1, 0)])
def test_what_was_made_within_the_week_is_found(tmp_path, days_ago, count):
    shelf = cache_with_entry(tmp_path, day=TODAY - timedelta(days=days_ago))
    assert len(list(shelf.entries(TODAY))) == count


def test_the_newest_is_found_first(tmp_path):
    cache_with_entry(tmp_path, day=TODAY - timedelta(days=2))
    newest, _ = cache_with_entry(tmp_path, day=TODAY - timedelta(days=1)).entries(TODAY)
    assert newest.file.name.endswith("2030-01-30.demo")


@pytest.mark.parametrize("name", sorted(MAKING))
def test_what_was_made_otherwise_is_not_found(tmp_path, name):
    assert not list(DemoCache(cache_with_entry(tmp_path).directory, MAKING | {name: "9"}).entries(TODAY))


def test_only_the_newest_are_kept(tmp_path):
    for seed in range(MAX_ENTRIES + 3):
        shelf = cache_with_entry(tmp_path, seed=str(seed))
        os.utime(next(shelf.entries(TODAY)).file, (seed, seed))
    cache_with_entry(tmp_path, seed="last")
    names = sorted(file.name.split("-")[6] for file in shelf.directory.iterdir())
    assert names == sorted([*map(str, range(4, MAX_ENTRIES + 3)), "last"])


def test_leftovers_of_killed_processes_go_and_files_in_use_stay(tmp_path):
    directory = cache_with_entry(tmp_path).directory
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, written = directory / f".a.demo.{ended.pid}.1", directory / f".a.demo.{os.getpid()}.1"
    left.touch()
    written.touch()
    cache_with_entry(tmp_path)
    assert (left.exists(), written.exists()) == (False, True)


def truncated(file):
    file.write_bytes(file.read_bytes()[:-10])


def emptied(file):
    file.write_bytes(b"")


def changed(file):
    file.write_bytes(file.read_bytes().replace(b"kept", b"Kept"))


def made_otherwise(file):
    with ZipFile(file, "w") as packed:
        packed.writestr("manifest.json", json.dumps({"parameters": {}, "state": {}}))


def without_a_past(file):
    with ZipFile(file, "w") as packed:
        packed.writestr(
            "manifest.json", json.dumps({"parameters": MAKING, "state": {"began": "2030-01-25T00:00+00:00"}})
        )


def foreign(file):
    file.write_bytes(b"not ours at all")


DAMAGES = (truncated, emptied, changed, made_otherwise, without_a_past, foreign)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_what_is_damaged_or_foreign_is_thrown_away(tmp_path, damage):
    [entry] = cache_with_entry(tmp_path).entries(TODAY)
    damage(entry.file)
    assert _resume(entry, 10, 3, False) is None
    assert not entry.file.exists()


def test_a_place_where_others_write_is_none(tmp_path):
    shelf = cache_with_entry(tmp_path)
    shelf.directory.chmod(0o777)
    assert not list(shelf.entries(TODAY))
    before = sorted(shelf.directory.iterdir())
    cache_with_entry(tmp_path, seed="9")
    assert sorted(shelf.directory.iterdir()) == before


def test_a_place_that_cannot_be_made_is_none(tmp_path):
    (tmp_path / "demos").write_text("in the way")
    assert not list(cache_with_entry(tmp_path).entries(TODAY))


def test_what_is_made_in_seconds_is_not_kept(cache):
    assert cache_for(people=2, days=3, seed=7) is None
    shelf = cache_for(people=25, days=90, seed=7)
    assert (shelf.directory, shelf.parameters["people"], shelf.parameters["days"]) == (cache, "25", "90")


def test_an_integrators_state_is_plain_json():
    """A cached demo restores the counts of its integrator."""
    integrator = Integrator("secret", deliveries=2, items=Counter(new_alerts=3))
    restored = Integrator.from_state(json.loads(json.dumps(integrator.saved_state())))
    assert restored == integrator
