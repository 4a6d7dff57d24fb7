"""How often `sites mend` repairs the definition of a site whose layout has changed, judged on pages that it has not read.

    python tests/benchmarks/site_mending.py [--layouts 300] [--people 150] [--seed 1]

Each layout is one of the sandbox's or one of six others, with two to five changes: other classes, tags, attributes, labels
and order, wrappers, advertisements, blocks of other people, split names, lists for tables and tables for lists. The
definition is mended from one to three pages of listed people, whose values are given, and one of an invented person. Then it
reads pages of other people, of namesakes and of people who are not listed, and an error page. Each listing must have the
values that the old definition reads in the old layout: anything else is wrong. No proposal is a refusal. Fails if a layout is
mended wrong, or less than 0.9 are mended right.
"""

import argparse
import json
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

from exposurekit.service.accounts.subject import Name
from exposurekit.service.matching.name_matching import names_fit
from exposurekit.service.scanning import listed_person, mending
from exposurekit.service.sites import loader
from exposurekit.text.words import words

sys.path.insert(0, str(Path(__file__).parent.parent))
from support.changed_layouts import DAY, Layout, Town, drawing, read

READ_AFTERWARDS, SEVERAL, UNLISTED = 10, 4, 2  # pages of other people, with several listings, and without
RIGHT_MIN = 0.9
LISTS = ("relations", "aliases", "locations", "emails", "phone_numbers")
INVENTED = ("Braithe", "Quonsettle")


def listed_people(layout, town, name):
    """Return what the page of a search shows of each listing of that name."""
    fields = [key for key in ("age", "href", *LISTS) if getattr(layout.base.definition.listings, key)]
    people = []
    for one in town.result(layout.base, name).listings:
        if names_fit([Name(*name)], one.name):
            values = {key: getattr(one, key) for key in fields}
            person = {"first_name": name[0], "last_name": name[1], "name": one.name}
            people.append(person | {"reference_id": one.reference_id} | values)
    return people


def lessons(layout, people):
    """Return what can be learned from listings, by layout: fields with a value, and lists with two."""
    return {
        (layout.card(one["reference_id"]), key, len(value) > 1 if isinstance(value, tuple) else True)
        for one in people
        for key, value in one.items()
        if value
    }


def repeated(layout, people):
    """Return the layouts of which a page has several listings."""
    counts = Counter(layout.card(one["reference_id"]) for one in people)
    return {(one, "several", True) for one, count in counts.items() if count > 1}


def training(layout, town, listed):
    """Return the names of the pages to mend from, and who is on them, as an operator would choose."""
    people = {name: listed_people(layout, town, name) for name in listed}
    learned = {name: lessons(layout, ones) | repeated(layout, ones) for name, ones in people.items()}
    sizes = {name: len(town.entries(layout.base, name)) for name in listed}
    pair = max(
        [*((name,) for name in listed), *combinations(listed, 2)],
        key=lambda names: (
            len(set().union(*(learned[name] for name in names))),
            max(sizes[name] for name in names) > 1,
            -len(names),
        ),
    )
    lacking = {name: learned[name].difference(*(learned[one] for one in pair)) for name in listed}
    third = max(lacking, key=lambda name: len(lacking[name]))
    chosen = (*pair, third) if lacking[third] else pair
    needed = []
    for one in (person for name in chosen for person in people[name]):
        if lessons(layout, [one]) - lessons(layout, needed):
            needed.append(one)
    # Of each page somebody is given.
    names = {(one["first_name"], one["last_name"]) for one in needed}
    needed += [people[name][0] for name in chosen if name not in names and people[name]]
    return chosen, needed


def comparable(result):
    def listing(one):
        lists = tuple(tuple(sorted(" ".join(words(text)) for text in getattr(one, key))) for key in LISTS)
        return one.reference_id, " ".join(words(one.name)), one.age, one.href, lists

    return result.outcome, result.next, result.unreadable, sorted(map(listing, result.listings), key=repr)


def judge(layout, town, number):
    """Mend the definition; return the outcome, and what went wrong."""
    names = list(dict.fromkeys((one.first_name, one.last_name) for one in town.people))
    listed = [name for name in names if town.entries(layout.base, name)]
    chosen, people = training(layout, town, listed)
    files = mending.SavedFiles(
        tuple(layout.file(town, name) for name in chosen), (layout.file(town, INVENTED),)
    )
    persons = listed_person.parse_people(json.dumps(people), "people")
    proposal = mending.propose(layout.base.text, "definition", files, persons, on=DAY)
    if proposal.text is None:
        return "refused", "; ".join(proposal.problems)
    definition = loader.parsed(proposal.text)
    others, unlisted = [name for name in listed if name not in chosen], [*{*names} - {*listed}]
    several = [name for name in others if len(town.entries(layout.base, name)) > 1]
    rng = drawing(number)
    picked = [
        *rng.sample(others, min(READ_AFTERWARDS, len(others))),
        *rng.sample(several, min(SEVERAL, len(several))),
        *rng.sample(sorted(unlisted), min(UNLISTED, len(unlisted))),
    ]
    for name in (*chosen, *picked, INVENTED):
        expected, page = comparable(town.result(layout.base, name)), layout.page(town, name)
        if (result := comparable(read(definition, page))) != expected:
            return "wrong", f"{name}\n{expected}\n{result}\n{page}\n{definition.listings}"
    if read(definition, layout.page(town, INVENTED, error=True)).outcome != "inconclusive":
        return "wrong", "an error page counts as no results"
    return ("right" if proposal.changed else "unchanged"), ""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layouts", type=int, default=300)
    parser.add_argument("--people", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print what was refused or wrong")
    options = parser.parse_args(arguments)
    town = Town(options.people, options.seed)
    outcomes, reasons = Counter(), Counter()
    for number in range(options.layouts):
        layout = Layout.drawn(number, options.seed)
        outcome, reason = judge(layout, town, number)
        outcomes[outcome] += 1
        if outcome == "refused":
            reasons[reason.partition(";")[0]] += 1
        if options.verbose and outcome in {"wrong", "refused"}:
            print(number, layout.base.name, *layout.names, outcome, reason)
    right = outcomes["right"] + outcomes["unchanged"]
    unchanged = f"{outcomes['unchanged']} need no change"
    print(
        f"{options.layouts} layouts: {right} right ({unchanged}), {outcomes['wrong']} wrong, {outcomes['refused']} refused"
    )
    for reason, count in reasons.most_common():
        print(f"  {count} refused: {reason}")
    return 0 if not outcomes["wrong"] and right >= RIGHT_MIN * options.layouts else 1


if __name__ == "__main__":
    sys.exit(main())
