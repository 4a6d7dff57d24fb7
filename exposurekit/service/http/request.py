"""Outgoing requests as values, and how redirects change them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from yarl import URL

from exposurekit.contract.operations import USER_AGENT
from exposurekit.service.http.address_policy import ForbiddenAddress

WITHOUT_BODY = {"GET", "HEAD"}
_METHOD_PRESERVING = {307, 308}
_FRAMING_HEADERS = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}
_CROSS_ORIGIN_HEADERS = {"accept", "user-agent", "accept-encoding"}
_PLAIN_URL = re.compile(
    r"https?://(?:\[[0-9a-f:.]+\]|[^/?#@:%\[\]]+)(?::[0-9]{1,5})?(?:[/?#].*)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request."""

    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None

    @classmethod
    def create(
        cls,
        url: str,
        *,
        method: str,
        headers: Mapping[str, str],
        params: Mapping[str, str],
        form: Mapping[str, str] | None,
        body: bytes | None,
    ) -> "Request":
        """Create a request; framing headers of the caller are ignored."""
        sent = {"user-agent": USER_AGENT, "accept": "*/*"}
        sent |= {name.lower(): value for name, value in headers.items()}
        sent = {name: value for name, value in sent.items() if name not in _FRAMING_HEADERS}
        sent["accept-encoding"] = "gzip"
        if form is not None:
            sent["content-type"] = "application/x-www-form-urlencoded"
            body = urlencode(form, errors="replace").encode()
        return cls(method.upper(), parse_url(url).extend_query(params), sent, body)

    def redirected(self, status: int, location: str) -> "Request":
        """Return the request after a redirect.

        Raises `ForbiddenAddress` if a body would go to another host or without TLS.
        """
        url = parse_url(location.replace(" ", "%20"), self.url)
        names = set(self.headers) if url.origin() == self.url.origin() else _CROSS_ORIGIN_HEADERS
        if self.method in WITHOUT_BODY:
            return replace(self, url=url, headers=self._headers(names))
        if status not in _METHOD_PRESERVING:
            return Request("GET", url, self._headers(names - {"content-type"}), None)
        if url.raw_host != self.url.raw_host or (self.url.scheme, url.scheme) == ("https", "http"):
            raise ForbiddenAddress("the redirect would send the body to another host, or unencrypted")
        return replace(self, url=url, headers=self._headers(names | {"content-type"}))

    def _headers(self, names: set[str]) -> dict[str, str]:
        return {name: value for name, value in self.headers.items() if name in names}


def parse_url(text: str, base: URL | None = None) -> URL:
    """Parse a plain http or https URL; raises `ForbiddenAddress` for any other text."""
    if text.isprintable() and " " not in text and "\\" not in text:
        try:
            url = base.join(URL(text)) if base else URL(text)
            if _PLAIN_URL.fullmatch(str(url) if base else text) and url.port:
                return url
        except ValueError:
            pass
    raise ForbiddenAddress("the address is forbidden: it is not a plain http or https URL")
