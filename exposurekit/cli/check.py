"""A history judged from a shell, for jobs that are to fail: whether something happened. Keeps nothing, tells nobody."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from exposurekit.cli import output
from exposurekit.cli.history import existing_history
from exposurekit.cli.options import When, history_option, json_option
from exposurekit.errors import ConfigurationError

FAILED = 3
_OF_WATCHES = "collection_failed"  # a history keeps no collection that failed


class Conditions(click.ParamType[tuple[Any, ...]]):
    """What fails a check: words with commas between, some with a number, such as relisted,stuck:30; as rules."""

    name = "conditions"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Each as a rule that tells nobody."""
        words = [word.strip() for word in str(value).split(",") if word.strip()]
        if not words:
            self.fail("name at least one condition", param, ctx)
        return tuple(self._one(word, param, ctx) for word in words)

    def _one(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from exposurekit.monitor.notifications.rules import NEEDS, WHEN, Rule

        word, colon, number = text.partition(":")
        word = word.replace("-", "_")
        if word not in WHEN or word == _OF_WATCHES:
            known = (f"{name}:N" if name in NEEDS else name for name in WHEN if name != _OF_WATCHES)
            self.fail(f"a condition is one of: {', '.join(known)}", param, ctx)
        if word not in NEEDS and colon:
            self.fail(f"{word} takes no number", param, ctx)
        try:
            return Rule.model_validate({"when": word, "send": ["nobody"], **_number(NEEDS.get(word), number)})
        except ValueError:
            return self.fail(f"{word} takes {NEEDS[word]}: {word}:30", param, ctx)


def _number(name: str | None, text: str) -> dict[str, float]:
    return {} if name is None else {name: float(text)}


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
@click.option(
    "--since",
    metavar="TIME",
    type=When(),
    help="Count changes since then: 14d, 36h, yesterday, the end of a day such as 2026-11-13, or an instant. Default: the "
    "run before the last one.",
)
@json_option
def check(*, history: str, conditions: tuple[Any, ...], since: str | None, as_json: bool) -> None:
    """Exit with 3 if a condition matched, else 0.

    For CI or cron jobs, after a collect. The output holds no personal data.

    Example: exposurekit check --fail-on relisted,stuck:30
    """
    from exposurekit.monitor.notifications.evaluate import EvaluationContext, evaluate

    with existing_history(history) as kept:
        seen = EvaluationContext(kept, _since(kept, since), datetime.now(UTC))
        found = [_evaluated(rule, evaluate(rule, seen)) for rule in conditions]
    if as_json:
        output.print_json(found)
    else:
        for rule, one in zip(conditions, found, strict=True):
            places = f" ({', '.join(one['where'])})" if one["where"] else ""
            click.echo(f"{one['n']:,} {rule.title}{places}" if one["n"] else f"ok: no {rule.title}")
    if any(one["n"] for one in found):
        sys.exit(FAILED)


def _evaluated(rule: Any, told: Sequence[Any]) -> dict[str, Any]:
    where = sorted({cause.about for cause in told if cause.about})
    return {"condition": rule.when, "number": rule.number, "n": len(told), "where": where}


def _since(kept: Any, told: str | None) -> datetime:
    """The instant that was named; else the end of the look before the last."""
    from exposurekit.history.times import end_of_day, parse_time
    from exposurekit.monitor.notifications.evaluate import latest

    if told is not None:
        now = datetime.now(UTC)
        if (since := parse_time(told, now=now)) > max(end_of_day(latest(kept).date()), now):
            raise ConfigurationError(
                f"--since: {told} is yet to come; nothing is known after {latest(kept):%Y-%m-%d %H:%M} UTC"
            )
        return since
    ends = kept.collection_runs()["finished_at"]
    if ends.empty:
        raise ConfigurationError("Nothing was collected yet: exposurekit collect")
    before: datetime = ends.iloc[-2 if len(ends) > 1 else -1].to_pydatetime()
    return before
