"""A picker of several values, each with its count: chips if they are few, else a list that opens and can be searched."""

from collections.abc import Mapping, Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.asset_files import script, style

CHIPS_MAX = 6


class MultiSelect(anywidget.AnyWidget):
    """Values to pick from, each with its count.

    Args:
        description: What the values are, such as ``Sites``.
        everything: What it says while nothing is picked.

    Attributes:
        options: Pairs of label and value.
        value: The picked values, in the order of the options.
    """

    _esm, _css = script("multi_select"), style("multi_select")
    description = traitlets.Unicode().tag(sync=True)
    everything = traitlets.Unicode("all").tag(sync=True)
    items: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)  # label, count or None, class
    index: traitlets.List[int] = traitlets.List().tag(sync=True)
    is_compact = traitlets.Bool().tag(sync=True)
    value = traitlets.Tuple()

    def __init__(self, description: str, *, everything: str = "all") -> None:
        self.options: list[tuple[str, Any]] = []
        self._is_updating = False
        super().__init__(description=description, everything=everything)

    def offer(
        self,
        options: Sequence[tuple[str, Any]],
        picked: Sequence[Any] = (),
        *,
        counts: Mapping[Any, int] | None = None,
        classes: Mapping[Any, str] | None = None,
    ) -> None:
        """Replace the options and what is picked of them.

        Args:
            options: Pairs of label and value.
            picked: Values; those without an option are dropped.
            counts: How many rows have each value; None: none is shown.
            classes: Classes of the style sheet, such as a status's.
        """
        self._is_updating = True
        try:
            self.options = [*options]
            values = [value for _, value in self.options]
            with self.hold_sync():
                self.items = [
                    [
                        label,
                        None if counts is None else int(counts.get(value, 0)),
                        (classes or {}).get(value, ""),
                    ]
                    for label, value in self.options
                ]
                self.is_compact = len(self.options) > CHIPS_MAX
                self.index = [values.index(value) for value in picked if value in values]
            self.value = tuple(values[position] for position in self.index)
        finally:
            self._is_updating = False

    @traitlets.observe("index")
    def _index_changed(self, change: Any) -> None:
        if not self._is_updating:
            positions = [one for one in change["new"] if type(one) is int and 0 <= one < len(self.options)]
            self.value = tuple(self.options[position][1] for position in positions)

    @traitlets.observe("value")
    def _value_changed(self, change: Any) -> None:
        if not self._is_updating:
            values = [value for _, value in self.options]
            self._is_updating = True
            try:
                self.index = [values.index(value) for value in change["new"] if value in values]
            finally:
                self._is_updating = False
