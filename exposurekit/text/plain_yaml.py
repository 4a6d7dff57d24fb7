"""Read YAML as plain data, with the line of each value: no anchors, tags, second documents or repeated keys.

Errors name a line and never a value, which may be a password or personal data.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

DEPTH_MAX = 20
NUMBER_MAX = 40  # characters: longer ones take too long to convert

Position = tuple[int | str, ...]

_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS: dict[str, Callable[[Any, Any], Any]] = {
    "int": yaml.constructor.SafeConstructor.construct_yaml_int,
    "float": yaml.constructor.SafeConstructor.construct_yaml_float,
    "bool": yaml.constructor.SafeConstructor.construct_yaml_bool,
    "null": yaml.constructor.SafeConstructor.construct_yaml_null,
}


class InvalidYaml(Exception):
    """A text is not YAML of plain data. ``line`` counts from 1, ``reason`` has no value, ``detail`` is the parser's text.

    ``position`` is that of a repeated key.
    """

    def __init__(self, line: int, reason: str, *, detail: str = "", position: Position | None = None) -> None:
        super().__init__(reason)
        self.line, self.reason, self.detail, self.position = line, reason, detail, position


@dataclass(slots=True)
class Document:
    """A document: its value, in which dates stay text, and the line of each key and item."""

    value: Any = None
    lines: dict[Position, int] = field(default_factory=dict)

    def line(self, position: Position) -> int:
        """Return the line of a key or an item; if it is not there, of the closest one around it."""
        while position and position not in self.lines:
            position = position[:-1]
        return self.lines[position]


def read(text: str) -> Document:
    """Read one document, or raise `InvalidYaml`."""
    document = Document()
    try:
        _check_events(text)
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise InvalidYaml(line, "contains a character that YAML does not allow") from None
    except yaml.MarkedYAMLError as error:
        if "tag handle" in (detail := error.problem or ""):  # and quotes it
            raise InvalidYaml(_line(error, text), "tags are not supported") from None
        raise InvalidYaml(_line(error, text), "is not YAML", detail=detail) from None
    document.lines[()] = 1 if root is None else root.start_mark.line + 1
    document.value = None if root is None else _value(root, (), document.lines)
    return document


def _line(error: yaml.MarkedYAMLError, text: str) -> int:
    """An error that shows at the end of the text, such as an unclosed quote, is where it begins."""
    mark, context = error.problem_mark or error.context_mark, error.context_mark
    if mark is None:
        return 1
    is_end = not text[mark.index :].strip()
    return int((context if is_end and context is not None else mark).line) + 1


def _check_events(text: str) -> None:
    depth = documents = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise InvalidYaml(line, "starts a second document")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InvalidYaml(line, "anchors and aliases are not supported")
        if getattr(event, "tag", None):
            raise InvalidYaml(line, "tags are not supported")
        if depth > DEPTH_MAX:
            raise InvalidYaml(line, "is nested too deeply")


def _value(node: yaml.Node, position: Position, lines: dict[Position, int]) -> Any:
    """Return a node's value, and note the lines of what it contains."""
    if isinstance(node, yaml.SequenceNode):
        lines |= {(*position, number): item.start_mark.line + 1 for number, item in enumerate(node.value)}
        return [_value(item, (*position, number), lines) for number, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Any] = {}
        for key, value in node.value:
            line, name = key.start_mark.line + 1, key.value
            if not isinstance(key, yaml.ScalarNode):
                raise InvalidYaml(line, "a key is not text")
            if name in values:  # YAML would use the last value silently
                raise InvalidYaml(line, "is repeated", position=(*position, name))
            lines[*position, name] = line
            values[name] = _value(value, (*position, name), lines)
        return values
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    construct = _SCALARS.get(node.tag.rpartition(":")[2])
    if construct is None:
        return node.value
    if len(node.value) > NUMBER_MAX:
        raise InvalidYaml(node.start_mark.line + 1, "a number is too long")
    try:
        value = construct(_CONSTRUCTOR, node)
    except (ValueError, OverflowError):
        return node.value
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidYaml(node.start_mark.line + 1, "a number is not finite")
    return value


def dump(value: Any) -> str:
    """Return plain data as YAML that `read` returns as it was; keys keep their order.

    >>> print(dump({"name": "no", "cities": ["Oakmere"]}), end="")
    name: 'no'
    cities:
    - Oakmere
    """
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110))
