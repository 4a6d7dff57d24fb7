"""Completion: verbs, options, values and keys, and no name that a line could run."""

import pytest
from support.histories import Person, Service, a_record, an_alert, seen_through
from support.ipython import Notebook

import exposurekit as ek
from exposurekit.notebook.commands import verbs

HOSTILE_SITES = (
    "{ran.append(1)}",
    "$ran",
    "';ran.append(1);'",
    'a"b',
    "a\nran.append(1)",
    "\u202egpj",
    "a';ran.append(1)",
    "'a'",
    "--user",
    "!ls",
    "Who?",
)


@pytest.fixture
def hostile(working_directory):
    service = Service()
    records = [a_record(number, site=site) for number, site in enumerate([*HOSTILE_SITES, "People & Co."], 1)]
    service.people[1] = Person(records, [], [an_alert("a", records[0])])
    with seen_through(service) as exposure:
        yield Notebook(exposure=exposure.refresh(), ran=[])


def ends(lines):
    return [line.rsplit(" ", 1)[-1] for line in lines]


def test_verbs_are_completed(notebook):
    assert ends(notebook.completed("%exposure by-")) == ["by-site", "by-user", "by-kind", "by-state"]
    assert notebook.completed("table = %exposure rec") == ["table = %exposure records"]
    assert {*verbs()} <= {*ends(notebook.completed("%exposure "))}


def test_verbs_with_underscores_are_completed(notebook):
    assert ends(notebook.completed("%exposure by_s")) == ["by-site", "by-state"]
    assert ends(notebook.completed("%exposure by_site --st")) == ["--status"]


def test_the_options_of_a_verb_are_completed_and_no_others(notebook):
    completions = ends(notebook.completed("%exposure status-over-time --"))
    assert completions == [f"--{name}" for name in (*verbs()["status-over-time"].options, "help")]
    assert "--every" not in ends(notebook.completed("%exposure records --"))
    assert "--chart" not in ends(notebook.completed("%exposure by-site --chart --"))


@pytest.mark.parametrize("begun", ["", "Ti", "'Tim O", "\"Tim O'T"])
def test_names_with_an_apostrophe_are_completed_in_quotes(working_directory, begun):
    profile = {"first_name": "Tim", "last_name": "O'Thimble"}
    service = Service({7: Person([a_record(1)], profile=profile), 8: Person([a_record(2)])})
    with seen_through(service) as exposure:
        notebook = Notebook(exposure=exposure.refresh())
        assert """%exposure records --user "Tim O'Thimble\"""" in notebook.completed(
            f"%exposure records --user {begun}"
        )
        assert notebook.table("""records --user "Tim O'Thimble\"""")["user_id"].tolist() == [7]


def test_values_are_completed(notebook, demo):
    demo.exposure.records()
    assert ends(notebook.completed("%exposure status-over-time --every w")) == ["week"]
    line = "%exposure records --status"
    assert notebook.completed(f"{line} pend") == [f"{line} 'pending removal'"]
    sites = demo.exposure.records()["site"].unique()
    assert len(notebook.completed("%exposure records --site ")) == len(sites)
    spaced = next(site for site in sites if " " in site)
    line = "%exposure records --site"
    assert f"{line} '{spaced}'" in notebook.completed(f"{line} '{spaced[:4]}")
    users = demo.exposure.users()
    ids = users["user_id"].astype("str").tolist()
    assert ends(notebook.completed("%exposure records --user "))[: len(ids)] == ids
    first, last = users.loc[0, ["first_name", "last_name"]]
    line = "%exposure records --user"
    [completed] = notebook.completed(f"{line} {first}")
    assert completed == f"{line} '{first} {last}'"
    assert notebook.table(completed.removeprefix("%exposure "))["user_id"].unique().tolist() == [1]
    assert ends(notebook.completed("%exposure records --status o")) == ["open"]


def test_variables_are_completed_after_use(notebook, demo):
    notebook.names["past"] = demo.history
    assert ends(notebook.completed("%exposure use ")) == ["demo", "past"]


def test_completion_sends_no_requests(demo, working_directory):
    exposure = ek.connect(client=demo.client)
    notebook = Notebook(exposure=exposure)
    notebook.completed("%exposure records --site ")
    notebook.completed("%exposure records --user ")
    assert not exposure.is_loaded


def test_sites_of_a_history_are_completed_after_a_table(demo, working_directory):
    notebook = Notebook(history=demo.history)
    site = notebook.table("records")["site"].iloc[0]
    assert any(site in line for line in notebook.completed("%exposure records --site "))


def test_directories_are_completed_as_ipython_does(notebook, working_directory):
    (working_directory / "new-here").mkdir()
    assert any("new-here" in line for line in notebook.completed("%exposure runs --history new"))


def test_other_lines_are_completed_as_usual(notebook):
    notebook.names["exposures"] = 1
    assert "exposures" in notebook.completed("expos")
    assert "%exposure" in notebook.completed("%expos")


def test_keys_are_completed(notebook, demo):
    notebook.names.update(exposure=demo.exposure, history=demo.history, records=demo.exposure.records())
    assert [line[:18] for line in notebook.completed('exposure["rec')] == ['exposure["records']
    assert [line[:17] for line in notebook.completed('history["load_i')] == ['history["load_iss']
    assert [line[:14] for line in notebook.completed('records["stat')] == ['records["statu']
    assert len(notebook.completed('demo.exposure["')) >= len(demo.exposure.keyed)


def test_only_harmless_names_are_completed_into_a_line(hostile):
    assert hostile.completed("%exposure records --site ") == ["%exposure records --site 'People & Co.'"]


def test_a_completed_line_selects_the_completed_site(hostile):
    [line] = hostile.completed("%exposure records --site Peop")
    assert hostile(line)["site"].tolist() == ["People & Co."]


def test_tables_of_a_hostile_service_are_escaped(hostile):
    output, _ = hostile.shell.display_formatter.format(hostile.table("records"))
    assert "<script" not in output["text/html"]
    assert hostile.names["ran"] == []
