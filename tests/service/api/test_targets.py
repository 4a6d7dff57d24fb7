"""Addresses of requests: parsed once, and each request is still judged for itself."""

import sys

import pytest

from exposurekit.service.api import targets

SECRET = "4f0c"


def found(path="/7.json", query=b"", method="GET"):
    return targets.find({"method": method, "path": f"/api/acme/key/v2/users{path}", "query_string": query})


def test_an_address_is_parsed_once():
    query = f"api_secret={SECRET}&unknown=1".encode()
    target = found(query=query)
    assert found(query=query) is target
    assert (target.operation.name, target.integration_name, target.user_id) == ("get_user", "acme", 7)
    assert target.values == {"api_key": "key", "id": "7", "api_secret": SECRET}
    assert SECRET not in repr(target)


@pytest.mark.parametrize(
    ("query", "method"),
    [
        (b"api_secret=" + b"x" * targets.CACHED_BYTES, "GET"),
        (b"", "X" * targets.CACHED_BYTES),  # h11 takes any method
        (b"secret[a][b][c]=1&secret[d][e][f]=2", "GET"),
        (b"secret%5Ba%5D=1", "GET"),
    ],
    ids=["long query", "long method", "nested", "escaped"],
)
def test_an_address_that_takes_much_memory_is_not_cached(query, method):
    assert found(query=query, method=method) is not found(query=query, method=method)


def test_old_addresses_are_not_in_memory():
    first = found(query=b"api_secret=first")
    for number in range(targets.CACHED_TARGETS):
        found(query=b"api_secret=%d" % number)
    assert sys.getrefcount(first) == 2  # this name, and the argument
    assert found(query=b"api_secret=first") is not first


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (b"api_secret=a&api_secret=b", "not a form: one name is given two values"),
        (b"id=8", "id is given two different values"),
        (b"api_secret=%ff", "not a form: its text is not UTF-8, or it has more than 2500 fields"),
        (b"api_secret=\xff", "the query is not UTF-8"),
    ],
)
def test_an_unreadable_query_is_a_problem_each_time(query, problem):
    assert [found(query=query).problem for _ in range(2)] == [problem, problem]


@pytest.mark.parametrize(
    ("path", "method", "methods"),
    [
        ("/7.json", "PUT", None),
        ("/7", "DELETE", ["GET", "HEAD", "PUT"]),
        (".xml", "PUT", ["GET", "HEAD", "POST"]),
    ],
)
def test_a_wrong_method_has_the_right_ones(path, method, methods):
    target = found(path, method=method)
    assert (target.operation is None) is (methods is not None)
    assert methods is None or target.methods == methods


@pytest.mark.parametrize("path", ["/7.yaml", "/7/unknown", "//records", "/7/records/1/2"])
def test_another_path_is_of_no_operation(path):
    assert found(path) is None


def test_what_headers_say_is_of_one_request(service, jane):
    """Requests to one address differ in their headers."""
    url, secret = f"{service.root}/users/{jane['id']}?secret={jane['secret']}", service.credentials.api_secret
    responses = [
        service.http.get(url, headers={"x-api-secret": one} if one else {})
        for one in (None, secret, "wrong", secret, None)
    ]
    assert [one.status_code for one in responses] == [400, 200, 401, 200, 400]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", f"/users/{{id}}{part}") for part in ("", "/records", "/records/1", "/links", "/alerts")),
        *(("GET", "/users"), ("POST", "/users"), ("PUT", "/users/{id}")),
    ],
)
def test_no_operation_changes_the_values_of_an_address(service, jane, method, path):
    """The next request to it gets the same ones."""
    response = service.call(method, path.format(id=jane["id"]), jane)  # a body would add to a copy
    assert response.status_code in {200, 400}
    path, _, query = response.request.url.raw_path.partition(b"?")
    address = method, path.decode(), query
    target = targets.find({"method": method, "path": path.decode(), "query_string": query})
    assert target is targets._parse_once(*address)
    assert target.values == targets._parse(*address).values
    assert {"api_key", "api_secret"} <= {*target.values}


def test_a_repeated_request_sees_every_change(service, jane):
    before = service.get(jane)
    service.update(jane, middle_name="Quincy")
    assert service.get(jane)["user"]["middle_name"] == "Quincy" != before["user"]["middle_name"]
