"""A cache that returns nothing older than a minute."""

from exposurekit.system.brief_cache import CACHED_S, cached_briefly


def test_a_result_is_computed_once_a_minute():
    calls, now = [], [0.0]
    double = cached_briefly(lambda value: calls.append(value) or 2 * value, entries=2, clock=lambda: now[0])
    assert [double(value) for value in (1, 1, 2, 1, 2)] == [2, 2, 4, 2, 4]
    assert calls == [1, 2]
    now[0] = CACHED_S
    assert [double(1), double(1)] == [2, 2]
    assert calls == [1, 2, 1]


def test_only_the_latest_results_are_cached():
    calls = []
    double = cached_briefly(lambda value: calls.append(value) or 2 * value, entries=2)
    assert [double(value) for value in (1, 2, 3, 3, 1)] == [2, 4, 6, 6, 2]
    assert calls == [1, 2, 3, 1]
