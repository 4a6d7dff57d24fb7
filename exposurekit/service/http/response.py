"""What came from the web, as a value: its bytes unpacked within bounds, its text read. Never fetches.

Nothing that comes can make it raise anything but `FetchError`, or grow beyond what was allowed.
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
_NAMED = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_NAMED_WITHIN = re.compile(r"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_LOOKED_AT = 1024  # as browsers do
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# A closed list: some of Python's codecs take minutes for a page, or raise whatever they are told.
_CODECS = {
    **{name: name for name in ("utf-8", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "big5", "gb18030")},
    **{name: name for name in ("euc-jp", "iso-2022-jp", "shift-jis", "euc-kr", "macintosh", "ibm866")},
    **{f"iso-8859-{part}": f"iso-8859-{part}" for part in (*range(2, 12), *range(13, 17))},
    **{f"windows-125{page}": f"cp125{page}" for page in range(9)},
    **{f"cp125{page}": f"cp125{page}" for page in range(9)},
    # As browsers read them.
    **dict.fromkeys(("us-ascii", "ascii", "iso-8859-1", "latin1"), "cp1252"),
    **dict.fromkeys(("gbk", "gb2312"), "gb18030"),
    **dict.fromkeys(("sjis", "x-sjis"), "shift-jis"),
    **dict.fromkeys(("utf-16", "utf-16le"), "utf-16-le"),
    "utf-16be": "utf-16-be",
    "utf8": "utf-8",
    "cp866": "ibm866",
}


class FetchError(ExposureError):
    """No whole answer came that can be read.

    Attributes:
        reason: ``"time-out"``, ``"unreachable"`` (no such host, nobody listens, cut before the answer began),
            ``"too large"``, ``"too many redirects"`` or ``"unreadable"`` (broken HTTP, TLS or compression).
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"no whole answer came from the web: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Response:
    r"""A whole answer, of any status; shows its status alone.

    Attributes:
        status: The HTTP status.
        url: Where it came from, after all redirects.
        headers: By lower-case name; what came several times is joined by commas.
        body: The bytes, unpacked.

    >>> Response(200, "https://people.example/", {"content-type": "text/plain; charset=koi8-r"}, b"\xc4\xc1").text
    'да'
    """

    status: int
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """The body as text; what cannot be read becomes U+FFFD.

        Its first bytes' mark, its header, its ``<meta>`` and then UTF-8 decide, in this order.
        """
        for mark, codec in _MARKS:
            if self.body.startswith(mark):
                return self.body[len(mark) :].decode(codec, "replace")
        named = _codec(_NAMED.search(self.headers.get("content-type", "")))
        return self.body.decode(named or _codec_within(self.body) or "utf-8", "replace")


class Unpacking:
    """A body as it comes, piece by piece; keeps no more than `bytes_max`, neither packed nor unpacked.

    >>> body = Unpacking("identity", 3)
    >>> body.feed(b"abc")
    >>> body.whole()
    b'abc'
    """

    def __init__(self, encoding: str, bytes_max: int) -> None:
        encoding = encoding.strip().lower() or "identity"
        if encoding not in {"identity", "gzip", "x-gzip"}:
            raise FetchError("unreadable")  # no other was asked for
        self._gzip = None if encoding == "identity" else zlib.decompressobj(_GZIP)
        self._bytes_max, self._came, self._kept = bytes_max, 0, 0
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes) -> None:
        """Take the next piece.

        Raises:
            FetchError: There is more than may be, or it is not packed as was said.
        """
        self._came += len(piece)
        unpacked = self._unpacked(piece)
        self._kept += len(unpacked)
        if max(self._came, self._kept) > self._bytes_max:
            raise FetchError("too large")
        self._pieces.append(unpacked)

    def whole(self) -> bytes:
        """All of it.

        Raises:
            FetchError: What was packed has no end, or goes on behind it.
        """
        if self._gzip and self._came and (not self._gzip.eof or self._gzip.unused_data):
            raise FetchError("unreadable")
        return b"".join(self._pieces)

    def _unpacked(self, piece: bytes) -> bytes:
        if self._gzip is None:
            return piece
        try:
            # One byte more than there is room for: it is unpacked no further, whatever it would grow to.
            return self._gzip.decompress(piece, self._bytes_max - self._kept + 1)
        except zlib.error:
            pass
        raise FetchError("unreadable")


def _codec_within(body: bytes) -> str | None:
    codec = _codec(_NAMED_WITHIN.search(body[:_LOOKED_AT].decode("latin-1")))
    # A page whose <meta> could be read is not in UTF-16, whatever it says.
    return "utf-8" if codec and codec.startswith("utf-16") else codec


def _codec(named: re.Match[str] | None) -> str | None:
    return _CODECS.get(named[1].lower().replace("_", "-")) if named else None
