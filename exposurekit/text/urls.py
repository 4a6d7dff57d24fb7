"""URLs: their host, and one spelling of those that lead to the same page."""

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

_PORTS = {"http": 80, "https": 443}
# Parameters that say where a visitor came from, and never which page it is: those that browsers and caches strip.
_TRACKING_PREFIXES = ("utm_", "mtm_", "hsa_")  # Google Analytics, Matomo, HubSpot
_TRACKING = {
    "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "srsltid", "_ga", "_gl",  # Google
    "fbclid", "igshid", "igsh", "msclkid", "twclid", "ttclid", "li_fat_id", "epik", "rdt_cid", "sccid",  # networks
    "yclid", "ysclid", "_openstat",  # Yandex
    "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking",  # HubSpot
    "mc_cid", "mc_eid", "mkt_tok", "_kx", "ml_subscriber", "ml_subscriber_hash", "oly_anon_id", "oly_enc_id",  # mail
    "vero_conv", "vero_id", "vgo_ee", "__s",
    "s_kwcid", "wickedid", "dicbo", "tblci", "irclickid", "rb_clickid",  # advertising
}  # fmt: skip
_TRACKING_IN_KEYS = re.compile(r"utm_|gclid$|fbclid$|msclkid$", re.IGNORECASE)


def normalize_url(url: str) -> str:
    """Normalize a URL: drop the case of scheme and host, default port, fragment, tracking parameters, last slash."""
    return _normalized(url, _without_tracking)


def url_in_key(url: str) -> str:
    """Return a URL as stored keys contain it. This must not change, so fewer tracking parameters are dropped."""
    return _normalized(url, _query_in_key)


def _normalized(url: str, query: Callable[[str], str]) -> str:
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
    return f"{scheme}://{parts.hostname}{at}{parts.path.rstrip('/')}{query(parts.query)}"


def page_key(url: str) -> str:
    """Return what URLs of one page have in common, whether or not they are encrypted and begin with ``www.``.

    >>> page_key("https://www.seekfolk.example/people/7/?utm_source=x") == page_key("http://seekfolk.example/people/7")
    True
    """
    return normalize_url(url).partition("://")[2].removeprefix("www.")


def _query_in_key(query: str) -> str:
    if not _TRACKING_IN_KEYS.search(query):
        return f"?{query}" if query else ""
    pairs = parse_qsl(query, keep_blank_values=True)
    others = [pair for pair in pairs if not _TRACKING_IN_KEYS.match(pair[0])]
    return f"?{urlencode(others)}" if others else ""


def _without_tracking(query: str) -> str:
    others = "&".join(part for part in query.split("&") if not _is_tracking(part))
    return f"?{others}" if others else ""


def _is_tracking(part: str) -> bool:
    name = unquote_plus(part.partition("=")[0]).lower()
    return name in _TRACKING or name.startswith(_TRACKING_PREFIXES)


def site_host(url: str) -> str:
    """Return the host of a URL without ``www.``."""
    return host(url).removeprefix("www.")


def host(url: str | None) -> str:
    """Return the host of a URL; empty if it has none."""
    try:
        return urlsplit((url or "").strip()).hostname or ""
    except ValueError:
        return ""
