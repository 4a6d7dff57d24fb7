"""The same verbs from a shell. Decides nothing that a notebook could not; prints no traceback unless asked."""

import os
import sys
from collections.abc import Sequence

import click

from exposurekit import __version__
from exposurekit.cli import (
    check,
    completion,
    demo,
    doctor,
    export,
    history,
    integrator,
    looking,
    receive,
    report,
    serve,
    sites,
    status,
    users,
    watch,
    webhooks,
)
from exposurekit.errors import NEEDS_SERVICE, ExposureError
from exposurekit.markup import plain

__all__ = ["cli", "main"]

SERVICE_PACKAGES = (
    *("starlette", "uvicorn", "sqlalchemy", "cryptography", "python_multipart", "alembic", "limits"),
    *(
        "yaml",
        "apprise",
        "selectolax",
        "jmespath",
        "protego",
        "rapidfuzz",
        "nameparser",
        "nicknames",
        "phonenumbers",
    ),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="exposurekit")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; stands before the command.")
def cli(*, debug: bool) -> None:
    """See where people's data is exposed, and work it down.

    Exit codes: 0 done, 1 an error that the message explains, 2 a wrong call, 3 a check that failed, 130 stopped by Ctrl-C.
    """


for command in (
    demo.demo,
    serve.serve,
    serve.worker,
    status.service,
    sites.sites,
    integrator.integrator,
    users.users,
    webhooks.webhooks,
    history.collect,
    history.history,
    receive.receive,
    watch.watch,
    report.report,
    export.export,
    check.check,
    doctor.doctor,
    looking.open_page,
    completion.completion,
):
    cli.add_command(command)


def main(words: Sequence[str] | None = None) -> None:
    """The console script: errors in one line each, and the documented exit codes."""
    words = sys.argv[1:] if words is None else words
    debug = "--debug" in words
    try:
        # What a command ends with is returned here; with standalone mode off nothing exits.
        code = cli.main(list(words), prog_name="exposurekit", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except ExposureError as error:
        if debug:
            raise
        for problem in str(error).splitlines():
            click.echo(f"Error: {plain(problem)}", err=True)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if debug or error.name not in SERVICE_PACKAGES:
            raise
        click.echo(f"Error: {NEEDS_SERVICE}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read has had enough
        sys.exit(1)
    if code:
        sys.exit(code)
