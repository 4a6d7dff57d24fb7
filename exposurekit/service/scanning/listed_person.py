"""Listed people: who is listed on saved pages, and what their listings show, in a file that an operator writes."""

from datetime import date, timedelta
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.models import Listing
from exposurekit.service.scanning.extraction import AGE_MAX, LISTS
from exposurekit.service.scanning.field_selectors import Example
from exposurekit.service.scanning.selector_candidates import absolute
from exposurekit.service.sites import loader
from exposurekit.service.sites.definition import Control, Definition, Line, Texts
from exposurekit.text import plain_yaml
from exposurekit.text.plain_yaml import InvalidYaml
from exposurekit.text.words import words

PEOPLE_MAX = 10
DAYS_PER_YEAR = 365.25


class ListedPerson(Control):
    """A person who is listed on saved pages, and what their listing shows there, exactly as it shows it.

    A key that is missing is unknown; an empty list says that the listing shows none.
    """

    name: Line | None = None
    age: Annotated[int, Field(ge=0, le=AGE_MAX)] | None = None
    locations: Texts | None = None
    relations: Texts | None = None
    aliases: Texts | None = None
    emails: Texts | None = None
    phone_numbers: Texts | None = None
    reference_id: Line | None = None
    href: Line | None = None

    def __repr_args__(self) -> list[tuple[str, object]]:
        return []  # personal values

    def values(self) -> dict[str, tuple[str, ...]]:
        """Return the known values by field."""
        lists = {key: getattr(self, key) for key in LISTS}
        singles = {key: getattr(self, key) for key in ("age", "reference_id", "href")}
        values = {key: (str(value),) for key, value in singles.items() if value is not None}
        return values | {key: value for key, value in lists.items() if value is not None}

    def example(self) -> Example:
        """Return the person's listing for the induction of selectors."""
        values, partial = self.values(), frozenset[str]()
        if self.locations is None and self.city:
            values |= {"locations": (self.city,)}
            partial = frozenset({"locations"})
        name = Name(self.first_name, self.last_name)
        return Example(name=name, displayed_name=self.name, values=values, partial=partial)

    def subject_on(self, day: date) -> Subject:
        """Return the person as the subject of a scan, as old as listed on a day."""
        birth_date = None if self.age is None else day - timedelta(days=DAYS_PER_YEAR * (self.age + 0.5))
        return Subject(
            names=(Name(self.first_name, self.last_name),),
            birth_date=birth_date,
            places=(Place(city=self.city, state=self.state),) if self.city or self.state else (),
        )

    def agrees(self, listing: Listing, site: Definition, page_url: str | None) -> bool:
        """Return whether a page's listing has the known values in the fields that the site's definition extracts."""
        if not self.example().is_name(listing.name):
            return False
        fields = {key: getattr(listing, key) for key in ("age", "reference_id", "href", *LISTS)}
        extracted = ListedPerson.model_construct(**fields).values()  # texts of a page, perhaps unusual ones
        page_url = page_url or site.search.base
        for key, values in self.values().items():
            values_listed = extracted.get(key, ())
            expected = values if key != "href" else tuple(absolute(page_url, one) for one in values)
            if getattr(site.listings, key) and sorted(map(words, values_listed)) != sorted(
                map(words, expected)
            ):
                return False
        return True


_PEOPLE = TypeAdapter(tuple[ListedPerson, ...])


def parse_people(text: str, where: str) -> tuple[ListedPerson, ...]:
    """Parse one person, or a list of them, from YAML or JSON.

    Raises:
        ConfigurationError: The text is invalid; the message names lines and keys, and no value.
    """
    try:
        document = plain_yaml.read(text[: loader.SIZE_MAX])
    except InvalidYaml as error:
        raise ConfigurationError(f"{where}, line {error.line}: {error.explained}") from None
    values = document.value if isinstance(document.value, list) else [document.value]
    try:
        people = _PEOPLE.validate_python(values)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[0]
        number, *keys = details["loc"]
        around = (number,) if isinstance(document.value, list) else ()
        line, problem = loader.problem_of(
            ListedPerson, document, details | {"loc": tuple(keys)}, whole="the person", around=around
        )
        raise ConfigurationError(f"{where}, line {line}: {problem}") from None
    if not 1 <= len(people) <= PEOPLE_MAX:
        raise ConfigurationError(f"{where}: must have 1 to {PEOPLE_MAX} people")
    return people
