"""The collector's crash test, a command: `History.collect` killed at any moment; each run is kept, once and whole.

    python tests/crash/collector_run.py [--kills 30] [--seed 1] [--people 200]

Invented people change from run to run. Collectors are killed and started again, now and then two at once, while a
reader asks all the time. Prints figures and a verdict, rule by rule; 0 if every rule held, else 1.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)
    from crash.collector_game import main

    sys.exit(main(sys.argv[1:]))
