"""XML in the style of Rails: encode, and decode leniently. DTDs are refused; depth and size are bounded."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from exposurekit.contract.schema import Many, Scalar, Shape
from exposurekit.errors import InvalidResponse

DEPTH_MAX, NODES_MAX, NAMES_MAX, DIGITS_MAX = 64, 2_000_000, 1_000, 4_300
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


def write(value: Any, root: str = "hash") -> bytes:
    """Encode plain values as XML: dasherised names, typed leaves, list items named in the singular.

    >>> print(write({"is_scanning": True, "emails": []}).decode(), end="")
    <?xml version="1.0" encoding="UTF-8"?>
    <hash>
      <is-scanning type="boolean">true</is-scanning>
      <emails type="array"/>
    </hash>
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    _write(lines, root, value, "")
    return ("\n".join(lines) + "\n").encode()


def _write(lines: list[str], name: str, value: Any, indent: str) -> None:
    tag = _dashed(name)
    if isinstance(value, dict) and value:
        lines.append(f"{indent}<{tag}>")
        for key, item in value.items():
            _write(lines, key, item, indent + "  ")
        lines.append(f"{indent}</{tag}>")
    elif isinstance(value, list) and value:
        lines.append(f'{indent}<{tag} type="array">')
        for item in value:
            _write(lines, singular(name), item, indent + "  ")
        lines.append(f"{indent}</{tag}>")
    else:
        lines.append(f"{indent}{_leaf(tag, value)}")


def _leaf(tag: str, value: Any) -> str:
    match value:
        case None:
            return f'<{tag} nil="true"/>'
        case []:
            return f'<{tag} type="array"/>'
        case {}:
            return f"<{tag}></{tag}>"
        case bool():
            return f'<{tag} type="boolean">{str(value).lower()}</{tag}>'
        case int():
            return f'<{tag} type="integer">{value}</{tag}>'
        case str():
            return f"<{tag}>{_text(value)}</{tag}>"
    raise InvalidResponse(f"{tag} holds a {type(value).__name__}, which XML cannot express")


def _text(value: str) -> str:
    # As in Rails; a bare carriage return would be read back as a new line.
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")
    return _ILLEGAL.sub("\ufffd", escaped)


def _dashed(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidResponse("a field's name cannot stand as an XML element")
    bare = name.lstrip("_")
    return name[: len(name) - len(bare)] + bare.replace("_", "-")


def singular(name: str) -> str:
    """Return the singular that Rails uses for a list's items."""
    if name.endswith(("sses", "ases")):
        return name[:-2]
    return name.removesuffix("s")


@dataclass(slots=True)
class _Document:
    is_unique: bool  # whether it is an error if a name is given two values
    marks_lists: bool = False  # some element has type="array"


@dataclass(slots=True)
class _Element:
    name: str
    type: str | None  # its type attribute
    null: bool
    document: _Document
    children: tuple["_Element", ...]
    text: str  # of a leaf

    @property
    def blank(self) -> bool:
        return not self.children and not self.text.strip()

    @property
    def is_array(self) -> bool:
        return self.type == "array"


@dataclass(slots=True)
class _Open:
    """An element whose end tag has not been read; it uses more memory than a finished one."""

    name: str
    attributes: dict[str, str]
    children: list[_Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def closed(self, document: _Document) -> _Element:
        text = "" if self.children else "".join(self.texts)
        type_, null = self.attributes.get("type"), self.attributes.get("nil") in {"true", "1"}
        return _Element(self.name, type_, null, document, tuple(self.children), text)


def read(
    body: bytes, shape: Shape | None = None, *, elements_max: int = NODES_MAX, is_unique: bool = False
) -> Any:
    """Decode XML to plain values, by the expected schema or, without one, by type attributes.

    Accepts ``-`` or ``_`` in names, any item name, missing types, ``xsi:nil``, repeated elements without a list
    around them, records wrapped once or twice, and any root name.

    Raises:
        InvalidResponse: Not well formed, a DTD, a web page, deeper than 64 elements, more than two million of them or
            than a thousand names; with ``is_unique``, two values for one name.
    """
    root = _parse(body, elements_max, _Document(is_unique))
    if root.name.lower() == "html":
        raise InvalidResponse("not XML that can be read: it is a web page")
    if isinstance(shape, dict):
        return _object(root, shape)
    return _any(root) if shape is None else _value(root, shape)


def _parse(body: bytes, elements_max: int, document: _Document) -> _Element:
    from xml.parsers import expat  # most connections never see XML

    top = _Open("", {})
    stack = [top]
    names: dict[str, str] = {}
    nodes = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal nodes
        nodes += 1
        local = names.setdefault(name, _local(name).replace("-", "_"))
        if len(stack) > DEPTH_MAX or nodes > elements_max or len(names) > NAMES_MAX:
            raise InvalidResponse("not XML that can be read: it nests too deep or has too many elements")
        stack.append(_Open(local, {_local(key): value for key, value in attributes.items()}))

    def end(_name: str) -> None:
        element = stack.pop().closed(document)
        document.marks_lists |= element.is_array
        stack[-1].children.append(element)

    def refuse(*_: object) -> None:
        raise InvalidResponse("not XML that can be read: it declares a document type")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda data: stack[-1].texts.append(data)  # noqa: PLW0108  the stack moves
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(body, True)
        return top.children[0]
    except (expat.ExpatError, ValueError, LookupError) as error:
        code = getattr(error, "code", None)
        problem = expat.ErrorString(code) if code else "its encoding is not known"
    raise InvalidResponse(f"not XML: {problem}")


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _value(element: _Element, shape: Shape) -> Any:
    if element.null:
        return None
    match shape:
        case Many():
            return _list([element], shape)
        case dict():
            return _object(element, shape) if element.children or element.blank else element.text
        case Scalar.TEXT | Scalar.NULLABLE_TEXT:
            if element.children:
                return _any(element)
            return element.text or (None if shape is Scalar.NULLABLE_TEXT else "")
    return None if element.blank else _any(element)


def _object(element: _Element, shape: dict[str, Shape]) -> Any:
    grouped: dict[str, list[_Element]] = {}
    for child in element.children:
        grouped.setdefault(child.name, []).append(child)
    if len(shape) == 1 and not shape.keys() & grouped:
        # The wrapper is missing: the root element is the value of the only key.
        [(key, inner)] = shape.items()
        is_list = element.name == key and isinstance(inner, Many)
        if is_list or (element.children and isinstance(inner, dict)):
            return {key: _value(element, inner)}
    if (inside := _unwrapped(element, shape)) is not element:
        return _object(inside, shape)
    members = {name: _member(children, shape.get(name)) for name, children in _listed(grouped, shape).items()}
    if not element.document.marks_lists and (element.blank or members.keys() & shape.keys()):
        return _untyped(shape, members) | members
    return members


def _unwrapped(element: _Element, shape: dict[str, Shape]) -> _Element:
    """Return the element that has the object's fields, skipping wrappers: <record><record>, <item><record>."""
    names = shape.keys() | _singulars(shape).keys()
    inside = element
    while len(inside.children) == 1 and inside.children[0].name not in names:
        [inside] = inside.children
    return inside if any(child.name in names for child in inside.children) else element


def _singulars(shape: dict[str, Shape]) -> dict[str, str]:
    return {singular(name): name for name, inner in shape.items() if isinstance(inner, Many)}


def _untyped(shape: dict[str, Shape], members: dict[str, Any]) -> dict[str, Any]:
    """Add empty lists: where lists are repeated elements, an empty one is absent."""
    return {
        name: []
        for name, inner in shape.items()
        if isinstance(inner, Many) and not inner.nullable and name not in members
    }


def _listed(grouped: dict[str, list[_Element]], shape: dict[str, Shape]) -> dict[str, list[_Element]]:
    """Collect repeated elements with a singular name under the name of their list."""
    singulars = _singulars(shape)
    return {
        singulars[name]
        if name not in shape and name in singulars and singulars[name] not in grouped
        else name: children
        for name, children in grouped.items()
    }


def _member(children: list[_Element], shape: Shape | None) -> Any:
    if shape is None:
        return _any(children[0]) if len(children) == 1 else [_any(child) for child in children]
    if isinstance(shape, Many):
        return None if len(children) == 1 and children[0].null else _list(children, shape)
    values = [_value(child, shape) for child in children]
    if children[0].document.is_unique and any(value != values[0] for value in values):
        raise InvalidResponse("not XML that can be read: one name is given two values")
    return values[-1]


def _list(elements: list[_Element], shape: Many) -> Any:
    if len(elements) > 1:
        return [_value(element, shape.item) for element in elements]
    [element] = elements
    if element.blank:
        return "" if shape.or_text and not element.is_array else []
    if not element.children:
        return element.text if shape.or_text else [_value(element, shape.item)]
    if not element.is_array and _is_item(element, shape.item):
        return [_value(element, shape.item)]
    return [_value(child, shape.item) for child in element.children]


def _is_item(element: _Element, shape: Shape) -> bool:
    """Return whether a list's element is its only item, with the item's fields as children."""
    if not isinstance(shape, dict):
        return False
    names = Counter(child.name for child in element.children)
    once = all(times == 1 or isinstance(shape.get(name), Many) for name, times in names.items())
    return once and bool(names.keys() & shape.keys())


def _any(element: _Element) -> Any:
    if element.null:
        return None
    if element.is_array:
        return [_any(child) for child in element.children]
    if element.children:
        grouped: dict[str, Any] = {}
        for child in element.children:
            grouped.setdefault(child.name, []).append(_any(child))
        return {name: values[0] if len(values) == 1 else values for name, values in grouped.items()}
    return _typed(element)


def _typed(element: _Element) -> Any:
    text = element.text
    match element.type:
        case "integer" if re.fullmatch(r"\s*[+-]?\d+\s*", text) and len(text) <= DIGITS_MAX:
            return int(text)
        case "boolean" if text.strip().lower() in {"true", "false", "1", "0"}:
            return text.strip().lower() in {"true", "1"}
    return text  # also if it does not match its type: validation reports it
