"""Bundles of evidence, and ways to tamper with one."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from exposurekit.contract import evidence_bundle
from exposurekit.contract.evidence_roots import NO_ROOT, Root, Tree
from exposurekit.service.storage.encryption import Vault

FIRST = datetime(2026, 11, 1, 9, tzinfo=UTC)
Members = dict[str, bytes]


def entry(number: int, *, user_id: int, at: datetime) -> dict[str, Any]:
    """The content of an entry: "before" and "after" of one record, in turn."""
    is_after = number % 2 == 1
    shown = "Nobody of that name" if is_after else "Juniper Quillfeather, 42, 12 Acorn Street, Oakmere, CA"
    page = {"address": "https://seekfolk.example/search?name=Juniper", "status": 200, "text": shown}
    return {
        "user_id": user_id,
        "record_id": number // 2 + 1,
        "site": "Seekfolk",
        "kind": "after" if is_after else "before",
        "observed_at": at.isoformat(),
        "recorded_at": at.isoformat(),
        "scan_id": f"{number:016x}",
        "source": "scan",
        "reference_id": f"r{number // 2}",
        "href": None,
        "query": {"name": "Juniper Quillfeather"},
        "pages": [page | {"sha256": "0" * 64, "is_cut": False}],
        "salt": f"{number:032x}",
    }


@dataclass(frozen=True)
class Installation:
    """A service with a key, and its entries of a few days, in turn of its people."""

    key: bytes
    pairs: int
    people: int = 2
    days: int = 5
    padding: int = 0  # characters of a text, more

    @property
    def vault(self) -> Vault:
        return Vault(self.key)

    def bundles(self) -> dict[int, bytes]:
        """The bundle of each person."""
        vault, roots, last = self.vault, [], None
        entries: dict[int, list[evidence_bundle.RootedEntry]] = {
            person: [] for person in range(1, self.people + 1)
        }
        per_day = -(-2 * self.pairs // self.days)
        for day in range(self.days):
            rows = []
            for number in range(day * per_day, min((day + 1) * per_day, 2 * self.pairs)):
                for person in entries:
                    content = entry(number, user_id=person, at=FIRST + timedelta(days=day, seconds=number))
                    content["pages"][0]["text"] += " and so on" * (self.padding // 10)
                    rows.append((person, evidence_bundle.encode(content)))
            if not rows:
                continue
            tree = Tree([bytes.fromhex(evidence_bundle._sha256(content)) for _, content in rows])
            day_text = (FIRST + timedelta(days=day)).date().isoformat()
            root = Root(len(roots) + 1, day_text, len(rows), tree.hash, last.hash if last else NO_ROOT)
            last = signed(root, vault)
            roots.append(last)
            for position, (person, content) in enumerate(rows):
                one = evidence_bundle.RootedEntry(content, last.number, position, tree.path(position))
                entries[person].append(one)
        return {
            person: evidence_bundle.write(person, rooted, roots, key=vault.public_key, sign=vault.sign)
            for person, rooted in entries.items()
        }


def signed(root: Root, vault: Vault) -> Root:
    values = (root.number, root.day, root.entries, root.tree, root.previous)
    return Root(*values, vault.sign(root.statement).hex())


def members_of(content: bytes) -> Members:
    return evidence_bundle._members(content)


def zipped(members: Members) -> bytes:
    return evidence_bundle._zip(members)


@dataclass(frozen=True)
class Tamperer:
    """Tampers with one bundle; has one of another person and one of another installation, and a key of its own."""

    own: bytes
    other_person: bytes
    other_installation: bytes
    key: bytes

    def tampered(self, name: str, random: random.Random) -> bytes:
        """A file that is not the bundle."""
        content: bytes = TAMPERINGS[name](self, random)
        assert content != self.own
        return content

    @property
    def members(self) -> Members:
        return members_of(self.own)

    @property
    def manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(self.members[evidence_bundle.MANIFEST])
        return manifest

    def with_manifest(self, manifest: dict[str, Any], members: Members | None = None) -> bytes:
        """The bundle with another manifest, whose signature is the old one."""
        return zipped(
            (members or self.members) | {evidence_bundle.MANIFEST: evidence_bundle.encode(manifest)}
        )

    def resigned(self, manifest: dict[str, Any], members: Members, *, pem: bool) -> bytes:
        """The bundle signed by somebody else: the manifest, and with `pem` the roots and the key in it, too."""
        vault = Vault(self.key)
        if pem:
            last = None
            for values in manifest["roots"]:
                values["previous"] = last.hash if last else values["previous"]
                last = signed(Root(**values), vault)
                values["signature"] = last.signature
            members = members | {evidence_bundle.KEY: vault.public_key.pem}
        encoded = evidence_bundle.encode(manifest)
        signature = vault.sign(evidence_bundle._SIGNED + encoded).hex().encode()
        return zipped(members | {evidence_bundle.MANIFEST: encoded, evidence_bundle.SIGNATURE: signature})


def _changed(content: bytes, random: random.Random) -> bytes:
    at = random.randrange(len(content))
    return content[:at] + bytes([content[at] ^ random.randrange(1, 256)]) + content[at + 1 :]


def _two(values: Any, random: random.Random) -> tuple[int, int]:
    one, other = random.sample(range(len(values)), 2)
    return one, other


def _byte(t: Tamperer, random: random.Random) -> bytes:
    return _changed(t.own, random)


def _byte_of_a_member(t: Tamperer, random: random.Random) -> bytes:
    members = t.members
    name = random.choice([*members])
    return zipped(members | {name: _changed(members[name], random)})


def _cut_or_longer(t: Tamperer, random: random.Random) -> bytes:
    at = random.randrange(1, len(t.own))
    return random.choice([t.own[:at], t.own[at:], t.own + t.own[:at], t.own[:at] + b"x" + t.own[at:]])


def _member_dropped(t: Tamperer, random: random.Random) -> bytes:
    members = t.members
    del members[random.choice([*members])]
    return zipped(members)


def _entry_dropped(t: Tamperer, random: random.Random) -> bytes:
    """Also in the manifest, and the others renumbered."""
    members, manifest = t.members, t.manifest
    at = random.randrange(len(manifest["entries"]))
    contents = [members.pop(one["member"]) for one in manifest["entries"]]
    del contents[at], manifest["entries"][at]
    for number, (one, content) in enumerate(zip(manifest["entries"], contents, strict=True), 1):
        one["member"] = f"entries/{number:06}.json"
        members[one["member"]] = content
    return random.choice([t.with_manifest, lambda m, x: t.resigned(m, x, pem=False)])(manifest, members)


def _member_added(t: Tamperer, random: random.Random) -> bytes:
    members = t.members
    name = random.choice(["entries/999999.json", "entries/../../x", "/etc/passwd", "notes.txt", "entries/"])
    return zipped(members | {name: random.choice([*members.values()])})


def _members_swapped(t: Tamperer, random: random.Random) -> bytes:
    members = t.members
    names = [name for name in members if name.startswith("entries/")]
    one, other = (names[at] for at in _two(names, random))
    return zipped(members | {one: members[other], other: members[one]})


def _entries_reordered(t: Tamperer, random: random.Random) -> bytes:
    """In the manifest and the files, which agree."""
    members, manifest = t.members, t.manifest
    entries = manifest["entries"]
    one, other = _two(entries, random)
    names = entries[one]["member"], entries[other]["member"]
    entries[one], entries[other] = entries[other] | {"member": names[0]}, entries[one] | {"member": names[1]}
    members[names[0]], members[names[1]] = members[names[1]], members[names[0]]
    return random.choice([t.with_manifest, lambda m, x: t.resigned(m, x, pem=False)])(manifest, members)


def _backdated(t: Tamperer, random: random.Random) -> bytes:
    """The entry's time, with its new hash in the manifest."""
    members, manifest = t.members, t.manifest
    one = random.choice(manifest["entries"])
    content = json.loads(members[one["member"]])
    at = datetime.fromisoformat(content["recorded_at"]) - timedelta(seconds=random.randrange(1, 10**6))
    content |= {"observed_at": at.isoformat(), "recorded_at": at.isoformat()}
    members[one["member"]] = evidence_bundle.encode(content)
    one["sha256"] = evidence_bundle._sha256(members[one["member"]])
    return random.choice([t.with_manifest, lambda m, x: t.resigned(m, x, pem=False)])(manifest, members)


def _day_backdated(t: Tamperer, random: random.Random) -> bytes:
    manifest = t.manifest
    root = random.choice(manifest["roots"])
    root["day"] = (
        (datetime.fromisoformat(root["day"]) - timedelta(days=random.randrange(1, 99))).date().isoformat()
    )
    return random.choice([t.with_manifest, lambda m: t.resigned(m, t.members, pem=False)])(manifest)


def _roots_swapped(t: Tamperer, random: random.Random) -> bytes:
    manifest = t.manifest
    roots = manifest["roots"]
    one, other = _two(roots, random)
    names = random.choice([[*roots[0]], ["tree"], ["tree", "entries"], ["signature"], ["day"], ["number"]])
    for name in names:
        roots[one][name], roots[other][name] = roots[other][name], roots[one][name]
    if evidence_bundle.encode(manifest) == t.members[evidence_bundle.MANIFEST]:
        roots.reverse()  # the two had equal values
    return random.choice([t.with_manifest, lambda m: t.resigned(m, t.members, pem=False)])(manifest)


def _roots_dropped(t: Tamperer, random: random.Random) -> bytes:
    manifest = t.manifest
    del manifest["roots"][random.randrange(len(manifest["roots"]))]
    return t.with_manifest(manifest)


def _mixed(t: Tamperer, random: random.Random) -> bytes:
    """A member of another person's bundle, or of another installation's, with or without its line in the manifest."""
    foreign = members_of(random.choice([t.other_person, t.other_installation]))
    members, manifest = t.members, t.manifest
    names = [
        name for name in members if name != evidence_bundle.README and members[name] != foreign.get(name)
    ]
    name = random.choice(names)
    if not name.startswith("entries/") or random.random() < 0.5:
        return zipped(members | {name: foreign[name]})
    at = int(name[8:14]) - 1
    foreign_manifest = json.loads(foreign[evidence_bundle.MANIFEST])
    manifest["entries"][at] = foreign_manifest["entries"][at]
    if random.random() < 0.5:
        manifest["roots"] = foreign_manifest["roots"]
    return t.with_manifest(manifest, members | {name: foreign[name]})


def _another_key(t: Tamperer, random: random.Random) -> bytes:
    """All signatures are somebody else's, and agree with the key in the bundle."""
    return t.resigned(t.manifest, t.members, pem=True)


def _another_key_in_it(t: Tamperer, random: random.Random) -> bytes:
    """The signatures are the installation's, the key is not; or the other way round."""
    if random.random() < 0.5:
        return t.resigned(t.manifest, t.members, pem=False)
    return zipped(t.members | {evidence_bundle.KEY: Vault(t.key).public_key.pem})


TAMPERINGS: dict[str, Callable[[Tamperer, random.Random], bytes]] = {
    "a byte of the file": _byte,
    "a byte of a member": _byte_of_a_member,
    "the file is shorter or longer": _cut_or_longer,
    "a member is dropped": _member_dropped,
    "an entry is dropped": _entry_dropped,
    "a member is added": _member_added,
    "two members are swapped": _members_swapped,
    "two entries are reordered": _entries_reordered,
    "an entry is backdated": _backdated,
    "a root is backdated": _day_backdated,
    "two roots are swapped": _roots_swapped,
    "a root is dropped": _roots_dropped,
    "two bundles are mixed": _mixed,
    "signed with another key": _another_key,
    "another key in the bundle": _another_key_in_it,
}
