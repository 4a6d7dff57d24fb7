"""A history contains the same as a plain reference, row for row, whatever happens in whatever order.

With HISTORY_EXAMPLES=2000 in the environment it tests as many random sequences, and shrinks those that fail.
"""

import contextlib
import os
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from support.histories import (
    BROKEN,
    DAWN,
    Clock,
    Person,
    a_delivery,
    a_link,
    a_record,
    an_alert,
    of_alert,
    of_link,
    of_record,
)
from support.history_reference import CHANGES, Reference, Statement, is_open

from exposurekit import analysis
from exposurekit.errors import ExposureError, NotFound
from exposurekit.history import History, ReceivedDelivery
from exposurekit.history.storage.delta import SHARED_ROWS

EXAMPLES = os.environ.get("HISTORY_EXAMPLES")
KINDS = ("record", "link", "alert")
TABLES = {"record": "records", "link": "links", "alert": "alerts"}
IN_ORDER = ("seq", "kind", "user_id", "key")
PERSON = ("listed", "last_complete_at", "observed_until", "first_registered_after", "outcome")

USERS = (1, 1, 1, 1, 2, 5_000_000_000)  # mostly one person, so that much happens to that one
LINKS = (
    a_link("https://pages.example/1"),
    a_link("HTTPS://Pages.example:443/1/#top", "The same page"),
    a_link("https://other.example/2"),
    a_link(None, "No address"),
)
ALERTS = (
    an_alert("Look at this", a_record(11)),
    an_alert("Look at this", a_record(11, "removed", "Elsewhere")),
    an_alert("Look at this", LINKS[0]),
    an_alert("Gone", LINKS[2]),
)
STATUSES = (*("discovered", "removed") * 3, "pending removal", "on hold", "vanished", "unknown", "")
RECORD = st.builds(
    a_record,
    st.sampled_from((11, 11, 12, 2**62)),
    st.sampled_from(STATUSES),
    st.sampled_from(("PeepFinder", "Elsewhere")),
    reference_id=st.sampled_from(("007", "7")),
)
SOME_RECORDS = st.lists(RECORD, min_size=1, max_size=3)
RECORDS = SOME_RECORDS | SOME_RECORDS | st.just([])
SOME_LINKS = st.lists(st.sampled_from(LINKS), max_size=2)
SOME_ALERTS = st.lists(st.sampled_from(ALERTS), max_size=2)
USER = st.sampled_from(USERS)
PASSES = st.sampled_from([timedelta(0), timedelta(seconds=1.5), timedelta(minutes=20), timedelta(hours=30)])
LASTS = st.sampled_from([timedelta(0), timedelta(seconds=0.75), timedelta(minutes=45)])
BACK = st.sampled_from([timedelta(0), timedelta(0), timedelta(minutes=-20), timedelta(hours=-31)])
WRAPPED = RECORDS.map(lambda records: [{"record": record} for record in records])
DELIVERED = st.fixed_dictionaries(
    {},
    optional={
        "discovered_records": WRAPPED,
        "removed_records": WRAPPED,
        "discovered_links": SOME_LINKS,
        "new_alerts": SOME_ALERTS,
        "listed_again": WRAPPED,
        "odd_links": SOME_LINKS,
        "odd_alerts": SOME_ALERTS,
        "weather": st.sampled_from([["rain"], {"sky": "grey"}, [], None]),
    },
)
BREAKS = st.dictionaries(USER, st.sampled_from(sorted(BROKEN)), max_size=2)
HOW = st.fixed_dictionaries(
    {
        "after": PASSES,
        "lasts": LASTS,
        "back": st.just(timedelta(0)) | st.just(timedelta(0)) | BACK,
        "broken": st.just({}) | st.just({}) | BREAKS,
        "miscount": st.sampled_from([0, 0, 0, None, -1, 1]),
    }
)


def step(name, *arguments):
    return st.tuples(st.just(name), *arguments)


SCANNING = st.sampled_from([False, False, False, True])
STEP = st.one_of(
    *[step("observe", USER, RECORDS, SOME_LINKS, SOME_ALERTS, SCANNING, HOW)] * 4,
    *[step("set_person", USER, RECORDS, SOME_LINKS, SOME_ALERTS, SCANNING)] * 2,
    step("remove_person", USER),
    step("collect", HOW),
    step("collect", HOW, st.sampled_from(["monday", "tuesday"])),
    *[step("collect", HOW, st.sampled_from(["a", "b"]), st.sampled_from(["1/2", "2/2"]))] * 2,
    *[step("deliver", USER, DELIVERED, PASSES, BACK)] * 2,
    step("ingest", st.sampled_from(["inbox", "inbox", "other"]), st.integers(0, 3)),
    step("collect", HOW, st.none(), st.none(), st.lists(USER, max_size=2)),
    step("no_list"),
    step("reopen"),
    step("share_files", st.sampled_from([0, SHARED_ROWS])),
    step("compact"),
)


class Both:
    """A history and the reference, which undergo the same steps."""

    def __init__(self, path, service, exposure, by="id"):
        self.path, self.by = path, by
        self.service, self.exposure = service, exposure
        service.clear()
        self.clock, self.now = Clock(), DAWN
        self.reference = Reference()
        self.pending_deliveries = {"inbox": [], "other": []}
        self.part_of = {}
        self.shared_rows = SHARED_ROWS
        self.reopen()

    def run(self, steps):
        for name, *arguments in steps:
            getattr(self, name)(*arguments)

    def reopen(self):
        self.history = History(self.path, clock=self.clock, records_by=self.by)
        self.history._store.shared_rows = self.shared_rows

    def share_files(self, rows):
        self.shared_rows = self.history._store.shared_rows = rows

    def compact(self):
        with contextlib.nullcontext() if self.path.exists() else pytest.raises(NotFound):
            self.history.compact()

    def set_person(self, user_id, records, links=(), alerts=(), *scanning):
        self.service.people[user_id] = Person(records, list(links), list(alerts), *scanning)

    def remove_person(self, user_id):
        self.service.people.pop(user_id, None)

    def observe(self, user_id, *items_and_how):
        *things, how = items_and_how
        self.set_person(user_id, *things)
        self.collect(how)

    def collect(self, how, run=None, shard=None, only=None):
        scope = "everyone" if only is None else "some"
        started_at = self.now + how["after"] + how.get("back", timedelta(0))
        self.clock.set(started_at, started_at + how["lasts"])
        self.service.broken = how.get("broken", {})
        self.service.miscount = how.get("miscount", 0)
        self.service.requested_ids = set()
        result = self.history.collect(self.exposure, run=run, shard=shard, only=only)
        if only is None and self.reference.awaits(run, shard or "1/1"):
            self.check_part(shard)
        snapshot = self.service.snapshot(started_at, started_at + how["lasts"], self.by, scope)
        assert result.seq == self.reference.ingest_run(snapshot, run, shard or "1/1")
        self.now = max(self.now, started_at + how["lasts"])

    def check_part(self, shard):
        """A shard is always the same people; together they are everyone."""
        for user_id in self.service.people:
            was_requested = user_id in self.service.requested_ids
            if shard is None:
                assert was_requested
            else:
                mine = shard if was_requested else {"1/2": "2/2", "2/2": "1/2"}[shard]
                assert self.part_of.setdefault(user_id, mine) == mine

    def no_list(self):
        """A list of users that cannot be loaded is no run, and leaves nothing for the next one."""
        self.clock.set(self.now)
        self.service.listing = False
        with pytest.raises(ExposureError):
            self.history.collect(self.exposure)
        self.service.listing = True

    def deliver(self, user_id, groups, after=timedelta(0), back=timedelta(0)):
        """Add a delivery to both inboxes."""
        self.now += after
        received_at = self.now + back
        in_order = reversed(groups)  # the last group is the latest, and the first of equal things counts
        things = tuple(thing for name in in_order for thing in self.things_of(name, groups[name]))
        for waiting in self.pending_deliveries.values():
            number = len(waiting) + 1
            delivery = ReceivedDelivery(number, received_at, f"message-{number}", a_delivery(user_id, groups))
            waiting.append((delivery, Statement(number, received_at, user_id, things)))

    def things_of(self, group, items):
        if group == "weather":
            return []
        if group.endswith("links"):
            return [of_link(link) for link in items]
        if group.endswith("alerts"):
            return [of_alert(alert, by=self.by) for alert in items]
        removed = group == "removed_records"
        return [of_record(item["record"], by=self.by, removed=removed) for item in items]

    def ingest(self, inbox, again=0):
        """Ingest everything pending, and again some that was ingested before."""
        before = self.reference.ingested.get(inbox, 0)
        deliveries = self.pending_deliveries[inbox][max(0, before - again) :]
        self.history.ingest_deliveries([delivery for delivery, _ in deliveries], inbox)
        self.reference.ingest_deliveries([statement for _, statement in deliveries], inbox)

    def compare(self, *periods):
        """Compare all tables and queries; as_of and diff at the ends of some periods."""
        self.compare_tables()
        self.compare_relistings()
        if self.reference.runs:
            for a, b in (sorted(map(self.moment, period)) for period in periods):
                for kind in KINDS:
                    self.compare_as_of(kind, a)
                    self.compare_diff(kind, a, b)
                self.compare_score_changes(a, b)
            for kind in KINDS:
                self.compare_over_time(kind)
            for by in ("site", "user_id"):
                self.compare_over_time("record", by)
        assert self.history.verify() == {}

    def compare_tables(self):
        reference, history = self.reference, self.history
        expected = sorted(reference.changes, key=lambda row: [row[name] for name in IN_ORDER])
        assert rows(history.changes()) == [{name: row[name] for name in CHANGES} for row in expected]
        people = {row["user_id"]: {name: row[name] for name in PERSON} for row in rows(history.people())}
        assert people == {user_id: vars(person) for user_id, person in reference.people.items()}
        issues = [(row["seq"], row["user_id"], row["what"]) for row in rows(history.load_issues())]
        assert sorted(issues) == sorted(reference.load_issues)
        self.compare_runs()

    def moment(self, number):
        """One of the instants of changes and runs, or just before it; none before the first run ended."""
        changed = {row["seen_at"] for row in self.reference.changes}
        ended = {run["finished_at"] for run in self.reference.runs}
        close = {at - timedelta(microseconds=1) for at in changed | ended}
        instants = sorted(at for at in changed | ended | close if at >= min(ended))
        return instants[number % len(instants)]

    def compare_as_of(self, kind, at):
        table = getattr(self.history, TABLES[kind])(as_of=at)
        status = "status" if kind == "record" else "presence"
        names = {"changed_at": "seen_at"} | {
            name: name for name in ("not_before", "episode", "left_censored")
        }
        expected_rows = self.reference.as_of(kind, at)
        actual = [(row["user_id"], row[status], *(row[name] for name in names)) for row in rows(table)]
        expected = [
            (row["user_id"], row["status"], *(row[name] for name in names.values()))
            for row in expected_rows.values()
        ]
        assert Counter(actual) == Counter(expected)
        if kind == "record" and self.by == "id":
            assert {(row["user_id"], row["record_id"]) for row in rows(table)} == set(expected_rows)

    def compare_diff(self, kind, a, b):
        before, after = self.reference.as_of(kind, a), self.reference.as_of(kind, b)
        moved = self.reference.moved(kind, a, b)
        diff = self.history.diff(a, b, kind=kind)
        names = ("user_id", "key", "site", "before", "after", "what", "changed_at")
        assert Counter(tuple(row[name] for name in names) for row in rows(diff.changes)) == Counter(moved)
        counts = net(moved)
        counts["still open"] = sum(is_open(row["status"]) for row in after.values())
        assert {row["what"]: row["n"] for row in rows(diff.counts) if row["n"]} == {
            what: n for what, n in counts.items() if n
        }
        opened = {row["cause"]: row["open"] for row in rows(diff.why)}
        assert opened["open before"] == sum(is_open(row["status"]) for row in before.values())
        assert opened["open after"] == counts["still open"]
        for cause in {row["cause"] for row in rows(diff.why)} & counts.keys():
            sign = -1 if cause in ("removed", "vanished", "left scope") else 1
            assert diff.why.set_index("cause").loc[cause, "n"] == sign * counts[cause]
        self.compare_diff_by_site(diff.by_site, moved, before, after)

    def compare_diff_by_site(self, table, moved, before, after):
        """On each site, the open records before plus those gained minus those lost are those after."""
        for row in rows(table):
            happened = net(one for one in moved if one[2] == row["site"])
            opened = [
                sum(is_open(one["status"]) and one["site"] == row["site"] for one in end.values())
                for end in (before, after)
            ]
            assert [row["open_before"], row["open_after"]] == opened
            gained = row["new"] + row["entered scope"] + row["listed again"]
            lost = row["removed"] + row["vanished"] + row["left scope"]
            assert row["open_before"] + gained - lost == row["open_after"]
            for what in row.keys() - {"site", "open_before", "open_after", "change"}:
                assert row[what] == happened[what]

    def compare_score_changes(self, a, b):
        """They are those of the single changes."""
        causes = self.history.score_changes(a, b)
        changes = [self.history.diff(a, b, kind=kind).changes for kind in ("record", "link")]
        expected = analysis.score_changes(*changes, score_before=causes["score"].iloc[0])
        pd.testing.assert_frame_equal(causes, expected)

    def compare_over_time(self, kind, by=None):
        for every, periods in (("run", self.reference.instants(kind)), ("day", self.reference.days(kind))):
            counts_over_time = self.history.status_over_time(by, every, kind=kind)
            assert {
                (row["period"], row[by] if by else None): counted(row) for row in rows(counts_over_time)
            } == {
                (start, group): tally(count)
                for start, until in periods
                for group, count in grouped(self.reference.as_of(kind, until).values(), by).items()
            }

    def compare_relistings(self):
        returns = [
            (row["user_id"], row["key"], row["listed_again_at"], row["episode"])
            for row in rows(self.history.relistings())
        ]
        expected = [
            (row["user_id"], row["key"], row["seen_at"], row["episode"])
            for row in self.reference.relistings()
            if row["kind"] == "record"
        ]
        assert Counter(returns) == Counter(expected)

    def compare_runs(self):
        runs = rows(self.history.runs())
        assert [row["seq"] for row in runs] == [row["seq"] for row in self.reference.runs]
        for row, expected in zip(runs, self.reference.runs, strict=True):
            assert row["origin"] == expected["origin"]
            if expected["run"] is not None:
                assert row["run"] == expected["run"]
            if expected["origin"] == "collect":
                values = {name: row[name] for name in ("started_at", "finished_at", "complete")}
                assert values == {name: expected[name] for name in values}


def net(moved):
    """How often each change happened; a vanished record that is verified as removed has not vanished."""
    moves = [*moved]
    happened = Counter(row[5] for row in moves)
    happened["vanished"] -= sum(row[3:5] == ("vanished", "removed") for row in moves)
    return happened


def tally(count):
    """Count statuses as status_over_time does: those without a column together."""
    named = ("discovered", "pending removal", "removed", "listed", "vanished", "unknown")
    return +Counter(
        {name: count[name] for name in named}
        | {"other": sum(n for status, n in count.items() if status not in named)}
    )


def counted(row):
    """The counts of a row that are not zero."""
    beside = ("period", "at", "site", "user_id", "open", "total", "people", "unseen")
    return Counter({name: n for name, n in row.items() if name not in beside and n})


def grouped(things, by):
    groups = {} if by else {None: Counter()}
    for row in things:
        groups.setdefault(row[by] if by else None, Counter())[row["status"]] += 1
    return groups


def rows(table):
    """A table as plain rows of Python values: None if missing."""
    return [
        {name: plain(value) for name, value in row.items()} for row in table.astype(object).to_dict("records")
    ]


def plain(value):
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    if isinstance(value, str | bool | int):
        return value
    if hasattr(value, "__len__"):
        return list(value)
    if value is None or pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:responses deviate")  # an alert that is no object is among the steps
@settings(
    max_examples=int(EXAMPLES or 4),
    derandomize=not EXAMPLES,
    phases=[*((Phase.generate, Phase.shrink) if EXAMPLES else (Phase.generate,))],  # to shrink takes minutes
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    st.lists(STEP, min_size=8, max_size=16),
    st.sampled_from(["id", "id", "reference"]),
    st.tuples(*[st.integers(0, 99)] * 2),
)
def test_a_history_equals_the_reference(served_exposure, steps, by, moments):
    with tempfile.TemporaryDirectory() as directory:
        note("\n".join(map(repr, steps)))
        both = Both(Path(directory, "history"), *served_exposure, by)
        both.run(steps)
        both.compare(moments)


def lists(*statuses, **more):
    """Person 1 has record 11 in this status, or has none."""
    return ("set_person", 1, [a_record(11, status, **more) for status in statuses])


def run_step(*, after=60, lasts=0, run=(), **how):
    return ("collect", {"after": timedelta(minutes=after), "lasts": timedelta(minutes=lasts)} | how, *run)


def deliver(*, back=0, **groups):
    wrapped = {name: [{"record": a_record(11, status)}] for name, status in groups.items()}
    return ("deliver", 1, wrapped, timedelta(0), timedelta(minutes=back))


INGEST = ("ingest", "inbox")
BASE = (lists("discovered"), run_step())
FIRST = (None, "discovered", 1, None)
# What happens, and the rows of record 11: prev_status, status, episode, open_s.
STORIES = {
    "a failed load is no removal": (
        [*BASE, lists(), run_step(broken={1: "cut alerts"}), run_step(broken={1: "no user"})],
        [FIRST],
    ),
    "a person who is being scanned is loaded partially": (
        [*BASE, ("set_person", 1, [a_record(12)], [], [], True), run_step()],
        [FIRST],
    ),
    "a list shorter than its count removes nobody from scope": (
        [*BASE, ("remove_person", 1), run_step(miscount=1)],
        [FIRST],
    ),
    "vanished, listed again, removed": (
        [*BASE, lists(), run_step(), lists("discovered"), run_step(), lists("removed"), run_step(after=1)],
        [
            FIRST,
            ("discovered", "vanished", 1, 3600),
            ("vanished", "discovered", 2, None),
            ("discovered", "removed", 2, 60),
        ],
    ),
    "vanished, then verified as removed": (
        [*BASE, lists(), run_step(), lists("removed"), run_step(), lists(), run_step()],
        [FIRST, ("discovered", "vanished", 1, 3600), ("vanished", "removed", 1, None)],
    ),
    "removed in the first run, then listed": (
        [lists("removed"), run_step(), lists("on hold"), run_step(), lists(), run_step()],
        [(None, "removed", 0, None), ("removed", "on hold", 1, None), ("on hold", "vanished", 1, 3600)],
    ),
    "out of scope and back, unchanged": (
        [*BASE, ("remove_person", 1), run_step(), run_step(), *BASE, lists(), run_step()],
        [
            FIRST,
            ("discovered", "unknown", 1, 7200),
            ("unknown", "discovered", 1, None),
            ("discovered", "vanished", 1, 4 * 3600),
        ],
    ),
    "missing from one list, still in scope": (
        [
            *BASE,
            ("remove_person", 1),
            run_step(),
            lists("discovered"),
            run_step(),
            ("remove_person", 1),
            run_step(),
        ],
        [FIRST],
    ),
    "delivered when out of scope, and out of scope again": (
        [
            *BASE,
            ("remove_person", 1),
            run_step(),
            run_step(),
            deliver(again="discovered"),
            INGEST,
            run_step(),
        ],
        [
            FIRST,
            ("discovered", "unknown", 1, 7200),
            ("unknown", "discovered", 1, None),
            ("discovered", "unknown", 1, 3 * 3600),
        ],
    ),
    "back in scope, and vanished": (
        [*BASE, ("remove_person", 1), run_step(), run_step(), lists(), run_step()],
        [FIRST, ("discovered", "unknown", 1, 7200), ("unknown", "vanished", 1, None)],
    ),
    "out of scope when removed, and back when listed": (
        [lists("removed"), run_step(), ("remove_person", 1), run_step(), run_step(), *BASE],
        [(None, "removed", 0, None), ("removed", "unknown", 0, None), ("unknown", "discovered", 1, None)],
    ),
    "statuses of the service that read like ours are marked": (
        [*BASE, lists("vanished"), run_step(), lists("unknown"), run_step()],
        [
            FIRST,
            ("discovered", "vanished (as told)", 1, 3600),
            ("vanished (as told)", "unknown (as told)", 1, 7200),
        ],
    ),
    "a shard that comes late changes nothing": (
        [
            lists("discovered"),
            run_step(run=("a", "1/2")),
            run_step(run=("a", "2/2"), lasts=1),
            run_step(run=("b", "2/2")),
            lists("removed"),
            run_step(),
            lists("discovered"),
            run_step(run=("b", "1/2"), back=timedelta(hours=-2)),
        ],
        [FIRST, ("discovered", "removed", 1, 7200)],
    ),
    "a run is ingested once": (
        [lists("discovered"), run_step(run=("monday",)), lists("removed"), run_step(run=("monday",))],
        [FIRST],
    ),
    "a delivery changes only its own records": (
        [*BASE, deliver(removed_records="pending removal"), INGEST, run_step(after=0, broken={1: "no user"})],
        [FIRST, ("discovered", "removed", 1, 0)],
    ),
    "a delivery from before the last run changes nothing": (
        [*BASE, deliver(removed_records="removed", back=-1), INGEST],
        [FIRST],
    ),
    "a run that began before the delivery does not undo it": (
        [*BASE, deliver(removed_records="removed", back=30), INGEST, run_step(after=29), run_step(after=1)],
        [FIRST, ("discovered", "removed", 1, 1800), ("removed", "discovered", 2, None)],
    ),
    "a repeated delivery is ingested once, two in their order": (
        [*BASE, deliver(removed_records="removed"), deliver(again="discovered"), INGEST, (*INGEST, 2)],
        [FIRST, ("discovered", "removed", 1, 0), ("removed", "discovered", 2, None)],
    ),
    "deliveries ingested together count from their own arrival": (
        [
            ("set_person", 1, []),
            run_step(after=0),
            ("deliver", 1, {"discovered_records": [{"record": a_record(11)}]}, timedelta(minutes=10)),
            ("deliver", 2, {"discovered_records": [{"record": a_record(12)}]}, timedelta(minutes=60)),
            INGEST,
            lists("removed"),
            run_step(after=0, back=timedelta(minutes=-40)),
        ],
        [FIRST, ("discovered", "removed", 1, 1200)],
    ),
}
# Of these all queries are compared, too, between these moments.
QUERIED = {
    "vanished, then verified as removed": [(0, 9), (0, 2), (2, 9)],
    "removed in the first run, then listed": [(0, 9)],
    "deliveries ingested together count from their own arrival": [(0, 9)],
}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_has_the_expected_changes(served_exposure, tmp_path, name):
    steps, expected = STORIES[name]
    both = Both(tmp_path / "history", *served_exposure)
    both.run(steps)
    changes = [row for row in both.reference.changes if row["user_id"] == 1 and row["key"] == 11]
    assert [(row["prev_status"], row["status"], row["episode"], row["open_s"]) for row in changes] == expected
    if name in QUERIED:
        both.compare(*QUERIED[name])
    else:
        both.compare_tables()
