"""Tasks of manual removal: the listing, the person, and the values to enter."""

from datetime import date

import pandas as pd
import pytest
from support.histories import Clock, Person, Service, a_link, a_record, an_alert, seen_through

from exposurekit import analysis, frames
from exposurekit.analysis.manual_tasks import (
    LISTING,
    NO_VALUES,
    FormValue,
    missing_values,
    step_urls,
    tasks,
    with_listings,
    with_names,
    with_pages,
    with_people,
)
from exposurekit.analysis.step_requirements import DOCUMENT, MAILBOX, name_warning, preparations
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.history import History
from exposurekit.privacy.redaction import redacted


def table(name, *rows):
    """Build a table of `frames`; the other columns are empty."""
    none = frames.frame(name, [])
    frame = pd.DataFrame([dict.fromkeys(none.columns) | row for row in rows], columns=none.columns)
    return pd.DataFrame(
        {column: pd.Series(frame[column].tolist(), dtype=none[column].dtype) for column in none}
    )


RECORD = {
    "user_id": 1,
    "record_id": 7,
    "name": "FENNIMOOR ODALYS",
    "age": 46,
    "locations": ["Tall Pines CA"],
    "reference_id": "00011",
    "user_fields_required_for_removal": ["first_name", "phone", "city"],
}
ALERT = {"user_id": 1, "alert_number": 0, "record_id": 7, "opt_out_procedure": ["Write."]}
ON_FILE = {
    "users": table(
        "users",
        {"user_id": 1, "first_name": "Odalys", "last_name": "Fennimoor"}
        | {"birth_date": pd.Timestamp("1980-02-29", tz="UTC")}
        | dict.fromkeys(["is_scanning", "identification_on_file"], False),
    ),
    "aliases": table("aliases", {"user_id": 1, "alias_id": 1, "first_name": "Ody", "last_name": "Fennimoor"}),
    "emails": table(
        "emails",
        {"user_id": 1, "email_id": 1, "address": "ody@example.com"},
        {"user_id": 1, "email_id": 2, "address": "odalys@example.net"},
    ),
    "phone_numbers": table("phone_numbers"),
    "addresses": table(
        "addresses",
        {"user_id": 1, "address_id": 1, "address1": "1 Elm St"}
        | {"city": "Oakmere", "state": "OR", "zip": "00501"},
        {"user_id": 1, "address_id": 2, "city": "Tall Pines", "state": "CA", "zip": "90210"},
    ),
}


def described(*alerts, records=(RECORD,)):
    """Alerts with their listings and the values on file."""
    rows = [ALERT | one for one in alerts]
    alert_rows = table("alerts", *rows).assign(
        site=pd.Series([one.get("site", "PeepFinder") for one in rows], dtype="str")
    )
    return with_people(with_listings(alert_rows, table("records", *records)), **ON_FILE)


def test_any_table_with_user_ids_gets_the_names_on_file():
    counts = pd.DataFrame({"site": "A", "user_id": [1, 2], "open": [3, 4]}, index=[5, 6])
    named = with_names(counts, ON_FILE["users"])
    assert named.columns.tolist() == ["site", "user_id", "person", "open"]
    assert named["person"].tolist()[0] == "Odalys Fennimoor"
    assert named["person"].isna().tolist() == [False, True]
    pd.testing.assert_frame_equal(with_names(named, ON_FILE["users"]), named)
    assert "person" not in redacted(named)
    matrix = counts.set_index("user_id")[["open"]].rename_axis(columns="site")
    of_matrix = with_names(matrix, ON_FILE["users"])
    assert (of_matrix.index.name, of_matrix.columns.name) == ("user_id", "site")
    assert of_matrix["person"].tolist()[0] == "Odalys Fennimoor"
    assert [*redacted(of_matrix)] == ["open"]
    of_site = matrix.rename(columns={"open": "person"})  # a site may have any name
    with pytest.raises(InvalidArgument, match="numbers, not names"):
        with_names(of_site, ON_FILE["users"])
    with pytest.raises(MissingColumns, match="user_id"):
        with_names(counts.drop(columns="user_id"), ON_FILE["users"])


def test_an_alert_has_the_values_of_its_listing():
    [row] = described({}).to_dict("records")
    assert [row[name] for name in ("name", "age", "reference_id", "person")] == [
        *("FENNIMOOR ODALYS", 46, "00011", "Odalys Fennimoor")
    ]
    assert [*row["locations"]] == ["Tall Pines CA"]


def test_an_alert_without_its_listing_has_its_own_values():
    alerts = table("alerts", ALERT, ALERT | {"record_id": 8}).assign(
        **{name: table("records", RECORD | {"name": "OWN"})[name].array.take([0, 0]) for name in LISTING}
    )
    filled = with_listings(alerts, table("records", RECORD))
    assert filled["name"].tolist() == ["FENNIMOOR ODALYS", "OWN"]
    assert filled[list(LISTING)].dtypes.equals(
        with_listings(alerts[ALERT.keys()], table("records"))[list(LISTING)].dtypes
    )


def test_what_the_site_requires_comes_first_then_the_usual_fields():
    """Specification, "Record", ``user_fields_required_for_removal``."""
    [values] = described({})["form_values"]
    assert [*values] == [
        *("first_name: Odalys", "phone_number: not on file", "city: Tall Pines"),
        *("name: Odalys Fennimoor", "last_name: Fennimoor", "alias: Ody Fennimoor", "birth_date: 1980-02-29"),
        *("email: ody@example.com", "email: odalys@example.net"),
        *("address: Tall Pines, CA 90210", "address: 1 Elm St, Oakmere, OR 00501"),
        *("state: CA", "zip: 90210"),
    ]


def test_of_several_addresses_the_listings_own_is_entered():
    other = RECORD | {"locations": ["1 ELM ST, OAKMERE, OR 00501"]}
    [values] = described({}, records=[other])["form_values"]
    assert {"city: Oakmere", "address1: 1 Elm St"} <= {*values}
    assert "city: Tall Pines" not in [*values]


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("Springfield, IL", "1 Kite Street"),
        ("1 KITE ST, SPRINGFIELD", "1 Kite Street"),
        ("Springfield, Massachusetts", "9 Acorn Road"),
        ("New York, NY", "7 Moth Lane"),
        ("12 Elm St New York N.Y. 10001", "7 Moth Lane"),
        ("York", "3 Moth Lane"),
        ("Springfield 62701", "1 Kite Street"),
        ("", "9 Acorn Road"),
    ],
)
def test_the_listings_city_is_in_the_listings_state(location, address):
    rows = [
        ("9 Acorn Road", "Springfield", "MA", "01101"),
        ("1 Kite Street", "Springfield", "Illinois", "62701"),
        ("3 Moth Lane", "York", "NY", "17401"),
        ("7 Moth Lane", "New York", "NY", "10001"),
    ]
    names = ("address1", "city", "state", "zip")
    numbered = (
        {"user_id": 1, "address_id": number, **dict(zip(names, row, strict=True))}
        for number, row in enumerate(rows, 1)
    )
    on_file = ON_FILE | {"addresses": table("addresses", *numbered)}
    records = table("records", RECORD | {"locations": [location]})
    alerts = table("alerts", ALERT).assign(site=pd.Series(["PeepFinder"], dtype="str"))
    [values] = with_people(with_listings(alerts, records), **on_file)["form_values"]
    assert f"address1: {address}" in [*values]


@pytest.mark.parametrize(
    ("listed", "name", "last_name"),
    [
        ("QUILLFEN ODALYS", "Odalys Bea Quillfen", "Quillfen"),
        ("Wren Moor", "Wren Moor", "Moor"),
        ("Odalys Fennimoor Quillfen", "Odalys Bea Fennimoor", "Fennimoor"),
        ("Zeb Otterwick", "Odalys Bea Fennimoor", "Fennimoor"),
    ],
)
def test_a_listing_under_an_alias_gets_that_name(listed, name, last_name):
    """The present name is not for a site that has the maiden name alone."""
    aliases = [
        {"user_id": 1, "alias_id": 1, "last_name": "Quillfen"},
        {"user_id": 1, "alias_id": 2, "first_name": "Odalys", "last_name": "Quillfen"},
        {"user_id": 1, "alias_id": 3, "first_name": "Wren", "last_name": "Moor"},
    ]
    users = ON_FILE["users"].assign(middle_name=pd.Series(["Bea"], dtype="str"))
    records = table("records", RECORD | {"name": listed})
    alerts = table("alerts", ALERT).assign(site=pd.Series(["PeepFinder"], dtype="str"))
    on_file = ON_FILE | {"users": users, "aliases": table("aliases", *aliases)}
    row = with_people(with_listings(alerts, records), **on_file).iloc[0]
    assert row["person"] == "Odalys Bea Fennimoor"
    assert {f"name: {name}", f"last_name: {last_name}"} <= {*row["form_values"]}
    middle_names = [text for text in row["form_values"] if text.startswith("middle_name")]
    assert middle_names == (["middle_name: Bea"] if "Bea" in name else [])


def test_alerts_without_a_known_listing_have_no_values():
    details = described({"record_id": 8}, {"record_id": None}, {"user_id": 2}, {"opt_out_procedure": []})
    assert details["name"].isna().tolist() == [True, True, True, False]
    assert details["person"].isna().tolist() == [False, False, True, False]
    assert details["form_values"].isna().tolist() == [False, False, True, True]
    assert len(with_people(with_listings(table("alerts"), table("records")), **ON_FILE)) == 0


def test_a_task_has_the_listing_person_and_values():
    [task] = tasks(described({"href": "https://peep.example/7", "url": "https://peep.example/leave"}))
    assert (task.person, task.site, task.note) == ("Odalys Fennimoor (user 1)", "PeepFinder", "")
    assert task.line == "FENNIMOOR ODALYS · reference 00011 · age 46 · locations Tall Pines CA"
    assert (task.address, task.begin) == ("https://peep.example/7", "https://peep.example/leave")
    assert task.entries[:2] == (
        FormValue("first_name", "Odalys", True),
        FormValue("phone_number", None, True),
    )
    assert [one.label for one in task.entries if one.required] == ["first name", "phone", "city"]


def test_required_values_are_apart_from_optional_ones():
    [task] = tasks(described({}, records=[RECORD | {"user_fields_required_for_removal": ["email"]}]))
    assert [value.choice_label for value in task.values_to_enter] == ["email (use this one)", "or email"]
    assert "full name" in [value.choice_label for value in task.other_values]
    assert task.value_headings == ("To enter (required)", "Only if the form asks")
    assert task.cannot_start == ""


def test_a_missing_required_value_is_named_in_its_task():
    [task] = tasks(described({}))
    assert task.cannot_start == "Cannot start yet: no phone on file. Ask the person for it."


@pytest.mark.parametrize(
    ("steps", "url"),
    [
        (["Find it.", "Open peep.example/opt-out; send it."], "https://peep.example/opt-out"),
        (["Go to http://peep.example/out."], "http://peep.example/out"),
        (["Write to privacy@peep.example.", "Search on peep.example."], None),
        ([], None),
    ],
)
def test_the_removal_begins_at_the_address_that_a_step_names(steps, url):
    [task] = tasks(described({"href": "https://peep.example/7", "opt_out_procedure": steps}))
    assert task.begin == url


PAGE = {"site": None, "record_id": None, "link_url": "https://pages.example/1", "link_title": "A page"}


def test_a_page_task_has_its_title_address_and_contents():
    rows = described(PAGE | {"url": PAGE["link_url"]})
    [task] = tasks(rows)
    assert (task.line, task.address, task.begin) == ("A page", PAGE["link_url"], None)
    assert {one.name for one in task.entries} == {"name", "email", "phone_number", "address"}
    assert task.values_label == "On file"  # nothing is entered there
    user_id = rows["user_id"].iloc[0]
    links = pd.DataFrame(
        {
            "user_id": [user_id, user_id, user_id + 1],
            "url": [PAGE["link_url"], "https://pages.example/2", PAGE["link_url"]],
            "contains": [["email", "phone"], ["address"], ["name"]],
        }
    )
    assert ("Contains", "email, phone") in tasks(with_pages(rows, links))[0].facts
    assert "Contains" not in dict(tasks(with_pages(rows, links.iloc[1:]))[0].facts)
    listings, without_url = (
        one.assign(**{name: one[name].mask(one[name].notna())})
        for one, name in ((rows, "link_url"), (links, "url"))
    )
    assert with_pages(listings, without_url)["link_contains"].isna().all()


def test_a_pages_values_begin_with_the_kinds_it_contains():
    [task] = tasks(described(PAGE).assign(link_contains=[["email", "phone"]]))
    assert [value.choice_label for value in task.values_to_enter] == ["email", "email"]
    assert task.value_headings[0] == "On file; check which one is on the page"
    assert "phone_number" not in [value.name for value in task.other_values]  # there is none on file
    assert task.warnings == ()


@pytest.mark.parametrize(
    ("title", "is_suspicious"),
    [
        ("Minutes of the board, 3 < 4", False),
        ("<script>fetch('x')</script>Jo", True),
        ("< IMG src=x>", True),
        ("javascript:alert(1)", True),
    ],
)
def test_a_page_with_code_in_its_title_is_marked(title, is_suspicious):
    warnings = ("Suspicious page: its title contains program code.",) if is_suspicious else ()
    assert tasks(described(PAGE | {"link_title": title}))[0].warnings == warnings


def test_a_form_asks_for_the_reference_if_a_step_does():
    steps = {"opt_out_procedure": ["Open peep.example/leave and enter the Reference."]}
    [task], [other] = tasks(described(steps)), tasks(described({}))
    entered = [one.name for one in task.values_to_enter]
    assert entered == ["reference_id", "first_name", "phone_number", "city"]
    assert task.values_to_enter[0].value == "00011"
    assert "reference_id" not in [one.name for one in other.values_to_enter]


@pytest.mark.parametrize(
    ("as_of", "age"), [("2025-02-28", 44), ("2025-03-01", None), ("2028-02-28", None), ("2028-03-01", 48)]
)
def test_an_age_that_differs_from_the_birth_date_is_noted(as_of, age):
    """A year more or less is none: sites know the year of birth, not the day."""
    [task] = tasks(described({}), as_of=date.fromisoformat(as_of))
    expected = f"differs: age 46, on file {age}; check that this is the right person first"
    assert task.cautions == ((expected,) if age else ())
    assert task.warnings == (task.cannot_start, *task.cautions)
    assert tasks(described({}))[0].cautions == ()


ELM, PINES = "1 Elm St, Oakmere, OR 00501", "Tall Pines, CA 90210"


@pytest.mark.parametrize(
    ("locations", "addresses"),
    [
        (["Mothgate, CT"], ["Mothgate, CT"]),
        (["somewhere", "9 Kite Lane, Tall Pines, TX 75001"], ["9 Kite Lane, Tall Pines, TX 75001"]),
        (["Mothgate, CT", "TALL PINES CA 90210"], [PINES, ELM]),
        (["1 Elm Street, Oakmere, Oregon"], [ELM, PINES]),
        (["4 addresses"], [ELM, PINES]),
        ([], [ELM, PINES]),
    ],
)
def test_an_address_that_is_not_listed_is_not_entered(locations, addresses):
    """The site must not learn another one: the form gets what the listing shows."""
    [task] = tasks(described({}, records=[RECORD | {"locations": locations}]))
    assert [one.value for one in task.entries if one.name == "address"] == addresses
    required = {"user_fields_required_for_removal": ["address1", "city"]}
    [task] = tasks(described({}, records=[RECORD | required | {"locations": locations}]))
    entered = {one.name: one.value for one in task.values_to_enter if one.value}
    assert ", ".join(entered[name] for name in ("address1", "city") if name in entered) in addresses[0]
    assert task.missing_values == (("street",) if addresses[0] == PINES else ())
    assert [one.label for one in task.other_values if one.name == "address"][:1] == (
        ["full address"] if addresses[0] in (ELM, PINES) else ["full address as listed"]
    )


def test_street_on_file_that_the_listing_lacks_is_no_blocker(monkeypatch):
    """Asking the person for it would change nothing: the form must not learn it."""
    required = {"user_fields_required_for_removal": ["address1", "city"], "locations": ["Mothgate, CT"]}
    rows = described({}, records=[RECORD | required])
    [task] = tasks(rows)
    lines = {one.label: one.value or one.absence for one in task.values_to_enter}
    assert lines["street"] == "the listing shows no street; enter only what it shows"
    assert lines["city as listed"] == "Mothgate"
    assert (task.cannot_start, missing_values(rows)) == ("", [()])
    monkeypatch.setitem(ON_FILE, "addresses", ON_FILE["addresses"].iloc[1:])  # Tall Pines has no street
    [task] = tasks(described({}, records=[RECORD | required]))
    assert task.cannot_start == "Cannot start yet: no street on file. Ask the person for it."


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("FENNIMOOR, ODALYS Q.", False),
        ("Ódalys Maria Fennimoor Jr.", False),
        ("O. Fennimoor", False),
        ("Ody Fennimoor", False),  # an alias
        ("Odalys Fenimoor", True),
        ("Oda Fennimoor", True),
        ("FENNIMOOR ODA O", True),  # the initial is that of a middle name
        ("Dr. O. Maria Fennimoor", False),
        ("F., O.", False),
    ],
)
def test_a_listed_name_unlike_those_on_file_is_noted(name, differs):
    [task] = tasks(described({}, records=[RECORD | {"name": name}]))
    start = f"differs: name {name}, on file Odalys Fennimoor; check that"
    expected = (f"{start} this is the right person first",)
    assert task.cautions == (expected if differs else ())


def test_a_last_name_may_be_a_title():
    for name in ("Jane Miss", "Prof. Jane Miss", "MISS, JANE", "Prof. Dr. J. Miss"):
        assert [*name_warning(name, [("Jane", "Miss")])] == []


def test_a_required_street_brings_all_lines_of_the_address(monkeypatch):
    address = {"address1": "1 Elm St", "address2": "Apt 38", "city": "Tall Pines"}
    address |= {"user_id": 1, "address_id": 1}
    monkeypatch.setitem(ON_FILE, "addresses", table("addresses", address))
    required = {"user_fields_required_for_removal": ["address1", "zip"]}
    [task] = tasks(described({}, records=[RECORD | required]))
    assert [value.label for value in task.values_to_enter] == ["street", "street, line 2", "city", "zip"]
    assert task.missing_values == ("zip",)
    assert not {"address2", "city"} & {value.name for value in task.other_values}


@pytest.mark.parametrize(
    ("step", "needs"),
    [
        ("Open the email from Nosy Heron within a day and click the link in it.", (MAILBOX,)),
        ("Wait for the confirmation email.", (MAILBOX,)),
        ("Enter the code that comes by e-mail.", (MAILBOX,)),
        ("Open peep.example/opt-out and enter your email address.", ()),
        ("Cover everything but the name on a recent bill, and copy it.", (DOCUMENT,)),
        ("Attach a photo of your driver's license.", (DOCUMENT,)),
        ("Copy the link of the listing.", ()),
    ],
)
def test_what_steps_need_from_the_person_follows_from_their_text(step, needs):
    assert preparations(["Search for the listing.", step]) == needs


@pytest.mark.parametrize(
    ("step", "urls"),
    [
        ("Open peep.example/opt-out, then wait.", ["https://peep.example/opt-out"]),
        ("See http://peep.example.", ["http://peep.example"]),
        ("Send form.pdf to the Inc.Ltd", []),
        ('Go to evil.example/a"b', ["https://evil.example/a"]),
    ],
)
def test_addresses_are_read_from_a_step(step, urls):
    assert [url for *_, url in step_urls(step)] == urls


def test_a_repr_of_a_task_has_no_personal_data():
    [task] = tasks(described({"href": "https://peep.example/7"}))
    personal = ("Odalys", "FENN", "00011", "peep.example", "ody@")
    assert not [one for one in personal if one in repr((task, *task.entries))]


@pytest.mark.parametrize("column", ["name", "reference_id", "record_id"])
def test_missing_columns_of_listings_are_named(column):
    with pytest.raises(MissingColumns, match=column):
        with_listings(table("alerts"), table("records").drop(columns=column))


@pytest.mark.parametrize("records_by", ["id", "reference"])
def test_a_history_names_the_listing_and_an_exposure_the_values(tmp_path, records_by):
    record = a_record(11) | {"name": "FENNIMOOR ODALYS", "reference_id": "00011"}
    alerts = [an_alert("Found", record), an_alert("Seen", a_link(None))]
    service = Service({7: Person(records=[record], alerts=alerts)})
    with seen_through(service) as exposure:
        history = History(tmp_path / "history", records_by=records_by, clock=Clock())
        history.collect(exposure)
        alone, both = history.work_queue(), history.work_queue(exposure=exposure)
        live = analysis.work_queue(exposure.steps())
    for queue in (alone, both, live):
        listing = queue[queue["site"].notna()].iloc[0]
        assert (listing["name"], listing["reference_id"]) == ("FENNIMOOR ODALYS", "00011")
        assert [*listing["opt_out_procedure"]] == alerts[0]["opt_out_procedure"]
    assert alone[["person", "form_values"]].isna().all(axis=None)
    assert {task.note for task in tasks(alone)} == {NO_VALUES}
    assert both[["person", "form_values"]].notna().all(axis=None)
    assert {task.note for task in tasks(both)} == {""}
