"""`exposurekit report`: write a report as one HTML file, and optionally a PDF."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from exposurekit.cli import browser, output
from exposurekit.cli.history import existing_history, is_begun, missing_names_hint
from exposurekit.cli.options import (
    ID,
    check_one_kind,
    check_writable,
    history_option,
    json_option,
    since_option,
)

KINDS = ("fleet", "person", "changes", "sites")


@click.command()
@history_option
@click.option("--kind", type=click.Choice(KINDS), help="Default: what --user and --since imply, else fleet.")
@click.option("--user", type=ID, help="Report on this person only.")
@since_option(
    "Report changes since then: 14d, 2w, 3mo, 36h, yesterday, a day such as 2026-11-13 (its end), or an instant."
)
@click.option(
    "--live",
    is_flag=True,
    help="Also load everyone now: adds what people have on file. Works without a history.",
)
@click.option(
    "--share-safe",
    is_flag=True,
    help="For readers who must not learn whom it is about: pseudonyms and rounded values, checked before writing.",
)
@click.option(
    "--rows",
    is_flag=True,
    help="With --share-safe: include tables with one row per listing or person: pseudonymised, not anonymous.",
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The file to write, such as fleet.html."
)
@click.option("--title", help="Another title.")
@click.option(
    "--logo", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="An image for its head."
)
@click.option("--accent", metavar="#RRGGBB", help="A colour for the line above its title.")
@click.option(
    "--evidence",
    "evidence_files",
    metavar="BUNDLE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A bundle of evidence export: shows when removed listings of --user were seen and gone; repeat for several.",
)
@click.option(
    "--evidence-key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The service's public key; bundles signed with another are refused.",
)
@click.option("--pdf", is_flag=True, help="Also write a PDF beside it; needs Chromium, Chrome or Edge.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
@json_option
def report(
    *,
    history: str,
    kind: str | None,
    user: int | None,
    since: str | None,
    live: bool,
    share_safe: bool,
    rows: bool,
    out: Path,
    title: str | None,
    logo: Path | None,
    accent: str | None,
    evidence_files: tuple[Path, ...],
    evidence_key: Path | None,
    pdf: bool,
    opens: bool,
    as_json: bool,
) -> None:
    """Write a report as one HTML file: charts, tables, manual steps.

    It opens offline in any browser and loads nothing. It contains personal data: anyone who has the file can read it.
    With --share-safe it contains none: values that come from data are searched for the personal data in the history
    (with --live, also for what people have on file), and the report is not written if any is found.

    Example: exposurekit report --history ./exposure-history --out fleet.html
    """
    from exposurekit.exposure import connect
    from exposurekit.reports import pdf as reports_pdf
    from exposurekit.reports import report as write_report
    from exposurekit.system.atomic_files import write_output

    check_one_kind(user, since)
    _check(kind, user, since)
    if rows and not share_safe:
        raise click.UsageError("--rows is for --share-safe: other reports have these tables")
    if evidence_key is not None and not evidence_files:
        raise click.UsageError("--evidence-key is for --evidence: name the bundle")
    check_writable(out)
    exposure = connect() if live else None
    options: dict[str, Any] = {"kind": kind, "user": user, "since": since}
    options |= {"share_safe": share_safe, "rows": rows}
    options |= {"title": title or "", "logo": logo, "accent": accent or ""}
    options["evidence"] = _evidence(evidence_files, evidence_key)
    if exposure is not None and _needs_no_history(history):
        written = write_report(exposure, out, **options)
    else:
        with existing_history(history) as opened:
            written = write_report(opened, out, exposure=exposure, **options)
    if pdf:
        pdf_file = out.with_suffix(".pdf")
        write_output(pdf_file, reports_pdf.print_pdf(written.to_html()))
        click.echo(f"Wrote {output.label_of(pdf_file)}.", err=as_json)
    if as_json:
        output.print_json(written.data)
    else:
        click.echo(f"{written.finding} People: {written.provenance['people']}.")
        hint = "" if out.suffix.lower() == ".pdf" else " Open it in any browser."
        click.echo(f"Wrote {output.label_of(out)}, {out.stat().st_size / 1e6:.1f} MB.{hint}")
    if not live and any(task.note for one in written.sections for it in one.removals for task in it.tasks):
        click.echo(missing_names_hint(history), err=True)
    if opens:
        browser.show_page(out)


def _evidence(files: Sequence[Path], key: Path | None) -> Any:
    """Read bundles as one table; None: there are none."""
    if not files:
        return None
    import pandas as pd

    from exposurekit.evidence import read_evidence

    return pd.concat([read_evidence(file, key=key) for file in files], ignore_index=True)


def _needs_no_history(history: str) -> bool:
    """Whether neither --history is set nor the default history exists: then the report needs only --live."""
    source = click.get_current_context().get_parameter_source("history")
    return source is ParameterSource.DEFAULT and not is_begun(history)


def _check(kind: str | None, user: int | None, since: str | None) -> None:
    for option, value, option_kind in (("--user ID", user, "person"), ("--since TIME", since, "changes")):
        if kind == option_kind and value is None:
            raise click.UsageError(f"--kind {kind} needs {option}")
        if kind not in (None, option_kind) and value is not None:
            raise click.UsageError(f"{option} needs --kind {option_kind}")
