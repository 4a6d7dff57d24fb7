"""The invented people and sites: reproducible, consistent, and with values that cannot exist."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exposurekit.contract.inputs import AddressItem, AliasItem, EmailItem, PhoneNumberItem
from exposurekit.sandbox.world.people import invent
from exposurekit.sandbox.world.sites import DEFINITIONS, PAGES, SITES

SEEDS = st.integers(min_value=-(2**63), max_value=2**63)
FEW = settings(max_examples=10)


@pytest.fixture(scope="module")
def population():
    return invent(2000, seed=7)


@given(SEEDS, SEEDS)
@example(1, -1)
@FEW
def test_the_seed_determines_the_people(one, other):
    people = invent(12, one)
    assert people == invent(12, one)
    assert (people == invent(12, other)) == (one == other)


@given(SEEDS, st.integers(0, 40), st.integers(0, 40))
@FEW
def test_a_larger_population_begins_with_the_smaller(seed, few, more):
    many = invent(few + more, seed)
    assert len(many) == few + more
    assert invent(few, seed) == many[:few]


def test_a_negative_number_of_people_is_none():
    assert invent(-3, seed=7) == []


def test_phone_numbers_and_emails_cannot_exist_and_are_unique(population):
    patterns = {"phone_numbers": r"[2-9]\d\d55501\d\d", "emails": r"[a-z0-9.]+@example\.(com|org|net)"}
    for name, pattern in patterns.items():
        values = [value for person in population for value in getattr(person, name)]
        assert all(re.fullmatch(pattern, value) for value in values)
        assert len(set(values)) == len(values) > 1500


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


def test_a_few_people_have_the_same_name(population):
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


def test_a_request_omits_unknown_values_and_fits_the_contract(population):
    items = {"aliases": AliasItem, "emails": EmailItem}
    items |= {"phone_numbers": PhoneNumberItem, "addresses": AddressItem}
    kinds = {alias.alias_type for person in population for alias in person.aliases}
    assert kinds == {"nickname", "maiden", None}
    for person in population[:300]:
        request = person.request()
        assert ("birth_date" in request) == (person.birth_date is not None)
        assert ("middle_name" in request) == (person.middle_name is not None)
        for name, model in items.items():
            for item in request[name]:
                assert None not in item.values()
                assert not model.model_validate(item).model_extra


def test_every_site_and_page_has_an_example_host():
    hosts = [origin.host for origin in (*SITES, *PAGES)]
    assert all(re.fullmatch(r"[a-z-]+\.example", host) for host in hosts)
    assert len(set(hosts)) == len(hosts)
    assert len({site.name for site in SITES}) == len(SITES) == 15
    assert {path.stem for path in DEFINITIONS.iterdir()} == {site.file for site in SITES}


def test_every_site_has_steps_and_fields_that_someone_has(population):
    fillable = frozenset().union(*(person.fields() for person in population))
    for site in SITES:
        assert site.definition.guide.count(". ") in {1, 2}
        assert len(site.definition.opt_out_procedure) in {1, 2, 3, 4, 5, 6}
        assert fillable >= set(site.definition.removal.user_fields_required)
        assert site.definition.opt_out_url.startswith(f"http://{site.host}/")
        assert site.definition.controls.listed is not None
    assert sum(len(site.definition.opt_out_procedure) == 1 for site in SITES) == 2
    assert {site.removal for site in SITES} == {"at once", "after days", "never", "manual", "relists"}


def test_no_repr_contains_a_personal_value(population):
    for person in population[:300]:
        text = repr((person, person.aliases, person.addresses))
        assert person.last_name not in text
        assert not [address.city for address in person.addresses if address.city in text]
