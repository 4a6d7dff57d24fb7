"""Searches on the invented sites: results, detail pages, and sites that are slow or unsteady."""

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

SLOW_S, TOO_SLOW_S = 0.05, 0.1  # every answer's delay, and how far a late one exceeds the timeout
GONE = "There is no such page"  # the page of a listing that is not listed any more
TOO_SLOW, MISSING, REBUILT = 0.1, 0.05, 0.125  # shares of searches, of searches, of days


def search(world: WorldState, site: WorldSite, request: Request) -> Response:
    """Answer a search for a person."""
    if request.method != site.search_method.upper():
        return html(document(site, "<p>This is not how to ask.</p>"), 405)
    query = request.parameters()
    name = " ".join(query.get(parameter, "") for parameter in site.name_parameters).strip()
    if not name:
        return html(document(site, "<p>Please type a name.</p>"), 400)
    match site.trait:
        case "lists anybody":
            return html(document(site, _fabricated_listing(site, query, name)))
        case "unsteady":
            return _unsteady(world, site, name) or _results(world, site, request, name)
        case "slow":
            return _slow(world, site, name, _results(world, site, request, name))
        case _:
            return _results(world, site, request, name)


def detail(world: WorldState, site: WorldSite, path: str) -> Response:
    """Answer with one listing's own page, or with 404 if it is not visible."""
    entry = world.visible_listing(site.name, path.rpartition("/")[2])
    if entry is None or entry.path != path or not site.shows_href:
        return html(document(site, f"<p>{GONE}.</p>"), 404)
    body = f'<main class="detail">{card(entry, world.now().date())}</main>'
    return html(document(site, body), encoding=site.encoding)


def home(site: WorldSite) -> Response:
    """Answer with the page that has the search form."""
    settings = site.definition.search
    inputs = "".join(f'<input name="{escaped(name)}">' for name in settings.fields)
    form = f'<form method="{site.search_method}" action="{escaped(settings.url)}">{inputs}<button>Search</button></form>'
    return html(document(site, form), encoding=site.encoding)


def _results(world: WorldState, site: WorldSite, request: Request, name: str) -> Response:
    now, query = world.now(), request.parameters()
    city = folded(query.get(site.city_parameter or "", ""))
    state = query.get(site.state_parameter or "", "").upper()
    entries = [
        entry
        for entry in world.listings.named(site, name)
        if _is_near(entry, city, state) and world.ledger.is_visible(entry, now)
    ]
    page = request.page_number("page")
    size = site.page_size or max(len(entries), 1)
    on_page = entries[(page - 1) * size : page * size]
    next_page = f"?{urlencode({**query, 'page': str(page + 1)})}" if page * size < len(entries) else None
    if site.definition.search.answer == "json":
        return _json_results(site, on_page, next_page, now.date())
    if not on_page:
        mark = escaped(site.definition.search.no_results[0])
        return html(document(site, f"<main><p>{mark}.</p></main>"), encoding=site.encoding)
    return html(results(site, on_page, now.date(), next_page=next_page), encoding=site.encoding)


def _is_near(entry: Entry, city: str, state: str) -> bool:
    return any(
        (not city or city == entry_city) and (not state or state == entry_state)
        for entry_city, entry_state in entry.places
    )


def _json_results(site: WorldSite, entries: Sequence[Entry], next_page: str | None, day: date) -> Response:
    people = [
        {
            "id": entry.reference_id,
            "fullName": entry.name,
            "age": entry.age(day),
            "otherNames": list(entry.aliases),
            "relatives": [{"name": name} for name in entry.relations],
            "towns": [{"label": location} for location in entry.locations],
            "links": {"self": entry.href},
        }
        for entry in entries
    ]
    answer = {"people": people, "links": {"next": next_page}}
    if not people:
        answer["message"] = site.definition.search.no_results[0]
    return Response(json.dumps(answer, ensure_ascii=False).encode(), kind=JSON)


def _slow(world: WorldState, site: WorldSite, name: str, response: Response) -> Response:
    too_slow = _daily_roll(world, site, "slow", name) < TOO_SLOW
    delay_s = site.definition.search.timeout_s + TOO_SLOW_S if too_slow else SLOW_S
    return Response(response.body, response.status, response.kind, delay_s=delay_s)


def _unsteady(world: WorldState, site: WorldSite, name: str) -> Response | None:
    """On some days the site has another layout; now and then a search answers 404."""
    day = world.now().date()
    if roll(world.seed, "rebuilt", day) < REBUILT:
        return html(
            document(site, '<div id="app" data-build="7"><div class="tile">Loading pigeons</div></div>')
        )
    if _daily_roll(world, site, "away", name) < MISSING:
        return html(document(site, "<p>404</p>"), 404)
    return None


def _daily_roll(world: WorldState, site: WorldSite, topic: str, name: str) -> float:
    """A number from 0 up to 1, the same for a name on a day; 1 for a name that has no listing.

    A scanner searches for a new invented person each time, and that must not change what happens.
    """
    if not world.listings.named(site, name):
        return 1
    return roll(world.seed, topic, world.now().date(), folded(name))


def _fabricated_listing(site: WorldSite, query: Mapping[str, str], name: str) -> str:
    """A listing for whatever name is searched for, made from the query itself."""
    reference = digest("anybody", folded(name))
    age = 25 + int(reference[:4], 16) % 50
    city, state = query.get("city") or "Sunspindle", query.get("state") or "CA"
    return (
        f'<div class="result" data-id="{reference}"><h2>{escaped(name.title())}</h2><span class="age">{age}</span>'
        f'<span class="city">{escaped(city)}, {escaped(state)}</span>'
        f'<a href="http://{site.host}/people/{slug(name)}/{reference}">Full report</a></div>'
    )
