"""The only place that makes markup out of text that came from outside. Never trusts it."""

import html
import re

import nh3

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
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


def plain(text: object) -> str:
    r"""Text for a terminal or a message: one line; control and direction-changing characters taken out.

    >>> plain("a\x1b[31mb\u202ec\nd")
    'a[31mbc d'
    """
    return _CONTROL.sub("", re.sub("[\n\u2028\u2029]", " ", str(text)))


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
        url_schemes={"http", "https"},
        link_rel="noopener noreferrer nofollow",
        url_relative="deny",
    )
