"""Whether `History.verify` finds a damaged file: flipped bits, emptied, cut, deleted, overwritten and swapped files.

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


def build(directory):
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


def answers(directory):
    """What every question says; an error counts as an answer that is not wrong."""
    results = {}
    for question in READS:
        try:
            with History(directory) as history:
                results[question] = getattr(history, question)().to_csv()
        except ExposureError as error:
            results[question] = error
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
    if how == "swapped":
        after = files[int(rng.integers(len(files)))].read_bytes()
    else:
        after = DAMAGES[how](before, rng)
    file.write_bytes(after)
    return before != after


def damages(count, seed):
    """One row a damage: the file's table, what happened, whether `verify` found it and whether an answer is wrong."""
    rng = np.random.default_rng(seed)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        whole, copy = Path(scratch, "whole"), Path(scratch, "copy")
        build(whole)
        expected = answers(whole)
        for number in range(count):
            shutil.copytree(whole, copy)
            files = [*files_of(copy)]
            file = files[int(rng.integers(len(files)))]
            how = [*DAMAGES][number % len(DAMAGES)]
            if damage(file, how, rng, files):
                try:
                    with History(copy) as history:
                        detected = bool(history.verify())
                except ExposureError:
                    detected = True
                parameters = {} if detected else answers(copy)
                wrong = [
                    question
                    for question, answer in parameters.items()
                    if isinstance(answer, str) and answer != expected[question]
                ]
                kind = "log" if file.parent.name == "_delta_log" else "data"
                rows.append(
                    {
                        "file": f"{file.relative_to(copy).parts[0]} {kind}",
                        "how": how,
                        "found": detected,
                        "wrong": wrong,
                        "name": file.name,
                    }
                )
            shutil.rmtree(copy)
    return pd.DataFrame(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--damages", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table = damages(options.damages, options.seed)
    print(table.groupby("how")["found"].agg(["size", "sum"]))  # noqa: T201
    missed = table[~table["found"]]
    print(missed.to_string() if len(missed) else "all found")  # noqa: T201
    print(f"{missed['wrong'].astype(bool).sum()} wrong and not found")  # noqa: T201


if __name__ == "__main__":
    main()
