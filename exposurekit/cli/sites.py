"""Site definitions from a shell: checked against the sites themselves, listed, and how the sites behave.

Sends no opt-out, and asks a site for nobody but its known person and somebody invented.
"""

import asyncio
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, session
from exposurekit.cli.options import database_option, json_option, key_option, sites_option
from exposurekit.cli.sections import Group
from exposurekit.cli.service import NO_LOOKS, site_health
from exposurekit.errors import ConfigurationError
from exposurekit.text.sanitize import plain

NOBODY_KNOWN = "controls.listed names nobody, so that nothing tells whether anybody would be found"
NOT_LISTED = (
    "the person of controls.listed is not listed: the search or the listings are read wrongly, or they left"
)
LISTS_ANYBODY = (
    "somebody invented is listed: a site that lists whoever is asked for is distrusted in each scan"
)
# What a look says, in an operator's words; what is not here says itself.
_MEANING = {
    "blocked": "the site blocks us",
    "changed layout": "the page has another layout than the definition: neither listings nor search.no_results",
    "not found": "there is no such page: is search.url right?",
    "too much": "a page is too large to be read",
    "unreadable listings": "listings lack a name or a reference_id: are these selectors right?",
}


@dataclass(frozen=True, slots=True)
class SiteCheck:
    """What the check of one file told; with a problem the definition is not to be used."""

    file: str
    site: str | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def shown(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "file": self.file,
            "site": self.site,
            "ok": not self.problems,
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


@click.group(cls=Group)
def sites() -> None:
    """Check and list site definitions; show the health of sites."""


@sites.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--offline",
    "--read-only",
    "offline",
    is_flag=True,
    help="Only validate the files; send no request to a site.",
)
@click.option(
    "--network",
    "networks",
    metavar="CIDR",
    multiple=True,
    help="Allow requests to this network though it is not public, such as 127.0.0.0/8: for sites in a test network.",
)
@json_option
@click.pass_context
def sites_check(
    context: click.Context,
    *,
    files: tuple[Path, ...],
    offline: bool,
    networks: tuple[str, ...],
    as_json: bool,
) -> None:
    """Validate definitions and run their controls on the sites.

    The known person must be listed and somebody invented must not. robots.txt and each definition's politeness
    are kept to. Exit code 1: something is wrong.

    Example: exposurekit sites check sites/seekfolk.yaml
    """
    checked = asyncio.run(_checked(files, networks, offline=offline))
    if as_json:
        output.print_json([one.shown() for one in checked])
    else:
        for one in checked:
            _print_checked(one, offline=offline)
    if any(one.problems for one in checked):
        context.exit(1)


@sites.command("list")
@sites_option
@json_option
def sites_list(*, sites_directory: Path | None, as_json: bool) -> None:
    """List sites: how a removal works, and what it requires.

    Example: exposurekit sites list --sites ./sites
    """
    rows = [
        {
            "site": one.name,
            "removal": one.removal.method,
            "user_fields_required": one.removal.user_fields_required,
            "processing_days": one.removal.processing_days,
        }
        for one in session.definitions(sites_directory).values()
    ]
    output.print_rows(rows, as_json=as_json, none="No sites are defined: --sites names their directory.")


@sites.command("health")
@database_option
@key_option
@json_option
def sites_health(*, database: str, key_file: Path | None, as_json: bool) -> None:
    """Show scans per site: inconclusive and untrusted ones.

    Example: exposurekit sites health
    """
    output.print_rows(session.read_session(database, key_file, site_health), as_json=as_json, none=NO_LOOKS)


async def _checked(files: Iterable[Path], networks: tuple[str, ...], *, offline: bool) -> list[SiteCheck]:
    """Each file, one after the other."""
    from exposurekit.service.clock import Clock
    from exposurekit.service.http.client import Outbound
    from exposurekit.service.scanning.politeness import PoliteFetcher
    from exposurekit.service.storage.database import Database
    from exposurekit.service.storage.encryption import Vault

    outbound = Outbound(opened=networks)
    with tempfile.TemporaryDirectory(prefix="exposurekit-check-") as directory:
        url = f"sqlite:///{Path(directory) / 'turns.db'}"
        database = await Database(url, vault=Vault(Vault.generate_key()), clock=Clock()).open()
        try:
            manners = None if offline else PoliteFetcher(outbound, database)
            return [await _check(file, manners) for file in files]
        finally:
            await outbound.close()
            await database.close()


async def _check(file: Path, manners: Any) -> SiteCheck:
    from exposurekit.service.sites import loader

    try:
        site = loader.read(file)
    except ConfigurationError as error:
        return SiteCheck(str(file), problems=tuple(str(error).splitlines()))
    if manners is None:
        return SiteCheck(str(file), site.name)
    return await _controlled(file, site, manners)


async def _controlled(file: Path, site: Any, manners: Any) -> SiteCheck:
    """The definition's controls, over the real way out."""
    from exposurekit.service.accounts.subject import Place
    from exposurekit.service.scanning import matching, site_scan
    from exposurekit.service.scanning.control import decoy_subject

    problems: list[str] = []
    known, listed = await site_scan.scan_control(site, manners), site.controls.listed
    if known is not None and not any(matching.name_fits(listed.subject(), one) for one in known.listings):
        problems.append(_expected(known.inconclusive) or NOT_LISTED)
    place = Place(city=listed.city, state=listed.state) if listed else Place()
    nobody = await site_scan.scan_site(site, decoy_subject(place), manners)
    if not nobody.trusted:
        problems.append(LISTS_ANYBODY)
    elif nobody.inconclusive is not None:
        problems.append(_expected(nobody.inconclusive))
    notes = (NOBODY_KNOWN,) if known is None else ()
    return SiteCheck(str(file), site.name, tuple(dict.fromkeys(problems)), notes)


def _expected(reason: str | None) -> str:
    return _MEANING.get(reason, reason) if reason else ""


def _print_checked(one: SiteCheck, *, offline: bool) -> None:
    for problem in one.problems:
        said = problem if one.site is None else f"{one.file}: {one.site}: {problem}"
        click.echo(f"Error: {plain(said)}", err=True)
    for note in one.notes:
        click.echo(plain(f"{one.file}: {one.site}: {note}"), err=True)
    if not one.problems:
        done = "can be read" if offline else "works"
        click.echo(plain(f"{one.file}: {one.site} {done}."))
