"""Widgets for notebooks: charts, tables and checklists that respond, each with a static HTML fallback.

::

    dashboard      charts that filter one another      explorer           a table, page by page
    checklist      the work queue of manual removals   listing_labels     is this the person?
    connection     the service and its load issues     panel              what every widget shares
    dashboard_scope  what is selected, and its charts  metrics            the figures above the charts
    figure_widget  live charts and their clicks        data_grid          a page of rows in the browser
    table_filter   a filter as a value and as code     column_summary     what the heads of a table show
    frame_rows     rows of a table in memory           sql_rows           rows of files and relations, by SQL
    multi_select   chips, or a list, with counts       task_list          the alerts to pick from
    task_captions  how an alert is labelled            person_comparison  a listing against what is on file
    copy_button    texts with a button that copies     textbox            text reported while typing
    shortcuts      keyboard shortcuts                  static_html        what a saved notebook shows
"""

from exposurekit.widgets.checklist import OptOutChecklist
from exposurekit.widgets.connection import ConnectionPanel
from exposurekit.widgets.dashboard import Dashboard
from exposurekit.widgets.explorer import Explorer
from exposurekit.widgets.listing_labels import RecordLabels
from exposurekit.widgets.panel import Panel

__all__ = ["ConnectionPanel", "Dashboard", "Explorer", "OptOutChecklist", "Panel", "RecordLabels"]


def __dir__() -> list[str]:
    return [*__all__]
