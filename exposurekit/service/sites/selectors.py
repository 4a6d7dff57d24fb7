"""Selectors of a site definition: CSS with an optional attribute for HTML, JMESPath for JSON."""

import re

import jmespath
from jmespath.exceptions import JMESPathError
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

_XPATH_START = re.compile(r"\(*\.?//?")
_XPATH_STEP = re.compile(r"(//?)(following-sibling::)?([a-zA-Z][\w-]*|\*)")
_XPATH_TEST = re.compile(
    r"""(?:(contains|starts-with)\(\s*(@[\w-]+|text\(\)|\.)\s*,\s*(?:'([^'"\\]*)'|"([^'"\\]*)")\s*\)"""
    r"""|(@[\w-]+)(?:\s*=\s*(?:'([^'"\\]*)'|"([^'"\\]*)"))?)"""
)
_XPATH_TEXT = r"""(?:'[^']*'|"[^"]*"|[^\[\]'"])*"""
_XPATH_PREDICATE = re.compile(rf"\[({_XPATH_TEXT})\]")
_XPATH_WHOLE = re.compile(rf"\(({_XPATH_TEXT}(?:\[{_XPATH_TEXT}\]{_XPATH_TEXT})*)\)\[1\]")
_XPATH_FIRST = re.compile(r"(.*\])\[1\]")
_XPATH_MAX = 500  # characters
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


def from_xpath(xpath: str, *, only_first: bool = False) -> str | None:
    """Return the CSS selector for an XPath expression, or None if CSS cannot say the same.

    Steps to descendants, children and following siblings are translated, with tests of attributes, of the text and of
    the position. With ``only_first``, the selector may match more elements after the first one.

    >>> from_xpath(".//dt[contains(text(), 'Lived in')]/following-sibling::dd/a[@class='town']")
    'dt:lexbor-contains("Lived in") ~ dd > a[class="town"]'
    >>> from_xpath("//b/following-sibling::i[1]"), from_xpath("(.//a[@href])[1]", only_first=True)
    ('b ~ i:not(b ~ i ~ i)', 'a[href]')
    >>> from_xpath("//tr/td[3] | //p[2]"), from_xpath("//p[last()]"), from_xpath("//p/text()")
    ('tr > td:nth-of-type(3), p:nth-of-type(2)', None, None)
    """
    if len(xpath) > _XPATH_MAX:
        return None
    paths = [
        _path_as_css(path.strip(), only_first=only_first)
        for path in re.split(r"""\|(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""", xpath)
    ]
    css = ", ".join(path for path in paths if path)
    return css if all(paths) and compiles(css, "html") else None


def is_xpath(selector: str) -> bool:
    """Return whether a selector is XPath rather than CSS."""
    return _XPATH_START.match(selector.strip()) is not None


def _path_as_css(path: str, *, only_first: bool) -> str | None:
    if only_first and (whole := _XPATH_WHOLE.fullmatch(path)):
        path = whole[1]
    elif only_first and (first := _XPATH_FIRST.fullmatch(path)):
        path = first[1]
    path, css, position = path.removeprefix("."), "", 0
    while step := _XPATH_STEP.match(path, position):
        combinator = " ~ " if step[2] else " " if step[1] == "//" else " > "
        before, css = css, css + (combinator if css else "") + step[3]
        position = step.end()
        if step[2] and before and path.startswith("[1]", position):
            css += f":not({css} ~ {step[3]})"
            position += len("[1]")
        tests = 0
        while predicate := _XPATH_PREDICATE.match(path, position):
            part = _predicate_as_css(predicate[1], is_first=not tests and not step[2] and step[3] != "*")
            if part is None:
                return None
            css, position, tests = css + part, predicate.end(), tests + 1
    return css if css and position == len(path) else None


def _predicate_as_css(predicate: str, *, is_first: bool) -> str | None:
    if predicate.isdecimal():
        return f":nth-of-type({predicate})" if is_first else None
    parts = [_test_as_css(test.strip()) for test in predicate.split(" and ")]
    return None if None in parts else "".join(part for part in parts if part)


def _test_as_css(test: str) -> str | None:
    if inner := re.fullmatch(r"not\((.*)\)", test):
        css = _test_as_css(inner[1].strip())
        return css and f":not({css})"
    match = _XPATH_TEST.fullmatch(test)
    if match is None:
        return None
    if match[5]:
        value = match[6] or match[7]
        return f"[{match[5][1:]}]" if value is None else f'[{match[5][1:]}="{value}"]'
    value = match[3] or match[4] or ""
    if match[2].startswith("@"):
        return f'[{match[2][1:]}{"*" if match[1] == "contains" else "^"}="{value}"]'
    if match[1] != "contains" or not value:
        return None
    own_text = f':lexbor-contains("{value}")'  # of the element alone, without those within
    return own_text if match[2] == "text()" else f":is({own_text}, :has({own_text}))"
