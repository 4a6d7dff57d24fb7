"""What is coming: how many listings will be open, if things go on as they went. Knows no causes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.removal import ENTERED, OPEN, survival
from exposurekit.analysis.statuses import CLOSED, UNKNOWN, VANISHED
from exposurekit.analysis.tally import Instants, Ints, instant, instants
from exposurekit.contract.values import REMOVED
from exposurekit.errors import Misconfigured, MissingColumns

HORIZONS = (30, 60, 90)
ARRIVALS_DAYS = 30
SETTLING_DAYS = 7
_DAY_S = 86_400
_DAY = np.timedelta64(_DAY_S, "s")
Floats = NDArray[np.float64]


def forecast(
    records: pd.DataFrame,
    flows: pd.DataFrame,
    relistings: pd.DataFrame,
    *,
    at: datetime,
    days: Sequence[int] = HORIZONS,
    arrivals_days: int = ARRIVALS_DAYS,
    level: float = 0.95,
) -> pd.DataFrame:
    """How many listings will be open after so many days, if removals, returns and arrivals go on as they went.

    Each open listing stays open as others of its age did, and what was open at the first look as such listings did
    since theirs; each that is gone comes back as others did that were gone for as long; what comes back is removed
    again as any other, and may come back again; and new ones come as often as lately. What will be older than anything
    that was followed goes on ending as in the last third of the ages followed, and where that was less often than in
    the third before, ever less.

    Args:
        records: As `History.records` gives them: ``status``, ``first_seen_at``, ``changed_at`` (UTC),
            ``left_censored``, ``user_id``. People whom the service lists no longer are left out.
        flows: As `time_to_removal` takes them (`History.flows` without ``by``). Both ways of ending count, removed and
            vanished.
        relistings: As `relistings` gives them: ``gone_days``.
        at: The instant of the tables, the end of their last day; ``days`` are counted from it.
        days: How far ahead, each one or more.
        arrivals_days: Over how many days before ``at`` new listings are counted; those that a person's first week
            brings were there before, and are left out.
        level: Of the band, between 0 and 1.

    Returns:
        One row for each of ``days``: ``days``, ``open_now`` (int64), the expected number of open listings ``of_open``
        (open now too), ``of_gone`` (removed or vanished now), ``of_new`` (not seen yet), ``open`` (their sum), ``low``,
        ``high`` (its band; all float64), ``beyond`` (open now, and older by then than any of their kind that was
        followed; int64). Where nobody was watched for more than a week, it is not known how many new ones come, and
        ``of_new``, ``open`` and the band are missing. The band holds chance, the doubt about the curves, and that what
        lies beyond may as well stay; not that things change.

    Raises:
        MissingColumns: A table lacks a column.
        Misconfigured: A horizon is less than a day, or ``level`` not between 0 and 1.

    Source: survival to a later age given survival so far, with Greenwood's variance for each age, Klein and
    Moeschberger, Survival Analysis, 2nd ed., 4.2; returns and removals as an alternating renewal process, Cox, Renewal
    Theory (1962), 7. Beyond what was followed there is no estimate, only an assumption; a twelfth of its square is the
    variance of what lies evenly between two limits.

    >>> table = history.forecast()
    >>> table["days"].tolist(), table.columns.tolist()[-4:]
    ([30, 60, 90], ['open', 'low', 'high', 'beyond'])
    """
    needed = ("user_id", "status", "first_seen_at", "changed_at", "left_censored")
    MissingColumns.check("forecast", records.columns, needed)
    MissingColumns.check("forecast, of its flows,", flows.columns, ("days", "flow", "left_censored", "n"))
    MissingColumns.check("forecast, of its relistings,", relistings.columns, ("gone_days",))
    if not days or min(days) < 1 or not 0 < level < 1:
        raise Misconfigured("days are one or more, and level is between 0 and 1")
    known = records[~_out_of_view(records)]
    followed, baseline = _still(flows, max(days))
    away = _away(known, relistings, at, max(days))
    opened, closed = _renewal(followed.curve, away.curve, max(days))
    groups = ((followed, closed), (baseline, closed), (away, opened))
    new, z = _arrivals(known, at, arrivals_days), NormalDist().inv_cdf((1 + level) / 2)
    table = pd.DataFrame([_row(groups, opened, new, ahead, z) for ahead in days])
    return table.astype({"days": "int64", "open_now": "int64", "beyond": "int64"})


@dataclass(frozen=True, slots=True)
class _Curve:
    """How long things last, by their age in days, and the doubt about that.

    Attributes:
        lasting: The share that lasts longer than each age.
        held: The same, if nothing ends any more that is older than what was followed.
        doubt: What each age adds to the variance of the share's logarithm.
        tail: What each age beyond what was followed adds to its standard error.
        followed: The highest age of which anything is known; -1: none.
    """

    lasting: Floats
    held: Floats
    doubt: Floats
    tail: Floats
    followed: int

    def stay(self, ages: Ints, ahead: int, *, held: bool = False) -> Floats:
        """The share of those of each age that lasts each number of days more, from none on."""
        curve = self.held if held else self.lasting
        now, then = curve[ages][:, None], curve[ages[:, None] + np.arange(ahead + 1)]
        shares: Floats = np.divide(then, now, out=np.ones_like(then), where=now > 0)
        return shares


def _curve(flows: pd.DataFrame, span: int) -> _Curve:
    """Kaplan and Meier's, from 0 to a number of days or more."""
    at_risk, ended = _watched(flows)
    inside, beyond = np.zeros(len(ended)), np.zeros(max(span + 1 - len(ended), 0))
    hazard, (rate, error, slower) = ended / np.maximum(at_risk, 1), _last(at_risk, ended)
    slowed = slower ** ((1 + np.arange(len(beyond))) / max(len(ended) // 3, 1) + 0.5)
    return _Curve(
        lasting=np.cumprod(1 - np.append(hazard, rate * slowed), dtype="float64"),
        held=np.cumprod(1 - np.append(hazard, beyond), dtype="float64"),
        doubt=np.append(ended / np.maximum(at_risk * (at_risk - ended), 1), beyond),
        tail=np.append(inside, error * slowed),
        followed=len(ended) - 1,
    )


def _watched(flows: pd.DataFrame) -> tuple[Floats, Floats]:
    """How many were watched at each age, and how many ended at it."""
    curve = survival(flows, left_censored=True).set_index("days")
    ages = range(int(curve.index.max()) + 1 if len(curve) else 0)
    after = (curve["at_risk"] - curve[REMOVED] - curve["censored"]).reindex(ages, method="ffill")
    at_risk = curve["at_risk"].reindex(ages).fillna(after).fillna(0)
    return at_risk.to_numpy("float64"), curve[REMOVED].reindex(ages, fill_value=0).to_numpy("float64")


def _last(at_risk: Floats, ended: Floats) -> tuple[float, float, float]:
    """How likely the oldest third ended each day, its standard error, and in which proportion that became less."""
    third = len(ended) // 3
    late, before = slice(len(ended) - third, None), slice(len(ended) - 2 * third, len(ended) - third)
    if not at_risk[late].sum() or not at_risk[before].sum():
        return 0.0, 0.0, 1.0
    n, days, days_before = ended[late].sum(), at_risk[late].sum(), at_risk[before].sum()
    # Half a one more in each: where none ended, that does not say that none ever does.
    slower = (n + 0.5) / days / ((ended[before].sum() + 0.5) / days_before)
    return n / days, np.sqrt(n + 1) / days / max(1 - n / days, 0.5), min(slower, 1.0)


@dataclass(frozen=True, slots=True)
class _Group:
    """Things that stand alike.

    Attributes:
        ages: For how many days they have stood so.
        n: How many, of each age.
        curve: How long such things go on so.
        is_open: Whether they are open.
    """

    ages: Ints
    n: Ints
    curve: _Curve
    is_open: bool

    def share(self, ahead: int, after: Floats, *, held: bool = False) -> Floats:
        """The share of each age that is open so many days ahead; what has ended is as ``after`` says of such."""
        stay = self.curve.stay(self.ages, ahead, held=held)
        found: Floats = -np.diff(stay, axis=1) @ after[:ahead][::-1] + self.is_open * stay[:, -1]
        return found

    def variance(self, ahead: int, after: Floats) -> float:
        """Of how many are open so many days ahead: by chance, by doubt about the curve, and by what lies beyond it."""
        share = self.share(ahead, after)
        otherwise = self.n @ (self.share(ahead, after, held=True) - share)
        return float(self.n @ (share * (1 - share)) + self._doubt(ahead) + np.square(otherwise) / 12)

    def _doubt(self, ahead: int) -> float:
        staying = self.n * self.curve.stay(self.ages, ahead)[:, -1]
        passing = np.zeros(len(self.curve.doubt) + 1)  # how many pass each age on the way, and stay
        np.add.at(passing, self.ages + 1, staying)
        np.add.at(passing, self.ages + ahead + 1, -staying)
        passing = passing.cumsum()[:-1]
        return float(np.square(passing) @ self.curve.doubt + np.square(passing @ self.curve.tail))

    def beyond(self, ahead: int) -> int:
        """How many will be older than anything that was followed."""
        return int(self.n[self.ages + ahead > self.curve.followed].sum())


def _still(flows: pd.DataFrame, span: int) -> tuple[_Group, _Group]:
    """What is open: what was seen to begin, and what was open at the first look; of that the ages are not known."""
    ended = flows.assign(flow=flows["flow"].astype("str").replace(VANISHED, REMOVED))
    first = ended["left_censored"].to_numpy("bool")
    followed, baseline = (_open(ended[part], span) for part in (~first, first))
    return followed, baseline


def _open(flows: pd.DataFrame, span: int) -> _Group:
    still = flows[flows["flow"] == OPEN].groupby("days")["n"].sum()
    ages = still.index.to_numpy("int64")
    return _Group(ages, still.to_numpy("int64"), _curve(flows, int(ages.max(initial=0)) + span), is_open=True)


def _away(records: pd.DataFrame, relistings: pd.DataFrame, at: datetime, span: int) -> _Group:
    """What is gone, and how long such things stay gone: a return ends that, as a removal ends being open."""
    changed = instants(records["changed_at"])[records["status"].isin(CLOSED).to_numpy("bool")]
    since = np.maximum((instant(at) - changed) // _DAY, 0).astype("int64")
    ages, n = np.unique(since, return_counts=True)
    # To the nearest day: two looks are a day apart, and some minutes more or less.
    back = relistings["gone_days"].dropna().astype("float64").round().astype("int64").to_numpy()
    flow = np.repeat([ENTERED, OPEN, REMOVED], [1, len(since), len(back)])
    flows = pd.DataFrame({"days": np.concatenate([[0], since, back]), "flow": flow, "left_censored": False})
    flows["n"] = np.where(flow == ENTERED, len(since) + len(back), 1)
    return _Group(ages, n.astype("int64"), _curve(flows, int(ages.max(initial=0)) + span), is_open=False)


def _renewal(ending: _Curve, returning: _Curve, span: int) -> tuple[Floats, Floats]:
    """The share that is open so many days after being opened, and so many after being closed; they feed each other."""
    new = np.zeros(1, "int64")
    lasting = ending.stay(new, span)[0]
    ends, returns = -np.diff(lasting), -np.diff(returning.stay(new, span)[0])
    opened, closed = lasting.copy(), np.zeros(span + 1)
    for day in range(1, span + 1):
        closed[day] = returns[:day] @ opened[day - 1 :: -1]
        opened[day] += ends[:day] @ closed[day - 1 :: -1]
    return opened, closed


def _row(
    groups: tuple[tuple[_Group, Floats], ...],
    opened: Floats,
    new: tuple[float, float],
    ahead: int,
    z: float,
) -> dict[str, Any]:
    """What is open so many days ahead, of what is open now, gone now, and not seen yet."""
    followed, baseline, of_gone = (float(group.n @ group.share(ahead, after)) for group, after in groups)
    (a_day, error), lasting = new, opened[:ahead].sum()
    expected = {"of_open": followed + baseline, "of_gone": of_gone, "of_new": a_day * lasting}
    variance = sum(group.variance(ahead, after) for group, after in groups)
    half = z * np.sqrt(variance + expected["of_new"] + np.square(error * lasting))
    total, still = sum(expected.values()), [group for group, _ in groups if group.is_open]
    return {
        "days": ahead,
        "open_now": sum(int(group.n.sum()) for group in still),
        **expected,
        "open": total,
        "low": np.maximum(total - half, 0.0),
        "high": total + half,
        "beyond": sum(group.beyond(ahead) for group in still),
    }


def _out_of_view(records: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether each record's person is listed by the service no longer: nothing of theirs will be seen."""
    unknown = (records["status"].astype("str") == UNKNOWN).to_numpy("bool")
    return records["user_id"].isin(records.loc[unknown, "user_id"]).to_numpy("bool")


def _arrivals(records: pd.DataFrame, at: datetime, over: int) -> tuple[float, float]:
    """How many new listings come a day, of people whose first search is over, and the standard error of that.

    What the first days of a person bring was there before, and says nothing of what is to come. Where nobody was
    watched for longer than that, the rate is not known.
    """
    if over < 1:
        raise Misconfigured("arrivals_days is one or more")
    seen, person = instants(records["first_seen_at"]), records["user_id"].to_numpy()
    begun: Instants = pd.Series(seen).groupby(person).transform("min").to_numpy()
    since = np.maximum(begun + SETTLING_DAYS * _DAY, instant(at) - over * _DAY)
    new = int(((seen > since) & ~records["left_censored"].to_numpy("bool")).sum())
    of_person = pd.Series(instant(at) - since).groupby(person).max().dt.total_seconds() / _DAY_S
    days, people = float(of_person.clip(lower=0).sum()), len(of_person)
    if not days:
        return np.nan, np.nan
    # One more than came: where none came, that does not say that none will.
    return new / days * people, float(np.sqrt(new + 1)) / days * people
