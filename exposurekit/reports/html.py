"""Render a report as one self-contained HTML page that loads nothing and runs only its own scripts."""

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import inf
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype
from rjsmin import jsmin

from exposurekit import charts
from exposurekit.analysis.definitions import TERMS, definition
from exposurekit.analysis.manual_tasks import NO_VALUE_TEXTS, WHICH_NAME, step_urls
from exposurekit.charts.bars import MAX_ROWS
from exposurekit.charts.embedding import drawing_js, plotly_js
from exposurekit.charts.theme import MINUS, format_duration, format_interval, interval_label
from exposurekit.contract.types import STATUSES
from exposurekit.questions import QUESTIONS
from exposurekit.text import formatting
from exposurekit.text.html_cards import copy_script, shared_styles, sparkline
from exposurekit.text.sanitize import (
    escaped,
    isolated,
    isolated_value,
    link,
    link_with_path,
    plain,
    with_unbroken_dates,
)

OPEN_MAX = 30  # longer lists of manual work are collapsed
_SAFE = Markup  # for trusted markup; everything else is escaped
_KINDS = {
    "fleet": "Report on everyone",
    "person": "Report on one person",
    "changes": "Change report",
    "sites": "Site report",
}
_HEADINGS = {
    "at": "time",
    "contains": "data on the page",
    "first_removed": "removed when first seen",
    "followed_days": "after days",
    "group": "opt-out host",
    "ignored": "not carried out in the usual time",
    "gone_days": "days gone",
    "is_doubtful": "looks broken",
    "is_profile_field": "part of a profile",
    "left_out": "not counted",
    "href": "link",
    "if_done": "if all manual work is done",
    "items_per_minute": "items per minute",
    "median_days": "median days",
    "minutes": "time",
    "not_listed_again": "gone, not listed again so far",
    "median_high": "median, high",
    "median_low": "median, low",
    "n": "number",
    "newest_at": "newest listing",
    "request_high": "median days from request, high",
    "request_low": "median days from request, low",
    "quiet_days": "days without a change",
    "record_id": "record",
    "reference_id": "reference",
    "never": "estimated share still listed",
    "never_high": "still listed, high",
    "never_low": "still listed, low",
    "title": "page title",
    "together": "removals so far",
    "open_after": "open now",
    "open_before": "open before",
    "unlocks": "removals it unlocks alone",
    "unseen": "people not observed",
    "url": "page address",
    "without_effect": "not carried out, still pending",
    "user_id": "user",
}
_SECTION_HEADINGS = {
    ("coverage", "last_complete_load"): "last complete observation",
    ("coverage", "never"): "never",
    ("coverage", "whole"): "complete",
    ("failed_removals", "open_again"): "of these open again",
    ("failed_removals", "relistings"): "relistings",
    ("relistings", "episode"): "times",
    ("relistings", "listed_again_at"): "listed again",
    ("relistings", "removed_at"): "removed",
    ("relistings", "status"): "now",
    ("time_to_removal", "n"): "times listed",
    ("time_to_removal", "removed"): "times removed",
    ("time_to_removal", "requested"): "requests",
    ("time_to_removal", "median_days"): "median days from first observation",
    ("time_to_removal", "request_median"): "median days from request",
    ("by_site", "declared_days"): "declared days",
    ("by_site", "requested"): "requests",
    ("by_site", "total"): "found",
    ("score", "listings"): "open",
    ("score", "open_sites"): "open on",
    ("score", "first_seen_at"): "oldest",
    ("score", "pages"): "pages",
    ("score", "contains"): "data on pages",
    ("score", "pending removal"): "pending",
    ("declared_vs_observed", "n"): "requests",
    ("work_queue", "reference_id"): "reference, or host",
    ("blockers", "records"): "listings",
}
_SECTION_DEFINITIONS = {
    ("blockers", "unlocks"): "removals that can start once this value alone is on file",
    (
        "blockers",
        "is_profile_field",
    ): "whether a profile has such a field; if not, the value may be on file elsewhere",
    ("coverage", "other"): "",  # defined for statuses only
    (
        "relistings",
        "episode",
    ): "how often the site has listed it, as far as observed: twice for the first relisting",
    ("time_to_removal", "removed"): definition("times removed"),
}
_SHARES = {"never", "precision"}  # shown in percent
_INTERVALS = {"median_days": ("median_low", "median_high"), "request_median": ("request_low", "request_high")}
_INTERVALS |= {"never": ("never_low", "never_high")}
_INTERVALS |= {"precision": ("low", "high")}  # shown behind their estimate
_BARS = {"by_site": "open", "score": "score", "time_to_removal": "median_days"}
_BARS |= {
    "status_over_time": "open",
    "week": "open_after",
    "diff_by_site": "open_after",
    "site_health": "open",
}
_BARS |= {"failed_removals": "requested"}
_SPARSE = {"coverage", "counts"}  # tables of all cases, of which most are rare
_NARROW = {
    "score",
    "status_over_time",
    "blockers",
    "best_next_fields",
    "coverage",
}  # legible at half of the page
_CELL_KINDS = {
    "person": "name",
    "site": "name",
    "status": "status",
    "href": "link",
    "url": "link",
    "verdict": "words",
    "open_sites": "words",
    "contains": "words",
    "reason": "words",
}
_CHIPS = {
    "change",
    "kind",
    "state",
    "status",
    "takes_longer",
    "what",
}  # each of few values is a button to filter by
_LISTS = {"field", "person", "site"}  # a value is picked from a list
_CSV_ONLY = {
    "by_site": {"ignored", "refused"},
    "score": {"pending removal"},
    "time_to_removal": {"request_median", "request_low", "request_high"},  # another clock than the chart's
}  # the verdict, or few rows, have it
_DRAWN_ROWS = {  # tables of at most so many rows are not printed: their chart, or the list, has the same
    **dict.fromkeys(("status_over_time", "week", "relistings", "work_queue"), inf),
    **dict.fromkeys(("score", "time_to_removal", "declared_vs_observed"), MAX_ROWS),
}
_NEWEST_FIRST = {"status_over_time"}
_NO_COUNTS = {"user_id", "record_id", "rank", "episode"}
_BREAK = re.compile(r"[\s-]")  # where a line may end
# Comments, indentation and spaces between rules of a style sheet are not for readers of a page.
_CSS_COMMENT = re.compile(r" */\*.*?\*/", re.DOTALL)
_CSS_INDENT = re.compile(r"^ +|(?<=\n)\n+", re.MULTILINE)
_CSS_SPACE = re.compile(  # none of a text
    r"(?<=[{;]) +|;? +(?=})| +(?={)|(?<=[{};,])\n|(?<=[^\"],) | (?=>)|(?<=>) "
)
_CSS_COLON = re.compile(r"(?<=[{;\n])([\w-]+): +")  # of a declaration, and of no text
_CSS_VARIABLE = re.compile(r"(?<=[{;])--(?!brand|paper)[\w-]+(?=:)")
_CSS_USE = re.compile(r"--[\w-]+")
_META = re.compile(r'<meta name="(generator|description|report-rule)" content="([^"]*)">')
_BEFORE = {"n": r"(?= = )"}  # what follows a term, where the word alone is none
_AFTER = {
    "removed": r"(?<!\bbe )(?<!\bbeing )"
}  # what does not come before a term: there it means something else
_TERM = re.compile(
    "|".join(
        rf"{_AFTER.get(term, '')}\b{re.escape(term)}{_BEFORE.get(term, r's?')}(?![\w-])"
        for term in sorted(TERMS, key=len, reverse=True)
    )
)
_NO_NAME = re.compile(r"[^a-z0-9]+")  # in an anchor
_CARD_MAX = 24  # columns whose cells have their heading beside them on a phone
_LEFT, _ESTIMATE = ' class="left"', ' class="estimate"'
_SORTED_MIN = 2  # different values of a column that a table is sorted by
_SMALL = 0.1  # numbers below need more than one decimal
_UNBROKEN_MAX = 24  # characters of a value that is not broken over lines


def page(report: Any, *, rule_key: str = "") -> str:
    """Render a `Report` as HTML.

    ``rule_key`` identifies the rule and the history of a weekly report; empty for any other.

    A Content-Security-Policy allows only the page's own scripts, by hash, and no requests. All text is escaped. Output is
    deterministic.

    >>> from exposurekit.reports.html import page
    >>> "connect-src" in page(report)
    True
    """
    first = next((section.key for section in report.sections if section.figure is not None), None)
    tables = [section.table for section in report.sections if section.table is not None]
    drawing = [plotly_js(), _charts_js()] if first else []
    page_script = jsmin(copy_script() + _file("templates/report.js"))
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in (*drawing, page_script))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "font-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    html: str = (
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            rule_key=rule_key,
            open_max=OPEN_MAX,
            policy=policy,
            style=_style(max((table.shape[1] for table in tables), default=0)),
            glossary=Glossary(),
            # The scripts follow the first chart, so that it is drawn before the tables below it are parsed.
            first=first,
            halves=_halves([section.key for section in report.sections]),
            kinds=_KINDS,
            describe=charts.describe,
            which_name=WHICH_NAME,
            drawn_rows=_DRAWN_ROWS,
            drawing=[_SAFE(script) for script in drawing],
            page_script=_SAFE(page_script),
        )
    )
    return html


def _halves(keys: Sequence[str]) -> set[str]:
    """The sections that are printed side by side, two in a row. A narrow one without a neighbour has the whole width."""
    printed = [key for key in keys if key != "work_queue"]  # which is printed last
    halves: set[str] = set()
    for pair in itertools.pairwise(printed):
        if _NARROW.issuperset(pair) and halves.isdisjoint(pair):
            halves |= {*pair}
    return halves


class Glossary:
    """The technical words of a page, each with its definition.

    >>> from exposurekit.reports.html import Glossary
    >>> glossary = Glossary()
    >>> str(glossary.mark("the median", "week"))[:42]
    'the <a class="term" href="#term-median" ti'
    >>> [words for words, _ in glossary.entries()]
    [{'median': 'term-median'}]
    """

    def __init__(self) -> None:
        self._definitions: dict[str, str] = {}
        self._marked: set[tuple[str, str]] = set()

    def entries(self) -> list[tuple[dict[str, str], str]]:
        """The words of one meaning, each with its anchor, and their definition; in alphabetical order."""
        by_text: dict[str, dict[str, str]] = {}
        for word, text in sorted(self._definitions.items(), key=lambda pair: pair[0].casefold()):
            by_text.setdefault(text, {})[word] = _anchor(word)
        return [(words, text) for text, words in by_text.items()]

    def add(self, word: str, text: str) -> None:
        """Add a word; one without a definition is none."""
        if text:
            self._definitions.setdefault(word, text)

    def mark(self, text: str, part: str) -> Markup:
        """Link each technical word to its definition where a part of the page uses it first; dates stay on one line."""
        return _SAFE(_TERM.sub(lambda word: self._link(word[0], part), with_unbroken_dates(text)))

    def _link(self, word: str, part: str) -> str:
        term = word if word in TERMS else word.removesuffix("s")
        self.add(term, TERMS[term])
        if (part, term) in self._marked:
            return word
        self._marked.add((part, term))
        return f'<a class="term" href="#{_anchor(term)}" title="{escaped(TERMS[term])}">{word}</a>'


def _anchor(word: str) -> str:
    return f"term-{_NO_NAME.sub('-', word.casefold()).strip('-')}"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One report in the index of a directory."""

    file: str  # its name
    day: str
    finding: str
    is_share_safe: bool
    rule_key: str  # as in `page`


def index_page(entries: Sequence[IndexEntry]) -> str:
    """Render the list of the reports in a directory, in that order; it runs and loads nothing."""
    page: str = (
        _environment()
        .get_template("index.html")
        .render(
            entries=entries,
            policy="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
            style=_style(0),
        )
    )
    return page


def metadata(head: str) -> dict[str, str]:
    """Return the ``generator``, ``description`` and ``report-rule`` that a page has, from its beginning.

    >>> from exposurekit.reports.html import metadata
    >>> metadata('<meta name="generator" content="exposurekit">')
    {'generator': 'exposurekit'}
    """
    return {name: _SAFE(value).unescape() for name, value in _META.findall(head)}


def _style(columns: int) -> Markup:
    """The styles of a page, with the headings that the cells of at most so many columns have on a phone."""
    labels = "".join(
        f"td:nth-child({number})::before{{content:var(--h{number},none)}}"
        for number in range(2, min(columns, _CARD_MAX) + 1)
    )
    on_phone = f"@media screen and (max-width:30rem){{{labels}}}"
    # The whole page has the class.
    shared = shared_styles().replace(".exposurekit .", ".").replace(".exposurekit :", ":")
    css = f"@layer shared {{\n{shared}}}\n{_file('templates/report.css')}{on_phone}\n"
    compact = _CSS_SPACE.sub("", _CSS_INDENT.sub("", _CSS_COMMENT.sub("", css)))
    return _SAFE(_with_short_names(_CSS_COLON.sub(r"\1:", compact)))


def _with_short_names(css: str) -> str:
    """Number the variables of a style sheet, except those that markup and scripts set or read."""
    names = dict.fromkeys(_CSS_VARIABLE.findall(css))
    numbers = {name: f"--{number:x}" for number, name in enumerate(names)}
    return _CSS_USE.sub(lambda use: numbers.get(use[0], use[0]), css)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("exposurekit.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        # Before escaping, this removes control characters and characters that change the direction of text.
        finalize=lambda value: value if isinstance(value, Markup) else plain(value),
    )
    environment.filters |= {
        "linked": lambda url: _SAFE(link_with_path(url)),
        "with_links": _with_links,
        "code": _code,
        "body": _body,
        "head": _head,
        "card_labels": _card_labels,
        "totals": _totals,
        "row_numbers": _row_numbers,
        "displayed": _displayed,
        "defined": _defined,
        "isolated": lambda text: _SAFE(isolated(text)),
        "value": lambda text: _SAFE(isolated_value(text)),
        "dated": lambda text: _SAFE(with_unbroken_dates(text)),
        "sparkline": lambda values: _SAFE(sparkline(values)),
        "sentences": _sentences,
        "drawn": lambda chart: _data(_charts_json(chart)),
        "height": _height,
        "csv": lambda table: _data(formatting.as_csv(table)),
    }
    return environment


def _with_links(step: str) -> Markup:
    """Render a step with its web addresses as links."""
    text, parts, end = plain(step), [], 0
    for start, stop, url in step_urls(text):
        parts += [isolated(text[end:start]), link(url, text[start:stop])]
        end = stop
    return _SAFE("".join([*parts, isolated(text[end:])]))


def _code(value: str) -> Markup:
    """Render a value to copy; short ones do not wrap. What is not shown cannot be copied."""
    if value in NO_VALUE_TEXTS:
        return _SAFE(escaped(value))
    breaks = ' class="breaks"' if len(value) > _UNBROKEN_MAX else ""
    return _SAFE(f"<code{breaks}>{isolated_value(value)}</code>")


def _displayed(table: pd.DataFrame, key: str) -> dict[str, Any]:
    """What a page displays of a table: no columns of zeros or of nothing, and intervals behind their estimates; and a note.

    ``intervals`` has the texts of the intervals by the column of their estimate, and ``label`` what they are. A table
    of the caller's own stays whole.
    """
    table = table.reset_index(drop=True)
    is_own = key not in QUESTIONS and key not in _BARS and key not in _SPARSE
    users = table["user_id"].tolist() if "user_id" in table else []
    has_names = not is_own and {"person", "user_id"} <= {*table}
    if has_names and table["person"].nunique() == table["user_id"].nunique():
        table = table.drop(columns="user_id")  # a name says more; the CSV has both
    numbers = table.select_dtypes("number")
    counts = [name for name in table.select_dtypes("integer") if name not in _NO_COUNTS]
    zeros = [name for name in counts if len(table) and (table[name].fillna(1) == 0).all()]
    zeros = zeros if len(zeros) < numbers.shape[1] and not is_own else []
    table = table.drop(columns=zeros)
    csv_only = [str(name) for name in table if name in _CSV_ONLY.get(key, ())]
    table = table.drop(columns=csv_only)
    if key in _SPARSE and counts:
        empty = ~numbers.any(axis=1)
        zeros += [str(label) for label in table.loc[empty].iloc[:, 0]] if not empty.all() else []
        table = table[~empty] if not empty.all() else table
    label = interval_label(table)
    intervals: dict[str, list[str]] = {}
    for estimate, (low, high) in _INTERVALS.items():
        if {estimate, low, high} <= {*table.columns}:
            as_text = formatting.percent if estimate in _SHARES else formatting.format_value
            ends = zip(table[low].tolist(), table[high].tolist(), strict=True)
            texts = [format_interval(*pair, as_text, label) for pair in ends]
            intervals[estimate] = [_within(text, label) for text in texts]
            table = table.drop(columns=[low, high])
    if key in _NEWEST_FIRST:
        table = table[::-1]
    if key == "work_queue" and {"site", "group"} <= {*table}:
        filled = {"site": table["site"].astype("str").fillna("web page")}
        if "reference_id" in table:  # a page has its host
            filled["reference_id"] = table["reference_id"].astype("str").fillna(table["group"].astype("str"))
        table = table.assign(**filled).drop(columns=["group", "record_id"], errors="ignore")
    empty_columns = [] if is_own else [name for name in table if len(table) and table[name].isna().all()]
    table = table.drop(columns=empty_columns)
    notes = [
        f"Not shown, because {why}: {', '.join(_heading_words(str(name), key) for name in names)}."
        for why, names in (("all values are zero", zeros), ("no row has a value", empty_columns))
        if names
    ]
    notes += (
        [f"In the CSV only: {', '.join(_heading_words(name, key) for name in csv_only)}."] if csv_only else []
    )
    return {"table": table, "note": " ".join(notes), "intervals": intervals, "label": label, "users": users}


def _row_numbers(displayed: dict[str, Any]) -> str:
    """The row of the CSV that each row of a table is; empty if they are in the same order."""
    numbers = displayed["table"].index.tolist()
    return "" if numbers == [*range(len(numbers))] else " ".join(map(str, numbers))


def _sorted_by(table: pd.DataFrame, key: str) -> tuple[str, str]:
    """The column that a table is sorted by, and how: the main one, or the first whose values ascend or descend."""
    main = "" if key in _NEWEST_FIRST else _BARS.get(key)
    for name in sorted(table, key=lambda name: name != main):
        column = table[name]
        n = int(column.notna().sum())
        if n < len(column) and column.iloc[:n].isna().any():  # missing values come last
            continue
        values = column.iloc[:n]
        if not is_numeric_dtype(column) and not is_datetime64_any_dtype(column):
            values = values.astype("str").str.casefold()
        if values.nunique() < _SORTED_MIN:
            continue
        if values.is_monotonic_decreasing:
            return str(name), "descending"
        if values.is_monotonic_increasing:
            return str(name), "ascending"
    return "", ""


def _within(interval: str, label: str) -> str:
    """An interval in brackets, without its label: the heading has it."""
    ends = interval.partition(f"{label}: ")[2]
    return f"({ends}" if ends else ""


def _card_labels(displayed: dict[str, Any], key: str) -> str:
    """The headings of a table as CSS: on a phone, a row is a card, and each of its cells has its heading beside it."""
    label = f" ({displayed['label']})"
    words = [
        _heading_words(str(name), key) + (label if name in displayed["intervals"] else "")
        for name in displayed["table"]
    ][1:_CARD_MAX]
    return ";".join(f"--h{number}:{_css_text(text)}" for number, text in enumerate(words, 2))


def _css_text(text: str) -> str:
    """A text as a CSS string, in which only letters and digits are not escaped."""
    line = plain(text)
    characters = (
        one if one.isascii() and one.isalnum() else f"\\{ord(one):x} " for one in line[:1].upper() + line[1:]
    )
    return f"'{''.join(characters)}'"


def _head(displayed: dict[str, Any], key: str, glossary: Glossary) -> Markup:
    """Render the headings of a table, and add their definitions to the glossary."""
    for name in displayed["table"]:
        glossary.add(*_defined_heading(str(name), key))
    table = displayed["table"]
    labels: dict[str, str] = dict.fromkeys(
        displayed["intervals"], f' <span class="interval">({displayed["label"]})</span>'
    )
    main, order = _sorted_by(table, key)
    return _SAFE(
        "".join(
            _heading(
                str(name), key, labels.get(name, ""), is_text=is_text, order=order if name == main else ""
            )
            for name, is_text in zip(table.columns, _are_texts(table), strict=True)
        )
    )


def _totals(table: pd.DataFrame, totals: Mapping[str, int]) -> Markup:
    """Render the last row of a table: the sums of some columns."""
    _, *names = [str(name) for name in table]
    cells = [
        f"<td>{_FORMATS.get(name, '{:,}'.format)(totals[name])}</td>" if name in totals else "<td></td>"
        for name in names
    ]
    return _SAFE("".join(['<th scope="row" class="left">total</th>', *cells]))


def _are_texts(table: pd.DataFrame) -> list[bool]:
    """Return which columns contain text, and are left-aligned."""
    return [  # a user is a number or a pseudonym
        not is_numeric_dtype(column) or is_bool_dtype(column) or name == "user_id"
        for name, column in table.items()
    ]


def _heading(name: str, key: str, more: str = "", *, is_text: bool = False, order: str = "") -> str:
    """Render a column heading, with its definition as a tooltip, and in which order its values are."""
    text, words = _defined_heading(name, key)
    title = f' title="{escaped(words)}"' if words else ""
    kind = _LEFT if is_text else _ESTIMATE if more else ""
    pick = ' data-pick="chips"' if name in _CHIPS else ' data-pick="list"' if name in _LISTS else ""
    sort = f' aria-sort="{order}"' if order else ""
    return f'<th scope="col"{kind}{title}{pick if is_text else ""}{sort}>{escaped(text)}{more}</th>'


def _defined_heading(name: str, key: str) -> tuple[str, str]:
    """A column heading and its definition, which may be empty."""
    return _heading_words(name, key), _SECTION_DEFINITIONS.get((key, name), definition(name))


def _heading_words(name: str, key: str) -> str:
    return _SECTION_HEADINGS.get((key, name)) or _HEADINGS.get(name) or name.replace("_", " ")


def _defined(name: str) -> Markup:
    """Render the name of a figure, with its definition as a tooltip and for screen readers."""
    if not (words := definition(name)):
        return _SAFE(escaped(name))
    label = escaped(f"{name}: {words}")
    return _SAFE(f'<dfn tabindex="0" title="{escaped(words)}" aria-label="{label}">{escaped(name)}</dfn>')


def _body(displayed: dict[str, Any], key: str, work: Sequence[Any] = ()) -> Markup:
    """Render the rows of a table; a template loop would double the rendering time.

    The sites and people of the main tables are links to their manual work.
    """
    table: pd.DataFrame = displayed["table"]
    shares = {
        str(name): table[name].map(formatting.percent, na_action="ignore").astype("str")
        for name in _SHARES & {*table}
        if _is_share(table[name])
    }
    numbers = {str(name): _with_one_precision(table[name]) for name in table.select_dtypes("float")}
    cells: dict[tuple[str, bool, str, str], str] = {}  # cache: many cells are equal
    yes_or_no = {
        str(name): table[name].map({True: "yes", False: "no"}) for name in table.select_dtypes("bool")
    }
    formatted = {
        str(name): table[name].map(_FORMATS[str(name)], na_action="ignore").astype("str")
        for name in table
        if name in _FORMATS and is_numeric_dtype(table[name])
    }
    days = {
        str(name): table[name].dt.strftime("%Y-%m-%d")
        for name in table.select_dtypes("datetimetz")
        if (table[name].dropna() == table[name].dropna().dt.normalize()).all()
    }
    are_texts = _are_texts(table)
    kinds = [_cell_kind(table[name], key) for name in table]
    none = [""] * len(table)
    intervals = zip(*(displayed["intervals"].get(name, none) for name in table), strict=True)
    texts = formatting.rows(table.assign(**(numbers | shares | formatted | yes_or_no | days)))
    rows = [
        [
            cells.get(key) or cells.setdefault(key, _cell(*key))
            for key in zip(kinds, are_texts, row, of_row, strict=True)
        ]
        for row, of_row in zip(texts, intervals, strict=True)
    ]
    for row, to_work in zip(rows, _links_to_work(displayed, key, work), strict=False):
        if to_work:
            opening, content = row[0].removesuffix("</td>").split(">", 1)
            row[0] = f"{opening}><a {to_work}>{content}</a></td>"
    if key == "by_site" and {"requested", "removed"} <= {*table}:
        at = [*table].index("removed")
        for row, n_requests in zip(rows, table["requested"], strict=True):
            if n_requests:  # a phone omits zeros, but not what came of requests
                row[at] = row[at].replace(' class="zero"', "")
    return _SAFE("\n".join(f"<tr>{''.join(row)}</tr>" for row in rows))


def _links_to_work(displayed: dict[str, Any], key: str, work: Sequence[Any]) -> list[str]:
    """The address of the manual work of each row's site or person, as an attribute; empty where there is none."""
    if key == "by_site":
        first = {one.site: f'href="#work_queue-{at}"' for at, one in reversed([*enumerate(work, 1)])}
        return [first.get(site, "") for site in displayed["table"]["site"].tolist()]
    if key == "score":
        users = {task.user_id for one in work for task in one.tasks}
        links = {user: f'href="#to-do" data-user="{user}"' for user in users if user is not None}
        return [links.get(user, "") for user in displayed["users"]]
    return []


def _cell_kind(column: "pd.Series[Any]", key: str) -> str:
    """How the cells of a column are displayed; ``bar`` is followed by the number that fills the cell."""
    if column.name == _BARS.get(key) and len(column) > 1 and pd.notna(most := column.max()) and most > 0:
        return f"bar {most}"
    return "share" if _is_share(column) else _CELL_KINDS.get(str(column.name), "")


def _is_share(column: "pd.Series[Any]") -> bool:
    """Whether a column is displayed in percent; one of the caller's own may have the same name."""
    return column.name in _SHARES and is_numeric_dtype(column) and bool(column.dropna().between(0, 1).all())


def _with_one_precision(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """The numbers of a column with one decimal each, where none of them needs another number of decimals."""
    sizes = column.dropna().abs()
    sizes = sizes[sizes > 0]
    if sizes.empty or sizes.min() < _SMALL or sizes.max() < 1 or (sizes == sizes.round()).all():
        return column
    return column.map("{:,.1f}".format, na_action="ignore").astype("str").where(column.notna())


def _signed(n: float) -> str:
    return f"{n:+,.0f}".replace("-", MINUS) if n else "0"


_FORMATS: dict[str, Callable[[float], str]] = {"change": _signed, "minutes": format_duration}


def _cell(kind: str, is_text: bool, text: str, interval: str) -> str:  # noqa: FBT001
    content = isolated(text) if kind == "words" else isolated_value(text)
    more = f' <span class="interval">{escaped(interval)}</span>' if interval else ""
    if text == formatting.MISSING:
        kind = ""
    if kind == "share":
        bar = content.rpartition(" ")[2]  # of "under 1%"
        return f'<td class="share" style="--share:{bar}">{content}{more}</td>'
    if kind.startswith("bar") and text != "0":
        share = float(text.replace(",", "")) / float(kind.split()[1])
        return f'<td class="share" style="--share:{share:.0%}">{content}{more}</td>'
    if text == "0" and not interval:
        return '<td class="zero">0</td>'
    if kind == "status":
        name = text.replace(" ", "-") if text in STATUSES else "other"
        return f'<td class="left"><span class="chip {name}">{content}</span></td>'
    if kind == "link":
        return f'<td class="left link">{link_with_path(text)}</td>'
    is_short = len(text) <= _UNBROKEN_MAX and (kind == "name" or text[:1].isdigit())
    is_short = is_short and _BREAK.search(text) is not None
    names = [*(["unbroken"] if is_short else []), *(["left"] if is_text else [])]
    names += ["name"] if is_short and kind == "name" else []
    names += ["words"] if kind == "words" else []
    names += ["none"] if text == formatting.MISSING else []
    classes = f' class="{" ".join(names)}"' if names else ""
    return f"<td{classes}>{content}{more}</td>"


def _sentences(parts: Iterable[str]) -> str:
    """Join parts of a text as sentences; empty ones are left out."""
    return " ".join(f"{part[0].upper()}{part[1:].rstrip('.')}." for part in parts if part)


def _charts_json(chart: charts.Chart) -> dict[str, Any]:
    figure: dict[str, Any] = json.loads(chart.to_json(validate=False, engine="json"))
    # The page shows the title as a heading, so the chart needs no space for it.
    margin = figure["layout"]["margin"]
    smaller = {"margin": margin | {"t": 16}, "height": _height(chart)}
    layout = figure["layout"] | {"title": None} | smaller
    layout.pop("meta", None)
    return {"data": figure["data"], "layout": layout, "config": charts.CONFIG}


def _height(chart: charts.Chart) -> int:
    """The height of a chart without its title."""
    return int(chart.layout.height - chart.layout.margin.t + 40)


def _data(value: Any) -> Markup:
    """Serialise to JSON for a script element; "<" is escaped, as "</" and "<!--" would end or hide it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _SAFE(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


@cache
def _charts_js() -> str:
    return f'(() => {{\n"use strict";\n{drawing_js()}{_file("templates/charts.js")}}})();\n'


@cache
def _file(name: str) -> str:
    return files("exposurekit.reports").joinpath(name).read_text("utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
