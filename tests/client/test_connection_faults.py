"""Faults on the wire: each gives the documented error or a retry, and never a second person."""

import asyncio
import time
import tracemalloc

import aiohttp
import httpx
import pytest
from support import deviating_server, faults
from support.clients import FACES, connected
from support.fault_kinds import KINDS, SHORT_S
from support.faults import (
    PERSON_ID,
    SECRET,
    Answer,
    BlackHole,
    Cut,
    Drip,
    GzipBomb,
    LoseReply,
    Reset,
)

from exposurekit.client import RetryPolicy
from exposurekit.client.protocol import BODY_MAX
from exposurekit.errors import APIStatusError, ConnectionFailed, InvalidResponse

KEY = (PERSON_ID, SECRET)
RETRIES = 2
PERSON = {
    "first_name": "Odalys",
    "last_name": "Fennimoor",
    "addresses": [{"city": "Tall Pines", "state": "OR"}],
}


CALLS = {
    "create": ("create_user", lambda client: client.create_user(**PERSON | {"addresses": []}), False),
    "create with items": (
        "create_user",
        lambda client: client.create_user(**PERSON, emails=["a@x.example"]),
        False,
    ),
    "get": ("get_user", lambda client: client.get_user(KEY), True),
    "update": ("update_user", lambda client: client.update_user(KEY, first_name="Oda"), True),
    "update that appends": (
        "update_user",
        lambda client: client.update_user(KEY, emails=["a@x.example"]),
        False,
    ),
    "update of an item": (
        "update_user",
        lambda client: client.update_user(KEY, emails=[{"id": 2, "address": "a@x.example"}]),
        True,
    ),
}


@pytest.fixture(params=FACES)
def face(request):
    return request.param


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=CALLS)
def call(request):
    return CALLS[request.param]


some_calls = pytest.mark.parametrize(
    "call", ["create with items", "get", "update that appends"], indirect=True
)


def client_of(face, server, fault=None, **settings):
    waits = isinstance(fault, BlackHole | Drip)
    patience = RetryPolicy(RETRIES, initial_delay=0)
    return connected(face, server.base_url, timeout=SHORT_S if waits else 10, retries=patience, **settings)


def test_a_lasting_fault_gives_its_error_after_every_safe_try(face, kind, call):
    operation, ask, repeatable = call
    with (
        faults.running(faults.always(kind.fault)) as server,
        client_of(face, server, kind.fault) as client,
        pytest.raises(kind.error) as caught,
    ):
        ask(client)
    error = caught.value
    assert type(error) is kind.error
    assert getattr(error, "status", None) == kind.status
    if kind.error is not InvalidResponse:
        assert error.operation.lower().replace(" ", "_") == operation
    if kind.error is ConnectionFailed:
        assert error.maybe_received
    tries = 1 + RETRIES if kind.again and repeatable else 1
    assert [request.operation for request in server.requests] == [operation] * tries
    assert server.received == (1 if operation == "create_user" else 0)
    assert server.created <= 1


@some_calls
def test_a_passing_fault_is_retried_where_safe_and_duplicates_nobody(face, kind, call):
    operation, ask, repeatable = call
    with (
        faults.running(faults.on(operation, kind.fault)) as server,
        client_of(face, server, kind.fault) as client,
    ):
        client.list_users()  # so that the fault meets a connection that is kept open
        if kind.again and repeatable:
            assert ask(client).id == PERSON_ID
        else:
            with pytest.raises(kind.error):
                ask(client)
        operations = [request.operation for request in server.requests]
        assert client.get_user(KEY).id == PERSON_ID  # and the client goes on
    assert operations == ["list_users"] + [operation] * (2 if kind.again and repeatable else 1)
    assert server.received == (1 if operation == "create_user" else 0)
    assert server.created <= 1


@pytest.mark.parametrize("create", ["create", "create with items"])
@pytest.mark.parametrize(
    "fault", [LoseReply(), Reset("after"), Cut(20), BlackHole(), faults.server_error(503)], ids=str
)
def test_a_create_without_response_says_it_may_have_been_processed(face, create, fault):
    with (
        faults.running(faults.always(fault)) as server,
        client_of(face, server, fault) as client,
        pytest.raises((ConnectionFailed, APIStatusError)) as caught,
    ):
        CALLS[create][1](client)
    assert server.created == 1
    if isinstance(caught.value, ConnectionFailed):
        assert "The service may have processed it: check before you repeat it." in str(caught.value)


def test_a_create_that_was_never_sent_is_retried(face):
    with faults.running() as server:
        pass  # the port is free again: nothing listens there
    with client_of(face, server) as client, pytest.raises(ConnectionFailed) as caught:
        client.create_user(**PERSON)
    assert not caught.value.maybe_received
    assert "Is the service running? Check base_url" in str(caught.value)
    assert server.received == 0


def test_a_reset_before_any_byte_may_have_been_received(face):
    with (
        faults.running([Reset("before")]) as server,
        client_of(face, server) as client,
        pytest.raises(ConnectionFailed) as caught,
    ):
        client.create_user(**PERSON)
    assert caught.value.maybe_received
    assert (server.received, server.created) == (0, 0)


def test_aiohttp_sends_a_put_once_on_a_connection_that_drops():
    """By itself it would send it twice on a kept connection, and its list items would be appended twice."""
    with (
        faults.running(faults.on("update_user", LoseReply())) as server,
        client_of("awaiting", server) as client,
    ):
        client.get_user(KEY)
        with pytest.raises(ConnectionFailed):
            client.update_user(KEY, emails=["a@x.example"])
    assert [request.operation for request in server.requests] == ["get_user", "update_user"]


def test_aiohttp_left_alone_would_send_it_twice():
    async def by_hand(base_url):
        async with aiohttp.ClientSession() as session:
            url = f"{base_url}/api/acme/key/v2/users/12.json"
            async with session.get(url) as response:
                await response.read()
            async with session.put(url, data=b"{}") as response:
                await response.read()

    with faults.running(faults.on("update_user", LoseReply())) as server:
        asyncio.run(by_hand(server.base_url))
    assert [request.operation for request in server.requests] == ["get_user", "update_user", "update_user"]


# --- waiting as asked ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [faults.too_many, faults.unavailable])
def test_a_wait_beyond_the_policy_ends_the_call(face, fault):
    with (
        faults.running(faults.always(fault(3600))) as server,
        client_of(face, server) as client,
        pytest.raises(APIStatusError, match=r"The service asks to wait 3600 s\.") as caught,
    ):
        client.get_user(KEY)
    assert caught.value.retry_after_s == 3600
    assert len(server.requests) == 1


def test_a_wait_that_is_asked_for_is_kept(face):
    with (
        faults.running(faults.on("get_user", faults.too_many(1))) as server,
        client_of(face, server) as client,
    ):
        begun = time.monotonic()
        client.get_user(KEY)
        waited = time.monotonic() - begun
    assert waited >= 1
    assert len(server.requests) == 2


# --- bounded ------------------------------------------------------------------------------------------

MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    "fault",
    [GzipBomb(), Drip(piece=bytes(MEGABYTE), every_s=0), Answer(body=b" " * (BODY_MAX + 1))],
    ids=["gzip bomb", "endless body", "a large body"],
)
@pytest.mark.parametrize(
    ("face", "transport"),
    [
        ("blocking", None),
        ("blocking", httpx.HTTPTransport),
        ("awaiting", None),
        ("awaiting", httpx.HTTPTransport),
        ("awaiting", httpx.AsyncHTTPTransport),
    ],
)
def test_a_body_without_end_is_given_up_in_bounded_memory(face, fault, transport):
    carried = transport() if transport else None
    if isinstance(fault, GzipBomb):
        faults.gzip_zeros(fault.size)  # made before the measuring
    with (
        faults.running(faults.always(fault)) as server,
        connected(face, server.base_url, retries=0, timeout=20, transport=carried) as client,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(ConnectionFailed, match=r"Get user failed: the response is too large\."):
                client.get_user(KEY)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    if isinstance(carried, httpx.HTTPTransport):
        carried.close()
    assert peak < 5 * BODY_MAX


@pytest.mark.parametrize("transport", [httpx.HTTPTransport, httpx.AsyncHTTPTransport])
@pytest.mark.parametrize("fault", [BlackHole(), Drip()], ids=str)
def test_a_given_transport_is_held_to_the_time_too(transport, fault):
    carried = transport()
    with (
        faults.running(faults.always(fault)) as server,
        connected("awaiting", server.base_url, retries=0, timeout=SHORT_S, transport=carried) as client,
        pytest.raises(ConnectionFailed, match="no response before the timeout"),
    ):
        client.get_user(KEY)
    if isinstance(carried, httpx.HTTPTransport):
        carried.close()


# --- elsewhere ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", ["create", "get", "update"])
def test_no_redirect_is_followed_since_the_address_holds_the_key(face, status, name):
    with (
        faults.running() as elsewhere,
        faults.running(faults.always(faults.redirect(elsewhere.base_url, status))) as server,
        client_of(face, server) as client,
        pytest.raises(APIStatusError, match="Redirects are not followed") as caught,
    ):
        CALLS[name][1](client)
    assert caught.value.status == status
    assert elsewhere.base_url not in str(caught.value)
    assert elsewhere.connections == 0
    assert len(server.requests) == 1


def test_no_cookie_is_kept(face):
    cookie = Answer(headers=(("Set-Cookie", "session=1; Path=/"),))
    with faults.running(faults.always(cookie)) as server, client_of(face, server) as client:
        client.get_user(KEY)
        client.get_user(KEY)
    assert [request.headers.get("cookie") for request in server.requests] == [None, None]


def test_connections_are_kept_and_closed(face):
    with faults.running() as server, client_of(face, server) as client:
        for _ in range(5):
            client.get_user(KEY)
    assert server.connections == 1


@pytest.mark.parametrize("face", ["blocking", "awaiting"])
def test_a_plain_service_over_tls_differs_from_no_service(face):
    with (
        deviating_server.running() as service,
        connected(face, service.base_url.replace("http:", "https:"), retries=0) as client,
        pytest.raises(ConnectionFailed, match="no TLS connection"),
    ):
        client.get_user(KEY)


@pytest.mark.parametrize("face", ["blocking", "awaiting"])
def test_an_unknown_host_is_told_from_no_service(face):
    with (
        connected(face, "https://nowhere.invalid", retries=0) as client,
        pytest.raises(ConnectionFailed, match="host name not found"),
    ):
        client.get_user(KEY)
