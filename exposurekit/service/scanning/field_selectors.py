"""Selectors of the fields of listings: they extract the values that are known, and the like from the other listings."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from exposurekit.service.accounts.subject import Name
from exposurekit.service.matching.name_matching import names_fit
from exposurekit.service.scanning.extraction import LISTS, first_age
from exposurekit.service.scanning.page_tree import PageTree
from exposurekit.service.scanning.selector_candidates import (
    LABEL_COST,
    Candidates,
    absolute,
    field_candidates,
    has_unusual_label,
    href_candidates,
    reference_candidates,
)
from exposurekit.service.sites.selectors import compiles, selector_parts
from exposurekit.text.words import words

Selectors = tuple[str, ...]

FIELDS = ("reference_id", "href", "name", "age", *LISTS)
CANDIDATES_MAX = 400  # for one selector
_ITEMS_MAX = 60  # compared listings of a page
_NAME_WORDS = 6
_WORD_MIN = 3  # characters of a word of a value that no selector may contain
_LINKS = frozenset({"reference_id", "href"})  # which may be the same
_ADJACENT = re.compile(r"\+ [a-z0-9]+$")  # selects one element after a label


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a selector cannot be proposed: its key, and the reason without any value."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A listing whose values are known, by field. A field of ``partial`` may show more than these."""

    name: Name = field(repr=False)
    displayed_name: str | None = field(default=None, repr=False)
    values: Mapping[str, Selectors] = field(default_factory=dict, repr=False)
    partial: frozenset[str] = frozenset()

    def is_name(self, text: str) -> bool:
        """Return whether a text is the listing's name, and nothing else."""
        if self.displayed_name is not None:
            return words(text) == words(self.displayed_name)
        return is_name_of(self.name, text)

    def is_value(self, key: str, value: str, text: str) -> bool:
        """Return whether a text shows a value of a field, and of a field that is not partial nothing else."""
        if key == "age":
            return re.findall(r"\d+", text) == [value] and first_age([text]) == int(value)
        if key not in self.partial:
            return words(text) == words(value)
        return f" {' '.join(words(value))} " in f" {' '.join(words(text))} "


def is_name_of(name: Name, text: str) -> bool:
    """Return whether a text is a person's name, perhaps with a middle one, and nothing else."""
    parts = words(text)
    if not 0 < len(parts) <= _NAME_WORDS or any(map(str.isdigit, text)):
        return False
    return (
        not {*words(name.last), *words(name.first)}.isdisjoint(parts) and names_fit([name], text) is not None
    )


@dataclass(frozen=True, slots=True)
class Located:
    """An example on a page: the smallest element with all of its values."""

    page: int
    element: int
    example: Example


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout of listings: a selector, the elements that it selects on each page, and its examples."""

    item: str
    items: tuple[tuple[int, ...], ...]
    examples: tuple[Located, ...]


@dataclass(frozen=True, slots=True)
class _Item:
    """A listing on a page."""

    page: int
    element: int


class FieldSelectors:
    """Chooses the selectors of the fields within the listings."""

    def __init__(self, pages: Sequence[PageTree], layouts: Sequence[Layout]) -> None:
        self.pages, self.layouts = pages, layouts
        self.personal = personal_words(one.example for layout in layouts for one in layout.examples)
        self.claimed: dict[str, frozenset[tuple[int, int]]] = {}

    def working(self, key: str, current: Selectors, *, is_new: bool = False) -> Selectors | None:
        """Return the current selectors if they work; in new layouts, those of a list must be seen to do so in each."""
        if not current or not self._works(key, current, self.layouts):
            return None
        if is_new and key in LISTS and not (self._is_list(key, current) and self._is_in_each(current)):
            return None
        return self._claim(key, current)

    def _is_in_each(self, selectors: Selectors) -> bool:
        """Return whether selectors extract something in each of several layouts: what was not seen may have changed."""
        return len(self.layouts) == 1 or all(
            any(self._extract(item, selectors)[0] for item in _items_of(layout)) for layout in self.layouts
        )

    def _is_list(self, key: str, selectors: Selectors) -> bool:
        """Return whether there is an element for each value: one was seen to show several, or must."""
        return all(
            any(len(one.example.values.get(key, ())) > 1 for one in layout.examples)
            or all(self._is_repeated(one, layout) for one in selectors)
            for layout in self.layouts
        )

    def choose(self, key: str, *, is_new: bool = True) -> Selectors | Problem:
        """Return new selectors for a field whose current ones do not work."""
        has_values = all(
            any(one.example.values.get(key) for one in layout.examples) or key == "name"
            for layout in self.layouts
        )
        if not has_values and (key not in {"reference_id", "href"} or (key == "reference_id" and not is_new)):
            reason = "is to be written" if is_new else "extracts nothing, or not this field alone"
            return Problem(f"listings.{key}", f"{reason}, and the person's values have no {key}")
        per_layout = [self._best(key, layout) for layout in self.layouts]
        for order in (per_layout, per_layout[::-1]):
            chosen = tuple(dict.fromkeys(one for one in order if one is not None))
            if None not in per_layout and self._works(key, chosen, self.layouts):
                return self._claim(key, chosen)
        if key in LISTS and all(self._best(key, one, is_repeated=False) for one in self.layouts):
            return Problem(f"listings.{key}", "cannot be told from one value: give a listing that shows two")
        return Problem(f"listings.{key}", "no stable selector extracts the person's values and nothing else")

    def _is_repeated(self, selector: str, layout: Layout) -> bool:
        """Return whether there is an element for each value. One with several in a text would be the same for one value."""
        matches = [(item.page, self._extract(item, (selector,))[0]) for item in _items_of(layout)]
        if any(len(nodes) > 1 for _, nodes in matches):
            return True
        if _ADJACENT.search(selector):  # selects only the first
            return False
        return all(
            self.pages[number].tag(at) == "li" or self._is_among_separators(self.pages[number], at)
            for number, nodes in matches
            for at in nodes
        )

    def _is_among_separators(self, page: PageTree, at: int) -> bool:
        parent = page.parents[at]
        text = "" if parent is None else page.own_text(parent)
        return bool(text) and not words(text)

    def _claim(self, key: str, selectors: Selectors) -> Selectors:
        if key not in _LINKS:
            nodes = (
                (item.page, at)
                for layout in self.layouts
                for item in _items_of(layout)
                for at in self._extract(item, selectors)[0]
            )
            self.claimed[key] = frozenset(nodes)
        return selectors

    def _best(self, key: str, layout: Layout, *, is_repeated: bool = True) -> str | None:
        costs: dict[str, float] = {}
        for one in layout.examples:
            item = self._item_of(layout, one)
            for cost, selector in islice(self._candidates(key, one.example, item), CANDIDATES_MAX):
                is_partial = key in one.example.partial
                if not is_partial or cost < LABEL_COST:  # a tag alone may be of other fields, too
                    costs[selector] = min(cost, costs.get(selector, cost))
        ranked = sorted(costs, key=costs.__getitem__)
        working = (
            one for one in ranked if self._works(key, (one,), (layout,)) and self._is_safe(one, layout)
        )
        if key not in LISTS or not is_repeated:
            return next(working, None)
        return next((one for one in working if self._is_repeated(one, layout)), None)

    def _item_of(self, layout: Layout, one: Located) -> _Item:
        page = self.pages[one.page]
        return next(_Item(one.page, at) for at in layout.items[one.page] if page.contains(at, one.element))

    def _candidates(self, key: str, example: Example, item: _Item) -> Candidates:
        page = self.pages[item.page]
        values = example.values.get(key, ())
        if key == "reference_id":
            yield from reference_candidates(page, item.element, values)
        elif key == "href":
            yield from href_candidates(page, item.element, values)
        if key == "href" or (key == "reference_id" and not values):
            return
        inside = range(item.element, page.ends[item.element])
        if key == "name":
            elements = [at for at in inside if at in page.short and example.is_name(page.short[at])]
        else:
            elements = [at for value in values for at in holders(page, example, key, value) if at in inside]
        for at in elements:
            if at != item.element and (key != "reference_id" or page.short.get(at) in values):
                yield from field_candidates(page, item.element, at)

    def _works(self, key: str, selectors: Selectors, layouts: Sequence[Layout]) -> bool:
        """Return whether selectors extract the examples' values, and the like from the other listings."""
        shapes: set[tuple[str, str]] = set()
        for layout in layouts:
            for one in layout.examples:
                item = self._item_of(layout, one)
                nodes, texts = self._extract(item, selectors)
                if not self._agrees(key, one.example, item, texts):
                    return False
                shapes |= {self._shape(item, at) for at in nodes}
        count = sum(self._extracts_alike(key, selectors, layout, shapes) for layout in layouts)
        return count == len(layouts) and any(
            self._extract(item, selectors)[0] for layout in layouts for item in _items_of(layout)
        )

    def _extracts_alike(
        self, key: str, selectors: Selectors, layout: Layout, shapes: set[tuple[str, str]]
    ) -> bool:
        """Return whether selectors extract plausible values from all listings, from elements of these shapes."""
        firsts: dict[int, list[str]] = {}
        for item in _items_of(layout):
            nodes, texts = self._extract(item, selectors)
            if self._collides(key, item, nodes) or not _is_plausible(key, texts):
                return False
            if shapes and not shapes >= {self._shape(item, at) for at in nodes}:
                return False
            firsts.setdefault(item.page, []).extend(texts[:1])
        return key not in _LINKS or all(len(texts) == len({*texts}) for texts in firsts.values())

    def _is_safe(self, selector: str, layout: Layout) -> bool:
        """Return whether a new selector neither contains a personal value nor relies on what listings may lack."""
        items = [*_items_of(layout)]
        labelled = sum(bool(self._extract(item, (selector,))[0]) for item in items)
        # What only one listing has may be its own text and no label.
        is_label = not has_unusual_label(selector) or labelled >= min(2, len(items))
        # A position says something only if no listing leaves a field out.
        is_column = ":nth-of-type" not in selector or self._has_columns(layout)
        return (
            compiles(selector, "html") and not is_personal(selector, self.personal) and is_label and is_column
        )

    def _has_columns(self, layout: Layout) -> bool:
        """Return whether all listings have the same columns: cells of a table, or elements of which one may be blank."""
        rows = [
            (self.pages[item.page], [*self.pages[item.page].children(item.element)])
            for item in _items_of(layout)
        ]
        tags = {tuple(page.tag(at) for at in row) for page, row in rows}
        is_table = all({*row} <= {"td", "th"} for row in tags)
        has_blank = any(page.text(at) == "" for page, row in rows for at in row)
        return len(tags) == 1 and len(rows) > 1 and (is_table or has_blank)

    def _extract(self, item: _Item, selectors: Selectors) -> tuple[list[int], list[str]]:
        """Return the elements and the texts of the first selector that extracts any, as the scan does."""
        page = self.pages[item.page]
        for selector in selectors:
            css, attribute = selector_parts(selector)
            nodes = page.css(css, item.element) if css else [item.element]
            if attribute:
                pairs = [(at, page.attributes[at].get(attribute, "").strip()) for at in nodes]
            else:
                pairs = [(at, page.short.get(at) or _long_text(page, at)) for at in nodes]
            pairs = [(at, text) for at, text in pairs if text]
            if pairs:
                return [at for at, _ in pairs], [text for _, text in pairs]
        return [], []

    def _agrees(self, key: str, example: Example, item: _Item, texts: Sequence[str]) -> bool:
        """Return whether the texts of an example's listing are the known values; also if these are unknown."""
        if key == "name":
            return bool(texts) and all(map(example.is_name, texts))
        values = example.values.get(key)
        if values is None:
            return True
        if key in _LINKS:
            page = self.pages[item.page]
            urls = [absolute(page.url, text) for text in texts[:1]] == [
                absolute(page.url, one) for one in values
            ]
            return urls if key == "href" else texts[:1] == [*values]
        is_whole = all(any(example.is_value(key, value, text) for text in texts) for value in values)
        is_more = key not in example.partial and not all(
            any(example.is_value(key, value, text) for value in values) for text in texts
        )
        return is_whole and not is_more

    def _collides(self, key: str, item: _Item, nodes: Sequence[int]) -> bool:
        """Return whether elements are, or are inside, or around, those of another field."""
        if key in _LINKS:
            return False
        page = self.pages[item.page]
        others = {
            at
            for name, pairs in self.claimed.items()
            if name != key
            for number, at in pairs
            if number == item.page
        }
        others = {at for at in others if page.contains(item.element, at)}
        return any(
            page.contains(one, other) or page.contains(other, one) for one in nodes for other in others
        )

    def _shape(self, item: _Item, at: int) -> tuple[str, str]:
        page = self.pages[item.page]
        parent = page.parents[at]
        return page.tag(at), "" if parent is None or at == item.element else page.tag(parent)


def _is_plausible(key: str, texts: Sequence[str]) -> bool:
    """Return whether texts may be those of a field."""
    if key == "age":
        return not texts or first_age(texts) is not None
    is_plain = key != "name" or not any(map(str.isdigit, "".join(texts[:1])))
    return is_plain and (bool(texts) or key not in {"name", "reference_id"})


def _items_of(layout: Layout) -> Iterator[_Item]:
    for number, elements in enumerate(layout.items):
        yield from (_Item(number, at) for at in elements[:_ITEMS_MAX])


def personal_words(examples: Iterable[Example]) -> frozenset[str]:
    """Return the words of names and values, which no selector may contain, except ``street`` in an address."""
    personal: set[str] = set()
    for example in examples:
        places = example.values.get("locations", ())
        others = chain.from_iterable(values for key, values in example.values.items() if key != "locations")
        names = (example.name.first, example.name.last, example.displayed_name or "")
        personal |= {*words(" ".join((*names, *others)))} | {*words(" ".join(places))}.difference({"street"})
    return frozenset(word for word in personal if len(word) >= _WORD_MIN and not word.isdecimal())


def is_personal(selector: str, personal: frozenset[str]) -> bool:
    """Return whether a selector contains a personal word."""
    return not personal.isdisjoint(words(selector))


def _long_text(page: PageTree, at: int) -> str:
    return (page.nodes[at].text(separator=" ") or "").strip()


def holders(page: PageTree, example: Example, key: str, value: str) -> Iterator[int]:
    """Yield the elements that have a value of a field."""
    if key in {"reference_id", "href"}:
        for at, attributes in enumerate(page.attributes):
            if any(_same(page, key, name, text, value) for name, text in attributes.items()):
                yield at
        if key == "href":
            return
        yield from (at for at, text in page.short.items() if text == value)
    else:
        yield from (at for at, text in page.short.items() if example.is_value(key, value, text))


def _same(page: PageTree, key: str, name: str, text: str, value: str) -> bool:
    if key == "href":
        return name == "href" and absolute(page.url, text) == absolute(page.url, value)
    return text.strip() == value
