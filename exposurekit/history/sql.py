"""The queries of a history, as ANSI SQL that DuckDB and Spark both run.

Parameters are written ``:name``; ``upto`` is the newest run with a row in ``runs``: rows of a run that is only half
ingested have a greater number. Joins name the larger side first: DuckDB does not know file sizes in advance. A day is
the number of days since 1970-01-01 UTC, so that no engine's time zone can shift it.
"""

from collections.abc import Collection, Iterable, Sequence

from exposurekit.analysis import NOT_OPEN, UNKNOWN, VANISHED
from exposurekit.contract.types import PENDING_REMOVAL, REMOVED
from exposurekit.history.engines.base import text_literal
from exposurekit.history.storage.schema import SHARED, within_buckets

_INGESTED = "seq <= :upto"
ITEM_ORDER = ("user_id", "first_seen_at", "key")
_WITHIN = within_buckets(":low", ":high")
_NOT_OPEN = ", ".join(f"'{status}'" for status in NOT_OPEN)


def is_open(column: str) -> str:
    """Return SQL for `analysis.is_open`; a history has no status only of what was not observed, which is not open."""
    return f"({column} IS NOT NULL AND {column} NOT IN ({_NOT_OPEN}))"


def is_not_open(column: str) -> str:
    """Return SQL for the opposite: a missing status is not open."""
    return f"({column} IS NULL OR {column} IN ({_NOT_OPEN}))"


RUNS = f"SELECT * FROM runs WHERE {_INGESTED} ORDER BY seq"
LOAD_ISSUES = f"SELECT * FROM load_issues WHERE {_INGESTED} ORDER BY seq, user_id, what"
DELIVERIES = (
    f"SELECT * FROM deliveries WHERE {_INGESTED} ORDER BY seq, seen_at, user_id"  # a run has one of each user
)
PEOPLE = "SELECT * FROM people ORDER BY user_id"
REGISTERED = "SELECT CAST(COUNT(*) AS BIGINT) AS n FROM people WHERE listed"
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
ANNOTATIONS = """
SELECT * FROM annotations
ORDER BY marked_at, user_id, kind, key, mark, step NULLS FIRST, value NULLS FIRST, note NULLS FIRST
"""
CHANGES = f"""
SELECT seq, seen_at, day, kind, user_id, key, site, status, prev_status, episode, episode_at, open_s, not_before,
    left_censored
FROM changes WHERE {_INGESTED} ORDER BY seq, kind, user_id, key
"""
# A user who is missing from one list still counts until a second list confirms it.
COLLECTION_RUNS = f"""
SELECT finished_at AS at, listed + missed + absent AS people, listed + missed + absent - whole AS unseen
FROM runs WHERE origin = 'collect' AND scope = 'everyone' AND {_INGESTED} ORDER BY seq
"""
# The same of the users of the table `selected`: how many of them each run had to load, and did not load completely.
COLLECTION_RUNS_OF_USERS = """
SELECT finished_at AS at, CAST(SUM(listed) AS BIGINT) AS people, CAST(SUM(listed * incomplete) AS BIGINT) AS unseen
FROM (
    SELECT seq, finished_at, incomplete,
        CASE WHEN came > COALESCE(went, -1) OR missed = 1 THEN 1 ELSE 0 END AS listed
    FROM (
        SELECT runs.seq, runs.finished_at, selected.user_id,
            MAX(CASE WHEN what = 'registered' THEN load_issues.seq END) AS came,
            MAX(CASE WHEN what = 'unlisted' THEN load_issues.seq END) AS went,
            MAX(CASE WHEN what = 'missed' AND load_issues.seq = runs.seq THEN 1 ELSE 0 END) AS missed,
            MAX(CASE WHEN what IN ('failed', 'partial', 'missed', 'absent', 'late') AND load_issues.seq = runs.seq
                THEN 1 ELSE 0 END) AS incomplete
        FROM runs CROSS JOIN selected
        LEFT JOIN load_issues ON load_issues.user_id = selected.user_id AND load_issues.seq <= runs.seq
        WHERE runs.origin = 'collect' AND runs.scope = 'everyone' AND runs.seq <= :upto
        GROUP BY runs.seq, runs.finished_at, selected.user_id
    ) events
) of_runs
GROUP BY seq, finished_at ORDER BY seq
"""


def transitions(
    by: tuple[str, ...], *, table: str = "cube", when: str = "day", buckets: Collection[int] = ()
) -> str:
    """Count transitions of items between statuses, as `HistoryReader.transitions` does.

    From the ``cube``; or from ``changes`` where the daily sums do not suffice: by person, by instant, or between instants.
    With ``buckets``, only the users of the table ``selected``, who are in these. Parameters: ``kind``, ``after`` and
    ``until``: instants (of ``changes``) or days (of the ``cube``).
    """
    columns = ", ".join((*([when] if when else []), *by, "prev_status", "status", "left_censored"))
    n = "SUM(n)" if table == "cube" else "COUNT(*)"
    instant = "day" if table == "cube" else "seen_at"
    within = ", ".join(map(str, sorted(buckets)))
    people = (
        f"AND bucket IN ({SHARED}, {within}) AND user_id IN (SELECT user_id FROM selected)" if buckets else ""
    )
    return f"""
    SELECT {columns}, CAST({n} AS BIGINT) AS n FROM {table}
    WHERE kind = :kind AND {instant} > :after AND {instant} <= :until AND {_INGESTED} {people}
    GROUP BY {columns}
    """


# The statuses that the items of a kind ever had, as the cube sums them.
STATUSES = f"SELECT DISTINCT status FROM cube WHERE kind = :kind AND {_INGESTED} ORDER BY status"


def _selected(keys: Sequence[str], table: str = "") -> str:
    """Select the rows with a key in the table `selected`, if there are columns of keys."""
    columns = ", ".join(f"{table}.{name}" if table else name for name in keys)
    return f"({columns}) IN (SELECT {', '.join(keys)} FROM selected)" if keys else "TRUE"


def last_changes(
    statuses: Sequence[str],
    columns: Iterable[str] = ("*",),
    *,
    by_bucket: bool = False,
    keys: Sequence[str] = (),
) -> str:
    """Select the state of every item at an instant, without its content. Parameters: ``kind``, ``as_of``.

    With ``by_bucket``, those in the buckets ``low`` to ``high``; with ``keys``, those of the table `selected`. With ``statuses``, all of `STATUSES`, a status is its
    number among them while the log is grouped: groups of millions of texts take twice as long. The instants and numbers of
    an item never decrease from change to change, and once it is not left-censored it stays so: the last ones are the
    greatest, and the log is read once.
    """
    within = within_buckets(":low", ":high") if by_bucket else "TRUE"
    grouped, status = "status", "last_status"
    if statuses:
        pairs = [(number, text_literal(text)) for number, text in enumerate(statuses)]
        grouped = f"CASE status{''.join(f' WHEN {text} THEN {number}' for number, text in pairs)} END"
        status = f"CASE last_status{''.join(f' WHEN {number} THEN {text}' for number, text in pairs)} END"
    return f"""
    SELECT {", ".join(columns)} FROM (
        SELECT grouped.*, {status} AS status FROM (
            SELECT user_id, key, MAX(site) AS site, MAX_BY({grouped}, seq) AS last_status,
                MIN(seen_at) AS first_seen_at, MAX(seen_at) AS changed_at, MAX(not_before) AS not_before,
                MAX(episode) AS episode, MIN(left_censored) AS left_censored
            FROM changes WHERE kind = :kind AND seen_at <= :as_of AND {_INGESTED} AND {within} AND {_selected(keys)}
            GROUP BY user_id, key
        ) grouped
    ) last_change
    """


def items(
    table: str,
    statuses: Sequence[str],
    columns: Iterable[str] = ("content.*",),
    *,
    keys: Sequence[str] = (),
) -> str:
    """Select every item of a kind in some buckets, with its status and content at an instant, in no order.

    ``columns`` are those of ``content`` and of ``item``, its last change; ``statuses`` and ``keys`` are as in `last_changes`.
    Parameters: ``kind``, ``as_of``, and the buckets ``low`` to ``high``: the content of millions of items does not fit into one join,
    and every user is in one bucket.
    """
    observed = f"seen_at <= :as_of AND {_INGESTED}"
    # Most content never changes: to look up only what did is cheaper than to join every item with its newest content.
    return f"""
    SELECT {", ".join(columns)}, item.status AS thing_status, item.first_seen_at, item.changed_at, item.not_before,
        item.episode, item.left_censored
    FROM {table} content
    JOIN (
        SELECT last_change.*, renewed.seq AS content_seq FROM (
            {last_changes(statuses, by_bucket=True, keys=keys)}
        ) last_change
        LEFT JOIN (
            SELECT user_id, key, MAX(seq) AS seq FROM {table}
            WHERE {observed} AND {_WITHIN} AND {_selected(keys)} GROUP BY user_id, key HAVING COUNT(*) > 1
        ) renewed ON renewed.user_id = last_change.user_id AND renewed.key = last_change.key
    ) item ON item.user_id = content.user_id AND item.key = content.key
        AND COALESCE(item.content_seq, content.seq) = content.seq
    WHERE content.seen_at <= :as_of AND content.seq <= :upto AND {within_buckets(":low", ":high", "content")}
        AND {_selected(keys, "content")}
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

# The changes of items after one instant and until another, in no order.
_BETWEEN = f"kind = :kind AND seen_at > :after AND seen_at <= :until AND {_INGESTED}"
DIFF = f"""
SELECT kind, user_id, key, site, prev_status AS before, status AS after, left_censored, seen_at AS changed_at, not_before,
    seq
FROM changes WHERE {_BETWEEN}
"""

# How many items went from which status to which between two instants: from before the first change that counts in
# `analysis.diff` to after the last one. DuckDB's MIN_BY skips nulls.
NET_DIFF = f"""
SELECT before, after, left_censored, CAST(COUNT(*) AS BIGINT) AS n FROM (
    SELECT CASE WHEN NOT MIN_BY(prev_status IS NULL, seq) THEN MIN_BY(COALESCE(prev_status, ''), seq) END AS before,
        MAX_BY(status, seq) AS after, MIN_BY(left_censored, seq) AS left_censored
    FROM changes WHERE {_BETWEEN} AND (
        {is_open("prev_status")} OR {is_open("status")} OR (prev_status = '{VANISHED}' AND status = '{REMOVED}')
        OR (prev_status IS NULL AND NOT left_censored AND status <> '{UNKNOWN}')
    ) GROUP BY user_id, key
) item
GROUP BY before, after, left_censored
"""

# Every change of the items that were ever relisted: opened again after they had been observed before.
RELISTED = f"""
SELECT step.kind, step.user_id, step.key, step.site, step.seen_at, step.seq, step.status, step.prev_status,
    step.episode, step.episode_at, step.not_before, step.left_censored
FROM changes step
JOIN (
    SELECT DISTINCT user_id, key FROM changes
    WHERE kind = :kind AND prev_status IS NOT NULL AND episode_at = seen_at AND {is_open("status")} AND {_INGESTED}
) relisted ON relisted.user_id = step.user_id AND relisted.key = step.key
WHERE step.kind = :kind AND {_INGESTED}
ORDER BY step.user_id, step.key, step.seq
"""

# The removal requests until an instant. A record that was removed between two runs was requested between them, too. Only
# a first observation has no `prev_status`: most records have no other, and what follows a request is never one.
# Parameters: `kind`, `as_of`.
_NEXT = "OVER (PARTITION BY user_id, key ORDER BY seq)"
REMOVAL_REQUESTS = f"""
SELECT user_id, key, site, seen_at, not_before, prev_status, status, next_status, next_at, next_after FROM (
    SELECT changes.*, LEAD(status) {_NEXT} AS next_status, LEAD(seen_at) {_NEXT} AS next_at,
        LEAD(not_before) {_NEXT} AS next_after
    FROM changes WHERE kind = :kind AND seen_at <= :as_of AND {_INGESTED} AND (
        prev_status IS NOT NULL OR status = '{PENDING_REMOVAL}' OR (status = '{REMOVED}' AND NOT left_censored)
    )
) step
WHERE status = '{PENDING_REMOVAL}' OR (status = '{REMOVED}' AND (
    (prev_status IS NULL AND NOT left_censored) OR ({is_open("prev_status")} AND prev_status <> '{PENDING_REMOVAL}')
))
ORDER BY user_id, key, seq
"""

# The minutes of each timed step, oldest first.
TIMED_STEPS = """
SELECT user_id, note AS site, kind, key, step AS step_number, CAST(value AS DOUBLE) AS minutes, marked_at FROM annotations
WHERE mark = 'minutes' ORDER BY marked_at, user_id, kind, key, step_number
"""

# The days that sites declare, oldest first.
DECLARED_DAYS = """
SELECT declared_at, site, days AS declared_days, source FROM declared_days
ORDER BY declared_at, site, days NULLS FIRST, source NULLS FIRST
"""


def life_table() -> str:
    """Count episodes per site by age in days: how many entered observation, ended (and how), or are still open.

    ``flow`` is ``entered`` (the episode began, on ``entry_day``), ``returned`` (its person is registered again, and it
    was open before; or its removal is verified after it had vanished), a status, ``first_removed`` (it was removed when
    it was first observed), or ``open``. Parameters: ``kind``, ``day`` (until its end).

    In days, an episode that began, left the scope and returned within one day looks like one that was closed and began
    again: both count as ``entered``, except left-censored episodes, which never begin again.
    """
    within = f"kind = :kind AND day <= :day AND opened_day IS NOT NULL AND {_INGESTED}"
    enters = f"{is_open('status')} AND {is_not_open('prev_status')}"
    leaves = f"{is_open('prev_status')} AND {is_not_open('status')}"
    # Not followed while it had vanished, and removed all the same: it returns, and is removed, at one age.
    verified = f"prev_status = '{VANISHED}' AND status = '{REMOVED}'"
    flow = f"""CASE WHEN prev_status = '{UNKNOWN}' AND (day > opened_day OR left_censored) THEN 'returned'
        ELSE 'entered' END"""
    entry_day = "CASE WHEN left_censored THEN NULL ELSE day END"
    # Removed before the first observation, after the run before.
    unobserved = f"""kind = :kind AND day <= :day AND opened_day IS NULL AND {_INGESTED} AND prev_status IS NULL
        AND status = '{REMOVED}' AND NOT left_censored"""
    no_day, n = "CAST(NULL AS INTEGER) AS entry_day", "CAST(SUM(n) AS BIGINT) AS n"
    return f"""
    SELECT site, day - opened_day AS days, {flow} AS flow, left_censored, {entry_day} AS entry_day, {n} FROM cube
    WHERE {within} AND {enters} GROUP BY site, day - opened_day, {flow}, left_censored, {entry_day}
    UNION ALL
    SELECT site, 0 AS days, 'entered' AS flow, left_censored, day AS entry_day, {n} FROM cube
    WHERE {unobserved} GROUP BY site, left_censored, day
    UNION ALL
    SELECT site, 0 AS days, 'first_removed' AS flow, left_censored, {no_day}, {n} FROM cube
    WHERE {unobserved} GROUP BY site, left_censored
    UNION ALL
    SELECT site, day - opened_day AS days, 'returned' AS flow, left_censored, {no_day}, {n} FROM cube
    WHERE {within} AND {verified} GROUP BY site, day - opened_day, left_censored
    UNION ALL
    SELECT site, day - opened_day AS days, status AS flow, left_censored, {no_day}, {n} FROM cube
    WHERE {within} AND (({leaves}) OR ({verified})) GROUP BY site, day - opened_day, status, left_censored
    UNION ALL
    SELECT site, :day - opened_day AS days, 'open' AS flow, left_censored, {no_day},
        CAST(SUM(CASE WHEN {enters} THEN n ELSE -n END) AS BIGINT) AS n FROM cube
    WHERE {within} AND (({enters}) OR ({leaves})) GROUP BY site, opened_day, left_censored
    HAVING SUM(CASE WHEN {enters} THEN n ELSE -n END) <> 0
    ORDER BY site, days, flow, left_censored, entry_day NULLS FIRST
    """
