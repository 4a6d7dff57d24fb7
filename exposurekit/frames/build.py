"""Build Arrow tables from validated objects, and DataFrames from them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.contract.models import Alert, User
from exposurekit.errors import MissingColumns
from exposurekit.frames.arrow import POOL, take, text_array
from exposurekit.frames.schema import (
    CATEGORY,
    DETAILS,
    LISTS_DTYPE,
    SECONDS,
    SOURCE_RECORD,
    TABLES,
    TEXT_DTYPE,
    UTC,
    Column,
)
from exposurekit.text.formatting import as_lists

OF_USER = ("records", "links", "aliases", "emails", "phone_numbers", "addresses")
EVENTS = {"activated_service_on": "activated", "deactivated_service_on": "deactivated"}
_DERIVED = {"user_id", "alert_number"}  # not a field of the resource itself

Tables = dict[str, pa.Table]


def _struct(columns: Iterable[Column]) -> pa.StructType:
    tree: dict[str, Any] = {}
    for column in columns:
        *into, leaf = column.path
        branch = tree
        for name in into:
            branch = branch.setdefault(name, {})
        if leaf not in _DERIVED:
            branch[leaf] = column.kind.arrow
    return _branch(tree)


def _branch(tree: Mapping[str, Any]) -> pa.StructType:
    return pa.struct(
        [(name, _branch(value) if isinstance(value, dict) else value) for name, value in tree.items()]
    )


_ENTRY = pa.struct([(name, UTC) for name in EVENTS])
_USER = pa.struct(
    [
        *_struct(TABLES["users"]),
        *((name, pa.list_(_struct(TABLES[name]))) for name in OF_USER),
        ("service_history", pa.list_(_ENTRY)),
    ]
)
_ALERT_COLUMNS = (*TABLES["alerts"], *SOURCE_RECORD)
_ALERTS = pa.struct([("user_id", pa.int64()), ("alerts", pa.list_(_struct(_ALERT_COLUMNS)))])


def pack_users(users: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Pack validated users, as plain dicts, into an Arrow array: a tenth of the memory, without loss.

    >>> len(frames.pack_users([client.get_user(key).model_dump()]))
    1
    """
    return pa.array(users, type=_USER, memory_pool=POOL)


def pack_alerts(alerts: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Pack alerts, ``{"user_id": ..., "alerts": [...]}`` per user, into an Arrow array.

    >>> len(frames.pack_alerts([{"user_id": key.id, "alerts": []}]))
    1
    """
    return pa.array(alerts, type=_ALERTS, memory_pool=POOL)


def flatten(packed_people: Sequence[pa.Array], packed_alerts: Sequence[pa.Array]) -> Tables:
    """Unpack the arrays of `pack_users` and `pack_alerts` into one Arrow table per resource.

    The table ``alerts`` also has the columns `SOURCE_RECORD`.

    >>> frames.flatten([frames.pack_users([client.get_user(key).model_dump()])], [])["users"].num_rows
    1
    """
    users = pa.concat_arrays(packed_people, memory_pool=POOL) if packed_people else pack_users([])
    ids = users.field("id")
    tables = {"users": _table("users", users, {})}
    for name in OF_USER:
        lists = users.field(name)
        tables[name] = _table(name, lists.flatten(), {"user_id": _repeated(ids, lists)})
    tables["service_history"] = _service_history(ids, users.field("service_history"))
    alerts = pa.concat_arrays(packed_alerts, memory_pool=POOL) if packed_alerts else pack_alerts([])
    lists = alerts.field("alerts")
    keys = {"user_id": _repeated(alerts.field("user_id"), lists), "alert_number": _numbers(lists)}
    tables["alerts"] = _table("alerts", lists.flatten(), keys, SOURCE_RECORD)
    tables["steps"] = _steps(tables["alerts"])
    return tables


def _steps(alerts: pa.Table) -> pa.Table:
    (procedures,) = alerts["opt_out_procedure"].chunks
    of_alert = pc.list_parent_indices(procedures, memory_pool=POOL)
    shared = ("user_id", "alert_number", "source_type", "record_id", "site", "status", "url")
    columns = {name: pc.take(alerts[name], of_alert, memory_pool=POOL) for name in shared}
    columns |= {"step": procedures.flatten(), "step_number": pc.add(_numbers(procedures), 1)}
    return pa.table({column.name: columns[column.name] for column in TABLES["steps"]})


def steps_from_alerts(alerts: pd.DataFrame, *, beside: Sequence[str] = ()) -> pd.DataFrame:
    """List the steps of alerts: one row per step of an ``opt_out_procedure``, numbered from 1.

    Args:
        alerts: A table as returned by `Exposure.alerts`, or a part of it.
        beside: More columns of the alerts to include, after those of `DETAILS` that it has.

    Raises:
        MissingColumns: ``alerts`` lacks a column.

    Source: specification, "Alert".

    >>> frames.steps_from_alerts(exposure.alerts()).equals(exposure.steps())
    True
    """
    declared = [column.name for column in TABLES["steps"]]
    included = [*declared, *(name for name in DETAILS if name in alerts)]
    needed = [name for name in included if name not in ("step", "step_number")]
    beside = [name for name in beside if name not in needed]
    MissingColumns.check("steps_from_alerts", alerts, ("opt_out_procedure", *needed, *beside))
    lists = as_lists(alerts["opt_out_procedure"])
    procedures = pa.array(lists, LISTS_DTYPE.pyarrow_dtype, from_pandas=True)  # chunked, if the lists are
    texts = pc.list_flatten(procedures)
    of_alert = pc.list_parent_indices(procedures).filter(texts.is_valid()).to_numpy()
    # The last columns are the largest, and are copied while there are few others.
    columns = {name: take(alerts[name].array, of_alert) for name in reversed([*needed, *beside])}
    columns["step"] = pd.array(pc.drop_null(texts), TEXT_DTYPE)
    columns["step_number"] = np.arange(len(of_alert)) - np.searchsorted(of_alert, of_alert) + 1
    return pd.DataFrame({name: columns[name] for name in (*included, *beside)}, copy=False)


def procedures_from_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """List the steps of each alert in one cell: the opposite of `steps_from_alerts`.

    Returns:
        One row per alert, in order of ``user_id`` and ``alert_number`` (int64): these, and ``opt_out_procedure`` (a list of
        texts).

    Raises:
        MissingColumns: ``steps`` lacks a column.

    >>> frames.procedures_from_steps(exposure.steps()).columns.tolist()
    ['user_id', 'alert_number', 'opt_out_procedure']
    """
    alert, order = ["user_id", "alert_number"], ["user_id", "alert_number", "step_number"]
    MissingColumns.check("procedures_from_steps", steps, [*order, "step"])
    rows = steps[[*order, "step"]].astype(dict.fromkeys(alert, "int64")).sort_values(order, kind="stable")
    is_first = ~rows.duplicated(alert).to_numpy()
    offsets = np.append(np.flatnonzero(is_first), len(rows)).astype("int32")
    lists = pa.ListArray.from_arrays(offsets, text_array(rows["step"]).cast(pa.string()))
    alerts = rows.loc[is_first, alert].reset_index(drop=True)
    return alerts.assign(opt_out_procedure=pd.Series(pd.array(lists, LISTS_DTYPE), alerts.index))


def _service_history(ids: pa.Array, lists: pa.ListArray) -> pa.Table:
    """One row per event, ascending by time per user: the specification promises no order of entries."""
    entries, person = lists.flatten(), pc.list_parent_indices(lists)
    events = []
    for name, event in EVENTS.items():
        times = pc.struct_field(entries, [name])
        index = pc.indices_nonzero(times.is_valid())  # entries of neither kind are skipped
        columns = [person.take(index), times.take(index), index, pa.repeat(event, len(index))]
        events.append(pa.table(columns, names=["person", "occurred_at", "index", "event"]))
    history = pa.concat_tables(events)
    history = history.sort_by([(name, "ascending") for name in ("person", "occurred_at", "index")])
    return pa.table(
        {
            "user_id": pc.take(ids, history["person"]),
            "event": history["event"].dictionary_encode(),
            "occurred_at": history["occurred_at"],
        }
    )


def _repeated(ids: pa.Array, lists: pa.ListArray) -> pa.Array:
    return pc.take(ids, pc.list_parent_indices(lists, memory_pool=POOL), memory_pool=POOL)


def _numbers(lists: pa.ListArray) -> pa.Array:
    lengths = lists.value_lengths().fill_null(0).to_numpy()
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return pa.array(np.arange(len(starts)) - starts, type=pa.int64())


def _table(
    name: str, items: pa.StructArray, keys: Mapping[str, pa.Array], beside: Sequence[Column] = ()
) -> pa.Table:
    return pa.table(
        {
            column.name: keys[column.name] if column.name in keys else _stored(column, items)
            for column in (*TABLES[name], *beside)
        }
    )


def _stored(column: Column, items: pa.StructArray) -> pa.Array:
    name, *within = column.path
    values = pc.struct_field(items, column.path) if within else items.field(name)
    return pc.dictionary_encode(values, memory_pool=POOL) if column.kind is CATEGORY else values


def from_items(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Build the Arrow table ``records``, ``links`` or ``alerts`` from single items, ``{"user_id": ..., "item": {...}}``.

    >>> frames.from_items("links", []).column_names
    ['user_id', 'url', 'title', 'contains']
    """
    items = pa.array([row["item"] for row in rows], type=_struct(TABLES[name]))
    ids = pa.array([row["user_id"] for row in rows], type=pa.int64())
    return _table(name, items, {"user_id": ids, "alert_number": pa.array(range(len(rows)), type=pa.int64())})


def frame(
    name: str,
    batches: Sequence[pa.Table],
    *,
    beside: Sequence[Column] = (),
    only: Collection[str] | None = None,
) -> pd.DataFrame:
    """Convert a table of `TABLES` to pandas, with the same columns and dtypes even without rows.

    ``beside`` are more columns; with ``only``, just those of these names are converted.

    Sites, statuses and source types are categories in alphabetical order; lists are Arrow lists (``explode``
    is cheap); instants are UTC; text that may be missing is NaN, numbers that may be missing ``<NA>``.

    >>> frames.frame("links", []).columns.tolist()
    ['user_id', 'url', 'title', 'contains']
    """
    declared = [column for column in (*TABLES[name], *beside) if only is None or column.name in only]
    table = pa.concat_tables(batches) if batches else _schema(declared).empty_table()
    columns = {column.name: _array(column, table[column.name]) for column in declared}
    return pd.DataFrame(columns, copy=False)


def _schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([(column.name, column.kind.arrow) for column in columns])


def _array(column: Column, values: pa.ChunkedArray) -> Any:
    kind = column.kind
    if kind is CATEGORY:
        return _categories(values).copy()
    if kind is SECONDS:
        values = values.cast(pa.timestamp("s", "UTC")).cast(UTC)
    # Arrow's numbers are read-only, so they are copied; a copy of texts and lists shares their bytes.
    if (from_arrow := getattr(kind.dtype, "__from_arrow__", None)) is not None:
        return from_arrow(values).copy()
    return np.array(values.to_numpy(), dtype=kind.dtype)


def _categories(values: pa.ChunkedArray) -> pd.Categorical:
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    values_in_pandas: pd.Categorical = encoded.unify_dictionaries().to_pandas().array
    return values_in_pandas.set_categories(pd.Index(sorted(values_in_pandas.categories), dtype=TEXT_DTYPE))


def of_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Build the Arrow table ``failures`` or ``deviations`` from rows.

    >>> frames.of_rows("failures", []).column_names
    ['user_id', 'operation', 'error', 'status', 'reason']
    """
    schema = _schema(TABLES[name])
    return pa.Table.from_pylist([{column: row[column] for column in schema.names} for row in rows], schema)


def from_users(users: Iterable[User]) -> dict[str, pd.DataFrame]:
    """Convert users of single calls to the tables ``users``, ``records``, ``links``, ``aliases``, ...

    >>> sorted(frames.from_users([client.get_user(key)]))[:3]
    ['addresses', 'aliases', 'emails']
    """
    tables = flatten([pack_users([user.model_dump() for user in users])], [])
    return {name: frame(name, [tables[name]]) for name in ("users", *OF_USER, "service_history")}


def from_alerts(alerts: Mapping[int, Sequence[Alert]]) -> dict[str, pd.DataFrame]:
    """Convert alerts of single calls, by user id, to the tables ``alerts`` and ``steps``.

    >>> list(frames.from_alerts({key.id: client.get_user_alerts(key)}))
    ['alerts', 'steps']
    """
    rows = [
        {"user_id": user, "alerts": [alert.model_dump() for alert in items]} for user, items in alerts.items()
    ]
    tables = flatten([], [pack_alerts(rows)])
    return {name: frame(name, [tables[name]]) for name in ("alerts", "steps")}
