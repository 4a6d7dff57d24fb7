"""Evaluate notification rules on a history: which triggers are new."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pandas as pd

from exposurekit import analysis
from exposurekit.analysis.diff import AGAIN, NEW
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import NotFound, suggestion
from exposurekit.history import History
from exposurekit.monitor.notifications.rules import Rule, Rules
from exposurekit.text.html_cards import truncate
from exposurekit.text.sanitize import escape_chat, escape_chat_url, plain

NAME_MAX, ADDRESS_MAX = 60, 300  # characters of a name and of an address in a message


@dataclass(frozen=True, slots=True)
class Trigger:
    """One thing that satisfies a rule."""

    key: str  # a digest that is the same for the same trigger
    summary: str  # the line of the message without personal data: a site, or nothing
    personal_summary: str = field(repr=False)  # the line with personal data


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """A history and the period to evaluate."""

    history: History
    since: datetime | None  # when rules were last evaluated; None: never, so nothing in the history is new
    at: datetime

    @property
    def has_new_run(self) -> bool:
        """Whether a run finished since."""
        return self.since is None or last_run_at(self.history) > self.since


def last_run_at(history: History) -> datetime:
    """Return when the last run finished."""
    last = history.last_run()
    return last.finished_at or last.started_at


def evaluate(rule: Rule, context: EvaluationContext) -> list[Trigger]:
    """Return the triggers of a rule, in the order of the message."""
    return [*_EVALUATORS[rule.when](rule, context)]


def evaluate_failure(rule: Rule, in_a_row: int, since: str, reason: str) -> list[Trigger]:
    """Return the trigger of a `collection_failed` rule once enough runs failed in a row.

    `since`, the last success, distinguishes one series of failures from the next.
    """
    if rule.when != "collection_failed" or in_a_row < rule.times:
        return []
    line = escape_chat(reason)
    return [Trigger(_key(rule, since, rule.times), line, line)]


def _status_changes(
    matches: Callable[[pd.DataFrame], "pd.Series[bool]"],
) -> Callable[[Rule, EvaluationContext], Iterator[Trigger]]:
    def triggers(rule: Rule, context: EvaluationContext) -> Iterator[Trigger]:
        if context.since is None or not context.has_new_run:
            return
        changes = context.history.diff(context.since).changes
        changes = _matching_rows(rule, changes[matches(changes)])
        names = _listing_names(context.history.records()) if rule.personal and len(changes) else {}
        for one in _each(changes):
            site = _short(one.site)
            if one.what == NEW and one.after in analysis.CLOSED:  # observed for the first time
                site = f"{site} (already {one.after})"
            # With `record_key="reference"` the key is not a record id: then a user's only listing on the site is meant.
            listings = names.get((one.user_id, one.site), {})
            name = listings.get(one.key, next(iter(listings.values())) if len(listings) == 1 else "")
            key = _key(rule, one.user_id, one.key, one.changed_at)
            yield Trigger(key, site, f"user {one.user_id} at {site}{name}")

    return triggers


def _stuck(rule: Rule, context: EvaluationContext) -> Iterator[Trigger]:
    records = _matching_rows(rule, context.history.records())
    limit = context.at - timedelta(days=rule.days or 0)
    stuck = records[analysis.is_open(records["status"].astype("str")) & (records["changed_at"] < limit)]
    for one in _each(stuck):
        site, name = _short(one.site), _describe_listing(one.name, one.href)
        key = _key(rule, one.user_id, one.record_id, one.changed_at, rule.days)
        status = f"{_short(one.status)} since {one.changed_at:%Y-%m-%d}"
        yield Trigger(key, site, f"user {one.user_id} at {site}, {status}{name}")


def _not_loaded(rule: Rule, context: EvaluationContext) -> Iterator[Trigger]:
    limit = context.at - timedelta(days=rule.days or 0)
    stale = context.history.stale(limit)
    if len(stale):  # nobody could load them before a run listed them
        registered_at = _registered_at(context.history)
        stale = stale[~(stale["user_id"].map(registered_at) >= pd.Timestamp(limit))]
    for one in _each(_matching_rows(rule, stale)):
        last = "never" if pd.isna(one.last_complete_at) else f"last on {one.last_complete_at:%Y-%m-%d}"
        key = _key(rule, one.user_id, one.last_complete_at, rule.days)
        yield Trigger(key, "", f"user {one.user_id}, {last}")


def _registered_at(history: History) -> "pd.Series[Any]":
    """The end of the first run that listed each user; of one who left, the first one since."""
    issues = history.load_issues()
    ends = history.runs().set_index("seq")["finished_at"]
    listed = issues[issues["what"] == "registered"]
    return listed.assign(at=listed["seq"].map(ends)).groupby("user_id")["at"].max()


def _score(rule: Rule, context: EvaluationContext) -> Iterator[Trigger]:
    if context.since is None or not context.has_new_run:
        return
    ends = context.history.collection_runs()["finished_at"]
    before = ends[ends <= context.since]
    if before.empty or ends.iloc[-1] <= context.since:  # the newest run did not load everyone
        return
    table = context.history.score_changes(before.iloc[-1].to_pydatetime(), ends.iloc[-1].to_pydatetime())
    first, last = float(table["score"].iloc[0]), float(table["score"].iloc[-1])
    if last - first >= (rule.points or 0):
        change = f"from {first:,.0f} to {last:,.0f}"
        yield Trigger(_key(rule, ends.iloc[-1]), change, change)


def _broken_sites(rule: Rule, context: EvaluationContext) -> Iterator[Trigger]:
    table = _matching_rows(rule, context.history.site_health())
    records = context.history.records()
    vanished = records[records["status"].astype("str") == analysis.VANISHED]
    for one in _each(table[table["is_doubtful"]]):
        site = _short(one.site)
        # When most of its listings vanished: a site stays doubtful long after its scans work again.
        vanished_at = vanished.loc[vanished["site"].astype("str") == one.site, "changed_at"].mode().iloc[0]
        if context.since is None or vanished_at > context.since:
            yield Trigger(_key(rule, one.site, vanished_at), site, site)


_EVALUATORS: dict[str, Callable[[Rule, EvaluationContext], Iterator[Trigger]]] = {
    "new": _status_changes(lambda changes: changes["what"] == NEW),
    "relisted": _status_changes(lambda changes: changes["what"] == AGAIN),
    "removed": _status_changes(lambda changes: changes["what"] == REMOVED),
    # A refused opt-out sets the record back to discovered, with an alert.
    "refused": _status_changes(
        lambda changes: (changes["before"] == PENDING_REMOVAL) & (changes["after"] == DISCOVERED)
    ),
    "stuck": _stuck,
    "not_seen": _not_loaded,
    "score": _score,
    "collection_failed": lambda _rule, _context: iter(()),  # triggered by `evaluate_failure`
    "site_broken": _broken_sites,
}


def _matching_rows(rule: Rule, table: pd.DataFrame) -> pd.DataFrame:
    if rule.sites and "site" in table:
        sites = {site.casefold() for site in rule.sites}
        table = table[table["site"].astype("str").str.casefold().isin(sites)]
    if rule.users and "user_id" in table:
        table = table[table["user_id"].isin(rule.users)]
    return table


def unknown_choices(rules: Rules, history: History) -> list[str]:
    """Say which sites and users the rules name that the history has not observed; empty while it has no run."""
    try:
        sites = history.by_site()["site"].tolist()
        users = {*history.people()["user_id"]}
    except NotFound:
        return []
    folded = {site.casefold() for site in sites}
    problems = []
    for number, rule in enumerate(rules.rules, 1):
        if isinstance(rule, Rule):
            rule_name = f"rule {number} ({rule.when})"
            problems += [
                f"{rule_name}: no listing was ever seen on the site {site}{suggestion(site, sites)}"
                for site in map(plain, rule.sites)
                if site.casefold() not in folded
            ]
            problems += [
                f"{rule_name}: user {user} was never listed" for user in rule.users if user not in users
            ]
    return problems


def _listing_names(records: pd.DataFrame) -> dict[tuple[int, str], dict[int, str]]:
    columns = ["user_id", "site", "record_id", "name", "href"]
    names: dict[tuple[int, str], dict[int, str]] = {}
    for one in _each(records[columns].astype({"site": "str"})):
        listings = names.setdefault((one.user_id, one.site), {})
        listings[one.record_id] = _describe_listing(one.name, one.href)
    return names


def _each(table: pd.DataFrame) -> Iterator[Any]:
    return iter(table.itertuples(index=False))


def _describe_listing(name: Any, href: Any) -> str:
    parts = ((name, escape_chat, NAME_MAX), (href, escape_chat_url, ADDRESS_MAX))
    return "".join(
        f", {truncate(escape(part), length)}"
        for part, escape, length in parts
        if isinstance(part, str) and part.strip()
    )


def _short(text: Any) -> str:
    return truncate(escape_chat(text), NAME_MAX) if isinstance(text, str) else "a page"


def _key(rule: Rule, *parts: object) -> str:
    text = "\0".join([rule.when, *map(str, parts)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
