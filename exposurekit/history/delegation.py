"""Delegate methods of an object to its parts, with the same signature and docstring."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

_Part = TypeVar("_Part")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def delegate(
    attribute: str, method: Callable[Concatenate[_Part, _Arguments], _Result]
) -> Callable[Concatenate[Any, _Arguments], _Result]:
    """Return a method that calls ``method`` on the part in ``attribute``."""

    @functools.wraps(method)
    def delegated(self: Any, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        return method(getattr(self, attribute), *args, **kwargs)

    return delegated
