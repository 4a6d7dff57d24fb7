"""What is left of somebody who is erased, in any file of a history or its inbox: nothing."""

import json
import re
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest
from support.histories import Person, Service, a_link, a_record, an_alert, seen_through
from support.shell import Shell, error_of

from exposurekit.history import History
from exposurekit.monitor.notifications.outbox import FILE, Notification, NotificationOutbox
from exposurekit.monitor.webhooks.ingest import process_inbox
from exposurekit.monitor.webhooks.store import InboxStore

pytestmark = pytest.mark.long  # processes of their own

WHO = "Zoë Quillon"  # in every text about the person


def somebody(tag):
    """Of whom every text has the tag in it, and each is another."""
    record = a_record(
        int(tag.encode().hex()[-6:], 16),
        name=f"{tag} name",
        reference_id=f"{tag} reference",
        href=f"https://peep.example/{tag}/1",
        relations=[f"{tag} relation"],
        aliases=[f"{tag} alias"],
        locations=[f"{tag} Falls"],
    )
    link = a_link(f"https://page.example/?q={tag}", f'{tag} "title"')
    alert = an_alert(f"{tag} text", record) | {"html": f"<p>{tag} html", "url": f"https://a.example/{tag}"}
    return Person([record], [link], [alert])


def texts_of(value):
    """Every text within that has the tag in it."""
    if isinstance(value, str):
        return {value} if "Quillon" in value else set()
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(texts_of, within))


def texts_of_person(person):
    return texts_of([person.records, person.links, person.alerts])


def forms(text):
    return {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1].replace("/", r"\/")}


def found_in(directory, texts):
    """Which of the texts are in any file, as bytes or as what a Parquet file says."""
    whole = []
    for file in directory.rglob("*"):
        if file.is_file():
            whole.append(file.read_bytes().decode("utf-8", "replace"))
            if file.suffix == ".parquet":
                # With the rows as they are, and as JSON that was kept as a text.
                whole += [str(pq.read_table(file, partitioning=None).to_pylist()).replace("\\\\", "\\")]
    everything = "\n".join(whole)
    return {text for text in texts if any(form in everything for form in forms(text))}


def delivery_body(user_id, **groups):
    return json.dumps({"user_id": user_id, "events": list(groups), **groups}).encode()


def told_by(run):
    """How many rows and deliveries went, how many of these from quarantine, and for one of how many values."""
    pattern = (
        r"(?:Erased (\d+) rows from the history history|The history history has no data about user \d+)\.\n"
        r"Erased (\d+) deliveries from the inbox history/inbox\.db, (\d+) of them quarantined; (\d+) of them had no "
        r"user_id and contained one of (\d+) values of 6 characters or more\.\n"
        r"(?(1)The next collect, or a running watch, loads them again unless they are unregistered at the service\.\n|)"
    )
    return [int(number or 0) for number in re.fullmatch(pattern, run.stdout).groups()]


@pytest.fixture
def told_of_quillon(tmp_path):
    """A history that knows 7, whom a later look, a staged one, a delivery, a mark and letters tell of; and 8."""
    directory = tmp_path / "history"
    before, now, staged = (somebody(f"{WHO} {word}") for word in ("before", "now", "staged"))
    service = Service({7: before, 8: somebody("Bram Fennimoor")})
    inbox = InboxStore(directory / "inbox.db")
    with seen_through(service) as exposure, History(directory) as history:
        history.collect(exposure, run="sunday")
        service.people[7] = now
        history.collect(exposure, run="monday")
        history.label(history.records().query("user_id == 7"), "mine", reason=f"{WHO} reason")
        inbox.put("msg_1", delivery_body(7, invented=[{"text": f"{WHO} delivery"}], records=now.records))
        inbox.put("msg_2", f'{{"name": "{json.dumps(f"{WHO} now name")[1:-1]}", '.encode())
        inbox.put("msg_3", b"unreadable, and about nobody")
        process_inbox(inbox, history)
        inbox.put("msg_4", delivery_body(7, records=[f"{WHO} waiting"]))
        inbox.put("msg_5", delivery_body(8))
        service.people[7] = staged
        history.collect(exposure, run="tuesday", shard="2/2")
    inbox.close()
    beside = {f"{WHO} {word}" for word in ("reason", "delivery", "waiting")}
    return directory, beside.union(*map(texts_of_person, (before, now, staged)))


def test_of_somebody_who_is_erased_no_file_holds_a_text(told_of_quillon, tmp_path):
    directory, texts = told_of_quillon
    others = {"Bram Fennimoor name", "Bram Fennimoor relation"}
    assert found_in(directory, texts | others) == texts | others
    assert found_in(directory, {"secret-7", "secret-8"}) == set()
    shell = Shell(tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))  # another test may have opened a page
    run = shell.here("history", "erase", "7", "--history", "history")
    assert run.returncode == 0, run.stderr
    rows, erased, quarantined, by_value, values = told_by(run)
    assert rows > 0
    assert (erased, quarantined, by_value) == (2, 1, 1)
    assert values > 10
    assert found_in(directory, texts) == set()
    assert "Quillon" not in "".join(found_in(directory, {WHO, "Quillon"}))
    assert found_in(directory, others) == others
    left = InboxStore(directory / "inbox.db")
    assert (left.counts().waiting, left.counts().quarantined) == (1, 1)
    left.close()
    shell = Shell(tmp_path, EXPOSUREKIT_HISTORY="history", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert shell.here("history", "verify").stdout == "ok: the history is not damaged.\n"
    assert told_by(shell.here("history", "erase", "7")) == [0, 0, 0, 0, 0]


def test_nobody_is_told_of_them_any_more(told_of_quillon, tmp_path):
    directory, _ = told_of_quillon
    at = datetime(2026, 3, 1, tzinfo=UTC)
    notices = NotificationOutbox(directory / FILE)
    waiting = ("user 7 at Seekfolk, Zinnia Quillon", "user 71 at Seekfolk, Bram")
    notices.put([Notification("me", line[:8], "new listings", line, at) for line in waiting])
    notices.close()
    shell = Shell(tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))  # another test may have opened a page
    run = shell.here("history", "erase", "7", "--history", "history")
    assert "Erased 1 unsent notifications about them.\n" in run.stdout
    assert found_in(directory, {"Zinnia Quillon", "Bram"}) == {"Bram"}


def test_a_delivery_about_a_staged_person_is_erased_too(tmp_path):
    directory = tmp_path / "history"
    service = Service({7: somebody(WHO)})
    inbox = InboxStore(directory / "inbox.db")
    with seen_through(service) as exposure, History(directory) as history:
        history.collect(exposure, run="monday", shard="2/2")
        inbox.put("msg_1", f'{{"name": "{WHO} name", '.encode())
        process_inbox(inbox, history)
    inbox.close()
    texts = texts_of_person(service.people[7])
    assert found_in(directory, texts) == texts
    shell = Shell(tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))  # another test may have opened a page
    run = shell.here("history", "erase", "7", "--history", "history")
    assert run.returncode == 0, run.stderr
    assert found_in(directory, texts) == set()


def test_an_inbox_where_nothing_was_collected_yet_is_erased_too(tmp_path):
    (tmp_path / "history").mkdir()
    inbox = InboxStore(tmp_path / "history" / "inbox.db")
    inbox.put_all([("msg_1", delivery_body(7, records=[f"{WHO} waiting"])), ("msg_2", delivery_body(8))])
    inbox.close()
    shell = Shell(tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))  # another test may have opened a page
    run = shell.here("history", "erase", "7", "--history", "history")
    assert told_by(run) == [0, 1, 0, 0, 0]
    assert not (tmp_path / "history" / "history.json").exists()
    assert found_in(tmp_path / "history", {WHO}) == set()


def test_a_short_value_takes_no_letter_of_others_with_it(tmp_path):
    directory = tmp_path / "history"
    person = Person(
        [a_record(1, name="Al", reference_id="0042")], [a_link(f"https://page.example/{WHO}", "a")]
    )
    inbox = InboxStore(directory / "inbox.db")
    with seen_through(Service({7: person})) as exposure, History(directory) as history:
        history.collect(exposure)
        inbox.put_all(
            [("msg_1", b"unreadable, also 0042"), ("msg_2", f"https://page.example/{WHO}?".encode())]
        )
        process_inbox(inbox, history)
        assert {"a", "Al", "0042"} < history.personal_values(7)
    inbox.close()
    shell = Shell(tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))  # another test may have opened a page
    run = shell.here("history", "erase", "7", "--history", "history")
    assert told_by(run)[1:4] == [1, 1, 1]
    left = InboxStore(directory / "inbox.db")
    assert [one.number for one in left.quarantined()] == [1]
    left.close()


def test_erase_reports_an_inbox_that_is_not_searched(tmp_path):
    with seen_through(Service({7: somebody(WHO)})) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure)
    shell = Shell(tmp_path, EXPOSUREKIT_HISTORY="history", XDG_CACHE_HOME=str(tmp_path / "cache"))
    missing = shell.here("history", "erase", "7", "--inbox", "elsewhere.db")
    assert (missing.returncode, error_of(missing)) == (1, "Error: --inbox: no such file. Nothing was erased")
    assert found_in(tmp_path / "history", {f"{WHO} name"})
    rows, inbox, _ = shell.here("history", "erase", "7").stdout.splitlines()
    assert rows.startswith("Erased ")
    assert rows.endswith(" rows from the history history.")
    assert inbox.startswith("No inbox was searched: ")
    elsewhere = InboxStore(tmp_path / "elsewhere.db")
    elsewhere.put("msg_1", delivery_body(7))
    elsewhere.close()
    output = shell.here("history", "erase", "7", "--inbox", "elsewhere.db").stdout
    assert "Erased 1 deliveries from the inbox elsewhere.db, 0 of them quarantined;" in output
