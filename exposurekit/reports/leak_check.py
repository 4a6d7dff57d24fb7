"""Search a share-safe report or export for personal data.

Only text that comes from data is searched: table cells, strings and large numbers in charts, guides, steps and
sentences. Text that is the same in every report, such as headings and scripts, is not.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from exposurekit.charts import describe
from exposurekit.charts.theme import Figure
from exposurekit.contract.types import STATUSES
from exposurekit.errors import Leak, NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.privacy.personal_data_search import MIN_DIGITS, PersonalDataSearch
from exposurekit.privacy.redaction import find_values
from exposurekit.reports.model import Report, Section
from exposurekit.reports.sections import section_names
from exposurekit.reports.share_safe import FEW, Sharing

_TABLES = ("users", "aliases", "emails", "phone_numbers", "addresses", "records", "links", "alerts")
_PAGE_COLUMNS = {"href", "url", "link_url", "title", "link_title", "text"}
# The other strings of a chart are style names.
_CHART_TEXTS = frozenset((
    *("x", "y", "z", "text", "hovertext", "customdata", "labels", "parents", "ids", "name", "title", "meta", "legendgroup"),
    *("ticktext", "tickvals", "categoryarray", "hovertemplate", "texttemplate", "annotations"),
))  # fmt: skip
_STYLES = frozenset(("template", "font", "marker", "line"))


def assert_shareable(
    report: Report, sharing: Sharing, exposure: Exposure | None, history: History | None
) -> None:
    """Raise if a report contains personal data of an exposure or a history: profiles, listings and keys.

    Raises:
        Leak: The message names the kinds of data and the sections, not the values.
    """
    sections = texts_by_section(report)
    search = PersonalDataSearch(
        itertools.chain.from_iterable(sections.values()), public_names=(*sharing.sites, *STATUSES)
    )
    find_all(search, exposure, history)
    if not search.kinds:
        return
    keys = [key for key, texts in sections.items() if key and texts & search.matching_texts]
    own = [key for key in keys if key not in section_names()]
    if own:
        titles = {section.key: section.title for section in report.sections}
        named = [
            repr(titles[key]) for key in own if titles[key] not in search.matching_texts
        ]  # else it is personal
        where = f"your section {', '.join(named)}" if len(named) == len(own) else "a section of your own"
        raise Leak(
            f"The report contains personal data in {where}: {_summary(search.kinds)}. It was not written. "
            "Leave it out of the section, or make the report without share_safe."
        )
    where = f" in {', '.join(keys)}" if keys else ""
    raise Leak(
        f"The report contains personal data{where}: {_summary(search.kinds)}. It was not written. "
        "A site's name, a guide or a step contains it: make the report without share_safe to find it."
    )


def check_texts(
    texts: Iterable[str],
    exposure: Exposure | None,
    history: History | None,
    *,
    public_names: Iterable[str] = (),
) -> None:
    """Raise if texts contain personal data of an exposure or a history; `public_names` as in `PersonalDataSearch`.

    Raises:
        Leak: The message names the kinds of data, not the values.
    """
    search = PersonalDataSearch(texts, public_names=(*public_names, *STATUSES))
    find_all(search, exposure, history)
    if search.kinds:
        raise Leak(f"The file would contain personal data: {_summary(search.kinds)}. It was not written.")


def find_all(search: PersonalDataSearch, exposure: Exposure | None, history: History | None) -> None:
    """Search for all personal data of an exposure and a history: profiles, listings and keys."""
    if exposure is not None:
        for name in _TABLES:
            find_values(_personal(exposure[name]), search)
        config = exposure.client.config
        for secret in (config.api_key, config.api_secret):
            search.add_key(secret)
        for user_id in exposure.users()["user_id"].tolist():
            with contextlib.suppress(NotFound):  # deleted since
                search.add_key(exposure.key(user_id).secret)
    if history is not None:
        for table in (history.records(), history.links(), history.alerts()):
            find_values(_personal(table), search)


def texts_by_section(report: Report) -> dict[str, set[str]]:
    """Return the texts of a report that may contain data, by section; under "" those outside all sections.

    >>> from exposurekit.reports.leak_check import texts_by_section
    >>> report = ek.report(exposure)
    >>> report.finding in texts_by_section(report)[""]
    True
    """
    facts = (
        text
        for fact in report.facts
        for text in (fact.name, fact.value, fact.qualifier, fact.detail, fact.change)
    )
    actions = (
        text
        for action in (*report.actions, *report.totals)
        for text in (action.text, action.effect, action.who, action.basis, action.site)
    )
    head = (report.title, report.finding, *report.parts, report.caveat, report.half_hour, report.outlook)
    texts = {"": {*head, *facts, *actions, *report.provenance.values()} - {""}}
    return texts | {section.key: {*_section_texts(section)} - {""} for section in report.sections}


def _section_texts(section: Section) -> Iterator[str]:
    yield from (section.title, section.finding, section.text, *section.points)
    for removal in section.removals:
        yield from (removal.site or "", removal.guide or "", *removal.steps)
        yield from (task.person for task in removal.tasks)
    if section.table is not None:
        yield from map(str, section.table.columns)
        for name in section.table:
            yield from _strings(section.table[name].explode().dropna().unique().tolist())
    if section.figure is not None:
        yield describe(section.figure)
        yield from _chart_texts(section.figure)


def _chart_texts(chart: Figure) -> Iterator[str]:
    figure = chart.to_plotly_json()
    title = _texts_under({"title": figure["layout"].pop("title", None)})
    yield from (text.replace("<br>", " ") for text in title)  # a name may stand on two lines
    for part in (*figure["data"], figure["layout"]):
        yield from _texts_under(part)


def _texts_under(part: object) -> Iterator[str]:
    """Yield the strings under those keys of a chart that hold text."""
    if isinstance(part, Mapping):
        for name, value in part.items():
            if name in _CHART_TEXTS:
                yield from _strings(value)
            elif name not in _STYLES:
                yield from _texts_under(value)
    elif isinstance(part, (list, tuple)):
        for item in part:
            yield from _texts_under(item)


def _strings(value: object) -> Iterator[str]:
    """Yield the strings in a value, and numbers with as many digits as a phone number."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name not in _STYLES:
                yield from _strings(item)
    elif hasattr(value, "tolist"):
        yield from _strings(value.tolist())
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, (int, float)) and abs(value) >= 10 ** (MIN_DIGITS - 1):
        yield f"{value:.0f}"


def _personal(table: pd.DataFrame) -> pd.DataFrame:
    """Remove URLs and texts that many people share, such as the address of an opt-out form."""
    for name in _PAGE_COLUMNS & {*table}:
        people = table.groupby(name, observed=True)["user_id"].nunique()
        table = table.assign(**{name: table[name].where(~table[name].isin(people.index[people >= FEW]))})
    return table


def _summary(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} ({n:,})" for kind, n in sorted(kinds.items()))
