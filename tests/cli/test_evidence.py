"""`exposurekit evidence`: from a person's evidence to a bundle that a stranger verifies, as the manual says."""

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.evidence_bundles import members_of, zipped
from support.services import JANE, LISTING, SITE
from support.shell import Shell, error_of

from exposurekit.contract.inputs import AddressItem
from exposurekit.service.accounts import integrators, users
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import evidence
from exposurekit.service.findings.findings import discover_record
from exposurekit.service.models import Excerpt

MANUAL = (Path(__file__).parents[2] / "exposurekit/service/README.md").read_text()
LINES = re.findall(r"^ *(exposurekit evidence .*)$", MANUAL, re.MULTILINE)
EXCERPT = Excerpt("https://seekfolk.example/?q=Jane", 200, "Nobody of that name", "0" * 64, is_cut=False)


@pytest.fixture
def user_id(file_operator):
    """A person with evidence of two days ago, of yesterday and of today."""
    file_operator.here("integrator", "add", "acme", "--attested-by", "Jo")

    async def register(work):
        acme = await integrators.find(work, "acme")
        address = AddressItem(city="Oakmere", state="CA", address1="", address2="", zip="")
        user = await users.create(work, acme.id, JANE | {"addresses": [address]})
        return user.id, await discover_record(work, user.id, LISTING, SITE)

    user_id, record_id = file_operator.work(register)
    for days, describe in ((2, evidence.before), (1, evidence.after), (0, evidence.before)):
        clock = FrozenClock(datetime.now(UTC) - timedelta(days=days))

        async def add(work, clock=clock, describe=describe):
            scan = evidence.Scan("0" * 16, SITE.name, "scan", clock.now())
            pages = () if describe is evidence.before else ([EXCERPT],)
            await evidence.append(work, user_id, record_id, describe(LISTING, *pages, scan))

        file_operator.work(add, clock=clock)
    return user_id


def typed(shell, line, user_id):
    """Type a line of the manual, with an id and a database of its own."""
    own = line.replace(" 12 ", f" {user_id} ").replace(" --database sqlite:///service.db", "")
    return shell.here(*shlex.split(own)[1:])


def test_the_manual_leads_to_a_bundle_that_a_stranger_verifies(file_operator, user_id, tmp_path):
    roots, key, export, verify = LINES
    assert (
        file_operator.here("evidence", "roots").stderr
        == "No roots yet. A worker signs a day's root after midnight (UTC).\n"
    )
    assert typed(file_operator, key, user_id).returncode == 0
    run = typed(file_operator, export, user_id)
    assert (run.returncode, run.stdout.count("Root ")) == (0, 2)
    assert "Wrote bundle.zip: listings as found 1, verified removals 1.\n" in run.stdout
    assert "It contains personal data" in run.stderr
    assert "Not in it yet: today's entries (1)." in run.stderr
    file = tmp_path / "bundle.zip"
    assert file.stat().st_mode & 0o777 == 0o600
    day = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    run = typed(file_operator, f"{export.replace('bundle', 'day')} --since {day} --until {day}", user_id)
    assert "Wrote day.zip: listings as found 0, verified removals 1.\n" in run.stdout
    assert len(typed(file_operator, roots, user_id).stdout.splitlines()) == 3

    stranger = Shell(tmp_path, EXPOSUREKIT_DATABASE="sqlite:////nowhere/x.db")
    run = typed(stranger, verify, user_id)
    days = " to ".join(f"{datetime.now(UTC) - timedelta(days=day):%Y-%m-%d}" for day in (2, 1))
    assert run.stdout == (
        f"ok: person {user_id}, listings as found 1, verified removals 1, days {days}; unchanged since signed with your key.\n"
    )
    assert run.stderr == ""
    run = stranger.here("evidence", "verify", "bundle.zip")
    assert "signed with the key " in run.stdout
    assert (
        error_of(run)
        == "The bundle cannot show whose key that is: get the public key from the operator and verify with --key."
    )
    verified = json.loads(stranger.here("evidence", "verify", "bundle.zip", "--json").stdout)
    assert [one["kind"] for one in verified["entries"]] == ["before", "after"]
    listed = json.loads(file_operator.here("evidence", "roots", "--json").stdout)
    assert [root["hash"] for root in listed] == [root["hash"] for root in verified["roots"]]
    assert not verified["has_expected_key"]
    assert (tmp_path / "key.pem").read_text() == file_operator.here("evidence", "key").stdout

    name = "entries/000002.json"
    members = members_of(file.read_bytes())
    file.write_bytes(zipped(members | {name: members[name].replace(b"Nobody", b"Nobod1")}))
    run = typed(stranger, verify, user_id)
    assert (run.returncode, run.stdout) == (1, "")
    assert error_of(run) == f"Error: {name}: its hash is not the one in manifest.json: it was changed"
    file.write_bytes(zipped(members))
    (tmp_path / "key.pem").write_bytes(b"mine")
    assert error_of(typed(stranger, verify, user_id)).startswith(
        "Error: --key: it is not a public Ed25519 key"
    )


def test_evidence_of_today_alone_is_no_bundle(file_operator, user_id, tmp_path):
    """An empty bundle would verify as ok. Somebody without any evidence gets one, which says so."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    for words in ((), ("--json",)):
        run = typed(file_operator, " ".join((LINES[2], "--since", today, *words)), user_id)
        assert (run.returncode, run.stdout, (tmp_path / "bundle.zip").exists()) == (1, "", False)
        assert "nothing can be exported yet: all entries (1) are from today" in error_of(run)
    assert typed(file_operator, f"{LINES[2]} --since 2100-01-01", user_id).returncode == 0
    run = file_operator.here("evidence", "verify", "bundle.zip")
    assert run.stdout.startswith(f"ok, but it contains no evidence: person {user_id}, ")


def test_what_cannot_be_exported_or_read_is_one_line(file_operator, tmp_path):
    file_operator.here("integrator", "add", "acme", "--attested-by", "Jo")
    run = file_operator.here("evidence", "export", "7", "--out", "bundle.zip")
    assert (run.returncode, error_of(run)) == (
        1,
        "Error: no user has the id 7: exposurekit users list shows the ids",
    )
    assert not (tmp_path / "bundle.zip").exists()
    run = file_operator.here("evidence", "verify", "bundle.zip")
    assert error_of(run) == "Error: the bundle: bundle.zip cannot be read: No such file or directory"
    (tmp_path / "bundle.zip").write_bytes(b"no zip")
    assert error_of(file_operator.here("evidence", "verify", "bundle.zip")).startswith(
        "Error: the file is not a bundle"
    )
