"""Outgoing HTTP: the addresses it refuses, and the limits of time, size and logging."""

import asyncio
import gzip
import logging
import os
import socket
import ssl
import subprocess
import sys
import tracemalloc
import zlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st
from support.services import in_event_loop
from support.small_web import LOOPBACK, raw_site, read_request

from exposurekit.errors import ConfigurationError
from exposurekit.service.http.client import FetchError, ForbiddenAddress, HttpClient, Response
from exposurekit.service.http.request import Request
from exposurekit.service.webhooks.endpoints import vet

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def client(**options):
    return HttpClient(**{"allowed_networks": LOOPBACK} | options)


def whole(status=200, headers=(), body=b""):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} So\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode() + body


def redirect(location, status=302):
    return whole(status, [("Location", location)])


def fetched(answer, *, path="/", **options):
    """The response of a site, and the site."""

    async def fetch():
        async with raw_site(answer) as site:
            return await client().fetch(site.url(path), **options), site

    return asyncio.run(fetch())


def failed(answer, **options):
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


class Resolver:
    """Resolves to one list of addresses after another; records the hosts."""

    def __init__(self, *resolutions):
        self.hosts, self._resolutions = [], iter(resolutions)

    async def __call__(self, host, _port):
        self.hosts.append(host)
        return next(self._resolutions)


async def trusting(_host, port):
    """A name server for which every name is public."""
    return [("93.184.216.34", port)]


async def nowhere(_host, _port):
    return []


REFUSED = (
    Path(__file__).with_name("refused_urls.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
)
REFUSED += [
    *("", "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/", "http://people.example:\uff18\uff10/"),
    *("http://people.example/\r\nX: y", "http://people.example\n", "http://people.example/\x00"),
    *("http://people.example/\u200b", "http://people.example/\ud800"),
    *("http://" + "a" * 64 + ".example/", "http://" + "a." * 127 + "example/"),
]

ALLOWED = """
http://people.example/ HTTPS://People.Example:8443/a?b=c#d http://people.example./
http://people_search.example/ http://bücher.example/ http://people.example#@127.0.0.1/
http://people.example/?@127.0.0.1 http://8.8.8.8/ http://100.63.255.255/ http://100.128.0.0/
http://172.32.0.1/ http://[2606:4700:4700::1111]/ http://[::ffff:8.8.8.8]/ http://[64:ff9b::8.8.8.8]/
http://127.0.0.1.people.example/ http://1e100.example/
"""


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_is_not_plain_and_public_is_refused(url):
    """For its spelling: every name resolves to a public address, or would be unreachable."""
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient(resolve=trusting).check(url))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient(resolve=nowhere).fetch(url, timeout_s=5))


@pytest.mark.parametrize("url", ALLOWED.split())
def test_a_public_url_is_accepted(url):
    asyncio.run(HttpClient(resolve=trusting).check(url))


@pytest.mark.parametrize(
    "url", ["http://localhost/", "http://ⓛocalhost/", "http://LOCALHOST/", "http://ˡocalhost/"]
)
def test_a_name_of_this_machine_is_refused(url):
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient().check(url))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient().fetch(url, timeout_s=5))


def resolving_to(*addresses):
    async def resolve(_host, port):
        return [(address, port) for address in addresses]

    return resolve


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["93.184.216.34", "127.0.0.1"],
        ["10.0.0.1", "93.184.216.34"],
        ["93.184.216.34", "::ffff:169.254.169.254"],
        ["2606:4700:4700::1111", "fe80::1%eth0"],
        ["2606:4700:4700::1111%1"],
        *(["93.184.216.34", other] for other in ("localhost", "2130706433", "")),
    ],
)
def test_every_address_of_a_name_must_be_public(addresses):
    http = HttpClient(resolve=resolving_to(*addresses))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(http.check("http://people.example/"))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(http.fetch("http://people.example/", timeout_s=5))


@in_event_loop
async def test_connections_go_to_the_address_that_was_checked():
    """Rebinding: the second resolution is of a private site."""
    async with (
        raw_site(lambda _: OK, host="127.0.0.2") as public,
        raw_site(lambda _: OK, host="127.0.0.1") as private,
    ):
        resolve = Resolver([(public.host, public.port)], [(private.host, private.port)])
        http = HttpClient(allowed_networks=["127.0.0.2/32"], resolve=resolve)
        response = await http.fetch("http://people.example/")
        assert (response.status, resolve.hosts, public.connections) == (200, ["people.example"], 1)
        with pytest.raises(ForbiddenAddress):
            await http.fetch("http://people.example/")
        assert (len(resolve.hosts), public.connections, private.connections) == (2, 1, 0)


@in_event_loop
async def test_a_checked_address_is_checked_again_on_each_fetch():
    http = HttpClient(resolve=Resolver([("93.184.216.34", 80)], [("127.0.0.1", 80)]))
    await http.check("http://people.example/")
    with pytest.raises(ForbiddenAddress):
        await http.fetch("http://people.example/")


def test_a_callback_is_resolved_only_once():
    """Plain http is for allowed networks; a second resolution could differ."""
    resolve = Resolver([("10.1.2.3", 80)])
    asyncio.run(vet("http://people.example/hook", callback_networks=["10.0.0.0/8"], resolve=resolve))
    assert resolve.hosts == ["people.example"]


@pytest.mark.parametrize("addresses", [["93.184.216.34"], ["10.1.2.3", "93.184.216.34"]])
def test_an_http_callback_needs_all_addresses_in_allowed_networks(addresses):
    options = {"callback_networks": ["10.0.0.0/8"], "resolve": resolving_to(*addresses)}
    with pytest.raises(ConfigurationError, match=r"^the callback is refused: http is unencrypted[^\n]+$"):
        asyncio.run(vet("http://people.example/hook", **options))
    asyncio.run(vet("https://people.example/hook", **options))


def test_an_unresolvable_callback_is_refused_in_one_line():
    async def resolve(_host, _port):
        raise socket.gaierror("people.example")

    for url in ("http://people.example/hook", "https://people.example/hook"):
        with pytest.raises(ConfigurationError, match=r"^the callback is refused: its host has no address$"):
            asyncio.run(vet(url, resolve=resolve))


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
def test_only_an_allowed_network_is_reachable(opened, url):
    asyncio.run(HttpClient(allowed_networks=[opened]).check(url))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(HttpClient(allowed_networks=["192.168.0.0/16"]).check(url))


METADATA_HOSTS = """
169.254.169.254 169.254.0.1 100.100.100.200 168.63.129.16 192.0.0.192 [fd00:ec2::254] [fd20:ce::254]
[fd00:c1::a9fe:a9fe] [fd00:100::100:200] [fd00:42::42] [fd00:a9fe:a9fe::1] 100.96.0.96
[fe80::1] [::ffff:169.254.169.254] [::a9fe:a9fe] [64:ff9b::a9fe:a9fe] [64:ff9b:1::a9fe:a9fe]
[2002:a9fe:a9fe::] [2001:0:a9fe:a9fe::] [::ffff:0:a9fe:a9fe]
metadata.google.internal metadata.goog instance-data
"""


@pytest.mark.parametrize("host", METADATA_HOSTS.split())
def test_metadata_services_are_refused_in_any_allowed_network(host):
    http = HttpClient(allowed_networks=["0.0.0.0/0", "::/0"], resolve=trusting)
    with pytest.raises(ForbiddenAddress):
        asyncio.run(http.check(f"http://{host}/"))
    with pytest.raises(ForbiddenAddress):
        asyncio.run(http.fetch(f"http://{host}/", timeout_s=1))


INVALID_NETWORKS = [["10.0.0.1/8"], ["everything"], [""], "127.0.0.0/8", ["10.0.0.0/33"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"allowed_networks": networks}, r"10\.0\.0\.0/8") for networks in INVALID_NETWORKS),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_an_invalid_option_raises_configuration_error(options, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        HttpClient(**options)
    assert caught.value.__context__ is None


def test_a_request_is_sent_with_all_its_parts():
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


def test_a_body_is_sent_unchanged():
    _, site = fetched(
        lambda _: OK, method="POST", body=b"\x00{}", headers={"Content-Type": "application/json"}
    )
    assert (site.got[0].body, site.got[0].headers["content-type"]) == (b"\x00{}", "application/json")


def test_proxies_and_netrc_of_the_environment_are_ignored(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login june password secret")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    _, site = fetched(lambda _: OK)
    assert "authorization" not in site.got[0].headers


@in_event_loop
async def test_a_request_is_sent_once_though_the_connection_drops():
    async with raw_site(lambda _: b"") as site:
        with pytest.raises(FetchError, match="unreachable"):
            await client().fetch(site.url())
        assert len(site.got) == 1


REDIRECTS = (301, 302, 303, 307, 308)
FORBIDDEN_LOCATIONS = (
    *("http://169.254.169.254/latest/meta-data/", "//10.0.0.1/", "http://metadata.google.internal/"),
    *("http://[::1]/", "http://user@127.0.0.1/", "http://2130706433/", "file:///etc/passwd"),
    *("gopher://127.0.0.1/", "javascript:alert(1)", "\\\\127.0.0.1\\", "//people.example\\@127.0.0.1/"),
    *("http://peo ple.example/", "http://127.0.0.1:0/"),
)


@pytest.mark.parametrize(
    ("location", "status"),
    [
        *((location, 302) for location in FORBIDDEN_LOCATIONS),
        *((FORBIDDEN_LOCATIONS[0], status) for status in REDIRECTS),
    ],
)
def test_a_redirect_to_a_forbidden_address_is_refused(location, status):
    with pytest.raises(ForbiddenAddress):
        fetched(lambda _: redirect(location, status))


@in_event_loop
async def test_a_redirect_to_a_private_name_is_refused():
    redirecting = raw_site(lambda _: redirect("http://inside.example/"))
    async with redirecting as site, raw_site(lambda _: OK, host="127.0.0.2") as inside:

        async def resolve(host, port):
            return await (inside if host == "inside.example" else site).resolve(host, port)

        with pytest.raises(ForbiddenAddress):
            await client(allowed_networks=["127.0.0.1/32"], resolve=resolve).fetch("http://people.example/")
        assert (len(site.got), inside.connections) == (1, 0)


@in_event_loop
async def test_a_redirect_to_the_same_name_is_checked_again():
    async with raw_site(lambda _: redirect("/on")) as site:
        resolve = Resolver([(site.host, site.port)], [("127.0.0.2", site.port)])
        with pytest.raises(ForbiddenAddress):
            await client(allowed_networks=["127.0.0.1/32"], resolve=resolve).fetch("http://people.example/")
        assert len(site.got) == 1


@in_event_loop
async def test_redirects_are_followed_to_their_end():
    hops = {"/": "/a/b", "/a/b": "../c d?e=ö", "/c%20d?e=%C3%B6": "//127.0.0.1:{port}/end"}

    def hop(got):
        return redirect(hops[got.path].format(port=site.port)) if got.path in hops else OK

    async with raw_site(hop) as site:
        response = await client().fetch(site.url(), redirects_max=3)
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


@pytest.mark.parametrize("status", REDIRECTS)
def test_without_redirects_the_redirect_is_the_response(status):
    response, site = fetched(lambda _: redirect("http://169.254.169.254/", status), redirects_max=0)
    assert (response.status, response.headers["location"]) == (status, "http://169.254.169.254/")
    assert len(site.got) == 1


@pytest.mark.parametrize("answer", [whole(302), whole(304), whole(300, [("Location", "/on")])])
def test_a_3xx_that_is_no_redirect_is_a_response(answer):
    assert fetched(lambda _: answer)[0].status in {300, 302, 304}


def redirected(status, *, to="/end", **options):
    """The request at the end of one redirect; `people.example` and `other.example` are the same site."""

    async def fetch():
        async with raw_site(lambda got: whole() if got.path == "/end" else redirect(to, status)) as site:
            await client(resolve=site.resolve).fetch("http://people.example/", **options)
            return site.got[-1]

    return asyncio.run(fetch())


def test_a_form_is_not_redirected_to_unencrypted_http():
    form_request = Request.create(
        "https://people.example/", method="POST", headers={}, params={}, form={}, body=None
    )
    assert form_request.redirected(307, "/on").method == "POST"
    with pytest.raises(ForbiddenAddress, match="unencrypted"):
        form_request.redirected(307, "http://people.example/on")


@pytest.mark.parametrize("status", REDIRECTS)
def test_a_redirected_post_becomes_a_get_below_307(status):
    post = {"method": "POST", "form": {"name": "June"}}
    for to in ("/end", "http://people.example:81/end"):
        got = redirected(status, to=to, **post)
        if status < 307:
            assert (got.method, got.path, got.body) == ("GET", "/end", b"")
            assert "content-type" not in got.headers
        else:
            assert (got.method, got.body) == ("POST", b"name=June")
            assert got.headers["content-type"] == "application/x-www-form-urlencoded"
    if status >= 307:
        with pytest.raises(ForbiddenAddress, match="another host"):
            redirected(status, to="http://other.example/end", **post)


@pytest.mark.parametrize("status", REDIRECTS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_redirected_request_without_body_keeps_its_method(status, method):
    assert redirected(status, to="http://other.example/end", method=method).method == method


VALUES = {
    "Authorization": "Bearer x",
    "X-Key": "x",
    "Cookie": "a=b",
    "User-Agent": "me",
    "Accept": "text/html",
}


def test_headers_are_redirected_to_the_same_origin():
    got = redirected(302, headers=VALUES)
    assert {name: got.headers[name.lower()] for name in VALUES} == VALUES


@pytest.mark.parametrize("to", ["http://other.example/end", "http://people.example:81/end"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_only_public_headers_are_redirected_to_another_origin(to, method):
    got = redirected(302, to=to, method=method, headers=VALUES)
    assert set(got.headers) == {"host", "accept", "user-agent", "accept-encoding", "connection"}
    assert (got.headers["user-agent"], got.headers["accept"]) == ("me", "text/html")


@pytest.mark.parametrize("framed", [True, False])
def test_a_body_may_be_exactly_as_large_as_the_limit(framed):
    def answer(size):
        body = b"x" * size
        return whole(body=body) if framed else CHUNKED + chunk(body) + chunk(b"")

    assert fetched(lambda _: answer(70_000), bytes_max=70_000)[0].body == b"x" * 70_000
    assert failed(lambda _: answer(70_001), bytes_max=70_000) == "too large"


@in_event_loop
async def test_an_endless_body_is_too_large():
    async with raw_site(lambda _: forever(first=CHUNKED, piece=chunk(b"x" * 65_536))) as site:
        with pytest.raises(FetchError, match="too large"):
            await client().fetch(site.url(), bytes_max=1_000_000, timeout_s=60)
        assert site.sent < 30_000_000


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
def test_a_slow_response_is_a_time_out(first, piece):
    assert failed(lambda _: forever(first=first, piece=piece, every_s=0.02), timeout_s=0.4) == "time-out"


def test_the_time_limit_covers_all_redirects():
    async def delayed(got):
        await asyncio.sleep(0.1)
        yield redirect(got.path + "a")

    assert failed(delayed, timeout_s=0.5, redirects_max=1_000) == "time-out"


def test_a_slow_resolution_is_a_time_out():
    async def never(_host, _port):
        await asyncio.Event().wait()

    with pytest.raises(FetchError, match="time-out"):
        asyncio.run(HttpClient(resolve=never).fetch("http://people.example/", timeout_s=0.1))


def bomb(size, encoding=16 + zlib.MAX_WBITS):
    packing, zeros = zlib.compressobj(9, wbits=encoding), bytes(1 << 20)
    return b"".join(packing.compress(zeros) for _ in range(size >> 20)) + packing.flush()


def test_a_decompression_bomb_is_not_decompressed():
    packed = bomb(40 << 20)
    answer = whole(headers=[("Content-Encoding", "gzip")], body=packed)
    tracemalloc.start()
    try:
        assert failed(lambda _: answer, bytes_max=2_000_000) == "too large"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


def test_compressed_bytes_count_towards_the_limit():
    head = gzip.compress(b"")[:10]
    nothing = b"\x00\x00\x00\xff\xff" * 10_000
    first = CHUNKED[:-2] + b"Content-Encoding: gzip\r\n\r\n" + chunk(head)
    assert failed(lambda _: forever(first=first, piece=chunk(nothing)), bytes_max=500_000) == "too large"


@pytest.mark.parametrize("name", ["gzip", "X-GZIP"])
@pytest.mark.parametrize("size", [0, 5, 70_000])
def test_a_gzip_body_is_decompressed(name, size):
    body = bytes(size)
    answer = whole(headers=[("Content-Encoding", name)], body=gzip.compress(body))
    assert fetched(lambda _: answer)[0].body == body


@pytest.mark.parametrize("padding", [0, 3, 70_000])
@pytest.mark.parametrize("size", [5, 70_000])
def test_the_members_of_a_gzip_body_are_one_text(size, padding):
    """RFC 1952, 2.2; zeros behind them are padding, as gzip reads them."""
    body = b"".join(gzip.compress(letter * size) for letter in (b"a", b"b", b""))
    answer = whole(headers=[("Content-Encoding", "gzip")], body=body + bytes(padding))
    assert fetched(lambda _: answer)[0].body == b"a" * size + b"b" * size


def test_the_members_of_a_gzip_body_share_one_limit():
    members = gzip.compress(bytes(300_000)) * 4
    answer = whole(headers=[("Content-Encoding", "gzip")], body=members)
    assert failed(lambda _: answer, bytes_max=1_000_000) == "too large"


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
        ("gzip", gzip.compress(b"x") + gzip.compress(b"y" * 1000)[:-9]),
        ("gzip", gzip.compress(b"") * 1_001),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x"))),
        ("br", b"\x0b\x02\x80abc\x03"),
        ("deflate", zlib.compress(b"x")),
    ],
    ids=["none", "cut", "checksum", "more", "a cut member", "many members", "twice", "brotli", "deflate"],
)
def test_an_unrequested_or_broken_encoding_is_unreadable(encoding, body):
    assert failed(lambda _: whole(headers=[("Content-Encoding", encoding)], body=body)) == "unreadable"


BROKEN = {
    "none": b"\x16\x03\x01\x00\xffnot http\x00\r\n\r\n",
    "status": b"HTTP/9.9.9 twohundred\r\n\r\n",
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    "negative": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut",
    "chunk": CHUNKED + b"zz\r\nno chunk\r\n",
    "cut-chunk": CHUNKED + b"5\r\ncut",
    "header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
    "headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
    "trailers": CHUNKED + b"0\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
def test_broken_http_is_unreadable(answer):
    assert failed(lambda _: answer, timeout_s=30) == "unreadable"


@pytest.mark.parametrize("piece", [b"X: y\r\n" * 1000, b"x" * 10_000])
def test_endless_headers_are_unreadable(piece):
    first = b"HTTP/1.1 200 OK\r\nX: "
    assert failed(lambda _: forever(first=first, piece=piece), timeout_s=60) == "unreadable"


@in_event_loop
async def test_a_closed_port_is_unreachable():
    async with raw_site(lambda _: OK) as site:
        pass
    with pytest.raises(FetchError, match="unreachable"):
        await client().fetch(site.url())


async def failing(host, _port):
    raise RuntimeError(host)


@pytest.mark.parametrize("options", [{"resolve": nowhere}, {"resolve": failing}, {}])
def test_a_name_without_an_address_is_unreachable(options):
    http = HttpClient(**options)
    for request in (http.check, http.fetch):
        with pytest.raises(FetchError, match="unreachable"):
            asyncio.run(request("http://people.invalid/"))


def test_headers_are_read_by_lower_case_name():
    headers = b"X-Kind: a\r\nx-kind: b\r\nX-Raw: \xff\xc3\xb6\r\nContent-Length: 1"
    answer = b"HTTP/1.1 404 Gone\r\n" + headers + b"\r\n\r\nx"
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
def test_text_is_decoded_by_the_pages_charset_without_errors(content_type, body, text):
    assert Response(200, "", {"content-type": content_type}, body).text == text


@settings(max_examples=50)
@given(
    body=st.binary(),
    charset=st.sampled_from(["utf-16", "gbk", "iso-2022-jp", "euc-kr", "big5", "sjis", "cp1255"]),
)
def test_any_bytes_have_a_text(body, charset):
    assert isinstance(Response(200, "", {"content-type": f"a/b; charset={charset}"}, body).text, str)


def test_python_has_every_supported_charset():
    from exposurekit.service.http.response import _CODECS

    assert {name: b"a".decode(codec, "replace") for name, codec in _CODECS.items() if "16" not in codec} != {}
    assert all(b"a\x00".decode(codec, "replace") for codec in _CODECS.values())


def opt_out(got):
    if got.path == "/form":
        return whole(headers=[("Set-Cookie", "session=a b/c; Path=/"), ("Set-Cookie", "csrf=1=2+3/4")])
    return redirect("/done", 303) if got.method == "POST" else OK


@pytest.mark.parametrize("host", [None, "people.example"])
@in_event_loop
async def test_cookies_are_sent_within_their_session_only(host):
    async with raw_site(opt_out) as site:
        http = client(resolve=site.resolve)
        async with http.session() as session, http.session() as other:
            await session.fetch(site.url("/form", host))
            await session.fetch(site.url("/send", host), method="POST", form={"name": "June"})
            await other.fetch(site.url("/other", host))
            await http.fetch(site.url("/form", host))
            await http.fetch(site.url("/plain", host))
        async with http.session() as later:
            await later.fetch(site.url("/later", host))
        cookies = {got.path: got.headers.get("cookie") for got in site.got}
    cookies_sent = {"csrf=1=2+3/4", "session=a b/c"}
    assert set(cookies["/send"].split("; ")) == set(cookies["/done"].split("; ")) == cookies_sent
    assert cookies["/form"] is cookies["/other"] is cookies["/plain"] is cookies["/later"] is None


@in_event_loop
async def test_cookies_are_not_sent_to_another_host():
    async with raw_site(opt_out) as site:
        async with client(resolve=site.resolve).session() as session:
            await session.fetch("http://people.example/form")
            await session.fetch("http://other.example/next")
        assert "cookie" not in site.got[-1].headers


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A self-signed certificate for people.example, and a server's context with it."""
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
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(pem, pkcs8, serialization.NoEncryption())
    file.write_bytes(certificate.public_bytes(pem) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return file, context


@in_event_loop
async def test_an_untrusted_certificate_is_unreadable(tls):
    async with raw_site(lambda _: OK, tls=tls[1]) as site:
        with pytest.raises(FetchError, match="unreadable"):
            await client(resolve=site.resolve).fetch("https://people.example/")
        assert site.got == []


@in_event_loop
async def test_a_certificate_must_be_for_the_requested_name(tls):
    """In another process: the trusted authorities are read once."""
    code = """if True:
        import asyncio, sys
        from exposurekit.service.http.client import HttpClient, FetchError
        async def resolve(host, port):
            return [("127.0.0.1", int(sys.argv[1]))]
        for host in ("people", "other"):
            try:
                http = HttpClient(allowed_networks=["127.0.0.0/8"], resolve=resolve)
                print(asyncio.run(http.fetch(f"https://{host}.example/")).status)
            except FetchError as error:
                print(error.reason)
    """
    async with raw_site(lambda _: OK, tls=tls[1]) as site:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-c", code, str(site.port)),
            env=os.environ | {"SSL_CERT_FILE": str(tls[0])},
            stdout=subprocess.PIPE,
        )
        assert (await process.communicate())[0].split() == [b"200", b"unreadable"]


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


def texts_of(error):
    while error is not None:
        yield f"{error} {error!r}"
        error = error.__cause__ or error.__context__


async def everything_that_fails(http):
    """Requests that fail in every way, each with the planted word in the URL."""
    for answer in HOSTILE.values():
        async with raw_site(lambda _, answer=answer: answer) as site:
            yield http.fetch(site.url(f"/{PLANTED}?{PLANTED}"), headers={"X": PLANTED}, form={"n": PLANTED})
            yield http.fetch(site.url(f"/{PLANTED}"), timeout_s=0)
    for url in (f"http://{PLANTED}.invalid/", f"http://127.0.0.1:1/{PLANTED}", f"http://{PLANTED}@h/"):
        yield http.fetch(url)
        if "127" not in url:
            yield http.check(url)
    for url in ("http://10.0.0.1/{}", "file:///{}", "http://[{}", "http://{}:x/"):
        yield http.check(url.format(PLANTED))
        yield http.fetch(url.format(PLANTED))
    yield http.fetch(f"http://127.0.0.1/{PLANTED}", headers={"X": f"{PLANTED}\r\n"})
    yield http.fetch(f"http://127.0.0.1/{PLANTED}", method=f"G T {PLANTED}")


def test_no_error_or_log_has_an_address_or_request(caplog):
    caplog.set_level(logging.DEBUG)

    async def once():
        texts = []
        async for attempt in everything_that_fails(client()):
            with pytest.raises((ForbiddenAddress, FetchError)) as caught:
                await attempt
            texts += texts_of(caught.value)
        return texts

    texts = asyncio.run(once(), debug=True)
    assert len(texts) > 30
    assert [text for text in texts if PLANTED in text.lower() or "127.0.0.1" in text] == []
    assert PLANTED not in caplog.text.lower()


@in_event_loop
async def test_a_cookie_is_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    cookies = (f"{PLANTED}@@=\x01{PLANTED}", f"ok={'x' * 5000}")
    answer = whole(headers=[("Set-Cookie", cookie) for cookie in cookies])
    async with raw_site(lambda _: answer) as site, client().session() as session:
        with suppress(FetchError):
            await session.fetch(site.url())
    logging.getLogger("aiohttp.internal").warning("cookie %s", PLANTED)
    assert PLANTED not in caplog.text


def test_the_repr_of_client_and_response_is_impersonal():
    answer = whole(headers=[("X", PLANTED)], body=PLANTED.encode())
    response, _ = fetched(lambda _: answer, path=f"/{PLANTED}")
    assert repr(response) == "Response(status=200)"
    assert repr(client()) == "HttpClient()"


def test_a_client_works_in_consecutive_event_loops():
    http = client(concurrency=1)

    async def fetch():
        async with raw_site(lambda _: OK) as site:
            # More than the limit, so that some wait for a limiter, which belongs to a loop.
            return [response.status for response in await asyncio.gather(*map(http.fetch, [site.url()] * 3))]

    assert [asyncio.run(fetch()) for _ in range(2)] == [[200] * 3] * 2
    assert len(http._resolver._limiters) == 1


@in_event_loop
async def test_concurrency_is_limited_and_time_limits_exclude_queueing():
    running, most = 0, 0

    async def slowly(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)
        running -= 1
        yield OK

    async with raw_site(slowly) as site:
        http = client(concurrency=2)
        await asyncio.gather(*(http.fetch(site.url(), timeout_s=1.5) for _ in range(32)))  # 1.6 s in all
    assert most == 2


@in_event_loop
async def test_a_fetch_can_be_cancelled():
    arrived = asyncio.Event()

    async def silence(_):
        arrived.set()
        await asyncio.Event().wait()
        yield b""

    async with raw_site(silence) as site:
        task = asyncio.ensure_future(client(concurrency=1).fetch(site.url()))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@in_event_loop
async def test_each_request_has_its_own_connection():
    async with raw_site(lambda _: OK) as site:
        http = client()
        for _ in range(3):
            await http.fetch(site.url())
        assert (site.connections, {got.headers["connection"] for got in site.got}) == (3, {"close"})


@in_event_loop
async def test_sessions_share_connections_until_the_last_one_ends():
    """Of the same host; and a body has a connection of its own."""
    paths_by_connection = []

    async def serve(reader, writer):
        paths = []
        paths_by_connection.append(paths)
        with suppress(asyncio.IncompleteReadError):
            while True:
                paths.append((await read_request(reader)).path)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def resolve(_host, _port):
        return [("127.0.0.1", port)]

    http = client(resolve=resolve)
    async with http.session() as first:
        await first.fetch("http://people.example/1")
        async with http.session() as second:
            await second.fetch("http://people.example/2")
            await second.fetch("http://people.example/3", method="POST", form={"name": "June"})
        await first.fetch("http://people.example/4")
        await first.fetch("http://other.example/5")
    async with http.session() as later:
        await later.fetch("http://people.example/6")
    server.close()
    assert paths_by_connection == [["/1", "/2", "/4"], ["/3"], ["/5"], ["/6"]]


@in_event_loop
async def test_a_closed_client_sends_no_request():
    async with raw_site(lambda _: OK) as site:
        http = client()
        await http.close()
        with pytest.raises(FetchError, match="unreachable"):
            await http.fetch(site.url())
        with pytest.raises(FetchError, match="unreachable"):
            await http.check("http://localhost/")
        assert site.connections == 0


@pytest.mark.parametrize(
    ("url", "address", "networks", "is_allowed"),
    [
        ("https://seekfolk.example/", "93.184.216.34", (), True),
        ("http://seekfolk.example/", "93.184.216.34", (), False),
        ("http://seekfolk.example/", "93.184.216.34", LOOPBACK, False),
        ("http://seekfolk.example/", "127.0.0.1", LOOPBACK, True),
        ("http://seekfolk.example/", "127.0.0.1", (), False),
        ("https://seekfolk.example/", "127.0.0.1", (), False),
        ("https://seekfolk.example/", "169.254.169.254", LOOPBACK, False),
    ],
)
@in_event_loop
async def test_only_allowed_networks_are_visited_without_tls(url, address, networks, is_allowed):
    async def resolve(_host, port):
        return [(address, port)]

    http = HttpClient(allowed_networks=networks, resolve=resolve)
    try:
        await http.check_encrypted(url)
    except ForbiddenAddress:
        assert not is_allowed
    else:
        assert is_allowed
