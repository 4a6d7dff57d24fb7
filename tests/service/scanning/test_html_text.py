"""The visible text of a web page, the kinds of personal data in it, and hostile markup."""

import pytest
from hypothesis import given, settings
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
        *(f"<{name}>{{}}</{name}>" for name in ("script", "style", "template", "noscript", "iframe")),
        *("<SCRIPT type=x>{}</SCRIPT >", "<!-- {} -->", "<p title='{}'>", "<input type=hidden value='{}'>"),
        *("<div hidden>{}</div>", "<div hidden><p hidden>{}</p></div>", "<div aria-hidden=true>{}</div>"),
        *("<div style='color:red; DISPLAY: none'>{}</div>", "<div style=visibility:hidden>{}</div>"),
    ],
)
def test_hidden_content_is_no_visible_text(hidden):
    page = f"<title>Staff</title><p>Before{hidden.format('June june.o@example.com')}<p>After"
    assert text_of(page) == ("Staff", "Before After")


def test_entities_whitespace_and_comments_are_resolved():
    page = "<title>Staff &amp;\n friends</title><h1>Juniper</h1><p>O&#39;Thimble<br>12&nbsp;Acorn<!-- --> 1 < 2</p>"
    assert text_of(page) == ("Staff & friends", "Juniper O'Thimble 12 Acorn 1 < 2")


def test_a_custom_element_is_no_script():
    assert text_of("<script-note>one</script-note><title-bar>two</title-bar>") == ("", "one two")


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
        ("junexo@example.com", ()),
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
def test_kinds_of_data_are_detected_in_any_spelling(text, kinds):
    assert kinds_in(JUNIPER, text) == kinds


def test_an_empty_subject_matches_nothing():
    blank = Subject(names=(), emails=("", " "), phone_numbers=("", "x"), places=(Place(), Place("12")))
    assert kinds_in(blank, "12 Acorn Street 6095550123 june.o@example.com 12 x") == ()
    assert not mentions(blank, "anybody")
    assert not mentions(Subject(names=(Name("", "Quill"), Name("Quill", ""))), "Quill Quill")


@pytest.mark.parametrize(
    ("text", "is_mentioned"),
    [
        *((text, True) for text in ("Juniper O'Thimble", "JUNIPER OTHIMBLE", "O\u2019Thimble, Juniper")),
        *((text, True) for text in ("Juniper Clementine B. O'Thimble", "by Juniper O'Thimble's sister")),
        *((text, True) for text in ("Mary-Ann Nettle Moor", "(mary ann nettle\u2010moor)")),
        *(
            (text, False)
            for text in ("", "Juniper", "O'Thimble", "Junipera O'Thimble", "Juniper Nettle-Moor")
        ),
        ("Juniper berries grow on every othimble", False),
    ],
)
def test_a_mention_requires_first_and_last_name_together(text, is_mentioned):
    assert mentions(JUNIPER, text) is is_mentioned


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (Name("Zeb", "Otterwick Jr."), "Zeb Otterwick of Mothgate"),
        (Name("Zeb", "Otterwick, III"), "Otterwick, Zeb"),
        *(
            (Name("J\u00fcrgen", "M\u00fchlenfenn"), text)
            for text in ("Juergen Muehlenfenn", "Jurgen Muhlenfenn", "J\u00fcrgen Muehlenfenn")
        ),
        (Name("Juergen", "Muehlenfenn"), "J\u00fcrgen M\u00fchlenfenn"),
    ],
)
def test_a_mention_may_lack_generation_and_umlauts(name, text):
    assert mentions(Subject(names=(name,)), text)


@pytest.mark.parametrize(
    "markup",
    [
        "<div>" * 100_000,
        "<svg><g>" * 50_000,
        "<b>" * 100_000,
        # each paragraph would contain hundreds of elements
        "<p>" + "".join(f"<b id={number}>" for number in range(400)) + "</p>" + "<p>x</p>" * 3_000,
        "x" * 2_000_001,
    ],
)
def test_markup_that_is_too_large_or_nested_is_not_read(markup):
    assert tree(markup) is None
    assert text_of(markup) == ("", "")


@pytest.mark.parametrize(
    ("start", "again"),
    [
        ("<p ", "a{}=1 "),
        ("", "<html a{}=1>"),
        ("<select>", "<option>{}"),
        ("<a b", " " * 9),
        *(("", again) for again in ("<!--{}", "<script {}", "<title><{}", '<a "{}', "<a b='\"{}")),
        *(("", again) for again in ("<", "</", "<!", "&am", "\0", "\ud800")),
    ],
)
def test_long_and_broken_markup_is_read_to_its_end(start, again):
    """Quadratic time would not end at this length."""
    markup = start + "".join(again.format(number) for number in range(19_000))
    page = tree(markup)
    assert page is not None
    assert all(len(node.attributes) <= ATTRIBUTES_MAX for node in page.css("*"))


@pytest.mark.parametrize(
    ("start", "again"),
    [
        ("<script>", "</script "),
        ("<style>", "</style/"),
        ("<title>", "</title "),
        ("<textarea>", "</textarea\n"),
        ("", "<script></script x"),
        ("<script>", "</scriptx>"),
    ],
)
def test_repeated_closing_tags_are_read_to_the_end(start, again):
    assert text_of(start + again * 40_000)[1] == ""


@pytest.mark.parametrize(
    "piece", ["609555012", "6 0 9 ", "juniper ", "12 acorn ", "june.o@", "\ufdfa", "a\u0301", "."]
)
def test_hostile_text_is_searched_to_its_end(piece):
    text = piece * 200_000
    assert (kinds_in(JUNIPER, text), mentions(JUNIPER, text)) == ((), False)


TAGS = "<b> </b> <p> <table> <td <title> </title> <textarea> <script> </script> <svg> <plaintext> <template>"
ODD = ["<!--", "-->", "<!", "</", "<", ">", "'", '"', "=", "/", " a", "&lt;", "\0", "\ud800"]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(TAGS.split() + ODD) | st.text(max_size=3)).map("".join))
def test_any_markup_is_read_without_scripts(markup):
    page = tree(markup)
    assert page is not None
    assert page.css("script, style, template, iframe") == []
    title, text = text_of(markup)
    assert "\0" not in title + text


@settings(max_examples=60)
@given(st.text(max_size=300))
def test_plain_text_is_unchanged(text):
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    assert text_of(f"<p>{escaped}") == text_of(f"<title></title><p>{escaped}</p>")
    assert "email" in kinds_in(JUNIPER, f"{text} june.o@example.com")
