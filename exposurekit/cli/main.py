"""The `exposurekit` command: its groups, and how errors become one line and an exit code."""

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
    evidence,
    export,
    history,
    inbox,
    integrator,
    mail,
    notifications,
    report,
    serve,
    service,
    sites,
    users,
    watch,
    webhooks,
)
from exposurekit.cli import open as open_command
from exposurekit.cli.check_results import no_permission
from exposurekit.cli.help_groups import Group
from exposurekit.errors import NEEDS_SERVICE, ExposureError
from exposurekit.text.sanitize import plain

SERVICE_PACKAGES = (
    *("starlette", "uvicorn", "sqlalchemy", "cryptography", "python_multipart", "alembic", "limits", "yaml"),
    *("apprise", "selectolax", "jmespath", "protego", "rapidfuzz", "nameparser", "nicknames", "phonenumbers"),
    *("prometheus_client", "dkim", "dns"),
)

SECTIONS = {
    "Get started": (demo.demo, doctor.doctor, completion.completion),
    "See what is listed": (report.report, open_command.open_page, export.export),
    "Monitor over time": (
        *(history.collect, watch.watch, inbox.inbox),
        *(notifications.notifications, check.check, history.history),
    ),
    "Operate the service": (
        *(serve.serve, serve.worker, service.service, sites.sites),
        *(integrator.integrator, users.users, evidence.evidence, mail.mail, webhooks.webhooks),
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
    """Run a command line and return its exit code; Ctrl-C remains a `KeyboardInterrupt`."""
    debug = "--debug" in words
    try:
        return cli.main(list(words), prog_name="exposurekit", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except ExposureError as error:
        if debug:
            raise
        return _print_errors(*str(error).splitlines())
    except ModuleNotFoundError as error:
        if debug or error.name not in SERVICE_PACKAGES:
            raise
        return _print_errors(NEEDS_SERVICE)
    except OSError as error:
        problems = _system_problems(error, debug=debug)
        if problems is None:
            raise
        return _print_errors(*problems)


def _system_problems(error: OSError, *, debug: bool) -> list[str] | None:
    """Return what to print for an error of the system; None: it is unexpected."""
    if isinstance(error, BrokenPipeError):  # the reader of the pipe closed it
        _discard_output()
        return []
    if _is_output_error(error):
        _discard_output()
        return [f"cannot write the output: {error.strerror}"]
    if isinstance(error, PermissionError) and error.filename is not None and not debug:
        return [": ".join(no_permission(error))]
    return None


def format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,  # noqa: ARG001  as Python calls it
) -> str:
    """Return a warning of this package as a sentence, and one for developers with the place in the code."""
    if issubclass(category, UserWarning):
        return f"Warning: {plain(message)}.\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def _print_errors(*problems: str) -> int:
    for problem in problems:
        click.echo(f"Error: {plain(problem)}", err=True)
    return 1


def _is_output_error(error: OSError) -> bool:
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code is click.echo.__code__


def _discard_output() -> None:
    """Discard the rest of the output, or Python would try to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
