"""Reading messages: texts and links as a person sees them, and no error but one for anything else."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mail import unsigned

from exposurekit.service.mail.message_parsing import UnreadableMessage, parse

TO = "optout@privacy.example"
URL = "https://seekfolk.example/c?t=1"


def links(text=None, html=None):
    return parse(unsigned(TO, text=text or "", html=html).as_bytes()).links()


@pytest.mark.parametrize(
    "text",
    [URL, f"<{URL}>", f"({URL})", f"Open {URL}.", f'"{URL}"', f"{URL}\r\n{URL}!", f"a {URL}, b", f"[{URL}]"],
)
def test_a_link_ends_before_the_sentence_does(text):
    assert links(text) == (URL,)


@pytest.mark.parametrize(
    "html",
    [
        f'<a href="{URL}">x</a>',
        f"<A class=b HREF = '{URL}'>x</A>",
        f"<a\nhref={URL}>",
        f'<a href=" {URL} "><img></a><a href="/help">?</a><a href="mailto:x@y.example">?</a>',
        f'<a data-href="https://other.example/" href="{URL}">x</a>',
        '<a href="https://seekfolk.example/c?t&#61;1">x</a>',
    ],
)
def test_links_of_html_are_those_of_its_anchors(html):
    assert links("https://other.example/", html) == (URL,)


def test_text_is_decoded_in_its_character_set():
    content = b"From: a@b.example\r\nContent-Type: text/plain; charset=%b\r\nContent-Transfer-Encoding: %b\r\n\r\n%b"
    texts = {
        parse(content % part).text
        for part in (
            (b"iso-8859-1", b"quoted-printable", b"gr=FC=\r\n=DFe"),
            (b"utf-8", b"base64", b"Z3LDvMOfZQ=="),
            (b"x-unknown", b"8bit", "gr\u00fc\u00dfe".encode()),
        )
    }
    assert texts == {"gr\u00fc\u00dfe"}


@settings(max_examples=200)
@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_a_message_or_unreadable(content):
    for one in (
        content,
        b"From: " + content,
        b"Content-Type: " + content,
        b"To: a@b.example\r\nSubject:" + content,
    ):
        with suppress(UnreadableMessage):
            parse(one).links()


HOSTILE = {
    "nested parts": b"Content-Type: multipart/mixed; boundary=a\r\n\r\n"
    + b"--a\r\nContent-Type: multipart/mixed\r\n" * 20_000,
    "nested messages": b"Content-Type: message/rfc822\r\n\r\n" * 10_000,
    "comments": b"From: " + b"(" * 900_000,
    "addresses": b"To: " + b"a@b.example, " * 60_000,
    "anchors": b"Content-Type: text/html\r\n\r\n" + b"<a " * 300_000,
    "attributes": b"Content-Type: text/html\r\n\r\n<a " + b"href=" * 180_000,
    "entities": b'Content-Type: text/html\r\n\r\n<a href="' + b"&amp;" * 180_000 + b'">',
    "URLs": b"\r\n" + b"http://a" * 120_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_large_hostile_message_is_read_or_refused(name):
    """In time in proportion to its size: anything else would take hours."""
    with suppress(UnreadableMessage):
        assert len(parse(HOSTILE[name]).links()) < 2
