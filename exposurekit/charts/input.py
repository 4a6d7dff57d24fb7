"""Input checks of the charts, with advice on the table to pass."""

from collections.abc import Iterable

import pandas as pd

from exposurekit.analysis.questions import advice
from exposurekit.errors import InvalidArgument, MissingColumns


def check_input(chart: str, table: pd.DataFrame, columns: Iterable[str]) -> None:
    """Check that a table has the columns that a chart needs.

    Raises:
        MissingColumns: A column is missing; the message says which table to pass.
        InvalidArgument: The argument is not a DataFrame.

    >>> charts.by_site(exposure.records())
    Traceback (most recent call last):
    exposurekit.errors.MissingColumns: charts.by_site needs ...: pass analysis.by_site(records), or call records...
    """
    if not isinstance(table, pd.DataFrame):
        raise InvalidArgument(f"charts.{chart} needs a DataFrame: {advice(chart)}")
    if missing := [column for column in columns if column not in table]:
        raise MissingColumns(f"charts.{chart}", missing, advice=advice(chart))
