"""Drafts of site definitions: what another project's file says of a site, and what a person must add."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from exposurekit.text import plain_yaml
from exposurekit.text.sanitize import plain

ASSISTED_HINT = "Hint: the form has a CAPTCHA. With removal.method assisted, exposurekit users opt-outs lists the form with what to type."
FOLLOW_UP_HINT = (
    "Hint: check this address first. With removal.method assisted and removal.email {{to: {address}, template: {template}}}, the "
    "service follows up a request that the site did not carry out."
)
TO_WRITE = "to-be-written"  # no page has this text or element, so a scan of a draft is inconclusive
NAME_MAX, LINE_MAX, URL_MAX, LOST_MAX = 200, 500, 2_000, 100
_STEM_MAX = 80
_WEB_ADDRESS = re.compile(
    r"(?<![\w./@-])(?:https?://)?(?:[\w-]{1,63}\.){1,20}(?:xn--[\w-]{1,59}|[^\W\d_]{2,63})(?![\w-])(?::\d{1,5})?"
    r"(?:[/?#][^\s\"'<>]*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Lost:
    """A field of the source that the draft does not have, and why."""

    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where a draft comes from: the file, and the terms under which its content may be used."""

    origin: str
    terms: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A site definition to complete. ``definition`` is that of `Definition`, with `TO_WRITE` where the source has nothing."""

    definition: Mapping[str, Any]
    source: Source
    lost: tuple[Lost, ...] = ()
    host: str = ""
    parent: str = ""  # the host of the site whose opt-out also removes from this one
    address: str = ""  # for requests by email, beside a form
    template: str = "neutral"  # of such a request

    @property
    def name(self) -> str:
        """Return the site's name."""
        return str(self.definition["name"])

    @property
    def method(self) -> str:
        """Return the removal's method."""
        return str(self.definition["removal"]["method"])

    @property
    def has_captcha(self) -> bool:
        """Return whether a step of the opt-out is a puzzle."""
        return any("CAPTCHA" in step for step in self.definition["opt_out_procedure"])

    @property
    def to_write(self) -> tuple[str, ...]:
        """Return the keys that a person must write."""
        return tuple(to_write(self.definition))

    @property
    def stem(self) -> str:
        """Return a file name without its ending: ASCII letters, digits and hyphens."""
        return re.sub("[^a-z0-9]+", "-", (self.host or self.name).lower())[:_STEM_MAX].strip("-") or "site"

    def text(self) -> str:
        """Return the draft as YAML, with comments that say where it comes from, what to write and what was lost."""
        lost = [f"{one.field}: {one.reason}" for one in self.lost[:LOST_MAX]]
        if len(self.lost) > LOST_MAX:
            lost.append(f"and {len(self.lost) - LOST_MAX} more fields")
        comments = [
            "Draft of a site definition. Complete it, then try it with `exposurekit sites check`.",
            f"Source: {self.source.origin}",
            f"License: {self.source.terms}",
            *(f"To write: {key}" for key in self.to_write),
            *(f"Lost: {text}" for text in lost),
            *([ASSISTED_HINT] if self.has_captcha else []),
            *([FOLLOW_UP_HINT.format(address=self.address, template=self.template)] if self.address else []),
        ]
        lines = "".join(f"# {one_line(comment)}\n" for comment in comments)
        return lines + plain_yaml.dump(dict(self.definition))


@dataclass(frozen=True, slots=True)
class Skipped:
    """A site of the source that becomes no draft, and why."""

    name: str
    reason: str


def to_write(value: Any, *keys: str) -> Iterator[str]:
    """Yield the keys of a definition, as plain data, whose value is a placeholder.

    >>> list(to_write({"search": {"no_results": ["to-be-written"]}, "name": "Seekfolk"}))
    ['search.no_results']
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from to_write(inner, *keys, str(key))
    elif value == TO_WRITE or (isinstance(value, list | tuple) and TO_WRITE in value):
        yield ".".join(keys)


def one_line(text: object, length_max: int = LINE_MAX) -> str:
    """Return text as one line of printable characters, cut to a length."""
    line = plain(" ".join(str(text).split()))  # also spaces that do not break, as in a registry's headings
    return "".join(character for character in line if character.isprintable())[:length_max].strip()


def web_address(text: str) -> str | None:
    """Return the first web address in a text, with a scheme, or None.

    >>> web_address("Write to us, or see www.seekfolk.example/opt-out."), web_address("in 4.5 days")
    ('https://www.seekfolk.example/opt-out', None)
    """
    matches = _WEB_ADDRESS.finditer(text[: 2 * URL_MAX])
    match = next((match for match in matches if text[match.end() : match.end() + 1] != "@"), None)
    if match is None or len(match[0]) > URL_MAX:
        return None
    url = match[0].rstrip(".,;:!?)]}")
    url = url if re.match("https?://", url, re.IGNORECASE) else f"https://{url}"
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    is_safe = url.isprintable() and parts.hostname and not parts.username
    return url if is_safe else None


def manual_definition(
    name: str,
    *,
    guide: str,
    procedure: Iterable[str],
    opt_out_url: str,
    search: Mapping[str, Any],
    listings: Mapping[str, Any],
    removal: Mapping[str, Any] | None = None,
    verification: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a definition, as plain data, of a site from which a person removes the listings."""
    definition = {
        "name": one_line(name, NAME_MAX),
        "guide": one_line(guide),
        "opt_out_procedure": [one_line(step) for step in procedure],
        "opt_out_url": opt_out_url,
        "search": dict(search),
        "listings": dict(listings),
        "removal": {"method": "manual", **(removal or {})},
    }
    return definition | ({"verification": dict(verification)} if verification else {})
