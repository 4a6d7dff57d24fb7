"""Whether a call is repeated, and after how long. Nothing here sleeps."""

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exposurekit.client.retry import Response, RetryPolicy, TransportFailure, retry_after
from exposurekit.errors import InvalidArgument

BUSY = (429, 502, 503, 504)
WITHOUT_JITTER = RetryPolicy(initial_delay=0)


def wait(outcome, *, tries=1, repeatable=True, policy=WITHOUT_JITTER):
    return policy.wait_s(outcome, tries=tries, repeatable=repeatable)


def response(status, retry_after=None):
    return Response(status, {} if retry_after is None else {"retry-after": retry_after}, b"")


@pytest.mark.parametrize("status", BUSY)
def test_busy_response_is_retried_only_if_repeatable(status):
    assert wait(response(status)) == 0
    for retry_after_header in (None, "0", "1"):
        assert wait(response(status, retry_after_header), repeatable=False) is None


@pytest.mark.parametrize(
    "status", [200, 201, 204, 301, 302, 400, 401, 403, 404, 405, 413, 415, 422, 500, 501]
)
def test_other_responses_are_final(status):
    assert wait(response(status, "1")) is None


@pytest.mark.parametrize(
    ("lost", "repeatable", "unrepeatable"),
    [
        (TransportFailure.disconnected(), 0, None),
        (TransportFailure.timeout(), 0, None),
        (TransportFailure.too_large(), None, None),
        (TransportFailure.refused(), 0, 0),
        (TransportFailure.timeout(maybe_received=False), 0, 0),
    ],
)
def test_lost_response_is_retried_where_safe(lost, repeatable, unrepeatable):
    assert wait(lost) == repeatable
    assert wait(lost, repeatable=False) == unrepeatable


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_number_of_retries_is_limited(retries):
    policy = RetryPolicy(retries, initial_delay=0)
    waits = [wait(response(503), tries=tries, policy=policy) for tries in range(1, retries + 3)]
    assert waits == [0] * retries + [None, None]


@pytest.mark.parametrize("tries", range(1, 12))
def test_wait_doubles_with_full_jitter_up_to_the_maximum(tries):
    policy = RetryPolicy(max_retries=20, initial_delay=0.5, max_delay=7)
    most = min(7, 0.5 * 2 ** (tries - 1))
    waits = [wait(TransportFailure.disconnected(), tries=tries, policy=policy) for _ in range(400)]
    assert 0 <= min(waits) < 0.2 * most
    assert 0.8 * most < max(waits) <= most


@pytest.mark.parametrize(("header", "seconds"), [("0", 0), ("1", 1), (" 30 ", 30), ("60", 60), ("1.5", 2)])
def test_retry_after_in_seconds_is_honoured(header, seconds):
    assert wait(response(429, header), policy=RetryPolicy()) == seconds


def test_retry_after_as_a_date_is_honoured():
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert wait(response(503, at), policy=RetryPolicy()) == pytest.approx(30, abs=2)
    assert wait(response(503, "Wed, 21 Oct 2015 07:28:00 GMT"), policy=RetryPolicy()) == 0


@pytest.mark.parametrize(
    "header", ["61", "86400", "999999999", "9" * 20, "9" * 400, "Fri, 31 Dec 2999 23:59:59 GMT"]
)
def test_wait_beyond_the_maximum_ends_the_call(header):
    assert wait(response(429, header), policy=RetryPolicy(max_delay=60)) is None


@pytest.mark.parametrize(
    "header", ["", "soon", "-5", "١٢", "²", "NaN", "inf", "0x10", "Wed", "Wed, 99 Foo 2015"]
)
def test_invalid_retry_after_is_ignored(header):
    assert retry_after(header) is None
    assert 0 <= wait(response(429, header), policy=RetryPolicy(initial_delay=0.5)) <= 0.5


@given(
    st.text(max_size=60)
    | st.from_regex(r"\w{3}, \d{1,3} \w{3} \d{1,5} \d\d?:\d\d?:\d\d? [-+\w]{0,6}", fullmatch=True)
)
@example("Fri, 31 Dec 9999 23:59:59 -2359")
@example("Mon, 01 Jan 0001 00:00:00 +2359")
def test_any_retry_after_is_a_finite_wait_or_none(text):
    wait_s = retry_after(text)
    assert wait_s is None or (wait_s >= 0 and math.isfinite(wait_s))


@pytest.mark.parametrize("settings", [{"max_retries": -1}, {"initial_delay": -0.1}, {"max_delay": -1}])
def test_negative_settings_are_refused(settings):
    with pytest.raises(InvalidArgument, match="must be 0 or more"):
        RetryPolicy(**settings)


def test_repr_of_a_response_contains_only_status_and_size():
    assert repr(Response(200, {"x-name": "Juniper"}, b"Juniper")) == "Response(200, 7 bytes)"
