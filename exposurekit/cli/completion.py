"""`exposurekit completion`: print a shell completion script."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


HELP = """Print the shell completion script for bash, zsh or fish.

Add the line of your shell to its start-up file:

\b
~/.bashrc:                   eval "$(exposurekit completion bash)"
~/.zshrc:                    eval "$(exposurekit completion zsh)"
~/.config/fish/config.fish:  exposurekit completion fish | source

Example: exposurekit completion bash
"""


@click.command(help=HELP)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell completion script for bash, zsh or fish."""
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  click supports these three
    command = context.find_root().command
    click.echo(kind(command, {}, "exposurekit", "_EXPOSUREKIT_COMPLETE").source())
