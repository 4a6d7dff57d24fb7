"""How the make-believe sites answer a search: what they find, and the moods they have. Takes nothing down."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from urllib.parse import urlencode

from exposurekit.sandbox.world.asgi import JSON, Request, Response, html
from exposurekit.sandbox.world.formats import digest, folded, roll
from exposurekit.sandbox.world.listings import Entry
from exposurekit.sandbox.world.people import slug
from exposurekit.sandbox.world.sites import WorldSite
from exposurekit.sandbox.world.state import WorldState
from exposurekit.sandbox.world.templates import card, document, results
from exposurekit.text.sanitize import escaped

SLOW_S, TOO_SLOW_S = 0.05, 0.1  # always, and how much longer than anybody's patience
TOO_SLOW, AWAY, REBUILT = 0.1, 0.05, 0.125  # shares: of searches, of searches, of days


def search(ground: WorldState, site: WorldSite, asked: Request) -> Response:
    """What the site answers to a question for a person."""
    if asked.method != site.definition.search.method.upper():
        return html(document(site, "<p>This is not how to ask.</p>"), 405)
    told = asked.told()
    name = " ".join(told.get(parameter, "") for parameter in site.asks_name).strip()
    if not name:
        return html(document(site, "<p>Please type a name.</p>"), 400)
    match site.trait:
        case "lists anybody":
            return html(document(site, _anybody(site, told, name)))
        case "unsteady":
            return _unsteady(ground, site, name) or _found(ground, site, told, name)
        case "slow":
            return _slowly(ground, site, name, _found(ground, site, told, name))
        case _:
            return _found(ground, site, told, name)


def detail(ground: WorldState, site: WorldSite, path: str) -> Response:
    """One listing's own page, or 404 where it is not to be seen."""
    entry = ground.there(site.name, path.rpartition("/")[2])
    if entry is None or entry.path != path or not site.shows_href:
        return html(document(site, "<p>There is no such page.</p>"), 404)
    body = f'<main class="detail">{card(entry, ground.now().date())}</main>'
    return html(document(site, body), encoding=site.encoding)


def home(site: WorldSite) -> Response:
    """The page with the form for a search."""
    asked = site.definition.search
    inputs = "".join(f'<input name="{escaped(name)}">' for name in asked.fields)
    form = (
        f'<form method="{asked.method}" action="{escaped(asked.url)}">{inputs}<button>Search</button></form>'
    )
    return html(document(site, form), encoding=site.encoding)


def _found(ground: WorldState, site: WorldSite, told: Mapping[str, str], name: str) -> Response:
    now = ground.now()
    city, state = folded(told.get(site.asks_city or "", "")), told.get(site.asks_state or "", "").upper()
    entries = [
        entry
        for entry in ground.shelves.named(site, name)
        if _near(entry, city, state) and ground.ledger.visible(entry, now)
    ]
    page = _page(told)
    size = site.page_size or max(len(entries), 1)
    here = entries[(page - 1) * size : page * size]
    path = f"?{urlencode({**told, 'page': str(page + 1)})}" if page * size < len(entries) else None
    if site.definition.search.answer == "json":
        return _in_json(site, here, path, now.date())
    if not here:
        return _nobody(site)
    return html(results(site, here, now.date(), following=path), encoding=site.encoding)


def _near(entry: Entry, city: str, state: str) -> bool:
    return any((not city or city == town) and (not state or state == where) for town, where in entry.places)


def _page(told: Mapping[str, str]) -> int:
    page = told.get("page", "1")
    return max(int(page), 1) if page.isascii() and page.isdigit() and len(page) < 5 else 1  # noqa: PLR2004


def _nobody(site: WorldSite) -> Response:
    mark = escaped(site.definition.search.no_results[0])
    return html(document(site, f"<main><p>{mark}.</p></main>"), encoding=site.encoding)


def _in_json(site: WorldSite, entries: Sequence[Entry], following: str | None, day: date) -> Response:
    people = [
        {
            "id": entry.reference_id,
            "fullName": entry.name,
            "age": entry.age(day),
            "otherNames": list(entry.aliases),
            "relatives": [{"name": name} for name in entry.relations],
            "towns": [{"label": place} for place in entry.locations],
            "links": {"self": entry.href},
        }
        for entry in entries
    ]
    answer = {"people": people, "links": {"next": following}}
    if not people:
        answer["message"] = site.definition.search.no_results[0]
    return Response(json.dumps(answer, ensure_ascii=False).encode(), kind=JSON)


def _slowly(ground: WorldState, site: WorldSite, name: str, answer: Response) -> Response:
    too_slow = _mood(ground, site, "slow", name) < TOO_SLOW
    delay_s = site.definition.search.timeout_s + TOO_SLOW_S if too_slow else SLOW_S
    return Response(answer.body, answer.status, answer.kind, delay_s=delay_s)


def _unsteady(ground: WorldState, site: WorldSite, name: str) -> Response | None:
    """On some days the site looks quite different; now and then a search is answered as if there were none."""
    day = ground.now().date()
    if roll(ground.seed, "rebuilt", day) < REBUILT:
        return html(
            document(site, '<div id="app" data-build="7"><div class="tile">Loading pigeons</div></div>')
        )
    if _mood(ground, site, "away", name) < AWAY:
        return html(document(site, "<p>404</p>"), 404)
    return None


def _mood(ground: WorldState, site: WorldSite, what: str, name: str) -> float:
    """A number between 0 and 1, the same for a name on a day; 1 for a name that nobody has here.

    Who asks for invented people asks for new ones each time: their names must not change what happens.
    """
    if not ground.shelves.named(site, name):
        return 1
    return roll(ground.seed, what, ground.now().date(), folded(name))


def _anybody(site: WorldSite, told: Mapping[str, str], name: str) -> str:
    """A listing for whoever is asked for, out of the question itself."""
    reference = digest("anybody", folded(name))
    age = 25 + int(reference[:4], 16) % 50
    city, state = told.get("city") or "Sunspindle", told.get("state") or "CA"
    return (
        f'<div class="result" data-id="{reference}"><h2>{escaped(name.title())}</h2><span class="age">{age}</span>'
        f'<span class="city">{escaped(city)}, {escaped(state)}</span>'
        f'<a href="http://{site.host}/people/{slug(name)}/{reference}">Full report</a></div>'
    )
