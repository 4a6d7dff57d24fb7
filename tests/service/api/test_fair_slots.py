"""Slots that owners share."""

import asyncio

import pytest

from exposurekit.service.api.fair_slots import FairSlots, TooManyWait


def test_a_free_slot_goes_to_who_holds_fewest():
    async def order():
        slots, began = FairSlots(3, most=2, waiting_max=9), []

        async def hold(owner, name):
            await slots.acquire(owner)
            began.append(name)
            await asyncio.sleep(0)
            slots.release(owner)

        await slots.acquire("acme")
        await slots.acquire("acme")
        more = asyncio.create_task(hold("acme", "a0"))  # one slot stays free for others
        await asyncio.sleep(0)
        assert began == []
        await slots.acquire("delta")
        names = [("acme", "a1"), ("acme", "a2"), ("beta", "b1"), ("beta", "b2"), ("gamma", "g1")]
        tasks = [asyncio.create_task(hold(owner, name)) for owner, name in names]
        given_up = asyncio.create_task(hold("beta", "b0"))
        await asyncio.sleep(0)
        given_up.cancel()
        slots.release("acme")
        await asyncio.gather(more, *tasks)
        return began

    assert asyncio.run(order()) == ["b1", "g1", "b2", "a0", "a1", "a2"]


@pytest.mark.parametrize("is_cancelled_first", [True, False])
def test_a_slot_given_to_a_cancelled_waiter_goes_on(is_cancelled_first):
    async def given():
        slots = FairSlots(1, most=1, waiting_max=9)
        await slots.acquire("acme")
        second, third = (asyncio.create_task(slots.acquire(owner)) for owner in ("beta", "gamma"))
        await asyncio.sleep(0)
        if is_cancelled_first:  # both in the moment in which its turn comes
            second.cancel()
        slots.release("acme")
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert second.cancelled()
        await asyncio.wait_for(third, 1)
        slots.release("gamma")
        await asyncio.wait_for(slots.acquire("beta"), 1)

    asyncio.run(given())


def test_only_so_many_wait_for_one_owner():
    async def full():
        slots = FairSlots(2, most=1, waiting_max=9)
        await slots.acquire("acme")
        waiting = [asyncio.create_task(slots.acquire("acme")) for _ in range(9)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyWait):
            await slots.acquire("acme")
        await asyncio.wait_for(slots.acquire("beta"), 1)  # a slot is free for others
        for task in waiting:
            task.cancel()

    asyncio.run(full())
