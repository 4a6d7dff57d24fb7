"""`exposurekit sites`: import, check, mend and list site definitions, and show site health and missed listings.

A check sends no opt-outs; it searches only for the site's known person and for an invented one.
"""

import asyncio
import shlex
import sys
import tempfile
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from exposurekit.cli import mend, output, session
from exposurekit.cli.help_groups import Group
from exposurekit.cli.options import json_option, mail_option, site_network_option, sites_option
from exposurekit.cli.service import NO_SCANS, site_health
from exposurekit.cli.session import ServiceDatabase, service_options
from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.service.http.address_policy import NOT_PUBLIC
from exposurekit.text.plurals import pluralize
from exposurekit.text.sanitize import plain

NO_CONTROL = "controls.listed is missing, so the check cannot tell whether the site finds anybody"
NO_PAGE = "search.method is person: save the results for controls.listed in a browser, and check them with --page FILE"
NOT_LISTED = (
    "the person of controls.listed is not listed: correct the search or the selectors, or name another person"
)
LISTS_ANYBODY = "an invented person is listed: scans of a site that lists anybody are not trusted"
NO_MAILBOX = (
    "removal.confirm, {request_email} and removal.email need a mailbox: name its settings with --mail"
)
NO_SMTP = "removal.email needs a server for sending: add the block smtp to the settings of the mailbox"
NO_FOLLOW_UP = (
    "removal.email: without the block smtp in the settings of the mailbox, requests that the site did not carry out are not "
    "followed up by email"
)
OTHER_HOST = "removal.confirm.link_host is a host of neither the form nor removal.confirm.from: compare it with a real message"
MEND = "if the layout has changed, `exposurekit sites mend` proposes new selectors from the same pages"
NEVER_SCANNED = "never scanned"
TO_WRITE = "is a placeholder of a draft: write it"
# Reasons of an inconclusive scan in an operator's words; others explain themselves.
_EXPLANATIONS = {
    NOT_PUBLIC: "its address is not public: --site-network allows its network, here and for serve and worker",
    "blocked": "the site blocks requests",
    "changed layout": "the page does not match the definition: it has neither listings nor search.no_results; "
    "exposurekit sites mend proposes selectors from saved pages",
    "not found": "there is no such page: check search.url",
    "too much": "a page is too large",
    "unreadable listings": "listings lack a name or a reference_id: check these selectors",
}


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """The result of checking one file; a definition with problems must not be used.

    ``has_run``: the person of ``controls.listed`` was looked for. ``to_write``: the keys that a draft lacks.
    """

    file: str
    site: str | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    has_run: bool = False
    to_write: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "file": self.file,
            "site": self.site,
            "ok": not self.problems,
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


@click.group(cls=Group)
def sites() -> None:
    """Import, check, mend and list sites; show site health."""


sites.add_command(mend.mend)


@sites.command("check")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--offline",
    "--read-only",
    "offline",
    is_flag=True,
    help="Only validate the files; send no request to a site.",
)
@site_network_option
@click.option(
    "--page",
    "--listed",
    "pages",
    metavar="PAGE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Check this saved page of the listed person instead of the site; repeat for several.",
)
@mend.absent_option
@mend.person_option
@mend.write_option
@mail_option
@json_option
def sites_check(
    *,
    paths: tuple[Path, ...],
    offline: bool,
    site_networks: tuple[str, ...],
    pages: tuple[Path, ...],
    absent_pages: tuple[Path, ...],
    listed_person_file: Path | None,
    write: bool,
    mail_file: Path | None,
    as_json: bool,
) -> None:
    """Validate definitions and run their controls on the sites.

    The listed person must be found and an invented person must not. The check obeys robots.txt and each definition's
    politeness. A definition that uses mail needs a mailbox. A directory stands for the definitions in it. Exits with 1
    if a definition has problems.

    With saved pages of both, the check runs on the pages. For a draft, it proposes the missing selectors as a diff and
    writes them if you accept.

    Example: exposurekit sites check sites/seekfolk.yaml
    """
    files = [*_definition_files(paths)]
    if pages and len(files) > 1:
        raise click.UsageError("--page is for one definition")
    if absent_pages and not pages:
        raise click.UsageError("--absent needs a saved page of the listed person: add --listed")
    if (listed_person_file or write) and not absent_pages:
        raise click.UsageError(mend.NO_ABSENT)
    if absent_pages:
        _check_controls(files[0], pages, absent_pages, listed_person_file, write=write, as_json=as_json)
        return
    mail = session.mail_settings(mail_file)
    checks = asyncio.run(_check_files(files, site_networks, pages, mail=mail, offline=offline))
    if as_json:
        output.print_json([one.as_dict() for one in checks])
    else:
        for one in checks:
            _print_check(one)
    if any(one.problems for one in checks):
        sys.exit(1)


def _check_controls(
    file: Path,
    pages: tuple[Path, ...],
    absent_pages: tuple[Path, ...],
    listed_person_file: Path | None,
    *,
    write: bool,
    as_json: bool,
) -> None:
    """Run both controls on saved pages; write the selectors that a draft lacks."""
    from exposurekit.service.sites import loader
    from exposurekit.service.sites.drafts import to_write

    mended = mend.propose(file, pages, absent_pages, listed_person_file)
    if [*to_write(loader.read(file).model_dump())]:
        mend.finish(mended, write=write, as_json=as_json)
        return
    problems = mended.failures + ((MEND,) if mended.failures else ())
    check = SiteCheck(str(file), mended.site, problems, has_run=True)
    if as_json:
        output.print_json([check.as_dict()])
    else:
        _print_check(check)
    if problems:
        sys.exit(1)


@sites.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    "directory",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the drafts into this directory, one YAML file per site.",
)
@click.option("--force", is_flag=True, help="Replace drafts that exist.")
@json_option
def sites_import(*, files: tuple[Path, ...], directory: Path, force: bool, as_json: bool) -> None:
    """Turn files of other projects into drafts of site definitions.

    Reads the broker files of DuckDuckGo's removal browser (JSON), California's data broker registry and other lists of
    brokers with their opt-out addresses (CSV). A draft names its source, what you must write and what was lost. Exits
    with 1 if a file could not be read or a draft was not written because its file exists.

    Example: exposurekit sites import brokers/seekfolk.example.json --out drafts
    """
    from exposurekit.service.sites import import_formats

    results, problems = [], []
    for file in files:
        try:
            results += import_formats.read(file)
        except ConfigurationError as error:
            problems.append(str(error))
    sites = import_formats.save(results, directory, overwrite=force) if results else []
    if sites or as_json or not problems:
        rows = [_as_row(one, as_json=as_json) for one in sites]
        output.print_rows(rows, as_json=as_json, none="No drafts.")
    for problem in problems:
        click.echo(f"Error: {plain(problem)}", err=True)
    if sites and not as_json:
        count = sum(one.file is not None for one in sites)
        label = output.label_of(directory)
        summary = f"{count} of {pluralize(len(sites), 'site')} {'is' if len(sites) == 1 else 'are'} drafted in {label}."
        click.echo(
            f"{summary} Complete each draft, then run: exposurekit sites check {shlex.quote(label)}", err=True
        )
    if problems or any(one.exists for one in sites):
        sys.exit(1)


@sites.command("list")
@sites_option
@json_option
def sites_list(*, sites_directory: Path | None, as_json: bool) -> None:
    """List sites: how a removal works, and what it requires.

    The declared days are those that a definition states for a removal.

    Example: exposurekit sites list --sites ./sites
    """
    definitions, problems = session.usable_definitions(sites_directory)
    if problems and not definitions:
        raise ConfigurationError(session.ALL_INVALID)
    rows = [
        {
            "site": one.name,
            "removal": one.removal.method,
            "user_fields_required": one.removal.user_fields_required,
            "processing_days": one.removal.processing_days,
            "declared_days": one.removal.declared_days,
        }
        for one in definitions.values()
    ]
    output.print_rows(rows, as_json=as_json, none="No sites are defined: name their directory with --sites.")


@sites.command("health")
@sites_option
@service_options
@json_option
def sites_health(*, sites_directory: Path | None, database: ServiceDatabase, as_json: bool) -> None:
    """Show scans per site: inconclusive and untrusted ones.

    With --sites, it also lists the defined sites that were never scanned. A changed layout stays the last reason until a
    scan has read a listing.

    Example: exposurekit sites health --sites ./sites
    """
    rows = database.read(site_health)
    scanned = {row["site"] for row in rows}
    never = dict.fromkeys(
        ("inconclusive_scans", "inconclusive_rate", "untrusted_scans", "last_scan_at", "last_good_scan_at")
    )
    rows += [
        {"site": name, "scans": 0} | never | {"last_reason": NEVER_SCANNED}
        for name in session.usable_definitions(sites_directory)[0]
        if name not in scanned
    ]
    output.print_rows(rows, as_json=as_json, none=NO_SCANS)


@sites.command("missed")
@sites_option
@service_options
@json_option
def sites_missed(*, sites_directory: Path | None, database: ServiceDatabase, as_json: bool) -> None:
    """Estimate how many listings both scans and web search missed.

    Counts listings that show a street address of the person, on sites that the service scans. The row "missed" is the
    estimate with its 95% interval; without enough listings that both found, it says why there is none.

    Example: exposurekit sites missed --sites ./sites
    """
    import pandas as pd

    from exposurekit.analysis import missed
    from exposurekit.service.scanning import websearch

    definitions = session.needed_definitions(sites_directory)
    scanned = [one.name for one in definitions.values() if one.search.method != "person"]
    records, links = database.read(lambda db: websearch.pages_by_way(db, scanned))
    table = missed(
        pd.DataFrame(records, columns=["user_id", "href"]), pd.DataFrame(links, columns=["user_id", "url"])
    )
    rows = table.astype("object").where(table.notna(), None).to_dict("records")
    names = ("ways", "listings", "low", "high", *(("assumption", "reason") if as_json else ()))
    output.print_rows([{name: row[name] for name in names} for row in rows], as_json=as_json, none="")
    last = rows[-1]
    if not as_json:
        click.echo(
            f"Assumed: {last['assumption']}." if last["assumption"] else f"No estimate: {last['reason']}.",
            err=True,
        )


async def _check_files(
    files: Iterable[Path], networks: tuple[str, ...], pages: tuple[Path, ...], *, mail: Any, offline: bool
) -> list[SiteCheck]:
    from exposurekit.service.clock import Clock
    from exposurekit.service.http.client import HttpClient
    from exposurekit.service.scanning.politeness import PoliteFetcher
    from exposurekit.service.storage.database import Database
    from exposurekit.service.storage.encryption import Vault

    http = HttpClient(allowed_networks=networks)
    with tempfile.TemporaryDirectory(prefix="exposurekit-check-") as directory:
        url = f"sqlite:///{Path(directory) / 'turns.db'}"
        database = await Database(url, vault=Vault(Vault.generate_key()), clock=Clock()).open()
        try:
            fetcher = None if offline else PoliteFetcher(http, database)
            definitions = [*_without_repeats((file, _read(file)) for file in files)]
            names = {one.name for _, one in definitions if not isinstance(one, SiteCheck)}
            return [
                one
                if isinstance(one, SiteCheck)
                else await _check(file, one, fetcher, pages, names, mail=mail)
                for file, one in definitions
            ]
        finally:
            await http.close()
            await database.close()


def _definition_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files themselves, and those in the directories among them."""
    from exposurekit.service.sites import loader

    for path in paths:
        if not path.is_dir():
            yield path
        elif files := loader.files_in(path):
            yield from files
        else:
            unread = loader.unread_in(path) or "no file there ends in .yaml"
            raise ConfigurationError(f"{plain(path)} has no definitions: {unread}")


def _read(file: Path) -> Any:
    """Return the definition in a file, or the check that says why there is none."""
    from exposurekit.service.sites import loader

    try:
        return loader.read(file)
    except ConfigurationError as error:
        return SiteCheck(str(file), problems=tuple(str(error).splitlines()))


def _without_repeats(definitions: Iterable[tuple[Path, Any]]) -> Iterator[tuple[Path, Any]]:
    """Yield files and definitions; in place of one whose name an earlier file has, the check that says so."""
    from exposurekit.service.sites import loader

    first: dict[str, Path] = {}
    for file, site in definitions:
        earlier = file if isinstance(site, SiteCheck) else first.setdefault(site.name.casefold(), file)
        if earlier is file:
            yield file, site
        else:
            yield file, SiteCheck(str(file), site.name, problems=(loader.used_in(earlier),))


async def _check(
    file: Path, site: Any, fetcher: Any, pages: tuple[Path, ...], names: Container[str], *, mail: Any
) -> SiteCheck:
    from exposurekit.service.mail.settings import supports
    from exposurekit.service.sites.drafts import to_write

    problems: tuple[str, ...] = () if supports(mail, site) else (NO_MAILBOX if mail is None else NO_SMTP,)
    unwritten = tuple(f"{key} {TO_WRITE}" for key in to_write(site.model_dump()))
    if fetcher is not None and not unwritten and not pages:
        problems += await _link_problems(site, fetcher)
    if unwritten and fetcher is None:
        check = SiteCheck(str(file), site.name, notes=unwritten, to_write=len(unwritten))
    elif unwritten:
        check = SiteCheck(str(file), site.name, unwritten)
    elif pages:
        check = _check_pages(file, site, pages)
    elif fetcher is None:
        check = SiteCheck(str(file), site.name)
    elif site.search.method == "person":
        check = SiteCheck(str(file), site.name, notes=(NO_PAGE,))
    else:
        check = await _run_controls(file, site, fetcher)
    notes = (*_sister_notes(site, names), *_mail_notes(site, mail), *check.notes)
    if not pages and (fetcher is None or check.problems):
        notes += (*_control_notes(site),)
    return replace(check, problems=problems + check.problems, notes=notes)


def _sister_notes(site: Any, names: Container[str]) -> Iterator[str]:
    """Yield the sites that the opt-out also removes from and that were not given."""
    for name in site.removal.also_removes:
        if name not in names:
            yield f"removal.also_removes: {name} is in none of these files; the service needs its definition, too"


def _control_notes(site: Any) -> Iterator[str]:
    """Yield what the search sends of the listed person that the definition does not state."""
    listed = site.controls.listed
    if listed is None or site.search.method == "person":
        return
    for key in ("city", "state"):
        if not getattr(listed, key).strip() and (parts := site.search.parts_with(key)):
            lacking = ", ".join(f"search.{part}" for part in parts)
            yield f"controls.listed has no {key}, so it is missing in {lacking}: add it, unless the site finds the person without it"


def _mail_notes(site: Any, mail: Any) -> Iterator[str]:
    """Yield what is unusual in how the site confirms an opt-out, and that none is followed up."""
    if site.removal.email and not site.sends_email and (mail is None or mail.smtp is None):
        yield NO_FOLLOW_UP
    if (confirm := site.removal.confirm) is None:
        return
    form = site.removal.url or site.opt_out_url
    own = {_organization(urlsplit(form).hostname or ""), _organization(confirm.sender_domain)}
    if _organization(confirm.link_host) not in own:
        yield OTHER_HOST


def _organization(host: str) -> str:
    return ".".join(host.split(".")[-2:])


async def _link_problems(site: Any, fetcher: Any) -> tuple[str, ...]:
    from exposurekit.service.scanning.politeness import FETCH_FAILURES, failure_reason

    if (confirm := site.removal.confirm) is None:
        return ()
    try:
        await fetcher.check_encrypted(f"https://{confirm.link_host}/")
    except FETCH_FAILURES as error:
        reason = failure_reason(error)
        reason = "its name does not resolve" if reason == "unreachable" else reason
        return (f"no link to removal.confirm.link_host ({confirm.link_host}) can be followed: {reason}",)
    return ()


async def _run_controls(file: Path, site: Any, fetcher: Any) -> SiteCheck:
    from exposurekit.service.accounts.subject import Place
    from exposurekit.service.matching import scoring
    from exposurekit.service.scanning import site_scan
    from exposurekit.service.scanning.control_person import decoy_subject

    problems: list[str] = []
    result, listed = await site_scan.scan_control(site, fetcher), site.controls.listed
    if result is not None and not any(scoring.name_fits(listed.subject(), one) for one in result.listings):
        problems.append(_explain(result.inconclusive) or NOT_LISTED)
    place = Place(city=listed.city, state=listed.state) if listed else Place()
    decoy_result = await site_scan.scan_site(site, decoy_subject(place), fetcher)
    if not decoy_result.trusted:
        problems.append(LISTS_ANYBODY)
    elif decoy_result.inconclusive is not None:
        problems.append(_explain(decoy_result.inconclusive))
    notes = (NO_CONTROL,) if result is None else ()
    return SiteCheck(str(file), site.name, tuple(dict.fromkeys(problems)), notes, has_run=result is not None)


def _check_pages(file: Path, site: Any, pages: tuple[Path, ...]) -> SiteCheck:
    """Check saved pages of the control person; they say nothing of an invented one."""
    from exposurekit.service.matching import scoring

    listed = site.controls.listed
    if listed is None:
        return SiteCheck(str(file), site.name, problems=(NO_CONTROL,))
    try:
        saved = session.saved_pages(site, pages)
    except (ConfigurationError, InvalidArgument) as error:
        return SiteCheck(str(file), site.name, problems=(str(error),))
    listings = [listing for page in saved for listing in page.result.listings]
    is_listed = any(scoring.name_fits(listed.subject(), listing) for listing in listings)
    return SiteCheck(str(file), site.name, problems=() if is_listed else (NOT_LISTED,), has_run=True)


def _as_row(site: Any, *, as_json: bool) -> dict[str, Any]:
    lost = [output.fields(one, "field", "reason") if as_json else one.field for one in site.lost]
    row = output.fields(site, "site", "file", "method", "to_write")
    return row | {"lost": lost, "not_drafted": site.reason}


def _explain(reason: str | None) -> str:
    return _EXPLANATIONS.get(reason, reason) if reason else ""


def _print_check(check: SiteCheck) -> None:
    for problem in check.problems:
        message = problem if check.site is None else f"{check.file}: {check.site}: {problem}"
        click.echo(f"Error: {plain(message)}", err=True)
    for note in check.notes:
        click.echo(plain(f"{check.file}: {check.site}: {note}"), err=True)
    if not check.problems:
        outcome = "works" if check.has_run else "is valid"
        if check.to_write:
            outcome = f"is a draft: {pluralize(check.to_write, 'key')} to write"
        click.echo(plain(f"ok: {check.file}: {check.site} {outcome}."))
