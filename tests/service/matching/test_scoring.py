"""Matching of listings to people: names in any spelling, evidence, precision and recall."""

import random
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exposurekit.sandbox.world.people import invent
from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.matching.diminutives import DIMINUTIVES
from exposurekit.service.matching.name_matching import Fit, names_fit
from exposurekit.service.matching.phone_numbers import phone
from exposurekit.service.matching.scoring import match, name_fits
from exposurekit.service.models import Listing
from exposurekit.text.us_addresses import street

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


def matched(name="Bartholomew Nettle-Moor", subject=BART, **more):
    return match(subject, site_listing(name, **more), TODAY)


SPELLINGS = """
    Bartholomew Nettle-Moor|BARTHOLOMEW NETTLE MOOR|Nettle-Moor, Bartholomew Q.|NETTLEMOOR BARTHOLOMEW Q
    Nettle Moor Bartholomew|Mr. Bartholomew Quentin Nettle-Moor Jr.|B. "Bart" Nettle-Moor|Bart Nettle-Moor
    Bartel Nettle-Moor|B Nettle-Moor|Bartholomew Moor|Bartholomew Otterwick|Bartholomew Otterwick Nettle-Moor
    Bartholemew Nettle-Moor|Bartholomew Nettle-Mor|Bàrthölomew Néttle-Moor
""".strip().replace("\n    ", "|")
OTHER_NAMES = """
    ,|Nettle-Moor|Bartholomew|Bartholomew Nettleford|Bartholomew Q|Wren Nettle-Moor|C Nettle-Moor|Moor Nettle
    Bartholemew Nettle-Mor|Quentin Otterwick
""".strip().replace("\n    ", "|")


@pytest.mark.parametrize("name", ["", *OTHER_NAMES.split("|")])
def test_another_name_does_not_match(name):
    """Two spelling errors make another name."""
    assert names_fit(BART.names, name) is None
    strong = matched(name, emails=("bart@example.com",), age=41)
    assert (strong.verdict, strong.score) == ("other", 0.0)


@pytest.mark.parametrize(
    ("name", "listed_name"),
    [
        *((BART.names, spelling) for spelling in SPELLINGS.split("|")),
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
        (Name("Paul", "Otterwick"), "Paul Otterwick Sr."),
        (Name("Paul", "Otterwick Jr."), "OTTERWICK, PAUL A"),
        (Name("Paul", "Otterwick Jr."), "Paul Otterwick II"),
        (Name("Naosuke", "Ii"), "Naosuke Ii"),
        (Name("Anna", "Vi"), "ANNA VI"),
        (Name("Anna", "Ra"), "Ra, Anna"),
        (Name("Anna", "Pt"), "Anna M. Pt"),
        (Name("Anna", "Junior"), "Anna M. Junior"),
        (Name("Jürgen", "Müllerquill"), "Juergen Muellerquill"),
        (Name("Juergen", "Muellerquill"), "MÜLLERQUILL JÜRGEN"),
        (Name("Jürgen", "Müllerquill"), "Jurgen Mullerquill"),
        (Name("Øyvind", "Bjørquill"), "Oeyvind Bjoerquill"),
        (Name("小明", "王"), "王小明"),
        (Name("小明", "王"), "王 小明"),
        (Name("민준", "김"), "김민준"),
    ],
)
def test_a_name_matches_in_any_spelling(name, listed_name):
    assert names_fit([name] if isinstance(name, Name) else name, listed_name) is not None


# Given names that are common in the United States or in Spanish, none of them a diminutive.
COMMON = """
    aaron abigail adam adriana alan alejandra alejandro alexander alexandra alfonso alfredo alice alicia amanda amelia amy ana
    andrea andres andrew angela anna anne anthony antonia antonio arabella arthur ashley barbara beatrice beatriz benjamin bernard
    betty brandon brenda brian bridget bruce camila carlos carmen carol carolina caroline catalina catherine cecilia charles
    charlotte cheryl christian christina christine christopher claudia consuelo cristina cynthia daniel david deborah dennis diana
    diane diego dolores donald donna dorothea dorothy douglas edgar eduardo edmund edward edwin eleanor elena elizabeth ellen emilia
    emilio emily emma enrique eric ernest ernesto esther eugene eugenia eva evelyn federico felipe ferdinand fernando florence
    frances francis francisca francisco franklin frederick gabriel gabriela gary george gerald geraldine gertrude gilberto gloria
    gonzalo graciela gregory guadalupe guillermo gustavo hannah harold harriet heather hector helen helena henrietta henry hester
    howard hugh humberto ignacio irene isaac isabel isabella jacob jacqueline james janet janice jane jason javier jean jeffrey
    jennifer jeremiah jeremy jerome jessica jesus joan joaquin john jonathan jorge jose josefa josefina joseph joshua joyce juan juana
    judith julia julian julie justin karen katherine kathleen keith kenneth kevin kimberly larissa laura lauren laurence lawrence
    leonard leonardo leopoldo leticia lillian linda lorenzo louis louise lourdes lucia lucy luis luisa lydia magdalena manuel manuela
    marcela marcelo marcia margaret margarita maria marian mariana mariano marie marilyn mario marjorie mark martha martin mary
    matilda matthew maurice melissa mercedes michael michelle miguel mildred millicent monica moises moses nancy natalie nathan
    nathaniel nicholas nicolas nicole norma olivia oscar oswald pablo pamela patricia patricio patrick paul paula pedro peter philip
    philippa phyllis rachel rafael ralph ramon raymond rebecca refugio ricardo richard robert roberta roberto rodolfo rodrigo roger
    roland rosa rosalind rosamund rosario rose rosemary ruben ruth ryan salvador samantha samuel sandra santiago sara sarah sebastian
    sergio sharon shirley simon sofia soledad sophia stephanie stephen susan susana susanna sylvia teresa theodora theodore theresa
    thomas timothy tomas valentina valeria vanessa veronica vicente victor victoria vincent violet virginia vivian walter wayne
    wilhelmina william winifred yolanda zachary
"""


@pytest.mark.parametrize(
    ("nickname", "names"),
    [
        ("Nell", "Eleanor Helen Ellen"),
        ("Teddy", "Theodore Edward Edmund Theodora"),
        ("Billie", "William Wilhelmina"),
        ("Bella", "Isabella Isabelle Arabella"),
        ("Kitty", "Katherine Catherine Kathryn"),
        ("Chas", "Charles"),
        ("Paco", "Francisco"),
        ("Toño", "Antonio"),
        ("Lupita", "Guadalupe"),
        ("Chuy", "Jesús"),
        ("Beto", "Alberto Roberto Humberto"),
        ("Concha", "Concepción"),
        ("Iñaki", "Ignacio"),
    ],
)
def test_a_nickname_is_each_name_that_it_stands_for(nickname, names):
    for name in names.split():
        for registered, listed in ((nickname, name), (name, nickname)):
            fit = names_fit([Name(registered, "Otterwick")], f"{listed.upper()} OTTERWICK")
            assert fit == Fit(0, ("name: nickname of the registered first name",))


def test_every_diminutive_matches_in_both_directions():
    for name, diminutives in DIMINUTIVES.items():
        for diminutive in diminutives:
            for registered, listed in ((diminutive, name), (name, diminutive)):
                assert names_fit([Name(registered, "Otterwick")], f"{listed} Otterwick").points == 0


def test_a_diminutive_makes_no_two_common_names_one():
    """Edward and Edmund are both Ned, and two people."""
    assert [
        (one, other)
        for one, other in combinations(COMMON.split(), 2)
        if other in DIMINUTIVES.get(one, ()) or one in DIMINUTIVES.get(other, ())
    ] == []
    for one, other in [
        ("Edward", "Edmund"),
        ("Eleanor", "Helen"),
        ("Alberto", "Roberto"),
        ("Marcela", "Graciela"),
    ]:
        assert names_fit([Name(one, "Otterwick")], f"{other} Otterwick") is None


@pytest.mark.parametrize(
    "listed_name",
    ["Paul Otterwick Sr.", "Otterwick Sr, Paul", "OTTERWICK, PAUL A., III", "Paul Otterwick IV, MD"],
)
def test_father_and_son_are_different_people(listed_name):
    names = [Name("Paul", "Otterwick Jr."), Name("Paul", "Otterwick")]
    assert names_fit(names, listed_name) is None
    assert names_fit([Name("Paul", "Otterwick, Jr"), *names[1:]], listed_name) is None
    assert names_fit(names[1:], listed_name) is not None


def test_a_name_without_spaces_must_be_the_whole_name():
    assert names_fit([Name("小明", "李")], "王小明") is None
    assert names_fit([Name("小", "王")], "王小明") is None
    assert names_fit([Name("Al", "Len")], "Lenal") is None


def test_a_short_name_must_be_spelled_exactly():
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
        ({"locations": ("12 Acorn Street, Bldg 4",)}, "match"),
        ({"locations": ("12 Acorn Street, 2nd Floor",)}, "match"),
        ({"locations": ("12 Acorn Street, Rear",)}, "match"),
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
    assert matched(**evidence).verdict == verdict


@pytest.mark.parametrize(
    ("city", "state", "location", "reason"),
    [
        ("Washington", "DC", "Washington, D.C.", "city and state"),
        ("Washington", "D.C.", "WASHINGTON D. C. 20001", "city and state"),
        ("Washington", "DC", "Washington", "city"),
        ("Washington", "DC", "12 Acorn St, Washington", "city"),
        ("Washington", "DC", "Seattle, Washington", "lives in another state"),
        ("Seattle", "WA", "Washington, D.C.", "lives in another state"),
        ("Port Washington", "NY", "Port Washington, N.Y.", "city and state"),
        ("Port Washington", "NY", "Port Washington", "city"),
        ("Port Washington", "NY", "Port Washington, WI", "lives in another state"),
        ("New York", "NY", "New York", "city"),
        ("New York", "NY", "New York, New York", "city and state"),
        ("New York", "NY", "12 Acorn St, Apt B, New York 10001", "city"),
        ("New York", "NY", "Buffalo, New York", None),
        ("Oakmere", "NV", "Oakmere California", "lives in another state"),
    ],
)
def test_the_name_of_a_city_is_no_state(city, state, location, reason):
    subject = Subject(names=(Name("Wren", "Quill"),), places=(Place(city=city, state=state),))
    reasons = matched("Wren Quill", subject, locations=(location,)).reasons
    assert reasons == ("name: the same", *([reason] if reason else []))


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("Bartholomew Quentin Nettle-Moor", "match"),
        ("Bartholomew Q Nettle-Moor", "match"),
        ("Bartholomew Z Nettle-Moor", "possible"),
        ("Bartholomew Otterwick Nettle-Moor", "match"),  # the name before marriage in the middle
        ("B Nettle-Moor", "possible"),
        ("Bartholo Nettle-Moor", "possible"),  # as an initial: perhaps somebody else's name
        ("Ba Nettle-Moor", "other"),
        ("Bartholemew Nettle-Moor", "match"),
    ],
)
def test_the_name_counts_with_age_and_city(name, verdict):
    assert matched(name, age=41, locations=("Fort Whistle, NY",)).verdict == verdict


@pytest.mark.parametrize(
    ("name", "evidence", "verdict"),
    [
        ("Barth Nettle-Moor", {}, "possible"),
        ("B Nettle-Moor", {}, "possible"),
        ("Barth Nettle-Moor", {"emails": ("bart@example.com",)}, "match"),
        ("Bartholomew Nettle-Moor", {}, "match"),
    ],
)
def test_a_household_member_with_a_similar_name_is_possible(name, evidence, verdict):
    """Paul may be Paula: street and phone are those of both."""
    shared = {"locations": ("12 Acorn St, St Quillmarsh, NJ",), "phone_numbers": ("6095550123",)}
    assert matched(name, **shared, **evidence).verdict == verdict


@pytest.mark.parametrize(
    ("listed_name", "reason"),
    [
        ("Ann Marie Quillfen", None),
        ("Mary Zoe Quillfen", "middle name differs"),
        ("Mary Beth Quillfen", "middle name"),
        ("Mamie Zoe Otterwick", "middle name differs"),
    ],
)
def test_a_middle_name_belongs_to_the_registered_first_name(listed_name, reason):
    names = [
        Name("Mary", "Otterwick", "Beth"),
        Name("Ann", "Quillfen"),
        Name("Mary", "Quillfen"),
        Name("Mamie", "Otterwick"),  # a nickname
    ]
    middle = [one for one in names_fit(names, listed_name).reasons if one.startswith("middle")]
    assert middle == ([reason] if reason else [])


def test_a_middle_name_is_no_second_identifier():
    assert matched("Bartholomew Quentin Nettle-Moor", age=41).verdict == "possible"


def test_an_alias_of_the_listing_matches():
    judgement = matched(
        "Bee Elsewhere", aliases=("Bart Nettle-Moor",), age=41, locations=("Fort Whistle, NY",)
    )
    assert judgement.verdict == "match"
    assert "name: shown as an alias" in judgement.reasons
    assert name_fits(BART, site_listing("Bee Elsewhere", aliases=("Bart Nettle-Moor",)))
    assert not name_fits(BART, site_listing("Bee Elsewhere"))


def test_missing_values_are_no_evidence():
    bare = Subject(names=(Name("Bartholomew", "Nettle-Moor"),))
    judgement = matched(
        subject=bare, age=30, locations=("Elsewhere, TX",), phone_numbers=("x",), emails=("",)
    )
    assert (judgement.verdict, judgement.reasons) == ("possible", ("name: the same",))


def test_the_reasons_contain_no_personal_value():
    judgement = matched(
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


def test_a_site_gets_texts_without_superfluous_blanks():
    """Lists from a spreadsheet have blanks around names; a site takes them as a part of the name."""
    person = {"first_name": " Ann ", "middle_name": "\tLee", "last_name": "Quill\u00a0", "birth_date": None}
    address = {"address1": "12  Kite Ln", "address2": "", "city": "Mothgate ", "state": " CT", "zip": "6099 "}
    lists = {"addresses": [address], "emails": [{"address": " ann@example.com"}]}
    lists["aliases"] = [{"first_name": "Ann  Lee ", "last_name": " Fenn"}]
    subject = Subject.from_profile(person, lists)
    values = subject.values()
    assert (values["first_name"], values["middle_name"], values["last_name"]) == ("Ann", "Lee", "Quill")
    assert (values["address1"], values["city"], values["state"], values["zip"]) == (
        *("12 Kite Ln", "Mothgate", "CT", "06099"),
    )
    assert (values["email"], subject.names[1]) == ("ann@example.com", Name("Ann Lee", "Fenn"))


@pytest.mark.parametrize(
    ("state", "zip_code", "whole"),
    [
        *(("CT", "6099", "06099"), ("Connecticut", "6099-1234", "06099-1234"), ("pr", "901", "00901")),
        *(("CT", "06099", "06099"), ("NSW", "2000", "2000"), ("", "6099", "6099"), ("CT", "60", "60")),
        *(("WA", "6000", "6000"), ("CA", "9400", "9400"), ("PR", "9010", "9010"), ("CT", "609", "609")),
    ],
)
def test_a_zip_code_has_the_zeros_that_were_dropped(state, zip_code, whole):
    person = {"first_name": "Ann", "middle_name": "", "last_name": "Quill", "birth_date": None}
    address = {"city": "Mothgate", "state": state, "zip": zip_code}
    assert Subject.from_profile(person, {"addresses": [address]}).values()["zip"] == whole
    address["country"] = "usa"
    assert Subject.from_profile(person, {"addresses": [address]}).values()["zip"] == whole
    address["country"] = "Brazil"
    assert Subject.from_profile(person, {"addresses": [address]}).values()["zip"] == zip_code


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("609-555-0123", "+16095550123"),
        ("(609) 555 0123", "1.609.555.0123"),
        ("+44 20 7946 0123", "+44 (0)20 79460123"),
        ("442079460123", "+44 20 7946 0123"),
        ("61298765432", "011 61 2 9876 5432"),
        ("0015550123", "(001) 555-0123"),
        *(
            ("6095550123", f"(609) 555-0123{kind}")
            for kind in (
                " - Wireless",
                " (mobile)",
                " Landline",
                ", primary",
                " AT&T",
                " Last reported May 2019",
                " x4",
            )
        ),
        ("442079460123", "+44 20 7946 0123 (Mobile)"),
        ("6095550123", "Phone 1: (609) 555-0123"),
    ],
)
def test_a_phone_number_matches_in_any_format(one, other):
    assert phone(one) == phone(other) is not None


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        ("12 Quillfern St Bldg 3", "12 Quillfern Street"),
        ("12 Quillfern St, Floor 2", "12 Quillfern St., Apt 9"),
        ("12 Quillfern St 2nd Floor", "12 Quillfern St FL 2"),
        ("12 Quillfern St Lot 5", "12 QUILLFERN ST LOT5"),
        ("12 Quillfern St Apt4B", "12 Quillfern St #4B"),
        ("12 Quillfern St Rear", "12 Quillfern St"),
        ("Apt 4, 12 Quillfern St", "12 Quillfern St"),
        ("P.O. Box 12", "PO Box 12"),
        ("P O Box 12", "post office box 12"),
        ("100 Space Center Blvd", "100 Space Center Boulevard Trailer 2"),
        ("100 Lot Road", "100 Lot Rd"),
        ("Flat Rock Rd 12", None),
        ("100 Penthouse", "100 Penthouse"),
    ],
)
def test_a_street_is_the_same_in_any_unit(line, listed):
    """Publication 28 of the Postal Service, Appendix C2, has the units."""
    assert street(line) == (None if listed is None else street(listed))
    assert (street(line) is None) == (listed is None)


@pytest.mark.parametrize("line", ["", "Acorn Cottage", "12", "Apt 4"])
def test_a_line_without_house_number_is_no_street(line):
    assert street(line) is None


def subject_of(person):
    lists = {"addresses": [vars(address) for address in person.addresses]}
    lists |= {"aliases": [vars(alias) for alias in person.aliases]}
    lists |= {"emails": [{"address": address} for address in person.emails]}
    lists |= {"phone_numbers": [{"number": number} for number in person.phone_numbers]}
    return Subject.from_profile(vars(person), lists)


FORMATS = ("{0} {2}", "{0} {1} {2}", "{0} {3} {2}", "{2}, {0} {3}", "{2} {0} {3}")


@cache
def people():
    return invent(600, seed=11)


def spelled(rng, first, middle, last):
    if rng.random() < 0.05 and len(last) > 7:  # a spelling error
        at = rng.randrange(1, len(last) - 1)
        last = last[:at] + last[at + 1 :]
    name = " ".join(rng.choice(FORMATS).format(first, middle or "", last, (middle or "")[:1]).split())
    return name.upper() if rng.random() < 0.3 else name


def listing_of(rng, person):
    """A listing of the person, whose age and address may be out of date."""
    age = subject_of(person).age_on(TODAY)
    address = rng.choice(person.addresses if rng.random() < 0.95 else rng.choice(people()).addresses)
    first = rng.choice([alias.first_name for alias in person.aliases] or [person.first_name])
    return site_listing(
        spelled(
            rng, first if rng.random() < 0.2 else person.first_name, person.middle_name, person.last_name
        ),
        age=None if age is None or rng.random() < 0.02 else age - rng.choice((0, 0, 0, 0, 0, 0, 0, 1, 1, 2)),
        locations=(f"{address.city}, {address.state}",),
    )


def stranger_of(rng, person):
    """A listing of a namesake, mostly in another town, with another age and middle name."""
    middle = rng.choice((None, rng.choice(people()).first_name))
    home = rng.choice((person, *rng.sample(people(), 4))).addresses[0]
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


def test_precision_and_recall_with_age_and_city():
    rng = random.Random(3)  # noqa: S311  make-believe
    dated = [person for person in people() if person.birth_date is not None]
    own = counted((person, listing_of(rng, person)) for person in dated)
    strangers = counted((person, stranger_of(rng, person)) for person in dated)
    precision = own["match"] / (own["match"] + strangers["match"])
    assert precision >= 0.97, (own, strangers)
    assert own["match"] / sum(own.values()) >= 0.85, (own, strangers)
    assert own["other"] / sum(own.values()) <= 0.01, (own, strangers)


def test_other_people_are_never_a_match():
    """Everyone against the listing of the next, who may be a relative."""
    rng = random.Random(4)  # noqa: S311  make-believe
    listings = [(person, listing_of(rng, other)) for person, other in pairwise(people())]
    assert counted(listings)["match"] == 0


NAMES = st.deferred(lambda: st.sampled_from([subject_of(person) for person in people()[:200]]))
SPELLING = random.Random(5)  # noqa: S311  make-believe
LISTINGS = st.builds(
    site_listing,
    st.deferred(
        lambda: st.sampled_from(
            [spelled(SPELLING, p.first_name, p.middle_name, p.last_name) for p in people()[:40]]
        )
    )
    | st.text(max_size=40),
    age=st.none() | st.integers(0, 125),
    locations=st.lists(
        st.deferred(
            lambda: st.sampled_from([f"{p.addresses[0].city}, {p.addresses[0].state}" for p in people()[:40]])
        )
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
    st.deferred(lambda: st.sampled_from(people())).flatmap(
        lambda person: st.randoms().map(lambda rng: (subject_of(person), listing_of(rng, person)))
    ),
)


@settings(max_examples=40)
@given(PAIRS, st.sampled_from(["Zzyzx", "Umlaut", "Iva", "Öö"]))
def test_any_listing_has_a_score_and_another_last_name_none(pair, last):
    subject, listing = pair
    judgement = match(subject, listing, TODAY)
    assert 0 <= judgement.score <= 1
    assert judgement.reasons
    assert judgement.verdict != "match" or judgement.score > 0.5
    stranger = replace(listing, name=f"{subject.names[0].first} {last}", aliases=())
    assert match(subject, stranger, TODAY).verdict == "other"


@settings(max_examples=40)
@given(PAIRS.filter(lambda pair: pair[1].name.isascii()))
def test_case_and_accents_make_no_difference(pair):
    subject, listing = pair
    other = replace(
        listing,
        name=listing.name.replace("a", "à").replace("e", "ë").upper(),
        locations=tuple(text.upper() if text.isascii() else text for text in listing.locations),
    )
    assert match(subject, other, TODAY) == match(subject, listing, TODAY)


@settings(max_examples=40)
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
