"""`exposurekit evidence`: daily roots, the public key, and bundles that anybody can verify."""

from contextlib import suppress
from dataclasses import asdict
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exposurekit.cli import output
from exposurekit.cli.help_groups import Group
from exposurekit.cli.options import ID, check_writable, json_option, limit_option
from exposurekit.cli.session import ServiceDatabase, action, service_options
from exposurekit.errors import ConfigurationError
from exposurekit.system.named_files import read_bytes
from exposurekit.text.sanitize import plain

if TYPE_CHECKING:
    from exposurekit.contract.evidence_bundle import Bundle
    from exposurekit.contract.evidence_roots import Root
    from exposurekit.service.audit import Action


class _DayType(click.DateTime):
    """A day, such as 2026-11-13."""

    def __init__(self) -> None:
        super().__init__(["%Y-%m-%d"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse the day."""
        with suppress(click.BadParameter):
            return super().convert(value, param, ctx)
        return self.fail(f"{plain(value)!r} is not a day such as 2026-11-13", param, ctx)


_DAY = _DayType()


@click.group(cls=Group)
def evidence() -> None:
    """Prove what was found and removed: roots, key, bundles."""


@evidence.command("roots")
@limit_option
@service_options
@json_option
def evidence_roots(*, limit: int, database: ServiceDatabase, as_json: bool) -> None:
    """List the newest roots: one signed hash for each day.

    A root commits to all evidence of its UTC day and to the previous root. A worker signs and logs it after midnight.
    Publish it, or have somebody else keep it: then even you cannot change that day's evidence unnoticed.

    Example: exposurekit evidence roots --limit 7
    """
    from exposurekit.service.findings import evidence as entries

    roots = database.read(lambda db: entries.newest_roots(db, limit))
    rows = [_root_row(root) | ({"signature": root.signature} if as_json else {}) for root in roots]
    output.print_rows(
        rows, as_json=as_json, none="No roots yet. A worker signs a day's root after midnight (UTC)."
    )


@evidence.command("key")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write. Default: print it."
)
@service_options
def evidence_key(*, out: Path | None, database: ServiceDatabase) -> None:
    """Print the public key that verifies bundles, in PEM.

    It contains no secret. Send it to whoever verifies bundles, by another channel than the bundle.

    Example: exposurekit evidence key --out key.pem
    """
    from exposurekit.system.atomic_files import write_output

    async def public_key(db: Any) -> Any:
        return db.vault.public_key

    key = database.read(public_key)
    if out is None:
        click.echo(key.pem.decode(), nl=False)
    else:
        check_writable(out)
        write_output(out, key.pem)
        click.echo(f"Wrote {output.label_of(out)}. Fingerprint: {key.fingerprint}.")


@evidence.command("export")
@click.argument("user_id", metavar="ID", type=ID)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The file to write, such as bundle.zip."
)
@click.option(
    "--since",
    type=_DAY,
    metavar="DAY",
    default=date.min.isoformat(),
    show_default=False,
    help="The first day (UTC). Default: all.",
)
@click.option(
    "--until",
    type=_DAY,
    metavar="DAY",
    default=date.max.isoformat(),
    show_default=False,
    help="The last day (UTC). Default: all.",
)
@service_options
@json_option
def evidence_export(
    *, user_id: int, out: Path, since: datetime, until: datetime, database: ServiceDatabase, as_json: bool
) -> None:
    """Write a person's evidence to a bundle that anybody can verify.

    The bundle contains personal data: listings as the site showed them, and pages of results, perhaps with other people.
    Only your account can read the file. Today's evidence can be exported tomorrow, once its root is signed.

    Example: exposurekit evidence export 12 --out bundle.zip
    """
    from exposurekit.service.accounts import consent
    from exposurekit.service.findings import evidence as entries
    from exposurekit.system.atomic_files import write_output

    check_writable(out)

    async def export(db: Any) -> entries.Export:
        await consent.lock_user(db, user_id, changes=False)
        exported = await entries.export(db, user_id, since.date(), until.date())
        if exported.not_rooted and not (exported.before or exported.after):
            raise ConfigurationError(
                f"nothing can be exported yet: all entries ({exported.not_rooted:,}) are from today. Try again "
                "tomorrow, once "
                "the day's root is signed (midnight, UTC)"
            )
        return exported

    def describe(exported: entries.Export) -> "Action":
        return action("evidence export", f"user {user_id}", **output.fields(exported, "before", "after"))

    exported = database.write(export, describe)
    write_output(out, exported.content)
    if as_json:
        counts = output.fields(exported, "before", "after", "not_rooted", "damaged")
        output.print_json(counts | {"new_roots": list(map(_root_row, exported.new_roots))})
    else:
        for root in exported.new_roots:
            click.echo(f"Root {root.number}, of {root.day}: {root.hash}")
        click.echo(f"Wrote {output.label_of(out)}: {_amounts(exported.before, exported.after)}.")
    click.echo("It contains personal data: give it only to people who may see it.", err=True)
    if exported.not_rooted:
        click.echo(
            f"Not in it yet: today's entries ({exported.not_rooted:,}). Export again tomorrow.", err=True
        )
    if exported.damaged:
        click.echo(
            f"Not in it: damaged entries ({exported.damaged:,}). Run exposurekit service check.", err=True
        )


@evidence.command("verify")
@click.argument("file", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "--key",
    "key_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The service's public key, obtained from whoever runs it. Without it, nothing shows who made the bundle.",
)
@json_option
def evidence_verify(*, file: Path, key_file: Path | None, as_json: bool) -> None:
    """Verify a bundle; needs no database and no network.

    Names the member that is wrong and exits with 1 if anything was changed, removed, added or reordered.

    It proves that the service recorded these texts at these times, by its own clock. It does not prove that the sites, or
    the service, are honest.

    Example: exposurekit evidence verify bundle.zip --key key.pem
    """
    from exposurekit.contract import evidence_bundle
    from exposurekit.contract.evidence_roots import KEY_PEM_MAX, PublicKey

    key = None if key_file is None else PublicKey.from_pem(_read(key_file, KEY_PEM_MAX, "--key"), "--key")
    verified = evidence_bundle.verify(_read(file, evidence_bundle.BYTES_MAX, "the bundle"), key)
    if as_json:
        output.print_json(_as_json(verified))
        return
    kinds = [one.content.kind for one in verified.entries]
    days = f", days {verified.roots[0].day} to {verified.roots[-1].day}" if verified.roots else ""
    signer = "your key" if verified.has_expected_key else f"the key {verified.key.fingerprint}"
    amounts = _amounts(kinds.count(evidence_bundle.BEFORE), kinds.count(evidence_bundle.AFTER))
    outcome = "ok" if kinds else "ok, but it contains no evidence"
    click.echo(
        f"{outcome}: person {verified.user_id}, {amounts}{days}; unchanged since signed with {signer}."
    )
    if verified.clock_was_set_back:
        click.echo("The service's clock was set back between these days, so some times are wrong.", err=True)
    if not verified.has_expected_key:
        click.echo(
            "The bundle cannot show whose key that is: get the public key from the operator and verify with --key.",
            err=True,
        )


def _amounts(before: int, after: int) -> str:
    return f"listings as found {before:,}, verified removals {after:,}"


def _root_row(root: "Root") -> dict[str, Any]:
    return output.fields(root, "number", "day", "entries", "hash")


def _as_json(verified: "Bundle") -> dict[str, Any]:
    return {
        "user_id": verified.user_id,
        "key": verified.key.fingerprint,
        "has_expected_key": verified.has_expected_key,
        "clock_was_set_back": verified.clock_was_set_back,
        "entries": [
            output.fields(one.content, "record_id", "site", "kind", "observed_at") | {"sha256": one.sha256}
            for one in verified.entries
        ],
        "roots": [asdict(root) | {"hash": root.hash} for root in verified.roots],
    }


def _read(file: Path, most: int, what: str) -> bytes:
    return read_bytes(file, most, label=f"{what}: {output.label_of(file)}")
