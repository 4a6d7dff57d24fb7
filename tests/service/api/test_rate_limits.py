"""Rate limits: too many requests or failed authentications get 429; valid credentials are never locked out."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from support.services import JANE, START, Service, a_service, at_work, stored_in

from exposurekit.service.accounts import integrators
from exposurekit.service.api import rate_limits
from exposurekit.service.api.rate_limits import BURST_S, Limits, RateLimiter, SharedCounts
from exposurekit.service.clock import FrozenClock
from exposurekit.service.errors import ApiError

FEW = Limits(requests_per_second=1, refusals_per_minute=3)
ME, OTHER_KEY, OTHER_ADDRESS = "key 192.0.2.1", "other 192.0.2.1", "key 192.0.2.2"


@pytest.fixture(scope="module", autouse=True)
def clock() -> Iterator[FrozenClock]:
    """The clock of the limits."""
    clock = FrozenClock(START)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rate_limits, "monotonic", lambda: clock.now().timestamp())
        yield clock


@pytest.fixture
def limiter():
    return RateLimiter(FEW)


def error_of(function, *arguments):
    with pytest.raises(ApiError) as caught:
        function(*arguments)
    return caught.value.status, str(caught.value), caught.value.retry_after_s


def request(limiter, who=ME, times=BURST_S):
    for _ in range(times):
        limiter.check(who)


def fail(limiter, who=ME, times=3, status=401):
    for _ in range(times):
        limiter.check(who)
        limiter.count_error(who, who.partition(" ")[2], status)


def test_a_key_with_too_many_requests_must_wait(limiter, clock):
    """A limited request does not extend the wait, which ends when the window ends."""
    request(limiter, times=1)
    clock.advance(timedelta(seconds=2))
    request(limiter, times=BURST_S - 1)
    for _ in range(3):
        assert error_of(limiter.check, ME) == (429, "too many requests", BURST_S - 2)
    clock.advance(timedelta(seconds=BURST_S - 2))
    limiter.check(ME)


def test_a_key_with_too_many_failures_must_wait(limiter, clock):
    fail(limiter, times=1)
    clock.advance(timedelta(seconds=2))
    fail(limiter, times=2)
    assert error_of(fail, limiter) == (429, "too many failed authentications", 58)
    limiter.check(ME)
    clock.advance(timedelta(seconds=58))
    fail(limiter)


@pytest.mark.parametrize("other", [OTHER_KEY, OTHER_ADDRESS])
@pytest.mark.parametrize("trouble", [request, fail])
def test_other_keys_and_addresses_are_not_limited(limiter, trouble, other):
    trouble(limiter)
    assert error_of(trouble, limiter)[0] == 429
    fail(limiter, other, times=1)


@pytest.mark.parametrize("status", [400, 404, 413, 429])
def test_only_a_401_counts_as_a_failure(status):
    limiter = RateLimiter(Limits(requests_per_second=2, refusals_per_minute=3))
    fail(limiter, times=15, status=status)
    limiter.check(ME)


def test_changing_keys_have_ten_times_the_limit(limiter):
    for number in range(30):
        fail(limiter, f"made-up-{number} 192.0.2.1", times=1)
    for who in (ME, OTHER_KEY):
        assert error_of(fail, limiter, who) == (429, "too many failed authentications", 60)
    fail(limiter, OTHER_ADDRESS, times=1)


def test_expired_keys_are_deleted(limiter, clock):
    """Anyone can invent keys: memory must not grow with them."""
    for number in range(1000):
        limiter.check(f"made-up-{number} 192.0.2.1")
    clock.advance(timedelta(seconds=BURST_S + 1))
    limiter.check(ME)
    assert [*limiter._requests._counts] == [ME]


def test_invented_keys_beyond_the_limit_take_no_memory(limiter):
    for number in range(1000):
        with suppress(ApiError):
            fail(limiter, f"made-up-{number} 192.0.2.1", times=1)
    assert len(limiter._failures._counts) == 30


def shared_limiters(processes=2):
    """One limiter a process, with memory that they share."""
    memory = memoryview(bytearray(8 * SharedCounts.words(processes))).cast("Q")
    return [RateLimiter(FEW, SharedCounts(memory, process)) for process in range(processes)], memory


def test_processes_share_the_limits(clock):
    (one, other), _ = shared_limiters()
    clock.advance(timedelta(seconds=3))
    for number in range(BURST_S):
        (one, other)[number % 2].check(ME)
    for limiter in (one, other):
        assert error_of(limiter.check, ME) == (429, "too many requests", BURST_S)
        limiter.check(OTHER_KEY)
    for _ in range(FEW.refusals_per_minute):
        one.count_error(ME, "192.0.2.1", 401)
    assert error_of(other.count_error, ME, "192.0.2.1", 401)[:2] == (429, "too many failed authentications")
    clock.advance(timedelta(seconds=BURST_S))
    request(other)
    assert error_of(one.check, ME)[0] == 429


def test_a_process_that_replaces_another_continues_its_counts():
    (one, other), memory = shared_limiters()
    request(one, times=4)
    request(other, times=3)
    again = RateLimiter(FEW, SharedCounts(memory, 0))
    request(again, times=3)
    assert error_of(again.check, ME)[0] == 429


def test_invented_keys_do_not_end_the_limits_of_processes():
    """Beyond the room that there is, each process counts for itself: the limit is twice as high, and there is one."""
    (one, other), memory = shared_limiters()
    for index in range(2, len(memory), 2):
        memory[index] = 1 << 32 | 1  # every entry is taken in this window
    for limiter in (one, other):
        request(limiter)
        assert error_of(limiter.check, ME)[0] == 429


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    with stored_in("sqlite"), a_service(tmp_path_factory.mktemp("limited"), limits=FEW) as service:
        yield service


@pytest.fixture
def api(limited, clock):
    """The service in a new window."""
    clock.advance(timedelta(minutes=2))
    return limited


def list_users(service: Service, *, name=None, key=None, secret=None, headers=None):
    credentials = service.credentials
    name, key = name or credentials.integration_name, key or credentials.api_key
    params = {"api_secret": secret or credentials.api_secret}
    return service.http.get(f"{service.base_url}/api/{name}/{key}/v2/users", params=params, headers=headers)


def test_a_burst_gets_429_with_retry_after(api):
    """Not in the specification, "statuses": 429."""
    other = replace(api, credentials=at_work(api.database, lambda work: integrators.add(work, "beta")))
    before = list_users(other).json()
    responses = [list_users(api) for _ in range(BURST_S + 2)]
    assert [response.status_code for response in responses] == [200] * BURST_S + [429] * 2
    assert "retry-after" not in responses[0].headers
    assert responses[-1].json() == {"error": "too many requests"}
    assert responses[-1].headers["retry-after"] == str(BURST_S)
    assert api.call("POST", "/users", json=JANE).status_code == 429  # creates no user
    assert list_users(other).json() == before


@pytest.mark.parametrize("wrong", [{"secret": "wrong"}, {"name": "nobody"}])
def test_failures_with_a_key_do_not_block_its_owner(api, wrong):
    """The key is in every URL: whoever sees one must not be able to lock its integrator out."""
    responses = [list_users(api, **wrong) for _ in range(4)]
    assert [response.status_code for response in responses] == [401] * 3 + [429]
    assert responses[-1].headers["retry-after"] == "60"
    assert list_users(api).status_code == 200
    assert list_users(api, key="another").status_code == 401


def test_changing_keys_do_not_block_a_valid_key(api):
    """An address that invents keys is limited, whatever X-Forwarded-For says; valid keys are not counted."""
    assert {list_users(api).status_code for _ in range(BURST_S - 1)} == {200}
    headers = {"x-forwarded-for": "192.0.2.7"}
    codes = {list_users(api, key=f"made-up-{number}", headers=headers).status_code for number in range(30)}
    assert codes == {401}
    response = list_users(api, key="another", headers={"x-forwarded-for": "192.0.2.8"})
    assert response.status_code == 429
    assert response.json() == {"error": "too many failed authentications"}
    assert response.headers["retry-after"] == "60"
    assert list_users(api).status_code == 200


def test_a_wrong_user_secret_counts_as_a_failure(api):
    created = api.call("POST", "/users", json=JANE).json()["user"]
    wrong = created | {"secret": "1" * 18}
    codes = [api.call("GET", f"/users/{created['id']}", wrong).status_code for _ in range(4)]
    assert codes == [401, 401, 401, 429]


def test_a_service_without_limits_never_responds_with_429(tmp_path):
    with stored_in("sqlite"), a_service(tmp_path) as service:
        assert {list_users(service, secret="wrong").status_code for _ in range(30)} == {401}
