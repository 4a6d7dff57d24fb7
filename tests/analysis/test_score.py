"""A score is the sum of its weights, and what moved it adds up to the difference."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exposurekit import analysis
from exposurekit.errors import InvalidArgument

STATUSES = ["discovered", "pending removal", "removed", "verifying", "vanished", "unknown"]
POINTS = {"discovered": 3, "pending removal": 2, "verifying": 3}


def records(*rows):
    return pd.DataFrame(rows, columns=["user_id", "status"]).astype({"user_id": "int64", "status": "str"})


def links(*people):
    return pd.DataFrame({"user_id": pd.array(people, "int64")})


def test_open_listings_and_pages_have_points_by_their_weights():
    scores = analysis.score(
        records((1, "discovered"), (1, "pending removal"), (2, "removed"), (2, "odd")), links(1, 3)
    )
    assert scores.to_dict("records") == [
        {"user_id": 1, "listings": 2, "pages": 1, "of_listings": 5.0, "of_pages": 1.0, "score": 6.0},
        {"user_id": 2, "listings": 1, "pages": 0, "of_listings": 3.0, "of_pages": 0.0, "score": 3.0},
        {"user_id": 3, "listings": 0, "pages": 1, "of_listings": 0.0, "of_pages": 1.0, "score": 1.0},
    ]


def test_weights_can_be_changed():
    scores = analysis.score(records((1, "discovered")), links(1, 1), weights={"page": 0.5, "discovered": 10})
    assert scores["score"].tolist() == [11.0]


def test_vanished_pages_have_no_points():
    pages = links(1, 1).assign(presence=["listed", "vanished"])
    assert analysis.score(records(), pages)["pages"].tolist() == [1]


@pytest.mark.parametrize(
    "weights", [{"removed": 1}, {"page": -1}, {"page": float("inf")}, {"page": float("nan")}]
)
def test_an_unknown_or_negative_weight_is_an_error(weights):
    with pytest.raises(InvalidArgument):
        analysis.score(records(), links(), weights=weights)


things = st.lists(
    st.tuples(st.one_of(st.none(), st.sampled_from(STATUSES)), st.sampled_from(STATUSES)), max_size=20
)


@settings(max_examples=30)
@given(things, things)
def test_the_causes_add_up_to_the_difference(of_records, of_links):
    moved = [analysis.diff(as_changed(rows)) for rows in (of_records, of_links)]
    before, after = (
        sum(points(row[side], page=False) for row in of_records)
        + sum(points(row[side], page=True) for row in of_links)
        for side in (0, 1)
    )
    causes = analysis.score_changes(*moved, score_before=before)
    assert causes["score"].iloc[-1] == pytest.approx(after)
    assert set(map(str, causes.dtypes[["points", "score"]])) == {"int64"}
    assert causes["cause"].tolist() == [
        *("score before", "new", "entered scope", "listed again", "removal failed", "status changed"),
        *("removed", "vanished", "left scope", "score after"),
    ]


def as_changed(rows):
    table = pd.DataFrame(rows, columns=["before", "after"]).astype("str")
    table["before"] = table["before"].where([row[0] is not None for row in rows])
    return table.assign(left_censored=False)


def points(status, *, page):
    is_open = status not in (None, "removed", "vanished", "unknown")
    return is_open * (1 if page else POINTS.get(status, 3))


def test_several_changes_of_one_item_count_as_one():
    moves = pd.DataFrame(
        {
            "user_id": [1, 1, 1],
            "key": [7, 7, 8],
            "before": [None, "discovered", "discovered"],
            "after": ["discovered", "removed", "removed"],
            "left_censored": False,
        }
    )
    table = analysis.score_changes(analysis.diff(moves), moves.head(0).assign(what=""), score_before=9)
    points = table.set_index("cause")["points"]
    assert (points["new"], points["removed"]) == (0, -3)
    assert table["score"].iloc[-1] == 6


@given(things, st.integers(0, 5))
def test_a_row_stands_for_n_items(rows, n):
    moved = analysis.diff(as_changed(rows))
    nothing = moved.head(0)
    table = analysis.score_changes(moved.assign(n=n), nothing, score_before=0)
    single = analysis.score_changes(pd.concat([nothing, *[moved] * n]), nothing, score_before=0)
    pd.testing.assert_frame_equal(table, single)
