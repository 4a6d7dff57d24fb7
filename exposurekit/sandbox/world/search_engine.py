"""Search engine of the invented web, with SearXNG's JSON interface; it indexes the ordinary pages."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exposurekit.sandbox.world.asgi import JSON, Request, Response, html
from exposurekit.sandbox.world.formats import folded, roll
from exposurekit.sandbox.world.pages import Mention, WebPage
from exposurekit.text.sanitize import escaped

HOST, PATH = "search.example", "/search"
PAGE_SIZE = 10
WORDS_MAX = 4  # of a name
_PHONE = re.compile(r"1?(\d{10})")


class Engine:
    """An index of pages by name, email address and phone number."""

    def __init__(self, pages: Iterable[WebPage]) -> None:
        self._index: dict[str, list[dict[str, Any]]] = {}
        self._irrelevant: list[dict[str, Any]] = []
        for page in pages:
            for mention in page.mentions:
                for key in filter(None, (folded(mention.name), mention.email, mention.phone)):
                    self._add(key, _result(page.url, page.title, _snippet(page, mention)))
            if not page.mentions:
                self._irrelevant.append(_result(page.url, page.title, page.opening))

    def add(self, name: str, url: str, title: str, content: str) -> None:
        """Index one more page under a name."""
        self._add(folded(name), _result(url, title, content))

    def respond(self, request: Request) -> Response:
        """Answer `GET /search?q=...&format=json&pageno=...`."""
        query = request.parameters().get("q", "").strip()
        if request.path != PATH:
            return html("<p>Nothing here.</p>", 404)
        if not query:
            return html("<p>No query.</p>", 400)
        results = self.results(query)
        if request.parameters().get("format") != "json":
            lines = (
                f'<li><a href="{escaped(r["url"])}">{escaped(r["title"])}</a></li>'
                for r in results[:PAGE_SIZE]
            )
            return html(f"<ol>{''.join(lines)}</ol>")
        reply = _reply(query, results, request.page_number("pageno"))
        return Response(json.dumps(reply).encode(), kind=JSON)

    def results(self, query: str) -> list[dict[str, Any]]:
        """Return the matching pages, those with more words of the query first, and one irrelevant page last."""
        matches: dict[str, dict[str, Any]] = {}
        for key in _keys(query):
            for result in self._index.get(key, ()):
                matches.setdefault(result["url"], result)
        words = {folded(word) for word in query.split()} - {""}
        ranked = sorted(matches.values(), key=lambda result: (-_shared(result, words), result["url"]))
        if ranked and self._irrelevant:
            ranked.append(self._irrelevant[int(roll("beside", folded(query)) * len(self._irrelevant))])
        return ranked

    def _add(self, key: str, result: dict[str, Any]) -> None:
        self._index.setdefault(key, []).append(result)


def _keys(query: str) -> list[str]:
    """The index keys in a query: every run of two to four words, every email address, a phone number."""
    words = query.replace('"', " ").split()
    runs = [
        folded(" ".join(words[at : at + length]))
        for length in range(2, WORDS_MAX + 1)
        for at in range(len(words) - length + 1)
    ]
    emails = [word.lower() for word in words if "@" in word]
    phone = _PHONE.fullmatch(re.sub(r"\D", "", query))
    return list(dict.fromkeys([*runs, *emails, *([phone[1]] if phone else [])]))


def _shared(result: Mapping[str, Any], words: set[str]) -> int:
    return len(words.intersection(folded(f"{result['title']} {result['content']}").split("-")))


def _snippet(page: WebPage, mention: Mention) -> str:
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


def _reply(query: str, results: Sequence[Mapping[str, Any]], page: int) -> dict[str, Any]:
    return {
        "query": query,
        "number_of_results": len(results),
        "results": list(results[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]),
        "answers": [],
        "corrections": [],
        "infoboxes": [],
        "suggestions": [],
        "unresponsive_engines": [],
    }
