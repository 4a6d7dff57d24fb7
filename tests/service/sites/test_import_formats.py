"""Files of other projects become drafts that the service accepts; what is lost is named; hostile files are refused."""

import csv
import io
import json

import pytest

from exposurekit.errors import ConfigurationError
from exposurekit.service.scanning import extraction
from exposurekit.service.sites import import_formats, loader
from exposurekit.service.sites.drafts import Draft, Skipped

REGISTRY_HEADINGS = (
    "Data broker\xa0name:",
    "Doing Business As (DBA), if applicable:",
    "Data broker primary website:",
    "Data broker primary contact email address:",
    "Data broker primary phone number: [optional]",
    "Requests to opt out of sale or sharing - Total requests received",
    "Data broker's primary website with details on how consumers can exercise their rights, including how to delete their personal information:",
)


def navigate(url):
    return {"actionType": "navigate", "id": "1", "url": url}


def extract(**changes):
    profile = {
        "name": {"selector": "h2", "beforeText": ", age"},
        "age": {"selector": ".//span[contains(text(), 'Age')]", "afterText": "Age "},
        "addressCityState": {"selector": ".town"},
        "addressCityStateList": {"selector": ".//ul[@class='past']/li", "findElements": True},
        "relativesList": {"selector": ".//p[last()]"},
        "profileUrl": {
            "selector": "(.//a[@class='more'])[1]",
            "identifierType": "path",
            "identifier": "https://seekfolk.example/person/${id}",
        },
    }
    action = {
        "actionType": "extract",
        "id": "2",
        "selector": "//div[@id='results']/div",
        "noResultsSelector": "//h1[contains(text(), 'Nobody of that name')]",
        "profile": profile,
    }
    return action | changes


def opt_out(*actions, kind="formOptOut"):
    return {"stepType": "optOut", "optOutType": kind, "actions": [*actions]}


FORM = (
    navigate("https://seekfolk.example/opt-out?name=${firstName}"),
    {
        "actionType": "fillForm",
        "id": "3",
        "selector": "form",
        "elements": [
            {"type": "fullName", "selector": "#name"},
            {"type": "email", "selector": "#mail"},
            {"type": "profileUrl", "selector": "#url"},
            {"type": "$generated_zip_code$", "selector": "#zip"},
        ],
    },
    {"actionType": "getCaptchaInfo", "id": "4", "selector": ".puzzle"},
    {"actionType": "solveCaptcha", "id": "5", "selector": ".puzzle"},
    {"actionType": "click", "id": "6", "elements": [{"type": "button", "selector": "button"}]},
    {
        "actionType": "expectation",
        "id": "7",
        "expectations": [{"type": "text", "selector": "body", "expect": "Check your inbox"}],
    },
    {"actionType": "emailConfirmation", "id": "8", "pollingTime": 30},
)
SEARCH_URL = (
    "https://www.seekfolk.example/find?first=${firstName}&where=${city}%2C+${state|upcase}&age=${age}"
)


def broker(*scan, removal=None, **changes):
    scan = scan or (navigate(SEARCH_URL), extract())
    data = {
        "name": "Seekfolk",
        "url": "seekfolk.example",
        "version": "1.2.0",
        "addedDatetime": 1678060800000,
        "optOutUrl": "https://seekfolk.example/opt-out",
        "steps": [
            {"stepType": "scan", "scanType": "templatedUrl", "actions": [*scan]},
            removal or opt_out(*FORM),
        ],
        "schedulingConfig": {
            "retryError": 48,
            "confirmOptOutScan": 72,
            "maintenanceScan": 120,
            "maxAttempts": -1,
        },
        "removedAt": None,
    }
    return data | changes


def table(*rows, headings=REGISTRY_HEADINGS):
    file = io.StringIO()
    csv.writer(file).writerows([headings, *rows])
    return file.getvalue()


@pytest.fixture
def read(tmp_path):
    """Read a file of this content: JSON from plain data, or text."""

    def results(content, name=None):
        is_text = isinstance(content, str | bytes)
        file = tmp_path / (name or ("brokers.csv" if is_text else "seekfolk.example.json"))
        text = content if is_text else json.dumps(content)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return import_formats.read(file)

    return results


@pytest.fixture
def draft(read):
    def one(content):
        [result] = read(content)
        assert isinstance(result, Draft), result
        return result

    return one


def lost(draft):
    return {one.field: one.reason for one in draft.lost}


# --- DuckDuckGo's broker files ----------------------------------------------------------------------------


def test_a_search_whose_query_is_enough_needs_nothing_written(draft):
    result = draft(broker())
    definition = loader.parsed(result.text())
    assert result.to_write == ()
    assert definition.search.url == "https://www.seekfolk.example/find"
    assert definition.search.fields == {"first": "{first_name}", "where": "{city}, {state}"}
    assert definition.search.no_results == ("Nobody of that name",)
    assert definition.verification.after_days == 3


def test_a_draft_reads_the_listings_of_a_page(draft):
    definition = loader.parsed(draft(broker()).text())
    page = """<div id=results><div><h2>Casey Controlling</h2><span>Age 44</span><b class=town>Oakmere, CA</b>
      <ul class=past><li>Pinefall, OR</li></ul><a class=more href=/person/7>More</a></div></div>"""
    result = extraction.read(definition, status=200, url="https://seekfolk.example/find", text=page)
    [listing] = result.listings
    assert (listing.name, listing.age, listing.reference_id) == ("Casey Controlling", 44, "/person/7")
    assert listing.href == "https://seekfolk.example/person/7"
    assert listing.locations == ("Oakmere, CA", "Pinefall, OR")


def test_each_field_that_is_lost_has_a_reason(draft):
    assert lost(draft(broker(mirrorSites=[], colour="red"))) == {
        "mirrorSites": "each site needs a definition of its own",
        "colour": "a definition has no such key",
        "schedulingConfig.retryError": "the service has its own schedule of retries",
        "schedulingConfig.maintenanceScan": "the service has one schedule for all sites",
        "schedulingConfig.maxAttempts": "the service has its own schedule of retries",
        "scan.extract.profile.name.beforeText": "the service reads the whole text of an element",
        "scan.extract.profile.relativesList": "is XPath that CSS cannot say",
        "scan.extract.profile.profileUrl.identifier": "the whole link is the reference",
        "scan.navigate.url age": "a search has no such field of a person",
        "optOut.selectors": "the file does not say where the form is sent, so a person fills it in",
        "optOut.fillForm.$generated_zip_code$": "the service sends no invented values",
    }


def test_an_opt_out_becomes_steps_for_a_person(draft):
    text = draft(broker()).text()
    assert "# Hint: the form has a CAPTCHA. With removal.method assisted, " in text
    definition = loader.parsed(text)
    assert definition.removal.method == "manual"
    assert definition.removal.user_fields_required == ("first_name", "last_name", "email")
    assert definition.opt_out_procedure == (
        "Open https://seekfolk.example/opt-out.",
        "Fill in the form: full name, email address, address of your listing, zip code.",
        "Solve the CAPTCHA.",
        "Press the button to continue.",
        "The page says: Check your inbox",
        "Open the link in the email that the site sends you.",
    )


def test_a_draft_names_its_source_and_license(draft):
    assert (
        draft(broker())
        .text()
        .startswith(
            "# Draft of a site definition. Complete it, then try it with `exposurekit sites check`.\n"
            "# Source: DuckDuckGo's removal browser, seekfolk.example.json, version 1.2.0, added on 2023-03-06\n"
            "# License: Apache-2.0, DuckDuckGo\n"
        )
    )


@pytest.mark.parametrize(
    ("source", "url", "space"),
    [
        ("${firstName|hyphenated}-${lastName}/${state|upcase}/${city|hyphenated}", "{first_name}-{last_name}/{state}/{city}", "-"),
        ("${firstName}+${lastName}/${state|stateFull}/${city}", "{first_name}+{last_name}/{state_name}/{city}", " "),
    ],
)  # fmt: skip
def test_a_search_with_names_in_the_path_is_complete(draft, source, url, space):
    result = draft(broker(navigate(f"https://seekfolk.example/{source}"), extract()))
    assert result.to_write == ()
    search = loader.parsed(result.text()).search
    assert (search.url, search.path_space, search.fields) == (f"https://seekfolk.example/{url}", space, {})


@pytest.mark.parametrize(
    ("scan", "field"),
    [
        ([navigate("https://seekfolk.example/${firstName}-${lastName}/${age}")], "scan.navigate.url path"),
        ([navigate("https://seekfolk.example/${firstName|initial}/${lastName}")], "scan.navigate.url path"),
        (
            [navigate("https://seekfolk.example/${lastName}/${city}/${state|stateFull|hyphenated}")],
            "scan.navigate.url path",
        ),
        (
            [navigate(SEARCH_URL), {"actionType": "fillForm", "selector": "form", "elements": []}],
            "scan.fillForm",
        ),
        ([navigate(SEARCH_URL), {"actionType": "solveCaptcha", "selector": "#c"}], "scan.solveCaptcha"),
        (
            [navigate("https://seekfolk.example/?f=${firstName}&l=${lastName|hyphenated}")],
            "scan.navigate.url l",
        ),
        ([navigate("javascript:alert(1)")], "scan.navigate.url"),
        ([navigate("https://${firstName}.example/?q=${lastName}")], "scan.navigate.url"),
        ([], "scan.navigate.url"),
    ],
)
def test_an_incomplete_search_never_says_that_nobody_is_listed(draft, scan, field):
    result = draft(broker(*scan, extract()))
    assert field in lost(result)
    assert "search.no_results" in result.to_write
    assert "Nobody of that name" in lost(result)["scan.extract.noResultsSelector"]
    definition = loader.parsed(result.text())
    page = extraction.read(
        definition, status=200, url=definition.search.url, text="<h1>Nobody of that name</h1>"
    )
    assert (page.outcome, page.reason) == ("inconclusive", "changed layout")


@pytest.mark.parametrize(
    "selector",
    [".nobody", "//h1[contains(text(), '404')]", "//h2[contains(text(), 'too many results')]", None],
)
def test_a_weak_mark_of_no_results_must_be_written(draft, selector):
    assert draft(broker(navigate(SEARCH_URL), extract(noResultsSelector=selector))).to_write == (
        "search.no_results",
    )


def test_a_challenge_that_is_waited_out_is_a_block(draft):
    selector = "//body[not(.//script[contains(@src, '/challenge-platform/')])]"
    wait = {"actionType": "expectation", "expectations": [{"type": "element", "selector": selector}]}
    definition = loader.parsed(draft(broker(navigate(SEARCH_URL), wait, extract())).text())
    assert definition.search.blocked == ("/challenge-platform/",)


def test_only_the_first_of_several_searches_is_used(draft):
    result = draft(
        broker(navigate(SEARCH_URL), extract(), navigate("https://seekfolk.example/more"), extract())
    )
    assert result.to_write == ()
    assert lost(result)["scan.navigate"] == lost(result)["scan.extract"] == "only the first is used"


def test_listings_without_a_link_need_a_reference(draft):
    action = extract(profile={"name": {"selector": "h2"}, "profileUrl": {"identifierType": "hash"}})
    result = draft(broker(navigate(SEARCH_URL), action))
    assert result.to_write == ("listings.reference_id",)
    assert "scan.extract.profile.profileUrl.identifierType" in lost(result)


def test_a_site_that_its_source_withdrew_is_not_drafted(read):
    assert read(broker(removedAt=1763397120464)) == [
        Skipped("Seekfolk", "withdrawn by its source on 2025-11-17")
    ]


def test_a_parent_names_the_sites_that_it_also_removes_from(read, tmp_path):
    child = broker(
        name="Pigeonloft",
        url="www.pigeonloft.example",
        parent="seekfolk.example",
        removal=opt_out(kind="parentSiteOptOut"),
    )
    results = read(broker()) + read(child, "pigeonloft.example.json")
    import_formats.save(results, tmp_path / "drafts")
    sites = loader.directory(tmp_path / "drafts")
    assert sites["Seekfolk"].removal.also_removes == ("Pigeonloft",)
    [step] = sites["Pigeonloft"].opt_out_procedure
    assert step == "Opt out at seekfolk.example: that also removes your listing here."


# --- lists of brokers -------------------------------------------------------------------------------------

RIGHTS_URL = "https://acme.example/rights"


def test_a_row_of_a_registry_becomes_a_draft(draft):
    row = [
        "Acme LLC",
        "Peeper",
        "www.acme.example",
        "privacy [at] acme.example",
        "555-0100",
        "1.200",
        RIGHTS_URL,
    ]
    result = draft(table(row))
    definition = loader.parsed(result.text())
    assert definition.name == "Peeper"
    assert definition.guide == "Peeper is a data broker, registered as Acme LLC."
    assert definition.opt_out_url == RIGHTS_URL
    assert definition.search.url == "https://www.acme.example"
    assert definition.opt_out_procedure == (
        f"Open {RIGHTS_URL} and ask for the removal of your data.",
        "Send an email to privacy@acme.example and ask for the removal of your data.",
    )
    assert lost(result) == {
        "column 5, Data broker primary phone number: [optional]": "a definition has no such key",
        "column 6, Requests to opt out of sale or sharing - Total requests rece": "a definition has no such key",
    }
    assert "# Source: California's data broker registry, brokers.csv, line 2\n" in result.text()
    [hint] = [line for line in result.text().splitlines() if "Hint:" in line]
    assert "removal.email {to: privacy@acme.example, template: ccpa}" in hint
    assert definition.removal.method == "manual"  # an address in a list is not yet one to write to


@pytest.mark.parametrize(
    "heading", ["Do Not Sell Link", "URL to exercise your rights", "Do not sell or share page"]
)
def test_the_address_for_objections_is_that_of_the_opt_out(draft, heading):
    headings = ("Data broker name", "Website", heading)
    result = draft(table(("Peeper", "peeper.example", RIGHTS_URL), headings=headings))
    assert loader.parsed(result.text()).opt_out_url == RIGHTS_URL
    assert lost(result) == {}


OPTERY_HEADINGS = (
    *("id", "title", "website", "opt_out_url", "opt_out_guide_url", "email", "description", "type"),
    *("average_removal_days", "optery_support_tier"),
)


def test_a_row_of_a_directory_becomes_a_draft(draft):
    guide = "https://guide.example/peeper"
    description = "Peeper lists people. It sells " + "their addresses " * 40
    row = [
        "7",
        "Peeper",
        "https://peeper.example",
        "",
        guide,
        "",
        description,
        "People Search Site",
        "10",
        "Core",
    ]
    result = draft(table(row, headings=OPTERY_HEADINGS))
    definition = loader.parsed(result.text())
    assert definition.guide == "Peeper is a data broker (People Search Site). Peeper lists people."
    assert definition.opt_out_procedure == (f"A guide: {guide}",)
    assert definition.removal.processing_days == 10
    assert lost(result) == {
        "column 1, id": "a definition has no such key",
        "column 10, optery_support_tier": "a definition has no such key",
        "opt_out_url": "the row has none, so the website stands for it",
    }
    assert "# License: free for education and research; attribute it to Optery\n" in result.text()


def test_further_addresses_of_a_row_are_named_as_lost(draft):
    row = [
        "Acme\u2028Data",
        "",
        "acme.example;\nb.example",
        "a@acme.example, b@acme.example",
        "",
        "",
        RIGHTS_URL,
    ]
    result = draft(table(row))
    definition = loader.parsed(result.text())
    assert (definition.name, definition.search.url) == ("Acme Data", "https://acme.example")
    assert lost(result) == dict.fromkeys(("website", "email"), "only the first address is used")


@pytest.mark.parametrize(
    "headings",
    [
        ("Business name", "Business primary website", "How a consumer may opt out of sale"),
        ("Data Broker Name", "Website URL", "Opt-Out URL"),
        ("Site", "Domain", "Removal link"),
        ("Name", "Site", "Deletion form"),
        ("Company", "Homepage", "Opt Out Page"),
        ("NAME", "url", "opt_out_url"),
    ],
)
def test_headings_vary(draft, headings):
    definition = loader.parsed(draft(table(["Acme", "acme.example", RIGHTS_URL], headings=headings)).text())
    assert (definition.name, definition.opt_out_url) == ("Acme", RIGHTS_URL)
    assert definition.search.url == "https://acme.example"


def test_a_list_of_your_own_is_no_registry(draft):
    headings = ("Data broker name", "Website URL", "Opt-out URL", "Email")
    text = draft(table(["Acme", "acme.example", RIGHTS_URL, ""], headings=headings)).text()
    assert "# Source: a list of data brokers, brokers.csv, line 2\n" in text
    assert "California" not in text


def test_rows_above_the_headings_are_passed_over(draft):
    text = ",the registry of a year,,,,\n\n" + table(["Acme", "", "acme.example", "", "", "", RIGHTS_URL])
    assert draft("\ufeff" + text).name == "Acme"


def test_rows_without_an_address_are_reported(read):
    rows = (
        ["Acme", "", "", "privacy@acme.example", "", "", "by post"],
        ["", "", "acme.example", "", "", "", ""],
        ["", "", "", "", "", "", ""],
    )
    assert read(table(*rows)) == [
        Skipped("Acme", "line 2 has no web address"),
        Skipped("line 3", "has no name"),
    ]


def test_a_broker_is_inconclusive_until_its_search_is_written(draft):
    result = draft(table(["Acme", "", "acme.example", "", "", "", RIGHTS_URL]))
    assert result.to_write == ("search.no_results", "listings.item", "listings.name", "listings.reference_id")
    definition = loader.parsed(result.text())
    for text in ("", "<h1>No results</h1>", "<li>Casey Controlling</li>"):
        page = extraction.read(definition, status=200, url="https://acme.example", text=text)
        assert page.outcome == "inconclusive"


# --- files and hostile content ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"caf\xe9", "a.csv", "a.csv, line 1: is not UTF-8"),
        ('{"name": 1,\n ]', "a.json", "a.json, line 2: is not JSON"),
        ("[" * 200_000, "a.json", "is nested too deeply"),
        ('{"a":' * 30 + "1" + "}" * 30, "a.json", "is nested too deeply"),
        ("9" * 5_000, "a.json", "a number that is too long"),
        ('{"brokers": []}', "a.json", "a.json: has no known format"),
        ("a,b\n1,2\n", "a.csv", "a.csv, line 1: has no known format"),
        ("", "a.csv", "a.csv, line 1: has no known format"),
        ('name,website\nAcme,"a', "a.csv", "a.csv, line 2: is not CSV"),
        ("name,website\nA," + "a" * 200_000, "a.csv", "a.csv, line 2: is not CSV"),
        ("name,website\n" + "A,acme.example\n" * 5_001, "a.csv", "has more than 5000 rows"),
        (" " * 5_000_001, "a.csv", "is larger than 5 MB"),
    ],
)
def test_a_file_of_no_known_format_is_refused(read, content, name, message):
    with pytest.raises(ConfigurationError) as raised:
        read(content, name)
    assert message in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"steps": 5}, "steps"),
        ({"steps": [{"stepType": "scan", "actions": [{"id": "1"}]}]}, "steps.0.actions.0.actionType"),
        ({"name": "\u202e\x00"}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "https://somebody:pa55word@seekfolk.example"}, "url"),
    ],
)
def test_a_broker_with_a_wrong_value_names_the_key(read, changes, key):
    with pytest.raises(ConfigurationError) as raised:
        read(broker(**changes))
    assert str(raised.value).startswith(f"seekfolk.example.json: {key}: ")
    assert "pa55word" not in str(raised.value)


HOSTILE = "a\u2028removal:\n  method: form # \x1b[31m\u202e: &x *x !!python/object {{"


def test_hostile_text_stays_text(draft):
    step = {
        "actionType": "expectation",
        "expectations": [{"type": "text", "selector": "body", "expect": HOSTILE}],
    }
    result = draft(
        broker(name=HOSTILE, version=HOSTILE, removal=opt_out(step), colour=HOSTILE, **{HOSTILE: 1})
    )
    definition = loader.parsed(result.text())
    assert definition.removal.method == "manual"
    assert definition.name.isprintable()
    assert all(line.isprintable() for line in result.text().splitlines())


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "..", "\x00con\n", "\u540d\u524d", "a" * 5_000]
)
def test_a_file_name_stays_in_the_directory(read, tmp_path, name):
    [result] = import_formats.save(
        read(table([name, "", "acme.example", "", "", "", RIGHTS_URL])), tmp_path / "drafts"
    )
    files = [*(tmp_path / "drafts").iterdir()] if result.file else []
    assert [file.name for file in files] == ([result.file] if result.file else [])
    assert result.file is None or len(result.file) < 100


def test_two_sites_with_one_file_name_both_have_a_file(read, tmp_path):
    rows = [[name, "", "acme.example", "", "", "", RIGHTS_URL] for name in ("Acme!", "Acme", "ACME")]
    saved = import_formats.save(read(table(*rows)), tmp_path)
    assert [one.file for one in saved] == ["acme.yaml", "acme-2.yaml", None]
    assert saved[-1].reason == "has the name of an earlier site"


def test_a_draft_that_exists_is_replaced_only_if_asked(read, tmp_path):
    results = read(broker())
    file = tmp_path / "drafts" / "seekfolk-example.yaml"
    import_formats.save(results, file.parent)
    file.write_text("mine")
    [left] = import_formats.save(results, file.parent)
    assert (left.file, file.read_text()) == (None, "mine")
    [replaced] = import_formats.save(results, file.parent, overwrite=True)
    assert (replaced.file, file.read_text()) == (file.name, results[0].text())
