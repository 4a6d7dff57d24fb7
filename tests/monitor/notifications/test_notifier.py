"""Being told: once for each cause, grouped, at the time, of nobody by name; and an address that is down loses nothing."""

import json
import logging
import socket
import sqlite3
from contextlib import closing, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from support import faults
from support.histories import DAWN, Clock, Person, Service, a_delivery, a_link, a_record, seen_through
from support.notification_receivers import a_mailbox, a_receiver
from support.watches import EVERY, a_scene

from exposurekit.errors import ConfigurationError
from exposurekit.history import History
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.monitor.notifications.notifier import Notifier, check_addresses
from exposurekit.monitor.notifications.outbox import FILE, Notification, NotificationOutbox, outbox_file
from exposurekit.monitor.notifications.rules import parse_rules
from exposurekit.service.clock import FrozenClock
from exposurekit.text.sanitize import escape_chat_url

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Story:
    """A history that is looked at day by day, and a teller beside it."""

    def __init__(self, directory, rules, **send_to):
        self.service, self.clock, self.run_clock = Service(), FrozenClock(DAWN), Clock()
        self.service.people = {
            number: Person(
                [a_record(10 * number, site="Seekfolk"), a_record(10 * number + 1, site="Nosy Heron")]
            )
            for number in (1, 2, 3)
        }
        self.history = History(directory / "history", clock=self.run_clock)
        self.notices = NotificationOutbox(directory / "notifications.db")
        addresses = "".join(f"  {name}: {url}\n" for name, url in send_to.items())
        self.notifier = Notifier(parse_rules(f"send_to:\n{addresses}{rules}"), self.notices, self.clock.now)

    def collect(self, after=DAY, only=None):
        """A look, some time after the last; what is to be told is kept."""
        self.clock.advance(after)
        self.run_clock.set(self.clock.now())
        with seen_through(self.service) as exposure:
            self.history.collect(exposure, only=only, progress=False)
        return self.notifier.on_new_run(self.history)

    def set(self, user_id, status, index=0):
        self.service.people[user_id].records[index] |= {"status": status}


@pytest.fixture
def mail():
    with a_mailbox() as mail:
        yield mail


@pytest.fixture
def hook():
    with a_receiver() as hook:
        yield hook


@pytest.fixture
def story(tmp_path, mail, hook):
    stories = []

    def of(rules):
        stories.append(Story(tmp_path, rules, me=mail.url, chat=hook.url))
        return stories[-1]

    yield of
    for one in stories:
        one.notices.close()
        one.history.close()


def test_a_relisting_is_notified_once_by_mail_and_by_webhook(story, mail, hook):
    scene = story("rules:\n  - {when: relisted, send: [me, chat]}\n")
    assert scene.collect() == 0
    scene.set(1, "removed")
    scene.set(2, "removed")
    assert scene.collect() == 0
    scene.set(1, "discovered")
    scene.set(2, "discovered")
    assert scene.collect() == 4
    assert scene.notifier.send() == 2
    assert scene.collect() == 0
    assert scene.notifier.send() == 0
    [(subject, text)] = mail.mails
    assert subject == "exposurekit: 2 relisted listings"
    assert text.strip() == "2 relisted listings:\n  Seekfolk (2)"
    [message] = hook.messages
    assert message["title"] == subject
    assert message["message"].strip() == text.strip()


def test_the_first_run_notifies_only_of_stuck_records(story, hook):
    scene = story("rules:\n  - {when: new, send: chat}\n  - {when: stuck, days: 3, send: chat}\n")
    assert scene.collect() == 0
    assert scene.collect(2 * DAY) == 0
    assert scene.collect(2 * DAY) == 6
    assert scene.collect() == 0
    scene.service.people[1].records.append(a_record(19, site="Seekfolk"))
    assert scene.collect() == 1
    scene.notifier.send()
    [message] = hook.messages
    assert message["title"] == "exposurekit: 6 listings with the same status for 3 days, and 1 more"
    assert "1 new listing:\n  Seekfolk" in message["message"]


@pytest.mark.parametrize("personal", [False, True])
def test_no_name_is_in_a_notification_unless_allowed(story, hook, personal):
    scene = story(f"rules:\n  - {{when: removed, send: chat, personal: {str(personal).lower()}}}\n")
    scene.collect()
    scene.set(2, "removed")
    scene.collect()
    scene.notifier.send()
    record = a_record(1)
    for value in ("user 2", record["name"], escape_chat_url(record["href"])):
        assert (value in hook.messages[0]["message"]) is personal


def test_each_condition_triggers_its_notification(story, hook):
    rules = ["{when: refused, send: chat}", "{when: not_seen, days: 2, send: chat}"]
    rules += ["{when: site_broken, send: chat}", "{when: score, points: 5, send: chat}"]
    scene = story("rules:\n" + "".join(f"  - {rule}\n" for rule in rules))
    scene.service.people |= {
        number: Person([a_record(10 * number, site="Tattleberry")]) for number in range(4, 10)
    }
    scene.set(1, "pending removal")
    scene.collect()
    scene.set(1, "discovered")
    scene.service.broken = {3: "no user"}
    assert scene.collect() == 1  # refused
    for number in range(4, 10):
        scene.service.people[number].records.clear()
    assert scene.collect(2 * DAY) == 2  # not seen for two days, and six vanished at once
    scene.service.people[2].links.extend(a_link(f"https://page.example/{n}") for n in range(6))
    for number in range(4, 10):
        scene.service.people[number].records.append(a_record(100 + number, site="Elsewhere"))
    assert scene.collect() == 1  # 6 pages and 6 listings more
    scene.notifier.send()
    text = hook.messages[0]["message"]
    assert "1 refused removal (manual work needed)" in text
    assert "1 user not loaded completely for 2 days" in text
    assert "Tattleberry" in text
    assert "score increase of 5 points or more" in text


def test_a_site_that_went_dark_once_is_told_once(story):
    scene = story("rules:\n  - {when: site_broken, send: chat}\n")
    scene.service.people |= {n: Person([a_record(10 * n, site="Tattleberry")]) for n in range(4, 10)}
    scene.collect()
    for number in range(4, 10):
        scene.service.people[number].records.clear()
    assert scene.collect() == 1
    for number in range(4, 10):  # it can be read again
        scene.service.people[number].records.append(a_record(500 + number, site="Tattleberry"))
        assert scene.collect() == 0


def test_a_score_is_compared_between_full_runs(story):
    scene = story("rules:\n  - {when: score, points: 20, send: chat}\n")
    scene.collect()
    for user_id in (1, 2):
        pages = (a_link(f"https://page.example/{user_id}/{n}") for n in range(12))
        scene.service.people[user_id].links.extend(pages)
        if user_id == 1:
            assert scene.collect(HOUR, only=[1]) == 0  # of one person: it says nothing of the rest
    assert scene.collect() == 1


def test_what_a_webhook_told_during_a_look_is_not_lost(story):
    scene = story("rules:\n  - {when: new, send: chat}\n")
    scene.collect()
    scene.collect(only=[1])
    delivery = a_delivery(2, {"discovered_records": [{"record": a_record(29, site="Seekfolk")}]})
    scene.history.ingest_deliveries(
        [ReceivedDelivery(1, scene.clock.now() - MINUTE, "msg_1", delivery)], "inbox"
    )
    assert scene.notifier.on_new_run(scene.history) == 1
    assert scene.notifier.on_new_run(scene.history) == 0


def test_a_message_about_somebody_names_the_very_listing(story, hook):
    scene = story("rules:\n  - {when: new, send: chat, personal: true}\n")
    scene.collect()
    for number, name in enumerate(("Zinnia One", "Zinnia Two"), 18):
        scene.service.people[1].records.append(a_record(number, site="Doorbell", name=name))
        scene.collect()
    scene.notifier.send()
    assert [
        name for name in ("Zinnia One", "Zinnia Two") if hook.messages[0]["message"].count(name) == 1
    ] == [
        "Zinnia One",
        "Zinnia Two",
    ]


CALLING = (
    "@everyone [Reset](https://evil.example) <!channel> <@U1>",
    "![](https://evil.example/1.png) **b** `c` &lt;d>",
)


@pytest.mark.parametrize("personal", [False, True])
@pytest.mark.parametrize(
    "url", ["json://127.0.0.1:{}", "mmost://127.0.0.1:{}/3ccdd113474722377935511fc85d3dd4"]
)
def test_chat_messages_mention_nobody_and_contain_no_links(story, hook, url, personal):
    scene = story(
        f"  team: {url.format(hook.port)}\nrules:\n  - {{when: new, send: team, personal: {personal}}}\n"
    )
    scene.collect()
    for site, name in (CALLING, CALLING[::-1]):
        number = 19 + len(scene.service.people[1].records)
        record = a_record(number, site=site, name=name, href=f"https://x.example/@here?{name}")
        scene.service.people[1].records.append(record)
    scene.collect()
    assert scene.notifier.send() == 1
    text = json.dumps(hook.messages[0], ensure_ascii=False).replace(r"\n", "").replace(r"\r", "")
    assert "(at)everyone (Reset)(https: //evil.example)" in text
    assert text.count("(at)everyone") == 1 + personal
    text = text.replace("https://github.com/caronc/apprise", "")  # its picture
    assert [mark for mark in ("@", "](", "<", ">", "`", "*", "://", "\\", "&lt;") if mark in text] == []


def test_a_digest_waits_and_groups(story, hook):
    scene = story(
        "rules:\n  - {when: new, send: chat, digest: true}\n  - {when: removed, send: chat, digest: true}\n"
    )
    scene.collect()
    scene.service.people[1].records.append(a_record(19, site="Seekfolk"))
    scene.collect()
    assert scene.notifier.send() == 0
    scene.set(2, "removed")
    scene.collect(HOUR)
    assert scene.notifier.send() == 0
    scene.clock.advance(DAY)
    assert scene.notifier.send() == 1
    assert hook.tries == 1
    assert hook.messages[0]["title"] == "exposurekit: 1 new listing, and 1 more"


def test_of_several_rules_the_soonest_and_most_detailed_count(story, hook):
    rules = (
        "  - {when: new, send: chat, digest: true}\n",
        "  - {when: new, send: chat, sites: [Seekfolk]}\n",
        "  - {when: new, send: chat, personal: true, digest: true}\n",
    )
    scene = story(f"rules:\n{''.join(rules)}")
    scene.collect()
    scene.service.people[1].records.append(a_record(19, site="Seekfolk"))
    scene.collect()
    assert scene.notifier.send() == 1
    assert "user 1 at Seekfolk" in hook.messages[0]["message"]


def test_somebody_who_is_erased_is_told_of_no_more(story, tmp_path):
    scene = story("rules:\n  - {when: new, send: chat, personal: true, digest: true}\n")
    scene.collect()
    for user_id in (1, 2):
        scene.service.people[user_id].records.append(a_record(10 * user_id + 9, site="Seekfolk"))
    scene.collect()
    assert scene.notices.erase(1) == 1
    assert scene.notices.waiting() == 1
    scene.notices.close()
    stored_bytes = b"".join(file.read_bytes() for file in tmp_path.glob("notifications.db*"))
    assert (b"user 1 at" in stored_bytes, b"user 2 at" in stored_bytes) == (False, True)


def test_in_quiet_hours_only_what_is_urgent_is_sent(story, hook):
    rules = "  - {when: new, send: chat}\n  - {when: removed, send: chat, urgent: true}\n"
    scene = story(f'rules:\n{rules}quiet_hours: {{from: "19:00", until: "06:00"}}\n')
    scene.collect()
    scene.service.people[1].records.append(a_record(19))
    scene.set(2, "removed")
    scene.collect()  # at 20:00
    scene.notifier.send()
    assert [message["title"] for message in hook.messages] == ["exposurekit: 1 removed listing"]
    scene.clock.advance(10 * HOUR)
    scene.notifier.send()
    assert [message["title"] for message in hook.messages][1:] == ["exposurekit: 1 new listing"]


def test_an_address_that_is_down_loses_and_delays_nothing(story, mail, hook, caplog):
    scene = story("rules:\n  - {when: removed, send: [me, chat]}\n")
    scene.collect()
    hook.status = 500
    for user_id in (1, 2, 3):
        scene.set(user_id, "removed")
        scene.collect(10 * MINUTE)
        scene.notifier.send()
    for _ in range(60):
        scene.clock.advance(MINUTE)
        scene.notifier.send()
    assert len(mail.mails) == 3
    assert hook.messages == []
    assert 3 < hook.tries < 20  # later each time
    assert scene.notices.waiting() == 3
    hook.status = 200
    scene.clock.advance(15 * MINUTE)
    scene.notifier.send()
    [message] = hook.messages
    assert message["title"] == "exposurekit: 3 removed listings"
    assert scene.notices.waiting() == 0
    assert "127.0.0.1" not in caplog.text
    assert "could not notify chat: it responded with 500; next attempt at " in caplog.text


def test_a_try_made_with_a_fast_clock_delays_nothing(story, hook):
    scene = story("rules:\n  - {when: removed, send: chat}\n")
    scene.collect()
    scene.set(1, "removed")
    scene.collect()
    hook.status = 500
    scene.clock.advance(1000 * DAY)
    scene.notifier.send()
    scene.clock.advance(-1000 * DAY)
    hook.status = 200
    assert scene.notifier.send() == 1


def test_what_a_fast_clock_postponed_is_sent_after_its_correction(story, hook):
    scene = story("rules:\n  - {when: collection_failed, send: chat, digest: true}\n")
    scene.clock.advance(1000 * DAY)
    assert scene.notifier.on_failure(1, "monday", "no answer") == 1
    assert scene.notifier.send() == 0
    scene.clock.advance(-1000 * DAY)
    assert scene.notifier.send() == 1


def test_unsent_notifications_are_sent_by_the_next_process(story, tmp_path, hook):
    scene = story("rules:\n  - {when: removed, send: chat}\n")
    scene.collect()
    hook.status = 503
    scene.set(1, "removed")
    scene.collect()
    scene.notifier.send()
    scene.notices.close()
    hook.status = 200
    scene.clock.advance(HOUR)
    again = NotificationOutbox(tmp_path / "notifications.db")
    assert Notifier(scene.notifier.rules, again, scene.clock.now).send() == 1
    again.close()


def test_sent_texts_are_deleted_and_remembered_as_sent(story, tmp_path, hook):
    scene = story("rules:\n  - {when: removed, send: chat, personal: true}\n")
    scene.collect()
    scene.set(2, "removed")
    scene.collect()
    scene.notifier.send()
    scene.notices.close()
    stored_bytes = b"".join(file.read_bytes() for file in tmp_path.glob("notifications.db*"))
    assert b"user 2" not in stored_bytes
    assert a_record(1)["name"].encode() not in stored_bytes
    assert (tmp_path / "notifications.db").stat().st_mode & 0o077 == 0


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
    assert outbox.put([Notification("me", key, "new listings", "Seekfolk", at) for key in "abc"]) == 1
    assert outbox.due(at)["me"][0][0] == 2
    assert outbox.waiting() == 3
    assert "chat" not in outbox.due(at)  # its retry is due a minute later
    assert outbox.mark_failed("chat", at) - at == 4 * MINUTE  # the fourth attempt
    outbox.close()


def test_an_outbox_of_the_former_name_keeps_its_log(tmp_path):
    at = datetime(2026, 3, 1, tzinfo=UTC)
    outbox = NotificationOutbox(tmp_path / "notices.db")
    outbox.put([Notification("me", "a", "new listings", "Seekfolk", at)], evaluated_until=at)
    left = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert left.keys() == {"notices.db", "notices.db-wal", "notices.db-shm"}
    outbox.close()
    for killed_after in (
        [],
        ["-wal"],
        ["-wal", "-shm"],
    ):  # a crash leaves the log; so may a crash while renaming
        directory = tmp_path / f"after{len(killed_after)}"
        directory.mkdir()
        for name, data in left.items():
            suffix = name.removeprefix("notices.db")
            (directory / (f"{FILE}{suffix}" if suffix in killed_after else name)).write_bytes(data)
        renamed = NotificationOutbox(outbox_file(directory))
        assert (renamed.waiting(), renamed.evaluated_until()) == (1, at)
        renamed.close()
        assert [path.name for path in directory.iterdir()] == [FILE]


def test_of_each_failing_streak_one_is_told(story, hook):
    scene = story("rules:\n  - {when: collection_failed, times: 2, send: chat}\n")
    assert [scene.notifier.on_failure(n, "monday", "no answer") for n in (1, 2, 3)] == [0, 1, 0]
    assert scene.notifier.on_failure(2, "tuesday", "no answer") == 1
    scene.notifier.send()
    assert hook.messages[0]["message"].count("no answer") == 1  # the same words, counted


def test_an_address_that_cannot_work_is_an_immediate_error():
    with pytest.raises(ConfigurationError, match="send_to, me") as refused:
        check_addresses(parse_rules("send_to: {me: 'nosuch://pa55word'}\nrules: [{when: new, send: me}]"))
    assert "pa55word" not in str(refused.value)


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


def to_team(url):
    return parse_rules(f"send_to: {{team: '{url}'}}\nrules: [{{when: new, send: team}}]")


@pytest.mark.parametrize("url", ONE)
def test_an_address_of_one_is_taken(url):
    check_addresses(to_team(url))


@pytest.mark.parametrize("url", TWO)
def test_an_address_with_two_receivers_is_refused(url):
    with pytest.raises(
        ConfigurationError, match=r"^send_to, team: the address reaches 2 recipients. Give each"
    ) as refused:
        check_addresses(to_team(url))
    assert "pa55word" not in str(refused.value)


def test_a_test_says_who_was_told(story, hook, mail):
    scene = story("rules:\n  - {when: new, send: chat}\n")
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
def test_why_an_address_fails_is_logged_without_the_address(url, why, hook, caplog):
    caplog.set_level(logging.DEBUG)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        free = taken.getsockname()[1]
    rules = parse_rules(
        f"send_to: {{me: '{url.format(free=free, hook=hook.port)}'}}\nrules: [{{when: new, send: me}}]"
    )
    assert Notifier(rules, None).send_test() == {"me": why}
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
def test_behind_a_redirect_a_message_has_not_arrived(url, status, hook):
    hook.status = status
    reason = f"it redirects ({status}): use the address it redirects to"
    assert Notifier(to_team(url.format(hook.port)), None).send_test() == {"team": reason}
    assert hook.tries == 1


def test_a_mail_server_that_refuses_the_password_says_so():
    with a_mailbox(refuses=True) as mail:
        url = mail.url.replace("mailto://", "mailto://somebody:pa55word@")
        rules = parse_rules(f"send_to: {{me: '{url}'}}\nrules: [{{when: new, send: me}}]")
        assert Notifier(rules, None).send_test() == {
            "me": "its mail server responded with 535: check user and password"
        }


def test_a_watch_keeps_running_where_notifications_fail(tmp_path, hook, caplog):
    caplog.set_level(logging.INFO)
    with a_scene(tmp_path / "history") as scene:
        rules = parse_rules(
            f"send_to: {{chat: '{hook.url}'}}\nrules: [{{when: collection_failed, send: chat}}]"
        )
        notices = NotificationOutbox(tmp_path / "notifications.db")
        notifier = Notifier(rules, notices, scene.clock.now)

        def astray():
            scene.fleet.fault = faults.server_error()

        def notify():
            notifier.send()

        scene.watch(astray, EVERY, notify, notifier=notifier).run()
        assert scene.status()["failures_in_a_row"] >= 1
        assert notices.waiting() == 0
        [message] = hook.messages
        assert message["title"] == "exposurekit: a failed collection"
        notices.close()


def test_a_history_that_cannot_be_judged_stops_no_watch(tmp_path, hook, caplog):
    with a_scene(tmp_path / "history") as scene:
        rules = parse_rules(f"send_to: {{chat: '{hook.url}'}}\nrules: [{{when: new, send: chat}}]")
        (tmp_path / "notifications.db").write_text(
            "no database, whatever it is called, and long enough to be one" * 20
        )
        notices = NotificationOutbox(tmp_path / "notifications.db")
        scene.watch(EVERY, EVERY, notifier=Notifier(rules, notices, scene.clock.now)).run()
        assert len(scene.fleet.listed_at) == 3
    assert "the notification rules could not be evaluated" in caplog.text


def test_a_damaged_history_does_not_stop_a_failing_watch(tmp_path, hook):
    with a_scene(tmp_path / "history") as scene:
        rules = parse_rules(f"send_to: {{chat: '{hook.url}'}}\nrules: [{{when: new, send: chat}}]")
        notifier = Notifier(rules, NotificationOutbox(tmp_path / "notifications.db"), scene.clock.now)

        def damaged():
            scene.fleet.fault = faults.server_error()
            for file in (tmp_path / "history" / "runs").rglob("*.parquet"):
                file.unlink()

        scene.watch(damaged, EVERY, EVERY, notifier=notifier).run()
        assert scene.status()["failures_in_a_row"] >= 1


class Heard:
    """Whom a watch asks to judge, and when."""

    def __init__(self):
        self.judged, self.streaks = [], []
        self.sending = nullcontext

    def on_new_run(self, history):
        self.judged.append(history.last_run().seq)
        return 0

    def on_failure(self, _in_a_row, since, _reason):
        self.streaks.append(since)
        return 0


def test_what_somebody_else_collected_is_judged_too(tmp_path):
    with a_scene(tmp_path / "history") as scene:
        heard = Heard()
        collect = partial(scene.history.collect, scene.exposure, progress=False)
        scene.watch(HOUR, collect, HOUR, HOUR, notifier=heard).run()
    assert heard.judged == [1, 2]


def test_days_pass_while_runs_fail_and_streaks_stay_one(tmp_path):
    with a_scene(tmp_path / "history") as scene:
        heard = Heard()
        scene.watch(EVERY, notifier=heard).run()
        scene.fleet.fault = faults.server_error()
        for _ in range(2):
            scene.watch(EVERY, notifier=heard).run()
    assert len(heard.judged) > 2
    assert len(heard.streaks) > 2
    assert len({*heard.streaks}) == 1
