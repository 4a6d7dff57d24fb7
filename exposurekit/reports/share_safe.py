"""What a share-safe report may contain: pseudonyms, rounded values, and no group of fewer than five people.

Readers may know some of the people. So a site, host or text appears only if it concerns at least `FEW` people;
`privacy.redaction` says which columns stay.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from exposurekit.analysis.by_kind import state_of
from exposurekit.analysis.tasks import Task
from exposurekit.privacy.pseudonyms import Pseudonyms
from exposurekit.privacy.redaction import redacted
from exposurekit.reports.model import Removal

FEW = 5  # people; smaller groups are not shown
FEW_SITES, FEW_PLACES = "other sites", "other places"
AGE_BAND = 10  # years
_ID_COLUMNS = (
    "record_id",
    "alert_number",
    "episode",
)  # with the service's own tables, these identify a person
_RANK_COLUMNS = ["group", "score", "removals", "unlocks"]  # tables with people are sorted by these
_POSITION_COLUMNS = ["place", "together"]  # these belong to the position of a row, not to its person


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a share-safe report may contain.

    Attributes:
        pseudonyms: The pseudonyms of people.
        sites: The sites with listings of at least `FEW` people.
        texts: Site, guide and steps that at least `FEW` people have in common.
        people_elsewhere: The number of people with listings on all other sites together.
    """

    pseudonyms: Pseudonyms = field(repr=False)
    sites: frozenset[str] = field(repr=False)
    texts: frozenset[tuple[Any, ...]] = field(repr=False)
    people_elsewhere: int = 0

    def pseudonym(self, user_id: int) -> str:
        """The pseudonym of a user."""
        return self.pseudonyms.of(user_id)

    def table(self, table: pd.DataFrame) -> pd.DataFrame:
        """The part of a table that may be shared."""
        safe = redacted(table)
        safe = safe.drop(columns=[name for name in _ID_COLUMNS if name in safe])
        if "age" in table:
            safe = safe.assign(age=_bands(table["age"]))
        if "locations" in table:
            safe = safe.assign(states=_states(table["locations"]))
        if "group" in table:  # a host on which people opt out
            safe = _merge_small_hosts(safe.assign(group=table["group"]), table["people"] < FEW)
        if "user_id" in safe:
            safe = _shuffled(safe.assign(user_id=safe["user_id"].map(self.pseudonym).astype("str")))
        return self._without_small_sites(_days(safe))

    def removals(self, removals: tuple[Removal, ...], user: int | None) -> tuple[Removal, ...]:
        """The part of the manual work that may be shared: of each item only the site and a pseudonym.

        In a report on everyone, work of fewer than `FEW` people has neither items nor numbers.
        """
        return tuple(
            self._anonymous(removal, is_small=user is None and (removal.people or 0) < FEW)
            for removal in removals
            if self._is_common(removal.site, removal.guide, removal.steps)
        )

    def _anonymous(self, removal: Removal, *, is_small: bool) -> Removal:
        if is_small:
            return replace(removal, tasks=(), listings=None, people=None, minutes=None)
        labels = sorted(
            f"user {self.pseudonym(task.user_id)}" for task in removal.tasks if task.user_id is not None
        )
        return replace(removal, tasks=tuple(Task(label, removal.site) for label in labels))

    def _is_common(self, *text: Any) -> bool:
        return text in self.texts and (text[0] is None or text[0] in self.sites)

    def _without_small_sites(self, table: pd.DataFrame) -> pd.DataFrame:
        if "site" not in table:
            return table
        is_small = ~table["site"].astype("str").isin(self.sites) & table["site"].notna()
        if "people" in table and "total" in table:
            return _merge_small_sites(table, is_small, self.people_elsewhere)
        if not is_small.any():
            return table
        sites = table["site"].astype("str").mask(is_small, FEW_SITES)
        if "user_id" in table or "place" in table:
            return table.assign(site=sites)
        return table[~is_small].reset_index(drop=True)  # one row per site: small ones have none


def sharing(pseudonyms: Pseudonyms, records: pd.DataFrame, alerts: pd.DataFrame) -> Sharing:
    """Work out what may be shared.

    Args:
        pseudonyms: The pseudonyms of people.
        records: The records of everyone, from an `Exposure` or a `History`.
        alerts: The alerts of everyone.
    """
    people = records.groupby("site", observed=True)["user_id"].nunique()
    user_ids: dict[tuple[Any, ...], set[int]] = {}
    columns = ["user_id", "site", "guide", "opt_out_procedure"]
    for user_id, site, guide, steps in alerts[columns].itertuples(index=False):
        user_ids.setdefault((_text(site), _text(guide), tuple(map(str, steps))), set()).add(user_id)
    texts = frozenset(text for text, ids in user_ids.items() if len(ids) >= FEW)
    people_elsewhere = records.loc[records["site"].isin(people.index[people < FEW]), "user_id"].nunique()
    return Sharing(pseudonyms, frozenset(people.index[people >= FEW].astype("str")), texts, people_elsewhere)


def _shuffled(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of equal rank in the order of their pseudonyms, as the order of the ids would identify people."""
    ranks = [name for name in _RANK_COLUMNS if name in table]
    groups = table.groupby(ranks, sort=False, dropna=False).ngroup() if ranks else pd.Series(0, table.index)
    run = groups.ne(groups.shift()).cumsum()
    order = table.assign(run=run).reset_index().sort_values(["run", "user_id"], kind="stable").index
    shuffled = table.iloc[order].reset_index(drop=True)
    return shuffled.assign(**{name: table[name].to_numpy() for name in _POSITION_COLUMNS if name in table})


def _merge_small_sites(table: pd.DataFrame, is_small: "pd.Series[bool]", people: int) -> pd.DataFrame:
    """Merge small sites into one row; a single one, or few people in all, takes in the next smallest site."""
    if is_small.any() and not is_small.all() and (is_small.sum() == 1 or people < FEW):
        is_small = is_small | (table.index == table.loc[~is_small, "people"].idxmin())
    rest = table[is_small]
    if rest.empty:
        return table
    counts = {name: int(rest[name].sum()) for name in rest.select_dtypes("number") if name != "people"}
    # One person may be on several of these sites, so the people cannot be added up.
    row = pd.DataFrame([{"site": FEW_SITES, **counts, "people": pd.NA}])
    large = table[~is_small].astype({"site": "str", "people": "Int64"})
    return pd.concat([large, row.astype(large.dtypes[row.columns])], ignore_index=True)[table.columns]


def _merge_small_hosts(queue: pd.DataFrame, is_small: "pd.Series[bool]") -> pd.DataFrame:
    """Merge the hosts of a work queue on which few people opt out, with their items and minutes added up."""
    hosts = queue[is_small].drop_duplicates([name for name in ("kind", "group") if name in queue])
    items, minutes = int(hosts["items"].sum()), queue.loc[is_small, "minutes"].sum()
    rate = items / minutes if minutes else 0.0
    # Equal minutes for all: an item's own part of a visit would tell how many share that visit.
    waiting = is_small & (queue["minutes"] > 0)
    return queue.assign(
        people=queue["people"].astype("Int64").mask(is_small),
        minutes=queue["minutes"].mask(waiting, minutes / max(int(waiting.sum()), 1)),
        group=queue["group"].mask(is_small, FEW_PLACES),
        items=queue["items"].mask(is_small, items),
        items_per_minute=queue["items_per_minute"].mask(is_small, rate),
    )


def _bands(ages: "pd.Series[Any]") -> "pd.Series[Any]":
    """Ages in bands of ten years: 34 is "30-39"."""
    lower = ages.astype("Int16") // AGE_BAND * AGE_BAND
    return (lower.astype("string") + "-" + (lower + AGE_BAND - 1).astype("string")).astype("str")


def _states(locations: "pd.Series[Any]") -> "pd.Series[Any]":
    """Locations as states."""
    return locations.map(_states_of).astype("str")


def _states_of(locations: list[str]) -> str:
    return ", ".join(sorted({state for location in locations if (state := state_of(location))}))


def _days(table: pd.DataFrame) -> pd.DataFrame:
    """Instants rounded down to the day."""
    instants = table.select_dtypes("datetimetz").columns
    return table.assign(**{name: table[name].dt.floor("D") for name in instants})


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) and cell.strip() else None
