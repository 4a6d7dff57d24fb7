"""The files that install a watch or the service: each is a template beside this module."""

import re
from collections.abc import Mapping
from importlib.resources import files


def fill(name: str, values: Mapping[str, str]) -> str:
    """Return a template with ``@name@`` replaced by the value of that name."""
    template = files("exposurekit.cli").joinpath("templates", name).read_text("utf-8")
    return re.sub("@([a-z_]+)@", lambda match: values[match[1]], template)
