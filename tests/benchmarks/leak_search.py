"""The search of a share-safe page for the values of many listings, beside a plain search for each value as it is.

    python tests/benchmarks/leak_search.py [--records 1000000] [--seconds 30]

All URLs begin with the name of a site that the page shows. Prints seconds of CPU and the ratio of the two, and the ratio of the
time per record to that of a tenth of the records: 1 is linear. Fails above the bound.
"""

import argparse
import sys
import time

import pandas as pd

from exposurekit.privacy.personal_data_search import PersonalDataSearch
from exposurekit.privacy.redaction import find_values

SITES = ("Larder Finder", "Teapot People", "Bramble Lookup")
PAGE = [
    *(f"{site} wants a form. Open https://{site.split()[0].lower()}.example/opt-out." for site in SITES),
    *SITES,
    *(f"user {number:05}" for number in range(2_000)),
]


def listings(n):
    """Listings whose URLs begin with a site's name; ten of a person."""
    numbers = range(n)
    names = [f"Odalys{number // 10} Fennimoor{number // 10}" for number in numbers]
    hosts = [SITES[number % 3].split()[0].lower() for number in numbers]
    return pd.DataFrame(
        {
            "name": names,
            "href": [
                f"https://{host}.example/opt/{number}" for host, number in zip(hosts, numbers, strict=True)
            ],
            "reference_id": [f"{host}-{number:07}" for host, number in zip(hosts, numbers, strict=True)],
            "locations": [[f"Oakmere{number % 997}, CA"] for number in numbers],
            "relations": [[f"Wren Fennimoor{number // 10}"] for number in numbers],
        }
    )


def searched_s(table):
    began = time.process_time()
    search = PersonalDataSearch(PAGE, public_names=SITES)
    find_values(table, search)
    assert not search.kinds
    return time.process_time() - began


def plain_s(table):
    """Each value as it is, in one order and spelling."""
    began = time.process_time()
    page = "\n".join(PAGE).casefold()
    for name in table:
        assert not any(value.casefold() in page for value in table[name].explode().unique().tolist())
    return time.process_time() - began


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args(arguments)
    table = listings(options.records)
    tenth = table.head(options.records // 10)
    searched_s(tenth)  # the vocabulary is read once
    ours, plain, per_tenth = searched_s(table), plain_s(table), searched_s(tenth)
    print(f"{options.records:,} records: {ours:.2f} s, plain {plain:.2f} s, ratio {ours / plain:.2f}")
    print(f"time per record, beside that of a tenth: {ours / per_tenth / 10:.2f}")
    return 0 if ours <= options.seconds else 1


if __name__ == "__main__":
    sys.exit(main())
