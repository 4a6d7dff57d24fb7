"""Upgrade a history of an older format in place."""

from exposurekit.errors import ConfigurationError
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


def upgrade(store: Store) -> None:
    """Bring a history to the current format, if it is older.

    The format is noted last and each step is skipped if it was done: a killed upgrade is completed at the next opening.

    Raises:
        ConfigurationError: A newer version wrote the history, or it is old and not on this machine.
        HistoryLocked: A watch, which may be of the older version, is running on it.
    """
    if _is_current(store):
        return
    if not store.is_local:
        raise ConfigurationError(
            "This history has an older format, which can be upgraded only on a local disk: copy it there, open it once, "
            "and copy it back"
        )
    try:
        with store.locked("watch", wait=False), store.exclusive():
            if not _is_current(store):  # another process may have done it meanwhile
                _upgrade_from_1(store)
    except HistoryLocked:
        raise HistoryLocked(
            "This history has an older format, and a watch is running on it: stop the watch, and try again"
        ) from None


def _is_current(store: Store) -> bool:
    version = store.format()
    if version is not None and version > FORMAT:
        raise ConfigurationError(
            f"A newer version of exposurekit wrote this history (format {version}): update exposurekit"
        )
    return version in (None, FORMAT)


def _upgrade_from_1(store: Store) -> None:
    for table, columns in _COLUMNS.items():
        store.rename_columns(table, columns)
    for table, name in _TABLES.items():
        store.rename_table(table, name)
    store.sync()
    store.note_format()
