"""Erasing somebody leaves nothing about them in any file of a history or its inbox."""

import json
import re
from contextlib import closing
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
    """Return a person whose texts all contain the tag and are all different."""
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
    """Return every text about Quillon in a value."""
    if isinstance(value, str):
        return {value} if "Quillon" in value else set()
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(texts_of, within))


def texts_of_person(person):
    return texts_of([person.records, person.links, person.alerts])


def forms(text):
    return {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1].replace("/", r"\/")}


def present_in(directory, texts):
    """Return those texts that are in any file, as bytes or as rows of a Parquet file."""
    whole = []
    for file in directory.rglob("*"):
        if file.is_file():
            whole.append(file.read_bytes().decode("utf-8", "replace"))
            if file.suffix == ".parquet":
                # The rows, with JSON that is stored as text unescaped.
                whole += [str(pq.read_table(file, partitioning=None).to_pylist()).replace("\\\\", "\\")]
    everything = "\n".join(whole)
    return {text for text in texts if any(form in everything for form in forms(text))}


def erase(directory, *words):
    """Erase user 7; the cache is a new one, because another test may have opened a page."""
    shell = Shell(directory, XDG_CACHE_HOME=str(directory / "cache"))
    return shell.here("history", "erase", "7", "--history", "history", *words)


def delivery_body(user_id, **groups):
    return json.dumps({"user_id": user_id, "events": list(groups), **groups}).encode()


def numbers_of(run):
    """Return the erased rows and deliveries, those quarantined, those matched by a value, and the number of values."""
    pattern = (
        r"(?:Erased (\d+) rows from the history history|The history history has no data about user \d+)\.\n"
        r"Erased (\d+) deliver(?:y|ies) about them from the inbox history/inbox\.db, (\d+) of them from its quarantine\. "
        r"(?:(\d+) of them had no user id, but contained a name, address or reference of this person\. )?"
        r"Searched for: their id, and (\d+) values of 6 characters or more from their listings\.\n"
        r"(?(1)The next collect, or a running watch, loads them again unless they are unregistered at the service\.\n|)"
    )
    return [int(number or 0) for number in re.fullmatch(pattern, run.stdout).groups()]


@pytest.fixture
def history_and_texts(tmp_path):
    """A history with user 7 in two runs, a staged run, a label and deliveries, and user 8; and the texts about 7."""
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


def test_after_erasing_no_file_contains_a_text_about_them(history_and_texts, tmp_path):
    directory, texts = history_and_texts
    others = {"Bram Fennimoor name", "Bram Fennimoor relation"}
    assert present_in(directory, texts | others) == texts | others
    assert present_in(directory, {"secret-7", "secret-8"}) == set()
    run = erase(tmp_path)
    assert run.returncode == 0, run.stderr
    rows, erased, quarantined, by_value, values = numbers_of(run)
    assert rows > 0
    assert (erased, quarantined, by_value) == (2, 1, 1)
    assert values > 10
    assert present_in(directory, texts) == set()
    assert "Quillon" not in "".join(present_in(directory, {WHO, "Quillon"}))
    assert present_in(directory, others) == others
    left = InboxStore(directory / "inbox.db")
    assert (left.counts().waiting, left.counts().quarantined) == (1, 1)
    left.close()
    verified = Shell(tmp_path).here("history", "verify", "--history", "history")
    assert verified.stdout == "ok: the history is not damaged.\n"
    assert numbers_of(erase(tmp_path)) == [0, 0, 0, 0, 0]


def test_unsent_notifications_about_them_are_erased(history_and_texts, tmp_path):
    directory, _ = history_and_texts
    at = datetime(2026, 3, 1, tzinfo=UTC)
    notices = NotificationOutbox(directory / FILE)
    waiting = ("user 7 at Seekfolk, Zinnia Quillon", "user 71 at Seekfolk, Bram")
    notices.put([Notification("me", line[:8], "new listings", line, at) for line in waiting])
    files = ("/reports/exposure-2026-03-02-confidential.html", "/reports/exposure-2026-03-02.html")
    notices.put([Notification("me", file, "weekly report", "", at, file) for file in files])
    notices.close()
    run = erase(tmp_path)
    assert "Erased 1 unsent notification about them.\n" in run.stdout
    assert "Removed the confidential report, which may name them, from 1 unsent notification.\n" in run.stdout
    with closing(NotificationOutbox(directory / FILE)) as left:
        [unsent] = left.due(at).values()
    assert [one.attachment for _, one in unsent[1:]] == [None, files[1]]
    assert present_in(directory, {"Zinnia Quillon", "Bram"}) == {"Bram"}


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
    assert present_in(directory, texts) == texts
    run = erase(tmp_path)
    assert run.returncode == 0, run.stderr
    assert present_in(directory, texts) == set()


def test_deliveries_before_the_first_run_are_erased_too(tmp_path):
    (tmp_path / "history").mkdir()
    inbox = InboxStore(tmp_path / "history" / "inbox.db")
    inbox.put_all([("msg_1", delivery_body(7, records=[f"{WHO} waiting"])), ("msg_2", delivery_body(8))])
    inbox.close()
    run = erase(tmp_path)
    assert numbers_of(run) == [0, 1, 0, 0, 0]
    assert not (tmp_path / "history" / "history.json").exists()
    assert present_in(tmp_path / "history", {WHO}) == set()


def test_a_short_value_erases_no_deliveries_about_others(tmp_path):
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
    run = erase(tmp_path)
    assert numbers_of(run)[1:4] == [1, 1, 1]
    left = InboxStore(directory / "inbox.db")
    assert [one.number for one in left.quarantined()] == [1]
    left.close()


def test_a_delivery_with_only_their_address_is_erased(tmp_path):
    directory, town = tmp_path / "history", b"unreadable, somebody in Mothgate, CT"
    listings = [
        a_record(number, locations=locations)
        for number, locations in enumerate((["12 Kite Lane, Apt. 4, Mothgate, CT 06099"], ["Mothgate, CT"]))
    ]
    inbox = InboxStore(directory / "inbox.db")
    with seen_through(Service({7: Person(listings)})) as exposure, History(directory) as history:
        history.collect(exposure)
        inbox.put_all([("msg_1", b'{"address1": "12 Kite Ln", "city": "Mothgate"}'), ("msg_2", town)])
        process_inbox(inbox, history)
        assert history.personal_addresses(7) == {("12 kite ln", "mothgate")}
    assert "listings, and 1 street with its town.\n" in erase(tmp_path).stdout
    assert [inbox.body(one.number) for one in inbox.quarantined()] == [town]
    inbox.close()


def test_deliveries_with_the_number_alone_stay_unless_asked_for(tmp_path):
    with_age = b'{"text": "Somebody, age 7"'
    (tmp_path / "history").mkdir()
    with closing(InboxStore(tmp_path / "history" / "inbox.db")) as inbox:
        inbox.put("msg_1", with_age)
    summary = erase(tmp_path).stdout
    assert "1 delivery without a user id has the number 7 elsewhere" in summary
    with closing(InboxStore(tmp_path / "history" / "inbox.db")) as inbox:
        assert inbox.body(1) == with_age
    assert "Erased 1 delivery about them" in erase(tmp_path, "--also-numbers").stdout


def test_erase_reports_an_inbox_that_is_not_searched(tmp_path):
    with seen_through(Service({7: somebody(WHO)})) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure)
    missing = erase(tmp_path, "--inbox", "elsewhere.db")
    assert (missing.returncode, error_of(missing)) == (1, "Error: --inbox: no such file. Nothing was erased")
    assert present_in(tmp_path / "history", {f"{WHO} name"})
    rows, inbox, _ = erase(tmp_path).stdout.splitlines()
    assert rows.startswith("Erased ")
    assert rows.endswith(" rows from the history history.")
    assert inbox.startswith("No inbox was searched: ")
    elsewhere = InboxStore(tmp_path / "elsewhere.db")
    elsewhere.put("msg_1", delivery_body(7))
    elsewhere.close()
    output = erase(tmp_path, "--inbox", "elsewhere.db").stdout
    assert (
        "Erased 1 delivery about them from the inbox elsewhere.db, 0 of them from its quarantine." in output
    )
