"""What a web page holds: its visible text, the kinds of a person's data in it, and markup made to do harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.scanning.html_text import (
    ATTRIBUTES_MAX,
    TEXT_MAX,
    TITLE_MAX,
    kinds_in,
    mentions,
    text_of,
    tree,
)

JUNIPER = Subject(
    names=(Name("Juniper", "O'Thimble"), Name("Mary Ann", "Nettle-Moor")),
    emails=("june.o@example.com",),
    phone_numbers=("6095550123", "+44 20 7946 0123"),
    places=(
        Place("12 Acorn Street", "Apt 4", "Quillmarsh", "NJ", "07099"),
        Place("Acorn Cottage", city="Mothgate"),
    ),
)


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>{}</script>",
        "<SCRIPT type=x>{}</SCRIPT >",
        "<style>{}</style>",
        "<template>{}</template>",
        "<noscript>{}</noscript>",
        "<iframe>{}</iframe>",
        "<!-- {} -->",
        "<div hidden>{}</div>",
        "<div hidden><p hidden>{}</p></div>",
        "<div aria-hidden=true>{}</div>",
        "<div style='color:red; DISPLAY: none'>{}</div>",
        "<div style=visibility:hidden>{}</div>",
        "<p title='{}'>",
        "<input type=hidden value='{}'>",
    ],
)
def test_what_is_hidden_is_no_visible_text(hidden):
    page = f"<title>Staff</title><p>Before{hidden.format('June june.o@example.com')}<p>After"
    assert text_of(page) == ("Staff", "Before After")


def test_text_is_read_as_a_visitor_sees_it():
    page = "<title>Staff &amp;\n friends</title><h1>Juniper</h1><p>O&#39;Thimble<br>12&nbsp;Acorn<!-- --> 1 < 2</p>"
    assert text_of(page) == ("Staff & friends", "Juniper O'Thimble 12 Acorn 1 < 2")


def test_a_custom_element_is_not_taken_for_a_script():
    assert text_of("<script-note>seen</script-note><title-bar>too</title-bar>") == ("", "seen too")


def test_title_and_text_are_bounded():
    title, text = text_of(f"<title>{'t' * 9_000}</title><p>{'x' * 1_900_000}")
    assert (len(title), len(text)) == (TITLE_MAX, TEXT_MAX)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("write to JUNE.O@Example.com.", ("email",)),
        ("<june.o@example.com>", ("email",)),
        ("mail june.o@example.com.au", ()),
        ("xjune.o@example.com", ()),
        ("the.june.o@example.com", ()),
        ("june.o@example.community", ()),
        ("june.o at example.com", ()),
        ("call 6095550123", ("phone",)),
        ("call (609) 555-0123!", ("phone",)),
        ("+1 609 555 0123 ext. 4", ("phone",)),
        ("1-609.555.0123", ("phone",)),
        ("\uff16\uff10\uff195550123", ("phone",)),
        ("020 7946 0123 or so", ("phone",)),
        ("+44 (0)20 7946-0123", ("phone",)),
        ("no. 66095550123", ()),
        ("no. 60955501234", ()),
        ("609-555-0124", ()),
        ("lives at 12 ACORN ST., Quillmarsh", ("address",)),
        ("12 Acorn Street #9", ("address",)),
        ("112 Acorn Street", ()),
        ("12 Acorn Avenue", ()),
        ("12 Acorn Streetcar", ()),
        ("Quillmarsh, NJ 07099", ()),
        ("Acorn Cottage, Mothgate", ()),
        ("12 acorn st 609-555-0123 june.o@example.com", ("email", "address", "phone")),
        ("", ()),
    ],
)
def test_the_kinds_of_data_are_found_in_any_spelling(text, kinds):
    assert kinds_in(JUNIPER, text) == kinds


def test_nothing_is_found_of_whom_nothing_is_known():
    blank = Subject(names=(), emails=("", " "), phone_numbers=("", "x"), places=(Place(), Place("12")))
    assert kinds_in(blank, "12 Acorn Street 6095550123 june.o@example.com 12 x") == ()
    assert not mentions(blank, "anybody")
    assert not mentions(Subject(names=(Name("", "Quill"), Name("Quill", ""))), "Quill Quill")


@pytest.mark.parametrize(
    "text",
    [
        "Juniper O'Thimble",
        "JUNIPER OTHIMBLE",
        "O\u2019Thimble, Juniper",
        "Juniper Clementine B. O'Thimble",
        "by Juniper O'Thimble's sister",
        "Mary-Ann Nettle Moor",
        "(mary ann nettle\u2010moor)",
    ],
)
def test_a_name_is_found_where_first_and_last_stand_together(text):
    assert mentions(JUNIPER, text)


@pytest.mark.parametrize(
    "text",
    [
        "Juniper",
        "O'Thimble",
        "Juniper berries grow on every othimble",
        "Junipera O'Thimble",
        "Juniper Nettle-Moor",
        "",
    ],
)
def test_a_name_in_pieces_is_not_found(text):
    assert not mentions(JUNIPER, text)


@pytest.mark.parametrize(
    "markup",
    [
        "<div>" * 100_000,
        "<svg><g>" * 50_000,
        "<b>" * 100_000,
        # each paragraph would hold hundreds of elements anew
        "<p>" + "".join(f"<b id={number}>" for number in range(400)) + "</p>" + "<p>x</p>" * 3_000,
        "x" * 2_000_001,
    ],
)
def test_markup_that_takes_too_much_is_not_read(markup):
    assert tree(markup) is None
    assert text_of(markup) == ("", "")


@pytest.mark.parametrize(
    ("start", "again"),
    [
        ("<p ", "a{}=1 "),
        ("", "<html a{}=1>"),
        ("<select>", "<option>{}"),
        ("", "<!--{}"),
        ("", "<script {}"),
        ("", "<title><{}"),
        ("", '<a "{}'),
        ("", "<a b='\"{}"),
        ("<a b", " " * 9),
        ("", "<"),
        ("", "</"),
        ("", "<!"),
        ("", "&am"),
        ("", "\0"),
        ("", "\ud800"),
    ],
)
def test_long_and_broken_markup_is_read_to_its_end(start, again):
    """None of these may take the square of its length; at this length such a one would not come to an end."""
    markup = start + "".join(again.format(number) for number in range(19_000))
    page = tree(markup)
    assert page is not None
    assert all(len(node.attributes) <= ATTRIBUTES_MAX for node in page.css("*"))


@pytest.mark.parametrize(
    "markup",
    [
        "<script>" + "</script " * 40_000,
        "<style>" + "</style/" * 40_000,
        "<title>" + "</title " * 40_000,
        "<textarea>" + "</textarea\n" * 40_000,
        "<script></script x" * 40_000,
        "<script>" + "</scriptx>" * 40_000,
    ],
)
def test_repeated_closing_tags_are_read_to_the_end(markup):
    """What closes it must not be looked through from each beginning anew."""
    assert text_of(markup)[1] == ""


@pytest.mark.parametrize(
    "piece", ["609555012", "6 0 9 ", "juniper ", "12 acorn ", "june.o@", "\ufdfa", "a\u0301", "."]
)
def test_hostile_text_is_searched_to_its_end(piece):
    text = piece * 200_000
    assert (kinds_in(JUNIPER, text), mentions(JUNIPER, text)) == ((), False)


TAGS = [
    "<b>",
    "</b>",
    "<p>",
    "<table>",
    "<td",
    "<title>",
    "</title>",
    "<textarea>",
    "<script>",
    "</script>",
    "<svg>",
]
ODD = [
    "<!--",
    "-->",
    "<!",
    "</",
    "<",
    ">",
    "'",
    '"',
    "=",
    "/",
    " a",
    "&lt;",
    "\0",
    "\ud800",
    "<plaintext>",
    "<template>",
]


@given(st.lists(st.sampled_from(TAGS + ODD) | st.text(max_size=3)).map("".join))
def test_no_markup_raises_and_no_script_comes_through(markup):
    page = tree(markup)
    assert page is not None
    assert page.css("script, style, template, iframe") == []
    title, text = text_of(markup)
    assert "\0" not in title + text


@given(st.text(max_size=300))
def test_plain_text_comes_through_as_it_is_written(text):
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    assert text_of(f"<p>{escaped}") == text_of(f"<title></title><p>{escaped}</p>")
    assert kinds_in(JUNIPER, f"{text} june.o@example.com") in [
        ("email",),
        ("email", "address"),
        ("email", "phone"),
    ]
