"""What a person with some minutes a day and the service remove from the guarded web of the sandbox.

    python tests/benchmarks/guarded_web.py --people 25 --days 120

45 invented sites, 30 of them behind a bot check; 10 opt-outs, 8 with a puzzle and 9 with a message, sent by SMTP and read by
IMAP on loopback. Requests that sites do not carry out are followed up by email, which the owners get by SMTP. The counts of walls,
puzzles and emails, and what is listed, are the sandbox's.
"""

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.guarded_mail import Post

from exposurekit.client import Client
from exposurekit.contract import evidence_bundle
from exposurekit.contract.types import REMOVED
from exposurekit.sandbox.backend import Backend
from exposurekit.sandbox.simulated_person import SimulatedPerson
from exposurekit.sandbox.world.guarded_sites import OWNERS
from exposurekit.sandbox.world.world import World
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import findings
from exposurekit.service.mail import follow_ups

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
OPT_OUTS_MAX = 10  # forms that a person should have to send
RECENT = timedelta(days=45)  # a search is repeated, and what it shows is removed, within so long


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", type=int, default=25)
    parser.add_argument("--days", type=int, default=120)
    parser.add_argument("--minutes", type=float, default=60, help="A day, of the person, for everybody.")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    for noisy in ("exposurekit.service", "mail.log"):  # the second: the mail server for the sites
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    began = time.perf_counter(), time.process_time()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="exposurekit-guarded-")))
        post = Post(stack, directory)
        clock = FrozenClock(START)
        world = stack.enter_context(
            World(options.people, seed=options.seed, clock=clock, web="guarded", post=post).running()
        )
        post.to_sites.deliver = world.receive_email
        backend = Backend(directory, world, mail=post.settings)
        with Client(**backend.start(stack)) as client:
            backend.register(client, progress=False)
        simulated_person = SimulatedPerson(backend, world, minutes_a_day=options.minutes)
        for day in range(options.days):
            backend.advance_to(START + timedelta(days=day, hours=10))
            simulated_person.work()
        backend.advance_to(START + timedelta(days=options.days))
        report(world, backend, simulated_person)
    print(f"wall time {time.perf_counter() - began[0]:.0f} s, CPU {time.process_time() - began[1]:.0f} s")


def report(world: World, backend: Backend, simulated_person: SimulatedPerson) -> None:
    now, counts = world.clock.now(), world.guards.counts
    listed = [
        truth
        for truth in world.listings()
        if truth.person is not None and world.was_listed(*truth.key, since=START, until=now)
    ]
    keys = {truth.key for truth in listed}
    removable = [key for key in keys if world.is_removable(*key)]
    still = [key for key in removable if world.is_listed(*key)]
    recent = [key for key in still if world.was_listed(*key, since=now - RECENT, until=now, listed=False)]
    rows = [
        (index, record["record"])
        for user_id, index in backend.person_index.items()
        for record in backend.work(lambda session, one=user_id: findings.list_records(session, one))
    ]
    correct = {
        (record["site"], record["reference_id"])
        for index, record in rows
        if world.person_of(record["site"], record["reference_id"]) == index
    }
    removed = [record for _, record in rows if record["status"] == REMOVED]
    wrong = [
        record
        for record in removed
        if not world.was_listed(record["site"], record["reference_id"], since=START, until=now, listed=False)
    ]
    sent = Counter(user_id for user_id, _ in simulated_person.opt_outs.elements())
    opt_outs = [sent[user_id] for user_id in backend.person_index]
    ignoring = {site.name for site in world.guards.sites if site.owner.behaviour == "ignores"}
    ignored = sum(n for (_, site), n in simulated_person.opt_outs.items() if site in ignoring)
    minutes = sum(simulated_person.minutes.values())
    print(
        f"sites {len(world.definitions)}, owners {len(OWNERS)}, people {len(opt_outs)}, until {now:%Y-%m-%d}"
    )
    print(f"listings of these people: {len(listed)}; removable {len(removable)}")
    print(
        f"removable and gone: {len(removable) - len(still)} ({share(len(removable) - len(still), len(removable))})"
    )
    print(
        f"removable and still listed: {len(still)}, of them new or back in the last {RECENT.days} days: {len(recent)}"
    )
    for key in still:
        if key not in recent:
            statuses = [r["status"] for _, r in rows if (r["site"], r["reference_id"]) == key]
            print(f"  not removed: {key[0]}, record: {statuses or 'none'}")
    print(
        f"records {len(rows)}: precision {share(len(correct), len(rows))}, recall {share(len(correct & keys), len(keys))}"
    )
    print(f"records removed: {len(removed)}, of them never gone: {len(wrong)}")
    print(
        f"human opt-outs a person: mean {sum(opt_outs) / max(len(opt_outs), 1):.1f}, most {max(opt_outs, default=0)}"
    )
    print(
        f"in vain: ignored {ignored}, refused {counts['denied']}, without the message {counts['forgotten']}; "
        f"people with more than {OPT_OUTS_MAX}: {sum(n > OPT_OUTS_MAX for n in opt_outs)}"
    )
    for user_id in [one for one, n in sent.items() if n > OPT_OUTS_MAX]:
        sites = {site: n for (one, site), n in simulated_person.opt_outs.items() if one == user_id}
        print(f"  more than {OPT_OUTS_MAX} for person {user_id}: {sites}")
    emails = [one for user_id in backend.person_index for one in sent_emails(backend, user_id)]
    approvals = Counter(one.user_id for one in emails)
    with_approvals = [sent[user_id] + approvals[user_id] for user_id in backend.person_index]
    print(
        f"emails: {len(emails)}, refused {counts['emails refused']}, to other addresses {counts['emails elsewhere']}; approvals "
        f"by a person 0; if each were one: mean {sum(with_approvals) / max(len(opt_outs), 1):.1f}, "
        f"most {max(with_approvals, default=0)} human actions a person"
    )
    print(
        f"minutes: {', '.join(f'{name} {value:.0f}' for name, value in sorted(simulated_person.minutes.items()))}"
    )
    print(
        f"minutes per listing removed: {minutes / max(len(removed), 1):.1f}; pages saved {simulated_person.pages}"
    )
    print(
        f"definitions mended: {len(simulated_person.mended)}; proposals refused: {sum(simulated_person.refused.values())}"
    )
    machine = {
        name: counts[name]
        for name in ("wall machine", "puzzle machine", "wall machine passed", "puzzle machine passed")
    }
    print(f"by machine: {machine}")
    others = Counter({name: n for name, n in counts.items() if name not in machine})
    print(f"others: {dict(sorted(others.items()))}")
    print(
        f"phishing followed: {counts['phishing followed']} of {counts['phishing']}; given up: {len(simulated_person.unsuccessful)}"
    )
    report_evidence(world, backend, {record["id"] for _, record in rows}, {one["id"] for one in removed})


def sent_emails(backend: Backend, user_id: int) -> list[follow_ups.SiteEmail]:
    emails = backend.work(lambda session: follow_ups.emails(session, user_id))
    return [one for one in emails if one.was_sent]


def report_evidence(world: World, backend: Backend, records: set[int], removed: set[int]) -> None:
    """Count the records and the removals that verified bundles have evidence of, and entries that the web contradicts."""
    world.clock.advance(timedelta(days=1))  # the last day has a root
    entries = [
        entry.content
        for user_id in backend.person_index
        for entry in evidence_bundle.verify(backend.export_evidence(user_id)).entries
    ]
    of_kind = {kind: {one.record_id for one in entries if one.kind == kind} for kind in ("before", "after")}
    wrong = [one for one in entries if not is_true(world, one)]
    print(
        f"evidence: of records {share(len(records & of_kind['before']), len(records))}, of removals "
        f"{share(len(removed & of_kind['after']), len(removed))}; entries {len(entries)}, wrong {len(wrong)}"
    )


def is_true(world: World, entry: evidence_bundle.EntryContent) -> bool:
    # Some sites delist within the instant: the clock stands still during a scan.
    moment = {"since": entry.observed_at - timedelta(seconds=1), "until": entry.observed_at}
    return world.was_listed(entry.site, entry.reference_id, **moment, listed=entry.kind == "before")


def share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "unknown"


if __name__ == "__main__":
    main()
