"""What a report says, as values: a finding, figures, and sections with words, charts, tables and steps. Asks nothing, draws nothing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd
from pydantic_core import to_json, to_jsonable_python

from exposurekit.analysis.definitions import definition
from exposurekit.analysis.tasks import Task
from exposurekit.charts import Chart, describe
from exposurekit.charts.theme import pluralize

SHARE_SAFE = (
    "Share-safe: you may pass this report on. It holds no name, address, contact detail or link of the people it is "
    "about. They have pseudonyms; ages, places and times are rounded; a site with fewer than five people is not named."
)
CONFIDENTIAL = (
    "Confidential: this report holds personal data. Only people who work on these removals may see it. "
    "For anybody else, make a share-safe one: share_safe=True, or --share-safe."
)
TASKS_MAX = 1_000  # listings for a human in a page: more would be slow to open
ROWS_MAX = 2_000  # of a table in a page: a browser sorts and filters so many at once


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure, and how sure it is.

    Attributes:
        name: What is counted.
        value: The figure as text.
        sure: How far it can be trusted: its interval, of how many, or since when.
    """

    name: str
    value: str
    sure: str = ""

    @property
    def definition(self) -> str:
        """What it means, as `analysis.DEFINITIONS` has it; empty where its name says it all.

        >>> ek.report(exposure).facts[0].definition[:34]
        'listings still to be removed: disc'
        """
        return definition(self.name)


@dataclass(frozen=True, slots=True)
class Removal:
    """What a human does for listings that need the same steps, and each of these listings.

    Attributes:
        site: The site; None: a page that is none.
        guide: What the service says of it.
        steps: The ``opt_out_procedure``, numbered from 1 by their order.
        tasks: The listings, or pages: which, whose, and what to enter; of very many the first ones.
        listings: How many wait for this; None, as of the next two: not told, as few people do.
        people: Of how many people.
        minutes: How long it takes, estimated.
    """

    site: str | None
    guide: str | None
    steps: tuple[str, ...]
    tasks: tuple[Task, ...] = field(repr=False)
    listings: int | None
    people: int | None
    minutes: float | None

    @property
    def left_out(self) -> int:
        """How many wait for this beyond those that are told of."""
        return 0 if self.listings is None else self.listings - len(self.tasks)

    @property
    def together(self) -> str:
        """What the steps are for, in a heading."""
        many = len(self.tasks) + self.left_out
        of = "page" if self.site is None else "listing"
        return f"One {of}" if many == 1 else f"Same steps for {pluralize(many, of)}"

    @property
    def amount(self) -> str:
        """How much waits for this, in a sentence."""
        if self.listings is None or self.people is None or self.minutes is None:
            return "How many wait for this is not told: they are few."
        waiting = pluralize(self.listings, "page" if self.site is None else "listing")
        waits = "waits" if self.listings == 1 else "wait"
        people = pluralize(self.people, "person", "people")
        return f"{waiting} {waits} for this, of {people}; about {self.minutes:,.0f} minutes in all."


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report.

    Attributes:
        key: What it is called in data, in file names and in addresses.
        title: Its heading.
        words: What it says; for a chart, the chart in words.
        chart: A figure, or None.
        table: Its numbers, at most `ROWS_MAX` rows; or None.
        rows: How many rows there are in all.
        removals: What a human does.
    """

    key: str
    title: str
    words: str = ""
    chart: Chart | None = field(default=None, repr=False)
    table: pd.DataFrame | None = field(default=None, repr=False)
    rows: int = 0
    removals: tuple[Removal, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A report: what it says, and the page that says it.

    Attributes:
        kind: ``fleet``, ``person``, ``changes`` or ``sites``.
        title: What it is about.
        finding: The one sentence that it says.
        facts: The figures that matter.
        sections: Its parts, in order.
        provenance: Where it all comes from: ``server``, ``as of``, ``runs``, ``people``, ``filters``, ``made with``.
        is_share_safe: Whether it was made for people who may not know whom it is about.

    >>> report = ek.report(exposure)
    >>> report.kind, report.facts[0].name
    ('fleet', 'open listings')
    >>> report.notice
    'Confidential: ...'
    """

    kind: str
    title: str
    finding: str
    facts: tuple[Fact, ...] = field(repr=False)
    sections: tuple[Section, ...] = field(repr=False)
    provenance: Mapping[str, str] = field(repr=False)
    is_share_safe: bool = False

    @property
    def notice(self) -> str:
        """Who may see it; stands at the top of the page and of the PDF."""
        return SHARE_SAFE if self.is_share_safe else CONFIDENTIAL

    @property
    def data(self) -> dict[str, Any]:
        """The same content as plain values: text, numbers, lists; instants as ISO 8601, what is missing as None.

        >>> ek.report(exposure).data["kind"]
        'fleet'
        """
        return {
            "kind": self.kind,
            "title": self.title,
            "share_safe": self.is_share_safe,
            "notice": self.notice,
            "finding": self.finding,
            "facts": [asdict(fact) | {"definition": fact.definition} for fact in self.facts],
            "sections": [_plain(section) for section in self.sections],
            "provenance": dict(self.provenance),
        }

    def to_json(self) -> str:
        """`data` as JSON; the same report gives the same text.

        >>> '"kind": "fleet"' in ek.report(exposure).to_json()
        True
        """
        return to_json(self.data, indent=1).decode()

    def to_html(self) -> str:
        """The page: one file that stands alone, about 1.6 MB and its data.

        >>> ek.report(exposure).to_html().startswith("<!DOCTYPE html>")
        True
        """
        from exposurekit.reports.html import page

        return page(self)

    def _repr_html_(self) -> str:
        from exposurekit.text.html_cards import html_card

        facts = {fact.name: f"{fact.value} {fact.sure}".strip() for fact in self.facts}
        return html_card(self.title, {"finding": self.finding} | facts | {"who may see it": self.notice})


def _plain(section: Section) -> dict[str, Any]:
    told: dict[str, Any] = {"key": section.key, "title": section.title, "words": section.words}
    if section.chart is not None:
        told["chart"] = describe(section.chart)
    if section.table is not None:
        told |= {"rows": section.rows, "table": _rows(section.table)}
    if section.removals:
        told["removals"] = to_jsonable_python([asdict(one) for one in section.removals])
    return told


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain values."""
    columns = {str(name): [_value(cell) for cell in table[name].tolist()] for name in table}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _value(cell: Any) -> Any:
    if isinstance(cell, (list, tuple)):
        return [str(one) for one in cell]
    if hasattr(cell, "isoformat"):
        return None if pd.isna(cell) else cell.isoformat()
    return None if pd.isna(cell) else cell
