"""History: observations of all users over time, in one directory. The API has no dates of listings; a history has.

`History` is the entry point; behind it data flows one way::

    collector         a load of all users -> a staged run
    run_manager, staging  a run from its start until it is ingested
    ingest            a staged run -> changes, computed by `change_detection` (one process at a time)
    storage/          the Delta tables: location, schema, reads and writes
    reader            the tables, read with `sql` on one of `engines/` (DuckDB or Spark)
    queries           the questions of `analysis`
    annotations       labels, ticks and notes, and findings and steps with them
    maintenance       checkpoint, compact, erase, verify
    record_keys       keys of records, links and alerts
    diff              changes between two times   deliveries  webhook deliveries
"""

from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.diff import Diff
from exposurekit.history.history import History
from exposurekit.history.ingest import Run
from exposurekit.history.storage.delta import HistoryLocked

__all__ = ["Diff", "History", "HistoryLocked", "ReceivedDelivery", "Run"]
