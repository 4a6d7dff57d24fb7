"""Personal values are detected in any writing; what only resembles one is not."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.privacy.personal_data_search import PersonalDataSearch


def kinds_in(text, **options):
    """The kinds of values of one invented person that a text contains."""
    search = PersonalDataSearch([text], **options)
    search.add_name("Odalys", "Fennimoor")
    search.add_full_name("Zoë M. Träumer")
    search.add_email("o.fennimoor+shop@mail.example")
    search.add_full_name("Ilse Mu\u0308llenko")  # decomposed
    search.add_full_name("Dr. Wren Otterwick Jr., MD")
    search.add_address("street", "12 Elderberry Lane")
    search.add_address("street", "7 Quillfern St #4")
    search.add_address("street", "9 Lake Rd")
    search.add_address("street", "5 Hill Street, Apt. 12")
    search.add_address("place", "Oakmere, CA")
    search.add_address("place", "Summit, NJ")
    search.add_key("s3cr3t-k3y")
    search.add_phone("+1 (555) 012-3456")
    search.add_birth_date(date(1980, 3, 5))
    return search.kinds


def names_in(text, first, last, **options):
    search = PersonalDataSearch([text], **options)
    search.add_name(first, last)
    return search.kinds["name"]


WRITTEN = {  # ways to write each kind of value
    "name": [
        *("Ilse Muellenko", "Ilse Mullenko", "Wren Otterwick", "OTTERWICK, WREN", "Mr Wren Otterwick III"),
        *("Odalys Fennimoor", "FENNIMOOR, ODALYS", "odalys q. fennimoor", "OdalysFennimoor@x.example"),
        *("https://x.example/p/odalys-fennimoor/7", "zoe traumer", "Zoe\u0308 Tra\u0308umer"),
        *("Odalys\u200b\u00ad Fennimoor", "Odalys&#32;Fennimoor"),
        # an initial, a title, or nothing between
        *("O. Fennimoor", "O Fennimoor", "O.Q. Fennimoor", "Fennimoor, O.", "Ms. Fennimoor"),
        *("user ofennimoor", "fennimooro@x.example", "Zoe Traeumer"),
        *("https://x.example/odalysfennimoor80", "odalys.fennimoor1980", "ofennimoor80", "fennimoor_odalys2"),
        *("o.fennimoor80", "O. Fennimoor1980", "Ms. Fennimoor2"),
        # other scripts and encodings
        *("Od\u0430lys F\u0435nnim\u043e\u043er", "Oda\u3164lys Fennimoor"),
        *("https://x.example/p/T2RhbHlzIEZlbm5pbW9vcg==", "%u004fdalys Fennimoor", "\\u{4f}dalys Fennimoor"),
        "https://x.example/go?to=https%253A%252F%252Fy.example%252FOdalys%252520Fennimoor",
    ],
    "email": [
        *("O.FENNIMOOR@MAIL.EXAMPLE", "o.fennimoor%40mail.example", "o.fennimoor (at) mail (dot) example"),
        *("o dot fennimoor at mail dot example", "o.fennimoor+shop@mail.example"),
    ],
    "street": [
        '{"at": "12 Elderberry\\u0020Lane"}',
        "12 Elderberry Ln.",
        "7 Quillfern Street",
        "7 Quillfern St, Unit 4",
        *("9 Lake Rd", "9 LK ROAD", "5 Hill St", "5 Hl St, Unit 12"),
    ],
    "place": ["Oakmere, California", "Summit, NJ", "summit new jersey", "Smt, NJ"],
    "key": ["s3cr3t-k3y"],
    "phone": [
        *("5550123456", "+1.555.012.3456", "(555) 012-3456", "012-3456", "555\u00b7012\u00b73456"),
        *("555\u2212012\u22123456", "555\u200b012\u200b3456"),
        "\u0665\u0665\u0665\u0660\u0661\u0662\u0663\u0664\u0665\u0666",
    ],
    "birth date": [
        *("1980-03-05", "03/05/1980", "5.3.1980", "March 5, 1980", "5 Mar 1980", "321062400", "05.03.80"),
        *("1980-03-05T00:00:00Z", "March 5th, 1980", "5th of March 1980", "3/5/80"),
        *("05-Mar-1980", "Mar-5-1980", "5Mar1980", "5. Mar 1980", "03051980", "05031980"),
        *("05-MAR-80", "5mar80", "Mar 5, '80", "5 Mar \u201980", "Mar-05-80"),
    ],
}


@pytest.mark.parametrize(
    ("text", "kind"), [(text, kind) for kind, texts in WRITTEN.items() for text in texts]
)
def test_value_is_detected_in_any_writing(text, kind):
    assert kinds_in(f"x {text} y")[kind] == 1


@pytest.mark.parametrize(
    "text",
    [
        *("Odalys", "a Fennimoor", "Dr Elderberry", "o'Fennimoor", "x: ['O'], y: ['Fennimoor']", "1.5.80"),
        *("Odalys and then Fennimoor", "Elderberry Lane 12", "mail.example", "555 012", "1980", "15550123"),
        *("2026-03-05T20:00:00.000000+00:00", "s3cr3t"),
        *("until Mar 5, 80 people", "5 Mar 80", "05-MAR-81", "otherfennimoor80"),
    ],
)
def test_similar_text_is_not_detected(text):
    assert not kinds_in(text)


@pytest.mark.parametrize(
    ("first", "last", "text", "is_detected"),
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
def test_name_of_common_words_needs_the_form_of_a_name(first, last, text, is_detected):
    assert bool(names_in(text, first, last)) is is_detected


def test_public_site_name_like_a_person_is_no_leak():
    sites = ["Larder Finder"]
    assert not names_in("Larder Finder", "Larder", "Finder", public_names=sites)
    assert not names_in("Larder Finder wants a form.", "Larder", "Finder", public_names=sites)
    assert names_in("Larder Finder", "Larder", "Finder")
    named = ["Odalys Fennimoor Finder"]
    assert names_in(named[0], "Odalys", "Fennimoor", public_names=named)


def test_value_is_not_matched_across_texts():
    search = PersonalDataSearch(["Odalys", "Fennimoor"])
    search.add_name("Odalys", "Fennimoor")
    assert not search.kinds


def test_instant_is_no_phone_number():
    search = PersonalDataSearch(["2026-03-01 20:00:00 and 2026-03-0120"])
    search.add_phone("202-603-0120")
    assert not search.kinds


def test_short_values_are_not_searched_for():
    search = PersonalDataSearch(["a-1 00 1 lee 12345 911", "5 Elm, NE"])
    for value in ("a-1", "00 1", "Lee", "12345", ""):
        search.add("reference", value)
    search.add_name("", "Lee")
    search.add_full_name("Lee")
    search.add_phone("911")
    search.add_address("street", "5 Elm")
    search.add_address("place", "Nebraska")
    assert not search.kinds


def test_search_returns_matching_texts_without_values_in_its_repr():
    search = PersonalDataSearch(["of Odalys Fennimoor", "of nobody"])
    search.add_name("Odalys", "Fennimoor")
    assert search.matching_texts == {"of Odalys Fennimoor"}
    assert "fennimoor" not in repr(search).lower()


def test_a_url_that_is_encoded_a_thousand_times_is_searched():
    text = f"https://x.example/{'%' + '25' * 100_000}20Odalys%{'25' * 1_000}20Fennimoor"
    assert names_in(text, "Odalys", "Fennimoor") == 1


@given(st.text())
def test_any_text_can_be_searched(text):
    search = PersonalDataSearch([text])
    search.add_full_name(text)
    search.add("title", text)
    search.add_phone(text)
    assert {*search.kinds} <= {"name", "title", "phone"}


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_text_is_detected_in_a_longer_one(text):
    search = PersonalDataSearch([f"before quillmarsh value {text} after"])
    search.add("title", f"quillmarsh value {text}")
    assert search.kinds["title"] == 1


@pytest.mark.parametrize("text", ["20 12 34 56", "+45 20 12 34 56", "20123456", "004520123456"])
def test_short_foreign_phone_number_is_detected_only_alone(text):
    search = PersonalDataSearch([f"call {text}, please", "7 20 12 34 56 7, 120123456"])
    search.add_phone("+45 20 12 34 56")
    assert search.kinds["phone"] == 1


def test_local_phone_number_is_no_row_of_counts():
    search = PersonalDataSearch(
        ["Seekfolk,512,3411", "call 512-3411", "\uff12\uff10\uff12\uff15\uff11\uff12\uff13\uff14\uff11\uff11"]
    )
    search.add_phone("+1 202 512 3411")
    assert search.kinds["phone"] == 2
