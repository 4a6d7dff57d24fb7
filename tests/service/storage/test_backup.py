"""Backups of an SQLite database: one moment of it, complete and checked, or nothing."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from functools import partial

import pytest
from support.full_disk import file_size_limit

from exposurekit.errors import ConfigurationError, DiskFull
from exposurekit.service.storage.backup import back_up

MEGABYTE = 1_000_000
COUNTS = "SELECT (SELECT count(*) FROM integrators), (SELECT count(*) FROM records)"


def connected(file):
    return closing(sqlite3.connect(file, isolation_level=None))


def write(connection):
    """Add a row to both tables in one transaction."""
    connection.executescript(
        "BEGIN; INSERT INTO integrators VALUES (x'00'); INSERT INTO records VALUES (x'00'); COMMIT"
    )


@pytest.fixture
def database(tmp_path):
    """Large enough to be copied in several parts."""
    file = tmp_path / "service.db"
    with connected(file) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE integrators (content BLOB)")
        connection.execute("CREATE TABLE records (content BLOB)")
        connection.execute("INSERT INTO integrators VALUES (zeroblob(?))", (24 * MEGABYTE,))
        connection.execute("INSERT INTO records VALUES (x'00')")
    return file


def test_a_backup_during_writes_is_of_one_moment(database, tmp_path):
    copy, fractions = tmp_path / "copy.db", []
    with connected(database) as connection:
        write(connection)

        def write_more(fraction):
            fractions.append(fraction)
            write(connection)

        back_up(database, copy, write_more)
        assert connection.execute(COUNTS).fetchone() == (len(fractions) + 2, len(fractions) + 2)
    assert len(fractions) > 2
    assert (fractions, fractions[-1]) == (sorted(fractions), 1)
    with connected(copy) as copied:
        assert copied.execute(COUNTS).fetchone() == (2, 2)
        assert copied.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["copy.db", "copy.db.partial"])
def test_a_file_that_exists_is_never_overwritten(database, tmp_path, name):
    (tmp_path / name).write_text("last week's")
    with pytest.raises(ConfigurationError, match=f"{name} exists"):
        back_up(database, tmp_path / "copy.db")
    assert (tmp_path / name).read_text() == "last week's"
    assert {path.name for path in tmp_path.iterdir()} == {"service.db", name}


def test_a_log_of_another_database_is_not_joined(database, tmp_path):
    (tmp_path / "copy.db-wal").write_text("changes of a copy that was moved")
    with pytest.raises(
        ConfigurationError, match=r"^copy\.db-wal, the log of another database, exists: name an"
    ):
        back_up(database, tmp_path / "copy.db")
    assert {path.name for path in tmp_path.iterdir()} == {"service.db", "copy.db-wal"}


def test_a_file_that_appears_meanwhile_is_not_overwritten(database, tmp_path):
    copy = tmp_path / "copy.db"
    with pytest.raises(ConfigurationError, match=r"copy\.db exists"):
        back_up(database, copy, lambda _: copy.write_text("of another program"))
    assert copy.read_text() == "of another program"


def test_the_draft_of_a_killed_backup_is_replaced(database, tmp_path):
    copy, draft = tmp_path / "copy.db", tmp_path / "copy.db.partial"
    text = (
        "import os, pathlib, signal, sys; from exposurekit.service.storage.backup import back_up; "
        "back_up(*map(pathlib.Path, sys.argv[1:]), lambda _: os.kill(os.getpid(), signal.SIGKILL))"
    )
    killed = subprocess.run([sys.executable, "-c", text, database, copy], check=False)
    assert (killed.returncode, draft.exists(), copy.exists()) == (-signal.SIGKILL, True, False)
    back_up(database, copy)
    assert not draft.exists()
    with connected(copy) as copied:
        assert copied.execute(COUNTS).fetchone() == (1, 1)


def test_two_backups_to_a_file_do_not_mix(database, tmp_path):
    copy, errors = tmp_path / "copy.db", []

    def back_up_again(_):
        with pytest.raises(ConfigurationError, match=r"partial is being written: another backup") as error:
            back_up(database, copy)
        errors.append(error)

    back_up(database, copy, back_up_again)
    assert errors
    with connected(copy) as copied:
        assert copied.execute(COUNTS).fetchone() == (1, 1)


def test_a_draft_that_others_can_read_is_never_filled(database, tmp_path):
    draft, private, public = (tmp_path / name for name in ("copy.db.partial", "private", "public"))
    for file, mode in ((private, 0o600), (public, 0o644)):
        file.touch()
        file.chmod(mode)
    for create in (
        partial(draft.symlink_to, private),
        partial(draft.hardlink_to, private),
        partial(public.rename, draft),
    ):
        create()
        with pytest.raises(ConfigurationError, match=r"partial exists, and no backup made it"):
            back_up(database, tmp_path / "copy.db")
        draft.unlink()
    assert private.stat().st_size == 0


def interrupt(_):
    raise KeyboardInterrupt


def test_an_interrupted_backup_leaves_nothing(database, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        back_up(database, tmp_path / "copy.db", interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["service.db"]


def test_a_full_disk_leaves_nothing(database, tmp_path):
    with (
        file_size_limit(MEGABYTE),
        pytest.raises(DiskFull, match=r"no space is left for .*copy\.db: free some space"),
    ):
        back_up(database, tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["service.db"]


def test_a_damaged_database_gives_no_backup(database, tmp_path):
    with connected(database) as connection:
        connection.execute("CREATE INDEX by_content ON records (content)")
        [page] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'by_content'").fetchone()
    with database.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(os.urandom(4096))
    with pytest.raises(ConfigurationError, match="the copy is damaged, and so probably is the database"):
        back_up(database, tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["service.db"]


def test_a_missing_directory_is_named(database, tmp_path):
    with pytest.raises(ConfigurationError, match=r"copy\.db cannot be written: No such file or directory"):
        back_up(database, tmp_path / "backups" / "copy.db")
