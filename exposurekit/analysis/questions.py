"""Where the table of each question comes from: from tables of an `Exposure` alone, or from a `History`."""

import inspect

from exposurekit import analysis

OF_EXPOSURE = (
    *("by_site", "by_user", "user_by_site", "by_kind", "by_state"),
    *("blockers", "best_next_fields", "work_queue", "score"),
)
_OF_HISTORY = {  # whose call is not the question's name alone
    "changes": 'history.diff("2026-11-13").why',
    "score_changes": 'history.score_changes("2026-11-13")',
}


def inputs(question: str) -> tuple[str, ...]:
    """The tables of an `Exposure` that a question of `OF_EXPOSURE` needs, by the names of their methods.

    >>> from exposurekit.analysis.questions import inputs
    >>> inputs("blockers")
    ('records', 'on_file')
    """
    parameters = inspect.signature(getattr(analysis, question)).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty)


def advice(question: str) -> str:
    """The calls that give a chart the table that it draws.

    >>> from exposurekit.analysis.questions import advice
    >>> advice("by_site")
    "pass analysis.by_site(records), or call records.exposure.chart('by_site')"
    >>> advice("forecast")
    'pass history.forecast()'
    """
    if question not in OF_EXPOSURE:
        return f"pass {_OF_HISTORY.get(question, f'history.{question}()')}"
    table, *rest = inputs(question)
    call = ", ".join((repr(question), *rest))
    return f"pass analysis.{question}({', '.join((table, *rest))}), or call {table}.exposure.chart({call})"
