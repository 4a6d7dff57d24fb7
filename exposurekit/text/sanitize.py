"""The only place that makes markup out of text that came from outside. Never trusts it."""

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
    "label",
    "link",
    "link_text",
    "link_with_path",
    "marked_down",
    "plain",
    "pointed_at",
    "unescaped",
]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_MARKED = re.compile(r"[\\`*_{}\[\]<>()#+!|~&-]")
# What any chat takes for a mention, a link or formatting, and what reads like it there and in a mail.
_IN_CHAT = str.maketrans(
    {"<": "\u2039", ">": "\u203a", "[": "(", "]": ")", "`": "'", "*": "\u2217", "~": "\u223c", "|": "\u00a6"}
    | {"\\": "\u2216", "#": "\uff03"}
    | dict.fromkeys("@\uff20\ufe6b", "(at)")
)
_AT_AN_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # within a word no chat reads it as more than a letter
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
_SCHEMES = {"http", "https"}
_TAGS = {"a", "b", "br", "code", "em", "i", "li", "ol", "p", "strong", "ul"}


def escaped(text: object) -> str:
    """Text as it stands, safe between tags and inside quoted attributes.

    >>> escaped('<b onclick="x()">')
    '&lt;b onclick=&quot;x()&quot;&gt;'
    """
    return html.escape(plain(text))


def label(text: object) -> str:
    """Text for a Plotly string: Plotly reads tags there, and a styled span can make a request.

    >>> label("<span style='background:url(//x.example)'>AT&T")
    "&lt;span style='background:url(//x.example)'&gt;AT&amp;T"
    """
    return html.escape(plain(text), quote=False)


def unescaped(text: str) -> str:
    """What a text says once it is read as HTML.

    >>> unescaped("AT&amp;T &#65;")
    'AT&T A'
    """
    return html.unescape(text)


def plain(text: object) -> str:
    r"""Text for a terminal or a message: one line; control and direction-changing characters taken out.

    >>> plain("a\x1b[31mb\u202ec\nd")
    'a[31mbc d'
    """
    return _CONTROL.sub("", re.sub("[\n\u2028\u2029]", " ", str(text)))


def escape_chat(text: object) -> str:
    r"""Text for a message to any chat, or a mail: one line that calls nobody, leads nowhere and looks like its words.

    >>> escape_chat("@everyone [Your *account*](https://x.example)") == "(at)everyone (Your \u2217account\u2217)(https: //x.example)"
    True
    """
    text = _AT_AN_EDGE.sub("\u02cd", plain(text).translate(_IN_CHAT))
    return _ENTITY.sub("\uff06", text).replace("://", ": //")


def escape_chat_url(url: object) -> str:
    """The same for an address from outside: what stands in it for formatting is written as addresses write it.

    >>> escape_chat_url("https://site.example/p/@here?x=*1*&of=a_b")
    'https: //site.example/p/%40here?x=%2A1%2A&of=a_b'
    """
    text = _NOT_IN_ADDRESS.sub(lambda match: _percent(match[0]), plain(url).strip())
    return _AT_AN_EDGE.sub("%5F", text).replace("://", ": //")


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def link(url: object, words: object = None) -> str:
    """A link to an address from outside, which opens apart and tells nobody where it was clicked; its host is its text.

    What is no http or https address, or leaves open to which host it leads, is no link, but stands there as text.

    >>> link("https://site.example/opt-out?id=7")
    '<a href="https://site.example/opt-out?id=7" target="_blank" rel="noopener noreferrer nofollow">site.example</a>'
    >>> link("javascript:x()"), link("https://site.example@other.example")
    ('javascript:x()', 'https://site.example@other.example')
    """
    text = str(url).strip()
    if (host := _host(text)) is None:
        return escaped(text)
    text_html = escaped(host if words is None else words)
    return f'<a href="{escaped(text)}" target="_blank" rel="noopener noreferrer nofollow">{text_html}</a>'


def link_with_path(url: object) -> str:
    """A link whose text is the whole address without its scheme, so that it can be read in print.

    >>> link_with_path("https://site.example/opt-out?id=7")
    '<a href="https://site.example/opt-out?id=7" target="_blank" rel="noopener noreferrer nofollow">site.example/opt-out?id=7</a>'
    >>> link_with_path("javascript:x()")
    'javascript:x()'
    """
    return link(url, link_text(url))


def link_text(url: object) -> str | None:
    """An address without its scheme, to read beside or instead of a link; None if it must not be a link.

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
    """The host that a browser opens, as it names it; None where it is not written plainly, and readers may differ.

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
    """A host's name as it is asked for: in lower case, other letters than English ones in Punycode."""
    if name.isascii() and "xn--" not in name.lower():
        return name.lower()
    import idna

    return idna.encode(name, uts46=True).decode()


def marked_down(text: object) -> str:
    r"""Text as it stands, in Markdown: on one line, and no markup of its own.

    >>> marked_down("# [x](javascript:y) <b>")
    '\\# \\[x\\]\\(javascript:y\\) \\<b\\>'
    """
    return _MARKED.sub(r"\\\g<0>", plain(text))


def coded(text: object) -> str:
    """Text to copy, as a code span in Markdown: on one line, and nothing in it is markup.

    >>> coded("1953-04-28"), coded("a`b")
    ('`1953-04-28`', '``a`b``')
    """
    line = plain(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    edge = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{edge}{line}{edge}{fence}"


def pointed_at(url: object) -> str:
    """A link to an address from outside, in Markdown; what does not show the host that it opens stands there as text.

    >>> pointed_at("https://site.example/opt-out?id=7"), pointed_at("javascript:x")
    ('<https://site.example/opt-out?id=7>', 'javascript:x')
    """
    text = str(url).strip()
    host, begins = _host(text), text.partition("//")[2].lower()
    is_shown = host is not None and begins.startswith(host) and not _NOT_POINTED.search(text)
    return f"<{text}>" if is_shown else marked_down(text)


def fragment(markup: str) -> str:
    """Markup from outside, such as an alert's ``html``, with all but plain formatting taken out.

    Links keep http and https targets only; scripts, styles, images and every attribute else are gone.

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
