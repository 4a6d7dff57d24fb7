"""Whose a listing is: names in every spelling, what makes a match, and how often it errs on an invented population."""

import random
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.sandbox.world.people import invent
from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.models import Listing
from exposurekit.service.scanning.matching import match, name_fits
from exposurekit.service.scanning.name_matching import names_fit
from exposurekit.service.scanning.normalize import phone, street

TODAY = date(2026, 1, 1)
BART = Subject(
    names=(
        Name("Bartholomew", "Nettle-Moor", "Quentin"),
        Name("Bart", "Nettle-Moor"),
        Name("Bartholomew", "Otterwick"),
    ),
    birth_date=date(1984, 5, 1),
    emails=("bart@example.com",),
    phone_numbers=("6095550123",),
    places=(
        Place("12 Acorn Street", "Apt 4", "Saint Quillmarsh", "NJ", "07099"),
        Place("900 Kite Ave", "", "Fort Whistle", "New York", "14099"),
    ),
)


def site_listing(name="Bartholomew Nettle-Moor", **more):
    return Listing(name=name, reference_id="r1", **more)


def judged(name="Bartholomew Nettle-Moor", subject=BART, **more):
    return match(subject, site_listing(name, **more), TODAY)


@pytest.mark.parametrize(
    "name",
    [
        "Bartholomew Nettle-Moor",
        "BARTHOLOMEW NETTLE MOOR",
        "Nettle-Moor, Bartholomew Q.",
        "NETTLEMOOR BARTHOLOMEW Q",
        "Nettle Moor Bartholomew",
        "Mr. Bartholomew Quentin Nettle-Moor Jr.",
        'B. "Bart" Nettle-Moor',
        "Bart Nettle-Moor",
        "Bartel Nettle-Moor",  # a nickname that was not registered
        "B Nettle-Moor",
        "Bartholomew Moor",
        "Bartholomew Otterwick",
        "Bartholomew Otterwick Nettle-Moor",
        "Bartholemew Nettle-Moor",
        "Bartholomew Nettle-Mor",
        "Bàrthölomew Néttle-Moor",
    ],
)
def test_a_name_fits_in_any_spelling(name):
    assert names_fit(BART.names, name) is not None


@pytest.mark.parametrize(
    "name",
    [
        "",
        ",",
        "Nettle-Moor",
        "Bartholomew",
        "Bartholomew Nettleford",
        "Bartholomew Q",
        "Wren Nettle-Moor",
        "C Nettle-Moor",
        "Moor Nettle",
        "Bartholemew Nettle-Mor",  # two slips are another name
        "Quentin Otterwick",
    ],
)
def test_another_name_does_not_fit(name):
    assert names_fit(BART.names, name) is None
    strong = judged(name, emails=("bart@example.com",), age=41)
    assert (strong.verdict, strong.score) == ("other", 0.0)


@pytest.mark.parametrize(
    ("name", "listed_name"),
    [
        (Name("Pat", "O'Thimble"), "PAT OTHIMBLE"),
        (Name("Pat", "O'Thimble"), "O\u2019Thimble, Pat"),
        (Name("Ann", "St. Quillon"), "ST QUILLON ANN"),
        (Name("Mary Ann", "De la Vega"), "Mary-Ann De La Vega"),
        (Name("Mary-Ann", "Quill"), "QUILL MARYANN"),
        (Name("Prince", "Quill"), "Prince Quill"),
        (Name("Judge", "Quill"), "Judge M Quill"),
        (Name("Zoë", "Pérelarque"), "ZOE PERELARQUE"),
        (Name("Bjørn", "Fennoñez"), "Bjorn Fennonez"),
        (Name("Una", "Quill"), "Quill, Una"),
    ],
)
def test_odd_names_fit_as_well(name, listed_name):
    assert names_fit([name], listed_name) is not None


def test_a_short_name_forgives_no_slip():
    assert names_fit([Name("Ione", "Otterwick")], "Iona Otterwick") is None
    assert names_fit([Name("Hazel", "Quill")], "Hazel Quilt") is None


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        ({}, "possible"),
        ({"age": 41}, "possible"),
        ({"locations": ("Saint Quillmarsh, NJ",)}, "possible"),
        ({"locations": ("Elsewhere, NJ",)}, "possible"),
        ({"locations": ("Elsewhere, TX",)}, "other"),
        ({"age": 41, "locations": ("Elsewhere, TX",)}, "possible"),
        ({"age": 41, "locations": ("ST QUILLMARSH NJ",)}, "match"),
        ({"age": 42, "locations": ("Elsewhere, TX", "Ft. Whistle, New York 14099")}, "match"),
        ({"age": 40, "locations": ("NY 14099",)}, "match"),
        ({"age": 40, "locations": ("Fort Whistle",)}, "match"),
        ({"age": 41, "locations": ("Fort Whistle, TX",)}, "possible"),
        ({"age": 41, "locations": ("North Fort Whistle, NY",)}, "possible"),
        ({"age": 41, "locations": ("12 Fort Whistle Road, Elsewhere, NY",)}, "possible"),
        ({"age": 39, "locations": ("Fort Whistle, NY",)}, "match"),  # pages grow old
        ({"age": 38, "locations": ("Fort Whistle, NY",)}, "possible"),
        ({"age": 43, "locations": ("Fort Whistle, NY",)}, "possible"),
        ({"age": 30, "locations": ("Fort Whistle, NY",)}, "other"),
        ({"age": 30}, "other"),
        ({"emails": ("BART@example.com",)}, "match"),
        ({"emails": ("bart@example.com",), "age": 70}, "match"),
        ({"phone_numbers": ("+1 (609) 555-0123",)}, "match"),
        ({"phone_numbers": ("609.555.0123",), "locations": ("Elsewhere, TX",)}, "match"),
        ({"phone_numbers": ("609.555.0124",)}, "possible"),
        ({"locations": ("12 ACORN ST APT 9, Saint Quillmarsh NJ",)}, "match"),
        ({"locations": ("12 Acorn Street, Apt 4",)}, "match"),
        ({"locations": ("12 Acorn Street, Elsewhere",)}, "possible"),
        ({"locations": ("12 Acorn Street, Elsewhere, TX",)}, "other"),
        ({"locations": ("12 Acorn Avenue, Saint Quillmarsh, NJ",)}, "possible"),
        # a father of the same name, at the same place
        (
            {"locations": ("12 Acorn St, St Quillmarsh, NJ",), "phone_numbers": ("6095550123",), "age": 70},
            "possible",
        ),
    ],
)
def test_two_identifiers_or_a_strong_one_make_a_match(evidence, verdict):
    assert judged(**evidence).verdict == verdict


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("Bartholomew Quentin Nettle-Moor", "match"),
        ("Bartholomew Q Nettle-Moor", "match"),
        ("Bartholomew Z Nettle-Moor", "possible"),
        ("Bartholomew Otterwick Nettle-Moor", "match"),  # the name before marriage in the middle
        ("B Nettle-Moor", "possible"),
        ("Bartholemew Nettle-Moor", "match"),
    ],
)
def test_the_name_itself_weighs_with_age_and_city(name, verdict):
    assert judged(name, age=41, locations=("Fort Whistle, NY",)).verdict == verdict


def test_a_middle_name_is_no_second_identifier():
    assert judged("Bartholomew Quentin Nettle-Moor", age=41).verdict == "possible"


def test_an_alias_that_is_shown_fits_as_well():
    judgement = judged(
        "Bee Elsewhere", aliases=("Bart Nettle-Moor",), age=41, locations=("Fort Whistle, NY",)
    )
    assert judgement.verdict == "match"
    assert "name: shown as an alias" in judgement.reasons
    assert name_fits(BART, site_listing("Bee Elsewhere", aliases=("Bart Nettle-Moor",)))
    assert not name_fits(BART, site_listing("Bee Elsewhere"))


def test_what_is_not_known_says_nothing():
    bare = Subject(names=(Name("Bartholomew", "Nettle-Moor"),))
    judgement = judged(subject=bare, age=30, locations=("Elsewhere, TX",), phone_numbers=("x",), emails=("",))
    assert (judgement.verdict, judgement.reasons) == ("possible", ("name: the same",))


def test_the_reasons_hold_no_personal_value():
    judgement = judged(
        "Bartel Q Nettle-Moor",
        age=41,
        emails=("bart@example.com",),
        phone_numbers=("6095550123",),
        locations=("12 Acorn St, St Quillmarsh, NJ",),
    )
    assert judgement.reasons == (
        "name: nickname of the registered first name",
        "middle initial",
        "email address",
        "phone number",
        "age agrees",
        "street",
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("609-555-0123", "+16095550123"),
        ("(609) 555 0123", "1.609.555.0123"),
        ("+44 20 7946 0123", "+44 (0)20 79460123"),
    ],
)
def test_a_phone_number_is_the_same_in_any_spelling(one, other):
    assert phone(one) == phone(other) is not None


@pytest.mark.parametrize("line", ["", "Acorn Cottage", "12", "Apt 4"])
def test_a_line_that_names_no_house_is_no_street(line):
    assert street(line) is None


# A seeded population: what sites with age and city show of everybody, and of strangers with the same names.


def subject_of(person):
    lists = {"addresses": [vars(address) for address in person.addresses]}
    lists |= {"aliases": [vars(alias) for alias in person.aliases]}
    lists |= {"emails": [{"address": address} for address in person.emails]}
    lists |= {"phone_numbers": [{"number": number} for number in person.phone_numbers]}
    return Subject.from_profile(vars(person), lists)


FORMATS = ("{0} {2}", "{0} {1} {2}", "{0} {3} {2}", "{2}, {0} {3}", "{2} {0} {3}")
PEOPLE = invent(1_500, seed=11)


def spelled(rng, first, middle, last):
    if rng.random() < 0.05 and len(last) > 7:  # a slip of the pen
        at = rng.randrange(1, len(last) - 1)
        last = last[:at] + last[at + 1 :]
    name = " ".join(rng.choice(FORMATS).format(first, middle or "", last, (middle or "")[:1]).split())
    return name.upper() if rng.random() < 0.3 else name


def listing_of(rng, person):
    """Of the person: an age that may be stale, an address that may be an old one or one that is not known."""
    age = subject_of(person).age_on(TODAY)
    address = rng.choice(person.addresses if rng.random() < 0.95 else rng.choice(PEOPLE).addresses)
    first = rng.choice([alias.first_name for alias in person.aliases] or [person.first_name])
    return site_listing(
        spelled(
            rng, first if rng.random() < 0.2 else person.first_name, person.middle_name, person.last_name
        ),
        age=None if age is None or rng.random() < 0.02 else age - rng.choice((0, 0, 0, 0, 0, 0, 0, 1, 1, 2)),
        locations=(f"{address.city}, {address.state}",),
    )


def stranger_of(rng, person):
    """A namesake: in another town as a rule, in the same one at times, with an age and a middle name of their own."""
    middle = rng.choice((None, rng.choice(PEOPLE).first_name))
    home = rng.choice((person, *rng.sample(PEOPLE, 4))).addresses[0]
    return site_listing(
        spelled(rng, person.first_name, middle, person.last_name),
        age=rng.randint(19, 92) if rng.random() < 0.95 else None,
        locations=(f"{home.city}, {home.state}",),
    )


def counted(listings):
    counts = {"match": 0, "possible": 0, "other": 0}
    for person, listing in listings:
        counts[match(subject_of(person), listing, TODAY).verdict] += 1
    return counts


def test_matches_are_precise_and_mostly_complete_with_age_and_city():
    rng = random.Random(3)  # noqa: S311  make-believe
    dated = [person for person in PEOPLE if person.birth_date is not None]
    own = counted((person, listing_of(rng, person)) for person in dated)
    strangers = counted((person, stranger_of(rng, person)) for person in dated)
    precision = own["match"] / (own["match"] + strangers["match"])
    assert precision >= 0.97, (own, strangers)
    assert own["match"] / sum(own.values()) >= 0.85, (own, strangers)
    assert own["other"] / sum(own.values()) <= 0.01, (own, strangers)


def test_neighbours_in_the_list_are_never_a_match():
    """Everybody against the listing of the next one: relatives, and people of other names."""
    rng = random.Random(4)  # noqa: S311  make-believe
    pairs = pairwise(PEOPLE)
    verdicts = [
        (match(subject_of(person), listing_of(rng, other), TODAY).verdict, person, other)
        for person, other in pairs
    ]
    assert [result for result in verdicts if result[0] == "match"] == []


NAMES = st.sampled_from([subject_of(person) for person in PEOPLE[:200]])
SPELLING = random.Random(5)  # noqa: S311  make-believe
LISTINGS = st.builds(
    site_listing,
    st.sampled_from([spelled(SPELLING, p.first_name, p.middle_name, p.last_name) for p in PEOPLE[:40]])
    | st.text(max_size=40),
    age=st.none() | st.integers(0, 125),
    locations=st.lists(
        st.sampled_from([f"{p.addresses[0].city}, {p.addresses[0].state}" for p in PEOPLE[:40]])
        | st.text(max_size=20),
        max_size=3,
    ).map(tuple),
    aliases=st.lists(st.text(max_size=20), max_size=2).map(tuple),
    phone_numbers=st.lists(st.sampled_from(["6095550123", "x", ""]) | st.text(max_size=20), max_size=2).map(
        tuple
    ),
    emails=st.lists(st.text(max_size=20), max_size=2).map(tuple),
)
PAIRS = st.one_of(
    st.tuples(NAMES, LISTINGS),
    st.sampled_from(PEOPLE).flatmap(
        lambda person: st.randoms().map(lambda rng: (subject_of(person), listing_of(rng, person)))
    ),
)


@given(PAIRS)
def test_any_listing_is_judged_within_bounds(pair):
    judgement = match(*pair, TODAY)
    assert 0 <= judgement.score <= 1
    assert judgement.reasons
    assert judgement.verdict != "match" or judgement.score > 0.5


@given(PAIRS, st.sampled_from(["Zzyzx", "Umlaut", "Iva", "Öö"]))
def test_a_listing_of_another_last_name_is_of_another_person(pair, last):
    subject, listing = pair
    stranger = replace(listing, name=f"{subject.names[0].first} {last}", aliases=())
    assert match(subject, stranger, TODAY).verdict == "other"


@given(PAIRS)
def test_case_and_accents_make_no_difference(pair):
    subject, listing = pair
    plain = listing.name.isascii()
    loud = replace(
        listing,
        name=(listing.name.replace("a", "à").replace("e", "ë") if plain else listing.name).upper(),
        locations=tuple(text.upper() if text.isascii() else text for text in listing.locations),
    )
    if plain:
        assert match(subject, loud, TODAY) == match(subject, listing, TODAY)


@given(PAIRS, st.integers(4, 60), st.booleans())
def test_an_age_that_contradicts_never_helps(pair, years, older):
    subject, listing = pair
    if subject.birth_date is None:
        subject = replace(subject, birth_date=TODAY - timedelta(days=365 * 40))
    without = match(subject, replace(listing, age=None), TODAY)
    off = subject.age_on(TODAY) + (years if older else -years)
    against = match(subject, replace(listing, age=off), TODAY)
    assert against.score <= without.score
    assert against.verdict != "match" or {"email address"} & set(against.reasons)
