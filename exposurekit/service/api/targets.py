"""What the address of a request says: the operation, and the values in its path and its query.

Integrators ask for the same addresses again and again, and to parse one takes as long as to read a user from the
database: the latest ones are cached as they were parsed, for a minute, since they may hold secrets.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from starlette.types import Scope

from exposurekit.contract import forms
from exposurekit.contract.inputs import read_integer
from exposurekit.contract.operations import FORMATS, OPERATIONS, PREFIX, Operation
from exposurekit.errors import InvalidResponse
from exposurekit.service.api.parameters import USER_ID_NAMES
from exposurekit.service.errors import ApiError
from exposurekit.system.brief_cache import cached_briefly

CACHED_TARGETS, CACHED_BYTES = 4_000, 500  # addresses, and the length of one; together at most 16 MB

Values = dict[str, Any]


@dataclass(slots=True)  # not frozen: that would cost a new address 1 us
class Target:
    """The address of an operation, parsed."""

    methods: Sequence[str]  # that the path takes
    operation: Operation | None = None  # None: the path does not take the request's method
    integration_name: str = ""
    api_key: str = field(default="", repr=False)
    user_id: int | None = None  # None: there is none, or it is not an integer
    values: Mapping[str, Any] = field(
        default_factory=dict, repr=False
    )  # of path and query; shared by requests
    problem: str | None = None  # why there are no values


def find(scope: Scope) -> Target | None:
    """Return what the address of a request says; None: the path is of no operation."""
    method, path, query = scope["method"], scope["path"], scope["query_string"]
    is_short = len(method) + len(path) + len(query) <= CACHED_BYTES
    # Nested values take many times the memory of their text, and no client asks for them again and again.
    may_nest = b"[" in query or b"%" in query
    return (_parse_once if is_short and not may_nest else _parse)(method, path, query)


def _parse(method: str, path: str, query: bytes) -> Target | None:
    segments = path.split("/")
    last, _, suffix = segments[-1].partition(".")
    if len(last) < len(segments[-1]) and suffix not in FORMATS:
        return None
    segments[-1] = last
    for one in _PATHS.get(len(segments), ()):
        if (parameters := one.parameters(segments)) is not None:
            return one.target(method, parameters, query)
    return None


_parse_once = cached_briefly(_parse, entries=CACHED_TARGETS)


class _OperationPath:
    """The path of one or two operations, such as ``/api/{integration_name}/{api_key}/v2/users/{id}``."""

    def __init__(self, path: str, operations: Iterable[Operation]) -> None:
        self.segments = (PREFIX + path).split("/")
        self._by_method = {operation.method: operation for operation in operations}
        self._methods = sorted({*self._by_method, *(["HEAD"] if "GET" in self._by_method else [])})
        names = {index: one[1:-1] for index, one in enumerate(self.segments) if one.startswith("{")}
        self._names = tuple(names.values())
        self._values = itemgetter(*names)
        literals = [index for index in range(len(self.segments)) if index not in names]
        self._literals = itemgetter(*literals)
        self._expected = self._literals(self.segments)

    def parameters(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the parameters in a path with as many segments; None: it is another path.

        An empty key is missing, which is 401 and not an unknown path.
        """
        if self._literals(segments) != self._expected:
            return None
        values = self._values(segments)
        parameters = dict(zip(self._names, values, strict=True))
        if "" in values and [name for name, value in parameters.items() if not value] != ["api_key"]:
            return None
        return parameters

    def target(self, method: str, parameters: dict[str, str], query: bytes) -> Target:
        """Return what an address with this path says."""
        operation = self._by_method.get("GET" if method == "HEAD" else method)
        if operation is None:
            return Target(self._methods)
        values: Values = {}
        problem = None
        try:
            values = merged(operation, parameters, fields(query, "query"))
        except (InvalidResponse, ApiError) as unreadable:
            problem = str(unreadable)
        return Target(
            self._methods,
            operation,
            parameters["integration_name"],
            parameters["api_key"],
            _user_id(parameters.get(USER_ID_NAMES[operation.name])),
            values,
            problem,
        )


def _user_id(text: str | None) -> int | None:
    try:
        return read_integer(text)
    except ValueError:
        return None


_PATHS: dict[int, list[_OperationPath]] = {}  # by the number of segments
for _path, _group in groupby(sorted(OPERATIONS, key=attrgetter("path")), key=attrgetter("path")):
    _one = _OperationPath(_path, _group)
    _PATHS.setdefault(len(_one.segments), []).append(_one)


def fields(encoded: bytes, source: str) -> Values:
    """Decode a query or a form; raises `InvalidResponse`, or `ApiError` if it is not UTF-8."""
    try:
        return forms.decode(encoded.decode()) if encoded else {}
    except UnicodeDecodeError:
        pass
    raise ApiError(400, f"the {source} is not UTF-8")


def merged(operation: Operation, *sources: Mapping[str, Any]) -> Values:
    """Return the operation's parameters from all sources; null counts as absent.

    Raises `ApiError` if two of them give one name different values.
    """
    names = _NAMES[operation.name]
    values: Values = {}
    for source in sources:
        for name, value in source.items():
            if value is None or name not in names:
                continue
            if name not in values:
                values[name] = value
            elif _as_text(values[name]) != _as_text(value):
                raise ApiError(400, f"{name} is given two different values")
    return values


_NAMES = {operation.name: frozenset(operation.names) for operation in OPERATIONS}


def _as_text(value: Any) -> Any:
    """Return a value as text in every encoding: 7 in JSON is "7" in a query."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value
