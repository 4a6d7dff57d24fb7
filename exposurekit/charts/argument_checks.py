"""Argument checks of the charts, with advice on the table to pass."""

import inspect
from collections.abc import Collection

import pandas as pd
from pandas.api.types import is_datetime64_any_dtype

from exposurekit import analysis
from exposurekit.errors import InvalidArgument, MissingColumns

_TABLES = {
    "records",
    "links",
    "steps",
    "on_file",
}  # of an `Exposure`; analysis functions name their parameters so
_HISTORY_CALLS = {  # calls that differ from the chart's name
    "changes": 'history.diff("2026-11-13").why',
    "score_changes": 'history.score_changes("2026-11-13")',
    "precision": "history.precision()",
}


def check_input(chart: str, table: pd.DataFrame, columns: Collection[str]) -> None:
    """Check that a table has the columns that a chart needs.

    Raises:
        MissingColumns: A column is missing; the message says which table to pass.
        InvalidArgument: The argument is not a DataFrame, or has instants as text.

    >>> charts.by_site(exposure.records())
    Traceback (most recent call last):
    exposurekit.errors.MissingColumns: charts.by_site needs ...: pass analysis.by_site(records), or call records...
    """
    if not isinstance(table, pd.DataFrame):
        raise InvalidArgument(f"charts.{chart} needs a DataFrame: {advice(chart)}")
    if missing := [column for column in columns if column not in table]:
        raise MissingColumns(f"charts.{chart}", missing, advice=advice(chart), columns=table.columns)
    for column in columns:
        is_instant = column == "period" or column.endswith("_at")
        if is_instant and len(table) and not is_datetime64_any_dtype(table[column].dtype):
            raise InvalidArgument(
                f"charts.{chart}: {column} must be dates: pd.to_datetime(table['{column}'], utc=True)"
            )


def advice(chart: str) -> str:
    """Return the calls that produce the table of a chart, as advice for an error message.

    >>> from exposurekit.charts.argument_checks import advice
    >>> advice("by_site")
    "pass analysis.by_site(records), or call records.exposure.chart('by_site')"
    >>> advice("forecast")
    'pass history.forecast()'
    """
    parameters = inspect.signature(getattr(analysis, chart)).parameters.values()
    table, *rest = [one.name for one in parameters if one.default is one.empty]
    if chart in _HISTORY_CALLS or not {table, *rest} <= _TABLES:
        return f"pass {_HISTORY_CALLS.get(chart, f'history.{chart}()')}"
    call = ", ".join((repr(chart), *rest))
    return f"pass analysis.{chart}({', '.join((table, *rest))}), or call {table}.exposure.chart({call})"
