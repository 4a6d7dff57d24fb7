"""A parsed page as a list of its elements, for comparing parts of it: each with its range, its text and its stable names."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from exposurekit.service.scanning.generated_names import is_generated
from exposurekit.service.scanning.html_text import one_line, tree
from exposurekit.service.scanning.page_words import CLASSES_OF_STATES

SHORT_MAX = 300  # characters of a text that is compared
_TEXT_NODE = "-text"
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")


class PageTree:
    """A page's elements, numbered in document order; element `at` contains those from ``at + 1`` to ``ends[at] - 1``."""

    def __init__(self, page: LexborHTMLParser, url: str) -> None:
        self._page = page  # the nodes belong to it
        self.url = url
        self.nodes: list[LexborNode] = []
        texts: list[tuple[LexborNode | None, str]] = []
        for node in page.root.traverse(include_text=True) if page.root else ():
            if node.tag == _TEXT_NODE:
                texts.append((node.parent, node.text() or ""))
            else:
                self.nodes.append(node)
        self._numbers = {node.mem_id: at for at, node in enumerate(self.nodes)}
        self.parents = [self._parent(node) for node in self.nodes]
        self.ends = self._ends()
        self.attributes: list[Mapping[str, str]] = [
            {name: value or "" for name, value in node.attributes.items()} for node in self.nodes
        ]
        self.classes = [self._classes(at) for at in range(len(self.nodes))]
        self._texts = [text for _, text in texts]
        self._lengths = [0, *accumulate(len(text) + 1 for text in self._texts)]
        self._ranges = self._text_ranges([node for node, _ in texts])
        self._short: dict[int, str | None] = {}

    @classmethod
    def parsed(cls, markup: str, url: str) -> "PageTree | None":
        """Parse a page; None if that costs too much."""
        page = tree(markup)
        return None if page is None or page.root is None else cls(page, url)

    def _text_ranges(self, parents: Sequence[LexborNode | None]) -> list[tuple[int, int]]:
        ranges = [(len(parents), 0)] * len(self.nodes)
        for number, node in enumerate(parents):
            at = None if node is None else self._numbers.get(node.mem_id)
            if at is not None:
                ranges[at] = min(ranges[at][0], number), max(ranges[at][1], number + 1)
        for at in reversed(range(len(ranges))):
            parent = self.parents[at]
            if parent is not None:
                begin, end = ranges[parent]
                ranges[parent] = min(begin, ranges[at][0]), max(end, ranges[at][1])
        return [(min(begin, end), end) for begin, end in ranges]

    def _parent(self, node: LexborNode) -> int | None:
        return None if node.parent is None else self._numbers.get(node.parent.mem_id)

    def _ends(self) -> list[int]:
        ends = [at + 1 for at in range(len(self.nodes))]
        for at in reversed(range(len(ends))):
            parent = self.parents[at]
            if parent is not None:
                ends[parent] = max(ends[parent], ends[at])
        return ends

    def _classes(self, at: int) -> tuple[str, ...]:
        names = dict.fromkeys(self.attributes[at].get("class", "").split())
        return tuple(
            name
            for name in names
            if _CLASS.fullmatch(name) and name not in CLASSES_OF_STATES and not is_generated(name)
        )

    def tag(self, at: int) -> str:
        """Return an element's tag."""
        return str(self.nodes[at].tag)

    def contains(self, outer: int, inner: int) -> bool:
        """Return whether an element is another one or inside it."""
        return outer <= inner < self.ends[outer]

    def size(self, at: int) -> int:
        """Return the number of elements inside an element, with itself."""
        return self.ends[at] - at

    def ancestors(self, at: int) -> Iterator[int]:
        """Yield the elements around an element, the closest one first."""
        parent = self.parents[at]
        while parent is not None:
            yield parent
            parent = self.parents[parent]

    def children(self, at: int) -> Iterator[int]:
        """Yield the elements directly inside an element."""
        child = at + 1
        while child < self.ends[at]:
            yield child
            child = self.ends[child]

    def text(self, at: int) -> str | None:
        """Return an element's text with that of the elements inside it, on one line; None if it is long."""
        if at not in self._short:
            begin, end = self._ranges[at]
            is_short = self._lengths[end] - self._lengths[begin] <= 2 * SHORT_MAX
            text = one_line(" ".join(self._texts[begin:end]), 2 * SHORT_MAX) if is_short else None
            self._short[at] = text if text is not None and len(text) <= SHORT_MAX else None
        return self._short[at]

    def own_text(self, at: int) -> str:
        """Return an element's text without that of the elements inside it."""
        return one_line(self.nodes[at].text(deep=False, separator=" ") or "", SHORT_MAX)

    @cached_property
    def short(self) -> dict[int, str]:
        """The elements of the body with a short text, and the text."""
        body = next((at for at in range(len(self.nodes)) if self.tag(at) == "body"), 0)
        texts = {at: self.text(at) for at in range(body + 1, self.ends[body])}
        return {at: text for at, text in texts.items() if text}

    def css(self, selector: str, within: int | None = None) -> list[int]:
        """Return the elements that a selector matches, in a page or inside an element; none if it is not a selector."""
        try:
            nodes = self.nodes[within or 0].css(selector)
        except (SelectolaxError, ValueError):
            return []
        return sorted({self._numbers[node.mem_id] for node in nodes if node.mem_id in self._numbers})
