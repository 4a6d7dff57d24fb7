"""Evidence bundles as tables: what a service recorded when listings were found, and when their removals were verified."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from exposurekit.contract import evidence_bundle
from exposurekit.contract.evidence_bundle import AFTER, BEFORE
from exposurekit.contract.evidence_roots import KEY_PEM_MAX, PublicKey
from exposurekit.contract.types import REMOVED
from exposurekit.errors import MissingColumns
from exposurekit.system.named_files import read_bytes

_DTYPES = {
    "user_id": "int64",
    "record_id": "int64",
    "site": "category",
    "url": "str",
    "kind": "category",
    "observed_at": "datetime64[us, UTC]",
    "sha256": "str",
    "verified": "bool",
}


def read_evidence(
    path: str | os.PathLike[str], *, key: str | os.PathLike[str] | bytes | None = None
) -> pd.DataFrame:
    """Verify a bundle that ``exposurekit evidence export`` wrote, and read it as a table.

    The API carries no evidence, so neither an exposure nor a history has any: whoever runs the service exports it. Nothing
    is read from a bundle that does not verify.

    Args:
        path: The bundle.
        key: The service's public key, from whoever runs it: a file, or its bytes (PEM). None: only whether the bundle
            agrees with the key in it is checked, and anybody can make such a bundle.

    Returns:
        One row per entry, in the order of recording: ``user_id``, ``record_id`` (int64), ``site`` (category), ``url`` (the
        listing, or the page that no longer shows it; missing if it is not known), ``kind`` (category: ``before`` as found,
        ``after`` the verified removal), ``observed_at`` (UTC), ``sha256`` of the entry's file in the bundle, ``verified``
        (bool: signed with the ``key`` that you gave).

    Raises:
        InvalidEvidence: The bundle was changed or is signed with another key, or the file is not a bundle.
        ConfigurationError: A file cannot be read, or the extra ``service`` is not installed.

    >>> demo.export_evidence(1, "bundle.zip")
    >>> evidence = ek.read_evidence("bundle.zip", key=demo.evidence_key())
    >>> evidence["kind"].iloc[0], bool(evidence["verified"].all())
    ('before', True)
    """
    pem = key if isinstance(key, bytes) or key is None else read_bytes(Path(key), KEY_PEM_MAX)
    public_key = None if pem is None else PublicKey.from_pem(pem, "key")
    verified = evidence_bundle.verify(read_bytes(Path(path), evidence_bundle.BYTES_MAX), public_key)
    table = pd.DataFrame(_rows(verified), columns=[*_DTYPES])
    table["observed_at"] = pd.to_datetime(table["observed_at"], utc=True)
    return table.astype(_DTYPES)


def with_evidence(records: pd.DataFrame, evidence: pd.DataFrame) -> pd.DataFrame:
    """Add to each removed record when its evidence shows it as found, and when as gone.

    Args:
        records: A table as returned by `Exposure.records` or `History.records`; it needs ``user_id``, ``record_id`` and
            ``status``.
        evidence: A table of `read_evidence`, or several of them, concatenated.

    Returns:
        The same rows with ``evidence_before`` and ``evidence_after`` (UTC): when the listing was found, and when its
        removal was verified. Missing for other statuses, and where there is no evidence of the last removal.

    Raises:
        MissingColumns: A table lacks a column.

    >>> from exposurekit.evidence import with_evidence
    >>> demo.export_evidence(1, "bundle.zip")
    >>> with_evidence(exposure.records(), ek.read_evidence("bundle.zip")).columns.tolist()[-2:]
    ['evidence_before', 'evidence_after']
    """
    keys = ["user_id", "record_id"]
    MissingColumns.check("evidence", records, [*keys, "status"])
    MissingColumns.check("evidence", evidence, [*keys, "kind", "observed_at"])
    before, after = (
        evidence[evidence["kind"] == kind].groupby(keys)["observed_at"].max() for kind in (BEFORE, AFTER)
    )
    times = pd.DataFrame({"evidence_before": before, "evidence_after": after})
    # Listed again, and removed again since the bundle was written: its last removal has no evidence here.
    times = times[~(times["evidence_before"] > times["evidence_after"])]
    joined = records.join(times, on=keys)
    is_removed = (records["status"].astype("str") == REMOVED).to_numpy("bool")
    return joined.assign(**{name: joined[name].where(is_removed) for name in times.columns})


def _rows(verified: evidence_bundle.Bundle) -> Iterator[tuple[Any, ...]]:
    for entry in verified.entries:
        content = entry.content
        address = next((page.address for page in content.pages if page.address), None)
        url = content.href or address if content.kind == BEFORE else address
        yield (
            *(content.user_id, content.record_id, content.site, url, content.kind),
            *(content.observed_at, entry.sha256, verified.has_expected_key),
        )
