"""`exposurekit sites mend`: propose new selectors for a definition from saved pages, as a diff that a person accepts.

A draft's first selectors come about in the same way, with `exposurekit sites check`.
"""

import difflib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, session
from exposurekit.cli.options import json_option
from exposurekit.system.named_files import read_text
from exposurekit.text.sanitize import plain

NOT_WRITTEN = "Nothing was written: review the changes, then accept them with --write."
NO_ABSENT = "no page of an invented person: add one with --absent"

page_type = click.Path(path_type=Path)
absent_option = click.option(
    "--absent",
    "absent_pages",
    metavar="PAGE",
    multiple=True,
    type=page_type,
    help="A saved results page for an invented name, which shows that nobody is listed; repeat for several.",
)
person_option = click.option(
    "--person",
    "listed_person_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Who is listed on the pages and what their listing shows, as YAML or JSON: one person or a list. "
    "Default: the person of controls.listed.",
)
write_option = click.option(
    "--write", is_flag=True, help="Accept the proposed selectors and write them to the file."
)


@dataclass(frozen=True, slots=True)
class Mended:
    """A proposal for a file: what the current selectors fail, the changes, and why there are none."""

    file: Path
    site: str
    changed: tuple[str, ...]
    failures: tuple[str, ...]
    problems: tuple[str, ...]
    diff: str = field(repr=False)
    text: str | None = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        names = ("site", "changed", "failures", "problems", "diff")
        return {"file": str(self.file), **{name: getattr(self, name) for name in names}}


@click.command("mend")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--listed",
    "listed_pages",
    metavar="PAGE",
    multiple=True,
    required=True,
    type=page_type,
    help="A saved results page with a listed person, ideally with several listings; repeat for several.",
)
@absent_option
@person_option
@write_option
@json_option
def mend(
    *,
    file: Path,
    listed_pages: tuple[Path, ...],
    absent_pages: tuple[Path, ...],
    listed_person_file: Path | None,
    write: bool,
    as_json: bool,
) -> None:
    """Propose new selectors for a site whose layout has changed, as a diff.

    Selectors that still work stay. The proposal passes both controls: the listed person is extracted with exactly
    the given values, and an invented person is not listed. Nothing is written without --write or your answer. Exits
    with 1 if no proposal passes.

    Example: exposurekit sites mend seekfolk.yaml --listed one.mhtml --absent none.mhtml --person listed.yaml
    """
    if not absent_pages:
        raise click.UsageError(NO_ABSENT)
    finish(propose(file, listed_pages, absent_pages, listed_person_file), write=write, as_json=as_json)


def finish(mended: Mended, *, write: bool, as_json: bool) -> None:
    """Print a proposal, and write it if it is accepted. Exits with 1 if there is none."""
    if as_json:
        _accept(mended, write=write)
        output.print_json(mended.as_dict())
    else:
        _show(mended)
        _accept(mended, write=write, may_ask=True)
    if mended.problems:
        sys.exit(1)


def propose(
    file: Path, listed_pages: Iterable[Path], absent_pages: Iterable[Path], listed_person_file: Path | None
) -> Mended:
    """Return new selectors for a file from saved pages."""
    from exposurekit.service.scanning import listed_person, mending
    from exposurekit.service.sites import loader

    site = loader.read(file)
    text = file.read_text(encoding="utf-8")
    people = (
        ()
        if listed_person_file is None
        else listed_person.parse_people(
            read_text(listed_person_file, loader.SIZE_MAX), plain(listed_person_file)
        )
    )
    listed = tuple(session.page_contents(listed_pages))
    absent = tuple(session.page_contents(absent_pages, start=len(listed) + 1))
    files = mending.SavedFiles(listed, absent)
    proposal = mending.propose(text, str(file), files, people, on=datetime.now(UTC).date())
    lines = difflib.unified_diff(
        text.splitlines(keepends=True),
        (proposal.text or text).splitlines(keepends=True),
        f"{file.name} (present)",
        f"{file.name} (proposed)",
    )
    return Mended(
        file,
        site.name,
        proposal.changed,
        proposal.failures,
        proposal.problems,
        "".join(_whole(lines)),
        proposal.text,
    )


def _show(mended: Mended) -> None:
    """Print a proposal: the changes to stdout, the rest to stderr."""
    where = f"{mended.file}: {mended.site}"
    for failure in mended.failures:
        click.echo(plain(f"{where}: {failure}"), err=True)
    for problem in mended.problems:
        click.echo(f"Error: {plain(f'{where}: {problem}')}", err=True)
    if not mended.diff and not mended.problems:
        click.echo(plain(f"ok: {where} passes both controls; nothing to change."))
    for line in mended.diff.splitlines():
        click.echo(plain(line))


def _accept(mended: Mended, *, write: bool, may_ask: bool = False) -> None:
    """Write a proposal if it is accepted: by the option, or by the answer to a question."""
    from exposurekit.system.atomic_files import write_output

    if not mended.diff or mended.text is None:
        return
    if not write and may_ask and sys.stdin.isatty():
        write = click.confirm("Write these changes", err=True)
    if write:
        # The service may run as another user, and the file may be a link.
        write_output(mended.file.resolve(), mended.text.encode(), is_private=False)
        click.echo(plain(f"Written: {mended.file}"), err=True)
    else:
        click.echo(NOT_WRITTEN, err=True)


def _whole(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that all end; the last one of a file may not."""
    yield from (line if line.endswith("\n") else f"{line}\n" for line in lines)
