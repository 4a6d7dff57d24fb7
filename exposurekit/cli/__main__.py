"""``python -m exposurekit.cli`` is the command too."""

from exposurekit.cli import main

if __name__ == "__main__":
    main()
