"""External text in HTML, Plotly, chats and terminals: it remains text, or plain formatting."""

import html
import random
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support import jupyter
from support.hostile_texts import PAYLOADS
from support.payloads import TEXT

from exposurekit.text.sanitize import (
    escape_chat,
    escape_chat_url,
    escaped,
    fragment,
    isolated,
    isolated_value,
    label,
    link,
    link_with_path,
    marked_down,
    plain,
    pointed_at,
    with_isolates,
)

MARKUP = TEXT | st.text(st.sampled_from("<>/=\"'&;#ascripthref:jv \n\x00onclk-!"), max_size=40)
MARKDOWN = TEXT | st.text(st.sampled_from("ab1 12\t_*`#>+-.)(![]{}<&;~|=\\\\:/\"'x@"), max_size=20)
IN_MARKDOWN = ("{}", "# {}", "1. {}", "- a\n    - b: {}", "- [ ] **b** {}")
# The last ones are for fragments, which may have links.
ATTACKS = [
    *PAYLOADS,
    "<a href=' &#106;avascript:x()'>a</a>",
    *("<a href='//x.example'>a</a>", "<a href='/path'>a</a>", "<a href='file:///etc/hostname'>a</a>"),
    "<p style='background:url(//x.example)'>a</p>",
    "<math><mtext><img src=x onerror=x()></mtext></math>",
    "<b onclick=x() id=a class=b data-x=1>a</b>",
]


class Tags(HTMLParser):
    """The tags of some HTML with their attributes, and its text."""

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


@given(MARKDOWN)
@example("_a_ __b__ c_d_ a#")
@example("a ##")
@example("1961. a")
@example("~~a~~ &amp; &#65;")
@example("    a")
def test_text_in_markdown_is_displayed_as_it_is(text):
    line = " ".join(re.split("[ \t]+", plain(text).strip(" \t")))
    assume(line)
    render = MarkdownIt("commonmark").enable(["strikethrough", "table"]).render
    for around in IN_MARKDOWN:
        markup = Tags(render(around.format(marked_down(text))))
        assert markup.tags == Tags(render(around.format("x"))).tags
        assert " ".join(re.split("[ \t\n]+", markup.text.strip())).endswith(line.strip())


def test_plain_words_in_markdown_have_no_backslash():
    words = "Open site.example/opt-out_form (it is #4), enter 1961-04-12 & a snake_case; 1.5 > 1!"
    assert marked_down(words) == words


@given(MARKUP)
def test_escaped_text_is_never_markup(text):
    assert html.unescape(escaped(text)) == html.unescape(label(text)) == plain(text)
    assert not {"<", ">", '"', "'"} & set(escaped(text))
    assert not {"<", ">"} & set(label(text))


@pytest.mark.parametrize("attack", ATTACKS)
def test_escaped_attack_has_no_tags(attack):
    for escaped_text in (escaped(attack), label(attack)):
        assert Tags(escaped_text).tags == []


@given(MARKUP | st.text(st.sampled_from("a 7(\u05d0\u05d1\u0627\u0644'\"<&.")))
def test_isolates_enclose_only_words_from_right_to_left(text):
    """They change nothing of the text, and each begins and ends with a letter from right to left."""
    for isolate, begin, end in ((isolated, "<bdi>", "</bdi>"), (with_isolates, "\u2068", "\u2069")):
        whole = escaped(text) if isolate is isolated else plain(text)
        words = isolate(text if isolate is isolated else whole)
        assert words.replace(begin, "").replace(end, "") == whole
        for part in words.split(begin)[1:]:
            run = part.split(end)[0]
            assert {unicodedata.bidirectional(run[at]) for at in (0, -1)} <= {"R", "AL", "NSM", "AN"}
        outside = "".join(part.split(end)[-1] for part in words.split(begin))
        assert not {unicodedata.bidirectional(one) for one in outside} & {"R", "AL"}
    value = isolated_value(text)
    assert value in (escaped(text), f"<bdi>{escaped(text)}</bdi>")
    assert value.startswith("<bdi>") == ("<bdi>" in isolated(text))


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
def test_plain_drops_only_control_characters(text, expected):
    assert plain(text) == expected


ALLOWED = {"a", "b", "br", "code", "em", "i", "li", "ol", "p", "strong", "ul"}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_survives_in_a_fragment(attack):
    for markup in (attack, f"<p>{attack}</p>", f"<a href='https://a.example'>{attack}</a>", attack[:-1]):
        for tag, attributes in Tags(fragment(markup)).tags:
            assert tag in ALLOWED
            assert attributes.keys() <= {"href", "rel"}
            assert attributes.get("href", "https://a.example").lower() == "https://a.example"


@given(MARKUP)
def test_fragment_contains_only_plain_formatting(markup):
    once = fragment(markup)
    assert fragment(once) == once
    for tag, attributes in Tags(once).tags:
        assert tag in ALLOWED
        assert attributes.keys() <= ({"href", "rel"} if tag == "a" else set())


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
def test_fragment_preserves_plain_formatting_and_safe_links(markup, expected):
    assert fragment(markup) == expected


CALLS = re.compile(r"[@\uff20\ufe6b<>\[\]`*~|\\\n]|://|(?<![^\W_])_|_(?![^\W_])|&\w+;")


@given(TEXT | st.text(st.sampled_from("@<>[]()`*_~|#&;:/\\!ab \n\uff20"), max_size=40))
def test_chat_text_mentions_links_and_formats_nothing(text):
    for chat_text in (escape_chat(text), escape_chat_url(text)):
        assert not CALLS.search(chat_text)


@pytest.mark.parametrize("text", ["Nosy Heron", "seek-folk.example", "AT&T", "a_b (c)", "O'Neill, Åsa"])
def test_chat_text_without_markup_is_unchanged(text):
    assert escape_chat(text) == text


NO_LINKS = [
    *("https://evil.example\\@seekfolk.example/opt-out", "https:\\\\evil.example", "https:/evil.example"),
    *(
        "https:evil.example",
        "https:///evil.example",
        "//evil.example",
        "https://",
        "https://?seekfolk.example",
    ),
    *("https://seekfolk.example@evil.example", "https://seekfolk.example:443@evil.example"),
    *("https://seekfolk.example%40evil.example", "https://seekfolk%2eexample", "https://ev\til.example"),
    *("https://ev\nil.example", "https://ev\x00il.example", "https://evil.example\u3000.seekfolk.example"),
    *("https://seekfolk.example/\u202egnp", "https://127.1", "https://0x7f.0.0.1", "https://127.0.0.01"),
    *("https://256.0.0.1", "https://[::ffff:1.2.3.4]", "https://[fe80::1%25eth0]", "ftp://seekfolk.example"),
    *("https://seekfolk.example:99999", "https://seekfolk.example:\u0664\u0664\u0663"),
    *("https://a\u2100b.example", "https://xn--a.example", "https://seek..example"),
]
LINKS = {  # by the host that a browser opens
    "seekfolk.example": [
        *("https://seekfolk.example/opt-out?id=7#form", "HTTPS://SeekFolk.Example:8443"),
        " https://seekfolk.example/a%20b \n",
    ],
    "127.0.0.1": ["http://127.0.0.1:8080/", "https://\uff11\uff12\uff17.0.0.1"],
    "a_b.example.": ["https://a_b.example./"],
    "evil.example": [
        *("https://evil.example#@seekfolk.example", "https://evil.example?@seekfolk.example"),
        *("https://evil.example/@seekfolk.example", "https://evil\u3002example"),
        *("https://evil\uff0eexample/", "https://ev\u00adil.example"),
    ],
    "xn--bcher-kva.example": ["https://b\u00fccher.example", "https://XN--bcher-kva.example"],
    "xn--fa-hia.example": ["https://fa\u00df.example"],
    "xn--eekfolk-iog.example": ["https://\u0455eekfolk.example"],
    "[::1]": ["https://[0:0::1]:8080/"],
    "[1::2:0:0:3]": ["https://[1::2:0:0:3]/"],
    None: NO_LINKS,
}
HOSTS = [(address, host) for host, addresses in LINKS.items() for address in addresses]


def target(anchor):
    """The address of the only tag of some markup, and its words; None: it has no tag."""
    tags = Tags(anchor)
    return (tags.tags[0][1]["href"], tags.text) if tags.tags else None


@pytest.mark.parametrize(("address", "host"), HOSTS, ids=ascii)
def test_link_displays_the_host_that_it_opens(address, host):
    text, anchor = address.strip(), link(address)
    assert target(anchor) == (None if host is None else (text, host))
    if host is None:
        assert html.unescape(anchor) == plain(text)
    url, words = target(link_with_path(address)) or (None, "")
    assert url == (None if host is None else text)
    assert host is None or words.startswith(host)
    is_visible = host is not None and f"//{host}" in text.lower()
    markdown = pointed_at(address)
    assert markdown == f"<{text}>" if is_visible else "<" not in markdown


@pytest.mark.long
def test_browser_opens_the_displayed_host():
    jupyter.needs_browser()
    chance = random.Random(7)  # noqa: S311  no secret
    parts = [*"evilEX.:/\\@#?%01_-[] \t\u3002\uff0e\u00ad\u00df\uff11", "0x", "xn--", "//", "%40"]
    addresses = ["https://" + "".join(chance.choices(parts, k=chance.randint(1, 8))) for _ in range(20_000)]
    links = [anchor for address in [*dict(HOSTS), *addresses] if (anchor := target(link(address)))]
    with jupyter.browsing() as (page, _):
        opened = page.evaluate(
            "links => links.map(([href]) => { try { return new URL(href).hostname } catch { return null } })",
            [[*link] for link in links],
        )
    assert len(opened) > 1_000
    mismatches = [(link, host) for link, host in zip(links, opened, strict=True) if link[1] != host]
    assert mismatches == []
