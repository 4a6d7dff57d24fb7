"""The source of each question's table: tables of an `Exposure`, or a `History`."""

import inspect

from exposurekit import analysis

OF_EXPOSURE = (
    *("by_site", "by_user", "user_by_site", "by_kind", "by_state"),
    *("blockers", "best_next_fields", "work_queue", "score"),
)
_HISTORY_CALLS = {  # calls that differ from the question's name
    "changes": 'history.diff("2026-11-13").why',
    "score_changes": 'history.score_changes("2026-11-13")',
}


def inputs(question: str) -> tuple[str, ...]:
    """Return the names of the `Exposure` methods whose tables a question of `OF_EXPOSURE` needs.

    >>> from exposurekit.analysis.questions import inputs
    >>> inputs("blockers")
    ('records', 'on_file')
    """
    parameters = inspect.signature(getattr(analysis, question)).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty)


def advice(question: str) -> str:
    """Return the calls that produce the table of a chart, as advice for an error message.

    >>> from exposurekit.analysis.questions import advice
    >>> advice("by_site")
    "pass analysis.by_site(records), or call records.exposure.chart('by_site')"
    >>> advice("forecast")
    'pass history.forecast()'
    """
    if question not in OF_EXPOSURE:
        return f"pass {_HISTORY_CALLS.get(question, f'history.{question}()')}"
    table, *rest = inputs(question)
    call = ", ".join((repr(question), *rest))
    return f"pass analysis.{question}({', '.join((table, *rest))}), or call {table}.exposure.chart({call})"
