"""What makes two things the same thing, and how they are spread. Stable: what is hashed here lies on disks.

Keys are signed 64-bit integers, unique for one person and one kind: among a person's 10,000 things two meet by
chance once in 10^11 people.
"""

import re
from hashlib import blake2b
from urllib.parse import parse_qsl, urlencode, urlsplit

_PORTS = {"http": 80, "https": 443}
_TRACKING = re.compile(r"utm_|gclid$|fbclid$|msclkid$", re.IGNORECASE)
_BETWEEN = "\x1f"


def hash64(*parts: object) -> int:
    """64 bits of BLAKE2b over some texts; None is not the empty text.

    >>> hash64("a", None) == hash64("a", ""), -(2**63) <= hash64("a") < 2**63
    (False, True)
    """
    text = _BETWEEN.join("\x00" if part is None else str(part) for part in parts)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def record_key(record_id: int, site: str | None, reference_id: str | None, *, by: str = "id") -> int:
    """A record: its id; where a service gives a listing another id each time, its site and reference_id.

    One without a reference_id has its id all the same.

    >>> record_key(12, "Seekfolk", "0042"), record_key(1, "a", "b", by="reference") == record_key(
    ...     2, "a", "b", by="reference"
    ... )
    (12, True)
    """
    return record_id if by == "id" or reference_id is None else hash64("record", site, reference_id)


def link_key(url: str | None, title: str | None) -> int:
    """A link: its normalised URL; where it has none, its title.

    >>> link_key("HTTPS://Page.example:443/a/?utm_source=x#top", "A") == link_key("https://page.example/a", "B")
    True
    """
    return hash64("link", "url", normalised(url)) if url else hash64("link", "title", title)


def alert_key(
    record_id: int | None,
    site: str | None,
    href: str | None,
    link_url: str | None,
    text: str | None,
    *,
    by: str = "id",
) -> int:
    """An alert: what it is about, and its text. Where ids of records change, a record is told by site and address.

    >>> alert_key(12, "Seekfolk", None, None, "Gone") == alert_key(13, "Seekfolk", None, None, "Gone")
    False
    """
    link = normalised(link_url) if link_url else None
    if by == "id":
        return hash64("alert", record_id, link, text)
    return hash64("alert", site, normalised(href) if href else None, link, text)


def normalised(url: str) -> str:
    """A URL without what does not change the page: case of scheme and host, port, fragment, trackers, last slash.

    >>> normalised(" https://Page.example/A/?b=1&utm_medium=mail ")
    'https://page.example/A?b=1'
    """
    bare = url.strip()
    try:
        parts = urlsplit(bare)
        port = parts.port
    except ValueError:
        return bare
    if not parts.hostname:
        return bare
    scheme = parts.scheme.lower()
    at = "" if port is None or port == _PORTS.get(scheme) else f":{port}"
    return f"{scheme}://{parts.hostname}{at}{parts.path.rstrip('/')}{_query(parts.query)}"


def _query(query: str) -> str:
    if not _TRACKING.search(query):
        return f"?{query}" if query else ""
    kept = [pair for pair in parse_qsl(query, keep_blank_values=True) if not _TRACKING.match(pair[0])]
    return f"?{urlencode(kept)}" if kept else ""


def host(url: str | None) -> str:
    """Where a page lies: its host; empty where that cannot be told.

    >>> host("https://Page.example/a"), host(None)
    ('page.example', '')
    """
    try:
        return urlsplit((url or "").strip()).hostname or ""
    except ValueError:
        return ""
