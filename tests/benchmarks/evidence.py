"""How long a bundle of evidence takes to verify, and how many tampered ones are accepted.

    .venv/bin/python tests/benchmarks/evidence.py [--pairs 1000] [--tamperings 10000] [--seed 1]

Two people of one installation have as many pairs each, over 30 days, and texts of the usual length. Prints how long the
honest bundle takes, its size, and the ratio to hashing its bytes once. Then bundles of 20 pairs are tampered with, each kind
in turn: verified with the installation's key, and again without it, unless all of it is signed with another key. Bounds: 5 s,
and none accepted; exits with 1 beyond them.
"""

import argparse
import hashlib
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]

from support.evidence_bundles import TAMPERINGS, Installation, Tamperer  # noqa: E402

from exposurekit.contract import evidence_bundle  # noqa: E402
from exposurekit.errors import InvalidEvidence  # noqa: E402

SECONDS_MAX = 5
TEXT = 2_000  # characters of an entry, more than most listings have
RESIGNED = "signed with another key"  # agrees with the key in it, so only the installation's key refuses it


def timed(function, *arguments):
    began = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - began, result


def honest(pairs):
    """Return how many seconds a bundle takes."""
    home = Installation(b"h" * 32, pairs=pairs, days=30, padding=TEXT)
    content = home.bundles()[1]
    seconds, verified = timed(evidence_bundle.verify, content, home.vault.public_key)
    assert len(verified.entries) == 2 * pairs
    hashing, _ = timed(lambda: hashlib.sha256(content).digest())
    print(
        f"honest: {pairs:,} pairs, {len(content) / 1e6:.1f} MB, {seconds:.2f} s, {seconds / hashing:.0f} times one hash of it"
    )
    return seconds


def is_accepted(content, key=None):
    try:
        evidence_bundle.verify(content, key)
    except InvalidEvidence:
        return False
    return True


def tampered(count, seed):
    """Return how many tampered bundles are accepted, in any way."""
    chance = random.Random(seed)  # noqa: S311  not a secret
    home = Installation(b"h" * 32, pairs=20, days=8)
    bundles, key = home.bundles(), home.vault.public_key
    tamperer = Tamperer(bundles[1], bundles[2], replace(home, key=b"a" * 32).bundles()[1], b"t" * 32)
    assert is_accepted(bundles[1], key)
    tried, accepted = Counter(), Counter()
    for number in range(count):
        name = [*TAMPERINGS][number % len(TAMPERINGS)]
        content = tamperer.tampered(name, chance)
        tried[name] += 1
        accepted[name] += is_accepted(content, key) or (name != RESIGNED and is_accepted(content))
    for name, times in tried.items():
        print(f"{name}: {times:,} tried, {accepted[name]:,} accepted")
    return accepted.total()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--tamperings", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    seconds = honest(arguments.pairs)
    accepted = tampered(arguments.tamperings, arguments.seed)
    print(f"tampered: {arguments.tamperings:,} tried, {accepted:,} accepted")
    sys.exit(seconds > SECONDS_MAX or accepted > 0)


if __name__ == "__main__":
    main()
