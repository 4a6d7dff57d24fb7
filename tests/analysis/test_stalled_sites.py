from datetime import UTC, date, datetime

import pandas as pd
import pytest

from exposurekit.analysis.stalled_sites import stalled_sites

AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moves", "requests"),
    [
        ([("pending removal", 14, 3)], 3),
        ([("pending removal", 13, 3)], 0),
        ([("pending removal", 30, 2)], 0),
        ([("pending removal", 30, 5), ("discovered", 20, 2)], 3),
        ([("pending removal", 30, 4), ("discovered", 20, 2)], 0),  # a refusal is an answer
        ([("pending removal", 30, 5), ("unknown", 20, 2)], 3),
        ([("pending removal", 30, 4), ("unknown", 1, 2)], 0),  # two people left the service
        ([("pending removal", 14, 3), ("removed", 1, 1)], 0),
        ([("pending removal", 14, 3), ("vanished", 1, 1)], 0),
        ([("discovered", 14, 3)], 0),
    ],
)
def test_a_site_with_requests_and_no_removals_is_stalled(moves, requests):
    table = pd.DataFrame(moves, columns=["status", "days", "n"]).assign(site="Wall")
    day = (AT.date() - date(1970, 1, 1)).days - table["days"]
    was = table["status"].map(dict.fromkeys(("discovered", "unknown"), "pending removal")).astype("str")
    message = f"{requests} removal requests were not carried out within 14 days"
    assert stalled_sites(table.assign(day=day, prev_status=was), AT) == (
        {"Wall": message} if requests else {}
    )
