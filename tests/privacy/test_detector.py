"""A personal value is found however it is written; what only resembles one is not."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.privacy.detector import PersonalDataSearch


def kinds_in(text, **options):
    """The kinds of values of one invented person that a text contains."""
    search = PersonalDataSearch([text], **options)
    search.add_name("Odalys", "Fennimoor")
    search.add_full_name("Zoë M. Träumer")
    search.add_email("o.fennimoor+shop@mail.example")
    search.add_address("street", "12 Elderberry Lane")
    search.add_address("place", "Oakmere, CA")
    search.add_key("s3cr3t-k3y")
    search.add_phone("+1 (555) 012-3456")
    search.add_birth_date(date(1980, 3, 5))
    return search.kinds


def names_in(text, first, last, **options):
    search = PersonalDataSearch([text], **options)
    search.add_name(first, last)
    return search.kinds["name"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Odalys Fennimoor", "name"),
        ("FENNIMOOR, ODALYS", "name"),
        ("odalys q. fennimoor", "name"),
        ("https://x.example/p/odalys-fennimoor/7", "name"),
        ("OdalysFennimoor@x.example", "name"),
        ("zoe traumer", "name"),
        ("Zoe\u0308 Tra\u0308umer", "name"),
        ("Odalys\u200b\u00ad Fennimoor", "name"),
        ("Odalys&#32;Fennimoor", "name"),
        ("O.FENNIMOOR@MAIL.EXAMPLE", "email"),
        ("o.fennimoor%40mail.example", "email"),
        ('{"at": "12 Elderberry\\u0020Lane"}', "street"),
        ("s3cr3t-k3y", "key"),
        ("5550123456", "phone"),
        ("+1.555.012.3456", "phone"),
        ("(555) 012-3456", "phone"),
        ("012-3456", "phone"),
        ("1980-03-05", "birth date"),
        ("03/05/1980", "birth date"),
        ("5.3.1980", "birth date"),
        ("March 5, 1980", "birth date"),
        ("5 Mar 1980", "birth date"),
        ("321062400", "birth date"),
        # for the first name its letter, a title, or nothing between
        ("O. Fennimoor", "name"),
        ("O Fennimoor", "name"),
        ("O.Q. Fennimoor", "name"),
        ("Fennimoor, O.", "name"),
        ("Ms. Fennimoor", "name"),
        ("user ofennimoor", "name"),
        ("fennimooro@x.example", "name"),
        ("Zoe Traeumer", "name"),
        # broken, or in disguise
        ("Od\u0430lys F\u0435nnim\u043e\u043er", "name"),
        ("Oda\u3164lys Fennimoor", "name"),
        # spelled otherwise
        ("12 Elderberry Ln.", "street"),
        ("Oakmere, California", "place"),
        ("o.fennimoor (at) mail (dot) example", "email"),
        ("o dot fennimoor at mail dot example", "email"),
        ("o.fennimoor+shop@mail.example", "email"),
        ("1980-03-05T00:00:00Z", "birth date"),
        ("March 5th, 1980", "birth date"),
        ("5th of March 1980", "birth date"),
        ("05.03.80", "birth date"),
        ("3/5/80", "birth date"),
        ("555\u00b7012\u00b73456", "phone"),
        ("555\u2212012\u22123456", "phone"),
        ("555\u200b012\u200b3456", "phone"),
        ("\u0665\u0665\u0665\u0660\u0661\u0662\u0663\u0664\u0665\u0666", "phone"),
        # packed
        ("https://x.example/p/T2RhbHlzIEZlbm5pbW9vcg==", "name"),
        ("%u004fdalys Fennimoor", "name"),
        ("\\u{4f}dalys Fennimoor", "name"),
    ],
)
def test_a_value_is_found_however_it_is_written(text, kind):
    assert kinds_in(f"x {text} y")[kind] == 1


@pytest.mark.parametrize(
    "text",
    [
        "Odalys",
        "a Fennimoor",
        "Dr Elderberry",
        "o'Fennimoor",
        "x: ['O'], y: ['Fennimoor']",
        "1.5.80",
        "Odalys and then Fennimoor",
        "Elderberry Lane 12",
        "mail.example",
        "555 012",
        "2026-03-05T20:00:00.000000+00:00",
        "1980",
        "15550123456.25"[:9],
        "s3cr3t",
    ],
)
def test_what_resembles_a_value_is_not_found(text):
    assert not kinds_in(text)


@pytest.mark.parametrize(
    ("first", "last", "text", "is_found"),
    [
        # words that any page has are a name only where they are written as one
        ("Mark", "Page", "Search for Mark Page.", True),
        ("Mark", "Page", "Mark page 3, then page, mark 4.", False),
        ("Open", "Form", "Open the form.", False),
        ("Sam", "Listing", "All listings of Larder", False),
        ("A", "B", "a b c", False),
        # several words; other scripts
        ("Anne-Marie", "Smith-Jones", "Anne-Marie Smith-Jones Finder", True),
        ("Mary Jane", "van der Berg", "ask for mary jane VAN DER BERG", True),
        ("María José", "García López", "Garcia Lopez, Maria Jose", True),
        ("Jean-Luc", "O'Brien", "Jean-Luc O&#39;Brien", True),
        ("小明", "王", "王小明 Finder", True),
        ("太郎", "田中", "これは田中太郎です", True),
        ("सीता", "गोस्वामी", "सीता गोस्वामी", True),
        ("Mary", "Berg", "Anne went with Jones to Mary at the Berg", False),
    ],
)
def test_a_name_is_found_where_a_word_is_evidence(first, last, text, is_found):
    assert bool(names_in(text, first, last)) is is_found


def test_a_site_named_like_a_person_is_no_leak():
    sites = ["Larder Finder"]
    assert not names_in("Larder Finder", "Larder", "Finder", public_names=sites)
    assert not names_in("Larder Finder wants a form.", "Larder", "Finder", public_names=sites)
    assert names_in("Larder Finder", "Larder", "Finder")
    named = ["Odalys Fennimoor Finder"]
    assert names_in(named[0], "Odalys", "Fennimoor", public_names=named)


def test_nothing_is_found_across_two_texts():
    search = PersonalDataSearch(["Odalys", "Fennimoor"])
    search.add_name("Odalys", "Fennimoor")
    assert not search.kinds


def test_an_instant_is_no_phone_number():
    search = PersonalDataSearch(["2026-03-01 20:00:00 and 2026-03-0120"])
    search.add_phone("202-603-0120")
    assert not search.kinds


def test_short_values_are_not_searched_for():
    search = PersonalDataSearch(["a-1 00 1 lee 12345 911"])
    for value in ("a-1", "00 1", "Lee", "12345", ""):
        search.add("reference", value)
    search.add_name("", "Lee")
    search.add_full_name("Lee")
    search.add_phone("911")
    assert not search.kinds


def test_a_search_shows_no_value():
    search = PersonalDataSearch(["Odalys Fennimoor"])
    search.add_name("Odalys", "Fennimoor")
    assert "fennimoor" not in repr(search).lower()


def test_the_texts_with_a_value_are_known():
    search = PersonalDataSearch(["of Odalys Fennimoor", "of nobody"])
    search.add_name("Odalys", "Fennimoor")
    assert search.matching_texts == {"of Odalys Fennimoor"}


@given(st.text())
def test_any_text_can_be_searched(text):
    search = PersonalDataSearch([text])
    search.add_full_name(text)
    search.add("title", text)
    search.add_phone(text)
    assert {*search.kinds} <= {"name", "title", "phone"}


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_text_is_found_in_a_longer_one(text):
    search = PersonalDataSearch([f"before quillmarsh value {text} after"])
    search.add("title", f"quillmarsh value {text}")
    assert search.kinds["title"] == 1


@pytest.mark.parametrize("text", ["20 12 34 56", "+45 20 12 34 56", "20123456", "004520123456"])
def test_a_short_phone_number_of_another_country_is_found_alone(text):
    search = PersonalDataSearch([f"call {text}, please", "7 20 12 34 56 7, 120123456"])
    search.add_phone("+45 20 12 34 56")
    assert search.kinds["phone"] == 1


def test_a_local_phone_number_is_no_row_of_counts():
    search = PersonalDataSearch(
        ["Seekfolk,512,3411", "call 512-3411", "\uff12\uff10\uff12\uff15\uff11\uff12\uff13\uff14\uff11\uff11"]
    )
    search.add_phone("+1 202 512 3411")
    assert search.kinds["phone"] == 2
