"""Counts with their noun; without the packages that the formatting of tables needs."""


def pluralize(n: int, one: str, many: str = "") -> str:
    """``1 listing``, ``2 listings``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
