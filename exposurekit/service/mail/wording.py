"""Opt-outs by email, and complaints about those that got no answer: plain text, from the templates in `wording.yaml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from typing import Any

from exposurekit.service.findings.alerts import Event
from exposurekit.service.sites.definition import TemplateName
from exposurekit.text import plain_yaml

SUBJECT = "Request to delete a listing ({reference})"
_TEXT = files("exposurekit.service.mail").joinpath("wording.yaml").read_text("utf-8")
_WORDING: Mapping[str, Any] = plain_yaml.read(_TEXT).value


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """When somebody agreed to opt-outs, and who recorded it."""

    granted_at: datetime
    granted_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is to be deleted."""

    site: str
    name: str = field(repr=False)
    href: str | None = field(repr=False)
    reference_id: str = field(repr=False)

    def lines(self) -> str:
        """Return the name on the listing, and where it is."""
        where = self.href or f"number {self.reference_id}"
        return f"{self.name}, {where}"


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier opt-out for the listing: what came of it, when it was sent, and the address of the form."""

    event: Event
    sent_at: datetime
    form: str

    def paragraph(self) -> str:
        """Return what a follow-up says of it."""
        text: str = _WORDING["earlier"][self.event.name.lower()]
        return text.format(sent_on=_day(self.sent_at), form=self.form)


def opt_out(
    template: TemplateName,
    listing: Listing,
    person: Mapping[str, str],
    consent: Consent,
    *,
    answer_within_days: float,
    earlier: Earlier | None = None,
) -> str:
    """Return the text of an opt-out; `person` has the user fields that the site needs, and the name.

    With `earlier`, it follows up a request that the site did not carry out.
    """
    name, wording, labels = full_name(person), _WORDING[template], _WORDING["fields"]
    text: str = _WORDING["opt_out"].format(
        site=listing.site,
        opening="\n\n".join(
            [wording["opening"].format(name=name), *([earlier.paragraph()] if earlier else [])]
        ),
        listing=listing.lines(),
        fields="\n".join(f"{labels[key]}: {value}" for key, value in person.items() if value),
        name=name,
        consented_on=_day(consent.granted_at),
        consented_by=consent.granted_by,
        deadline=wording["deadline"].format(days=answer_within_days),
    )
    return text


def complaint(
    template: TemplateName,
    listing: Listing,
    person: Mapping[str, str],
    *,
    to: str,
    sent_at: datetime,
    answer_by: datetime,
    is_removed: bool,
) -> str:
    """Return a draft of a complaint, which the person has to check, to sign and to send."""
    text: str = _WORDING["complaint"].format(
        authority=_WORDING[template]["authority"],
        law=_WORDING[template]["law"],
        site=listing.site,
        name=full_name(person),
        to=to,
        listing=listing.lines(),
        sent_on=_day(sent_at),
        answer_by=_day(answer_by),
        state="The listing is gone by now."
        if is_removed
        else "As far as I know, the listing is still there.",
    )
    return text


def full_name(person: Mapping[str, str]) -> str:
    """Return the name of a person."""
    return " ".join(filter(None, (person.get(key, "") for key in ("first_name", "middle_name", "last_name"))))


def _day(instant: datetime) -> str:
    return f"{instant.day} {instant:%B %Y}"
