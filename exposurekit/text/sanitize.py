"""Sanitize untrusted text for HTML, Markdown, Plotly, chats and terminals: the only module that turns it into markup."""

import contextlib
import html
import ipaddress
import re

import nh3

__all__ = [
    "escape_chat",
    "escape_chat_url",
    "escaped",
    "fragment",
    "isolated",
    "isolated_value",
    "label",
    "link",
    "link_text",
    "link_with_path",
    "marked_down",
    "plain",
    "pointed_at",
    "unescaped",
    "with_isolates",
]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
# What CommonMark, or GitHub's dialect, reads as markup: anywhere; an underscore before a word; an entity; a heading
# or its end; a quotation; a list or a line.
_MARKED = re.compile(
    r"[\\`*\[\]<~]|(?<![^\W_])_|&(?=#?\w+;)|^#(?=#{0,5}(?:[ \t]|$))|(?<![^ \t#])#(?=#*$)|^>"
    r"|^[+-](?=[ \t-]|$)"
)
_NUMBERED = re.compile(r"^(\d{1,9})([.)])(?=[ \t]|$)")
# What chats interpret as mentions, links or formatting, with replacements that look alike.
_IN_CHAT = str.maketrans(
    {"<": "\u2039", ">": "\u203a", "[": "(", "]": ")", "`": "'", "*": "\u2217", "~": "\u223c", "|": "\u00a6"}
    | {"\\": "\u2216", "#": "\uff03"}
    | dict.fromkeys("@\uff20\ufe6b", "(at)")
)
_AT_AN_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # within a word it is not formatting
_UNBROKEN = re.compile(
    r"\d{4}-\d{2}-\d{2}|\(n = [\d,]+[^)]*\)\.?|(?:\d[\d,]* h )?\d+ min\b|\d[\d.,]*%?\N{EN DASH}\d[\d.,]*%?"
)
_ENTITY = re.compile(r"&(?=\w+;)")
_NOT_IN_ADDRESS = re.compile(r"[^A-Za-z0-9_/:?&=.,+%#$!-]")
_ADDRESS = re.compile(
    r"https?://(?P<host>\[[0-9a-f:.]+\]|[^\s\\/?#@%:\[\]]+)(?::(?P<port>[0-9]{0,5}))?(?:[/?#][^\s\\]*)?",
    re.IGNORECASE,
)
_PORT_MAX = 65_535
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")
_NOT_POINTED = re.compile(r"[<>]")
# Words of scripts that are written from right to left, such as Hebrew and Arabic; also escaped for HTML.
_LEFTWARD = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff"
_LEFTWARD_WORDS = re.compile(rf"[{_LEFTWARD}](?:(?:[ .'\"\u2019-]|&#x27;|&quot;)*[{_LEFTWARD}])*")
_SCHEMES = {"http", "https"}
_TAGS = {"a", "b", "br", "code", "em", "i", "li", "ol", "p", "strong", "ul"}


def escaped(text: object) -> str:
    """Escape text for HTML, between tags and in quoted attributes.

    >>> escaped('<b onclick="x()">')
    '&lt;b onclick=&quot;x()&quot;&gt;'
    """
    return html.escape(plain(text))


def isolated(text: object) -> str:
    """Escape a sentence for HTML; words from right to left do not change the order of what stands around them.

    >>> isolated("Names & dates"), isolated("on \u05d0\u05ea\u05e8 7").replace("\u05d0\u05ea\u05e8", "...")
    ('Names &amp; dates', 'on <bdi>...</bdi> 7')
    """
    return _LEFTWARD_WORDS.sub(r"<bdi>\g<0></bdi>", escaped(text))


def isolated_value(text: object) -> str:
    """Escape a value for HTML, such as a name; one with words from right to left has the direction of its first.

    >>> isolated_value("7 \u05d0\u05ea\u05e8").replace("\u05d0\u05ea\u05e8", "..."), isolated_value("7 <i>")
    ('<bdi>7 ...</bdi>', '7 &lt;i&gt;')
    """
    value = escaped(text)
    return f"<bdi>{value}</bdi>" if _LEFTWARD_WORDS.search(value) else value


def with_isolates(text: str) -> str:
    r"""Enclose words from right to left in isolates, for text that is displayed where there is no markup for it.

    >>> with_isolates("a 7"), ascii(with_isolates("\u05d0 7"))
    ('a 7', "'\\u2068\\u05d0\\u2069 7'")
    """
    return _LEFTWARD_WORDS.sub("\u2068\\g<0>\u2069", text)


def with_unbroken_dates(text: object) -> str:
    """Escape text for HTML as `isolated`, so that its dates, durations, ranges and numbers of listings stay on one line.

    >>> with_unbroken_dates("since 2026-03-01")
    'since <span class="unbroken">2026-03-01</span>'
    """
    return _UNBROKEN.sub(lambda date: f'<span class="unbroken">{date[0]}</span>', isolated(text))


def label(text: object) -> str:
    """Escape text for a Plotly string: Plotly interprets tags, and a styled span can send a request.

    >>> label("<span style='background:url(//x.example)'>AT&T")
    "&lt;span style='background:url(//x.example)'&gt;AT&amp;T"
    """
    return html.escape(plain(text), quote=False)


def unescaped(text: str) -> str:
    """Decode HTML entities.

    >>> unescaped("AT&amp;T &#65;")
    'AT&T A'
    """
    return html.unescape(text)


def plain(text: object) -> str:
    r"""Return text as one line, without control and direction-changing characters.

    >>> plain("a\x1b[31mb\u202ec\nd")
    'a[31mbc d'
    """
    return _CONTROL.sub("", re.sub("[\n\u2028\u2029]", " ", str(text)))


def printable(text: str) -> str:
    r"""Return text for a terminal: its lines, without control and direction-changing characters.

    >>> printable("a\x1b[31mb\nc")
    'a[31mb\nc'
    """
    return _CONTROL.sub("", text)


def escape_chat(text: object) -> str:
    r"""Escape text for chats and mails: one line without mentions, links or formatting.

    >>> escape_chat("@everyone [Your *account*](https://x.example)") == "(at)everyone (Your \u2217account\u2217)(https: //x.example)"
    True
    """
    text = _AT_AN_EDGE.sub("\u02cd", plain(text).translate(_IN_CHAT))
    return _ENTITY.sub("\uff06", text).replace("://", ": //")


def escape_chat_url(url: object) -> str:
    """Escape a URL for chats and mails: characters of formatting are percent-encoded.

    >>> escape_chat_url("https://site.example/p/@here?x=*1*&of=a_b")
    'https: //site.example/p/%40here?x=%2A1%2A&of=a_b'
    """
    text = _NOT_IN_ADDRESS.sub(lambda match: _percent(match[0]), plain(url).strip())
    return _AT_AN_EDGE.sub("%5F", text).replace("://", ": //")


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def link(url: object, words: object = None) -> str:
    """Return a link to a URL from outside, in a new tab and without a referrer; its text is the host.

    A URL that is not http(s), or whose host is ambiguous, is returned as escaped text.

    >>> link("https://site.example/opt-out?id=7")
    '<a href="https://site.example/opt-out?id=7" target="_blank" rel="noopener noreferrer nofollow">site.example</a>'
    >>> link("javascript:x()"), link("https://site.example@other.example")
    ('javascript:x()', 'https://site.example@other.example')
    """
    text = str(url).strip()
    if (host := _host(text)) is None:
        return escaped(text)
    text_html = isolated_value(host if words is None else words)
    return f'<a href="{escaped(text)}" target="_blank" rel="noopener noreferrer nofollow">{text_html}</a>'


def link_with_path(url: object) -> str:
    """Return a link whose text is the URL without its scheme, readable in print.

    >>> link_with_path("https://site.example/opt-out?id=7")
    '<a href="https://site.example/opt-out?id=7" target="_blank" rel="noopener noreferrer nofollow">site.example/opt-out?id=7</a>'
    >>> link_with_path("javascript:x()")
    'javascript:x()'
    """
    return link(url, link_text(url))


def link_text(url: object) -> str | None:
    """Return a URL without its scheme; None if it must not be a link.

    >>> link_text("https://site.example/opt-out?id=7"), link_text("javascript:x()")
    ('site.example/opt-out?id=7', None)
    """
    text = str(url).strip()
    host, match = _host(text), _ADDRESS.fullmatch(text)
    if host is None or match is None:
        return None
    rest = text[match.end("host") :]
    return host + ("" if rest == "/" else rest)


def _host(address: str) -> str | None:
    """Return the host that a browser opens; None if it is ambiguous.

    Source: WHATWG URL Standard, "Host parsing".
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or plain(address) != address or int(match["port"] or 0) > _PORT_MAX:
        return None
    with contextlib.suppress(ValueError):
        if match["host"].startswith("["):
            number = ipaddress.IPv6Address(match["host"][1:-1])
            return None if number.ipv4_mapped else f"[{number}]"
        name = _ascii(match["host"])
        if _NUMBER.fullmatch(name):
            return str(ipaddress.IPv4Address(name))
        return name if _NAME.fullmatch(name) else None
    return None


def _ascii(name: str) -> str:
    """Return a host name in lower case, with non-ASCII labels in Punycode."""
    if name.isascii() and "xn--" not in name.lower():
        return name.lower()
    import idna

    return idna.encode(name, uts46=True).decode()


def marked_down(text: object) -> str:
    r"""Escape text for Markdown, on one line, where it would be markup; other text stays as it is.

    >>> marked_down("# [x](javascript:y) <b>"), marked_down("opt-out (1953-04-28)")
    ('\\# \\[x\\](javascript:y) \\<b>', 'opt-out (1953-04-28)')
    """
    line = plain(text).strip(" \t")  # blanks in front could make it code
    return _NUMBERED.sub(r"\1\\\2", _MARKED.sub(r"\\\g<0>", line))


def coded(text: object) -> str:
    """Return text as a code span in Markdown, on one line.

    >>> coded("1953-04-28"), coded("a`b")
    ('`1953-04-28`', '``a`b``')
    """
    line = plain(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    edge = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{edge}{line}{edge}{fence}"


def pointed_at(url: object) -> str:
    """Return a Markdown link to a URL from outside; escaped text if it does not show its host.

    >>> pointed_at("https://site.example/opt-out?id=7"), pointed_at("javascript:x")
    ('<https://site.example/opt-out?id=7>', 'javascript:x')
    """
    text = str(url).strip()
    host, begins = _host(text), text.partition("//")[2].lower()
    is_visible = host is not None and begins.startswith(host) and not _NOT_POINTED.search(text)
    return f"<{text}>" if is_visible else marked_down(text)


def fragment(markup: str) -> str:
    """Remove everything but plain formatting from markup, such as an alert's ``html``.

    Only http(s) links remain; scripts, styles, images and all other attributes are removed.

    >>> fragment('<p onclick="x()">Gone<script>x()</script> <img src=//x.example></p>')
    '<p>Gone </p>'
    """
    return nh3.clean(
        markup,
        tags=_TAGS,
        attributes={"a": {"href"}},
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
        url_relative="deny",
    )


def __dir__() -> list[str]:
    return [*__all__]
