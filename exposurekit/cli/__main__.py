"""Run the command as ``python -m exposurekit.cli``."""

from exposurekit.cli import run

if __name__ == "__main__":
    run()
