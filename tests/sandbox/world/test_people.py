"""The make-believe world: plainly invented, the same for the same seed, and consistent with itself."""

import doctest
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exposurekit.contract.inputs import AddressItem, AliasItem, EmailItem, PhoneNumberItem
from exposurekit.sandbox.world import people, sites
from exposurekit.sandbox.world.people import invent
from exposurekit.sandbox.world.sites import DEFINITIONS, PAGES, SITES

SEEDS = st.integers(min_value=-(2**63), max_value=2**63)
CALM = settings(max_examples=25, deadline=None)


@pytest.fixture(scope="module")
def population():
    return invent(2000, seed=7)


@pytest.mark.parametrize("module", [people, sites], ids=lambda module: module.__name__)
def test_the_examples_in_the_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@given(SEEDS)
@CALM
def test_the_same_seed_makes_the_same_world(seed):
    once, again = invent(12, seed), invent(12, seed)
    assert once == again


@given(SEEDS, SEEDS)
@CALM
def test_two_seeds_make_two_worlds(one, other):
    assert (invent(12, one) == invent(12, other)) == (one == other)


def test_a_seed_and_its_negative_differ():
    assert invent(5, 1) != invent(5, -1)


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
        values = [value for person in population for value in of(person)]
        assert len(values) > 1500
        assert len(set(values)) == len(values)


def test_addresses_have_a_state_and_a_full_zip(population):
    addresses = [address for person in population for address in person.addresses]
    assert all(person.addresses for person in population)
    assert all(re.fullmatch(r"[A-Z]{2}", address.state) for address in addresses)
    assert all(re.fullmatch(r"\d{5}", address.zip) for address in addresses)
    assert any(address.zip.startswith("0") for address in addresses)
    assert {address.address2 is None for address in addresses} == {True, False}


def test_some_birth_dates_are_before_1970_and_some_absent(population):
    dates = [person.birth_date for person in population]
    dates_present = [born for born in dates if born is not None]
    assert min(dates_present) < 0 < max(dates_present)
    assert all(born % 86_400 == 0 for born in dates_present)
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


def test_a_request_omits_unknown_values_and_fits_the_contract(population):
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
    hosts = [origin.host for origin in (*SITES, *PAGES)]
    assert all(re.fullmatch(r"[a-z-]+\.example", host) for host in hosts)
    assert len(set(hosts)) == len(hosts)
    assert len({site.name for site in SITES}) == len(SITES) == 15
    assert {path.stem for path in DEFINITIONS.iterdir()} == {site.file for site in SITES}


def test_every_site_has_steps_and_fields_that_somebody_has(population):
    fillable = frozenset().union(*(person.fields() for person in population))
    for site in SITES:
        assert site.definition.guide.count(". ") in {1, 2}
        assert len(site.definition.opt_out_procedure) in {1, 2, 3, 4, 5, 6}
        assert fillable >= set(site.definition.removal.user_fields_required)
        assert site.definition.opt_out_url.startswith(f"http://{site.host}/")
        assert site.definition.controls.listed is not None
    assert sum(len(site.definition.opt_out_procedure) == 1 for site in SITES) == 2
    assert {site.removal for site in SITES} == {"at once", "after days", "never", "manual", "relists"}


def test_no_representation_holds_a_personal_value(population):
    for person in population[:300]:
        text = repr((person, person.aliases, person.addresses))
        assert person.last_name not in text
        assert not [address.city for address in person.addresses if address.city in text]
