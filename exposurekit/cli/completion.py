"""Completion of the command's words in a shell. Changes no file of the user's."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print what completes the command's words in SHELL: bash, zsh or fish.

    \b
    bash: eval "$(exposurekit completion bash)"  # at the end of ~/.bashrc
    zsh:  eval "$(exposurekit completion zsh)"   # at the end of ~/.zshrc
    fish: exposurekit completion fish | source   # in ~/.config/fish/config.fish

    Example: exposurekit completion bash
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  these three are click's own
    command = context.find_root().command
    click.echo(kind(command, {}, "exposurekit", "_EXPOSUREKIT_COMPLETE").source())
