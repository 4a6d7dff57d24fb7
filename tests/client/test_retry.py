"""When a call is made again, and after how long. Decided on plain values: nothing here sleeps."""

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


def wait(outcome, *, tries=1, repeatable=True, patience=WITHOUT_JITTER):
    return patience.wait_s(outcome, tries=tries, repeatable=repeatable)


def answer(status, retry_after=None):
    return Response(status, {} if retry_after is None else {"retry-after": retry_after}, b"")


@pytest.mark.parametrize("status", BUSY)
def test_a_busy_service_is_asked_again(status):
    assert wait(answer(status)) == 0


@pytest.mark.parametrize(
    "status", [200, 201, 204, 301, 302, 400, 401, 403, 404, 405, 413, 415, 422, 500, 501]
)
def test_any_other_answer_is_final(status):
    assert wait(answer(status, "1")) is None


@pytest.mark.parametrize("status", BUSY)
@pytest.mark.parametrize("retry_after_header", [None, "0", "1"])
def test_a_response_to_an_unrepeatable_call_is_final(status, retry_after_header):
    assert wait(answer(status, retry_after_header), repeatable=False) is None


@pytest.mark.parametrize("lost", [TransportFailure.disconnected(), TransportFailure.timeout()])
def test_a_lost_response_is_retried_only_where_repeatable(lost):
    assert wait(lost) == 0
    assert wait(lost, repeatable=False) is None


def test_a_response_that_is_too_large_is_not_retried():
    assert wait(TransportFailure.too_large()) is None


@pytest.mark.parametrize("lost", [TransportFailure.refused(), TransportFailure.timeout(maybe_received=False)])
def test_what_was_never_sent_may_always_be_sent(lost):
    assert wait(lost, repeatable=False) == 0


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_there_are_as_many_retries_as_were_asked_for(retries):
    patience = RetryPolicy(retries, initial_delay=0)
    waits = [wait(answer(503), tries=tries, patience=patience) for tries in range(1, retries + 3)]
    assert waits == [0] * retries + [None, None]


@pytest.mark.parametrize("tries", range(1, 12))
def test_the_wait_doubles_with_full_jitter_up_to_the_longest(tries):
    patience = RetryPolicy(max_retries=20, initial_delay=0.5, max_delay=7)
    most = min(7, 0.5 * 2 ** (tries - 1))
    waits = [wait(TransportFailure.disconnected(), tries=tries, patience=patience) for _ in range(400)]
    assert 0 <= min(waits) < 0.2 * most
    assert 0.8 * most < max(waits) <= most


@pytest.mark.parametrize(("header", "seconds"), [("0", 0), ("1", 1), (" 30 ", 30), ("60", 60), ("1.5", 2)])
def test_retry_after_in_seconds_is_honoured_to_the_second(header, seconds):
    assert wait(answer(429, header), patience=RetryPolicy()) == seconds


def test_retry_after_as_a_date_is_honoured():
    at = datetime.now(UTC) + timedelta(seconds=30)
    assert wait(answer(503, format_datetime(at, usegmt=True)), patience=RetryPolicy()) == pytest.approx(
        30, abs=2
    )


def test_a_date_that_has_passed_asks_for_no_wait():
    assert wait(answer(503, "Wed, 21 Oct 2015 07:28:00 GMT"), patience=RetryPolicy()) == 0


@pytest.mark.parametrize(
    "header", ["61", "86400", "999999999", "9" * 20, "9" * 400, "Fri, 31 Dec 2999 23:59:59 GMT"]
)
def test_a_wait_longer_than_patience_ends_the_call(header):
    assert wait(answer(429, header), patience=RetryPolicy(max_delay=60)) is None


@pytest.mark.parametrize(
    "header", ["", "soon", "-5", "١٢", "²", "NaN", "inf", "0x10", "Wed", "Wed, 99 Foo 2015"]
)
def test_an_invalid_retry_after_counts_as_none(header):
    assert retry_after(header) is None
    assert 0 <= wait(answer(429, header), patience=RetryPolicy(initial_delay=0.5)) <= 0.5


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
def test_patience_below_zero_is_refused(settings):
    with pytest.raises(InvalidArgument, match="must be 0 or more"):
        RetryPolicy(**settings)


def test_an_answer_shows_its_status_and_size_alone():
    assert repr(Response(200, {"x-name": "Juniper"}, b"Juniper")) == "Response(200, 7 bytes)"
