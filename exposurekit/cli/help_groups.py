"""Command groups whose help lists commands under headings, with their first sentence."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from exposurekit.cli.options import IdType


class Command(click.Command):
    """A command that says what is wrong with ``-1`` in place of a number: it is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if re.fullmatch(r"-\d", error.option_name) and any(map(_is_number, self.params)):
                raise click.UsageError("a number must not be negative here", ctx) from None
            raise


def _is_number(parameter: click.Parameter) -> bool:
    """Return whether a parameter is a number that is typed without an option."""
    return isinstance(parameter, click.Argument) and isinstance(
        parameter.type, IdType | click.types.IntParamType
    )


class Group(click.Group):
    """A group of commands whose help has a section for each heading; without sections, one list under "Commands"."""

    command_class = Command

    def __init__(
        self, *args: Any, sections: Mapping[str, Sequence[click.Command]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections or {}
        for commands in self.sections.values():
            for command in commands:
                self.add_command(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write a list of names and first sentences for each heading, all in the same two columns."""
        sections = self.sections or {"Commands": [*self.commands.values()]}
        width = max(len(str(command.name)) for commands in sections.values() for command in commands)
        for heading, commands in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(str(one.name).ljust(width), summary(one)) for one in commands])


def summary(command: click.Command) -> str:
    """Return the first sentence of a command's help, not truncated."""
    first = (command.help or "").strip().split("\n\n")[0]
    return " ".join(first.split()).split(". ")[0].removesuffix(".")
