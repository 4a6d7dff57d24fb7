"""Charts and steps that answer back in a notebook: values built of tables, each with a static twin. Fetches nothing.

::

    panel        what all have in common           twin        their static twins, as HTML
    dashboard    charts that filter one another    explorer    a table, page by page
    checklist    the steps of manual removals      labels      is this the person?
    connection   what a notebook is connected to   filtering   a filter as a value, and as code
    questions    what is picked, and its charts    living      figures drawn anew, and their clicks
    grid, keys   a page of rows, and keys, in the browser
    textbox      a text that is reported as one types    people    whom a name or an id means
"""

from exposurekit.widgets.checklist import OptOutChecklist
from exposurekit.widgets.connection import ConnectionPanel
from exposurekit.widgets.dashboard import Dashboard
from exposurekit.widgets.explorer import Explorer
from exposurekit.widgets.labels import RecordLabels
from exposurekit.widgets.panel import Panel

__all__ = ["ConnectionPanel", "Dashboard", "Explorer", "OptOutChecklist", "Panel", "RecordLabels"]


def __dir__() -> list[str]:
    return [*__all__]
