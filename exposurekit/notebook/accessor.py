"""``df.exposure``: the questions that a table can answer, as methods of the table.

The accessor is registered when exposurekit creates its first table, or by ``import exposurekit.notebook.accessor``.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from exposurekit.errors import InvalidArgument, MissingColumns, suggestion
from exposurekit.privacy.redaction import redacted
from exposurekit.questions import QUESTIONS, Question

if TYPE_CHECKING:
    from exposurekit.charts import Chart  # Plotly is imported with the first chart


@pd.api.extensions.register_dataframe_accessor("exposure")
class ExposureAccessor:
    """The questions of `analysis` that a table can answer, as methods of the table.

    On records: `by_site`, `by_user`, `user_by_site`, `by_state`, ``blockers(on_file)``, ``best_next_fields(on_file)`` and
    ``score(links)``; on links `by_kind`; on steps `work_queue`; on alerts `steps`. Each takes the other arguments of the
    function of its name in `analysis`. A column named ``exposure`` is still available as ``df["exposure"]``.

    >>> exposure.records().exposure.by_site().equals(analysis.by_site(exposure.records()))
    True
    >>> exposure.records().exposure.best_next_fields(exposure.on_file(), asks=2).columns.tolist()[:2]
    ['rank', 'user_id']
    >>> exposure.users().exposure.by_site()
    Traceback (most recent call last):
    exposurekit.errors.MissingColumns: df.exposure.by_site() needs records() of an Exposure or a History: it ...
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        methods = [name for name in dir(self) if not name.startswith("_")]
        return f"df.exposure, with the methods {', '.join(methods)}"

    def __dir__(self) -> list[str]:
        return sorted(
            {*super().__dir__(), *(name for name, question in QUESTIONS.items() if question.inputs)}
        )

    def __getattr__(self, name: str) -> Callable[..., pd.DataFrame]:
        question = QUESTIONS.get(name)
        if question is None or not question.inputs:
            methods = [one for one in dir(self) if not one.startswith("_")]
            raise AttributeError(f"df.exposure has no {name!r}{suggestion(name, methods)}")

        def ask(*tables: pd.DataFrame, **options: Any) -> pd.DataFrame:
            return self._ask(question, *tables, **options)

        ask.__name__, ask.__doc__ = name, inspect.getdoc(question.analysis)
        signature = inspect.signature(question.analysis)
        ask.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])  # type: ignore[attr-defined]
        return ask

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

    def chart(self, question: str, *tables: Any, provenance: str = "", **options: Any) -> "Chart":
        """Draw the chart of a question.

        Args:
            question: A name in `charts`. This table is its answer, such as that of `History.forecast`, or what it is
                computed from, such as records for ``by_site``.
            tables: The second table that some questions need: ``on_file``, or the links for ``score``.
            provenance: The source and time of the figures, shown below the title.
            options: Other arguments of the question.

        Returns:
            A Plotly figure: see `charts`.

        Raises:
            InvalidArgument: The question has no chart.
            MissingColumns: The table is neither; the message says what to pass.

        >>> exposure.records().exposure.chart("by_site", provenance=exposure.provenance)
        Chart('... listings ...')
        >>> history.forecast().exposure.chart("forecast")
        Chart(...)
        """
        InvalidArgument.check(
            "question", question, [name for name, one in QUESTIONS.items() if one.has_chart]
        )
        entry = QUESTIONS[question]
        try:
            return entry.draw(self._frame, provenance=provenance)
        except MissingColumns:
            if not entry.inputs:
                raise
        return entry.draw(self._ask(entry, *tables, **options), provenance=provenance)

    def redact(self) -> pd.DataFrame:
        """Return a copy without personal values.

        Ids, counts, times, sites and statuses remain. Names, addresses, texts, URLs and unknown columns are removed: see
        `exposurekit.privacy.redaction.redacted`.

        >>> exposure.users().exposure.redact().columns.tolist()
        ['user_id', 'is_scanning', 'identification_on_file']
        """
        return redacted(self._frame)

    def _ask(self, question: Question, *tables: pd.DataFrame, **options: Any) -> pd.DataFrame:
        try:
            return question.analysis(self._frame, *tables, **options)
        except MissingColumns as error:
            raise _wrong_table(question.name, question.inputs[0], error) from None


def _wrong_table(question: str, table: str, error: MissingColumns) -> MissingColumns:
    where = f"df.exposure.{question}() needs {table}() of an Exposure or a History: it"
    return MissingColumns(where, error.missing)
