"""Selectors of a site definition: CSS with an optional attribute for HTML, JMESPath for JSON."""

import re

import jmespath
from jmespath.exceptions import JMESPathError
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

_SELECTOR = re.compile(r"(.*?)(?:@([\w:.-]+))?", re.DOTALL)


def selector_parts(selector: str) -> tuple[str, str | None]:
    """Split a selector into its CSS and its attribute: ``a.more@href`` has both, ``@id`` only the attribute.

    >>> selector_parts("a[title='x@y.example']@href"), selector_parts("h2")
    (("a[title='x@y.example']", 'href'), ('h2', None))
    """
    match = _SELECTOR.fullmatch(selector.strip())
    return (match[1].strip(), match[2]) if match else (selector, None)


def compiles(selector: str, answer: str) -> bool:
    """Return whether a selector is valid: CSS with an optional attribute for "html", JMESPath for "json".

    >>> compiles("li.person@data-id", "html"), compiles("li >", "html"), compiles("people[", "json")
    (True, False, False)
    """
    try:
        if answer == "json":
            jmespath.compile(selector)
        elif (parts := selector_parts(selector))[0]:
            LexborHTMLParser("").css(parts[0])
        else:
            return parts[1] is not None
    except (JMESPathError, SelectolaxError, RecursionError, ValueError):
        return False
    return True
