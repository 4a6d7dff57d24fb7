"""An answer's body as it arrives: unpacked as its Content-Encoding says, alike for every transport, and bounded."""

import zlib

from exposurekit.errors import ExposureError

_GZIP, _ZLIB, _BARE = 31, 15, -15  # zlib's window bits
_BEGIN = b"\x1f\x8b"  # of a gzip member
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}


class BodyTooLarge(ExposureError):
    """More came than an answer may hold."""


class BodyCut(ExposureError):
    """What came does not unpack, or ends too soon."""


class Body:
    """The pieces of a body, joined. A gzip body may have several members, and zeros or rubbish behind the last.

    >>> import gzip
    >>> body = Body("gzip", 100)
    >>> body.feed(gzip.compress(b"one, ") + gzip.compress(b"two"))
    >>> body.whole()
    b'one, two'
    """

    def __init__(self, encoding: str | None, most: int) -> None:
        """Begin.

        Args:
            encoding: The header ``Content-Encoding``; another than gzip and deflate is left as it is.
            most: Bytes at most, unpacked.
        """
        self._window = _WINDOWS.get((encoding or "").strip().lower())
        self._most = most
        self._size = 0
        self._pieces: list[bytes] = []
        self._unpacker = zlib.decompressobj(self._window) if self._window else None
        self._ended = False

    def feed(self, piece: bytes) -> None:
        """Add what came.

        Raises:
            BodyTooLarge: It is more than may be.
            BodyCut: It does not unpack.
        """
        if self._window is None:
            self._keep(piece)
            return
        while piece and not self._ended:
            piece = self._unpack(piece)

    def whole(self) -> bytes:
        """All of it.

        Raises:
            BodyCut: It ends within a member.
        """
        if self._unpacker is not None and self._size and not self._ended:
            raise BodyCut("the body ends too soon")
        return b"".join(self._pieces)

    def _unpack(self, piece: bytes) -> bytes:
        """Unpack what one member holds of a piece; returns what is behind it."""
        if self._unpacker is None:  # between two members
            if not piece.startswith(_BEGIN[: len(piece)]):
                self._ended = True
                return b""
            self._unpacker = zlib.decompressobj(_GZIP)
        try:
            self._keep(self._unpacker.decompress(piece, self._most - self._size + 1))
        except zlib.error:
            if self._window != _ZLIB or self._size:
                raise BodyCut("the body does not unpack") from None
            self._window, self._unpacker = _BARE, zlib.decompressobj(_BARE)  # deflate, as some send it
            return piece
        if not self._unpacker.eof:
            return self._unpacker.unconsumed_tail
        rest = self._unpacker.unused_data
        self._unpacker, self._ended = None, self._window != _GZIP
        return rest

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._most:
            raise BodyTooLarge("the body is too large")
