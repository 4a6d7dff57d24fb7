"""The audit log of the operator's commands: each change leaves one entry, with ids and without names or secrets."""

import getpass
import json
import shlex
import sqlite3
from contextlib import closing

import pytest
from support.services import JANE, LISTING, PAGE, SITE
from support.shell import error_of
from support.site_definitions import site_definition

from exposurekit.cli.main import cli
from exposurekit.contract.inputs import AddressItem
from exposurekit.service import audit
from exposurekit.service.accounts import integrators, users
from exposurekit.service.findings import candidates
from exposurekit.service.findings.candidates import Assessment
from exposurekit.service.findings.findings import discover_link
from exposurekit.service.mail import message_store, opt_out_requests
from exposurekit.service.mail.mailboxes import RawMessage
from exposurekit.service.mail.message_store import Arrival
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.storage import tables

SITE_FILE = site_definition()
HOOK = "https://93.184.216.34/hook"
# Each command that changes state, in order, with the target and the details of its entry.
RECORDED = (
    ("integrator add acme --attested-by 'Jo Attester'", "integrator 1", {"attested": True}),
    ("integrator attest acme --revoke", "integrator 1", {"attested": False}),
    ("integrator set-quota acme 500", "integrator 1", {"quota": 500, "before": None}),
    ("integrator rotate acme", "integrator 1", {}),
    (f"integrator set-callback acme {HOOK} --new-secret", "integrator 1", {"signed": True}),
    ("users consent 1 --by 'Jane Canarsson'", "user 1", {}),
    ("users activate 1", "user 1", {}),
    ("users rescan 1", None, {"user_ids": [1], "everyone": False, "due": 1}),
    ("users rescan --all", None, {"user_ids": [], "everyone": True, "due": 1}),
    ("users find", None, {"user_ids": []}),
    ("users accept 1", "user 1", {"candidate": 1, "record": 1}),
    ("users reject 2", "user 1", {"candidate": 2}),
    ("mail confirmed 1 --sites .", None, {"message_id": 1, "record_id": 1}),
    ("users sent 1 --sites .", None, {"record_ids": [1]}),
    ("users failed 1 --refused --sites .", None, {"record_ids": [1], "refused": True}),
    (
        "users scan 1 --site Seekfolk --sites . Canarsson.html",
        "user 1",
        {"site": "Seekfolk", "pages": 1, "discovered": 0, "removed": 0},
    ),
    ("webhooks replay msg_1", None, {"webhook_ids": ["msg_1"]}),
    ("webhooks replay --all", None, {"deliveries": 1}),
    ("mail discard --all", None, {"messages": 0}),
    ("mail approve --all", None, {"request_ids": []}),
    ("mail answered 2", None, {"request_id": 2, "changed": True}),
    ("evidence export 1 --out bundle.zip", "user 1", {"before": 0, "after": 0}),
    ("users export 1 --out person.json", "user 1", {"damaged": 0}),
    ("users withdraw 1 --by 'Jane Canarsson'", "user 1", {"withdrawn": 1}),
    ("users deactivate 1", "user 1", {}),
    ("users add person.yaml --integrator acme", "user 2", {"integrator": 1}),
    ("service check", None, {"damaged": 0}),
    ("users purge 1 --yes", "user 1", {}),
    ("users purge 2 --yes", "user 2", {}),
    ("integrator clear-callback acme", "integrator 1", {}),
    ("integrator remove acme", "integrator 1", {"users": 0}),
)
CHANGES = {" ".join(line.split()[:2]) for line, *_ in RECORDED}
READS = {
    *("integrator list", "service status", "service audit show", "service audit verify", "sites health"),
    *("service backup", "service copy", "sites missed"),
    *("users candidates", "users list", "users opt-outs", "users queue", "users records", "webhooks list"),
    *("mail list", "mail show", "mail emails", "mail preview", "mail complaint"),
    *("evidence roots", "evidence key"),
}
PROCESSES = {"serve", "worker"}


def ok(run):
    assert run.returncode == 0, run.stderr
    return run.stdout


def shown(operator, *words):
    return json.loads(ok(operator.here("service", "audit", "show", "--json", *words)))


def commands(group=cli, words=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        elif any(option.envvar == "EXPOSUREKIT_DATABASE" for option in command.params):
            yield " ".join((*words, name))


def test_every_command_changes_state_or_does_not():
    """A new command with a database belongs to one of the lists; those that change state are run below."""
    assert set(commands()) == CHANGES | READS | PROCESSES


async def _register(work):
    """A person with two candidates and two dead deliveries."""
    acme = await integrators.find(work, "acme")
    address = AddressItem(city="Oakmere", state="CA", address1="", address2="", zip="")
    user = await users.create(work, acme.id, JANE | {"addresses": [address]})
    for reference in ("one", "two"):
        listing = LISTING.__class__(name="Jane Doe", reference_id=reference, href="https://places.example/1")
        await candidates.save(work, user.id, SITE.name, listing, Assessment("possible", 0.5, ()))
    for n in (1, 2):
        row = {"user_id": user.id, "webhook_id": f"msg_{n}", "state": "dead", "opened_at": work.clock.now()}
        await work.run(tables.deliveries.insert(), row)
    await discover_link(work, user.id, PAGE)


async def _reject_message(work):
    """A rejected message to an opt-out that waits for it."""
    settings = MailSettings(address="optout@privacy.example", directory="mail")
    request = await opt_out_requests.issue(work, 1, 1, SITE.name, within=None)
    recipients = [settings.request_address(request.token)]
    await message_store.store(work, Arrival(RawMessage("key", b"Subject: Jane"), recipients), settings)
    await message_store.change_state(work, 1, message_store.REJECTED, reason="it has no valid DKIM signature")


async def _send_email(work):
    """An opt-out by email that was sent."""
    request = await opt_out_requests.issue_email(work, 1, 1, SITE.name, requires_approval=False)
    await opt_out_requests.change_state(work, request.id, opt_out_requests.SENDING, before=request.state)
    await opt_out_requests.record_sent(work, request.id, answer_by=work.clock.now())


def test_each_change_is_recorded_once_with_ids_only(operator):
    (operator.directory / "seekfolk.yaml").write_text(SITE_FILE)
    assisted = SITE_FILE.replace("method: manual", "method: assisted")
    (operator.directory / "place.yaml").write_text(assisted.replace("name: Seekfolk", f"name: {SITE.name}"))
    (operator.directory / "Canarsson.html").write_text("<html>Jane Doe: Nobody of that name</html>")
    address = "{city: Oakmere, state: CA}"
    person = f"first_name: Jane\nlast_name: Canarsson\naddresses: [{address}]\n"
    (operator.directory / "person.yaml").write_text(person)
    before = {
        "integrator attest": _register,
        "mail confirmed": _reject_message,
        "mail answered": _send_email,
    }
    secrets = []
    for line, *_ in RECORDED:
        words = shlex.split(line)
        command = " ".join(words[:2])
        if command in before:
            operator.work(before[command])
        typed = "Jane Canarsson" if command == "users find" else ""
        secrets.append(ok(operator.here(*words, stdin=typed)))
    operator.environment["EXPOSUREKIT_SITES"] = "."
    of_one = {"mail show", "mail preview", "mail complaint", "users records"}
    if operator.url.startswith("sqlite:"):
        ok(operator.here("service", "backup", "copy.db"))
    for words in READS - {"sites health", "service backup", "service copy", *of_one}:
        ok(operator.here(*words.split()))
    log = shown(operator)
    entries = [(one["command"], one["target"], one["details"]) for one in log["entries"]]
    [checked] = [details.pop("checked") for command, _, details in entries if command == "service check"]
    [rows] = [details.pop("rows") for command, _, details in entries if command == "users export"]
    assert min(checked, rows) > 0
    expected = [(" ".join(line.split()[:2]), *entry) for line, *entry in RECORDED]
    assert entries == expected
    assert {one["actor"] for one in log["entries"]} == {audit.operator()}
    assert getpass.getuser() in audit.operator()
    assert log["entries"][-1]["hash"] == log["last_hash"]
    values = {word for line in "".join(secrets).splitlines() if (word := line.partition("=")[2])}
    assert len(values) == 6  # the name, two keys with their secrets, a signing secret
    for value in values | {"acme", "Attester", "Canarsson", "Jane", HOOK}:
        assert value not in json.dumps(log), value


def test_a_refused_command_leaves_no_entry(operator):
    ok(operator.here("integrator", "add", "acme", "--no-attestation"))
    for words in (
        ("integrator", "add", "acme", "--no-attestation"),
        ("integrator", "rotate", "nobody"),
        ("users", "purge", "7", "--yes"),
        ("users", "reject", "7"),
        ("webhooks", "replay", "msg_7"),
    ):
        assert operator.here(*words).returncode == 1
    assert [one["command"] for one in shown(operator)["entries"]] == ["integrator add"]


def test_show_prints_the_last_hash_that_verify_takes(operator):
    ok(operator.here("integrator", "add", "acme", "--no-attestation"))
    ok(operator.here("integrator", "rotate", "acme"))
    lines = ok(operator.here("service", "audit", "show", "--limit", "1")).splitlines()
    assert lines[0].split() == ["id", "at", "actor", "command", "target", "details"]
    assert lines[1].startswith("2 ")
    assert "integrator rotate  integrator 1" in lines[1]
    last_hash = lines[-1].removeprefix("Last hash: ")
    assert len(lines) == 3
    assert last_hash == shown(operator)["last_hash"]
    ok(operator.here("integrator", "rotate", "acme"))
    text = ok(operator.here("service", "audit", "verify", "--head", last_hash))
    assert text.startswith("3 entries match.\n")
    result = json.loads(ok(operator.here("service", "audit", "verify", "--json")))
    assert (result["checked"], result["entry"], result["problem"]) == (3, None, None)
    assert operator.here("service", "audit", "verify", "--head", "7").returncode == 2


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_entries SET actor = 'jo' WHERE id = 2", "DELETE FROM audit_entries WHERE id = 2"],
)
def test_verify_names_the_first_entry_that_does_not_match(file_operator, statement):
    ok(file_operator.here("integrator", "add", "acme", "--no-attestation"))
    for _ in range(2):
        ok(file_operator.here("integrator", "rotate", "acme"))
    head = shown(file_operator)["last_hash"]
    with closing(sqlite3.connect(file_operator.directory / "service.db")) as other, other:
        other.execute(statement)
    run = file_operator.here("service", "audit", "verify")
    assert run.returncode == 1
    assert run.stdout.startswith("1 entry matches.\n")
    n = 2 if "UPDATE" in statement else 3
    assert error_of(run).startswith(f"Error: the audit log was changed: entry {n} does not match: it ")
    with closing(sqlite3.connect(file_operator.directory / "service.db")) as other, other:
        other.execute("DELETE FROM audit_entries WHERE id > 1")
    assert file_operator.here("service", "audit", "verify").returncode == 0
    run = file_operator.here("service", "audit", "verify", "--head", head)
    assert run.returncode == 1
    assert "the last entries were removed or replaced" in error_of(run)


def test_a_check_without_a_writable_database_says_so(file_operator):
    ok(file_operator.here("integrator", "add", "acme", "--no-attestation"))
    with closing(sqlite3.connect(file_operator.directory / "service.db")) as other, other:
        other.execute("DROP TABLE audit_entries")
    run = file_operator.here("service", "check")
    assert "This check is not in the audit log: the database cannot be used: " in run.stderr
    assert "Checked" in run.stdout
    assert run.returncode == 0
