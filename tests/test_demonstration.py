"""The demo: real, seeded, and gone when it ends."""

import asyncio
import os
import subprocess
import sys

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


LOOKED_AT = """
import pathlib, sys
import exposurekit as ek
with ek.demo(people=1):
    print(len(list(pathlib.Path(sys.argv[1]).iterdir())))
"""


def test_nothing_of_it_is_left(tmp_path):
    said = subprocess.run(
        [sys.executable, "-c", LOOKED_AT, tmp_path],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said == "1\n"
    assert not list(tmp_path.iterdir())


def test_its_repr_shows_no_credentials(demo):
    assert demo.connection["api_secret"] not in repr(demo)
    assert demo.connection["api_key"] not in repr(demo)


def test_a_negative_number_of_people_is_refused():
    with pytest.raises(ek.Misconfigured, match="zero or more"), ek.demo(people=-1):
        pass
