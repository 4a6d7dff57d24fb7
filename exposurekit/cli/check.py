"""`exposurekit check`: exit with 3 if a condition matched, for CI and cron."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from exposurekit.cli import output
from exposurekit.cli.history import existing_history
from exposurekit.cli.options import history_option, json_option, since_option
from exposurekit.errors import ConfigurationError, suggestion
from exposurekit.text.sanitize import plain

EXIT_MATCHED = 3
_WATCH_ONLY = "collection_failed"  # a history does not record failed collections


class Conditions(click.ParamType[tuple[Any, ...]]):
    """Conditions separated by commas, some with a number, such as relisted,stuck:30; parsed into rules."""

    name = "conditions"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Parse each condition into a rule."""
        words = [word.strip() for word in str(value).split(",") if word.strip()]
        if not words:
            self.fail("name at least one condition", param, ctx)
        return tuple(self._rule(word, param, ctx) for word in words)

    def _rule(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from exposurekit.monitor.notifications.rules import CONDITIONS, THRESHOLDS, Rule

        word, colon, number = text.partition(":")
        word = word.replace("-", "_")
        if word not in CONDITIONS or word == _WATCH_ONLY:
            names = (
                f"{name}:N" if name in THRESHOLDS else name for name in CONDITIONS if name != _WATCH_ONLY
            )
            close = suggestion(word, [name for name in CONDITIONS if name != _WATCH_ONLY])
            self.fail(
                f"there is no {plain(word)!r}: a condition is one of: {', '.join(names)}{close}", param, ctx
            )
        if word not in THRESHOLDS and colon:
            self.fail(f"{word} takes no number", param, ctx)
        try:
            threshold = {THRESHOLDS[word]: float(number)} if word in THRESHOLDS else {}
            return Rule.model_validate({"when": word, "send": ["nobody"], **threshold})
        except ValueError:
            return self.fail(f"{word} takes {THRESHOLDS[word]}: {word}:30", param, ctx)


@click.command()
@history_option
@click.option(
    "--fail-on",
    "conditions",
    type=Conditions(),
    required=True,
    help="The conditions, separated by commas: new, relisted, removed, refused, site_broken, stuck:DAYS, not_seen:DAYS, "
    "score:POINTS (an increase).",
)
@since_option(
    "Count changes since then: 14d, 3mo, 36h, yesterday, today (from its beginning), the end of a day such as 2026-11-13, or an instant. Default: the "
    "run before the last one."
)
@json_option
def check(*, history: str, conditions: tuple[Any, ...], since: str | None, as_json: bool) -> None:
    """Exit with code 3 if a condition matched, else 0.

    For CI or cron jobs, after a collect: a line for each condition begins with "matched:" or "ok:". The output holds no personal data.

    Example: exposurekit check --fail-on relisted,stuck:30
    """
    from exposurekit.monitor.notifications.evaluate import EvaluationContext, evaluate
    from exposurekit.monitor.notifications.rules import counted_title

    with existing_history(history) as opened:
        context = EvaluationContext(opened, _since(opened, since), datetime.now(UTC))
        results = [_result(rule, evaluate(rule, context)) for rule in conditions]
    if as_json:
        output.print_json(results)
    else:
        for rule, result in zip(conditions, results, strict=True):
            where = f" ({', '.join(result['where'])})" if result["where"] else ""
            count = result["n"]
            click.echo(
                f"matched: {counted_title(rule.title, count)}{where}" if count else f"ok: no {rule.title}"
            )
    if any(result["n"] for result in results):
        sys.exit(EXIT_MATCHED)


def _result(rule: Any, triggers: Sequence[Any]) -> dict[str, Any]:
    where = sorted({trigger.summary for trigger in triggers if trigger.summary})
    return {"condition": rule.when, "number": rule.threshold, "n": len(triggers), "where": where}


def _since(history: Any, text: str | None) -> datetime:
    """Parse `--since`; default: the end of the complete run before the last one."""
    from exposurekit.monitor.notifications.evaluate import last_run_at
    from exposurekit.text.times import end_of_day, parse_start

    if text is not None:
        now = datetime.now(UTC)
        if (since := parse_start(text, now=now)) > max(end_of_day(last_run_at(history).date()), now):
            raise ConfigurationError(
                f"--since: {text} is in the future; the last run was at {last_run_at(history):%Y-%m-%d %H:%M} UTC"
            )
        return since
    ends = history.collection_runs()["finished_at"]
    if ends.empty:
        raise ConfigurationError("the history has no runs: run exposurekit collect first")
    before: datetime = ends.iloc[-2 if len(ends) > 1 else -1].to_pydatetime()
    return before
