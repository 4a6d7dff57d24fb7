"""Findings: records and links of a user and their alerts, as the API returns them."""

import dataclasses
from datetime import timedelta

import pytest
from sqlalchemy import select, update
from support.services import LISTING, PAGE, SITE

from exposurekit.contract.models import Alert, Record
from exposurekit.service.accounts.consent import NoSuchUser
from exposurekit.service.findings.findings import Listing, Page, Site, discover_link, discover_record
from exposurekit.service.findings.removals import refuse_removal, submit_removal, verify_removal
from exposurekit.service.storage import tables


@pytest.fixture
def jane(service):
    return service.create()


def discover(service, user, listing=LISTING, site=SITE):
    return service.work(lambda work: discover_record(work, user["id"], listing, site))


def discover_page(service, user, page=PAGE):
    return service.work(lambda work: discover_link(work, user["id"], page))


def texts(service, user):
    return [alert["text"] for alert in service.get(user, "/alerts")["alerts"]]


def test_a_listing_becomes_a_record(service, jane):
    """Specification, "Record"."""
    record_id = discover(service, jane)
    assert service.get(jane, "/records") == {
        "records": [
            {
                "record": {
                    "id": record_id,
                    "name": "Jane Q. Doe",
                    "site": "People & Places",
                    "status": "discovered",
                    "age": 41,
                    "href": "https://places.example/jane",
                    "relations": ["John Doe"],
                    "aliases": ["Janie Doe"],
                    "locations": ["Oakmere, CA"],
                    "reference_id": "000560228488",
                }
            }
        ]
    }


def test_fields_required_for_removal_are_in_get_user_only(service, jane):
    """Specification, "Record": user_fields_required_for_removal only inside the Get user response."""
    record_id = discover(service, jane)
    field = "user_fields_required_for_removal"
    assert service.get(jane)["user"]["records"][0][field] == ["first_name", "address1"]
    assert field not in service.update(jane)["records"][0]
    assert field not in service.get(jane, "/records")["records"][0]["record"]
    assert field not in service.get(jane, f"/records/{record_id}")["record"]
    assert field not in service.get(jane, "/alerts")["alerts"][0]["source"]["record"]


def test_a_repeated_listing_updates_its_record_without_another_alert(service, jane):
    record_id = discover(service, jane)
    assert discover(service, jane, dataclasses.replace(LISTING, age=42)) == record_id
    [item] = service.get(jane, "/records")["records"]
    assert item["record"]["age"] == 42
    assert len(texts(service, jane)) == 1


def test_one_reference_on_two_sites_or_users_is_two_records(service, jane):
    ids = {
        discover(service, jane),
        discover(service, jane, site=Site(name="Elsewhere")),
        discover(service, service.create()),
    }
    assert len(ids) == 3


OURS = dataclasses.replace(SITE, removed_by_us=True)


def row_of(service, record_id):
    query = select(tables.records).where(tables.records.c.id == record_id)
    return service.work(lambda work: work.first(query))


def refuse(service, record_id):
    service.work(lambda work: refuse_removal(work, record_id, OURS))


def remove(service, record_id, site):
    service.work(lambda work: submit_removal(work, record_id, site))
    for _ in range(2):
        service.work(lambda work: verify_removal(work, record_id, site, absent=True))


def test_an_automatic_opt_out_is_due_without_steps(service, jane):
    record_id = discover(service, jane, site=OURS)
    assert row_of(service, record_id).due_at == service.clock.now()
    [alert] = service.get(jane, "/alerts")["alerts"]
    assert (alert["text"], alert["opt_out_procedure"]) == (
        "New record: People & Places lists Jane Q. Doe.",
        [],
    )
    assert alert["guide"] == SITE.guide


def test_a_manual_opt_out_has_steps_and_is_not_due(service, jane):
    record_id = discover(service, jane)
    assert row_of(service, record_id).due_at is None
    [alert] = service.get(jane, "/alerts")["alerts"]
    assert (alert["opt_out_procedure"], alert["guide"]) == (["Open the form.", "Press Remove."], SITE.guide)


@pytest.mark.parametrize("site", [SITE, OURS])
def test_a_relisted_record_is_due_for_removal_again(service, jane, site):
    """Not in the specification, "transitions": listed again -> back to discovered, same record."""
    record_id = discover(service, jane, site=site)
    remove(service, record_id, site)
    assert row_of(service, record_id).due_at is None
    service.clock.advance(timedelta(days=30))
    assert discover(service, jane, site=site) == record_id
    row = row_of(service, record_id)
    assert row.due_at == (service.clock.now() if site.removed_by_us else None)
    assert (row.status, row.absences, row.changed_at) == ("discovered", 0, service.clock.now())
    alert = service.get(jane, "/alerts")["alerts"][-1]
    assert alert["text"] == "Listed again: People & Places lists Jane Q. Doe again, after a removal."
    assert bool(alert["opt_out_procedure"]) is not site.removed_by_us


def test_a_refusal_before_a_removal_does_not_block_relistings(service, jane):
    record_id = discover(service, jane, site=OURS)
    refuse(service, record_id)
    for _ in range(2):
        service.work(lambda work: verify_removal(work, record_id, OURS, absent=True))
    discover(service, jane, site=OURS)
    row = row_of(service, record_id)
    assert (row.due_at, row.refused_at, row.opt_out_attempts) == (service.clock.now(), None, 0)


def test_a_refused_opt_out_is_not_submitted_automatically_again(service, jane):
    """Not in the specification, "transitions": a refused opt-out -> back to discovered; now manual."""
    record_id = discover(service, jane, site=OURS)
    refuse(service, record_id)
    service.clock.advance(timedelta(days=7))
    discover(service, jane, site=OURS)
    row = row_of(service, record_id)
    assert row.due_at is None
    assert row.refused_at == service.clock.now() - timedelta(days=7)


def test_a_record_is_due_when_its_site_adds_a_form(service, jane):
    record_id = discover(service, jane)
    service.clock.advance(timedelta(days=7))
    discover(service, jane, site=OURS)
    assert row_of(service, record_id).due_at == service.clock.now()


def test_a_repeated_listing_leaves_its_due_date(service, jane):
    record_id = discover(service, jane, site=OURS)
    due = service.clock.now()
    service.clock.advance(timedelta(days=1))
    discover(service, jane, site=OURS)
    assert row_of(service, record_id).due_at == due
    next_at = service.clock.now() + timedelta(days=3)
    service.work(lambda work: submit_removal(work, record_id, OURS, next_scan_at=next_at))
    discover(service, jane, site=OURS)
    row = row_of(service, record_id)
    assert (row.due_at, row.status) == (next_at, "pending removal")


def test_a_page_becomes_a_link_and_an_alert(service, jane):
    """Specification, "Link" and "Alert": exposure found on a link."""
    assert discover_page(service, jane) == discover_page(service, jane)
    link = {"url": "https://club.example/members", "title": "Members", "contains": ["email", "phone"]}
    assert service.get(jane, "/links") == {"links": [link]}
    [alert] = service.get(jane, "/alerts")["alerts"]
    assert (alert["source_type"], alert["source"]) == ("link", {"link": link})
    assert alert["url"] == link["url"]
    assert alert["text"] == "Exposure found: the page \u201cMembers\u201d shows personal data: email, phone."


def test_a_repeated_page_updates_its_link(service, jane):
    discover_page(service, jane)
    discover_page(service, jane, dataclasses.replace(PAGE, contains=("address",)))
    assert service.get(jane, "/links")["links"][0]["contains"] == ["address"]
    assert service.get(jane, "/alerts")["alerts"][0]["source"]["link"]["contains"] == ["address"]


OTHER_URLS = [
    "http://club.example/members",
    "https://www.club.example/members/#top",
    "https://club.example/members?utm_source=x",
]


@pytest.mark.parametrize("url", OTHER_URLS)
def test_other_urls_of_one_page_are_one_link(service, jane, url):
    first = discover_page(service, jane)
    other = dataclasses.replace(PAGE, url=url, title="Our members")
    assert discover_page(service, jane, other) == first
    [link] = service.get(jane, "/links")["links"]
    assert (link["url"], link["title"]) == (PAGE.url, "Our members")
    assert len(service.get(jane, "/alerts")["alerts"]) == 1
    another = dataclasses.replace(PAGE, url="https://club.example/members?page=2")
    assert discover_page(service, jane, another) != first


def test_a_link_of_an_earlier_version_stays_one(service, jane):
    """Its digest is that of its URL; from now on it is that of the page."""
    url = "https://www.club.example/members/"
    first = discover_page(service, jane, dataclasses.replace(PAGE, url=url))

    def age(work):
        digest = work.vault.fingerprint(f"{jane['id']}\0{url}", "url")
        return work.run(update(tables.links).filter_by(id=first).values(url_digest=digest))

    service.work(age)
    pages = [dataclasses.replace(PAGE, url=one) for one in (url, PAGE.url, *OTHER_URLS)]
    assert [discover_page(service, jane, page) for page in pages] == [first] * len(pages)
    assert [link["url"] for link in service.get(jane, "/links")["links"]] == [url]


def test_an_alert_carries_everything_the_specification_names(service, jane):
    """Specification, "Alert"."""
    record_id = discover(service, jane)
    [alert] = service.get(jane, "/alerts")["alerts"]
    assert alert == {
        "text": "New record: People & Places lists Jane Q. Doe.",
        "html": "<p><strong>New record</strong>: "
        '<a href="https://places.example/jane">People &amp; Places</a> lists Jane Q. Doe.</p>',
        "url": "https://places.example/jane",
        "guide": "Lists people by name.",
        "opt_out_procedure": ["Open the form.", "Press Remove."],
        "source_type": "record",
        "source": service.get(jane, f"/records/{record_id}"),
    }
    read = Alert.model_validate(alert).source.record
    assert read.model_dump() == Record.model_validate(alert["source"]["record"]).model_dump()


def test_the_source_of_an_alert_is_the_current_record(service, jane):
    record_id = discover(service, jane)
    service.work(lambda work: submit_removal(work, record_id, SITE))
    alerts = service.get(jane, "/alerts")["alerts"]
    assert [alert["source"]["record"]["status"] for alert in alerts] == ["pending removal"] * 2


def test_a_user_without_findings_has_no_alerts(service, jane):
    """Specification, "Errors": 200 covers the alerts case where there are no records."""
    assert service.get(jane, "/alerts") == {"alerts": []}


HOSTILE = '<img src=x onerror="x()">'


def test_a_sites_text_is_escaped_in_alerts(service, jane):
    listing = Listing(name=HOSTILE, reference_id="1", href='javascript:"x()"')
    discover(service, jane, listing, Site(name=HOSTILE))
    discover_page(service, jane, Page(url='https://x.example/"><script>', title=HOSTILE, contains=(HOSTILE,)))
    for alert in service.get(jane, "/alerts")["alerts"]:
        assert "<img" not in alert["html"]
        assert "<script" not in alert["html"]
        assert "javascript:" not in alert["html"]


def test_a_finding_of_an_unknown_user_raises_error(service):
    with pytest.raises(NoSuchUser):
        service.work(lambda work: discover_record(work, 10**9, LISTING, SITE))
    with pytest.raises(NoSuchUser):
        service.work(lambda work: discover_link(work, 10**9, PAGE))


def test_a_finding_that_fails_leaves_neither_record_nor_alert(service, jane):
    async def fail(work):
        await discover_record(work, jane["id"], LISTING, SITE)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        service.work(fail)
    assert service.get(jane, "/records") == {"records": []}
    assert service.get(jane, "/alerts") == {"alerts": []}


def test_a_record_of_another_user_is_invalid(service, jane):
    """Not in the specification: record id unknown or another user's -> 400."""
    record_id = discover(service, service.create())
    refused = service.call("GET", f"/users/{jane['id']}/records/{record_id}", jane)
    assert (refused.status_code, refused.json()) == (
        400,
        {"error": "id is invalid: the user has no such record"},
    )


def test_the_repr_of_findings_is_impersonal():
    assert "Jane" not in repr(LISTING)
    assert "club" not in repr(PAGE)
