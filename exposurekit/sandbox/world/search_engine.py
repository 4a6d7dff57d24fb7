"""A search engine of the make-believe web, with SearXNG's JSON interface. Knows pages, and never a people-search site."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exposurekit.sandbox.world.asgi import JSON, Request, Response, html
from exposurekit.sandbox.world.formats import folded, roll
from exposurekit.sandbox.world.hostile import HostilePage
from exposurekit.sandbox.world.pages import Mention, WebPage
from exposurekit.text.sanitize import escaped

HOST, PATH = "search.example", "/search"
SIZE = 10
WORDS_MAX = 4  # of a name
_PHONE = re.compile(r"1?(\d{10})")


class Engine:
    """What can be found by a name, a mailbox or a phone number."""

    def __init__(self, pages: Iterable[WebPage], hostile: Iterable[HostilePage]) -> None:
        self._found: dict[str, list[dict[str, Any]]] = {}
        self._idle: list[dict[str, Any]] = []
        for page in pages:
            for mention in page.mentions:
                for key in filter(None, (folded(mention.name), mention.email, mention.phone)):
                    self._index(key, _result(page.url, page.title, _around(page, mention)))
            if not page.mentions:
                self._idle.append(_result(page.url, page.title, page.opening))
        for trap in hostile:
            self._index(folded(trap.name), _result(trap.url, trap.title, f"Everything on {trap.name}."))

    def answer(self, asked: Request) -> Response:
        """The reply to `GET /search?q=...&format=json&pageno=...`."""
        query = asked.told().get("q", "").strip()
        if asked.path != PATH:
            return html("<p>Nothing here.</p>", 404)
        if not query:
            return html("<p>No query.</p>", 400)
        results = self.results(query)
        if asked.told().get("format") != "json":
            lines = (
                f'<li><a href="{escaped(r["url"])}">{escaped(r["title"])}</a></li>' for r in results[:SIZE]
            )
            return html(f"<ol>{''.join(lines)}</ol>")
        return Response(json.dumps(_reply(query, results, asked.told())).encode(), kind=JSON)

    def results(self, query: str) -> list[dict[str, Any]]:
        """Everything that fits, those that name another word of the query first, and one that fits nothing."""
        keys = _keys(query)
        found: dict[str, dict[str, Any]] = {}
        for key in keys:
            for result in self._found.get(key, ()):
                found.setdefault(result["url"], result)
        words = {folded(word) for word in query.split()} - {""}
        ranked = sorted(found.values(), key=lambda each: (-_shared(each, words), each["url"]))
        if ranked and self._idle:
            ranked.append(self._idle[int(roll("beside", folded(query)) * len(self._idle))])
        return ranked

    def _index(self, key: str, result: dict[str, Any]) -> None:
        self._found.setdefault(key, []).append(result)


def _keys(query: str) -> list[str]:
    """What a query may be after: every run of a few words, every mailbox, a phone number."""
    words = query.replace('"', " ").split()
    runs = [
        folded(" ".join(words[at : at + length]))
        for length in range(2, WORDS_MAX + 1)
        for at in range(len(words) - length + 1)
    ]
    mailboxes = [word.lower() for word in words if "@" in word]
    phone = _PHONE.fullmatch(re.sub(r"\D", "", query))
    return list(dict.fromkeys([*runs, *mailboxes, *([phone[1]] if phone else [])]))


def _shared(result: Mapping[str, Any], words: set[str]) -> int:
    return len(words.intersection(folded(f"{result['title']} {result['content']}").split("-")))


def _around(page: WebPage, mention: Mention) -> str:
    return f"{page.opening[:60]} … {mention.name} of {mention.person.addresses[0].city} …"


def _result(url: str, title: str, content: str) -> dict[str, Any]:
    host, _, path = url.removeprefix("http://").partition("/")
    return {
        "url": url,
        "title": title,
        "content": content,
        "publishedDate": None,
        "thumbnail": "",
        "engine": "make-believe",
        "template": "default.html",
        "parsed_url": ["http", host, f"/{path}", "", "", ""],
        "engines": ["make-believe"],
        "positions": [1],
        "score": 1.0,
        "category": "general",
    }


def _reply(query: str, results: Sequence[Mapping[str, Any]], told: Mapping[str, str]) -> dict[str, Any]:
    pageno = told.get("pageno", "1")
    page = max(int(pageno), 1) if pageno.isascii() and pageno.isdigit() and len(pageno) < 5 else 1  # noqa: PLR2004
    return {
        "query": query,
        "number_of_results": len(results),
        "results": list(results[(page - 1) * SIZE : page * SIZE]),
        "answers": [],
        "corrections": [],
        "infoboxes": [],
        "suggestions": [],
        "unresponsive_engines": [],
    }
