"""Disclosure control for share-safe reports: pseudonyms, rounded values, no group of fewer than five people.

Readers may know some of the people, so a site or host is named only if at least `FEW` people in the data are or were found
there, a missing field only if so many lack it, and a text only if so many have it. The figures beside a name may count fewer.
`privacy.redaction` lists the columns that are kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from exposurekit.analysis.manual_tasks import Task, opt_out_url
from exposurekit.analysis.work_queue import DONE, UNABLE
from exposurekit.frames.url_columns import hosts
from exposurekit.privacy.pseudonyms import Pseudonyms
from exposurekit.privacy.redaction import assert_redacted, with_harmless_columns
from exposurekit.reports.model import Removal
from exposurekit.text.formatting import is_missing
from exposurekit.text.us_addresses import state_of

FEW = 5  # people; smaller groups are not shown
FEW_SITES, FEW_HOSTS = "other sites", "places with few people"
HIDDEN_REASON = "not stated in a share-safe report"  # why work comes later
AGE_BAND = 10  # years
_ID_COLUMNS = (
    "record_id",
    "alert_number",
    "episode",
)  # with the service's own tables, these identify a person
_COUNTS = frozenset({"listings", "links"})  # by state and by kind, beside a number of people
_RANK_COLUMNS = ["group", "score", "removals", "unlocks"]  # tables with people are sorted by these
_POSITION_COLUMNS = ["rank", "together"]  # these belong to the position of a row, not to its person


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a share-safe report may contain, decided once for all its tables.

    Attributes:
        pseudonyms: The pseudonyms of people.
        sites: The sites that may be named: those with listings of at least `FEW` people, minus those merged so that
            totals do not reveal a single unnamed site.
        texts: Combinations of site, guide and steps that at least `FEW` people share.
        has_rows: Whether tables with one row per listing or person are included.
    """

    pseudonyms: Pseudonyms = field(repr=False)
    sites: frozenset[str] = field(repr=False)
    texts: frozenset[tuple[Any, ...]] = field(repr=False)
    has_rows: bool = True

    def pseudonym(self, user_id: int) -> str:
        """Return the pseudonym of a user."""
        return self.pseudonyms.of(user_id)

    def table(self, table: pd.DataFrame, *, is_alone: bool = False) -> pd.DataFrame:
        """Return the part of a table that may be shared.

        Args:
            table: A table of a section.
            is_alone: Whether the report is about one person, so that all numbers of people are 1.
        """
        safe = self._shareable(table, is_alone=is_alone)
        assert_redacted(safe, table, common=self.sites)
        return safe

    def _shareable(self, table: pd.DataFrame, *, is_alone: bool) -> pd.DataFrame:
        safe = with_harmless_columns(table)
        if safe.index.name == "user_id":
            return self._matrix(safe)
        safe = safe.drop(columns=[name for name in _ID_COLUMNS if name in safe])
        if "age" in table:
            safe = safe.assign(age=_bands(table["age"]))
        if "locations" in table:
            safe = safe.assign(states=_states(table["locations"]))
        if "group" in table:  # a host on which people opt out
            safe = self._with_named_hosts(
                safe.assign(group=table["group"], **_reasons(table)), is_alone=is_alone
            )
        if "user_id" in safe:
            safe = _shuffled(safe.assign(user_id=safe["user_id"].map(self.pseudonym).astype("str")))
        if "last_complete_load" in safe:
            safe = _merge_small_loads(safe)
        if "at_risk" in safe:
            safe = safe[~_has_few_left(safe)].reset_index(drop=True)
        if "people" in safe and not is_alone and not _COUNTS.isdisjoint(safe.columns):
            suppressed = _is_suppressed(safe["people"], pd.Series(data=False, index=safe.index))
            safe = safe[~suppressed].reset_index(drop=True)
        return self._without_small_sites(_days(safe))

    def _with_named_hosts(self, queue: pd.DataFrame, *, is_alone: bool) -> pd.DataFrame:
        """Merge the hosts of a work queue that may not be named, or on which few people opt out."""
        # The group of a listing is its site if the steps name no host.
        is_named_site = queue["site"].isin([*self.sites])
        if not is_alone:
            is_unnamed = (queue["group"] == queue["site"]) & ~is_named_site
            return _merge_small_hosts(queue, is_unnamed | (queue["people"] < FEW))
        # All figures are of one person, so the people in the data decide: those with the same steps.
        is_named = is_named_site & queue["group"].isin([*self.sites, *self._hosts])
        is_small = ~is_named.groupby([queue["kind"], queue["group"]], dropna=False).transform("all")
        reasons = {"reason": queue["reason"].mask(is_small)} if "reason" in queue else {}
        return queue.assign(group=queue["group"].mask(is_small, FEW_HOSTS), **reasons)

    @property
    def _hosts(self) -> set[str]:
        """The opt-out hosts of the sites that may be named, from the steps that may be shown."""
        steps = [text[-1] for text in self.texts if text[0] in self.sites]
        urls = pd.Series([opt_out_url(one) for one in steps], dtype="str")
        return {*hosts(urls, www=False).unique()}

    def with_other_sites(self, table: pd.DataFrame) -> pd.DataFrame:
        """Merge the rows of small sites of a table with one row per site into one, so that the rows add up to totals."""
        is_small = ~table["site"].astype("str").isin(self.sites)
        return _merge_small_sites(table, is_small)

    def removals(self, removals: tuple[Removal, ...], user: int | None) -> tuple[Removal, ...]:
        """Return the manual work that may be shared: for each item only the site and a pseudonym.

        In a report on everyone, items and numbers are suppressed for work that concerns fewer than `FEW` people, and for
        other work from which those numbers could be derived by subtraction from a total.
        """
        hidden = set() if user is not None else self._suppressed(removals)
        return tuple(
            self._anonymous(removal, is_hidden=position in hidden, is_alone=user is not None)
            for position, removal in enumerate(removals)
            if self._is_common(removal.site, removal.guide, removal.steps)
        )

    def _suppressed(self, removals: tuple[Removal, ...]) -> set[int]:
        """Return the positions of the work whose numbers are suppressed."""
        hidden: set[int] = set()
        for is_page in (False, True):  # each has a total
            kind = [(at, one) for at, one in enumerate(removals) if (one.site is None) == is_page]
            kind.sort(key=lambda pair: pair[1].people or 0)
            small = [pair for pair in kind if self._is_small(pair[1])]
            rest = [pair for pair in kind if pair not in small]
            while small and rest and (len(small) == 1 or _n_people(one for _, one in small) < FEW):
                small.append(rest.pop(0))
            hidden |= {at for at, _ in small}
        return hidden

    def _is_small(self, removal: Removal) -> bool:
        is_common = self._is_common(removal.site, removal.guide, removal.steps)
        return not is_common or (removal.people or 0) < FEW

    def _anonymous(self, removal: Removal, *, is_hidden: bool, is_alone: bool) -> Removal:
        if is_hidden:
            reason = removal.reason and HIDDEN_REASON  # it may have a number
            return replace(
                removal, tasks=(), listings=None, people=None, minutes=None, reason=reason, expected=None
            )
        if not self.has_rows and not is_alone:
            return replace(removal, tasks=())
        labels = sorted(
            f"user {self.pseudonym(task.user_id)}" for task in removal.tasks if task.user_id is not None
        )
        return replace(removal, tasks=tuple(Task(label, removal.site) for label in labels))

    def _is_common(self, *text: Any) -> bool:
        return text in self.texts and (text[0] is None or text[0] in self.sites)

    def _matrix(self, matrix: pd.DataFrame) -> pd.DataFrame:
        """Merge the columns of small sites in a matrix of people by sites, and name the people by pseudonyms."""
        is_small = ~matrix.columns.isin([*self.sites])
        safe = matrix.loc[:, ~is_small]
        if is_small.any():
            safe = safe.assign(**{FEW_SITES: matrix.loc[:, is_small].sum(axis=1)})
        safe = safe.set_axis(matrix.index.map(self.pseudonym).rename("user_id")).sort_index()
        most_first = safe.sum(axis=1).sort_values(ascending=False, kind="stable").index
        return safe.loc[most_first].rename_axis(columns="site")

    def _without_small_sites(self, table: pd.DataFrame) -> pd.DataFrame:
        if "site" not in table:
            return table
        is_small = ~table["site"].astype("str").isin(self.sites) & table["site"].notna()
        if "people" in table and "total" in table:
            return _merge_small_sites(table, is_small)
        if "n" in table and "user_id" not in table:
            return table[~_is_suppressed(table["n"], is_small)].reset_index(drop=True)
        if not is_small.any():
            return table
        sites = table["site"].astype("str").mask(is_small, FEW_SITES)
        if "user_id" in table or "rank" in table:
            return table.assign(site=sites)
        return table[~is_small].reset_index(drop=True)  # one row per site: small ones have none


def sharing(
    pseudonyms: Pseudonyms, records: pd.DataFrame, alerts: pd.DataFrame, *, has_rows: bool = True
) -> Sharing:
    """Decide what may be shared.

    Args:
        pseudonyms: The pseudonyms of people.
        records: The records of everyone, from an `Exposure` or a `History`.
        alerts: The alerts of everyone.
        has_rows: Whether tables with one row per listing or person are included.
    """
    user_ids: dict[tuple[Any, ...], set[int]] = {}
    columns = ["user_id", "site", "guide", "opt_out_procedure"]
    for user_id, site, guide, steps in alerts[columns].itertuples(index=False):
        user_ids.setdefault((_text(site), _text(guide), tuple(map(str, steps))), set()).add(user_id)
    texts = frozenset(text for text, ids in user_ids.items() if len(ids) >= FEW)
    return Sharing(pseudonyms, _common_sites(records), texts, has_rows)


def _common_sites(records: pd.DataFrame) -> frozenset[str]:
    """Return the sites that may be named: those with at least `FEW` people.

    The smallest are dropped until the unnamed ones are at least two sites with `FEW` people: a total minus the named sites
    would otherwise reveal a single site.
    """
    pairs = records[["site", "user_id"]].drop_duplicates()
    people = pairs.groupby("site", observed=True)["user_id"].nunique().sort_values(kind="stable")
    n_small = int((people < FEW).sum())
    while 0 < n_small < len(people):
        is_other = pairs["site"].isin(people.index[:n_small])
        if n_small > 1 and pairs.loc[is_other, "user_id"].nunique() >= FEW:
            break
        n_small += 1
    return frozenset(people.index[n_small:].astype("str"))


def _n_people(removals: Iterable[Removal]) -> int:
    return len({task.user_id for removal in removals for task in removal.tasks})


def _is_suppressed(n: "pd.Series[Any]", is_small: "pd.Series[bool]") -> "pd.Series[bool]":
    """Mark rows of fewer than `FEW`, and the next smallest until a total reveals no single row and no sum under `FEW`."""
    suppressed = is_small | (n < FEW)
    while suppressed.any() and not suppressed.all() and (suppressed.sum() == 1 or n[suppressed].sum() < FEW):
        suppressed |= n.index == n[~suppressed].idxmin()
    return suppressed


def _has_few_left(curve: pd.DataFrame) -> "pd.Series[bool]":
    """Mark the ages of a survival curve at which, or after which, fewer than `FEW` listings are followed."""
    left = curve["at_risk"] - curve["removed"] - curve["censored"]
    return (curve["at_risk"] < FEW) | left.between(1, FEW - 1)


def _merge_small_loads(coverage: pd.DataFrame) -> pd.DataFrame:
    """Merge rows, and then outcomes, until no cell counts 1 to 4 people; no rows if there are fewer people."""
    people = coverage["people"]
    if people.sum() < FEW:
        return coverage.head(0)
    merged = people.between(1, FEW - 1)
    while merged.any() and people[merged].sum() < FEW:
        merged |= people.index == people[~merged & (people > 0)].idxmin()
    table = coverage[~merged].copy()
    if merged.any():
        rows = coverage[merged]
        label = " or ".join(rows["last_complete_load"])
        one = rows.head(1).assign(**rows.sum(numeric_only=True), last_complete_load=label)
        table = pd.concat([table, one]).sort_index()
    outcomes = [str(name) for name in table.select_dtypes("number") if name != "people"]
    table[outcomes] = [_merge_small_cells(row) for row in table[outcomes].to_numpy().tolist()]
    return table.astype(coverage.dtypes).reset_index(drop=True)


def _merge_small_cells(cells: list[int]) -> list[int]:
    """Add the smallest cells to the last one until none counts 1 to 4."""
    *cells, rest = cells
    while any(0 < n < FEW for n in (*cells, rest)):
        smallest = min(n for n in cells if n)
        cells[cells.index(smallest)] = 0
        rest += smallest
    return [*cells, rest]


def _shuffled(table: pd.DataFrame) -> pd.DataFrame:
    """Order rows of equal rank by pseudonym: the order of ids would identify people."""
    ranks = [name for name in _RANK_COLUMNS if name in table]
    groups = table.groupby(ranks, sort=False, dropna=False).ngroup() if ranks else pd.Series(0, table.index)
    run = groups.ne(groups.shift()).cumsum()
    order = table.assign(run=run).reset_index().sort_values(["run", "user_id"], kind="stable").index
    shuffled = table.iloc[order].reset_index(drop=True)
    return shuffled.assign(**{name: table[name].to_numpy() for name in _POSITION_COLUMNS if name in table})


def _merge_small_sites(table: pd.DataFrame, is_small: "pd.Series[bool]") -> pd.DataFrame:
    """Merge small sites into one row."""
    rest = table[is_small]
    if rest.empty:
        return table
    counts = {name: int(rest[name].sum()) for name in rest.select_dtypes("number") if name != "people"}
    # One person may be on several of these sites, so people cannot be summed.
    row = pd.DataFrame([{"site": FEW_SITES, **counts}])
    large = table[~is_small].astype({"site": "str"})
    if "people" in table:
        row, large = row.assign(people=None), large.astype({"people": "Int64"})
    return pd.concat([large, row.astype(large.dtypes[row.columns])], ignore_index=True)[table.columns]


def _reasons(queue: pd.DataFrame) -> "dict[str, pd.Series[Any]]":
    """The reasons to wait of the groups that wait as a whole: of others, they would count the people who wait."""
    if "reason" not in queue:
        return {}
    is_later = queue["reason"].notna() | queue["state"].isin([UNABLE, DONE])
    is_whole = is_later.groupby([queue["kind"], queue["group"]], dropna=False).transform("all")
    return {"reason": queue["reason"].where(is_whole)}


def _merge_small_hosts(queue: pd.DataFrame, is_small: "pd.Series[bool]") -> pd.DataFrame:
    """Merge the hosts of a work queue on which few people opt out, those of listings and those of pages."""
    kinds = [_merge_hosts(part, is_small[part.index]) for _, part in queue.groupby("kind", sort=False)]
    return pd.concat(kinds).sort_index() if kinds else queue


def _merge_hosts(queue: pd.DataFrame, is_small: "pd.Series[bool]") -> pd.DataFrame:
    """Merge small hosts, and the next smallest until a total reveals no host; sum their items and minutes."""
    waiting = queue[queue["people"] > 0].drop_duplicates("group")
    suppressed = _is_suppressed(waiting["people"], is_small[waiting.index])
    is_small = is_small | queue["group"].isin(waiting.loc[suppressed, "group"])
    hosts = queue[is_small].drop_duplicates("group")
    items, minutes = int(hosts["items"].sum()), queue.loc[is_small, "minutes"].sum()
    rate = items / minutes if minutes else 0.0
    # Equal minutes for all: an item's own share of a visit would reveal how many people share that visit.
    has_minutes = is_small & (queue["minutes"] > 0)
    if "reason" in queue:  # it would tell apart what is merged
        queue = queue.assign(reason=queue["reason"].mask(is_small))
    return queue.assign(
        people=queue["people"].astype("Int64").mask(is_small),
        minutes=queue["minutes"].mask(has_minutes, minutes / max(int(has_minutes.sum()), 1)),
        group=queue["group"].mask(is_small, FEW_HOSTS),
        items=queue["items"].mask(is_small, items),
        items_per_minute=queue["items_per_minute"].mask(is_small, rate),
    )


def _bands(ages: "pd.Series[Any]") -> "pd.Series[Any]":
    """Round ages to bands of ten years: 34 becomes "30-39"."""
    lower = ages.astype("Int16") // AGE_BAND * AGE_BAND
    return (lower.astype("string") + "-" + (lower + AGE_BAND - 1).astype("string")).astype("str")


def _states(locations: "pd.Series[Any]") -> "pd.Series[Any]":
    """Reduce locations to states."""
    states = [None if is_missing(listed) else _states_of(listed) for listed in locations]
    return pd.Series(states, locations.index, dtype="str")


def _states_of(locations: list[str]) -> str:
    return ", ".join(sorted({state for location in locations if (state := state_of(location))}))


def _days(table: pd.DataFrame) -> pd.DataFrame:
    """Round instants down to the day."""
    instants = table.select_dtypes("datetimetz").columns
    return table.assign(**{name: table[name].dt.floor("D") for name in instants})


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) and cell.strip() else None
