"""Notifications: once per trigger, grouped, on time, and without names; unreachable addresses lose nothing."""

import json
import logging
import sqlite3
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import pytest
from support import faults
from support.histories import (
    DAWN,
    Clock,
    FirstRuns,
    Person,
    Service,
    a_delivery,
    a_link,
    a_record,
    seen_through,
)
from support.notification_receivers import a_mailbox, a_receiver
from support.ports import free_port
from support.watches import EVERY, a_scene

from exposurekit.errors import ConfigurationError
from exposurekit.history import History
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.monitor.notifications.evaluate import unknown_choices
from exposurekit.monitor.notifications.notifier import Notifier, check_addresses
from exposurekit.monitor.notifications.outbox import FILE, Notification, NotificationOutbox, outbox_file
from exposurekit.monitor.notifications.rules import parse_rules
from exposurekit.service.clock import FrozenClock
from exposurekit.text.sanitize import escape_chat_url

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Story:
    """A history that collects from a service of three people, and a notifier."""

    def __init__(self, directory, first_runs, rules, options, **send_to):
        self.directory, self.first_runs, self.is_empty = directory, first_runs, True
        self.service, self.clock, self.run_clock = Service(), FrozenClock(DAWN), Clock()
        self.service.people = {
            number: Person([self.record(10 * number), self.record(10 * number + 1, "Nosy Heron")])
            for number in (1, 2, 3)
        }
        self.history = History(directory / "history", clock=self.run_clock)
        self.outbox = NotificationOutbox(directory / "notifications.db")
        addresses = "".join(f"  {name}: {url}\n" for name, url in send_to.items())
        lines = "".join(f"  - {{{rule}}}\n" for rule in rules)
        self.rules = parse_rules(f"send_to:\n{addresses}rules:\n{lines}{options}")
        self.notifier = Notifier(self.rules, self.outbox, self.clock.now)

    @staticmethod
    def record(number, site="Seekfolk", **fields):
        return a_record(number, site=site, **fields)

    def collect(self, after=DAY, only=None):
        """Collect after some time, and return the number of new notifications."""
        self.clock.advance(after)
        self.run_clock.set(self.clock.now())
        with seen_through(self.service) as exposure:
            if self.is_empty:
                self.first_runs.collect(self.history, exposure, self.service, self.run_clock)
            else:
                self.history.collect(exposure, only=only, progress=False)
        self.is_empty = False
        return self.notifier.on_new_run(self.history)

    def set(self, status, *user_ids):
        for user_id in user_ids:
            self.service.people[user_id].records[0] |= {"status": status}

    def add(self, user_id, number, site="Seekfolk", **fields):
        self.service.people[user_id].records.append(self.record(number, site, **fields))

    def stored_bytes(self):
        """Close the outbox and read its files."""
        self.outbox.close()
        return b"".join(file.read_bytes() for file in self.directory.glob("notifications.db*"))


@pytest.fixture
def mail():
    with a_mailbox() as mail:
        yield mail


@pytest.fixture
def hook():
    with a_receiver() as hook:
        yield hook


@pytest.fixture(scope="module")
def first_runs(tmp_path_factory):
    return FirstRuns(tmp_path_factory.mktemp("first_runs"))


@pytest.fixture
def story(tmp_path, first_runs, mail, hook):
    with ExitStack() as stack:

        def start(*rules, options="", **send_to):
            story = Story(tmp_path, first_runs, rules, options, me=mail.url, chat=hook.url, **send_to)
            stack.callback(story.history.close)
            stack.callback(story.outbox.close)
            return story

        yield start


def test_relisted_listings_are_notified_once_by_mail_and_webhook(story, mail, hook):
    scene = story("when: relisted, send: [me, chat]")
    assert scene.collect() == 0
    scene.set("removed", 1, 2)
    assert scene.collect() == 0
    scene.set("discovered", 1, 2)
    assert scene.collect() == 4
    assert scene.notifier.send() == 2
    assert scene.collect() == 0
    assert scene.notifier.send() == 0
    [(subject, text)] = mail.mails
    assert subject == "exposurekit: 2 relisted listings"
    assert text.strip() == "2 relisted listings:\n  Seekfolk (2)"
    [message] = hook.messages
    assert (message["title"], message["message"].strip()) == (subject, text.strip())


def test_the_first_run_notifies_only_of_stuck_records(story, hook):
    scene = story("when: new, send: chat", "when: stuck, days: 3, send: chat")
    assert scene.collect() == 0
    assert scene.collect(4 * DAY) == 6
    scene.add(1, 19)
    assert scene.collect() == 1
    scene.notifier.send()
    [message] = hook.messages
    assert message["title"] == "exposurekit: 6 listings with the same status for 3 days, 1 new listing"
    assert "1 new listing:\n  Seekfolk" in message["message"]


def test_a_title_counts_what_each_rule_found(story, hook):
    conditions = ("new", "removed", "relisted", "refused")
    scene = story(*(f"when: {condition}, send: chat" for condition in conditions))
    scene.set("removed", 3)
    scene.service.people[4] = Person([scene.record(40, status="pending removal")])
    scene.collect()
    scene.set("removed", 1, 2)
    scene.set("discovered", 3, 4)
    scene.add(1, 19, "Umbrella Kin", status="removed")
    scene.collect()
    scene.notifier.send()
    [message] = hook.messages
    assert (
        message["title"] == "exposurekit: 1 new listing, 3 removed listings, 1 relisted listing, and 1 more"
    )
    assert "1 new listing:\n  Umbrella Kin (already removed)" in message["message"]
    run, counts = scene.history.last_run(), scene.history.diff(DAWN + DAY).counts.set_index("what")["n"]
    assert [run.counts[name] for name in ("new", "removed", "relisted")] == [1, 3, 1]
    assert [counts[name] for name in ("new", "removed", "listed again")] == [1, 3, 1]


def test_nobody_is_missing_longer_than_registered(story):
    scene = story("when: not_seen, days: 3, send: chat")
    scene.service.broken = {1: "no user"}
    assert [scene.collect(), scene.collect(2 * DAY)] == [0, 0]
    scene.service.people[9] = Person([scene.record(90)])
    scene.service.broken[9] = "no user"
    assert [scene.collect(2 * DAY), scene.collect(), scene.collect(3 * DAY)] == [1, 0, 1]


def test_sites_of_a_rule_ignore_case(story):
    scene = story("when: new, send: chat, sites: seekfolk")
    scene.collect()
    scene.add(1, 19)
    assert scene.collect() == 1


def test_unknown_sites_and_users_of_rules_are_named(story):
    scene = story(
        "when: new, send: chat, sites: [Seekfolks, nosy heron], users: [1, 77]", FAILED + ", send: me"
    )
    assert unknown_choices(scene.rules, scene.history) == []  # nothing is known yet
    scene.collect()
    assert unknown_choices(scene.rules, scene.history) == [
        "rule 1 (new): no listing was ever seen on the site Seekfolks; did you mean Seekfolk?",
        "rule 1 (new): user 77 was never listed",
    ]


def test_no_name_is_in_a_notification_unless_allowed(story, mail, hook):
    scene = story("when: removed, send: chat", "when: removed, send: me, personal: true")
    scene.collect()
    scene.set("removed", 2)
    scene.collect()
    scene.notifier.send()
    [(_, personal)], [message] = mail.mails, hook.messages
    record = a_record(1)
    for value in ("user 2", record["name"], escape_chat_url(record["href"])):
        assert (value in personal, value in message["message"]) == (True, False)


def test_each_condition_triggers_its_notification(story, hook):
    conditions = ("refused", "not_seen, days: 2", "site_broken", "score, points: 5")
    scene = story(*(f"when: {condition}, send: chat" for condition in conditions))
    others = range(4, 10)
    scene.service.people |= {n: Person([a_record(10 * n, site="Tattleberry")]) for n in others}
    scene.set("pending removal", 1)
    scene.collect()
    scene.set("discovered", 1)
    scene.service.broken = {3: "no user"}
    assert scene.collect() == 1  # refused
    for number in others:
        scene.service.people[number].records.clear()
    assert scene.collect(2 * DAY) == 2  # not seen for two days, and six vanished together
    scene.service.people[2].links.extend(a_link(f"https://page.example/{n}") for n in range(6))
    for number in others:
        scene.add(number, 100 + number, "Elsewhere")
    assert scene.collect() == 1  # 6 more pages and 6 more listings
    scene.notifier.send()
    text = hook.messages[0]["message"]
    assert "1 refused removal (manual work needed)" in text
    assert "1 user not loaded completely for 2 days" in text
    assert "Tattleberry" in text
    assert "score increase of 5 points or more" in text


def test_a_broken_site_is_notified_once(story):
    scene = story("when: site_broken, send: chat")
    people = range(4, 10)
    scene.service.people |= {n: Person([a_record(10 * n, site="Tattleberry")]) for n in people}
    scene.collect()
    for number in people:
        scene.service.people[number].records.clear()
    assert scene.collect() == 1
    for some in (people[:1], people[1:]):
        for number in some:
            scene.add(number, 500 + number, "Tattleberry")
        assert scene.collect() == 0


def test_scores_are_compared_between_full_runs(story):
    scene = story("when: score, points: 20, send: chat")
    scene.collect()
    for user_id in (1, 2):
        pages = (a_link(f"https://page.example/{user_id}/{n}") for n in range(12))
        scene.service.people[user_id].links.extend(pages)
        if user_id == 1:
            assert scene.collect(HOUR, only=[1]) == 0
    assert scene.collect() == 1


def test_a_webhook_received_during_a_run_is_evaluated(story):
    scene = story("when: new, send: chat")
    scene.collect()
    scene.collect(only=[1])
    delivery = a_delivery(2, {"discovered_records": [{"record": a_record(29, site="Seekfolk")}]})
    received = ReceivedDelivery(1, scene.clock.now() - MINUTE, "msg_1", delivery)
    scene.history.ingest_deliveries([received], "inbox")
    assert scene.notifier.on_new_run(scene.history) == 1
    assert scene.notifier.on_new_run(scene.history) == 0


def test_the_most_urgent_and_detailed_of_several_rules_counts(story, hook):
    scene = story(
        "when: new, send: chat, digest: true",
        "when: new, send: chat, sites: [Doorbell]",
        "when: new, send: chat, personal: true, digest: true",
    )
    scene.collect()
    names = ("Zinnia One", "Zinnia Two")
    for number, name in enumerate(names, 18):
        scene.add(1, number, "Doorbell", name=name)
        scene.collect()
    assert scene.notifier.send() == 1
    text = hook.messages[0]["message"]
    assert "user 1 at Doorbell" in text
    assert [text.count(name) for name in names] == [1, 1]


MENTIONS = (
    "@everyone [Reset](https://evil.example) <!channel> <@U1>",
    "![](https://evil.example/1.png) **b** `c` &lt;d>",
)


def test_chat_messages_contain_no_mentions_and_no_links(story, hook):
    urls = {"json": "json://127.0.0.1:{}", "mmost": "mmost://127.0.0.1:{}/3ccdd113474722377935511fc85d3dd4"}
    addresses = {f"{name}{n}": url.format(hook.port) for name, url in urls.items() for n in (1, 2)}
    scene = story(
        "when: new, send: [json1, mmost1]", "when: new, send: [json2, mmost2], personal: true", **addresses
    )
    scene.collect()
    for number, (site, name) in enumerate((MENTIONS, MENTIONS[::-1]), 20):
        scene.add(1, number, site, name=name, href=f"https://x.example/@here?{name}")
    scene.collect()
    assert scene.notifier.send() == 4
    texts = [
        json.dumps(message, ensure_ascii=False).replace(r"\n", "").replace(r"\r", "")
        for message in hook.messages
    ]
    assert sorted(text.count("(at)everyone") for text in texts) == [1, 1, 2, 2]
    for text in texts:
        assert "(at)everyone (Reset)(https: //evil.example)" in text
        body = text.replace("https://github.com/caronc/apprise", "")  # its picture
        assert [mark for mark in ("@", "](", "<", ">", "`", "*", "://", "\\", "&lt;") if mark in body] == []


def test_erased_users_and_sent_texts_are_not_on_the_disk(story, tmp_path):
    scene = story("when: new, send: chat, personal: true, digest: true")
    scene.collect()
    for user_id in (1, 2):
        scene.add(user_id, 10 * user_id + 9)
    scene.collect()
    assert scene.outbox.erase(1) == 1
    assert scene.outbox.waiting() == 1
    stored = scene.stored_bytes()
    assert (b"user 1 at" in stored, b"user 2 at" in stored) == (False, True)
    scene.clock.advance(DAY)
    assert scene.notifier.send() == 1
    stored = scene.stored_bytes()
    assert b"user 2" not in stored
    assert a_record(1)["name"].encode() not in stored
    assert (tmp_path / "notifications.db").stat().st_mode & 0o077 == 0


FAILED = "when: collection_failed"


def test_a_digest_waits_and_groups(story, hook):
    scene = story(f"{FAILED}, send: chat, digest: true")
    for day in ("monday", "tuesday"):
        scene.notifier.on_failure(1, day, f"no answer on {day}")
        assert scene.notifier.send() == 0
        scene.clock.advance(HOUR)
    scene.clock.advance(DAY)
    assert scene.notifier.send() == 1
    assert hook.tries == 1
    assert all(f"no answer on {day}" in hook.messages[0]["message"] for day in ("monday", "tuesday"))


def test_only_urgent_notifications_are_sent_in_quiet_hours(story, mail, hook):
    scene = story(
        f"{FAILED}, send: chat",
        f"{FAILED}, times: 2, send: me, urgent: true",
        options='quiet_hours: {from: "19:00", until: "06:00"}',
    )
    assert [scene.notifier.on_failure(n, "monday", "no answer") for n in (1, 2)] == [1, 1]  # at 20:00
    assert scene.notifier.send() == 1
    assert (len(mail.mails), len(hook.messages)) == (1, 0)
    scene.clock.advance(10 * HOUR)
    assert scene.notifier.send() == 1
    assert (len(mail.mails), len(hook.messages)) == (1, 1)


def test_an_urgent_rule_makes_no_other_rule_urgent(story, mail):
    scene = story(
        "when: new, sites: [Peepfinder], send: me, urgent: true",
        "when: new, send: me",
        options='quiet_hours: {from: "19:00", until: "06:00"}',
    )
    scene.collect()
    scene.add(1, 18, "Doorbell")
    scene.collect()  # at 20:00
    assert scene.notifier.send() == 0
    scene.add(1, 19, "Peepfinder")
    scene.collect()
    assert scene.notifier.send() == 1
    assert "Peepfinder" in mail.mails[0][1]
    assert "Doorbell" not in mail.mails[0][1]
    scene.clock.advance(10 * HOUR)
    assert scene.notifier.send() == 1
    assert "Doorbell" in mail.mails[1][1]


def test_unsent_notifications_say_why_they_wait(story, hook):
    quiet = 'quiet_hours: {from: "19:00", until: "06:00"}\n'
    scene = story(
        f"{FAILED}, send: chat",
        f"{FAILED}, send: me, digest: true",
        options=quiet + "time_zone: Europe/Berlin",
    )
    scene.notifier.on_failure(1, "monday", "no answer")  # at 20:00 UTC
    assert scene.notifier.unsent() == {
        "quiet hours until 2026-03-02 06:00 Europe/Berlin": 1,
        "digest at 2026-03-02 08:00 Europe/Berlin": 1,
    }
    scene.notifier.rules = scene.rules.model_copy(update={"quiet_hours": None})  # and the watch is restarted
    assert scene.notifier.unsent()["due now"] == 1
    hook.status = 500
    assert scene.notifier.send() == 0
    [reason] = [one for one in scene.notifier.unsent() if "chat" in one]
    assert reason == "chat could not be reached; next attempt at 2026-03-01 21:00 Europe/Berlin"
    hook.status = 200
    scene.clock.advance(MINUTE)
    assert scene.notifier.send() == 1


def test_an_unreachable_address_loses_and_delays_nothing(story, mail, hook, caplog):
    scene = story(f"{FAILED}, send: [me, chat]")
    hook.status = 500
    days = ("monday", "tuesday", "wednesday")
    for day in days:
        scene.clock.advance(10 * MINUTE)
        scene.notifier.on_failure(1, day, f"no answer on {day}")
        scene.notifier.send()
    for _ in range(60):
        scene.clock.advance(MINUTE)
        scene.notifier.send()
    assert len(mail.mails) == 3
    assert hook.messages == []
    assert 3 < hook.tries < 20  # with growing delays
    assert scene.outbox.waiting() == 3
    hook.status = 200
    scene.clock.advance(15 * MINUTE)
    scene.notifier.send()
    [message] = hook.messages
    assert all(f"no answer on {day}" in message["message"] for day in days)
    assert scene.outbox.waiting() == 0
    assert "127.0.0.1" not in caplog.text
    assert "could not notify chat: it responded with 500; next attempt at " in caplog.text


@pytest.fixture
def reports(monkeypatch, tmp_path):
    """One in a bucket that is away, and one here."""
    bucket = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    bucket["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{free_port()}"
    for name, value in bucket.items():
        monkeypatch.setenv(name, value)
    page = tmp_path / "week-8.html"
    page.write_text("<p>Week 8</p>")
    return "s3://bucket/reports/week-9.html", str(page)


def test_an_unreadable_attachment_delays_no_other_notification(story, mail, hook, caplog, reports):
    scene = story("when: new, send: [me, chat]")
    at, (away, here) = scene.clock.now(), reports
    attached = Notification("me", "report", "weekly report", "week 9", at, attachment=away)
    readable = replace(attached, trigger_key="other report", line="week 8", attachment=here)
    others = [Notification(target, "new", "new listings", "Seekfolk", at) for target in ("me", "chat")]
    assert scene.outbox.put([attached, readable, *others]) == 4
    assert scene.notifier.send() == 2
    assert len(hook.messages) == 1
    [(_, text)] = mail.mails
    assert ("week 8" in text, "Seekfolk" in text, "week 9" in text) == (True, True, False)
    assert mail.files == {"week-8.html": b"<p>Week 8</p>"}
    [(reason, waiting)] = scene.notifier.unsent().items()
    assert (reason.partition(";")[0], waiting) == ("its file could not be read", 1)
    assert scene.outbox.due(at).keys() == set()  # it is tried again later, not at once
    scene.outbox.put([Notification("me", "later", "new listings", "Peoplefinch", at, urgent=True)])
    assert scene.notifier.send() == 1
    assert len(mail.mails) == 2
    assert scene.outbox.due(at + 15 * MINUTE).keys() == {"me"}
    assert (
        "could not notify me: a file to attach could not be read (OSError); next attempt at " in caplog.text
    )


@pytest.mark.parametrize(("digest", "status"), [("false", 500), ("true", 200)], ids=["retry", "digest"])
def test_a_corrected_fast_clock_delays_no_notification(story, hook, digest, status):
    scene = story(f"{FAILED}, send: chat, digest: {digest}")
    scene.clock.advance(1000 * DAY)
    assert scene.notifier.on_failure(1, "monday", "no answer") == 1
    hook.status = status
    assert scene.notifier.send() == 0
    scene.clock.advance(-1000 * DAY)
    hook.status = 200
    assert scene.notifier.send() == 1


def test_unsent_notifications_are_sent_by_the_next_process(story, tmp_path, hook):
    scene = story(f"{FAILED}, send: chat")
    hook.status = 503
    scene.notifier.on_failure(1, "monday", "no answer")
    assert scene.notifier.send() == 0
    scene.outbox.close()
    hook.status = 200
    scene.clock.advance(HOUR)
    with closing(NotificationOutbox(tmp_path / "notifications.db")) as again:
        assert Notifier(scene.rules, again, scene.clock.now).send() == 1


OUTBOX_VERSION_0 = (
    """CREATE TABLE notices (number INTEGER PRIMARY KEY AUTOINCREMENT, target TEXT NOT NULL, cause TEXT NOT NULL,
        title TEXT, line TEXT, due_at INTEGER NOT NULL, UNIQUE (target, cause))""",
    "CREATE INDEX waiting ON notices (target, due_at) WHERE title IS NOT NULL",
    "CREATE TABLE judged (one INTEGER PRIMARY KEY CHECK (one = 1), until INTEGER NOT NULL)",
    "CREATE TABLE failing (target TEXT PRIMARY KEY, tries INTEGER NOT NULL, again_at INTEGER NOT NULL)",
    "PRAGMA application_id = 1163414350",
    "INSERT INTO notices VALUES (1, 'me', 'a', NULL, NULL, 0), (2, 'me', 'b', 'new listings', 'Seekfolk', 0)",
    "INSERT INTO notices VALUES (3, 'chat', 'b', 'new listings', 'Seekfolk', 0)",
    "INSERT INTO judged VALUES (1, 60000000)",
    "INSERT INTO failing VALUES ('chat', 3, 120000000)",
)


def test_an_older_outbox_is_upgraded_with_its_data(tmp_path):
    file = tmp_path / "notifications.db"
    with sqlite3.connect(file) as connection:
        for statement in OUTBOX_VERSION_0:
            connection.execute(statement)
    connection.close()
    outbox, epoch = NotificationOutbox(file), datetime(1970, 1, 1, tzinfo=UTC)
    at = epoch + MINUTE
    assert outbox.evaluated_until() == at
    new = [Notification("me", key, "new listings", "Seekfolk", at, urgent=True) for key in "abc"]
    assert outbox.put(new) == 1
    assert [one.urgent for _, one in outbox.due(at)["me"]] == [False, True]
    assert outbox.due(at)["me"][0][0] == 2
    assert outbox.waiting() == 3
    assert "chat" not in outbox.due(at)  # its retry is due a minute later
    assert outbox.mark_failed("chat", at) - at == 4 * MINUTE  # the fourth attempt
    outbox.close()


def test_an_outbox_with_the_former_name_is_renamed(tmp_path):
    at = datetime(2026, 3, 1, tzinfo=UTC)
    outbox = NotificationOutbox(tmp_path / "notices.db")
    outbox.put([Notification("me", "a", "new listings", "Seekfolk", at)], evaluated_until=at)
    left = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert left.keys() == {"notices.db", "notices.db-wal", "notices.db-shm"}
    outbox.close()
    # A crash leaves the log, and so may a crash while renaming.
    for killed_after in ([], ["-wal"], ["-wal", "-shm"]):
        directory = tmp_path / f"after{len(killed_after)}"
        directory.mkdir()
        for name, data in left.items():
            suffix = name.removeprefix("notices.db")
            (directory / (f"{FILE}{suffix}" if suffix in killed_after else name)).write_bytes(data)
        renamed = NotificationOutbox(outbox_file(directory))
        assert (renamed.waiting(), renamed.evaluated_until()) == (1, at)
        renamed.close()
        assert [path.name for path in directory.iterdir()] == [FILE]


def test_each_streak_of_failures_is_notified_once(story, hook):
    scene = story(f"{FAILED}, times: 2, send: chat")
    assert [scene.notifier.on_failure(n, "monday", "no answer") for n in (1, 2, 3)] == [0, 1, 0]
    assert scene.notifier.on_failure(2, "tuesday", "no answer") == 1
    scene.notifier.send()
    assert hook.messages[0]["message"].count("no answer") == 1  # the same line, counted


def test_more_failures_in_a_row_are_another_notification(story, hook):
    rules = (f"{FAILED}, send: chat", f"{FAILED}, times: 3, urgent: true, send: chat")
    scene = story(*rules, options="quiet_hours: {from: '00:00', until: '23:59'}")
    assert [scene.notifier.on_failure(n, "monday", "no answer") for n in (1, 2, 3, 4)] == [1, 0, 1, 0]
    assert scene.notifier.send() == 1
    assert hook.messages[0]["title"] == "exposurekit: 3 failed collections in a row"
    assert scene.notifier.on_recovery(4, "monday") == 1
    scene.notifier.send()
    assert hook.messages[1]["message"].strip() == "Collections succeed again:\n  after 4 failed collections"


def test_whoever_was_told_of_failures_learns_that_they_ended(story, hook, mail):
    scene = story(f"{FAILED}, times: 2, send: chat", f"{FAILED}, times: 9, send: me")
    for n in (1, 2):
        scene.notifier.on_failure(n, "monday", "no answer")
    scene.notifier.send()
    assert [scene.notifier.on_recovery(2, "monday") for _ in range(2)] == [1, 0]
    assert scene.notifier.on_recovery(1, "tuesday") == 0
    scene.notifier.send()
    assert mail.mails == []
    message = hook.messages[-1]
    assert message["title"] == "exposurekit: collections succeed again"
    assert message["message"].strip() == "Collections succeed again:\n  after 2 failed collections"


def rules_for(url, when="new"):
    return parse_rules(f"send_to: {{team: '{url}'}}\nrules: [{{when: {when}, send: team}}]")


@pytest.mark.parametrize("url", ["nosuch://pa55word", "pa55word://nosuch"])
def test_an_unsupported_address_is_an_immediate_error(url):
    with pytest.raises(ConfigurationError, match="send_to, team") as rejected:
        check_addresses(rules_for(url))
    assert "pa55word" not in str(rejected.value)


ONE = """mailto://watch:pa55word@example.com
mailtos://watch:pa55word@mail.example.com?to=analyst@example.com
slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ
slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general
discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js
ntfy://topic
ntfys://ntfy.example/topic
workflows://teams.example:443/workflow1a/signature/
json://hook.example/a/b
jsons://hook.example?retry=2
xml://hook.example
mmost://chat.example/3ccdd113474722377935511fc85d3dd4
tgram://123456789:abcdefg_hijklmnop/12315544
gotify://push.example/abcdefghijklmnop
pover://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
matrix://watch:pa55word@chat.example/#room
signal://push.example/12345678901/12345678902""".splitlines()
TWO = """mailto://watch:pa55word@example.com?to=a@example.com,b@example.com
mailto://watch:pa55word@mail.example.com/a@example.com/b@example.com
slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#pa55word/#other
ntfy://ntfy.example/pa55word/other
ntfy://ntfy.example/pa55word/other?retry=2
mmost://chat.example/3ccdd113474722377935511fc85d3dd4?channel=pa55word,b
tgram://123456789:abcdefg_hijklmnop/12315544/12315545
matrix://watch:pa55word@chat.example/#room/#other""".splitlines()


@pytest.mark.parametrize("url", ONE)
def test_an_address_of_one_recipient_is_accepted(url):
    check_addresses(rules_for(url))


@pytest.mark.parametrize("url", TWO)
def test_an_address_of_two_recipients_is_rejected(url):
    message = r"^send_to, team: the address reaches 2 recipients. Give each"
    with pytest.raises(ConfigurationError, match=message) as rejected:
        check_addresses(rules_for(url))
    assert "pa55word" not in str(rejected.value)


def test_a_test_message_reports_the_result_of_each_address(story, hook, mail):
    scene = story("when: new, send: chat")
    hook.status = 500
    assert scene.notifier.send_test() == {"me": "", "chat": "it responded with 500"}
    assert "This is a test message" in mail.mails[0][1]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("json://somebody:pa55word@127.0.0.1:{free}/hook", "its host refused the connection"),
        (
            "mailto://somebody:pa55word@127.0.0.1:{free}/?from=me@example.com&to=me@example.com&mode=insecure",
            "its host refused the connection",
        ),
        ("json://somebody:pa55word@nowhere.invalid/hook", "its host is unknown"),
        (
            "jsons://somebody:pa55word@127.0.0.1:{hook}/hook",
            "its certificate is not trusted, or it does not support TLS",
        ),
    ],
)
def test_a_failure_is_explained_without_the_address(url, why, hook, caplog):
    caplog.set_level(logging.DEBUG)
    free = free_port()
    rules = rules_for(url.format(free=free, hook=hook.port))
    assert Notifier(rules, None).send_test() == {"team": why}
    assert [record for record in caplog.records if record.name == "apprise"] == []
    assert "pa55word" not in caplog.text


@pytest.mark.parametrize(
    ("url", "status"),
    [
        *(("json://127.0.0.1:{}/hook", status) for status in (301, 302, 303, 307, 308)),
        ("json://127.0.0.1:{}/hook?redirect=yes", 301),
        ("xml://127.0.0.1:{}/hook", 301),
        ("form://127.0.0.1:{}/hook", 301),
        ("ntfy://127.0.0.1:{}/topic", 301),
        ("gotify://127.0.0.1:{}/abcdefghijklmnop", 301),
        ("mmost://127.0.0.1:{}/3ccdd113474722377935511fc85d3dd4", 301),
    ],
)
def test_a_redirect_is_a_failure(url, status, hook):
    hook.status = status
    reason = f"it redirects ({status}): use the address it redirects to"
    assert Notifier(rules_for(url.format(hook.port)), None).send_test() == {"team": reason}
    assert hook.tries == 1


def test_a_mail_server_that_rejects_the_password_is_explained():
    with a_mailbox(refuses=True) as mail:
        rules = rules_for(mail.url.replace("mailto://", "mailto://somebody:pa55word@"))
        reason = "its mail server responded with 535: check user and password"
        assert Notifier(rules, None).send_test() == {"team": reason}


@pytest.fixture
def scene(tmp_path):
    with a_scene(tmp_path / "history") as scene:
        yield scene


@pytest.fixture
def notifier(tmp_path, hook, scene):
    """A notifier of failures of the scene's watch."""
    with closing(NotificationOutbox(tmp_path / "notifications.db")) as outbox:
        yield Notifier(rules_for(hook.url, "collection_failed"), outbox, scene.clock.now)


def test_a_watch_with_failed_collections_notifies(scene, notifier, hook):
    """The history is damaged, too, and cannot be evaluated."""

    def damage():
        scene.fleet.fault = faults.server_error()
        for file in (scene.directory / "runs").rglob("*.parquet"):
            file.unlink()

    scene.watch(damage, EVERY, EVERY, notifier.send, notifier=notifier).run()
    assert scene.status()["failures_in_a_row"] >= 1
    assert notifier.outbox.waiting() == 0
    [message] = hook.messages
    assert message["title"] == "exposurekit: a failed collection"


def test_a_watch_notifies_when_collections_succeed_again(scene, notifier, hook):
    def mend():
        notifier.send()
        scene.fleet.fault = None

    scene.fleet.fault = faults.server_error()
    scene.watch(MINUTE, mend, EVERY, notifier.send, notifier=notifier).run()
    assert [message["title"].removeprefix("exposurekit: ") for message in hook.messages] == [
        "a failed collection",
        "collections succeed again",
    ]
    assert "after 2 failed collections" in hook.messages[-1]["message"]


def test_a_damaged_outbox_does_not_end_the_watch(scene, notifier, tmp_path, caplog):
    (tmp_path / "notifications.db").write_text("not a database, but as long as one" * 20)
    scene.watch(EVERY, EVERY, notifier=notifier).run()
    assert len(scene.fleet.listed_at) == 3
    assert "the notification rules could not be evaluated" in caplog.text


class RecordingNotifier:
    """Records the runs and the streaks of failures that a watch reports."""

    outbox = SimpleNamespace(waiting=lambda: 7)

    def __init__(self):
        self.runs, self.streaks = [], []
        self.sending = nullcontext

    def on_new_run(self, history):
        self.runs.append(history.last_run().seq)
        return 0

    def on_failure(self, _in_a_row, since, _reason):
        self.streaks.append(since)
        return 0

    def on_recovery(self, _failures, _since):
        return 0

    def unsent(self):
        return {"due now": 7}


def test_runs_of_other_processes_are_evaluated(scene):
    recorder = RecordingNotifier()
    collect = partial(scene.history.collect, scene.exposure, progress=False)
    scene.watch(HOUR, collect, HOUR, HOUR, notifier=recorder).run()
    assert recorder.runs == [1, 2]
    assert scene.status()["unsent_notifications"] == 7


def test_a_reload_between_failures_begins_another_streak(scene, notifier, hook):
    def fail(inbox):
        inbox.put(None, b'{"user_id": 2, "events": []}')
        scene.fleet.fault = faults.server_error()

    def mend():
        scene.fleet.fault = None

    def fail_again():
        notifier.send()
        scene.fleet.fault = faults.server_error()

    with closing(scene.open_inbox()) as inbox:
        steps = (partial(fail, inbox), MINUTE, 2 * MINUTE, notifier.send, mend, MINUTE, fail_again, EVERY)
        scene.watch(*steps, notifier.send, inbox=inbox, notifier=notifier).run()
    assert scene.history.runs()["scope"].tolist()[-1] == "some"
    assert [message["title"].removeprefix("exposurekit: ") for message in hook.messages] == [
        "a failed collection",
        "collections succeed again",
        "a failed collection",
    ]


def test_a_restarted_watch_continues_the_streak_of_failures(scene):
    recorder = RecordingNotifier()
    scene.watch(EVERY, notifier=recorder).run()
    scene.fleet.fault = faults.server_error()
    for _ in range(2):
        scene.watch(EVERY, notifier=recorder).run()
    assert len(recorder.runs) > 2
    assert len(recorder.streaks) > 2
    assert len({*recorder.streaks}) == 1
