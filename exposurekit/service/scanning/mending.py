"""New selectors for a site's definition, from saved pages of a listed and of an invented person.

A proposal passes both controls: each listed person is extracted with exactly the values that are known of them and matches,
and the page of the invented person has no listing and the text that says so. Selectors that still work stay.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Self

from exposurekit.service.matching import scoring
from exposurekit.service.scanning import saved_pages
from exposurekit.service.scanning.extraction import PageOutcome
from exposurekit.service.scanning.field_selectors import Problem, personal_words
from exposurekit.service.scanning.html_text import text_of
from exposurekit.service.scanning.listed_person import ListedPerson
from exposurekit.service.scanning.page_tree import PageTree
from exposurekit.service.scanning.results_page import extracted, next_links, next_selector, no_results_mark
from exposurekit.service.scanning.saved_pages import SavedPage, UnusablePage
from exposurekit.service.scanning.wrapper_induction import induce
from exposurekit.service.sites import loader
from exposurekit.service.sites.definition import Definition, Extractors
from exposurekit.service.sites.drafts import TO_WRITE, to_write
from exposurekit.text import plain_yaml

Changes = dict[tuple[str, ...], Any]
NO_LISTING, LISTINGS = "has no listing", "has listings"
SWAPPED = "the pages of --listed and --absent may be swapped"
DESCRIBE = "controls.listed says little of the listing: describe what it shows with --person FILE"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A definition's new text, the keys that it changes, and what the present one fails; with problems it has no text."""

    text: str | None = field(repr=False)
    changed: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """The content of saved pages: of the listed people, and of an invented person."""

    listed: tuple[bytes, ...] = field(repr=False)
    absent: tuple[bytes, ...] = field(repr=False)


def propose(
    text: str, where: str, files: SavedFiles, people: Sequence[ListedPerson], *, on: date
) -> Proposal:
    """Return new selectors for a definition, or why there are none.

    Args:
        text: The definition, perhaps a draft.
        where: Its file's name, for messages.
        files: The saved pages.
        people: Who is listed on them; without any, the control person of the definition.
        on: The day on which the pages were saved.

    Raises:
        ConfigurationError: The definition is invalid.
        UnusablePage: A file is not a page.
    """
    site = loader.parsed(text, where)
    is_described = bool(people)
    if not people and site.controls.listed is not None:
        people = (ListedPerson.model_validate(site.controls.listed.model_dump()),)
    if not people:
        return Proposal(None, problems=("say who is listed on the pages",))
    if site.search.answer == "json":
        return Proposal(None, problems=("search.answer is json: selectors are proposed for HTML only",))
    is_draft = any(to_write(site.model_dump()))
    failures = () if is_draft else tuple(control_failures(site, files, people, on=on))
    changes, problems = _changes(site, _Pages.parsed(site, files), people)
    if problems:
        reasons = [f"{one.key} {one.reason}" for one in problems]
        if not is_described and any(one.key.startswith("listings.") for one in problems):
            reasons.append(DESCRIBE)
        return Proposal(None, failures=failures, problems=tuple(reasons))
    new_text = _written(text, changes)
    remaining = tuple(control_failures(loader.parsed(new_text, where), files, people, on=on))
    changed = tuple(".".join(position) for position in changes)
    return Proposal(None if remaining else new_text, changed, failures, remaining)


def control_failures(
    site: Definition, files: SavedFiles, people: Sequence[ListedPerson], *, on: date
) -> Iterator[str]:
    """Yield what is wrong with the results of a definition: a listed person is missing, or an invented one is listed."""
    listed = [_read(site, content, "listings") for content in files.listed]
    absent = [_read(site, content, "no results") for content in files.absent]
    for whose, results in (("a listed", listed), ("an invented", absent)):
        yield from (
            f"page {number} of {whose} person {one}"
            for number, one in enumerate(results, 1)
            if isinstance(one, str)
        )
    if set(listed) == {NO_LISTING} and set(absent) == {LISTINGS}:
        yield SWAPPED
    pages = [one for one in listed if not isinstance(one, str)]
    listings = [(listing, one.address) for one in pages for listing in one.result.listings]
    if any(one.result.unreadable for one in pages):
        yield "a listing lacks a name or a reference_id"
    for person in people if listings else ():
        fits = [one for one, address in listings if person.agrees(one, site, address)]
        verdicts = {scoring.match(person.subject_on(on), one, on).verdict for one in fits}
        if not fits:
            yield "no listing has the values of the listed person"
        elif verdicts <= {"other"}:
            yield "the listed person's own listing does not match them"


def _read(site: Definition, content: bytes, expected: PageOutcome) -> SavedPage | str:
    """Return a page with the expected outcome, or what it has instead."""
    try:
        page = saved_pages.read(site, content)
    except UnusablePage as error:
        return str(error).removeprefix("the page ").partition(". ")[0]
    if page.result.outcome != expected:
        return NO_LISTING if expected == "listings" else LISTINGS
    return page


@dataclass(frozen=True, slots=True)
class _Pages:
    """Parsed pages and their visible texts."""

    listed: tuple[PageTree, ...]
    absent: tuple[PageTree, ...]
    listed_texts: tuple[str, ...] = field(repr=False)
    absent_texts: tuple[str, ...] = field(repr=False)

    @classmethod
    def parsed(cls, site: Definition, files: SavedFiles) -> Self:
        trees, texts = [], []
        for content in (*files.listed, *files.absent):
            page = saved_pages.document(content)
            tree = PageTree.parsed(page.text, page.url or site.search.base)
            if tree is None:
                raise UnusablePage("a page is too large to be read. Save it as HTML only")
            trees.append(tree)
            texts.append(" ".join(text_of(page.text)))
        count = len(files.listed)
        return cls(tuple(trees[:count]), tuple(trees[count:]), tuple(texts[:count]), tuple(texts[count:]))


def _changes(
    site: Definition, pages: _Pages, people: Sequence[ListedPerson]
) -> tuple[Changes, list[Problem]]:
    is_draft = TO_WRITE in (*site.listings.item, *site.listings.name, *site.listings.reference_id)
    current = {
        key: () if TO_WRITE in (selectors := getattr(site.listings, key)) else selectors
        for key in Extractors.model_fields
    }
    keys = {"name", "reference_id"} | {
        key for key, selectors in current.items() if selectors and key != "item"
    }
    if is_draft:
        keys |= {"href"} | {key for person in people for key, values in person.values().items() if values}
    wrapper = induce(pages.listed, pages.absent, [one.example() for one in people], current, keys)
    # A draft may do without a link.
    problems = [one for one in wrapper.problems if one.key != "listings.href" or current["href"]]
    changes: Changes = {
        ("listings", key): _plain(wrapper.selectors[key])
        for key in Extractors.model_fields
        if key in wrapper.selectors and wrapper.selectors[key] != current[key]
    }
    present = [one for one in site.search.no_results if one != TO_WRITE]
    personal = personal_words(one.example() for one in people)
    mark = no_results_mark(present, pages.listed_texts, pages.absent_texts, pages.absent, personal)
    if mark is None:
        problems.append(Problem("search.no_results", "cannot be told from the page of an invented person"))
    elif mark not in present:
        changes["search", "no_results"] = mark
    items = wrapper.selectors.get("item", ())
    following = _next_page(site, pages, items, personal, is_changed=bool(changes))
    if isinstance(following, Problem):
        problems.append(following)
    elif following is not None:
        changes["search", "next"] = following
    return changes, problems


def _next_page(
    site: Definition, pages: _Pages, items: Iterable[str], personal: frozenset[str], *, is_changed: bool
) -> str | Problem | None:
    """Return a new selector of the link to the next page; None if none is needed, or the present one works."""
    items, current = [*items], site.search.next
    links = {page: next_links(page, items) for page in (*pages.listed, *pages.absent)}
    linking = {page for page, numbers in links.items() if numbers}
    working = {page for page in links if any(extracted(page, selector) for selector in current)}
    if linking <= working and (working or not current or not is_changed):
        return None
    if not linking:
        return Problem(
            "search.next", "extracts nothing: save the first page of several, too, or delete the key"
        )
    return next_selector(links, personal) or Problem("search.next", "has no stable selector")


def _plain(selectors: tuple[str, ...]) -> Any:
    return selectors[0] if len(selectors) == 1 else list(selectors)


def _written(text: str, changes: Changes) -> str:
    """Return a definition's text with changes, and without a draft's comments on what they write."""
    text = plain_yaml.edit(text, changes)
    comments = {f"# To write: {'.'.join(position)}" for position in changes}
    return "".join(line for line in text.splitlines(keepends=True) if line.rstrip() not in comments)
