"""Change detection: compare a staged run with the previous state, as SQL of DuckDB.

The queries read the views ``people`` (before the run), ``changes``, ``checkpoint`` and those of the staged run:
``staged_person`` and ``staged_record``, ``staged_link``, ``staged_alert``. Parameters are written ``$name``.
"""

from exposurekit.analysis import LISTED, UNKNOWN, VANISHED
from exposurekit.contract.types import REMOVED
from exposurekit.history.collector import DUPLICATE_RECORDS
from exposurekit.history.sql import is_open
from exposurekit.history.storage.schema import BUCKET_SQL, CONTENT_OF, PEOPLE_COUNTED, within_buckets

# All users of the run, and how their load counts. Of a user in two parts, the earlier one counts.
LOADED_USERS = f"""
CREATE OR REPLACE TEMP TABLE loaded AS
WITH staged AS (
    SELECT * FROM staged_person
    WHERE (user_id, part) IN (SELECT (user_id, min(part)) FROM staged_person GROUP BY user_id)
), beside AS (
    SELECT
        coalesce(staged.user_id, people.user_id) AS user_id, staged.part,
        staged.operation, staged.error, staged.status,
        nullif(regexp_replace(staged.reason, '(; )?{DUPLICATE_RECORDS}$', ''), '') AS reason,
        CASE WHEN ends_with(staged.reason, '{DUPLICATE_RECORDS}') THEN '{DUPLICATE_RECORDS}' END AS duplicates,
        coalesce(staged.began, $started_at) AS began, coalesce(staged.seen_at, $finished_at) AS seen_at,
        CASE
            WHEN staged.outcome = 'failed' THEN 'failed'
            WHEN staged.outcome IS NULL AND NOT $complete THEN 'missed'
            WHEN coalesce(staged.began, $started_at) < people.observed_until THEN 'late'
            -- Pages of a list shift when users leave or join: a user missing from one list is not gone yet.
            WHEN staged.outcome IS NULL AND people.listed AND people.outcome <> 'absent' THEN 'absent'
            WHEN staged.outcome IS NULL THEN 'unlisted'
            ELSE staged.outcome
        END AS what,
        $origin = 'collect' AND staged.user_id IS NOT NULL AND NOT coalesce(people.listed, false) AS registered,
        people.listed, people.last_complete_at, people.observed_until, people.first_registered_after
    FROM staged FULL JOIN people ON people.user_id = staged.user_id
    WHERE staged.user_id IS NOT NULL
        OR ($scope = 'everyone' AND (people.listed OR people.outcome = 'reported'))
)
SELECT * REPLACE (CASE WHEN registered THEN $first_registered_after ELSE first_registered_after END AS first_registered_after),
    {BUCKET_SQL} AS bucket,
    coalesce(last_complete_at, CASE WHEN registered THEN $first_registered_after ELSE first_registered_after END) AS bound
FROM beside
"""

LOAD_ISSUES = """
SELECT $seq AS seq, user_id, what, operation, error, status, CASE WHEN what IN ('failed', 'partial') THEN reason END AS reason
FROM loaded
WHERE what IN ('failed', 'partial', 'absent', 'unlisted', 'missed', 'late') OR ($scope = 'some' AND what = 'whole')
UNION ALL
SELECT $seq, user_id, 'registered', NULL, NULL, NULL, NULL FROM loaded WHERE registered
UNION ALL
SELECT $seq, user_id, 'duplicate', NULL, NULL, NULL, duplicates FROM loaded
WHERE what IN ('whole', 'partial') AND duplicates IS NOT NULL
"""

_COUNTS_FOR_PEOPLE = "($origin = 'collect' OR (what = 'reported' AND NOT coalesce(listed, false)))"
CHANGED_PEOPLE_COUNT = f"SELECT count(*) FROM loaded WHERE {_COUNTS_FOR_PEOPLE}"
# Whether an unlisted user of a webhook is registered is up to the next run of everyone.
PEOPLE_AFTER = f"""
SELECT
    loaded.user_id,
    what <> 'unlisted' AND (coalesce(listed, false) OR $origin = 'collect') AS listed,
    CASE WHEN what = 'whole' THEN began ELSE last_complete_at END AS last_complete_at,
    CASE WHEN what IN ('whole', 'partial', 'unlisted') THEN seen_at ELSE observed_until END AS observed_until,
    first_registered_after, what AS outcome, CASE WHEN what IN ('failed', 'partial') THEN reason END AS reason
FROM loaded WHERE {_COUNTS_FOR_PEOPLE}
UNION ALL
SELECT user_id, listed, last_complete_at, observed_until, first_registered_after, outcome, reason
FROM people WHERE user_id NOT IN (SELECT user_id FROM loaded WHERE {_COUNTS_FOR_PEOPLE})
"""

_RECENT = """
    SELECT * EXCLUDE (position) FROM (
        SELECT *, row_number() OVER (PARTITION BY user_id, key ORDER BY seq DESC) AS position
        FROM {table} WHERE seq > $checkpointed AND seq < $seq {within}
    ) WHERE position = 1
"""
_WITHIN = "AND bucket BETWEEN $low AND $high"
_OF_BUCKETS = f"AND {within_buckets('$low', '$high')}"
_STATE_COLUMNS = ("seq", "seen_at", "site", "status", "prev_status", "episode", "episode_at", "left_censored")
# What `state` reads of each table.
STATE_OF: dict[str, tuple[str, ...]] = {
    "checkpoint": ("kind", "user_id", "key", "hash", *_STATE_COLUMNS, "bucket"),
    "changes": ("kind", "user_id", "key", *_STATE_COLUMNS, "bucket"),
    **dict.fromkeys(CONTENT_OF.values(), ("seq", "user_id", "key", "hash", "bucket")),
}


def state(kind: str) -> str:
    """Select every item of a kind before the run, with the hash of its content."""
    recent = _RECENT.format(table="changes", within=f"AND kind = '{kind}' {_OF_BUCKETS}")
    content = _RECENT.format(table=CONTENT_OF[kind], within=_OF_BUCKETS)
    newer = ", ".join(
        f"CASE WHEN recent.seq IS NULL THEN old.{name} ELSE recent.{name} END AS {name}"
        for name in _STATE_COLUMNS
    )
    return f"""
    SELECT before.* EXCLUDE (old_hash), coalesce(content.hash, old_hash) AS hash FROM (
        SELECT coalesce(recent.user_id, old.user_id) AS user_id, coalesce(recent.key, old.key) AS key,
            {newer}, old.hash AS old_hash
        FROM (SELECT * FROM checkpoint WHERE kind = '{kind}' {_OF_BUCKETS}) AS old
        FULL JOIN ({recent}) AS recent ON recent.user_id = old.user_id AND recent.key = old.key
    ) AS before LEFT JOIN ({content}) AS content ON content.user_id = before.user_id AND content.key = before.key
    """


def latest_observation(kind: str) -> str:
    """Read the compared columns of one kind once, as the table ``observed``; failed users were not observed."""
    return f"""
CREATE OR REPLACE TEMP TABLE observed AS
SELECT staged.user_id, key, staged.part, staged.bucket, thing_site, thing_status, hash
FROM staged_{kind} AS staged JOIN loaded ON loaded.user_id = staged.user_id AND loaded.part = staged.part
WHERE what IN ('whole', 'partial', 'reported')
"""


def step(kind: str) -> str:
    """Select the items of one kind, in some buckets, whose status or content changed: rows of the table ``step``."""
    return f"""
WITH state AS ({state(kind)}),
present AS (
    SELECT * FROM observed WHERE true {_WITHIN}
), both_sides AS (
    SELECT
        coalesce(present.user_id, state.user_id) AS user_id, coalesce(present.key, state.key) AS key,
        present.part, present.thing_status, present.hash AS hash_now, state.hash AS hash_before,
        coalesce(state.site, present.thing_site) AS site, state.status AS prev_status,
        CASE WHEN state.status = '{UNKNOWN}' THEN state.prev_status ELSE state.status END AS known_status,
        state.episode, state.episode_at, state.left_censored, state.seen_at AS seen_before
    FROM state FULL JOIN present ON state.user_id = present.user_id AND state.key = present.key
), decided AS (
    SELECT both_sides.*, loaded.seen_at,
        greatest(bound, seen_before) AS not_before,
        CASE
            WHEN thing_status IS NOT NULL THEN thing_status
            -- Listed with an unreadable status: keep the previous one.
            WHEN both_sides.part IS NOT NULL AND coalesce(known_status, '{VANISHED}') = '{VANISHED}' THEN '{LISTED}'
            WHEN both_sides.part IS NOT NULL THEN known_status
            WHEN what = 'whole' AND {is_open("known_status")} THEN '{VANISHED}'
            WHEN what = 'whole' THEN known_status
            WHEN what = 'unlisted' AND prev_status <> '{VANISHED}' THEN '{UNKNOWN}'
            ELSE prev_status
        END AS status
    FROM both_sides JOIN (SELECT * FROM loaded WHERE true {_WITHIN}) AS loaded USING (user_id)
    WHERE seen_before IS NULL OR seen_before <= loaded.began
), moved AS (
    SELECT *,
        prev_status IS DISTINCT FROM status AS is_change,
        part IS NOT NULL AND hash_before IS DISTINCT FROM hash_now AS is_new_content,
        {is_open("status")} AND NOT coalesce({is_open("known_status")}, false) AS starts
    FROM decided
)
SELECT
    user_id, key, part, hash_now AS hash, is_change, is_new_content, seen_at,
    (epoch_us(seen_at) // 86400000000)::INTEGER AS day,
    site, status, prev_status,
    coalesce(episode, 0) + starts::INTEGER AS episode,
    CASE WHEN starts THEN seen_at ELSE episode_at END AS episode_at,
    CASE WHEN prev_status IS NULL THEN not_before IS NULL WHEN starts THEN false ELSE left_censored END
        AS left_censored,
    CASE WHEN {is_open("prev_status")} THEN (epoch_us(seen_at) - epoch_us(episode_at)) // 1000000 END AS open_s,
    not_before,
    {BUCKET_SQL} AS bucket
FROM moved WHERE is_change OR is_new_content
"""


def changed(kind: str) -> str:
    """Select the rows of ``changes`` from the step."""
    return f"""
    SELECT $seq AS seq, seen_at, day, '{kind}' AS kind, user_id, key, site, status, prev_status, episode,
        episode_at, left_censored, open_s, not_before, bucket
    FROM step WHERE is_change {_WITHIN}
    """


def describe(kind: str) -> str:
    """Select the rows of the content tables from the step."""
    return f"""
    SELECT staged.* EXCLUDE (part), $seq AS seq, step.seen_at
    FROM staged_{kind} AS staged JOIN step USING (user_id, key, part)
    WHERE step.is_new_content AND staged.bucket BETWEEN $low AND $high
    """


CUBE = """
SELECT seq, day, kind, site, prev_status, status,
    (epoch_us(episode_at) // 86400000000)::INTEGER AS opened_day, left_censored, count(*) AS n
FROM changes {where}
GROUP BY ALL
"""

_MOVES = {
    "new": "prev_status IS NULL AND {now} AND NOT left_censored",
    "entered_scope": "{now} AND (prev_status = '{unknown}' OR (prev_status IS NULL AND left_censored))",
    "relisted": "prev_status IN ('{removed}', '{vanished}') AND {now}",
    "changed": "{was} AND {now}",
    "removed": "{was} AND status = '{removed}'",
    "vanished": "{was} AND status = '{vanished}'",
    "left_scope": "{was} AND status = '{unknown}'",
}


def _of_records(condition: str) -> str:
    return f"count(*) FILTER (kind = 'record' AND {condition})"


_VERIFIED_LATER = _of_records(f"prev_status = '{VANISHED}' AND status = '{REMOVED}'")
_FIRST_REMOVED, _FIRST_VANISHED = (
    _of_records(f"prev_status IS NULL AND NOT left_censored AND status = '{status}'")
    for status in (REMOVED, VANISHED)
)
_COUNTED_SINCE = {  # by version
    2: {"removed": f" + {_VERIFIED_LATER}", "vanished": f" - {_VERIFIED_LATER}"},
    3: {
        "new": f" + {_FIRST_REMOVED} + {_FIRST_VANISHED}",
        "removed": f" + {_FIRST_REMOVED}",
        "vanished": f" + {_FIRST_VANISHED}",
    },
}
COUNT_VERSIONS = (1, *_COUNTED_SINCE)


def count_changes(version: int = COUNT_VERSIONS[-1]) -> dict[str, str]:
    """Return what counts each sort of change, as aggregates over ``changes``; they agree with `analysis.diff`.

    A record that had ended when it was first observed is new, and removed or vanished. One that had vanished, and whose
    removal a run verifies, counts there as removed, and as one vanished less. Earlier versions did neither, then only
    the second; what they counted stays in ``runs``.
    """
    conditions = {
        "now": is_open("status"),
        "was": is_open("prev_status"),
        "unknown": UNKNOWN,
        "removed": REMOVED,
        "vanished": VANISHED,
    }
    moves = {move: ("record", move) for move in _MOVES}
    moves |= {f"{kind}s_{move}": (kind, move) for kind in ("link", "alert") for move in ("new", "vanished")}
    counts = {
        name: f"count(*) FILTER (kind = '{kind}' AND {_MOVES[move].format(**conditions)})"
        for name, (kind, move) in moves.items()
    }
    for since, more in _COUNTED_SINCE.items():
        if since <= version:
            counts |= {name: f"{counts[name]}{text}" for name, text in more.items()}
    return counts


def count_people() -> str:
    """How many people were listed, and how they were observed, one row."""
    conditions = {
        name: "registered" if name == "registered" else f"what = '{name}'" for name in PEOPLE_COUNTED
    }
    columns = [f"count(*) FILTER ({condition}) AS {name}" for name, condition in conditions.items()]
    return f"SELECT count(*) FILTER (part IS NOT NULL) AS listed, {', '.join(columns)} FROM loaded"
