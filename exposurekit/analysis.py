"""Tables to tables: one function for each question an analyst asks. Stores and fetches nothing."""

import pandas as pd

from exposurekit.contract.values import STATUSES
from exposurekit.errors import MissingColumns

OTHER = "other"


def by_site(records: pd.DataFrame) -> pd.DataFrame:
    """How many listings each site holds, by status.

    Args:
        records: As `Exposure.records()` gives them; one row a listing. Needs ``site``, ``status``, ``user_id``.

    Returns:
        One row a site, most listings first, then by name: ``site`` (text), ``discovered``, ``pending removal``,
        ``removed``, ``other``, ``total`` (listings, int64), ``people`` (who have a listing there, int64).
        A status that the specification does not name counts as ``other``; a site that holds nothing has no row.

    Raises:
        MissingColumns: ``records`` lacks a column.

    Source: specification, "Record".

    >>> table = analysis.by_site(exposure.records())
    >>> int(table["total"].sum()) == len(exposure.records())
    True
    """
    MissingColumns.check("by_site", records.columns, ("site", "status", "user_id"))
    status = records["status"].astype("str").where(records["status"].isin(STATUSES), OTHER)
    sites = records["site"].astype("str")
    counts = pd.crosstab(sites, status).reindex(columns=[*STATUSES, OTHER], fill_value=0).astype("int64")
    table = counts.assign(total=counts.sum(axis=1), people=records.groupby(sites)["user_id"].nunique())
    table = (
        table.rename_axis(index="site", columns=None).reset_index().astype({"people": "int64", "site": "str"})
    )
    return table.sort_values(["total", "site"], ascending=[False, True], ignore_index=True)
