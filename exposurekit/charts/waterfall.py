"""The waterfall: from what was open to what is, or from a score to a score. Never mixes what the sites did with what only came into view."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import OTHER, VANISHED
from exposurekit.analysis.diff import AGAIN, CHANGED, INTO_VIEW, NEW, OPEN_AFTER, OPEN_BEFORE, OUT_OF_VIEW
from exposurekit.analysis.score import SCORE_AFTER, SCORE_BEFORE
from exposurekit.charts.theme import (
    BLUE,
    COLOURS,
    GREY,
    PATTERNS,
    VERMILION,
    Chart,
    chart,
    explained,
    label_text,
    patterned,
    short,
)
from exposurekit.contract.types import PENDING_REMOVAL, REMOVED

_OUR_VIEW = "only our view changed"
# What each cause is, and how it looks. What came into view or went out of it says nothing of the sites.
_KINDS = {
    "new, or listed again": (VERMILION, "/", (NEW, AGAIN)),
    CHANGED: (COLOURS[PENDING_REMOVAL], "-", (CHANGED,)),
    REMOVED: (COLOURS[REMOVED], PATTERNS[REMOVED], (REMOVED,)),
    VANISHED: (COLOURS[VANISHED], PATTERNS[VANISHED], (VANISHED,)),
    _OUR_VIEW: (GREY, "x", (INTO_VIEW, OUT_OF_VIEW)),
}
_KIND = {cause: kind for kind, (_, _, causes) in _KINDS.items() for cause in causes}
_LOOKS = {kind: look for kind, (*look, _) in _KINDS.items()} | dict.fromkeys(("open", "score"), (BLUE, ""))
_CUT = 0.7  # where nothing happens below this share of the height, the axis begins above zero
_FEW_TICKS = 5


@dataclass(frozen=True, slots=True)
class Scale:
    """What moves.

    Attributes:
        column: Where a table says how much of it there is by then.
        ends: The first and the last cause: the whole, before and after.
        are: What is said of the whole.
    """

    column: str
    ends: tuple[str, str]
    are: str


OPEN = Scale("open", (OPEN_BEFORE, OPEN_AFTER), "are open")
SCORE = Scale("score", (SCORE_BEFORE, SCORE_AFTER), "points in all")


def cascade(table: pd.DataFrame, provenance: str, scale: Scale) -> Chart:
    """The figure of a table with a row or more: of `charts.changes`, of `charts.score_changes`."""
    bars, level = _bars(table, scale), table[scale.column].to_numpy("float64")
    figure = chart(
        [*_steps(level), *(_bar(str(kind), rows) for kind, rows in bars.groupby("kind", sort=False))],
        finding=_moved(table, scale),
        summary=_why(table, scale),
        provenance=provenance,
        barmode="overlay",
    )
    room = [-0.6, len(bars) - 0.4]
    figure.update_xaxes(range=room, tickvals=[*bars.index], ticktext=[*bars["cause"]], showgrid=False)
    return _from(figure, level, scale)


def _bars(table: pd.DataFrame, scale: Scale) -> pd.DataFrame:
    """Of each cause what it is, where its bar stands, and what stands at it."""
    n, level = table["n"].to_numpy("float64"), table[scale.column].to_numpy("float64")
    kinds = [scale.column if cause in scale.ends else _KIND.get(cause, OTHER) for cause in table["cause"]]
    whole = table["cause"].isin(scale.ends).to_numpy()
    said = zip(n.tolist(), level.tolist(), whole.tolist(), strict=True)
    return pd.DataFrame(
        {
            "kind": kinds,
            "cause": [label_text(cause) for cause in table["cause"]],
            "low": np.where(whole, 0, np.minimum(level, level - n)),
            "high": np.where(whole, level, np.maximum(level, level - n)),
            "means": [explained(cause) for cause in table["cause"]],
            "said": [amount(of) if is_whole else signed(one) for one, of, is_whole in said],
        }
    )


def amount(n: float) -> str:
    """So many, or so much: a whole number, or one digit more."""
    return f"{n:,.0f}" if float(n).is_integer() else f"{n:,.1f}"


def signed(n: float) -> str:
    """A number and which way it goes; nothing goes no way."""
    return f"{'+' if n > 0 else chr(0x2212)}{amount(abs(n))}" if n else "0"


def _bar(kind: str, rows: pd.DataFrame) -> go.Bar:
    colour, shape = _LOOKS.get(kind, (COLOURS[OTHER], PATTERNS[OTHER]))
    return go.Bar(
        name=kind,
        x=rows.index.tolist(),
        width=0.75,
        base=rows["low"].tolist(),
        y=(rows["high"] - rows["low"]).tolist(),
        text=rows["said"].tolist(),
        textposition="outside",
        cliponaxis=False,
        customdata=[
            f"{cause}: {said}{means}"
            for cause, said, means in zip(rows["cause"], rows["said"], rows["means"], strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
        marker=patterned(colour, shape),
    )


def _steps(level: Any) -> list[go.Scatter]:
    """Thin lines from each bar to the next, at the height that was reached."""
    x = [at for place in range(len(level) - 1) for at in (place, place + 1, None)]
    y = [at for one in level[:-1].tolist() for at in (one, one, None)]
    line = {"color": GREY, "width": 1, "dash": "dot"}
    return [go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)]


def _from(figure: Chart, level: Any, scale: Scale) -> Chart:
    """The height: from zero, unless all that moves is far above it; then the axis says where it begins."""
    least, most = int(level.min()), int(np.ceil(level.max()))
    if least <= _CUT * most:
        figure.update_yaxes(title_text=scale.column, range=[0, max(most, 1) * 1.12], **_whole_ticks(most))
        return figure
    start = max(int(least - 0.5 * max(most - least, 1)), 0)
    said = f"{scale.column} (begins at {start:,}, not at zero)"
    figure.update_yaxes(
        title_text=said, range=[start, most + 0.2 * (most - start)], **_whole_ticks(most - start)
    )
    return figure


def _whole_ticks(height: float) -> dict[str, Any]:
    """Between few numbers no tick stands that is none of them: rounded it would say its neighbour's."""
    return {"tickformat": ",d"} | ({"dtick": 1} if height < _FEW_TICKS else {})


def _moved(table: pd.DataFrame, scale: Scale) -> str:
    before, after = float(table[scale.column].iloc[0]), float(table[scale.column].iloc[-1])
    n = abs(after - before)
    how = f"{amount(n)} {'more' if after > before else 'fewer'} than before" if n else "as many as before"
    return f"{amount(after)} {scale.are}, {how}{_causes(table, scale)}"


def _causes(table: pd.DataFrame, scale: Scale) -> str:
    """The three that moved most, in words."""
    moved = table[(table["n"] != 0) & ~table["cause"].isin(scale.ends)]
    most = moved.reindex(moved["n"].abs().sort_values(ascending=False, kind="stable").index).head(3)
    said = [f"{amount(abs(n))} {short(cause)}" for n, cause in zip(most["n"], most["cause"], strict=True)]
    return f": {', '.join(said)}" if said else ""


def _why(table: pd.DataFrame, scale: Scale) -> str:
    causes = dict(zip(table["cause"], table["n"], strict=True))
    before, after = float(table[scale.column].iloc[0]), float(table[scale.column].iloc[-1])
    view = sum(float(causes.get(cause, 0)) for cause in (INTO_VIEW, OUT_OF_VIEW))
    rest = [f"{short(cause)} {signed(n)}" for cause, n in causes.items() if n and cause not in scale.ends]
    told = ", ".join(rest) or "nothing moved"
    seen = f" Of the change {signed(view)} is only our view, and says nothing of the sites." if view else ""
    first, last = (end.capitalize() if end is scale.ends[0] else end for end in scale.ends)
    return f"{first}: {amount(before)}; {told}; {last}: {amount(after)}.{seen}"
