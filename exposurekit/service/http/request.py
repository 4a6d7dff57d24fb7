"""A request on its way out, as a value: what is sent, and to whom after a redirect. Resolves and sends nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from yarl import URL

from exposurekit import __version__
from exposurekit.service.http.address_policy import ForbiddenAddress

WITHOUT_BODY = {"GET", "HEAD"}
_KEEPING_METHOD = {307, 308}
_OURS = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}
_FOR_ANYBODY = {"accept", "user-agent", "accept-encoding"}
_PLAIN_URL = re.compile(
    r"https?://(?:\[[0-9a-f:.]+\]|[^/?#@:%\[\]]+)(?::[0-9]{1,5})?(?:[/?#].*)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None

    @classmethod
    def first(
        cls,
        url: str,
        *,
        method: str,
        headers: Mapping[str, str],
        params: Mapping[str, str],
        form: Mapping[str, str] | None,
        body: bytes | None,
    ) -> "Request":
        """What a caller asks for; what frames a request is not the caller's to say.

        Raises:
            ForbiddenAddress: The address may not be visited.
        """
        sent = {"user-agent": f"exposurekit/{__version__}", "accept": "*/*"}
        sent |= {name.lower(): value for name, value in headers.items()}
        sent = {name: value for name, value in sent.items() if name not in _OURS} | {
            "accept-encoding": "gzip"
        }
        if form is not None:
            sent["content-type"] = "application/x-www-form-urlencoded"
            body = urlencode(form, errors="replace").encode()
        return cls(method.upper(), parsed(url).extend_query(params), sent, body)

    def redirected(self, status: int, location: str) -> "Request":
        """What is asked next. Nobody but the host that was meant gets what was sent, and not in the clear.

        Raises:
            ForbiddenAddress: It would go to another host, or the address may not be visited.
        """
        url = parsed(location.replace(" ", "%20"), self.url)
        kept = set(self.headers) if url.origin() == self.url.origin() else _FOR_ANYBODY
        if self.method in WITHOUT_BODY:
            return replace(self, url=url, headers=self._only(kept))
        if status not in _KEEPING_METHOD:
            return Request("GET", url, self._only(kept - {"content-type"}), None)
        if url.raw_host != self.url.raw_host or (self.url.scheme, url.scheme) == ("https", "http"):
            raise ForbiddenAddress("the answer sends what was sent on to another host, or in the clear")
        return replace(self, url=url, headers=self._only(kept | {"content-type"}))

    def _only(self, kept: set[str]) -> dict[str, str]:
        return {name: value for name, value in self.headers.items() if name in kept}


def parsed(text: str, base: URL | None = None) -> URL:
    """The URL that a connection is made with; what can be read in two ways is refused.

    Raises:
        ForbiddenAddress: It is not a plain http or https address.
    """
    if text.isprintable() and " " not in text and "\\" not in text:
        try:
            url = base.join(URL(text)) if base else URL(text)
            if _PLAIN_URL.fullmatch(str(url) if base else text) and url.port:
                return url
        except ValueError:
            pass
    raise ForbiddenAddress("the address may not be visited: it is not a plain http or https one")
