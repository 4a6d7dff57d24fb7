"""The crash test, a command: processes killed, and the database's server too, under load; and nothing is lost.

    python tests/crash/run.py --database sqlite|postgresql [--kills 20] [--server-stops 4] [--seed 1] [--people 60]

Prints a verdict, rule by rule, and what happened; 0 if every rule held, else 1.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)
    from crash.command import main

    sys.exit(main(sys.argv[1:]))
