"""Files that the user names: read up to a size, with errors that name the file."""

from pathlib import Path

from exposurekit.errors import ConfigurationError
from exposurekit.text.sanitize import plain


def read_bytes(path: Path, most: int, *, label: str = "") -> bytes:
    """Read at most `most` bytes, and one more if the file is too large; `label` names it in errors.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise ConfigurationError(f"{label or plain(path)} cannot be read: {error.strerror}") from None


def read_text(path: Path, most: int) -> str:
    """Read text in UTF-8 as `read_bytes` does.

    Raises:
        ConfigurationError: It cannot be read, or is not UTF-8.
    """
    return decode(read_bytes(path, most), plain(path))


def decode(content: bytes, label: str) -> str:
    """Decode the content of a file; raises `ConfigurationError` with the first line that is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
    raise ConfigurationError(f"{label}, line {line}: is not UTF-8; save the file as UTF-8")
