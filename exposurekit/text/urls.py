"""URLs: their host, and one spelling of those that lead to the same page."""

import re
from urllib.parse import parse_qsl, urlencode, urlsplit

_PORTS = {"http": 80, "https": 443}
_TRACKING = re.compile(r"utm_|gclid$|fbclid$|msclkid$", re.IGNORECASE)


def normalize_url(url: str) -> str:
    """Normalize a URL: drop the case of scheme and host, default port, fragment, tracking parameters, last slash."""
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


def page_key(url: str) -> str:
    """Return what URLs of one page have in common, whether or not they are encrypted and begin with ``www.``.

    >>> page_key("https://www.seekfolk.example/people/7/?utm_source=x") == page_key("http://seekfolk.example/people/7")
    True
    """
    return normalize_url(url).partition("://")[2].removeprefix("www.")


def _query(query: str) -> str:
    if not _TRACKING.search(query):
        return f"?{query}" if query else ""
    pairs = [pair for pair in parse_qsl(query, keep_blank_values=True) if not _TRACKING.match(pair[0])]
    return f"?{urlencode(pairs)}" if pairs else ""


def site_host(url: str) -> str:
    """Return the host of a URL without ``www.``."""
    return host(url).removeprefix("www.")


def host(url: str | None) -> str:
    """Return the host of a URL; empty if it has none."""
    try:
        return urlsplit((url or "").strip()).hostname or ""
    except ValueError:
        return ""
