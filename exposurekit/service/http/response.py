"""Responses as values: decompressed within a size limit, and decoded.

Whatever the body holds, only `FetchError` is raised and the size limit holds.
"""

import codecs
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from exposurekit.errors import ExposureError

Reason = Literal["time-out", "unreachable", "too large", "too many redirects", "unreadable"]

_GZIP = 16 + zlib.MAX_WBITS
_MEMBERS_MAX = 1_000  # of one body: each copies what follows it
_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_META_CHARSET = re.compile(r"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_SNIFFED_BYTES = 1024  # as in browsers
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# A closed list: some of Python's codecs take minutes for a page, or raise despite errors="replace".
_CODECS = {
    **{name: name for name in ("utf-8", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "big5", "gb18030")},
    **{name: name for name in ("euc-jp", "iso-2022-jp", "shift-jis", "euc-kr", "macintosh", "ibm866")},
    **{f"iso-8859-{part}": f"iso-8859-{part}" for part in (*range(2, 12), *range(13, 17))},
    **{f"windows-125{page}": f"cp125{page}" for page in range(9)},
    **{f"cp125{page}": f"cp125{page}" for page in range(9)},
    # As in browsers.
    **dict.fromkeys(("us-ascii", "ascii", "iso-8859-1", "latin1"), "cp1252"),
    **dict.fromkeys(("gbk", "gb2312"), "gb18030"),
    **dict.fromkeys(("sjis", "x-sjis"), "shift-jis"),
    **dict.fromkeys(("utf-16", "utf-16le"), "utf-16-le"),
    "utf-16be": "utf-16-be",
    "utf8": "utf-8",
    "cp866": "ibm866",
}


class FetchError(ExposureError):
    """No complete, readable response was received.

    Attributes:
        reason: ``"time-out"``, ``"unreachable"`` (no such host, connection refused or closed before the response),
            ``"too large"``, ``"too many redirects"`` or ``"unreadable"`` (broken HTTP, TLS or compression).
        detail: The same, or more precisely: which of these.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"no complete response: {reason}")
        self.reason = reason
        self.detail = detail or reason


@dataclass(frozen=True, slots=True)
class Response:
    r"""A complete response of any status; its repr shows the status alone.

    >>> Response(200, "https://people.example/", {"content-type": "text/plain; charset=koi8-r"}, b"\xc4\xc1").text
    'да'
    """

    status: int
    url: str = field(repr=False)  # after all redirects
    headers: Mapping[str, str] = field(repr=False)  # by lower-case name; repeated ones are joined by commas
    body: bytes = field(repr=False)  # decompressed

    @property
    def text(self) -> str:
        """The body as text; undecodable bytes become U+FFFD.

        The encoding is that of the byte order mark, the header, ``<meta>``, else UTF-8.
        """
        for mark, codec in _BYTE_ORDER_MARKS:
            if self.body.startswith(mark):
                return self.body[len(mark) :].decode(codec, "replace")
        charset = _codec(_CHARSET.search(self.headers.get("content-type", "")))
        return self.body.decode(charset or _codec_within(self.body) or "utf-8", "replace")


class BodyDecoder:
    """Decodes a body piece by piece; at most `bytes_max` compressed and decompressed bytes."""

    def __init__(self, encoding: str, bytes_max: int) -> None:
        encoding = encoding.strip().lower() or "identity"
        if encoding not in {"identity", "gzip", "x-gzip"}:
            raise FetchError("unreadable")  # the request accepts no other
        self._gzip = None if encoding == "identity" else zlib.decompressobj(_GZIP)
        self._members = 1
        self._bytes_max, self._received_size, self._decoded_size = bytes_max, 0, 0
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes) -> None:
        """Add the next piece."""
        self._received_size += len(piece)
        data = self._decompressed(piece)
        self._decoded_size += len(data)
        if max(self._received_size, self._decoded_size) > self._bytes_max:
            raise FetchError("too large")
        self._pieces.append(data)

    def finish(self) -> bytes:
        """Return the whole body."""
        if self._gzip and self._received_size and not self._gzip.eof:
            raise FetchError("unreadable")
        return b"".join(self._pieces)

    def _decompressed(self, piece: bytes) -> bytes:
        if self._gzip is None:
            return piece
        parts, size, rest = [], self._decoded_size, piece
        while rest and size <= self._bytes_max:
            if self._gzip.eof:  # RFC 1952: another member may follow; zeros are padding
                rest = rest.lstrip(b"\0")
                if not rest:
                    break
                self._members += 1
                self._gzip = zlib.decompressobj(_GZIP)
            try:
                # At most one byte beyond the limit, however far the data would expand.
                parts.append(self._gzip.decompress(rest, self._bytes_max - size + 1))
            except zlib.error:
                raise FetchError("unreadable") from None
            if self._members > _MEMBERS_MAX:
                raise FetchError("unreadable")
            size += len(parts[-1])
            rest = self._gzip.unused_data
        return b"".join(parts)


def _codec_within(body: bytes) -> str | None:
    codec = _codec(_META_CHARSET.search(body[:_SNIFFED_BYTES].decode("latin-1")))
    # A page whose <meta> could be read as ASCII is not in UTF-16.
    return "utf-8" if codec and codec.startswith("utf-16") else codec


def _codec(charset: re.Match[str] | None) -> str | None:
    return _CODECS.get(charset[1].lower().replace("_", "-")) if charset else None
