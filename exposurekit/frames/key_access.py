"""Tables that can be asked for by name, in brackets, where a notebook completes the name. Holds none itself."""

from typing import ClassVar

import pandas as pd


class Keyed:
    """What has its tables as methods, and gives them by their names as well.

    >>> from exposurekit.frames.key_access import Keyed
    >>> class Shelf(Keyed):
    ...     keyed = ("books",)
    ...
    ...     def books(self):
    ...         return pd.DataFrame({"title": ["Ulysses"]})
    >>> Shelf()["books"]["title"].tolist()
    ['Ulysses']
    """

    keyed: ClassVar[tuple[str, ...]] = ()
    __iter__ = None  # brackets alone would make it a sequence, and a loop over it would ask for table 0

    def __getitem__(self, name: str) -> pd.DataFrame:
        """The table of that name, as the method of that name gives it.

        Raises:
            KeyError: There is none; the message lists those that there are.
        """
        if name not in self.keyed:
            raise KeyError(f"{type(self).__name__} has no such table; it has: {', '.join(self.keyed)}")
        table: pd.DataFrame = getattr(self, name)()
        return table

    def _ipython_key_completions_(self) -> list[str]:
        return [*self.keyed]
