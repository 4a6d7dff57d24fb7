"""Selectors: XPath becomes the CSS that selects the same elements, or nothing."""

import pytest
from selectolax.lexbor import LexborHTMLParser

from exposurekit.service.sites.selectors import from_xpath

PAGE = """<div><h3>Seen as</h3><p class="a b">One</p><p id=two>Two</p><p><b>Lives in</b> Oakmere</p></div>
<dl><dt>Lived in</dt><dd><a href=/x>Pinefall</a></dd><dd>Oakmere</dd></dl>"""


@pytest.mark.parametrize(
    ("xpath", "texts"),
    [
        ("//p[@class='a b']", ["One"]),
        (".//p[contains(@class, 'b')]", ["One"]),
        (".//p[@id]", ["Two"]),
        ("//div/p[2]", ["Two"]),
        ("//p[contains(., 'Lives')]", ["Lives in Oakmere"]),
        ("//p[contains(text(), 'Lives')]", []),
        ("//p[not(@id) and not(@class)]", ["Lives in Oakmere"]),
        ("//dt[contains(text(), 'Lived')]/following-sibling::dd", ["Pinefall", "Oakmere"]),
        ("//dt[contains(text(), 'Lived')]/following-sibling::dd[1]", ["Pinefall"]),
        ("//dd/a[starts-with(@href, '/')] | //h3", ["Seen as", "Pinefall"]),
    ],
)
def test_css_selects_what_xpath_does(xpath, texts):
    nodes = LexborHTMLParser(PAGE).css(from_xpath(xpath))
    assert sorted(node.text() for node in nodes) == sorted(texts)


@pytest.mark.parametrize(
    "xpath",
    [
        "//p/text()",
        "//p[last()]",
        "//p[position() > 1]",
        "//p[@a='x' or @b='y']",
        "//p[ancestor::div]",
        "(//p)[1]",
        '//p[@a="it\'s\\"]',
        "//",
        "//p[",
        "//a" * 400,
    ],
)
def test_xpath_that_css_cannot_say_is_none(xpath):
    assert from_xpath(xpath) is None
