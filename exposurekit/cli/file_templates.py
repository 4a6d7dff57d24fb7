"""The files that install a watch or the service: each is a template beside this module."""

import re
from collections.abc import Mapping
from importlib.resources import files


def fill(name: str, values: Mapping[str, str]) -> str:
    """Return a template with ``@name@`` replaced by the value of that name.

    ``@confinement@`` is what systemd denies to every unit alike.
    """
    every = {"confinement": _read("confinement.conf").rstrip(), **values}
    return re.sub("@([a-z_]+)@", lambda match: every[match[1]], _read(name))


def _read(name: str) -> str:
    return files("exposurekit.cli").joinpath("templates", name).read_text("utf-8")
