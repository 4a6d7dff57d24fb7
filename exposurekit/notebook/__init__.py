"""``%exposure``: the questions as one line of a notebook. Keeps no key, and takes none on the line.

::

    asked     a line -> what is asked          sources      whose tables they are
    verbs     what there is to ask             completing   what a line may go on with
    magic     IPython's side of it
"""

from exposurekit.notebook.magic import load, unload

__all__ = ["load", "unload"]
