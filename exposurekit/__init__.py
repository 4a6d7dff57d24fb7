"""Find where people's data is listed, and get it removed.

Begin with one of these::

    exposure = ek.connect()       your service: EXPOSUREKIT_BASE_URL, ...
    history = ek.History("name")  what history.collect(exposure) observed
    demo = ek.demo()              a sandbox: demo.exposure, demo.history

Question                           Call
---------------------------------  ---------------------------------------
What is listed, and where?         exposure.records(status="discovered")
Which sites have the most?         analysis.by_site(exposure.records())
Which people are listed most?      analysis.by_user(exposure.records())
Which web pages show their data?   exposure.links()
What must somebody do by hand?     exposure.steps(), history.work_queue()
Which fields block removals?       analysis.blockers(exposure.records(),
                                                     exposure.on_file())
Who could not be loaded, and why?  exposure.failures()
How did the counts develop?        history.status_over_time(by="site")
What changed since a day?          history.diff("2026-11-13")
How long does a removal take?      history.time_to_removal()
What was listed again?             history.relistings()
What is coming?                    history.forecast()
How exposed is each person?        analysis.score(exposure.records(),
                                                  exposure.links())

Each call returns a DataFrame; a Diff has .counts, .by_site, .changes, .why.
Each question of ek.analysis has a chart of the same name in ek.charts:
charts.by_site(analysis.by_site(records)) draws the table by_site, and so
does records.exposure.chart("by_site").

ek.widgets             Dashboard, Explorer, OptOutChecklist, RecordLabels
ek.report(history)     one HTML or PDF file for people without a notebook
ek.export(table, path) CSV, Excel or Parquet; manual work as Markdown, .ics
ek.Client              the operations of the API, one call each
%load_ext exposurekit  the same questions as %exposure, on one line

>>> import exposurekit as ek
>>> ek.connect(**connection).records().columns.tolist()[:3]
['site', 'status', 'user_id']
"""

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers and editors; `_MODULES` is what runs, and a test compares the two
    from IPython.core.interactiveshell import InteractiveShell

    from exposurekit import analysis as analysis
    from exposurekit import charts as charts
    from exposurekit import frames as frames
    from exposurekit import widgets as widgets
    from exposurekit.client import AsyncClient as AsyncClient
    from exposurekit.client import Client as Client
    from exposurekit.client import RetryPolicy as RetryPolicy
    from exposurekit.contract.models import Alert as Alert
    from exposurekit.contract.models import Link as Link
    from exposurekit.contract.models import Record as Record
    from exposurekit.contract.models import User as User
    from exposurekit.contract.models import UserKey as UserKey
    from exposurekit.contract.webhooks import Delivery as Delivery
    from exposurekit.errors import APIStatusError as APIStatusError
    from exposurekit.errors import BadRequest as BadRequest
    from exposurekit.errors import ConfigurationError as ConfigurationError
    from exposurekit.errors import ConnectionFailed as ConnectionFailed
    from exposurekit.errors import EmptyHistory as EmptyHistory
    from exposurekit.errors import ExposureError as ExposureError
    from exposurekit.errors import InvalidArgument as InvalidArgument
    from exposurekit.errors import InvalidEvidence as InvalidEvidence
    from exposurekit.errors import InvalidResponse as InvalidResponse
    from exposurekit.errors import InvalidSignature as InvalidSignature
    from exposurekit.errors import MissingColumns as MissingColumns
    from exposurekit.errors import NotFound as NotFound
    from exposurekit.errors import ScanTimeout as ScanTimeout
    from exposurekit.errors import Unauthorized as Unauthorized
    from exposurekit.evidence import read_evidence as read_evidence
    from exposurekit.exports import export as export
    from exposurekit.exposure import Exposure as Exposure
    from exposurekit.exposure import connect as connect
    from exposurekit.history import Diff as Diff
    from exposurekit.history import History as History
    from exposurekit.history import HistoryLocked as HistoryLocked
    from exposurekit.history import ReceivedDelivery as ReceivedDelivery
    from exposurekit.history import Run as Run
    from exposurekit.monitor.webhooks.signatures import verify_webhook as verify_webhook
    from exposurekit.reports import Report as Report
    from exposurekit.reports import Section as Section
    from exposurekit.reports import report as report
    from exposurekit.sandbox.demo import demo as demo
    from exposurekit.text import sanitize as sanitize

__version__ = "0.1.0"

_NAMES = {
    "exposure": "connect Exposure",
    "client": "Client AsyncClient RetryPolicy",
    "sandbox.demo": "demo",
    "evidence": "read_evidence",
    "exports": "export",
    "reports": "report Report Section",
    "history": "History Run Diff ReceivedDelivery HistoryLocked",
    "contract.models": "User UserKey Record Link Alert",
    "contract.webhooks": "Delivery",
    "monitor.webhooks.signatures": "verify_webhook",
    "errors": "ExposureError ConfigurationError EmptyHistory InvalidArgument MissingColumns NotFound ScanTimeout "
    "APIStatusError BadRequest Unauthorized ConnectionFailed InvalidResponse InvalidEvidence "
    "InvalidSignature",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_SUBPACKAGES = {
    **{name: name for name in ("analysis", "charts", "frames", "widgets")},
    "sanitize": "text.sanitize",
}

# There is no `__all__`: help() prints every class that it names in full, thousands of lines. dir() has the public names.


def __dir__() -> list[str]:
    return sorted(("__version__", *_MODULES, *_SUBPACKAGES))


if not TYPE_CHECKING:  # else any name would pass a type checker

    def __getattr__(name: str) -> object:
        if name in _SUBPACKAGES:
            return _load(_SUBPACKAGES[name])
        if name in _MODULES:
            value = globals()[name] = getattr(_load(_MODULES[name]), name)
            return value
        raise AttributeError(f"exposurekit has no {name!r}", name=name, obj=sys.modules[__name__])


def _load(module: str) -> object:
    loaded = importlib.import_module(f"exposurekit.{module}")
    _register_accessor()
    return loaded


def _register_accessor() -> None:
    """Register ``.exposure`` on DataFrames as soon as pandas is loaded; do not load pandas for it."""
    if "pandas" in sys.modules:
        importlib.import_module("exposurekit.notebook.accessor")


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """``%load_ext exposurekit``: add the magic ``%exposure``, its completions, and ``.exposure`` on DataFrames."""
    from exposurekit.notebook.magic import load

    _register_accessor()
    load(shell)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """``%unload_ext exposurekit``: remove the magic and its completions."""
    from exposurekit.notebook.magic import unload

    unload(shell)


_register_accessor()
