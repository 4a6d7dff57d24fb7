"""What happened that somebody wants to be told of: a history, asked by rules. Sends nothing, and keeps nothing."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pandas as pd

from exposurekit import analysis
from exposurekit.analysis.diff import AGAIN, NEW
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.history import History
from exposurekit.monitor.notifications.rules import Rule
from exposurekit.text.sanitize import escape_chat, escape_chat_url

SHOWN_MAX, ADDRESS_MAX = 60, 300  # letters of a name, and of an address, from outside


@dataclass(frozen=True, slots=True)
class Trigger:
    """One thing that happened.

    Attributes:
        key: What tells it from any other, without saying what it is: the same cause has the same one.
        about: Whose it is, as everybody may know: a site, or nothing.
        personal: The same for those who may know more.
    """

    key: str
    about: str
    personal: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """A history as it stands, and since when it is news.

    Attributes:
        history: What remembers.
        since: What was seen until then was told; None: nothing was, and what is there is no news.
        at: Now.
    """

    history: History
    since: datetime | None
    at: datetime

    @property
    def is_news(self) -> bool:
        """Whether anybody looked since."""
        return self.since is None or latest(self.history) > self.since


def latest(history: History) -> datetime:
    """When the last look ended.

    >>> from exposurekit.monitor.notifications.evaluate import latest
    >>> latest(history) == history.last_run().finished_at
    True
    """
    last = history.last_run()
    return last.finished_at or last.started_at


def evaluate(rule: Rule, seen: EvaluationContext) -> list[Trigger]:
    """What happened of what a rule is about, in the order in which it is told.

    >>> from exposurekit.monitor.notifications.evaluate import EvaluationContext, evaluate
    >>> from exposurekit.monitor.notifications.rules import Rule
    >>> at = history.last_run().finished_at
    >>> evaluate(Rule(when="new", send="me"), EvaluationContext(history, at, at))
    []
    """
    return [*_FOUND[rule.when](rule, seen)]


def on_failure(rule: Rule, in_a_row: int, since: str, reason: str) -> list[Trigger]:
    """The cause of a rule about collections that fail, once so many did; ``since`` tells one streak from another.

    >>> from exposurekit.monitor.notifications.evaluate import on_failure
    >>> from exposurekit.monitor.notifications.rules import Rule
    >>> rule = Rule(when="collection_failed", send="me", times=3)
    >>> len(on_failure(rule, 2, "monday", "no answer")), len(on_failure(rule, 3, "monday", "no answer"))
    (0, 1)
    """
    if rule.when != "collection_failed" or in_a_row < rule.times:
        return []
    why = escape_chat(reason)
    return [Trigger(_key(rule, since), why, why)]


def _status_changes(
    which: Callable[[pd.DataFrame], "pd.Series[bool]"],
) -> Callable[[Rule, EvaluationContext], Iterator[Trigger]]:
    def found(rule: Rule, seen: EvaluationContext) -> Iterator[Trigger]:
        if seen.since is None or not seen.is_news:
            return
        things = seen.history.diff(seen.since).things
        things = _matching_rules(rule, things[which(things)])
        named = _named(seen.history.records()) if rule.personal and len(things) else {}
        for one in _each(things):
            site = _short(one.site)
            # Where records are known by their reference, the key is no id: then who has one listing there is told of it.
            alike = named.get((one.user_id, one.site), {})
            who = alike.get(one.key, next(iter(alike.values())) if len(alike) == 1 else "")
            key = _key(rule, one.user_id, one.key, one.changed_at)
            yield Trigger(key, site, f"user {one.user_id} at {site}{who}")

    return found


def _overdue(rule: Rule, seen: EvaluationContext) -> Iterator[Trigger]:
    records = _matching_rules(rule, seen.history.records())
    border = seen.at - timedelta(days=rule.days or 0)
    standing = records[analysis.is_open(records["status"].astype("str")) & (records["changed_at"] < border)]
    for one in _each(standing):
        site, who = _short(one.site), _person(one.name, one.href)
        key = _key(rule, one.user_id, one.record_id, one.changed_at, rule.days)
        yield Trigger(
            key,
            site,
            f"user {one.user_id} at {site}, {_short(one.status)} since {one.changed_at:%Y-%m-%d}{who}",
        )


def _unobserved(rule: Rule, seen: EvaluationContext) -> Iterator[Trigger]:
    stale = seen.history.stale(seen.at - timedelta(days=rule.days or 0))
    for one in _each(_matching_rules(rule, stale)):
        last = "never" if pd.isna(one.last_complete_at) else f"last on {one.last_complete_at:%Y-%m-%d}"
        yield Trigger(
            _key(rule, one.user_id, one.last_complete_at, rule.days), "", f"user {one.user_id}, {last}"
        )


def _score(rule: Rule, seen: EvaluationContext) -> Iterator[Trigger]:
    if seen.since is None or not seen.is_news:
        return
    ends = seen.history.collection_runs()["finished_at"]
    before = ends[ends <= seen.since]
    if before.empty or ends.iloc[-1] <= seen.since:  # a look at some says nothing of the rest
        return
    table = seen.history.score_changes(before.iloc[-1].to_pydatetime(), ends.iloc[-1].to_pydatetime())
    first, last = float(table["score"].iloc[0]), float(table["score"].iloc[-1])
    if last - first >= (rule.points or 0):
        how_far = f"from {first:,.0f} to {last:,.0f}"
        yield Trigger(_key(rule, ends.iloc[-1]), how_far, how_far)


def _broken_sites(rule: Rule, seen: EvaluationContext) -> Iterator[Trigger]:
    table = _matching_rules(rule, seen.history.site_health())
    records = seen.history.records()
    vanished = records[records["status"].astype("str") == analysis.VANISHED]
    for one in _each(table[table["is_doubtful"]]):
        site = _short(one.site)
        # When most of its listings went: a site stays doubtful long after it can be read again.
        went_at = vanished.loc[vanished["site"].astype("str") == one.site, "changed_at"].mode().iloc[0]
        if seen.since is None or went_at > seen.since:
            yield Trigger(_key(rule, one.site, went_at), site, site)


_FOUND: dict[str, Callable[[Rule, EvaluationContext], Iterator[Trigger]]] = {
    "new": _status_changes(lambda things: things["what"] == NEW),
    "relisted": _status_changes(lambda things: things["what"] == AGAIN),
    "removed": _status_changes(lambda things: things["what"] == REMOVED),
    # A refused opt-out goes back to where it was, with an alert.
    "refused": _status_changes(
        lambda things: (things["before"] == PENDING_REMOVAL) & (things["after"] == DISCOVERED)
    ),
    "stuck": _overdue,
    "not_seen": _unobserved,
    "score": _score,
    "collection_failed": lambda _rule, _seen: iter(()),  # that is told when it happens: see `on_failure`
    "site_broken": _broken_sites,
}


def _matching_rules(rule: Rule, table: pd.DataFrame) -> pd.DataFrame:
    """The rows that are about the sites and the people of a rule."""
    if rule.sites and "site" in table:
        table = table[table["site"].astype("str").isin(rule.sites)]
    if rule.users and "user_id" in table:
        table = table[table["user_id"].isin(rule.users)]
    return table


def _named(records: pd.DataFrame) -> dict[tuple[int, str], dict[int, str]]:
    """By person and site, what each listing there is called."""
    columns = ["user_id", "site", "record_id", "name", "href"]
    found: dict[tuple[int, str], dict[int, str]] = {}
    for one in _each(records[columns].astype({"site": "str"})):
        found.setdefault((one.user_id, one.site), {})[one.record_id] = _person(one.name, one.href)
    return found


def _each(table: pd.DataFrame) -> Iterator[Any]:
    """Row by row, its cells by their names."""
    return iter(table.itertuples(index=False))


def _person(name: Any, href: Any) -> str:
    shown = ((name, _short), (href, _place))
    return "".join(f", {show(one)}" for one, show in shown if isinstance(one, str) and one.strip())


def _short(site: Any) -> str:
    return _cut(escape_chat(site), SHOWN_MAX) if isinstance(site, str) else "a page"


def _place(href: str) -> str:
    return _cut(escape_chat_url(href), ADDRESS_MAX)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _key(rule: Rule, *parts: object) -> str:
    told = "\0".join([rule.when, *map(str, parts)])
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
