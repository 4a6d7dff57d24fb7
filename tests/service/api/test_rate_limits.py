"""Rate limits: too many requests and too many failed authentications get 429; right credentials are never locked out."""

import time
from dataclasses import dataclass

import pytest
from limits import RateLimitItemPerSecond
from support.services import JANE, a_service, stored_in

from exposurekit.service.api.rate_limits import BURST_S, Limits, RateLimiter
from exposurekit.service.errors import ApiError

FEW = Limits(requests_per_second=1, refusals_per_minute=3)
ME, OTHER_KEY, OTHER_PLACE = "key 192.0.2.1", "other 192.0.2.1", "key 192.0.2.2"


def refusal(gatekeeper, who=ME):
    with pytest.raises(ApiError) as refused:
        gatekeeper.check(who)
    return refused.value


def refusal_of_a_failure(gatekeeper, who=ME):
    gatekeeper.check(who)
    with pytest.raises(ApiError) as refused:
        gatekeeper.count_error(who, who.partition(" ")[2], 401)
    return refused.value


def storm(gatekeeper, who=ME, times=BURST_S):
    for _ in range(times):
        gatekeeper.check(who)


def fail(gatekeeper, who=ME, times=3, status=401):
    for _ in range(times):
        gatekeeper.check(who)
        gatekeeper.count_error(who, who.partition(" ")[2], status)


def test_a_key_that_storms_is_told_how_long_to_wait():
    """429 with Retry-After for a key that storms."""
    gatekeeper = RateLimiter(FEW)
    storm(gatekeeper)
    error = refusal(gatekeeper)
    assert (error.status, str(error)) == (429, "too many requests")
    assert 1 <= error.retry_after_s <= BURST_S


def test_a_key_refused_repeatedly_must_wait():
    """And for repeated 401s."""
    gatekeeper = RateLimiter(FEW)
    fail(gatekeeper)
    error = refusal_of_a_failure(gatekeeper)
    assert (error.status, str(error)) == (429, "too many failed authentications")
    assert 1 <= error.retry_after_s <= 60
    gatekeeper.check(ME)


@pytest.mark.parametrize("other", [OTHER_KEY, OTHER_PLACE])
@pytest.mark.parametrize(("trouble", "refused"), [(storm, refusal), (fail, refusal_of_a_failure)])
def test_another_key_and_another_address_are_untouched(trouble, refused, other):
    gatekeeper = RateLimiter(FEW)
    trouble(gatekeeper)
    refused(gatekeeper)
    fail(gatekeeper, other, times=1)


@pytest.mark.parametrize("status", [400, 404, 413, 429])
def test_only_a_401_is_counted_as_one(status):
    gatekeeper = RateLimiter(Limits(requests_per_second=2, refusals_per_minute=3))
    fail(gatekeeper, times=15, status=status)
    gatekeeper.check(ME)


def test_changing_keys_have_ten_times_the_limit():
    gatekeeper = RateLimiter(FEW)
    for number in range(30):
        fail(gatekeeper, f"made-up-{number} 192.0.2.1", times=1)
    for who in (ME, OTHER_KEY):
        error = refusal_of_a_failure(gatekeeper, who)
        assert (error.status, str(error)) == (429, "too many failed authentications")
        assert 1 <= error.retry_after_s <= 60
    fail(gatekeeper, OTHER_PLACE, times=1)


def test_below_the_limits_nobody_waits():
    gatekeeper = RateLimiter(FEW)
    fail(gatekeeper, times=2)
    storm(gatekeeper, times=BURST_S - 2)
    assert refusal(gatekeeper)


def test_a_limited_request_does_not_lengthen_the_wait():
    gatekeeper = RateLimiter(FEW)
    storm(gatekeeper)
    first = end_of(gatekeeper, gatekeeper._requests, "requests")
    for _ in range(50):
        refusal(gatekeeper)
    assert end_of(gatekeeper, gatekeeper._requests, "requests") == first


def end_of(gatekeeper, item, kind):
    return gatekeeper._window.get_window_stats(item, kind, ME).reset_time


def test_the_wait_ends_when_the_oldest_leaves_the_window():
    """Whoever waits as long as was told is let in again."""
    gatekeeper = RateLimiter(FEW)
    began = time.time()
    storm(gatekeeper, times=1)
    gatekeeper.count_error(ME, "192.0.2.1", 401)
    between = time.time()
    storm(gatekeeper, times=BURST_S - 1)
    for item, kind, seconds in (
        (gatekeeper._requests, "requests", BURST_S),
        (gatekeeper._failures, "refusals", 60),
    ):
        assert began + seconds <= end_of(gatekeeper, item, kind) <= between + seconds
    assert gatekeeper._window.get_window_stats(gatekeeper._requests, "requests", ME).remaining == 0
    assert gatekeeper._window.get_window_stats(gatekeeper._failures, "refusals", ME).remaining == 2


class Hasty(RateLimiter):
    """The same gatekeeper with shorter windows: nobody waits a minute for a test."""

    def __init__(self, limits):
        super().__init__(limits)
        self._requests = RateLimitItemPerSecond(limits.requests_per_second, 1)
        self._failures = RateLimitItemPerSecond(limits.refusals_per_minute, 1)


@pytest.fixture(scope="module")
def a_window_later():
    """A gatekeeper that a moment ago had enough of somebody, and heard a thousand keys that were made up."""
    gatekeeper = Hasty(Limits(requests_per_second=3, refusals_per_minute=2))
    for number in range(1000):
        gatekeeper.check(f"made-up-{number} 192.0.2.1")
    storm(gatekeeper, times=3)
    fail(gatekeeper, OTHER_KEY, times=2)
    refusals = (refusal(gatekeeper), refusal_of_a_failure(gatekeeper, OTHER_KEY))
    assert [refused.retry_after_s for refused in refusals] == [1, 1]
    time.sleep(1.01)
    return gatekeeper


def test_after_the_window_everybody_is_let_in_again(a_window_later):
    a_window_later.check(ME)
    fail(a_window_later, OTHER_KEY, times=1)


def test_a_key_that_is_not_heard_of_again_is_forgotten(a_window_later):
    """Anybody can make up keys: what is counted must not grow with them."""
    storage = a_window_later._window.storage
    storage._MemoryStorage__expire_events()  # what its timer does
    assert not [key for key in (*storage.storage, *storage.events) if "made-up" in key]


# --- over HTTP -------------------------------------------------------------------------------------------


@dataclass
class Caller:
    service: object

    def ask(self, *, name=None, key=None, secret=None):
        credentials = self.service.credentials
        name, key = name or credentials.integration_name, key or credentials.api_key
        url = f"{self.service.base_url}/api/{name}/{key}/v2/users"
        return self.service.http.get(url, params={"api_secret": secret or credentials.api_secret})


@pytest.fixture
def limited_api(tmp_path):
    with stored_in("sqlite"), a_service(tmp_path, limits=FEW) as service:
        yield Caller(service)


def test_a_burst_gets_429_and_retry_after(limited_api):
    """Not in the specification, "statuses": 429."""
    answers = [limited_api.ask() for _ in range(BURST_S + 2)]
    assert [answer.status_code for answer in answers] == [200] * BURST_S + [429] * 2
    assert answers[-1].json() == {"error": "too many requests"}
    assert 1 <= int(answers[-1].headers["retry-after"]) <= BURST_S


@pytest.mark.parametrize("wrong", [{"secret": "wrong"}, {"name": "nobody"}])
def test_failures_with_a_key_do_not_block_its_owner(limited_api, wrong):
    """The key is in every URL: whoever sees one must not be able to lock its integrator out."""
    answers = [limited_api.ask(**wrong) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [401] * 3 + [429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert limited_api.ask().status_code == 200
    assert limited_api.ask(key="another").status_code == 401


def test_bursts_of_changing_keys_do_not_block_an_accepted_key(limited_api):
    """Whoever tries keys learns after thirty of them nothing any more; whoever has one does not notice."""
    codes = [limited_api.ask(key=f"made-up-{number}").status_code for number in range(30)]
    assert codes == [401] * 30
    answers = [limited_api.ask(key=f"another-{number}") for number in range(5)]
    assert [answer.status_code for answer in answers] == [429] * 5
    assert answers[0].json() == {"error": "too many failed authentications"}
    assert 1 <= int(answers[0].headers["retry-after"]) <= 60
    assert limited_api.ask().status_code == 200


def test_a_forwarded_address_is_ignored(limited_api):
    """Any client can write X-Forwarded-For: whoever tries keys must not get a new address with each."""
    limited_api.service.http.headers["x-forwarded-for"] = "192.0.2.7"
    assert {limited_api.ask(key=f"made-up-{number}").status_code for number in range(30)} == {401}
    limited_api.service.http.headers["x-forwarded-for"] = "192.0.2.8"
    assert limited_api.ask(key="another").status_code == 429


def test_what_is_accepted_is_never_counted_by_its_address(limited_api):
    assert {limited_api.ask().status_code for _ in range(BURST_S)} == {200}
    assert {limited_api.ask(key=f"made-up-{number}").status_code for number in range(30)} == {401}


def test_a_wrong_user_secret_counts_as_well(limited_api):
    created = limited_api.service.call("POST", "/users", json=JANE).json()["user"]
    guessed = created | {"secret": "1" * 18}
    codes = [
        limited_api.service.call("GET", f"/users/{created['id']}", guessed).status_code for _ in range(4)
    ]
    assert codes == [401, 401, 401, 429]


def test_without_limits_nobody_is_told_to_wait(tmp_path):
    with stored_in("sqlite"), a_service(tmp_path) as service:
        codes = {Caller(service).ask(secret="wrong").status_code for _ in range(30)}
    assert codes == {401}
