"""A simulated person in the guarded web: what they and the service remove together."""

import pytest

import exposurekit as ek
from exposurekit.errors import InvalidArgument


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=1, days=14, seed=5, web="guarded", progress=False) as demo:
        yield demo


@pytest.mark.long
def test_a_person_and_the_service_remove_together(demo):
    """The sandbox counts what a program has passed, and no site's form is sent by the service but one owner's two."""
    evaluation, counts, volunteer = demo.agreement(), demo.world.guards.counts, demo.volunteer
    assert (evaluation.precision, evaluation.verified_removed) == (1, evaluation.removed)
    assert evaluation.recall > 0.9
    assert evaluation.removed > 5
    assert [counts[f"{guard} machine"] for guard in ("wall", "puzzle")] == [0, 0]
    assert counts["puzzle person passed"] == sum(volunteer.opt_outs.values()) > 2
    assert counts["wall person passed"] == volunteer.pages > 30
    assert (counts["phishing followed"], counts["phishing"] > 0, counts["confirmed"] > 2) == (0, True, True)
    assert sum(volunteer.minutes.values()) <= 14 * 60


def test_an_unknown_web_is_an_error():
    with pytest.raises(InvalidArgument, match="open, guarded"):
        ek.demo(people=0, web="wild")
