"""A file appears complete or not at all, also where there are no hard links."""

import errno
import os
import stat

import pytest

from exposurekit.errors import ConfigurationError
from exposurekit.system.atomic_files import write_file, write_output


@pytest.fixture(params=[None, errno.EPERM, errno.EOPNOTSUPP])
def directory(tmp_path, monkeypatch, request):
    """A directory on a file system with hard links, and on those without, which refuse them in one of two ways."""

    def refuse(*_, **__):
        raise OSError(request.param, os.strerror(request.param))

    if request.param:
        monkeypatch.setattr(os, "link", refuse)
    return tmp_path


def test_a_file_that_exists_is_not_overwritten(directory):
    path = directory / "person.json"
    assert write_file(path, b"one", overwrite=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not write_file(path, b"two", overwrite=False)
    with pytest.raises(ConfigurationError, match="exists: name another file"):
        write_output(path, b"two", overwrite=False)
    assert path.read_bytes() == b"one"
    assert [*directory.iterdir()] == [path]


def test_a_link_is_not_followed_to_a_new_file(directory):
    (directory / "link").symlink_to(directory / "elsewhere")
    assert not write_file(directory / "link", b"one", overwrite=False)
    assert [path.name for path in directory.iterdir()] == ["link"]


def test_a_file_that_cannot_be_placed_leaves_nothing(directory, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "replace", fail)
    if os.link.__name__ == "link":
        monkeypatch.setattr(os, "link", fail)
    with pytest.raises(ConfigurationError, match=r"person\.json cannot be written"):
        write_output(directory / "person.json", b"one", overwrite=False)
    assert not [*directory.iterdir()]


def test_a_file_that_is_not_private_has_the_usual_permissions(tmp_path):
    path = tmp_path / "seekfolk.yaml"
    before = os.umask(0o027)
    try:
        write_file(path, b"one", is_private=False)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_file(path, b"two", is_private=False)
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o604)
        write_file(path, b"three")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_a_group_stays_where_the_owner_cannot(tmp_path, monkeypatch):
    """A user may give a file to a group of theirs, and to no other user."""
    groups = []

    def change_owner(_, user, group):
        if user != -1:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        groups.append(group)

    path = tmp_path / "seekfolk.yaml"
    write_file(path, b"one", is_private=False)
    group = path.stat().st_gid
    monkeypatch.setattr(os, "fchown", change_owner)
    write_file(path, b"two", is_private=False)
    assert (path.read_bytes(), groups) == (b"two", [group])
