"""Follow-ups: one email after a form that was not carried out, and the form again if that is not, either."""

from datetime import timedelta
from threading import Thread

import pytest
from support.mail import CONFIRM, LINK, Zone, approve_drafts, request_states, signed, unsigned
from support.services import START
from support.small_web import JUNIPER, Card, Folk, a_house, definition

from exposurekit.errors import ConfigurationError
from exposurekit.sandbox.world.asgi import html
from exposurekit.service.accounts import consent
from exposurekit.service.findings import removals
from exposurekit.service.mail import follow_ups, opt_out_emails, opt_out_requests
from exposurekit.service.scanning import assisted_opt_outs
from exposurekit.service.storage import leases, tables

TO = "privacy@seekfolk.example"
LISTED, GIVE_UP_DAYS = "Seekfolk-1", 10


def followed_up(*also_removes, confirmed=False, template="ccpa", **changed):
    """The removal of a site whose form a person sends, and whose address for requests is known."""
    confirming = {"confirm": CONFIRM} if confirmed else {}
    email = {"Email": "{request_email}"} if confirmed else {}
    return {
        "method": "assisted",
        "fields": {"Your listing": "{reference_id}"} | email,
        "user_fields_required": ["state"],
        "processing_days": 2,
        "give_up_days": GIVE_UP_DAYS,
        "also_removes": also_removes,
        "email": {"to": TO, "template": template},
        **confirming,
        **changed,
    }


@pytest.fixture
def open_house(town, tmp_path, drop, server):
    """Open a service with these settings for sending, or without any."""

    def opened(*, can_send=True, **sending):
        smtp = server.settings(**{"requires_approval": False} | sending) if can_send else None
        mail = drop.settings.model_copy(update={"smtp": smtp})
        return a_house(tmp_path, town.resolve, mail=mail, resolve_txt=Zone())

    return opened


@pytest.fixture
def house(open_house):
    with open_house() as house:
        yield house


def opens(house, town, **removals):
    """Open sites with these removals; each lists Juniper once."""
    folks = {name: town.opens(name, Folk([Card(f"{name}-1")])) for name in removals}
    house.has(*(definition(name, removal=removal) for name, removal in removals.items()))
    for folk in folks.values():
        folk.others["/confirm"] = lambda _: html("Your removal is confirmed")
    return folks


def queued(house, **options):
    return house.work(
        lambda work: assisted_opt_outs.queue(
            work, house.definitions, mail=house.mail, limit=100, is_patient=False, **options
        )
    )


def offered(house):
    return [(one.site, one.reason) for one in queued(house).opt_outs]


def send_form(house, site="Seekfolk"):
    """Report that a person has sent the form of a site, which is offered."""
    [one] = [one for one in queued(house).opt_outs if one.site == site]
    house.work(lambda work: assisted_opt_outs.report_sent(work, one.id, house.definitions))
    return one


def refused(house, site="Seekfolk"):
    """Report that the site refused the form."""
    [one] = [one for one in queued(house).opt_outs if one.site == site]
    house.work(lambda work: assisted_opt_outs.report_failed(work, one.id, house.definitions, refused=True))
    house.idle()
    return one


def text_of(message):
    return " ".join(message.get_content().split())


# --- each failure ---------------------------------------------------------------------------------------


def test_a_form_that_was_ignored_is_followed_up_once(house, town, server):
    folks = opens(house, town, Seekfolk=followed_up())
    juniper = house.scanned_juniper()
    send_form(house)
    house.advance(days=GIVE_UP_DAYS - 1)
    assert server.recipients == []
    house.advance(days=2)
    assert (server.recipients, request_states(house)) == ([TO], ["sent"])
    assert (offered(house), house.statuses(juniper)) == ([], {LISTED: "pending removal"})
    [message] = server.messages
    text = text_of(message)
    assert (
        f"On {START.day} January 2026 the form for this, http://seekfolk.example/opt-out, was sent to you."
        in text
    )
    assert "The listing is still there." in text
    folks["Seekfolk"].cards.clear()
    house.advance(days=4)
    assert house.statuses(juniper) == {LISTED: "removed"}
    house.advance(days=30)
    assert server.recipients == [TO]
    titles = ["New record", "Opt-out submitted", "Opt-out ignored", "Opt-out submitted", "Removal verified"]
    assert house.alert_titles(juniper) == titles


def test_an_email_that_was_ignored_leaves_the_form(house, town, server):
    """There is no loop: the next form that fails is not followed up either, until the listing was removed."""
    opens(house, town, Seekfolk=followed_up(confirmed=True))
    juniper = house.scanned_juniper()
    refused(house)
    assert (server.recipients, house.statuses(juniper)) == ([TO], {LISTED: "pending removal"})
    house.advance(days=GIVE_UP_DAYS + 2)
    reason = "the site did not remove the listing in time; the service has asked by email, too"
    assert offered(house) == [("Seekfolk", reason)]
    refused(house)
    house.advance(days=60)
    assert offered(house) == [("Seekfolk", "the site refused it; the service has asked by email, too")]
    assert server.recipients == [TO]


def test_a_form_without_its_message_is_followed_up(house, town, server, drop):
    opens(house, town, Seekfolk=followed_up(confirmed=True))
    juniper = house.scanned_juniper()
    one = send_form(house)
    house.advance(days=7.1)
    assert (server.recipients, house.statuses(juniper)) == ([TO], {LISTED: "pending removal"})
    assert "The message with which it has to be confirmed did not arrive" in text_of(server.messages[0])
    drop.deliver(signed(unsigned(one.values["Email"], LINK)))
    house.advance(days=1.1)
    assert town.of("Seekfolk", "/confirm") == []  # its form is no longer awaited


def test_an_email_does_not_wait_for_the_forms_message(house, town, server):
    """The page showed that the form was not carried out before a worker has noticed that its message is missing."""
    removal = followed_up(confirmed=True)
    opens(house, town, Seekfolk=removal | {"confirm": CONFIRM | {"within_days": 14}})
    juniper = house.scanned_juniper()
    send_form(house)
    house.clock.advance(timedelta(days=14, hours=1))
    house.save_page(juniper, "Seekfolk", Card(LISTED))
    assert house.alert_titles(juniper)[-1] == "Opt-out ignored"
    house.advance(days=5)
    assert (server.recipients, request_states(house)) == ([TO], ["ended", "sent"])
    assert house.statuses(juniper) == {LISTED: "pending removal"}


@pytest.mark.parametrize("template", ["ccpa", "gdpr", "neutral"])
def test_a_refused_form_is_followed_up(house, town, server, template):
    opens(house, town, Seekfolk=followed_up(template=template))
    house.scanned_juniper()
    refused(house)
    assert server.recipients == [TO]
    text = text_of(server.messages[0])
    assert text.index("was sent to you. You refused it.") < text.index("The listing: Juniper")


def test_a_form_that_failed_waits_for_a_worker(house, town, server):
    """It is not offered again before a worker has asked by email."""
    opens(house, town, Seekfolk=followed_up())
    house.scanned_juniper()
    [one] = queued(house).opt_outs
    house.work(lambda work: assisted_opt_outs.report_failed(work, one.id, house.definitions, refused=True))
    assert (queued(house).opt_outs, queued(house).unprepared) == ((), 1)
    house.idle()
    assert (server.recipients, queued(house).unprepared) == ([TO], 0)


def test_a_listing_that_is_back_is_followed_up_each_time(house, town, server):
    folks = opens(house, town, Seekfolk=followed_up())
    juniper = house.scanned_juniper()
    send_form(house)
    for times in (1, 2):
        folks["Seekfolk"].cards.clear()
        house.advance(days=5)
        assert house.statuses(juniper) == {LISTED: "removed"}
        folks["Seekfolk"].cards.append(Card(LISTED))
        house.advance(days=7)
        assert (server.recipients, offered(house)) == ([TO] * times, [])
        assert "The listing was removed, and is now published again." in text_of(server.messages[-1])
    house.advance(days=GIVE_UP_DAYS + 2)
    assert len(offered(house)) == 1


def test_what_is_back_before_anybody_asked_gets_the_form(house, town, server):
    folks = opens(house, town, Seekfolk=followed_up())
    juniper = house.scanned_juniper()
    folks["Seekfolk"].cards.clear()
    house.advance(days=15)
    assert house.statuses(juniper) == {LISTED: "removed"}
    folks["Seekfolk"].cards.append(Card(LISTED))
    house.advance(days=7)
    assert (offered(house), server.recipients) == ([("Seekfolk", None)], [])


def test_a_new_listing_after_a_removal_is_followed_up(house, town, server):
    """One request was to remove everything that the owner has of the person."""
    folks = opens(
        house,
        town,
        Seekfolk=followed_up("Peepfolk"),
        Peepfolk=followed_up("Seekfolk"),
        Nosyfolk=followed_up(),
    )
    folks["Peepfolk"].cards.clear()
    house.scanned_juniper()
    send_form(house)
    folks["Seekfolk"].cards.clear()
    house.advance(days=5)
    folks["Peepfolk"].cards.append(Card("Peepfolk-1"))
    house.advance(days=7)
    assert (server.recipients, offered(house)) == ([TO], [("Nosyfolk", None)])
    text = text_of(server.messages[0])
    assert "To Peepfolk:" in text
    assert "removed other listings of this person. You now publish this one." in text


def test_a_form_that_was_not_sent_is_not_followed_up(house, town, server):
    """The site was not asked."""
    opens(house, town, Seekfolk=followed_up())
    house.scanned_juniper()
    [one] = queued(house).opt_outs
    house.work(lambda work: assisted_opt_outs.report_failed(work, one.id, house.definitions, refused=False))
    house.idle()
    assert (server.recipients, offered(house)) == ([], [("Seekfolk", "it could not be sent")])


# --- several listings -----------------------------------------------------------------------------------


def test_one_email_covers_the_listings_of_an_owner(house, town, server):
    sites = {"Seekfolk": followed_up("Peepfolk"), "Peepfolk": followed_up("Seekfolk")}
    opens(house, town, **sites)
    juniper = house.scanned_juniper()
    [(site, _)] = offered(house)  # the first that was scanned
    send_form(house, site)  # for both
    house.advance(days=GIVE_UP_DAYS + 2)
    assert server.recipients == [TO]
    assert set(house.statuses(juniper).values()) == {"pending removal"}
    assert house.alert_titles(juniper).count("Opt-out ignored") == 2
    house.advance(days=GIVE_UP_DAYS + 2)
    assert server.recipients == [TO]
    assert len(offered(house)) == 1  # one form removes both


def test_a_listing_that_fails_later_waits_for_the_email(house, town, server):
    """Its form was under way when the email was sent, which asks for it, too; then a person sends the form."""
    opens(
        house,
        town,
        Seekfolk=followed_up("Peepfolk"),
        Peepfolk=followed_up("Seekfolk", give_up_days=GIVE_UP_DAYS + 3),
    )
    juniper = house.scanned_juniper()
    [(site, _)] = offered(house)  # the first that was scanned
    send_form(house, site)
    house.advance(days=GIVE_UP_DAYS + 5)
    assert house.alert_titles(juniper).count("Opt-out ignored") == 2
    assert set(house.statuses(juniper).values()) == {"pending removal"}
    house.advance(days=2 * GIVE_UP_DAYS + 5)
    assert server.recipients == [TO]
    assert house.alert_titles(juniper).count("Opt-out ignored") == 4
    assert len(offered(house)) == 1


def test_a_listing_whose_email_was_sent_waits_for_no_message(house, town, server):
    """The message of its own form is no longer awaited."""
    confirmed = followed_up(confirmed=True, give_up_days=GIVE_UP_DAYS)
    opens(
        house,
        town,
        Seekfolk=followed_up("Peepfolk", give_up_days=60),
        Peepfolk=confirmed | {"confirm": CONFIRM | {"within_days": 14}},
    )
    juniper = house.scanned_juniper()
    [other] = [record["id"] for record in house.records(juniper) if record["site"] == "Peepfolk"]
    house.work(lambda work: assisted_opt_outs.report_sent(work, other, house.definitions))
    house.advance(days=1)
    refused(house, "Seekfolk")
    house.clock.advance(timedelta(days=13, hours=1))
    house.save_page(juniper, "Peepfolk", Card("Peepfolk-1"))
    assert house.alert_titles(juniper)[-1] == "Opt-out ignored"
    house.advance(days=8)
    assert (server.recipients, set(house.statuses(juniper).values())) == ([TO], {"pending removal"})
    assert house.alert_titles(juniper)[-1] == "Opt-out submitted"


def test_a_draft_covers_the_other_listings_of_its_owner(open_house, town, server):
    with open_house(requires_approval=True) as house:
        opens(house, town, Seekfolk=followed_up("Peepfolk"), Peepfolk=followed_up("Seekfolk"))
        juniper = house.scanned_juniper()
        one = refused(house, queued(house).opt_outs[0].site)
        [other] = [record["id"] for record in house.records(juniper) if record["id"] != one.id]
        house.work(lambda work: assisted_opt_outs.report_failed(work, other, house.definitions, refused=True))
        house.advance(days=20)
        assert (server.recipients, request_states(house)) == ([], ["draft"])
        assert (queued(house).opt_outs, queued(house).covered) == ((), 2)
        without_settings = house.work(
            lambda work: assisted_opt_outs.queue(work, house.definitions, limit=100, is_patient=False)
        )
        assert (without_settings.opt_outs, without_settings.covered) == ((), 2)
        approve_drafts(house)
        assert server.recipients == [TO]
        assert set(house.statuses(juniper).values()) == {"pending removal"}


def test_a_draft_covers_what_is_back_meanwhile(open_house, town, server):
    with open_house(requires_approval=True) as house:
        folks = opens(house, town, Seekfolk=followed_up("Peepfolk"), Peepfolk=followed_up("Seekfolk"))
        juniper = house.scanned_juniper()
        send_form(house, queued(house).opt_outs[0].site)
        for folk in folks.values():
            folk.cards.clear()
        house.advance(days=5)
        assert set(house.statuses(juniper).values()) == {"removed"}
        for name in folks:
            folks[name].cards.append(Card(f"{name}-1"))
            house.advance(days=7)
        assert (request_states(house), queued(house).covered) == (["draft"], 2)
        approve_drafts(house)
        assert (server.recipients, request_states(house)) == ([TO], ["sent"])


def test_a_draft_about_what_is_gone_covers_nothing(open_house, town, server):
    with open_house(requires_approval=True) as house:
        folks = opens(house, town, Seekfolk=followed_up("Peepfolk"), Peepfolk=followed_up("Seekfolk"))
        house.scanned_juniper()
        one = refused(house, queued(house).opt_outs[0].site)
        folks[one.site].cards.clear()
        house.advance(days=15)
        [other] = {*folks} - {one.site}
        assert (offered(house), queued(house).covered) == ([(other, None)], 0)


def test_an_email_ends_the_draft_about_what_it_covers(open_house, town, server):
    with open_house(requires_approval=True) as house:
        opens(house, town, Seekfolk=followed_up("Peepfolk"), Peepfolk=followed_up())
        juniper = house.scanned_juniper()
        ids = {record["site"]: record["id"] for record in house.records(juniper)}
        for site in ("Peepfolk", "Seekfolk"):
            house.work(
                lambda work, one=ids[site]: assisted_opt_outs.report_failed(
                    work, one, house.definitions, refused=True
                )
            )
            house.idle()
        house.work(lambda work: opt_out_emails.approve(work, 2))
        house.idle()
        assert (server.recipients, request_states(house)) == ([TO], ["ended", "sent"])
        assert set(house.statuses(juniper).values()) == {"pending removal"}


# --- sending --------------------------------------------------------------------------------------------


def test_without_a_server_the_form_is_offered_again(open_house, town, server):
    with open_house(can_send=False) as house:
        opens(house, town, Seekfolk=followed_up(), Peepfolk=followed_up(confirmed=True))
        house.scanned_juniper()
        for site in ("Seekfolk", "Peepfolk"):
            refused(house, site)
        assert {*offered(house)} == {(site, "the site refused it") for site in ("Seekfolk", "Peepfolk")}
        assert queued(house).unprepared == 0
        house.advance(days=30)
        assert server.envelopes == []


def test_no_follow_up_is_sent_without_consent(house, town, server):
    opens(house, town, Seekfolk=followed_up())
    juniper = house.scanned_juniper()
    send_form(house)
    house.work(lambda work: consent.withdraw(work, juniper["id"], withdrawn_by="her"))
    house.advance(days=60)
    assert (server.envelopes, request_states(house)) == ([], [])


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_follow_up_is_prepared_anew_after_a_new_consent(open_house, town, server, confirmed):
    with open_house(requires_approval=True) as house:
        opens(house, town, Seekfolk=followed_up(confirmed=confirmed))
        juniper = house.scanned_juniper()
        refused(house)

        async def approved_and_withdrawn(work):
            await opt_out_emails.approve(work, 1 + confirmed)
            await consent.withdraw(work, juniper["id"], withdrawn_by="her")

        house.work(approved_and_withdrawn)
        house.advance(days=30)
        house.work(lambda work: consent.consent(work, juniper["id"], granted_by="her"))
        house.advance(days=8)
        assert (server.recipients, request_states(house)[-2:]) == ([], ["ended", "draft"])
        assert (offered(house), queued(house).covered) == ([], 1)
        approve_drafts(house)
        assert (server.recipients, request_states(house)[-2:]) == ([TO], ["ended", "sent"])


@pytest.mark.parametrize("can_send", [False, True])
def test_a_failed_form_is_prepared_again_after_a_new_consent(open_house, town, server, can_send):
    with open_house(can_send=can_send) as house:
        opens(house, town, Seekfolk=followed_up(confirmed=True))
        juniper = house.scanned_juniper()
        [one] = queued(house).opt_outs

        async def failed_and_withdrawn(work):
            await assisted_opt_outs.report_failed(work, one.id, house.definitions, refused=True)
            await consent.withdraw(work, juniper["id"], withdrawn_by="her")

        house.work(failed_and_withdrawn)
        house.advance(days=30)
        house.work(lambda work: consent.consent(work, juniper["id"], granted_by="her"))
        house.advance(days=8)
        asked = ([TO], []) if can_send else ([], [("Seekfolk", "the site refused it")])
        assert (server.recipients, offered(house), queued(house).unprepared) == (*asked, 0)


def test_no_follow_up_is_sent_without_a_required_field(house, town, server):
    opens(house, town, Seekfolk=followed_up(user_fields_required=["email"]))
    house.scanned_juniper(emails=[])
    refused(house)
    assert server.envelopes == []
    [one] = queued(house).opt_outs
    assert one.missing == ("email",)


def test_no_follow_up_is_sent_without_the_listings_street(house, town, server):
    folks = opens(house, town, Seekfolk=followed_up(user_fields_required=["address1"]))
    folks["Seekfolk"].cards[:] = [Card(LISTED, locations=("Mothgate, CT",))]
    house.scanned_juniper(addresses=[*JUNIPER["addresses"], {"city": "Mothgate", "state": "CT"}])
    refused(house)
    assert server.envelopes == []
    [one] = queued(house).opt_outs
    assert one.missing == ("address1",)


@pytest.mark.parametrize("approved", [False, True])
def test_a_field_that_is_missing_later_leaves_the_form(open_house, town, server, approved):
    with open_house(requires_approval=True) as house:
        opens(house, town, Seekfolk=followed_up(user_fields_required=["email"]))
        juniper = house.scanned_juniper()
        refused(house)
        assert request_states(house) == ["draft"]
        if approved:
            house.work(lambda work: opt_out_emails.approve(work, 1))
        house.update(juniper, emails=[{"id": juniper["emails"][0]["id"], "_destroy": True}])
        house.advance(days=8)
        assert (server.envelopes, request_states(house)) == ([], ["ended"])
        [one] = queued(house).opt_outs
        assert one.missing == ("email",)


def test_a_kill_while_sending_makes_a_draft(open_house, town, server):
    with open_house(requires_approval=True) as house:
        opens(house, town, Seekfolk=followed_up())
        house.scanned_juniper()
        refused(house)

        async def killed(work):
            await opt_out_emails.approve(work, 1)
            request = await opt_out_requests.get(work, 1)
            assert await opt_out_requests.begin_sending(work, request, per_day=1, per_site_per_day=1)
            await leases.acquire_one(work, tables.records, request.record_id, duration=timedelta(hours=1))

        house.work(killed)
        house.advance(hours=2)
        assert (server.envelopes, request_states(house), offered(house)) == ([], ["draft"], [])
        approve_drafts(house)
        assert (server.recipients, request_states(house)) == ([TO], ["sent"])


def kill_while_sending(house):
    """Do to the approved email what a worker does, up to a kill."""

    async def killed(work):
        [request] = await opt_out_requests.emails(work, state="approved", limit=9)
        assert await opt_out_requests.begin_sending(work, request, per_day=1, per_site_per_day=1)
        await leases.acquire_one(work, tables.records, request.record_id, duration=timedelta(hours=1))

    house.work(killed)


@pytest.mark.parametrize("is_draft", [False, True])
def test_a_kill_and_a_missing_field_send_nothing_twice(house, town, server, is_draft):
    """It may have been sent: once it ended, the person sends the form, and no second email follows."""
    opens(house, town, Seekfolk=followed_up(user_fields_required=["email"]))
    juniper = house.scanned_juniper()
    [one] = queued(house).opt_outs
    house.work(lambda work: assisted_opt_outs.report_failed(work, one.id, house.definitions, refused=True))
    house.work(
        lambda work: opt_out_requests.issue_email(
            work, one.user_id, one.id, one.site, requires_approval=False
        )
    )
    kill_while_sending(house)
    if is_draft:
        house.advance(hours=2)
        assert request_states(house) == ["draft"]
    house.update(juniper, emails=[{"id": juniper["emails"][0]["id"], "_destroy": True}])
    house.advance(days=8)
    assert request_states(house) == ["ended"]
    house.update(juniper, emails=[{"address": "juniper@example.com"}])
    house.advance(days=8)
    refused(house)
    house.advance(days=30)
    assert server.recipients == []


def test_a_follow_up_that_cannot_be_sent_leaves_the_form(house, town, server):
    server.answer_to_recipient = "550 nobody"
    opens(house, town, Seekfolk=followed_up(confirmed=True))
    house.scanned_juniper()
    refused(house)
    assert offered(house) == []
    house.advance(days=6)
    assert (server.recipients, offered(house)) == ([], [("Seekfolk", "it could not be sent")])


def test_a_follow_up_that_came_back_leaves_the_form(house, town, server, drop):
    opens(house, town, Seekfolk=followed_up())
    juniper = house.scanned_juniper()
    refused(house)
    [message] = server.messages
    bounce = unsigned(message["Reply-To"], sender="mailer-daemon@privacy.example", subject="Undeliverable")
    drop.deliver(bounce.as_bytes())
    house.advance(days=1.1)
    assert house.statuses(juniper) == {LISTED: "discovered"}
    assert offered(house) == [("Seekfolk", "it could not be sent")]
    house.advance(days=30)
    assert server.recipients == [TO]


def test_follow_ups_have_the_limit_of_their_site(open_house, town, server):
    with open_house(per_site_per_day=1) as house:
        folks = opens(house, town, Seekfolk=followed_up())
        folks["Seekfolk"].cards[:] = [Card(f"r{number}") for number in range(3)]
        house.scanned_juniper()
        for one in queued(house).opt_outs:
            house.work(
                lambda work, one=one: assisted_opt_outs.report_failed(
                    work, one.id, house.definitions, refused=True
                )
            )
        house.idle()
        assert len(server.recipients) == 1
        assert (queued(house).opt_outs, queued(house).covered) == ((), 2)
        house.advance(days=2.2)
        assert server.recipients == [TO] * 3


def test_a_form_sent_in_spite_of_a_draft_counts(open_house, town, server):
    with open_house(requires_approval=True) as house:
        opens(house, town, Seekfolk=followed_up())
        juniper = house.scanned_juniper()
        one = refused(house)
        house.work(lambda work: assisted_opt_outs.report_sent(work, one.id, house.definitions))
        assert house.statuses(juniper) == {LISTED: "pending removal"}
        approve_drafts(house)
        assert (server.recipients, request_states(house)) == ([], ["ended"])
        house.advance(days=GIVE_UP_DAYS + 2)
        assert (server.recipients, request_states(house)) == ([], ["ended", "draft"])
        approve_drafts(house)
        assert "The listing is still there." in text_of(server.messages[0])


@pytest.mark.parametrize(("answer", "state"), [("250 OK", "sent"), ("554 no", "ended")])
def test_a_form_sent_while_an_email_is_under_way_counts(house, town, server, answer, state):
    opens(house, town, Seekfolk=followed_up())
    juniper = house.scanned_juniper()
    [one] = queued(house).opt_outs

    def report():
        house.work(lambda work: assisted_opt_outs.report_sent(work, one.id, house.definitions))

    def deliver(_address, _content):
        reporting = Thread(target=report)
        reporting.start()
        reporting.join()

    server.deliver, server.answer_to_message = deliver, answer
    refused(house)
    [record] = house.rows(tables.records)
    first_scan_at = house.clock.now() + timedelta(days=2)  # the site's processing time
    assert (record.status, record.due_at, record.lease) == ("pending removal", first_scan_at, None)
    assert request_states(house) == [state]
    assert house.alert_titles(juniper) == ["New record", "Opt-out refused", "Opt-out submitted"]


def test_an_unclear_email_beside_a_form_counts(house, town, server):
    opens(house, town, Seekfolk=followed_up())
    house.scanned_juniper()
    [one] = queued(house).opt_outs

    def deliver(_address, _content):
        reporting = Thread(
            target=lambda: house.work(
                lambda work: assisted_opt_outs.report_sent(work, one.id, house.definitions)
            )
        )
        reporting.start()
        reporting.join()

    server.deliver, server.answer_to_message = deliver, None
    refused(house)
    assert (len(server.envelopes), request_states(house)) == (1, ["ended"])
    house.advance(days=GIVE_UP_DAYS + 30)
    assert offered(house) == [("Seekfolk", "the site did not remove the listing in time")]
    assert len(server.envelopes) == 1


def test_a_form_sent_with_its_message_ends_the_approved_email(open_house, town, server):
    with open_house(requires_approval=True) as house:
        opens(house, town, Seekfolk=followed_up(confirmed=True))
        house.scanned_juniper()
        one = refused(house)

        async def approved_and_sent(work):
            [draft] = await opt_out_requests.emails(work, state="draft", limit=9)
            await opt_out_emails.approve(work, draft.id)
            await opt_out_requests.issue(work, one.user_id, one.id, one.site, within=None)
            await assisted_opt_outs.report_sent(work, one.id, house.definitions)

        house.work(approved_and_sent)
        assert request_states(house) == ["ended", "ended", "waiting"]


def test_the_message_of_a_form_ends_the_draft(open_house, town, server, drop):
    with open_house(requires_approval=True) as house:
        opens(house, town, Seekfolk=followed_up(confirmed=True))
        juniper = house.scanned_juniper()
        one = refused(house)
        request = house.work(
            lambda work: opt_out_requests.issue(work, one.user_id, one.id, one.site, within=None)
        )
        drop.deliver(signed(unsigned(house.mail.request_address(request.token), LINK)))
        house.advance(days=1.1)
        assert house.statuses(juniper) == {LISTED: "pending removal"}
        assert request_states(house) == ["ended", "ended", "confirmed"]


def test_a_removal_ends_the_draft_about_the_listing(open_house, town, server):
    """A person had it removed: when it is back, a person has to approve the email anew."""
    with open_house(requires_approval=True) as house:
        folks = opens(house, town, Seekfolk=followed_up())
        juniper = house.scanned_juniper()
        refused(house)
        folks["Seekfolk"].cards.clear()
        house.advance(days=15)
        assert (house.statuses(juniper), request_states(house)) == ({LISTED: "removed"}, ["ended"])
        folks["Seekfolk"].cards.append(Card(LISTED))
        house.advance(days=7)
        assert (offered(house), server.recipients) == ([("Seekfolk", None)], [])


def test_only_an_email_about_a_listed_record_is_approved(open_house, town, server):
    with open_house(requires_approval=True) as house:
        opens(house, town, Seekfolk=followed_up())
        house.scanned_juniper()
        one = refused(house)
        site = house.definitions["Seekfolk"].site()
        house.work(lambda work: removals.submit_removal(work, one.id, site))
        with pytest.raises(ConfigurationError, match="request 1: its record is pending removal"):
            approve_drafts(house)
        assert request_states(house) == ["draft"]


def test_an_alert_says_that_an_email_may_come_first(house, town):
    opens(house, town, Seekfolk=followed_up())
    juniper = house.scanned_juniper()
    [alert] = house.alerts(juniper)
    assert any("by email first" in step for step in alert["opt_out_procedure"])


def test_the_failure_of_a_follow_up_is_on_record(house, town, server):
    """Also once it was sent, when later events do not change what it said."""
    opens(house, town, Seekfolk=followed_up())
    juniper = house.scanned_juniper()
    refused(house)
    house.advance(days=GIVE_UP_DAYS + 2)
    assert house.alert_titles(juniper)[-1] == "Opt-out ignored"
    [sent] = house.work(lambda work: opt_out_requests.emails(work, limit=9))
    preview = house.work(lambda work: opt_out_emails.preview(work, sent.id, house.mail, house.definitions))
    assert preview.get_content().split() == server.messages[0].get_content().split()
    assert preview["Date"] == server.messages[0]["Date"]
    states = house.work(lambda work: follow_ups.email_states(work, juniper["id"], house.definitions))
    assert states == {sent.record_id: "sent"}
