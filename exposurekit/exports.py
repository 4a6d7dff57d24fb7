"""Exports: tables as CSV, Excel or Parquet, and the manual work as Markdown, iCalendar, Excel or CSV."""

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, BinaryIO

import icalendar
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import exposurekit
from exposurekit.analysis.manual_tasks import (
    AGE,
    CONTAINS,
    LISTED_NAME,
    LOCATIONS,
    NO_VALUE_TEXTS,
    PAGE_TITLE,
    REFERENCE,
    Task,
)
from exposurekit.errors import InvalidArgument, NotFound, warn
from exposurekit.exposure import Exposure
from exposurekit.frames import TABLES, from_arrow
from exposurekit.frames.arrow import ArrowTable
from exposurekit.history import History
from exposurekit.privacy import pseudonyms
from exposurekit.privacy.redaction import PERSONAL, redacted, with_index
from exposurekit.questions import QUESTIONS
from exposurekit.reports import leak_check
from exposurekit.reports.data import ReportData, ReportSource
from exposurekit.reports.manual_steps import removals
from exposurekit.reports.model import Removal
from exposurekit.system.atomic_files import output_path, write_output
from exposurekit.text import formatting
from exposurekit.text.sanitize import coded, link_text, marked_down, plain, pointed_at
from exposurekit.text.urls import host

EXCEL_ROWS = 1_048_575  # below the header
EXCEL_CHARACTERS = 32_767  # in a cell, in UTF-16
EXCEL_LINKS, EXCEL_LINK_CHARACTERS = 65_530, 2_079
_BIRTH_DATE = "birth_date"
_EXACT_MAX = 2**53  # a spreadsheet's numbers are float64
_EXCEL_EPOCH = datetime(1900, 3, 1)  # noqa: DTZ001  its calendar is wrong before
_WIDTH_MIN, _WIDTH_MAX, _WIDTH_SAMPLE = 6, 60, 1_000
_LINK_COLUMNS = ("href", "url", "link_url", "link", "begin at")
_PRIORITY_LAST = 9
_BEGIN = "Begin at"
_CONFIDENTIAL = (
    "Confidential: this file contains personal data. Show it only to people who need it for these removals."
)
_ITEM_COLUMNS = ("user_id", "record_id", "minutes")  # of the work queue
_PRODUCER = "exposurekit"
_TABLE_NAMES = {*TABLES, *QUESTIONS}
_COLUMNS = {column.name for columns in TABLES.values() for column in columns} | PERSONAL  # of our tables


def export(
    what: pd.DataFrame | ArrowTable | Exposure | History,
    path: str | os.PathLike[str],
    *,
    user: int | str | None = None,
    include_personal: bool = False,
    exposure: Exposure | None = None,
    source: Exposure | History | None = None,
) -> Path:
    """Write a table, or the manual work, to a file that only its owner can read. A failed export writes nothing.

    Args:
        what: A table of `Exposure`, `History` or `analysis`, also one of Polars or DuckDB, as ``.csv``, ``.xlsx`` or
            ``.parquet``; or an `Exposure` or a
            `History`, for its manual work as ``.md`` (a checklist), ``.ics`` (tasks), ``.xlsx`` or ``.csv``, with the facts
            that identify each listing and the values to enter. The rows of the last two have the ``user_id``, ``record_id``
            and ``minutes`` of the work queue (whole ones, as in a report), so that they can be joined to other tables.
        path: The file; its ending selects the format.
        user: Only the manual work of this person: an id, or with an exposure a name.
        exposure: For the manual work of a history: adds the names and values on file.
        include_personal: Whether to include personal data. By default a table keeps only harmless columns
            (`redaction.redacted`); the manual work keeps only texts that at least five people share, with each listing
            by site and pseudonym; a warning says so if nothing is left. The result is then searched for personal
            values. A table with a row per listing or
            person, and the manual work, are pseudonymised and not anonymous: a reader who knows a person's listings can
            find that person's rows, and by the pseudonym or id the others.
        source: The origin of a table: its provenance is noted in Excel, and a redacted table is searched for the personal
            values of everyone there; None: for the values in the table itself.

    Returns:
        The path.

    Raises:
        InvalidArgument: The ending is unknown, or Excel cannot hold the table.
        ConfigurationError: The file cannot be written.
        DiskFull: No space is left for the file.
        Leak: The result contains a personal value although it should not; nothing is written.

    Text is never a formula in CSV and Excel. Excel has a sheet that is called ``manual work``, or as the file if that is the
    name of a table or a question (``records.xlsx``), else ``table``; column widths, wrapped text, a frozen header, links for web
    addresses, and the source on a second sheet. Instants are UTC. Excel and CSV hold lists as text, with ``"; "`` between
    the items (steps and values to enter in Excel: each on a line); an item that contains ``"; "`` itself is split, too,
    and only Parquet keeps lists as they are. In Excel days before March 1900 are text, because its calendar is wrong there.

    >>> ek.export(exposure.records(), "records.csv", include_personal=True).name
    'records.csv'
    >>> print(ek.export(exposure, "queue.md", include_personal=True).read_text().splitlines()[0])
    # Manual work
    """
    file = output_path(path)
    if isinstance(what, ArrowTable) and not isinstance(what, pd.DataFrame):
        what = from_arrow(what)
    if isinstance(what, pd.DataFrame):
        if user is not None:
            raise InvalidArgument("user goes with the manual work; filter the rows of a table yourself")
        if exposure is not None:
            raise InvalidArgument(
                "exposure goes with the manual work of a history; the origin of a table is source"
            )
        # Not any name of a file: it may be a person's, and a renamed file would keep it inside.
        name = file.stem if file.stem in _TABLE_NAMES else "table"
        table = write_table(what, file, name=name, include_personal=include_personal, source=source)
        if omitted := [str(column) for column in what.columns if column not in table.columns]:
            named = ", ".join(name for name in omitted if name in _COLUMNS)  # others may be names of people
            are = "is" if len(omitted) == 1 else "are"
            count = f"{len(omitted)} of {formatting.pluralize(len(what.columns), 'column')} {are} left out"
            advice = "include_personal=True also writes columns that may be personal"
            warn(f"{count}{named and f' ({named})'}: {advice}.")
        return file
    if not isinstance(what, Exposure | History):
        raise InvalidArgument("Pass a DataFrame; or an Exposure or a History, for its manual work")
    if source is not None:
        raise InvalidArgument(
            "source is the origin of a table; for the manual work of a history, pass exposure="
        )
    if exposure is not None and not (isinstance(what, History) and isinstance(exposure, Exposure)):
        raise InvalidArgument(
            "exposure must be an Exposure, beside a History: ek.export(history, 'queue.xlsx', exposure=exposure)"
        )
    written = write_queue(what, file, user=user, include_personal=include_personal, exposure=exposure)
    if omission := written.omission("pass include_personal=True"):
        warn(omission)
    return file


def write_table(
    table: pd.DataFrame,
    file: Path,
    *,
    name: str,
    include_personal: bool,
    source: Exposure | History | None,
    stream: BinaryIO | None = None,
) -> pd.DataFrame:
    """Write a table to a file, as `export` does, or to a stream in the format of that file, and return what was written.

    `name` is that of its sheet in a workbook.
    """
    encode = _encoder(file, _TABLES, "a table")
    written = table if include_personal else _harmless(table, source)
    _write(encode(written, _about(written, source, is_named=include_personal), name), file, stream)
    return written


def _write(content: bytes, file: Path, stream: BinaryIO | None) -> None:
    if stream is None:
        write_output(file, content)
    else:
        stream.write(content)


@dataclass(frozen=True, slots=True)
class WrittenQueue:
    """What an export of the manual work contains."""

    tasks: int  # listings and web pages
    omitted_kinds: int  # kinds of removals that are omitted, because too few people share their steps
    is_noted: bool  # whether the file says so

    def omission(self, advice: str) -> str:
        """What is omitted, and what to do; empty if nothing is, or if the file has work and says what it omits."""
        if not self.omitted_kinds or (self.tasks and self.is_noted):
            return ""
        [why] = _omitted_note(self.omitted_kinds)
        rows = "" if self.tasks else "0 rows: "
        return f"{rows}{why.partition(';')[0]}. To write everything, {advice}."


def write_queue(
    what: Exposure | History,
    file: Path,
    *,
    user: int | str | None,
    include_personal: bool,
    exposure: Exposure | None,
    stream: BinaryIO | None = None,
) -> WrittenQueue:
    """Write the manual work to a file, as `export` does, or to a stream in the format of that file."""
    encode_queue = _encoder(file, _QUEUES, "the manual work")
    origin = ReportSource(
        what,
        exposure=exposure,
        user=user,
        pseudonyms=None if include_personal else pseudonyms.load_pseudonyms(),
    )
    data = origin.load(("work_queue",))
    queue, omitted_kinds = _queue(data)
    content = encode_queue(data, queue, omitted_kinds)
    if not include_personal:
        is_text = encode_queue is not _queue_excel
        text = content.decode() if is_text else formatting.as_csv(_queue_table(data, queue))
        sites = () if data.sharing is None else data.sharing.sites
        lines = re.sub(r"\r\n[ \t]", "", text).splitlines()
        leak_check.check_texts(lines, origin.exposure, origin.history, public_names=sites)
    _write(content, file, stream)
    n_tasks = sum(len(one.tasks) for one in queue)
    return WrittenQueue(n_tasks, omitted_kinds, is_noted=encode_queue is not _queue_csv)


def _harmless(table: pd.DataFrame, source: Exposure | History | None) -> pd.DataFrame:
    harmless = with_index(redacted(table))
    if source is not None:
        cells = harmless.select_dtypes(exclude=["number", "datetimetz"])
        texts = [str(cell) for _, column in cells.items() for cell in column.explode().dropna().unique()]
        exposure, history = (source, None) if isinstance(source, Exposure) else (None, source)
        leak_check.check_texts([*texts, *map(str, harmless.columns)], exposure, history)
    return harmless


def _encoder(file: Path, encoders: Mapping[str, Callable[..., bytes]], subject: str) -> Callable[..., bytes]:
    suffix = file.suffix.lower()
    if (encoder := encoders.get(suffix)) is None and suffix in _QUEUES:
        raise InvalidArgument(
            f"{suffix} is for the manual work: pass an Exposure or a History; a table can be {', '.join(_TABLES)}"
        )
    if encoder is None:
        raise InvalidArgument(
            f"The ending of the file selects the format of {subject}: {', '.join(encoders)}"
        )
    return encoder


# --- tables -----------------------------------------------------------------------------------------------


def _about(table: pd.DataFrame, source: Exposure | History | None, *, is_named: bool) -> dict[str, str]:
    """What the second sheet of a workbook says: the source, if it may be named, its time, and the size."""
    about = {"rows": f"{len(table):,}", "made with": f"{_PRODUCER} {exposurekit.__version__}"}
    if source is not None:
        with contextlib.suppress(NotFound):  # an empty history
            as_of = source.as_of if isinstance(source, Exposure) else source.last_run().finished_at
            named = {"source": source.provenance} if is_named else {}
            about = named | {"as of": f"{as_of:%Y-%m-%d %H:%M} UTC"} | about
    return about


def _csv(table: pd.DataFrame, _about: Mapping[str, str], _name: str) -> bytes:
    return formatting.as_csv(_with_days(with_index(table))).encode()


def _with_days(table: pd.DataFrame) -> pd.DataFrame:
    """A table to read: a date of birth is a day, unless one has a time."""
    table = table.copy(deep=False)
    for position, (name, column) in enumerate([*table.items()]):  # a joined table may have two
        if name != _BIRTH_DATE or not isinstance(column.dtype, pd.DatetimeTZDtype):
            continue
        days = column.dt.tz_convert("UTC")
        if not (days != days.dt.normalize())[days.notna()].any():
            table.isetitem(position, days.dt.date.astype("object").where(days.notna(), None))
    return table


def _excel(table: pd.DataFrame, about: Mapping[str, str], name: str) -> bytes:
    table = with_index(table)
    _check_names(table)
    table = _with_days(table)
    if len(table) > EXCEL_ROWS:
        raise InvalidArgument(
            f"Excel holds {EXCEL_ROWS:,} rows, and the table has {len(table):,}: write a .csv or a .parquet"
        )
    flat = pd.DataFrame({str(name): _column(_in_lines(table[name])) for name in table})
    _check_lengths(flat)
    notes = pd.DataFrame({"about": [*about], "value": [*about.values()]}, dtype="object")
    file = io.BytesIO()
    # All text is text: no formulas, and links only where `_write_links` creates them. Nothing is in temporary files.
    text = dict.fromkeys(["strings_to_formulas", "strings_to_urls", "strings_to_numbers"], False)
    options = {**text, "in_memory": True}
    with pd.ExcelWriter(file, engine="xlsxwriter", engine_kwargs={"options": options}) as writer:
        wrapped = writer.book.add_format({"text_wrap": True, "valign": "top"})
        for sheet, rows in {name: flat, "about": notes}.items():
            is_table = rows is flat
            rows.to_excel(writer, index=False, sheet_name=sheet, freeze_panes=(1, 0), autofilter=is_table)
            for position, column in enumerate(rows):
                writer.sheets[sheet].set_column(position, position, _width(rows[column]), wrapped)
        _write_links(writer.sheets[name], flat)
    return file.getvalue()


def _width(column: "pd.Series[Any]") -> int:
    """The longest line of a column, in characters, within limits; measured on the first rows."""
    cells = column.head(_WIDTH_SAMPLE).dropna().map(formatting.format_value)
    lines = [len(line) for text in (str(column.name), *cells) for line in text.split("\n")]
    return min(max(*lines, _WIDTH_MIN) + 2, _WIDTH_MAX)


def _write_links(sheet: Any, flat: pd.DataFrame) -> None:
    """Make web addresses clickable, as far as Excel allows; the cell shows the address itself."""
    cells = (
        (row, column, text)
        for column, name in enumerate(flat)
        if name in _LINK_COLUMNS
        for row, text in enumerate(flat[name].tolist(), 1)
        if isinstance(text, str) and len(text) <= EXCEL_LINK_CHARACTERS and link_text(text)
    )
    for (row, column, text), _ in zip(cells, range(EXCEL_LINKS), strict=False):
        sheet.write_url(row, column, text.strip(), string=text)


def _parquet(table: pd.DataFrame, _about: Mapping[str, str], _name: str) -> bytes:
    file, table = io.BytesIO(), with_index(table)
    _check_names(table)
    try:
        arrow = pa.Table.from_pandas(table, preserve_index=False)
    except (pa.ArrowException, OverflowError):  # its message contains the value
        raise InvalidArgument(
            "A column holds values of several kinds, or integers of more than 64 bits, which Parquet cannot: "
            "make them one kind, or write a .csv"
        ) from None
    # The items of lists have Arrow's name, so that the type of a list is the same again.
    described = arrow.replace_schema_metadata(_pandas_metadata(arrow))
    pq.write_table(described, file, use_compliant_nested_type=False)
    return file.getvalue()


def _pandas_metadata(arrow: pa.Table) -> dict[str, str]:
    """The dtypes by which pandas reads a table again; it cannot parse its own names of some, such as lists of texts."""
    metadata = json.loads(arrow.schema.metadata[b"pandas"])
    for column in metadata["columns"]:
        try:
            pd.api.types.pandas_dtype(column["numpy_type"])
        except TypeError:
            column["numpy_type"] = "object"
    return {"pandas": json.dumps(metadata)}


def _in_lines(column: "pd.Series[Any]") -> "pd.Series[Any]":
    if column.name not in ("opt_out_procedure", "form_values"):
        return column
    numbered = "{}. {}" if column.name == "opt_out_procedure" else "{1}"

    def lines(texts: Any) -> str | None:
        if formatting.is_missing(texts) or isinstance(texts, str):
            return None
        return "\n".join(numbered.format(number, text) for number, text in enumerate(texts, 1))

    return pd.Series([lines(texts) for texts in column], column.index, dtype="str")


def _column(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """A column as a spreadsheet can hold it: instants without a zone; as text, lists, days before its calendar and large integers."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    is_integer = pd.api.types.is_integer_dtype(column.dtype)
    if (
        is_integer and (column.abs() > _EXACT_MAX).any()
    ):  # a spreadsheet rounds them, such as the keys of a history
        return column.astype("str")
    is_days = pd.api.types.is_datetime64_dtype(column.dtype)
    if pd.api.types.is_numeric_dtype(column.dtype) or (is_days and not (column < _EXCEL_EPOCH).any()):
        return column
    return column.astype("object").map(_cell, na_action="ignore")


def _cell(value: Any) -> Any:
    if not isinstance(value, date):
        return formatting.join_list(value)
    if isinstance(value, datetime) and value.tzinfo:
        value = value.astimezone(UTC).replace(tzinfo=None)
    is_early = (value.year, value.month) < (_EXCEL_EPOCH.year, _EXCEL_EPOCH.month)
    return str(value).removesuffix(" 00:00:00") if is_early else value


def _check_names(table: pd.DataFrame) -> None:
    """Raise if two columns have one name, as after a join in SQL."""
    if table.columns.map(str).has_duplicates:
        raise InvalidArgument("Two columns of the table have the same name: rename one, or write a .csv")


def _check_lengths(flat: pd.DataFrame) -> None:
    """Raise if a text is longer than a cell, which Excel would cut."""
    for position, (name, column) in enumerate(flat.items(), 1):
        longest = max(len(str(one).encode("utf-16-le", "surrogatepass")) // 2 for one in (name, *column))
        if longest > EXCEL_CHARACTERS:
            raise InvalidArgument(
                f"Excel holds {EXCEL_CHARACTERS:,} characters in a cell, and column {position} of the table has "
                f"{longest:,} in one: write a .csv or a .parquet"
            )


# --- the manual work --------------------------------------------------------------------------------------


def _queue(data: ReportData) -> tuple[tuple[Removal, ...], int]:
    """Return the removals that the file may contain, and the number of kinds that are omitted."""
    every = removals(data["work_queue"], as_of=data.as_of.date())
    content = every if data.sharing is None else data.sharing.removals(every, data.user)
    return content, len(every) - len(content)


def _markdown(data: ReportData, queue: tuple[Removal, ...], omitted_kinds: int) -> bytes:
    lines = ["# Manual work", "", *_notice(data), data.source_line, ""]
    lines += [line for note in _notes(queue) for line in (note, "")]
    on_file: dict[int | None, set[tuple[str, str]]] = {}  # of each person, what is listed already
    if not queue and not omitted_kinds:
        lines += ["Nothing.", ""]
    for position, one in enumerate(queue, 1):
        lines += [f"## {position}. {marked_down(_title(one))}", "", marked_down(one.amount), ""]
        lines += [marked_down(one.guide), ""] if one.guide else []
        lines += [line for text in one.preparations for line in (text, "")]
        lines += [f"{number}. {marked_down(step)}" for number, step in enumerate(one.steps, 1)]
        lines += [""] if one.steps else []
        lines += [f"Begin at {pointed_at(one.begin)}", ""] if one.begin else []
        if one.tasks:
            lines += [f"{one.heading}:", ""]
            for task in one.tasks:
                lines += _checkbox(task, on_file.setdefault(task.user_id, set()), begins=not one.begin)
            lines += [""]
    return "\n".join([*lines, *_omitted_note(omitted_kinds)]).encode()


def _notice(data: ReportData) -> list[str]:
    """Who may see a file with personal data, and an empty line; nothing for one without."""
    return [_CONFIDENTIAL, ""] if data.sharing is None else []


def _checkbox(task: Task, on_file: set[tuple[str, str]], *, begins: bool) -> Iterator[str]:
    """An item with its lines; values that an earlier item of its person shows already are not repeated.

    With ``begins``, it also says where the removal begins.
    """
    yield f"- [ ] **{marked_down(task.person)}**"
    others = {*_other_lines(task)} if task.site else set()
    listed, has_pointer = on_file & others, False
    absences = {value.absence for value in task.entries if value.value is None}
    on_file |= others
    for label, text in _lines(task):
        if (label, text) in listed:
            if not has_pointer:
                yield f"    - {task.value_headings[1]}: see above"
            has_pointer = True
            continue
        if label == _BEGIN and not begins:
            continue
        is_copied = (label.startswith(task.values_label) and text not in absences) or label == REFERENCE
        if text in (task.address, task.begin):
            markup = pointed_at(text)
        else:
            markup = coded(text) if is_copied else marked_down(text)
        yield f"    - {marked_down(label)}: {markup}"


def _lines(task: Task) -> Iterator[tuple[str, str]]:
    yield from task.facts
    yield from (("Note", text) for text in task.warnings)
    if task.address:
        yield "Link", task.address
    if task.begin:
        yield _BEGIN, task.begin
    yield from _values(task)


def _values(task: Task) -> Iterator[tuple[str, str]]:
    yield from ((f"{task.values_label} {label}", text) for label, text in _first_values(task))
    yield from _other_lines(task)


def _other_lines(task: Task) -> Iterator[tuple[str, str]]:
    label = f"{task.value_headings[1]}:" if task.site else task.values_label
    yield from ((f"{label} {name}", text) for name, text in _other_values(task))


def _first_values(task: Task) -> Iterator[tuple[str, str]]:
    """What a form requires, or what a page contains of what is on file."""
    for value in task.values_to_enter:
        required = " (required)" if value.required and not value.is_alternative else ""
        yield f"{value.choice_label}{required}", value.value or value.absence


def _other_values(task: Task) -> Iterator[tuple[str, str]]:
    """What a form may ask for; for a page, the name, and all that is on file if its kinds of data are not known."""
    for value in task.other_values:
        if task.site or not task.page_fields or value.name == "name":
            yield value.choice_label, value.value or value.absence


def _calendar(data: ReportData, queue: tuple[Removal, ...], omitted_kinds: int) -> bytes:
    calendar = icalendar.Calendar()
    calendar.add("prodid", f"-//{_PRODUCER}//manual removals//EN")
    calendar.add("version", "2.0")
    if data.sharing is None:
        calendar.add("x-wr-calname", "Manual removals (confidential: personal data)")
    for position, one in enumerate(queue, 1):
        for number, task in enumerate(one.tasks or [None], 1):
            calendar.add_component(_todo(one, task, position, number, data))
    for line in (*_notes(queue), *_omitted_note(omitted_kinds)):
        calendar.add("comment", line)
    ical: bytes = calendar.to_ical()
    return ical


def _todo(one: Removal, task: Task | None, position: int, number: int, data: ReportData) -> icalendar.Todo:
    todo = icalendar.Todo()
    todo.add("uid", f"{_digest(one, task, number)}@{_PRODUCER}")
    todo.add("dtstamp", data.as_of)
    about = one.amount if task is None else f"{task.line} ({task.person})" if task.facts else task.person
    todo.add("summary", plain(f"{_title(one)}: {about}"))
    steps = [f"{number}. {step}" for number, step in enumerate(one.steps, 1)]
    facts = [] if task is None else [f"Person: {task.person}", *(": ".join(pair) for pair in _lines(task))]
    lines = [*facts, *([one.guide] if one.guide else []), *one.preparations, *steps]
    todo.add("description", "\n".join(map(plain, lines)))
    todo.add("priority", min(position, _PRIORITY_LAST))
    todo.add("status", "NEEDS-ACTION")
    return todo


def _digest(one: Removal, task: Task | None, number: int) -> str:
    """The same id for the same work in every export, so that a calendar replaces the older one."""
    parts = [one.site or "", one.guide or "", *one.steps]
    if task:
        # Without what changes by itself: a site that knows a year of birth shows another age each year.
        facts = [text for label, text in task.facts if label not in (AGE, LOCATIONS, CONTAINS)]
        parts += [task.person, *facts, task.address or ""]
    if not (task and _is_distinct(task)):
        parts.append(str(number))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _is_distinct(task: Task) -> bool:
    """Whether its address or reference distinguishes a listing from others of its person and site; no pseudonym has one."""
    reference = dict(task.facts).get(REFERENCE)
    return bool(task.facts) and (bool(task.address) or reference not in (None, *NO_VALUE_TEXTS))


def _queue_table(data: ReportData, queue: tuple[Removal, ...]) -> pd.DataFrame:
    """One row per listing or page, in order; the ids and minutes are those of the work queue, missing for a pseudonym."""
    items = {(row.user_id, row.alert_number): row for row in data["work_queue"].itertuples()}
    rows = [
        {
            "done": "",
            "site": one.site or host(task.address) or _title(one),
            "person": task.person.removesuffix(f" (user {task.user_id})"),
            **_item_columns(items.get((task.user_id, task.alert_number))),
            **{label.lower(): text for label, text in task.facts},
            "link": task.address,
            "begin at": task.begin,
            "enter": "\n".join(map(": ".join, _first_values(task))),
            "if the form asks": "\n".join(map(": ".join, _other_values(task))),
            "note": "\n".join((*task.warnings, *one.preparations)),
            "guide": one.guide,
            "steps": "\n".join(f"{number}. {step}" for number, step in enumerate(one.steps, 1)),
        }
        for one in queue
        for task in one.tasks
    ]
    columns = ["done", "site", "person", *_ITEM_COLUMNS, LISTED_NAME.lower(), "age", "locations", "reference", PAGE_TITLE.lower(), "contains", "link", "begin at", "enter", "steps", "note", "guide", "if the form asks"]  # fmt: skip
    table = pd.DataFrame(rows, columns=columns, dtype="object")
    return table.astype(dict.fromkeys(_ITEM_COLUMNS, "Int64"))


def _item_columns(item: Any) -> dict[str, Any]:
    return {name: getattr(item, name, pd.NA) for name in _ITEM_COLUMNS}


def _queue_csv(data: ReportData, queue: tuple[Removal, ...], _omitted_kinds: int) -> bytes:
    return formatting.as_csv(_queue_table(data, queue)).encode()


def _queue_excel(data: ReportData, queue: tuple[Removal, ...], omitted_kinds: int) -> bytes:
    notes = [*_notes(queue), *_omitted_note(omitted_kinds)]
    about = data.provenance() | ({"note": "\n".join(notes)} if notes else {})
    return _excel(_queue_table(data, queue), about, "manual work")


def _title(one: Removal) -> str:
    return one.site or "A web page"


def _notes(queue: tuple[Removal, ...]) -> list[str]:
    return [*dict.fromkeys(task.note for one in queue for task in one.tasks if task.note)]


def _omitted_note(kinds: int) -> list[str]:
    if not kinds:
        return []
    subject = "1 kind of removal is" if kinds == 1 else f"{kinds:,} kinds of removals are"
    return [f"{subject} omitted, because fewer than five people share the steps; a personal export has all."]


_TABLES = {".csv": _csv, ".xlsx": _excel, ".parquet": _parquet}
_QUEUES = {".md": _markdown, ".ics": _calendar, ".xlsx": _queue_excel, ".csv": _queue_csv}
