"""Site definitions out of YAML files, checked whole before one is used. Fetches nothing, and repeats no value.

YAML is taken as plain data only: no alias, no tag, no second document, no key twice. Every problem of a file is told
at once, with its line.
"""

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from exposurekit.errors import ConfigurationError
from exposurekit.service.sites.definition import Definition, Extractors
from exposurekit.service.sites.selectors import compiles, selector_parts
from exposurekit.text.sanitize import plain

SIZE_MAX, DEPTH_MAX, PROBLEMS_MAX, KEY_MAX = 100_000, 20, 50, 60
_WITHOUT = {"item", "name", "reference_id"}  # what no listing can be read without

Loc = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class _Problem:
    line: int
    reason: str


class _Broken(Exception):
    """The text is no YAML that is taken."""

    def __init__(self, line: int, reason: str) -> None:
        self.problem = _Problem(line, reason)
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class _Loaded:
    definition: Definition
    root: yaml.Node
    where: str


def parsed(text: str, where: str = "the definition") -> Definition:
    r"""A definition in YAML.

    Args:
        text: One YAML document.
        where: What messages call it: the file's name.

    Raises:
        ConfigurationError: It cannot be used; each problem stands on its own line, with the file and the line.

    >>> parsed("name: Seekfolk\nserch: {}", "seekfolk.yaml")
    Traceback (most recent call last):
    exposurekit.errors.ConfigurationError: seekfolk.yaml, line 1: guide is missing
    seekfolk.yaml, line 1: opt_out_procedure is missing
    seekfolk.yaml, line 1: opt_out_url is missing
    seekfolk.yaml, line 1: search is missing
    seekfolk.yaml, line 1: listings is missing
    seekfolk.yaml, line 1: removal is missing
    seekfolk.yaml, line 2: serch is not known; did you mean search?
    """
    return _loaded(text, where).definition


def read(path: Path) -> Definition:
    """The definition in a file.

    Raises:
        ConfigurationError: There is no such file, or it cannot be used.
    """
    return _of_file(path).definition


def directory(path: Path, known: Collection[str] = ()) -> dict[str, Definition]:
    """The definitions in a directory's ``*.yaml`` files, under their names, in the order of these.

    Args:
        path: The directory; what lies in folders below is not read.
        known: Names of sites defined elsewhere, which an opt-out may cover as well.

    Raises:
        ConfigurationError: A file cannot be used, two sites have one name, or an opt-out covers a site nobody knows.
    """
    if not path.is_dir():
        raise ConfigurationError(
            f"{plain(path)} is not a directory: make it, for a YAML file of each site; the README shows one"
        )
    loaded: dict[str, _Loaded] = {}
    told: list[str] = []
    for file in sorted(path.glob("*.yaml")):
        try:
            one = _of_file(file)
        except ConfigurationError as error:
            told.append(str(error))
            continue
        first = loaded.setdefault(one.definition.name.casefold(), one)
        if first is not one:
            line = _line(one.root, ("name",))
            told.append(f"{one.where}, line {line}: name is already that of {plain(Path(first.where).name)}")
    if not told:
        names = {one.definition.name for one in loaded.values()} | set(known)
        told = [message for one in loaded.values() for message in _uncovered(one, names)]
    if told:
        raise ConfigurationError("\n".join(told))
    return {one.definition.name: one.definition for _, one in sorted(loaded.items())}


def _uncovered(one: _Loaded, names: set[str]) -> Iterator[str]:
    for at, name in enumerate(one.definition.removal.also_removes):
        if name not in names:
            line = _line(one.root, ("removal", "also_removes", at))
            yield f"{one.where}, line {line}: removal.also_removes names a site that is not defined{_suggestion(name, names)}"


def _of_file(path: Path) -> _Loaded:
    try:
        with path.open("rb") as file:
            text = file.read(SIZE_MAX + 1).decode()
    except OSError as error:
        raise ConfigurationError(f"{plain(path)}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"{plain(path)}, line {line}: is not UTF-8") from None
    return _loaded(text, str(path))


def _loaded(text: str, where: str) -> _Loaded:
    where = plain(where)
    try:
        root = _composed(text)
    except _Broken as broken:
        raise _misconfigured([broken.problem], where) from None
    problems = list(_repeated(root))
    data = _value(root, problems)
    try:
        definition = Definition.model_validate(data)
    except ValidationError as error:
        # Never the error itself: it holds what was written.
        problems += [
            _problem_text(root, each) for each in error.errors(include_url=False, include_input=False)
        ]
        definition = None
    problems += _unusable(root, data)
    if definition is None or problems:
        raise _misconfigured(problems, where)
    return _Loaded(definition, root, where)


def _misconfigured(problems: list[_Problem], where: str) -> ConfigurationError:
    told = sorted(dict.fromkeys(problems), key=lambda problem: problem.line)
    lines = [f"{where}, line {problem.line}: {problem.reason}" for problem in told[:PROBLEMS_MAX]]
    if len(told) > PROBLEMS_MAX:
        lines.append(f"{where}: and {len(told) - PROBLEMS_MAX} problems more")
    return ConfigurationError("\n".join(lines))


def _composed(text: str) -> yaml.MappingNode:
    """The document's nodes; what could grow without bound, or is more than data, is refused before."""
    if len(text) > SIZE_MAX:
        raise _Broken(1, f"is longer than {SIZE_MAX} characters")
    try:
        _check_events(text)
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        raise _Broken(
            text[: error.position].count("\n") + 1, "holds a character that YAML does not take"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _Broken(mark.line + 1 if mark else 1, f"is not YAML: {plain(error.problem)[:100]}") from None
    if not isinstance(root, yaml.MappingNode):
        raise _Broken(root.start_mark.line + 1 if root else 1, "is not a mapping of keys to values")
    return root


def _check_events(text: str) -> None:
    depth = documents = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise _Broken(line, "a second document starts here; a file holds one site")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _Broken(line, "anchors and aliases are not taken")
        if getattr(event, "tag", None):
            raise _Broken(line, "tags are not taken")
        if depth > DEPTH_MAX:
            raise _Broken(line, "is nested too deeply")


def _repeated(node: yaml.Node, at: Loc = ()) -> Iterator[_Problem]:
    """Keys that stand twice, of which YAML would take the last."""
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _repeated(item, (*at, number))
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if not isinstance(key, yaml.ScalarNode):
                yield _Problem(key.start_mark.line + 1, f"{_path(at)} has a key that is no text")
            elif name in seen:
                yield _Problem(key.start_mark.line + 1, f"{_path((*at, name))} stands here a second time")
            seen.add(name)
            yield from _repeated(value, (*at, name))


def _value(node: yaml.Node, problems: list[_Problem]) -> Any:
    """The plain value of a node; what YAML would take for a date stays a text."""
    if isinstance(node, yaml.MappingNode):
        keys = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        return {key.value: _value(value, problems) for key, value in keys}
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, problems) for item in node.value]
    construct = _SCALARS.get(node.tag.rpartition(":")[2])
    try:
        value = construct(_CONSTRUCTOR, node) if construct else node.value
    except (ValueError, OverflowError):
        value = node.value
    if isinstance(value, float) and not math.isfinite(value):
        problems.append(_Problem(node.start_mark.line + 1, "a number has no end"))
    return value


_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS: dict[str, Callable[[Any, Any], Any]] = {
    "int": yaml.constructor.SafeConstructor.construct_yaml_int,
    "float": yaml.constructor.SafeConstructor.construct_yaml_float,
    "bool": yaml.constructor.SafeConstructor.construct_yaml_bool,
    "null": yaml.constructor.SafeConstructor.construct_yaml_null,
}


def _problem_text(root: yaml.Node, error: Any) -> _Problem:
    loc: Loc = tuple(step for step in error["loc"] if step != "[key]")
    if error["type"] == "missing":
        return _Problem(_line(root, loc[:-1]), f"{_path(loc)} is missing")
    if error["type"] == "extra_forbidden":
        reason = f"{_path(loc)} is not known{_suggestion(str(loc[-1]), _fields(loc[:-1]))}"
        return _Problem(_line(root, loc), reason)
    said = re.sub(r"^(Value error, )?(Input )?", "", error["msg"]).replace("valid tuple", "list")
    node = _at(root, loc)
    if isinstance(node, yaml.ScalarNode) and error["type"] == "string_type":
        said += "; put it in quotes"
    elif (
        isinstance(node, yaml.ScalarNode) and error["type"] == "tuple_type" and not node.tag.endswith(":str")
    ):
        said += ", or a text in quotes"
    return _Problem(_line(root, loc), f"{_path(loc)}: {said}")


def _suggestion(word: str, among: Collection[str]) -> str:
    close = difflib.get_close_matches(word[:KEY_MAX], among, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _fields(loc: Loc) -> Collection[str]:
    """The keys that are known at a place of a definition."""
    model: Any = Definition
    for step in loc:
        annotation = model.model_fields[str(step)].annotation
        models = [one for one in (annotation, *get_args(annotation)) if isinstance(one, type)]
        model = next(one for one in models if issubclass(one, BaseModel))
    return list(model.model_fields)


def _path(loc: Loc) -> str:
    return plain(".".join(str(step)[:KEY_MAX] for step in loc if isinstance(step, str))) or "the definition"


def _line(root: yaml.Node, loc: Loc) -> int:
    """The line of the key or item at a place, as far down as there is one; the first that says anything, for all."""
    node, line = root, root.start_mark.line
    for step in loc:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == step]
            if not found:
                break
            key, node = found[-1]
            line = key.start_mark.line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line
        else:
            break
    return line + 1


def _at(root: yaml.Node, loc: Loc) -> yaml.Node:
    node = root
    for step in loc:
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == step), node)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
    return node


def _unusable(root: yaml.Node, data: Any) -> Iterator[_Problem]:
    """What has the right shape and still cannot work: selectors that do not compile, and blank marks."""
    answer = _within(data, "search", "answer") or "html"
    for key in Extractors.model_fields:
        yield from _bad_selectors(root, data, ("listings", key), answer)
    yield from _bad_selectors(root, data, ("search", "next"), answer)
    for loc in (
        ("search", "no_results"),
        ("search", "blocked"),
        ("removal", "accepted"),
        ("removal", "refused"),
    ):
        for at, mark in _texts(_within(data, *loc)):
            if not mark.strip():  # it stands in every page
                yield _Problem(_line(root, (*loc, at)), f"{_path(loc)} is blank")
    if _within(data, "search", "no_results") == []:
        yield _Problem(_line(root, ("search", "no_results")), "search.no_results has none")


def _bad_selectors(root: yaml.Node, data: Any, loc: tuple[str, str], answer: Any) -> Iterator[_Problem]:
    selectors = _within(data, *loc)
    if selectors == [] and loc[1] in _WITHOUT:
        yield _Problem(_line(root, loc), f"{_path(loc)} has none")
    for at, selector in _texts(selectors):
        line = _line(root, (*loc, at))
        kind = "JMESPath" if answer == "json" else "CSS"
        if not compiles(selector, str(answer)):
            yield _Problem(line, f"{_path(loc)} is not {kind} that can be used")
        elif answer == "html" and loc[1] == "item" and selector_parts(selector)[1]:
            yield _Problem(line, f"{_path(loc)} finds elements; an attribute is none")
        elif answer == "html" and loc[1] in {"next", "href"} and not selector_parts(selector)[1]:
            yield _Problem(line, f"{_path(loc)} needs the attribute that holds the address, as in a@href")


def _within(data: Any, *keys: str) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _texts(value: Any) -> Iterator[tuple[int, str]]:
    for at, text in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(text, str):
            yield at, text
