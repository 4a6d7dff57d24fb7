"""Content hashes: convert loaded rows to items with a key, a content hash, a site and a status."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.analysis import LISTED, UNKNOWN, VANISHED
from exposurekit.history import record_keys
from exposurekit.history.storage.schema import BUCKETS, STAGED
from exposurekit.text.urls import host

RESERVED_STATUSES = (VANISHED, UNKNOWN)
_NOT_HASHED = {"alert_number", "status"}  # repeated in other rows, or not the item's own


def items_of(kind: str, table: pa.Table, records_by: str = "id") -> pa.Table:
    """Convert rows of `frames` to rows of a part, with key, hash, site and status; the first of a key counts."""
    plain = {
        name: table[name].cast(STAGED[kind].field(name).type)
        for name in table.column_names
        if name in STAGED[kind].names
    }
    rows = pa.table(plain)
    keys = _keys(kind, rows, records_by)
    rows = rows.append_column("key", pa.array(keys, pa.int64()))
    first = ~pd.DataFrame({"user_id": rows["user_id"].to_numpy(), "key": keys}).duplicated().to_numpy()
    rows = rows if first.all() else rows.filter(pa.array(first))
    bucket = pa.array(rows["user_id"].to_numpy() % BUCKETS, pa.int32())
    columns = {"bucket": bucket, "hash": _hashes(rows, records_by)} | _site_and_status(kind, rows)
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    return rows


def _keys(kind: str, rows: pa.Table, records_by: str) -> Any:
    if kind == "record":
        if records_by == "id":
            return rows["record_id"].to_numpy()
        values = zip(*(rows[name].to_pylist() for name in ("record_id", "site", "reference_id")), strict=True)
        return np.array([record_keys.record_key(*row, by=records_by) for row in values], np.int64)
    if kind == "link":
        pairs = zip(rows["url"].to_pylist(), rows["title"].to_pylist(), strict=True)
        return np.array([record_keys.link_key(*pair) for pair in pairs], np.int64)
    names = ("record_id", "site", "href", "link_url", "text")
    values = zip(*(rows[name].to_pylist() for name in names), strict=True)
    return np.array([record_keys.alert_key(*row, by=records_by) for row in values], np.int64)


def _hashes(rows: pa.Table, records_by: str) -> pa.Array:
    excluded = _NOT_HASHED | {"user_id", "key"} | ({"record_id"} if records_by != "id" else set())
    texts = [_text(rows[name]) for name in rows.column_names if name not in excluded]
    joined = pc.binary_join_element_wise(*texts, "\x1f")
    return pa.array([record_keys.hash64(text) for text in joined.to_pylist()], pa.int64())


def _text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(values.type):
        values = pc.binary_join(values.combine_chunks(), "\x1e")
    return pc.fill_null(values.cast(pa.string()), "\x00")


def _site_and_status(kind: str, rows: pa.Table) -> dict[str, pa.Array]:
    if kind == "record":
        # Stored in changes, checkpoints and sums: another text would read as a change of every such record.
        is_reserved = pc.is_in(rows["status"], pa.array(RESERVED_STATUSES))
        marked = pc.binary_join_element_wise(rows["status"], "(as told)", " ")
        return {"thing_site": rows["site"], "thing_status": pc.if_else(is_reserved, marked, rows["status"])}
    if kind == "link":
        sites = [host(url) for url in rows["url"].to_pylist()]
    else:
        pairs = zip(rows["site"].to_pylist(), rows["link_url"].to_pylist(), strict=True)
        sites = [site if site is not None else host(url) for site, url in pairs]
    return {
        "thing_site": pa.array(sites, pa.string()),
        "thing_status": pa.array([LISTED] * rows.num_rows, pa.string()),
    }
