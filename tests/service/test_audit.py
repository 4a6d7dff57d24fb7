"""The audit log: one chain, whoever writes; any change of it is found, and the first changed entry is named."""

import asyncio
import os
import pwd
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import timedelta

import pytest
from sqlalchemy import delete, insert, text, update
from support.services import START, a_database, opened

from exposurekit.service import audit
from exposurekit.service.audit import NO_HASH, Action
from exposurekit.service.clock import FrozenClock
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.storage.tables import audit_entries

KEY = Vault.generate_key()
N = 5


async def _append(work, number):
    return await audit.append(work, Action("users purge", f"user {number}", {"n": number}), actor="root")


@pytest.fixture
def log(store, tmp_path):
    """A database with five entries."""
    database = a_database(tmp_path, key=KEY)

    async def fill():
        async with opened(database):
            for number in range(1, N + 1):
                async with database.writing() as work:
                    await _append(work, number)

    asyncio.run(fill())
    return database


def change(database, *statements):
    async def run(work):
        for statement in statements:
            assert await work.run(statement)

    async def open_and_run():
        async with opened(database), database.writing() as work:
            await run(work)

    asyncio.run(open_and_run())


def verify(database, **options):
    async def run():
        async with opened(database), database.reading() as session:
            return await audit.verify(session, **options)

    return asyncio.run(run())


def entries(database):
    async def run():
        async with opened(database), database.reading() as session:
            return await audit.newest(session, 100)

    return asyncio.run(run())


def number(n):
    return audit_entries.c.id == n


def test_entries_form_one_chain(log):
    stored = entries(log)
    assert [one.id for one in stored] == [1, 2, 3, 4, 5]
    assert [one.previous_hash for one in stored] == [NO_HASH, *(one.hash for one in stored[:-1])]
    assert len({one.hash for one in stored}) == N
    assert (stored[0].at, stored[0].target, stored[0].details) == (
        START.isoformat(timespec="microseconds"),
        "user 1",
        '{"n": 1}',
    )
    result = verify(log)
    assert (result.checked, result.last_hash, result.entry, result.problem) == (
        N,
        stored[-1].hash,
        None,
        None,
    )


@pytest.mark.parametrize("column", [one.name for one in audit_entries.c if one.name != "id"])
def test_a_change_of_any_column_is_found(log, column):
    values = {
        "at": "2026-01-02T03:04:05.000001+00:00",
        "target": None,
        "previous_hash": "1" * 64,
        "hash": "2" * 64,
    }
    change(log, update(audit_entries).where(number(3)).values({column: values.get(column, "changed")}))
    result = verify(log)
    assert (result.checked, result.entry) == (2, 3)
    assert result.problem in {"it was changed", "it does not follow the entry before it"}


def test_a_changed_number_is_found(log):
    change(log, update(audit_entries).where(number(3)).values(id=30))
    result = verify(log)
    assert (result.checked, result.entry) == (2, 4)
    assert "the place of entry 3" in result.problem


@pytest.mark.parametrize("removed", [1, 2, 4])
def test_a_removed_entry_is_found(log, removed):
    change(log, delete(audit_entries).where(number(removed)))
    result = verify(log)
    assert (result.checked, result.entry) == (removed - 1, removed + 1)


def test_a_removed_and_renumbered_entry_is_found(log):
    change(
        log,
        delete(audit_entries).where(number(2)),
        *(update(audit_entries).where(number(n)).values(id=n - 1) for n in (3, 4, 5)),
    )
    result = verify(log)
    assert (result.checked, result.entry) == (1, 2)


def test_reordered_entries_are_found(log):
    change(
        log,
        update(audit_entries).where(number(2)).values(id=20),
        update(audit_entries).where(number(4)).values(id=2),
        update(audit_entries).where(number(20)).values(id=4),
    )
    assert (verify(log).checked, verify(log).entry) == (1, 2)


@pytest.mark.parametrize("at", [-7, 0, N + 1, N + 2])
def test_an_inserted_entry_is_found(log, at):
    """Whoever has no key cannot compute its hash, even if it follows the last entry."""
    last = entries(log)[-1]
    forged = replace(last, id=at, previous_hash=last.hash, hash="")
    columns = {name: value for name, value in asdict(forged).items() if name != "hash"}
    hashed = audit._hash(Vault(Vault.generate_key()), columns)
    change(log, insert(audit_entries).values(**columns, hash=hashed))
    result = verify(log)
    assert (result.checked, result.entry) == (N if at > 0 else 0, at)


@pytest.mark.parametrize("remaining", [0, 3])
def test_a_removed_tail_is_found_by_the_last_hash(log, remaining):
    stored = entries(log)
    assert verify(log, head=stored[-1].hash).problem is None
    assert verify(log, head=stored[0].hash).problem is None
    change(log, delete(audit_entries).where(audit_entries.c.id > remaining))
    assert verify(log).problem is None
    result = verify(log, head=stored[-1].hash)
    assert (result.checked, result.entry) == (remaining, None)
    assert "the last entries were removed or replaced" in result.problem


def test_a_replaced_tail_is_found_by_the_last_hash(log):
    """Even if it was written with the key: an earlier backup that was put back and used."""
    head = entries(log)[-1].hash
    change(log, delete(audit_entries).where(audit_entries.c.id > 3))
    log.clock.advance(timedelta(days=1))

    async def append():
        async with opened(log), log.writing() as work:
            await _append(work, 9)

    asyncio.run(append())
    assert (verify(log).problem, verify(log).checked) == (None, 4)
    assert verify(log, head=head).problem is not None


def test_another_key_matches_nothing(log):
    stored = entries(log)
    columns = {name: value for name, value in asdict(stored[0]).items() if name != "hash"}
    assert audit._hash(Vault(KEY), columns) == stored[0].hash
    assert audit._hash(Vault(Vault.generate_key()), columns) != stored[0].hash


def test_concurrent_writers_append_one_chain(store, tmp_path):
    """Each has connections of its own, as another process would."""
    writers = [a_database(tmp_path, key=KEY, clock=FrozenClock(START)) for _ in range(4)]

    async def write(database, first):
        for n in range(first, first + 8):
            async with database.writing() as work:
                await work.run(update(audit_entries).where(number(-1)).values(actor="nobody"))
                await asyncio.sleep(0)
                await _append(work, n)

    async def run():
        for one in writers:
            await one.open()
        try:
            await asyncio.gather(*(write(one, 10 * n) for n, one in enumerate(writers)))
        finally:
            for one in writers:
                await one.close()

    asyncio.run(run())
    assert (verify(writers[0]).checked, verify(writers[0]).problem) == (32, None)
    assert len({one.target for one in entries(writers[0])}) == 32


def test_a_change_that_fails_leaves_no_entry(log):
    async def fail():
        async with opened(log), log.writing() as work:
            await _append(work, 6)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail())
    assert verify(log).checked == N


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("value", ["x'ff'", "CAST(x'ff' AS TEXT)", "7", "2.5"])
@pytest.mark.parametrize("column", ["at", "details", "hash", "target"])
def test_values_of_other_types_are_found(store, log, column, value):
    """SQLite stores any type in any column."""
    change(log, text(f"UPDATE audit_entries SET {column} = {value} WHERE id = 3"))  # noqa: S608  of this test
    result = verify(log)
    assert (result.checked, result.entry) == (2, 3)


@pytest.fixture
def login(tmp_path, monkeypatch):
    """Sets the login id of this process, which has none at first."""
    file = tmp_path / "loginuid"
    monkeypatch.setattr(audit, "_LOGIN_UID", file)
    return lambda uid: file.write_text(str(uid))


def test_the_operator_is_who_logged_in(login, monkeypatch):
    """Whatever a variable says, which anybody can set."""
    monkeypatch.setenv("SUDO_USER", "alice")
    user, other = (
        pwd.getpwuid(os.geteuid()),
        next(one for one in pwd.getpwall() if one.pw_uid != os.geteuid()),
    )
    login(user.pw_uid)
    assert audit.operator() == user.pw_name
    login(other.pw_uid)
    assert audit.operator() == f"{other.pw_name} as {user.pw_name}"
    login(987_654_321)
    assert audit.operator() == f"uid 987654321 as {user.pw_name}"


@pytest.mark.parametrize("uid", [2**32 - 1, ""], ids=["not set", "unreadable"])
def test_without_a_login_sudo_is_a_claim(login, monkeypatch, uid):
    login(uid)
    name = pwd.getpwuid(os.geteuid()).pw_name
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert audit.operator() == name
    monkeypatch.setenv("SUDO_USER", "jo")
    assert audit.operator() == f"{name} (SUDO_USER claims jo)"
    monkeypatch.setenv("SUDO_USER", "j\udcff" * 300)
    assert audit.operator().startswith(f"{name} (SUDO_USER claims j?j?")
    assert len(audit.operator()) == audit.ACTOR_MAX


LOGIN = """
import contextlib, os
from exposurekit.service import audit
with contextlib.suppress(OSError), open("/proc/self/loginuid", "w") as file:
    file.write(str(os.geteuid()))
try:
    with open("/proc/self/loginuid") as file:
        print(file.read())
except OSError:
    print("none")
print(audit.operator())
"""


def test_the_login_is_the_one_of_the_kernel():
    """Where the kernel lets nobody set one, or has none, the variable stays a claim."""
    run = subprocess.run(
        [sys.executable, "-c", LOGIN],
        env=os.environ | {"SUDO_USER": "alice"},
        capture_output=True,
        text=True,
        check=True,
    )
    uid, actor = run.stdout.splitlines()
    user = pwd.getpwuid(os.geteuid())
    if uid in {"none", str(2**32 - 1)}:
        assert actor == f"{user.pw_name} (SUDO_USER claims alice)"
    elif int(uid) == user.pw_uid:
        assert actor == user.pw_name
    else:  # set before, and fixed
        assert actor == f"{pwd.getpwuid(int(uid)).pw_name} as {user.pw_name}"


def test_more_entries_than_a_page_are_verified(log, monkeypatch):
    monkeypatch.setattr(audit, "_PAGE", 2)
    assert verify(log).checked == N
    change(log, update(audit_entries).where(number(5)).values(actor="jo"))
    assert (verify(log).checked, verify(log).entry) == (4, 5)
