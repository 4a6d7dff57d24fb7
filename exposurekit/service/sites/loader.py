"""Loader of site definitions: reads YAML files and reports every problem with its line, never a value."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from exposurekit.errors import ConfigurationError, suggestion
from exposurekit.service.sites.definition import Definition, Extractors
from exposurekit.service.sites.selectors import compiles, selector_parts
from exposurekit.system.named_files import read_text
from exposurekit.text import plain_yaml
from exposurekit.text.plain_yaml import Document, InvalidYaml, Position
from exposurekit.text.sanitize import plain

SIZE_MAX, PROBLEMS_MAX, KEY_MAX = 100_000, 50, 60
_REQUIRED = {"item", "name", "reference_id"}  # a listing cannot be read without these


@dataclass(frozen=True, slots=True)
class _Problem:
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Loaded:
    definition: Definition
    document: Document
    where: str


def parsed(text: str, where: str = "the definition") -> Definition:
    """Parse a definition; `where` is the file's name for messages.

    Raises:
        ConfigurationError: The definition is invalid. The message has one line per problem, with file and line number.
    """
    return _load(text, where).definition


def read(path: Path) -> Definition:
    """Load the definition in a file; raises `ConfigurationError` if that fails."""
    return _load_file(path).definition


def files_in(path: Path) -> list[Path]:
    """The files of the definitions in a directory, in the order of their names."""
    return sorted(path.glob("*.yaml"))


def unread_in(path: Path) -> str | None:
    """Return the warning of files in a directory that look like definitions and are not read; None: there are none."""
    names = ", ".join(plain(file.name) for file in sorted(path.glob("*.yml")))
    return f"not read: {names}: the name of a definition's file ends in .yaml" if names else None


def may_define(path: Path, name: str) -> bool:
    """Whether a file in a directory may be the definition of a site, though invalid: it has that name, or no readable one."""
    return any(_name_in(file) in {None, name.casefold()} for file in files_in(path))


def _name_in(file: Path) -> str | None:
    try:
        name = _within(_read(read_text(file, SIZE_MAX)).value, "name")
    except (ConfigurationError, InvalidYaml):
        return None
    return name.casefold() if isinstance(name, str) else None


def directory(path: Path) -> dict[str, Definition]:
    """Load the definitions in a directory, by name and in the order of names.

    Raises one `ConfigurationError` with all problems: invalid definitions, two sites of one name, and names in
    `also_removes` that no site has.
    """
    definitions, problems = usable(path)
    if problems:
        raise ConfigurationError("\n".join(problems))
    return definitions


def usable(path: Path) -> tuple[dict[str, Definition], list[str]]:
    """Load as `directory` does, but without the files that have problems; return the problems, too.

    While a file cannot be read, names in `also_removes` are not checked: they may be that site's.
    """
    if not path.is_dir():
        raise ConfigurationError(
            f"{plain(path)} is not a directory. Create it, with one YAML file per site; the service manual shows one."
        )
    loaded: dict[str, _Loaded] = {}
    messages: list[str] = []
    for file in files_in(path):
        try:
            site = _load_file(file)
        except ConfigurationError as error:
            messages += str(error).splitlines()
            continue
        first = loaded.setdefault(site.definition.name.casefold(), site)
        if first is not site:
            messages.append(
                f"{site.where}, line {site.document.line(('name',))}: {used_in(Path(first.where))}"
            )
    if not messages:
        names = {site.definition.name for site in loaded.values()}
        unknown = {name: [*_unknown_sisters(site, names)] for name, site in loaded.items()}
        messages = [message for one in unknown.values() for message in one]
        loaded = {name: site for name, site in loaded.items() if not unknown[name]}
    return {site.definition.name: site.definition for _, site in sorted(loaded.items())}, messages


def used_in(file: Path) -> str:
    """Return the problem of a definition whose name another file has."""
    return f"name is already used in {plain(file.name)}"


def _unknown_sisters(site: _Loaded, names: set[str]) -> Iterator[str]:
    for at, name in enumerate(site.definition.removal.also_removes):
        if name not in names:
            line = site.document.line(("removal", "also_removes", at))
            hint = suggestion(name, names)
            yield f"{site.where}, line {line}: removal.also_removes names a site that is not defined{hint}"


def _load_file(path: Path) -> _Loaded:
    return _load(read_text(path, SIZE_MAX), str(path))


def _load(text: str, where: str) -> _Loaded:
    where = plain(where)
    try:
        document = _read(text)
    except InvalidYaml as error:
        key = "" if error.position is None else f"{_path(error.position)} "
        problem = _Problem(error.line, f"{key}{error.explained}")
        raise _configuration_error([problem], where) from None
    problems, definition = [], None
    try:
        definition = Definition.model_validate(document.value)
    except ValidationError as error:
        # Without the input: it may contain personal data.
        problems = [
            _Problem(*problem_of(Definition, document, details))
            for details in error.errors(include_url=False, include_input=False)
        ]
    problems += _semantic_problems(document)
    if definition is None or problems:
        raise _configuration_error(problems, where)
    return _Loaded(definition, document, where)


def _configuration_error(problems: list[_Problem], where: str) -> ConfigurationError:
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.line)
    lines = [f"{where}, line {problem.line}: {problem.reason}" for problem in ordered[:PROBLEMS_MAX]]
    if len(ordered) > PROBLEMS_MAX:
        lines.append(f"{where}: and {len(ordered) - PROBLEMS_MAX} more problems")
    return ConfigurationError("\n".join(lines))


def _read(text: str) -> Document:
    if len(text) > SIZE_MAX:
        raise InvalidYaml(1, f"is longer than {SIZE_MAX} characters")
    document = plain_yaml.read(text)
    if not isinstance(document.value, dict):
        raise InvalidYaml(document.line(()), "is not a mapping of keys to values")
    return document


_WORDS = {
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "dict_type": "should have keys and values",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "int_from_float": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_type": "should be a whole number",
    "list_type": "should be a list",
    "model_type": "should have keys and values",
    "path_type": "should be the path of a file",
    "string_type": "should be a text",
    "tuple_type": "should be a list",
}


def problem_of(
    model: Any, document: Document, error: Any, *, whole: str = "the definition", around: Position = ()
) -> tuple[int, str]:
    """Return the line of an error of pydantic, and what is wrong, in words and without the value.

    The model describes the value at `around` in the document, which messages call `whole`.
    """
    loc: Position = tuple(step for step in error["loc"] if step != "[key]")
    kind, name, at = error["type"], _path(loc, whole), (*around, *loc)
    if kind == "missing":
        return document.line(at[:-1]), f"{name} is missing"
    if kind == "extra_forbidden":
        return document.line(
            at
        ), f"{name} is not a known key{suggestion(str(loc[-1]), keys_at(model, loc[:-1]))}"
    if kind == "string_too_short" and error["ctx"]["min_length"] == 1:
        return document.line(at), f"{name} is empty"
    reason = _WORDS.get(kind) or re.sub(r"^(Value error, )?(Input )?", "", error["msg"])
    value = _within(document.value, *at)
    if (
        kind == "string_type"
        and value is not None
        and (not isinstance(value, list | dict) or _is_field(value))
    ):
        reason += "; put it in quotes"
    elif kind == "tuple_type" and not isinstance(value, list | dict | str):
        reason += ", or a text in quotes"
    return document.line(at), f"{name}: {reason}"


def keys_at(model: Any, loc: Position) -> Collection[str]:
    """Return the valid keys at a location in a file that a pydantic model describes."""
    for step in loc:
        annotation = model.model_fields[str(step)].annotation  # a part has no alias
        types = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
        model = next(part for part in types if issubclass(part, BaseModel))
    return [field.alias or name for name, field in model.model_fields.items()]


def _path(loc: Position, whole: str = "the definition") -> str:
    return plain(".".join(str(step)[:KEY_MAX] for step in loc if isinstance(step, str))) or whole


def _semantic_problems(document: Document) -> Iterator[_Problem]:
    """Yield problems beyond the schema: selectors that do not compile, and blank marks."""
    data = document.value
    answer = _within(data, "search", "answer") or "html"
    for key in Extractors.model_fields:
        yield from _bad_selectors(document, ("listings", key), answer)
    yield from _bad_selectors(document, ("search", "next"), answer)
    for loc in (
        ("search", "no_results"),
        ("search", "blocked"),
        ("removal", "accepted"),
        ("removal", "refused"),
    ):
        for at, mark in _texts(_within(data, *loc)):
            if not mark.strip():  # every page would match it
                yield _Problem(document.line((*loc, at)), f"{_path(loc)} is blank")
    if _within(data, "search", "method") == "person":
        if _within(data, "removal", "method") == "form":
            yield _Problem(
                document.line(("removal", "method")),
                "removal.method form sends requests to a site whose search.method is person; write assisted or "
                "manual",
            )
        if answer == "json":
            yield _Problem(document.line(("search", "answer")), "search.answer of a saved page is html")
    if _within(data, "search", "no_results") == []:
        yield _Problem(document.line(("search", "no_results")), "search.no_results is empty")


def _bad_selectors(document: Document, loc: tuple[str, str], answer: Any) -> Iterator[_Problem]:
    selectors = _within(document.value, *loc)
    if selectors == [] and loc[1] in _REQUIRED:
        yield _Problem(document.line(loc), f"{_path(loc)} is empty")
    for at, selector in _texts(selectors):
        line = document.line((*loc, at))
        kind = "JMESPath" if answer == "json" else "CSS"
        if answer == "html" and selector.startswith(("/", "./", "(/")):
            yield _Problem(line, f"{_path(loc)} is XPath: write a CSS selector")
        elif not compiles(selector, str(answer)):
            yield _Problem(line, f"{_path(loc)} is not a valid {kind} selector")
        elif answer == "html" and loc[1] == "item" and selector_parts(selector)[1]:
            yield _Problem(line, f"{_path(loc)} must select elements, not an attribute")
        elif answer == "html" and loc[1] in {"next", "href"} and not selector_parts(selector)[1]:
            yield _Problem(line, f"{_path(loc)} needs the attribute with the URL, as in a@href")


def _is_field(value: object) -> bool:
    """Whether YAML read a field without quotes, such as {href}, as a key without a value."""
    return isinstance(value, dict) and [*value.values()] == [None]


def _within(data: Any, *keys: int | str) -> Any:
    for key in keys:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _texts(value: Any) -> Iterator[tuple[int, str]]:
    for at, text in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(text, str):
            yield at, text
