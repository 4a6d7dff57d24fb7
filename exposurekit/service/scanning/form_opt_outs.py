"""Opt-outs by form: submit a site's form and interpret the response."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urljoin

from exposurekit.service.accounts.subject import Subject
from exposurekit.service.matching.opt_out_subject import as_listed
from exposurekit.service.scanning import html_text
from exposurekit.service.scanning.politeness import (
    FETCH_FAILURES,
    CancelCheck,
    PoliteFetcher,
    SiteSession,
    failure_reason,
)
from exposurekit.service.scanning.site_scan import PAGE_BYTES_MAX
from exposurekit.service.sites.definition import LISTING_FIELDS, REQUEST_EMAIL, Definition

OptOutResult = Literal["accepted", "refused", "unclear"]
_HIDDEN_MAX = 50
_OK = 200
_SUCCESS = range(200, 300)  # some forms answer 201 Created or 202 Accepted


async def send(
    site: Definition,
    subject: Subject,
    record: Mapping[str, Any],
    fetcher: PoliteFetcher,
    *,
    request_email: str = "",
    cancel_check: CancelCheck | None = None,
) -> tuple[OptOutResult, str]:
    """Submit an opt-out; return the result and the reason for it. `request_email` is the address of this request.

    The site's `removal.method` must be `form`, and the subject must have every field that the form requires. A response
    without any of the definition's marks is unclear, and so is no response: the site may have accepted, and the opt-out may be
    sent again.
    """
    try:
        async with fetcher.session(site.name, site.politeness, cancel_check=cancel_check) as session:
            return await _submit(site, form_values(site, subject, record, request_email), session)
    except FETCH_FAILURES as error:
        return "unclear", failure_reason(error)


async def _submit(
    site: Definition, fields: Mapping[str, str], session: SiteSession
) -> tuple[OptOutResult, str]:
    form = dict(fields)
    limits: dict[str, Any] = {"timeout_s": site.search.timeout_s, "bytes_max": PAGE_BYTES_MAX}
    if site.removal.page is not None:
        page = await session.fetch(site.removal.page, **limits)
        if page.status != _OK:
            return "unclear", f"the form's page: status {page.status}"
        form = _hidden_fields(page.text, page.url, site.removal.url or "") | form
    response = await session.fetch(site.removal.url or "", method="POST", form=form, **limits)
    marks = Marks(site.removal.accepted, site.removal.refused, site.search.blocked)
    return interpret(marks, response.status, response.text)


def form_values(
    site: Definition, subject: Subject, record: Mapping[str, Any], request_email: str
) -> dict[str, str]:
    """Return what to enter into the form's fields, by name."""
    listing = {name: record[name] or "" for name in LISTING_FIELDS}
    values = as_listed(subject, record).values() | listing | {REQUEST_EMAIL: request_email}
    return {name: template.format_map(values) for name, template in site.removal.fields.items()}


def _hidden_fields(html: str, url: str, action: str) -> dict[str, str]:
    """The hidden fields of the form that is submitted to ``action``, such as tokens."""
    page = html_text.tree(html)
    for form in [] if page is None else page.css("form"):
        if _join(url, form.attributes.get("action") or "") == action:
            inputs = form.css("input[type=hidden][name]")[:_HIDDEN_MAX]
            return {field.attributes["name"] or "": field.attributes.get("value") or "" for field in inputs}
    return {}


def _join(url: str, action: str) -> str:
    try:
        return urljoin(url, action)
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Marks:
    """Texts that show what a page means."""

    accepted: Sequence[str]
    refused: Sequence[str]
    blocked: Sequence[str]


def interpret(marks: Marks, status: int, text: str) -> tuple[OptOutResult, str]:
    """Return what a response means, and the reason; case and white space are ignored.

    What can be seen counts before what the source alone contains: a script may have the messages of every case. A block,
    though, is often visible in the source only.
    """
    source, visible = (html_text.squeezed(one) for one in (text, " ".join(html_text.text_of(text))))
    if html_text.contains_mark(source + visible, marks.blocked):
        return "unclear", "blocked"
    for page in (visible, source):
        if html_text.contains_mark(page, marks.refused):
            return "refused", "the site refused"
        if status in _SUCCESS and html_text.contains_mark(page, marks.accepted):
            return "accepted", "the site accepted"
    return "unclear", f"status {status}, and none of the definition's marks"
