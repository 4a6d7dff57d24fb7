"""The waterfall: from what was open to what is. Never mixes what the sites did with what only came into view."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import OTHER, VANISHED
from exposurekit.analysis.movement import AGAIN, INTO_VIEW, NEW, OPEN_AFTER, OPEN_BEFORE, OUT_OF_VIEW
from exposurekit.charts.figure import (
    BLUE,
    COLOURS,
    GREY,
    PATTERNS,
    VERMILION,
    Chart,
    chart,
    named,
    patterned,
    short,
)
from exposurekit.contract.values import REMOVED

_OUR_VIEW = "only our view changed"
# What each cause is, and how it looks. What came into view or went out of it says nothing of the sites.
_KINDS = {
    "open": (BLUE, "", (OPEN_BEFORE, OPEN_AFTER)),
    "new, or listed again": (VERMILION, "/", (NEW, AGAIN)),
    REMOVED: (COLOURS[REMOVED], PATTERNS[REMOVED], (REMOVED,)),
    VANISHED: (COLOURS[VANISHED], PATTERNS[VANISHED], (VANISHED,)),
    _OUR_VIEW: (GREY, "x", (INTO_VIEW, OUT_OF_VIEW)),
}
_KIND = {cause: kind for kind, (_, _, causes) in _KINDS.items() for cause in causes}
_CUT = 0.7  # where nothing happens below this share of the height, the axis begins above zero


def cascade(table: pd.DataFrame, provenance: str) -> Chart:
    """The figure of `charts.changes`, of a table with a row or more."""
    bars, level = _bars(table), table["open"].to_numpy("int64")
    figure = chart(
        [*_steps(level), *(_bar(str(kind), rows) for kind, rows in bars.groupby("kind", sort=False))],
        finding=_moved(table),
        summary=_why(table),
        provenance=provenance,
        barmode="overlay",
    )
    room = [-0.6, len(bars) - 0.4]
    figure.update_xaxes(range=room, tickvals=[*bars.index], ticktext=[*bars["cause"]], showgrid=False)
    return _from(figure, level)


def _bars(table: pd.DataFrame) -> pd.DataFrame:
    """Of each cause what it is, where its bar stands, and what stands at it."""
    n, level = table["n"].to_numpy("int64"), table["open"].to_numpy("int64")
    kinds = [_KIND.get(cause, OTHER) for cause in table["cause"]]
    whole = np.array([kind == "open" for kind in kinds])
    said = zip(n.tolist(), level.tolist(), whole.tolist(), strict=True)
    return pd.DataFrame(
        {
            "kind": kinds,
            "cause": [named(cause) for cause in table["cause"]],
            "low": np.where(whole, 0, np.minimum(level, level - n)),
            "high": np.where(whole, level, np.maximum(level, level - n)),
            "said": [f"{of:,}" if is_whole else signed(one) for one, of, is_whole in said],
        }
    )


def signed(n: int) -> str:
    """A number and which way it goes; nothing goes no way."""
    return f"{n:+,}".replace("-", "\N{MINUS SIGN}") if n else "0"


def _bar(kind: str, rows: pd.DataFrame) -> go.Bar:
    colour, shape, _ = _KINDS.get(kind, (COLOURS[OTHER], PATTERNS[OTHER], ()))
    return go.Bar(
        name=kind,
        x=rows.index.tolist(),
        width=0.75,
        base=rows["low"].tolist(),
        y=(rows["high"] - rows["low"]).tolist(),
        text=rows["said"].tolist(),
        textposition="outside",
        cliponaxis=False,
        customdata=[f"{cause}: {said}" for cause, said in zip(rows["cause"], rows["said"], strict=True)],
        hovertemplate="%{customdata}<extra></extra>",
        marker=patterned(colour, shape),
    )


def _steps(level: Any) -> list[go.Scatter]:
    """Thin lines from each bar to the next, at the height that was reached."""
    x = [at for place in range(len(level) - 1) for at in (place, place + 1, None)]
    y = [at for one in level[:-1].tolist() for at in (one, one, None)]
    line = {"color": GREY, "width": 1, "dash": "dot"}
    return [go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)]


def _from(figure: Chart, level: Any) -> Chart:
    """The height: from zero, unless all that moves is far above it; then the axis says where it begins."""
    least, most = int(level.min()), int(level.max())
    if least <= _CUT * most:
        figure.update_yaxes(title_text="open", range=[0, max(most, 1) * 1.12], tickformat=",d")
        return figure
    start = max(int(least - 0.5 * max(most - least, 1)), 0)
    said = f"open (begins at {start:,}, not at zero)"
    figure.update_yaxes(title_text=said, range=[start, most + 0.2 * (most - start)], tickformat=",d")
    return figure


def _moved(table: pd.DataFrame) -> str:
    before, after = int(table["open"].iloc[0]), int(table["open"].iloc[-1])
    n = abs(after - before)
    how = f"{n:,} {'more' if after > before else 'fewer'} than before" if n else "as many as before"
    return f"{after:,} are open, {how}{_causes(table)}"


def _causes(table: pd.DataFrame) -> str:
    """The three that moved most, in words."""
    moved = table[(table["n"] != 0) & ~table["cause"].isin((OPEN_BEFORE, OPEN_AFTER))]
    most = moved.reindex(moved["n"].abs().sort_values(ascending=False, kind="stable").index).head(3)
    said = [f"{abs(n):,} {short(cause)}" for n, cause in zip(most["n"], most["cause"], strict=True)]
    return f": {', '.join(said)}" if said else ""


def _why(table: pd.DataFrame) -> str:
    causes = dict(zip(table["cause"], table["n"], strict=True))
    before, after = int(table["open"].iloc[0]), int(table["open"].iloc[-1])
    view = sum(int(causes.get(cause, 0)) for cause in (INTO_VIEW, OUT_OF_VIEW))
    rest = [
        f"{short(cause)} {signed(int(n))}" for cause, n in causes.items() if n and _KIND.get(cause) != "open"
    ]
    told = ", ".join(rest) or "nothing moved"
    seen = f" Of the change {signed(view)} is only our view, and says nothing of the sites." if view else ""
    return f"Open before: {before:,}; {told}; open after: {after:,}.{seen}"
