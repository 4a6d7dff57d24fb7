"""Integrators: their keys and secrets are random, shown once, and kept as digests."""

import asyncio
import re

import pytest
from support.services import JANE, a_database

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import integrators, users


@pytest.fixture
def work(tmp_path):
    database = a_database(tmp_path)

    def run(function):
        async def inside():
            async with (await database.open()).writing() as work:
                return await function(work)

        return asyncio.run(inside())

    yield run
    asyncio.run(database.close())


def test_credentials_need_no_escaping_in_paths_queries_and_shells(work):
    credentials = work(lambda work: integrators.add(work, "acme"))
    assert re.fullmatch("[A-Za-z0-9]{43}", credentials.api_key)
    assert re.fullmatch("[A-Za-z0-9]{43}", credentials.api_secret)
    assert credentials.api_key != credentials.api_secret


def test_credentials_do_not_show_themselves(work):
    credentials = work(lambda work: integrators.add(work, "acme"))
    assert repr(credentials) == "Credentials(integration_name='acme')"


def test_a_name_that_is_taken_is_refused(work):
    work(lambda work: integrators.add(work, "acme"))
    with pytest.raises(ConfigurationError, match="exists already"):
        work(lambda work: integrators.add(work, "acme"))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "é", "x" * 65, "a\n"])
def test_a_name_that_cannot_stand_in_a_path_is_refused(work, name):
    with pytest.raises(ConfigurationError, match="1 to 64"):
        work(lambda work: integrators.add(work, name))


def test_integrators_are_listed_by_name_with_their_users(work):
    async def fill(work):
        await integrators.add(work, "zeta")
        await integrators.add(work, "acme")
        await users.create(work, 1, {name: JANE[name] for name in ("first_name", "last_name")})
        return await integrators.all(work)

    assert [(integrator.name, integrator.users) for integrator in work(fill)] == [("acme", 0), ("zeta", 1)]


def test_rotating_gives_a_new_key_and_a_new_secret(work):
    old = work(lambda work: integrators.add(work, "acme"))
    new = work(lambda work: integrators.rotate(work, "acme"))
    assert new.integration_name == "acme"
    assert not {new.api_key, new.api_secret} & {old.api_key, old.api_secret}


@pytest.mark.parametrize("step", [integrators.rotate, integrators.remove])
def test_an_unknown_name_is_refused(work, step):
    with pytest.raises(ConfigurationError, match="no integrator"):
        work(lambda work: step(work, "nobody"))


def test_removing_people_must_be_said(work):
    async def fill(work):
        await integrators.add(work, "acme")
        await users.create(work, 1, {"first_name": "Jane", "last_name": "Doe"})

    work(fill)
    with pytest.raises(ConfigurationError, match="1 users"):
        work(lambda work: integrators.remove(work, "acme"))
    assert work(lambda work: integrators.remove(work, "acme", with_users=True)) == 1
    assert work(integrators.all) == []
