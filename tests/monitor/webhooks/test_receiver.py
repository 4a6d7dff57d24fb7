"""The inbox over real HTTP: deliveries are stored before they are acknowledged, or rejected."""

import logging
import re
import socket
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from support.inbox import BODY, LOOPBACK, NOW, PATH, SECRET, listening, signed_headers

from exposurekit.errors import ConfigurationError
from exposurekit.monitor.webhooks.receiver import create_app
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.system.asgi_server import running


@pytest.fixture(scope="module")
def client(shared_inbox):
    with listening(shared_inbox, path_secret=PATH) as http:
        yield http


@pytest.fixture
def http(client, inbox):
    return client


@contextmanager
def locked(inbox):
    """The file, locked by another connection."""
    inbox.counts()
    other = sqlite3.connect(inbox.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    yield
    other.close()


def bodies(inbox):
    return [message.body for message in inbox.unprocessed()]


def test_a_delivery_is_on_disk_when_it_is_acknowledged(http, inbox):
    response = http.post(f"/{PATH}?from=somewhere", content=b"\x00\xff", headers={"webhook-id": "msg_1"})
    assert (response.status_code, response.content) == (204, b"")
    [message] = inbox.unprocessed()
    assert (message.webhook_id, message.body) == ("msg_1", b"\x00\xff")


@pytest.mark.parametrize("webhook_id", ["msg_1", None])
def test_a_repeated_delivery_is_acknowledged_and_stored_once(http, inbox, webhook_id):
    headers = {"webhook-id": webhook_id} if webhook_id else {}
    statuses = [http.post(f"/{PATH}", content=BODY, headers=headers).status_code for _ in range(3)]
    assert statuses == [204] * 3
    assert inbox.counts().waiting == 1


def test_concurrent_deliveries_are_all_stored(http, inbox):
    def post(number):
        return http.post(f"/{PATH}", content=b"%d" % (number % 80)).status_code

    with ThreadPoolExecutor(16) as senders:
        assert set(senders.map(post, range(160))) == {204}
    assert sorted(map(int, bodies(inbox))) == list(range(80))


@pytest.mark.parametrize(
    "path", ["/", "/x", f"/{PATH}/", f"/{PATH}x", f"/{PATH[:-1]}", f"//{PATH}", "/%FF%00"]
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_any_other_path_is_a_404_without_content(http, inbox, path, method):
    response = http.request(method, f"{str(http.base_url).rstrip('/')}{path}")
    assert (response.status_code, response.content) == (404, b"")
    assert set(response.headers) == {"date", "cache-control", "content-length", "connection"}
    assert inbox.counts().waiting == 0


@pytest.mark.parametrize("options", [{"path_secret": PATH}, {"signing_secrets": SECRET}])
def test_the_health_path_answers_without_a_secret(inbox, log, options):
    with listening(inbox, **options) as http:
        origin = http.base_url.copy_with(path="/")
        for method in ("GET", "HEAD"):
            response = http.request(method, origin.join("/health"))
            assert (response.status_code, response.content) == (200, b"")
            assert set(response.headers) == {"date", "cache-control", "content-length"}
        for method, path in (("POST", "/health"), ("GET", "/health/"), ("GET", "/Health")):
            assert http.request(method, origin.join(path)).status_code == 404
    lines = [record.getMessage() for record in log.records if record.name == "exposurekit.monitor"]
    assert lines == ["delivery=rejected status=404 reason=path"] * 3
    assert inbox.counts().waiting == 0


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_only_post_is_allowed(http, method):
    response = http.request(method, f"/{PATH}")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


def in_chunks(size):
    return (b"x" * min(1_000, size - at) for at in range(0, size, 1_000))


def test_a_large_body_is_rejected_as_it_arrives(inbox):
    sizes = {10_000: 204, 10_001: 413, 39_999: 413, 90_000: 413}
    with listening(inbox, path_secret=PATH, body_max=10_000) as http:
        for content in (in_chunks, lambda size: b"x" * size):
            statuses = {size: http.post(f"/{PATH}", content=content(size)).status_code for size in sizes}
            assert statuses == sizes
    assert {len(body) for body in bodies(inbox)} == {10_000}


@pytest.mark.parametrize("length", ["9999999999999999999", "100000000"])
def test_a_large_content_length_is_rejected_early(http, length):
    assert raw(http, f"content-length: {length}\r\n\r\nx").startswith(b"HTTP/1.1 413 ")


def test_the_total_size_of_bodies_in_memory_is_limited(inbox):
    with listening(inbox, path_secret=PATH, memory_max=1_000) as http:
        many, few, fewer = (http.post(f"/{PATH}", content=b"x" * size) for size in (1_001, 1_000, 999))
    assert (many.status_code, many.headers["retry-after"]) == (503, "5")
    assert (few.status_code, fewer.status_code) == (204, 204)


def test_a_body_that_does_not_end_makes_way_for_others(inbox):
    with listening(inbox, path_secret=PATH, memory_max=600_000) as http:
        with socket.create_connection((LOOPBACK, http.base_url.port), timeout=20) as wire:
            head = f"POST /{PATH} HTTP/1.1\r\nhost: inbox.example\r\ncontent-length: 449000\r\n\r\n"
            wire.sendall(head.encode() + b"x" * 448_000)  # and it waits with the rest
            for _ in range(50):  # meanwhile the receiver reads what was sent
                assert http.get("/").status_code == 404
            assert http.post(f"/{PATH}", content=b"y" * 100_000).status_code == 204
            assert http.post(f"/{PATH}", content=b"y" * 300_000).status_code == 204
            assert wire.recv(1_000).startswith(b"HTTP/1.1 503 ")
        assert http.post(f"/{PATH}", content=b"y" * 600_000).status_code == 204
    assert inbox.counts().waiting == 3


def test_a_slow_body_times_out(inbox):
    with listening(inbox, path_secret=PATH, body_timeout_s=0.1) as http:
        assert raw(http, "content-length: 9\r\n\r\nhalf").startswith(b"HTTP/1.1 408 ")
    assert inbox.counts().waiting == 0


def test_a_truncated_body_is_not_stored(http, inbox):
    raw(http, "content-length: 9\r\n\r\nhalf", hangs_up=True)
    assert http.post(f"/{PATH}", content=BODY).status_code == 204
    assert bodies(inbox) == [BODY.encode()]


def raw(http, rest, *, hangs_up=False):
    with socket.create_connection((LOOPBACK, http.base_url.port), timeout=20) as wire:
        wire.sendall(f"POST /{PATH} HTTP/1.1\r\nhost: inbox.example\r\n{rest}".encode())
        return b"" if hangs_up else wire.recv(1_000)


def test_a_locked_file_is_a_503_with_retry_after(http, inbox):
    with locked(inbox):
        response = http.post(f"/{PATH}", content=BODY)
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert http.post(f"/{PATH}", content=BODY).status_code == 204
    assert inbox.counts().waiting == 1


def test_an_inbox_that_cannot_be_opened_does_not_listen(tmp_path):
    (tmp_path / "inbox.db").write_bytes(b"something else that is not an inbox")
    app = create_app(InboxStore(tmp_path / "inbox.db"), path_secret=PATH)
    with (
        pytest.raises(ConfigurationError, match="for the inbox is a different kind of file"),
        running(app, LOOPBACK, 0),
    ):
        pass


ON_A_FULL_DISK = """
import resource, sys
from exposurekit.monitor.webhooks.receiver import create_app
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.system.asgi_server import running
inbox = InboxStore(sys.argv[1])
inbox.counts()
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
with running(create_app(inbox, path_secret=sys.argv[2]), "127.0.0.1", 0) as base_url:
    print(base_url, flush=True)
    sys.stdin.read()
"""


def test_on_a_full_disk_nothing_is_acknowledged(tmp_path):
    file = tmp_path / "inbox.db"
    command = [sys.executable, "-c", ON_A_FULL_DISK, str(file), PATH]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        base_url = process.stdout.readline().strip()
        sizes = [*range(20_000, 20_020), 300_000, *range(100, 120)]
        statuses = {size: httpx.post(f"{base_url}/{PATH}", content=b"x" * size).status_code for size in sizes}
        process.communicate("")
    assert process.returncode == 0
    assert set(statuses.values()) == {204, 503}
    assert statuses[300_000] == 503
    stored_sizes = [len(message.body) for message in InboxStore(file).unprocessed()]
    assert stored_sizes == [size for size in sizes if statuses[size] == 204]


@pytest.fixture
def log(caplog):
    names = ("exposurekit", "exposurekit.monitor", "uvicorn", "uvicorn.error", "uvicorn.access")
    before = {name: logging.getLogger(name).propagate for name in names}
    for name in names:
        logging.getLogger(name).propagate = True  # earlier servers in this process have turned it off
        caplog.set_level(logging.DEBUG, name)
    yield caplog
    for name, propagates in before.items():
        logging.getLogger(name).propagate = propagates


def test_no_log_contains_a_body_a_header_or_a_secret(inbox, log):
    headers = signed_headers()
    with listening(inbox, path_secret=PATH, signing_secrets=SECRET, body_max=100, clock=lambda: NOW) as http:
        for content in (BODY, BODY, BODY + "!", "x" * 500):
            http.post(f"/{PATH}", content=content, headers=headers)
        http.post(f"/{PATH}", content=BODY)
        http.get(f"/{PATH}x")
        with locked(inbox):
            http.post(f"/{PATH}", content=BODY, headers=headers)
    log_text = "\n".join(
        record.getMessage() for record in log.records if not record.name.startswith(("httpx", "httpcore"))
    )
    matches = [re.search(r"delivery=\w+(?: status=\d+)?", line) for line in log_text.splitlines()]
    assert [match[0] for match in matches if match] == [
        "delivery=new",
        "delivery=duplicate",
        "delivery=rejected status=401",
        "delivery=rejected status=413",
        "delivery=rejected status=401",
        "delivery=rejected status=404",
        "delivery=not",
    ]
    assert not [word for word in (PATH, SECRET, "user_id", *headers.values()) if word in log_text]
    assert not [record for record in log.records if record.exc_info]
