"""Decompress a response body as it arrives, with a size limit; the same for every transport."""

import zlib

from exposurekit.errors import ExposureError

_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's window bits
_GZIP_MAGIC = b"\x1f\x8b"
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}


class BodyTooLarge(ExposureError):
    """The body exceeds the size limit."""


class IncompleteBody(ExposureError):
    """The body cannot be decompressed, or ends too early."""


class Body:
    """The chunks of a body, decompressed and joined.

    A gzip body may have several members, and zeros or garbage after the last one, or be plain in spite of its header.
    """

    def __init__(self, encoding: str | None, max_size: int, *, is_error: bool = False) -> None:
        """Create an empty body of at most ``max_size`` bytes after decompression.

        The status of an error counts even if its body cannot be decompressed (``is_error``).
        """
        self._window = _WINDOWS.get((encoding or "").strip().lower())
        self._max_size = max_size
        self._size = 0
        self._chunks: list[bytes] = []
        self._start: bytes | None = b""  # the first bytes; None: they show that the body is compressed
        self._is_error = is_error
        self._decompressor = zlib.decompressobj(self._window) if self._window else None
        self._is_finished = False

    def feed(self, chunk: bytes) -> None:
        """Add a chunk, or raise `BodyTooLarge` or `IncompleteBody`."""
        if self._window == _GZIP and self._start is not None:
            chunk = self._start + chunk
            if len(chunk) < len(_GZIP_MAGIC):
                self._start = chunk
                return
            self._start = None
            if not chunk.startswith(_GZIP_MAGIC):
                self._window = self._decompressor = None
        if self._window is None:
            self._append(chunk)
            return
        while chunk and not self._is_finished:
            chunk = self._decompress(chunk)

    def content(self) -> bytes:
        """Return the whole body, or raise `IncompleteBody` if it ends within a gzip member."""
        if self._decompressor is not None and self._size and not self._is_finished:
            self._give_up("the body ends too early")
        return b"".join((self._start or b"", *self._chunks))

    def _give_up(self, problem: str) -> None:
        self._is_finished = True
        if not self._is_error:
            raise IncompleteBody(problem)

    def _decompress(self, chunk: bytes) -> bytes:
        """Decompress the part of a chunk that belongs to the current member; return the rest."""
        if self._decompressor is None:  # between two members
            if not chunk.startswith(_GZIP_MAGIC[: len(chunk)]):
                self._is_finished = True
                return b""
            self._decompressor = zlib.decompressobj(_GZIP)
        try:
            self._append(self._decompressor.decompress(chunk, self._max_size - self._size + 1))
        except zlib.error:
            if self._window != _ZLIB or self._size:
                self._give_up("the body cannot be decompressed")
                return b""
            self._window, self._decompressor = _RAW, zlib.decompressobj(_RAW)  # some servers send raw deflate
            return chunk
        if not self._decompressor.eof:
            return self._decompressor.unconsumed_tail
        rest = self._decompressor.unused_data
        self._decompressor, self._is_finished = None, self._window != _GZIP
        return rest

    def _append(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > self._max_size:
            raise BodyTooLarge("the body is too large")
