"""The wording of opt-outs by email, and of complaints about those that got no answer. Plain text, from templates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from exposurekit.service.sites.definition import TemplateName

SUBJECT = "Request to delete a listing ({reference})"
_LABELS = {
    "first_name": "First name",
    "middle_name": "Middle name",
    "last_name": "Last name",
    "birth_date": "Date of birth",
    "email": "Email address",
    "phone_number": "Phone number",
    "address1": "Street",
    "city": "City",
    "state": "State",
    "zip": "ZIP code",
}
_OPENINGS: Mapping[TemplateName, str] = {
    "ccpa": (
        "we write for {name}, who uses the rights of a consumer under the California Consumer Privacy Act. Please delete the "
        "personal information that you hold about this person, neither sell nor share it from now on, and pass this request "
        "on to those who received it from you."
    ),
    "gdpr": (
        "we write for {name}, who asks you under Article 17 of the General Data Protection Regulation to erase all personal "
        "data about this person, and objects under Article 21 to any further processing. Please tell those who received the "
        "data from you, as Article 19 requires."
    ),
    "neutral": (
        "we write for {name}. Your site shows personal data of this person, who did not ask for that. Please remove the "
        "listing, and do not publish it again."
    ),
}
_DEADLINES: Mapping[TemplateName, str] = {
    "ccpa": "The Act gives you {days:g} days to answer.",
    "gdpr": "The Regulation gives you one month to answer.",
    "neutral": "We hope for your answer within {days:g} days.",
}
_AUTHORITIES: Mapping[TemplateName, tuple[str, str]] = {
    "ccpa": ("the California Privacy Protection Agency", "the California Consumer Privacy Act"),
    "gdpr": (
        "the data protection authority in charge",
        "Article 17 of the General Data Protection Regulation",
    ),
    "neutral": ("the consumer protection authority in charge", "the law that protects personal data"),
}
_OPT_OUT = """To {site}:

{opening}

The listing:
{listing}

So that you can find it, and for no other purpose:
{fields}

{name} agreed on {consented_on} that we send this request; our record of it names {consented_by}. {deadline} Please answer \
to this message, and do not ask {name} for more data than the listing shows.
"""
_COMPLAINT = """To {authority}:

I complain about {site}. It publishes personal data about me, {name}, and does not answer.

- On {sent_on} a request to delete the data was sent to {to} in my name, under {law}.
- The request named this listing: {listing}
- The time to answer ended on {answer_by}. There was no answer.
- {state}

Please examine this, and see to it that the data is deleted. The request is enclosed.

{name}
"""


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


def opt_out(
    template: TemplateName,
    listing: Listing,
    person: Mapping[str, str],
    consent: Consent,
    *,
    answer_within_days: float,
) -> str:
    """Return the text of an opt-out; `person` has the user fields that the site needs, and the name."""
    name = full_name(person)
    return _OPT_OUT.format(
        site=listing.site,
        opening=_OPENINGS[template].format(name=name),
        listing=listing.lines(),
        fields="\n".join(
            f"{_LABELS[key]}: {value}" for key, value in person.items() if key in _LABELS and value
        ),
        name=name,
        consented_on=_day(consent.granted_at),
        consented_by=consent.granted_by,
        deadline=_DEADLINES[template].format(days=answer_within_days),
    )


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
    authority, law = _AUTHORITIES[template]
    return _COMPLAINT.format(
        authority=authority,
        law=law,
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


def full_name(person: Mapping[str, str]) -> str:
    """Return the name of a person."""
    return " ".join(filter(None, (person.get(key, "") for key in ("first_name", "middle_name", "last_name"))))


def _day(instant: datetime) -> str:
    return f"{instant.day} {instant:%B %Y}"
