"""The commands for a person with a browser: searches to open and pages that they saved, forms to send and what came of them."""

import json
import re
import textwrap
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from sqlalchemy import delete, update
from support.saved_pages import saved_page
from support.shell import error_of
from support.site_definitions import site_definition

import exposurekit
from exposurekit.contract.inputs import AddressItem, EmailItem
from exposurekit.service.accounts import integrators, users
from exposurekit.service.findings import findings
from exposurekit.service.mail import opt_out_requests
from exposurekit.service.models import Listing
from exposurekit.service.scanning import schedule
from exposurekit.service.sites.loader import directory
from exposurekit.service.storage import tables

MANUAL = (Path(exposurekit.__file__).parent / "service" / "README.md").read_text()
SECTION = MANUAL.partition("## Saved pages\n")[2].partition("\n## ")[0]
SEARCH = textwrap.dedent(re.search(r"```yaml\n(.*?)```", SECTION, re.DOTALL)[1])
DEFINITION = site_definition(
    search=f"{SEARCH.removeprefix('search:').rstrip()}\n  next: a.next@href\n  blocked: Are you a robot?",
    listings='{item: li, name: h2, reference_id: "@id", locations: .town, emails: .email}',
    controls="{listed: {first_name: Jane, last_name: Doe}}",
)
COMMANDS = re.findall(r"^ +(exposurekit .+)", SECTION, re.MULTILINE)
LISTED = "<li id=r7><h2>Jane Doe</h2><i class=town>Oakmere, CA</i><i class=email>jane@example.com</i></li>"
ADDRESS = "https://seekfolk.example/search?name=Jane+Doe&state=CA"


def saved(text, address=ADDRESS):
    return saved_page(text, address)


@pytest.fixture
def jane(operator):
    """The id of Jane, who may be scanned; a directory has a site whose search a person opens."""

    async def register(work):
        await integrators.add(work, "globex", attested_by="Jo Doe")
        globex = await integrators.find(work, "globex")
        address = AddressItem(city="Oakmere", state="CA", address1="", address2="", zip="")
        items = {"addresses": [address], "emails": [EmailItem(address="jane@example.com")]}
        return (await users.create(work, globex.id, {"first_name": "Jane", "last_name": "Doe"} | items)).id

    assert operator.here("integrator", "add", "acme", "--no-attestation").returncode == 0
    (operator.directory / "sites").mkdir()
    (operator.directory / "sites" / "seekfolk.yaml").write_text(DEFINITION)
    return operator.work(register)


PERSON = """
first_name: Mara
last_name: Thornbury
birth_date: 1985-02-17
addresses: [{city: Oakmere, state: CA, zip: "01234"}]
emails: [mara@thornbury.example]
phone_numbers: [555-555-0123]
aliases: [{first_name: Mary, last_name: Thornbury, alias_type: maiden}]
middle_name:
"""


def subject_of(operator, user_id):
    return operator.work(lambda work: users.get_subject(work, user_id))


@pytest.mark.parametrize("is_json", [False, True])
def test_a_person_in_a_file_is_registered(operator, is_json):
    assert operator.here("integrator", "add", "acme", "--attested-by", "Jo Doe").returncode == 0
    text = json.dumps(yaml.safe_load(PERSON), default=str) if is_json else PERSON
    (operator.directory / "person.yaml").write_text(text)
    run = operator.here("users", "add", "person.yaml")
    assert (run.returncode, run.stdout) == (0, "Registered person 1. A scan is due.\n")
    mara = subject_of(operator, 1)
    assert [(one.first, one.last, one.middle) for one in mara.names] == [
        ("Mara", "Thornbury", ""),
        ("Mary", "Thornbury", ""),
    ]
    assert (mara.emails, mara.phone_numbers) == (("mara@thornbury.example",), ("5555550123",))
    assert (mara.birth_date, mara.places[0].zip) == (date(1985, 2, 17), "01234")
    [listed] = json.loads(operator.here("users", "list", "--json").stdout)
    assert (listed["user_id"], listed["integrator"], listed["has_consent"]) == (1, "acme", True)
    audited = operator.here("service", "audit", "show").stdout
    assert "users add" in audited
    assert "Mara" not in audited


def test_a_person_needs_an_integrator(operator):
    operator.here("integrator", "add", "acme", "--no-attestation")
    operator.work(lambda work: work.run(delete(tables.integrators)))
    refused = operator.here("users", "add", "-", stdin=PERSON)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert error_of(refused) == "Error: no integrator is registered: exposurekit integrator add NAME"


def test_a_person_on_stdin_is_registered_for_an_integrator(operator):
    for name in ("acme", "globex"):
        operator.here("integrator", "add", name, "--no-attestation")
    refused = operator.here("users", "add", "-", stdin=PERSON)
    assert refused.returncode == 2
    assert "name the integrator with --integrator: exposurekit integrator list shows them" in refused.stderr
    added = operator.here("users", "add", "-", "--integrator", "globex", "--json", stdin=PERSON)
    assert json.loads(added.stdout) == {"user_id": 1, "scan_is_due": False}
    added = operator.here("users", "add", "-", "--integrator", "globex", stdin=PERSON)
    assert added.stdout.startswith("Registered person 2. No scan is due before their consent is recorded")
    assert "no integrator has the name other" in error_of(
        operator.here("users", "add", "-", "--integrator", "other", stdin=PERSON)
    )


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"last_name": ""}, "last_name is missing"),
        ({"addresses": "[{city: Planted}]"}, "addresses[0][state] is missing"),
        (
            {"addresses": "[{city: Planted, state: CA, zip: 01234}]"},
            "FILE, line 4: addresses[0][zip] must be in quotes, so that it is read as text",
        ),
        (
            {"addresses": "[{city: Planted, state: ON}]"},
            "FILE, line 4: addresses[0][state] must be in quotes, so that it is read as text",
        ),
        (
            {"emails": "[{adress: planted@thornbury.example}]"},
            "FILE, line 5: unknown key; did you mean address?",
        ),
        ({"planted": "x"}, "FILE, line 8: unknown key: the keys are first_name, last_name, middle_name, "),
        ({"birth_date": "Planted"}, "birth_date is invalid: it must be epoch seconds or a date such as"),
        ({"birth_date": "2999-01-01"}, "birth_date is invalid: it must not be in the future"),
        ({"aliases": "Planted: x"}, "FILE, line 7: is not YAML"),
        ({"phone_numbers": "[planted]"}, "phone_numbers[0][number] is invalid: it must be digits"),
        ({"phone_numbers": "{planted: 1}"}, "FILE, line 6: phone_numbers must be a list"),
        ({"first_name": "{planted: 1}"}, "FILE, line 1: first_name must be text"),
        ({"emails": "[{address: {planted: 1}}]"}, "FILE, line 5: emails[0][address] must be text"),
        (None, "FILE must have keys with values, such as first_name: Mara"),
    ],
)
def test_an_error_in_a_persons_file_names_the_field(file_operator, changed, error):
    operator = file_operator
    operator.here("integrator", "add", "acme", "--no-attestation")
    lines = dict(line.split(": ", 1) for line in PERSON.strip().splitlines()[:-1])
    text = "Planted" if changed is None else "".join(f"{k}: {v}\n" for k, v in (lines | changed).items())
    (operator.directory / "planted.yaml").write_text(text)
    run = operator.here("users", "add", "planted.yaml")
    assert (run.returncode, run.stdout) == (1, "")
    assert error_of(run).startswith(f"Error: {error}")
    assert "planted" not in run.stderr.casefold()
    assert operator.here("users", "list", "--json").stdout == "[]\n"
    run = operator.here("users", "add", "missing-planted.yaml")
    assert error_of(run) == "Error: FILE cannot be read: No such file or directory"


def written(operator, *texts):
    for name, text in zip(("one.mhtml", "two.mhtml"), texts, strict=False):
        (operator.directory / name).write_text(text, newline="")


def run(operator, command, user_id):
    return operator.here(*command.replace(" 12 ", f" {user_id} ").split()[1:])


def test_the_steps_of_the_manual_scan_a_saved_page(operator, jane):
    queue, scan = COMMANDS
    listed = json.loads(run(operator, f"{queue} --json", jane).stdout)
    assert listed == [
        {"user_id": jane, "site": "Seekfolk", "waiting": 0, "to_verify": 0}
        | {"next_due_at": None, "last_saved_at": None, "address": ADDRESS}
    ]
    following = saved(f'{LISTED}<a class=next href="{ADDRESS}&amp;page=2">more</a>')
    written(operator, following, saved("<li id=r9><h2>Jane Other</h2></li>", f"{ADDRESS}&page=2"))
    done = run(operator, scan, jane)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"Seekfolk, person {jane}: listings 2, records discovered 1, confirmed 0, missing 0, absences counted 0, removed 0.\n"
    )
    [listed] = json.loads(run(operator, f"{queue} --json", jane).stdout)
    assert datetime.now(UTC) - datetime.fromisoformat(listed["last_saved_at"]) < timedelta(minutes=5)
    [record] = json.loads(operator.here("users", "records", str(jane), "--json").stdout)
    assert (record["reference_id"], record["status"]) == ("r7", "discovered")
    heads, row = operator.here("users", "records", str(jane)).stdout.splitlines()
    assert (heads.split()[:3], row.split()[1:3]) == (["id", "site", "status"], ["Seekfolk", "discovered"])
    done = operator.here(*scan.replace(" 12 ", f" {jane} ").replace("two.mhtml", "--json").split()[1:])
    assert json.loads(done.stdout)["incomplete"] == "pages are missing"


def test_a_scan_of_pages_names_possible_matches(operator, jane):
    written(operator, saved("<li id=r8><h2>Jane Doe</h2></li>"))
    scanned = run(operator, COMMANDS[1].replace(" two.mhtml", ""), jane)
    assert "records discovered 0" in scanned.stdout
    assert scanned.stderr == f"1 possible match needs a decision: exposurekit users candidates {jane}\n"
    [candidate] = json.loads(operator.here("users", "candidates", str(jane), "--json").stdout)
    operator.here("users", "reject", str(candidate["id"]))
    assert run(operator, COMMANDS[1].replace(" two.mhtml", ""), jane).stderr == ""


def test_records_of_nobody_are_an_error(operator, jane):
    assert "No records." in operator.here("users", "records", str(jane)).stderr
    assert "no user has the id 999" in error_of(operator.here("users", "records", "999"))


@pytest.mark.parametrize(
    "typed",
    [
        *("jane doe", "Doe, Jane", "DOE", " Jane@Example.com\n", "Jane Unknown", "joe@example.com"),
        *(
            "\ufeffjane@example.com",
            "\ufeffJane Doe",
            "J. Fennimoor <jane@example.com>",
            "Joe, jane@example.com.",
        ),
        *("Jane Doe <joe@example.com>", "mailto:jane@example.com; joe@example.com", "J. Doe"),
    ],
)
def test_a_person_is_found_by_what_an_erasure_request_states(operator, jane, typed):
    run = operator.here("users", "find", "--json", stdin=typed)
    people = json.loads(run.stdout)
    expected = [] if typed in {"Jane Unknown", "joe@example.com"} else [jane]
    assert [one["user_id"] for one in people] == expected
    assert {"integrator", "registered_at", "records"} <= set(*people) or not people
    assert not {"jane", "doe", "example"} & set(re.findall(r"\w+", run.stdout.lower()))
    log = operator.here("service", "audit", "show", "--json").stdout
    [entry] = [one for one in json.loads(log)["entries"] if one["command"] == "users find"]
    assert entry["details"] == {"user_ids": expected}
    assert "doe" not in log.lower()


def test_a_search_for_nothing_is_refused(operator, jane):
    for typed in ("", "?", "J", "j. d.", "@", "+1 (609) 555-0123"):
        run = operator.here("users", "find", stdin=typed)
        assert (run.returncode, "a word of at least two letters" in run.stderr) == (2, True)
    run = operator.here("users", "find", stdin="Ren\u00e9e Doe".encode("latin-1"))
    assert (run.returncode, run.stdout, "is not UTF-8" in run.stderr) == (2, "", True)
    damaged = update(tables.users).values(ciphertext=b"damaged")
    operator.work(lambda work: work.run(damaged))
    run = operator.here("users", "find", stdin="Jane Doe")
    assert "People whose damaged data could not be compared: 1." in run.stderr


def test_an_absence_that_is_too_early_says_when_it_counts(operator, jane):
    _, scan = COMMANDS
    written(operator, saved(LISTED), saved(LISTED))
    one = scan.replace("one.mhtml two.mhtml", "one.mhtml")
    run(operator, one, jane)
    written(operator, saved("Nobody of that name"))
    counted = run(operator, one, jane)
    assert ("absences counted 1" in counted.stdout, counted.stderr) == (True, "")
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    early = run(operator, one, jane)
    assert "missing 1, absences counted 0, removed 0" in early.stdout
    assert f"An absence counts from {tomorrow:%Y-%m-%d} " in early.stderr
    counts_from = json.loads(run(operator, f"{one} --json", jane).stdout)["counts_from"]
    assert abs(datetime.fromisoformat(counts_from) - tomorrow) < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        ([saved(LISTED)], "Error: page 2 cannot be read: No such file or directory"),
        (
            [saved(LISTED), saved("Are you a robot?")],
            (
                "Error: page 2: the page is the site's bot check and not its results. Pass it in your browser, then save the "
                "results"
            ),
        ),
        (
            [saved(LISTED), saved(LISTED, ADDRESS.replace("Jane", "John"))],
            (
                "Error: page 2: it does not show the results of a search for this person: it lacks the person's first_name, "
                "last_name. Open "
                "the address that `exposurekit users queue` lists, and save that page"
            ),
        ),
        (
            [saved(LISTED), f"<html>{LISTED.replace('CA', 'California')}</html>"],
            (
                "Error: page 2: it does not show the results of a search for this person: it lacks the person's state. Open "
                "the address that `exposurekit users queue` lists, and save that page"
            ),
        ),
    ],
    ids=["no file", "bot check", "another person", "a value is missing"],
)
def test_a_refused_page_is_named_by_its_number(operator, jane, texts, error):
    """The name of a file often contains the person's."""
    written(operator, *texts)
    refused = run(operator, COMMANDS[1], jane)
    assert (refused.returncode, refused.stdout, error_of(refused)) == (1, "", error)
    assert operator.work(lambda work: findings.list_records(work, jane)) == []


def test_a_site_without_a_definition_is_a_usage_error(operator, jane):
    wrong = run(operator, COMMANDS[1].replace("Seekfolk", "Nosyheron"), jane)
    assert wrong.returncode == 2
    assert "there is no definition of this site: check --site" in wrong.stderr
    near = run(operator, COMMANDS[1].replace("Seekfolk", "Seakfolk"), jane)
    assert (near.returncode, "did you mean Seekfolk?" in near.stderr) == (2, True)
    written(operator, saved("Nobody of that name"), saved("Nobody of that name"))
    assert run(operator, COMMANDS[1].replace("Seekfolk", "seekfolk"), jane).returncode == 0


def test_health_lists_sites_that_were_never_scanned(operator, jane):
    assert operator.here("sites", "health").stdout == ""
    [row] = json.loads(operator.here("sites", "health", "--sites", "sites", "--json").stdout)
    assert (row["site"], row["scans"], row["last_scan_at"], row["last_reason"]) == (
        "Seekfolk",
        0,
        None,
        "never scanned",
    )


def test_a_purge_of_nobody_says_so_before_it_asks(operator, jane):
    nobody = operator.here("users", "purge", str(jane + 1))
    assert (nobody.returncode, error_of(nobody)) == (
        1,
        f"Error: no user has the id {jane + 1}: exposurekit users list shows the ids",
    )
    jane_herself = operator.here("users", "purge", str(jane))
    assert (jane_herself.returncode, "use --yes" in jane_herself.stderr) == (2, True)


@pytest.mark.parametrize(
    "words",
    [("queue",), ("opt-outs",), ("sent", "1"), ("failed", "1"), ("scan", "1", "page.html", "--site", "X")],
)
def test_no_site_definitions_is_an_error(operator, jane, words):
    """An empty list would say that there is nothing to do."""
    forgotten = operator.here("users", *words)
    error = "Error: no site definitions: name their directory with --sites, or set EXPOSUREKIT_SITES"
    assert (forgotten.returncode, forgotten.stdout, error_of(forgotten)) == (1, "", error)
    (operator.directory / "empty").mkdir()
    empty = operator.here("users", *words, "--sites", "empty")
    assert "no site definitions in empty: name" in error_of(empty)


def test_pages_of_the_control_check_a_definition(operator, jane):
    file = "sites/seekfolk.yaml"
    unsaved = operator.here("sites", "check", file)
    assert (unsaved.returncode, unsaved.stdout) == (0, f"ok: {file}: Seekfolk is valid.\n")
    assert "check them with --page FILE" in error_of(unsaved)
    written(operator, saved(LISTED), saved("Nobody of that name"))
    works = operator.here("sites", "check", file, "--page", "one.mhtml")
    assert (works.returncode, works.stdout) == (0, f"ok: {file}: Seekfolk works.\n")
    fails = operator.here("sites", "check", file, "--page", "two.mhtml")
    assert (fails.returncode, "is not listed" in error_of(fails)) == (1, True)
    offline = operator.here("sites", "check", file, "--offline", "--page", "two.mhtml")
    assert (offline.returncode, "is not listed" in error_of(offline)) == (1, True)
    assert operator.here("sites", "check", file, file, "--page", "one.mhtml").returncode == 2
    text = (operator.directory / file).read_text()
    (operator.directory / file).write_text(re.sub("controls:.*\n", "", text))
    unknown = operator.here("sites", "check", file, "--page", "one.mhtml")
    assert (unknown.returncode, unknown.stdout, "controls.listed is missing" in error_of(unknown)) == (
        1,
        "",
        True,
    )


# --- assisted opt-outs ------------------------------------------------------------------------------------

ASSISTED = MANUAL.partition("## Assisted opt-outs\n")[2].partition("\n## ")[0]
REMOVAL = textwrap.dedent(re.search(r"```yaml\n(.*?)```", ASSISTED, re.DOTALL)[1])
OPT_OUTS, SENT, FAILED = re.findall(r"^ +(exposurekit .+)", ASSISTED, re.MULTILINE)
CONFIRMED = """\
  confirm: {from: no-reply@seekfolk.example, subject: Confirm, link_host: seekfolk.example, accepted: Done}
"""


@pytest.fixture
def listed(operator, jane):
    """The ids of Jane's records on two sites, of which the first has the removal of the manual."""
    assisted = DEFINITION.replace("removal: {method: manual}\n", REMOVAL)
    (operator.directory / "sites" / "seekfolk.yaml").write_text(assisted)
    (operator.directory / "sites" / "peepfolk.yaml").write_text(DEFINITION.replace("Seekfolk", "Peepfolk"))

    async def discover(work):
        return [
            await findings.discover_record(
                work, jane, Listing(name="Jane Doe", reference_id="r7"), definition.site()
            )
            for definition in directory(operator.directory / "sites").values()
        ][::-1]

    return operator.work(discover)


def statuses(operator, user_id):
    records = operator.work(lambda work: findings.list_records(work, user_id))
    return [one["record"]["status"] for one in records]


def reported(operator, command, record_id):
    return operator.here(*re.sub(r"\d+", str(record_id), command).split()[1:])


def test_the_steps_of_the_manual_send_an_opt_out(operator, jane, listed):
    number = listed[0]
    offered = operator.here(*OPT_OUTS.split()[1:])
    assert (offered.returncode, offered.stderr) == (0, "")
    assert offered.stdout == (
        f"{number}  Seekfolk: person {jane}, listings 2, also from Peepfolk, about 3 minutes\n"
        "    Listing: r7\n"
        "    Open: https://seekfolk.example/opt-out\n"
        "    Type: State = CA\n"
        "    1. Open the form.\n"
    )
    done = reported(operator, SENT, number)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Listings pending removal: 2.")
    sister, line = done.stdout.splitlines()[1:]
    words = r"save and scan the pages again \(users queue\) from \d{4}-\d\d-\d\d .*UTC\."
    assert re.fullmatch(f"Peepfolk: {words}", sister)
    assert re.fullmatch(f"Seekfolk: {words}", line)
    queue = json.loads(operator.here("users", "queue", "--sites", "sites", "--json").stdout)
    assert {row["site"]: (row["to_verify"], row["next_due_at"][:10]) for row in queue}["Seekfolk"] == (
        0,
        line.split(" from ")[1][:10],
    )
    assert statuses(operator, jane) == ["pending removal"] * 2
    again = reported(operator, SENT, number)
    assert (again.returncode, "they were reported before" in again.stderr) == (0, True)
    assert "users opt-outs lists the ids to report" in error_of(reported(operator, SENT, 999))
    assert "'r7' is not an id" in operator.here("users", "sent", "r7").stderr
    assert "No opt-out waits" in operator.here(*OPT_OUTS.split()[1:]).stderr
    done = reported(operator, FAILED, number)
    assert (done.returncode, done.stdout) == (0, "Opt-outs reported as failed: 1.\n")
    [again] = json.loads(operator.here(*OPT_OUTS.split()[1:], "--json").stdout)
    assert (again["id"], again["failures"], again["values"]) == (number, 1, {"State": "CA"})
    assert "    Note: the site refused it\n" in operator.here(*OPT_OUTS.split()[1:]).stdout


def test_a_sister_waits_for_no_message_of_its_own_form(operator, listed):
    """The form of another site removes it, and that one sends no message."""
    sister = operator.directory / "sites" / "peepfolk.yaml"
    removal = REMOVAL.replace("Peepfolk", "").replace('{href}"', '{request_email}"') + CONFIRMED
    sister.write_text(sister.read_text().replace("removal: {method: manual}\n", removal))
    done = reported(operator, SENT, listed[0])
    assert done.returncode == 0, done.stderr
    assert [line.partition(" the ")[0] for line in done.stdout.splitlines()[1:]] == [
        "Peepfolk: save and scan",
        "Seekfolk: save and scan",
    ]


def test_a_report_is_all_or_nothing(operator, jane, listed):
    number, other = listed
    wrong = operator.here("users", "sent", str(number), str(other), "--sites", "sites")
    assert (wrong.returncode, "no definition with removal.method assisted" in error_of(wrong)) == (1, True)
    assert statuses(operator, jane) == ["discovered"] * 2


def test_a_mailbox_is_needed_where_the_site_sends_mail(operator, listed):
    file = operator.directory / "sites" / "seekfolk.yaml"
    text = file.read_text().replace('{href}"', '{request_email}"')
    file.write_text(text + CONFIRMED)
    offered = operator.here(*OPT_OUTS.split()[1:])
    assert offered.returncode == 0
    assert "1 listing is not in this list yet: name the mailbox with --mail." in offered.stderr
    checked = operator.here("sites", "check", "--offline", str(file), str(file.with_name("peepfolk.yaml")))
    assert (checked.returncode, "need a mailbox" in error_of(checked)) == (1, True)
    unprepared = reported(operator, SENT, listed[0])
    assert (unprepared.returncode, "has prepared its opt-out yet" in error_of(unprepared)) == (1, True)


def test_a_report_says_until_when_a_message_is_awaited(operator, jane, listed):
    """The sister is pending only once the message was answered."""
    file = operator.directory / "sites" / "seekfolk.yaml"
    file.write_text(file.read_text().replace('{href}"', '{request_email}"') + CONFIRMED)
    operator.work(lambda work: opt_out_requests.issue(work, jane, listed[0], "Seekfolk", within=None))
    before = datetime.now(UTC)
    done = reported(operator, SENT, listed[0])
    confirmed_within = schedule.confirmed_within(directory(file.parent)["Seekfolk"])
    days = {f"{at + confirmed_within:%Y-%m-%d}" for at in (before, datetime.now(UTC))}
    assert (done.returncode, done.stderr) == (0, "")
    count, line = done.stdout.splitlines()
    assert count == "Listings pending removal: 1."
    assert line in {f"Seekfolk: waits for the site's message until {day}." for day in days}
