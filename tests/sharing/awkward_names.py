"""Share-safe reports of people with awkward names: none refused, none that depends on a name, none with a planted value.

    python tests/sharing/awkward_names.py --worlds 200

The people of a world have awkward names: a letter, a common word, a site, a status, code. Its pages must be built, and
must equal those of the same world with ordinary names: then they depend on no name. In every third world, an ordinary
name is planted where data reaches the page; the report must be refused, or the page must not contain it.
"""

import argparse
import base64
import json
import random
import sys
import tempfile
from collections import Counter
from datetime import timedelta
from functools import cache
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.histories import DAWN, Clock, seen_through
from support.shared_worlds import PEOPLE, STATUSES, a_world

import exposurekit as ek
from exposurekit.errors import Leak

ORDINARY = ("Odalys", "Fennimoor")
NAMES = [
    tuple(name.split(" "))
    for name in (
        *("A B", "I O", "x y", "1 2", "14 People", "H V"),
        *("Open Listing", "Will Wait", "Manual Work", "Most On", "Open Form", "Open The", "Send It", "Choose Remove"),
        *("Of People", "Sam Listing", "Ann Page", "Sid Removal", "F Orm", "Share Safe", "Other Sites", "Data Source"),
        *("Larder People", "Teapot Finder", "People Kettle", "Lookup Bramble", "Larder Wants", "Larder Finder"),
        *("Pending Removal", "Discovered Removed", "removed discovered", "Birth Date", "First Name", "Phone Number"),
        *("True False", "null function", "User Id", "Script Type", "Scatter Markers", "data layout", "Const Let"),
        *("xaxis yaxis", "Undefined None", "rgba px", "Div Class", "Al Bo", "xa ya", "To Do", "hv on", "ok no", "b i"),
        *("May June", "April March", "Mar Apr", "Sun Day", "小明 王", "大 海", "محمد علي", "😀 🎉", "सीता गोस्वामी"),
        *("Anne-Marie O'Brien", "Zoë Träumer", "Mark Page", "Grace Field", "Dr Who", "Ed Di", "Wren Larkin"),
    )
]  # fmt: skip
STRIDE = 5  # through the names, so that each world has some of every sort
KINDS = ({}, {"user": 3}, {"kind": "sites"})
FORMS = {
    "as it is": str,
    "in lower case": str.lower,
    "last name first": lambda name: ", ".join(reversed(name.split(" "))),
    "in HTML entities": lambda name: "".join(f"&#{ord(sign)};" for sign in name),
    "in JSON escapes": lambda name: "".join(f"\\u{ord(sign):04x}" for sign in name),
    "in a URL": lambda name: f"https://larder.example/{quote(name.replace(' ', '%'))}",
    "in base64": lambda name: base64.b64encode(f"for {name}".encode()).decode(),
    "in tags": lambda name: f"<b>{name.replace(' ', '</b> <i>')}</i>",
}
PARTS = ("site", "guide", "step", "status", "field")


def named_world(seed, names):
    """A world whose people have these names, which their listings and other people's relatives have too."""
    service = a_world(seed)
    people = [*service.people.values()]
    for number, (person, (first, last)) in enumerate(zip(people, names, strict=True)):
        person.profile |= {"first_name": first, "last_name": last}
        person.profile["aliases"] = [{"id": 1, "first_name": last, "last_name": first}]
        person.links[0]["title"] = f"{first} {last}"
        for record in person.records:
            record |= {"name": f"{first} {last}", "aliases": [f"{first} {last}"]}
        for record in people[number - 1].records:
            record["relations"] = [f"{first} {last}"]
    return service


def plant(service, part, text):
    """Put a text where data of everyone reaches the page."""
    for person in service.people.values():
        person.records[0] |= {"site": f"{text} Finder"} if part == "site" else {}
        if part == "status":
            person.records[0]["status"] = text
        if part == "field":
            person.records[0] |= {"status": "discovered", "user_fields_required_for_removal": [text]}
        for alert in person.alerts:
            if part == "guide":
                alert |= {"guide": f"Ask for {text}.", "opt_out_procedure": ["Ask."]}
            elif part == "step":
                alert |= {"guide": "Ask.", "opt_out_procedure": [f"Ask for {text}."]}


def pages(service, *, with_history=False):
    """The share-safe pages of a world; Leak instead of one that was refused."""
    shared = []
    with seen_through(service) as exposure:
        shared += [_page(exposure, **options) for options in KINDS]
        if with_history:
            clock = Clock()
            with tempfile.TemporaryDirectory() as directory, ek.History(directory, clock=clock) as history:
                for day in range(2):
                    for person in service.people.values():
                        person.records[0] |= {"status": STATUSES[day]}
                    clock.set(DAWN + timedelta(days=day))
                    history.collect(exposure.refresh(), progress=False)
                shared += [_page(history, exposure=exposure, **options) for options in KINDS]
                shared.append(_page(history, exposure=exposure, since=DAWN.date()))
    return shared


def _page(source, **options):
    try:
        report = ek.report(source, share_safe=True, **options)
    except Leak:
        return Leak
    return json.dumps(report.data, default=str, ensure_ascii=False) + report.to_html()


@cache
def ordinary_pages(seed, *, with_history=False):
    return pages(named_world(seed, [ORDINARY] * PEOPLE), with_history=with_history)


def run(number, *, with_history=False):
    """One world: how many reports, refused, dependent on a name; planted values, and those that were not refused."""
    rng, seed = random.Random(number), number % 8  # noqa: S311  a simulation
    names = [NAMES[(number + STRIDE * person) % len(NAMES)] for person in range(PEOPLE)]
    shared = pages(named_world(seed, names), with_history=with_history)
    neutral = ordinary_pages(seed, with_history=with_history)
    counts = Counter(
        reports=len(shared),
        refused=shared.count(Leak),
        dependent=sum(page not in (other, Leak) for page, other in zip(shared, neutral, strict=True)),
    )
    if number % 3 == 0:
        form, part = rng.choice([*FORMS]), rng.choice(PARTS)
        text = FORMS[form](" ".join(ORDINARY))
        service = named_world(seed, [ORDINARY] * PEOPLE)
        plant(service, part, text)
        shared = pages(service)
        leaks = sum(page is not Leak and json.dumps(text)[1:-1] in page for page in shared)
        counts += Counter(planted=1, caught=Leak in shared, leaks=leaks)
        if leaks:
            print(f"world {number}: not refused {form} in a {part}", flush=True)  # noqa: T201
    if counts["refused"] or counts["dependent"]:
        print(f"world {number}: {names}: {dict(counts)}", flush=True)  # noqa: T201
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the number of the first world")
    parser.add_argument(
        "--history-every", type=int, default=10, help="the worlds with reports of a history too"
    )
    options = parser.parse_args()
    totals = Counter()
    for number in range(options.first, options.first + options.worlds):
        totals += run(number, with_history=number % options.history_every == 0)
    print(f"{options.worlds} worlds: {dict(totals)}")  # noqa: T201
    return 1 if totals["refused"] or totals["dependent"] or totals["leaks"] else 0


if __name__ == "__main__":
    sys.exit(main())
