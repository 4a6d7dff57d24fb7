"""What ``%exposure`` answers: the questions of an exposure and of a history, each a verb. Works nothing out itself."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd

from exposurekit import analysis, charts
from exposurekit.analysis.selection import select
from exposurekit.errors import Misconfigured, NotLoaded
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.notebook.namespace import Desk, Source
from exposurekit.notebook.parser import OPTIONS, Asked, parsed

_CHOSEN = ("site", "status")
_WHO, _WHERE, _WHOLE = ("user",), ("user", "site"), ("user", "site", "status")
_LATER = ("history", "as-of")


@dataclass(frozen=True, slots=True)
class Answer:
    """A value, and where it comes from."""

    value: Any
    provenance: str = ""


Way: TypeAlias = Callable[[Desk, Asked], Answer]


@dataclass(frozen=True, slots=True)
class Verb:
    """What a verb says of itself, how it is answered, and the options that it takes."""

    says: str
    way: Way
    options: tuple[str, ...] = ()


def answered(desk: Desk, line: str) -> Any:
    """What a line asks for: a table, a chart, or what else its verb gives; None after the help is printed.

    Raises:
        ExposureError: It cannot be had; the message says what to do.
    """
    asked = parsed(line, {name: takes(name) for name in VERBS}, named=("use",))
    if asked["help"]:
        print(told(asked.verb))  # noqa: T201  help is there to be read
        return None
    answer = VERBS[asked.verb].way(desk, asked)
    if isinstance(answer.value, pd.DataFrame):
        desk.remember(answer.value)
    return _drawn(asked.verb, answer) if asked["chart"] else answer.value


def takes(verb: str) -> tuple[str, ...]:
    """The options that a verb takes; ``chart`` where there is one."""
    return (*VERBS[verb].options, *(("chart",) if _chart_of(verb) else ()))


def told(verb: str = "") -> str:
    """The help: of one verb, or of all.

    >>> from exposurekit.notebook.commands import told
    >>> "--site NAME" in told("records")
    True
    """
    if not verb:
        verbs = "\n".join(f"  {name:<18}{one.says}" for name, one in VERBS.items())
        return f"{_HEAD}\n\n{verbs}\n\n%exposure VERB --help tells the options of one. {_FOOT}"
    lines = []
    for name in takes(verb):
        option = OPTIONS[name]
        shape = "|".join(option.choices) or option.value
        lines.append(f"  {f'--{name} {shape}':<34}{option.says}")
    named = " NAME" if verb == "use" else ""
    return "\n".join([f"%exposure {verb}{named} [options]: {VERBS[verb].says}", *lines])


_HEAD = "table = %exposure VERB [options]: a question, and its answer as a table."
_FOOT = """
Whose tables: a variable called exposure or demo, what `connect` or `use` chose, or else whatever the environment says
(EXPOSUREKIT_BASE_URL, ... or a .env file). No key is ever given on the line.
Whose past: a variable called history or demo, or --history DIR."""


def _chart_of(verb: str) -> Callable[..., Any] | None:
    name = verb.replace("-", "_")
    return getattr(charts, name, None) if name in analysis.__all__ else None


def _drawn(verb: str, answer: Answer) -> Any:
    draw = _chart_of(verb)
    assert draw is not None  # noqa: S101  else the option was not taken
    return draw(answer.value, provenance=answer.provenance)


def _things(name: str) -> Way:
    """A table that both an exposure and a history have."""

    def way(desk: Desk, asked: Asked) -> Answer:
        with desk.seen(asked) as source:
            return Answer(_narrowed(_of(source, name, asked), asked), _provenance(source, asked))

    return way


def _people(name: str) -> Way:
    """A table that an exposure alone has."""

    def way(desk: Desk, asked: Asked) -> Answer:
        return Answer(_narrowed(desk.exposure()[name], asked))

    return way


def _question(question: Callable[[pd.DataFrame], pd.DataFrame], of: str) -> Way:
    """A question on one of those tables."""

    def way(desk: Desk, asked: Asked) -> Answer:
        things = _things(of)(desk, asked)
        return Answer(question(things.value), things.provenance)

    return way


def _unblocking(question: Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]) -> Way:
    def way(desk: Desk, asked: Asked) -> Answer:
        exposure = desk.exposure()
        records = _narrowed(_of(exposure, "records", asked), asked)
        return Answer(question(records, exposure.on_file()), _provenance(exposure, asked))

    return way


def _work_queue(desk: Desk, asked: Asked) -> Answer:
    with desk.seen(asked) as source:
        steps = _narrowed(_of(source, "steps", asked), asked)
        ticked = steps if "tick" in steps else desk.ticked(steps)
        return Answer(analysis.work_queue(ticked), _provenance(source, asked))


def _past(ask: Callable[[History, Asked], pd.DataFrame]) -> Way:
    """A question that a history alone answers."""

    def way(desk: Desk, asked: Asked) -> Answer:
        with desk.history(asked) as history:
            return Answer(_narrowed(ask(history, asked), asked), _provenance(history, asked))

    return way


def _over_time(history: History, asked: Asked) -> pd.DataFrame:
    if asked["site"] and asked["by"] != "site":
        raise Misconfigured("--site needs --by site: the others are not told apart")
    return history.status_over_time(
        by=asked["by"],
        every=asked["every"] or "day",
        kind=asked["kind"] or "record",
        user=asked["user"] or None,
        since=asked["since"],
        until=asked["until"],
    )


def _diff(history: History, asked: Asked) -> Any:
    if asked["since"] is None:
        raise Misconfigured(f"{asked.verb} needs --since TIME, such as --since 14d or --since 2026-11-13")
    return history.diff(asked["since"], asked["until"], kind=asked["kind"] or "record")


def _time_to_removal(history: History, asked: Asked) -> pd.DataFrame:
    return history.time_to_removal(as_of=asked["as-of"])


def _collect(desk: Desk, asked: Asked) -> Answer:
    with desk.history(asked, makes=True) as history:
        return Answer(history.collect(desk.exposure(), run=asked["run"], only=asked["user"] or None))


def _of(source: Source, name: str, asked: Asked) -> pd.DataFrame:
    """A table of an exposure, or of a history as of a day; of some people, if they are known there."""
    users = asked["user"]
    if isinstance(source, Exposure):
        table: pd.DataFrame = getattr(source, name)(users or None)
        return table
    if users and (unknown := {*users} - {*source.people()["user_id"]}):
        raise NotLoaded(f"of these people nothing was ever seen: {sorted(unknown)}")
    past: pd.DataFrame = getattr(source, name)(asked["as-of"])
    return past


def _narrowed(table: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """The rows that a line asks for; letters are told apart by what they are, not by their case."""
    kept = table
    if asked["user"] and "user_id" in table:
        kept = table[table["user_id"].isin(asked["user"])].reset_index(drop=True)
    choices = {name: asked[name] for name in _CHOSEN if asked[name] and name in table}
    if not choices:
        return kept
    _, doubts = select(table, choices)
    for doubt in doubts:
        print(doubt, file=sys.stderr)  # noqa: T201  beside the empty table
    return select(kept, choices)[0]


def _provenance(source: Source, asked: Asked) -> str:
    """Where a chart's figures come from, and what was left out; nobody needs it of a table."""
    if not asked["chart"]:
        return ""
    narrowed = [f"{name} {one}" for name in ("user", *_CHOSEN) for one in asked[name]]
    return " · ".join([source.provenance, *narrowed])


VERBS = {
    "users": Verb("the people: one row a person", _people("users"), _WHO),
    "records": Verb("the listings on people-search sites", _things("records"), (*_WHOLE, *_LATER)),
    "links": Verb("the web pages that hold data", _things("links"), (*_WHO, *_LATER)),
    "alerts": Verb("the alerts, each with its guide and procedure", _things("alerts"), (*_WHOLE, *_LATER)),
    "steps": Verb("the steps that a human must take", _things("steps"), (*_WHOLE, *_LATER)),
    "failures": Verb("who could not be loaded, and why", _people("failures"), _WHO),
    "by-site": Verb("listings on each site", _question(analysis.by_site, "records"), (*_WHOLE, *_LATER)),
    "by-user": Verb("listings of each person", _question(analysis.by_user, "records"), (*_WHOLE, *_LATER)),
    "user-by-site": Verb(
        "open listings of each person on each site",
        _question(analysis.user_by_site, "records"),
        (*_WHOLE, *_LATER),
    ),
    "by-kind": Verb("what data the pages hold", _question(analysis.by_kind, "links"), (*_WHO, *_LATER)),
    "by-state": Verb(
        "where the listings place people", _question(analysis.by_state, "records"), (*_WHOLE, *_LATER)
    ),
    "blockers": Verb("which fields removals wait for", _unblocking(analysis.blockers), _WHERE),
    "best-next-fields": Verb("whom to ask for what", _unblocking(analysis.best_next_fields), _WHERE),
    "work-queue": Verb("what to do by hand, in which order", _work_queue, (*_WHOLE, *_LATER)),
    "status-over-time": Verb(
        "how many had each status, over time",
        _past(_over_time),
        ("by", "every", "kind", "since", "until", *_WHERE, "history"),
    ),
    "diff": Verb(
        "what changed since a day, thing by thing",
        _past(lambda history, asked: _diff(history, asked).things),
        ("since", "until", "kind", *_WHERE, "history"),
    ),
    "changes": Verb(
        "why the number of open things moved",
        _past(lambda history, asked: _diff(history, asked).why),
        ("since", "until", "kind", "history"),
    ),
    "time-to-removal": Verb("how long removal takes, by site", _past(_time_to_removal), ("site", *_LATER)),
    "survival": Verb(
        "what share is open after so many days",
        _past(lambda history, asked: history.survival(asked["by"], as_of=asked["as-of"])),
        ("by", *_LATER),
    ),
    "relistings": Verb(
        "what came back", _past(lambda history, _: history.relistings()), (*_WHERE, "history")
    ),
    "stale": Verb(
        "who was not seen well lately",
        _past(lambda history, asked: history.stale(asked["since"])),
        ("since", "user", "history"),
    ),
    "coverage": Verb(
        "how long ago everybody was seen well", _past(lambda history, _: history.coverage()), ("history",)
    ),
    "precision": Verb(
        "which findings are about the person",
        _past(lambda history, _: history.precision()),
        ("site", "history"),
    ),
    "forecast": Verb(
        "how many will be open in 30, 60, 90 days", _past(lambda history, _: history.forecast()), ("history",)
    ),
    "site-health": Verb(
        "which sites look broken", _past(lambda history, _: history.site_health()), ("site", "history")
    ),
    "runs": Verb("every look that was kept", _past(lambda history, _: history.runs()), ("history",)),
    "collect": Verb("one look at everyone, kept in a history", _collect, ("run", "user", "history")),
    "connect": Verb(
        "connect by the environment",
        lambda desk, asked: Answer(desk.connect(asked["base-url"])),
        ("base-url",),
    ),
    "use": Verb("speak of a variable from now on", lambda desk, asked: Answer(desk.use(asked.name))),
    "refresh": Verb("look at everyone anew", lambda desk, _: Answer(desk.exposure().refresh())),
}
