"""``python -m exposurekit.cli`` is the command too."""

from exposurekit.cli import run

if __name__ == "__main__":
    run()
