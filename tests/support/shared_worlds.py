"""Invented people, the share-safe reports about them, and a search for their values in the reports.

The long run is a command: python tests/support/shared_worlds.py --worlds 200
"""

import argparse
import base64
import html
import json
import random
import re
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, unquote

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.histories import DAWN, Clock, Person, Service, a_link, a_record, an_alert, seen_through

import exposurekit as ek
from exposurekit.history import History
from exposurekit.sandbox.world.people import invent

SITES = [
    f"{name} {kind}"
    for name in ("Larder", "Teapot", "Bramble", "Kettle")
    for kind in ("People", "Finder", "Lookup")
]
STATUSES = ("discovered", "pending removal", "removed")
PEOPLE = 14
DAYS = 3


def a_world(seed):
    """A service of invented people whose listings vary in spelling."""
    rng = random.Random(seed)  # noqa: S311  make-believe
    service = Service()
    for number, person in enumerate(invent(PEOPLE, seed), 1):
        service.people[number] = _somebody(number, person, rng)
    return service


def _somebody(number, person, rng):
    name = f"{person.first_name} {person.last_name}"
    slug = name.lower().replace(" ", "-")
    sites = rng.sample(SITES, rng.randint(1, 6))
    records = [_listing(100 * number + index, site, person, slug, rng) for index, site in enumerate(sites)]
    link = a_link(f"https://choir.example/{slug}", f"Spring concert: {name}, alto")
    alerts = [_alert(record, name, rng) for record in records] + [an_alert(f"{name} is on a page", link)]
    on_file = person.request()
    for kind in ("aliases", "addresses", "emails", "phone_numbers"):
        on_file[kind] = [{"id": index, **one} for index, one in enumerate(on_file.get(kind, []), 1)]
    return Person(records, [link], alerts, profile=on_file)


def _listing(record_id, site, person, slug, rng):
    town = person.addresses[0]
    spelled = rng.choice(
        (f"{person.first_name} {person.last_name}", f"{person.last_name}, {person.first_name}".upper())
    )
    return a_record(
        record_id,
        site=site,
        status=rng.choice(STATUSES),
        name=spelled,
        age=rng.randint(20, 90),
        href=f"https://{site.split()[0].lower()}.example/{slug}/{record_id}",
        relations=list(person.relatives),
        aliases=[f"{one.first_name} {one.last_name}" for one in person.aliases],
        locations=[f"{town.city}, {town.state}", f"{town.address1}, {town.city}, {town.state} {town.zip}"],
        user_fields_required_for_removal=rng.sample(["first_name", "email", "birth_date", "phone_number"], 2),
    ) | {"reference_id": f"{slug}-{record_id:06d}"}


def _alert(record, name, rng):
    """Most alerts have the same text; a few contain the name."""
    personal = rng.random() < 0.3
    steps = [f"Search for {name}.", f"Open {record['href']}."] if personal else ["Open the form.", "Send it."]
    guide = f"{record['site']} lists {record['name']}." if personal else f"{record['site']} wants a form."
    details = {"guide": guide, "opt_out_procedure": steps, "url": record["href"], "html": f"<p>{name}</p>"}
    return an_alert(f"New record: {record['site']} lists {name}.", record) | details


def values_of(service):
    """Return each value of anybody in several spellings, and words that occur nowhere else."""
    whole, words = set(), set()
    for user_id, person in service.people.items():
        on_file = person.profile
        for one in (on_file, *on_file["aliases"]):
            first, last = one["first_name"], one["last_name"]
            whole |= {
                f"{first} {last}",
                f"{last}, {first}",
                f"{last} {first}",
                f"{first}{last}",
                f"{first}.{last}",
            }
            words.add(last)
        whole |= {one["address"] for one in on_file["emails"]} | {f"secret-{user_id}"}
        for one in on_file["phone_numbers"]:
            digits = re.sub(r"\D", "", one["number"])[-10:]
            area, exchange, line = digits[:3], digits[3:6], digits[6:]
            whole |= {one["number"], digits, f"{area}-{exchange}-{line}", f"({area}) {exchange}-{line}"}
        for one in on_file["addresses"]:
            whole |= {one["address1"], f"{one['city']}, {one['state']}", f"{one['city']} {one['zip']}"}
            words.add(one["city"])
        if (born := on_file.get("birth_date")) is not None:
            day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=born)
            whole |= {f"{day:%Y-%m-%d}", f"{day:%m/%d/%Y}", f"{day:%B} {day.day}, {day:%Y}"}
        for record in person.records:
            whole |= {record["href"], record["reference_id"], *record["relations"], *record["locations"]}
        whole |= {link["url"] for link in person.links} | {link["title"] for link in person.links}
        whole |= {alert["text"] for alert in person.alerts}
    return {one for one in whole if one}, {one for one in words if one}


def readings(page):
    """Return a page as it is and decoded, without its scripts."""
    bare = re.sub(r"<script>.*?</script>|<style>.*?</style>", "", page, flags=re.DOTALL)
    read = html.unescape(bare)
    unescaped = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), read)
    return [
        one.casefold() for one in (bare, read, unescaped, unquote(unescaped), re.sub("<[^>]*>", "", read))
    ]


def leaked_values(page, service):
    """Count the values of anybody in a page."""
    whole, words = values_of(service)
    texts = readings(page)
    spelled = {form.casefold() for value in whole for form in _forms(value)}
    count = sum(any(form in text for text in texts) for form in spelled)
    spoken = set().union(*(re.findall(r"[^\W_]+", text) for text in texts))
    return count + sum(word.casefold() in spoken for word in words if " " not in word)


def _forms(value):
    yield value
    yield html.escape(value)
    yield quote(value)
    yield json.dumps(value)[1:-1]
    yield value.encode().hex()
    for shift in range(3):
        packed = base64.b64encode(b"x" * shift + value.encode()).decode()
        inner = packed[4 if shift else 0 : len(packed) - len(packed) % 4 - 4]
        if len(inner) >= 8:
            yield inner


def reports_of(service, directory):
    """Yield every kind of share-safe report of a service: (its name, its page, its JSON)."""
    clock = Clock()
    history = History(Path(directory) / "history", clock=clock)
    with seen_through(service) as exposure:
        for day in range(DAYS):
            for person in service.people.values():
                person.records[0] |= {"status": STATUSES[day % 3]}
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        exposure.refresh()
        changes = {"since": DAWN.date()}
        options_by_kind = {"fleet": {}, "person": {"user": 3}, "changes": changes, "sites": {"kind": "sites"}}
        for kind, options in options_by_kind.items():
            report = ek.report(history, exposure=exposure, share_safe=True, **options)
            yield kind, report.to_html(), report.to_json()
        yield "of one moment", ek.report(exposure, share_safe=True).to_html(), ""
    history.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    worlds, leak_count, reports = options.worlds, 0, 0
    for seed in range(options.first, options.first + worlds):
        service = a_world(seed)
        with tempfile.TemporaryDirectory() as directory:
            for kind, page, data in reports_of(service, directory):
                many = leaked_values(page + data, service)
                leak_count, reports = leak_count + many, reports + 1
                if many:
                    print(f"seed {seed}, {kind}: {many} values", flush=True)  # noqa: T201
        if (seed + 1) % 10 == 0:
            print(f"until seed {seed}: {reports} reports, {leak_count} values in them", flush=True)  # noqa: T201
    print(f"{worlds} worlds, {reports} reports: {leak_count} values in them")  # noqa: T201
    return 1 if leak_count else 0


if __name__ == "__main__":
    sys.exit(main())
