"""A simulated person in the guarded web: what they and the service remove together."""

from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from support.guarded_mail import Post

import exposurekit as ek
from exposurekit.client import Client
from exposurekit.errors import InvalidArgument
from exposurekit.sandbox.backend import Backend
from exposurekit.sandbox.simulated_person import SimulatedPerson
from exposurekit.sandbox.world.world import World
from exposurekit.service.clock import FrozenClock

START = datetime(2026, 1, 1, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=1, days=14, seed=5, web="guarded", progress=False) as demo:
        yield demo


@pytest.mark.long
def test_a_person_and_the_service_remove_together(demo):
    """The sandbox counts what a program has passed, and no site's form is sent by the service but one owner's two."""
    evaluation, counts, simulated_person = demo.agreement(), demo.world.guards.counts, demo.simulated_person
    assert (evaluation.precision, evaluation.verified_removed) == (1, evaluation.removed)
    assert evaluation.recall > 0.9
    assert evaluation.removed > 5
    assert [counts[f"{guard} machine"] for guard in ("wall", "puzzle")] == [0, 0]
    assert counts["puzzle person passed"] == sum(simulated_person.opt_outs.values()) > 2
    walled = {site.name for site in demo.world.guards.sites if site.walled}
    checked = sum(n for site, n in simulated_person.checked.items() if site in walled)
    assert counts["wall person passed"] == simulated_person.pages + checked
    assert simulated_person.pages > 30
    assert (counts["phishing followed"], counts["phishing"] > 0, counts["confirmed"] > 2) == (0, True, True)
    assert sum(simulated_person.minutes.values()) <= 14 * 60


@pytest.mark.long
@pytest.mark.parametrize("seed", [7, 27])
def test_a_redesigned_site_is_mended_from_saved_pages(tmp_path, seed):
    """The proposal of `sites mend` reads the new layout: a scan finds the listings, and the site is healthy.

    With the second seed a site shows nobody of the common name with two towns, but one of the service's people.
    """
    clock = FrozenClock(START)
    with ExitStack() as stack:
        world = stack.enter_context(World(6, seed=seed, clock=clock, web="guarded").running())
        backend = Backend(tmp_path, world)
        world.advance(days=61)  # five sites have another layout by now
        with Client(**backend.start(stack)) as client:
            backend.register(client, progress=False)
        backend.advance_to(clock.now() + timedelta(minutes=1))
        simulated_person = SimulatedPerson(backend, world)
        before = {name: site.listings for name, site in backend.definitions.items()}
        for _ in range(6):
            simulated_person.work()
            backend.advance_to(clock.now() + timedelta(days=1))
        changed = {name for name, site in backend.definitions.items() if site.listings != before[name]}
        redesigned = {site.name: site for site in world.guards.sites if site.redesigned_at}
        assert changed == {*simulated_person.mended}
        listing = {one.site for one in world.listings() if one.visible and one.person is not None}
        # A person saves the pages of a walled site; another one's layout fails the service if it lists somebody.
        assert changed == {name for name, site in redesigned.items() if site.walled or name in listing}
        assert not simulated_person.refused
        for name in changed:
            mended, site = backend.definitions[name], redesigned[name]
            assert mended.listings != site.definition_on(clock.now().date()).listings  # not the prepared one


@pytest.mark.long
def test_emails_spare_a_person_the_second_form(tmp_path):
    """An owner that forgets its message gets an email, by SMTP, and nobody sends its form again."""
    clock = FrozenClock(START)
    with ExitStack() as stack:
        post = Post(stack, tmp_path)
        world = stack.enter_context(World(1, seed=16, clock=clock, web="guarded", post=post).running())
        post.to_sites.deliver = world.receive_email
        backend = Backend(tmp_path, world, mail=post.settings)
        with Client(**backend.start(stack)) as client:
            backend.register(client, progress=False)
        simulated_person = SimulatedPerson(backend, world)
        for _ in range(24):
            backend.advance_to(clock.now() + timedelta(days=1))
            simulated_person.work()
        counts = world.guards.counts
        assert counts["forgotten"] > 0
        assert len(post.to_sites.envelopes) == counts["emails"] >= counts["forgotten"]
        assert (counts["emails refused"], counts["emails elsewhere"]) == (0, 0)
        owners = Counter((user, site[:5]) for user, site in simulated_person.opt_outs.elements())
        assert {n for (_, owner), n in owners.items() if owner == "Elder"} == {1}
        listed_at_first = [
            one for one in world.listings(START) if one.site.startswith("Elder") and one.visible
        ]
        assert not any(world.is_listed(*one.key) for one in listed_at_first if one.person is not None)
        assert (
            counts["puzzle machine passed"]
            == counts["wall machine passed"]
            == counts["phishing followed"]
            == 0
        )


def test_an_unknown_web_is_an_error():
    with pytest.raises(InvalidArgument, match="open, guarded"):
        ek.demo(people=0, web="wild")
