"""The user's cache and configuration directories, and the history that the environment names."""

import os
from pathlib import Path

import platformdirs

NAME = "exposurekit"
HISTORY_VARIABLE = "EXPOSUREKIT_HISTORY"


def cache_dir() -> Path:
    """Return the cache directory, whose files can be recreated."""
    return _former("XDG_CACHE_HOME", ".cache") or platformdirs.user_cache_path(NAME, appauthor=False)


def config_dir() -> Path:
    """Return the configuration directory: settings and keys."""
    return _former("XDG_CONFIG_HOME", ".config") or platformdirs.user_config_path(NAME, appauthor=False)


def history_path() -> str | None:
    """Return the directory or address of the history that the environment names; None: it names none."""
    return os.environ.get(HISTORY_VARIABLE) or None


def _former(variable: str, default: str) -> Path | None:
    """The directory that earlier versions used on every system, if it exists: its keys must be found.

    Source: XDG Base Directory Specification, which says to ignore relative paths.
    """
    configured = Path(os.environ.get(variable, ""))
    path = (configured if configured.is_absolute() else Path.home() / default) / NAME
    return path if path.is_dir() else None
