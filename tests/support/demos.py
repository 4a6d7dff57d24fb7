"""The small demo that tests share: one for each process of a run."""

from functools import cache

import exposurekit as ek


@cache
def small_demo():
    """Return a demo of three people and two days, which ends with the process. Tests only read it."""
    return ek.demo(people=3, days=2, progress=False)
