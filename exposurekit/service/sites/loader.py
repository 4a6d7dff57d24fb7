"""Loader of site definitions: reads YAML files and reports every problem with its line, never a value.

YAML is accepted as plain data only: no aliases, tags, second documents or repeated keys.
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
_REQUIRED = {"item", "name", "reference_id"}  # a listing cannot be read without these

Loc = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class _Problem:
    line: int
    reason: str


class _InvalidYaml(Exception):
    """The text is not YAML that the loader accepts."""

    def __init__(self, line: int, reason: str) -> None:
        self.problem = _Problem(line, reason)
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class _Loaded:
    definition: Definition
    root: yaml.Node
    where: str


def parsed(text: str, where: str = "the definition") -> Definition:
    r"""Parse a definition.

    Args:
        text: One YAML document.
        where: The file's name, for error messages.

    Raises:
        ConfigurationError: The definition is invalid. The message has one line per problem, with file and line number.

    >>> parsed("name: Seekfolk\nserch: {}", "seekfolk.yaml")
    Traceback (most recent call last):
    exposurekit.errors.ConfigurationError: seekfolk.yaml, line 1: guide is missing
    seekfolk.yaml, line 1: opt_out_procedure is missing
    seekfolk.yaml, line 1: opt_out_url is missing
    seekfolk.yaml, line 1: search is missing
    seekfolk.yaml, line 1: listings is missing
    seekfolk.yaml, line 1: removal is missing
    seekfolk.yaml, line 2: serch is not a known key; did you mean search?
    """
    return _load(text, where).definition


def read(path: Path) -> Definition:
    """Load the definition in a file.

    Raises:
        ConfigurationError: The file does not exist, or its definition is invalid.
    """
    return _load_file(path).definition


def directory(path: Path, other_sites: Collection[str] = ()) -> dict[str, Definition]:
    """Load the definitions in a directory's ``*.yaml`` files, by name and in the order of names.

    Args:
        path: The directory; subdirectories are not read.
        other_sites: Names of sites defined elsewhere, which `also_removes` may contain.

    Raises:
        ConfigurationError: A definition is invalid, two sites have the same name, or `also_removes` names an unknown
            site.
    """
    if not path.is_dir():
        raise ConfigurationError(
            f"{plain(path)} is not a directory. Create it, with one YAML file per site; the service manual shows one."
        )
    loaded: dict[str, _Loaded] = {}
    messages: list[str] = []
    for file in sorted(path.glob("*.yaml")):
        try:
            site = _load_file(file)
        except ConfigurationError as error:
            messages.append(str(error))
            continue
        first = loaded.setdefault(site.definition.name.casefold(), site)
        if first is not site:
            line = _line(site.root, ("name",))
            messages.append(
                f"{site.where}, line {line}: name is already used in {plain(Path(first.where).name)}"
            )
    if not messages:
        names = {site.definition.name for site in loaded.values()} | set(other_sites)
        messages = [message for site in loaded.values() for message in _unknown_sisters(site, names)]
    if messages:
        raise ConfigurationError("\n".join(messages))
    return {site.definition.name: site.definition for _, site in sorted(loaded.items())}


def _unknown_sisters(site: _Loaded, names: set[str]) -> Iterator[str]:
    for at, name in enumerate(site.definition.removal.also_removes):
        if name not in names:
            line = _line(site.root, ("removal", "also_removes", at))
            hint = _suggestion(name, names)
            yield f"{site.where}, line {line}: removal.also_removes names a site that is not defined{hint}"


def _load_file(path: Path) -> _Loaded:
    try:
        with path.open("rb") as file:
            text = file.read(SIZE_MAX + 1).decode()
    except OSError as error:
        raise ConfigurationError(f"{plain(path)}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"{plain(path)}, line {line}: is not UTF-8") from None
    return _load(text, str(path))


def _load(text: str, where: str) -> _Loaded:
    where = plain(where)
    try:
        root = _compose(text)
    except _InvalidYaml as error:
        raise _configuration_error([error.problem], where) from None
    problems = list(_repeated_keys(root))
    data = _value(root, problems)
    try:
        definition = Definition.model_validate(data)
    except ValidationError as error:
        # Without the input: it may contain personal data.
        problems += [
            _to_problem(root, details) for details in error.errors(include_url=False, include_input=False)
        ]
        definition = None
    problems += _semantic_problems(root, data)
    if definition is None or problems:
        raise _configuration_error(problems, where)
    return _Loaded(definition, root, where)


def _configuration_error(problems: list[_Problem], where: str) -> ConfigurationError:
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.line)
    lines = [f"{where}, line {problem.line}: {problem.reason}" for problem in ordered[:PROBLEMS_MAX]]
    if len(ordered) > PROBLEMS_MAX:
        lines.append(f"{where}: and {len(ordered) - PROBLEMS_MAX} more problems")
    return ConfigurationError("\n".join(lines))


def _compose(text: str) -> yaml.MappingNode:
    """Return the document's nodes; refuse unbounded or non-data YAML first."""
    if len(text) > SIZE_MAX:
        raise _InvalidYaml(1, f"is longer than {SIZE_MAX} characters")
    try:
        _check_events(text)
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        raise _InvalidYaml(
            text[: error.position].count("\n") + 1, "contains a character that YAML does not allow"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _InvalidYaml(
            mark.line + 1 if mark else 1, f"is not YAML: {plain(error.problem)[:100]}"
        ) from None
    if not isinstance(root, yaml.MappingNode):
        raise _InvalidYaml(root.start_mark.line + 1 if root else 1, "is not a mapping of keys to values")
    return root


def _check_events(text: str) -> None:
    depth = documents = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise _InvalidYaml(line, "starts a second document; a file describes one site")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _InvalidYaml(line, "anchors and aliases are not supported")
        if getattr(event, "tag", None):
            raise _InvalidYaml(line, "tags are not supported")
        if depth > DEPTH_MAX:
            raise _InvalidYaml(line, "is nested too deeply")


def _repeated_keys(node: yaml.Node, at: Loc = ()) -> Iterator[_Problem]:
    """Yield a problem for each repeated key; YAML would use the last value silently."""
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _repeated_keys(item, (*at, number))
    elif isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if not isinstance(key, yaml.ScalarNode):
                yield _Problem(key.start_mark.line + 1, f"{_path(at)} has a key that is not text")
            elif name in names:
                yield _Problem(key.start_mark.line + 1, f"{_path((*at, name))} is repeated")
            names.add(name)
            yield from _repeated_keys(value, (*at, name))


def _value(node: yaml.Node, problems: list[_Problem]) -> Any:
    """Return a node's plain value; dates stay text."""
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
        problems.append(_Problem(node.start_mark.line + 1, "a number is not finite"))
    return value


_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS: dict[str, Callable[[Any, Any], Any]] = {
    "int": yaml.constructor.SafeConstructor.construct_yaml_int,
    "float": yaml.constructor.SafeConstructor.construct_yaml_float,
    "bool": yaml.constructor.SafeConstructor.construct_yaml_bool,
    "null": yaml.constructor.SafeConstructor.construct_yaml_null,
}


def _to_problem(root: yaml.Node, error: Any) -> _Problem:
    loc: Loc = tuple(step for step in error["loc"] if step != "[key]")
    if error["type"] == "missing":
        return _Problem(_line(root, loc[:-1]), f"{_path(loc)} is missing")
    if error["type"] == "extra_forbidden":
        reason = f"{_path(loc)} is not a known key{_suggestion(str(loc[-1]), _fields(loc[:-1]))}"
        return _Problem(_line(root, loc), reason)
    reason = re.sub(r"^(Value error, )?(Input )?", "", error["msg"]).replace("valid tuple", "list")
    node = _at(root, loc)
    if isinstance(node, yaml.ScalarNode) and error["type"] == "string_type":
        reason += "; put it in quotes"
    elif (
        isinstance(node, yaml.ScalarNode) and error["type"] == "tuple_type" and not node.tag.endswith(":str")
    ):
        reason += ", or a text in quotes"
    return _Problem(_line(root, loc), f"{_path(loc)}: {reason}")


def _suggestion(word: str, words: Collection[str]) -> str:
    close = difflib.get_close_matches(word[:KEY_MAX], words, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _fields(loc: Loc) -> Collection[str]:
    """Return the valid keys at a location in a definition."""
    model: Any = Definition
    for step in loc:
        annotation = model.model_fields[str(step)].annotation
        types = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
        model = next(part for part in types if issubclass(part, BaseModel))
    return list(model.model_fields)


def _path(loc: Loc) -> str:
    return plain(".".join(str(step)[:KEY_MAX] for step in loc if isinstance(step, str))) or "the definition"


def _line(root: yaml.Node, loc: Loc) -> int:
    """Return the line of the key or item at a location, or of its closest ancestor."""
    node, line = root, root.start_mark.line
    for step in loc:
        if isinstance(node, yaml.MappingNode):
            matches = [(key, value) for key, value in node.value if key.value == step]
            if not matches:
                break
            key, node = matches[-1]
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


def _semantic_problems(root: yaml.Node, data: Any) -> Iterator[_Problem]:
    """Yield problems beyond the schema: selectors that do not compile, and blank marks."""
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
            if not mark.strip():  # every page would match it
                yield _Problem(_line(root, (*loc, at)), f"{_path(loc)} is blank")
    if _within(data, "search", "no_results") == []:
        yield _Problem(_line(root, ("search", "no_results")), "search.no_results is empty")


def _bad_selectors(root: yaml.Node, data: Any, loc: tuple[str, str], answer: Any) -> Iterator[_Problem]:
    selectors = _within(data, *loc)
    if selectors == [] and loc[1] in _REQUIRED:
        yield _Problem(_line(root, loc), f"{_path(loc)} is empty")
    for at, selector in _texts(selectors):
        line = _line(root, (*loc, at))
        kind = "JMESPath" if answer == "json" else "CSS"
        if not compiles(selector, str(answer)):
            yield _Problem(line, f"{_path(loc)} is not a valid {kind} selector")
        elif answer == "html" and loc[1] == "item" and selector_parts(selector)[1]:
            yield _Problem(line, f"{_path(loc)} must select elements, not an attribute")
        elif answer == "html" and loc[1] in {"next", "href"} and not selector_parts(selector)[1]:
            yield _Problem(line, f"{_path(loc)} needs the attribute with the URL, as in a@href")


def _within(data: Any, *keys: str) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _texts(value: Any) -> Iterator[tuple[int, str]]:
    for at, text in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(text, str):
            yield at, text
