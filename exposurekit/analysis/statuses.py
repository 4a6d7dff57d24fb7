"""What becomes of a listing, in words: the service's statuses, and those that only a memory can tell. Counts nothing.

A status that is none of ours is a service's own, and *open*: somebody still has to see to it.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.contract.types import REMOVED

OPEN = "open"  # in tables of counts: every listing that still has to go, see `is_open`
OTHER = "other"  # in tables of counts: every status that has no column of its own
LISTED = "listed"  # what a link or an alert is while it is shown: the specification gives them no status
VANISHED = "vanished"  # was open; a whole look no longer showed it, and nobody verified a removal
UNKNOWN = "unknown"  # its person is no longer listed by the service: nobody looks
CLOSED = (REMOVED, VANISHED)
NOT_OPEN = (*CLOSED, UNKNOWN)  # open is any other status
NOT_LISTED = (VANISHED, UNKNOWN)  # a service that is asked does not show these


def is_open(status: "pd.Series[Any]") -> NDArray[np.bool_]:
    """Whether each status is open: any but removed, vanished and unknown; a missing one is not.

    Args:
        status: Text; missing where a thing was not known.

    Returns:
        One bool for each.

    >>> analysis.is_open(pd.Series(["discovered", "verifying", "removed", "vanished", "unknown", None])).tolist()
    [True, True, False, False, False, False]
    """
    return (status.notna() & ~status.isin(NOT_OPEN)).to_numpy(dtype="bool")
