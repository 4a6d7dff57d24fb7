"""A browser for the invented web, over real HTTP."""

import asyncio
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import urljoin, urlsplit

import httpx
import jmespath
from selectolax.lexbor import LexborHTMLParser
from support.hostile_pages import HostileWorld

from exposurekit.client.transports.httpx import certificates
from exposurekit.sandbox.world import formats
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.clock import FrozenClock

START = datetime(2026, 1, 1, 9, tzinfo=UTC)

UNREADABLE = {"Everyname Index", "Gatekeep Records"}


class Browser:
    """Follows links and fills in forms, like a person; ignores robots.txt."""

    def __init__(self, world, client):
        self.world, self._client = world, client
        [(_, port)] = asyncio.run(world.resolve("anything.example", 80))
        self._at = f"127.0.0.1:{port}"

    def ask(self, url, method="GET", **options):
        parts = urlsplit(url)
        assert parts.scheme == "http"
        here = parts._replace(netloc=self._at).geturl()
        return self._client.request(method, here, headers={"host": parts.netloc}, **options)

    def stream(self, url):
        parts = urlsplit(url)
        here = parts._replace(netloc=self._at).geturl()
        return self._client.stream("GET", here, headers={"host": parts.netloc})

    def first_page(self, site, **fields):
        search = site.search
        values = dict.fromkeys(Subject(names=()).values(), "") | fields
        query_values = {name: template.format(**values) for name, template in search.fields.items()}
        return self.ask(
            search.url, search.method, **{"params" if search.method == "get" else "data": query_values}
        )

    def search(self, site, **fields):
        """The listings on all pages of results, and whether all were readable."""
        answer, rows = self.first_page(site, **fields), []
        while True:
            page_rows = rows_of(site, answer)
            rows += page_rows
            has_no_results = answer.status_code == 200 and site.search.no_results[0] in answer.text
            if not page_rows and not has_no_results:
                return rows, False
            url = urlsplit(str(answer.url))._replace(netloc=urlsplit(site.search.url).netloc).geturl()
            following = next_of(site, answer)
            if not following:
                return rows, True
            answer = self.ask(urljoin(url, following))

    def opt_out(self, site, listing, person, **changed):
        home = person.addresses[0]
        values = {
            "reference_id": listing.reference_id,
            "first_name": person.first_name,
            "last_name": person.last_name,
            "birth_date": formats.born_on(person.birth_date).isoformat() if person.birth_date else "",
            "email": person.emails[0] if person.emails else "",
            **vars(home),
            **changed,
        }
        removal = site.removal
        data = {name: template.format(**values) for name, template in removal.fields.items()}
        if removal.page:
            hidden = LexborHTMLParser(self.ask(removal.page).text).css("input[type=hidden]")
            data |= {field.attributes["name"]: field.attributes["value"] for field in hidden}
        return self.ask(removal.url, "POST", data=data)


def picked(node, selectors):
    for selector in selectors:
        css, _, attribute = selector.partition("@")
        nodes = node.css(css) if css else [node]
        values = [n.attributes.get(attribute) if attribute else n.text(strip=True) for n in nodes]
        if any(values):
            return [value for value in values if value]
    return []


def rows_of(site, answer):
    item, *selectors = site.listings.model_dump().items()
    if site.search.answer == "json":
        items, select = jmespath.search(item[1][0], answer.json()), select_json
    else:
        items, select = LexborHTMLParser(answer.text).css(item[1][0]), picked
    return [{name: select(each, selector) for name, selector in selectors} for each in items]


def select_json(item, selectors):
    return jmespath.search(" || ".join(selectors) or "''", item)


def next_of(site, answer):
    if not site.search.next:
        return None
    if site.search.answer == "json":
        return jmespath.search(site.search.next[0], answer.json())
    return next(iter(picked(LexborHTMLParser(answer.text), site.search.next)), None)


def one(value):
    return value[0] if isinstance(value, list) else value


@contextmanager
def browsing(people=10, *, seed=7, at=START):
    """A browser of a world with hostile pages."""
    with (
        HostileWorld(people, seed=seed, clock=FrozenClock(at)).running() as world,
        httpx.Client(timeout=10, trust_env=False, verify=certificates()) as client,
    ):
        yield Browser(world, client)
