"""The guarded web's sites: 45, made from the traits of their ten owners.

Most searches are behind a bot check, and most opt-outs have a puzzle and wait for a message, as on the real web.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Literal

from exposurekit.sandbox.world import data_files
from exposurekit.sandbox.world.sites import Removal, WorldSite
from exposurekit.service.sites.definition import Definition

Behaviour = Literal["honest", "lies", "relists", "forgets", "denies", "ignores"]
NO_RESULTS, WALL = "Nobody here goes by that name", "Please show that you are not a robot"
RECEIVED, SENT_MAIL, CONFIRMED = (
    "Your request has been received",
    "We have sent you a message",
    "You have confirmed",
)
REFUSED, USED = "We could not verify", "This link leads nowhere"
SUBJECT = "Confirm your request"
_REMOVALS: Mapping[Behaviour, Removal] = {
    "honest": "after days",
    "lies": "lies",
    "relists": "relists",
    "forgets": "after days",
    "denies": "after days",
    "ignores": "never",
}
_SEARCHES: tuple[dict[str, str], ...] = (
    {"name": "{first_name} {last_name}"},
    {"first": "{first_name}", "last": "{last_name}"},
    {"forename": "{first_name}", "surname": "{last_name}"},
)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who runs some sites, and takes opt-outs for all of them on a host of its own.

    `behaviour`: it does what it says; needs a multiple of its `processing_days`; lists people again; sends no message to
    some first requests; denies some people; or answers every request and removes nothing.
    """

    name: str
    sites: str  # separated by blanks
    walled: int  # sites whose search is behind a bot check: the first ones
    behaviour: Behaviour
    processing_days: float
    probability: float  # of a person's listing on each of its sites
    method: Literal["form", "assisted"] = "assisted"
    mail: bool = True
    puzzle: bool = True
    minutes: float | None = None
    one_request_per: Literal["listing", "person"] = "person"
    redesigned_on: int | None = None  # the day of the new layout

    @property
    def domain(self) -> str:
        """Its domain, which signs its messages."""
        return f"{self.name.lower()}.example"

    @property
    def host(self) -> str:
        """The host of its opt-out forms."""
        return f"privacy.{self.domain}"

    @property
    def address(self) -> str:
        """Where it takes requests by email."""
        return f"privacy@{self.domain}"


@dataclass(frozen=True, kw_only=True)
class GuardedSite(WorldSite):
    """A site of the guarded web; ``file`` is its layout."""

    site_name: str
    number: int
    owner: Owner = field(repr=False)
    walled: bool
    redesigned_at: datetime | None = None

    @cached_property
    def definition(self) -> Definition:
        """Its definition, for the layout that it begins with."""
        return Definition.model_validate(self._parts(_WEB.layouts[self.file]))

    def definition_on(self, day: date) -> Definition:
        """Return its definition for its layout on a day: what a person reads on its pages."""
        return Definition.model_validate(self._parts(_WEB.layouts[self.layout_on(day)]))

    @property
    def new_layout(self) -> str:
        """The layout after a redesign."""
        names = [*_WEB.layouts]
        return names[(names.index(self.file) + 1) % len(names)]

    @property
    def opt_out_path(self) -> str:
        """The path of its form on its owner's host."""
        return f"/opt-out/{self.site_name.lower()}"

    def layout_on(self, day: date) -> str:
        """Return the name of its layout on a day."""
        is_new = self.redesigned_at is not None and day >= self.redesigned_at.date()
        return self.new_layout if is_new else self.file

    def _parts(self, listings: Mapping[str, Any]) -> dict[str, Any]:
        at, form_url = (
            f"http://{self.site_name.lower()}.example",
            f"http://{self.owner.host}{self.opt_out_path}",
        )
        return {
            "name": self.site_name,
            "guide": f"{self.site_name} is one of {self.owner.name}'s sites, which share their opt-out.",
            "opt_out_procedure": [
                f"Open {self.owner.host}{self.opt_out_path}, fill in the form and send it.",
                *(["Open the link in the message that follows."] if self.owner.mail else []),
            ],
            "opt_out_url": form_url,
            "search": {
                "url": f"{at}/search",
                "method": "person" if self.walled else "get",
                "fields": _SEARCHES[self.number % len(_SEARCHES)],
                "no_results": NO_RESULTS,
                "blocked": WALL,
                **({"next": "a.next@href"} if self.page_size else {}),
            },
            "listings": listings,
            "controls": {
                "listed": {
                    "first_name": "Resident",
                    "last_name": self.site_name,
                    "city": "Jasperholt",
                    "state": "OH",
                }
            },
            "removal": self._removal(form_url),
            "verification": {"every_days": 3 if self.walled else 1},  # each costs a person a page
        }

    def _removal(self, form_url: str) -> dict[str, Any]:
        owner = self.owner
        fields = {"Listing": "{href}" if self.number % 2 else "{reference_id}", "State": "{state}"}
        removal: dict[str, Any] = {
            "method": owner.method,
            "user_fields_required": ["state"],
            "processing_days": owner.processing_days,
            "give_up_days": 30,
            "also_removes": [name for name in owner.sites.split() if name != self.site_name],
            "fields": fields | ({"Email": "{request_email}"} if owner.mail else {}),
        }
        if owner.method == "form":
            accepted = SENT_MAIL if owner.mail else RECEIVED
            removal |= {"url": form_url, "accepted": accepted, "refused": REFUSED}
        else:
            removal |= {"minutes": owner.minutes, "one_request_per": owner.one_request_per}
            removal["email"] = {"to": owner.address, "template": "ccpa"}
        if owner.mail:
            removal["confirm"] = {
                "from": f"no-reply@{owner.domain}",
                "subject": SUBJECT,
                "link_host": owner.host,
                "link_path": "/confirm",
                "accepted": CONFIRMED,
                "refused": USED,
            }
        return removal


@dataclass(frozen=True)
class _Web:
    layouts: Mapping[str, Mapping[str, str]]
    owners: tuple[Owner, ...]


def guarded_sites(start: datetime) -> tuple[GuardedSite, ...]:
    """Return the sites of a web that begins at `start`."""
    owned = [
        (owner, name, index < owner.walled)
        for owner in OWNERS
        for index, name in enumerate(owner.sites.split())
    ]
    return tuple(
        _site(owner, name, number, start, walled=walled) for number, (owner, name, walled) in enumerate(owned)
    )


def _site(owner: Owner, name: str, number: int, start: datetime, *, walled: bool) -> GuardedSite:
    day = owner.redesigned_on
    return GuardedSite(
        file=[*_WEB.layouts][number % len(_WEB.layouts)],
        site_name=name,
        number=number,
        owner=owner,
        walled=walled,
        removal=_REMOVALS[owner.behaviour],
        listing_probability=owner.probability,
        name_parameters=tuple(_SEARCHES[number % len(_SEARCHES)]),
        page_size=2 if number % 4 == 0 else None,
        sister_group=owner.name,
        one_request_per=owner.one_request_per,
        redesigned_at=None if day is None else start + timedelta(days=day),
    )


_WEB = data_files.read("guarded_sites", _Web)
OWNERS = _WEB.owners
