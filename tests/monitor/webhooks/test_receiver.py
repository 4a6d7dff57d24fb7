"""The inbox over real HTTP: what is kept before it is answered, and what is refused, and how."""

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
from support.inbox import BODY, LOOPBACK, NOW, PATH, SECRET, emptied, listening, signed_headers

from exposurekit.errors import ConfigurationError
from exposurekit.monitor.webhooks.receiver import create_app
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.system.asgi_server import running


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    store = InboxStore(tmp_path_factory.mktemp("inbox") / "inbox.db", busy_s=0.05)
    yield store
    store.close()


@pytest.fixture
def inbox(opened):
    """Without any, whatever came before."""
    return emptied(opened)


@pytest.fixture(scope="module")
def with_path(opened):
    with listening(opened, path_secret=PATH) as http:
        yield http


@pytest.fixture
def by_path(with_path, inbox):
    return with_path


@contextmanager
def locked(inbox):
    """The file, by another process."""
    inbox.counts()
    other = sqlite3.connect(inbox.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    yield
    other.close()


def bodies(inbox):
    return [message.body for message in inbox.unprocessed()]


def test_a_delivery_is_on_disk_when_it_is_acknowledged(by_path, inbox):
    answer = by_path.post(f"/{PATH}?from=somewhere", content=b"\x00\xff", headers={"webhook-id": "msg_1"})
    assert (answer.status_code, answer.content) == (204, b"")
    [message] = inbox.unprocessed()
    assert (message.webhook_id, message.body) == ("msg_1", b"\x00\xff")


@pytest.mark.parametrize("webhook_id", ["msg_1", None])
def test_a_senders_second_attempt_is_answered_well_and_kept_once(by_path, inbox, webhook_id):
    headers = {"webhook-id": webhook_id} if webhook_id else {}
    answers = [by_path.post(f"/{PATH}", content=BODY, headers=headers).status_code for _ in range(3)]
    assert answers == [204] * 3
    assert inbox.counts().waiting == 1


def test_many_at_once_are_each_kept(by_path, inbox):
    def post(number):
        return by_path.post(f"/{PATH}", content=b"%d" % (number % 80)).status_code

    with ThreadPoolExecutor(16) as senders:
        assert set(senders.map(post, range(160))) == {204}
    assert sorted(map(int, bodies(inbox))) == list(range(80))


@pytest.mark.parametrize(
    "path", ["/", "/x", f"/{PATH}/", f"/{PATH}x", f"/{PATH[:-1]}", f"//{PATH}", "/%FF%00"]
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_any_other_path_is_not_there_and_tells_nothing(by_path, inbox, path, method):
    answer = by_path.request(method, f"{str(by_path.base_url).rstrip('/')}{path}")
    assert (answer.status_code, answer.content) == (404, b"")
    assert set(answer.headers) == {"date", "cache-control", "content-length", "connection"}
    assert inbox.counts().waiting == 0


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_only_post_is_taken(by_path, method):
    answer = by_path.request(method, f"/{PATH}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def in_chunks(size, each=1_000):
    return (b"x" * min(each, size - at) for at in range(0, size, each))


@pytest.mark.parametrize(("size", "status"), [(10_000, 204), (10_001, 413), (39_999, 413), (90_000, 413)])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_is_bounded_as_it_comes(inbox, size, status, chunked):
    with listening(inbox, path_secret=PATH, body_max=10_000) as http:
        content = in_chunks(size) if chunked else b"x" * size
        assert http.post(f"/{PATH}", content=content).status_code == status
    assert inbox.counts().waiting == (status == 204)


@pytest.mark.parametrize("length", ["99999999999999999999", "100000000"])
def test_a_body_announced_as_too_large_is_refused_early(by_path, length):
    assert raw(by_path, f"content-length: {length}\r\n\r\nx").startswith(b"HTTP/1.1 413 ")


def test_bodies_in_memory_are_bounded_together_and_released(inbox):
    with listening(inbox, path_secret=PATH, memory_max=1_000) as http:
        many, few, fewer = (http.post(f"/{PATH}", content=b"x" * size) for size in (1_001, 1_000, 999))
    assert (many.status_code, many.headers["retry-after"]) == (503, "5")
    assert (few.status_code, fewer.status_code) == (204, 204)


def test_a_slow_body_is_not_waited_for(inbox):
    with listening(inbox, path_secret=PATH, body_timeout_s=0.1) as http:
        assert raw(http, "content-length: 9\r\n\r\nhalf").startswith(b"HTTP/1.1 408 ")
    assert inbox.counts().waiting == 0


def test_a_body_that_is_cut_is_not_kept(by_path, inbox):
    raw(by_path, "content-length: 9\r\n\r\nhalf", hangs_up=True)
    assert by_path.post(f"/{PATH}", content=BODY).status_code == 204
    assert bodies(inbox) == [BODY.encode()]


def raw(http, rest, *, hangs_up=False):
    with socket.create_connection((LOOPBACK, http.base_url.port), timeout=20) as wire:
        wire.sendall(f"POST /{PATH} HTTP/1.1\r\nhost: inbox.example\r\n{rest}".encode())
        return b"" if hangs_up else wire.recv(1_000)


def test_a_locked_file_asks_the_sender_to_retry(by_path, inbox):
    with locked(inbox):
        answer = by_path.post(f"/{PATH}", content=BODY)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert by_path.post(f"/{PATH}", content=BODY).status_code == 204
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
letters = InboxStore(sys.argv[1])
letters.counts()
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
with running(create_app(letters, path_secret=sys.argv[2]), "127.0.0.1", 0) as base_url:
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
        logging.getLogger(name).propagate = True  # whoever served here before has cut it off
        caplog.set_level(logging.DEBUG, name)
    yield caplog
    for name, propagates in before.items():
        logging.getLogger(name).propagate = propagates


def test_no_log_holds_a_body_a_header_or_a_secret(inbox, log):
    headers = signed_headers()
    with listening(inbox, path_secret=PATH, signing_secrets=SECRET, body_max=100, clock=lambda: NOW) as http:
        for content, request_headers in (
            (BODY, headers),
            (BODY, {**headers, "x": "y"}),
            (BODY + "!", headers),
            ("x" * 500, headers),
        ):
            http.post(f"/{PATH}", content=content, headers=request_headers)
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
