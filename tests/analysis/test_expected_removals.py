"""Expected removals: exact for a few requests, and right so many times in 100."""

from math import comb

import numpy as np
import pytest

from exposurekit.analysis.expected_removals import _probabilities, removal_interval, success_rate
from exposurekit.errors import InvalidArgument


def test_interval_of_a_site_never_asked_has_every_number():
    """Unknown is not zero, and not a half for sure: each number of removals is as likely."""
    assert removal_interval([(14, success_rate(0, 0), 0)]) == (7.0, 0, 14)
    assert _probabilities(((14, 0.5, 0),)) == pytest.approx([1 / 15] * 15)


def test_chances_are_those_of_the_rule_of_succession():
    """After 0 of 2 granted requests, the rate has the density 3 (1 - p)²: of 2 more, none is granted in 3/5 of all cases."""
    assert _probabilities(((2, success_rate(0, 2), 2),)) == pytest.approx([3 / 5, 3 / 10, 1 / 10])


@pytest.mark.parametrize(
    "sites", [((3, 0.5, 0), (2, 0.25, 2)), ((1, 0.5, 0), (1, 0.5, 0), (5, 0.9, 8)), ((40, 0.75, 30),)]
)
def test_sum_over_sites_has_the_moments_of_its_parts(sites):
    chances = _probabilities(tuple(sorted(sites)))
    n = np.arange(len(chances))
    mean = sum(requests * rate for requests, rate, _ in sites)
    parts = ((n, rate, decided + 2) for n, rate, decided in sites)
    variance = sum(n * rate * (1 - rate) * (k + n) / (k + 1) for n, rate, k in parts)
    assert len(chances) == 1 + sum(requests for requests, *_ in sites)
    assert chances.sum() == pytest.approx(1)
    assert chances @ n == pytest.approx(mean)
    assert chances @ (n - mean) ** 2 == pytest.approx(variance)


def test_well_known_rate_leaves_the_chance_of_a_binomial():
    n, rate = 12, 0.5
    exact = [comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
    assert _probabilities(((n, rate, 10**9),)) == pytest.approx(exact, rel=1e-5)


def test_interval_holds_so_often_as_it_says():
    rng = np.random.default_rng(7)
    sites = [(6, 0.5, 0), (9, 0.2, 3), (20, 0.9, 48)]
    rates = [rng.beta(rate * (n + 2), (1 - rate) * (n + 2), 20_000) for _, rate, n in sites]
    removed = sum(rng.binomial(requests, one) for (requests, *_), one in zip(sites, rates, strict=True))
    for level in (0.5, 0.95):
        _, low, high = removal_interval(sites, level=level)
        assert level <= np.mean((low <= removed) & (removed <= high)) < level + 0.1 * (2 - level)
        assert np.mean(removed < low) <= (1 - level) / 2 + 0.005
        assert np.mean(removed > high) <= (1 - level) / 2 + 0.005


def test_no_request_removes_nothing():
    assert removal_interval([]) == removal_interval([(0, 0.5, 3)]) == (0.0, 0, 0)


def test_rates_that_are_certain_have_no_interval():
    assert removal_interval([(3, 1.0, 0), (4, 0.0, 5)]) == (3.0, 3, 3)


def test_wrong_level_raises_error():
    with pytest.raises(InvalidArgument):
        removal_interval([], level=1)
