"""Run the command as ``python -m exposurekit``."""

from exposurekit.cli import run

if __name__ == "__main__":
    run()
