"""Tables and the manual work as files for other programs. Redacts unless told otherwise; works nothing out."""

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import icalendar
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from exposurekit.analysis.tasks import NOT_ON_FILE, Task
from exposurekit.errors import InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.privacy import pseudonyms
from exposurekit.privacy.redaction import redacted, with_index
from exposurekit.reports import leak_check, write
from exposurekit.reports.data import ReportData, report_data
from exposurekit.reports.manual_steps import removals
from exposurekit.reports.model import Removal
from exposurekit.text import formatting
from exposurekit.text.sanitize import coded, marked_down, plain, pointed_at

ROWS_OF_EXCEL = 1_048_575  # and the names of the columns
CHARACTERS_OF_EXCEL = 32_767  # in a cell, in UTF-16
_CALENDAR_OF_EXCEL = datetime(1900, 3, 1)  # noqa: DTZ001  before it has days that never were, or none at all
_PRIORITY_LAST = 9
_MADE_BY = "exposurekit"


def export(
    what: pd.DataFrame | Exposure | History,
    path: str | os.PathLike[str],
    *,
    user: int | None = None,
    include_personal: bool = False,
    source: Exposure | History | None = None,
) -> Path:
    """Write a table, or the manual work, to a file; whole or not at all, for its owner alone.

    Args:
        what: A table of `Exposure`, `History` or `analysis`, to a ``.csv``, ``.xlsx`` or ``.parquet``; or an `Exposure`
            or a `History`, for what a human must do, to a ``.md`` (a list to tick off), an ``.ics`` (tasks) or an
            ``.xlsx``: a box, a task or a row for each listing, with what tells it from others and what to enter.
        path: Its ending says what it becomes.
        user: The manual work of this person alone.
        include_personal: Whether everything is written. Otherwise of a table the columns that are known to be harmless
            (`redaction.redacted`), and of the manual work what at least five people are told in the same words, each
            listing by its site and a pseudonym; then it is searched for what is known of everyone.
        source: Where a table comes from: what is left of it is searched for all that is known of everyone there. None: for
            what the table itself tells of them. Of the manual work of a history: an `Exposure`, for whose the listings
            are and what to enter.

    Returns:
        The path.

    Raises:
        InvalidArgument: The ending is another, the file cannot be written, or Excel cannot hold the table.
        Leak: What would be written tells a person's data though it should not; nothing is written.

    In CSV and Excel no text is a formula. Instants are UTC; Excel and CSV hold lists as text. In Excel so are days before
    March 1900, where its calendar begins to be right.

    >>> ek.export(exposure.records(), "records.csv").name
    'records.csv'
    >>> print(ek.export(exposure, "queue.md", include_personal=True).read_text().splitlines()[0])
    # What a human must do
    """
    file = Path(path)
    if isinstance(what, pd.DataFrame):
        if user is not None:
            raise InvalidArgument(
                "user goes with the manual work; of a table, give the rows that are about them"
            )
        form = _form(file, _TABLES, "a table")
        write(file, form(what if include_personal else _harmless(what, source)))
        return file
    if not isinstance(what, Exposure | History):
        raise InvalidArgument(
            "What can be exported is a table, or an Exposure or a History for its manual work"
        )
    queue_form = _form(file, _QUEUES, "the manual work")
    beside = source if isinstance(source, Exposure) and isinstance(what, History) else None
    manual = report_data(
        what,
        exposure=beside,
        user=user,
        pseudonyms=None if include_personal else pseudonyms.load_pseudonyms(),
    )
    queue, left_out = _queue(manual)
    content = queue_form(manual, queue, left_out)
    if not include_personal:
        text = formatting.as_csv(_queue_table(queue)) if queue_form is _queue_excel else content.decode()
        leak_check.check_text(
            re.sub(r"\r\n[ \t]", "", text), leak_check.matcher_for(manual.exposure, manual.history)
        )
    write(file, content)
    return file


def _harmless(table: pd.DataFrame, source: Exposure | History | None) -> pd.DataFrame:
    harmless = with_index(redacted(table))
    if source is not None:
        matcher = leak_check.matcher_for(
            *((source, None) if isinstance(source, Exposure) else (None, source))
        )
        texts = harmless.select_dtypes(exclude=["number", "datetimetz"])
        leak_check.check_text(formatting.as_csv(texts), matcher)
        leak_check.check_text("\n".join(map(str, harmless.columns)), matcher)
    return harmless


def _form(file: Path, forms: Mapping[str, Callable[..., bytes]], subject: str) -> Callable[..., bytes]:
    if (form := forms.get(file.suffix.lower())) is None:
        raise InvalidArgument(
            f"The ending of the file says what {subject} becomes: one of {', '.join(forms)}"
        )
    return form


# --- tables -----------------------------------------------------------------------------------------------


def _csv(table: pd.DataFrame) -> bytes:
    return formatting.as_csv(with_index(table)).encode()


def _excel(table: pd.DataFrame) -> bytes:
    table = with_index(table)
    if len(table) > ROWS_OF_EXCEL:
        raise InvalidArgument(
            f"Excel holds {ROWS_OF_EXCEL:,} rows, and the table has {len(table):,}: write a .csv or a .parquet"
        )
    flat = _flat(table)
    _check_lengths(flat)
    file = io.BytesIO()
    # Text is text there, whatever it begins with, and no address becomes a link.
    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with pd.ExcelWriter(file, engine="xlsxwriter", engine_kwargs={"options": options}) as to:
        flat.to_excel(to, index=False, sheet_name="exposurekit", freeze_panes=(1, 0), autofilter=True)
    return file.getvalue()


def _parquet(table: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    # Without what pandas would note of its own types: it could not read all of them again.
    try:
        arrow = pa.Table.from_pandas(with_index(table), preserve_index=False)
    except pa.ArrowException:  # it would tell the value
        raise InvalidArgument(
            "A column holds values of several kinds, which Parquet cannot: make them one, or write a .csv"
        ) from None
    pq.write_table(arrow.replace_schema_metadata(None), file)
    return file.getvalue()


def _flat(table: pd.DataFrame) -> pd.DataFrame:
    """As a spreadsheet can hold it: instants without their zone; lists, and days before its calendar, as text."""
    return pd.DataFrame({str(name): _column(_in_lines(table[name])) for name in table})


def _in_lines(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Steps, numbered, and what to enter, each on a line of its own."""
    if column.name not in ("opt_out_procedure", "form_values"):
        return column
    numbered = "{}. {}" if column.name == "opt_out_procedure" else "{1}"

    def lines(texts: Any) -> str | None:
        if formatting.is_missing(texts) or isinstance(texts, str):
            return None
        return "\n".join(numbered.format(number, text) for number, text in enumerate(texts, 1))

    return pd.Series([lines(texts) for texts in column], column.index, dtype="str")


def _column(column: "pd.Series[Any]") -> "pd.Series[Any]":
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    is_days = pd.api.types.is_datetime64_dtype(column.dtype)
    if pd.api.types.is_numeric_dtype(column.dtype) or (is_days and not (column < _CALENDAR_OF_EXCEL).any()):
        return column
    return column.astype("object").map(_cell, na_action="ignore")


def _cell(value: Any) -> Any:
    if not isinstance(value, date):
        return formatting.join_list(value)
    if isinstance(value, datetime) and value.tzinfo:
        value = value.astimezone(UTC).replace(tzinfo=None)
    is_early = (value.year, value.month) < (_CALENDAR_OF_EXCEL.year, _CALENDAR_OF_EXCEL.month)
    return str(value).removesuffix(" 00:00:00") if is_early else value


def _check_lengths(flat: pd.DataFrame) -> None:
    """Say so where a text is longer than a cell: it would be cut there."""
    for position, (name, column) in enumerate(flat.items(), 1):
        longest = max(len(str(one).encode("utf-16-le", "surrogatepass")) // 2 for one in (name, *column))
        if longest > CHARACTERS_OF_EXCEL:
            raise InvalidArgument(
                f"Excel holds {CHARACTERS_OF_EXCEL:,} characters in a cell, and column {position} of the table has "
                f"{longest:,} in one: write a .csv or a .parquet"
            )


# --- the manual work --------------------------------------------------------------------------------------


def _queue(data: ReportData) -> tuple[tuple[Removal, ...], int]:
    """What may be told of it, and how many kinds are left out."""
    every = removals(data.queue)
    content = every if data.sharing is None else data.sharing.removals(every, data.user)
    return content, len(every) - len(content)


def _markdown(data: ReportData, queue: tuple[Removal, ...], left_out: int) -> bytes:
    lines = ["# What a human must do", "", data.source_line, ""]
    lines += [text for note in _missing(queue) for text in (note, "")]
    if not queue and not left_out:
        lines += ["Nothing.", ""]
    for position, one in enumerate(queue, 1):
        lines += [f"## {position}. {marked_down(_person_label(one))}", "", one.amount, ""]
        lines += [marked_down(one.guide), ""] if one.guide else []
        lines += [f"{number}. {marked_down(step)}" for number, step in enumerate(one.steps, 1)]
        lines += [""] if one.steps else []
        lines += (
            [f"{one.heading}:", "", *(line for task in one.tasks for line in _item(task)), ""]
            if one.tasks
            else []
        )
    lines += _columns_left_out(left_out)
    return "\n".join(lines).encode()


def _tasks(data: ReportData, queue: tuple[Removal, ...], left_out: int) -> bytes:
    calendar = icalendar.Calendar()
    calendar.add("prodid", f"-//{_MADE_BY}//manual removals//EN")
    calendar.add("version", "2.0")
    for position, one in enumerate(queue, 1):
        for number, task in enumerate(one.tasks or [None], 1):
            calendar.add_component(_task(one, task, position, number, data))
    for line in (*_missing(queue), *_columns_left_out(left_out)):
        calendar.add("comment", line)
    ical: bytes = calendar.to_ical()
    return ical


def _item(task: Task) -> Iterator[str]:
    """One listing: a box to tick, what tells it from others, and what to enter."""
    yield f"- [ ] **{marked_down(task.person)}**"
    for label, text in _lines(task):
        is_copied = (label.startswith(task.values_label) and text != NOT_ON_FILE) or label == "Reference"
        if text in (task.address, task.begin):
            markup = pointed_at(text)
        else:
            markup = coded(text) if is_copied else marked_down(text)
        yield f"    - {marked_down(label)}: {markup}"


def _lines(task: Task) -> Iterator[tuple[str, str]]:
    """What there is to say of a listing beside whose it is: labels and texts."""
    yield from task.facts
    if task.address:
        yield ("Listing" if task.site else "Open"), task.address
    if task.begin:
        yield "Begin at", task.begin
    yield from _entered(task)


def _entered(task: Task) -> Iterator[tuple[str, str]]:
    for value in task.entries:
        is_required = " (required)" if value.required else ""
        yield (
            f"{task.values_label} {value.label}{is_required}",
            NOT_ON_FILE if value.value is None else value.value,
        )


def _task(one: Removal, task: Task | None, position: int, number: int, data: ReportData) -> icalendar.Todo:
    todo = icalendar.Todo()
    todo.add("uid", f"{_digest(one, task, number)}@{_MADE_BY}")
    todo.add("dtstamp", data.as_of)
    about = one.amount if task is None else f"{task.line} ({task.person})" if task.facts else task.person
    todo.add("summary", plain(f"{_person_label(one)}: {about}"))
    steps = [f"{number}. {step}" for number, step in enumerate(one.steps, 1)]
    facts = [] if task is None else [f"Person: {task.person}", *(": ".join(pair) for pair in _lines(task))]
    lines = [*facts, *([one.guide] if one.guide else []), *steps]
    todo.add("description", "\n".join(map(plain, lines)))
    todo.add("priority", min(position, _PRIORITY_LAST))
    todo.add("status", "NEEDS-ACTION")
    return todo


def _digest(one: Removal, task: Task | None, number: int) -> str:
    """The same work has the same name in every export, so that a program takes the newer one for it."""
    kind = [one.site or "", one.guide or "", *one.steps]
    listing = (
        [task.person, *(text for pair in task.facts for text in pair), task.address or ""] if task else []
    )
    same = (
        [] if task and task.facts else [str(number)]
    )  # of somebody who goes by a pseudonym, nothing else tells them apart
    return hashlib.sha256("\0".join([*kind, *listing, *same]).encode()).hexdigest()[:32]


def _queue_table(queue: tuple[Removal, ...]) -> pd.DataFrame:
    """One row a listing, with all that is needed for it."""
    rows = [
        {
            "done": "",
            "site": _person_label(one),
            "person": task.person,
            **{label.lower(): text for label, text in task.facts},
            "address": task.address,
            "begin_at": task.begin,
            "enter": "\n".join(
                f"{label.removeprefix(task.values_label).strip()}: {text}" for label, text in _entered(task)
            ),
            "guide": one.guide,
            "steps": "\n".join(f"{number}. {step}" for number, step in enumerate(one.steps, 1)),
        }
        for one in queue
        for task in one.tasks
    ]
    columns = ["done", "site", "person", "name", "age", "places", "reference", "page", "contains", "address", "begin_at", "enter", "guide", "steps"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns, dtype="object")


def _queue_excel(data: ReportData, queue: tuple[Removal, ...], left_out: int) -> bytes:
    rows = _queue_table(queue)
    content = [data.source_line, *_missing(queue), *_columns_left_out(left_out)]
    return _excel(pd.concat([rows, pd.DataFrame({"guide": content}, dtype="object")]).astype("object"))


def _person_label(one: Removal) -> str:
    return one.site or "A web page"


def _missing(queue: tuple[Removal, ...]) -> list[str]:
    """What is missing of the tasks, once for the file."""
    return [*dict.fromkeys(task.note for one in queue for task in one.tasks if task.note)]


def _columns_left_out(many: int) -> list[str]:
    if not many:
        return []
    kinds = "1 kind of removal is" if many == 1 else f"{many:,} kinds of removals are"
    return [f"{kinds} left out, as fewer than five people are told the same; a personal export has all."]


_TABLES = {".csv": _csv, ".xlsx": _excel, ".parquet": _parquet}
_QUEUES = {".md": _markdown, ".ics": _tasks, ".xlsx": _queue_excel}
