"""Column summaries: a small histogram of numbers and dates, or the most frequent values, and the share missing."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.text.formatting import format_value, percent
from exposurekit.text.sanitize import plain
from exposurekit.widgets.table_filter import unordered

ROWS_MAX = 2_000  # larger tables are summarized from this many rows, evenly spread
BINS, TOP, TEXT_MAX = 14, 3, 60
Summary = dict[str, Any]


def summarize(frame: pd.DataFrame, *, is_sample: bool = False) -> list[Summary]:
    """Summarize each column of a table, for the browser to draw.

    Args:
        frame: The table.
        is_sample: Whether it holds some rows of a larger table, which the notes then say.

    Returns:
        For each column: ``bars`` (heights from 0 to 1; empty: no histogram), ``range`` (the least and the greatest value),
        ``top`` (a value, its share from 0 to 1, and that as text), ``note`` (in words what is not drawn), ``missing`` (a
        percentage, or empty), ``is_number``.

    >>> from exposurekit.widgets.column_summary import summarize
    >>> [summary] = summarize(pd.DataFrame({"status": ["removed", "removed", "discovered", None]}))
    >>> summary["top"], summary["missing"]
    ([['removed', 0.6666666666666666, '67%'], ['discovered', 0.3333333333333333, '33%']], '25%')
    """
    step = max(1, -(-len(frame) // ROWS_MAX))
    sample = frame.iloc[::step]
    summaries = [
        _summary(sample.iloc[:, position], frame.iloc[:, position]) for position in range(frame.shape[1])
    ]
    if step > 1 or is_sample:
        for summary in summaries:
            notes = (summary["note"], f"estimated from {len(sample):,} rows")
            summary["note"] = " · ".join(filter(None, notes))
    return summaries


def _summary(sample: "pd.Series[Any]", column: "pd.Series[Any]") -> Summary:
    is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    share = float(column.isna().mean()) if len(column) else 0.0
    summary: Summary = {
        "bars": [],
        "range": [],
        "top": [],
        "note": "",
        "missing": percent(share) if share else "",
        "is_number": is_number,
    }
    values = sample.dropna()
    if values.empty:
        return summary | {"note": "no values" if len(column) else ""}
    if unordered(column):
        return summary | {"note": "lists"}
    is_date = pd.api.types.is_datetime64_any_dtype(column)
    if (is_number or is_date) and not pd.api.types.is_complex_dtype(column):
        numbers = values.astype("int64" if is_date else "float64").to_numpy("float64")
        ends = [_text(values.min()), _text(values.max())]
        return summary | {"bars": _heights(numbers), "range": ends}
    try:
        counts = values.value_counts()
    except TypeError:  # values that cannot be compared or hashed
        return summary
    if len(counts) == len(values) > TOP:
        return summary | {"note": f"{len(counts):,} distinct"}
    top = [
        [_text(value), n / len(values), percent(n / len(values))]
        for value, n in counts.head(TOP).items()
        if n
    ]
    others = int((counts > 0).sum()) - len(top)
    return summary | {"top": top, "note": f"{others:,} more" if others > 0 else ""}


def _heights(numbers: NDArray[Any]) -> list[float]:
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return []
    bins = BINS if finite.max() > finite.min() else 1
    # Halved, as the difference of the ends may overflow; from 0, as bins between large numbers may have no width.
    counts = np.histogram(finite / 2 - finite.min() / 2, bins=bins)[0]
    return [float(n) for n in counts / counts.max()]


def _text(value: object) -> str:
    is_day = isinstance(value, pd.Timestamp)
    return f"{value:%Y-%m-%d}" if is_day else plain(format_value(value))[:TEXT_MAX]
