"""Site definitions: how a people-search site is searched and read, how to check that it works, and how to opt out.

`exposurekit sites check FILE` validates a definition and tries it on the site. `exposurekit/sandbox/world/definitions/`
has fifteen examples.
"""

import re
import string
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote, urljoin, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from exposurekit.service.accounts.subject import USER_FIELDS, Subject
from exposurekit.service.findings.removals import CONFIRMING_ABSENCES
from exposurekit.service.matching.opt_out_subject import as_listed
from exposurekit.service.models import Listing, Site
from exposurekit.text.us_addresses import STATES, state_code
from exposurekit.text.words import without_generation

TemplateName = Literal["ccpa", "gdpr", "neutral"]  # of an opt-out by email
ANSWER_WITHIN_DAYS: Mapping[TemplateName, float] = {"ccpa": 45, "gdpr": 30, "neutral": 30}
LISTING_FIELDS = frozenset({"reference_id", "href", "name"})  # that an opt-out form may contain
STATE_NAME = "state_name"  # of a search: the state's name, where `state` is its code
REQUEST_EMAIL = "request_email"  # the address of one opt-out request, at which the site's message is expected
_FORM_FIELDS = LISTING_FIELDS | {REQUEST_EMAIL}
# Steps of an alert on a site whose form a person sends, before those of the definition: only the operator has the values.
_ASK_OPERATOR = (
    "Ask the service's operator what to type into the form: “exposurekit users opt-outs” lists the values. Have the "
    "operator report the form once you have sent it."
)
_TYPE_REQUEST_EMAIL = (
    "Type the email address in that list, not the person's own: the service answers only what arrives there."
)
_EMAIL_FIRST = (
    "If the site did not carry out an earlier request, the service may ask by email first: the form is not in that list then, "
    "and there is nothing to do."
)
_HOST = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
_LOCAL_PART = re.compile(r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}")


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        raise ValueError("is not an http or https URL")
    return text


def _printable(text: str) -> str:
    if not text.replace("\n", " ").isprintable():
        raise ValueError("contains a control character")
    return text


def _template(text: str, valid: frozenset[str] = USER_FIELDS | _FORM_FIELDS) -> str:
    if unknown := {*_template_fields(text)} - valid:
        names = ", ".join(sorted(valid))
        raise ValueError(f"has unknown fields: {', '.join(sorted(unknown))}. Valid fields: {names}")
    return text


def _template_fields(text: str) -> tuple[str, ...]:
    """Return the fields of a template in their order."""
    try:
        parts = [part for part in string.Formatter().parse(text) if part[1] is not None]
    except ValueError:
        raise ValueError("has unbalanced braces") from None
    if any(spec or conversion for _, _, spec, conversion in parts):
        raise ValueError("has a format specification; write only the field's name in braces")
    return tuple(name or "" for _, name, _, _ in parts)


def _search_template(text: str) -> str:
    if any(f"{{{name}}}" in text for name in LISTING_FIELDS):
        raise ValueError("has a field of the listing, which a search does not know yet")
    if f"{{{REQUEST_EMAIL}}}" in text:
        raise ValueError(f"has the field {REQUEST_EMAIL}, which only an opt-out form may contain")
    return _template(text, USER_FIELDS | {STATE_NAME})


def _search_url(text: str) -> str:
    parts = urlsplit(_url(text))
    if set(f"{parts.netloc}?{parts.query}#{parts.fragment}") & {*"{}"}:
        raise ValueError("has a field outside of its path; those of the query are search.fields")
    return _search_template(text)


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError(
            "is not a host name in lower case, such as www.seekfolk.example, without scheme or path"
        )
    return text


def _sender(text: str) -> str:
    local, at, domain = text.rpartition("@")
    if not at or not _HOST.fullmatch(domain) or (local and not _LOCAL_PART.fullmatch(local)):
        raise ValueError("is not an email address in lower case, or @ and a domain")
    return text


def _address(text: str) -> str:
    if _sender(text).startswith("@"):
        raise ValueError("is not an email address in lower case")
    return text


def _path(text: str) -> str:
    if not text.startswith("/") or not text.isprintable() or set(text) & set(" ?#"):
        raise ValueError("is not the beginning of a path, such as /opt-out/confirm")
    return text


Url = Annotated[str, AfterValidator(_url)]
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Line = Annotated[Text, AfterValidator(_printable)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]
SomeTexts = Annotated[tuple[Text, ...], BeforeValidator(_listed), Field(min_length=1)]
Template = Annotated[str, AfterValidator(_template)]
SearchUrl = Annotated[str, AfterValidator(_search_url)]
SearchTemplate = Annotated[str, AfterValidator(_search_template)]
Host = Annotated[str, AfterValidator(_host)]
Address = Annotated[str, AfterValidator(_address)]
Sender = Annotated[str, AfterValidator(_sender)]
PathPrefix = Annotated[str, AfterValidator(_path)]
UserField = Literal[
    "first_name", "middle_name", "last_name", "birth_date", "email", "phone_number",
    "address1", "address2", "city", "state", "zip",
]  # fmt: skip


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Search(_Part):
    """How to search the site for a person.

    ``fields`` are sent as the query (``get``) or as a form (``post``); each value is a template such as
    ``{first_name} {last_name}``. A search with an address field is sent once per address of the person. The path of
    ``url`` may have such fields, too; a search without a value for one of them is not sent. ``path_space`` stands there
    for a blank in a value.
    ``person``: the service sends the site no search; a person saves the results in a browser.
    ``no_results`` and ``blocked`` are texts that the page contains in that case; case is ignored.
    """

    url: SearchUrl
    path_space: Literal["-", "_", "+", " "] = "-"
    method: Literal["get", "post", "person"] = "get"
    fields: Mapping[str, SearchTemplate] = {}
    answer: Literal["html", "json"] = "html"
    next: Texts = ()  # selector of the next page's URL
    pages_max: Annotated[int, Field(ge=1, le=50)] = 5
    no_results: SomeTexts
    blocked: Texts = ()
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 15

    @property
    def path_fields(self) -> tuple[str, ...]:
        """The fields in the path of ``url``."""
        return _template_fields(self.url)

    @property
    def base(self) -> str:
        """The address to which links are relative on a page whose own is unknown: never one with a field."""
        return urljoin(self.url, "/") if self.path_fields else self.url

    @property
    def query_keys(self) -> frozenset[str]:
        """The keys of a query: the parameters, and the fields of the path in braces."""
        return frozenset(self.fields).union(f"{{{name}}}" for name in self.path_fields)

    def user_fields(self, key: str) -> tuple[str, ...]:
        """Return the fields of a user in a part of the query, as a person has them."""
        fields = _template_fields(self.fields.get(key, key))  # a field of the path stands there in braces
        return tuple("state" if name == STATE_NAME else name for name in fields)

    def parts_with(self, user_field: str) -> tuple[str, ...]:
        """Return the parts of the search that contain a user's field: the keys of ``fields``, and ``url``."""
        templates = {**{f"fields.{name}": text for name, text in self.fields.items()}, "url": self.url}
        names = {user_field, STATE_NAME} if user_field == "state" else {user_field}
        return tuple(key for key, text in templates.items() if names & {*_template_fields(text)})

    def query(self, values: Mapping[str, str]) -> dict[str, str] | None:
        """Return the query for a person's values; None if the path lacks one. Sites list no Jr. under the last name."""
        state = state_code(values["state"])
        values = {**values, "state": state, STATE_NAME: STATES.get(state, state)}
        values["last_name"] = without_generation(values["last_name"])
        path = {f"{{{name}}}": " ".join(values[name].split()) for name in self.path_fields}
        parameters = {name: text.format_map(values) for name, text in self.fields.items()}
        return path | parameters if all(value.strip(" .") for value in path.values()) else None

    def parameters(self, query: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters of a query."""
        return {name: query[name] for name in self.fields}

    def address(self, query: Mapping[str, str]) -> str:
        """Return the address of a query, without its parameters."""
        values = {
            name: quote(query[f"{{{name}}}"].replace(" ", self.path_space), safe="+")
            for name in self.path_fields
        }
        return self.url.format_map(values)


class Extractors(_Part):
    """How to extract the listings from a page.

    A selector is CSS. Append ``@attribute`` to extract an attribute instead of the text; ``@attribute`` alone is an
    attribute of the listing's own element. For a JSON answer it is a JMESPath expression. Of several selectors, for
    several layouts, the first that matches is used. ``item`` selects the listings; the others apply within one.
    ``age`` is a whole number within the text: of 40s, 45-49 and 65+ no age is extracted.
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
    """A person who is known to be listed on the site."""

    first_name: str
    last_name: str
    city: str = ""
    state: str = ""

    def subject(self) -> Subject:
        """Return the person as the subject of a scan."""
        return Subject.from_city(self.first_name, self.last_name, city=self.city, state=self.state)


class Controls(_Part):
    """The person whose listing shows that the site works. Scans search for an invented person as well."""

    listed: Control | None = None


class Confirmation(_Part):
    """The message by which the site asks to confirm an opt-out, and the link in it, which is followed once.

    ``from`` is an address, or ``@`` and a domain for any address there. The subject contains one of ``subject``; case is
    ignored. The message must have a valid DKIM signature of ``signed_by``: the domain of ``from``, unless the definition
    names one below or above it. The link is the only one with the host ``link_host`` and a path that begins with
    ``link_path``. ``accepted`` and ``refused`` are texts of the page that it leads to.
    """

    sender: Sender = Field(alias="from")
    subject: SomeTexts
    link_host: Host
    link_path: PathPrefix = "/"
    accepted: SomeTexts
    refused: Texts = ()
    signed_by: Host | None = None  # None: the domain of `from`
    within_days: Annotated[float, Field(gt=0, le=90)] = 7  # no message by then: a person must act

    @model_validator(mode="after")
    def _signature_aligns(self) -> Self:
        one, other = self.sender_domain, self.signing_domain
        if one != other and not one.endswith(f".{other}") and not other.endswith(f".{one}"):
            raise ValueError("signed_by is neither the domain of from, nor below or above it")
        return self

    @property
    def sender_domain(self) -> str:
        """The domain that the message comes from."""
        return self.sender.rpartition("@")[2]

    @property
    def signing_domain(self) -> str:
        """The domain that signs the message."""
        return self.signed_by or self.sender_domain


class EmailOptOut(_Part):
    """An opt-out that is sent by email: to one address, and with one of the templates."""

    to: Address
    template: TemplateName
    answer_within_days: Annotated[float, Field(gt=0, le=365)] | None = None  # default: as the template says

    @property
    def answer_days(self) -> float:
        """Within how many days the site has to answer."""
        return self.answer_within_days or ANSWER_WITHIN_DAYS[self.template]


_ASSISTED_ONLY = ("minutes", "one_request_per")


class Removal(_Part):
    """How to remove a listing: with a form that the service submits, by email, by a person with its help, or manually.

    A form whose field is ``{request_email}`` gets an address of its own for each request. With ``confirm``, the removal
    counts once the link in the site's message to that address was followed.

    ``assisted``: a person opens the site's ``opt_out_url`` and types the values of ``fields``, which have the form's own
    labels; that takes about ``minutes``. A request of ``one_request_per: person`` removes all of the person's listings.
    With ``email``, the service follows up a request that the site did not carry out, if it can send.
    """

    method: Literal["form", "email", "assisted", "manual"]
    user_fields_required: tuple[UserField, ...] = ()
    url: Url | None = None  # where the form is submitted
    page: Url | None = None  # the page with the form, if its hidden fields are required
    fields: Mapping[str, Template] = {}
    accepted: Texts = ()
    refused: Texts = ()
    confirm: Confirmation | None = None
    minutes: Annotated[float, Field(gt=0, le=240)] = 5  # of a person's time, for one request
    one_request_per: Literal["listing", "person"] = "listing"
    email: EmailOptOut | None = None
    processing_days: Annotated[float, Field(ge=0, le=365)] = 7
    give_up_days: Annotated[float, Field(gt=0, le=365)] = 45  # still listed then: a person must act
    also_removes: tuple[str, ...] = ()  # sister sites that the same request removes from

    @property
    def declared_days(self) -> float | None:
        """The days that the definition states for a removal; None: it states none, so the default applies."""
        if "processing_days" in self.model_fields_set:
            return self.processing_days
        return self.email.answer_within_days if self.email and self.method == "email" else None

    @model_validator(mode="after")
    def _form_is_complete(self) -> Self:
        if self.method == "form" and not (self.url and self.accepted):
            raise ValueError("method form requires url and accepted")
        if self.method == "email" and self.email is None:
            raise ValueError("method email requires the block email")
        if self.email and self.method not in {"email", "assisted"}:
            raise ValueError("the block email requires method email or assisted")
        if self.confirm and self.method not in {"form", "assisted"}:
            raise ValueError("confirm requires method form or assisted")
        if self.method == "assisted":
            if self.url or self.page or self.accepted or self.refused:
                raise ValueError(
                    "method assisted has no url, page, accepted or refused: a person opens opt_out_url, and reads the answer"
                )
        elif any(getattr(self, name) != Removal.model_fields[name].default for name in _ASSISTED_ONLY):
            raise ValueError("minutes and one_request_per require method assisted")
        if (self.confirm is not None) != any(f"{{{REQUEST_EMAIL}}}" in one for one in self.fields.values()):
            raise ValueError("confirm and a field {request_email} require each other")
        return self


class Verification(_Part):
    """When to scan for a removed listing, and how many absences confirm the removal."""

    after_days: Annotated[float, Field(ge=0, le=365)] | None = None  # default: after the processing days
    every_days: Annotated[float, Field(ge=1, le=90)] = 1  # two scans on one day count once
    confirmations: Annotated[int, Field(ge=2, le=10)] = CONFIRMING_ABSENCES


class Politeness(_Part):
    """Delay and concurrency of requests to the site, and whether robots.txt applies."""

    delay_s: Annotated[float, Field(ge=0, le=60)] = 2  # a dozen requests must end before the scan's lease
    concurrency: Annotated[int, Field(ge=1, le=16)] = 1
    robots_txt: bool = True  # false only with the site's permission


class Definition(_Part):
    """A people-search site."""

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

    def missing(self, subject: Subject, record: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the required user fields that the opt-out for a listing, which states its name and address, would lack."""
        if not self.removal.user_fields_required:
            return ()
        values = as_listed(subject, record).values()
        return tuple(name for name in self.removal.user_fields_required if not values[name].strip())

    @property
    def needs_mailbox(self) -> bool:
        """Whether an opt-out works only with a mailbox in which the site's message arrives."""
        return self.removal.confirm is not None or self.sends_email

    @property
    def sends_email(self) -> bool:
        """Whether an opt-out is sent by email, and not only a follow-up."""
        return self.removal.method == "email"

    @property
    def opt_out_fields(self) -> tuple[str, ...]:
        """The user fields that an opt-out contains or requires."""
        contained = {name for text in self.removal.fields.values() for name in _template_fields(text)}
        contained |= {*self.removal.user_fields_required}
        if self.removal.email is not None:
            contained |= {"first_name", "middle_name", "last_name"}
        return tuple(sorted(contained & USER_FIELDS))

    def clears(self, site: str) -> bool:
        """Return whether an opt-out for one listing also removes the person's other listings on a site."""
        removal = self.removal
        return site in removal.also_removes or (site == self.name and removal.one_request_per == "person")

    def manual(self) -> Self:
        """Return the site with removals left to a person, as without a mailbox."""
        changed: dict[str, Any] = {"method": "manual", "confirm": None, "email": None, "fields": {}}
        return self.model_copy(update={"removal": self.removal.model_copy(update=changed)})

    def _operator_steps(self) -> tuple[str, ...]:
        if self.removal.method != "assisted":
            return ()
        typing = (_TYPE_REQUEST_EMAIL,) if self.needs_mailbox else ()
        following_up = (_EMAIL_FIRST,) if self.removal.email else ()
        return (_ASK_OPERATOR, *typing, *following_up)

    @property
    def sends_opt_outs(self) -> bool:
        """Whether the service sends the opt-outs itself: a form, or an email."""
        return self.removal.method in {"form", "email"}

    @property
    def prepares_opt_outs(self) -> bool:
        """Whether a person sends the opt-outs, and the service has to issue an address before, or to follow up others."""
        return self.removal.method == "assisted" and (self.needs_mailbox or self.removal.email is not None)

    def site(self) -> Site:
        """Return the site's description, as for a listing whose opt-out the service cannot send."""
        return Site(
            name=self.name,
            guide=self.guide,
            opt_out_procedure=(*self._operator_steps(), *self.opt_out_procedure),
            opt_out_url=self.opt_out_url,
            user_fields_required_for_removal=self.removal.user_fields_required,
            opt_out_fields=self.opt_out_fields,
            prepared_by_us=self.prepares_opt_outs,
        )

    def site_of(self, listing: Listing, subject: Subject) -> Site:
        """Return the site's description for a listing of a person."""
        record = {name: getattr(listing, name) for name in ("name", "aliases", "locations")}
        return replace(self.site(), removed_by_us=self.sends_opt_outs and not self.missing(subject, record))
