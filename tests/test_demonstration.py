"""The demo: real, seeded, and gone when it ends."""

import asyncio
from pathlib import Path

import pytest

import exposurekit as ek
from exposurekit.service.world.people import invent
from exposurekit.service.world.stories import story_of


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=12, seed=5) as demo:
        yield demo


def test_the_records_agree_with_what_the_stories_say(demo):
    stories = [story_of(person, 5) for person in invent(12, 5)]
    expected = sorted(
        (finding.site.name, finding.reference_id, finding.status) for s in stories for finding in s.findings
    )
    records = demo.exposure.records()
    assert sorted(zip(records["site"], records["reference_id"], records["status"], strict=True)) == expected
    assert len(demo.exposure.links()) == sum(len(story.links) for story in stories)


def test_everyone_is_loaded_whole(demo):
    assert len(demo.exposure.users()) == 12
    assert demo.exposure.failures().empty


def test_a_step_stands_for_each_line_of_each_procedure(demo):
    alerts = demo.exposure.alerts()
    assert len(demo.exposure.steps()) == alerts["opt_out_procedure"].list.len().sum()


def test_it_works_inside_a_running_loop():
    async def cell():
        with ek.demo(people=1) as small:
            return len(small.exposure.users())

    assert asyncio.run(cell()) == 1


def test_it_is_a_value_too_and_ends_when_it_is_closed():
    small = ek.demo(people=1)
    assert len(small.exposure.users()) == 1
    small.close()
    small.close()
    with ek.Client(**small.connection, retries=0) as late, pytest.raises(ek.Unreached):
        late.list_users()


def test_nothing_of_it_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with ek.demo(people=1) as small:
        assert list(Path(tmp_path).iterdir())
        client = small.client
    assert not list(Path(tmp_path).iterdir())
    with ek.Client(**small.connection, retries=0) as late, pytest.raises(ek.Unreached):
        late.list_users()
    client.close()


def test_its_repr_shows_no_credentials(demo):
    assert demo.connection["api_secret"] not in repr(demo)
    assert demo.connection["api_key"] not in repr(demo)


def test_a_negative_number_of_people_is_refused():
    with pytest.raises(ek.Misconfigured, match="zero or more"), ek.demo(people=-1):
        pass
