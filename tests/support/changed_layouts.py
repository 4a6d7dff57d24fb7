"""Layouts of results pages and changes of them, as sites make them: one seed gives one layout."""

import random
import re
import zlib
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import yaml
from bs4 import BeautifulSoup
from pydantic import TypeAdapter

from exposurekit.sandbox.world.listings import build_listings
from exposurekit.sandbox.world.namesakes import invent_strangers
from exposurekit.sandbox.world.people import invent
from exposurekit.sandbox.world.sites import DEFINITIONS, SITES
from exposurekit.sandbox.world.templates import THEMES, Theme, document, results
from exposurekit.service.scanning import extraction
from exposurekit.service.sites import loader
from exposurekit.text.words import words

DAY = date(2026, 11, 1)
ERROR_PAGE = "<main><p>The page cannot be displayed at the moment. Please come back later.</p></main>"
DEFINITION = """
guide: A free directory.
opt_out_procedure: [Open the form.]
opt_out_url: http://{host}/opt-out
search:
  url: http://{host}/search
  fields: {{name: "{{first_name}} {{last_name}}"}}
  no_results: There is nobody here
controls:
  listed: {{first_name: Resident, last_name: Person}}
removal: {{method: manual}}
"""


def drawing(*parts):
    return random.Random(repr(parts))  # noqa: S311  invented data, not a secret


@dataclass(frozen=True, eq=False)
class Base:
    """A layout before its changes: whose listings it shows, its markup, and the definition that reads it."""

    name: str
    listings_of: str  # a site of the sandbox
    theme: Theme
    text: str

    @cached_property
    def definition(self):
        return loader.parsed(self.text)

    @cached_property
    def site(self):
        return next(site for site in SITES if site.file == self.listings_of)

    @property
    def host(self):
        return urlsplit(self.definition.search.url).hostname

    def page(self, entries, *, next_page=None):
        html = results(self.site, entries, DAY, theme=self.theme, next_page=next_page)
        return html.replace(self.site.host, self.host)

    def select(self, soup):
        """Return the listings of a page."""
        return [node for one in self.definition.listings.item for node in soup.select(_plain_css(one))]


def _plain_css(selector):
    return selector.replace(":lexbor-contains(", ":-soup-contains-own(")


@cache
def bases():
    """The layouts of the sandbox, and others."""
    own = [
        Base(site.file, site.file, THEMES[site.file], (DEFINITIONS / f"{site.file}.yaml").read_text())
        for site in SITES
        if site.file in THEMES and site.definition.search.answer == "html"
    ]
    data = yaml.safe_load((Path(__file__).parent / "data" / "site_layouts.yaml").read_text())
    others = [
        Base(
            name,
            one["listings_of"],
            TypeAdapter(Theme).validate_python(one["theme"]),
            yaml.safe_dump({"name": name.title()})
            + DEFINITION.format(host=f"{name}.example")
            + yaml.safe_dump({"listings": one["selectors"]}),
        )
        for name, one in data.items()
    ]
    return (*own, *others)


class Town:
    """People, and what the sandbox's sites list about them."""

    def __init__(self, people, seed):
        self.seed = seed
        registered = invent(people, seed)
        self.people = [*registered, *invent_strangers(registered, seed)]
        start = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC)
        self._listings = build_listings(
            registered, self.people[len(registered) :], SITES, seed=seed, start=start
        )
        self._results = {}
        self._others = {}

    def entries(self, base, name):
        return self._listings.named(base.site, " ".join(name))

    def page(self, base, name):
        """Return a search's page before the changes."""
        entries = self.entries(base, name)
        if entries:
            return base.page(entries, next_page="?page=2" if base.theme.next and len(entries) > 1 else None)
        return document(base.site, f"<main><p>{base.definition.search.no_results[0]}.</p></main>")

    def result(self, base, name):
        """Return what the definition reads on a search's page before the changes."""
        if (base, name) not in self._results:
            self._results[base, name] = read(base.definition, self.page(base, name))
        return self._results[base, name]

    def others(self, base):
        """Return the markup of the listings of some people."""
        if base not in self._others:
            entries = [one for one in self._listings.entries if one.site is base.site]
            picked = drawing(self.seed).sample(entries, min(40, len(entries)))
            soup = BeautifulSoup(base.page(picked), "html.parser")
            self._others[base] = [str(node) for node in base.select(soup)]
        return self._others[base]


def read(definition, page):
    return extraction.read(definition, status=200, url=definition.search.url, text=page)


# --- changes of a layout ----------------------------------------------------------------------------------

CLASSES = (
    "entry tile box block unit panel piece strip slot frame lane shelf ribbon stack cluster segment bundle figure-box "
    "portion bracket parcel module capsule cell-box plate token mark-up facet strand badge-box outline note-box pillar "
    "banner-line flag-box crate corner hinge ladder"
)
TAGS = {
    "h1": ("h2",), "h2": ("h3", "h4", "div"), "h3": ("h2", "div", "p"), "h4": ("h3", "div"), "h5": ("h4", "div"),
    "span": ("b", "em", "i"), "b": ("span", "strong"), "strong": ("b", "span"), "p": ("div",), "q": ("span", "i"),
    "em": ("span", "i"), "i": ("span", "em"), "code": ("span", "b"), "small": ("span",), "article": ("section", "div"),
    "section": ("article", "div"), "figure": ("div", "article"), "figcaption": ("h3", "div"), "address": ("p", "div"),
    "div": ("section",),
}  # fmt: skip
LABELS = {
    "Age": "Aged", "years old": "yrs", "y/o": "years", "May be related to": "Possible relatives", "Kin:": "Family:",
    "Relatives": "Family", "Also known as": "Other names", "Lived in": "Past homes", "Towns": "Cities", "KIN": "FAMILY",
    "ALSO": "ALIASES", "SEEN IN": "TOWNS", "With": "Shared with", "aka": "also", "once": "formerly",
}  # fmt: skip
NOBODY = (
    "We could not find anybody called {name}.",
    "No results for {name}",
    "Sorry, there are no matching records.",
    '0 results. Nobody matches "{name}", check the spelling.',
    "No people found",
    "{name} is not listed in our directory.",
)
RELATED = ("People also searched for", "Related people", "You may also know", "Others nearby")


@dataclass
class Page:
    """A page while it is changed: its tree, the searched name, and listings of other people for its edges."""

    soup: BeautifulSoup
    base: Base
    name: str
    others: list
    number: int

    def items(self):
        return self.base.select(self.soup)

    def new(self, tag, text="", **attributes):
        node = self.soup.new_tag(tag, attrs={name.rstrip("_"): value for name, value in attributes.items()})
        node.string = text
        return node


def names_of(page):
    for selector in page.base.definition.listings.name:
        for item in page.items():
            yield from item.select(_plain_css(selector))[:1]


def rename_classes(rng):
    unused = CLASSES.split()
    rng.shuffle(unused)
    renamed = {}

    def change(page):
        for node in page.soup.find_all(class_=True):
            for name in node["class"]:
                if name not in renamed:
                    renamed[name] = unused.pop() if unused else f"{name}-new"
            node["class"] = [renamed[name] for name in node["class"]]

    return change


def add_hashes(rng):
    """Some elements get a class that each page has another of."""
    chosen = {}

    def change(page):
        for node in page.soup.body.find_all():
            key = (node.name, tuple(node.get("class", ())))
            if chosen.setdefault(key, rng.random() < 0.5):
                made = f"css-{drawing(key, page.number).randrange(16**6):06x}"
                node["class"] = [made, *node.get("class", ())]

    return change


def hash_classes(rng):
    """A fifth of the classes are generated anew with each page."""
    chosen = {}

    def change(page):
        for node in page.soup.find_all(class_=True):
            node["class"] = [
                f"{name[:3]}__{drawing(name, page.number).randrange(16**5):05x}9a"
                if chosen.setdefault(name, rng.random() < 0.2)
                else name
                for name in node["class"]
            ]

    return change


def rename_attributes(rng):
    word = rng.choice(("data-uid", "data-listing", "data-entity", "data-record-key"))

    def change(page):
        for node in page.soup.body.find_all():
            for name in [*node.attrs]:
                if name.startswith("data-") or (name == "id" and any(map(str.isdigit, node[name]))):
                    node[word] = node.attrs.pop(name)

    return change


def swap_tags(rng):
    swaps = {tag: rng.choice(others) for tag, others in TAGS.items() if rng.random() < 0.7}

    def change(page):
        for node in page.soup.body.find_all():
            is_list = node.find(["li", "tr", "dt", "dd"], recursive=False)
            if node.name in swaps and not is_list and node.parent.name not in {"ul", "ol", "dl"}:
                block = node.find(["ul", "dl", "table", "p", "div", "h2", "h3", "address"])
                if not (block and swaps[node.name] in {"p", "span", "b", "em", "i", "h2", "h3", "h4"}):
                    node.name = swaps[node.name]

    return change


def lists_to_blocks(rng):
    def change(page):
        for node in page.soup.body.find_all(["ul", "ol", "li", "dl", "dt", "dd"]):
            node.name = {"li": "div", "ul": "div", "ol": "div", "dl": "div", "dt": "h6", "dd": "div"}[
                node.name
            ]

    return change


def wrap_items(rng):
    inside = rng.random() < 0.5
    name = rng.choice(("card-wrap", "outer", "col", ""))

    def change(page):
        for item in page.items():
            if item.name == "tr":
                continue
            attributes = {"class_": name} if name else {}
            wrapper = page.new("span" if item.name == "p" and inside else "div", **attributes)
            if inside:
                for child in [*item.contents]:
                    wrapper.append(child.extract())
                item.append(wrapper)
            elif item.name != "li":
                item.wrap(wrapper)

    return change


def wrap_fields(rng):
    chosen = {}

    def change(page):
        for item in page.items():
            if item.name == "tr":
                continue
            for child in item.find_all(recursive=False):
                key = (child.name, tuple(child.get("class", ())))
                if chosen.setdefault(key, rng.choice((None, "", "field", "line-wrap"))) is not None:
                    tag = "span" if item.name == "p" else "div"
                    child.wrap(page.new(tag, **({"class_": chosen[key]} if chosen[key] else {})))

    return change


def wrap_page(rng):
    depth = rng.randint(1, 3)

    def change(page):
        for at in range(depth):
            wrapper = page.new("div", class_=("app", "layout", "content")[at])
            for child in [*page.soup.body.contents]:
                wrapper.append(child.extract())
            page.soup.body.append(wrapper)

    return change


def reorder(rng):
    salt = rng.random()

    def change(page):
        for item in page.items():
            if item.name == "tr":
                continue
            groups = []
            for child in item.find_all(recursive=False):  # a label stays before what it labels
                if (groups and groups[-1][-1].name == "dt") or child.name == "dd":
                    groups[-1].append(child)
                else:
                    groups.append([child])
            groups.sort(key=lambda one: drawing(salt, one[0].name, one[0].get("class")).random())
            for node in [node for group in groups for node in group]:
                item.append(node.extract())

    return change


def advertise(rng):
    like_an_item, after = rng.random() < 0.6, rng.randint(0, 1)

    def change(page):
        items = page.items()
        if not items:
            return
        item = items[min(after, len(items) - 1)]
        attributes = (
            {"class": " ".join((*item.get("class", ()), "promo"))}
            if like_an_item
            else {"class": "promo-slot"}
        )
        if item.name == "tr":
            ad = page.new("tr")
            cell = page.new("td", colspan=str(len(item.find_all("td", recursive=False))))
            ad.append(cell)
        else:
            ad = cell = page.new(item.name if like_an_item else "div")
        ad.attrs |= attributes
        cell.append(page.new("a", f"Full report about {page.name}", href="http://reports.example/buy"))
        item.insert_after(ad)

    return change


def add_related(rng):
    """A block of other people, as links or as cards that look like listings; also where nobody is listed."""
    title, as_cards, everywhere = rng.choice(RELATED), rng.random() < 0.6, rng.random() < 0.5
    inside, tag = rng.random() < 0.3, rng.choice(("aside", "section"))

    def change(page):
        items = page.items()
        if not items and not everywhere:
            return
        block = page.new(tag, class_="related-people")
        block.append(page.new("h2", title))
        inner = page.new("div")
        block.append(inner)
        for one in page.others:
            if as_cards and one.name != "tr":
                if one.name == "li":
                    inner.name = "ul"
                inner.append(one)
            else:
                holder = page.new("p")
                name = next(
                    (
                        node.get_text()
                        for s in page.base.definition.listings.name
                        for node in one.select(_plain_css(s))
                    ),
                    "",
                )
                holder.append(page.new("a", name, href=f"/people/{'-'.join(words(name))}"))
                inner.append(holder)
        footers = page.soup.find_all("footer")
        if inside and items and items[-1].name not in {"tr", "li"}:
            items[-1].insert_after(block)
        elif footers:
            footers[-1].insert_before(block)
        else:
            page.soup.body.append(block)

    return change


def split_names(rng):
    names = rng.choice((("first-name", "last-name"), ("given", "family"), ("", "")))

    def change(page):
        for node in [*names_of(page)]:
            inner = node
            while len(children := inner.find_all(recursive=False)) == 1:
                inner = children[0]
            first, _, rest = inner.get_text().partition(" ")
            if rest:
                inner.clear()
                inner.append(page.new("span", first, **({"class_": names[0]} if names[0] else {})))
                inner.append(" ")
                inner.append(page.new("span", rest, **({"class_": names[1]} if names[1] else {})))

    return change


def relabel(rng):
    chosen = {old: new for old, new in LABELS.items() if rng.random() < 0.7}

    def change(page):
        for text in page.soup.body.find_all(string=True):
            for old, new in chosen.items():
                pattern = rf"^(\W*){re.escape(old)}(?!\w)|(?<!\w){re.escape(old)}(\W*)$"
                if re.search(pattern, text):
                    text.replace_with(re.sub(pattern, rf"\g<1>{new}\g<2>", text))
                    break

    return change


def to_table(rng):
    def change(page):
        items = page.items()
        for item in items:
            if item.name in {"tr", "p"}:
                return
        containers = {id(item.parent): item.parent for item in items}
        for item in items:
            item.name = "tr"
            for child in item.find_all(recursive=False):
                child.wrap(page.new("td"))
        for container in containers.values():
            if container.name in {"ul", "ol", "div"} and all(
                one.name == "tr" for one in container.find_all(recursive=False)
            ):
                container.name = "table"
            else:
                rows = [*container.find_all("tr", recursive=False)]
                table = page.new("table", class_="listing-table")
                rows[0].insert_before(table)
                for row in rows:
                    table.append(row.extract())

    return change


def from_table(rng):
    row = rng.choice(("li", "div"))

    def change(page):
        for node in page.soup.body.find_all(["table", "thead", "tbody", "tr", "td", "th"]):
            node.name = {"tr": row, "td": "div", "th": "b"}.get(
                node.name, "ul" if row == "li" and node.name == "table" else "div"
            )
        for node in page.soup.body.find_all("ul"):
            for inner in node.find_all("div", recursive=False):
                if inner.find("li", recursive=False):
                    inner.unwrap()

    return change


def new_mark(rng):
    text = rng.choice(NOBODY)

    def change(page):
        if not page.items():
            for old in page.base.definition.search.no_results:
                for node in page.soup.body.find_all(string=re.compile(re.escape(old))):
                    node.replace_with(text.format(name=page.name))

    return change


def add_heading(rng):
    text = rng.choice(("Results for {name}", "{name}", "{name}: addresses, phones and relatives"))

    def change(page):
        heading = page.new("h1", text.format(name=page.name))
        page.soup.body.insert(0, heading)
        form = page.new("form")
        form.append(page.soup.new_tag("input", attrs={"name": "q", "value": page.name}))
        page.soup.body.insert(1, form)

    return change


CHANGES = {
    change.__name__: (change, weight)
    for change, weight in (
        (rename_classes, 5), (add_hashes, 2), (hash_classes, 1), (rename_attributes, 3), (swap_tags, 4), (lists_to_blocks, 2),
        (wrap_items, 3), (wrap_fields, 3), (wrap_page, 2), (reorder, 2), (advertise, 3), (add_related, 4), (split_names, 2),
        (relabel, 2), (to_table, 1), (from_table, 2), (new_mark, 3), (add_heading, 2),
    )
}  # fmt: skip
# Changes that select the listings by the old definition come before those that change what it selects.
ORDER = (
    *(
        "split_names",
        "add_heading",
        "new_mark",
        "relabel",
        "advertise",
        "add_related",
        "reorder",
        "wrap_fields",
    ),
    *(
        "wrap_items",
        "to_table",
        "from_table",
        "lists_to_blocks",
        "swap_tags",
        "rename_classes",
        "hash_classes",
    ),
    *("add_hashes", "rename_attributes", "wrap_page"),
)


@dataclass(frozen=True)
class Layout:
    """A base with its changes."""

    base: Base
    names: tuple
    changes: tuple = field(repr=False)
    has_address: bool  # whether saved pages name it

    @classmethod
    def drawn(cls, number, seed):
        """Return a layout with two to five changes."""
        rng = drawing("layout", seed, number)
        base = bases()[number % len(bases())]
        chosen, count = set(), rng.randint(2, 5)
        while len(chosen) < count:
            chosen.add(rng.choices([*CHANGES], [weight for _, weight in CHANGES.values()])[0])
        names = tuple(name for name in ORDER if name in chosen)
        return cls(base, names, tuple(CHANGES[name][0](rng) for name in names), rng.random() < 0.7)

    def page(self, town, name, *, error=False):
        """Return a search's page after the changes."""
        old = document(self.base.site, ERROR_PAGE) if error else town.page(self.base, name)
        rng = drawing(name)
        others = rng.sample(town.others(self.base), 3)
        nodes = [BeautifulSoup(one, "html.parser").find() for one in others]
        page = Page(BeautifulSoup(old, "html.parser"), self.base, " ".join(name), nodes, rng.randrange(10**6))
        for change in self.changes:
            change(page)
        return str(page.soup)

    def file(self, town, name):
        """Return that page as a browser saves it."""
        address = f"{self.base.definition.search.url}?{urlencode({'name': ' '.join(name)})}"
        mark = f"<!-- saved from url=({len(address):04d}){address} -->\n" if self.has_address else ""
        return f"<!DOCTYPE html>\n{mark}{self.page(town, name)}\n".encode()

    def card(self, reference_id):
        """Return which of the site's layouts a listing has, as the sandbox chooses it."""
        return zlib.crc32(reference_id.encode()) % len(self.base.theme.cards)
