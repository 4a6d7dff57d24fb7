from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from exposurekit.analysis.stalled_sites import stalled_sites

AT = datetime(2026, 3, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("made", "closed", "waiting"),
    [
        ([(14, None, 3)], [], 3),
        ([(13, None, 3)], [], 0),
        ([(30, None, 2)], [], 0),
        ([(30, None, 3), (30, "discovered", 2)], [], 3),
        ([(30, None, 2), (30, "discovered", 2)], [], 0),  # a refusal is an answer
        ([(30, None, 3), (30, "unknown", 2)], [], 3),
        ([(30, None, 2), (30, "unknown", 2)], [], 0),  # two people left the service
        ([(30, None, 3), (2, "unknown", 1), (2, "discovered", 1)], [], 3),  # however old theirs are
        ([(14, None, 3)], ["removed"], 0),
        ([(14, None, 3)], ["vanished"], 0),
        ([], ["discovered"], 0),
    ],
)
def test_a_site_with_requests_and_no_removals_is_stalled(made, closed, waiting):
    ends = [(AT + timedelta(hours=12, days=-days), end) for days, end, n in made for _ in range(n)]
    requests = pd.DataFrame(ends, columns=["requested_at", "end"]).assign(site="Wall")
    requests = requests.astype({"requested_at": "datetime64[us, UTC]", "end": "str"})
    transitions = pd.DataFrame({"site": "Wall", "status": ["pending removal", *closed]})
    message = f"{waiting} removal requests were not carried out within 14 days"
    assert stalled_sites(requests, transitions, AT) == ({"Wall": message} if waiting else {})
