"""The invented web's data: the YAML files in ``data/``."""

from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from exposurekit.text import plain_yaml

T = TypeVar("T")
_DIRECTORY = Path(__file__).with_name("data")


def read(name: str, kind: type[T]) -> T:
    """Read a data file as a value of a type."""
    document = plain_yaml.read((_DIRECTORY / f"{name}.yaml").read_text(encoding="utf-8"))
    return TypeAdapter(kind).validate_python(document.value)
