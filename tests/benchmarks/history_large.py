"""Histories of any number of changes, made at once and not run by run; lying on disk as those that grew.

The same invented course for everybody's records, by hash: observed in the first run or later, pending, now and then discovered anew,
removed, and of some listed again. The sums are the product's own.
"""

# ruff: noqa: S608  names and texts of our own, no value of anybody's

from datetime import timedelta

import duckdb
import pyarrow as pa
from history_world import FIRST_DAY, RUN_LASTS, SITES

from exposurekit.history import maintenance
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.schema import BUCKETS, TABLES

RUNS = 180
RECORDS = 20
CHANGES_A_THING = 3.57
_DISCOVERED, _PENDING, _REMOVED, _VANISHED = "discovered", "pending removal", "removed", "vanished"
# Courses: each step a status, the number of the episode, and the step with which that episode began.
COURSES = (
    ((_DISCOVERED, 1, 1), (_PENDING, 1, 1), (_DISCOVERED, 1, 1), (_PENDING, 1, 1), (_REMOVED, 1, 1)),
    ((_DISCOVERED, 1, 1), (_PENDING, 1, 1), (_REMOVED, 1, 1), (_DISCOVERED, 2, 4), (_PENDING, 2, 4)),
    ((_DISCOVERED, 1, 1), (_VANISHED, 1, 1), (_DISCOVERED, 2, 3), (_PENDING, 2, 3), (_REMOVED, 2, 3)),
)
_THINGS = f"""
WITH thing AS (
    SELECT u AS user_id, u * 1000 + p AS key, hash(u * 1000 + p) AS h
    FROM range($first, $people + 1, {BUCKETS}) users(u), range({RECORDS}) places(p)
), drawn AS (
    SELECT user_id, key, h, 'Seekfolk ' || floor({SITES} * pow((h >> 3) % 1000 / 1000, 2))::INTEGER AS site,
        CASE WHEN h % 100 < 8 THEN 1 WHEN h % 100 < 20 THEN 2 WHEN h % 100 < 45 THEN 3 WHEN h % 100 < 70 THEN 4 ELSE 5
            END AS steps,
        CASE (h >> 40) % 32 WHEN 0 THEN 1 WHEN 1 THEN 2 ELSE 0 END AS course,
        CASE WHEN (h >> 9) % 100 < 85 THEN 1 ELSE 2 + (h >> 12) % 28 END::BIGINT AS s1,
        1 + (h >> 16) % 36 AS g1, 1 + (h >> 22) % 36 AS g2, 1 + (h >> 28) % 36 AS g3, 1 + (h >> 34) % 36 AS g4
    FROM thing
)
SELECT *, [s1, s1 + g1, s1 + g1 + g2, s1 + g1 + g2 + g3, s1 + g1 + g2 + g3 + g4]::BIGINT[] AS seqs FROM drawn
"""
_CHANGES = f"""
SELECT seq, $first_day + to_days((seq - 1)::INTEGER) AS seen_at, ($day + seq - 1)::INTEGER AS day, 'record' AS kind,
    user_id, key, site, status, prev_status, episode,
    $first_day + to_days((opened - 1)::INTEGER) AS episode_at, opened = 1 AS left_censored,
    CASE WHEN prev_status IN ('{_DISCOVERED}', '{_PENDING}') THEN (seq - opened) * 86400 END AS open_s,
    CASE WHEN seq > 1 THEN $first_day + to_days((seq - 2)::INTEGER) END AS not_before,
    (user_id % {BUCKETS})::INTEGER AS bucket
FROM (
    SELECT user_id, key, site, seqs[step] AS seq, seqs[begun] AS opened, status, prev_status, episode
    FROM ({_THINGS}) AS things JOIN courses ON courses.course = things.course AND courses.step <= things.steps
) ORDER BY seq
"""
_CONTENT = f"""
SELECT s1 AS seq, $first_day + to_days((s1 - 1)::INTEGER) AS seen_at, user_id, key, (h >> 1)::BIGINT AS hash,
    key AS record_id, site, '{_DISCOVERED}' AS status, 'Juniper Dunmarsh' AS name, (25 + user_id % 50)::SMALLINT AS age,
    'https://seekfolk.example/people/' || key AS href, ['Alder Dunmarsh', 'Fenna Corvane'] AS relations,
    ['J Dunmarsh'] AS aliases, ['Larch Bay, ME'] AS locations, lpad(key::VARCHAR, 12, '0') AS reference_id,
    ['first_name', 'email'] AS user_fields_required_for_removal, (user_id % {BUCKETS})::INTEGER AS bucket
FROM ({_THINGS}) AS things ORDER BY seq
"""


def fill_store(store: Store, changes: int) -> None:
    people = round(changes / CHANGES_A_THING / RECORDS)
    finished = FIRST_DAY + RUN_LASTS
    parameters = {"people": people, "first_day": finished, "day": finished.toordinal() - 719_163}
    with duckdb.connect(config={"memory_limit": "3GB"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("courses", _courses())
        for bucket in range(BUCKETS):
            for name, text in (("records", _CONTENT), ("changes", _CHANGES)):
                bucket_parameters = parameters | {"first": bucket or BUCKETS}
                named = {one: value for one, value in bucket_parameters.items() if f"${one}" in text}
                if (rows := connection.sql(text, params=named).to_arrow_table()).num_rows:
                    store.append(name, rows)
    _runs(store, people)
    maintenance.rebuild_cube(store)


def _courses() -> pa.Table:
    rows = [
        {"course": course, "step": index + 1, "status": status, "episode": episode, "begun": begun}
        | {"prev_status": steps[index - 1][0] if index else None}
        for course, steps in enumerate(COURSES)
        for index, (status, episode, begun) in enumerate(steps)
    ]
    return pa.Table.from_pylist(rows)


def _runs(store: Store, people: int) -> None:
    schema = TABLES["runs"].schema
    counts = {one.name: 0 for one in schema if one.type == pa.int64()}
    counts |= {"inbox_until": None, "deliveries": None}
    fixed = {"origin": "collect", "scope": "everyone", "source": "invented"}
    fixed |= {"complete": True, "listed": people, "whole": people}
    rows = []
    for number in range(RUNS):
        began = FIRST_DAY + timedelta(days=number)
        span = {"started_at": began, "finished_at": began + RUN_LASTS}
        rows.append(counts | fixed | span | {"seq": number + 1, "run": f"day-{number}"})
    store.append("runs", pa.Table.from_pylist(rows, schema))
    ids = pa.array(range(1, people + 1), pa.int64())
    last = rows[-1]
    columns = {
        "listed": True,
        "last_complete_at": last["started_at"],
        "observed_until": last["finished_at"],
        "outcome": "whole",
    }
    columns |= {"first_registered_after": None, "reason": None}
    kinds = TABLES["people"].schema
    one = {name: pa.array([value], kinds.field(name).type) for name, value in columns.items()}
    zeros = pa.array([0] * people, pa.int64())
    store.append(
        "people", pa.table({"user_id": ids} | {name: values.take(zeros) for name, values in one.items()})
    )
