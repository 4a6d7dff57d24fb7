"""What every question guarantees: missing columns are named, empty tables have the same columns, no table is changed."""

import re
from functools import partial

import pandas as pd
import pytest
from support.chart_tables import (
    FILLED,
    NOW,
    declared,
    findings,
    flows,
    moved,
    people,
    records,
    relistings,
    requests,
    steps,
    timed,
    transitions,
)
from support.tables import shape

from exposurekit import analysis, frames
from exposurekit.errors import ExposureError, InvalidArgument, MissingColumns

INSTANT = "datetime64[us, UTC]"
RUNS = pd.DataFrame({"at": transitions()["at"], "people": 3, "unseen": [0, 1, 0]})
WAITING = "user_id site status user_fields_required_for_removal"
LINKS = pd.DataFrame({"contains": [["email", "phone"], [], None], "user_id": [1, 2, 3]})
CHANGED = pd.DataFrame({"before": [None, "discovered"], "after": ["discovered", "removed"]})
CHANGED = CHANGED.astype("str").assign(left_censored=False)
CHANGES = pd.DataFrame(
    {"kind": "record", "user_id": 1, "key": 7, "site": "Near", "seen_at": transitions()["at"]}
).assign(status=["discovered", "removed", "discovered"], prev_status=[None, "discovered", "removed"])
CHANGES = CHANGES.assign(episode=[1, 1, 2], seen_at=CHANGES["seen_at"].astype(INSTANT))
OF_FLOWS = "days flow left_censored n"
# Each question: the function, its tables, and the columns that each table must have.
QUESTIONS = {
    "by_site": (analysis.by_site, [records()], ["site status user_id"]),
    "by_user": (analysis.by_user, [records()], ["site status user_id"]),
    "user_by_site": (analysis.user_by_site, [records()], ["site status user_id"]),
    "by_state": (analysis.by_state, [records()], ["locations status user_id"]),
    "by_kind": (analysis.by_kind, [LINKS], ["contains user_id"]),
    "score": (analysis.score, [records(), FILLED], ["user_id status", "user_id"]),
    "score_changes": (
        partial(analysis.score_changes, score_before=9),
        [moved(), moved()],
        ["before after what"] * 2,
    ),
    "blockers": (analysis.blockers, [records(), FILLED], [WAITING, "user_id field"]),
    "best_next_fields": (analysis.best_next_fields, [records(), FILLED], [WAITING, "user_id field"]),
    "work_queue": (
        analysis.work_queue,
        [steps()],
        ["user_id alert_number step_number record_id site status url"],
    ),
    "precision": (analysis.precision, [records()], ["site label"]),
    "coverage": (partial(analysis.coverage, at=NOW), [people()], ["listed last_complete_at outcome"]),
    "site_health": (
        partial(analysis.site_health, at=NOW),
        [records()],
        ["site status first_seen_at changed_at"],
    ),
    "status_over_time": (
        partial(analysis.status_over_time, by="site"),
        [transitions(), RUNS],
        ["at prev_status status n site", "at people unseen"],
    ),
    "counts": (analysis.counts, [transitions()], ["site prev_status status n"]),
    "changes": (
        lambda table: analysis.changes(table, NOW - pd.Timedelta(days=60), NOW, open_before=3),
        [transitions()],
        ["at prev_status status left_censored n"],
    ),
    "diff": (analysis.diff, [CHANGED], ["before after left_censored"]),
    "diff_counts": (lambda table: analysis.diff_counts(table, 0), [analysis.diff(CHANGED)], ["before what"]),
    "survival": (analysis.survival, [flows()], [OF_FLOWS]),
    "time_to_removal": (analysis.time_to_removal, [flows()], [f"{OF_FLOWS} site"]),
    "step_minutes": (analysis.step_minutes, [timed()], ["site minutes marked_at"]),
    "missed": (analysis.missed, [*findings()], ["user_id href", "user_id url"]),
    "declared_vs_observed": (
        analysis.declared_vs_observed,
        [requests(), declared()],
        [
            "site requested_after requested_at ended_after ended_at end observed_until",
            "site declared_days",
        ],
    ),
    "site_outcomes": (
        partial(analysis.site_outcomes, at=NOW),
        [
            records(),
            requests(),
            relistings().assign(user_id=1, key=range(len(relistings())), status="discovered"),
            declared(),
        ],
        [
            "user_id site status changed_at",
            "site requested_after requested_at ended_after ended_at end observed_until",
            "user_id key site status",
            "site declared_days",
        ],
    ),
    "stale": (
        partial(analysis.stale, since=NOW),
        [people().assign(user_id=[1, 2, 3], reason="no response")],
        ["user_id listed last_complete_at outcome reason"],
    ),
    "relistings": (
        analysis.relistings,
        [CHANGES],
        ["kind user_id key site seen_at status prev_status episode"],
    ),
    "failed_removals": (
        partial(analysis.failed_removals, at=NOW),
        [
            transitions(),
            records(),
            relistings().assign(user_id=1, key=range(len(relistings())), status="discovered"),
        ],
        ["site prev_status status n", "site status changed_at", "site user_id key status"],
    ),
    "forecast": (
        partial(analysis.forecast, at=NOW),
        [records().assign(episode=1, left_censored=False), flows(), relistings()],
        [
            "user_id status first_seen_at changed_at episode left_censored",
            OF_FLOWS,
            "removed_at listed_again_at gone_days",
        ],
    ),
}
each = pytest.mark.parametrize("name", QUESTIONS)


def test_no_question_is_omitted():
    functions = {name for name in analysis.__all__ if callable(getattr(analysis, name))}
    assert functions - {*QUESTIONS} == {*("is_open", "on_file", "diff_by_site", "plan", "minutes_spent")}


@each
def test_missing_columns_are_named(name):
    question, tables, required = QUESTIONS[name]
    for index, columns in enumerate(words.split() for words in required):
        for missing in (columns, *([column] for column in columns)):
            lacking = [*tables]
            lacking[index] = tables[index].drop(columns=missing)
            with pytest.raises(MissingColumns) as refusal:
                question(*lacking)
            assert isinstance(refusal.value, ExposureError)
            assert refusal.value.missing == tuple(missing)
            noun, pronoun = ("column", "it") if len(missing) == 1 else ("columns", "them")
            message = f" needs the {noun} {', '.join(missing)}, and the table lacks {pronoun}"
            assert re.fullmatch(rf"{name}(, table \w+,)?{message}", str(refusal.value))


@pytest.mark.parametrize("kind", ["str", "float64"])
@each
def test_user_ids_of_another_type_are_refused(name, kind):
    question, tables, required = QUESTIONS[name]
    for index, columns in enumerate(required):
        if "user_id" in columns.split():
            other = [*tables]
            other[index] = tables[index].assign(user_id=tables[index]["user_id"].astype(kind))
            with pytest.raises(InvalidArgument, match=r"astype\({'user_id': 'int64'}\)"):
                question(*other)


@each
def test_empty_tables_give_the_same_columns(name):
    question, tables, _ = QUESTIONS[name]
    expected = shape(question(*tables))
    typed = [table.head(0) for table in tables]
    for empty in (typed, [pd.DataFrame(columns=table.columns, dtype="object") for table in tables]):
        answer = shape(question(*empty))
        assert {*answer} <= {*expected}
        if name != "diff":  # it passes on the columns of its table
            assert answer.items() <= expected.items()


def test_an_empty_table_of_a_service_gives_the_same_columns():
    for name, table in (("records", "by_site by_user user_by_site by_state"), ("links", "by_kind")):
        for question in table.split():
            function, tables, _ = QUESTIONS[question]
            answer = function(frames.frame(name, []))
            assert shape(answer).items() <= shape(function(*tables)).items()
            assert answer.empty


@each
def test_tables_are_not_changed_and_index_and_dtypes_are_ignored(name):
    question, tables, _ = QUESTIONS[name]
    before = [table.copy(deep=True) for table in tables]
    expected = question(*tables)
    other = [table.set_index(pd.Index([7] * len(table))) for table in tables]
    if name != "diff":  # its rows keep their order
        other = [table[::-1] for table in other]
    for dtype in (None, "category", "object"):
        recast = [table.astype(dict.fromkeys(texts(table), dtype)) if dtype else table for table in other]
        answer = question(*recast)
        if name.startswith("diff"):
            answer = answer.reset_index(drop=True).astype(expected.dtypes)
        pd.testing.assert_frame_equal(answer, expected)
    for table, copy in zip(tables, before, strict=True):
        pd.testing.assert_frame_equal(table, copy)


def texts(table):
    return [name for name in table if pd.api.types.is_string_dtype(table[name])]
