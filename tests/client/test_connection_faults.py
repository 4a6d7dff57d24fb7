"""Faults on the wire: each raises the documented error or is retried, and never creates a second person."""

import time
from collections import Counter

import httpx
import pytest
from support import deviating_server, faults
from support.clients import FACES, connected
from support.fault_kinds import KINDS, SHORT_S
from support.faults import PERSON_ID, SECRET, Answer, BlackHole, Drip, GzipBomb, Reset
from support.payloads import Peak

from exposurekit.client import RetryPolicy
from exposurekit.client.protocol import BODY_MAX
from exposurekit.errors import APIStatusError, ConnectionFailed, InvalidResponse

KEY = (PERSON_ID, SECRET)
RETRIES = 2
PERSON = {"first_name": "Odalys", "last_name": "Fennimoor", "addresses": []}
EMAILS = ["a@x.example"]
CALLS = [  # the operation, the call, and whether it may be repeated
    ("create_user", lambda client: client.create_user(**PERSON, emails=EMAILS), False),
    ("get_user", lambda client: client.get_user(KEY), True),
    ("update_user", lambda client: client.update_user(KEY, emails=EMAILS), False),
    ("create_user", lambda client: client.create_user(**PERSON), False),
    ("update_user", lambda client: client.update_user(KEY, first_name="Oda"), True),
    ("update_user", lambda client: client.update_user(KEY, emails=[{"id": 2, "address": "a@x.example"}]), True),
]  # fmt: skip


@pytest.fixture(params=FACES)
def face(request):
    return request.param


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


def client_of(face, server, fault=None):
    timeout = SHORT_S if isinstance(fault, BlackHole | Drip) else 10
    return connected(face, server.base_url, timeout=timeout, retries=RetryPolicy(RETRIES, initial_delay=0))


def test_lasting_fault_raises_its_error_after_safe_retries(face, kind):
    expected = Counter()
    with faults.running(faults.always(kind.fault)) as server, client_of(face, server, kind.fault) as client:
        for operation, send, repeatable in CALLS:
            expected[operation] += 1 + RETRIES if kind.again and repeatable else 1
            with pytest.raises(kind.error) as caught:
                send(client)
            error = caught.value
            assert type(error) is kind.error
            assert getattr(error, "status", None) == kind.status
            if kind.error is not InvalidResponse:
                assert error.operation.lower().replace(" ", "_") == operation
            if kind.error is ConnectionFailed:
                assert error.maybe_received
                warning = "The service may have processed it: check before you repeat it."
                assert (warning in str(error)) == (not repeatable)
    assert Counter(request.operation for request in server.requests) == expected
    assert server.received == 2
    assert server.created <= 2


def test_passing_fault_is_retried_only_where_safe(face, kind):
    faulty = set()

    def script(request):
        if request.operation == "list_users" or request.operation in faulty:
            return None
        faulty.add(request.operation)
        return kind.fault

    expected = Counter(["list_users"])
    with faults.running(script) as server, client_of(face, server, kind.fault) as client:
        client.list_users()  # so that the fault is on a connection in use
        for operation, send, repeatable in CALLS[:3]:
            is_retried = kind.again and repeatable
            expected[operation] += 2 if is_retried else 1
            if is_retried:
                assert send(client).id == PERSON_ID
            else:
                with pytest.raises(kind.error):
                    send(client)
    assert Counter(request.operation for request in server.requests) == expected
    assert (server.received, server.created <= 1) == (1, True)


def test_create_to_a_closed_port_was_not_received(face):
    with faults.running() as server:
        pass
    with client_of(face, server) as client, pytest.raises(ConnectionFailed) as caught:
        client.create_user(**PERSON)
    assert not caught.value.maybe_received
    assert "Is the service running? Check base_url" in str(caught.value)
    assert server.received == 0


def test_reset_before_any_byte_may_have_been_received(face):
    with (
        faults.running([Reset("before")]) as server,
        client_of(face, server) as client,
        pytest.raises(ConnectionFailed) as caught,
    ):
        client.create_user(**PERSON)
    assert caught.value.maybe_received
    assert (server.received, server.created) == (0, 0)


@pytest.mark.parametrize("fault", [faults.too_many, faults.unavailable])
def test_wait_beyond_the_policy_ends_the_call(face, fault):
    with (
        faults.running(faults.always(fault(3600))) as server,
        client_of(face, server) as client,
        pytest.raises(APIStatusError, match=r"The service asks to wait 3600 s\.") as caught,
    ):
        client.get_user(KEY)
    assert caught.value.retry_after_s == 3600
    assert len(server.requests) == 1


def test_client_waits_as_long_as_the_service_requests(face):
    """By itself, this client would not wait at all."""
    with (
        faults.running(faults.on("get_user", faults.too_many(1))) as server,
        client_of(face, server) as client,
    ):
        began = time.monotonic()
        client.get_user(KEY)
        assert time.monotonic() - began >= 1
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "fault",
    [GzipBomb(), Drip(piece=bytes(1 << 22), every_s=0), Answer(body=b" " * (BODY_MAX + 1))],
    ids=["gzip bomb", "endless body", "large body"],
)
@pytest.mark.parametrize(
    ("face", "transport"),
    [
        ("blocking", None),
        ("awaiting", None),
        ("awaiting", httpx.HTTPTransport),
        ("awaiting", httpx.AsyncHTTPTransport),
    ],
)
def test_endless_body_is_aborted_in_bounded_memory(face, fault, transport):
    custom = transport() if transport else None
    if isinstance(fault, GzipBomb):
        faults.gzip_zeros(fault.size)  # cached before the measurement
    with (
        faults.running(faults.always(fault)) as server,
        connected(face, server.base_url, retries=0, timeout=20, transport=custom) as client,
        Peak() as peak,
        pytest.raises(ConnectionFailed, match=r"Get user failed: the response is too large\."),
    ):
        client.get_user(KEY)
    if isinstance(custom, httpx.HTTPTransport):
        custom.close()
    assert peak.bytes < 5 * BODY_MAX


@pytest.mark.parametrize("transport", [httpx.HTTPTransport, httpx.AsyncHTTPTransport])
@pytest.mark.parametrize("fault", [BlackHole(), Drip()], ids=str)
def test_timeout_also_limits_a_custom_transport(transport, fault):
    custom = transport()
    with (
        faults.running(faults.always(fault)) as server,
        connected("awaiting", server.base_url, retries=0, timeout=SHORT_S, transport=custom) as client,
        pytest.raises(ConnectionFailed, match="no response before the timeout"),
    ):
        client.get_user(KEY)
    if isinstance(custom, httpx.HTTPTransport):
        custom.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(face, status):
    """The address contains the key."""
    with (
        faults.running() as elsewhere,
        faults.running(faults.always(faults.redirect(elsewhere.base_url, status))) as server,
        client_of(face, server) as client,
    ):
        for _, send, _ in CALLS[:3]:
            with pytest.raises(APIStatusError, match="Redirects are not followed") as caught:
                send(client)
            assert caught.value.status == status
            assert elsewhere.base_url not in str(caught.value)
    assert elsewhere.connections == 0
    assert len(server.requests) == 3


def test_connection_is_reused_and_cookies_are_not_stored(face):
    cookie = Answer(headers=(("Set-Cookie", "session=1; Path=/"),))
    with faults.running(faults.always(cookie)) as server, client_of(face, server) as client:
        for _ in range(5):
            client.get_user(KEY)
    assert [request.headers.get("cookie") for request in server.requests] == [None] * 5
    assert server.connections == 1


def test_tls_to_a_plain_service_has_its_own_error(face):
    with (
        deviating_server.running() as service,
        connected(face, service.base_url.replace("http:", "https:"), retries=0) as client,
        pytest.raises(ConnectionFailed, match="no TLS connection"),
    ):
        client.get_user(KEY)


def test_unknown_host_has_its_own_error(face):
    with (
        connected(face, "https://nowhere.invalid", retries=0) as client,
        pytest.raises(
            ConnectionFailed, match=r"host name not found\. Check base_url or EXPOSUREKIT_BASE_URL"
        ),
    ):
        client.get_user(KEY)
