"""The ordinary and the hostile pages of the invented web over real HTTP, and its search engine."""

import re
from collections import Counter, defaultdict
from urllib.parse import urlsplit

import httpx
import pytest
from support.hostile_pages import KINDS, is_hostile
from support.world_browser import browsing


@pytest.fixture(scope="module")
def browser():
    with browsing(80) as browser:
        yield browser


def query_engine(browser, query, **more):
    answer = browser.ask(browser.world.search_engine, params={"q": query, "format": "json", **more})
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def name_on_a_page(world):
    person = world.people[next(truth.person for truth in world.pages() if truth.person is not None)]
    return f"{person.first_name} {person.last_name}"


def digits(text):
    return re.sub(r"[^0-9]", "", text)


def data_on_page(person, text):
    """The kinds of a person's data in a page's plain text."""
    text = re.sub(r"<br>", ", ", text)
    phones = {digits(number)[-10:] for number in re.findall(r"tel\. ([0-9+(). -]+)", text)}
    contained = {
        "email": any(re.search(rf"(?<![\w.]){re.escape(email)}", text) for email in person.emails),
        "address": any(
            re.search(rf"(?<!\d){re.escape(home.address1)}(, \w+ \w+)?(,| in) {re.escape(home.city)}", text)
            for home in person.addresses
        ),
        "phone": not phones.isdisjoint(person.phone_numbers),
    }
    return tuple(kind for kind, is_contained in contained.items() if is_contained)


def test_each_page_contains_the_data_of_its_truth(browser):
    kinds = Counter()
    for truth in browser.world.pages():
        if truth.person is None or is_hostile(truth.url):
            continue
        person = browser.world.people[truth.person]
        text = browser.ask(truth.url).text
        assert f"{person.first_name} {person.last_name}".replace("'", "&#x27;") in text
        assert data_on_page(person, text) == truth.contains
        kinds.update(truth.contains or ["name only"])
    assert min(kinds[kind] for kind in ("email", "address", "phone", "name only")) > 5


def test_a_namesakes_page_contains_only_the_namesakes_data(browser):
    world = browser.world
    named = {f"{person.first_name} {person.last_name}": person for person in world.people}
    of_strangers = 0
    rows = defaultdict(set)
    for truth in world.pages():
        rows[truth.url].add(truth.person)
    for stranger in world.strangers:
        name = f"{stranger.first_name} {stranger.last_name}"
        if name not in named:
            continue
        for result in query_engine(browser, f'"{name}"')["results"]:
            text = "" if "tarpit" in result["url"] else browser.ask(result["url"]).text
            if rows[result["url"]] == {None} and data_on_page(stranger, text):
                of_strangers += 1
                assert data_on_page(named[name], text) == ()
    assert of_strangers > 3


def test_the_engine_lists_pages_by_name_email_and_phone(browser):
    world = browser.world
    of = defaultdict(set)
    for truth in world.pages():
        if truth.person is not None:
            of[truth.person].add(truth.url)
    for index, person in enumerate(world.people):
        reply = query_engine(browser, f'"{person.first_name} {person.last_name}" {person.addresses[0].city}')
        urls = [result["url"] for result in reply["results"]]
        assert reply["number_of_results"] >= len(urls)
        if len(urls) < 10:
            assert of[index] <= set(urls)
        assert len(urls) == len(set(urls))
    emails = [email for person in world.people for email in person.emails]
    numbers = [number for person in world.people for number in person.phone_numbers]
    for queries in (emails, [f"({one[:3]}) {one[3:6]}-{one[6:]}" for one in numbers]):
        assert any(query_engine(browser, query)["results"] for query in queries)


def test_the_engine_has_no_results_for_an_invented_name(browser):
    for query in ("Zzyzva Qworple", '"Zzyzva Qworple" Mothgate', "Juniper", "?"):
        reply = query_engine(browser, query)
        assert reply["results"] == []
        assert reply["number_of_results"] == 0
        assert reply["query"] == query


def test_the_engine_responds_as_searxng_does(browser):
    name = name_on_a_page(browser.world)
    reply = query_engine(browser, name)
    keys = {"query", "number_of_results", "results", "answers", "suggestions", "unresponsive_engines"}
    assert keys <= reply.keys()
    for result in reply["results"]:
        assert {"url", "title", "content", "engine", "engines", "score", "category"} <= set(result)
        assert urlsplit(result["url"]).scheme == "http"
    assert query_engine(browser, name, pageno=2)["results"] == []
    assert "<ol>" in browser.ask(browser.world.search_engine, params={"q": name}).text
    assert browser.ask(browser.world.search_engine, params={"format": "json"}).status_code == 400
    assert browser.ask("http://search.example/elsewhere").status_code == 404


def test_the_last_result_is_about_something_else(browser):
    truths = {truth.url: truth for truth in browser.world.pages() if truth.person is None}
    name = name_on_a_page(browser.world)
    last = query_engine(browser, name)["results"][-1]
    assert truths[last["url"]].contains == ()
    assert name.partition(" ")[2] not in browser.ask(last["url"]).text


def traps(browser, kind):
    return [truth for truth in browser.world.pages() if is_hostile(truth.url) and f"/{kind}/" in truth.url]


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_engine_lists_every_kind_of_hostile_page(browser, kind):
    truths = traps(browser, kind)
    assert 0 < len(truths) <= 2
    for truth in truths:
        person = browser.world.people[truth.person]
        results = query_engine(browser, f"{person.first_name} {person.last_name}")["results"]
        assert truth.url in {result["url"] for result in results}


def test_a_huge_page_has_fifty_megabytes(browser):
    with browser.stream(traps(browser, "huge")[0].url) as answer:
        assert "content-length" not in answer.headers
        assert sum(len(part) for part in answer.iter_raw()) > 50_000_000


def test_a_world_ends_while_an_endless_page_is_open():
    with browsing(20) as browser, browser.stream(traps(browser, "drip")[0].url) as answer:
        parts = answer.iter_raw()
        assert [next(parts), next(parts)][1] == b"."


def test_redirects_loop_or_lead_to_forbidden_addresses(browser):
    url = traps(browser, "redirects")[0].url
    for _ in range(30):
        answer = browser.ask(url)
        assert answer.status_code == 302
        url = httpx.URL(url).join(answer.headers["location"])
        assert url.host == "tarpit.example"
        url = str(url)
    answer = browser.ask(traps(browser, "metadata")[0].url)
    assert answer.headers["location"].startswith("http://169.254.169.254/")


def test_garbled_nested_and_scripted_pages_are_hostile(browser):
    garbled = browser.ask(traps(browser, "garbled")[0].url)
    assert "x-no-such-code" in garbled.headers["content-type"]
    with pytest.raises(UnicodeDecodeError):
        garbled.content.decode()
    assert browser.ask(traps(browser, "nested")[0].url).text.count("<div>") == 200_000
    scripted = browser.ask(traps(browser, "scripted")[0].url).text
    assert "<script>" in scripted.partition("</title>")[0]
    for truth in (*traps(browser, "garbled"), *traps(browser, "scripted")):
        person = browser.world.people[truth.person]
        values_by_kind = {"phone": person.phone_numbers, "email": person.emails}
        body = browser.ask(truth.url).content.decode("ascii", "replace")
        assert all(values_by_kind[kind] for kind in truth.contains)
        assert not truth.contains or any(
            digits(v) in digits(body) if v.isdigit() else v in body for v in values_by_kind[truth.contains[0]]
        )


def test_a_hostile_host_has_no_other_pages(browser):
    assert browser.ask("http://tarpit.example/huge/somebody-1").status_code == 404
