"""Expected removals: how many of some requests will succeed, with an interval."""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from exposurekit.errors import InvalidArgument

PRIOR = 2  # decided requests that a success rate is worth before any was decided: one granted, one not
_LEAST = 1e-300  # of a probability, for its logarithm
Floats = NDArray[np.float64]


def removal_interval(
    requests: Iterable[tuple[int, float, int]], *, level: float = 0.95
) -> tuple[float, int, int]:
    """How many of some requests are expected to succeed: the number, and its interval.

    A site's success rate is not known exactly, so the requests to one site succeed or fail together more often than by
    chance: their number is beta-binomial. Sites are independent of each other. A site that has decided on no request may
    grant any number of them, with equal chances.

    Args:
        requests: For each site: the number of requests, the success rate as in `success_rates` or `UNKNOWN_RATE`, and on
            how many requests the site has decided.
        level: Confidence level of the interval, between 0 and 1.

    Returns:
        The expected number, and the lower and upper end of the equal-tailed prediction interval.

    Raises:
        InvalidArgument: ``level`` is not between 0 and 1.

    Source: beta-binomial distribution of each site (posterior predictive of the rule of succession; Skellam, J. R. Stat.
    Soc. B 10 (1948), 257); their sum by convolution.

    >>> from exposurekit.analysis.expected_removals import removal_interval
    >>> removal_interval([(14, 0.5, 0)])
    (7.0, 0, 14)
    >>> removal_interval([(14, 0.5, 200)])
    (7.0, 3, 11)
    """
    if not 0 < level < 1:
        raise InvalidArgument("level must be between 0 and 1")
    sites = tuple(sorted((n, float(rate), decided) for n, rate, decided in requests if n))
    expected = float(sum(n * rate for n, rate, _ in sites))
    until = np.cumsum(_probabilities(sites))
    tail = (1 - level) / 2
    low, high = (int(np.searchsorted(until, part * until[-1])) for part in (tail, 1 - tail))
    return expected, low, high


def success_rate(granted: int, decided: int) -> float:
    """The expected share of requests that a site grants, of which it granted some: the rule of succession.

    >>> from exposurekit.analysis.expected_removals import success_rate
    >>> success_rate(0, 0), success_rate(0, 8)
    (0.5, 0.1)
    """
    return (granted + 1) / (decided + PRIOR)


@lru_cache(32)
def _probabilities(sites: tuple[tuple[int, float, int], ...]) -> Floats:
    """The probability of each number of successes, from none to all."""
    if len(sites) < 2:  # noqa: PLR2004  nothing to add
        return _of_site(*sites[0]) if sites else np.ones(1)
    most = sum(n for n, *_ in sites)
    size = 2 ** most.bit_length()  # a transform is fastest at a power of two
    product = np.ones(size // 2 + 1, "complex128")
    for site in sites:
        product *= np.fft.rfft(_of_site(*site), size)
    return np.clip(np.fft.irfft(product, size)[: most + 1], 0.0, None)


def _of_site(n: int, rate: float, decided: int) -> Floats:
    """The beta-binomial probabilities of none to all of n."""
    granted, refused = (part * (decided + PRIOR) for part in (rate, 1 - rate))
    done = np.arange(n, dtype="float64")
    left = n - done
    steps = left / (done + 1) * (done + granted) / np.maximum(left - 1 + refused, _LEAST)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.maximum(steps, _LEAST)))])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum(), "float64")
