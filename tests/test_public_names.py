"""The public names, as in ``ek.`` and Tab, dir(ek) and help(ek)."""

import ast
import inspect
import pydoc
import re

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from support.demos import small_demo

import exposurekit as ek
from exposurekit import analysis, charts
from exposurekit.client.base import BaseClient, Settings

SUBPACKAGES = ("analysis", "charts", "frames", "sanitize", "widgets")
SCREEN_ROWS, SCREEN_COLUMNS = 50, 80


def declared():
    """Return the names that type checkers read in `exposurekit`, with their modules."""
    [block] = [
        node
        for node in ast.parse(inspect.getsource(ek)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        name.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname is not None
    }


def test_type_checkers_read_the_names_that_exist():
    loaded = {name: f"exposurekit.{module}" for name, module in ek._MODULES.items()}
    parents = {name: f"exposurekit.{path}".rpartition(".")[0] for name, path in ek._SUBPACKAGES.items()}
    assert tuple(parents) == ("analysis", "charts", "frames", "widgets", "sanitize")
    assert declared() == loaded | parents
    assert {*dir(ek)} == {*declared(), "__version__"}


def test_every_public_name_exists():
    assert [name for name in dir(ek) if getattr(ek, name) is None] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no 'nothing'"):
        _ = ek.nothing


@pytest.mark.parametrize("name", SUBPACKAGES)
def test_dir_of_a_module_shows_what_is_public(name):
    module = getattr(ek, name)
    assert dir(module) == sorted(module.__all__)
    assert [one for one in module.__all__ if not hasattr(module, one)] == []


@pytest.mark.parametrize("use_jedi", [True, False])
def test_tab_completes_what_is_public(use_jedi):
    shell = InteractiveShell()
    shell.run_cell("import exposurekit as ek")
    shell.Completer.use_jedi = use_jedi
    for path, module in (("ek.", ek), *((f"ek.{name}.", getattr(ek, name)) for name in SUBPACKAGES)):
        with provisionalcompleter():
            completions = {one.text.removeprefix(".") for one in shell.Completer.completions(path, len(path))}
        assert completions == {name for name in dir(module) if not name.startswith("_")}


def test_help_fits_on_two_screens():
    lines = pydoc.plain(pydoc.render_doc(ek)).splitlines()
    assert len(lines) <= 2 * SCREEN_ROWS
    assert max(len(line) for line in lines if ek.__file__ not in line) <= SCREEN_COLUMNS


def test_the_calls_in_help_work():
    demo = small_demo()
    table = inspect.getdoc(ek).split("-------\n")[1].split("\n\n")[0]
    rows = re.sub(r"\n {35,}", " ", table).splitlines()
    scope = {"exposure": demo.exposure, "history": demo.history, "analysis": analysis, "charts": charts}
    day = demo.history.runs()["finished_at"].iloc[0].date().isoformat()
    assert len(rows) > 10
    for row in rows:
        question, call = re.fullmatch(r"(.+\?) +(\S.*)", row).groups()
        answers = eval(f"[{call}]".replace("2026-11-13", day), scope)  # noqa: S307
        assert all(hasattr(answer, "columns") or hasattr(answer, "why") for answer in answers), question


def test_connect_takes_every_setting_of_a_connection():
    parameters = inspect.signature(BaseClient).parameters.values()
    assert {*Settings.__annotations__} == {one.name for one in parameters} - {"base_url"}
