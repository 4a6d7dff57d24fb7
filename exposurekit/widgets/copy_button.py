"""A table of labels and texts, each with a button that copies the text; texts are never read as markup."""

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.asset_files import script, style
from exposurekit.widgets.task_captions import Section


class CopyTable(anywidget.AnyWidget):
    """Rows of a label and a text to copy, in sections.

    Attributes:
        sections: ``[heading, whether it is collapsed, rows]``; a row is ``[label, text, whether it can be copied, link
            text]``. Only an address that `link_text` accepts may have a link text.
    """

    _esm, _css = script("copy_button"), style("copy_button")
    sections: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)

    def show(self, sections: Sequence[Section]) -> None:
        """Replace what is displayed."""
        self.sections = [
            [heading, collapsed, [[*row] for row in rows]] for heading, collapsed, rows in sections
        ]
