"""People-search sites as data: one YAML file a site, checked before it is used. Fetches nothing.

A definition says how a site is searched, how its listings are read, how to tell that it works, and how a listing
is taken down. `exposurekit sites check FILE` reads one and tries it; `exposurekit/sandbox/world/definitions/` has fifteen
to learn from.
"""

import string
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from exposurekit.service.accounts.subject import USER_FIELDS, Name, Place, Subject
from exposurekit.service.constants import GONE_LOOKS
from exposurekit.service.models import Site

LISTING_FIELDS = frozenset(
    {"reference_id", "href", "name"}
)  # what an opt-out form may be told of the listing


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        raise ValueError("is not an http or https address")
    return text


def _printable(text: str) -> str:
    if not text.replace("\n", " ").isprintable():
        raise ValueError("holds a control character")
    return text


def _template(text: str) -> str:
    try:
        parts = [part for part in string.Formatter().parse(text) if part[1] is not None]
    except ValueError:
        raise ValueError("has a brace too many or too few") from None
    if any(spec or conversion for _, _, spec, conversion in parts):
        raise ValueError("says how to spell a field; a name in braces is all there may be")
    asked = {name or "" for _, name, _, _ in parts}
    if odd := asked - USER_FIELDS - LISTING_FIELDS:
        known = ", ".join(sorted(USER_FIELDS | LISTING_FIELDS))
        raise ValueError(f"asks for {', '.join(sorted(odd))}; there are {known}")
    return text


def _search_template(text: str) -> str:
    if any(f"{{{name}}}" in text for name in LISTING_FIELDS):
        raise ValueError("asks for a listing, which is what is searched for")
    return _template(text)


Url = Annotated[str, AfterValidator(_url)]
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Line = Annotated[Text, AfterValidator(_printable)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]
SomeTexts = Annotated[tuple[Text, ...], BeforeValidator(_listed), Field(min_length=1)]
Template = Annotated[str, AfterValidator(_template)]
SearchTemplate = Annotated[str, AfterValidator(_search_template)]
UserField = Literal[
    "first_name", "middle_name", "last_name", "birth_date", "email", "phone_number",
    "address1", "address2", "city", "state", "zip",
]  # fmt: skip


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Search(_Part):
    """How the site is asked for a person.

    ``fields`` go in the query (``get``) or in the form (``post``); each value is a template such as
    ``{first_name} {last_name}``. A search that asks for a place is made for each place that the person has.
    Marks are plain texts, looked for in the page without regard to case.
    """

    url: Url
    method: Literal["get", "post"] = "get"
    fields: Mapping[str, SearchTemplate] = {}
    answer: Literal["html", "json"] = "html"
    next: Texts = ()  # the selector of the next page's address
    pages_max: Annotated[int, Field(ge=1, le=50)] = 5
    no_results: SomeTexts
    blocked: Texts = ()
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 15


class Extractors(_Part):
    """How a page's listings are read.

    A selector is CSS, with ``@attribute`` behind it where not the text but an attribute is wanted (``@attribute``
    alone: of the listing itself). For a JSON answer it is a JMESPath expression. Several stand for several layouts:
    the first that finds something counts. ``item`` finds the listings; the others look inside one.
    """

    item: SomeTexts
    name: SomeTexts
    reference_id: SomeTexts
    href: Texts = ()
    age: Texts = ()
    relations: Texts = ()
    aliases: Texts = ()
    locations: Texts = ()
    emails: Texts = ()
    phone_numbers: Texts = ()


class Control(_Part):
    """A person of whom it is known that the site lists them."""

    first_name: str
    last_name: str
    city: str = ""
    state: str = ""

    def subject(self) -> Subject:
        """Them, to be looked for."""
        places = (Place(city=self.city, state=self.state),)
        return Subject(names=(Name(self.first_name, self.last_name),), places=places)


class Controls(_Part):
    """How to tell that the site works. An invented person is asked for as well, always."""

    listed: Control | None = None


class Removal(_Part):
    """How a listing is taken down: by a form that the service sends, or by a human."""

    method: Literal["form", "manual"]
    user_fields_required: tuple[UserField, ...] = ()
    url: Url | None = None  # where the form goes
    page: Url | None = None  # where the form stands, if its hidden fields are wanted
    fields: Mapping[str, Template] = {}
    accepted: Texts = ()
    refused: Texts = ()
    processing_days: Annotated[float, Field(ge=0, le=365)] = 7
    give_up_days: Annotated[float, Field(gt=0, le=365)] = 45  # still listed then: a human's job
    also_removes: tuple[str, ...] = ()  # sister sites that the same request serves

    @model_validator(mode="after")
    def _form_is_whole(self) -> Self:
        if self.method == "form" and not (self.url and self.accepted):
            raise ValueError("a form needs url and accepted")
        return self


class Verification(_Part):
    """When it is looked whether a listing is gone, and how often that must be seen."""

    after_days: Annotated[float, Field(ge=0, le=365)] | None = (
        None  # without: when the processing days are over
    )
    every_days: Annotated[float, Field(ge=1, le=90)] = 1  # two looks of one day are one
    confirmations: Annotated[int, Field(ge=2, le=10)] = GONE_LOOKS


class Politeness(_Part):
    """How gently the site is asked."""

    delay_s: Annotated[float, Field(ge=0, le=60)] = 2  # a look of a dozen requests must end in its time
    concurrency: Annotated[int, Field(ge=1, le=16)] = 1
    robots_txt: bool = True  # false only with the site's own permission


class Definition(_Part):
    """A people-search site.

    >>> from exposurekit.service.sites.loader import parsed
    >>> site = parsed('''
    ... name: Seekfolk
    ... guide: A free directory.
    ... opt_out_procedure: [Open the form., Press Remove.]
    ... opt_out_url: http://seekfolk.example/opt-out
    ... search:
    ...   url: http://seekfolk.example/search
    ...   fields: {name: "{first_name} {last_name}"}
    ...   no_results: Nobody of that name
    ... listings: {item: li.person, name: h2, reference_id: "@data-reference"}
    ... removal: {method: manual}
    ... ''')
    >>> site.name, site.search.method, site.politeness.delay_s
    ('Seekfolk', 'get', 2)
    """

    name: Annotated[Line, Field(max_length=200)]
    guide: Line
    opt_out_procedure: tuple[Line, ...]
    opt_out_url: Url
    search: Search
    listings: Extractors
    controls: Controls = Controls()
    removal: Removal
    verification: Verification = Verification()
    politeness: Politeness = Politeness()

    def missing(self, subject: Subject) -> tuple[str, ...]:
        """The user fields that a removal needs and the person lacks."""
        known = subject.values()
        return tuple(name for name in self.removal.user_fields_required if not known[name].strip())

    def site(self, subject: Subject) -> Site:
        """What is told about the site where one of its listings is of this person."""
        return Site(
            name=self.name,
            guide=self.guide,
            opt_out_procedure=self.opt_out_procedure,
            opt_out_url=self.opt_out_url,
            user_fields_required_for_removal=self.removal.user_fields_required,
            removed_by_us=self.removal.method == "form" and not self.missing(subject),
        )


def by_name(definitions: Iterable[Definition]) -> dict[str, Definition]:
    """The definitions, each under its name."""
    return {definition.name: definition for definition in definitions}
