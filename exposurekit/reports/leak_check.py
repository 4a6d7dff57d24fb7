"""Search a share-safe report or export for personal data."""

import contextlib
from collections.abc import Mapping

import pandas as pd

from exposurekit.analysis import DEFINITIONS
from exposurekit.contract.types import STATUSES
from exposurekit.errors import Leak, NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.privacy.detector import PersonalDataMatcher
from exposurekit.privacy.redaction import INSTANTS, NUMBERS, WORDS, values_in
from exposurekit.reports.html import without_scripts
from exposurekit.reports.model import Fact, Report, Section
from exposurekit.reports.share_safe import FEW

_URL_COLUMNS = {"href", "url", "link_url"}


def assert_shareable(report: Report, matcher: PersonalDataMatcher) -> None:
    """Raise if a report contains personal data.

    Raises:
        Leak: The report contains a value of `matcher`; the message names its kind and section, not the value.
    """
    matcher.ignore(_impersonal_text(report))
    kinds = matcher.search(without_scripts(report.to_html())) | matcher.search(report.to_json())
    if not kinds:
        return
    keys = [section.key for section in report.sections if matcher.search(_alone(report, section))]
    where = f" in {', '.join(keys)}" if keys else ""
    raise Leak(
        f"The report contains personal data{where}: {_summary(kinds)}. It was not written. "
        "A site's name, a guide or a step contains it: make the report without share_safe to find it."
    )


def check_text(text: str, matcher: PersonalDataMatcher) -> None:
    """Raise if a text contains personal data.

    Raises:
        Leak: The text contains a value of `matcher`; the message names its kind, not the value.
    """
    if kinds := matcher.search(text):
        raise Leak(f"The file would contain personal data: {_summary(kinds)}. It was not written.")


def matcher_for(exposure: Exposure | None, history: History | None) -> PersonalDataMatcher:
    """A matcher for all personal data of an exposure and a history: profiles, listings and keys."""
    matcher = PersonalDataMatcher()
    if exposure is not None:
        tables = ("users", "aliases", "emails", "phone_numbers", "addresses", "records", "links", "alerts")
        for name in tables:
            values_in(_personal(exposure[name]), matcher)
        config = exposure.client.config
        for secret in (config.api_key, config.api_secret):
            matcher.add("key", secret)
        for user_id in exposure.users()["user_id"].tolist():
            with contextlib.suppress(NotFound):  # deleted since
                matcher.add("key", exposure.key(user_id).secret)
    if history is not None:
        for table in (history.records(), history.links(), history.alerts()):
            values_in(_personal(table), matcher)
    return matcher


def _personal(table: pd.DataFrame) -> pd.DataFrame:
    """A table without the URLs that many people have in common, such as the address of an opt-out form."""
    for name in _URL_COLUMNS & {*table}:
        people = table.groupby(name, observed=True)["user_id"].nunique()
        table = table.assign(**{name: table[name].where(~table[name].isin(people.index[people >= FEW]))})
    return table


def _impersonal_text(report: Report) -> str:
    """The text of every report of this kind: headings, column names, statuses."""
    facts = tuple(Fact(fact.name, "", "") for fact in report.facts)
    sections = tuple(Section(section.key, section.title, "") for section in report.sections)
    empty = Report(report.kind, "", "", facts, sections, {}, is_share_safe=report.is_share_safe)
    columns = map(str.strip, sorted(INSTANTS | NUMBERS | WORDS))
    return "\n".join([without_scripts(empty.to_html()), *DEFINITIONS.values(), *STATUSES, *columns])


def _summary(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} ({n:,})" for kind, n in sorted(kinds.items()))


def _alone(report: Report, section: Section) -> str:
    return without_scripts(Report(report.kind, "", "", (), (section,), {}).to_html())
