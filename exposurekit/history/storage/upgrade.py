"""Upgrade a history of an older format in place."""

import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.errors import ConfigurationError
from exposurekit.history import staging
from exposurekit.history.storage.delta import HistoryLocked, Store
from exposurekit.history.storage.location import FORMAT

# From format 1 to 2: tables and columns got other names.
_TABLES = {"exceptions": "load_issues", "marks": "annotations"}
_COLUMNS = {
    "people": {
        "whole_at": "last_complete_at",
        "looked_until": "observed_until",
        "known_from": "first_registered_after",
    },
    "runs": {"came_into_view": "entered_scope", "out_of_view": "left_scope"},
}
# From format 2 to 3: values got other names, in tables and in staged runs.
_ORIGINS = {"look": "collect"}
_OUTCOMES = {"told": "reported"}
_VALUES = {"runs": ("origin", _ORIGINS), "people": ("outcome", _OUTCOMES)}
# From format 3 to 4: small writes share files. Older files stay as they are, and both formats are read alike.
_SHARES_NO_FILES = 3
_LOCKS = ("watch", "collect-*")  # of processes that may be of an older version
_IN_USE = (
    "This history has an older format, and a watch or a collection is running on it: stop it, and try again"
)
_READ_ONLY = (
    "This history has an older format, and cannot be upgraded where it is read-only: copy it to a writable place, "
    "then open it"
)


def upgrade(store: Store) -> None:
    """Bring a history to the current format, if it is older.

    The format is noted last and each step is skipped if it was done: a killed upgrade is completed at the next opening.
    A watch or a collection that is running on it may be of the older version.
    """
    if _is_current(store):
        return
    if not store.is_local:
        raise ConfigurationError(
            "This history has an older format, which can be upgraded only on a local disk: copy it there, open it once, "
            "and copy it back"
        )
    if not store.is_writable:
        raise ConfigurationError(_READ_ONLY)
    if store.is_locked_elsewhere("collect-*"):
        raise HistoryLocked(_IN_USE)
    try:
        with store.locked("watch", wait=False), store.exclusive():
            if not _is_current(store):  # another process may have done it meanwhile
                _rename_tables_and_columns(store)
                _rename_values(store)
                store.sync()
                store.note_format()
    except HistoryLocked:
        raise HistoryLocked(_IN_USE) from None
    except PermissionError:  # of a table: deltalake raises it, too
        raise ConfigurationError(_READ_ONLY) from None


def share_files(store: Store) -> None:
    """Before an ingest, note that small writes may share files from now on; the caller holds `Store.exclusive`.

    Not while a watch or a collector is running that may be of an older version, which would miss their rows; and not in a
    bucket, where there are no locks to tell.
    """
    if not store.is_local or store.format() != _SHARES_NO_FILES:
        return
    if not any(store.is_locked_elsewhere(pattern) for pattern in _LOCKS):
        store.note_format()


def _is_current(store: Store) -> bool:
    version = store.format()
    if version is not None and version > FORMAT:
        raise ConfigurationError(
            f"A newer version of exposurekit wrote this history (format {version}): update exposurekit"
        )
    return version in (None, _SHARES_NO_FILES, FORMAT)


def _rename_tables_and_columns(store: Store) -> None:
    for table, columns in _COLUMNS.items():
        store.rename_columns(table, columns)
    for table, name in _TABLES.items():
        store.rename_table(table, name)


def _rename_values(store: Store) -> None:
    for table, (column, values) in _VALUES.items():
        rows = store.rows(table)
        renamed = _replaced(rows, column, values)
        if not renamed.equals(rows):
            store.append(table, renamed, overwrite=True)
    for staged in staging.all_staged(store):
        staged.rewrite(_replace_outcomes)
    staged_files = store.infos(staging.DIRECTORY, recursive=True)
    for path in (info.path for info in staged_files if info.base_name.startswith("began-")):
        plan = store.read_json(path)
        if plan["origin"] in _ORIGINS:
            store.write_json(path, plan | {"origin": _ORIGINS[plan["origin"]]})


def _replace_outcomes(rows: pa.Table) -> pa.Table:
    return _replaced(rows, "outcome", _OUTCOMES) if "outcome" in rows.column_names else rows


def _replaced(rows: pa.Table, column: str, values: dict[str, str]) -> pa.Table:
    replaced = rows[column]
    for old, new in values.items():
        replaced = pc.if_else(pc.equal(replaced, old), new, replaced)
    return rows.set_column(rows.column_names.index(column), rows.schema.field(column), replaced)
