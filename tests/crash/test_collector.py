"""Collectors are killed, and the history goes on: at random, a short run; and at each writing step, one after the other.

The long run is a command: python tests/crash/collector_run.py --kills 30
"""

import itertools
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow.compute as pc
import pyarrow.fs
import pytest
from crash.collector_scenes import BEFORE, LASTS, SCENES, at, based, opened
from crash.collector_verdict import judged
from support.histories import Service

from exposurekit.history import History
from exposurekit.history.diff import Diff
from exposurekit.history.engines.duckdb import DuckDB
from exposurekit.history.storage.delta import Store

pytestmark = pytest.mark.long
HERE = Path(__file__).parent
PATIENCE_S = 600
TABLES = (
    *("runs", "changes", "people", "load_issues", "deliveries"),
    *("records", "links", "alerts", "cube"),
)
# Of a run without a name, which is begun anew where it was taken in and nobody was told.
UNNAMED = ("changes", "records", "links", "alerts")


def test_under_kills_each_run_is_stored_once_and_whole():
    run = subprocess.run(
        [sys.executable, HERE / "collector_run.py", "--kills", "3", "--people", "30"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "BROKEN" not in run.stdout


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A history of two runs."""
    path = tmp_path_factory.mktemp("base") / "history"
    based(path)
    return path


@pytest.fixture(scope="module")
def after(base, tmp_path_factory):
    """The same with a third, in which much happens."""
    path = tmp_path_factory.mktemp("after") / "history"
    shutil.copytree(base, path)
    SCENES["much happens"].act(path)
    return path


@pytest.fixture(scope="module")
def dead(base, tmp_path_factory):
    """By scene, what each of the dying left behind."""
    left = {}

    def of(name):
        if name not in left:
            path = tmp_path_factory.mktemp("dead")
            left[name] = {step: path / number for number, step in died(name, base, path)}
        return left[name]

    return of


@pytest.mark.parametrize("name", SCENES)
def test_after_a_kill_at_any_step_the_next_run_continues(base, dead, tmp_path, name):
    scene = SCENES[name]
    shutil.copytree(base, tmp_path / "undisturbed")
    scene.go_on(tmp_path / "undisturbed")
    expected = stored_tables(tmp_path / "undisturbed", scene)
    wrong = {}
    for step, path in dead(name).items():
        shutil.copytree(path, tmp_path / path.name)
        scene.go_on(tmp_path / path.name)
        if differences := different(tmp_path / path.name, scene, expected):
            wrong[step] = differences
    assert wrong == {}


def test_where_one_died_the_last_whole_run_can_be_read(base, after, dead):
    whole = [over_time(base), over_time(after)]
    assert [step for step, path in dead("much happens").items() if over_time(path) not in whole] == []


def died(name, base, directory):
    """The history that each of the dying left behind, by its number, and what it was about to do."""
    run = subprocess.run(
        [sys.executable, "-m", "crash.collector_points", name, base, directory],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        cwd=HERE.parent,
    )
    assert run.returncode == 0, run.stderr
    steps = [line.split(" ", 1) for line in run.stdout.splitlines()]
    assert len(steps) > 10
    return [(number, f"{number} {step}") for number, step in steps]


def stored_tables(path, scene):
    """The rows of its tables, in any order."""
    store, left_out = Store(path), () if scene.named else ("seq",)
    return {
        name: Counter(
            str({column: value for column, value in row.items() if column not in left_out})
            for row in store.rows(name).to_pylist()
        )
        for name in (TABLES if scene.named else UNNAMED)
    }


def different(path, scene, expected):
    differences = [name for name, rows in stored_tables(path, scene).items() if rows != expected[name]]
    with opened(path, 5) as history:
        differences += history.verify()
        differences += [] if history.runs()["run"].is_unique else ["a run twice"]
    return differences + [f"staged: {one.name}" for one in (path / "staging").iterdir()]


def over_time(path):
    with opened(path, 4) as history:
        return plain(history.status_over_time(every="run"))


# --- while somebody reads -----------------------------------------------------------------------------


class Interrupted:
    """An engine before whose nth answer something happens."""

    def __init__(self, turn, happens):
        self.turn, self.happens, self.query_count = turn, happens, 0
        self.engine = DuckDB()

    def ask(self, sql, tables, parameters):
        self.query_count += 1
        result = self.engine.ask(sql, tables, parameters)
        if self.query_count == self.turn:
            self.happens()
        return result

    def close(self):
        self.engine.close()


QUESTIONS = {
    "runs": History.runs,
    "records": History.records,
    "links": History.links,
    "alerts": History.alerts,
    "by_site": History.by_site,
    "status_over_time": History.status_over_time,
    "status_over_time, by run": lambda history: history.status_over_time(every="run"),
    "status_over_time, by person": lambda history: history.status_over_time("user_id"),
    "diff": lambda history: history.diff(at(1) + LASTS),
    "time_to_removal": History.time_to_removal,
    "stale": History.stale,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_is_consistent_while_a_run_is_ingested(base, after, tmp_path, name):
    whole = [query_result(base, name, DuckDB()), query_result(after, name, DuckDB())]
    assert whole[0] != whole[1]
    for turn in itertools.count(1):
        path = tmp_path / str(turn)
        shutil.copytree(base, path)
        # Tables only grow: a run is taken in between two questions by putting beside them what it wrote.
        engine = Interrupted(turn, lambda path=path: shutil.copytree(after, path, dirs_exist_ok=True))
        assert query_result(path, name, engine) in whole
        if engine.query_count < turn:
            break


def query_result(path, name, engine):
    with History(path, engine=engine) as history:
        return plain(QUESTIONS[name](history))


def plain(answer):
    """Tables as lists of rows, as text: what is missing equals itself."""
    tables = [answer] if isinstance(answer, pd.DataFrame) else [answer.changes, answer.counts, answer.why]
    assert isinstance(answer, pd.DataFrame | Diff)
    return [[str(row) for row in table.astype(object).to_dict("records")] for table in tables]


class Crowded(pyarrow.fs.LocalFileSystem):
    """Files of somebody whom another is always a step ahead of."""

    def move(self, src, dest):
        Store(Path(dest).parent).begin()
        super().move(src, dest)


def test_two_may_begin_a_new_history_at_once(tmp_path):
    store = Store(tmp_path / "history")
    store.files = Crowded()
    store.begin()
    assert store.settings(records_by=None, otherwise="reference") == "id"


# --- the verdict of the short run ---------------------------------------------------------------------


@pytest.fixture
def aftermath(base, tmp_path):
    """Two runs as a crash test leaves them, and what was said of them."""
    shutil.copytree(base, tmp_path / "history")
    snapshot = {user_id: Service(BEFORE).observed(user_id, "id") for user_id in BEFORE}
    with opened(tmp_path / "history", 3) as history:
        acknowledged_runs = [
            {"run": row["run"], "seq": row["seq"]} for row in history.runs().to_dict("records")
        ]
        ended = history.runs()["finished_at"].iloc[0].isoformat()
    read = {"runs": {}, "records": {ended: {"discovered": 12}}, "links": {}, "sites": {}, "over time": {}}
    return {
        "path": tmp_path / "history",
        "snapshots": {"run-1": snapshot, "run-2": snapshot},
        "acknowledged": acknowledged_runs,
        "read": [read | {"diff": True, "verify": {}}],
        "deaths": [],
    }


def broken(aftermath):
    return {name for name, violations in judged(**aftermath)[1].items() if violations}


def test_where_nothing_went_wrong_every_rule_holds(aftermath):
    assert broken(aftermath) == set()


@pytest.mark.parametrize(
    ("table", "column", "value", "rule"),
    [
        ("runs", "seq", 2, "acknowledged, and lost"),
        ("runs", "seq", 1, "runs that are there twice"),
        ("changes", "user_id", 1, "changes that were not kept"),
        ("people", "user_id", 1, "people who stand otherwise"),
        ("load_issues", "user_id", 1, "load issues that are others"),
        ("cube", "seq", 1, "verify()"),
    ],
)
def test_what_is_lost_is_noticed(aftermath, table, column, value, rule):
    store = Store(aftermath["path"])
    rows = store.rows(table)
    store.append(table, rows.filter(pc.not_equal(rows[column], value)), overwrite=True)
    assert rule in broken(aftermath)


@pytest.mark.parametrize(
    ("table", "rule"), [("runs", "runs that are there twice"), ("changes", "changes that never were")]
)
def test_what_is_there_twice_is_noticed(aftermath, table, rule):
    store = Store(aftermath["path"])
    store.append(table, store.rows(table))
    assert rule in broken(aftermath)


def test_what_was_said_otherwise_is_noticed(aftermath):
    (aftermath["path"] / "staging" / "run-3").mkdir(parents=True)
    aftermath["acknowledged"][0]["seq"] = 2
    aftermath["deaths"].append("ended with 1")
    [read] = aftermath["read"]
    read["records"] = {at: {"discovered": 11} for at in read["records"]}
    read |= {"diff": False, "verify": {"a promise": 1}}
    aftermath["read"].append({"error": "an error"})
    assert broken(aftermath) == {
        "staged still",
        "acknowledged, and kept otherwise",
        "ended by itself",
        "errors of the reader",
        "read otherwise: records",
        "read: two answers of diff() that do not agree",
        "read: verify() found what was not so",
    }
