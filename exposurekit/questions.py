"""The registry of analyst questions.

``df.exposure``, ``%exposure``, ``exposurekit export``, the dashboard and the reports all read it. To add a question, add
an entry here, and a function in `analysis` and a chart in `charts` of the same name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported lazily: pandas with the first answer, Plotly with the first chart
    import pandas as pd

    from exposurekit.charts import Chart
    from exposurekit.history import History

ONLY_NOW = ("on_file",)  # inputs that a history does not store
_IDS_MAX = 5  # people whom a chart names by id; more are counted


@dataclass(frozen=True, slots=True)
class Question:
    """One question: its inputs, the function that answers it and its chart."""

    name: str  # in Python, on the command line and in files
    title: str
    group: str  # of questions, in the dashboard
    inputs: tuple[str, ...] = ()  # tables to pass to the function; empty: only a history can answer
    options: tuple[str, ...] = ()  # keywords of the history's method, such as since, in %exposure --since
    required: tuple[str, ...] = ()  # options without a default
    takes_exposure: bool = False  # the history's method takes one, for names and values on file
    filters: tuple[str, ...] = ()  # columns by which a history's answer can be filtered
    columns: tuple[str, ...] = ()  # that a report displays; empty: all
    # None: the function of that name in `analysis`; the history's method, else the function; the chart, if any.
    function: Callable[..., "pd.DataFrame"] | None = None
    query: Callable[..., "pd.DataFrame"] | None = None
    chart: Callable[..., "Chart"] | None = None
    # Returns further keywords for the function, from a history and an instant.
    context: Callable[["History", Any], Mapping[str, Any]] | None = None

    @property
    def needs_exposure(self) -> bool:
        """Whether it needs data that a history does not store."""
        return any(name in ONLY_NOW for name in self.inputs)

    @property
    def analysis(self) -> Callable[..., "pd.DataFrame"]:
        """The function that computes the answer from the inputs."""
        from exposurekit import analysis

        return self.function or getattr(analysis, self.name)

    @property
    def has_chart(self) -> bool:
        """Whether it has a chart."""
        from exposurekit import charts

        return self.chart is not None or self.name in charts.__all__

    def answer(self, table: Callable[[str], "pd.DataFrame"], **context: Any) -> "pd.DataFrame":
        """Compute the answer from the input tables, by name, and the keywords that `context` returned."""
        return self.analysis(*(table(name) for name in self.inputs), **context)

    def ask(self, history: "History", **options: Any) -> "pd.DataFrame":
        """Compute the answer from a history."""
        if (query := self.query or getattr(type(history), self.name, None)) is not None:
            table: pd.DataFrame = query(history, **options)
            return table
        return self.answer(lambda name: getattr(history, name)(**options))

    def draw(self, answer: "pd.DataFrame", *, provenance: str = "") -> "Chart":
        """Draw the chart of an answer; below its title it names the people and sites that the answer is about."""
        from exposurekit import charts

        people, sites = _people_in_words(answer.attrs.get("users", ())), answer.attrs.get("sites", ())
        source = " · ".join(filter(None, (provenance, people, ", ".join(sites))))
        chart: Chart = (self.chart or getattr(charts, self.name))(answer, provenance=source)
        return chart


def _people_in_words(ids: Sequence[int]) -> str:
    """People by id, ``users 5, 7``; of many, their number."""
    if len(ids) > _IDS_MAX:
        return f"{len(ids):,} people"
    return f"user{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}" if ids else ""


def _experience(history: "History", as_of: Any) -> Mapping[str, Any]:
    return {**history.site_experience(as_of)}


_EXPOSURE, _TO_DO, _CHANGES = "Exposure", "To do", "Changes"
_REMOVALS, _DATA_QUALITY = "Removals", "Data quality"
_QUEUE_COLUMNS = (
    "rank",
    "group",
    "site",
    "user_id",
    "record_id",
    "state",
    "minutes",
    "first_seen_at",
    "reason",
)
_RELISTING_COLUMNS = ("user_id", "site", "removed_at", "listed_again_at", "gone_days", "episode", "status")
_DECLARED_COLUMNS = (
    *("site", "declared_days", "median_days", "median_low", "median_high", "n", "removed", "due", "overdue"),
    *("q_value", "takes_longer"),
)
_DIFF_COLUMNS = ("changed_at", "what", "user_id", "site", "before", "after")
_DIFF_OPTIONS = ("since", "until", "kind")

QUESTIONS = {
    question.name: question
    for question in (  # each group together
        Question("by_site", "Listings by site", _EXPOSURE, ("records",), ("as_of",)),
        Question("by_user", "Listings by user", _EXPOSURE, ("records",), ("as_of",)),
        Question("user_by_site", "Open listings by user and site", _EXPOSURE, ("records",), ("as_of",)),
        Question("by_kind", "Web pages by kind of data", _EXPOSURE, ("links",), ("as_of",)),
        Question("by_state", "Open listings by state", _EXPOSURE, ("records",), ("as_of",)),
        Question("score", "Who is most exposed, by score", _EXPOSURE, ("records", "links"), ("as_of",)),
        Question(
            *("work_queue", "Manual work", _TO_DO, ("steps",), ("as_of",)),
            columns=_QUEUE_COLUMNS,
            context=_experience,
        ),
        Question(
            *("plan", "Manual work that fits the time", _TO_DO),
            options=("minutes", "as_of"),
            takes_exposure=True,
        ),
        Question("blockers", "Missing fields", _TO_DO, ("records", "on_file")),
        Question("best_next_fields", "Whom to ask first", _TO_DO, ("records", "on_file")),
        Question(
            "status_over_time",
            "Status over time",
            _CHANGES,
            options=("by", "every", "kind", "user", "site", "since", "until"),
        ),
        Question(
            "diff",
            "Each change of a listing",
            _CHANGES,
            options=_DIFF_OPTIONS,
            required=("since",),
            filters=("user", "site"),
            columns=_DIFF_COLUMNS,
            query=lambda history, since, until=None, kind="record": (
                history.diff(since, until, kind=kind).changes
            ),
        ),
        Question(
            "changes",
            "Why the number of open listings changed",
            _CHANGES,
            options=_DIFF_OPTIONS,
            required=("since",),
            query=lambda history, since, until=None, kind="record": history.diff(since, until, kind=kind).why,
        ),
        Question(
            "score_changes",
            "Why the score changed",
            _CHANGES,
            options=("since", "until"),
            required=("since",),
            query=lambda history, since, until=None: history.score_changes(since, until),
        ),
        Question("forecast", "Expected number of open listings", _CHANGES, options=("as_of",)),
        Question(
            "site_outcomes", "What sites do with requests", _REMOVALS, options=("as_of",), filters=("site",)
        ),
        Question(
            "failed_removals",
            "Removals that failed or were undone",
            _REMOVALS,
            options=("as_of",),
            filters=("site",),
        ),
        Question("time_to_removal", "Time to removal", _REMOVALS, options=("as_of",), filters=("site",)),
        Question("survival", "Share still open after a number of days", _REMOVALS, options=("by", "as_of")),
        Question(
            "declared_vs_observed",
            "Days to removal, declared and observed",
            _REMOVALS,
            options=("as_of",),
            filters=("site",),
            columns=_DECLARED_COLUMNS,
        ),
        Question(
            "relistings",
            "Relistings",
            _REMOVALS,
            options=("as_of",),
            filters=("user", "site"),
            columns=_RELISTING_COLUMNS,
        ),
        Question("missed", "Missed listings (estimate)", _DATA_QUALITY, ("records", "links"), ("as_of",)),
        Question(
            "stale",
            "Users not loaded completely lately",
            _DATA_QUALITY,
            options=("since",),
            filters=("user",),
        ),
        Question("coverage", "Who was observed", _DATA_QUALITY),
        Question("precision", "Precision of matches", _DATA_QUALITY, options=("as_of",), filters=("site",)),
        Question("site_health", "Scan quality by site", _DATA_QUALITY, options=("as_of",), filters=("site",)),
    )
}
