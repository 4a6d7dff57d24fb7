"""What a capable analyst would write instead of a history: pandas over its files, and a diff in DuckDB's own tables.

Honest and good, with no handicap. `Diffed` remembers all that an ingest remembers of records, and does nothing else:
no other kinds, no sums, no resumption, no erasure; while it has the file open, nobody else can.
"""

# ruff: noqa: S608  names and texts of our own, no value of anybody's

from datetime import datetime

import duckdb
import pandas as pd

CONTENT = (
    "record_id, site, status, name, age, href, relations, aliases, locations, reference_id, "
    "user_fields_required_for_removal"
)
_TABLES = """
CREATE TABLE state (user_id BIGINT, key BIGINT, site VARCHAR, status VARCHAR, seen_at TIMESTAMPTZ, episode INTEGER,
    episode_at TIMESTAMPTZ, left_censored BOOLEAN, hash BIGINT);
CREATE TABLE changes (seq BIGINT, seen_at TIMESTAMPTZ, day INTEGER, user_id BIGINT, key BIGINT, site VARCHAR,
    status VARCHAR, prev_status VARCHAR, episode INTEGER, episode_at TIMESTAMPTZ, left_censored BOOLEAN, open_s BIGINT,
    not_before TIMESTAMPTZ);
CREATE TABLE people (user_id BIGINT, whole_at TIMESTAMPTZ);
CREATE TABLE records (seq BIGINT, user_id BIGINT, key BIGINT, hash BIGINT, record_id BIGINT, site VARCHAR, status VARCHAR,
    name VARCHAR, age SMALLINT, href VARCHAR, relations VARCHAR[], aliases VARCHAR[], locations VARCHAR[],
    reference_id VARCHAR, user_fields_required_for_removal VARCHAR[]);
"""
_STEP = """
CREATE OR REPLACE TEMP TABLE step AS
WITH loaded AS (
    SELECT staged_person.user_id, whole_at FROM staged_person LEFT JOIN people USING (user_id) WHERE outcome = 'whole'
), both_sides AS (
    SELECT user_id, key, now.hash, now.status IS NOT NULL AND now.hash IS DISTINCT FROM state.hash AS is_new_content,
        coalesce(state.site, now.site) AS site, state.status AS prev_status,
        coalesce(now.status, CASE WHEN state.status = 'removed' THEN 'removed' ELSE 'vanished' END) AS status,
        state.seen_at AS previous_at, episode, episode_at, left_censored,
        prev_status IS NOT NULL AND prev_status NOT IN ('removed', 'vanished') AS was_open
    FROM (SELECT user_id, key, site, status, hash FROM staged_record) AS now FULL JOIN state USING (user_id, key)
), moved AS (
    SELECT *, prev_status IS DISTINCT FROM status AS is_change,
        status NOT IN ('removed', 'vanished') AND NOT was_open AS starts, greatest(whole_at, previous_at) AS not_before
    FROM both_sides JOIN loaded USING (user_id)
    WHERE is_new_content OR prev_status IS DISTINCT FROM status
)
SELECT user_id, key, hash, is_new_content, is_change, site, status, prev_status, not_before,
    coalesce(episode, 0) + starts::INTEGER AS episode,
    CASE WHEN starts THEN $seen_at ELSE episode_at END AS episode_at,
    CASE WHEN prev_status IS NULL THEN not_before IS NULL WHEN starts THEN false ELSE left_censored END
        AS left_censored,
    CASE WHEN was_open THEN (epoch_us($seen_at) - epoch_us(episode_at)) // 1000000 END AS open_s
FROM moved
"""
_CHANGES = """
INSERT INTO changes SELECT $seq, $seen_at, (epoch_us($seen_at) // 86400000000)::INTEGER, user_id, key, site, status,
    prev_status, episode, episode_at, left_censored, open_s, not_before
FROM step WHERE is_change
"""
_CONTENT_ROWS = f"""
INSERT INTO records SELECT $seq, user_id, key, step.hash, {", ".join(f"now.{name}" for name in CONTENT.split(", "))}
FROM staged_record AS now JOIN step USING (user_id, key) WHERE is_new_content
"""
_UPDATE = """
UPDATE state SET status = step.status, seen_at = CASE WHEN is_change THEN $seen_at ELSE state.seen_at END,
    episode = step.episode, episode_at = step.episode_at, left_censored = step.left_censored,
    hash = coalesce(step.hash, state.hash)
FROM step WHERE step.user_id = state.user_id AND step.key = state.key AND prev_status IS NOT NULL
"""
_NEW = """
INSERT INTO state SELECT user_id, key, site, status, $seen_at, episode, episode_at, left_censored, hash
FROM step WHERE prev_status IS NULL
"""
_PEOPLE = """
UPDATE people SET whole_at = $began FROM staged_person
WHERE staged_person.user_id = people.user_id AND outcome = 'whole'
"""
_NEW_PEOPLE = """
INSERT INTO people SELECT user_id, CASE WHEN outcome = 'whole' THEN $began END FROM staged_person
WHERE user_id NOT IN (SELECT user_id FROM people)
"""
NAMES = "seq, seen_at, day, user_id, key, site, status, prev_status, episode, episode_at, left_censored, open_s, not_before"
# Where it is to go on from what a history knows.
_GOES_ON = f"""
INSERT INTO people SELECT user_id, last_complete_at FROM read_parquet($people);
INSERT INTO changes SELECT {NAMES} FROM read_parquet($changes) WHERE kind = 'record';
INSERT INTO records SELECT seq, user_id, key, hash, {CONTENT} FROM read_parquet($records);
INSERT INTO state SELECT user_id, key, site, status, seen_at, episode, episode_at, left_censored, newest_content.hash
FROM (SELECT * FROM changes QUALIFY row_number() OVER (PARTITION BY user_id, key ORDER BY seq DESC) = 1) AS newest
JOIN (SELECT user_id, key, arg_max(hash, seq) AS hash FROM records GROUP BY ALL) AS newest_content USING (user_id, key)
"""


class Diffed:
    """A DuckDB file with the state of each record, and every change.

    Args:
        path: Where it lies.
        earlier_files: The Parquet files of a history's people, changes and records to begin with; None: it is empty.
    """

    def __init__(self, path, earlier_files=None) -> None:
        self._path = str(path)
        with self._open() as connection:
            connection.execute(_TABLES)
            for text in _GOES_ON.split(";") if earlier_files else ():
                connection.execute(
                    text, {name: files for name, files in earlier_files.items() if f"${name}" in text}
                )

    def take_in(self, seq: int, began: datetime, seen_at: datetime, people, records) -> None:
        """Compare a staged run with the state, and store the changes; durable when it returns."""
        parameters = {"seq": seq, "began": began, "seen_at": seen_at}
        with self._open() as connection:
            for name, paths in (("staged_person", people), ("staged_record", records)):
                connection.read_parquet(list(paths)).create_view(name)
            connection.execute("BEGIN")
            for text in (_STEP, _CHANGES, _CONTENT_ROWS, _UPDATE, _NEW, _PEOPLE, _NEW_PEOPLE):
                connection.execute(
                    text, {name: value for name, value in parameters.items() if f"${name}" in text}
                )
            connection.execute("DROP VIEW staged_person; DROP VIEW staged_record; COMMIT; CHECKPOINT")

    def differs(self, changes) -> int:
        """The number of changes that differ from those in a history's files."""
        theirs = f"SELECT {NAMES} FROM read_parquet($files) WHERE kind = 'record'"
        ours = f"SELECT {NAMES} FROM changes"
        both_ways = f"({theirs} EXCEPT ALL {ours}) UNION ALL ({ours} EXCEPT ALL {theirs})"
        with self._open() as connection:
            counted = f"SELECT count(*) FROM ({both_ways}) AS rows_of_one"
            return connection.execute(counted, {"files": list(changes)}).fetchall()[0][0]

    def _open(self):
        connection = duckdb.connect(self._path, config={"memory_limit": "4GB"})
        connection.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
        return connection


def status_counts(paths) -> pd.DataFrame:
    """How many records had each status at the end of each day."""
    columns, records = ["day", "status", "prev_status"], [("kind", "==", "record")]
    changes = pd.read_parquet(list(paths), columns=columns, filters=records)
    came = changes.groupby(["day", "status"]).size().unstack(fill_value=0)  # noqa: PD010
    went = changes.groupby(["day", "prev_status"]).size().unstack(fill_value=0)  # noqa: PD010
    return came.sub(went, fill_value=0).cumsum().astype("int64")
