"""A limit on memory: who holds most makes way."""

import pytest

from exposurekit.system.memory_budget import MemoryBudget, MemoryBudgetExceeded


class Ended(list):
    """The names of the requests that made way, in order."""

    def request(self, budget, owner, name):
        return budget.reservation(owner, lambda: self.append(name))


def test_the_oldest_request_of_whom_with_most_makes_way():
    budget, ended = MemoryBudget(1_000), Ended()
    with (
        ended.request(budget, "a", "a1") as first,
        ended.request(budget, "b", "b1") as other,
        ended.request(budget, "a", "a2") as second,
        ended.request(budget, "b", "b2") as newest,
    ):
        first.add(300)
        other.add(400)
        second.add(200)
        newest.add(100)
        assert ended == []
        newest.add(1)
        assert ended == ["b1"]  # 501 bytes in two requests, against 500
        with pytest.raises(MemoryBudgetExceeded):
            other.add(1)  # it has made way, and ends soon
        newest.add(399)
        assert ended == ["b1"]
        second.add(1)
        assert ended == ["b1", "a1"]
        with pytest.raises(MemoryBudgetExceeded):
            newest.add(600)  # it has most itself
    with ended.request(budget, "c", "c1") as whole:
        whole.add(1_000)  # everything was given back, once
        with pytest.raises(MemoryBudgetExceeded):
            whole.add(1)


def test_what_has_arrived_makes_way_for_nobody():
    budget, ended = MemoryBudget(1_000), Ended()
    with ended.request(budget, "a", "a1") as complete, ended.request(budget, "b", "b1") as other:
        complete.add(900)
        complete.is_complete = True
        other.add(100)
        with pytest.raises(MemoryBudgetExceeded):
            other.add(1)
        assert ended == []
