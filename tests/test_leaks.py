"""What is known is found however it is written, and what only looks like it is not."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.privacy.detector import PersonalDataMatcher


@pytest.fixture
def known():
    known = PersonalDataMatcher()
    known.add_name("Odalys", "Fennimoor")
    known.add_full_name("Zoë M. Träumer")
    known.add_email("o.fennimoor@mail.example")
    known.add_address("street", "12 Elderberry Lane")
    known.add_address("place", "Oakmere, CA")
    known.add("key", "s3cr3t-k3y")
    known.add_phone("+1 (555) 012-3456")
    known.add_birth_date(date(1980, 3, 5))
    return known


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
        ("O.FENNIMOOR@MAIL.EXAMPLE", "e-mail"),
        ("o.fennimoor%40mail.example", "e-mail"),
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
        ("Odalys Fenni-\nmoor", "name"),
        ("Od\u0430lys F\u0435nnim\u043e\u043er", "name"),
        ("Oda\u3164lys Fennimoor", "name"),
        # spelled otherwise
        ("12 Elderberry Ln.", "street"),
        ("Oakmere, California", "place"),
        ("o.fennimoor (at) mail (dot) example", "e-mail"),
        ("o dot fennimoor at mail dot example", "e-mail"),
        ("o.fennimoor+shop@mail.example", "e-mail"),
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
        ("a4f64616c79732046656e6e696d6f6f72", "name"),
        ("4f 64 61 6c 79 73 20 46 65 6e 6e 69 6d 6f 6f 72", "name"),
        ("J5SGC3DZOMQEMZLONZUW233POI======", "name"),
        ("=4F=64=61=6C=79=73=20=46=65=6E=6E=69=6D=6F=6F=72", "name"),
        ("%u004fdalys Fennimoor", "name"),
        ("\\u{4f}dalys Fennimoor", "name"),
        ("\\00004fdalys Fennimoor", "name"),
        ("\\117dalys Fennimoor", "name"),
    ],
)
def test_a_value_is_found(known, text, kind):
    assert known.search(f"x {text} y")[kind] == 1


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
def test_what_only_looks_like_it_is_not(known, text):
    assert not known.search(text)


def test_a_moment_is_no_phone_number():
    known = PersonalDataMatcher()
    known.add_phone("202-603-0120")
    assert not known.search("2026-03-01 20:00:00 and 2026-03-0120")
    assert known.search("call 202-603-0120")["phone"]


def test_what_is_short_stands_anywhere():
    known = PersonalDataMatcher()
    for value in ("a-1", "00 1", "Lee", "12345", ""):
        known.add("reference", value)
    known.add_name("", "Lee")
    known.add_full_name("Lee")
    known.add_phone("911")
    assert len(known) == 0
    assert not known.search("a-1 00 1 lee 12345 911")


def test_it_shows_nothing(known):
    assert "fennimoor" not in repr(known).lower()


def test_what_is_written_inside_of_what_is_written_inside_is_found(known):
    assert known.search("T2RhbHlzJTIwRmVubmltb29y")["name"] == 1  # base64 of an address' form
    assert known.search("a <b>5550</b>123456")["phone"] == 1


@given(st.text())
def test_any_text_can_be_searched(text):
    known = PersonalDataMatcher()
    known.add_full_name(text)
    known.add("title", text)
    known.add_phone(text)
    found = known.search(text)
    assert set(found) <= {"name", "title", "phone"}


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_text_that_is_looked_for_is_found_in_itself(text):
    known = PersonalDataMatcher()
    known.add("title", f"planted value {text}")
    assert known.search(f"before planted value {text} after")["title"] >= 1


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        ("Anne-Marie", "Smith-Jones", "Anne-Marie Smith-Jones Finder"),
        ("Mary Jane", "van der Berg", "ask for mary jane VAN DER BERG"),
        ("María José", "García López", "Garcia Lopez, Maria Jose"),
        ("Jean-Luc", "O'Brien", "Jean-Luc O&#39;Brien"),
        ("小明", "王", "王小明 Finder"),
        ("太郎", "田中", "これは田中太郎です"),
        ("सीता", "गोस्वामी", "सीता गोस्वामी"),
    ],
)
def test_a_name_of_several_words_or_of_another_script_is_found(first, last, text):
    known = PersonalDataMatcher()
    known.add_name(first, last)
    assert known.search(text)["name"] >= 1
    assert not known.search("Anne went with Jones to Mary at the Berg")


def test_a_full_name_is_found_as_it_stands():
    known = PersonalDataMatcher()
    known.add_full_name("Mary Ann Smith Jr")
    assert known.search("for Mary Ann Smith Jr only")["name"] == 1


def test_a_short_address_is_an_address():
    known = PersonalDataMatcher()
    known.add("e-mail", "ed@x.co")
    assert known.search("write to ed@x.co")["e-mail"] == 1


def test_a_local_number_is_no_row_of_counts():
    known = PersonalDataMatcher()
    known.add_phone("+1 202 512 3411")
    assert not known.search("Seekfolk,512,3411")
    assert known.search("call 512-3411")["phone"] == 1
    assert (
        known.search(
            "\N{FULLWIDTH DIGIT TWO}\N{FULLWIDTH DIGIT ZERO}\N{FULLWIDTH DIGIT TWO}\N{FULLWIDTH DIGIT FIVE}\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT TWO}\N{FULLWIDTH DIGIT THREE}\N{FULLWIDTH DIGIT FOUR}\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT ONE}"
        )["phone"]
        == 1
    )


@pytest.mark.parametrize("text", ["20 12 34 56", "+45 20 12 34 56", "20123456", "004520123456"])
def test_a_short_number_of_another_country_is_found_where_it_stands_alone(text):
    known = PersonalDataMatcher()
    known.add_phone("+45 20 12 34 56")
    assert known.search(f"call {text}, please")["phone"]
    assert not known.search("7 20 12 34 56 7, 120123456")


def test_what_is_known_with_a_plus_is_known_without():
    known = PersonalDataMatcher()
    known.add_email("o.fennimoor+shop@mail.example")
    assert known.search("o.fennimoor@mail.example") == known.search("o.fennimoor+x@mail.example")
    assert known.search("o.fennimoor+shop@mail.example")["e-mail"]
