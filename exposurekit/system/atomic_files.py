"""Files that appear complete or not at all, by default readable by their owner alone."""

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from exposurekit.errors import ConfigurationError, DiskFull, InvalidArgument
from exposurekit.text.sanitize import plain

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # the disk, a quota or a limit on files refused a write

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP}  # a file system without hard links, such as FAT


def write_file(
    path: Path,
    content: bytes | Iterable[bytes],
    *,
    overwrite: bool = True,
    durable: bool = False,
    is_private: bool = True,
) -> bool:
    """Write a file under a draft name, then move it into place. Return whether this content is now in the file.

    The content is whole, or in parts that are written one after the other. With `overwrite` false, a file that is there
    is left: of two processes, one writes and both read the same. With `durable`, the content is on the disk. If it cannot
    be written, no draft is left behind, also after Ctrl-C.

    Only its owner can read the file. With `is_private` false, it has the permissions that the umask says; a file that is
    replaced keeps its own, and its owner and its group, each where this user may set it.
    """
    # Nobody else can have put a file or a link under a name that nobody can guess.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        mode = 0o600 if is_private else 0o666
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            if not is_private:
                _copy_access(path, file.fileno())
            for part in [content] if isinstance(content, bytes) else content:
                file.write(part)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if overwrite:
            draft.replace(path)
        else:
            _publish(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def _copy_access(path: Path, file: int) -> None:
    """Give an open file the owner, group and permissions of the file that it replaces, if there is one."""
    with suppress(OSError, AttributeError):  # no such file; Windows has none of them
        status = path.stat()
        # Apart, as a user may give a file to another of their groups, but to nobody else.
        with suppress(PermissionError):
            os.fchown(file, -1, status.st_gid)
        with suppress(PermissionError):
            os.fchown(file, status.st_uid, -1)
        os.fchmod(file, stat.S_IMODE(status.st_mode))


def _publish(draft: Path, path: Path) -> None:
    """Give a draft a name that nothing has; raises `FileExistsError` if something has it."""
    try:
        path.hardlink_to(draft)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        return
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # empty for a moment
    try:
        draft.replace(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def output_path(path: object) -> Path:
    """Return the path of a file that the user named; raises `InvalidArgument` for anything but a path."""
    if isinstance(path, str | os.PathLike):
        return Path(path)
    raise InvalidArgument(
        f"path is the name of the file to write, and comes second; this is {type(path).__name__!r}"
    )


def write_output(
    path: Path, content: bytes | Iterable[bytes], *, overwrite: bool = True, is_private: bool = True
) -> None:
    """Write a file that the user named, as `write_file` does.

    Raises:
        DiskFull: No space is left for it.
        ConfigurationError: It cannot be written, or exists and may not be overwritten.
    """
    try:
        if not write_file(path, content, overwrite=overwrite, is_private=is_private):
            raise ConfigurationError(f"{plain(path)} exists: name another file")
    except OSError as error:
        if error.errno in NO_SPACE:
            raise DiskFull(f"No space is left for {plain(path)}: free some space, and try again") from None
        raise ConfigurationError(f"{plain(path)} cannot be written: {error.strerror}") from None


def file_id(path: str | Path) -> tuple[int, int] | None:
    """Return what identifies the file at a path, whatever its content; None: there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  a database asks at each transaction
    except OSError:
        return None
    return status.st_dev, status.st_ino
