"""The invented people-search sites and ordinary pages of the make-believe web, as data. Serves no page itself."""

from dataclasses import dataclass
from typing import Literal

Removal = Literal["at once", "after days", "never", "human", "relists"]


@dataclass(frozen=True, kw_only=True)
class WorldSite:
    """A people-search site: what it shows, and how it behaves when somebody asks to be taken off it.

    `name_format` and `location_format` are templates of `str.format`. `removal_days` is how long a request takes,
    None where none is ever granted. Sites of one `sister_group` share their opt-out: one request covers all of them.
    """

    name: str
    host: str
    guide: str
    opt_out_procedure: tuple[str, ...]
    user_fields_required_for_removal: tuple[str, ...]
    removal: Removal
    removal_days: int | None
    listing_probability: float
    opt_out_path: str = "/opt-out"
    shows_age: bool = True
    shows_relations: bool = True
    shows_aliases: bool = True
    shows_href: bool = True
    name_format: str = "{first} {last}"
    location_format: str = "{city}, {state}"
    sister_group: str | None = None

    @property
    def opt_out_url(self) -> str:
        """Where a request to be taken off begins.

        >>> SITES[0].opt_out_url
        'https://seekfolk.example/opt-out'
        """
        return f"https://{self.host}{self.opt_out_path}"


@dataclass(frozen=True)
class WorldPage:
    """An ordinary page that mentions people; `path` and `title` are templates of `str.format`."""

    host: str
    path: str
    title: str
    contains: tuple[str, ...]


SITES = (
    WorldSite(
        name="Seekfolk",
        host="seekfolk.example",
        guide="Seekfolk is a free directory that anybody can search by name. It shows age, towns and relatives on an open page. Requests made with its form are carried out at once.",
        opt_out_procedure=(
            "Search for your name on seekfolk.example and open your listing.",
            "Copy the address of the listing.",
            "Open seekfolk.example/opt-out and paste the address into the form.",
            "Press “Take me off” and keep the page that confirms it.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "city", "state"),
        removal="at once",
        removal_days=0,
        listing_probability=0.88,
    ),
    WorldSite(
        name="Whomsoever Directory",
        host="whomsoever.example",
        guide="Whomsoever Directory copies old phone books and adds what it buys elsewhere. A listing shows the full street address. It takes about ten days to act on a request.",
        opt_out_procedure=(
            "Open whomsoever.example/privacy/remove.",
            "Enter your name and your street address exactly as the listing shows them.",
            "Choose “This is my own listing” and send the form.",
            "Wait ten days, then search for your name again.",
            "If the listing is still there, send the form once more.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "address1", "city", "state", "zip"),
        removal="after days",
        removal_days=10,
        listing_probability=0.78,
        opt_out_path="/privacy/remove",
        shows_age=False,
        name_format="{last}, {first}",
        location_format="{address1}, {city}, {state} {zip}",
    ),
    WorldSite(
        name="Lanternpost People",
        host="lanternpost.example",
        guide="Lanternpost People gathers public notices and lists everybody a notice names. Listings show the age and former towns, and no relatives. Removal takes three days.",
        opt_out_procedure=(
            "Find your listing and note the twelve digits of its reference.",
            "Open lanternpost.example/opt-out and enter the reference.",
            "Enter your date of birth to show that the listing is yours, and send the form.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "birth_date"),
        removal="after days",
        removal_days=3,
        listing_probability=0.72,
        shows_relations=False,
        name_format="{first} {initial} {last}",
    ),
    WorldSite(
        name="Nosy Heron",
        host="nosyheron.example",
        guide="Nosy Heron sells reports and shows a free summary with age, other names and relatives. It confirms every request by e-mail, so a person has to click the link it sends.",
        opt_out_procedure=(
            "Open nosyheron.example/opt-out and search for your name.",
            "Choose your summary and enter your e-mail address.",
            "Solve the picture puzzle and send the form.",
            "Open the e-mail from Nosy Heron within a day and click the link in it.",
            "Wait for the second e-mail, which says that the summary is gone.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "email"),
        removal="human",
        removal_days=5,
        listing_probability=0.75,
        location_format="{city} {state}",
    ),
    WorldSite(
        name="Doorbell Almanac",
        host="doorbellalmanac.example",
        guide="Doorbell Almanac lists who lives at an address, house by house. It shows no age and names everybody in the household as a relation.",
        opt_out_procedure=(
            "Open doorbellalmanac.example/household/hide.",
            "Enter the street address and the ZIP code.",
            "Tick your own name among those that appear, and press “Hide”.",
        ),
        user_fields_required_for_removal=("last_name", "address1", "zip"),
        removal="after days",
        removal_days=14,
        listing_probability=0.68,
        opt_out_path="/household/hide",
        shows_age=False,
        shows_aliases=False,
        location_format="{address1}, {city}, {state} {zip}",
    ),
    WorldSite(
        name="Tattleberry",
        host="tattleberry.example",
        guide="Tattleberry takes listings down within two days and buys fresh data every month. People who were removed are often listed again, with the same reference.",
        opt_out_procedure=(
            "Open tattleberry.example/opt-out.",
            "Enter your name, city and state, and choose your listing.",
            "Press “Remove” and save the confirmation.",
            "Search again after each month, and repeat the request if you are back.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "city", "state"),
        removal="relists",
        removal_days=2,
        listing_probability=0.74,
    ),
    WorldSite(
        name="Crumbtrail Register",
        host="crumbtrail.example",
        guide="Crumbtrail Register says that its listings are a public archive. It acknowledges requests and refuses them, or never acts. The listing shows age, other names and towns.",
        opt_out_procedure=(
            "Write to privacy@crumbtrail.example, name the listing, and ask in writing for its removal.",
        ),
        user_fields_required_for_removal=("first_name", "last_name"),
        removal="never",
        removal_days=None,
        listing_probability=0.55,
        opt_out_path="/about/privacy",
        name_format="{LAST} {FIRST} {INITIAL}",
        location_format="{CITY} {state}",
    ),
    WorldSite(
        name="Pigeonloft Public",
        host="pigeonloft.example",
        guide="Pigeonloft Public answers searches with a table and gives its listings no address of their own. It shows the age and the latest town.",
        opt_out_procedure=(
            "Open pigeonloft.example/opt-out.",
            "Enter your name, your date of birth and your ZIP code.",
            "Send the form; the row is gone when the page loads again.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "birth_date", "zip"),
        removal="at once",
        removal_days=0,
        listing_probability=0.6,
        shows_relations=False,
        shows_aliases=False,
        shows_href=False,
        location_format="{city}, {state} {zip}",
    ),
    WorldSite(
        name="Mothlight Finder",
        host="mothlightfinder.example",
        guide="Mothlight Finder and Mothlight Neighbors are run by the same people. One request, made on either of them, covers both, and takes a week.",
        opt_out_procedure=(
            "Open mothlightfinder.example/opt-out; it serves Mothlight Neighbors too.",
            "Enter your name, city and state.",
            "Choose every listing that is yours, on both sites.",
            "Send the form and wait a week.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "city", "state"),
        removal="after days",
        removal_days=7,
        listing_probability=0.62,
        name_format="{first} {middle} {last}",
        sister_group="Mothlight",
    ),
    WorldSite(
        name="Mothlight Neighbors",
        host="mothlightneighbors.example",
        guide="Mothlight Neighbors is the sister site of Mothlight Finder, and shows who lives near whom. A request made on either site covers both.",
        opt_out_procedure=(
            "Make the request on mothlightfinder.example/opt-out; it covers Mothlight Neighbors too.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "city", "state"),
        removal="after days",
        removal_days=7,
        listing_probability=0.5,
        shows_age=False,
        shows_aliases=False,
        location_format="{address1}, {city}, {state}",
        sister_group="Mothlight",
    ),
    WorldSite(
        name="Brambledex",
        host="brambledex.example",
        guide="Brambledex lists people by phone number and e-mail address. It asks everybody who wants to leave for a copy of a bill, so only a person can make the request.",
        opt_out_procedure=(
            "Open brambledex.example/leave and print the request form.",
            "Fill in your name, your address and the reference of the listing.",
            "Cover everything but the name and address on a recent bill, and copy it.",
            "Send form and copy by post to the address on the page.",
            "Note the day; Brambledex answers within thirty days.",
            "Search for your name again after that.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "address1", "city", "state", "zip"),
        removal="human",
        removal_days=30,
        listing_probability=0.45,
        opt_out_path="/leave",
        shows_age=False,
        shows_relations=False,
        name_format="{first} {initial} {last}",
    ),
    WorldSite(
        name="Umbrella Kin",
        host="umbrellakin.example",
        guide="Umbrella Kin draws family trees of the living. It shows relatives and maiden names, and takes a family's listing down and puts it up again when a cousin returns.",
        opt_out_procedure=(
            "Open umbrellakin.example/opt-out and find your tree.",
            "Choose your own leaf and press “Prune”.",
            "Repeat the request whenever a relative adds you again.",
        ),
        user_fields_required_for_removal=("first_name", "last_name", "birth_date"),
        removal="relists",
        removal_days=4,
        listing_probability=0.55,
        name_format="{first} {middle} {last}",
    ),
)

PAGES = (
    WorldPage(
        "quillmarsh-gazette.example",
        "/archive/{town}/{slug}",
        "Letters to the editor: {first} {last} of {city}",
        ("address",),
    ),
    WorldPage(
        "kite-club.example", "/members/{slug}", "Kite club members, {last} and others", ("email", "phone")
    ),
    WorldPage("harvest-fair.example", "/stalls/{slug}", "{first} {last} at the harvest fair", ("phone",)),
    WorldPage("bell-ringers.example", "/{state}/{town}", "Bell ringers of {city}: who to ask", ("email",)),
    WorldPage(
        "town-minutes.example",
        "/{state}/{town}/minutes",
        "Minutes of the {city} planning board",
        ("address",),
    ),
    WorldPage(
        "choir-of-moths.example", "/programme/{slug}", "Spring concert: {first} {last}, alto", ("email",)
    ),
    WorldPage(
        "lost-umbrellas.example",
        "/notices/{number}",
        "Lost: one umbrella. Please tell {first}",
        ("email", "phone"),
    ),
    WorldPage("fun-run.example", "/results/{number}", "Fun run results: {last}, {first}", ("address",)),
    WorldPage("old-resumes.example", "/cv/{slug}", "Résumé of {first} {last}", ("email", "address", "phone")),
    WorldPage(
        "pie-contest.example",
        "/{state}/{town}/winners",
        "Pie contest winners from {city}",
        ("address", "phone"),
    ),
)
