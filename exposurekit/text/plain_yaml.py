"""Read YAML as plain data, with the line of each value: no anchors, tags, second documents or repeated keys.

Errors name a line and never a value, which may be a password or personal data.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from exposurekit.text.sanitize import plain

DEPTH_MAX = 20
DETAIL_MAX = 100  # characters
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

    @property
    def explained(self) -> str:
        """The reason, with what the parser says of it."""
        return f"{self.reason}: {plain(self.detail)[:DETAIL_MAX]}" if self.detail else self.reason


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


def edit(text: str, changes: Mapping[tuple[str, ...], Any]) -> str:
    r"""Return a document with other values at some keys, and the rest of the text, its comments too, as it was.

    A key that the document does not have is added to its mapping, which must exist.

    >>> edit("a: {b: 1}  # one\nc: x\n", {("a", "b"): ["y", "z"], ("a", "d"): "2", ("e",): "f"})
    "a: {b: [y, z], d: '2'}  # one\nc: x\ne: f\n"
    """
    root = yaml.compose(text, yaml.SafeLoader)
    edits = [_edit(text, root, position, value) for position, value in changes.items()]
    for begin, end, replacement in reversed(sorted(edits, key=lambda one: one[0])):  # noqa: C413  equals, too
        text = text[:begin] + replacement + text[end:]
    return text


def _edit(text: str, root: Any, position: tuple[str, ...], value: Any) -> tuple[int, int, str]:
    """Return a range of the text, and what replaces it."""
    *around, last = position
    mapping = root
    for name in around:
        mapping = dict(_entries(mapping))[name][1]
    entries = dict(_entries(mapping))
    inline = str(yaml.safe_dump([value], default_flow_style=True, width=math.inf, allow_unicode=True))
    inline = inline.strip()[1:-1]
    if last in entries:
        key, node = entries[last]
        begin = text.index(":", key.end_mark.index) + 1
        return begin, max(begin, _end(text, node)), f" {inline}"
    if mapping.flow_style:
        at = mapping.end_mark.index - 1
        return at, at, f"{', ' if entries else ''}{last}: {inline}"
    at = text.find("\n", _end(text, mapping))
    at = len(text) if at < 0 else at
    return at, at, f"\n{' ' * mapping.start_mark.column}{last}: {inline}"


def _entries(mapping: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for key, value in mapping.value:
        yield str(key.value), (key, value)


def _end(text: str, node: Any) -> int:
    """Return where a value ends; a block, as it is parsed, ends where the next key begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    return len(text[: node.end_mark.index].rstrip())


def dump(value: Any) -> str:
    """Return plain data as YAML that `read` returns as it was; keys keep their order.

    >>> print(dump({"name": "no", "cities": ["Oakmere"]}), end="")
    name: 'no'
    cities:
    - Oakmere
    """
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110))
