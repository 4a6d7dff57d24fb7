"""Notifications to people: rules, triggers, outbox and sending through Apprise.

::

    rules       when to notify whom            evaluate        what triggered
    outbox      notifications waiting to be sent
    notifier    send them                      apprise_errors  why an address failed
"""
