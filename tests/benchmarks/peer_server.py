"""The loopback server of the client benchmark: prebuilt responses in memory, as cheap as possible.

    python peer_server.py --people 2000 --records 20 --alerts 3 --links 3 --port 0

The first line on stdout is the port. It serves List users (limit, offset, count), Get user and Get user
alerts as JSON, checks no credentials, and ends on SIGTERM or SIGINT. The content is invented, the same
for the same arguments; `--latency-ms` delays each response, as a network does.
"""

import argparse
import asyncio
import random
import signal
from functools import partial
from typing import Any

import orjson

_FIRST = (
    *("Alder", "Briony", "Cato", "Delphine", "Emrys", "Fenna", "Gideon", "Hollis"),
    *("Ines", "Jory", "Kestrel", "Linnea", "Merrin", "Nico", "Ottilie"),
)
_LAST = (
    *("Abernook", "Brackwell", "Corvane", "Dunmarsh", "Elverson"),
    *("Farrowgate", "Grimshade", "Hawkmere", "Inverly", "Jessamyn"),
)
_CITIES = (
    ("Larch Bay", "ME"),
    ("Old Quarry", "NM"),
    ("Tall Pines", "OR"),
    ("Fort Minor", "NY"),
    ("Westhollow", "MA"),
)
_STREETS = (
    *("Heron Lane", "Pier Road", "Quarry Spur", "Mill Street"),
    *("Back Alley", "Orchard Terrace", "Station Approach"),
)
_SITES = [
    f"{one}{two}" for one in ("Peep", "Who", "Look", "Street") for two in ("Finder", "Dex", "Roll", "Them")
]
_STATUSES = ("discovered", "discovered", "pending removal", "removed")
_KINDS = ("email", "address", "phone")
_NEEDED = ("first_name", "last_name", "address1", "city", "state", "zip")
_STEPS = (
    "Open the listing and copy its address from the bar of the browser.",
    "Go to the opt-out page, which is linked at the foot of every page of the site.",
    "Paste the address, give an email address and solve the puzzle.",
    "Follow the link in the email within 24 hours.",
)


class _Inventor:
    def __init__(self, number: int, arguments: argparse.Namespace) -> None:
        self._pick = random.Random(f"{arguments.seed}:{number}")  # noqa: S311 invented content, no secret
        self._arguments = arguments
        self.number = number
        self.first, self.last = self._pick.choice(_FIRST), self._pick.choice(_LAST)
        self.secret = str(self._pick.randrange(10**17, 10**18))
        self.records = [self._record(position) for position in range(arguments.records)]
        self.links = [self._link(position) for position in range(arguments.links)]

    def user(self) -> dict[str, Any]:
        pick, number, first, last = self._pick, self.number, self.first, self.last
        city, state = pick.choice(_CITIES)
        needed = {"user_fields_required_for_removal": pick.sample(_NEEDED, 3)}
        return {
            "id": number,
            "secret": self.secret,
            "birth_date": pick.choice((None, *([pick.randrange(-900_000_000, 1_100_000_000)] * 9))),
            "first_name": first,
            "middle_name": pick.choice(("", "June", "Rue")),
            "last_name": last,
            "aliases": [{"id": number * 10, "first_name": first[:3], "last_name": last}],
            "emails": [
                {"id": number * 10 + index, "address": f"{first}.{last}{number}@example.{end}".lower()}
                for index, end in enumerate(("com", "org"))
            ],
            "phone_numbers": [
                {"id": number * 10, "number": f"{pick.randrange(201, 990)}555{number % 10**4:04}"}
            ],
            "addresses": [
                {
                    "id": number * 10,
                    "address1": f"{pick.randrange(1, 999)} {pick.choice(_STREETS)}",
                    "address2": pick.choice((None, "Apt 9")),
                    "city": city,
                    "state": state,
                    "zip": f"{pick.randrange(10**5):05}",
                }
            ],
            "records": [{**record, **needed} for record in self.records],
            "links": self.links,
            "service_history": [{"activated_service_on": f"2026/0{pick.randrange(1, 10)}/15 08:30:00 +0000"}],
            "is_scanning": pick.random() < 0.1,
            "identification_on_file": pick.random() < 0.3,
        }

    def alerts(self) -> list[dict[str, Any]]:
        sources = [("record", record) for record in self.records] + [("link", link) for link in self.links]
        chosen = self._pick.sample(sources, min(self._arguments.alerts, len(sources)))
        return [self._alert(kind, source) for kind, source in chosen]

    def _relatives(self) -> list[str]:
        return [f"{self._pick.choice(_FIRST)} {self.last}" for _ in range(self._pick.randrange(2, 6))]

    def _record(self, number: int) -> dict[str, Any]:
        pick, site = self._pick, self._pick.choice(_SITES)
        reference_id = f"{pick.randrange(10**12):012}"
        return {
            "id": self.number * 1000 + number,
            "name": f"{self.first} {self.last}",
            "site": site,
            "status": pick.choice(_STATUSES),
            "age": pick.choice((None, *range(25, 60))),
            "href": f"https://{site.lower()}.example/people/{self.last.lower()}/{reference_id}",
            "relations": self._relatives(),
            "aliases": [f"{self.first[0]} {self.last}"] * pick.randrange(2),
            "locations": [f"{city}, {state}" for city, state in pick.sample(_CITIES, pick.randrange(1, 4))],
            "reference_id": reference_id,
        }

    def _link(self, number: int) -> dict[str, Any]:
        return {
            "url": f"https://pages.example/{self.number}/{number}",
            "title": f"{self._pick.choice(_STREETS)} residents' page",
            "contains": self._pick.sample(_KINDS, self._pick.randrange(1, 4)),
        }

    def _alert(self, kind: str, source: dict[str, Any]) -> dict[str, Any]:
        where = source.get("site") or source["title"]
        return {
            "text": f"{where} shows information about {self.first} {self.last}",
            "html": f"<p><b>{where}</b> shows information about <i>{self.first} {self.last}</i></p>",
            "url": source.get("href") or source["url"],
            "guide": f"{where} gathers public listings and answers opt-outs within about two weeks.",
            "opt_out_procedure": list(_STEPS[: self._pick.randrange(1, 5)]),
            "source_type": kind,
            "source": {kind: source},
        }


def _framed(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Responses:
    """Every response, framed, by the path after `/v2/`."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.by_path: dict[bytes, bytes] = {}
        self.listed: list[bytes] = []
        for number in range(1, arguments.people + 1):
            person = _Inventor(number, arguments)
            path = b"users/%d" % number
            self.by_path[path + b".json"] = _framed(orjson.dumps({"user": person.user()}))
            self.by_path[path + b"/alerts.json"] = _framed(orjson.dumps({"alerts": person.alerts()}))
            self.listed.append(orjson.dumps({"id": number, "secret": person.secret}))

    def find(self, target: bytes) -> bytes:
        path, _, query = target.partition(b"?")
        name = path[path.find(b"/v2/") + 4 :]
        body = self.by_path.get(name)
        if body is not None:
            return body
        return self._page(query) if name == b"users.json" else _framed(b'{"error":"no"}', "404 Not Found")

    def _page(self, query: bytes) -> bytes:
        parameters = dict(pair.split(b"=", 1) for pair in query.split(b"&") if b"=" in pair)
        offset, limit = int(parameters.get(b"offset", 0)), int(parameters.get(b"limit", 100))
        users = b",".join(self.listed[offset : offset + limit])
        return _framed(b'{"count":%d,"users":[%b]}' % (len(self.listed), users))


class Peer(asyncio.Protocol):
    """One keep-alive connection. GET only: a request ends with its head."""

    def __init__(self, responses: Responses, latency_s: float) -> None:
        self._responses, self._latency_s = responses, latency_s
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._unread:
            data = self._unread + data
        *heads, self._unread = data.split(b"\r\n\r\n")
        for head in heads:
            response = self._responses.find(head[4 : head.find(b" ", 4)])
            if self._latency_s:
                asyncio.get_running_loop().call_later(self._latency_s, self._transport.write, response)
            else:
                self._transport.write(response)


async def serve(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    create_peer = partial(Peer, Responses(arguments), arguments.latency_ms / 1000)
    server = await loop.create_server(create_peer, "127.0.0.1", arguments.port, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="The client benchmark's loopback server.")
    defaults = {"people": 2000, "records": 20, "alerts": 3, "links": 3, "port": 0, "seed": 7}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
