"""``frame.exposure``: the questions of `analysis` on the table that one has in hand. Fetches nothing, changes no table.

It is there as soon as a table of exposurekit is; ``import exposurekit.notebook.accessor`` brings it to any other table.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.privacy.redaction import redacted

if TYPE_CHECKING:
    from exposurekit.charts import Chart  # Plotly is loaded with the first chart


@pd.api.extensions.register_dataframe_accessor("exposure")
class ExposureAccessor:
    """The questions of `analysis` that a table can answer, as methods of the table.

    A column that is called ``exposure`` is still there as ``frame["exposure"]``.

    >>> exposure.records().exposure.by_site().equals(analysis.by_site(exposure.records()))
    True
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def by_site(self) -> pd.DataFrame:
        """How many listings each site holds, by status: `analysis.by_site`, of records.

        Raises:
            MissingColumns: These are no records; the message says which table to take.

        >>> exposure.records().exposure.by_site().columns.tolist()[:2]
        ['site', 'open']
        >>> exposure.users().exposure.by_site()
        Traceback (most recent call last):
        exposurekit.errors.MissingColumns: df.exposure.by_site() is for records() as an Exposure or a History gives ...
        """
        return self._answer("by_site", "records")

    def by_user(self) -> pd.DataFrame:
        """How many listings there are of each person, by status: `analysis.by_user`, of records.

        Raises:
            MissingColumns: These are no records.

        >>> exposure.records().exposure.by_user().columns.tolist()[0]
        'user_id'
        """
        return self._answer("by_user", "records")

    def user_by_site(self) -> pd.DataFrame:
        """How many open listings of each person each site holds: `analysis.user_by_site`, of records.

        Raises:
            MissingColumns: These are no records.

        >>> exposure.records().exposure.user_by_site().index.name
        'user_id'
        """
        return self._answer("user_by_site", "records")

    def by_kind(self) -> pd.DataFrame:
        """What kinds of data the pages hold: `analysis.by_kind`, of links.

        Raises:
            MissingColumns: These are no links.

        >>> exposure.links().exposure.by_kind().columns.tolist()
        ['kind', 'links', 'people']
        """
        return self._answer("by_kind", "links")

    def by_state(self) -> pd.DataFrame:
        """Where the open listings place people: `analysis.by_state`, of records.

        Raises:
            MissingColumns: These are no records.

        >>> exposure.records().exposure.by_state().columns.tolist()
        ['state', 'listings', 'people']
        """
        return self._answer("by_state", "records")

    def blockers(self, on_file: pd.DataFrame) -> pd.DataFrame:
        """Which fields removals wait for: `analysis.blockers`, of records.

        Args:
            on_file: As `Exposure.on_file` gives it.

        Raises:
            MissingColumns: These are no records, or ``on_file`` is another table.

        >>> exposure.records().exposure.blockers(exposure.on_file()).columns.tolist()[:2]
        ['user_id', 'field']
        """
        return self._answer("blockers", "records", on_file)

    def best_next_fields(self, on_file: pd.DataFrame, *, asks: int = 10) -> pd.DataFrame:
        """Whom to ask for what, so that the most removals can start: `analysis.best_next_fields`, of records.

        Args:
            on_file: As `Exposure.on_file` gives it.
            asks: How many rows at most.

        Raises:
            MissingColumns: These are no records, or ``on_file`` is another table.
            InvalidArgument: ``asks`` is less than one.

        >>> exposure.records().exposure.best_next_fields(exposure.on_file(), asks=2).columns.tolist()[:2]
        ['place', 'user_id']
        """
        return self._answer("best_next_fields", "records", on_file, asks=asks)

    def steps(self) -> pd.DataFrame:
        """What a human must do, one row a step of each ``opt_out_procedure``: `frames.steps_from_alerts`, of alerts.

        Raises:
            MissingColumns: These are no alerts.

        >>> len(exposure.alerts().exposure.steps()) == len(exposure.steps())
        True
        """
        from exposurekit import frames

        try:
            return frames.steps_from_alerts(self._frame)
        except MissingColumns as error:
            raise _meant_for("steps", "alerts", error) from None

    def work_queue(self) -> pd.DataFrame:
        """The manual removals that are left, in the order that clears most: `analysis.work_queue`, of steps.

        Raises:
            MissingColumns: These are no steps.

        >>> exposure.steps().exposure.work_queue().columns.tolist()[:2]
        ['place', 'group']
        """
        return self._answer("work_queue", "steps")

    def score(self, links: pd.DataFrame, *, weights: Mapping[str, float] | None = None) -> pd.DataFrame:
        """How exposed each person is, in points: `analysis.score`, of records.

        Args:
            links: As `Exposure.links` gives them.
            weights: Other points than `analysis.WEIGHTS`.

        Raises:
            MissingColumns: These are no records, or ``links`` is another table.

        >>> exposure.records().exposure.score(exposure.links()).columns.tolist()[0]
        'user_id'
        """
        return self._answer("score", "records", links, weights=weights)

    def chart(self, question: str, *given: Any, provenance: str = "", **options: Any) -> "Chart":
        """The chart of a question that this table can answer.

        Args:
            question: ``by_site``, ``by_user``, ``user_by_site``, ``by_kind``, ``by_state``, ``blockers``,
                ``best_next_fields``, ``work_queue`` or ``score``.
            given: The other table that a question needs: ``on_file``, or of ``score`` the links.
            provenance: Where the figures come from and as of when; stands below the title.
            options: Further arguments of the question.

        Returns:
            A figure: see `charts`.

        Raises:
            InvalidArgument: There is no such chart.
            MissingColumns: The table lacks columns; the message says which table to take.

        >>> exposure.records().exposure.chart("by_site", provenance=exposure.provenance)
        Chart('... listings ...')
        """
        from exposurekit import charts
        from exposurekit.analysis.questions import OF_EXPOSURE

        if question not in OF_EXPOSURE:
            raise InvalidArgument(f"chart(question) draws one of: {', '.join(OF_EXPOSURE)}")
        chart: charts.Chart = getattr(charts, question)(
            getattr(self, question)(*given, **options), provenance=provenance
        )
        return chart

    def redact(self) -> pd.DataFrame:
        """A copy without personal values: what is known to be harmless stays, whatever else there is goes.

        Ids, counts, instants, sites and statuses stay; names, addresses, texts, URLs and every column that is not known
        go: see `exposurekit.privacy.redaction.redacted`.

        >>> exposure.users().exposure.redact().columns.tolist()
        ['user_id', 'is_scanning', 'identification_on_file']
        """
        return redacted(self._frame)

    def _answer(self, question: str, of: str, *given: Any, **options: Any) -> pd.DataFrame:
        from exposurekit import analysis

        try:
            answer: pd.DataFrame = getattr(analysis, question)(self._frame, *given, **options)
        except MissingColumns as error:
            raise _meant_for(question, of, error) from None
        return answer


def _meant_for(question: str, of: str, error: MissingColumns) -> MissingColumns:
    """The same error, which says what to take instead."""
    where = f"df.exposure.{question}() is for {of}() as an Exposure or a History gives it: it"
    return MissingColumns(where, error.missing)
