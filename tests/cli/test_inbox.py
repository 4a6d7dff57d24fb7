"""The inbox as a process: its path, its secrets, its end, and the deliveries that it could not read."""

import contextlib
import json
import os
import pty
import re
import signal
import socket
import stat
from urllib.parse import urlsplit

import httpx
import pytest
from support.inbox import BODY, PATH, SECRET, signed_headers
from support.shell import TIMEOUT_S, Shell, ended, error_of, listening

from exposurekit.cli.inbox import create_receiver, receiving
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.service.webhooks.endpoints import new_secret
from exposurekit.system.asgi_server import _is_loopback
from exposurekit.system.clock import utc_now

RECEIVE = ("inbox", "run", "--history", "history", "--port", "0")


@pytest.fixture
def inbox(shell):
    (shell.directory / "history").mkdir()
    store = InboxStore(shell.directory / "history" / "inbox.db")
    yield store
    store.close()


def stored_bodies(shell):
    store = InboxStore(shell.directory / "history" / "inbox.db")
    try:
        return [message.body for message in store.unprocessed()]
    finally:
        store.close()


def test_without_a_secret_a_path_is_generated_once_and_reused(shell):
    printed, path = [], None
    for number in (signal.SIGTERM, signal.SIGINT):
        with shell.started(*RECEIVE) as process:
            printed.append(process.stdout.readline().split()[-1])
            path = path or urlsplit(printed[0]).path
            base_url = listening(process)
            assert printed[0].startswith(base_url) is (len(printed) == 1)
            assert httpx.post(base_url + path, content=BODY).status_code == 204
            assert path not in ended(process, number) + process.stdout.read()
    assert printed[1] == "history/inbox.path"
    assert re.fullmatch(r"/[A-Za-z0-9_-]{43}", path)
    assert stored_bodies(shell) == [BODY.encode()]
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (shell.directory / "history").iterdir()}
    assert modes == {"inbox.db": 0o600, "inbox.path": 0o600}


def test_a_terminal_shows_the_path_each_time(tmp_path):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, contextlib.redirect_stdout(terminal):
        for _ in range(2):
            receiver = create_receiver(str(tmp_path), inbox=None, path_secret=None, signing_secrets=())
            with receiving(receiver, "127.0.0.1", 0):
                pass
            receiver.messages.close()
        terminal_output = os.read(ours, 10_000).decode()
    os.close(ours)
    assert terminal_output.count((tmp_path / "inbox.path").read_text().strip()) == 2


def test_secrets_from_the_environment_are_not_printed(tmp_path):
    shell = Shell(
        tmp_path,
        EXPOSUREKIT_WEBHOOK_PATH_SECRET=PATH,
        EXPOSUREKIT_WEBHOOK_SIGNING_SECRET=f"{new_secret()} {SECRET}",
        EXPOSUREKIT_HISTORY="history",
    )
    with shell.started("inbox", "run", "--port", "0") as process:
        base_url = listening(process)
        answers = [
            httpx.post(f"{base_url}/{PATH}", content=BODY, headers=headers).status_code
            for headers in (signed_headers(at=utc_now()), signed_headers(), {})
        ]
        log = ended(process)
        output = process.stdout.read()
    assert output == f"Webhooks are received at {base_url}, at the path you configured\n"
    assert answers == [204, 401, 401]
    assert not [secret for secret in (PATH, SECRET, "msg_1") if secret in log + output]
    assert not (shell.directory / "history" / "inbox.path").exists()


def test_signing_secrets_are_read_from_a_dotenv_file(shell):
    (shell.directory / ".env").write_text(f"EXPOSUREKIT_WEBHOOK_SIGNING_SECRET='{new_secret()} {SECRET}'\n")
    with shell.started(*RECEIVE) as process:
        base_url = listening(process)
        headers = ({}, signed_headers(at=utc_now()))
        answers = [httpx.post(base_url, content=BODY, headers=one).status_code for one in headers]
        ended(process)
        assert process.stdout.read() == f"Webhooks are received at {base_url}/\n"
    assert answers == [401, 204]


def test_an_inbox_that_cannot_start_creates_no_path(shell):
    history = shell.directory / "history"
    history.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        in_use = shell.here("inbox", "run", "--history", "history", "--port", port)
    (history / "inbox.db").write_text("long enough to be no database " * 20)
    another = shell.here(*RECEIVE)
    assert "it is in use" in error_of(in_use)
    assert error_of(another).endswith(
        "the file for the inbox is a different kind of file: use a path that does not exist yet"
    )
    assert {run.returncode for run in (in_use, another)} == {1}
    assert in_use.stdout + another.stdout == ""
    assert [file.name for file in history.iterdir()] == ["inbox.db"]


def test_a_begun_request_gets_its_response_before_the_end(shell):
    with shell.started(*RECEIVE, "--path-secret", PATH) as process:
        port = urlsplit(listening(process)).port
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as wire:
            head = (
                f"POST /{PATH} HTTP/1.1\r\nhost: inbox.example\r\ncontent-length: 4\r\nexpect: 100-continue"
            )
            wire.sendall(f"{head}\r\n\r\n".encode())
            assert wire.recv(1_000).startswith(b"HTTP/1.1 100 ")
            process.send_signal(signal.SIGTERM)
            wire.sendall(b"last")
            assert wire.recv(1_000).startswith(b"HTTP/1.1 204 ")
        assert process.wait(timeout=TIMEOUT_S) == 0
    assert stored_bodies(shell) == [b"last"]


def test_quarantined_deliveries_are_listed_safely_for_a_terminal(shell, inbox):
    body = b'\x1b[31mred\x00\xff\xe2\x80\xaeturned "\xc3\xab"\n'
    inbox.put_all([("msg_1", body), ("msg_2", b"{}")])
    inbox.quarantine(1, "not JSON: expected value at line 1 column 1")
    listed = shell.here("inbox", "quarantine", "--history", "history")
    head, row = listed.stdout.splitlines()
    assert head.split() == ["number", "received", "at", "reason", "size"]
    assert row.startswith("1")
    assert "not JSON" in row
    [message] = json.loads(shell.here("inbox", "quarantine", "--inbox", "history/inbox.db", "--json").stdout)
    assert (message["number"], message["size"]) == (1, len(body))
    printed = shell.here("inbox", "quarantine", "1", "--history", "history")
    assert printed.stdout == '\\x1b[31mred\\x00\\xff\\u202eturned "ë"\n'
    waiting = shell.here("inbox", "quarantine", "2", "--history", "history")
    assert (waiting.returncode, waiting.stdout) == (1, "")
    assert "exposurekit inbox list --history DIR those that wait" in error_of(waiting)


def test_a_quarantined_delivery_is_discarded_or_retried(shell, inbox):
    inbox.put_all([("msg_1", b"{"), ("msg_2", BODY.encode()), ("msg_3", b"[]")])
    for number in (1, 2):
        inbox.quarantine(number, "not JSON")
    inbox.discard_processed(3)
    for number, option in (("1", "--discard"), ("2", "--retry")):
        assert shell.here("inbox", "quarantine", number, option, "--history", "history").returncode == 0
    assert inbox.quarantined() == []
    assert [(one.number, one.body) for one in inbox.unprocessed(3)] == [(4, BODY.encode())]
    assert inbox.put_all([("msg_1", b"{"), ("msg_2", BODY.encode())]) == [False, False]  # as processed ones
    both = shell.here("inbox", "quarantine", "1", "--discard", "--retry", "--history", "history")
    assert (both.returncode, "--discard or --retry" in both.stderr) == (2, True)


def test_waiting_deliveries_are_listed_without_their_bodies(shell, inbox):
    inbox.counts()  # creates the file
    empty = shell.here("inbox", "quarantine", "--history", "history")
    assert (empty.stdout, empty.stderr) == ("", "Nothing is quarantined.\n")
    assert "no such delivery in quarantine" in error_of(
        shell.here("inbox", "quarantine", "1", "--history", "history")
    )
    inbox.put_all([("msg_1", BODY.encode()), ("msg_2", b"{}")])
    inbox.quarantine(2, "not JSON")
    listed = shell.here("inbox", "list", "--history", "history", "--json")
    [delivery] = json.loads(listed.stdout)
    assert (delivery["number"], delivery["webhook_id"], delivery["size"]) == (1, "msg_1", len(BODY))
    assert sorted(delivery) == ["number", "received_at", "size", "webhook_id"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--history", "s3://bucket/history"], "name its file with --inbox"),
        (["quarantine", "--history", "h"], "no inbox in h/inbox.db"),
        (["list", "--history", "h"], "exposurekit inbox run creates one"),
        (["run", "--history", "h", "--path-secret", "s3cret"], "a path secret must have 16 to 200"),
        (["run", "--history", "h", "--signing-secret", "s3cret"], "base64 of at least 16 bytes"),
        (["run", "--inbox", "inbox.db", "--port", "0"], "damaged: remove its file"),
        (["run", "--history", "file"], "cannot create the inbox's directory"),
        (["run", "--history", "h", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1 port 8787"),
    ],
)
def test_a_wrong_option_is_a_one_line_error(shell, words, message):
    (shell.directory / "file").touch()
    (shell.directory / "inbox.path").write_text("short\n")
    run = shell.here("inbox", *words)
    assert run.returncode == 1
    assert message in error_of(run)
    assert "s3cret" not in run.stderr


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("::1", True), ("2001:db8::1", False), ("192.0.2.1", False)]
)
def test_loopback_addresses_are_recognized(host, loopback):
    assert _is_loopback(host) is loopback
