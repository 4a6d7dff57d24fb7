"""A query has the same result in DuckDB and in Spark on a real cluster."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support.histories import (
    DAWN,
    Clock,
    Person,
    Service,
    a_delivery,
    a_link,
    a_record,
    an_alert,
    seen_through,
)
from support.spark import cluster  # noqa: F401  a fixture

from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.history import History, ReceivedDelivery
from exposurekit.history.engines.duckdb import DuckDB, Files, StaleSnapshot, engine_of
from exposurekit.history.reader import MAX_TIME
from exposurekit.questions import QUESTIONS

INSTANT = pa.timestamp("us", tz="UTC")
EARLIER = [
    *(("user_id", pa.int64()), ("status", pa.string()), ("seen_at", INSTANT)),
    *(("open", pa.bool_()), ("episode", pa.int32()), ("bucket", pa.int32())),
]
LABELS = pa.list_(pa.string())
LATER = pa.schema([*EARLIER, ("site", pa.string()), ("labels", LABELS)])
WORDS = """it's "quoted" -- :who ünï 名 $1 \\n"""
FIRST = datetime(2026, 3, 29, 1, 30, 0, 1, UTC)  # within the hour that Berlin's clocks skip
ROWS = [
    (1, "discovered", FIRST, True, 5, 1),
    (2, WORDS, FIRST + timedelta(days=1), False, None, 1),
    (3, None, None, None, -7, 2),
    (4, "removed", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), True, 0, 7),
]
MORE_ROWS = [
    (5, "discovered", FIRST, False, 2**31 - 1, 2, "seekfolk.example", ["name", "age"]),
    (6, "", FIRST + timedelta(microseconds=1), True, 1, 7, None, []),
]


def table(schema, rows):
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    """Six files in three buckets, the older without the columns of the newer."""
    directory = str(tmp_path_factory.mktemp("named 'so' é") / "items")
    write_deltalake(directory, table(pa.schema(EARLIER), ROWS), partition_by=["bucket"])
    write_deltalake(directory, table(LATER, MORE_ROWS), mode="append", schema_mode="merge")
    return Files(DeltaTable(directory).file_uris(), LATER)


@pytest.fixture(scope="module")
def tables(items, tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("people"))
    people = pa.table({"user_id": pa.array([1, 2, 9]), "whole_at": pa.array([FIRST, None, FIRST], INSTANT)})
    write_deltalake(directory, people)
    return {
        "items": items,
        "people": Files(DeltaTable(directory).file_uris(), people.schema),
        "nothing": Files((), LATER),
        "chosen": pa.table({"user_id": pa.array([2, 3, 99])}),
    }


@pytest.fixture(params=["duckdb", "spark"])
def engine(request):
    created = engine_of(request.getfixturevalue("cluster").session if request.param == "spark" else None)
    yield created
    created.close()


ALL = [(*row, None, None) for row in ROWS] + MORE_ROWS
# The columns of a result, and its rows; an int is of 64 bits.
QUERIES = {
    "all columns as declared": (
        "SELECT * FROM items ORDER BY user_id",
        {},
        [(name, LATER.field(name).type) for name in LATER.names],
        ALL,
    ),
    "a table without files": ("SELECT user_id, labels FROM nothing", {}, ["user_id", ("labels", LABELS)], []),
    "counts of no rows": (
        "SELECT COUNT(*) AS n, CAST(SUM(episode) AS BIGINT) AS total, MAX(seen_at) AS newest FROM nothing",
        {},
        ["n", "total", ("newest", INSTANT)],
        [(0, None, None)],
    ),
    "groups and sums beyond 32 bits": (
        (
            "SELECT bucket, COUNT(*) AS n, COUNT(status) AS with_status, CAST(SUM(episode) AS BIGINT) AS total"
            " FROM items GROUP BY bucket ORDER BY bucket"
        ),
        {},
        [("bucket", pa.int32()), "n", "with_status", "total"],
        [(1, 2, 2, 5), (2, 2, 1, 2**31 - 8), (7, 2, 2, 1)],
    ),
    "one bucket": (
        "SELECT user_id FROM items WHERE bucket = :bucket ORDER BY user_id",
        {"bucket": 7},
        ["user_id"],
        [(4,), (6,)],
    ),
    "an outer join, with nulls first": (
        (
            "SELECT p.user_id, t.status, p.whole_at FROM people p LEFT JOIN items t ON t.user_id = p.user_id"
            " ORDER BY p.whole_at NULLS FIRST, p.user_id"
        ),
        {},
        ["user_id", ("status", pa.string()), ("whole_at", INSTANT)],
        [(2, WORDS, None), (1, "discovered", FIRST), (9, None, FIRST)],
    ),
    "a window": (
        (
            "SELECT user_id, CAST(ROW_NUMBER() OVER (PARTITION BY bucket ORDER BY user_id DESC) AS BIGINT) AS nth,"
            " LAG(user_id) OVER (ORDER BY user_id) AS before FROM items ORDER BY user_id"
        ),
        {},
        ["user_id", "nth", "before"],
        [(1, 2, None), (2, 1, 1), (3, 2, 2), (4, 2, 3), (5, 1, 4), (6, 1, 5)],
    ),
    "cases and booleans": (
        (
            "WITH states AS (SELECT user_id, open, CASE WHEN status IN ('removed', 'vanished') THEN 'closed'"
            " WHEN status IS NULL THEN 'unknown' ELSE 'open' END AS state FROM items)"
            " SELECT state, COUNT(*) AS n, MAX(CASE WHEN open THEN user_id END) AS newest FROM states"
            " GROUP BY state ORDER BY state"
        ),
        {},
        [("state", pa.string()), "n", "newest"],
        [("closed", 1, 4), ("open", 4, 6), ("unknown", 1, None)],
    ),
    "rows of an Arrow table": (
        (
            "SELECT user_id, open IS NULL AS is_null FROM items WHERE user_id IN (SELECT user_id FROM chosen)"
            " ORDER BY user_id"
        ),
        {},
        ["user_id", ("is_null", pa.bool_())],
        [(2, False), (3, True)],
    ),
    "texts with the standard's quotes": (
        """SELECT 'it''s :who \\n' AS text, "status" AS "the status", 'a' || 'b' AS "joined" -- :comment
           FROM items /* :another
           one */ WHERE user_id = 1""",
        {},
        [("text", pa.string()), ("the status", pa.string()), ("joined", pa.string())],
        [("it's :who \\n", "discovered", "ab")],
    ),
    "both sides of a UNION ALL": (
        "SELECT 'a' AS side, CAST(1 AS INTEGER) AS n UNION ALL SELECT :side, CAST(:n AS INTEGER) ORDER BY side",
        {"side": "b", "n": 2},
        [("side", pa.string()), ("n", pa.int32())],
        [("a", 1), ("b", 2)],
    ),
    "averages and days": (
        "SELECT AVG(CAST(episode AS DOUBLE)) AS mean, DATE '1960-02-29' AS day FROM items WHERE bucket = 7",
        {},
        [("mean", pa.float64()), ("day", pa.date32())],
        [(0.5, date(1960, 2, 29))],
    ),
    "a limit": ("SELECT user_id FROM items ORDER BY user_id LIMIT 2", {}, ["user_id"], [(1,), (2,)]),
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_has_one_result_in_every_engine(engine, tables, query):
    sql, parameters, columns, rows = QUERIES[query]
    result = engine.ask(sql, tables, parameters)
    schema = pa.schema([(column, pa.int64()) if isinstance(column, str) else column for column in columns])
    assert result.to_pylist() == table(schema, rows).to_pylist()
    assert result.schema.equals(schema, check_metadata=True)


PARAMETERS = {
    "text": ("plain", pa.string()),
    "text that would end the text": ("x' OR '1'='1", pa.string()),
    "text that would be a statement": ("'; DROP VIEW items; --", pa.string()),
    "text of marks": (':who $who ? {who} "who" \\', pa.string()),
    "text of settings": ("${spark.sql.session.timeZone} ${env:HOME}", pa.string()),
    "no text": ("", pa.string()),
    "other scripts": ("名 é \N{GRINNING FACE}\n", pa.string()),
    "a small number": (7, pa.int64()),
    "the largest": (2**63 - 1, pa.int64()),
    "the least": (-(2**63), pa.int64()),
    "true": (True, pa.bool_()),
    "an instant": (FIRST, INSTANT),
    "an instant elsewhere": (FIRST.astimezone(timezone(timedelta(hours=5, minutes=45))), INSTANT),
}


def test_a_parameter_keeps_its_value_and_type(engine, tables):
    names = [f"p{number}" for number in range(len(PARAMETERS))]
    values = dict(zip(names, (value for value, _ in PARAMETERS.values()), strict=True))
    sql = f"SELECT {', '.join(f':{name} AS {name}' for name in names)}"
    result = engine.ask(sql, tables, values)
    assert result.to_pylist() == [values]
    assert result.schema.types == [kind for _, kind in PARAMETERS.values()]


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("status = :v", WORDS, [2]),
        ("status = :v OR status = :v", "x' OR '1'='1", []),
        ("(:v IS NULL OR status = :v)", None, [1, 2, 3, 4, 5, 6]),
        ("seen_at <= :v", FIRST, [1, 4, 5]),
        ("seen_at > :v", FIRST, [2, 6]),
        ("open = :v", False, [2, 5]),
        ("episode = :v AND ':v' <> 'x'", 2**31 - 1, [5]),
        ("episode < :v", 2**40, [1, 3, 4, 5, 6]),
    ],
)
def test_a_parameter_chooses_rows(engine, tables, condition, value, expected):
    sql = f"SELECT user_id FROM items WHERE {condition} ORDER BY user_id"  # noqa: S608  ours, from the list above
    result = engine.ask(sql, tables, {"v": value})
    assert result["user_id"].to_pylist() == expected


@pytest.mark.parametrize("value", [1.5, [1, 2], FIRST.replace(tzinfo=None), b"raw"])
def test_a_parameter_of_another_type_is_refused_without_its_value(value):
    with DuckDB() as engine, pytest.raises(TypeError, match="The parameter p is a") as refused:
        engine.ask("SELECT :p AS p", {}, {"p": value})
    assert repr(value) not in str(refused.value)


def test_a_column_that_the_engines_type_differently_is_refused(tables):
    with DuckDB() as engine, pytest.raises(TypeError, match="The column n is decimal128"):
        engine.ask("SELECT SUM(user_id) AS n FROM items", tables, {})


def test_a_table_has_a_plain_name(items):
    with DuckDB() as engine, pytest.raises(ValueError, match="plain word"):
        engine.ask("SELECT 1", {"x; DROP": items}, {})


def test_a_variable_of_the_caller_is_no_table():
    mine = pa.table({"secret": ["x"]})
    with DuckDB() as engine, pytest.raises(Exception, match="does not exist"):
        engine.ask("SELECT * FROM mine", {}, {})
    assert mine.num_rows == 1


@pytest.fixture
def moved(tmp_path):
    """A table of which one file was vacuumed since it was listed."""
    write_deltalake(str(tmp_path), pa.table({"bucket": pa.array([1, 2], pa.int32()), "n": [1, 2]}))
    write_deltalake(str(tmp_path), pa.table({"bucket": pa.array([3], pa.int32()), "n": [3]}), mode="append")
    listed = DeltaTable(str(tmp_path))
    files = Files(listed.file_uris(), pa.schema([("n", pa.int64())]))
    Path(files.uris[1]).unlink()
    return files, listed


def test_a_missing_file_is_a_stale_snapshot(engine, moved):
    with pytest.raises(StaleSnapshot, match="list the files again") as error:
        engine.ask("SELECT COUNT(*) AS n FROM t WHERE n > 0", {"t": moved[0]}, {})
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_a_dataset_replaces_files_that_are_not_local(items):
    table_path = items.uris[0].partition("/bucket=")[0]
    far = Files(("s3://nowhere/one.parquet",), LATER, DeltaTable(unquote(table_path)).to_pyarrow_dataset)
    with DuckDB() as engine:
        sql = "SELECT bucket, site FROM t WHERE user_id = 5"
        assert engine.ask(sql, {"t": far}, {}).to_pylist() == [{"bucket": 2, "site": "seekfolk.example"}]


def test_a_missing_file_of_a_dataset_is_a_stale_snapshot(moved):
    files, listed = moved
    far = Files(files.uris, files.schema, listed.to_pyarrow_dataset)
    with DuckDB() as engine, pytest.raises(StaleSnapshot):
        engine.ask("SELECT COUNT(*) AS n FROM t WHERE n > 0", {"t": far}, {})


def test_another_error_is_no_stale_snapshot(engine, items):
    with pytest.raises(Exception, match="nowhere") as raised:
        engine.ask("SELECT nowhere FROM t", {"t": items}, {})
    assert not isinstance(raised.value, StaleSnapshot)


def test_threads_query_tables_of_one_name_at_the_same_time(engine):
    def ask(number):
        mine = pa.table({"n": pa.array([number] * 100)})
        return engine.ask("SELECT CAST(SUM(n) AS BIGINT) AS n FROM t", {"t": mine}, {})["n"][0].as_py()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(8))) == [100 * number for number in range(8)]


def test_a_cursor_of_its_own_sees_the_tables(tables):
    with DuckDB(memory_limit="1GB", threads=1) as engine, engine.views(tables) as cursor:
        cursor.execute(
            "CREATE TEMP TABLE first AS SELECT user_id FROM items WHERE seen_at = $at", {"at": FIRST}
        )
        assert sorted(cursor.execute("SELECT user_id FROM first").fetchall()) == [(1,), (5,)]


LONG = "SELECT CAST(sum(n.range) AS BIGINT) AS n FROM range(3000000) AS n"


def ask_until(stop, engine):
    """Ask again and again; the signal may come before the first question, on a busy machine."""
    stop.start()
    [*map(engine.ask, itertools.repeat(LONG), itertools.repeat({}), itertools.repeat({}))]


def test_ctrl_c_interrupts_a_query():
    """DuckDB sometimes raises an error instead; the next query works."""
    with DuckDB(threads=1) as engine:
        for turn in range(6):
            stop = threading.Timer(0.01 + 0.008 * turn, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                ask_until(stop, engine)
            stop.join()
        assert engine.ask("SELECT 1 AS n", {}, {}).to_pylist() == [{"n": 1}]


def test_ctrl_c_ends_a_question_of_many_parts():
    asked = []

    def ask(engine, part):
        asked.append(part)
        if part == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return engine.ask(LONG, {}, {})

    with DuckDB() as engine:
        with pytest.raises(KeyboardInterrupt):
            list(engine.ask_on_each_core(ask, range(1_000)))
        assert 0 < len(asked) < 1_000
        assert engine.ask("SELECT 1 AS n", {}, {}).to_pylist() == [{"n": 1}]


class Stopped:
    """A table whose schema is being read as Ctrl-C comes."""

    @property
    def schema(self):
        raise KeyboardInterrupt

    def __arrow_c_schema__(self):
        raise KeyboardInterrupt

    def __arrow_c_stream__(self, _=None):
        raise KeyboardInterrupt


def test_interrupting_table_registration_interrupts_the_query(items):
    with DuckDB() as engine, pytest.raises(KeyboardInterrupt):
        engine.ask("SELECT COUNT(*) AS n FROM t", {"t": Files(items.uris, items.schema, Stopped)}, {})


SPILLED = """
from pathlib import Path
from exposurekit.history.engines.duckdb import DuckDB
with DuckDB(memory_limit="20MB", threads=1) as engine:
    with engine.views({}) as cursor:
        cursor.execute("CREATE TEMP TABLE sorted AS SELECT md5(range::VARCHAR) AS text FROM range(600000) ORDER BY text")
        [(spill,)] = cursor.execute("SELECT current_setting('temp_directory')").fetchall()
        during = [file.stat().st_size for file in Path(spill).iterdir()]
        mode = Path(spill).stat().st_mode & 0o777
print(oct(mode), sum(during) > 1e6, Path(spill).exists())
"""


def test_spilled_rows_are_private_and_deleted_with_the_engine():
    run = subprocess.run([sys.executable, "-c", SPILLED], capture_output=True, text=True, check=True)
    assert run.stdout == "0o700 True False\n"


def test_engines_with_the_same_settings_share_an_instance(items):
    """One may close while another is asked; a closed one cannot be asked; each has its own tables."""
    query, rows = "SELECT COUNT(*) AS n FROM t", pa.table({"a": [1, 2, 3]})
    with DuckDB(as_written=True) as engine:
        with DuckDB(as_written=True) as other, other.views({"t": rows}) as cursor:
            assert engine.ask(query, {"t": items}, {})["n"].to_pylist() == [6]
            assert cursor.execute(query).fetchall() == [(3,)]
        assert engine.ask(query, {"t": items}, {})["n"].to_pylist() == [6]
        with pytest.raises(Exception, match="closed"):
            other.ask(query, {"t": rows}, {})
        with pytest.raises(Exception, match="does not exist"):
            engine.ask("SELECT * FROM t", {}, {})
    with DuckDB() as plain, DuckDB(as_written=True) as written:
        setting = "SELECT CAST(current_setting('disabled_optimizers') AS VARCHAR) AS names"
        assert plain.ask(setting, {}, {})["names"].to_pylist() == [""]
        assert "join_order" in written.ask(setting, {}, {})["names"][0].as_py()


def test_no_extension_is_fetched():
    with DuckDB() as engine, pytest.raises(Exception, match="extension"):
        engine.ask("SELECT * FROM read_xlsx('none.xlsx')", {}, {})


def test_two_executors_of_the_cluster_do_the_work(cluster, items):  # noqa: F811
    before = cluster.tasks()
    result = engine_of(cluster.session).ask("SELECT COUNT(*) AS n FROM t WHERE user_id > 0", {"t": items}, {})
    after = cluster.tasks()
    assert result["n"].to_pylist() == [6]
    assert cluster.session.sparkContext.master == cluster.url
    assert cluster.executors() == [1, 1]
    assert len(after) == 2
    assert all(done > before.get(executor, 0) for executor, done in after.items())


def test_the_callers_session_is_not_changed(cluster, tables):  # noqa: F811
    session = cluster.session
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    session.conf.set("spark.sql.ansi.enabled", "false")
    before = session.conf.getAll
    try:
        engine = engine_of(session)
        result = engine.ask("SELECT MIN(whole_at) AS at_ FROM people, chosen", tables, {})
        engine.close()
        assert result["at_"].to_pylist() == [FIRST]
        assert session.conf.getAll == before
        assert session.catalog.listTables() == []
        assert type(session).getActiveSession() is session
        assert session.sql("SELECT 1 AS n").collect()[0].n == 1
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.ansi.enabled", "true")


def test_the_address_of_a_master_is_an_engine(cluster):  # noqa: F811
    engine = engine_of(cluster.url)
    assert engine.ask("SELECT :n + 1 AS n", {}, {"n": 1}).to_pylist() == [{"n": 2}]
    engine.close()
    assert cluster.session.sql("SELECT 1 AS n").collect()[0].n == 1
    with pytest.raises(ConfigurationError, match="another master"):
        engine_of("spark://127.0.0.1:1")


ON_HOLD = """it's on "hold" -- :who \\n 名"""  # a status that the specification does not name


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """Records that are discovered, removed, relisted, vanished, out of scope, delivered; a failed load."""
    clock, service = Clock(), Service()
    history = History(tmp_path_factory.mktemp("collected") / "it's a history", clock=clock)

    def collect(day):
        clock.set(DAWN + timedelta(days=day), DAWN + timedelta(days=day, minutes=5))
        history._store.shared_rows = (0, 100)[day % 2]  # in files of one bucket, or of all
        history.collect(exposure)

    def people(*statuses, broken=()):
        pages = [a_link("https://pages.example/1"), a_link(None, 'it\'s "quoted" 名')]
        for user_id in (1, 2, 66):
            records = [a_record(10 * user_id + number, status) for number, status in enumerate(statuses)]
            alerts = [an_alert("Found", records[0]), an_alert("Seen", pages[0])] if records else []
            service.people[user_id] = Person(records, pages[: len(records)], alerts)
        service.broken = dict.fromkeys(broken, "no user")

    with seen_through(service) as exposure:
        collect(0)
        for day, statuses in enumerate(
            (["discovered"] * 3, ["discovered", "removed", ON_HOLD], ["discovered"] * 2, ["removed"]), 1
        ):
            people(*statuses, broken=[66] if day == 2 else [])
            collect(day)
        delivery = a_delivery(2, {"listed_again": [{"record": a_record(20)}], "weather": [{"rain": "it's"}]})
        history.ingest_deliveries(
            [ReceivedDelivery(1, DAWN + timedelta(days=4, hours=1), "msg_1", delivery)], inbox="inbox"
        )
        del service.people[1]
        service.broken = {66: "no user"}
        collect(6)
    history.compact()
    history.label(history.records().iloc[0], "mine")
    history.rename_site("PeepFinder", "Peep Finder")
    return history


class AskingOnce:
    """An engine that is asked each query over the same files once."""

    def __init__(self, engine):
        self.engine, self._results = engine, {}

    def ask(self, sql, tables, parameters):
        if not all(isinstance(table, Files) for table in tables.values()):
            return self.engine.ask(sql, tables, parameters)
        query = repr(
            (sql, sorted(parameters.items()), sorted((name, one.uris) for name, one in tables.items()))
        )
        if query not in self._results:
            self._results[query] = self.engine.ask(sql, tables, parameters)
        return self._results[query]

    def close(self):
        self.engine.close()


def test_a_history_on_a_cluster_has_equal_results(cluster, collected):  # noqa: F811
    since, n_changes = DAWN + timedelta(days=2), len(collected.changes())
    tables = (
        "runs",
        "people",
        "load_issues",
        "deliveries",
        "links",
        "alerts",
        "steps",
        "stale",
        "site_names",
    )
    answers = {name: getattr(History, name) for name in tables} | {
        "all changes": History.changes,
        "records": lambda history: history.records(as_of=since),
        "records, as those of millions": lambda history: replace(
            history._reader, max_join_rows=n_changes - 1
        ).records(as_of=since + timedelta(hours=1)),
        "status_over_time, by run": lambda history: history.status_over_time(every="run"),
        "status_over_time, by person": lambda history: history.status_over_time("user_id"),
        "status_over_time, of people": lambda history: history.status_over_time(user=[1, 66]),
        "time_to_removal, of all": lambda history: history.time_to_removal(by=None),
        "diff, counts": lambda history: history.diff(since).counts,
        "diff, by site": lambda history: history.diff(since).by_site,
        "record names": lambda history: history._reader.record_names(MAX_TIME, history._reader.latest()),
        "status_over_time, by week": lambda history: history.status_over_time("site", every="week"),
    }
    for name, question in QUESTIONS.items():
        if not question.needs_exposure:
            answers[name] = partial(question.ask, **({"since": since} if question.required else {}))
    assert len(answers) > 20
    assert ON_HOLD in set(answers["records, as those of millions"](collected)["status"])
    engine = AskingOnce(engine_of(cluster.session))
    with History(collected.path, engine=engine, clock=collected._clock) as there:
        unequal, empty = [], []
        for name, answer in answers.items():
            here = answer(collected)
            if not answer(there).equals(here):
                unequal.append(name)
            if here.empty:
                empty.append(name)
        assert (unequal, empty) == ([], ["by_state"])
    with History(collected.path, engine=cluster.session, clock=collected._clock) as there:
        assert there.by_site()["site"].tolist() == ["Peep Finder"]


@pytest.mark.parametrize("unknown", ["postgres", "spark:7077", 7, object()])
def test_an_unknown_engine_is_refused(unknown):
    with pytest.raises((ConfigurationError, InvalidArgument), match="Spark"):
        engine_of(unknown)


@pytest.mark.parametrize(
    ("lacking", "message"),
    [("sys.modules['pyspark'] = None", "exposurekit[spark]"), ("pass", "Java 17 or newer: install it")],
)
def test_missing_spark_requirements_are_named(lacking, message):
    code = f"import sys; {lacking}\nfrom exposurekit.history.engines.duckdb import engine_of\nengine_of('spark://h:7077')"
    bare = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": ""}
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=bare)
    assert run.returncode == 1
    assert message in run.stderr


def test_an_engine_is_its_own_engine():
    with DuckDB() as engine:
        assert engine_of(engine) is engine
