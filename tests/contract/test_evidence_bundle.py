"""Bundles of evidence: the same bytes for the same evidence, and nothing that was changed verifies."""

import io
import json
import random
import struct
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.evidence_bundles import TAMPERINGS, Installation, Tamperer, entry, members_of, signed, zipped

from exposurekit.contract import evidence_bundle
from exposurekit.contract.evidence_roots import NO_ROOT, PublicKey, Root, Tree, hash_at_end
from exposurekit.errors import InvalidArgument, InvalidEvidence

HOME = Installation(b"h" * 32, pairs=6)
AWAY = replace(HOME, key=b"a" * 32)
KEY = HOME.vault.public_key


@pytest.fixture(scope="module")
def bundles():
    return HOME.bundles()


@pytest.fixture(scope="module")
def tamperer(bundles):
    return Tamperer(bundles[1], bundles[2], AWAY.bundles()[1], b"t" * 32)


def problem(content, key=KEY):
    with pytest.raises(InvalidEvidence) as raised:
        evidence_bundle.verify(content, key)
    return str(raised.value)


def test_an_honest_bundle_verifies_with_and_without_the_key(bundles):
    verified = evidence_bundle.verify(bundles[1], KEY)
    assert (verified.user_id, verified.has_expected_key, verified.key.raw) == (1, True, KEY.raw)
    assert [one.content.kind for one in verified.entries] == ["before", "after"] * 6
    assert [root.number for root in verified.roots] == [1, 2, 3, 4]
    assert not evidence_bundle.verify(bundles[1]).has_expected_key
    assert not verified.clock_was_set_back
    assert "Quillfeather" not in repr(verified) + repr(verified.entries[0])


def test_equal_evidence_is_an_equal_file(bundles):
    """Its hash is here, so that another version of Python or of the package is noticed that writes other bytes."""
    assert HOME.bundles() == bundles
    assert (
        evidence_bundle._sha256(bundles[1])
        == "7b00834afc11b9b0246e829a775a9a90489c92b8b826738a847ec27e40e1fce1"
    )


def test_too_much_is_refused_before_it_is_signed():
    for rooted in (
        [evidence_bundle.RootedEntry(b"", 1, 0, ())] * 20_001,
        [evidence_bundle.RootedEntry(b"x" * 2**20, 1, 0, ())] * 101,
    ):
        with pytest.raises(InvalidArgument, match=r"at most 20,000 entries and 100 MiB.*: export fewer days"):
            evidence_bundle.write(1, rooted, [], key=KEY, sign=None)


@pytest.mark.parametrize("name", TAMPERINGS)
def test_no_tampered_bundle_verifies(name, tamperer):
    chance = random.Random(name)  # noqa: S311  not a secret
    for _ in range(4):
        problem(tamperer.tampered(name, chance))


def test_without_the_key_a_bundle_of_anybody_verifies(tamperer):
    forged = tamperer.tampered("signed with another key", random.Random(1))  # noqa: S311  not a secret
    assert not evidence_bundle.verify(forged).has_expected_key
    assert problem(forged).startswith("key.pem: the bundle is signed with another key")


def entry_changed(members, **changes):
    name = "entries/000003.json"
    return members | {name: evidence_bundle.encode(json.loads(members[name]) | changes)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m | {"README.txt": b"Trust me."}, "README.txt: its hash is not the one in manifest.json"),
        (lambda m: entry_changed(m, record_id=9), "entries/000003.json: its hash is not the one"),
        (
            lambda m: {n: c for n, c in m.items() if n != "entries/000012.json"},
            "entries/000012.json: it is miss",
        ),
        (lambda m: m | {"entries/000013.json": b"{}"}, "entries/000013.json: manifest.json does not list it"),
        (lambda m: m | {"../x": b""}, "../x: a bundle has no member of this name"),
        (lambda m: m | {"manifest.json": m["manifest.json"] + b" "}, "manifest.sig: it is not the key's sig"),
        (lambda m: m | {"key.pem": b"-----BEGIN"}, "key.pem: it is not a public Ed25519 key"),
        (lambda m: m | {"key.pem": m["key.pem"] + b"\n"}, "key.pem: it is not written as"),
        (lambda m: {n: c for n, c in m.items() if n != "manifest.sig"}, "manifest.sig: it is missing"),
    ],
)
def test_the_problem_names_the_member(bundles, change, message):
    assert problem(zipped(change(members_of(bundles[1])))).startswith(message)


# --- what a service with the key could not sign either ------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["entries"].reverse(), "manifest.json: the entries are not numbered"),
        (lambda m: m["entries"][3].update(position=1), "entries/000004.json: it does not lead to the root"),
        (lambda m: m["entries"][3].update(position=10**18), "entries/000004.json: it is under no root"),
        (lambda m: m["entries"][3].update(root=9), "entries/000004.json: it is under no root"),
        (lambda m: m["entries"][3]["path"].append("0" * 64), "entries/000004.json: it does not lead"),
        (lambda m: m["entries"][3]["path"].clear(), "entries/000004.json: it does not lead"),
        (lambda m: m["roots"].pop(1), "manifest.json: root 3 does not follow root 1"),
        (lambda m: m["roots"][1].update(day="2026-02-30"), "manifest.json: root 2 has no valid day"),
        (lambda m: m["roots"][1].update(number=1), "manifest.json: root 1, of 2026-11-02, is not signed"),
        (lambda m: m.update(user_id=2), "entries/000001.json: it is about another person"),
        (lambda m: m.update(format=2), "manifest.json: it does not have the format"),
        (lambda m: m.update(more=1), "manifest.json: it does not have the format"),
        (lambda m: m["entries"][0].update(sha256="A" * 64), "manifest.json: it does not have the format"),
    ],
)
def test_a_signed_manifest_must_agree_with_itself(bundles, change, message):
    members = members_of(bundles[1])
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    encoded = evidence_bundle.encode(manifest)
    signature = HOME.vault.sign(evidence_bundle._SIGNED + encoded).hex().encode()
    content = zipped(members | {"manifest.json": encoded, "manifest.sig": signature})
    assert problem(content).startswith(message)


@pytest.mark.parametrize("name", ["observed_at", "recorded_at"])
def test_a_time_that_utc_does_not_have_is_refused(name):
    first = datetime(1, 1, 1, tzinfo=UTC)
    content = evidence_bundle.encode(entry(0, user_id=1, at=first) | {name: "0001-01-01T00:00:00+23:00"})
    tree = Tree([sha256(content).digest()])
    root = signed(Root(1, "0001-01-01", 1, tree.hash, NO_ROOT), HOME.vault)
    rooted = evidence_bundle.RootedEntry(content, 1, 0, tree.path(0))
    crafted = evidence_bundle.write(1, [rooted], [root], key=KEY, sign=HOME.vault.sign)
    assert problem(crafted) == "entries/000001.json: it does not have the format of a bundle"


# --- hostile files ------------------------------------------------------------------------------------------


def written(*members, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
            archive.NameToInfo.clear()  # so that a name may come twice
    return file.getvalue()


DIRECTORY_END = b"PK\5\6" + struct.pack("<4H2LH", 0, 0, 35_000, 35_000, 46 * 35_000, 0, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is not a bundle"),
        (b"PK\x05\x06" + bytes(18), "README.txt: it is missing"),
        (b"<html>", "the file is not a bundle"),
        (
            lambda: written(("README.txt", b"0" * 10**7), method=zipfile.ZIP_DEFLATED),
            "the members are larger than",
        ),
        (written(("README.txt", b"0" * 50), method=zipfile.ZIP_DEFLATED), "README.txt: it is compressed"),
        (written(("README.txt", b""), ("README.txt", b"")), "README.txt: it is in the file twice"),
        (written(("entries/1.json", b"")), "entries/1.json: a bundle has no member of this name"),
        (written(("/etc/passwd", b"")), "/etc/passwd: a bundle has no member"),
        (written(("a\x1b[31m\nError: b", b"")), "a[31m Error: b: a bundle has no member"),
        (
            lambda: written(*((f"entries/{n:06}.json", b"") for n in range(20_005))),
            "the file has too many members",
        ),
        (lambda: b"PK\1\2".ljust(46, b"\0") * 35_000 + DIRECTORY_END, "the file has a larger directory"),
        (b"PK\6\7".ljust(20, b"\0") + b"PK\5\6" + bytes(18), "the file is not a bundle"),
    ],
)
def test_a_hostile_file_is_refused_before_it_is_read(content, message):
    """Each process that collects the tests would write the large ones."""
    assert problem(content() if callable(content) else content).startswith(message)


def test_overlapping_members_are_refused(bundles):
    """Each may be as large as the file, so that a few kilobytes unpack to gigabytes."""
    content = written(*((f"entries/{n:06}.json", b"x" * 1000) for n in range(9)))
    directory = content.index(b"PK\x01\x02")
    at = directory + 42
    same = content[:at] + content[at:].replace(content[at + 46 + 19 : at + 46 + 23], content[at : at + 4])
    problem(same)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 10**6), st.booleans())
def test_any_file_verifies_or_is_refused_in_known_words(bundles, noise, at, is_inside):
    at %= len(bundles[1])
    content = bundles[1][:at] + noise + bundles[1][at + len(noise) * is_inside :]
    if content == bundles[1]:
        evidence_bundle.verify(content, KEY)
    else:
        problem(content)


# --- roots ----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), st.data())
def test_a_path_leads_from_its_own_entry_alone(size, data):
    digests = [bytes([number]) * 32 for number in range(size)]
    tree = Tree(digests)
    position = data.draw(st.integers(0, size - 1))
    path = tree.path(position)
    assert hash_at_end(digests[position], position, size, path) == tree.hash
    assert len(path) <= size.bit_length()
    wrong = data.draw(st.integers(0, size - 1).filter(lambda at: at != position)) if size > 1 else None
    if wrong is not None:
        assert hash_at_end(digests[wrong], position, size, path) != tree.hash
        assert hash_at_end(digests[position], wrong, size, path) != tree.hash
    assert hash_at_end(digests[position], position, size, [*path, "0" * 64]) is None
    assert Tree([*digests, b"x" * 32]).hash != tree.hash


def test_the_tree_of_rfc_9162():
    """The hashes of RFC 9162's leaves and nodes, computed by hand: an odd leaf goes up unchanged."""
    one, two, three = (sha256(b"\0" + letter * 32).digest() for letter in (b"1", b"2", b"3"))
    expected = sha256(b"\1" + sha256(b"\1" + one + two).digest() + three).hexdigest()
    assert Tree([b"1" * 32, b"2" * 32, b"3" * 32]).hash == expected


@pytest.mark.parametrize("pem", [b"", b"\xff" * 5000, AWAY.vault.public_key.pem[:-40]])
def test_a_key_of_another_kind_is_refused(pem):
    with pytest.raises(InvalidEvidence, match=r"^--key: it is not a public Ed25519 key in PEM$"):
        PublicKey.from_pem(pem, "--key")
