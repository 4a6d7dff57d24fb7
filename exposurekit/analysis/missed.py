"""Missed listings: how many no way of finding found, estimated from those that several ways found."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.group_codes import Ints
from exposurekit.analysis.survival import Floats
from exposurekit.errors import InvalidArgument, MissingColumns, warn
from exposurekit.frames.arrow import texts
from exposurekit.frames.url_columns import hosts, page_keys
from exposurekit.text.formatting import enumerate_words, pluralize
from exposurekit.text.sanitize import plain

SITE_SCANS, WEB_SEARCH = "site scans", "web search"
MISSED = "missed"
INDEPENDENT = "the ways are independent"
MIN_OVERLAP = 5  # listings that several ways found; with fewer there is no estimate
WAYS_MAX = 6
_SIGNIFICANCE = 0.95  # of a dependence between two ways, if there are three or more
_MOST_PER_LISTING = 200  # listings missed for each that was found: beyond, a limit is not known
_ROUNDS = 60  # of proportional fitting: two suffice unless three ways depend on each other
_ADDRESS = {SITE_SCANS: "href", WEB_SEARCH: "url"}
Pairs = tuple[tuple[int, int], ...]  # of ways that depend on each other


def missed(
    records: pd.DataFrame,
    links: pd.DataFrame,
    *,
    others: Mapping[str, pd.DataFrame] | None = None,
    level: float = 0.95,
) -> pd.DataFrame:
    """Estimate how many listings were missed, that is, found in none of the ways.

    A listing is a person and an address: its scheme, ``www.`` and tracking parameters do not matter. Site scans found
    those of ``records``, web search those of ``links``. Only pages on hosts of records count, as a site scan cannot find
    others. The share of one way's listings that another way also found shows how many each of them misses.

    Args:
        records: A table as returned by `Exposure.records` or `History.records`: ``user_id`` and ``href``. Records without
            ``href`` are left out.
        links: A table as returned by `Exposure.links` or `History.links`: ``user_id`` and ``url``.
        others: What was found in other ways, such as ``{"search by hand": table}``: tables with ``user_id`` and ``url`` or
            ``href``.
        level: Confidence level of the interval, between 0 and 1.

    Returns:
        One row per combination of ways, then the estimate: ``ways`` (text: ``site scans alone``, ``site scans and web
        search``, ..., last ``missed``), ``listings`` (that these ways found, and no other; of the last row the estimate;
        Float64), ``low``, ``high`` (its interval, Float64; ``high`` is missing if there is no limit), ``assumption`` (text:
        what the estimate assumes), ``reason`` (text: why there is no estimate; of ``site scans
        alone`` how many records have no address and are left out). A table of ``others`` without an address on a host of
        records does not count, and gives a warning. Without at least two ways, and five listings
        that several of them found, ``listings`` of the last row is missing.

    The estimate assumes that each way finds a listing with a chance of its own, whether or not another finds it, and that
    all listings were there for all ways. If the same listings are hard to find in every way, such as those under an unusual
    spelling, more are missing than estimated: take it as a lower bound. Of three ways or more, dependences between two are
    detected, and allowed for.

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: ``level`` is not between 0 and 1, or there are more than six ways.

    Source: Chapman, Univ. Calif. Publ. Stat. 1 (1951), 131, for two ways. Log-linear models with a forward selection of
    dependences for more: International Working Group for Disease Monitoring and Forecasting, Am. J. Epidemiol. 142 (1995),
    1047. Profile likelihood intervals: Cormack, Biometrics 48 (1992), 567.

    >>> both, alone = [f"https://seekfolk.example/{n}" for n in range(20)], [f"https://seekfolk.example/{n}" for n in "abcd"]
    >>> records = pd.DataFrame({"user_id": 1, "href": both + alone})
    >>> links = pd.DataFrame({"user_id": 1, "url": both + ["https://seekfolk.example/x"]})
    >>> analysis.missed(records, links)[["ways", "listings", "low", "high"]]
                            ways  listings   low  high
    0           site scans alone       4.0  <NA>  <NA>
    1           web search alone       1.0  <NA>  <NA>
    2  site scans and web search      20.0  <NA>  <NA>
    3                     missed       0.2   0.0   1.4
    """
    MissingColumns.check("missed", records, ("user_id", "href"))
    MissingColumns.check("missed, table links,", links, ("user_id", "url"))
    if not 0 < level < 1:
        raise InvalidArgument("invalid level: it must be between 0 and 1, such as 0.95")
    tables = {SITE_SCANS: records, WEB_SEARCH: links, **(others or {})}
    if len(tables) > WAYS_MAX:
        raise InvalidArgument(f"There are at most {WAYS_MAX} ways: combine some tables in `others`")
    pages = {way: _pages(way, table) for way, table in tables.items()}
    on_sites = _on_sites(pages)
    for way in others or {}:
        if len(pages[way]) and on_sites[way].empty:
            addresses = pluralize(len(pages[way]), "address", "addresses")
            warn(f"{plain(way)} does not count: of its {addresses}, none is on a site of the records")
    ways, cells = _cells(on_sites)
    reason = _why_not(ways, cells)
    estimate = _Estimate(math.nan, math.nan, math.nan, "") if reason else _estimate(ways, cells, level)
    rows: list[dict[str, Any]] = [
        {"ways": _label(ways, cell), "listings": float(cells[cell])} for cell in _cell_order(len(ways))
    ]
    texts = {"ways": MISSED, "assumption": estimate.assumption or None, "reason": reason or None}
    without_address = len(records) - len(pages[SITE_SCANS])
    if without_address and ways[:1] == [SITE_SCANS]:
        rows[0]["reason"] = f"{pluralize(without_address, 'record')} without an address left out"
    rows.append(texts | {"listings": estimate.listings, "low": estimate.low, "high": estimate.high})
    dtypes = {"ways": "str", **dict.fromkeys(("listings", "low", "high"), "Float64"), "assumption": "str"}
    table = pd.DataFrame(rows, columns=[*dtypes, "reason"]).astype(dtypes | {"reason": "str"})
    table.attrs["level"] = level  # for the chart's labels
    return table


def _on_sites(pages: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the pages of each way that are on hosts of records."""
    hosts = [*pages[SITE_SCANS]["host"].unique()]
    return {
        way: table if way == SITE_SCANS else table[table["host"].isin(hosts)] for way, table in pages.items()
    }


def _cells(pages: Mapping[str, pd.DataFrame]) -> tuple[list[str], Ints]:
    """Return the ways that found anything, and how many listings each combination of them found.

    The number of a combination has bit 0 if the first way is in it, bit 1 if the second is, and so on.
    """
    ways = [way for way, table in pages.items() if len(table)]
    if len(ways) < 2:  # noqa: PLR2004  nothing to compare, so no address needs to be normalized
        n = [int((~pages[way].duplicated(["user_id", "address"])).sum()) for way in ways]
        return ways, np.array([0, *n], "int64")
    rows = pd.concat(
        [pages[way][["user_id", "address"]].assign(bit=1 << number) for number, way in enumerate(ways)]
    )
    address, addresses = pd.factorize(rows["address"])
    page, _ = pd.factorize(page_keys(addresses))
    rows = rows.assign(address=page[address]).drop_duplicates(["user_id", "address", "bit"])
    combination = rows.groupby(["user_id", "address"])["bit"].sum()
    return ways, np.bincount(combination.to_numpy("int64"), minlength=1 << len(ways)).astype("int64")


def _pages(way: str, table: pd.DataFrame) -> pd.DataFrame:
    """The person, address and host of each row with an address."""
    column = _ADDRESS.get(way) or ("url" if "url" in table else "href")
    MissingColumns.check(f"missed, table {way},", table, ("user_id", column))
    rows = pd.DataFrame(
        {"user_id": table["user_id"].array, "address": texts(table[column]).str.strip().array}
    )
    rows = rows.assign(host=hosts(rows["address"], www=False))
    is_page = (rows["host"] != "").to_numpy("bool")
    return (rows if is_page.all() else rows[is_page]).astype({"user_id": "int64"})


def _cell_order(ways: int) -> list[int]:
    """The combinations of ways: those of one first."""
    return sorted(range(1, 1 << ways), key=lambda cell: (cell.bit_count(), cell))


def _label(ways: Sequence[str], cell: int) -> str:
    names = [way for number, way in enumerate(ways) if cell >> number & 1]
    return f"{names[0]} alone" if len(names) == 1 else enumerate_words(names)


def _why_not(ways: Sequence[str], cells: Ints) -> str:
    """Why there is no estimate; empty if there is one."""
    if not ways:
        return "no listing has an address"
    if len(ways) == 1:
        return f"an estimate needs a second, independent search, and only {ways[0]} found any listings"
    several = [cell for cell in range(len(cells)) if cell.bit_count() > 1]
    overlap = int(cells[several].sum())
    if overlap < MIN_OVERLAP:
        return f"only {overlap} of {int(cells.sum()):,} listings were found in more than one way: at least {MIN_OVERLAP} are needed"
    for number, way in enumerate(ways):
        if not sum(cells[cell] for cell in several if cell >> number & 1):
            return f"{way} shares no listing with any other way"
    return ""


# --- the estimate -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Estimate:
    listings: float
    low: float
    high: float
    assumption: str


@dataclass(frozen=True, slots=True)
class _Profile:
    """The logarithm of the likelihood of each number of missed listings, and where it is greatest."""

    numbers: Floats
    likelihood: Floats

    @property
    def best(self) -> int:
        return int(self.likelihood.argmax())

    def interval(self, level: float) -> tuple[float, float]:
        """The numbers that are not much less likely than the best; NaN: there is no upper limit."""
        drop = NormalDist().inv_cdf((1 + level) / 2) ** 2 / 2
        is_inside = np.flatnonzero(self.likelihood >= self.likelihood.max() - drop)
        first, last = int(is_inside[0]), int(is_inside[-1])
        low = 0.0 if first == 0 else self._crossing(first - 1, first, drop)
        high = math.nan if last == len(self.numbers) - 1 else self._crossing(last, last + 1, drop)
        return low, high

    def _crossing(self, before: int, after: int, drop: float) -> float:
        level = self.likelihood.max() - drop
        a, b = self.likelihood[before], self.likelihood[after]
        share = (level - a) / (b - a)
        return float(self.numbers[before] + share * (self.numbers[after] - self.numbers[before]))


def _estimate(ways: Sequence[str], cells: Ints, level: float) -> _Estimate:
    n = len(ways)
    pairs: Pairs = ()
    profile = _profile(n, cells, pairs)
    for chosen in _dependences(n, cells, profile):
        pairs, profile = chosen
    low, high = profile.interval(level)
    if n == 2:  # noqa: PLR2004  Chapman's estimate is for two
        first, second, both = int(cells[1]), int(cells[2]), int(cells[3])
        listings = first * second / (both + 1)
    else:
        listings = float(profile.numbers[profile.best])
    return _Estimate(round(listings, 1), round(low, 1), round(high, 1), _assumption(ways, pairs))


def _assumption(ways: Sequence[str], pairs: Pairs) -> str:
    if not pairs:
        return INDEPENDENT
    words = [f"{ways[one]} and {ways[other]}" for one, other in pairs]
    return f"{'; '.join(words)} depend on each other, and no others"


def _dependences(n: int, cells: Ints, profile: _Profile) -> Iterator[tuple[Pairs, _Profile]]:
    """Add the dependence that explains most, one after the other, as long as it explains more than chance would."""
    pairs: Pairs = ()
    enough = NormalDist().inv_cdf((1 + _SIGNIFICANCE) / 2) ** 2 / 2
    left = [*combinations(range(n), 2)] if n > 2 else []  # noqa: PLR2004  two ways tell nothing of their dependence
    while left:
        profiles = {pair: _profile(n, cells, (*pairs, pair)) for pair in left}
        best = max(profiles, key=lambda pair: profiles[pair].likelihood.max())
        if profiles[best].likelihood.max() - profile.likelihood.max() <= enough:
            return
        left.remove(best)
        pairs, profile = (*pairs, best), profiles[best]
        yield pairs, profile


def _profile(n: int, cells: Ints, pairs: Pairs) -> _Profile:
    """The likelihood of each number of missed listings, if only these pairs of ways depend on each other."""
    total = int(cells.sum())
    most = _MOST_PER_LISTING * total
    numbers = np.unique(np.concatenate([np.linspace(0, min(100, most), 201), np.geomspace(1, most, 500)]))
    counts = np.repeat(cells[None].astype("float64"), len(numbers), axis=0)
    counts[:, 0] = numbers
    expected = _fitted(counts, n, pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(counts > 0, counts * np.log(expected / counts.sum(axis=1, keepdims=True)), 0.0)
    log_factorial = np.vectorize(math.lgamma, otypes=["float64"])
    ways_to_choose = log_factorial(total + numbers + 1) - log_factorial(numbers + 1)
    return _Profile(numbers, ways_to_choose + logs.sum(axis=1))


def _fitted(counts: Floats, n: int, pairs: Pairs) -> Floats:
    """Expected counts with the margins of each pair, and of each way in none, by iterative proportional fitting."""
    single = [(way,) for way in range(n) if not any(way in pair for pair in pairs)]
    shape = (len(counts), *(2,) * n)
    observed = counts.reshape(shape)
    expected = np.ones(shape) * observed.sum(axis=tuple(range(1, n + 1)), keepdims=True) / 2**n
    for _ in range(_ROUNDS if len(pairs) >= n else 3):
        for margin in (*pairs, *single):
            # Bit 0, the first way, is the last axis.
            axes = tuple(n - way for way in range(n) if way not in margin)
            now = expected.sum(axis=axes, keepdims=True)
            ratio: Any = np.divide(
                observed.sum(axis=axes, keepdims=True), now, out=np.zeros_like(now), where=now > 0
            )
            expected = expected * ratio
    result: Floats = expected.reshape(counts.shape)
    return result
