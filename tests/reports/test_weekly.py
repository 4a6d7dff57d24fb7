"""Weekly reports: written once when they are due, with an index, and announced; nothing is lost with the process."""

import logging
import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from support.histories import DAWN, Clock, Person, Service, a_record, seen_through
from support.notification_receivers import a_mailbox

from exposurekit.errors import ConfigurationError
from exposurekit.history import History
from exposurekit.monitor.notifications.notifier import Notifier, check_addresses
from exposurekit.monitor.notifications.outbox import NotificationOutbox
from exposurekit.monitor.notifications.rules import load_rules, parse_rules
from exposurekit.reports import report, weekly
from exposurekit.reports.weekly import WeeklyReports
from exposurekit.service.clock import FrozenClock

MINUTE, DAY, WEEK = timedelta(minutes=1), timedelta(days=1), timedelta(days=7)
FIRST, SECOND = "exposure-2026-02-23.html", "exposure-2026-03-02.html"  # DAWN is a Sunday


def six_people():
    """A service of six people, of whom the first is Juniper."""
    return Service(
        {
            number: Person(
                [a_record(10 * number, site="Nosy Heron")],
                profile={"first_name": "Juniper", "last_name": "Quillfeather"} if number == 1 else {},
            )
            for number in range(1, 7)
        }
    )


class Story:
    """A history of six people, and rules with reports."""

    def __init__(self, directory, rule, mail, collected):
        self.directory = directory
        self.reports_directory = directory / "reports"
        self.clock = FrozenClock(DAWN)
        self.service = six_people()
        if collected is not None:
            shutil.copytree(collected, directory / "history")
        self.history = History(directory / "history", clock=Clock())
        self.outbox = NotificationOutbox(directory / "notifications.db")
        text = (
            f"send_to: {{me: '{mail.url}'}}\n"
            f"rules: [{{report: weekly, directory: '{self.reports_directory}', {rule}}}]"
        )
        self.rules = parse_rules(text)
        self.start()

    def start(self):
        """Start anew, as another process does."""
        self.loads = 0
        self.weekly = WeeklyReports(self.rules, self.outbox, self.history, self.load, self.clock.now)

    def collect(self):
        with seen_through(self.service) as exposure:
            self.history.collect(exposure, progress=False)

    def load(self):
        self.loads += 1
        with seen_through(self.service) as exposure:
            exposure.users()
            return exposure

    def write(self, after=timedelta(0)):
        """Write and send what is due after some time; return how many reports were written."""
        self.clock.advance(after)
        written = self.weekly.write_due()
        Notifier(self.rules, self.outbox, self.clock.now).send()
        return written

    def files(self):
        return sorted(path.name for path in self.reports_directory.iterdir())


@pytest.fixture
def mail():
    with a_mailbox() as mail:
        yield mail


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """A history with one run."""
    directory = tmp_path_factory.mktemp("collected") / "history"
    with seen_through(six_people()) as exposure, History(directory, clock=Clock()) as history:
        history.collect(exposure, progress=False)
    return directory


@pytest.fixture(scope="module")
def page_by_hand(collected):
    """A page of the history, not written by a rule."""
    with History(collected, clock=Clock()) as history:
        return report(history, sections=["coverage"]).to_html()


@pytest.fixture(scope="module")
def weekly_page(collected, tmp_path_factory):
    """The share-safe page of the first week."""
    with a_mailbox() as mail:
        story = Story(tmp_path_factory.mktemp("first_week"), "keep: 1", mail, collected)
        assert story.write() == 1
        page = (story.reports_directory / FIRST).read_text()
        story.outbox.close()
        story.history.close()
    return page


@pytest.fixture
def begin(tmp_path, mail, collected):
    """Begin a story with a rule."""

    def begin(rule="send: me", *, collects=True):
        stories.append(Story(tmp_path, rule, mail, collected if collects else None))
        return stories[-1]

    stories = []
    yield begin
    for story in stories:
        story.outbox.close()
        story.history.close()


def test_a_share_safe_report_is_written_and_sent_weekly(begin, mail, caplog):
    story = begin()
    with caplog.at_level(logging.DEBUG):
        assert [story.write() for _ in range(2)] == [1, 0]
    assert_secrecy(story, caplog, is_personal=False)
    story.start()
    assert story.write() == 0  # nor by another process
    assert story.loads == 0
    assert story.write(DAY) == 1
    assert [story.write(DAY) for _ in range(6)] == [0] * 6
    assert story.files() == [FIRST, SECOND, "index.html"]
    assert [title for title, _ in mail.mails] == ["exposurekit: weekly report"] * 2
    assert "6 of 6 listings found on people-search sites are still open" in mail.mails[0][1]
    assert f"Report: {FIRST}" in mail.mails[0][1]
    assert mail.files == {}
    assert_index_lists_newest_first(story)


def test_a_summary_says_how_many_people_are_missing(begin, mail):
    story = begin(collects=False)
    story.service.broken = dict.fromkeys([*story.service.people][1:], "no user")
    story.collect()
    assert story.write() == 1
    assert "People: 6, 5 not observed completely." in mail.mails[0][1]


def assert_index_lists_newest_first(story):
    index = (story.reports_directory / "index.html").read_text()
    assert index.index(SECOND) < index.index(FIRST)
    assert index.count("6 of 6 listings found on people-search sites are still open") == 2
    assert "script" not in index.replace("Content-Security-Policy", "")
    assert story.reports_directory.stat().st_mode & 0o777 == 0o700
    assert (story.reports_directory / FIRST).stat().st_mode & 0o777 == 0o600


def test_the_newest_reports_remain_and_no_foreign_file_goes(begin, weekly_page, page_by_hand):
    story = begin("keep: 2")
    story.reports_directory.mkdir()
    own, confidential = "exposure-2020-01-13.html", "exposure-2020-01-06-confidential.html"
    for name in (own, confidential):  # by hand, and of another rule
        (story.reports_directory / name).write_text(page_by_hand)
    foreign = ("exposure-2020-01-06.html", "notes.html")
    for name in foreign:
        (story.reports_directory / name).write_text("<h1>Ours</h1>")
    before = "exposure-2026-02-16.html"  # the week before has a report of this rule, too
    for name in (FIRST, before):
        (story.reports_directory / name).write_text(weekly_page)
    assert story.write() == 0
    assert story.write(DAY) == 1
    remaining = [FIRST, SECOND, own, confidential]
    assert story.files() == sorted([*remaining, *foreign, "index.html"])
    index = (story.reports_directory / "index.html").read_text()
    listed = [name for name in (*remaining, *foreign, before) if f'"{name}"' in index]
    assert listed == remaining


def test_all_reports_remain_without_keep(begin):
    story = begin()
    story.reports_directory.mkdir()
    for number in range(60):
        path = story.reports_directory / f"exposure-{DAWN.date() - (number + 2) * WEEK}.html"
        path.write_text('<meta name="generator" content="exposurekit">')
    assert story.write() == 1
    assert len(story.files()) == 62


def test_reports_of_another_history_stay_as_they_are(begin, mail, weekly_page):
    """Two watches write to one directory: neither deletes or overwrites what the other wrote."""
    story = begin("send: me, keep: 1")
    story.reports_directory.mkdir()
    first = story.reports_directory / FIRST
    first.write_text(weekly_page)
    of_first = first.read_bytes()
    with closing(NotificationOutbox(story.directory / "other.db")) as outbox:
        instant = DAWN + MINUTE
        other = History(story.directory / "other", clock=lambda: instant)
        with closing(other), seen_through(story.service) as exposure:
            other.collect(exposure, progress=False)
            watch = WeeklyReports(story.rules, outbox, other, story.load, story.clock.now)
            assert watch.write_due() == 0
            [(_, failure)] = outbox.due(story.clock.now())["me"]
            assert f"its directory has a {FIRST} of something else" in failure.line.replace("\\", "")
            story.clock.advance(DAY)
            assert watch.write_due() == 1
    assert story.files() == [FIRST, SECOND, "index.html"]
    assert first.read_bytes() == of_first


def test_a_page_made_by_hand_is_not_overwritten(begin, mail, page_by_hand):
    story = begin()
    story.reports_directory.mkdir()
    path = story.reports_directory / FIRST
    path.write_text(page_by_hand)
    of_hand = path.read_bytes()
    assert story.write() == 0
    assert f"its directory has a {FIRST} of something else" in mail.mails[0][1]
    assert path.read_bytes() == of_hand


def test_a_history_that_moves_keeps_its_reports_together(begin, weekly_page):
    story = begin("keep: 1")
    story.reports_directory.mkdir()
    (story.reports_directory / FIRST).write_text(weekly_page)
    story.history.close()
    (story.directory / "history").rename(story.directory / "moved")
    story.history = History(story.directory / "moved")
    story.start()
    assert story.write(DAY) == 1
    assert story.files() == [SECOND, "index.html"]


def test_a_report_is_confidential_if_its_rule_is_personal(begin, caplog):
    story = begin("personal: true")
    with caplog.at_level(logging.DEBUG):
        story.write()
    assert_secrecy(story, caplog, is_personal=True)


def assert_secrecy(story, caplog, *, is_personal):
    """Logs and the index have no name, and the page of a report only if its rule is personal, which its name says."""
    assert not any(secret in caplog.text for secret in ("Quillfeather", str(story.directory)))
    [name] = [name for name in story.files() if name != "index.html"]
    assert name.endswith("-confidential.html") is is_personal
    assert ("Quillfeather" in (story.reports_directory / name).read_text()) is is_personal
    index = (story.reports_directory / "index.html").read_text()
    assert "Quillfeather" not in index
    assert ("confidential" in index.partition("</style>")[2]) is is_personal


def test_a_file_is_attached_if_the_rule_says_so(begin, mail):
    story = begin("send: me, attach: true")
    story.write()
    attached = {FIRST: (story.reports_directory / FIRST).read_bytes()}
    assert mail.files == attached
    story.clock.advance(DAY)
    story.weekly.write_due()
    (story.reports_directory / SECOND).unlink()
    story.write()
    assert len(mail.mails) == 2  # a missing file does not delay its summary
    assert mail.files == attached


def test_a_report_that_was_not_announced_is_written_again(begin, mail, monkeypatch):
    story = begin()
    with monkeypatch.context() as patch:
        patch.setattr(story.outbox, "put", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            story.write()
    assert story.files() == [FIRST, "index.html"]
    story.start()
    assert story.write() == 1
    assert len(mail.mails) == 1


def test_a_failure_is_announced_once_and_tried_again(begin, mail, caplog):
    story = begin()
    story.reports_directory.touch()
    with caplog.at_level(logging.WARNING):
        assert [story.write(MINUTE) for _ in range(25)] == [0] * 25
    assert len(caplog.records) == 3
    assert story.loads == 0
    [(_, text)] = mail.mails
    assert "It could not be written: its directory cannot be written: " in text
    assert str(story.directory) not in text
    story.reports_directory.unlink()
    assert story.write(10 * MINUTE) == 1
    assert [title for title, _ in mail.mails] == ["exposurekit: weekly report"] * 2


def test_an_index_of_somebody_else_is_left_as_it_is(begin, mail):
    story = begin()
    story.reports_directory.mkdir()
    (story.reports_directory / "index.html").write_text("<h1>My site</h1>")
    assert story.write() == 0
    assert story.files() == ["index.html"]
    assert (story.reports_directory / "index.html").read_text() == "<h1>My site</h1>"
    assert "has an index.html of something else" in mail.mails[0][1]


def test_without_a_run_nothing_is_written_or_said(begin, mail):
    story = begin(collects=False)
    assert story.write() == 0
    assert mail.mails == []
    assert not story.reports_directory.exists()
    story.collect()
    assert story.write() == 1


def test_a_service_that_cannot_be_reached_delays_the_report(begin, mail):
    story = begin()
    story.service.listing = False
    assert story.write() == 0
    assert "It could not be written" in mail.mails[0][1]
    story.service.listing = True
    assert story.write(weekly.RETRY_DELAY) == 1


@pytest.mark.parametrize(
    ("at", "due"),
    [
        ("2026-03-02T06:59", "2026-02-23T07:00"),
        ("2026-03-02T07:00", "2026-03-02T07:00"),
        ("2026-03-08T23:00", "2026-03-02T07:00"),
        ("2026-03-30T06:00", "2026-03-30T06:00"),  # the clocks went forward the day before
        ("2026-03-30T05:59", "2026-03-23T07:00"),
    ],
)
def test_a_report_is_due_at_its_local_time(at, due):
    rules = parse_rules(
        "{send_to: {}, rules: [{report: weekly, directory: x, at: '08:00'}], time_zone: Europe/Berlin}"
    )
    instant = rules.report_due_at(rules.reports[0], datetime.fromisoformat(at).replace(tzinfo=UTC))
    assert instant.astimezone(UTC) == datetime.fromisoformat(due).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("report: daily, directory: x", "rule 1, report: it should be 'weekly'"),
        ("report: weekly", "rule 1, directory: required"),
        ("report: weekly, directory: x, attach: true", "rule 1 (report): attach needs send"),
        ("report: weekly, directory: x, weekday: someday", "rule 1, weekday: it should be 'monday', "),
        ("report: weekly, directory: x, send: you", "rule 1 (report): send names an address"),
        ("report: weekly, directory: x, when: new", "rule 1, when: unknown key"),
        ("report: weekly, directory: x, keep: 0", "rule 1, keep: "),
        (
            "report: weekly, directory: x}, {report: weekly, weekday: friday, directory: ./x/",
            "rule 2 (report): rule 1 writes to its directory, too: give each its own",
        ),
    ],
)
def test_an_invalid_report_rule_names_its_problem(rule, message):
    with pytest.raises(ConfigurationError) as refused:
        parse_rules(f"{{send_to: {{me: 'json://x'}}, rules: [{{{rule}}}]}}")
    assert message in str(refused.value)


def test_a_relative_directory_is_beside_the_rules(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    file = tmp_path / "rules.yaml"
    file.touch(mode=0o600)
    places = ("reports", "/srv/reports", "s3://bucket/reports", "~/reports")
    lines = "".join(f"  - {{report: weekly, directory: '{place}'}}\n" for place in places)
    file.write_text(f"send_to: {{}}\nrules:\n{lines}")
    assert [rule.directory for rule in load_rules(file).reports] == [str(tmp_path / "reports"), *places[1:]]


def test_one_directory_takes_one_rule_of_each_sensitivity(tmp_path):
    file = tmp_path / "rules.yaml"
    file.touch(mode=0o600)
    lines = "rules:\n  - {report: weekly, directory: x}\n  - {report: weekly, directory: x, personal: true}\n"
    file.write_text(f"send_to: {{}}\n{lines}")
    assert len(load_rules(file).reports) == 2
    file.write_text(f"send_to: {{}}\n{lines}  - {{report: weekly, directory: '{tmp_path}/x'}}\n")
    with pytest.raises(ConfigurationError, match=r"rule 3 \(report\): rule 1 writes to its directory, too"):
        load_rules(file)


def test_an_address_that_takes_no_files_is_refused():
    rules = parse_rules(
        "{send_to: {me: 'gotify://example.com/token'}, "
        "rules: [{report: weekly, directory: x, send: me, attach: true}]}"
    )
    with pytest.raises(ConfigurationError, match="send_to, me: this address takes no files"):
        check_addresses(rules)


def test_an_outbox_of_an_earlier_version_takes_files(tmp_path):
    with closing(NotificationOutbox(tmp_path / "notifications.db")) as outbox:
        outbox.put([])
        with outbox._database.writing() as connection:
            connection.execute("ALTER TABLE notifications DROP COLUMN attachment")
            connection.execute("ALTER TABLE notifications DROP COLUMN urgent")
            connection.execute("PRAGMA user_version = 1")
    with closing(NotificationOutbox(tmp_path / "notifications.db")) as outbox:
        one = weekly.Notification("me", "key", "weekly report", "line", DAWN, "file.html")
        assert outbox.put([one]) == 1
        assert [stored for _, stored in outbox.due(DAWN)["me"]] == [one]
