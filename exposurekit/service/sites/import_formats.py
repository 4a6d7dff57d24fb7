"""Import of site definitions: files of other projects and registries become drafts.

The formats are the broker files of DuckDuckGo's removal browser (JSON) and lists of data brokers with their sites and
opt-out addresses (CSV), such as California's registry and Optery's directory.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exposurekit.errors import ConfigurationError
from exposurekit.service.sites import duckduckgo, loader
from exposurekit.service.sites.drafts import (
    NAME_MAX,
    TO_WRITE,
    Draft,
    Lost,
    Skipped,
    Source,
    manual_definition,
    one_line,
    web_address,
)
from exposurekit.system.atomic_files import write_file
from exposurekit.system.named_files import decode, read_bytes
from exposurekit.text.sanitize import plain

BYTES_MAX, ROWS_MAX, COLUMNS_MAX, DEPTH_MAX, DAYS_MAX = 5_000_000, 5_000, 200, 20, 365
_CALIFORNIA = "California's data broker registry"
_HEADER_ROWS_MAX = 5  # a registry may have rows above its headings
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_AT = re.compile(r"\s*[\[(]at[\])]\s*", re.IGNORECASE)
# What a column holds, by its heading in lower case without punctuation; the first pattern that matches counts.
_HEADINGS = {
    "statistics": r".*\b(requests received|requests to|number of days)\b.*",
    "days": r"(average )?(removal|processing) (days|time)",
    "email": r"(?!.*confirm).*\b(e mail|email)\b.*",
    "guide": r".*\b(guide|instructions)\b.*",
    "opt_out": r".*(opt ?out|delete (your|their|my)|exercise (your|their)|(removal|deletion|remove|delete|delist)"
    r" (url|link|page|form|site|address)|do not (sell|share).*(url|link|page|form|address)).*",
    "trade_name": r"(doing business as|dba|brand|trade name).*",
    "website": r"(data broker |business |company |broker )?(primary )?(website|web site|url|domain|homepage)"
    r"( url| address| link)?",
    "name": r"(data broker|business|company|broker|site|organi[sz]ation|people search site)( name)?|name|title",
    "description": r"description",
    "type": r"(data broker |broker )?(type|category)",
}


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a site: its draft, or the reason why there is none."""

    site: str
    file: str | None = None
    method: str | None = None
    to_write: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
    reason: str | None = None
    exists: bool = False  # the draft's file, which was left


def read(path: Path) -> list[Draft | Skipped]:
    """Return the drafts of a file, and the sites that become none; the service accepts every draft.

    Raises:
        ConfigurationError: The file cannot be read, or has no known format. The message has the line or the key.
    """
    where = plain(path.name)
    text = _text(path, where)
    is_json = path.suffix.lower() == ".json" or text.lstrip()[:1] in {"{", "["}
    results = [duckduckgo.draft(_json(text, where), where)] if is_json else [*_rows(text, where)]
    return [_accepted(one) if isinstance(one, Draft) else one for one in results]


def with_sister_sites(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts; those of parents name the sites that their opt-out also removes from."""
    children: dict[str, list[str]] = {}
    for draft in drafts:
        if draft.parent != draft.host:
            children.setdefault(draft.parent, []).append(draft.name)
    return [_with_sisters(draft, children.get(draft.host, ()) if draft.host else ()) for draft in drafts]


def save(results: Sequence[Draft | Skipped], directory: Path, *, overwrite: bool = False) -> list[Imported]:
    """Write each draft into a YAML file of its own, whole or not at all; return what became of each site.

    A file that exists is left, unless ``overwrite`` is set. Of two sites with one name, the first is written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{plain(directory)} cannot be created: {error.strerror}") from None
    drafts = iter(with_sister_sites(_unique(one for one in results if isinstance(one, Draft))))
    names: set[str] = set()
    files: set[str] = set()
    saved = []
    for result in results:
        if isinstance(result, Skipped):
            saved.append(Imported(result.name, reason=result.reason))
        elif result.name.casefold() in names:
            saved.append(Imported(result.name, reason="has the name of an earlier site"))
        else:
            names.add(result.name.casefold())
            saved.append(_saved(next(drafts), directory, files, overwrite=overwrite))
    return saved


def _unique(drafts: Iterable[Draft]) -> list[Draft]:
    by_name: dict[str, Draft] = {}
    for draft in drafts:
        by_name.setdefault(draft.name.casefold(), draft)
    return [*by_name.values()]


def _saved(draft: Draft, directory: Path, files: set[str], *, overwrite: bool) -> Imported:
    numbers = (f"-{number}" if number > 1 else "" for number in range(1, ROWS_MAX + 2))
    file = next(file for number in numbers if (file := f"{draft.stem}{number}.yaml") not in files)
    files.add(file)
    try:
        content = draft.text().encode()
        is_written = write_file(directory / file, content, overwrite=overwrite, is_private=False)
    except OSError as error:
        raise ConfigurationError(f"{plain(directory / file)} cannot be written: {error.strerror}") from None
    if not is_written:
        return Imported(draft.name, reason=f"{file} exists; --force replaces it", exists=True)
    return Imported(draft.name, file, draft.method, draft.to_write, draft.lost)


def _with_sisters(draft: Draft, names: Sequence[str]) -> Draft:
    if not names:
        return draft
    removal = {**draft.definition["removal"], "also_removes": sorted(names)}
    return replace(draft, definition={**draft.definition, "removal": removal})


def _accepted(draft: Draft) -> Draft | Skipped:
    try:
        loader.parsed(draft.text(), "the draft")
    except ConfigurationError as error:
        return Skipped(draft.name, str(error).splitlines()[0])
    return draft


def _text(path: Path, where: str) -> str:
    content = read_bytes(path, BYTES_MAX, label=where)
    if len(content) > BYTES_MAX:
        raise ConfigurationError(f"{where}: is larger than {BYTES_MAX // 1_000_000} MB")
    return decode(content, where).removeprefix("\ufeff")  # an editor may begin a file with a byte order mark


def _json(text: str, where: str) -> Any:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"{where}, line {error.lineno}: is not JSON: {error.msg}") from None
    except (RecursionError, ValueError):
        raise ConfigurationError(f"{where}: is nested too deeply, or has a number that is too long") from None
    if not _is_shallow(data):
        raise ConfigurationError(f"{where}: is nested too deeply")
    if not isinstance(data, dict) or not {"name", "url", "steps"} <= data.keys():
        raise ConfigurationError(
            f"{where}: has no known format: a broker file has the keys name, url and steps, at the top"
        )
    return data


def _is_shallow(data: Any) -> bool:
    level = [data]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    return not level


def _rows(text: str, where: str) -> Iterator[Draft | Skipped]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        headings = _headings(rows, where)
        columns = _columns(headings)
        source = _source(headings, where)
        for number, row in enumerate(rows):
            if number == ROWS_MAX:
                raise ConfigurationError(f"{where}, line {rows.line_num}: has more than {ROWS_MAX} rows")
            if any(cell.strip() for cell in row):
                yield _row(headings, columns, row, f"line {rows.line_num}", source)
    except csv.Error as error:
        raise ConfigurationError(f"{where}, line {rows.line_num}: is not CSV: {plain(error)}") from None


def _headings(rows: Iterator[list[str]], where: str) -> list[str]:
    for row in (row for _, row in zip(range(_HEADER_ROWS_MAX), rows, strict=False)):
        columns = _columns(row)
        if "name" in columns and columns.keys() & {"website", "opt_out", "email"}:
            return row[:COLUMNS_MAX]
    raise ConfigurationError(
        f"{where}, line 1: has no known format: a list of brokers has headings for the name and for the website, "
        "the opt-out address or the email address"
    )


def _columns(headings: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the columns that hold each kind of value."""
    columns: dict[str, list[int]] = {}
    for at, heading in enumerate(headings[:COLUMNS_MAX]):
        words = " ".join(re.findall(r"[a-z0-9]+", one_line(heading).lower()))
        kind = next((kind for kind, pattern in _HEADINGS.items() if re.fullmatch(pattern, words)), None)
        if kind and kind != "statistics":
            columns.setdefault(kind, []).append(at)
    return columns


def _source(headings: Sequence[str], where: str) -> Source:
    text = " ".join(headings).lower()
    if "optery" in text or "optery" in where.lower():
        terms = "free for education and research; attribute it to Optery"
        return Source(f"Optery's data brokers directory, {where}", terms)
    words = re.findall("[a-z]+", text)
    if " ".join(words).startswith("data broker name") and "data broker primary" in " ".join(words):
        return Source(f"{_CALIFORNIA}, {where}", "public record; the file names no license")
    return Source(f"a list of data brokers, {where}", "the file names none")


def _row(
    headings: Sequence[str], columns: Mapping[str, list[int]], row: Sequence[str], line: str, source: Source
) -> Draft | Skipped:
    def cells(kind: str) -> list[str]:
        return [row[at].strip() for at in columns.get(kind, ()) if at < len(row) and row[at].strip()]

    trade_names = [text for cell in cells("trade_name") if (text := one_line(cell, NAME_MAX))]
    names = [text for cell in cells("name") if (text := one_line(cell, NAME_MAX))]
    name = next((text for text in trade_names + names if re.search(r"\w", text)), "")
    if not name:
        return Skipped(line, "has no name")
    website = next(filter(None, map(web_address, cells("website") + cells("name"))), None)
    opt_out_url = next(filter(None, map(web_address, cells("opt_out"))), None)
    emails = [match[0] for cell in cells("email") if (match := _EMAIL.search(_AT.sub("@", cell)))]
    url = opt_out_url or website
    if url is None:
        return Skipped(name, f"{line} has no web address")
    procedure = [f"Open {opt_out_url} and ask for the removal of your data."] if opt_out_url else []
    procedure += [f"Send an email to {emails[0]} and ask for the removal of your data."] if emails else []
    procedure += [f"A guide: {address}" for address in filter(None, map(web_address, cells("guide")))]
    procedure += [text for cell in cells("opt_out") if " " in (text := one_line(cell))]
    days = next((int(cell) for cell in cells("days") if re.fullmatch("[0-9]{1,3}", cell)), 0)
    lost = [*_lost(headings, columns, row)]
    lost += [
        Lost(kind, "only the first address is used")
        for kind in ("website", "email")
        if any(len(_AT.sub("@", cell).split()) > 1 for cell in cells(kind)) or len(cells(kind)) > 1
    ]
    if opt_out_url is None:
        lost.append(Lost("opt_out_url", "the row has none, so the website stands for it"))
    definition = manual_definition(
        name,
        guide=_guide(name, names, cells("type"), cells("description")),
        procedure=procedure or [f"Open {url} and ask for the removal of your data."],
        opt_out_url=url,
        search={"url": website or url, "no_results": [TO_WRITE]},
        listings={"item": TO_WRITE, "name": TO_WRITE, "reference_id": TO_WRITE},
        removal={"processing_days": days} if 0 < days <= DAYS_MAX else {},
    )
    return Draft(
        definition,
        replace(source, origin=f"{source.origin}, {line}"),
        tuple(lost),
        address=emails[0].lower() if opt_out_url and emails else "",
        template="ccpa" if source.origin.startswith(_CALIFORNIA) else "neutral",
    )


def _guide(name: str, names: Sequence[str], kinds: Sequence[str], descriptions: Sequence[str]) -> str:
    registered = f", registered as {names[0]}" if names and names[0] != name else ""
    kind = f" ({one_line(kinds[0], 60)})" if kinds else ""
    sentences = re.match(r".{0,400}\.(?= |$)", one_line(descriptions[0])) if descriptions else None
    return f"{name} is a data broker{kind}{registered}." + (f" {sentences[0]}" if sentences else "")


def _lost(headings: Sequence[str], columns: Mapping[str, list[int]], row: Sequence[str]) -> Iterator[Lost]:
    used = {at for numbers in columns.values() for at in numbers}
    for at, cell in enumerate(row):
        if at not in used and cell.strip():
            heading = one_line(headings[at], 60) if at < len(headings) else ""
            yield Lost(f"column {at + 1}, {heading or 'without a heading'}", "a definition has no such key")
