"""The service, a make-believe web and the toolkit, tied together on loopback. Leaves nothing running when it ends.

``demo`` is the door; behind it::

    shown   the value that a caller holds, and how it is made
    works   the service from behind: its operator, its worker, its clock and its web
    looks   what the history sees each day, and takes in while the next one passes
    shelf   demos that were made before, in the user's cache
"""

from exposurekit.demonstration.shown import Demo, demo

__all__ = ["Demo", "demo"]
