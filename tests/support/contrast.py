"""The contrast of each text in a page with what is drawn behind it, by the formula of WCAG 2."""

from pathlib import Path

LEAST = 4.5  # of text, as WCAG 2.1 has it at level AA

_MEASURED = (Path(__file__).parent / "browser_scripts/contrast.js").read_text()


def measured(page, selector):
    """Each visible text within some elements: ``words``, ``ratio``, and the colours."""
    return page.evaluate(_MEASURED, selector)
