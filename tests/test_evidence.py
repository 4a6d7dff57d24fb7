"""Evidence as a table, and beside the removed listings of a report."""

from pathlib import Path

import pandas as pd
import pytest
from support import widget_controls as kit
from support.evidence_bundles import FIRST, Installation
from support.histories import seen_through

import exposurekit as ek
from exposurekit.errors import ConfigurationError, InvalidArgument, InvalidEvidence, MissingColumns
from exposurekit.evidence import with_evidence

HOME = Installation(b"h" * 32, pairs=2, days=2)
COLUMNS = ["user_id", "record_id", "site", "url", "kind", "observed_at", "sha256", "verified"]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "bundle.zip").write_bytes(HOME.bundles()[1])
    (tmp_path / "key.pem").write_bytes(HOME.vault.public_key.pem)
    return tmp_path / "bundle.zip"


def test_a_bundle_is_read_as_a_table(file):
    evidence = ek.read_evidence(file, key=file.with_name("key.pem"))
    assert evidence.columns.tolist() == COLUMNS
    assert [str(dtype) for dtype in evidence.dtypes] == [
        *("int64", "int64", "category", "str", "category", "datetime64[us, UTC]", "str", "bool")
    ]
    assert evidence["kind"].tolist() == ["before", "after"] * 2
    assert evidence["record_id"].tolist() == [1, 1, 2, 2]
    assert evidence["observed_at"].iloc[0] == pd.Timestamp(FIRST)
    assert evidence["url"].iloc[0] == "https://seekfolk.example/search?name=Juniper"
    assert evidence["verified"].all()
    assert not ek.read_evidence(str(file))["verified"].any()
    empty = Installation(b"h" * 32, pairs=0).bundles()[1]
    file.write_bytes(empty)
    assert list(map(str, ek.read_evidence(file).dtypes)) == list(map(str, evidence.dtypes))


def test_nothing_is_read_from_a_changed_bundle(file):
    other = Installation(b"o" * 32, pairs=1).vault.public_key.pem
    with pytest.raises(InvalidEvidence, match=r"^key\.pem: the bundle is signed with another key"):
        ek.read_evidence(file, key=other)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(InvalidEvidence):
        ek.read_evidence(file)
    with pytest.raises(ConfigurationError, match=r"nothing\.zip cannot be read: No such file"):
        ek.read_evidence(Path("nothing.zip"))


def test_each_removed_record_has_its_last_pair():
    days = [pd.Timestamp(f"2026-11-0{day}", tz="UTC") for day in range(1, 7)]
    rows = [
        *((1, "before", 0), (1, "after", 1), (1, "before", 2), (1, "after", 3)),
        *((2, "before", 0), (2, "after", 1), (2, "before", 2)),  # the last removal is not in the bundle
        *((3, "after", 5), (4, "before", 0), (4, "after", 1)),
    ]
    evidence = pd.DataFrame(
        [{"user_id": 7, "record_id": one, "kind": kind, "observed_at": days[day]} for one, kind, day in rows]
    )
    statuses = ["removed", "removed", "removed", "discovered", "removed"]
    records = pd.DataFrame({"user_id": 7, "record_id": [1, 2, 3, 4, 5], "status": statuses}, index=[*"abcde"])
    joined = with_evidence(records, evidence)
    assert joined.index.tolist() == [*"abcde"]
    assert joined["evidence_before"].tolist() == [days[2], *[pd.NaT] * 4]
    assert joined["evidence_after"].tolist() == [days[3], pd.NaT, days[5], pd.NaT, pd.NaT]
    assert "evidence_before" not in records
    with pytest.raises(MissingColumns, match="evidence needs the column kind"):
        with_evidence(records, evidence.drop(columns="kind"))
    assert with_evidence(records, evidence.head(0))["evidence_after"].isna().all()


def test_a_report_shows_when_removed_listings_were_seen_and_gone(file):
    """A share-safe report has none, and neither has one without a list of listings."""
    service = kit.three_people()
    service.people[1].records[0] |= {"status": "removed"}
    evidence = ek.read_evidence(file, key=file.with_name("key.pem"))
    with seen_through(service) as exposure:
        records = exposure.records(1)
        removed = records.loc[records["status"] == "removed", "record_id"].iloc[0]
        theirs = evidence.assign(user_id=1, record_id=removed)
        report = ek.report(exposure, user=1, evidence=theirs)
        unchecked = ek.report(exposure, user=1, evidence=theirs.assign(verified=False))
        for options in ({}, {"user": 1, "share_safe": True}):
            with pytest.raises(InvalidArgument, match=r"^evidence is"):
                ek.report(exposure, evidence=theirs, **options)
    [section] = [one for one in report.sections if one.key == "records"]
    [pair] = section.table[["evidence_before", "evidence_after"]].dropna().itertuples(index=False)
    assert pair.evidence_before < pair.evidence_after == evidence["observed_at"].iloc[-1]
    assert "1 of 2 removed listings has evidence" in section.text
    assert section.text.endswith("verified with the service's key.")
    assert any("The key that signed it was not checked" in one.text for one in unchecked.sections)
    assert f"{pair.evidence_after:%Y-%m-%d}" in report.to_html()
