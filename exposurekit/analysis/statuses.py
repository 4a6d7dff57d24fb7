"""Statuses of a listing: the specification's, and those that only a history can infer.

A status outside the specification counts as *open*, like discovered and pending removal. So does a listing without a
status: it is listed, and unknown is not zero. Statuses are compared exactly, as the specification spells them: the client
passes on what a service sends, and a status in capitals is one that the specification does not have.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.contract.types import REMOVED
from exposurekit.errors import InvalidArgument

OPEN = "open"  # in tables of counts: all open listings, see `is_open`
OTHER = "other"  # in tables of counts: all statuses without a column of their own
LISTED = "listed"  # of a link or an alert that is present: the specification gives them no status
VANISHED = "vanished"  # was open, then absent from a complete load, without a verified removal
UNKNOWN = "unknown"  # the service no longer lists its user, so nothing is observed any more
CLOSED = (REMOVED, VANISHED)
NOT_OPEN = (*CLOSED, UNKNOWN)  # every other status is open
NOT_LISTED = (VANISHED, UNKNOWN)  # exist only in a history


def is_open(status: "pd.Series[Any]") -> NDArray[np.bool_]:
    """Return whether each listing is open: any status but removed, vanished and unknown, or none.

    Args:
        status: Text; missing if the service lists the item and states no status.

    Returns:
        One bool per row.

    Raises:
        InvalidArgument: ``status`` is a table, not its column.

    >>> analysis.is_open(pd.Series(["discovered", "verifying", "removed", "vanished", "unknown", None])).tolist()
    [True, True, False, False, False, True]
    """
    if isinstance(status, pd.DataFrame):
        raise InvalidArgument("is_open takes a column of statuses, such as records['status'], not a table")
    return (~status.isin(NOT_OPEN)).to_numpy(dtype="bool")
