"""Keys of records, links and alerts: signed 64-bit integers, unique for one person and one kind.

They are stored, so they must not change. Among a person's 10,000 items two collide once in 10^11 people.
"""

from hashlib import blake2b

from exposurekit.text.urls import url_in_key

_SEPARATOR = "\x1f"


def hash64(*parts: object) -> int:
    """Return 64 bits of BLAKE2b over some texts; None differs from the empty text."""
    text = _SEPARATOR.join("\x00" if part is None else str(part) for part in parts)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def record_key(record_id: int, site: str | None, reference_id: str | None, *, by: str = "id") -> int:
    """Return a record's key: its id; or, if the service gives a listing another id each time, of site and reference_id.

    A record without a reference_id, or with a blank one, has its id in both cases.
    """
    is_blank = not (reference_id or "").strip()
    return record_id if by == "id" or is_blank else hash64("record", site, reference_id)


def link_key(url: str | None, title: str | None) -> int:
    """Return a link's key: of its normalized URL; if it has none, of its title."""
    return hash64("link", "url", url_in_key(url)) if url else hash64("link", "title", title)


def alert_key(
    record_id: int | None,
    site: str | None,
    href: str | None,
    link_url: str | None,
    text: str | None,
    *,
    by: str = "id",
) -> int:
    """Return an alert's key: of its source and text. If ids change, site and address identify a record."""
    link = url_in_key(link_url) if link_url else None
    if by == "id":
        return hash64("alert", record_id, link, text)
    return hash64("alert", site, url_in_key(href) if href else None, link, text)
