"""States of a delivery.

::

    open --window closes--> pending --2xx--> delivered
                              |  ^
         after the last retry |  +--replay--+
                              +-----------> dead

This module imports nothing, so that --help is fast.
"""

STATES = OPEN, PENDING, DELIVERED, DEAD = "open", "pending", "delivered", "dead"
