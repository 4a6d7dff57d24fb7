"""Widgets for notebooks: charts, tables and checklists that respond, each with a static HTML fallback.

::

    dashboard      charts that filter one another      explorer       a table, page by page
    checklist      the steps of manual removals        labels         is this the person?
    connection     the service and its load issues     panel          what every widget shares
    scope          what is selected, and its charts    filtering      a filter as a value and as code
    figure_widget  live charts and their clicks        data_grid      a page of rows in the browser
    shortcuts      keyboard shortcuts                  textbox        text reported while typing
    listings       how a listing is labelled
    comparing      finding against what is on file     copying        labels with a copy button
    static_html    what a saved notebook shows
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
