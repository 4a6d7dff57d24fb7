"""Collectors are killed at random and at each writing step, and the history continues.

The long run is a command: python tests/crash/collector_run.py --kills 30
"""

import itertools
import json
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pytest
from crash.collector_scenes import BEFORE, LASTS, SCENES, at, create_base, opened
from crash.collector_verdict import judge
from support.histories import Service

from exposurekit.history import History
from exposurekit.history.engines.duckdb import DuckDB
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.schema import TABLES

pytestmark = pytest.mark.long
HERE = Path(__file__).parent
TIMEOUT_S = 600
COMPARED = (
    *("runs", "changes", "people", "load_issues", "deliveries"),
    *("records", "links", "alerts", "cube"),
)
# If an unnamed run is ingested, and its collector is killed before it returns, there is one run more.
COMPARED_UNNAMED = ("changes", "records", "links", "alerts")


def run_python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        cwd=HERE.parent,
    )


def test_under_kills_each_run_is_stored_once_and_whole():
    run = run_python("crash/collector_run.py", "--kills", "3", "--people", "30")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "BROKEN" not in run.stdout


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "history"
    create_base(path)
    return path


@pytest.fixture(scope="module")
def after(base, tmp_path_factory):
    """The base and a third run with many changes."""
    path = shutil.copytree(base, tmp_path_factory.mktemp("after") / "history")
    SCENES[0].act(path)
    return path


@pytest.fixture(scope="module")
def killed(base, tmp_path_factory):
    """By scene, the histories that a killed collector leaves, each with the steps at which it does."""
    directory = tmp_path_factory.mktemp("killed")
    run = run_python("-m", "crash.collector_write_steps", base, directory)
    assert run.returncode == 0, run.stderr
    steps = defaultdict(lambda: defaultdict(list))
    for scene, number, step in map(json.loads, run.stdout.splitlines()):
        steps[scene][directory / scene / str(number)].append(step)
    return steps


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_after_a_kill_at_any_step_the_next_run_continues(base, killed, tmp_path, scene):
    undisturbed = shutil.copytree(base, tmp_path / "undisturbed")
    scene.act(undisturbed)
    scene.collect_next(undisturbed)
    expected, wrong, continued = stored_rows(undisturbed, scene), {}, {}
    assert len(killed[scene.name]) > 10
    for path, steps in killed[scene.name].items():
        history = shutil.copytree(path, tmp_path / path.name)
        scene.act(history)
        store = Store(history)
        problems = damaged_tables(store)
        # What follows depends on the rows, on which work is done, and on what is staged: it is run once for each.
        state = everything_stored(store)
        if state not in continued:
            scene.collect_next(history)
            rows = stored_rows(history, scene)
            continued[state] = [name for name in rows if rows[name] != expected[name]]
            continued[state] += [f"staged: {one.name}" for one in (history / "staging").iterdir()]
            with opened(history, 5) as reopened:
                continued[state] += reopened.verify()
                continued[state] += [] if reopened.runs()["run"].is_unique else ["a run twice"]
        if problems := problems + continued[state]:
            wrong[", ".join(steps)] = problems
        shutil.rmtree(history)
    assert wrong == {}


def test_after_a_kill_the_last_whole_run_is_read(base, after, killed):
    whole = [over_time(base), over_time(after)]
    wrong = [steps for path, steps in killed[SCENES[0].name].items() if over_time(path) not in whole]
    assert wrong == []


def counted_rows(store, name, left_out=()):
    rows = store.rows(name).to_pylist()
    return Counter(str({column: row[column] for column in row if column not in left_out}) for row in rows)


def stored_rows(path, scene):
    store = Store(path)
    if scene.run is None:
        return {name: counted_rows(store, name, ["seq"]) for name in COMPARED_UNNAMED}
    return {name: counted_rows(store, name) for name in COMPARED}


def everything_stored(store):
    """All rows, the numbers of work done, and the files beside the tables, as a text."""
    tables = [(name, sorted(counted_rows(store, name).items())) for name in TABLES]
    path = Path(store.root)
    work = {
        (log.parent.parent.name, entry["txn"]["appId"], entry["txn"]["version"])
        for log in path.glob("*/_delta_log/*.json")
        for entry in map(json.loads, log.read_text().splitlines())
        if "txn" in entry
    }
    beside = [
        (re.sub(r"\.gone-\d+", ".gone", str(file.relative_to(path))), sha256(file.read_bytes()).hexdigest())
        for file in [path / "history.json", *sorted(path.glob("staging/**/*"))]
        if file.is_file()
    ]
    # The names of unnamed runs are random.
    return re.sub(r"\d{8}T\d{6}-[0-9a-f]{8}", "unnamed", repr((tables, sorted(work), sorted(beside))))


def damaged_tables(store):
    return [f"damaged: {name}" for name in TABLES if store.changed_files(name)]


def over_time(path):
    with opened(path, 4) as history:
        return plain(history.status_over_time(every="run"))


class Interrupted:
    """An engine before whose nth result something happens."""

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


QUERIES = {
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


@pytest.mark.parametrize("name", QUERIES)
def test_a_result_is_consistent_while_a_run_is_ingested(base, after, tmp_path, name):
    whole = [query_result(base, name, DuckDB()), query_result(after, name, DuckDB())]
    assert whole[0] != whole[1]
    for turn in itertools.count(1):
        path = shutil.copytree(base, tmp_path / str(turn))
        # Tables only grow: the run is ingested between two queries by adding the files that it wrote.
        engine = Interrupted(turn, lambda path=path: shutil.copytree(after, path, dirs_exist_ok=True))
        assert query_result(path, name, engine) in whole
        if engine.query_count < turn:
            break


def query_result(path, name, engine):
    with History(path, engine=engine) as history:
        return plain(QUERIES[name](history))


def plain(result):
    """Tables as lists of rows, as text: a missing value equals itself."""
    tables = [result] if isinstance(result, pd.DataFrame) else [result.changes, result.counts, result.why]
    return [[str(row) for row in table.astype(object).to_dict("records")] for table in tables]


class Overtaken(pyarrow.fs.LocalFileSystem):
    """Files of a process that another one always overtakes."""

    def move(self, src, dest):
        Store(Path(dest).parent).begin()
        super().move(src, dest)


def test_two_processes_may_begin_a_history_at_once(tmp_path):
    store = Store(tmp_path / "history")
    store.files = Overtaken()
    store.begin()
    assert store.settings(records_by=None, otherwise="reference") == "id"


@pytest.fixture
def aftermath(base, tmp_path):
    """The arguments of `judge` after two runs without a kill."""
    path = shutil.copytree(base, tmp_path / "history")
    snapshot = {user_id: Service(BEFORE).observed(user_id, "id") for user_id in BEFORE}
    with opened(path, 3) as history:
        runs = history.runs()
    ended = runs["finished_at"].iloc[0].isoformat()
    read = {"runs": {}, "records": {ended: {"discovered": 12}}, "links": {}, "sites": {}, "over time": {}}
    return {
        "path": path,
        "snapshots": {"run-1": snapshot, "run-2": snapshot},
        "acknowledged": runs[["run", "seq"]].to_dict("records"),
        "reads": [read | {"diff": True, "verify": {}}],
        "errors": [],
    }


def broken(aftermath):
    return {name for name, violations in judge(**aftermath)[1].items() if violations}


def test_without_a_kill_every_rule_holds(aftermath):
    assert broken(aftermath) == set()


@pytest.mark.parametrize(
    ("table", "lost", "rule"),
    [
        ("runs", ("seq", 2), "no acknowledged run is lost"),
        ("runs", ("seq", 1), "each run is stored once"),
        ("changes", ("user_id", 1), "no change is lost"),
        ("people", ("user_id", 1), "people are as expected"),
        ("load_issues", ("user_id", 1), "load issues are as expected"),
        ("cube", ("seq", 1), "verify()"),
        ("runs", None, "each run is stored once"),
        ("changes", None, "no change is added"),
    ],
)
def test_lost_or_repeated_rows_break_a_rule(aftermath, table, lost, rule):
    store = Store(aftermath["path"])
    rows = store.rows(table)
    changed = (
        pa.concat_tables([rows, rows]) if lost is None else rows.filter(pc.not_equal(rows[lost[0]], lost[1]))
    )
    store.append(table, changed, overwrite=True)
    assert rule in broken(aftermath)


def test_false_reports_and_errors_break_their_rules(aftermath):
    (aftermath["path"] / "staging" / "run-3").mkdir(parents=True)
    aftermath["acknowledged"][0]["seq"] = 2
    aftermath["errors"].append("ended with 1")
    [read] = aftermath["reads"]
    read["records"] = {at: {"discovered": 11} for at in read["records"]}
    read |= {"diff": False, "verify": {"an invariant": 1}}
    aftermath["reads"].append({"error": "an error"})
    assert broken(aftermath) == {
        "nothing is staged",
        "runs are stored as acknowledged",
        "no process fails",
        "no read fails",
        "reads are true: records",
        "reads are true: diff() is consistent",
        "reads are true: verify()",
    }
