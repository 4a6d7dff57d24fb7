"""The collector's crash test, a command: `History.collect` is killed at any moment; each run is stored once and whole.

    python tests/crash/collector_run.py [--kills 30] [--seed 1] [--people 200]

Invented people change from run to run. Collectors are killed and started again, sometimes two at once, while a reader
queries the history. Prints figures and a result for each rule; exits with 0 if all hold, else with 1.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)
    from crash.collector_kills import main

    sys.exit(main(sys.argv[1:]))
