"""The user's cache and configuration directories."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the cache directory, whose files can be recreated.

    Source: XDG Base Directory Specification.

    >>> from exposurekit.system.paths import cache_dir
    >>> cache_dir().name
    'exposurekit'
    """
    return _base("XDG_CACHE_HOME", ".cache")


def config_dir() -> Path:
    """Return the configuration directory: settings and keys.

    Source: XDG Base Directory Specification.

    >>> from exposurekit.system.paths import config_dir
    >>> config_dir().name
    'exposurekit'
    """
    return _base("XDG_CONFIG_HOME", ".config")


def _base(variable: str, default: str) -> Path:
    configured = Path(os.environ.get(variable, ""))
    # The specification says to ignore relative paths.
    return (configured if configured.is_absolute() else Path.home() / default) / "exposurekit"
