"""Where the files of the person at this machine are kept. Makes none."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """The directory of what can be made again.

    Source: XDG Base Directory Specification.

    >>> from exposurekit.system.paths import cache_dir
    >>> cache_dir().name
    'exposurekit'
    """
    return _base("XDG_CACHE_HOME", ".cache")


def config_dir() -> Path:
    """The directory of what cannot be made again: settings and keys.

    Source: XDG Base Directory Specification.

    >>> from exposurekit.system.paths import config_dir
    >>> config_dir().name
    'exposurekit'
    """
    return _base("XDG_CONFIG_HOME", ".config")


def _base(variable: str, usual: str) -> Path:
    told = Path(os.environ.get(variable, ""))
    # The specification has relative paths ignored.
    return (told if told.is_absolute() else Path.home() / usual) / "exposurekit"
