"""The sites commands: definitions are read, checked against working and broken sites, and listed."""

import json
import re
import shlex
import stat
import subprocess

import pytest
from sqlalchemy import update
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from support.shell import COMMAND, error_of
from support.site_definitions import site_definition

from exposurekit.contract.inputs import AddressItem
from exposurekit.service.accounts import integrators, users
from exposurekit.service.api.server import running
from exposurekit.service.findings import findings
from exposurekit.service.models import Listing, Page, Site
from exposurekit.service.scanning import save_scan
from exposurekit.service.storage import tables

LOOPBACK = ("--site-network", "127.0.0.0/8")
NOBODY = "<p>Nobody of that name</p>"
HOME = "12 Acorn Street, Oakmere, CA"


def listed(name):
    return f"<ul><li id=r7><h2>{name}</h2></li></ul>"


async def search(request):
    """Sites that behave in different ways; Casey Controlling is listed."""
    name, kind = request.query_params["name"], request.path_params["kind"]
    is_listed = name == "Casey Controlling"
    if kind == "stalling":
        await request.body()
        await request.receive()  # the client is gone
    answers = {
        "good": HTMLResponse(listed(name) if is_listed else NOBODY),
        "others": HTMLResponse(listed("Casey Controlling")),
        "anybody": HTMLResponse(listed(name)),
        "empty": HTMLResponse(NOBODY),
        "nameless": HTMLResponse("<ul><li id=r7></li><li id=r8><h2>Casey Controlling</h2></li></ul>"),
        "blocked": HTMLResponse("Are you a robot?", 403),
        "moved": HTMLResponse("Gone", 404),
        "changed": HTMLResponse("<div>Casey Controlling</div>"),
        "broken": HTMLResponse("Oh no", 500),
        "forbidden": HTMLResponse(listed(name) if is_listed else NOBODY),
        "stalling": HTMLResponse(NOBODY),
    }
    return answers[kind]


async def robots(request) -> Response:
    return PlainTextResponse("User-agent: *\nDisallow: /forbidden")


@pytest.fixture(scope="module")
def site():
    app = Starlette(routes=[Route("/robots.txt", robots), Route("/{kind}", search)])
    with running(app) as base_url:
        yield base_url


def definition(base_url, kind="good", *, control_person="{first_name: Casey, last_name: Controlling}"):
    fields = '{name: "{first_name} {last_name}"}'
    timeout_s = 0.2 if kind == "stalling" else 60
    return site_definition(
        base_url,
        name=f"{kind.title()} Site",
        search=f"{{url: {base_url}/{kind}, fields: {fields}, no_results: Nobody of that name, timeout_s: {timeout_s}}}",
        controls=f"{{listed: {control_person}}}" if control_person else None,
        removal="{method: manual, user_fields_required: [last_name, city]}",
        politeness="{delay_s: 0.001}",
    )


def written(shell, base_url, *kinds, **options):
    """Write definition files and return their names."""
    for kind in kinds:
        (shell.directory / f"{kind}.yaml").write_text(definition(base_url, kind, **options))
    return [f"{kind}.yaml" for kind in kinds]


@pytest.mark.parametrize("kind", ["good", "others"])
def test_a_site_that_lists_only_the_control_works(shell, site, kind):
    run = shell.here("sites", "check", *written(shell, site, kind), *LOOPBACK)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == f"ok: {kind}.yaml: {kind.title()} Site works.\n"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("anybody", "an invented person is listed"),
        ("empty", "the person of controls.listed is not listed"),
        ("nameless", "listings lack a name or a reference_id"),
        ("blocked", "the site blocks requests"),
        ("moved", "check search.url"),
        ("changed", "does not match the definition"),
        ("broken", "status 500"),
        ("forbidden", "the site's robots.txt disallows it"),
        ("stalling", "time-out"),
    ],
)
def test_a_broken_site_is_reported_once_with_its_reason(shell, site, kind, reason):
    run = shell.here("sites", "check", *written(shell, site, kind), *LOOPBACK)
    assert run.returncode == 1
    assert error_of(run).startswith(f"Error: {kind}.yaml: {kind.title()} Site: ")
    assert reason in error_of(run)


@pytest.mark.parametrize(
    ("part", "noted"),
    [
        ('fields: {st: "{state}", name:', "search.fields.st"),
        ('fields: {st: "{state_name}", town: "in {state}", name:', "search.fields.st, search.fields.town"),
    ],
)
def test_a_search_without_a_value_of_the_control_is_noted(shell, site, part, noted):
    for kind in ("good", "empty"):
        text = definition(site, kind).replace("fields: {name:", part)
        (shell.directory / f"{kind}.yaml").write_text(text)
    note = f": controls.listed has no state, so it is missing in {noted}: add it, unless the site finds the person without it\n"
    run = shell.here("sites", "check", "good.yaml", "--offline")
    assert (run.returncode, run.stdout) == (0, "ok: good.yaml: Good Site is valid.\n")
    assert run.stderr == f"good.yaml: Good Site{note}"
    run = shell.here("sites", "check", "empty.yaml", *LOOPBACK)
    problem, *notes = run.stderr.splitlines(keepends=True)
    assert (run.returncode, "the person of controls.listed is not listed" in problem) == (1, True)
    assert notes == [f"empty.yaml: Empty Site{note}"]
    assert shell.here("sites", "check", "good.yaml", *LOOPBACK).stderr == ""
    complete = (shell.directory / "good.yaml").read_text().replace("Controlling}", "Controlling, state: CA}")
    (shell.directory / "good.yaml").write_text(complete)
    assert shell.here("sites", "check", "good.yaml", "--offline").stderr == ""


def test_a_definition_without_a_control_is_noted(shell, site):
    run = shell.here("sites", "check", *written(shell, site, "good", control_person=None), *LOOPBACK)
    assert (run.returncode, run.stdout.endswith(" is valid.\n")) == (0, True)
    assert "controls.listed is missing" in error_of(run)


def test_a_forbidden_network_is_not_visited(shell, site):
    run = shell.here("sites", "check", *written(shell, site, "good"))
    assert run.returncode == 1
    assert "its address is not public: --site-network allows its network" in error_of(run)


def test_several_files_are_reported_as_json(shell, site):
    good, blocked = written(shell, site, "good", "blocked")
    (shell.directory / "bad.yaml").write_text("name: Bad\nserch: {}")
    run = shell.here("sites", "check", good, "bad.yaml", blocked, "none.yaml", *LOOPBACK, "--json")
    assert (run.returncode, run.stderr) == (1, "")
    first, bad, second, none = json.loads(run.stdout)
    assert first == {"file": "good.yaml", "site": "Good Site", "ok": True, "problems": [], "notes": []}
    assert (bad["file"], bad["site"], bad["ok"]) == ("bad.yaml", None, False)
    assert "bad.yaml, line 2: serch is not a known key; did you mean search?" in bad["problems"]
    assert second["problems"] == ["the site blocks requests"]
    assert none["problems"] == ["none.yaml cannot be read: No such file or directory"]


def test_each_file_is_read_once():
    """A pipe has nothing left for a second reader."""
    words = [COMMAND, "sites", "check", "--offline", "/dev/stdin"]
    run = subprocess.run(words, input=site_definition(), capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "ok: /dev/stdin: Seekfolk is valid.\n"), run.stderr


@pytest.mark.parametrize("word", ["--offline", "--read-only"])
def test_offline_files_are_read_without_requests(shell, word):
    files = written(shell, "http://93.184.216.34:1", "good")
    run = shell.here("sites", "check", *files, word)
    assert (run.returncode, run.stdout) == (0, "ok: good.yaml: Good Site is valid.\n")
    (shell.directory / "bad.yaml").write_text("name: Bad\nserch: {}")
    run = shell.here("sites", "check", "bad.yaml", word)
    assert run.returncode == 1
    lines = run.stderr.splitlines()
    assert len(lines) > 3
    assert all(line.startswith("Error: bad.yaml, line ") for line in lines)


REGISTRY = """Data broker name:,Data broker primary website:,Data broker primary contact email address:
Acme Data,https://acme.example,privacy@acme.example
By Post,,post@acme.example
"""


def test_a_registry_becomes_drafts_and_a_table(shell):
    (shell.directory / "registry.csv").write_text(REGISTRY)
    run = shell.here("sites", "import", "registry.csv", "--out", "drafts")
    assert run.returncode == 0
    assert error_of(run).startswith("1 of 2 sites are drafted in drafts.")
    headings, drafted, skipped = (re.split("  +", line) for line in run.stdout.splitlines())
    assert headings == ["site", "file", "method", "to write", "lost", "not drafted"]
    assert drafted[:3] == ["Acme Data", "acme-data.yaml", "manual"]
    assert skipped == ["By Post", *"----", "line 3 has no web address"]
    for path in ("drafts/acme-data.yaml", "drafts"):
        run = shell.here("sites", "check", "--offline", path)
        outcome = "ok: drafts/acme-data.yaml: Acme Data is a draft: 4 keys to write.\n"
        assert (run.returncode, run.stdout) == (0, outcome)


def test_a_directory_without_definitions_is_not_checked(shell):
    (shell.directory / "empty").mkdir()
    run = shell.here("sites", "check", "--offline", "empty")
    assert run.returncode == 1
    assert error_of(run) == "Error: empty has no definitions: no file there ends in .yaml"
    (shell.directory / "empty" / "seekfolk.yml").touch()
    run = shell.here("sites", "check", "--offline", "empty")
    assert error_of(run) == (
        "Error: empty has no definitions: not read: seekfolk.yml: the name of a definition's file ends in .yaml"
    )


def test_two_files_with_one_name_fail_a_check(shell):
    for file in ("a.yaml", "b.yaml"):
        (shell.directory / file).write_text(definition("http://seekfolk.example"))
    run = shell.here("sites", "check", "--offline", ".")
    assert run.returncode == 1
    assert run.stdout == "ok: a.yaml: Good Site is valid.\n"
    assert error_of(run) == "Error: b.yaml: Good Site: name is already used in a.yaml"


def test_an_invalid_definition_stops_no_command_about_other_sites(shell, site):
    shell.here("integrator", "add", "acme", "--no-attestation")
    (shell.directory / "good.yaml").write_text(definition(site))
    (shell.directory / "bad.yaml").write_text("name: Bad\nserch: {}")
    not_used = (
        "Definitions with a problem are not used; serve and worker do not start until they are corrected."
    )
    problem = "bad.yaml, line 2: serch is not a known key; did you mean search?"
    for command in (("users", "queue"), ("users", "opt-outs"), ("sites", "health"), ("sites", "list")):
        run = shell.here(*command, "--sites", ".")
        assert run.returncode == 0
        lines = run.stderr.splitlines()
        assert f"Warning: {problem}" in lines
        assert lines.count(not_used) == 1
    (shell.directory / "good.yaml").unlink()
    for command in (("users", "queue"), ("sites", "list")):
        run = shell.here(*command, "--sites", ".")
        assert (run.returncode, "every site definition is invalid" in run.stderr) == (1, True)


def test_a_leftover_yml_file_is_named_and_not_read(shell):
    for file in ("b.yaml", "b.yml"):
        (shell.directory / file).write_text(definition("http://seekfolk.example"))
    run = shell.here("sites", "list", "--sites", ".", "--json")
    assert [one["site"] for one in json.loads(run.stdout)] == ["Good Site"]
    warning = "Warning: not read: b.yml: the name of a definition's file ends in .yaml.\n"
    assert (run.returncode, run.stderr) == (0, warning)


def test_a_draft_is_not_tried_before_it_is_written(shell):
    (shell.directory / "registry.csv").write_text(REGISTRY)
    shell.here("sites", "import", "registry.csv", "--out", ".")
    run = shell.here("sites", "check", "acme-data.yaml", "--json")
    [check] = json.loads(run.stdout)
    assert run.returncode == 1
    assert "search.no_results is a placeholder of a draft: write it" in check["problems"]
    assert len(check["problems"]) == 4


def test_an_import_of_nothing_prints_only_the_error(shell):
    run = shell.here("sites", "import", "none.csv", "--out", "drafts")
    assert (run.returncode, run.stdout) == (1, "")
    assert error_of(run) == "Error: none.csv cannot be read: No such file or directory"


def test_an_import_reports_unreadable_files_and_existing_drafts(shell):
    (shell.directory / "registry.csv").write_text(REGISTRY)
    (shell.directory / "bad\x1b.json").write_text("{}")
    run = shell.here("sites", "import", "registry.csv", "bad\x1b.json", "none.csv", "--out", "a/b", "--json")
    assert run.returncode == 1
    known, unknown = run.stderr.splitlines()
    assert known.startswith("Error: bad.json: has no known format")
    assert unknown == "Error: none.csv cannot be read: No such file or directory"
    assert json.loads(run.stdout)[0]["lost"] == [
        {"field": "opt_out_url", "reason": "the row has none, so the website stands for it"}
    ]
    again = shell.here("sites", "import", "registry.csv", "--out", "a/b")
    assert again.returncode == 1
    assert "acme-data.yaml exists; --force replaces it" in again.stdout
    assert shell.here("sites", "import", "registry.csv", "--out", "a/b", "--force").returncode == 0


def test_the_command_after_an_import_can_be_run(shell):
    (shell.directory / "registry.csv").write_text(REGISTRY)
    run = shell.here("sites", "import", "registry.csv", "--out", "my sites")
    _, _, command = run.stderr.strip().partition("then run: exposurekit ")
    check = shell.here(*shlex.split(command), "--offline", "--json")
    assert [one["file"] for one in json.loads(check.stdout)] == ["my sites/acme-data.yaml"]


def test_the_sites_of_a_directory_are_listed(shell):
    written(shell, "http://seekfolk.example", "good", "changed")
    run = shell.here("sites", "list", "--sites", ".", "--json")
    assert json.loads(run.stdout)[1] == {
        "site": "Good Site",
        "removal": "manual",
        "user_fields_required": ["last_name", "city"],
        "processing_days": 7.0,
        "declared_days": None,  # the definition states none
    }
    table = shell.here("sites", "list", "--sites", ".").stdout.splitlines()
    assert re.split("  +", table[2]) == ["Good Site", "manual", "last_name; city", "7", "-"]


def test_the_configuration_directory_may_hold_the_sites(shell):
    run = shell.here("sites", "list")
    assert run.returncode == 0
    assert "No sites are defined" in error_of(run)
    usual = shell.directory / "config" / "exposurekit" / "sites"
    usual.mkdir(parents=True)
    (usual / "good.yaml").write_text(definition("http://seekfolk.example"))
    assert [one["site"] for one in json.loads(shell.here("sites", "list", "--json").stdout)] == ["Good Site"]
    shell.environment["EXPOSUREKIT_SITES"] = str(shell.directory / "elsewhere")
    assert "is not a directory" in error_of(shell.here("sites", "list"))


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("worker",)])
def test_an_invalid_definition_stops_commands_that_need_it(shell, command):
    assert shell.here("integrator", "add", "acme", "--no-attestation").returncode == 0
    (shell.directory / "bad.yaml").write_text("name: Bad\nserch: {}")
    run = shell.here(*command, "--sites", ".")
    assert run.returncode == 1
    error = "Error: bad.yaml, line 2: serch is not a known key; did you mean search?"
    assert error in run.stderr.splitlines()


CONFIRMED = """removal:
  method: form
  url: {url}/opt-out
  fields: {{email: "{{request_email}}"}}
  accepted: Thank you
  confirm: {{from: no-reply@seekfolk.example, subject: Confirm, link_host: {host}, accepted: Done}}
"""


@pytest.fixture
def confirmed(shell, site):
    """A definition with a confirmation, and settings of a mailbox."""

    def write(host):
        text = re.sub("removal: .*\n", CONFIRMED.format(url=site, host=host), definition(site))
        (shell.directory / "good.yaml").write_text(text)

    (shell.directory / "mail").mkdir()
    (shell.directory / "mail.yaml").write_text("{address: optout@privacy.example, directory: mail}")
    return write


def test_sites_that_an_opt_out_covers_are_checked_together(shell, site):
    text = definition(site).replace("removal: {", "removal: {also_removes: [Peepfolk], ")
    (shell.directory / "good.yaml").write_text(text)
    alone = shell.here("sites", "check", "good.yaml", "--offline")
    assert alone.returncode == 0
    assert "Peepfolk is in none of these files; the service needs its definition, too" in error_of(alone)
    (shell.directory / "peepfolk.yaml").write_text(definition(site).replace("Good Site", "Peepfolk"))
    together = shell.here("sites", "check", "good.yaml", "peepfolk.yaml", "--offline")
    assert (together.returncode, together.stderr) == (0, "")


def test_a_confirmation_without_a_mailbox_is_a_problem(shell, confirmed):
    confirmed("seekfolk.example")
    run = shell.here("sites", "check", "good.yaml", "--offline")
    assert run.returncode == 1
    assert "removal.confirm, {request_email} and removal.email need a mailbox" in error_of(run)
    assert shell.here("sites", "check", "good.yaml", "--offline", "--mail", "mail.yaml").returncode == 0


def test_an_opt_out_by_email_needs_a_server_for_sending(shell, site, confirmed):
    block = "removal: {method: email, email: {to: privacy@seekfolk.example, template: ccpa}}\n"
    (shell.directory / "good.yaml").write_text(re.sub("removal: .*\n", block, definition(site)))
    run = shell.here("sites", "check", "good.yaml", "--offline", "--mail", "mail.yaml")
    assert "removal.email needs a server for sending" in error_of(run)
    settings = "{address: a@privacy.example, directory: mail, smtp: {host: smtp.privacy.example, user: a}}"
    (shell.directory / "mail.yaml").write_text(settings)
    assert shell.here("sites", "check", "good.yaml", "--offline", "--mail", "mail.yaml").returncode == 0


def test_a_follow_up_by_email_needs_a_server_for_sending(shell, site, confirmed):
    block = "removal: {method: assisted, email: {to: privacy@seekfolk.example, template: ccpa}}\n"
    (shell.directory / "good.yaml").write_text(re.sub("removal: .*\n", block, definition(site)))
    for words in ((), ("--mail", "mail.yaml")):
        run = shell.here("sites", "check", "good.yaml", "--offline", *words)
        assert (run.returncode, "did not carry out are not followed up by email" in error_of(run)) == (
            0,
            True,
        )
    settings = "{address: a@privacy.example, directory: mail, smtp: {host: smtp.privacy.example, user: a}}"
    (shell.directory / "mail.yaml").write_text(settings)
    run = shell.here("sites", "check", "good.yaml", "--offline", "--mail", "mail.yaml")
    assert (run.returncode, run.stderr) == (0, "")


def test_links_to_a_host_that_is_nowhere_are_a_problem(shell, confirmed):
    confirmed("confirm.invalid")
    run = shell.here("sites", "check", "good.yaml", *LOOPBACK, "--mail", "mail.yaml", "--json")
    [check] = json.loads(run.stdout)
    assert check["problems"] == [
        "no link to removal.confirm.link_host (confirm.invalid) can be followed: its name does not resolve"
    ]
    assert "removal.confirm.link_host is a host of neither" in check["notes"][0]
    (shell.directory / "page.html").write_text("<html>Nobody</html>")
    run = shell.here("sites", "check", "good.yaml", "--page", "page.html", "--mail", "mail.yaml", "--json")
    assert "link_host" not in str(json.loads(run.stdout)[0]["problems"])  # a saved page needs no network


MENDED = site_definition(
    listings="  # as in May\n  item: li\n  name: h2\n  reference_id: '@id'",
    controls="{listed: {first_name: Casey, last_name: Controlling, city: Oakmere}}",
)
PERSON = "{first_name: Casey, last_name: Controlling, age: 43, reference_id: r7}"


@pytest.fixture
def saved(shell):
    """Saved pages of a new layout: of a listed and of an invented person."""
    cards = "".join(
        f"<p class=card id={one}><b>Casey Controlling</b> <i>Age {age}</i></p>"
        for one, age in (("r7", 43), ("r8", 71))
    )
    (shell.directory / "listed.html").write_text(f"<html><body><div>{cards}</div></body></html>")
    (shell.directory / "absent.html").write_text(f"<html><body>{NOBODY}</body></html>")
    (shell.directory / "listed.yaml").write_text(PERSON)
    (shell.directory / "site.yaml").write_text(MENDED)
    return ("--listed", "listed.html", "--absent", "absent.html", "--person", "listed.yaml")


def test_a_changed_layout_is_mended_once_accepted(shell, saved):
    check = shell.here("sites", "check", "site.yaml", *saved)
    assert check.returncode == 1
    assert "page 1 of a listed person has neither listings nor the text of search.no_results" in check.stderr
    assert "`exposurekit sites mend` proposes new selectors" in check.stderr
    run = shell.here("sites", "mend", "site.yaml", *saved)
    assert run.returncode == 0
    assert "Nothing was written" in run.stderr
    assert (shell.directory / "site.yaml").read_text() == MENDED
    assert run.stdout.splitlines()[:2] == ["--- site.yaml (present)", "+++ site.yaml (proposed)"]
    changes = {line for line in run.stdout.splitlines()[2:] if line[0] in "+-"}
    assert changes == {"-  item: li", "+  item: .card", "-  name: h2", "+  name: b"}
    run = shell.here("sites", "mend", "site.yaml", *saved, "--write", "--json")
    written = json.loads(run.stdout)
    assert (written["changed"], written["problems"]) == (["listings.item", "listings.name"], [])
    text = MENDED.replace("item: li", "item: .card").replace("name: h2", "name: b")
    assert (shell.directory / "site.yaml").read_text() == text
    again = shell.here("sites", "mend", "site.yaml", *saved)
    assert again.stdout == "ok: site.yaml: Seekfolk passes both controls; nothing to change.\n"
    assert shell.here("sites", "check", "site.yaml", *saved).stdout == "ok: site.yaml: Seekfolk works.\n"


def test_a_mended_definition_stays_readable_and_a_link(shell, saved):
    """The service may run as another user than whoever mends its definitions."""
    file, linked = shell.directory / "site.yaml", shell.directory / "available.yaml"
    file.rename(linked)
    file.symlink_to(linked)
    linked.chmod(0o640)
    assert shell.here("sites", "mend", "site.yaml", *saved, "--write").returncode == 0
    assert file.is_symlink()
    assert "item: .card" in linked.read_text()
    assert stat.S_IMODE(linked.stat().st_mode) == 0o640


def test_without_a_proposal_nothing_is_changed(shell, saved):
    (shell.directory / "listed.yaml").write_text(PERSON.replace("43", "44"))
    run = shell.here("sites", "mend", "site.yaml", *saved, "--write")
    assert run.returncode == 1
    assert (
        "Error: site.yaml: Seekfolk: listings.age has a value that is not on the pages by itself"
        in run.stderr
    )
    assert (shell.directory / "site.yaml").read_text() == MENDED
    run = shell.here("sites", "mend", "site.yaml", "--listed", "none.html", *saved)
    assert error_of(run).startswith("Error: page 1 cannot be read: No such file")
    assert "--absent" in shell.here("sites", "mend", "site.yaml", *saved[:2]).stderr


def test_a_check_with_saved_pages_completes_a_draft(shell, saved):
    (shell.directory / "registry.csv").write_text(REGISTRY)
    shell.here("sites", "import", "registry.csv", "--out", ".")
    run = shell.here("sites", "check", "acme-data.yaml", *saved, "--write")
    assert (run.returncode, run.stderr) == (0, "Written: acme-data.yaml\n")
    assert "+  item: .card" in run.stdout.splitlines()
    run = shell.here("sites", "check", "--offline", "acme-data.yaml")
    assert (run.returncode, run.stderr) == (0, "")
    text = (shell.directory / "acme-data.yaml").read_text()
    assert "# To write" not in text
    assert "  age: 'i:lexbor-contains(\"Age\")'\n" in text


def test_missed_listings_are_estimated_from_both_ways(operator):
    """Those that scans and the web search found; without enough in common there is the reason."""
    assert operator.here("integrator", "add", "acme", "--no-attestation").returncode == 0
    (operator.directory / "sites").mkdir()
    text = definition("http://seekfolk.example").replace("/good", "/search")
    (operator.directory / "sites" / "seekfolk.yaml").write_text(text)
    nowhere = error_of(operator.here("sites", "missed"))
    assert "no site definitions: name their directory with --sites" in nowhere
    nothing = operator.here("sites", "missed", "--sites", "sites")
    assert (nothing.returncode, nothing.stderr) == (0, "No estimate: no listing has an address.\n")

    async def found(work):
        await integrators.add(work, "globex", attested_by="Jo Doe")
        globex = await integrators.find(work, "globex")
        home = {"address1": "12 Acorn Street", "address2": "", "city": "Oakmere", "state": "CA", "zip": ""}
        jane = {"first_name": "Jane", "last_name": "Doe", "addresses": [AddressItem(**home)]}
        user = await users.create(work, globex.id, jane)
        site = Site(name="Good Site")
        for number in range(30):
            page = f"http://seekfolk.example/{number}"
            if number < 24:
                await findings.discover_record(
                    work,
                    user.id,
                    Listing(reference_id=page, name="Jane Doe", href=page, locations=(HOME,)),
                    site,
                )
            if number >= 12:
                await save_scan.save_pages(
                    work, user.id, [Page(url=page, title="Jane Doe", contains=("address",))]
                )
        await work.run(update(tables.users).filter_by(id=user.id).values(scanned_at=work.clock.now()))

    operator.work(found)
    rows = json.loads(operator.here("sites", "missed", "--sites", "sites", "--json").stdout)
    counts = {row["ways"]: row["listings"] for row in rows}
    assert counts == {
        "site scans alone": 12,
        "web search alone": 6,
        "site scans and web search": 12,
        "missed": 5.5,
    }
    assert rows[-1]["low"] < 5.5 < rows[-1]["high"]
    shown = operator.here("sites", "missed", "--sites", "sites")
    assert shown.stderr == "Assumed: the ways are independent.\n"
    assert re.search(r"missed +5.5", shown.stdout)
