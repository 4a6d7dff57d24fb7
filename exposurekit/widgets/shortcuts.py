"""Keyboard shortcuts: keys pressed in a panel reach Python, unless the focus is in a text field."""

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from exposurekit.text.sanitize import plain
from exposurekit.widgets.asset_files import script


class Keys(anywidget.AnyWidget):
    """Keyboard shortcuts, with a line that lists them.

    Args:
        actions: What each key does, in a word or two.
        on_press: Called with the key.
        targets: A CSS selector for each key that moves the focus to a control of the panel, and calls nothing.
    """

    _esm = script("shortcuts")
    actions: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    keys_used = traitlets.List(traitlets.Unicode()).tag(sync=True)

    targets: "traitlets.Dict[str, str]" = traitlets.Dict().tag(sync=True)

    def __init__(
        self, actions: Mapping[str, str], on_press: Any, *, targets: Mapping[str, str] | None = None
    ) -> None:
        lines = [[key, plain(action)] for key, action in actions.items()]
        super().__init__(actions=lines, keys_used=[*actions], targets=dict(targets or {}))
        self.on_msg(lambda _widget, content, _buffers: self._receive(content, on_press))

    def _receive(self, content: Any, on_press: Any) -> None:
        key = content.get("key") if isinstance(content, dict) else None
        if key in self.keys_used:
            on_press(key)
