"""The questions, as plain ANSI SQL that any engine runs over the same files. Asks nobody, and computes nothing else.

Parameters stand as ``:name``; ``upto`` is the newest run that counts, one that has its row in ``runs``: rows of one that
is only half taken in bear a greater number. Joins name the larger side first: DuckDB cannot know how large files are. A day is a number, days since 1970-01-01 UTC: no engine's time zone can move it.
"""

from collections.abc import Collection, Iterable

from exposurekit.analysis import NOT_OPEN, UNKNOWN

_TAKEN_IN = "seq <= :upto"
BY_PERSON = ("user_id", "first_seen_at", "key")  # how things are ordered
_WITHIN = "bucket BETWEEN :low AND :high"
_NOT_OPEN = ", ".join(f"'{status}'" for status in NOT_OPEN)


def is_open(column: str) -> str:
    """SQL: whether a status is open, as `analysis.is_open` says; a missing one is not.

    >>> from exposurekit.history.queries import is_open
    >>> is_open("status")
    "(status IS NOT NULL AND status NOT IN ('removed', 'vanished', 'unknown'))"
    """
    return f"({column} IS NOT NULL AND {column} NOT IN ({_NOT_OPEN}))"


def is_not_open(column: str) -> str:
    """SQL: the rest, missing statuses among them.

    >>> from exposurekit.history.queries import is_not_open
    >>> is_not_open("status")
    "(status IS NULL OR status IN ('removed', 'vanished', 'unknown'))"
    """
    return f"({column} IS NULL OR {column} IN ({_NOT_OPEN}))"


RUNS = f"SELECT * FROM runs WHERE {_TAKEN_IN} ORDER BY seq"
EXCEPTIONS = f"SELECT * FROM exceptions WHERE {_TAKEN_IN} ORDER BY seq, user_id, what"
DELIVERIES = f"SELECT * FROM deliveries WHERE {_TAKEN_IN} ORDER BY seq, seen_at"
PEOPLE = "SELECT * FROM people ORDER BY user_id"
# Who was listed at an instant, and since when; missing where the first load of them failed. Parameters: `as_of`.
WATCHED = """
SELECT user_id, MIN(watched_from) AS watched_from FROM (
    SELECT user_id, seq, MAX(CASE WHEN what = 'registered' THEN seq END) AS came,
        MAX(CASE WHEN what = 'unlisted' THEN seq END) AS went,
        CASE WHEN MAX(CASE WHEN what = 'registered' THEN 1 ELSE 0 END) = 1
            AND MAX(CASE WHEN what = 'failed' THEN 1 ELSE 0 END) = 0 THEN MIN(run_at) END AS watched_from
    FROM (
        SELECT exceptions.user_id, exceptions.seq, exceptions.what, runs.finished_at AS run_at FROM exceptions
        JOIN runs ON runs.seq = exceptions.seq
        WHERE runs.finished_at <= :as_of AND exceptions.seq <= :upto
            AND what IN ('registered', 'unlisted', 'failed')
    ) events GROUP BY user_id, seq
) of_runs
GROUP BY user_id HAVING MAX(came) IS NOT NULL AND MAX(came) > COALESCE(MAX(went), -1)
ORDER BY user_id
"""
MARKS = "SELECT * FROM marks ORDER BY marked_at"
CHANGES = f"""
SELECT seq, seen_at, day, kind, user_id, key, site, status, prev_status, episode, episode_at, open_s, not_before,
    left_censored
FROM changes WHERE {_TAKEN_IN} ORDER BY seq, kind, user_id, key
"""
# Somebody of whom the list did not tell was to be seen, too, until a second list says that they are gone.
LOOKS = f"""
SELECT finished_at AS at, listed + missed + absent AS people, listed + missed + absent - whole AS unseen
FROM runs WHERE origin = 'look' AND scope = 'everyone' AND {_TAKEN_IN} ORDER BY seq
"""


def transitions(
    by: tuple[str, ...], *, table: str = "cube", when: str = "day", buckets: Collection[int] = ()
) -> str:
    """How many things went from which status to which, and when.

    Args:
        by: Columns to keep apart beside the statuses.
        table: ``cube``, or ``changes`` where the sums do not tell: by person, by instant, or between two instants.
        when: ``day`` or ``seen_at``; empty: all together.
        buckets: Only the people of the table ``asked``, who lie in these buckets.

    Parameters: ``kind``, ``after`` and ``until``: instants (of ``changes``) or days (of the ``cube``).
    """
    columns = ", ".join((*([when] if when else []), *by, "prev_status", "status", "left_censored"))
    n = "SUM(n)" if table == "cube" else "COUNT(*)"
    instant = "day" if table == "cube" else "seen_at"
    within = ", ".join(map(str, sorted(buckets)))
    people = f"AND bucket IN ({within}) AND user_id IN (SELECT user_id FROM asked)" if buckets else ""
    return f"""
    SELECT {columns}, CAST({n} AS BIGINT) AS n FROM {table}
    WHERE kind = :kind AND {instant} > :after AND {instant} <= :until AND {_TAKEN_IN} {people}
    GROUP BY {columns}
    """


def stood(columns: Iterable[str] = ("*",), where: str = "TRUE") -> str:
    """Every thing as it stood at an instant, without what it said. Parameters: ``kind``, ``as_of``.

    Args:
        columns: Of ``changes``, and ``first_seen_at``, ``changed_at``.
        where: Which rows of ``changes`` are looked at.
    """
    return f"""
    SELECT {", ".join(columns)} FROM (
        SELECT changes.*, changes.seen_at AS changed_at, newest.first_seen_at FROM changes
        JOIN (
            SELECT user_id, key, MAX(seq) AS seq, MIN(seen_at) AS first_seen_at FROM changes
            WHERE kind = :kind AND seen_at <= :as_of AND {_TAKEN_IN} AND {where} GROUP BY user_id, key
        ) newest ON changes.kind = :kind AND newest.user_id = changes.user_id AND newest.key = changes.key
            AND newest.seq = changes.seq
        WHERE {where}
    ) stood
    """


def things(content: str) -> str:
    """Every thing of a kind as it stood at an instant, with what it said by then: those of some buckets.

    Parameters: ``kind``, ``as_of``, and the buckets ``low`` to ``high``. What millions of things said is more than
    is joined at once, and nobody lies in two buckets.
    """
    return f"""
    SELECT said.*, stood.site AS thing_site, stood.status AS thing_status, stood.first_seen_at,
        stood.changed_at, stood.not_before, stood.episode, stood.episode_at, stood.left_censored
    FROM {content} said
    JOIN (
        SELECT user_id, key, MAX(seq) AS seq FROM {content}
        WHERE seen_at <= :as_of AND {_TAKEN_IN} AND {_WITHIN} GROUP BY user_id, key
    ) told ON told.user_id = said.user_id AND told.key = said.key AND told.seq = said.seq
    JOIN ({stood(where=_WITHIN)}) stood ON stood.user_id = said.user_id AND stood.key = said.key
    WHERE said.{_WITHIN}
    ORDER BY said.user_id, stood.first_seen_at, said.key
    """


# What every record was called by then: where ids change, this leads from an id to its key.
NAMED = f"""
SELECT user_id, key, record_id, site, href FROM records
WHERE seen_at <= :as_of AND {_TAKEN_IN} ORDER BY seq, user_id, key
"""

# Who of the table `asked` was never listed, nor told of.
STRANGERS = f"""
SELECT user_id FROM asked
WHERE user_id NOT IN (SELECT user_id FROM people)
    AND user_id NOT IN (SELECT user_id FROM deliveries WHERE {_TAKEN_IN})
ORDER BY user_id
"""

# Things that changed after one instant and until another: what they were, and what they came to be.
DIFF = f"""
SELECT last_row.kind, last_row.user_id, last_row.key, last_row.site, first_row.prev_status AS before,
    last_row.status AS after, first_row.left_censored, last_row.seen_at AS changed_at,
    last_row.not_before
FROM changes last_row
JOIN (
    SELECT changes.user_id, changes.key, changes.prev_status, changes.left_censored, between_them.last_seq
    FROM changes
    JOIN (
        SELECT user_id, key, MIN(seq) AS first_seq, MAX(seq) AS last_seq FROM changes
        WHERE kind = :kind AND seen_at > :after AND seen_at <= :until AND {_TAKEN_IN} GROUP BY user_id, key
    ) between_them ON changes.kind = :kind AND between_them.user_id = changes.user_id
        AND between_them.key = changes.key AND between_them.first_seq = changes.seq
) first_row ON last_row.kind = :kind AND first_row.user_id = last_row.user_id AND first_row.key = last_row.key
    AND first_row.last_seq = last_row.seq
ORDER BY last_row.user_id, last_row.key
"""
KNOWN = f"""
SELECT COUNT(*) AS n FROM changes
WHERE kind = :kind AND prev_status IS NULL AND seen_at <= :as_of AND {_TAKEN_IN}
"""

# Every change of the things that were ever listed again: that began to be open when they were known already.
LISTED_AGAIN = f"""
SELECT step_of.kind, step_of.user_id, step_of.key, step_of.site, step_of.seen_at, step_of.seq, step_of.status, step_of.prev_status,
    step_of.episode, step_of.episode_at, step_of.not_before
FROM changes step_of
JOIN (
    SELECT DISTINCT user_id, key FROM changes
    WHERE kind = :kind AND prev_status IS NOT NULL AND episode_at = seen_at AND {is_open("status")} AND {_TAKEN_IN}
) again ON again.user_id = step_of.user_id AND again.key = step_of.key
WHERE step_of.kind = :kind AND {_TAKEN_IN}
ORDER BY step_of.user_id, step_of.key, step_of.seq
"""


def life_table(by: str | None) -> str:
    """Episodes by their age in days: how many began to be watched, ended (and how), or are open still.

    ``flow`` is ``entered`` (it began), ``returned`` (its person came back into view, and it was open before), a status,
    or ``open``. Parameters: ``kind``, ``day`` (until its end).

    What began, went out of view and came back within one day looks, in days, like what was closed when it went out of
    view and began anew when it came back: both count as ``entered``, but for the left-censored, which never begin anew.
    """
    group = f"{by}, " if by else ""
    within = f"kind = :kind AND day <= :day AND opened_day IS NOT NULL AND {_TAKEN_IN}"
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


# Every question, and the tables that it reads.
CORE = {
    "runs": (RUNS, ("runs",)),
    "looks": (LOOKS, ("runs",)),
    "transitions by day": (transitions(()), ("cube",)),
    "transitions by run": (transitions((), table="changes", when="seen_at"), ("changes",)),
    "transitions by site": (transitions(("site",)), ("cube",)),
    "transitions by person": (transitions(("user_id",), table="changes"), ("changes",)),
    "transitions between instants": (transitions((), table="changes", when=""), ("changes",)),
    "things: records": (things("records"), ("changes", "records")),
    "things: links": (things("links"), ("changes", "links")),
    "things: alerts": (things("alerts"), ("changes", "alerts")),
    "stood": (stood(), ("changes",)),
    "named": (NAMED, ("records",)),
    "diff": (DIFF, ("changes",)),
    "known": (KNOWN, ("changes",)),
    "listed again": (LISTED_AGAIN, ("changes",)),
    "life table": (life_table(None), ("cube",)),
    "life table by site": (life_table("site"), ("cube",)),
    "changes": (CHANGES, ("changes",)),
    "exceptions": (EXCEPTIONS, ("exceptions",)),
    "deliveries": (DELIVERIES, ("deliveries",)),
    "people": (PEOPLE, ("people",)),
    "watched": (WATCHED, ("exceptions", "runs")),
    "marks": (MARKS, ("marks",)),
}
