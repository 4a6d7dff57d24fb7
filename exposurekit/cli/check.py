"""A history judged from a shell, for jobs that are to fail: whether something happened. Keeps nothing, tells nobody."""

import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click

from exposurekit.cli import showing
from exposurekit.cli.history import existing
from exposurekit.cli.options import history_option, json_option
from exposurekit.errors import Misconfigured

FAILED = 3
MOST = 36_500  # days, or points
_TAKES = {"stuck": "days", "not_seen": "days", "score": "points"}
_TAKES_NOTHING = ("new", "relisted", "removed", "refused", "site_broken")


class Conditions(click.ParamType[tuple[Any, ...]]):
    """What fails a check: words with commas between, some with a number, such as relisted,stuck:30."""

    name = "conditions"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Each as its word and its number, or None."""
        return tuple(self._one(word.strip(), param, ctx) for word in str(value).split(",") if word.strip())

    def _one(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float | None]:
        word, colon, number = text.partition(":")
        word = word.replace("-", "_")
        if word in _TAKES_NOTHING and not colon:
            return word, None
        if word in _TAKES:
            with suppress(ValueError):
                if 0 < float(number) < MOST:
                    return word, float(number)
            self.fail(f"{word} takes {_TAKES[word]}: {word}:30", param, ctx)
        known = (*_TAKES_NOTHING, *(f"{name}:N" for name in _TAKES))
        return self.fail(f"a condition is one of: {', '.join(known)}", param, ctx)


@click.command()
@history_option
@click.option(
    "--fail-on",
    "conditions",
    type=Conditions(),
    required=True,
    help="What fails: new, relisted, removed, refused, site_broken; stuck:DAYS, not_seen:DAYS, score:POINTS (risen by).",
)
@click.option(
    "--since",
    metavar="DAY",
    help="What moved since the end of a day, or an instant. Default: the look before.",
)
@json_option
def check(*, history: str, conditions: tuple[Any, ...], since: str | None, as_json: bool) -> None:
    """Whether something happened: ends with 0 where nothing did, with 3 where something did.

    For jobs of a CI or of cron, after a collect. What is told holds no personal data.

    Example: exposurekit check --fail-on relisted,stuck:30
    """
    from exposurekit.monitor.causes import Seen, causes
    from exposurekit.monitor.rules import Rule

    if not conditions:
        raise Misconfigured("--fail-on names at least one condition")
    with existing(history) as kept:
        seen = Seen(kept, _since(kept, since), datetime.now(UTC))
        found = []
        for word, number in conditions:
            takes = {_TAKES[word]: number} if word in _TAKES else {}
            rule = Rule.model_validate({"when": word, "send": ["nobody"], **takes})
            told = causes(rule, seen)
            where = sorted({one.about for one in told if one.about})
            found.append(
                {"condition": word, "number": number, "n": len(told), "where": where, "title": rule.title}
            )
    if as_json:
        showing.print_json(
            [{name: one[name] for name in ("condition", "number", "n", "where")} for one in found]
        )
    else:
        for one in found:
            places = f" ({', '.join(one['where'])})" if one["where"] else ""
            click.echo(f"{one['n']:,} {one['title']}{places}" if one["n"] else f"ok: no {one['title']}")
    if any(one["n"] for one in found):
        sys.exit(FAILED)


def _since(kept: Any, told: str | None) -> datetime:
    """The instant that was named; else the end of the look before the last."""
    from exposurekit.history.shown import until
    from exposurekit.monitor.causes import newest

    if told is not None:
        if (since := until(told)) > max(until(newest(kept).date()), datetime.now(UTC)):
            raise Misconfigured(
                f"--since: {told} is yet to come; nothing is known after {newest(kept):%Y-%m-%d %H:%M} UTC"
            )
        return since
    runs = kept.runs()
    looks = runs[(runs["origin"] == "look") & (runs["scope"] == "everyone")]["finished_at"]
    if looks.empty:
        raise Misconfigured("Nothing was collected yet: exposurekit collect")
    before: datetime = looks.iloc[-2 if len(looks) > 1 else -1].to_pydatetime()
    return before
