"""Two reading operations of the service against a bare Starlette handler in the same server, in one run.

    python tests/benchmarks/service_front.py [--rounds 7] [--seconds 1.5] [--connections 12] [--latencies 300]

Get user (20 records, two links, emails, phones, addresses) and List users (a hundred of them) on an SQLite file,
twice: with the users' *documents* (see `accounts/documents.py`), and without them, so that each response to Get user is
built from the *rows*, as after an upgrade. Get user runs with one address again and again, and *anew* with another
address in each request, which the service has not parsed before. Authentication runs in full either way. The bare
handler returns a prebuilt body of the same size. Each side has a process of its own; this process requests from them in
turn, over raw keep-alive connections. Prints the median requests a second, the median of the rounds' ratios to the bare
handler, the server's CPU time a request (the machine may be busy otherwise) and the latency of one request.

Then Get user of the command itself, `exposurekit serve`, with one process and with two, on the same file. This process
sleeps while it waits for them, but it still takes a part of one core: with two cores the ratio stays below 2.
"""

import argparse
import asyncio
import base64
import itertools
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlencode, urlsplit

from sqlalchemy import delete
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from exposurekit.service.accounts import integrators, users
from exposurekit.service.accounts.user_items import KINDS
from exposurekit.service.api.app import create_app
from exposurekit.service.api.server import running
from exposurekit.service.clock import Clock
from exposurekit.service.findings.findings import Listing, Page, Site, discover_link, discover_record
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault

ONCE = 2**18
NUMBER = "0000000"  # in an address: the number of the request takes its place
PEOPLE, RECORDS, LINKS = 150, 20, 2
LISTS = {
    "aliases": [{"first_name": "Janie", "last_name": "Doe", "alias_type": ""}],
    "emails": [{"address": "jane@club.example"}, {"address": "jane.doe@mail.example"}],
    "phone_numbers": [{"number": "5550100123"}, {"number": "5550100124"}],
    "addresses": [
        {"address1": f"{number} Oak Street", "address2": "", "city": "Oakmere", "state": "CA", "zip": "90210"}
        for number in (12, 77)
    ],
}
PERSON = {"first_name": "Jane", "middle_name": "Quentin", "last_name": "Doe", "birth_date": 315_532_800}


def site(number):
    return Site(
        name=f"People & Places {number}",
        opt_out_procedure=("Open the form.", "Press Remove."),
        user_fields_required_for_removal=("first_name", "last_name", "address1"),
    )


def listing(number):
    return Listing(
        name="Jane Quentin Doe",
        reference_id=f"00056022{number:04}",
        age=45,
        href=f"https://places-{number}.example/people/jane-doe/00056022{number:04}",
        relations=("John Doe", "Mary Doe", "Peter Q. Doe"),
        aliases=("Janie Doe", "J. Q. Doe"),
        locations=("Oakmere, CA", "Fernhill, NY"),
    )


async def people(database):
    """An integrator with its people; the paths and queries of the two operations."""
    await database.open()
    async with database.writing() as work:
        credentials = await integrators.add(work, "acme")
        values = PERSON | {
            kind: [KINDS[kind].request(**item) for item in items] for kind, items in LISTS.items()
        }
        accounts = [await users.create(work, 1, values) for _ in range(PEOPLE)]
        jane = accounts[PEOPLE // 2]
        for number in range(RECORDS):
            await discover_record(work, jane.id, listing(number), site(number))
        for number in range(LINKS):
            address = f"https://club-{number}.example/members"
            await discover_link(work, jane.id, Page(url=address, title="Members", contains=("email",)))
    root = f"/api/acme/{credentials.api_key}/v2/users"
    secret = {"api_secret": credentials.api_secret}
    return {
        "Get user": f"{root}/{jane.id}.json?{urlencode(secret | {'secret': jane.secret})}",
        "Get user anew": f"{root}/{jane.id}.json?{urlencode(secret | {'secret': jane.secret})}&n={NUMBER}",
        "List users": f"{root}.json?{urlencode(secret | {'limit': 100})}",
    }


def serve_documents(announce):
    serve(announce, people)


def serve_rows(announce):
    async def people_without_documents(database):
        paths = await people(database)
        async with database.writing() as work:
            await work.run(delete(tables.user_documents))
        return paths

    serve(announce, people_without_documents)


def serve(announce, prepare):
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/service.db"
        database = Database(url, vault=Vault(Vault.generate_key()), clock=Clock())
        paths = asyncio.run(prepare(database))
        with running(create_app(database)) as base_url:
            announce({"base_url": base_url, "paths": paths})
            sys.stdin.read()


def serve_bare(announce):
    bodies = {f"/{size}": b"x" * size for size in json.loads(sys.stdin.readline())}

    async def respond(request):
        return Response(bodies[request.url.path], media_type="application/json")

    with running(Starlette(routes=[Route(path, respond) for path in bodies])) as base_url:
        announce({"base_url": base_url})
        sys.stdin.read()


SIDES = {"documents": serve_documents, "rows": serve_rows, "bare": serve_bare}


@dataclass
class Side:
    """A server process, where it listens, and the bytes of one request to it."""

    process: subprocess.Popen
    announced: dict

    def request(self, path):
        return f"GET {path} HTTP/1.1\r\nHost: {self.address[0]}\r\nAccept: */*\r\n\r\n".encode()

    @property
    def address(self):
        url = urlsplit(self.announced["base_url"])
        return url.hostname, url.port

    def cpu_s(self):
        return time.clock_gettime(~self.process.pid << 3 | 2)  # Linux: the clock of that process's CPU time


@contextmanager
def started(side, sizes=()):
    process = subprocess.Popen(
        [sys.executable, __file__, "--side", side], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        process.stdin.write(f"{json.dumps([*sizes])}\n")
        process.stdin.flush()
        yield Side(process, json.loads(process.stdout.readline()))
    finally:
        process.communicate()


@dataclass
class Asking:
    """One connection that repeats a request; a response is whole when it is as long as the first one."""

    connection: socket.socket
    missing: int = 0
    begun_at: float = 0.0


def request_durations(side, request, length, until, *, connections=1, wait_s=0):
    """Seconds of each response, in order, until `until` of them is true. No event loop: it must not be the limit.

    Unless there is a time to wait, it is never asleep: to wake it would cost the slower server 40 us.
    """
    took_s = []
    selector = select.epoll()
    with ExitStack() as stack:
        askings = {}
        for _ in range(connections):
            connection = stack.enter_context(socket.create_connection(side.address))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            askings[connection.fileno()] = Asking(connection)
            selector.register(connection, select.EPOLLIN)
        for asking in askings.values():
            ask(asking, request, length)
        while not until(took_s):
            for number, _ in selector.poll(wait_s):
                asking = askings[number]
                asking.missing -= len(asking.connection.recv(ONCE))
                if not asking.missing:
                    took_s.append(time.perf_counter() - asking.begun_at)
                    ask(asking, request, length)
    return took_s


_numbers = itertools.count()


def ask(asking, request, length):
    if NUMBER.encode() in request:
        request = request.replace(NUMBER.encode(), b"%07d" % next(_numbers))
    asking.missing, asking.begun_at = length, time.perf_counter()
    asking.connection.sendall(request)


def lengths(side, request):
    """Bytes of the whole response and of its body."""
    with socket.create_connection(side.address) as connection, connection.makefile("rb") as response:
        connection.sendall(request)
        head = [response.readline()]
        while head[-1] != b"\r\n":
            head.append(response.readline())
        assert head[0].startswith(b"HTTP/1.1 200"), head[0]
        [body] = [int(line.split()[1]) for line in head if line.lower().startswith(b"content-length:")]
        return len(b"".join(head)) + body, body


def load(side, request, length, seconds, connections):
    began, cpu_s = time.perf_counter(), side.cpu_s()

    def is_done(took_s):
        return took_s and time.perf_counter() >= began + seconds

    count = len(request_durations(side, request, length, is_done, connections=connections))
    return count / (time.perf_counter() - began), (side.cpu_s() - cpu_s) / count


def latency_s(side, request, length, count):
    return median(request_durations(side, request, length, lambda took_s: len(took_s) >= count))


def compared(titles, services, options):
    requests_of, sizes = {}, {}
    for title in titles:
        requests_of[title] = {}
        for name, service in services.items():
            request = service.request(service.announced["paths"][title])
            length, sizes[title] = lengths(service, request)
            requests_of[title][name] = (service, request, length)
    with started("bare", sizes.values()) as bare:
        for title, sides in requests_of.items():
            request = bare.request(f"/{sizes[title]}")
            length, _ = lengths(bare, request)
            sides["bare"] = (bare, request, length)
            for side in sides.values():
                load(*side, options.seconds / 3, options.connections)  # warm
            rounds = [
                {name: load(*side, options.seconds, options.connections) for name, side in sides.items()}
                for _ in range(options.rounds)
            ]
            waits = {name: latency_s(*side, options.latencies) for name, side in sides.items()}
            print_comparison(title, sizes[title], rounds, waits)


def print_comparison(title, size, rounds, waits):
    for name, wait_s in waits.items():
        speed, cpu_s = (median(column) for column in zip(*(one[name] for one in rounds), strict=True))
        print(
            f"{title:>13} {name:>11}: {speed:7.0f} requests/s   {cpu_s * 1e6:5.0f} us CPU a request"
            f"   {wait_s * 1e6:5.0f} us for one alone   {size} bytes"
        )
    for name in [name for name in waits if name != "bare"]:
        ratios = [one[name][0] / one["bare"][0] for one in rounds]
        cpu = median(one["bare"][1] / one[name][1] for one in rounds)
        print(
            f"{title:>13} {name:>11}: ratio {median(ratios):.3f} of the bare handler's requests"
            f" ({min(ratios):.3f} to {max(ratios):.3f}); by CPU time {cpu:.3f}"
        )


class Command:
    """`exposurekit serve` with a number of processes."""

    def __init__(self, process, log):
        self.process, self.log = process, log
        while not (match := re.search(rb"listening=(\S+)", log.read_bytes())):
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        url = urlsplit(match[1].decode())
        self.address = url.hostname, url.port


@contextmanager
def command(database, key, processes, directory):
    log = directory / f"{processes}.log"
    words = ["serve", "--database", database, "--port", "0", "--no-worker", "--requests-per-second", "0"]
    environment = os.environ | {"EXPOSUREKIT_SERVICE_KEY": base64.urlsafe_b64encode(key).decode()}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "exposurekit", *words, "--processes", str(processes)],
            env=environment,
            stderr=stderr,
        )
    try:
        yield Command(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def compare_processes(options):
    """Get user with one process and with two, in turn."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory, key = Path(name), Vault.generate_key()
        url = f"sqlite:///{directory}/service.db"
        path = asyncio.run(people(Database(url, vault=Vault(key), clock=Clock())))["Get user"]
        sides = {n: stack.enter_context(command(url, key, n, directory)) for n in (1, 2)}
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n".encode()
        length, _ = lengths(sides[1], request)

        def speed(side, seconds):
            began = time.perf_counter()

            def is_done(took_s):
                return took_s and time.perf_counter() >= began + seconds

            count = len(
                request_durations(
                    side, request, length, is_done, connections=2 * options.connections, wait_s=1
                )
            )
            return count / (time.perf_counter() - began)

        for side in sides.values():
            speed(side, options.seconds / 3)  # warm
        rounds = [
            {n: speed(side, options.seconds) for n, side in sides.items()} for _ in range(options.rounds)
        ]
    for n in sides:
        print(f"{n} processes: {median(one[n] for one in rounds):7.0f} Get user requests/s")
    ratios = [one[2] / one[1] for one in rounds]
    print(
        f"2 processes: ratio {median(ratios):.2f} of one's requests ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--connections", type=int, default=12)
    parser.add_argument(
        "--latencies", type=int, default=300, help="single requests, one after another, for the latency"
    )
    parser.add_argument("--side", choices=SIDES)
    options = parser.parse_args()
    if options.side:
        SIDES[options.side](lambda value: print(json.dumps(value), flush=True))
        return
    with ExitStack() as stack:
        services = {name: stack.enter_context(started(name)) for name in SIDES if name != "bare"}
        compared(services["documents"].announced["paths"], services, options)
    compare_processes(options)


if __name__ == "__main__":
    main()
