"""The queries of a history, as ANSI SQL that DuckDB and Spark both run.

Parameters are written ``:name``; ``upto`` is the newest run with a row in ``runs``: rows of a run that is only half
ingested have a greater number. Joins name the larger side first: DuckDB does not know file sizes in advance. A day is
the number of days since 1970-01-01 UTC, so that no engine's time zone can shift it.
"""

from collections.abc import Collection, Iterable

from exposurekit.analysis import NOT_OPEN, UNKNOWN

_INGESTED = "seq <= :upto"
ITEM_ORDER = ("user_id", "first_seen_at", "key")
_WITHIN = "bucket BETWEEN :low AND :high"
_NOT_OPEN = ", ".join(f"'{status}'" for status in NOT_OPEN)


def is_open(column: str) -> str:
    """Return SQL for `analysis.is_open`: a missing status is not open.

    >>> from exposurekit.history.sql import is_open
    >>> is_open("status")
    "(status IS NOT NULL AND status NOT IN ('removed', 'vanished', 'unknown'))"
    """
    return f"({column} IS NOT NULL AND {column} NOT IN ({_NOT_OPEN}))"


def is_not_open(column: str) -> str:
    """Return SQL for the opposite: a missing status is not open.

    >>> from exposurekit.history.sql import is_not_open
    >>> is_not_open("status")
    "(status IS NULL OR status IN ('removed', 'vanished', 'unknown'))"
    """
    return f"({column} IS NULL OR {column} IN ({_NOT_OPEN}))"


RUNS = f"SELECT * FROM runs WHERE {_INGESTED} ORDER BY seq"
LOAD_ISSUES = f"SELECT * FROM load_issues WHERE {_INGESTED} ORDER BY seq, user_id, what"
DELIVERIES = f"SELECT * FROM deliveries WHERE {_INGESTED} ORDER BY seq, seen_at"
PEOPLE = "SELECT * FROM people ORDER BY user_id"
# Who was listed at an instant, and since when; null if the first load of them failed. Parameters: `as_of`.
WATCHED = """
SELECT user_id, MIN(watched_from) AS watched_from FROM (
    SELECT user_id, seq, MAX(CASE WHEN what = 'registered' THEN seq END) AS came,
        MAX(CASE WHEN what = 'unlisted' THEN seq END) AS went,
        CASE WHEN MAX(CASE WHEN what = 'registered' THEN 1 ELSE 0 END) = 1
            AND MAX(CASE WHEN what = 'failed' THEN 1 ELSE 0 END) = 0 THEN MIN(run_at) END AS watched_from
    FROM (
        SELECT load_issues.user_id, load_issues.seq, load_issues.what, runs.finished_at AS run_at FROM load_issues
        JOIN runs ON runs.seq = load_issues.seq
        WHERE runs.finished_at <= :as_of AND load_issues.seq <= :upto
            AND what IN ('registered', 'unlisted', 'failed')
    ) events GROUP BY user_id, seq
) of_runs
GROUP BY user_id HAVING MAX(came) IS NOT NULL AND MAX(came) > COALESCE(MAX(went), -1)
ORDER BY user_id
"""
ANNOTATIONS = "SELECT * FROM annotations ORDER BY marked_at"
CHANGES = f"""
SELECT seq, seen_at, day, kind, user_id, key, site, status, prev_status, episode, episode_at, open_s, not_before,
    left_censored
FROM changes WHERE {_INGESTED} ORDER BY seq, kind, user_id, key
"""
# A user who is missing from one list still counts until a second list confirms it.
COLLECTION_RUNS = f"""
SELECT finished_at AS at, listed + missed + absent AS people, listed + missed + absent - whole AS unseen
FROM runs WHERE origin = 'look' AND scope = 'everyone' AND {_INGESTED} ORDER BY seq
"""


def transitions(
    by: tuple[str, ...], *, table: str = "cube", when: str = "day", buckets: Collection[int] = ()
) -> str:
    """Count the items that went from one status to another, by time.

    Args:
        by: Columns to group by, beside the statuses.
        table: ``cube``, or ``changes`` where the daily sums do not suffice: by person, by instant, or between instants.
        when: ``day`` or ``seen_at``; empty: all together.
        buckets: Only the users of the table ``selected``, who are in these buckets.

    Parameters: ``kind``, ``after`` and ``until``: instants (of ``changes``) or days (of the ``cube``).
    """
    columns = ", ".join((*([when] if when else []), *by, "prev_status", "status", "left_censored"))
    n = "SUM(n)" if table == "cube" else "COUNT(*)"
    instant = "day" if table == "cube" else "seen_at"
    within = ", ".join(map(str, sorted(buckets)))
    people = f"AND bucket IN ({within}) AND user_id IN (SELECT user_id FROM selected)" if buckets else ""
    return f"""
    SELECT {columns}, CAST({n} AS BIGINT) AS n FROM {table}
    WHERE kind = :kind AND {instant} > :after AND {instant} <= :until AND {_INGESTED} {people}
    GROUP BY {columns}
    """


def last_changes(columns: Iterable[str] = ("*",), where: str = "TRUE") -> str:
    """Select the last change of every item at an instant, without its content. Parameters: ``kind``, ``as_of``.

    Args:
        columns: Of ``changes``, and ``first_seen_at``, ``changed_at``.
        where: A condition on the rows of ``changes``.
    """
    return f"""
    SELECT {", ".join(columns)} FROM (
        SELECT changes.*, changes.seen_at AS changed_at, newest.first_seen_at FROM changes
        JOIN (
            SELECT user_id, key, MAX(seq) AS seq, MIN(seen_at) AS first_seen_at FROM changes
            WHERE kind = :kind AND seen_at <= :as_of AND {_INGESTED} AND {where} GROUP BY user_id, key
        ) newest ON changes.kind = :kind AND newest.user_id = changes.user_id AND newest.key = changes.key
            AND newest.seq = changes.seq
        WHERE {where}
    ) last_change
    """


def items(table: str) -> str:
    """Select every item of a kind in some buckets, with its status and content at an instant.

    Parameters: ``kind``, ``as_of``, and the buckets ``low`` to ``high``: the content of millions of items does not fit
    into one join, and every user is in one bucket.
    """
    return f"""
    SELECT content.*, last_change.site AS thing_site, last_change.status AS thing_status, last_change.first_seen_at,
        last_change.changed_at, last_change.not_before, last_change.episode, last_change.episode_at, last_change.left_censored
    FROM {table} content
    JOIN (
        SELECT user_id, key, MAX(seq) AS seq FROM {table}
        WHERE seen_at <= :as_of AND {_INGESTED} AND {_WITHIN} GROUP BY user_id, key
    ) newest ON newest.user_id = content.user_id AND newest.key = content.key AND newest.seq = content.seq
    JOIN ({last_changes(where=_WITHIN)}) last_change ON last_change.user_id = content.user_id AND last_change.key = content.key
    WHERE content.{_WITHIN}
    ORDER BY content.user_id, last_change.first_seen_at, content.key
    """


# The ids and pages that every record had by an instant: where ids change, they lead from an id to its key.
RECORD_NAMES = f"""
SELECT user_id, key, record_id, site, href FROM records
WHERE seen_at <= :as_of AND {_INGESTED} ORDER BY seq, user_id, key
"""

# Users of the table `selected` who were never listed, and are in no delivery.
UNOBSERVED_USERS = f"""
SELECT user_id FROM selected
WHERE user_id NOT IN (SELECT user_id FROM people)
    AND user_id NOT IN (SELECT user_id FROM deliveries WHERE {_INGESTED})
ORDER BY user_id
"""

# Items that changed after one instant and until another, with their first and last status.
DIFF = f"""
SELECT last_row.kind, last_row.user_id, last_row.key, last_row.site, first_row.prev_status AS before,
    last_row.status AS after, first_row.left_censored, last_row.seen_at AS changed_at,
    last_row.not_before
FROM changes last_row
JOIN (
    SELECT changes.user_id, changes.key, changes.prev_status, changes.left_censored, in_between.last_seq
    FROM changes
    JOIN (
        SELECT user_id, key, MIN(seq) AS first_seq, MAX(seq) AS last_seq FROM changes
        WHERE kind = :kind AND seen_at > :after AND seen_at <= :until AND {_INGESTED} GROUP BY user_id, key
    ) in_between ON changes.kind = :kind AND in_between.user_id = changes.user_id
        AND in_between.key = changes.key AND in_between.first_seq = changes.seq
) first_row ON last_row.kind = :kind AND first_row.user_id = last_row.user_id AND first_row.key = last_row.key
    AND first_row.last_seq = last_row.seq
ORDER BY last_row.user_id, last_row.key
"""
ITEM_COUNT = f"""
SELECT COUNT(*) AS n FROM changes
WHERE kind = :kind AND prev_status IS NULL AND seen_at <= :as_of AND {_INGESTED}
"""

# Every change of the items that were ever relisted: opened again after they had been observed before.
RELISTED = f"""
SELECT step.kind, step.user_id, step.key, step.site, step.seen_at, step.seq, step.status, step.prev_status,
    step.episode, step.episode_at, step.not_before
FROM changes step
JOIN (
    SELECT DISTINCT user_id, key FROM changes
    WHERE kind = :kind AND prev_status IS NOT NULL AND episode_at = seen_at AND {is_open("status")} AND {_INGESTED}
) relisted ON relisted.user_id = step.user_id AND relisted.key = step.key
WHERE step.kind = :kind AND {_INGESTED}
ORDER BY step.user_id, step.key, step.seq
"""


def life_table(by: str | None) -> str:
    """Count episodes by age in days: how many entered observation, ended (and how), or are still open.

    ``flow`` is ``entered`` (the episode began), ``returned`` (its person is registered again, and it was open before), a
    status, or ``open``. Parameters: ``kind``, ``day`` (until its end).

    In days, an episode that began, left the scope and returned within one day looks like one that was closed and began
    again: both count as ``entered``, except left-censored episodes, which never begin again.
    """
    group = f"{by}, " if by else ""
    within = f"kind = :kind AND day <= :day AND opened_day IS NOT NULL AND {_INGESTED}"
    enters = f"{is_open('status')} AND {is_not_open('prev_status')}"
    leaves = f"{is_open('prev_status')} AND {is_not_open('status')}"
    flow = f"""CASE WHEN prev_status = '{UNKNOWN}' AND (day > opened_day OR left_censored) THEN 'returned'
        ELSE 'entered' END"""
    n = "CAST(SUM(n) AS BIGINT) AS n"
    return f"""
    SELECT {group}day - opened_day AS days, {flow} AS flow, left_censored, {n} FROM cube
    WHERE {within} AND {enters} GROUP BY {group}day - opened_day, {flow}, left_censored
    UNION ALL
    SELECT {group}day - opened_day AS days, status AS flow, left_censored, {n} FROM cube
    WHERE {within} AND {leaves} GROUP BY {group}day - opened_day, status, left_censored
    UNION ALL
    SELECT {group}:day - opened_day AS days, 'open' AS flow, left_censored,
        CAST(SUM(CASE WHEN {enters} THEN n ELSE -n END) AS BIGINT) AS n FROM cube
    WHERE {within} AND (({enters}) OR ({leaves})) GROUP BY {group}opened_day, left_censored
    HAVING SUM(CASE WHEN {enters} THEN n ELSE -n END) <> 0
    ORDER BY {group}days, flow, left_censored
    """


# Every query, and the tables that it reads.
CORE = {
    "runs": (RUNS, ("runs",)),
    "collection runs": (COLLECTION_RUNS, ("runs",)),
    "transitions by day": (transitions(()), ("cube",)),
    "transitions by run": (transitions((), table="changes", when="seen_at"), ("changes",)),
    "transitions by site": (transitions(("site",)), ("cube",)),
    "transitions by person": (transitions(("user_id",), table="changes"), ("changes",)),
    "transitions between instants": (transitions((), table="changes", when=""), ("changes",)),
    "items: records": (items("records"), ("changes", "records")),
    "items: links": (items("links"), ("changes", "links")),
    "items: alerts": (items("alerts"), ("changes", "alerts")),
    "last changes": (last_changes(), ("changes",)),
    "record names": (RECORD_NAMES, ("records",)),
    "diff": (DIFF, ("changes",)),
    "item count": (ITEM_COUNT, ("changes",)),
    "relisted": (RELISTED, ("changes",)),
    "life table": (life_table(None), ("cube",)),
    "life table by site": (life_table("site"), ("cube",)),
    "changes": (CHANGES, ("changes",)),
    "load_issues": (LOAD_ISSUES, ("load_issues",)),
    "deliveries": (DELIVERIES, ("deliveries",)),
    "people": (PEOPLE, ("people",)),
    "watched": (WATCHED, ("load_issues", "runs")),
    "annotations": (ANNOTATIONS, ("annotations",)),
}
