"""The operator's commands: attestation, callbacks, people, deliveries and the status of the service."""

import json
import re
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select, update
from support import postgres
from support.services import JANE, LISTING, PAGE, SITE, stored_in, url_of
from support.shell import Operator, Shell, error_of
from support.site_definitions import site_definition

from exposurekit.contract.inputs import AddressItem
from exposurekit.service import jobs, workers
from exposurekit.service.accounts import consent, integrators, users
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import candidates, findings, removals
from exposurekit.service.models import Site
from exposurekit.service.sites import statistics
from exposurekit.service.storage import leases, tables
from exposurekit.service.webhooks import delivery, endpoints, outbox

HOOK = "https://93.184.216.34/hook"  # a bare address: nothing is resolved
ADDRESS = AddressItem(city="Oakmere", state="CA", address1="", address2="", zip="")
SOON = timedelta(minutes=11)  # when a window has closed
STATUS = ["checks", "people", "work", "clock_corrections", "deliveries", "mailboxes", "messages", "sites"]


def jane(operator, *, attested=True, url=None, clock=None):
    """Register a person of acme and return their id."""

    async def register(work):
        await integrators.add(work, "acme", attested_by="Jo Doe" if attested else None)
        if url:
            await endpoints.set_callback(work, "acme", endpoints.Callback(url))
        [acme] = await integrators.all(work)
        return (await users.create(work, acme.id, JANE | {"addresses": [ADDRESS]})).id

    return operator.work(register, clock=clock)


def ok(run):
    assert (run.returncode, "Error" in run.stderr) == (0, False), run.stderr
    return run.stdout


def json_output(run):
    return json.loads(ok(run))


def consents(operator, user_id):
    async def ask(work):
        rows = await work.all(select(tables.consents).where(tables.consents.c.user_id == user_id))
        return [(row.granted_by, row.withdrawn_by) for row in rows]

    return operator.work(ask)


def integrator(operator):
    [listed] = json_output(operator.here("integrator", "list", "--json"))
    return listed


def test_an_attestation_is_stored_revoked_and_renewed(operator):
    run = operator.here("integrator", "add", "acme", "--attested-by", " Jo Doe ", "--json")
    assert set(json_output(run)) == {"integration_name", "api_key", "api_secret"}
    listed = integrator(operator)
    assert (listed["attested_by"], listed["has_callback"]) == ("Jo Doe", False)
    assert datetime.fromisoformat(listed["since"]).tzinfo == UTC
    assert "attested by Jo Doe  no callback" in ok(operator.here("integrator", "list"))
    assert f"acme  id {listed['id']}  users 0" in ok(operator.here("integrator", "list"))
    run = operator.here("integrator", "attest", "acme", "--revoke")
    assert "only after their consent is recorded" in run.stderr
    assert integrator(operator)["attested_by"] is None
    assert "is attested" in ok(operator.here("integrator", "attest", "acme", "--attested-by", "Jo Doe"))
    assert integrator(operator)["attested_by"] == "Jo Doe"


def test_without_a_terminal_an_attestation_must_be_passed(file_operator):
    run = file_operator.here("integrator", "add", "acme")
    assert run.returncode == 2
    assert "--attested-by WHO" in run.stderr
    assert "--no-attestation" in run.stderr
    assert not (file_operator.directory / "service.db").exists()


def test_no_attestation_prints_the_consequence(operator):
    run = operator.here("integrator", "add", "acme", "--no-attestation")
    assert "EXPOSUREKIT_API_SECRET=" in ok(run)
    assert "are scanned only after their consent is recorded" in run.stderr
    assert "no attestation" in ok(operator.here("integrator", "list"))


def test_a_terminal_is_prompted_for_the_attestation(file_operator):
    run = file_operator.on_a_terminal("integrator", "add", "acme", answers="\x04")  # end of input
    assert run.returncode == 130
    assert run.stderr.splitlines()[-1].endswith("Stopped.")
    assert not (file_operator.directory / "service.db").exists()
    run = file_operator.on_a_terminal("integrator", "add", "acme", "--json", answers="\n  \nJo Doe\n")
    assert set(json.loads(run.stdout)) == {"integration_name", "api_key", "api_secret"}
    assert "Who attests the consent" in run.stderr
    assert integrator(file_operator)["attested_by"] == "Jo Doe"


def test_a_quota_refuses_more_people(operator):
    ok(operator.here("integrator", "add", "acme", "--no-attestation"))
    assert (
        ok(operator.here("integrator", "set-quota", "acme", "0"))
        == "acme may have at most 0 people; it has 0.\n"
    )
    assert integrator(operator)["quota"] == 0
    assert "users 0 of at most 0" in ok(operator.here("integrator", "list"))
    assert "any number" in ok(operator.here("integrator", "set-quota", "acme", "--no-quota"))
    assert integrator(operator)["quota"] is None
    for words in (["acme"], ["acme", "5", "--no-quota"]):
        assert operator.here("integrator", "set-quota", *words).returncode == 2
    for words in ("integrator set-quota acme -1", "integrator set-quota acme -20", "users consent -1"):
        run = operator.here(*words.split())
        assert (run.returncode, "Error: a number must not be negative here\n" in run.stderr) == (2, True)
    for words in ("integrator set-quota acme -x", "users list -1", "integrator add -1"):
        assert "No such option" in operator.here(*words.split()).stderr
    run = operator.here("integrator", "set-quota", "nobody", "5")
    assert (run.returncode, "no integrator has the name " in run.stderr) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ["integrator", "add", "acme", "--attested-by", "Jo\x1b[31m"],
        ["integrator", "add", "acme", "--attested-by", "  "],
        *(
            words.split()
            for words in (
                "integrator add acme --attested-by Jo --no-attestation",
                f"integrator add acme --attested-by {'J' * 201}",
                "integrator attest acme",
                "integrator attest acme --attested-by Jo --revoke",
                f"integrator set-callback acme {HOOK} --new-secret --secret -",
                "webhooks replay",
                "webhooks replay msg_1 --all",
                "webhooks list --state lost",
                "users purge 0 --yes",
                f"users purge {2**63} --yes",
                "users withdraw 1",
                "serve --requests-per-second -1",
                "sites check",
            )
        ),
    ],
    ids=" ".join,
)
def test_too_few_or_too_many_arguments_are_a_usage_error(file_operator, words):
    run = file_operator.here(*words)
    assert run.returncode == 2
    assert f"exposurekit {words[0]}" in run.stderr
    assert not (file_operator.directory / "service.db").exists()


def test_reading_does_not_wait_for_a_writer(file_operator):
    ok(file_operator.here("integrator", "add", "acme", "--no-attestation"))
    with closing(sqlite3.connect(file_operator.directory / "service.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        assert list(json_output(file_operator.here("service", "status", "--json"))) == STATUS
        assert integrator(file_operator)["integration_name"] == "acme"


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ("integrator", "add", "zeta", "--no-attestation"),
        ("serve", "--port", "0", "--create"),
        ("serve", "--port", "0"),
        ("worker",),
        ("users", "list"),
        ("service", "backup", "copy.db"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_a_log_without_its_database_is_left_alone(file_operator, words, is_empty):
    """A new database would delete the log, and with it what was acknowledged; the old one is moved back."""
    operator = file_operator
    ok(operator.here("integrator", "add", "acme", "--no-attestation"))
    database, log = (operator.directory / name for name in ("service.db", "service.db-wal"))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE integrators SET attested_by = 'Jo Doe'")
        connection.commit()
        before = log.read_bytes()
        assert before
        database.rename(operator.directory / "moved.db")
        if is_empty:
            database.touch()
        run = operator.here(*words)
        assert run.returncode == 1
        message = run.stdout + run.stderr
        assert (
            f"service.db is {'empty' if is_empty else 'missing'}, but service.db-wal beside it holds its"
            in message
        )
        assert (
            "put service.db back, or restore a backup as the manual says; before you create a new " in message
        )
        assert log.read_bytes() == before
        (operator.directory / "moved.db").rename(database)
        assert integrator(operator)["attested_by"] == "Jo Doe"


def test_a_callback_is_checked_and_its_secret_printed_once(operator):
    ok(operator.here("integrator", "add", "acme", "--no-attestation"))
    run = operator.here("integrator", "set-callback", "acme", HOOK, "--new-secret")
    [secret] = re.findall(r"^EXPOSUREKIT_WEBHOOK_SIGNING_SECRET=(whsec_\S+)\n$", ok(run))
    stored = operator.work(lambda work: endpoints.get_callback(work, "acme"))
    assert (stored.url, stored.secret) == (HOOK, secret)
    assert integrator(operator)["has_callback"] is True
    run = operator.here("integrator", "set-callback", "acme", f"{HOOK}/2")
    assert ok(run) == "acme receives webhooks from now on, signed.\n"
    assert operator.work(lambda work: endpoints.get_callback(work, "acme")).secret == secret
    ok(operator.here("integrator", "clear-callback", "acme"))
    assert operator.work(lambda work: endpoints.get_callback(work, "acme")) is None
    run = operator.here("integrator", "set-callback", "acme", HOOK, "--json")
    assert json_output(run) == {"integration_name": "acme", "signed": False, "webhook_secret": None}


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    directory = tmp_path_factory.mktemp("acme")
    operator = Operator(directory, f"sqlite:///{directory / 'service.db'}")
    ok(operator.here("integrator", "add", "acme", "--no-attestation"))
    return operator


@pytest.fixture
def acme(added):
    """An operator of an integrator without a callback."""
    added.work(lambda work: endpoints.set_callback(work, "acme", None))
    return added


def test_a_supplied_secret_is_not_printed(acme):
    secret = endpoints.new_secret()
    for words, stdin in (([secret], ""), (["-"], f"{secret}\n")):
        run = acme.here("integrator", "set-callback", "acme", HOOK, "--secret", *words, stdin=stdin)
        assert secret not in ok(run) + run.stderr
        assert acme.work(lambda work: endpoints.get_callback(work, "acme")).secret == secret
    run = acme.here("integrator", "set-callback", "acme", HOOK, "--secret", "whsec_c2hvcnQ=")
    assert error_of(run) == "Error: a signing secret is whsec_ followed by the base64 form of 24 to 64 bytes"


def test_an_unknown_integrator_is_reported_before_its_callback_is_checked(acme):
    run = acme.here("integrator", "set-callback", "acne", "not an address")
    assert "no integrator has the name " in error_of(run)


@pytest.mark.parametrize(
    ("url", "opened", "reason"),
    [
        (
            "https://127.0.0.1/hook",
            [],
            "--callback-network allows its network, here and for serve and worker",
        ),
        ("https://169.254.169.254/hook", ["169.254.0.0/16"], "the address is forbidden"),
        ("http://93.184.216.34/hook", [], "use https"),
        ("http://93.184.216.34/hook", ["10.0.0.0/8"], "use https"),
        ("ftp://93.184.216.34/hook", [], "not a plain http or https URL"),
        ("https://user:pw@93.184.216.34/", [], "not a plain http or https URL"),
        ("https://nobody.invalid/hook", [], "its host has no address"),
        ("https://93.184.216.34/hook", ["10.0.0.1/8"], "10.0.0.0/8"),
        ("http://127.0.0.1:9/hook", ["127.0.0.0/8"], None),
        ("http://localhost:9/hook", ["127.0.0.0/8", "::1/128"], None),
        ("http://[::ffff:10.1.2.3]/hook", ["10.0.0.0/8"], None),
        ("http://93.184.216.34/hook", ["93.184.216.0/24"], None),
    ],
)
def test_a_forbidden_callback_is_refused_with_its_reason(acme, url, opened, reason):
    networks = [word for network in opened for word in ("--callback-network", network)]
    run = acme.here("integrator", "set-callback", "acme", url, *networks)
    assert (reason is None) == (run.returncode == 0)
    assert reason is None or reason in error_of(run)
    stored = acme.work(lambda work: endpoints.get_callback(work, "acme"))
    assert (stored and stored.url) == (None if reason else url)


def test_callback_networks_are_read_from_the_environment(acme):
    environment = acme.environment | {"EXPOSUREKIT_CALLBACK_NETWORKS": "10.0.0.0/8 127.0.0.0/8"}
    shell = Shell(acme.directory, **environment)
    ok(shell.here("integrator", "set-callback", "acme", "http://127.0.0.1:9/hook"))


def test_consent_and_activation_decide_together_whether_a_scan_is_due(operator):
    user_id = jane(operator, attested=False)
    one = str(user_id)

    def due():
        return json_output(operator.here("service", "status", "--json"))["work"]["scans"]["due"]

    assert due() == 0
    assert "A scan is due." in ok(operator.here("users", "consent", one, "--by", "Jane, by mail"))
    assert due() == 1
    assert "is deactivated" in ok(operator.here("users", "deactivate", one))
    assert due() == 0
    assert "is not activated" in ok(operator.here("users", "consent", one, "--by", "Jane"))
    assert "A scan is due." in ok(operator.here("users", "activate", one))
    assert due() == 1
    assert "is withdrawn" in ok(operator.here("users", "withdraw", one, "--by", "Jane, by phone"))
    assert due() == 0
    assert "had no consent on record; nothing changed." in ok(
        operator.here("users", "withdraw", one, "--by", "Jane")
    )
    assert "their consent is not recorded" in ok(operator.here("users", "activate", one))
    assert consents(operator, user_id) == [("Jane, by mail", "Jane, by phone")]


def test_people_are_listed_by_id_and_rescanned(operator):
    user_id = str(jane(operator, attested=False))
    heads, row = ok(operator.here("users", "list")).splitlines()
    assert heads.split("  ")[0] == "user id"
    assert (row.split()[:2], row.split()[3:]) == ([user_id, "acme"], ["yes", "no", "0", "-", "-"])
    run = operator.here("users", "rescan", user_id)
    assert ok(run) == "Scans that are due: 0.\n"
    assert "nobody is scanned: 1 of these people. exposurekit users list shows who" in run.stderr
    ok(operator.here("users", "consent", user_id, "--by", "Jane, by mail"))
    run = operator.here("users", "rescan", user_id, user_id)
    assert (ok(run), run.stderr) == ("Scans that are due: 1.\n", "")
    [listed] = json_output(operator.here("users", "list", "--json"))
    assert (listed["is_active"], listed["has_consent"]) == (True, True)
    assert datetime.fromisoformat(listed["next_scan_at"]) <= datetime.now(UTC)
    assert "Jane" not in json.dumps(listed)
    assert ok(operator.here("users", "rescan", "--all")) == "Scans that are due: 1.\n"
    for words in ([], [user_id, "--all"]):
        assert operator.here("users", "rescan", *words).returncode == 2
    ok(operator.here("users", "purge", user_id, "--yes"))
    assert operator.here("users", "list").stderr == "Nobody is registered.\n"


UNKNOWN = "Error: no user has the id 7: exposurekit users list shows the ids"


@pytest.mark.parametrize(
    "words",
    [
        *(
            "export 7 --out jo.json",
            "withdraw 7 --by Jo",
            "consent 7 --by Jo",
            "activate 7",
            "deactivate 7",
            "rescan 7",
            "purge 7",
        ),
        *("records 7", "candidates 7", "queue 7 --sites .", "opt-outs 7 --sites ."),
    ],
)
def test_an_unknown_user_is_an_error(acme, words):
    (acme.directory / "seekfolk.yaml").write_text(site_definition())
    assert error_of(acme.here("users", *words.split())) == UNKNOWN


def candidate(operator, user_id, *, verdict="possible", score=0.5, name=LISTING.name):
    listing = findings.Listing(
        name=name, reference_id=name, age=41, locations=("Oakmere, CA",), href="https://places.example/jane"
    )
    judged = candidates.Assessment(verdict, score, ("name: the same", "age: fits"))
    operator.work(lambda work: candidates.save(work, user_id, SITE.name, listing, judged))


def test_candidates_are_listed_with_reasons_until_rejected(operator):
    user_id = jane(operator)
    candidate(operator, user_id)
    candidate(operator, user_id, verdict="quarantined", score=0.9, name="Jane\x1b[2J Doe")
    first, second = json_output(operator.here("users", "candidates", "--json"))
    assert (first["verdict"], second["verdict"]) == ("quarantined", "possible")
    assert {*second} == {*first} > {"id", "observed_at"}
    expected = {"user_id": user_id, "site": SITE.name, "verdict": "possible", "score": 0.5}
    expected |= {"name": LISTING.name, "age": 41, "places": ["Oakmere, CA"]}
    expected |= {"reasons": ["name: the same", "age: fits"], "href": "https://places.example/jane"}
    assert {name: second[name] for name in second if name not in ("id", "observed_at")} == expected
    output = ok(operator.here("users", "candidates", str(user_id), "--verdict", "quarantined"))
    assert "Jane[2J Doe" in output
    assert LISTING.name not in output
    assert "\x1b" not in output
    assert "No candidates." in operator.here("users", "candidates", "--verdict", "rejected").stderr
    assert "is rejected" in ok(operator.here("users", "reject", str(second["id"])))
    assert json_output(operator.here("users", "candidates", "--json")) == [first]
    [rejected] = json_output(operator.here("users", "candidates", "--verdict", "rejected", "--json"))
    assert rejected["id"] == second["id"]


DEFINITION = site_definition(
    "https://places.example",
    name="People & Places",
    guide="Lists people by name.",
    opt_out_procedure="[Open the form., Press Remove.]",
    removal="{method: manual, user_fields_required: [first_name, address1]}",
)


def test_a_candidate_of_an_invalid_definition_is_not_accepted(operator):
    """Its record would have no steps for the opt-out."""
    candidate(operator, jane(operator))
    [waiting] = json_output(operator.here("users", "candidates", "--json"))
    accept = ("users", "accept", str(waiting["id"]), "--sites", ".")
    for text in (f"{DEFINITION}odd: 1\n", "name: [", "odd: 1\n"):
        (operator.directory / "places.yaml").write_text(text)
        run = operator.here(*accept)
        assert (run.returncode, "there is no valid definition of People & Places" in run.stderr) == (1, True)
        assert json_output(operator.here("users", "candidates", "--json")) == [waiting]
    (operator.directory / "places.yaml").write_text("name: Unrelated\nodd: 1\n")
    assert "is now record" in ok(operator.here(*accept))


@pytest.mark.parametrize("defined", [True, False])
def test_an_accepted_candidate_is_a_record(operator, defined):
    user_id = jane(operator)
    candidate(operator, user_id)
    if defined:
        usual = Path(operator.environment["XDG_CONFIG_HOME"]) / "exposurekit" / "sites"
        usual.mkdir(parents=True)
        (usual / "places.yaml").write_text(DEFINITION)
    [waiting] = json_output(operator.here("users", "candidates", "--json"))
    run = operator.here("users", "accept", str(waiting["id"]))
    assert re.fullmatch(rf"Candidate {waiting['id']} is now record \d+\.\n", ok(run))
    assert ("There is no definition of People & Places" in run.stderr) is not defined
    [record] = operator.work(lambda work: findings.list_records(work, user_id))
    assert (record["record"]["name"], record["record"]["site"]) == (LISTING.name, SITE.name)
    [alert] = operator.work(lambda work: findings.list_alerts(work, user_id))
    assert (len(alert["opt_out_procedure"]) > 0) is defined
    again = operator.here("users", "accept", str(waiting["id"]))
    assert "no candidate has this id" in error_of(again)


def test_a_purged_person_is_in_no_table_and_no_file(file_operator):
    operator = file_operator
    user_id = jane(operator, url=HOOK)
    candidate(operator, user_id)
    operator.work(lambda work: findings.discover_record(work, user_id, LISTING, SITE))
    operator.work(lambda work: findings.discover_link(work, user_id, PAGE))

    def everything():
        with closing(sqlite3.connect(operator.directory / "service.db")) as connection:
            return {
                name: connection.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608  our own names
                for name in tables.metadata.tables
            }

    before = everything()
    rows = [row for name, rows in before.items() if name not in {"integrators", "metadata"} for row in rows]
    values = {value for row in rows for value in row if isinstance(value, bytes)}
    assert len(values) > 10
    assert error_of(operator.on_a_terminal("users", "purge", str(user_id), answers="n\n")).endswith(
        "nothing was deleted"
    )
    assert everything() == before
    damaged = update(tables.users).values(ciphertext=b"damaged")
    operator.work(lambda work: work.run(damaged))  # it is no reason to keep them
    run = operator.on_a_terminal("users", "purge", str(user_id), answers="y\n")
    assert (run.returncode, run.stdout) == (0, f"Deleted person {user_id} from every table.\n")
    after = everything()
    assert {name for name, rows in after.items() if rows} == {"integrators", "metadata", "audit_entries"}
    [entry] = after["audit_entries"]
    assert entry[3:6] == ("users purge", f"user {user_id}", "{}")
    left = b"".join(path.read_bytes() for path in operator.directory.glob("service.db*"))
    assert not [value for value in values if value in left]
    assert f"no user has the id {user_id}" in error_of(operator.here("users", "purge", str(user_id), "--yes"))


def test_people_of_a_removed_integrator_are_deleted_after_confirmation(file_operator):
    operator = file_operator
    jane(operator)
    words = ("integrator", "remove", "acme", "--with-users")
    run = operator.here(*words)
    assert (run.returncode, "cannot prompt for confirmation here: use --yes" in run.stderr) == (2, True)
    run = operator.on_a_terminal(*words, answers="n\n")
    assert "Delete acme and 1 person? This cannot be undone. [y/N]: " in run.stderr
    assert (run.returncode, "nothing was deleted" in run.stderr) == (1, True)
    assert integrator(operator)["users"] == 1
    assert ok(operator.on_a_terminal(*words, answers="y\n")) == "Removed acme and 1 user.\n"
    jane(operator)
    assert ok(operator.here(*words, "--yes")) == "Removed acme and 1 user.\n"
    ok(operator.here("integrator", "add", "acme", "--no-attestation"))
    assert ok(operator.here(*words)) == "Removed acme and 0 users.\n"
    run = operator.here("integrator", "remove", "nobody", "--with-users")
    assert (run.returncode, "no integrator has the name nobody" in run.stderr) == (1, True)


def test_records_say_what_a_removal_waits_for(operator):
    user_id = jane(operator)
    listings = [replace(LISTING, reference_id=name) for name in ("new", "sent", "gone")]
    site = Site(name="Seekfolk")
    ids = [
        operator.work(lambda work, one=one: findings.discover_record(work, user_id, one, site))
        for one in listings
    ]
    sent_at, check_at = (datetime(2026, 1, day, 3, 4, 5, tzinfo=UTC) for day in (2, 5))
    clock = FrozenClock(sent_at)
    for record_id in ids[1:]:
        step = partial(removals.submit_removal, record_id=record_id, site=site, next_scan_at=check_at)
        operator.work(step, clock=clock)
    step = partial(removals.verify_removal, record_id=ids[1], site=site, absent=True, next_scan_at=check_at)
    operator.work(step, clock=clock)
    for _ in range(2):
        operator.work(partial(removals.verify_removal, record_id=ids[2], site=site, absent=True), clock=clock)
    (operator.directory / "seekfolk.yaml").write_text(site_definition(verification="{confirmations: 3}"))
    rows = json_output(operator.here("users", "records", str(user_id), "--sites", ".", "--json"))
    names = ("status", "opt_out_sent_at", "absences", "confirmations", "next_check_at")
    times = sent_at.isoformat(), check_at.isoformat()
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("discovered", None, 0, 3, None),
        ("pending removal", times[0], 1, 3, times[1]),
        ("removed", times[0], 2, 3, None),
    ]
    _, _, pending, _ = ok(operator.here("users", "records", str(user_id), "--sites", ".")).splitlines()
    assert "  pending removal  2026-01-02T03:04:05Z  1 of 3    2026-01-05T03:04:05Z  " in pending
    heads, _, pending, _ = ok(operator.here("users", "records", str(user_id))).splitlines()
    assert "opt out sent at       absences  next check at" in heads
    assert "2026-01-02T03:04:05Z  1         2026-01-05T03:04:05Z" in pending


def test_a_database_moves_to_postgresql_and_back(file_operator, tmp_path):
    operator = file_operator
    user_id = jane(operator)
    with stored_in("postgresql"):
        copy, back = url_of(tmp_path), f"sqlite:///{tmp_path / 'back.db'}"
        run = operator.here("service", "copy", "--to", copy)
        assert re.fullmatch(r"Copied \d+ rows of all tables, with the same key\.\n", ok(run))
        assert "never start the service on the old one again" in run.stderr
        assert "None is damaged" in ok(operator.here("service", "check", "--database", copy))
        rows = json_output(operator.here("service", "copy", "--database", copy, "--to", back, "--json"))
        assert rows["rows"] > 5
    [person] = json_output(operator.here("users", "list", "--database", back, "--json"))
    assert (person["user_id"], person["integrator"]) == (user_id, "acme")
    entries = json_output(operator.here("service", "audit", "show", "--database", back, "--json"))["entries"]
    assert [one["command"] for one in entries] == ["service copy", "service check", "service copy"]
    assert ok(operator.here("service", "audit", "verify", "--database", back)).startswith("3 entries match")


def test_a_copy_needs_a_database_and_an_empty_target(file_operator):
    operator = file_operator
    target = f"sqlite:///{operator.directory / 'copy.db'}"
    words = ("service", "copy", "--to", target)
    assert "there is no database" in error_of(operator.here(*words))
    assert not (operator.directory / "copy.db").exists()
    jane(operator)
    operator.work(lambda work: workers.note(work, "running"))
    assert "a worker runs on the database" in error_of(operator.here(*words))
    operator.work(lambda work: workers.forget(work, "running"))
    ok(operator.here(*words))
    assert "the target contains data" in error_of(operator.here(*words))
    same = operator.here("service", "copy", "--to", operator.url)
    assert "the target contains data" in error_of(same)
    away = operator.here("service", "copy", "--to", "postgresql+psycopg://jo:s3cret@127.0.0.1:9/exposure")
    assert (away.returncode, "cannot be opened" in away.stderr, "s3cret" in away.stderr) == (1, True, False)


def test_a_persons_data_is_exported_to_a_private_file(operator):
    user_id = jane(operator)
    operator.work(lambda work: findings.discover_record(work, user_id, LISTING, SITE))
    file = operator.directory / "person.json"
    words = ("users", "export", str(user_id), "--out", "person.json")
    run = operator.here(*words)
    exported = json.loads(file.read_text())
    rows = sum(len(one) for one in exported.values() if isinstance(one, list))
    assert ok(run) == f"Wrote person.json: {rows} rows about person {user_id}.\n"
    assert (
        run.stderr == "It contains personal data, perhaps also of others: read it before you hand it over.\n"
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert exported["users"][0]["content"]["first_name"] == "Jane"
    assert exported["records"][0]["content"]["name"] == LISTING.name
    assert datetime.fromisoformat(exported["exported_at"]).tzinfo == UTC
    before = file.read_bytes()
    assert error_of(operator.here(*words)) == "Error: --out: that file exists: name another file"
    assert file.read_bytes() == before
    [entry] = json_output(operator.here("service", "audit", "show", "--json"))["entries"]
    assert (entry["command"], entry["target"]) == ("users export", f"user {user_id}")
    assert entry["details"] == {"rows": rows, "damaged": 0}


def test_only_an_export_that_was_written_is_recorded(file_operator):
    user_id = jane(file_operator)
    audited = ("service", "audit", "show", "--json")
    words = ("users", "export", str(user_id), "--out")
    before = json_output(file_operator.here(*audited))["entries"]
    too_long = f"{'person' * 41}.json"  # for the draft of the file
    assert "cannot be written: File name too long" in error_of(file_operator.here(*words, too_long))
    assert json_output(file_operator.here(*audited))["entries"] == before
    with closing(sqlite3.connect(file_operator.directory / "service.db")) as other:
        other.execute(
            "CREATE TRIGGER closed BEFORE INSERT ON audit_entries BEGIN SELECT RAISE(FAIL, ''); END"
        )
        other.commit()
    assert "the database cannot be used" in error_of(file_operator.here(*words, "person.json"))
    assert not [*file_operator.directory.glob("*person*")]


def test_an_export_says_how_many_values_are_damaged(file_operator):
    user_id = jane(file_operator)
    damaged = update(tables.users).values(ciphertext=b"damaged")
    file_operator.work(lambda work: work.run(damaged))
    run = file_operator.here("users", "export", str(user_id), "--out", "person.json")
    assert ok(run)
    assert run.stderr.splitlines()[-1] == "Not in it: damaged values (1). Run exposurekit service check."


def test_a_purge_on_postgresql_says_where_the_data_remains(postgresql_operator):
    """VACUUM leaves the bytes in its tables; VACUUM FULL leaves them in the write-ahead log."""
    operator, data = postgresql_operator, postgres.server().pgdata
    user_id = jane(operator)
    [row] = operator.work(lambda work: work.all(select(tables.users.c.ciphertext)))

    def remains():
        files = (path for path in data.rglob("*") if path.is_file())
        return {file.relative_to(data).parts[0] for file in files if row.ciphertext in file.read_bytes()}

    def execute(statement):
        with psycopg.connect(operator.url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(statement)

    run = operator.here("users", "purge", str(user_id), "--yes")
    assert (run.returncode, run.stdout) == (0, f"Deleted person {user_id} from every table.\n")
    assert (
        "in its tables until VACUUM FULL, and in its write-ahead log, with any archive and replica"
        in run.stderr
    )
    execute("CHECKPOINT")
    assert remains() == {"base", "pg_wal"}
    execute("VACUUM FULL users")
    assert remains() == {"pg_wal"}


@pytest.mark.parametrize("command", ["users purge {}", "integrator remove acme --with-users"])
def test_an_erasure_says_if_a_reader_keeps_the_log(file_operator, command):
    operator = file_operator
    user_id = jane(operator)
    [row] = operator.work(lambda work: work.all(select(tables.users.c.ciphertext)))

    def remains():
        return any(row.ciphertext in file.read_bytes() for file in operator.directory.glob("service.db*"))

    with closing(sqlite3.connect(operator.directory / "service.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM users").fetchall()
        run = operator.here(*command.format(user_id).split(), "--yes")
        assert run.returncode == 0
        assert run.stdout in {f"Deleted person {user_id} from every table.\n", "Removed acme and 1 user.\n"}
        assert error_of(run).startswith("Other processes were reading, so the encrypted data stays")
        assert remains()


def test_people_of_a_removed_integrator_leave_no_log(file_operator):
    operator = file_operator
    jane(operator)
    [row] = operator.work(lambda work: work.all(select(tables.users.c.ciphertext)))
    with closing(sqlite3.connect(operator.directory / "service.db", isolation_level=None)) as other:
        other.execute("SELECT * FROM users").fetchall()  # the log outlives the command
        ok(operator.here("integrator", "remove", "acme", "--with-users", "--yes"))
        left = b"".join(file.read_bytes() for file in operator.directory.glob("service.db*"))
        assert row.ciphertext not in left


def dead_delivery(operator, user_id):
    """Let a delivery about the person die and return its webhook id."""
    clock = FrozenClock(datetime.now(UTC) - timedelta(days=1))
    operator.work(lambda work: findings.discover_link(work, user_id, PAGE), clock=clock)
    for _ in range(4):
        clock.advance(timedelta(hours=1))
        [lease] = operator.work(
            lambda work: leases.acquire(work, tables.deliveries, limit=1, duration=SOON), clock=clock
        )
        parcel = operator.work(lambda work: outbox.prepare(work, lease), clock=clock)  # noqa: B023
        state = operator.work(
            lambda work: delivery.record_attempt(work, lease, status=500, outcome="status 500"),  # noqa: B023
            clock=clock,
        )
    assert state == "dead"
    return parcel.webhook_id


def test_deliveries_are_listed_and_dead_ones_replayed(operator):
    user_id = jane(operator, url=HOOK)
    dead = dead_delivery(operator, user_id)
    operator.work(lambda work: findings.discover_record(work, user_id, LISTING, SITE))
    newest, oldest = json_output(operator.here("webhooks", "list", "--json"))
    assert (newest["state"], newest["attempts"], newest["events"]) == ("open", 0, 2)
    assert (oldest["state"], oldest["attempts"], oldest["last_outcome"]) == ("dead", 4, "status 500")
    assert oldest["webhook_id"] == dead
    assert (oldest["integrator"], oldest["user_id"], oldest["due_at"]) == ("acme", user_id, None)
    [listed_dead] = json_output(operator.here("webhooks", "list", "--state", "dead", "--json"))
    assert listed_dead == oldest
    assert len(json_output(operator.here("webhooks", "list", "--limit", "1", "--json"))) == 1
    columns = ok(operator.here("webhooks", "list")).splitlines()
    assert columns[0].split()[:2] == ["webhook", "id"]
    assert re.search(rf"^{dead}  acme .* dead .* status 500$", columns[2])
    run = operator.here("webhooks", "replay", dead, "msg_nobody")
    assert error_of(run).startswith("Error: msg_nobody: no dead delivery")
    assert json_output(operator.here("webhooks", "list", "--state", "dead", "--json")) == [oldest]
    assert ok(operator.here("webhooks", "replay", dead, dead)) == "1 delivery will be sent again.\n"
    [again] = json_output(operator.here("webhooks", "list", "--state", "pending", "--json"))
    assert again["webhook_id"] == dead
    assert again["due_at"] is not None
    assert "no dead delivery" in error_of(operator.here("webhooks", "replay", dead))


def test_dead_deliveries_are_a_warning_until_they_are_replayed(operator):
    def warnings():
        run = operator.here("doctor", "--json")
        checks = json.loads(run.stdout), json_output(operator.here("service", "status", "--json"))["checks"]
        doctor, status = ([one for one in some if one["check"] == "webhooks"] for some in checks)
        assert (run.returncode, doctor) == (0, status)
        return [(one["state"], one["message"], "--state dead" in one["fix"]) for one in status]

    user_id = jane(operator, url=HOOK)
    assert warnings() == []
    dead_delivery(operator, user_id)
    assert warnings() == [("warn", "1 dead delivery: every attempt failed", True)]
    ok(operator.here("integrator", "clear-callback", "acme"))
    assert warnings() == []  # nobody would receive them
    operator.work(lambda work: endpoints.set_callback(work, "acme", endpoints.Callback(HOOK)))
    assert len(warnings()) == 1
    ok(operator.here("webhooks", "replay", "--all"))
    assert warnings() == []


def test_every_dead_delivery_is_replayed_at_once(operator):
    dead = dead_delivery(operator, jane(operator, url=HOOK))
    assert ok(operator.here("webhooks", "replay", "--all")) == "1 delivery will be sent again.\n"
    assert ok(operator.here("webhooks", "replay", "--all")) == "0 deliveries will be sent again.\n"
    [again] = json_output(operator.here("webhooks", "list", "--json"))
    assert (again["webhook_id"], again["state"]) == (dead, "pending")


def test_the_status_has_counts_and_no_names(operator):
    user_id = jane(operator, url=HOOK)
    dead = dead_delivery(operator, user_id)
    ok(operator.here("webhooks", "replay", dead))
    site = Site(name="Seekfolk", removed_by_us=True)
    operator.work(lambda work: findings.discover_record(work, user_id, LISTING, site))
    for reason in (None, "blocked", None, "changed layout"):
        operator.work(
            lambda work: statistics.record_scan(work, "Seekfolk", reason=reason, trusted=True)  # noqa: B023
        )
    operator.work(lambda work: statistics.record_scan(work, "Everyname", reason=None, trusted=False))
    operator.work(lambda work: statistics.reserve(work, "Never", delay=timedelta(0), concurrency=1))
    status = json_output(operator.here("service", "status", "--json"))
    assert list(status) == STATUS
    assert status["people"] == {"registered": 1, "active": 1, "with_consent": 1, "may_be_scanned": 1}
    assert status["deliveries"] == {"open": 1, "pending": 1, "delivered": 0, "dead": 0}
    for kind, waiting in (("scans", 0), ("removals", 0), ("deliveries", 1)):
        counts = status["work"][kind]
        assert (counts["waiting"], counts["due"], counts["leased"]) == (waiting, 1, 0), kind
        assert datetime.fromisoformat(counts["oldest_due_at"]) <= datetime.now(UTC)
    assert [(one["check"], one["state"]) for one in status["checks"]] == [
        ("worker", "warn"),
        ("sites", "warn"),
    ]
    everyname, seekfolk = status["sites"]
    assert (everyname["untrusted_scans"], everyname["last_good_scan_at"]) == (1, None)
    assert (seekfolk["scans"], seekfolk["inconclusive_rate"]) == (4, 0.5)
    assert seekfolk["last_reason"] == "changed layout"
    assert json_output(operator.here("sites", "health", "--json")) == status["sites"]
    output = ok(operator.here("service", "status"))
    assert "People: 1 registered, 1 active, 1 with consent, 1 may be scanned." in output
    assert re.search(r"^Seekfolk +4 +2 +0\.5 +0 +\S+Z +\S+Z +changed layout$", output, re.MULTILINE)
    assert output.endswith(ok(operator.here("sites", "health")))
    for word in ("Jane", "Doe", "Oakmere", "places.example", "club.example", HOOK):
        assert word not in output + json.dumps(status)


def test_the_status_names_what_stops_the_service(file_operator):
    """In the words of exposurekit doctor."""
    operator = file_operator
    jane(operator)

    def checks():
        lines = ok(operator.here("service", "status", "--sites", "sites")).partition("\n\n")[0].splitlines()
        operator.environment["EXPOSUREKIT_SITES"] = "sites"
        assert not {*lines} - {*operator.here("doctor").stdout.splitlines()}
        return lines

    definition = operator.directory / "sites" / "seekfolk.yaml"
    definition.parent.mkdir()
    assert checks()[1] == (
        "warn  sites: no file in sites ends in .yaml, so no site is scanned -> write a definition there, or correct --sites "
        "or EXPOSUREKIT_SITES"
    )
    definition.write_text("name: Seekfolk\npolitenes: {}\n")
    worker, sites, *problems = checks()
    assert worker.startswith(
        "warn  worker: none runs, so no scan, removal or webhook begins; a job has been due for "
    )
    assert worker.endswith(" -> start exposurekit serve; with PostgreSQL, also exposurekit worker")
    fix = "correct the files, and run exposurekit sites check --offline DIRECTORY; or correct --sites or EXPOSUREKIT_SITES"
    assert sites == f"fail  sites: serve and worker do not start -> {fix}"
    assert "      sites/seekfolk.yaml, line 1: search is missing" in problems
    assert (
        "      sites/seekfolk.yaml, line 2: politenes is not a known key; did you mean politeness?"
        in problems
    )
    [_, listed] = json_output(operator.here("service", "status", "--sites", "sites", "--json"))["checks"]
    assert listed["problems"] == [line.strip() for line in problems]
    definition.write_text(site_definition("https://seekfolk.example"))
    operator.work(lambda work: workers.note(work, "a"))
    assert checks() == [
        "ok    worker: 1 worker runs, and 0 jobs now; no site was scanned yet",
        "ok    sites: valid definitions: 1",
    ]


SCAN_FIX = "exposurekit sites check FILE; after a correction, restart serve and worker, and run exposurekit users rescan --all"


def test_the_status_names_defined_sites_whose_scans_fail(file_operator):
    """Not those that are no longer defined, or whose searches a person opens."""
    operator = file_operator
    jane(operator)
    (operator.directory / "sites").mkdir()
    person = "{method: person, url: 'https://places.example/', fields: {name: '{last_name}'}, no_results: Nobody here}"
    for name, blocks in {"Seekfolk": {}, "Peepfolk": {}, "Places": {"search": person}}.items():
        definition = site_definition("https://seekfolk.example", **blocks)
        (operator.directory / "sites" / f"{name.lower()}.yaml").write_text(
            definition.replace("name: Seekfolk", f"name: {name}")
        )
    operator.environment |= {"EXPOSUREKIT_SITES": "sites", "EXPOSUREKIT_DATABASE": "sqlite:///service.db"}

    def record(site, reason, *, ago=timedelta(0), trusted=True):
        clock = FrozenClock(datetime.now(UTC) - ago)
        operator.work(
            lambda work: statistics.record_scan(work, site, reason=reason, trusted=trusted), clock=clock
        )

    def lines():
        printed = ok(operator.here("service", "status")).partition("\n\n")[0].splitlines()[2:]
        assert not {*printed} - {*operator.here("doctor").stdout.splitlines()}
        return printed

    assert lines() == []
    for site in ("Seekfolk", "Peepfolk"):
        record(site, None)
    record("Peepfolk", "blocked")  # once
    for site in ("Places", "Elsewhere"):
        record(site, "changed layout")
    assert lines() == ["ok    scans: sites that scans can read: 2"]
    record("Seekfolk", statistics.CONTROL_MISSING)
    problem = "      Seekfolk: the control person is not listed"
    assert lines() == [f"warn  scans: sites whose scans fail: 1 -> {SCAN_FIX}", problem]
    old = timedelta(days=9)
    record("Peepfolk", None, ago=old)
    record("Peepfolk", None, trusted=False)
    problems = ["      Peepfolk: an invented person was listed", problem]
    assert lines() == [f"warn  scans: sites whose scans fail: 2 -> {SCAN_FIX}", *problems]


def test_leased_work_is_not_due(operator):
    jane(operator)
    operator.work(lambda work: leases.acquire(work, tables.users, limit=1, duration=timedelta(hours=1)))
    scans = json_output(operator.here("service", "status", "--json"))["work"]["scans"]
    assert scans == {"waiting": 0, "due": 0, "leased": 1, "oldest_due_at": None}


def test_status_shows_what_a_wrong_clock_put_off(operator):
    jane(operator)
    clock = FrozenClock(datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC))

    async def record(work, rows, ahead, *, is_same_pass):
        since = clock.now() - timedelta(seconds=0 if is_same_pass else -1)
        correction = leases.Correction(rows, ahead)
        await jobs.record_correction(work, tables.records, correction, since=since)

    def corrections():
        return json_output(operator.here("service", "status", "--json"))["clock_corrections"]

    assert corrections() == []
    assert "ahead" not in ok(operator.here("service", "status"))
    for rows, ahead, is_same_pass, expected in (
        (3, timedelta(days=2), False, (3, 172_800)),
        (1500, timedelta(hours=50, seconds=1.5), True, (1503, 180_001)),
        (1, timedelta(hours=1), True, (1504, 180_001)),
    ):
        operator.work(lambda work: record(work, rows, ahead, is_same_pass=is_same_pass), clock=clock)  # noqa: B023
        [one] = corrections()
        assert (one["kind"], one["at"]) == ("removals", "2026-05-06T07:08:09+00:00")
        assert (one["jobs"], one["ahead_s"]) == expected
    line = (
        "2026-05-06T07:08:09Z: the clock had been ahead by at least 2 days, 2:00:01; "
        "1,504 removals that it had put off were made due."
    )
    assert line in ok(operator.here("service", "status"))
    operator.work(lambda work: record(work, 1, timedelta(hours=1), is_same_pass=False), clock=clock)
    assert [(one["jobs"], one["ahead_s"]) for one in corrections()] == [(1, 3600)]
    assert "; 1 removal that it had put off was made due.\n" in ok(operator.here("service", "status"))


def test_status_names_instants_that_are_in_the_future(operator):
    """As after a start with a clock that was ahead."""
    jane(operator)
    for ahead, words in ((timedelta(minutes=75), "75 minutes"), (timedelta(hours=50), "50 hours")):
        clock = FrozenClock(datetime.now(UTC) + ahead)
        operator.work(lambda work: workers.note(work, "a"), clock=clock)
        operator.work(
            lambda work: statistics.record_scan(work, "Seekfolk", reason=None, trusted=True), clock=clock
        )
        future = rf"{words} in the future \(was the clock ahead\?\)"
        status = ok(operator.here("service", "status"))
        assert re.search(rf"; one was last seen {future}; .*last scan {future} -> ", status)
    clock = FrozenClock(datetime.now(UTC) + timedelta(seconds=20))
    operator.work(lambda work: workers.note(work, "b"), clock=clock)
    operator.work(
        lambda work: statistics.record_scan(work, "Seekfolk", reason=None, trusted=True), clock=clock
    )
    assert "; last scan 0 minutes ago" in ok(operator.here("service", "status"))


def test_people_without_activation_or_consent_are_not_scanned(operator):
    user_id = jane(operator)
    operator.work(lambda work: consent.deactivate(work, user_id))
    people = json_output(operator.here("service", "status", "--json"))["people"]
    assert people == {"registered": 1, "active": 0, "with_consent": 1, "may_be_scanned": 0}


@pytest.mark.long
def test_a_locked_database_is_a_one_line_error(file_operator):
    jane(file_operator)
    with closing(sqlite3.connect(file_operator.directory / "service.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        run = file_operator.here("users", "deactivate", "1")
        other.execute("ROLLBACK")
    assert run.returncode == 1
    assert "service.db is locked by another process" in error_of(run)
