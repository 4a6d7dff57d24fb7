"""Text from outside, on its way to HTML, to Plotly and to a terminal: it stays text, or plain formatting."""

import html
import random
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import jupyter
from support.payloads import TEXT

from exposurekit.text.sanitize import (
    escape_chat,
    escape_chat_url,
    escaped,
    fragment,
    label,
    link,
    link_with_path,
    plain,
    pointed_at,
)

MARKUP = TEXT | st.text(st.sampled_from("<>/=\"'&;#ascripthref:jv \n\x00onclk-!"), max_size=40)
ATTACKS = [
    "<script>x()</script>",
    "<SCRIPT SRC=//x.example/x.js></SCRIPT>",
    "<img src=x onerror=x()>",
    "<svg onload=x()>",
    "<svg><script>x()</script></svg>",
    "<iframe src='javascript:x()'></iframe>",
    "<a href='javascript:x()'>a</a>",
    "<a href=' &#106;avascript:x()'>a</a>",
    "<a href='java\tscript:x()'>a</a>",
    "<a href='data:text/html,x'>a</a>",
    "<a href='vbscript:x'>a</a>",
    "<a href='//x.example'>a</a>",
    "<a href='/path'>a</a>",
    "<a href='file:///etc/hostname'>a</a>",
    "<p style='background:url(//x.example)'>a</p>",
    "<style>@import '//x.example';</style>",
    "<link rel=stylesheet href=//x.example>",
    "<meta http-equiv=refresh content='0;url=//x.example'>",
    "<base href=//x.example>",
    "<form action=//x.example><input><button>a</button></form>",
    "<math><mtext><img src=x onerror=x()></mtext></math>",
    "<noscript><p title='</noscript><img src=x onerror=x()>'></noscript>",
    "<object data=x></object><embed src=x><video src=x><audio src=x>",
    "<b onclick=x() id=a class=b data-x=1>a</b>",
    "<!--><img src=x onerror=x()>-->",
    "<template><img src=x onerror=x()></template>",
]


class Tags(HTMLParser):
    """What a reader of HTML finds: tags with their attributes, and text."""

    def __init__(self, markup):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        self.tags.append(("!", data))


@given(MARKUP)
def test_escaped_text_is_text_again_and_never_a_tag(text):
    assert html.unescape(escaped(text)) == plain(text)
    assert not {"<", ">", '"', "'"} & set(escaped(text))


@given(MARKUP)
def test_a_label_is_text_again_and_never_a_tag(text):
    assert html.unescape(label(text)) == plain(text)
    assert not {"<", ">"} & set(label(text))


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_is_more_than_text_once_escaped(attack):
    for escaped_text in (escaped(attack), label(attack)):
        assert Tags(escaped_text).tags == []


@given(MARKUP | st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp"])))
def test_plain_text_is_one_line_without_control_characters(text):
    plain_text = plain(text)
    assert len(plain_text.splitlines()) <= 1
    assert not any(unicodedata.category(c) == "Cc" and c != "\t" for c in plain_text)
    assert not any(
        unicodedata.bidirectional(c) in {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
        for c in plain_text
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Zoë O'Neil 李 🎈", "Zoë O'Neil 李 🎈"),
        ("a\nb\r\nc", "a b c"),
        ("a\u2028b\u2029c", "a b c"),
        ("a\x1b]0;title\x07b", "a]0;titleb"),
        ("a\x9b31mb", "a31mb"),
        ("a\u202egnp.exe", "agnp.exe"),
        ("a\u2066b\u2069\u200e\u200f\u061cc", "abc"),
        ("\ufeffa", "a"),
        (7, "7"),
        (None, "None"),
        ("", ""),
    ],
)
def test_plain_keeps_what_is_written_and_drops_what_commands(text, expected):
    assert plain(text) == expected


ALLOWED = {"a", "b", "br", "code", "em", "i", "li", "ol", "p", "strong", "ul"}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_survives_in_a_fragment(attack):
    for markup in (
        attack,
        f"<p>{attack}</p>",
        f"<a href='https://a.example'>{attack}</a>",
        attack[:-1],
        attack.upper(),
    ):
        for tag, attributes in Tags(fragment(markup)).tags:
            assert tag in ALLOWED
            assert attributes.keys() <= {"href", "rel"}
            assert attributes.get("href", "https://a.example").lower() == "https://a.example"


@given(MARKUP)
def test_a_fragment_holds_plain_formatting_alone(markup):
    for tag, attributes in Tags(fragment(markup)).tags:
        assert tag in ALLOWED
        assert attributes.keys() <= ({"href", "rel"} if tag == "a" else set())


@given(MARKUP)
def test_a_fragment_that_is_clean_stays_as_it_is(markup):
    once = fragment(markup)
    assert fragment(once) == once


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p>Gone from <b>one</b> &amp; <em>all</em></p>", "<p>Gone from <b>one</b> &amp; <em>all</em></p>"),
        ("<ul><li>a</li></ul>", "<ul><li>a</li></ul>"),
        ("<div>a</div>", "a"),
        ("AT&T <3", "AT&amp;T &lt;3"),
        (
            "<a href='https://a.example/?b=1&c=2'>a</a>",
            '<a href="https://a.example/?b=1&amp;c=2" rel="noopener noreferrer nofollow">a</a>',
        ),
    ],
)
def test_plain_formatting_and_safe_links_are_kept(markup, expected):
    assert fragment(markup) == expected


CALLS = re.compile(r"[@\uff20\ufe6b<>\[\]`*~|\\\n]|://|(?<![^\W_])_|_(?![^\W_])|&\w+;")


@given(TEXT | st.text(st.sampled_from("@<>[]()`*_~|#&;:/\\!ab \n\uff20"), max_size=40))
def test_chat_text_mentions_links_and_formats_nothing(text):
    for chat_text in (escape_chat(text), escape_chat_url(text)):
        assert not CALLS.search(chat_text)


@pytest.mark.parametrize("text", ["Nosy Heron", "seek-folk.example", "AT&T", "a_b (c)", "O'Neill, Åsa"])
def test_what_has_no_markup_is_said_as_it_stands(text):
    assert escape_chat(text) == text


# An address, and the host of its link as a browser names it; None: it is no link.
HOSTS = {
    "https://seekfolk.example/opt-out?id=7#form": "seekfolk.example",
    "HTTPS://SeekFolk.Example:8443": "seekfolk.example",
    " https://seekfolk.example/a%20b \n": "seekfolk.example",
    "http://127.0.0.1:8080/": "127.0.0.1",
    "https://a_b.example./": "a_b.example.",
    "https://evil.example#@seekfolk.example": "evil.example",
    "https://evil.example?@seekfolk.example": "evil.example",
    "https://evil.example/@seekfolk.example": "evil.example",
    "https://evil\u3002example": "evil.example",
    "https://evil\uff0eexample/": "evil.example",
    "https://ev\u00adil.example": "evil.example",
    "https://b\u00fccher.example": "xn--bcher-kva.example",
    "https://XN--bcher-kva.example": "xn--bcher-kva.example",
    "https://fa\u00df.example": "xn--fa-hia.example",
    "https://\u0455eekfolk.example": "xn--eekfolk-iog.example",
    "https://\uff11\uff12\uff17.0.0.1": "127.0.0.1",
    "https://[0:0::1]:8080/": "[::1]",
    "https://[1::2:0:0:3]/": "[1::2:0:0:3]",
    "https://evil.example\\@seekfolk.example/opt-out": None,
    "https:\\\\evil.example": None,
    "https:/evil.example": None,
    "https:evil.example": None,
    "https:///evil.example": None,
    "//evil.example": None,
    "https://": None,
    "https://?seekfolk.example": None,
    "https://seekfolk.example@evil.example": None,
    "https://seekfolk.example:443@evil.example": None,
    "https://seekfolk.example%40evil.example": None,
    "https://seekfolk%2eexample": None,
    "https://ev\til.example": None,
    "https://ev\nil.example": None,
    "https://ev\x00il.example": None,
    "https://evil.example\u3000.seekfolk.example": None,
    "https://seekfolk.example/\u202egnp": None,
    "https://127.1": None,
    "https://0x7f.0.0.1": None,
    "https://127.0.0.01": None,
    "https://256.0.0.1": None,
    "https://[::ffff:1.2.3.4]": None,
    "https://[fe80::1%25eth0]": None,
    "https://seekfolk.example:99999": None,
    "https://seekfolk.example:\u0664\u0664\u0663": None,
    "https://a\u2100b.example": None,
    "https://xn--a.example": None,
    "https://seek..example": None,
    "ftp://seekfolk.example": None,
}


def target(anchor):
    """Where the only tag of some markup leads, and its words; None: it has no tag."""
    tags = Tags(anchor)
    return (tags.tags[0][1]["href"], tags.text) if tags.tags else None


@pytest.mark.parametrize(("address", "host"), HOSTS.items(), ids=ascii)
def test_a_link_shows_the_host_that_it_opens(address, host):
    anchor = link(address)
    assert target(anchor) == (None if host is None else (address.strip(), host))
    if host is None:
        assert html.unescape(anchor) == plain(address.strip())


@pytest.mark.parametrize(("address", "host"), HOSTS.items(), ids=ascii)
def test_a_link_with_its_path_shows_the_host_first(address, host):
    url, words = target(link_with_path(address)) or (None, "")
    assert url == (None if host is None else address.strip())
    assert host is None or words.startswith(host)


@pytest.mark.parametrize(("address", "host"), HOSTS.items(), ids=ascii)
def test_markdown_links_only_where_the_text_shows_the_host(address, host):
    text = address.strip()
    shows = host is not None and f"//{host}" in text.lower()
    markdown = pointed_at(address)
    assert markdown == f"<{text}>" if shows else "<" not in markdown


@pytest.mark.long
def test_a_browser_opens_the_host_that_is_shown():
    """Of these, and of whatever else can be put together of their parts."""
    jupyter.needs_browser()
    chance = random.Random(7)  # noqa: S311  no secret
    parts = [*"evilEX.:/\\@#?%01_-[] \t\u3002\uff0e\u00ad\u00df\uff11", "0x", "xn--", "//", "%40"]
    addresses = ["https://" + "".join(chance.choices(parts, k=chance.randint(1, 8))) for _ in range(20_000)]
    links = [shown_link for address in [*HOSTS, *addresses] if (shown_link := target(link(address)))]
    with jupyter.browsing() as (page, _):
        opened = page.evaluate(
            "links => links.map(([href]) => { try { return new URL(href).hostname } catch { return null } })",
            [[*link] for link in links],
        )
    assert len(opened) > 1_000
    mismatches = [(link, host) for link, host in zip(links, opened, strict=True) if link[1] != host]
    assert mismatches == []
