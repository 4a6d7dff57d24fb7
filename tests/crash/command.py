"""The command line of the crash test, and what it prints. Runs nothing itself."""

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Sequence

from crash.scene import Outcome, Plan, played
from crash.verdict import ATTEMPTS, Rule, verdict

from exposurekit.contract.webhooks import GROUPS
from exposurekit.service.webhooks.states import DEAD, DELIVERED


def main(words: Sequence[str]) -> int:
    """Run, print, and say by the exit code whether every rule held."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order: no process of the run is left behind
    outcome = played(_asked(words))
    rules = verdict(outcome.evidence, outcome.run)
    print("\n".join([*_figures(outcome), "", *_table(rules)]))  # noqa: T201  a command prints its verdict
    return 1 if any(rule.broken for rule in rules) else 0


def _asked(words: Sequence[str]) -> Plan:
    parser = argparse.ArgumentParser(
        description="Kill the service's processes under load; nothing may be lost."
    )
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--server-stops", type=int, default=0, help="stop PostgreSQL at once so often")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--people", type=int, default=60, help="how many invented people there are to register"
    )
    options = parser.parse_args(words)
    if options.server_stops and options.database != "postgresql":
        parser.error("--server-stops is for postgresql")
    return Plan(**vars(options))


def _figures(outcome: Outcome) -> list[str]:
    evidence, run = outcome.evidence, outcome.run
    states = Counter(one.state for one in evidence.deliveries)
    groups = Counter(event.group for event in evidence.events)
    dead = [one for one in evidence.deliveries if one.state == DEAD]
    figures = {
        "users": len(evidence.users),
        "  told more about": len(run.told_more),
        "events": len(evidence.events),
        **{f"  {group}": groups[group] for group in GROUPS},
        "deliveries": len(evidence.deliveries),
        "  delivered": states[DELIVERED],
        "  dead": len(dead),
        "attempts recorded": sum(len(one.attempts) for one in evidence.deliveries),
        "attempts seen": sum(map(len, run.attempts.values())),
        f"dead ones seen more than {ATTEMPTS} times": sum(
            len(run.attempts.get(one.webhook_id, ())) > ATTEMPTS for one in dead
        ),
        "kills": run.kills[0],
        "server stops": run.server_stops[0],
        "answers": ", ".join(f"{many} of {status}" for status, many in sorted(run.answers.items())),
        "seconds": round(outcome.seconds),
    }
    faults = [f"logged {many} times, and lived on: {fault}" for fault, many in sorted(run.faults.items())]
    return [*(f"{name:34} {value}" for name, value in figures.items()), *faults]


def _table(rules: Sequence[Rule]) -> list[str]:
    lines = []
    for rule in rules:
        lines.append(f"{'BROKEN' if rule.broken else 'held':7} {rule.broken:5}  {rule.name}")
        lines += [f"{'':15}{example}" for example in rule.examples]
    return lines
