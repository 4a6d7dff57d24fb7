"""One look at one site for one person: what it lists, and whether to believe it. Stores nothing, submits nothing.

An invented person is asked for first. A site that lists them lists anybody: what it says of the real one is kept
apart. A block, a time-out, a 404 or a changed layout tells nothing: such a look neither clears nor accuses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

from exposurekit.service.accounts.subject import Place, Subject
from exposurekit.service.http.client import FetchError, ForbiddenAddress, Response
from exposurekit.service.models import Listing
from exposurekit.service.scanning import extraction, matching
from exposurekit.service.scanning.control import decoy_subject
from exposurekit.service.scanning.politeness import CancelCheck, PoliteFetcher, RobotsDisallowed, SiteSession
from exposurekit.service.sites.definition import Definition

QUERIES_MAX = 6  # names and places that one look asks for; as many again for what was found before
PAIRS_MAX = 200  # of a name and a place, tried for queries that differ
LISTINGS_MAX = 200  # of one look; a site that shows more is asked too widely
PAGE_BYTES_MAX = 2_000_000
CONTROL_LISTINGS = 20  # of an answer about somebody invented
CONTROL_MISSING = "the person known to be listed is not"
Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SiteResult:
    """What one look told.

    Attributes:
        listings: What the site lists under the person's names, each with the query that found it; whose they are is
            not judged here.
        inconclusive: Why the look did not see everything, so that absence says nothing; None: it did.
        trusted: Whether the invented person was not listed.
        asked: What the site was asked, and answered wholly.
    """

    listings: tuple[Listing, ...] = field(default=(), repr=False)
    inconclusive: str | None = None
    trusted: bool = True
    asked: tuple[Query, ...] = field(default=(), repr=False)

    def tells_absence_of(self, listing: Listing) -> bool:
        """Whether a listing that is not among these is not listed any more.

        Only the very question that found it can tell: who has another name by now, or has moved, is asked for
        otherwise, and not found where they still are.
        """
        return self.trusted and self.inconclusive is None and listing.found_by in self.asked


async def scan_site(
    site: Definition,
    subject: Subject,
    manners: PoliteFetcher,
    *,
    known: Sequence[Listing] = (),
    still: CancelCheck | None = None,
) -> SiteResult:
    """Ask a site for an invented person, then for this one.

    Args:
        site: Whom to ask.
        subject: Whom to ask for.
        manners: The way out.
        known: What it listed before. It is asked once more what found these; and if one is missing, for the person of
            whom it is known that they are listed: a site that says so to everybody has nobody removed.
        still: Says before each request whether to go on.
    """
    async with manners.calling(site.name, site.politeness, still=still) as caller:
        nobody = decoy_subject(subject.places[0] if subject.places else Place())
        control = await _fetch_pages(site, _queries(site, nobody), caller)
        if any(matching.name_fits(nobody, listing) for listing in control.listings[:CONTROL_LISTINGS]):
            found = await _fetch_pages(site, _queries(site, subject), caller)
            return SiteResult(found.listings, found.inconclusive, trusted=False)
        if control.inconclusive is not None:
            return SiteResult(inconclusive=control.inconclusive)
        found = await _fetch_pages(site, _questions(site, subject, known), caller)
        seen = {listing.reference_id for listing in found.listings}
        missing = any(listing.reference_id not in seen for listing in known)
        if missing and found.inconclusive is None and not await _lists_its_control(site, caller):
            return replace(found, inconclusive=CONTROL_MISSING)
        return found


async def check_known_listings(site: Definition, manners: PoliteFetcher) -> SiteResult | None:
    """Ask a site for the person it is known to list; None, where its definition names nobody."""
    if site.controls.listed is None:
        return None
    async with manners.calling(site.name, site.politeness) as caller:
        return await _fetch_pages(site, _queries(site, site.controls.listed.subject()), caller)


async def _lists_its_control(site: Definition, caller: SiteSession) -> bool:
    if site.controls.listed is None:
        return True
    resident = site.controls.listed.subject()
    found = await _fetch_pages(site, _queries(site, resident), caller)
    return any(matching.name_fits(resident, listing) for listing in found.listings)


async def _fetch_pages(site: Definition, queries: Sequence[Query], caller: SiteSession) -> SiteResult:
    found: dict[str, Listing] = {}
    for query in queries:
        try:
            problem = await _paged(site, query, caller, found)
        except (FetchError, RobotsDisallowed, ForbiddenAddress) as error:
            problem = error.reason if isinstance(error, FetchError) else str(error)
        if problem is not None:
            return SiteResult(tuple(found.values()), problem)  # a site that is in trouble is not asked on
    return SiteResult(tuple(found.values()), asked=tuple(queries))


async def _paged(
    site: Definition, query: Query, caller: SiteSession, found: dict[str, Listing]
) -> str | None:
    """Read the pages of one answer into ``found``; what kept us from seeing them all, or None."""
    answer = await _first_page(site, query, caller)
    for number in range(1, site.search.pages_max + 1):
        read = extraction.read(site, status=answer.status, url=answer.url, text=answer.text)
        for listing in read.listings:
            found.setdefault(listing.reference_id, replace(listing, found_by=query))
        if len(found) > LISTINGS_MAX:
            return "more listings than are read"
        if read.outcome == "inconclusive" or read.unreadable:
            return read.reason or "listings that cannot be read"
        if read.next is None:
            return None
        if number == site.search.pages_max:
            break
        answer = await caller.fetch(read.next, timeout_s=site.search.timeout_s, bytes_max=PAGE_BYTES_MAX)
    return "more pages than are read"


async def _first_page(site: Definition, query: Query, caller: SiteSession) -> Response:
    asked: dict[str, Any] = {"params": query} if site.search.method == "get" else {"form": query}
    return await caller.fetch(
        site.search.url,
        method=site.search.method.upper(),
        timeout_s=site.search.timeout_s,
        bytes_max=PAGE_BYTES_MAX,
        **asked,
    )


def _questions(site: Definition, subject: Subject, known: Sequence[Listing]) -> list[Query]:
    """What found the known listings, as far as the site is still asked so; then what finds the person today."""
    fields = site.search.fields.keys()
    before = [listing.found_by for listing in known if listing.found_by and listing.found_by.keys() == fields]
    return _different([*_different(before)[:QUERIES_MAX], *_queries(site, subject)])


def _queries(site: Definition, subject: Subject) -> list[Query]:
    """What the site is asked, for each name and place that makes a difference to it."""
    made: list[Query] = []
    pairs = product(subject.names, subject.places or (Place(),))
    for name, place in islice(pairs, PAIRS_MAX):
        told = subject.values(name, place)
        query = {field_: text.format_map(told) for field_, text in site.search.fields.items()}
        if query not in made:
            made.append(query)
        if len(made) == QUERIES_MAX:
            break
    return made


def _different(queries: Sequence[Query]) -> list[Query]:
    return list({tuple(sorted(query.items())): query for query in queries}.values())
