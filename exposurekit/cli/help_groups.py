"""Command groups whose help lists commands under headings, with their first sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class Group(click.Group):
    """A group of commands whose help has a section for each heading; without sections, one list under "Commands"."""

    command_class = click.Command

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
