"""History: what was observed, and when, in one directory. The API has no dates; this is where they come from.

`History` is the entry point; behind it data flows one way::

    collector         one load of everyone -> a staged run
    runs, staging     the run from its start until it is ingested
    ingest            a staged run -> changes, as `change_detection` finds them (one process at a time)
    storage/          the Delta tables: location, schema, reads and writes
    queries           questions in ANSI SQL, run by one of `engines/` (DuckDB or Spark)
    reader            the tables of a history
    annotations       the analyst's labels, ticks and notes
    maintenance       erase, compact, verify
    times             one parser for the times that callers give
    identity          which listing is which      diff  changes between two times
    deliveries        webhook deliveries          conversion  Arrow to pandas
"""

from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.diff import Diff
from exposurekit.history.history import History
from exposurekit.history.ingest import Run
from exposurekit.history.storage.delta import HistoryLocked

__all__ = ["Diff", "History", "HistoryLocked", "ReceivedDelivery", "Run"]
