"""An explorer queries Parquet files and relations with SQL, and displays what it displays of the same table in memory."""

import itertools
import re
import stat
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import ipywidgets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from support import widget_controls as kit
from support.full_disk import file_size_limit

from exposurekit.errors import ConfigurationError, DiskFull, InvalidArgument, NotFound
from exposurekit.widgets import Explorer
from exposurekit.widgets.column_summary import ROWS_MAX
from exposurekit.widgets.frame_rows import CHOICES_MAX
from exposurekit.widgets.multi_select import MultiSelect
from exposurekit.widgets.table_filter import Filter
from exposurekit.widgets.textbox import TextBox

LARGE = 9007199254790993  # no float64 is equal
HOSTILE = 'x"; DROP TABLE rows; --'
TEXTS = [
    "Ann",
    "ann's",
    "100 %",
    "a_b",
    'it\'s "so"',
    "'; DROP TABLE rows; --",
    "=cmd()",
    "back\\slash",
    None,
]
COLUMNS = ["text", "n", "select", HOSTILE, "lists", "at", "day", "share", "price", "kind", "flag"]


def table(size=90):
    """Rows with a column of each kind, among them a keyword and a hostile one."""
    numbers = range(size)
    return pa.table(
        {
            "text": [TEXTS[one * 7 % len(TEXTS)] for one in numbers],
            "n": pa.array([None if one % 11 == 0 else one % 5 for one in numbers], pa.int16()),
            "select": [f"{one % 4}" for one in numbers],
            HOSTILE: [f"'{one % 3}\"" for one in numbers],
            "lists": [[["b"], ["a", "c"], None][one % 3] for one in numbers],
            "at": pa.array(
                [datetime(2026, 3, 1 + one % 2, tzinfo=UTC) for one in numbers], pa.timestamp("us", "UTC")
            ),
            "day": [date(2026, 3, 1 + one % 2) for one in numbers],
            "share": [0.1 * (one % 3) for one in numbers],
            "price": [Decimal(one % 3).quantize(Decimal("0.01")) for one in numbers],
            "kind": pa.array([("Seek", "Third")[one % 2] for one in numbers]).dictionary_encode(),
            "flag": [one % 2 == 0 for one in numbers],
        }
    )


ROWS = table()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("it's [a] place") / "rows.parquet"
    pa.parquet.write_table(ROWS, path)
    return path


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as connection:
        yield connection


def opened(kind, file, connection):
    if kind == "file":
        return Explorer(file)
    return Explorer(connection.from_parquet(str(file).replace("[a]", "[[]a]")), name="rows")


BOTH = pytest.mark.parametrize("kind", ["relation", "file"])


def values(frame):
    """The rows as plain values, in order."""
    columns = [
        [
            None if is_missing else plain_value(one)
            for one, is_missing in zip(column.tolist(), column.isna(), strict=True)
        ]
        for _, column in frame.items()
    ]
    return [[*row] for row in zip(*columns, strict=True)]


def plain_value(one):
    if isinstance(one, datetime):  # UTC has several names
        return one.isoformat()
    return [*one] if hasattr(one, "tolist") else one


def arrow_values(rows):
    """The same of an Arrow table, without pandas."""
    return [[*map(plain_value, row.values())] for row in rows.to_pylist()]


def assert_code_selects(explorer):
    """The code selects the displayed rows, which are returned as plain values."""
    names = {"duckdb": duckdb, explorer._table._name: explorer._table._relation}
    selected = eval(explorer.code, names).to_arrow_table()  # noqa: S307  what a notebook would run
    frame = explorer.frame
    displayed = values(frame)
    assert selected.column_names == [*frame.columns]
    assert sorted(map(repr, arrow_values(selected))) == sorted(map(repr, displayed))
    return displayed


@BOTH
def test_a_value_of_any_column_selects_its_rows(kind, file, connection):
    explorer = opened(kind, file, connection)
    for column in COLUMNS:
        if column == "lists":
            continue
        kit.the(explorer, ipywidgets.Dropdown, "Filter by").value = column
        picker = kit.the(explorer, MultiSelect, "Values")
        counts = {value: n for (_, value), (_, n, _) in zip(picker.options, picker.items, strict=True)}
        assert sum(counts.values()) == ROWS[column].length() - ROWS[column].null_count
        # Texts are quoted, and True and False are words of their own; all numbers, and all days, are written alike. A
        # filter does not depend on where the rows are.
        several = {"text", HOSTILE, "flag"} if kind == "file" else ()
        for value in [*counts] if column in several else [*counts][-1:]:
            picker.value = (value,)
            assert explorer.error is None
            assert len(assert_code_selects(explorer)) == counts[value] > 0
        picker.value = ()


@BOTH
def test_search_finds_texts_in_any_case_and_no_pattern(kind, file, connection):
    explorer, rows = opened(kind, file, connection), arrow_values(ROWS)
    texts = ROWS.select(["text", "select", HOSTILE, "kind"]).to_pylist()
    several = ("%", "_", "!", "a_", "\\", "'", '"', "'; DROP", "SEEK", "no") if kind == "file" else ()
    for wanted in ("ann", "100 %", *several):
        explorer.search(wanted)
        matching = [
            position
            for position, row in enumerate(texts)
            if any(wanted.lower() in one.lower() for one in row.values() if one)
        ]
        assert assert_code_selects(explorer) == [rows[position] for position in matching]


def in_order(column, *, ascending):
    """The rows, sorted; those with the same value in the order of the file, missing ones last."""
    rows = arrow_values(ROWS)
    at = COLUMNS.index(column)
    there = sorted(
        (row for row in rows if row[at] is not None), key=lambda row: row[at], reverse=not ascending
    )
    return [*there, *(row for row in rows if row[at] is None)]


@BOTH
def test_pages_of_a_sorted_table_have_each_row_once(kind, file, connection):
    explorer = opened(kind, file, connection)
    columns = COLUMNS if kind == "file" else ("text", "n", "lists")
    for column, ascending in itertools.product(columns, (True, False)):
        kit.tell(kit.grid(explorer), {"sort": column})
        assert kit.grid(explorer).sort == [column, ascending]
        expected = in_order(column, ascending=ascending)
        assert assert_code_selects(explorer) == expected
        cells = [row for _, row in kit.grid(explorer).rows]
        for _ in range(4):
            kit.press(explorer, "Next page")
            cells += [row for _, row in kit.grid(explorer).rows]
        assert [cell[1] for cell in cells] == [
            "—" if row[1] is None else str(int(row[1])) for row in expected
        ]


def test_numbers_and_missing_values_read_as_in_the_file(file):
    cells = kit.grid(Explorer(file)).rows[0][1]
    assert cells == [
        *("Ann", "—", "0", "'0\"", "b", "2026-03-01 00:00:00+00:00", "2026-03-01", "0.0", "0.00", "Seek"),
        "True",
    ]


def test_selected_rows_of_several_files_survive_filters(tmp_path):
    for number in (0, 1):
        (tmp_path / f"year={number}").mkdir()
        pa.parquet.write_table(table(), tmp_path / f"year={number}" / "rows.parquet")
    explorer = Explorer(tmp_path)
    assert repr(explorer) == "Explorer: 180 of 180 rows, 0 selected"
    for _ in range(2):
        kit.tell(kit.grid(explorer), {"sort": "year"})
    [first, *_] = [number for number, _ in kit.grid(explorer).rows]
    kit.tell(kit.grid(explorer), {"row": first, "selected": True})
    kit.tell(kit.grid(explorer), {"sort": "year"})
    assert kit.grid(explorer).selected == []
    kit.tell(kit.grid(explorer), {"row": kit.grid(explorer).rows[3][0], "selected": True})
    assert explorer.selection["year"].tolist() == [0, 1]
    assert explorer.selection["text"].tolist() == [TEXTS[21 % len(TEXTS)], TEXTS[0]]
    assert "**/*.parquet'" in explorer.code
    assert_code_selects(explorer)


def test_code_reads_files_whose_columns_and_names_differ(tmp_path):
    directory, other = tmp_path / "it's [a] {b,c} *?", tmp_path / "it's a b x1"
    for path, rows in (
        (directory / "1.parquet", {"n": [LARGE, None]}),
        (directory / "deeper" / ".2.parquet", {"text": ["Ann"], "n": [2]}),
        (other / "3.parquet", {"n": [3]}),
        (other / "rows.pq", {"n": [4]}),
    ):
        path.parent.mkdir(exist_ok=True)
        pa.parquet.write_table(pa.table(rows), path)
    for path, expected in ((directory, [LARGE, None, 2]), (other, [3]), (other / "rows.pq", [4])):
        explorer = Explorer(path)
        assert explorer.frame["n"].replace({pd.NA: None}).tolist() == expected
        assert_code_selects(explorer)


@pytest.mark.parametrize("name", ["order", "table", "Rows", "größe", "_"])
def test_code_quotes_the_name_of_a_relation(name, connection):
    explorer = Explorer(connection.sql("SELECT range AS n FROM range(3)"), name=name)
    explorer.choose("n", [1, 2])
    assert_code_selects(explorer)


def test_rows_of_a_relation_cannot_be_selected(file, connection):
    explorer = opened("relation", file, connection)
    assert not kit.grid(explorer).has_boxes
    kit.tell(kit.grid(explorer), {"row": 0, "selected": True})
    assert len(explorer.selection) == 0
    assert "selected" not in repr(explorer)


def test_a_file_may_name_columns_like_row_numbers(tmp_path):
    pa.parquet.write_table(pa.table({"file_row_number": [7, 7], "n": [1, 2]}), tmp_path / "odd.parquet")
    explorer = Explorer(tmp_path / "odd.parquet")
    assert not kit.grid(explorer).has_boxes
    explorer.choose("file_row_number", 7)
    assert explorer.frame["n"].tolist() == [1, 2]


@pytest.mark.parametrize("size", [0, 1, ROWS_MAX, 3 * ROWS_MAX])
def test_summaries_of_files_of_any_size(tmp_path, size):
    pa.parquet.write_table(table(size), tmp_path / "rows.parquet")
    explorer = Explorer(tmp_path / "rows.parquet")
    assert explorer.columns == ()
    summaries = kit.grid(explorer).summaries
    assert len(summaries) == len(COLUMNS)
    assert [("estimated from" in one["note"]) for one in summaries] == [size > ROWS_MAX] * len(COLUMNS)
    if size > 1:
        assert summaries[1]["missing"] == "9%"


def test_a_column_of_many_values_is_searched(tmp_path):
    rare = [0] * ROWS_MAX + [*range(CHOICES_MAX + 1)]
    rows = pa.table({"rare": [f"no. {one}" for one in rare], "n": rare})
    pa.parquet.write_table(rows, tmp_path / "rows.parquet")
    explorer = Explorer(tmp_path / "rows.parquet")
    kit.the(explorer, ipywidgets.Dropdown, "Filter by").value = "rare"
    assert kit.alerted(explorer) == "The column has more than 200 values: search for one"
    explorer.choose("rare", [f"no. {CHOICES_MAX}"])
    assert len(explorer.frame) == 1
    explorer.clear()
    kit.the(explorer, ipywidgets.Dropdown, "Filter by").value = "n"
    assert explorer.error is None
    kit.the(explorer, TextBox, "From").value = f"{CHOICES_MAX - 4}"
    assert len(assert_code_selects(explorer)) == 5


@pytest.mark.parametrize(
    ("kind", "ends", "n"),
    [
        ("file", ("n", "2", "3"), 32),
        ("relation", ("n", "2", "3"), 32),
        ("file", ("n", 4, None), 17),
        ("file", ("share", "0.1", None), 60),
        ("file", ("price", None, "1"), 60),
        ("file", ("day", "2026-03-02", None), 45),
        ("file", ("at", "", "2026-03-01"), 45),
        ("relation", ("at", "2026-03-01T12:00", "2026-03-02T00:00Z"), 45),
    ],
)
def test_a_range_selects_the_same_rows_as_in_memory(kind, ends, n, file, connection):
    explorer = opened(kind, file, connection)
    explorer.choose_range(*ends)
    assert len(assert_code_selects(explorer)) == n
    if ends[0] not in ("day", "price"):  # of objects in pandas
        in_memory = Explorer(ROWS)
        in_memory.choose_range(*ends)
        assert values(in_memory.frame) == values(explorer.frame)


@pytest.mark.parametrize("high", [None, 3, 4])
def test_a_range_has_no_nan(high, tmp_path):
    """SQL takes NaN for the greatest number, and the statistics of a file leave it out."""
    pa.parquet.write_table(pa.table({"x": [1.0, float("nan"), 3.0]}), tmp_path / "rows.parquet")
    explorer = Explorer(tmp_path / "rows.parquet")
    explorer.choose_range("x", 2, high)
    assert explorer.frame["x"].tolist() == [3.0]
    assert repr(explorer).startswith("Explorer: 1 of 3 rows")


@pytest.mark.parametrize(
    ("kind", "choice", "message"),
    [
        ("file", ("none", 1), "no such column"),
        ("file", ("n", "'; DROP TABLE rows; --"), "no such value in n: the column has another value or type"),
        ("relation", ("n", "'; DROP TABLE rows; --"), "no such value in n"),
        ("file", ("n", 99), "no such value in n"),
        ("file", ("kind", "Seekfolk"), "no such value in kind"),
        ("file", ("lists", "a"), "the column contains lists"),
        ("file", ("n", 1j), "a complex cannot be picked"),
    ],
)
def test_wrong_columns_and_values_raise_error(kind, choice, message, file, connection):
    explorer = opened(kind, file, connection)
    with pytest.raises(InvalidArgument, match=message):
        explorer.choose(*choice)
    assert len(explorer.frame) == len(ROWS)


def test_wrong_paths_raise_error(tmp_path):
    for name in ("text.parquet", "text.csv"):
        (tmp_path / name).write_text("Odalys Fennimoor")
    for path, error, message in (
        (tmp_path / "none.parquet", NotFound, "No Parquet file there"),
        (tmp_path / "text.parquet", InvalidArgument, "DuckDB cannot read this table"),
        (tmp_path / "text.csv", InvalidArgument, r"opened by path: pass pd\.read_csv\(path\)"),
    ):
        with pytest.raises(error, match=message) as raised:
            Explorer(path)
        assert "Fennimoor" not in str(raised.value)
    with pytest.raises(InvalidArgument, match="create another one"):
        Explorer(_written(tmp_path)).show(pd.DataFrame())


def test_files_of_a_history_are_refused(collected):
    root = Path(collected.path)
    file = next(root.rglob("changes/**/*.parquet"))
    for path in (root.parent, root, root / "changes", file.parent, file):
        with pytest.raises(InvalidArgument, match="also contain deleted and replaced rows") as raised:
            Explorer(path)
        assert str(root) not in str(raised.value)


def _written(directory):
    pa.parquet.write_table(table(), directory / "rows.parquet")
    return directory / "rows.parquet"


def test_a_file_that_is_gone_is_reported_in_the_widget(tmp_path):
    path = _written(tmp_path)
    explorer = Explorer(path)
    path.unlink()
    kit.tell(kit.grid(explorer), {"sort": "n"})
    assert kit.alerted(explorer).startswith("DuckDB cannot read this table")


@BOTH
def test_csv_file_has_the_displayed_rows_with_formulas_escaped(kind, tmp_path, file, connection):
    explorer = opened(kind, file, connection)
    explorer.choose("text", ["=cmd()", "'; DROP TABLE rows; --"])
    explorer.choose_columns(["text", "n"])
    kit.tell(kit.grid(explorer), {"sort": "n"})
    path = explorer.to_csv(tmp_path / "rows.csv")
    in_memory = Explorer(ROWS)
    in_memory.choose("text", ["=cmd()", "'; DROP TABLE rows; --"])
    in_memory.choose_columns(["text", "n"])
    kit.tell(kit.grid(in_memory), {"sort": "n"})
    lines = path.read_text().splitlines()
    assert lines[0] == "text,n"
    assert len(lines) == len(explorer.frame) + 1 == 21
    assert sum(line.startswith("'=cmd()") for line in lines) == 10
    assert path.read_bytes() == in_memory.to_csv(tmp_path / "memory.csv").read_bytes()
    (tmp_path / "memory.csv").unlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {*tmp_path.iterdir()} == {path}
    explorer.search("no such text")
    assert explorer.to_csv(path).read_text() == "text,n\n"


def test_a_table_of_many_batches_is_written_once_each(tmp_path):
    with duckdb.connect() as connection:
        explorer = Explorer(connection.sql("SELECT range AS n FROM range(120_000)"), name="rows")
        lines = explorer.to_csv(tmp_path / "rows.csv").read_text().split()
    assert lines == ["n", *map(str, range(120_000))]


def test_csv_file_that_cannot_be_written_is_one_plain_error(tmp_path):
    with duckdb.connect() as connection:
        explorer = Explorer(connection.sql("SELECT range AS n FROM range(120_000)"), name="rows")
        path = tmp_path / "rows.csv"
        message = f"No space is left for {path}: free some space, and try again"
        with file_size_limit(300_000), pytest.raises(DiskFull, match=f"^{re.escape(message)}$"):
            explorer.to_csv(path)
        with pytest.raises(
            ConfigurationError, match=r"rows.csv cannot be written: No such file or directory$"
        ):
            explorer.to_csv(tmp_path / "none" / "rows.csv")
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_writing_leaves_no_file(tmp_path):
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE texts AS SELECT CAST(range AS VARCHAR) AS n FROM range(120_000)")
        explorer = Explorer(connection.sql("SELECT CAST(n AS INTEGER) AS n FROM texts"), name="rows")
        connection.execute("UPDATE texts SET n = 'Odalys Fennimoor' WHERE n = '110000'")
        with pytest.raises(InvalidArgument, match="DuckDB cannot read this table") as raised:
            explorer.to_csv(tmp_path / "rows.csv")
    assert "Fennimoor" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_large_ids_next_to_missing_ones_stay_exact(tmp_path):
    """Batches of a file differ in what is missing; their rows are written alike."""
    ids, flags = [LARGE, None] + [LARGE] * 60_000, [None, True] + [False] * 60_000
    rows = pa.table({"user_id": ids, "flag": flags, "all": [[LARGE, None]] * len(ids)})
    pa.parquet.write_table(rows, tmp_path / "rows.parquet")
    for explorer in (Explorer(tmp_path / "rows.parquet"), Explorer(rows)):
        assert explorer.frame.dtypes[["user_id", "flag"]].map(str).tolist() == ["Int64", "boolean"]
        assert explorer.frame["user_id"].head(3).tolist() == [LARGE, pd.NA, LARGE]
        lines = explorer.to_csv(tmp_path / "rows.csv").read_text().splitlines()
        assert lines[1:4] == [f"{LARGE},,{LARGE}; None", f",True,{LARGE}; None", lines[-1]]
        assert lines[-1] == f"{LARGE},False,{LARGE}; None"


def test_dtypes_of_batches_do_not_depend_on_their_rows(tmp_path):
    ids = [*range(60_000), None]
    pa.parquet.write_table(pa.table({"n": ids, "flag": [*[True] * 60_000, None]}), tmp_path / "rows.parquet")
    table = Explorer(tmp_path / "rows.parquet")._table
    dtypes = [[*map(str, batch.dtypes)] for batch in table.batches(Filter(), table.columns)]
    assert len(dtypes) > 1
    assert dtypes == [["Int64", "boolean"]] * len(dtypes)


def test_code_reads_as_a_person_would_write_it(file, connection):
    explorer = opened("relation", file, connection)
    explorer.choose("kind", "Third")
    explorer.choose("n", [1, 2])
    explorer.search("ann")
    kit.tell(kit.grid(explorer), {"sort": "select"})
    explorer.choose_columns(["n", "select"])
    assert explorer.code.splitlines() == [
        'rows.query("rows", """',
        'SELECT n, "select"',
        "FROM rows",
        "WHERE kind = 'Third'",
        "  AND n IN (1, 2)",
        f"""  AND (text ILIKE '%ann%' OR "select" ILIKE '%ann%' OR "{HOSTILE.replace('"', '""')}" ILIKE '%ann%' OR kind ILIKE '%ann%')""",
        'ORDER BY "select" NULLS LAST',
        '""")',
    ]
    assert_code_selects(explorer)


def test_static_html_has_the_first_rows_and_the_code(file):
    words = kit.Read(Explorer(file).to_html()).words
    assert "90 of 90 rows, 0 selected (rows 1 to 20 of 90)" in words
    assert "SELECT *" in words
