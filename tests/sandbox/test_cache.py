"""The demo cache: a cached demo equals the original and continues in the same way."""

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
from exposurekit.sandbox.cache import MAX_ENTRIES, TOTAL_BYTES_MAX, DemoCache, cache_for
from exposurekit.sandbox.demo import _resume
from exposurekit.sandbox.world.webhook_receiver import Integrator

long = pytest.mark.long  # days are simulated
TODAY = date(2030, 1, 31)
PARAMETERS = {"people": "10", "days": "6", "seed": "3", "version": "0.1.0", "digest": "0" * 64}
LIMIT = "exposurekit.sandbox.cache.MIN_PERSON_DAYS"
SMALL = {"people": 4, "days": 6, "seed": 10}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", str(directory))
        yield directory / "exposurekit" / "demos"


def cached_demo():
    """A demo that is cached although it is small."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LIMIT, 1)
        return ek.demo(**SMALL)


@pytest.fixture(scope="module")
def demos(cache):
    """A new demo, its copy from the cache, and the state of the new one before any time passes."""
    with cached_demo() as original, cached_demo() as copied:
        yield original, copied, state_of(original)


def state_of(demo, *, excluded="Umbrella Kin"):
    """Tables and truth of a demo, without a site whose responses time out on a busy machine."""
    records, changes = demo.exposure.records(), demo.history.changes()
    record_columns = ["user_id", "site", "reference_id", "status"]
    columns = ["seq", "user_id", "site", "status", "prev_status", "episode", "open_s"]

    def rows(table, names):
        selected = table.loc[table["site"] != excluded, names].astype(str)
        return sorted(selected.itertuples(index=False, name=None))

    return {
        "records": rows(records, record_columns),
        "changes": rows(changes[changes["kind"] == "record"], columns),
        "opt-outs": sorted(one[:2] + one[3:] for one in demo.world.opt_outs if one.site != excluded),
    }


def times_of(demo):
    changes = demo.history.changes()[["seen_at", "not_before"]].drop_duplicates()
    ends = demo.history.runs()["finished_at"].tolist()
    return sorted(changes.astype(str).itertuples(index=False, name=None)), ends, demo.world.clock.now()


@long
def test_a_cached_demo_equals_the_original(demos):
    original, copied, state = demos
    assert copied.connection["api_key"] == original.connection["api_key"]  # not a new demo
    assert (state_of(copied), times_of(copied)) == (state, times_of(original))
    assert copied.world.listings() == original.world.listings()
    for name in ("users", "records", "links", "alerts", "steps"):
        pd.testing.assert_frame_equal(getattr(copied.exposure, name)(), getattr(original.exposure, name)())
    assert copied.agreement() == original.agreement()
    pd.testing.assert_frame_equal(copied.agreement_by_day(), original.agreement_by_day())
    assert copied.integrator.items == original.integrator.items
    assert copied.integrator.deliveries == original.integrator.deliveries > 0
    assert copied.world.requests == original.world.requests


@long
def test_a_cached_demo_continues_as_the_original_does(demos, cache):
    original, copied, before = demos
    [file] = cache.iterdir()
    content, [*_, last] = file.read_bytes(), times_of(original)
    days = 2  # includes a weekly scan; whether that finds anything depends on the date
    for one in (original, copied):
        one.advance(days=days)
    while len((after := state_of(original))["opt-outs"]) == len(before["opt-outs"]) and days < 30:
        days += 1
        for one in (original, copied):
            one.advance(days=1)
    assert (state_of(copied), times_of(copied)) == (after, times_of(original))
    assert len(after["changes"]) > len(before["changes"])
    assert len(after["opt-outs"]) > len(before["opt-outs"])
    assert original.world.clock.now() - last == timedelta(days=days)
    assert copied.integrator.refused == 0
    assert copied.agreement_by_day()["wrong"].tolist() == [0] * (7 + days)
    assert copied.history.verify() == {}
    assert file.read_bytes() == content


@long
def test_a_damaged_entry_is_replaced_by_an_equal_demo(demos, cache):
    """The same seed gives the same demo."""
    original, _, state = demos
    [file] = cache.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with cached_demo() as new:
        assert new.connection["api_key"] != original.connection["api_key"]
        assert len(new.history.runs()) == 7
        # Which of two sister sites is asked to remove both listings depends on which is scanned first.
        assert state_of(new)["records"] == state["records"]
    [file] = cache.iterdir()
    with ZipFile(file) as replaced:
        assert replaced.testzip() is None


CREATE = """
import exposurekit as ek
from exposurekit.sandbox import cache
cache.MIN_PERSON_DAYS = 1
with ek.demo(people=2, days=1, seed=4) as demo:
    print(len(demo.history.runs()), demo.history.verify())
"""


@long
def test_two_processes_may_create_the_same_demo_concurrently(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", CREATE]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate()[0] for process in running] == ["2 {}\n"] * 2
    [file] = (tmp_path / "exposurekit" / "demos").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def cache_with_entry(directory, *, day=TODAY, **parameters):
    demos, part = DemoCache(directory / "demos", PARAMETERS | parameters), directory / "part"
    part.mkdir(exist_ok=True)
    (part / "data").write_text("data")
    demos.put([part], {"began": "2030-01-25"}, day)
    return demos


def test_an_entry_is_unpacked_with_its_state(tmp_path):
    demos = cache_with_entry(tmp_path)
    [entry] = demos.entries(TODAY)
    assert entry.file.name == "0.1.0-000000000000-10-people-6-days-3-seed-2030-01-31.demo"
    assert entry.unpack(tmp_path / "copy") == {"began": "2030-01-25"}
    assert (tmp_path / "copy" / "part" / "data").read_text() == "data"
    assert demos.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("days_ago", "count"), [(0, 1), (1, 1), (7, 1), (8, 0), (-1, 0)])
def test_entries_of_the_last_week_are_used(tmp_path, days_ago, count):
    demos = cache_with_entry(tmp_path, day=TODAY - timedelta(days=days_ago))
    assert len(list(demos.entries(TODAY))) == count


def test_the_newest_entry_comes_first(tmp_path):
    cache_with_entry(tmp_path, day=TODAY - timedelta(days=2))
    newest, _ = cache_with_entry(tmp_path, day=TODAY - timedelta(days=1)).entries(TODAY)
    assert newest.file.name.endswith("2030-01-30.demo")


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_entries_with_other_parameters_are_ignored(tmp_path, name):
    other = DemoCache(cache_with_entry(tmp_path).directory, PARAMETERS | {name: "9"})
    assert not list(other.entries(TODAY))


def test_the_least_recently_used_entries_are_deleted(tmp_path):
    for seed in range(MAX_ENTRIES + 3):
        demos = cache_with_entry(tmp_path, seed=str(seed))
        os.utime(next(demos.entries(TODAY)).file, (seed, seed))
    cache_with_entry(tmp_path, seed="last")
    names = sorted(file.name.split("-")[6] for file in demos.directory.iterdir())
    assert names == sorted([*map(str, range(4, MAX_ENTRIES + 3)), "last"])


def test_the_entries_together_have_a_limited_size(tmp_path):
    for seed in range(3):
        demos = cache_with_entry(tmp_path, seed=str(seed))
        file = next(demos.entries(TODAY)).file
        os.truncate(file, TOTAL_BYTES_MAX // 3 + (seed == 1))
        os.utime(file, (3 - seed, 3 - seed))  # the last one was used least recently
    cache_with_entry(tmp_path, seed="new")
    names = sorted(file.name.split("-")[6] for file in demos.directory.iterdir())
    assert names == ["0", "1", "new"]
    assert sum(file.stat().st_size for file in demos.directory.iterdir()) <= TOTAL_BYTES_MAX
    cache_with_entry(tmp_path, seed="newer")
    assert len([*demos.directory.iterdir()]) == 4  # small ones fit beside them


def test_only_drafts_of_ended_processes_are_deleted(tmp_path):
    directory = cache_with_entry(tmp_path).directory
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    abandoned, in_use = directory / f".a.demo.{ended.pid}.1", directory / f".a.demo.{os.getpid()}.1"
    abandoned.touch()
    in_use.touch()
    cache_with_entry(tmp_path)
    assert (abandoned.exists(), in_use.exists()) == (False, True)


def with_manifest(parameters, state):
    def damage(file):
        with ZipFile(file, "w") as archive:
            archive.writestr("manifest.json", json.dumps({"parameters": parameters, "state": state}))

    return damage


DAMAGES = {
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-10]),
    "empty": lambda file: file.write_bytes(b""),
    "changed": lambda file: file.write_bytes(file.read_bytes().replace(b"data", b"Data")),
    "other parameters": with_manifest({}, {}),
    "without a history": with_manifest(PARAMETERS, {"began": "2030-01-25T00:00+00:00"}),
    "foreign": lambda file: file.write_bytes(b"not ours at all"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_or_foreign_entry_is_deleted(tmp_path, name):
    [entry] = cache_with_entry(tmp_path).entries(TODAY)
    DAMAGES[name](entry.file)
    assert _resume(entry, 10, 3, False) is None
    assert not entry.file.exists()


def test_a_directory_writable_by_others_is_not_used(tmp_path):
    demos = cache_with_entry(tmp_path)
    demos.directory.chmod(0o777)
    assert not list(demos.entries(TODAY))
    before = sorted(demos.directory.iterdir())
    cache_with_entry(tmp_path, seed="9")
    assert sorted(demos.directory.iterdir()) == before


def test_a_directory_that_cannot_be_created_is_no_error(tmp_path):
    (tmp_path / "demos").write_text("in the way")
    assert not list(cache_with_entry(tmp_path).entries(TODAY))


def test_small_demos_are_not_cached(cache):
    assert cache_for(people=2, days=3, seed=7) is None
    demos = cache_for(people=25, days=90, seed=7)
    assert (demos.directory, demos.parameters["people"], demos.parameters["days"]) == (cache, "25", "90")


def test_an_integrators_state_is_plain_json():
    integrator = Integrator("secret", deliveries=2, items=Counter(new_alerts=3))
    assert Integrator.from_state(json.loads(json.dumps(integrator.saved_state()))) == integrator
