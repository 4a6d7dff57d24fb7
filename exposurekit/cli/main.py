"""Every command, and what becomes of its errors: one line each, and an exit code. Ends no process."""

import os
import sys
import traceback
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
    receive,
    report,
    serve,
    sites,
    status,
    users,
    watch,
    webhooks,
)
from exposurekit.cli import open as open_command
from exposurekit.cli.sections import Group
from exposurekit.errors import NEEDS_SERVICE, ExposureError
from exposurekit.text.sanitize import plain

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


SECTIONS = {
    "Get started": (demo.demo, doctor.doctor, completion.completion),
    "See what is listed": (report.report, open_command.open_page, export.export),
    "Monitor over time": (history.collect, watch.watch, receive.receive, check.check, history.history),
    "Operate the service": (
        *(serve.serve, serve.worker, status.service, sites.sites),
        *(integrator.integrator, users.users, webhooks.webhooks),
    ),
}


@click.group(
    cls=Group,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="exposurekit")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; goes before the command.")
def cli(*, debug: bool) -> None:
    """Find where people's data is listed, and get it removed.

    Exit codes: 0 success, 1 an error that the message explains, 2 wrong usage, 3 a check that failed, 130 stopped by
    Ctrl-C.
    """


def run(words: Sequence[str]) -> int:
    """What the words say is done; the exit code.

    Raises:
        KeyboardInterrupt: It was stopped.
    """
    debug = "--debug" in words
    try:
        # What a command ends with is returned here; with standalone mode off nothing exits.
        return cli.main(list(words), prog_name="exposurekit", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except ExposureError as error:
        if debug:
            raise
        return _error_text(*str(error).splitlines())
    except ModuleNotFoundError as error:
        if debug or error.name not in SERVICE_PACKAGES:
            raise
        return _error_text(NEEDS_SERVICE)
    except BrokenPipeError:  # whoever read has had enough
        _give_up_output()
        return 1
    except OSError as error:
        if not _is_of_output(error):
            raise
        _give_up_output()
        return _error_text(f"The output cannot be written: {error.strerror}")


def _error_text(*problems: str) -> int:
    for problem in problems:
        click.echo(f"Error: {plain(problem)}", err=True)
    return 1


def _is_of_output(error: OSError) -> bool:
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code is click.echo.__code__


def _give_up_output() -> None:
    """Nobody gets it; else what is left of it would be tried once more as Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
