"""An opt-out, sent by a site's own form. Says what the site answered; decides and stores nothing."""

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urljoin

from exposurekit.service.accounts.subject import Place, Subject
from exposurekit.service.http.client import FetchError, ForbiddenAddress
from exposurekit.service.scanning import html_text
from exposurekit.service.scanning.politeness import CancelCheck, PoliteFetcher, RobotsDisallowed, SiteSession
from exposurekit.service.scanning.site_scan import PAGE_BYTES_MAX
from exposurekit.service.sites.definition import Definition

Answer = Literal["accepted", "refused", "unclear"]
_HIDDEN_MAX = 50
_OK = 200


async def send(
    site: Definition,
    subject: Subject,
    stored: Mapping[str, Any],
    manners: PoliteFetcher,
    *,
    still: CancelCheck | None = None,
) -> tuple[Answer, str]:
    """Ask a site to take a listing down: what it answered, and in a word or two why.

    A site that gives neither of the marks that its definition names, or no answer, is unclear: it may have
    accepted, and may be asked again.

    Args:
        site: One whose removal is by form.
        subject: The person, who has every field that the form needs.
        stored: The listing, as its record keeps it.
        manners: The way out.
        still: Says before each request whether to go on.
    """
    try:
        async with manners.calling(site.name, site.politeness, still=still) as caller:
            return await _sent(site, _outcome(site, subject, stored), caller)
    except (FetchError, RobotsDisallowed, ForbiddenAddress) as error:
        return "unclear", error.reason if isinstance(error, FetchError) else str(error)


async def _sent(site: Definition, told: Mapping[str, str], caller: SiteSession) -> tuple[Answer, str]:
    form = dict(told)
    if site.removal.page is not None:
        page = await caller.fetch(
            site.removal.page, timeout_s=site.search.timeout_s, bytes_max=PAGE_BYTES_MAX
        )
        if page.status != _OK:
            return "unclear", f"the form's page: status {page.status}"
        form = _hidden(page.text, page.url, site.removal.url or "") | form
    answer = await caller.fetch(
        site.removal.url or "",
        method="POST",
        form=form,
        timeout_s=site.search.timeout_s,
        bytes_max=PAGE_BYTES_MAX,
    )
    return _verdict(site, answer.status, answer.text)


def _outcome(site: Definition, subject: Subject, stored: Mapping[str, Any]) -> dict[str, str]:
    listing = {name: stored[name] or "" for name in ("reference_id", "href", "name")}
    known = subject.values(place=_place_of(subject, stored)) | listing
    return {name: template.format_map(known) for name, template in site.removal.fields.items()}


def _place_of(subject: Subject, stored: Mapping[str, Any]) -> Place | None:
    """The place that the listing shows, where the person has it; the form will be compared with that."""
    shown = " ".join(stored["locations"]).casefold()
    by_street = [place for place in subject.places if place.address1 and place.address1.casefold() in shown]
    by_city = [place for place in subject.places if place.city and place.city.casefold() in shown]
    return next(iter([*by_street, *by_city]), None)


def _hidden(html: str, url: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that goes to ``action``: tokens that a site wants back."""
    page = html_text.tree(html)
    for form in [] if page is None else page.css("form"):
        if _leads_to(url, form.attributes.get("action") or "") == action:
            inputs = form.css("input[type=hidden][name]")[:_HIDDEN_MAX]
            return {field.attributes["name"] or "": field.attributes.get("value") or "" for field in inputs}
    return {}


def _leads_to(url: str, action: str) -> str:
    try:
        return urljoin(url, action)
    except ValueError:
        return ""


def _verdict(site: Definition, status: int, text: str) -> tuple[Answer, str]:
    page = text.casefold()
    if _bears(page, site.search.blocked):
        return "unclear", "blocked"
    if _bears(page, site.removal.refused):
        return "refused", "the site refused"
    if status == _OK and _bears(page, site.removal.accepted):
        return "accepted", "the site accepted"
    return "unclear", f"status {status}, and no mark that is known"


def _bears(page: str, marks: tuple[str, ...]) -> bool:
    return any(mark.casefold() in page for mark in marks)
