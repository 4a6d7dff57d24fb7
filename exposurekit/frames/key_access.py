"""Access to tables by name in brackets, with completion in notebooks."""

from typing import ClassVar

import pandas as pd


class Keyed:
    """A class whose table methods are also accessible by name."""

    keyed: ClassVar[tuple[str, ...]] = ()
    __iter__ = None  # with brackets alone it would be a sequence, and a loop would request table 0

    def __getitem__(self, name: str) -> pd.DataFrame:
        """Return the table of that name.

        Raises:
            KeyError: There is no such table; the message lists the tables.
        """
        if name not in self.keyed:
            raise KeyError(f"{type(self).__name__} has no such table; it has: {', '.join(self.keyed)}")
        table: pd.DataFrame = getattr(self, name)()
        return table

    def _ipython_key_completions_(self) -> list[str]:
        return [*self.keyed]
