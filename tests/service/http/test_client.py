"""The way out to the web: where it does not go, and what cannot keep it, fill it or make it talk."""

import asyncio
import gzip
import itertools
import logging
import os
import socket
import ssl
import subprocess
import sys
import tracemalloc
import zlib
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.errors import ConfigurationError
from exposurekit.service.http.client import FetchError, ForbiddenAddress, HttpClient, Response
from exposurekit.service.http.request import Request
from exposurekit.service.webhooks.endpoints import vet

LOOPBACK = ("127.0.0.0/8",)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

# --- a web of one's own ---------------------------------------------------------------------------------


@dataclass
class Got:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A server that answers by a function of the request: bytes, or an asynchronous iterator of them."""

    answer: object
    host: str = "127.0.0.1"
    port: int = 0
    got: list[Got] = field(default_factory=list)
    connections: int = 0
    sent: int = 0

    def url(self, path="/", host=None):
        return f"http://{host or self.host}:{self.port}{path}"

    async def resolve(self, _host, _port):
        return [(self.host, self.port)]

    async def take(self, reader, writer):
        self.connections += 1
        with suppress(OSError, asyncio.IncompleteReadError), closing(writer.transport):
            got = await read(reader)
            self.got.append(got)
            async for piece in pieces(self.answer(got)):
                self.sent += len(piece)
                writer.write(piece)
                await writer.drain()
            writer.close()
            await writer.wait_closed()


@contextmanager
def closing(transport):
    """At once, with what is not sent yet: who should have it went."""
    try:
        yield
    finally:
        transport.abort()


async def read(reader):
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    method, path, _ = first.split(" ")
    return Got(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def pieces(answer):
    if isinstance(answer, bytes):
        yield answer
    else:
        async for piece in answer:
            yield piece


@asynccontextmanager
async def a_site(answer=lambda _: OK, host="127.0.0.1", tls=None):
    site = Site(answer, host)
    tasks = set()

    def begin(reader, writer):
        tasks.add(asyncio.get_running_loop().create_task(site.take(reader, writer)))

    server = await asyncio.start_server(begin, host, 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def whole(status=200, headers=(), body=b""):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode() + body


def redirect(location, status=302):
    return whole(status, [("Location", location)])


def fetched(answer, *, path="/", **options):
    """What a fetch of a site gives, and the site."""

    async def once():
        async with a_site(answer) as site:
            return await HttpClient(allowed_networks=LOOPBACK).fetch(site.url(path), **options), site

    return asyncio.run(once())


def failed(answer, **options):
    """The reason for which a fetch gives nothing."""
    with pytest.raises(FetchError) as caught:
        fetched(answer, **options)
    return caught.value.reason


async def forever(*, first=b"", piece=b"", every_s=0.0):
    yield first
    while True:
        await asyncio.sleep(every_s)
        yield piece


def chunk(content):
    return b"%x\r\n%b\r\n" % (len(content), content)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def trusting(_host, port):
    """A name server that says of every name that it is public."""
    return [("93.184.216.34", port)]


async def nowhere(_host, _port):
    return []


# --- where it does not go -------------------------------------------------------------------------------

REFUSED = (
    Path(__file__).with_name("refused_urls.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
)
REFUSED += [
    "",
    "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
    "http://people.example:\uff18\uff10/",
    "http://people.example/\r\nX: y",
    "http://people.example\n",
    "http://people.example/\x00",
    "http://people.example/\u200b",
    "http://people.example/\ud800",
    "http://" + "a" * 64 + ".example/",
    "http://" + "a." * 127 + "example/",
]

ALLOWED = [
    "http://people.example/",
    "HTTPS://People.Example:8443/a?b=c#d",
    "http://people.example./",
    "http://people_search.example/",
    "http://bücher.example/",
    "http://people.example#@127.0.0.1/",
    "http://people.example/?@127.0.0.1",
    "http://8.8.8.8/",
    "http://100.63.255.255/",
    "http://100.128.0.0/",
    "http://172.32.0.1/",
    "http://[2606:4700:4700::1111]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[64:ff9b::8.8.8.8]/",
    "http://127.0.0.1.people.example/",
    "http://1e100.example/",
]


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_that_is_not_plain_and_public_is_refused(url):
    """Though every name leads to a public address: what is refused here is refused for its spelling."""
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient(resolve=trusting).check(url))


@pytest.mark.parametrize("url", REFUSED)
def test_what_is_refused_is_not_fetched(url):
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient(resolve=nowhere).fetch(url, timeout_s=5))


@pytest.mark.parametrize("url", ALLOWED)
def test_a_public_address_is_not_refused(url):
    asyncio.run(HttpClient(resolve=trusting).check(url))


@pytest.mark.parametrize(
    "url", ["http://localhost/", "http://ⓛocalhost/", "http://LOCALHOST/", "http://ˡocalhost/"]
)
def test_a_name_of_this_machine_is_resolved_and_then_refused(url):
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient().check(url))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient().fetch(url, timeout_s=5))


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["93.184.216.34", "127.0.0.1"],
        ["10.0.0.1", "93.184.216.34"],
        ["93.184.216.34", "::ffff:169.254.169.254"],
        ["2606:4700:4700::1111", "fe80::1%eth0"],
        ["2606:4700:4700::1111%1"],
        ["93.184.216.34", "localhost"],
        ["93.184.216.34", "2130706433"],
        ["93.184.216.34", ""],
    ],
)
def test_every_address_of_a_name_must_be_public(addresses):
    async def resolve(_host, port):
        return [(address, port) for address in addresses]

    http = HttpClient(resolve=resolve)
    with pytest.raises(ForbiddenAddress):
        asyncio.run(http.check("http://people.example/"))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(http.fetch("http://people.example/", timeout_s=5))


def test_connections_go_to_the_address_that_was_checked():
    """Rebinding: the second answer would lead to a site that may not be visited."""

    async def once():
        async with a_site(host="127.0.0.2") as meant, a_site(host="127.0.0.1") as private:
            resolutions = [await meant.resolve("", 0), await private.resolve("", 0)]
            hosts = []

            async def resolve(host, _port):
                hosts.append(host)
                return resolutions[len(hosts) - 1]

            http = HttpClient(allowed_networks=["127.0.0.2/32"], resolve=resolve)
            response = await http.fetch("http://people.example/")
            assert (response.status, hosts, meant.connections) == (200, ["people.example"], 1)
            with pytest.raises(ForbiddenAddress):
                await http.fetch("http://people.example/")
            assert (len(hosts), meant.connections, private.connections) == (2, 1, 0)

    asyncio.run(once())


def test_a_checked_address_is_checked_again_on_each_visit():
    answers = iter([[("93.184.216.34", 80)], [("127.0.0.1", 80)]])

    async def resolve(_host, _port):
        return next(answers)

    async def once():
        http = HttpClient(resolve=resolve)
        await http.check("http://people.example/")
        with pytest.raises(ForbiddenAddress):
            await http.fetch("http://people.example/")

    asyncio.run(once())


def test_a_callback_is_resolved_once_and_judged_by_that():
    """Plain http is for opened networks: a second answer, of another place or none, must not decide."""
    hosts = []

    async def resolve(host, port):
        hosts.append(host)
        if len(hosts) > 1:
            raise OSError("no second answer")
        return [("10.1.2.3", port)]

    asyncio.run(vet("http://people.example/hook", callback_networks=["10.0.0.0/8"], resolve=resolve))
    assert hosts == ["people.example"]


@pytest.mark.parametrize("addresses", [["93.184.216.34"], ["10.1.2.3", "93.184.216.34"]])
def test_an_http_callback_needs_all_addresses_in_opened_networks(addresses):
    async def resolve(_host, port):
        return [(address, port) for address in addresses]

    with pytest.raises(ConfigurationError, match=r"^the callback is refused: http is unencrypted[^\n]+$"):
        asyncio.run(vet("http://people.example/hook", callback_networks=["10.0.0.0/8"], resolve=resolve))
    asyncio.run(vet("https://people.example/hook", callback_networks=["10.0.0.0/8"], resolve=resolve))


def test_an_unresolvable_callback_is_refused_in_one_line():
    async def resolve(_host, _port):
        raise socket.gaierror("people.example")

    for url in ("http://people.example/hook", "https://people.example/hook"):
        with pytest.raises(ConfigurationError, match=r"^the callback is refused: its host has no address$"):
            asyncio.run(vet(url, resolve=resolve))


# --- what an operator opens -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opened", "url"),
    [
        ("127.0.0.0/8", "http://127.0.0.1/"),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/"),
        ("10.0.0.0/8", "http://[64:ff9b::10.1.2.3]/"),
        ("::1/128", "http://[::1]/"),
        ("fd00::/8", "http://[fd12::1]/"),
        ("100.64.0.0/10", "http://100.64.0.1/"),
    ],
)
def test_an_opened_network_may_be_visited_and_no_other(opened, url):
    asyncio.run(HttpClient(allowed_networks=[opened]).check(url))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient(allowed_networks=["192.168.0.0/16"]).check(url))


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[::a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "[2001:0:a9fe:a9fe::]",
        "[::ffff:0:a9fe:a9fe]",
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
    ],
)
def test_metadata_is_never_visited_whatever_is_opened(host):
    http = HttpClient(allowed_networks=["0.0.0.0/0", "::/0"], resolve=trusting)
    with pytest.raises(ForbiddenAddress):
        asyncio.run(http.check(f"http://{host}/"))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(http.fetch(f"http://{host}/", timeout_s=1))


@pytest.mark.parametrize("opened", [["10.0.0.1/8"], ["everything"], [""], "127.0.0.0/8", ["10.0.0.0/33"]])
def test_a_network_that_is_none_is_told_at_once(opened):
    with pytest.raises(ConfigurationError, match=r"10\.0\.0\.0/8") as caught:
        HttpClient(allowed_networks=opened)
    assert caught.value.__context__ is None


def test_nothing_at_once_is_told_at_once():
    with pytest.raises(ConfigurationError, match="concurrency"):
        HttpClient(concurrency=0)


# --- what is asked --------------------------------------------------------------------------------------


def test_a_request_goes_out_as_it_was_asked():
    response, site = fetched(
        lambda _: OK,
        path="/search?a=b#c",
        method="post",
        headers={"X-Kind": "test", "Host": "elsewhere.example", "Accept-Encoding": "br"},
        params={"q": "June Ö"},
        form={"name": "June Quill", "mark": "\ud800&="},
    )
    (got,) = site.got
    assert (response.status, response.body, response.text) == (200, b"ok", "ok")
    assert response.url == site.url("/search?a=b&q=June+%C3%96")
    assert (got.method, got.path) == ("POST", "/search?a=b&q=June+%C3%96")
    assert got.body == b"name=June+Quill&mark=%3F%26%3D"
    assert got.headers["content-type"] == "application/x-www-form-urlencoded"
    assert got.headers["x-kind"] == "test"
    assert got.headers["host"] == f"127.0.0.1:{site.port}"
    assert got.headers["accept-encoding"] == "gzip"
    assert got.headers["user-agent"].startswith("exposurekit/")


def test_a_body_goes_out_as_it_is():
    _, site = fetched(
        lambda _: OK, method="POST", body=b"\x00{}", headers={"Content-Type": "application/json"}
    )
    assert (site.got[0].body, site.got[0].headers["content-type"]) == (b"\x00{}", "application/json")


def test_the_environment_says_nothing(monkeypatch, tmp_path):
    """Neither proxies nor passwords."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login june password secret")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    _, site = fetched(lambda _: OK)
    assert "authorization" not in site.got[0].headers


def test_a_request_is_sent_once_though_the_connection_drops():
    async def once():
        async with a_site(lambda _: b"") as site:
            with pytest.raises(FetchError, match="unreachable"):
                await HttpClient(allowed_networks=LOOPBACK).fetch(site.url())
            return len(site.got)

    assert asyncio.run(once()) == 1


# --- redirects ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "//10.0.0.1/",
        "http://metadata.google.internal/",
        "http://[::1]/",
        "http://user@127.0.0.1/",
        "http://2130706433/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "javascript:alert(1)",
        "\\\\127.0.0.1\\",
        "//people.example\\@127.0.0.1/",
        "http://peo ple.example/",
        "http://127.0.0.1:0/",
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_vetted_as_the_first_address_is(location, status):
    with pytest.raises(ForbiddenAddress):
        fetched(lambda _: redirect(location, status))


def test_a_redirect_to_a_private_name_is_refused():
    async def once():
        async with (
            a_site(lambda _: redirect("http://inside.example/")) as site,
            a_site(host="127.0.0.2") as inside,
        ):

            async def resolve(host, port):
                return await (inside if host == "inside.example" else site).resolve(host, port)

            with pytest.raises(ForbiddenAddress):
                await HttpClient(allowed_networks=["127.0.0.1/32"], resolve=resolve).fetch(
                    "http://people.example/"
                )
            return len(site.got), inside.connections

    assert asyncio.run(once()) == (1, 0)


def test_a_redirect_to_the_same_name_is_checked_again():
    async def once():
        async with a_site(lambda _: redirect("/on")) as site:
            resolutions = iter([await site.resolve("", 0), [("127.0.0.2", site.port)]])

            async def resolve(_host, _port):
                return next(resolutions)

            with pytest.raises(ForbiddenAddress):
                await HttpClient(allowed_networks=["127.0.0.1/32"], resolve=resolve).fetch(
                    "http://people.example/"
                )
            return len(site.got)

    assert asyncio.run(once()) == 1


def test_redirects_are_followed_to_where_they_end():
    hops = {"/": "/a/b", "/a/b": "../c d?e=ö", "/c%20d?e=%C3%B6": "//127.0.0.1:{port}/end"}
    site = None

    async def once():
        nonlocal site
        async with a_site(lambda got: hop(got.path)) as site:
            return await HttpClient(allowed_networks=LOOPBACK).fetch(site.url(), redirects_max=3)

    def hop(path):
        return redirect(hops[path].format(port=site.port)) if path in hops else OK

    response = asyncio.run(once())
    assert (response.status, response.url) == (200, site.url("/end"))
    assert len(site.got) == 4


@pytest.mark.parametrize("redirects_max", [1, 5])
def test_endless_redirects_end(redirects_max):
    paths = []

    def answer(got):
        paths.append(got.path)
        return redirect(f"/{len(paths)}")

    assert failed(answer, redirects_max=redirects_max) == "too many redirects"
    assert len(paths) == redirects_max + 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_without_redirects_the_redirect_is_the_answer(status):
    response, site = fetched(lambda _: redirect("http://169.254.169.254/", status), redirects_max=0)
    assert (response.status, response.headers["location"]) == (status, "http://169.254.169.254/")
    assert len(site.got) == 1


@pytest.mark.parametrize("answer", [whole(302), whole(304), whole(300, [("Location", "/on")])])
def test_what_is_no_redirect_is_an_answer(answer):
    assert fetched(lambda _: answer)[0].status in {300, 302, 304}


def redirected(status, *, to="/end", **options):
    """What reaches the end of one redirect; `people.example` and `other.example` are the same site."""

    async def once():
        async with a_site(lambda got: whole() if got.path == "/end" else redirect(to, status)) as site:
            http = HttpClient(allowed_networks=LOOPBACK, resolve=site.resolve)
            await http.fetch("http://people.example/", **options)
            return site.got[-1]

    return asyncio.run(once())


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_post_becomes_a_get(status):
    got = redirected(status, method="POST", form={"name": "June"})
    assert (got.method, got.path, got.body) == ("GET", "/end", b"")
    assert "content-type" not in got.headers


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("to", ["/end", "http://people.example:81/end"])
def test_a_post_stays_a_post_on_the_same_host(status, to):
    got = redirected(status, to=to, method="POST", form={"name": "June"})
    assert (got.method, got.body) == ("POST", b"name=June")
    assert got.headers["content-type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize("status", [307, 308])
def test_a_form_is_not_sent_on_to_another_host(status):
    with pytest.raises(ForbiddenAddress, match="another host"):
        redirected(status, to="http://other.example/end", method="POST", form={"name": "June"})


def test_a_form_is_not_sent_on_in_the_clear():
    form_request = Request.create(
        "https://people.example/", method="POST", headers={}, params={}, form={}, body=None
    )
    assert form_request.redirected(307, "/on").method == "POST"
    with pytest.raises(ForbiddenAddress, match="unencrypted"):
        form_request.redirected(307, "http://people.example/on")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_has_no_body_stays_what_it_is(status, method):
    assert redirected(status, to="http://other.example/end", method=method).method == method


VALUES = {
    "Authorization": "Bearer x",
    "X-Key": "x",
    "Cookie": "a=b",
    "User-Agent": "me",
    "Accept": "text/html",
}


def test_headers_go_on_to_the_same_origin():
    got = redirected(302, headers=VALUES)
    assert {name: got.headers[name.lower()] for name in VALUES} == VALUES


@pytest.mark.parametrize("to", ["http://other.example/end", "http://people.example:81/end"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_to_another_origin_goes_on_only_what_anybody_may_know(to, method):
    got = redirected(302, to=to, method=method, headers=VALUES)
    assert set(got.headers) == {"host", "accept", "user-agent", "accept-encoding", "connection"}
    assert (got.headers["user-agent"], got.headers["accept"]) == ("me", "text/html")


# --- bounds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framed", [True, False])
def test_a_body_may_be_exactly_as_large_as_the_limit(framed):
    def answer(size):
        body = b"x" * size
        return whole(body=body) if framed else CHUNKED + chunk(body) + chunk(b"")

    assert fetched(lambda _: answer(70_000), bytes_max=70_000)[0].body == b"x" * 70_000
    assert failed(lambda _: answer(70_001), bytes_max=70_000) == "too large"


def test_an_endless_body_ends_soon():
    async def once():
        async with a_site(lambda _: forever(first=CHUNKED, piece=chunk(b"x" * 65_536))) as site:
            with pytest.raises(FetchError, match="too large"):
                await HttpClient(allowed_networks=LOOPBACK).fetch(
                    site.url(), bytes_max=1_000_000, timeout_s=60
                )
            return site.sent

    assert asyncio.run(once()) < 30_000_000


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (CHUNKED, chunk(b".")),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"."),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ],
    ids=["silence", "head", "chunks", "body", "interim"],
)
def test_what_drips_ends_with_the_time(first, piece):
    assert failed(lambda _: forever(first=first, piece=piece, every_s=0.02), timeout_s=0.4) == "time-out"


def test_the_time_is_for_all_redirects_together():
    async def late(got):
        await asyncio.sleep(0.1)
        yield redirect(got.path + "a")

    assert failed(late, timeout_s=0.5, redirects_max=1_000) == "time-out"


def test_a_name_that_is_never_resolved_ends_with_the_time():
    async def never(_host, _port):
        await asyncio.Event().wait()

    with pytest.raises(FetchError, match="time-out"):
        asyncio.run(HttpClient(resolve=never).fetch("http://people.example/", timeout_s=0.1))


def bomb(size, encoding=16 + zlib.MAX_WBITS):
    packing, zeros = zlib.compressobj(9, wbits=encoding), bytes(1 << 20)
    return b"".join(packing.compress(zeros) for _ in range(size >> 20)) + packing.flush()


def test_a_bomb_is_not_unpacked():
    packed = bomb(100 << 20)
    answer = whole(headers=[("Content-Encoding", "gzip")], body=packed)
    tracemalloc.start()
    try:
        assert failed(lambda _: answer, bytes_max=2_000_000) == "too large"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


def test_what_unpacks_to_nothing_is_counted_as_it_comes():
    head = gzip.compress(b"")[:10]
    nothing = b"\x00\x00\x00\xff\xff" * 10_000
    first = CHUNKED[:-2] + b"Content-Encoding: gzip\r\n\r\n" + chunk(head)
    assert failed(lambda _: forever(first=first, piece=chunk(nothing)), bytes_max=500_000) == "too large"


@pytest.mark.parametrize("name", ["gzip", "X-GZIP"])
@pytest.mark.parametrize("size", [0, 5, 70_000])
def test_a_packed_body_is_unpacked(name, size):
    body = bytes(size)
    answer = whole(headers=[("Content-Encoding", name)], body=gzip.compress(body))
    assert fetched(lambda _: answer)[0].body == body


def test_a_head_response_has_no_body_in_any_encoding():
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 50\r\n\r\n"
    assert fetched(lambda _: answer, method="HEAD")[0].body == b""


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"not gzip at all"),
        ("gzip", gzip.compress(b"x" * 1000)[:-9]),
        ("gzip", gzip.compress(b"x")[:-8] + b"checksum"),
        ("gzip", gzip.compress(b"x") + b"more"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x"))),
        ("br", b"\x0b\x02\x80abc\x03"),
        ("deflate", zlib.compress(b"x")),
    ],
    ids=["none", "cut", "checksum", "more", "twice", "brotli", "deflate"],
)
def test_an_unrequested_or_broken_encoding_is_unreadable(encoding, body):
    assert failed(lambda _: whole(headers=[("Content-Encoding", encoding)], body=body)) == "unreadable"


@pytest.mark.parametrize(
    "answer",
    [
        b"\x16\x03\x01\x00\xffnot http\x00\r\n\r\n",
        b"HTTP/9.9.9 twohundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut",
        CHUNKED + b"zz\r\nno chunk\r\n",
        CHUNKED + b"5\r\ncut",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
        CHUNKED + b"0\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
    ],
    ids=[
        "none",
        "status",
        "length",
        "negative",
        "cut",
        "chunk",
        "cut-chunk",
        "header",
        "headers",
        "trailers",
    ],
)
def test_broken_http_is_unreadable(answer):
    assert failed(lambda _: answer, timeout_s=30) == "unreadable"


@pytest.mark.parametrize("piece", [b"X: y\r\n" * 1000, b"x" * 10_000])
def test_a_flood_of_headers_ends_before_the_time_does(piece):
    assert (
        failed(lambda _: forever(first=b"HTTP/1.1 200 OK\r\nX: ", piece=piece), timeout_s=60) == "unreadable"
    )


def test_who_does_not_listen_or_does_not_answer_is_unreachable():
    async def once():
        async with a_site() as site:
            pass
        with pytest.raises(FetchError, match="unreachable"):
            await HttpClient(allowed_networks=LOOPBACK).fetch(site.url())

    asyncio.run(once())
    assert failed(lambda _: b"") == "unreachable"


async def failing(host, _port):
    raise RuntimeError(host)


@pytest.mark.parametrize("resolve", [nowhere, failing])
def test_a_name_without_an_address_is_unreachable(resolve):
    http = HttpClient(resolve=resolve)
    for ask in (http.check, http.fetch):
        with pytest.raises(FetchError, match="unreachable"):
            asyncio.run(ask("http://people.example/"))


def test_the_system_knows_no_such_name():
    with pytest.raises(FetchError, match="unreachable"):
        asyncio.run(HttpClient().check("http://people.invalid/"))


# --- what came ------------------------------------------------------------------------------------------


def test_headers_are_read_by_lower_case_name():
    answer = (
        b"HTTP/1.1 404 Gone\r\nX-Kind: a\r\nx-kind: b\r\nX-Raw: \xff\xc3\xb6\r\nContent-Length: 1\r\n\r\nx"
    )
    response, _ = fetched(lambda _: answer)
    assert response.status == 404
    assert response.headers == {"x-kind": "a, b", "x-raw": "�ö", "content-length": "1"}


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/html", "Jörg".encode(), "Jörg"),
        ("text/html; charset=ISO-8859-1", "“Jörg”".encode("cp1252"), "“Jörg”"),
        ("text/html;charset='Windows-1251'", "да".encode("cp1251"), "да"),
        ('text/html; charset="shift_jis"', "山田".encode("shift-jis"), "山田"),
        ("text/html", b'<meta charset="koi8-r">' + "да".encode("koi8-r"), '<meta charset="koi8-r">да'),
        ("text/html; charset=utf-8", b"<meta charset=koi8-r>\xc3\xb6", "<meta charset=koi8-r>ö"),
        ("text/html; charset=koi8-r", b"\xef\xbb\xbf\xc3\xb6", "ö"),
        ("text/html", b"\xff\xfed\x00a\x00", "da"),
        ("text/html", b"<meta charset=utf-16>\xc3\xb6", "<meta charset=utf-16>ö"),
        ("text/html; charset=utf-8", b"J\xf6rg", "J�rg"),
        ("text/html; charset=nonsense", "ö".encode(), "ö"),
        ("text/html; charset=hex", b"6a", "6a"),
        ("text/html; charset=undefined", b"6a", "6a"),
        ("text/html; charset=punycode", b"a-b", "a-b"),
        ("text/html; charset=utf-7", b"+ADw-script", "+ADw-script"),
        ("text/html; charset=unicode_escape", rb"\u0041\q", r"\u0041\q"),
        ("text/html; charset=", b"a", "a"),
        ("", b"", ""),
    ],
)
def test_text_is_read_as_the_page_says_and_never_fails(content_type, body, text):
    assert Response(200, "", {"content-type": content_type}, body).text == text


@given(
    body=st.binary(),
    charset=st.sampled_from(["utf-16", "gbk", "iso-2022-jp", "euc-kr", "big5", "sjis", "cp1255"]),
)
def test_any_bytes_have_a_text(body, charset):
    assert isinstance(Response(200, "", {"content-type": f"a/b; charset={charset}"}, body).text, str)


def test_every_charset_that_is_offered_is_one_that_python_knows():
    from exposurekit.service.http.response import _CODECS

    assert {name: b"a".decode(codec, "replace") for name, codec in _CODECS.items() if "16" not in codec} != {}
    assert all(b"a\x00".decode(codec, "replace") for codec in _CODECS.values())


# --- cookies --------------------------------------------------------------------------------------------


def opt_out(got):
    if got.path == "/form":
        return whole(headers=[("Set-Cookie", "session=a b/c; Path=/"), ("Set-Cookie", "csrf=1=2+3/4")])
    return redirect("/done", 303) if got.method == "POST" else OK


@pytest.mark.parametrize("host", [None, "people.example"])
def test_a_visit_keeps_its_cookies_and_nobody_else_has_them(host):
    async def once():
        async with a_site(opt_out) as site:
            http = HttpClient(allowed_networks=LOOPBACK, resolve=site.resolve)
            async with http.session() as visit, http.session() as other:
                await visit.fetch(site.url("/form", host))
                await visit.fetch(site.url("/send", host), method="POST", form={"name": "June"})
                await other.fetch(site.url("/other", host))
                await http.fetch(site.url("/plain", host))
            async with http.session() as later:
                await later.fetch(site.url("/later", host))
            return {got.path: got.headers.get("cookie") for got in site.got}

    cookies = asyncio.run(once())
    cookies_sent = {"csrf=1=2+3/4", "session=a b/c"}
    assert set(cookies["/send"].split("; ")) == set(cookies["/done"].split("; ")) == cookies_sent
    assert cookies["/form"] is cookies["/other"] is cookies["/plain"] is cookies["/later"] is None


def test_a_request_keeps_no_cookie_for_the_next():
    async def once():
        async with a_site(opt_out) as site:
            http = HttpClient(allowed_networks=LOOPBACK)
            await http.fetch(site.url("/form"))
            await http.fetch(site.url("/next"))
            return site.got[-1].headers

    assert "cookie" not in asyncio.run(once())


def test_a_visits_cookies_do_not_go_to_another_host():
    async def once():
        async with a_site(opt_out) as site:
            async with HttpClient(allowed_networks=LOOPBACK, resolve=site.resolve).session() as visit:
                await visit.fetch("http://people.example/form")
                await visit.fetch("http://other.example/next")
            return site.got[-1].headers

    assert "cookie" not in asyncio.run(once())


# --- TLS ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A certificate for people.example that signed itself, and a server's side of it."""
    file = tmp_path_factory.mktemp("tls") / "people.pem"
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "people.example")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("people.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return file, context


def test_a_certificate_that_nobody_vouches_for_is_unreadable(tls):
    async def once():
        async with a_site(tls=tls[1]) as site:
            with pytest.raises(FetchError) as caught:
                await HttpClient(allowed_networks=LOOPBACK, resolve=site.resolve).fetch(
                    "https://people.example/"
                )
            return caught.value.reason, site.got

    assert asyncio.run(once()) == ("unreadable", [])


@pytest.mark.parametrize(("host", "outcome"), [("people.example", "200"), ("other.example", "unreadable")])
def test_a_certificate_is_for_the_name_that_was_asked(tls, host, outcome):
    """In a process of its own: the authorities are read once."""
    code = """if True:
        import asyncio, sys
        from exposurekit.service.http.client import HttpClient, FetchError
        async def resolve(host, port):
            return [("127.0.0.1", int(sys.argv[2]))]
        try:
            print(asyncio.run(HttpClient(allowed_networks=["127.0.0.0/8"], resolve=resolve).fetch(sys.argv[1])).status)
        except FetchError as error:
            print(error.reason)
    """

    async def once():
        async with a_site(tls=tls[1]) as site:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-W", "error", "-c", code, f"https://{host}/", str(site.port)),
                env=os.environ | {"SSL_CERT_FILE": str(tls[0])},
                stdout=subprocess.PIPE,
            )
            return (await process.communicate())[0].decode().strip()

    assert asyncio.run(once()) == outcome


# --- what it says ---------------------------------------------------------------------------------------

PLANTED = "juniper"
HOSTILE = {
    "redirect": redirect(f"http://169.254.169.254/{PLANTED}"),
    "redirects": redirect(f"/{PLANTED}"),
    "no redirect": redirect(f"http://[{PLANTED}"),
    "no http": PLANTED.encode() + b"\r\n\r\n",
    "header": f"HTTP/1.1 200 OK\r\n{PLANTED} {PLANTED}\r\n\r\n".encode(),
    "length": f"HTTP/1.1 200 OK\r\nContent-Length: {PLANTED}\r\n\r\n".encode(),
    "cut": f"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{PLANTED}".encode(),
    "chunk": CHUNKED + PLANTED.encode() + b"\r\n\r\n",
    "gzip": whole(headers=[("Content-Encoding", "gzip")], body=PLANTED.encode()),
    "closed": b"",
}


def said_by(error):
    while error is not None:
        yield f"{error} {error!r}"
        error = error.__cause__ or error.__context__


async def everything_that_fails(http):
    """Every error that a hostile web can bring about, each with the planted word in the address."""
    for answer in HOSTILE.values():
        async with a_site(lambda _, answer=answer: answer) as site:
            yield http.fetch(site.url(f"/{PLANTED}?{PLANTED}"), headers={"X": PLANTED}, form={"n": PLANTED})
            yield http.fetch(site.url(f"/{PLANTED}"), timeout_s=0)
    for url in (f"http://{PLANTED}.invalid/", f"http://127.0.0.1:1/{PLANTED}", f"http://{PLANTED}@h/"):
        yield http.fetch(url)
        if "127" not in url:
            yield http.check(url)
    for url in (
        f"http://10.0.0.1/{PLANTED}",
        f"file:///{PLANTED}",
        f"http://[{PLANTED}",
        f"http://{PLANTED}:x/",
    ):
        yield http.check(url)
        yield http.fetch(url)
    yield http.fetch(f"http://127.0.0.1/{PLANTED}", headers={"X": f"{PLANTED}\r\n"})
    yield http.fetch(f"http://127.0.0.1/{PLANTED}", method=f"G T {PLANTED}")


def test_no_error_or_log_has_an_address_or_request(caplog):
    caplog.set_level(logging.DEBUG)

    async def once():
        texts = []
        async for attempt in everything_that_fails(HttpClient(allowed_networks=LOOPBACK)):
            with pytest.raises((ForbiddenAddress, FetchError)) as caught:
                await attempt
            texts += said_by(caught.value)
        return texts

    texts = asyncio.run(once(), debug=True)
    assert len(texts) > 30
    assert [text for text in texts if PLANTED in text.lower() or "127.0.0.1" in text] == []
    assert PLANTED not in caplog.text.lower()


def test_a_cookie_is_not_logged(caplog):
    caplog.set_level(logging.DEBUG)

    async def once():
        answer = whole(
            headers=[("Set-Cookie", f"{PLANTED}@@=\x01{PLANTED}"), ("Set-Cookie", f"ok={'x' * 5000}")]
        )
        async with a_site(lambda _: answer) as site, HttpClient(allowed_networks=LOOPBACK).session() as visit:
            await visit.fetch(site.url())

    with suppress(FetchError):
        asyncio.run(once())
    logging.getLogger("aiohttp.internal").warning("cookie %s", PLANTED)
    assert PLANTED not in caplog.text


def test_an_answer_and_the_door_show_nothing():
    response, _ = fetched(
        lambda _: whole(headers=[("X", PLANTED)], body=PLANTED.encode()), path=f"/{PLANTED}"
    )
    assert repr(response) == "Response(status=200)"
    assert repr(HttpClient(allowed_networks=LOOPBACK)) == "HttpClient()"


# --- at once, and again ---------------------------------------------------------------------------------


def test_it_works_in_one_loop_after_another():
    http = HttpClient(allowed_networks=LOOPBACK, concurrency=1)

    async def once():
        async with a_site() as site:
            # More than at once, so that some wait: what they wait for belongs to a loop.
            return [response.status for response in await asyncio.gather(*map(http.fetch, [site.url()] * 3))]

    assert [asyncio.run(once()) for _ in range(2)] == [[200] * 3] * 2
    assert len(http._resolver._limiters) == 1


def test_at_most_the_limit_run_and_queued_time_is_free():
    running, most = 0, 0

    async def slowly(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.2)
        running -= 1
        yield OK

    async def once():
        async with a_site(slowly) as site:
            http = HttpClient(allowed_networks=LOOPBACK, concurrency=2)
            await asyncio.gather(*(http.fetch(site.url(), timeout_s=0.5) for _ in range(8)))

    asyncio.run(once())
    assert most == 2


def test_a_fetch_that_is_cancelled_is_cancelled():
    async def once():
        arrived = asyncio.Event()

        async def silence(_):
            arrived.set()
            await asyncio.Event().wait()
            yield b""

        async with a_site(silence) as site:
            task = asyncio.ensure_future(
                HttpClient(allowed_networks=LOOPBACK, concurrency=1).fetch(site.url())
            )
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(once())


def test_no_connection_is_kept():
    async def once():
        async with a_site(lambda _: OK) as site:
            http = HttpClient(allowed_networks=LOOPBACK)
            for _ in itertools.repeat(None, 3):
                await http.fetch(site.url())
            return site.connections, {got.headers["connection"] for got in site.got}

    assert asyncio.run(once()) == (3, {"close"})


def test_who_closed_the_door_goes_out_no_more():
    async def once():
        async with a_site() as site:
            http = HttpClient(allowed_networks=LOOPBACK)
            await http.close()
            with pytest.raises(FetchError, match="unreachable"):
                await http.fetch(site.url())
            with pytest.raises(FetchError, match="unreachable"):
                await http.check("http://localhost/")
            return site.connections

    assert asyncio.run(once()) == 0
