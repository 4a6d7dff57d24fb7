"""What was seen, and when: observations over time, in one directory. Appends and reads; never fetches.

``history``, the class, is the door; behind it data flows one way::

    rounds   a run from its beginning to its end
    staging  what one run saw, as it comes: survives its collector, is gone once taken in
    ingest   staged run -> changes, by what `differing` says   (one ingester at a time)
    store    the Delta tables that `tables` declares
    times    what a caller may give for a time: one parser
    queries  questions as plain ANSI SQL, asked through `engines`
    marks    the analyst's own labels, ticks and notes          upkeep  erase, compact, verify
"""

from exposurekit.history.diff import Diff
from exposurekit.history.history import History
from exposurekit.history.ingest import Run
from exposurekit.history.store import Busy
from exposurekit.history.told import Told

__all__ = ["Busy", "Diff", "History", "Run", "Told"]
