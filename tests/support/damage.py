"""Whether `History.verify` detects a damaged file: flipped bits, emptied, cut, deleted, overwritten and swapped files.

python tests/support/damage.py [--damages 400] [--seed 0]
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import pandas as pd
from deltalake import DeltaTable
from support.histories import Clock, Person, Service, a_delivery, a_link, a_record, an_alert, seen_through

from exposurekit.errors import ExposureError
from exposurekit.history import History
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.storage.schema import TABLES

RUNS = 6
READS = (
    *("records", "links", "alerts", "changes", "runs", "people", "load_issues", "deliveries", "labels"),
    *("by_site", "status_over_time", "relistings", "life_table"),
)


def build_history(directory):
    """A history of eight people and six runs: new, changed, relisted and removed records, a failure, a delivery."""
    people = {number: Person() for number in range(1, 9)}
    service, clock = Service(people), Clock()
    with seen_through(service) as exposure, History(directory, clock=clock) as history:
        for run in range(RUNS):
            clock.set(*(pd.Timestamp("2026-03-01T20:00Z") + pd.Timedelta(run, "D"),) * 2)
            for number, person in people.items():
                status = "removed" if (run + number) % 3 == 2 else "discovered"
                person.records = [a_record(number * 100 + at, status) for at in range(1 + run % (number + 1))]
                person.links = [a_link(f"https://page.example/{number}", f"title {run // 2}")]
                person.alerts = [an_alert("Look", record) for record in person.records[:1]]
            service.broken = {3: "no user"} if run == 2 else {}
            history.collect(exposure)
            if run == RUNS // 2:
                history.compact()
        delivery = a_delivery(2, {"record_discovered": {"records": [a_record(990)]}})
        history.ingest_deliveries([ReceivedDelivery(1, clock(), "msg_1", delivery)], "mine")
        history.label(history.records().head(2), "mine")


def results_of(directory):
    """The result of every query; None if it raises an error, which is never wrong."""
    results = {}
    for query in READS:
        try:
            with History(directory) as history:
                results[query] = getattr(history, query)().to_csv()
        except ExposureError:
            results[query] = None
    return results


def files_of(directory):
    """The files that a history needs: data of the newest version, logs and checksums."""
    for name in TABLES:
        if (directory / name).is_dir():
            yield from (Path(uri) for uri in DeltaTable(directory / name).file_uris())
            yield from sorted((directory / name / "_delta_log").glob("[0-9]*"))
    yield from sorted((directory / "checksums").iterdir())


def flipped(data, rng):
    at = int(rng.integers(len(data)))
    return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]


def zeroed(data, rng):
    at = int(rng.integers(len(data)))
    return data[:at] + bytes(len(data[at : at + 16])) + data[at + 16 :]


DAMAGES = {
    "flipped bit": flipped,
    "zeroed": zeroed,
    "emptied": lambda _data, _rng: b"",
    "cut": lambda data, rng: data[: int(rng.integers(len(data)))],
    "deleted": None,
    "swapped": None,
}


def damage(file, how, rng, files):
    """Damage a file; return whether it differs now."""
    before = file.read_bytes()
    if how == "deleted":
        file.unlink()
        return True
    after = (
        files[int(rng.integers(len(files)))].read_bytes() if how == "swapped" else DAMAGES[how](before, rng)
    )
    file.write_bytes(after)
    return before != after


def is_detected(directory):
    try:
        with History(directory) as history:
            return bool(history.verify())
    except ExposureError:
        return True


def damages(whole, count, seed):
    """One row for each damage to a copy: the file, how, whether `verify` detects it, and which results are wrong."""
    rng = np.random.default_rng(seed)
    expected, rows = results_of(whole), []
    for number in range(count):
        with tempfile.TemporaryDirectory() as scratch:
            copy = shutil.copytree(whole, Path(scratch, "copy"))
            files = [*files_of(copy)]
            file = files[int(rng.integers(len(files)))]
            how = [*DAMAGES][number % len(DAMAGES)]
            if damage(file, how, rng, files):
                detected = is_detected(copy)
                results = {} if detected else results_of(copy)
                wrong = [name for name, result in results.items() if result not in (None, expected[name])]
                path = file.relative_to(copy)
                rows.append({"file": str(path), "how": how, "detected": detected, "wrong": wrong})
    return pd.DataFrame(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--damages", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        build_history(Path(scratch, "whole"))
        table = damages(Path(scratch, "whole"), options.damages, options.seed)
    print(table.groupby("how")["detected"].agg(["size", "sum"]))  # noqa: T201
    missed = table[~table["detected"]]
    print(missed.to_string() if len(missed) else "all detected")  # noqa: T201
    print(f"{missed['wrong'].astype(bool).sum()} wrong and not detected")  # noqa: T201


if __name__ == "__main__":
    main()
