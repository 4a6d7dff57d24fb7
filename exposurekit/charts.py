"""Tables to Plotly figures, under the same names as `analysis`. Fetches nothing, and trusts no text from outside."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import OTHER
from exposurekit.contract.values import DISCOVERED, PENDING_REMOVAL, REMOVED, STATUSES
from exposurekit.errors import MissingColumns
from exposurekit.markup import label, plain

# Okabe and Ito's colours, told apart by all; the pattern says the same without colour.
COLOURS = {DISCOVERED: "#D55E00", PENDING_REMOVAL: "#E69F00", REMOVED: "#009E73", OTHER: "#8C8C8C"}
PATTERNS = {DISCOVERED: "", PENDING_REMOVAL: "/", REMOVED: ".", OTHER: "x"}
GREY = "#7F7F7F"  # reads on white and on black
SITES_SHOWN = 25
LABEL_MAX = 40

# Plotly's own button uploads the figure's data; no figure of ours has it.
CONFIG = {"showSendToCloud": False, "plotlyServerURL": "", "displaylogo": False, "responsive": True}


def by_site(table: pd.DataFrame, *, provenance: str = "") -> go.Figure:
    """Listings on each site, by status, as stacked bars; beyond 25 sites the rest stand together.

    Args:
        table: As `analysis.by_site` gives it.
        provenance: Where the figures come from and as of when; stands below the title.

    Returns:
        A figure whose title says the finding; `describe` gives it as text.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> figure = charts.by_site(analysis.by_site(exposure.records()), provenance=exposure.provenance)
    >>> [bar.name for bar in figure.data][:2]
    ['discovered', 'pending removal']
    """
    MissingColumns.check("charts.by_site", table.columns, ("site", *STATUSES, OTHER, "total"))
    shown = _together(table)
    labels = [label(_plain(site)) for site in shown["site"]]
    bars = [
        _bar(status, shown, labels) for status in (*STATUSES, OTHER) if status != OTHER or table[OTHER].any()
    ]
    figure = go.Figure(
        bars, layout=_layout(_finding(table), provenance, height=190 + 26 * max(len(shown), 2))
    )
    figure.update_layout(barmode="stack", meta={"finding": _finding(table), "summary": _summary(table)})
    # Bars stand by number: two names that are cut alike stay two sites.
    places = [*range(len(labels))]
    figure.update_yaxes(autorange="reversed", automargin=True, tickvals=places, ticktext=labels)
    figure.update_xaxes(title_text="listings", rangemode="tozero", tickformat="d")
    return figure


def describe(figure: go.Figure) -> str:
    """The figure in words, for those who do not see it: its finding, then its numbers.

    >>> table = analysis.by_site(exposure.records())
    >>> f"{table['total'].sum()} listings on " in charts.describe(charts.by_site(table))
    True
    """
    meta = figure.layout.meta
    return f"{meta['finding']}. {meta['summary']}" if isinstance(meta, dict) and "finding" in meta else ""


def _summary(table: pd.DataFrame) -> str:
    """What `analysis.by_site` found, in words."""
    if table.empty:
        return "No listings."
    counts = ", ".join(f"{int(table[name].sum())} {name}" for name in (*STATUSES, OTHER) if table[name].any())
    top = table.head(3)
    most = "; ".join(f"{_plain(site)} {total}" for site, total in zip(top["site"], top["total"], strict=True))
    return f"{int(table['total'].sum())} listings on {len(table)} sites: {counts}. Most in all: {most}."


def _finding(table: pd.DataFrame) -> str:
    """The one thing that `analysis.by_site` says first."""
    if table.empty:
        return "No listings"
    unremoved = table["total"] - table[REMOVED]
    if not unremoved.any():
        return f"All {int(table['total'].sum())} listings are removed"
    site = _plain(table["site"].iloc[int(unremoved.argmax())])
    return f"{int(unremoved.sum())} listings are not removed yet; {site} holds most, {int(unremoved.max())}"


def _bar(status: str, table: pd.DataFrame, labels: list[str]) -> go.Bar:
    return go.Bar(
        name=status,
        y=[*range(len(labels))],
        customdata=labels,
        x=table[status].tolist(),
        orientation="h",
        marker={
            "color": COLOURS[status],
            "pattern": {
                "shape": PATTERNS[status],
                "bgcolor": COLOURS[status],
                "fgcolor": "white",
                "solidity": 0.2,
            },
        },
        hovertemplate=f"%{{customdata}}<br>%{{x}} {status}<extra></extra>",
    )


def _together(table: pd.DataFrame) -> pd.DataFrame:
    if len(table) <= SITES_SHOWN:
        return table
    rest = table.iloc[SITES_SHOWN:]
    row = {"site": f"{len(rest)} more sites", **rest.drop(columns="site").sum().to_dict()}
    return pd.concat([table.head(SITES_SHOWN), pd.DataFrame([row])], ignore_index=True)


def _plain(site: str) -> str:
    text = plain(site)
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"


def _layout(title: str, provenance: str, *, height: int) -> dict[str, Any]:
    axis = {"gridcolor": "rgba(127,127,127,0.25)", "zeroline": False}
    return {
        "template": "none",
        "title": {
            "text": label(title),
            "subtitle": {"text": label(provenance)},
            "x": 0,
            "y": 1,
            "yanchor": "top",
            "pad": {"l": 16, "t": 16},
        },
        "height": height,
        "margin": {"l": 16, "r": 16, "t": 112, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": GREY, "family": "system-ui, sans-serif"},
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "xaxis": axis,
        "yaxis": axis,
        "bargap": 0.25,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": GREY},
    }
