"""A limit on memory: who holds most makes way."""

import asyncio
from contextlib import ExitStack

import pytest
from support.services import in_event_loop, tasks_rest

from exposurekit.system.memory_budget import MemoryBudget, MemoryBudgetExceeded


class Requests(ExitStack):
    """Requests that send to one budget; those that made way have timed out."""

    def __init__(self, size):
        super().__init__()
        self.budget, self.sending = MemoryBudget(size), {}

    def begins(self, owner, name):
        return asyncio.create_task(self._sends(owner, name))

    async def _sends(self, owner, name):
        limit = asyncio.timeout(30)
        with self.budget.reservation(owner, limit) as self.sending[name]:
            async with limit:
                await asyncio.Event().wait()


async def begun(requests, *names):
    tasks = {name: requests.begins(name[0], name) for name in names}
    await asyncio.sleep(0)
    return tasks


async def ended(tasks):
    await tasks_rest()
    return {name for name, task in tasks.items() if task.done()}


@in_event_loop
async def test_the_oldest_request_of_whom_with_most_makes_way():
    requests = Requests(1_000)
    tasks = await begun(requests, "a1", "b1", "a2", "b2")
    for name, size in (("a1", 300), ("b1", 400), ("a2", 200), ("b2", 100)):
        requests.sending[name].add(size)
    assert await ended(tasks) == set()
    requests.sending["b2"].add(1)  # 501 bytes in two requests, against 500
    with pytest.raises(MemoryBudgetExceeded):
        requests.sending["b1"].add(1)  # it has made way, and ends soon
    assert await ended(tasks) == {"b1"}
    requests.sending["b2"].add(399)
    assert await ended(tasks) == {"b1"}
    requests.sending["a2"].add(1)
    assert await ended(tasks) == {"b1", "a1"}
    with pytest.raises(MemoryBudgetExceeded):
        requests.sending["b2"].add(600)  # it has most itself
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    with requests.budget.reservation("c", asyncio.timeout(30)) as whole:
        whole.add(1_000)  # everything was given back, once
        with pytest.raises(MemoryBudgetExceeded):
            whole.add(1)


@in_event_loop
async def test_what_has_arrived_makes_way_for_nobody():
    requests = Requests(1_000)
    tasks = await begun(requests, "a1", "b1")
    requests.sending["a1"].add(900)
    requests.sending["a1"].is_complete = True
    requests.sending["b1"].add(100)
    with pytest.raises(MemoryBudgetExceeded):
        requests.sending["b1"].add(1)
    assert await ended(tasks) == set()
    for task in tasks.values():
        task.cancel()


@in_event_loop
async def test_a_request_that_is_timing_out_does_not_disturb_another():
    budget, limit = MemoryBudget(1_000), asyncio.timeout(30)

    async def slow():
        with budget.reservation("a", limit) as reserved:
            reserved.add(900)
            async with limit:
                limit.reschedule(0)
                await asyncio.Event().wait()

    task = asyncio.create_task(slow())
    while not limit.expired():
        await asyncio.sleep(0)
        if limit.expired():
            with budget.reservation("b", asyncio.timeout(30)) as other:
                other.add(500)
    await asyncio.gather(task, return_exceptions=True)
    assert isinstance(task.exception(), TimeoutError)
