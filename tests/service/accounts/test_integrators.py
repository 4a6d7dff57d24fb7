"""Integrators: their keys and secrets are random, and stored as digests."""

import asyncio
import re

import pytest
from support.services import JANE, a_database

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import integrators, users


@pytest.fixture
def work(tmp_path):
    database = a_database(tmp_path)
    with asyncio.Runner() as runner:
        runner.run(database.open())

        async def write(function):
            async with database.writing() as work:
                return await function(work)

        yield lambda function: runner.run(write(function))
        runner.run(database.close())


@pytest.fixture
def acme(work):
    return work(lambda work: integrators.add(work, "acme"))


def test_credentials_are_alphanumeric_and_hidden_in_their_repr(acme):
    assert re.fullmatch("[A-Za-z0-9]{43}", acme.api_key)
    assert re.fullmatch("[A-Za-z0-9]{43}", acme.api_secret)
    assert acme.api_key != acme.api_secret
    assert repr(acme) == "Credentials(integration_name='acme')"


def test_a_duplicate_name_raises_error(work, acme):
    with pytest.raises(ConfigurationError, match="exists already"):
        work(lambda work: integrators.add(work, "acme"))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "é", "x" * 65, "a\n"])
def test_a_name_that_needs_escaping_raises_error(work, name):
    with pytest.raises(ConfigurationError, match="1 to 64"):
        work(lambda work: integrators.add(work, name))


def test_integrators_are_listed_by_name_with_their_users(work):
    async def fill(work):
        await integrators.add(work, "zeta")
        await integrators.add(work, "acme")
        await users.create(work, 1, {name: JANE[name] for name in ("first_name", "last_name")})
        return await integrators.all(work)

    assert [(integrator.name, integrator.users) for integrator in work(fill)] == [("acme", 0), ("zeta", 1)]


def test_rotating_replaces_key_and_secret(work, acme):
    new = work(lambda work: integrators.rotate(work, "acme"))
    assert new.integration_name == "acme"
    assert not {new.api_key, new.api_secret} & {acme.api_key, acme.api_secret}
