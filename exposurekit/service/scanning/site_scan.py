"""One site's part of a scan: search the site for a person, after a negative control.

A scan searches for an invented person first, unless another one has just done so. A site that lists them lists anybody,
and its answers are not trusted.
After a block, a timeout, a 404 or a changed layout the result is inconclusive: it neither confirms nor removes a listing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, product, zip_longest
from typing import Any, Literal

from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.http.client import Response
from exposurekit.service.matching import scoring
from exposurekit.service.models import Excerpt, Listing
from exposurekit.service.scanning import extraction
from exposurekit.service.scanning.control_person import SharedControls
from exposurekit.service.scanning.politeness import (
    FETCH_FAILURES,
    CancelCheck,
    PoliteFetcher,
    SiteSession,
    failure_reason,
)
from exposurekit.service.sites.definition import Definition
from exposurekit.service.sites.statistics import CONTROL_MISSING, VALUE_MISSING, WAITS_FOR_PERSON

QUERIES_MAX = 6  # for the names and places of a person; as many again for their previous listings
PAIRS_MAX = 200  # pairs of a name and a place tried for different queries
LISTINGS_MAX = 200  # of one scan; more show that the query is too broad
PAGE_BYTES_MAX = 2_000_000
CONTROL_LISTINGS = 20  # checked for the invented person
LISTS_ANYBODY = "an invented person is listed"
Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SiteResult:
    """The listings under the person's names, each with the query that found it; they are not matched yet."""

    listings: tuple[Listing, ...] = field(default=(), repr=False)
    inconclusive: str | None = None  # why the scan was incomplete, so that an absence proves nothing
    trusted: bool = True  # the invented person was not listed
    queries: tuple[Query, ...] = field(default=(), repr=False)  # those that the site answered completely
    pages: tuple[tuple[Excerpt, ...], ...] = field(
        default=(), repr=False, compare=False
    )  # of each of these queries
    source: Literal["scan", "saved page"] = "scan"
    reads_control: bool = False  # the control person was searched for, too, and listed
    left_out: int = 0  # queries for other names and places of the person, beyond `QUERIES_MAX`

    def confirms_absence_of(self, listing: Listing) -> bool:
        """Return whether a listing that is not in the result is no longer on the site.

        Only the query that found it can tell: after a change of name or address, other queries are sent, which do
        not find the listing although it is still there.
        """
        return self.trusted and self.inconclusive is None and listing.query in self.queries

    def pages_without(self, listing: Listing) -> tuple[Excerpt, ...]:
        """Return the pages that confirm the absence of a listing."""
        pairs = zip(self.queries, self.pages, strict=True)
        return next((pages for query, pages in pairs if query == listing.query), ())


async def scan_site(
    site: Definition,
    subject: Subject,
    fetcher: PoliteFetcher,
    *,
    previous: Sequence[Listing] = (),
    controls: SharedControls | None = None,
    cancel_check: CancelCheck | None = None,
) -> SiteResult:
    """Search a site for an invented person, then for the subject.

    The queries of previous listings are repeated. If one of these is missing, the control person is searched for too: a
    site that does not find them confirms no removal. A site whose search only a person can open gets no request. By their
    `controls`, scans share which sites listed no invented person.
    """
    if site.search.method == "person":
        return SiteResult(inconclusive=WAITS_FOR_PERSON)
    queries = search_queries(site, subject, previous)
    # Where the person has no place that the address of the search needs, the control person's serves.
    listed = site.controls.listed
    places = *(subject.places or (Place(),)), *(listed.subject().places if listed else ())
    controls, now = controls or SharedControls(), fetcher.now()
    decoy = controls.decoy(site.name, *places, now=now)
    decoy_queries = _queries(site, decoy)[:1]
    if not queries or not decoy_queries:
        return SiteResult(inconclusive=VALUE_MISSING)
    async with fetcher.session(site.name, site.politeness, cancel_check=cancel_check) as session:
        run = partial(_decoy_problem, site, decoy, decoy_queries, session)
        problem = await controls.problem(site, decoy_queries, run, now=now)
        if problem == LISTS_ANYBODY:
            result = await _search(site, _queries(site, subject), session)
            return SiteResult(result.listings, result.inconclusive, trusted=False)
        if problem is not None:
            return SiteResult(inconclusive=problem)
        left_out = len(_all_queries(site, subject)[QUERIES_MAX:])
        result = replace(await _search(site, queries, session), left_out=left_out)
        reference_ids = {listing.reference_id for listing in result.listings}
        missing = any(listing.reference_id not in reference_ids for listing in previous)
        if missing and result.inconclusive is None:
            if not await _lists_control(site, session):
                return replace(result, inconclusive=CONTROL_MISSING)
            result = replace(result, reads_control=listed is not None)
        return result


async def scan_control(site: Definition, fetcher: PoliteFetcher) -> SiteResult | None:
    """Search a site for its control person; None if its definition has none."""
    if site.controls.listed is None:
        return None
    if site.search.method == "person":
        return SiteResult(inconclusive=WAITS_FOR_PERSON)
    async with fetcher.session(site.name, site.politeness) as session:
        return await _search(site, _queries(site, site.controls.listed.subject()), session)


async def _decoy_problem(
    site: Definition, decoy: Subject, queries: Sequence[Query], session: SiteSession
) -> str | None:
    result = await _search(site, queries, session)
    if any(scoring.name_fits(decoy, listing) for listing in result.listings[:CONTROL_LISTINGS]):
        return LISTS_ANYBODY
    return result.inconclusive


async def _lists_control(site: Definition, session: SiteSession) -> bool:
    """Asked after each search that lacks a listing: a site may have begun to answer with empty pages."""
    if site.controls.listed is None:
        return True
    control = site.controls.listed.subject()
    result = await _search(site, _queries(site, control), session)
    return any(scoring.name_fits(control, listing) for listing in result.listings)


async def _search(site: Definition, queries: Sequence[Query], session: SiteSession) -> SiteResult:
    if not queries:
        return SiteResult(inconclusive=VALUE_MISSING)
    listings: dict[str, Listing] = {}
    pages: list[list[Excerpt]] = []
    for query in queries:
        pages.append([])
        try:
            problem = await _read_pages(site, query, session, listings, pages[-1])
        except FETCH_FAILURES as error:
            problem = failure_reason(error)
        if problem is not None:  # no further queries to a site with a problem
            return SiteResult(tuple(listings.values()), problem)
    return SiteResult(tuple(listings.values()), queries=tuple(queries), pages=tuple(map(tuple, pages)))


async def _read_pages(
    site: Definition,
    query: Query,
    session: SiteSession,
    listings: dict[str, Listing],
    excerpts: list[Excerpt],
) -> str | None:
    """Add the listings of all result pages to ``listings``, and the pages to ``excerpts``.

    Return why some are missing, or None.
    """
    response = await _first_page(site, query, session)
    for number in range(1, site.search.pages_max + 1):
        page = extraction.read(site, status=response.status, url=response.url, text=response.text)
        for listing in page.listings:
            listings.setdefault(listing.reference_id, replace(listing, query=query))
        excerpts += [page.excerpt] if page.excerpt else []
        if len(listings) > LISTINGS_MAX:
            return "too many listings"
        if page.outcome == "inconclusive" or page.unreadable:
            return page.reason or "unreadable listings"
        if page.next is None:
            return None
        if number == site.search.pages_max:
            break
        response = await session.fetch(page.next, timeout_s=site.search.timeout_s, bytes_max=PAGE_BYTES_MAX)
    return "too many pages"


async def _first_page(site: Definition, query: Query, session: SiteSession) -> Response:
    parameters = site.search.parameters(query)
    payload: dict[str, Any] = {"params": parameters} if site.search.method == "get" else {"form": parameters}
    return await session.fetch(
        site.search.address(query),
        method=site.search.method.upper(),
        timeout_s=site.search.timeout_s,
        bytes_max=PAGE_BYTES_MAX,
        **payload,
    )


def search_queries(site: Definition, subject: Subject, previous: Sequence[Listing] = ()) -> list[Query]:
    """Return the queries that found the previous listings, if the site still has these fields, then the current ones."""
    keys = site.search.query_keys
    earlier = [listing.query for listing in previous if listing.query and listing.query.keys() == keys]
    return _unique([*_unique(earlier)[:QUERIES_MAX], *_queries(site, subject)])


def _queries(site: Definition, subject: Subject) -> list[Query]:
    return _all_queries(site, subject)[:QUERIES_MAX]


def _all_queries(site: Definition, subject: Subject) -> list[Query]:
    queries = (site.search.query(subject.values(*pair)) for pair in islice(search_pairs(subject), PAIRS_MAX))
    return _unique([query for query in queries if query is not None])


def search_pairs(subject: Subject) -> Iterator[tuple[Name, Place]]:
    """Yield the pairs of a name and a place to search for; the current pair first, then other names and former places in turn."""
    names, (place, *former_places) = subject.names, subject.places or (Place(),)
    if not names:
        return
    yield names[0], place
    other_names = [(name, place) for name in names[1:]]
    former = [(names[0], one) for one in former_places]
    yield from (pair for pair in chain.from_iterable(zip_longest(other_names, former)) if pair)
    yield from product(names[1:], former_places)


def _unique(queries: Sequence[Query]) -> list[Query]:
    return list({tuple(sorted(query.items())): query for query in queries}.values())
