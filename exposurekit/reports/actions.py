"""What to do next: the actions in order of what they bring, and the best use of half an hour."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import pandas as pd

from exposurekit.analysis.manual_tasks import missing_values
from exposurekit.analysis.plan import PLAN_MINUTES
from exposurekit.analysis.site_outcomes import in_vain, is_refusing
from exposurekit.analysis.stalled_sites import STALLED_DAYS
from exposurekit.analysis.step_requirements import NAME_DIFFERS, document_request, requests_to_people
from exposurekit.analysis.work_queue import DONE, UNABLE, VISIT_MINUTES
from exposurekit.charts.theme import (
    format_duration,
    short,
)
from exposurekit.contract.types import PENDING_REMOVAL
from exposurekit.frames.arrow import texts
from exposurekit.reports import statements
from exposurekit.reports.data import ReportData
from exposurekit.reports.manual_steps import open_items
from exposurekit.reports.model import (
    OPERATOR,
    PER_PAGE,
    Action,
    Removal,
    expected_removals,
)
from exposurekit.text.formatting import enumerate_words, percent, pluralize

_PLAN_NAMED = 10  # listings of the half hour whose people are named, if they are no more
_ACTIONS = 4  # to do now, and as many that have to wait
_WITH_PENDING = ("by_site", "records", "changes")  # sections that tell of pending removals
_NOT_OVERDUE = f"only then {{}} waited longer than 95% of earlier removals took ({STALLED_DAYS} days where there were few)"
_ASSUMED = "assumed"  # of what rests on no observation
_TO_CHECK = "check that the required values are on file"


def _refuses(data: ReportData, site: str | None) -> bool:
    """Whether a site refused requests or did not carry them out, and has removed nothing."""
    outcomes = data.tables["site_outcomes"]
    return outcomes is not None and bool((is_refusing(outcomes) & (outcomes["site"] == site)).any())


def _basis(data: ReportData, site: str) -> str:
    """What the expected removals of a site rest on: what came of the requests to it, or that they are assumed."""
    granted, decided = data.decisions.get(site, (0, 0))
    if not decided:
        return f"{_ASSUMED}: no request answered yet"
    outcomes = data.tables["site_outcomes"]
    if outcomes is not None and _refuses(data, site):
        [row] = outcomes[outcomes["site"] == site].to_dict("records")
        return f"the site {in_vain(row)} so far"
    return f"the site carried out {granted:,} of {pluralize(decided, 'removal request')} so far"


def totals(data: ReportData, actions: Sequence[Action]) -> tuple[Action, ...]:
    """The manual work that no action names, if there is any, and the sum of all; empty if there is no sum.

    A share-safe report sums up only the actions: the rest may be of few people.
    """
    timed = [one for one in actions if one.minutes is not None]
    named = [(site, one.listings, one.expected or 0.0) for one in timed if (site := one.site)]
    rest = _rest(data, timed, named) if data.sharing is None else None
    if len(timed) + (rest is not None) < 2:  # noqa: PLR2004  one is its own sum
        return ()
    parts = [*timed, *([] if rest is None else [rest[0]])]
    requests = [*named, *([] if rest is None else rest[1])]
    text = "Total" if data.sharing is None else "These together"
    return (*parts[len(timed) :], _sum(data, text, parts, requests))


def _rest(
    data: ReportData, timed: Sequence[Action], named: Sequence[tuple[str, int, float]]
) -> tuple[Action, list[tuple[str, int, float]]] | None:
    """The manual work that no action names, with its requests by site; None if there is none."""
    queue = open_items(data["work_queue"])
    has_pages = any(not one.site for one in timed)
    queue = queue if has_pages else queue.dropna(subset="site")
    listings = queue.dropna(subset="site")
    of_site = listings.groupby(listings["site"].astype("str"))["success_rate"].agg(["size", "sum"])
    for site, n_named, expected in named:
        of_site.loc[site] -= [n_named, expected]
    n = int(of_site["size"].sum())
    if n <= 0:
        return None
    minutes = queue["minutes"].sum() - sum(one.minutes or 0 for one in timed)
    requests = [
        (str(site), int(size), float(removals)) for site, size, removals in of_site.itertuples() if size > 0
    ]
    text = f"The other {pluralize(n, 'listing')}"
    return _sum(data, text, [Action(text, "", "", "", listings=n, minutes=minutes)], requests), requests


def _sum(
    data: ReportData, text: str, parts: Sequence[Action], requests: Sequence[tuple[str, int, float]]
) -> Action:
    """Some work as one row, with the interval of all its requests together."""
    minutes, listings = sum(one.minutes or 0 for one in parts), sum(one.listings for one in parts)
    row = Action(text, "", "", "", listings=listings, minutes=minutes)
    if data.runs is None or not requests:
        return row
    expected, low, high = statements.removal_interval(data, requests)
    assumed = sum(removals for site, _, removals in requests if not data.decisions.get(site, (0, 0))[1])
    of_pages = sum(one.minutes or 0 for one in parts if not one.listings)
    basis = [f"{assumed:,.1f} of these are {_ASSUMED}"] if assumed else []
    basis += [f"the time includes {format_duration(of_pages)} for web pages"] if of_pages else []
    return replace(row, expected=expected, low=low, high=high, basis="; ".join(basis))


def next_actions(data: ReportData, names: AbstractSet[str], on_page: AbstractSet[str]) -> tuple[Action, ...]:
    """The first things to do: manual work that can start, and the request for data that unlocks most; and what has to wait.

    Args:
        data: The tables of the report.
        names: The sections of its kind: what it may tell to do.
        on_page: The sections that it has: an action links to no other.
    """
    to_do = _of_sites(data) if "by_site" in names and "work_queue" not in names else _of_work(data, names)
    actions = _first(to_do, _pending_action(data, names))
    return tuple(
        action if action.section.partition("-")[0] in on_page else replace(action, section="")
        for action in actions
    )


def _of_sites(data: ReportData) -> list[Action]:
    work = [(0, one) for one in statements.removal_groups(data)]
    begin, wait = _to_begin(work), _to_wait(work)
    by_hand = _removal_actions(data, [*begin, *wait], {}, is_ranked=False)
    return [replace(action, section="by_site") for action in by_hand]


def _of_work(data: ReportData, names: AbstractSet[str]) -> list[Action]:
    work = [*enumerate(statements.removal_groups(data) if "work_queue" in names else (), 1)]
    request = statements.best_request(data) if names & {"blockers", "work_queue"} else None
    others = [action for action in (_pages_action(data, work), request) if action is not None]
    begin = _to_begin(work)[: _ACTIONS - bool(others)]
    steps = {str(one.site): (step, one) for step, (_, one) in reversed([*enumerate(begin, 1)])}
    actions = [*_removal_actions(data, begin, steps), *others][:_ACTIONS]
    asks = request if request not in actions else None
    return [*actions, *_removal_actions(data, _to_wait(work), steps, asks)]


def _is_counted(removal: Removal) -> bool:
    """Whether a group is of listings, and the report says how many and how long they take."""
    return removal.site is not None and removal.listings is not None and removal.minutes is not None


def _can_begin(removal: Removal) -> bool:
    """Whether something can be done about a group now: the work itself, or asking for a document."""
    return removal.reason is None or removal.waits_for_document


def _to_begin(work: Sequence[tuple[int, Removal]]) -> list[tuple[int, Removal]]:
    """The groups that can begin."""
    return [(at, one) for at, one in work if _is_counted(one) and _can_begin(one)]


def _to_wait(work: Sequence[tuple[int, Removal]]) -> list[tuple[int, Removal]]:
    """The groups that have to wait."""
    return [(at, one) for at, one in work if _is_counted(one) and not _can_begin(one)]


def _removal_actions(
    data: ReportData,
    groups: Sequence[tuple[int, Removal]],
    steps: Mapping[str, tuple[int, Removal]],
    request: Action | None = None,
    *,
    is_ranked: bool = True,
) -> list[Action]:
    """The actions that clear groups of manual work; `request` is for data that no other action asks for."""
    tops = _first_of_site([one for _, one in groups])
    can_begin = sum(_can_begin(one) for _, one in groups)
    return [
        _removal_action(
            one,
            data,
            at,
            is_first=is_ranked and number == 0 and can_begin > 1,
            is_top=is_top and (str(one.site) not in steps or steps[str(one.site)][1] is one),
            steps=steps,
            request=request,
        )
        for number, ((at, one), is_top) in enumerate(zip(groups, tops, strict=True))
    ]


def _first_of_site(work: Sequence[Removal]) -> list[bool]:
    """Which groups of manual work are the first of their site."""
    return (~pd.Series([one.site for one in work], dtype="str").duplicated()).tolist()


def _pages_action(data: ReportData, work: Sequence[tuple[int, Removal]]) -> Action | None:
    """The messages to the owners of web pages: one for each host."""
    pages = {at: one for at, one in work if one.site is None and one.listings}
    if not pages:
        return None
    n = sum(one.listings or 0 for one in pages.values())
    distinct = n if data.sharing is not None else data.manual_pages["url"].nunique()
    links = (
        f"{pluralize(distinct, 'different link')} (a page counts for each person on it)"
        if distinct < n
        else ""
    )
    hosts = data.distinct_pages[1]
    where = f" on {pluralize(hosts, 'host')}" if data.sharing is None and hosts else ""
    about = f"check first that {'each' if n > 1 else 'it'} is about the person"
    effect = [f"it takes {PER_PAGE}" if n > 1 else "", about if statements.checks(data)[1] else ""]
    return Action(
        f"Write to the owners of {pluralize(n, 'web page')}{where}",
        statements.sentences(
            [links, "; ".join(filter(None, effect)), "there is no opt-out form, and owners may refuse"]
        ),
        f"work_queue-{min(pages)}",
        OPERATOR,
        minutes=sum(one.minutes or 0 for one in pages.values()),
        basis="not known: owners may refuse",
    )


def half_hour(data: ReportData) -> str:
    """What can be expected to remove most in half an hour; empty if nothing does, and in a share-safe report."""
    plan = data.tables["plan"]
    if plan is None or plan.empty or data.sharing is not None:
        return ""
    remove = "check and remove" if any(statements.checks(data)) else "remove"
    order = f" In order of time only: {statements.NEED_HISTORY}." if data.runs is None else ""
    first = _to_tell_first(data, plan)
    return f"If {OPERATOR} have {format_duration(PLAN_MINUTES)}, {remove} {_plan_words(data, plan)}.{first}{order}"


def _to_tell_first(data: ReportData, plan: pd.DataFrame) -> str:
    """What to tell the people whose listings are in the plan; empty if nothing."""
    steps = {one.site: one.steps for one in statements.removal_groups(data) if one.reason is None}
    asks: dict[str, set[int]] = {}
    for site, of_site in plan.dropna(subset="site").groupby("site"):
        for ask in requests_to_people(steps.get(str(site), ()), "{}"):
            asks.setdefault(ask, set()).update(of_site["user_id"])
    requests = [ask.format(pluralize(len(users), "person", "people")) for ask, users in asks.items()]
    return f" Before that, {enumerate_words(requests)}." if requests else ""


def _plan_words(data: ReportData, plan: pd.DataFrame) -> str:
    """Whose listings on which sites, and data on how many web pages; how many removals that may be, and the time."""
    listings = plan[plan["site"].notna()]
    parts = [
        f"{pluralize(len(of_site), 'listing')} on {short(str(site))}{_whose(data, of_site, len(listings))}"
        for site, of_site in listings.groupby("site", sort=False)
    ]
    pages = len(plan) - len(listings)
    parts += [f"the data on {pluralize(pages, 'web page')}"] if pages else []
    expected = _expected_removals(data, listings)
    time = f"about {format_duration(plan['minutes'].sum())}{_minutes_of_parts(plan)}"
    return f"{enumerate_words(parts)}: {', in '.join(filter(None, (expected, time)))}"


def _minutes_of_parts(plan: pd.DataFrame) -> str:
    """The minutes of each row without its visit, and those of the visits, in brackets; only the latter if they are many."""
    groups = plan.groupby(["kind", "group"], dropna=False)["minutes"]
    visits = len(groups)
    own = (plan["minutes"] - VISIT_MINUTES / groups.transform("size")).round()
    each = "on each site" if plan["site"].notna().all() else "on each site or host"
    where = each if visits > 1 else "there"
    begin = f"{format_duration(VISIT_MINUTES)} to start {where}"
    is_sum = round(own.sum() + visits * VISIT_MINUTES) == round(plan["minutes"].sum())
    if len(own) > _PLAN_NAMED or not is_sum:
        return f" ({begin} included)"
    return f" ({' + '.join(f'{minutes:g}' for minutes in own)} min, and {begin})"


def _whose(data: ReportData, listings: pd.DataFrame, total: int) -> str:
    """The people of some listings, in brackets; empty if the report is about one, or there are many in all."""
    if data.user is not None or total > _PLAN_NAMED:
        return ""
    of_person = listings["user_id"].value_counts(sort=False)
    n_named = Counter(data.names.values())
    people = []
    for user, n in zip(of_person.index.tolist(), of_person.tolist(), strict=True):
        name = data.names.get(user, "")
        who = f"{short(name)} (user {user})" if n_named[name] > 1 else short(name or f"user {user}")
        people.append(f"{who} ({pluralize(n, 'listing')})" if n > 1 else who)
    return f" ({', '.join(people)})"


def _expected_removals(data: ReportData, listings: pd.DataFrame) -> str:
    """How many removals to expect of some rows of the work queue; empty without a history, which has the success rates."""
    if data.runs is None or listings.empty:
        return ""
    return expected_removals(float(listings["success_rate"].sum()), len(listings))


def _first(actions: Sequence[Action], pending: Action | None) -> list[Action]:
    """The first actions of those that can be done now, and of those that have to wait."""
    later = [action for action in (pending, *actions) if action is not None and action.is_later]
    return [*[action for action in actions if not action.is_later][:_ACTIONS], *later[:_ACTIONS]]


def _pending_action(data: ReportData, keys: AbstractSet[str]) -> Action | None:
    """From when on pending removals have to be checked: the day after which the first request is not carried out in the usual time."""
    key = next((one for one in _WITH_PENDING if one in keys), None)
    n, records = data.open_parts[2], data["records"]
    if not n or key is None or "changed_at" not in records:
        return None
    is_pending = (records["status"] == PENDING_REMOVAL).to_numpy("bool")
    requests = records[is_pending]
    due = requests["changed_at"].dt.floor("D") + pd.to_timedelta(
        data.overdue_days(requests["site"]), unit="D"
    )
    due = due[due > pd.Timestamp(data.as_of).floor("D")]
    first = due.groupby(texts(requests["site"])).agg(["min", "size"]).sort_values("min", kind="stable")
    is_named = all(map(data.can_name, first.index))
    when = f"{first['min'].min():%Y-%m-%d}"
    if is_named and len(first) == 1:
        when += f" ({short(first.index[0])})"
    elif is_named and len(first) <= statements.WORST_NAMED:
        rows = first.itertuples(name=None)
        when = enumerate_words(
            [f"{due:%Y-%m-%d} ({short(site)}, {of_site:,})" for site, due, of_site in rows]
        )
    n_pending = int(is_pending.sum())
    if n < n_pending:
        what = f"Wait for {n:,} of {n_pending:,} pending removals"
    else:
        what = f"Wait for {pluralize(n, 'pending removal')}"
    return Action(
        what,
        f"Nothing to do before {when}: {_NOT_OVERDUE.format('has it' if n == 1 else 'have they')}.",
        key,
        "",
        is_later=True,
    )


def _removal_action(
    removal: Removal,
    data: ReportData,
    at: int,
    *,
    is_first: bool = False,
    is_top: bool,
    steps: Mapping[str, tuple[int, Removal]],
    request: Action | None = None,
) -> Action:
    """The action that clears a group of manual work, which has this number in the work queue.

    Args:
        removal: The group.
        data: The data of the report.
        at: The number of the group in the work queue.
        is_first: Whether it is the first work of all.
        is_top: Whether it is the first of its site.
        steps: The numbers of the actions that can begin, and their groups, by site.
        request: A request for data that is part of this action if the group waits for it.
    """
    n, site = removal.listings or 0, removal.site or ""
    share = percent(n / max(len(data.open_records), 1))
    # The others may lack a value, which a shared report does not mention.
    of_site = n if data.sharing is not None else data.open_by_site.get(removal.site or "", 0)
    listings = f"{n:,} of {of_site:,} open listings" if of_site > n else pluralize(n, "listing")
    is_unchecked = removal.site in data.unchecked_sites
    people = pluralize(removal.people or 0, "person", "people") if data.user is None else "the person"
    is_ready = removal.reason is None
    before = [_TO_CHECK] if is_unchecked and data.sharing is None else []
    document = document_request(people)
    before += [
        one
        for one in (
            requests_to_people(removal.steps, people) if is_ready or removal.waits_for_document else ()
        )
        if is_ready or one != document
    ]
    differing = sum(any(one.startswith(NAME_DIFFERS) for one in task.cautions) for task in removal.tasks)
    if differing and data.user is not None:
        names = "the name" if n == 1 else "one name" if differing == 1 else f"{differing:,} names"
        differ = "differs" if differing == 1 else "differ"
        before.append(f"check that this is the right person: {names} {differ}")
    notes = [f"before you begin, {enumerate_words(before)}"] if before else []
    is_blocked = bool(removal.tasks) and all(task.missing_values for task in removal.tasks)
    notes += [] if _can_begin(removal) or is_blocked else [f"reason to wait: {removal.reason}"]
    notes += [statements.LEFT_OUT] if is_unchecked and data.sharing is not None else []
    notes += _not_counted(data, removal, of_site - n, steps) if of_site > n else []
    effect = f"{share} of all open listings{', if all are removed' if n > 1 else ''}"
    is_worst = [*statements.most_open(data)] == [removal.site]
    first = (
        "least time per listing"
        if data.runs is None
        else "most expected removals per minute of the work that can start now"
    )
    ranks = [first] if is_first else []
    ranks += (
        [f"on the site with the most open listings{statements.of_named(data)}"] if is_worst and is_top else []
    )
    effect = f"{', '.join(ranks)}: {effect}" if ranks else effect
    what, who = f"emove {listings} on {short(removal.site)} by hand", removal.who
    if removal.waits_for_document:
        what = f"{document[:1].upper()}{document[1:]} now; later r{what}"
    elif is_ready:
        what = f"R{what}"
    elif (
        is_blocked
        and request is not None
        and {task.user_id for task in removal.tasks} == {_requested_user(data)}
    ):
        what, who = f"{request.text}; then r{what}", request.who
    else:
        what = f"R{what} (later: {_once_on_file(removal) if is_blocked else 'after the others'})"
        notes += [request.text] if is_blocked and request is not None else []
    return Action(
        what,
        statements.sentences([effect, *notes]),
        f"work_queue-{at}",
        who,
        is_later=not _can_begin(removal),
        listings=n,
        minutes=removal.minutes,
        site=site,
        **_expectation(data, removal),
    )


def _expectation(data: ReportData, removal: Removal) -> dict[str, Any]:
    """How many removals to expect of a group of manual work, how sure that is, and what it rests on; empty if not known."""
    if removal.expected is None or not removal.listings or removal.site is None:
        return {}
    expected, low, high = statements.removal_interval(
        data, [(removal.site, removal.listings, removal.expected)]
    )
    return {"expected": expected, "low": low, "high": high, "basis": _basis(data, removal.site)}


def _once_on_file(removal: Removal) -> str:
    """When removals that lack a value can start."""
    labels = [*dict.fromkeys(label for task in removal.tasks for label in task.missing_values)]
    return f"once {statements.value_words(labels)} {'is' if len(labels) == 1 else 'are'} on file"


def _not_counted(
    data: ReportData, removal: Removal, others: int, steps: Mapping[str, tuple[int, Removal]]
) -> list[str]:
    """Why so many other open listings of a site are not among those of its manual work."""
    queue, records = data["work_queue"], data.open_records
    of_site = queue[queue["site"] == removal.site]
    states, left = of_site["state"].value_counts(), open_items(of_site)
    apart = len(left) - (removal.listings or 0)
    lacking = [
        one for one in missing_values(left[left["reason"].fillna("") != (removal.reason or "")]) if one
    ]
    blocked = len(lacking)
    is_pending = (records["site"] == removal.site) & (records["status"] == PENDING_REMOVAL)
    pending = int(is_pending.sum())
    parts = {
        "pending removal" if pending == 1 else "pending removals": pending,
        "marked unable": int(states.get(UNABLE, 0)),
        "done and not verified yet": int(states.get(DONE, 0)),
        "with other steps or reasons": apart - blocked,
    }
    parts["labelled as somebody else's"] = int((data.namesakes_listings["site"] == removal.site).sum())
    parts["waiting for the service"] = others - blocked - sum(parts.values())
    words = [f"{n:,} {why}" for why, n in parts.items() if n > 0]
    are = "is" if others - blocked == 1 else "are"
    step, first = steps.get(removal.site or "", (0, removal))
    if first is not removal and first.listings == others:
        return [f"the other {'one is' if others == 1 else f'{others:,} are'} in step {step}"]
    notes = [f"the {enumerate_words(words)} {are} not included"] if words else []
    more = "one more has" if blocked == 1 else f"{blocked:,} more have"
    return [*notes, f"{more} to wait (below)"] if blocked else notes


def _requested_user(data: ReportData) -> int:
    """The id of the person whom `best_request` is to."""
    return int(data["best_next_fields"]["user_id"].iloc[0])
