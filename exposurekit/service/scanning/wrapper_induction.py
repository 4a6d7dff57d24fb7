"""Wrapper induction: the selectors of a site's listings, from pages that show listings whose values are known.

A selector is proposed only if it extracts exactly the known values and treats the other listings on the pages alike. What
the pages leave open, such as a second layout or a block of other people, is a `Problem` and not a guess.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from exposurekit.service.scanning.field_selectors import (
    CANDIDATES_MAX,
    FIELDS,
    Example,
    FieldSelectors,
    Layout,
    Located,
    Problem,
    Selectors,
    holders,
    is_name_of,
    is_personal,
    personal_words,
)
from exposurekit.service.scanning.page_tree import PageTree
from exposurekit.service.scanning.selector_candidates import OUTER_TAGS, item_candidates
from exposurekit.text.words import words

Items = tuple[tuple[int, ...], ...]  # the elements of listings on each page

MENTIONS_MAX, LISTINGS_MAX, _LEVELS_MAX = 300, 200, 12  # of a page; elements around an example
_HEADING_TAGS = frozenset({"h1", "title", "option"})


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The selectors by key, as in `Extractors`; with problems, they must not be used."""

    selectors: Mapping[str, Selectors]
    problems: tuple[Problem, ...] = ()


def induce(
    pages: Sequence[PageTree],
    empty_pages: Sequence[PageTree],
    examples: Sequence[Example],
    current: Mapping[str, Selectors],
    keys: Iterable[str],
) -> Wrapper:
    """Return selectors for the keys: the current one where it works, else a new one.

    Args:
        pages: Pages with listings, the examples among them.
        empty_pages: Pages without a listing.
        examples: Listings whose values are known, one per layout at least.
        current: The selectors to keep if they still work.
        keys: The keys of the fields to extract.
    """
    return _Induction(pages, empty_pages, examples, current).wrapper(keys)


class _Induction:
    def __init__(
        self,
        pages: Sequence[PageTree],
        empty_pages: Sequence[PageTree],
        examples: Sequence[Example],
        current: Mapping[str, Selectors],
    ) -> None:
        self.pages, self.empty_pages, self.examples, self.current = pages, empty_pages, examples, current
        self.mentions = [self._mentions(page) for page in pages]
        self.personal = personal_words(examples)
        self.located: Sequence[Located] = ()

    def wrapper(self, keys: Iterable[str]) -> Wrapper:
        problems = [*self._mention_problems()]
        located = [] if problems else [self._locate(example) for example in self.examples]
        problems += [one for one in located if isinstance(one, Problem)]
        if problems:
            return Wrapper({}, tuple(problems))
        self.located = [one for one in located if isinstance(one, Located)]
        layouts = self._layouts(self.located)
        if isinstance(layouts, Problem):
            return Wrapper({}, (layouts,))
        selectors: dict[str, Selectors] = {"item": self._item_selectors(layouts)}
        fields = FieldSelectors(self.pages, layouts)
        ordered = sorted(keys, key=FIELDS.index)
        is_new = selectors["item"] != self.current.get("item")
        for key in ordered:  # those that stay claim their elements first
            if (current := fields.working(key, self.current.get(key, ()), is_new=is_new)) is not None:
                selectors[key] = current
        for key in ordered:
            if key not in selectors:
                chosen = fields.choose(key, is_new=not self.current.get(key))
                if isinstance(chosen, Problem):
                    problems.append(chosen)
                else:
                    selectors[key] = chosen
        return Wrapper(selectors, tuple(problems))

    # --- where the examples are ---------------------------------------------------------------------------

    def _mentions(self, page: PageTree) -> tuple[int, ...]:
        """Return the smallest elements that contain nothing but a searched name."""
        names = {example.name for example in self.examples}
        texts = {text for text in {*page.short.values()} if any(is_name_of(name, text) for name in names)}
        fits = [at for at, text in page.short.items() if text in texts]
        return tuple(at for at, after in pairwise([*fits, -1]) if not page.contains(at, after))

    def _mention_problems(self) -> Iterator[Problem]:
        for number, mentions in enumerate(self.mentions, 1):
            if not mentions:
                yield Problem(
                    "listings.name", f"is not to be found: page {number} lists none of the people given"
                )
            elif len(mentions) > MENTIONS_MAX:
                yield Problem("listings.name", f"occurs on page {number} too often")

    def _locate(self, example: Example) -> Located | Problem:
        located = [
            Located(number, element, example)
            for number, page in enumerate(self.pages)
            if (element := _smallest(page, self.mentions[number], example)) is not None
        ]
        if located:
            return min(located, key=lambda one: self.pages[one.page].size(one.element))
        if not any(example.is_name(text) for page in self.pages for text in page.short.values()):
            return Problem("listings.name", "is not on the pages by itself")
        for key, values in example.values.items():
            if any(not any(holders(page, example, key, value)) for page in self.pages for value in values):
                return Problem(f"listings.{key}", "has a value that is not on the pages by itself")
        return Problem(
            "listings.item", "is not to be found: no element of the pages has all values of the person"
        )

    # --- listings -----------------------------------------------------------------------------------------

    def _layouts(self, located: Sequence[Located]) -> tuple[Layout, ...] | Problem:
        layouts: list[Layout] = []
        rest = list(located)
        while rest:
            # Perhaps of several layouts; what distinguishes one may be beside another example only.
            some = [rest, *([one] for one in rest if len(rest) > 1)]
            layout = next((one for one in map(self._layout, some) if one is not None), None)
            if layout is None:
                return Problem("listings.item", "no stable selector selects the listings and nothing else")
            if isinstance(layout, Problem):
                return layout
            members = [
                one
                for one in rest
                if any(self.pages[one.page].contains(at, one.element) for at in layout.items[one.page])
            ]
            layouts.append(replace(layout, examples=tuple(members)))
            rest = [one for one in rest if one not in members]
        return self._doubt(layouts) or tuple(layouts)

    def _doubt(self, layouts: Sequence[Layout]) -> Problem | None:
        """Return a problem if there may be a layout that no example has, or one listing is of two layouts."""
        current = self.current.get("item", ())
        parts = len(_parts(current[0])) if current else 1
        if self._is_uncovered(layouts):
            reason = "the name is also listed in another layout, or in a block of other people: give that listing, too, "
            return Problem("listings.item", f"{reason}or save another page")
        if not self._are_apart(layouts):
            return Problem("listings.item", "the selectors of two layouts select the same listings")
        if layouts[0].item not in current and len(layouts) < parts:
            reason = f"has {parts} layouts and the pages show {len(layouts)}: give a listing of each"
            return Problem("listings.item", reason)
        return None

    def _layout(self, located: Sequence[Located]) -> Layout | Problem | None:
        """Return the layout of listings that all these examples have; None if no selector selects them."""
        costs: dict[str, float] = {}
        if (present := self._present(located)) is not None:
            costs[present] = 0.0
        page = self.pages[located[0].page]
        for level in self._levels(located[0]):
            for cost, selector in sorted(item_candidates(page, level))[:CANDIDATES_MAX]:
                if not is_personal(selector, self.personal):
                    costs.setdefault(selector, cost)
        valid = {one: items for one in costs if (items := self._items(one, located)) is not None}
        best = self._readable(valid, costs, located)
        if best is None:
            return None
        groups = self._groups(valid[best])
        for items in valid.values():
            if not groups <= self._groups(items) and _is_part(items, valid[best]):
                reason = "several blocks list the person, and one may be of other people"
                return Problem("listings.item", reason)
        return Layout(best, valid[best], tuple(located))

    def _present(self, located: Sequence[Located]) -> str | None:
        """Return the present selector of the listings: the first that selects anything on these pages."""
        current = self.current.get("item", ())
        first = next((one for one in current if any(page.css(one) for page in self.pages)), None)
        return first if first is not None and self._items(first, located) is not None else None

    def _readable(
        self,
        valid: Mapping[str, Items],
        costs: Mapping[str, float],
        located: Sequence[Located],
    ) -> str | None:
        """Return the selector of most listings that have a name and a reference."""
        tried: set[Items] = set()
        for selector in sorted(valid, key=lambda one: (-sum(map(len, valid[one])), costs[one])):
            if valid[selector] not in tried:
                tried.add(valid[selector])
                fields = FieldSelectors(self.pages, [Layout(selector, valid[selector], tuple(located))])
                if all(
                    fields.working(key, self.current.get(key, ()))
                    or not isinstance(fields.choose(key), Problem)
                    for key in ("reference_id", "name")
                ):
                    return selector
        return None

    def _levels(self, one: Located) -> list[int]:
        """Return the elements that may stand for a listing: the smallest, and those around it with nobody else."""
        page, levels = self.pages[one.page], [one.element]
        for outer in islice(page.ancestors(one.element), _LEVELS_MAX):
            others = [at for at in self.mentions[one.page] if page.contains(outer, at)]
            if page.tag(outer) in OUTER_TAGS or any(not page.contains(one.element, at) for at in others):
                break
            levels.append(outer)
        return levels

    def _items(self, selector: str, located: Sequence[Located]) -> Items | None:
        """Return what a selector selects on each page, or None if these are not the listings."""
        items = tuple(tuple(page.css(selector)) for page in self.pages)
        is_valid = (
            max(map(len, items)) <= LISTINGS_MAX
            and all(self._is_one_listing(one, items[one.page]) for one in located)
            and not any(
                page.contains(at, after)
                for page, elements in zip(self.pages, items, strict=True)
                for at, after in pairwise(elements)
            )
            and (
                any(len(elements) > 1 for elements in items)
                or self._has_own_reference(items, located)
                or self._is_beside_another(items)
            )
            and all(self._block_fits(items).values())
            and not any(page.css(selector) for page in self.empty_pages)
        )
        return items if is_valid else None

    def _is_one_listing(self, one: Located, elements: Sequence[int]) -> bool:
        """Return whether one element has the example, and nobody else."""
        page = self.pages[one.page]
        around = [at for at in elements if page.contains(at, one.element)]
        others = [at for at in self.mentions[one.page] if not page.contains(one.element, at)]
        return len(around) == 1 and not any(page.contains(around[0], at) for at in others)

    def _has_own_reference(self, items: Sequence[Sequence[int]], located: Sequence[Located]) -> bool:
        """Return whether a single listing certainly is one: its own element has its reference."""
        return all(
            any(
                value in {*self.pages[one.page].attributes[at].values()}
                for at in items[one.page]
                for value in one.example.values.get("reference_id", ())
            )
            for one in located
        )

    def _is_beside_another(self, items: Sequence[Sequence[int]]) -> bool:
        """Return whether a single listing certainly is one: an example in another layout is next to it."""
        for number, (page, elements) in enumerate(zip(self.pages, items, strict=True)):
            others = [one.element for one in self.located if one.page == number]
            for at in elements:
                beside = _beside(page, at)
                if any(page.contains(one, other) for one in beside for other in others):
                    return True
        return False

    def _block_fits(self, items: Sequence[Sequence[int]]) -> dict[tuple[object, ...], bool]:
        """Return each block of alike listings, and whether any of them has the searched name."""
        fits: dict[tuple[object, ...], bool] = {}
        for number, (page, elements) in enumerate(zip(self.pages, items, strict=True)):
            for at in elements:
                group = (number, *_block(page, at, elements))
                is_fit = any(page.contains(at, mention) for mention in self.mentions[number])
                fits[group] = fits.get(group, False) or is_fit
        return fits

    def _groups(self, items: Sequence[Sequence[int]]) -> set[tuple[object, ...]]:
        """Return where the blocks of listings are, by page and place."""
        return {
            (number, outer)
            for number, (page, elements) in enumerate(zip(self.pages, items, strict=True))
            for outer in {page.parents[at] for at in elements}
        }

    def _is_uncovered(self, layouts: Sequence[Layout]) -> bool:
        """Return whether a searched name is listed beside the listings."""
        for number, page in enumerate(self.pages):
            elements = sorted(at for layout in layouts for at in layout.items[number])
            blocks = {_block(page, at, elements)[0] or page.parents[at] or 0 for at in elements}
            for at in self.mentions[number]:
                is_covered = any(page.contains(element, at) for element in elements)
                is_inside = any(page.contains(outer, at) for outer in blocks)
                if is_inside and not is_covered and page.tag(at) not in _HEADING_TAGS:
                    return True
        return False

    def _are_apart(self, layouts: Sequence[Layout]) -> bool:
        elements = [
            (number, at)
            for layout in layouts
            for number, elements in enumerate(layout.items)
            for at in elements
        ]
        return len(elements) == len({*elements})

    def _item_selectors(self, layouts: Sequence[Layout]) -> Selectors:
        current = self.current.get("item", ())
        if len(layouts) == 1 and layouts[0].item in current:
            return current
        return (", ".join(dict.fromkeys(layout.item for layout in layouts)),)


def _parts(selector: str) -> list[str]:
    """Split a selector of several layouts at its commas outside of brackets."""
    return re.split(r",(?![^(\[]*[)\]])", selector)


def _is_part(items: Items, whole: Items) -> bool:
    return all({*some} <= {*more} for some, more in zip(items, whole, strict=True))


def _smallest(page: PageTree, mentions: Sequence[int], example: Example) -> int | None:
    """Return the smallest element with all values of an example, if it has no other listing; or None."""
    wanted = [
        [*holders(page, example, key, value)] for key, values in example.values.items() for value in values
    ]
    others = {
        tuple(words(value)) for key in ("aliases", "relations") for value in example.values.get(key, ())
    }
    best: int | None = None
    for mention in mentions:
        if not any(example.is_name(page.short[at]) for at in _same_text(page, mention)):
            continue
        for outer in (mention, *page.ancestors(mention)):
            if all(any(page.contains(outer, at) for at in elements) for elements in wanted):
                if page.tag(outer) not in OUTER_TAGS and (best is None or page.size(outer) < page.size(best)):
                    inside = [at for at in mentions if page.contains(outer, at) and at != mention]
                    if all(tuple(words(page.short[at])) in others for at in inside):
                        best = outer
                break
    return best


def _same_text(page: PageTree, at: int) -> Iterator[int]:
    """Yield an element and those around it that have no other text."""
    yield at
    for outer in page.ancestors(at):
        if page.short.get(outer) != page.short.get(at):
            return
        yield outer


def _beside(page: PageTree, at: int) -> list[int]:
    """Return the elements next to a listing, or next to those that have nothing but the listing."""
    while (parent := page.parents[at]) is not None and page.tag(parent) not in OUTER_TAGS:
        beside = [one for one in page.children(parent) if one != at]
        if beside or page.own_text(parent):
            return beside
        at = parent
    return []


def _block(page: PageTree, at: int, elements: Sequence[int]) -> tuple[int, tuple[object, ...]]:
    """Return the closest element around a listing with another one, and the way from there to the listing."""
    way: list[object] = [(page.tag(at), page.classes[at])]
    for outer in page.ancestors(at):
        if any(page.contains(outer, other) for other in elements if other != at):
            return outer, tuple(way)
        way.append((page.tag(outer), page.classes[outer]))
    return 0, tuple(way)
