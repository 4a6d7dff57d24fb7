"""Several values are picked, each with its count; the browser receives positions only."""

import pytest

from exposurekit.widgets.multi_select import CHIPS_MAX, MultiSelect

OPTIONS = [("Seekfolk", "Seekfolk"), ("seven", 7), ("none", None)]


@pytest.fixture
def control():
    select = MultiSelect("Sites")
    select.offer(OPTIONS, [7], counts={7: 3}, classes={7: "removed"})
    return select


def test_options_have_counts_and_classes(control):
    assert control.items == [["Seekfolk", 0, ""], ["seven", 3, "removed"], ["none", 0, ""]]
    assert (control.index, control.value) == ([1], (7,))
    control.offer(OPTIONS)
    assert [count for _, count, _ in control.items] == [None] * 3
    assert control.value == ()


def test_positions_are_turned_into_values(control):
    picked = []
    control.observe(lambda change: picked.append(change["new"]), "value")
    control.index = [2, 0]
    assert picked == [(None, "Seekfolk")]
    control.value = (7,)
    assert control.index == [1]


@pytest.mark.parametrize("wrong", [[9], [-1], [0, 99]])
def test_unknown_positions_pick_nothing(control, wrong):
    control.index = wrong
    assert {*control.value} <= {"Seekfolk"}


def test_few_options_are_chips_and_many_a_list(control):
    assert not control.is_compact
    control.offer([(str(n), n) for n in range(CHIPS_MAX + 1)])
    assert control.is_compact


def test_picked_value_that_is_no_longer_offered_is_dropped(control):
    control.offer(OPTIONS[:1], [7, "Seekfolk"])
    assert control.value == ("Seekfolk",)
