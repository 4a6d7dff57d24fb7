"""The help of every command: whole sentences in 80 columns, each option explained, and commands under headings."""

import click
import pytest
from support.shell import Shell

from exposurekit.cli.main import SECTIONS, cli
from exposurekit.cli.sections import summary

COLUMNS = 80


def commands(group=cli, words=()):
    """Every command with the words that call it, the groups too."""
    yield words, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))


each = pytest.mark.parametrize(
    ("words", "command"), [pytest.param(*one, id=" ".join(one[0]) or "exposurekit") for one in commands()]
)


@each
def test_help_fits_80_columns_and_is_whole(words, command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    text = Shell(tmp_path).here(*words, "--help").stdout
    assert text.startswith("Usage: exposurekit")
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert "\\b" not in text
    assert "\b" not in text
    assert "..." not in text.partition("\n")[2].replace("[ARGS]...", "")


@each
def test_every_option_is_explained(words, command):
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert option.help[0].isupper(), option.name
            assert option.help.rstrip(")")[-1] == ".", option.name


@each
def test_a_summary_is_one_line_of_its_group(words, command, tmp_path):
    if words:
        text = Shell(tmp_path).here(*words[:-1], "--help").stdout
        assert [line for line in text.splitlines() if line.split() == [words[-1], *summary(command).split()]]


def test_every_command_has_a_heading(tmp_path):
    grouped = [command for commands in SECTIONS.values() for command in commands]
    assert {*grouped} == {*cli.commands.values()}
    text = Shell(tmp_path).here("--help").stdout
    places = [text.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert places == sorted(places)
    assert "\nCommands:\n" not in text
