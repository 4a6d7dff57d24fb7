"""What a report tells that is shared: nobody by name, nothing exact, nobody who stands alone. Works nothing out.

Who reads it may know some of the people. So whoever is one of few at a site does not stand there by it, a text stands
only where it is the same for many, and people go by names that a key on this machine makes. `redaction` says which
columns stay at all.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from exposurekit.analysis.by_kind import state_of
from exposurekit.analysis.tasks import Task
from exposurekit.privacy.pseudonyms import Pseudonyms
from exposurekit.privacy.redaction import redacted
from exposurekit.reports.model import Removal

FEW = 5  # people: fewer are not told apart
FEW_SITES, FEW_PLACES = "other sites", "other places"
AGE_BAND = 10  # years
_PERSONS = (
    "record_id",
    "alert_number",
    "episode",
)  # who has the service's own tables finds a person by these
_RANKS = ["group", "score", "removals", "unlocks"]  # what a table with people is in the order of
_BY_PLACE = ["place", "together"]  # what belongs to a row's place, whoever stands there


@dataclass(frozen=True, slots=True)
class Sharing:
    """What may be told of whom.

    Attributes:
        pseudonyms: What people are called.
        sites: Where listings of at least `FEW` people are.
        texts: Guides with their steps that as many people are given.
        elsewhere: How many people are at all other sites together.
    """

    pseudonyms: Pseudonyms = field(repr=False)
    sites: frozenset[str] = field(repr=False)
    texts: frozenset[tuple[Any, ...]] = field(repr=False)
    elsewhere: int = 0

    def called(self, user_id: int) -> str:
        """What a person is called."""
        return self.pseudonyms.of(user_id)

    def table(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table as it may be shared: the same question, and less of it."""
        kept = redacted(table)
        kept = kept.drop(columns=[name for name in _PERSONS if name in kept])
        if "age" in table:
            kept = kept.assign(age=_bands(table["age"]))
        if "locations" in table:
            kept = kept.assign(states=_states(table["locations"]))
        if "group" in table:  # a host where people opt out
            kept = _places_together(kept.assign(group=table["group"]), table["people"] < FEW)
        if "user_id" in kept:
            kept = _mixed(kept.assign(user_id=kept["user_id"].map(self.called).astype("str")))
        return self._sites(_days(kept))

    def removals(self, removals: tuple[Removal, ...], user: int | None) -> tuple[Removal, ...]:
        """Manual work as it may be shared: of a listing only the site and a pseudonym; nothing that few are told.

        Of everyone's work, no listing and no amount stands there where few people wait.
        """
        kept = (one for one in removals if self._is_told(one.site, one.guide, one.steps))
        return tuple(self._hidden(one, is_of_few=user is None and (one.people or 0) < FEW) for one in kept)

    def _hidden(self, removal: Removal, *, is_of_few: bool) -> Removal:
        if is_of_few:
            return replace(removal, tasks=(), listings=None, people=None, minutes=None)
        called = sorted(
            f"person {self.called(task.user_id)}" for task in removal.tasks if task.user_id is not None
        )
        return replace(removal, tasks=tuple(Task(one, removal.site) for one in called))

    def _is_told(self, *text: Any) -> bool:
        return text in self.texts and (text[0] is None or text[0] in self.sites)

    def _sites(self, table: pd.DataFrame) -> pd.DataFrame:
        if "site" not in table:
            return table
        few = ~table["site"].astype("str").isin(self.sites) & table["site"].notna()
        if "people" in table and "total" in table:
            return _together(table, few, self.elsewhere)
        if not few.any():
            return table
        named = table["site"].astype("str").mask(few, FEW_SITES)
        if "user_id" in table or "place" in table:
            return table.assign(site=named)
        return table[~few].reset_index(drop=True)  # a row a site: of few there is none


def sharing(pseudonyms: Pseudonyms, records: pd.DataFrame, alerts: pd.DataFrame) -> Sharing:
    """What may be told, by all that is known of everyone.

    Args:
        pseudonyms: What people are called.
        records: Everyone's, as an `Exposure` or a `History` gives them.
        alerts: Everyone's, the same.
    """
    many = records.groupby("site", observed=True)["user_id"].nunique()
    told: dict[tuple[Any, ...], set[int]] = {}
    columns = ["user_id", "site", "guide", "opt_out_procedure"]
    for user_id, site, guide, steps in alerts[columns].itertuples(index=False):
        told.setdefault((_text(site), _text(guide), tuple(map(str, steps))), set()).add(user_id)
    texts = frozenset(text for text, people in told.items() if len(people) >= FEW)
    elsewhere = records.loc[records["site"].isin(many.index[many < FEW]), "user_id"].nunique()
    return Sharing(pseudonyms, frozenset(many.index[many >= FEW].astype("str")), texts, elsewhere)


def _mixed(table: pd.DataFrame) -> pd.DataFrame:
    """Rows that rank alike in the order of the pseudonyms: that of the ids would tell who each of them is."""
    ranks = [name for name in _RANKS if name in table]
    alike = table.groupby(ranks, sort=False, dropna=False).ngroup() if ranks else pd.Series(0, table.index)
    run = alike.ne(alike.shift()).cumsum()
    mixed = table.iloc[
        table.assign(run=run).reset_index().sort_values(["run", "user_id"], kind="stable").index
    ]
    mixed = mixed.reset_index(drop=True)
    return mixed.assign(**{name: table[name].to_numpy() for name in _BY_PLACE if name in table})


def _together(table: pd.DataFrame, few: "pd.Series[bool]", people: int) -> pd.DataFrame:
    """Rows of few people as one; where that is one row, or they are few in all, the next smallest goes with it."""
    if few.any() and not few.all() and (few.sum() == 1 or people < FEW):
        few = few | (table.index == table.loc[~few, "people"].idxmin())
    rest = table[few]
    if rest.empty:
        return table
    counts = {name: int(rest[name].sum()) for name in rest.select_dtypes("number") if name != "people"}
    # One person may be in several of these rows: how many there are in all is not known.
    row = pd.DataFrame([{"site": FEW_SITES, **counts, "people": pd.NA}])
    shown = table[~few].astype({"site": "str", "people": "Int64"})
    return pd.concat([shown, row.astype(shown.dtypes[row.columns])], ignore_index=True)[table.columns]


def _places_together(queue: pd.DataFrame, few: "pd.Series[bool]") -> pd.DataFrame:
    """A work queue in which hosts where few opt out are one: with the listings of all of them, in the minutes of all."""
    each = queue[few].drop_duplicates("group")
    items, minutes = int(each["items"].sum()), queue.loc[few, "minutes"].sum()
    rate = items / minutes if minutes else 0.0
    waiting = few & (
        queue["minutes"] > 0
    )  # each of them with as many: else its part of a visit told how many share that
    return queue.assign(
        people=queue["people"].astype("Int64").mask(few),
        minutes=queue["minutes"].mask(waiting, minutes / max(int(waiting.sum()), 1)),
        group=queue["group"].mask(few, FEW_PLACES),
        items=queue["items"].mask(few, items),
        items_per_minute=queue["items_per_minute"].mask(few, rate),
    )


def _bands(ages: "pd.Series[Any]") -> "pd.Series[Any]":
    """Ages to ten years: 34 is "30-39"."""
    lower = ages.astype("Int16") // AGE_BAND * AGE_BAND
    return (lower.astype("string") + "-" + (lower + AGE_BAND - 1).astype("string")).astype("str")


def _states(locations: "pd.Series[Any]") -> "pd.Series[Any]":
    """Places to their states."""
    return locations.map(_states_of).astype("str")


def _states_of(places: list[str]) -> str:
    return ", ".join(sorted({state for place in places if (state := state_of(place))}))


def _days(table: pd.DataFrame) -> pd.DataFrame:
    """Instants to the day."""
    instants = table.select_dtypes("datetimetz").columns
    return table.assign(**{name: table[name].dt.floor("D") for name in instants})


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) and cell.strip() else None
