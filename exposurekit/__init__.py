"""Exposure of people on people-search sites: a notebook toolkit, and the service behind it.

The names an analyst types. Heavy rooms load on first use, so that ``import exposurekit`` costs nothing.

>>> import exposurekit as ek
>>> ek.connect(**connection).records().columns.tolist()[:3]
['user_id', 'record_id', 'site']
"""

import importlib
import sys
from typing import Any

__version__ = "0.1.0"

_FACE = {
    "connect": "exposurekit.exposure",
    "Exposure": "exposurekit.exposure",
    "Client": "exposurekit.client",
    "AsyncClient": "exposurekit.client",
    "Patience": "exposurekit.client",
    "demo": "exposurekit.demonstration",
    "export": "exposurekit.exports",
    "report": "exposurekit.reports",
    "Report": "exposurekit.reports",
    "History": "exposurekit.history",
    "Run": "exposurekit.history",
    "Diff": "exposurekit.history",
    "Told": "exposurekit.history",
    "Busy": "exposurekit.history",
    "User": "exposurekit.contract.resources",
    "UserKey": "exposurekit.contract.resources",
    "Record": "exposurekit.contract.resources",
    "Link": "exposurekit.contract.resources",
    "Alert": "exposurekit.contract.resources",
    "ExposureError": "exposurekit.errors",
    "Misconfigured": "exposurekit.errors",
    "Refused": "exposurekit.errors",
    "BadRequest": "exposurekit.errors",
    "Unauthorized": "exposurekit.errors",
    "Unreached": "exposurekit.errors",
    "Unreadable": "exposurekit.errors",
    "StillScanning": "exposurekit.errors",
    "NotLoaded": "exposurekit.errors",
    "MissingColumns": "exposurekit.errors",
}
_ROOMS = ("analysis", "charts", "frames", "markup", "widgets")

__all__ = ["__version__", *_FACE, *_ROOMS]  # noqa: PLE0604  the names are text


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return _loaded(f"exposurekit.{name}")
    if name in _FACE:
        value = getattr(_loaded(_FACE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"exposurekit has no {name!r}")


def _loaded(room: str) -> Any:
    found = importlib.import_module(room)
    _reach_frames()
    return found


def _reach_frames() -> None:
    """See to it that tables have ``.exposure``, where there are tables: pandas is not loaded for that."""
    if "pandas" in sys.modules:
        importlib.import_module("exposurekit.accessor")


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext exposurekit``: the magic ``%exposure``, its completions, and ``.exposure`` on tables."""
    _loaded("exposurekit.notebook").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext exposurekit``: takes away what `load_ipython_extension` brought, but for ``.exposure``."""
    importlib.import_module("exposurekit.notebook").unload(shell)


def __dir__() -> list[str]:
    return sorted(__all__)


_reach_frames()
