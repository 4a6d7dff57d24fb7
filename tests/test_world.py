"""The make-believe world: plainly invented, the same for the same seed, and consistent with itself."""

import doctest
import re
from statistics import fmean
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exposurekit.contract.items import AddressItem, AliasItem, EmailItem, PhoneNumberItem
from exposurekit.contract.values import STATUSES
from exposurekit.service.world import people, sites, stories
from exposurekit.service.world.people import Person, invent
from exposurekit.service.world.sites import PAGES, SITES
from exposurekit.service.world.stories import Story, fate_after, status_after, story_of

SEEDS = st.integers(min_value=-(2**63), max_value=2**63)
CALM = settings(max_examples=25, deadline=None)


@pytest.fixture(scope="module")
def population():
    return invent(2000, seed=7)


@pytest.fixture(scope="module")
def told(population):
    return [(person, story_of(person, seed=7)) for person in population]


def personal(person: Person, story: Story):
    """Every text that tells something about a person."""
    yield from (person.first_name, person.last_name, *person.emails, *person.phone_numbers, *person.relatives)
    for address in person.addresses:
        yield from (address.address1, address.city, address.zip)
    for alias in person.aliases:
        yield f"{alias.first_name} {alias.last_name}"
    for finding in story.findings:
        yield from (finding.name, finding.reference_id, *finding.locations)
    yield from (link.url for link in story.links)


@pytest.mark.parametrize("module", [people, sites, stories], ids=lambda module: module.__name__)
def test_the_examples_in_the_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@given(SEEDS)
@CALM
def test_the_same_seed_makes_the_same_world(seed):
    once, again = invent(12, seed), invent(12, seed)
    assert once == again
    assert [story_of(person, seed) for person in once] == [story_of(person, seed) for person in again]


@given(SEEDS, SEEDS)
@CALM
def test_two_seeds_make_two_worlds(one, other):
    assert (invent(12, one) == invent(12, other)) == (one == other)


def test_a_seed_and_its_negative_differ():
    assert invent(5, 1) != invent(5, -1)


def test_two_seeds_tell_two_stories_of_one_person(population):
    assert [story_of(person, 1) for person in population[:20]] != [
        story_of(person, 2) for person in population[:20]
    ]


@given(SEEDS, st.integers(0, 40), st.integers(0, 40))
@CALM
def test_more_people_leave_the_first_ones_as_they_are(seed, few, more):
    many = invent(few + more, seed)
    assert len(many) == few + more
    assert invent(few, seed) == many[:few]


def test_nobody_is_invented_where_nobody_is_asked_for():
    assert invent(0, seed=7) == []
    assert invent(-3, seed=7) == []


@given(SEEDS)
@CALM
def test_every_phone_and_mailbox_is_one_that_cannot_exist(seed):
    for person in invent(25, seed):
        assert all(re.fullmatch(r"[2-9]\d\d55501\d\d", number) for number in person.phone_numbers)
        assert all(re.fullmatch(r"[a-z0-9.]+@example\.(com|org|net)", address) for address in person.emails)


def test_strangers_share_no_phone_and_no_mailbox(population):
    for of in (lambda person: person.phone_numbers, lambda person: person.emails):
        held = [value for person in population for value in of(person)]
        assert len(held) > 1500
        assert len(set(held)) == len(held)


def test_addresses_have_a_state_and_a_zip_that_keeps_its_leading_zero(population):
    addresses = [address for person in population for address in person.addresses]
    assert all(person.addresses for person in population)
    assert all(re.fullmatch(r"[A-Z]{2}", address.state) for address in addresses)
    assert all(re.fullmatch(r"\d{5}", address.zip) for address in addresses)
    assert any(address.zip.startswith("0") for address in addresses)
    assert {address.address2 is None for address in addresses} == {True, False}


def test_some_were_born_before_1970_and_some_keep_it_to_themselves(population):
    dates = [person.birth_date for person in population]
    known = [born for born in dates if born is not None]
    assert min(known) < 0 < max(known)
    assert all(born % 86_400 == 0 for born in known)
    assert None in dates


def test_two_thousand_names_rarely_collide_but_there_are_namesakes(population):
    names = [(person.first_name, person.last_name) for person in population]
    assert 0 < len(names) - len(set(names)) < 60


def test_relatives_share_a_last_name_and_a_town(population):
    registered = {f"{person.first_name} {person.last_name}": person for person in population}
    pairs = [
        (person, registered[name]) for person in population for name in person.relatives if name in registered
    ]
    close = [
        one
        for one, other in pairs
        if one.last_name == other.last_name and one.addresses[0].city == other.addresses[0].city
    ]
    assert len(close) > 500
    assert all(f"{person.first_name} {person.last_name}" not in person.relatives for person in population)


def test_aliases_come_with_each_kind_and_without(population):
    assert {alias.alias_type for person in population for alias in person.aliases} == {
        "nickname",
        "maiden",
        None,
    }


def test_a_request_leaves_out_what_is_not_known_and_reads_as_the_contract_does(population):
    items = {
        "aliases": AliasItem,
        "emails": EmailItem,
        "phone_numbers": PhoneNumberItem,
        "addresses": AddressItem,
    }
    for person in population[:300]:
        request = person.request()
        assert ("birth_date" in request) == (person.birth_date is not None)
        assert ("middle_name" in request) == (person.middle_name is not None)
        for name, model in items.items():
            for item in request[name]:
                assert None not in item.values()
                assert not model.model_validate(item).model_extra


def test_every_site_and_page_is_one_that_cannot_exist():
    hosts = [place.host for place in (*SITES, *PAGES)]
    assert all(re.fullmatch(r"[a-z-]+\.example", host) for host in hosts)
    assert len(set(hosts)) == len(hosts)
    assert len({site.name for site in SITES}) == len(SITES) == 12


def test_every_site_explains_itself_and_names_fields_that_somebody_can_fill(population):
    fillable = frozenset().union(*(person.fields() for person in population))
    for site in SITES:
        assert site.guide.count(". ") in {1, 2}
        assert len(site.opt_out_procedure) in {1, 3, 4, 5, 6}
        assert fillable >= set(site.user_fields_required_for_removal)
        assert (site.removal_days is None) == (site.removal == "never")
        assert site.opt_out_url.startswith(f"https://{site.host}/")
    assert sum(len(site.opt_out_procedure) == 1 for site in SITES) == 2
    assert {site.removal for site in SITES} == {"at once", "after days", "never", "human", "relists"}


@pytest.mark.parametrize("moves", [moves for paths in stories._PATHS.values() for moves, _ in paths])
def test_every_temperament_takes_only_legal_paths(moves):
    assert status_after(moves) in STATUSES
    assert fate_after(moves) in {*STATUSES, "listed again", "refused"}


@pytest.mark.parametrize(
    "moves",
    [
        (),
        ("submit",),
        ("discover", "discover"),
        ("discover", "gone"),
        ("discover", "refuse"),
        ("discover", "submit", "discover"),
        ("discover", "submit", "gone", "gone", "gone"),
        ("discover", "submit", "gone", "gone", "submit"),
    ],
)
def test_a_path_that_no_record_can_take_is_an_error(moves):
    """Contract: "transitions"."""
    with pytest.raises(ValueError, match=r"^no "):
        status_after(moves)


def test_one_look_is_not_enough_to_be_removed():
    """Contract: `removed` is verified twice."""
    submitted = ("discover", "submit")
    assert status_after((*submitted, "gone")) == "pending removal"
    assert status_after((*submitted, "gone", "still listed", "gone")) == "pending removal"
    assert status_after((*submitted, "gone", "still listed", "gone", "gone")) == "removed"


@given(SEEDS)
@CALM
def test_every_finding_is_as_its_site_shows_it(seed):
    for person in invent(10, seed):
        for finding in story_of(person, seed).findings:
            site = finding.site
            assert re.fullmatch(r"\d{12}", finding.reference_id)
            assert finding.locations
            assert (finding.href is None) == (not site.shows_href)
            assert finding.href is None or urlsplit(finding.href).hostname == site.host
            assert finding.age is None or (site.shows_age and 18 <= finding.age < 110)
            assert not finding.relations or site.shows_relations
            assert not finding.aliases or site.shows_aliases
            assert set(finding.relations) <= set(person.relatives)
            assert person.last_name.upper() in finding.name.upper()


@given(SEEDS)
@CALM
def test_every_fate_is_consistent_with_the_temper_of_its_site(seed):
    for person in invent(10, seed):
        for finding in story_of(person, seed).findings:
            assert finding.status == status_after(finding.moves)
            if finding.site.removal == "never":
                assert finding.fate != "removed"
            if finding.fate == "listed again":
                assert finding.site.removal == "relists"
            if finding.fate == "refused":
                assert finding.site.removal == "never"
            if not person.fields().issuperset(finding.site.user_fields_required_for_removal):
                assert finding.moves == ("discover",)


def test_sister_sites_share_an_opt_out(told):
    for _, story in told:
        shared = {finding.moves for finding in story.findings if finding.site.sister_group}
        assert len(shared) <= 1
    both = [
        {finding.site.host for finding in story.findings if finding.site.sister_group} for _, story in told
    ]
    assert any(len(hosts) == 2 for hosts in both)


@given(SEEDS)
@CALM
def test_a_link_contains_only_what_the_person_has(seed):
    for person in invent(10, seed):
        for link in story_of(person, seed).links:
            assert link.contains
            assert set(link.contains) <= {"email", "address", "phone"}
            assert "email" not in link.contains or person.emails
            assert "phone" not in link.contains or person.phone_numbers
            assert urlsplit(link.url).hostname in {page.host for page in PAGES}
            assert "{" not in link.url + link.title


def test_one_page_has_one_title(told):
    titles: dict[str, set[str]] = {}
    for _, story in told:
        for link in story.links:
            titles.setdefault(link.url, set()).add(link.title)
    assert all(len(names) == 1 for names in titles.values())


def test_two_thousand_people_have_eight_records_and_two_links_on_average(told):
    assert 7 < fmean(len(story.findings) for _, story in told) < 9
    assert 1.5 < fmean(len(story.links) for _, story in told) < 2.5


def test_some_people_are_found_nowhere_and_every_fate_befalls_somebody(told):
    assert any(not story.findings and not story.links for _, story in told)
    fates = {finding.fate for _, story in told for finding in story.findings}
    assert fates == {*STATUSES, "listed again", "refused"}


def test_reference_ids_keep_their_leading_zeros_and_differ(told):
    references = [finding.reference_id for _, story in told for finding in story.findings]
    assert any(reference.startswith("000") for reference in references)
    assert len(set(references)) > 0.999 * len(references)


def test_no_representation_holds_a_personal_value(told):
    for person, story in told[:300]:
        shown = repr((person, person.aliases, person.addresses, story, story.findings, story.links))
        assert not [value for value in personal(person, story) if value in shown]
