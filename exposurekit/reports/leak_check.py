"""The last look at what is to be shared: a finished report is searched for all that is known of everyone. Mends nothing."""

import contextlib
from collections.abc import Mapping
from typing import Any

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

_PAGES = {"href", "url", "link_url"}


def assert_shareable(report: Report, known: PersonalDataMatcher) -> None:
    """See that a report tells none of what is known.

    Raises:
        Leak: It does; the message says what kind of value stands in which part, and tells none.
    """
    known.forget(_about_nobody(report))
    found = known.found_in(without_scripts(report.to_html())) | known.found_in(report.to_json())
    if not found:
        return
    parts = [part.key for part in report.sections if known.found_in(_alone(report, part))]
    where = f" in {', '.join(parts)}" if parts else ""
    raise Leak(
        f"The report would tell personal data{where}: {_kinds(found)}. It was not written. "
        "A site's name, a guide or a step says it: see the whole report, which is made without share_safe."
    )


def check_text(text: str, known: PersonalDataMatcher) -> None:
    """See that a text tells none of what is known.

    Raises:
        Leak: It does; the message says what kind of value, and tells none.
    """
    if found := known.found_in(text):
        raise Leak(f"It would tell personal data: {_kinds(found)}. It was not written.")


def matcher_for(exposure: Exposure | None, history: History | None) -> PersonalDataMatcher:
    """All that an exposure and a history know of everyone: whom they are about, what was found, and their keys."""
    known = PersonalDataMatcher()
    if exposure is not None:
        tables = ("users", "aliases", "emails", "phone_numbers", "addresses", "records", "links", "alerts")
        for name in tables:
            values_in(_of_somebody(exposure[name]), known)
        access = exposure.client.config
        for secret in (access.api_key, access.api_secret):
            known.add("key", secret)
        for user_id in exposure.users()["user_id"].tolist():
            with contextlib.suppress(NotFound):  # left since
                known.add("key", exposure.key(user_id).secret)
    if history is not None:
        for table in (history.records(), history.links(), history.alerts()):
            values_in(_of_somebody(table), known)
    return known


def _of_somebody(table: pd.DataFrame) -> pd.DataFrame:
    """Without pages that so many are told of that they are nobody's: where a site is asked to remove, say."""
    for name in _PAGES & {*table}:
        many = table.groupby(name, observed=True)["user_id"].nunique()
        table = table.assign(**{name: table[name].where(~table[name].isin(many.index[many >= FEW]))})
    return table


def _about_nobody(report: Report) -> str:
    """What stands in every report like it: headings, names of columns, statuses."""
    facts = tuple(Fact(fact.name, "", "") for fact in report.facts)
    sections = tuple(Section(part.key, part.title, "") for part in report.sections)
    empty = Report(report.kind, "", "", facts, sections, {}, is_share_safe=report.is_share_safe)
    columns = map(str.strip, sorted(INSTANTS | NUMBERS | WORDS))
    return "\n".join([without_scripts(empty.to_html()), *DEFINITIONS.values(), *STATUSES, *columns])


def _kinds(found: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} ({n:,})" for kind, n in sorted(found.items()))


def _alone(report: Report, section: Any) -> str:
    return without_scripts(Report(report.kind, "", "", (), (section,), {}).to_html())
