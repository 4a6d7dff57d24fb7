"""``df.exposure``: the questions of `analysis` as methods of a table.

It is registered with the first table of exposurekit; ``import exposurekit.notebook.accessor`` registers it without one.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.privacy.redaction import redacted

if TYPE_CHECKING:
    from exposurekit.charts import Chart  # Plotly is imported with the first chart


@pd.api.extensions.register_dataframe_accessor("exposure")
class ExposureAccessor:
    """The questions of `analysis` that a table can answer, as methods of the table.

    A column named ``exposure`` is still available as ``df["exposure"]``.

    >>> exposure.records().exposure.by_site().equals(analysis.by_site(exposure.records()))
    True
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def by_site(self) -> pd.DataFrame:
        """Count listings per site and status: `analysis.by_site`, for records.

        Raises:
            MissingColumns: The table is not a table of records; the message names the right one.

        >>> exposure.records().exposure.by_site().columns.tolist()[:2]
        ['site', 'open']
        >>> exposure.users().exposure.by_site()
        Traceback (most recent call last):
        exposurekit.errors.MissingColumns: df.exposure.by_site() needs records() of an Exposure or a History: it ...
        """
        return self._ask("by_site", "records")

    def by_user(self) -> pd.DataFrame:
        """Count listings per user and status: `analysis.by_user`, for records.

        Raises:
            MissingColumns: The table is not a table of records.

        >>> exposure.records().exposure.by_user().columns.tolist()[0]
        'user_id'
        """
        return self._ask("by_user", "records")

    def user_by_site(self) -> pd.DataFrame:
        """Count open listings per user and site: `analysis.user_by_site`, for records.

        Raises:
            MissingColumns: The table is not a table of records.

        >>> exposure.records().exposure.user_by_site().index.name
        'user_id'
        """
        return self._ask("user_by_site", "records")

    def by_kind(self) -> pd.DataFrame:
        """Count pages and people per kind of data: `analysis.by_kind`, for links.

        Raises:
            MissingColumns: The table is not a table of links.

        >>> exposure.links().exposure.by_kind().columns.tolist()
        ['kind', 'links', 'people']
        """
        return self._ask("by_kind", "links")

    def by_state(self) -> pd.DataFrame:
        """Count open listings per US state: `analysis.by_state`, for records.

        Raises:
            MissingColumns: The table is not a table of records.

        >>> exposure.records().exposure.by_state().columns.tolist()
        ['state', 'listings', 'people']
        """
        return self._ask("by_state", "records")

    def blockers(self, on_file: pd.DataFrame) -> pd.DataFrame:
        """List the missing fields that block removals: `analysis.blockers`, for records.

        Args:
            on_file: The table of `Exposure.on_file`.

        Raises:
            MissingColumns: The table is not a table of records, or ``on_file`` is a different table.

        >>> exposure.records().exposure.blockers(exposure.on_file()).columns.tolist()[:2]
        ['user_id', 'field']
        """
        return self._ask("blockers", "records", on_file)

    def best_next_fields(self, on_file: pd.DataFrame, *, asks: int = 10) -> pd.DataFrame:
        """Rank the fields that unblock most removals: `analysis.best_next_fields`, for records.

        Args:
            on_file: The table of `Exposure.on_file`.
            asks: The maximum number of rows.

        Raises:
            MissingColumns: The table is not a table of records, or ``on_file`` is a different table.
            InvalidArgument: ``asks`` is less than one.

        >>> exposure.records().exposure.best_next_fields(exposure.on_file(), asks=2).columns.tolist()[:2]
        ['place', 'user_id']
        """
        return self._ask("best_next_fields", "records", on_file, asks=asks)

    def steps(self) -> pd.DataFrame:
        """List manual steps, one row per step of an ``opt_out_procedure``: `frames.steps_from_alerts`, for alerts.

        Raises:
            MissingColumns: The table is not a table of alerts.

        >>> len(exposure.alerts().exposure.steps()) == len(exposure.steps())
        True
        """
        from exposurekit import frames

        try:
            return frames.steps_from_alerts(self._frame)
        except MissingColumns as error:
            raise _wrong_table("steps", "alerts", error) from None

    def work_queue(self) -> pd.DataFrame:
        """Order the manual removals by how much each one clears: `analysis.work_queue`, for steps.

        Raises:
            MissingColumns: The table is not a table of steps.

        >>> exposure.steps().exposure.work_queue().columns.tolist()[:2]
        ['place', 'person']
        """
        return self._ask("work_queue", "steps")

    def score(self, links: pd.DataFrame, *, weights: Mapping[str, float] | None = None) -> pd.DataFrame:
        """Score each user's exposure in points: `analysis.score`, for records.

        Args:
            links: The table of `Exposure.links`.
            weights: Points per kind of data. Default: `analysis.WEIGHTS`.

        Raises:
            MissingColumns: The table is not a table of records, or ``links`` is a different table.

        >>> exposure.records().exposure.score(exposure.links()).columns.tolist()[0]
        'user_id'
        """
        return self._ask("score", "records", links, weights=weights)

    def chart(self, question: str, *tables: Any, provenance: str = "", **options: Any) -> "Chart":
        """Draw the chart of a question.

        Args:
            question: ``by_site``, ``by_user``, ``user_by_site``, ``by_kind``, ``by_state``, ``blockers``,
                ``best_next_fields``, ``work_queue`` or ``score``.
            tables: The second table that some questions need: ``on_file``, or the links for ``score``.
            provenance: The source and time of the figures, shown below the title.
            options: Other arguments of the question.

        Returns:
            A Plotly figure: see `charts`.

        Raises:
            InvalidArgument: The question has no chart.
            MissingColumns: The table lacks columns; the message names the right table.

        >>> exposure.records().exposure.chart("by_site", provenance=exposure.provenance)
        Chart('... listings ...')
        """
        from exposurekit import charts
        from exposurekit.analysis.questions import OF_EXPOSURE

        if question not in OF_EXPOSURE:
            raise InvalidArgument(f"chart(question) takes one of: {', '.join(OF_EXPOSURE)}")
        chart: charts.Chart = getattr(charts, question)(
            getattr(self, question)(*tables, **options), provenance=provenance
        )
        return chart

    def redact(self) -> pd.DataFrame:
        """Return a copy without personal values.

        Ids, counts, times, sites and statuses remain. Names, addresses, texts, URLs and unknown columns are removed: see
        `exposurekit.privacy.redaction.redacted`.

        >>> exposure.users().exposure.redact().columns.tolist()
        ['user_id', 'is_scanning', 'identification_on_file']
        """
        return redacted(self._frame)

    def _ask(self, question: str, table: str, *tables: Any, **options: Any) -> pd.DataFrame:
        from exposurekit import analysis

        try:
            result: pd.DataFrame = getattr(analysis, question)(self._frame, *tables, **options)
        except MissingColumns as error:
            raise _wrong_table(question, table, error) from None
        return result


def _wrong_table(question: str, table: str, error: MissingColumns) -> MissingColumns:
    """Return the same error, naming the right table."""
    where = f"df.exposure.{question}() needs {table}() of an Exposure or a History: it"
    return MissingColumns(where, error.missing)
